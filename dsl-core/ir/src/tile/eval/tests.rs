//! Tests of the evaluator on tile IR built by hand.

use super::*;
use crate::schedule::Choice;
use crate::tile::by_hand::{Builder, add_one};
use crate::tile::{Carry, Index, Op, Operator, Requirement, RequirementKind, Size, Stmt, Ty, ValueId};
use crate::types::{BinaryOp, CompareOp, DType, UnaryOp};

const LOC: SourceLoc = SourceLoc::NONE;

fn bytes_f32(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// Runs a kernel on packed rank-1 tensors of 4-byte elements.
fn run(kernel: &Kernel, tensors: &mut [Vec<u8>], options: &EvalOptions) -> Result<(), EvalError> {
    let mut args: Vec<EvalArg> = tensors
        .iter_mut()
        .map(|t| {
            let shape = TensorArg::packed(0, &[t.len() as i64 / 4]);
            EvalArg::Tensor { bytes: t, shape }
        })
        .collect();
    eval(kernel, &mut args, options)
}

#[test]
fn elementwise_with_a_tail_in_any_order_and_with_any_tile() {
    let kernel = add_one(Builder::tiled("add_one", &[4, 8]));
    for n in [0usize, 1, 3, 4, 5, 31] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let expected: Vec<f32> = x.iter().map(|v| v + 1.0).collect();
        for (tile, shuffle) in [(4, None), (8, Some(1)), (4, Some(2))] {
            let schedule = Some(Schedule { choices: vec![Choice::Int(tile)] });
            let mut tensors = [bytes_f32(&x), bytes_f32(&vec![9.0; n])];
            run(&kernel, &mut tensors, &EvalOptions { schedule, shuffle, ..Default::default() }).unwrap();
            assert_eq!(floats(&tensors[1]), expected);
        }
    }
}

#[test]
fn strided_and_reversed_tensors() {
    let kernel = add_one(Builder::tiled("add_one", &[4]));
    let mut x = bytes_f32(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let mut y = bytes_f32(&[-1.0; 6]);
    let refs = [
        EvalRef::Tensor { buffer: 0, offset: 20, shape: TensorArg { address: 0, lens: vec![3], strides: vec![-2] } },
        EvalRef::Tensor { buffer: 1, offset: 4, shape: TensorArg { address: 0, lens: vec![3], strides: vec![2] } },
    ];
    eval_in(&kernel, &mut [&mut x, &mut y], &refs, &EvalOptions::default()).unwrap();
    assert_eq!(floats(&y), [-1.0, 6.0, -1.0, 4.0, -1.0, 2.0]);
}

/// `out += f(x[t]).sum()`, with the operator given.
fn reduction(operator: Operator, f: Option<UnaryOp>, b: &mut Builder) {
    let (x, out) = (b.tensor("x", DType::F32, 1, false), b.tensor("out", DType::F32, 1, true));
    b.tiles(x, None, |b, t, _| {
        let mut v = b.load(x, t);
        if let Some(f) = f {
            v = b.unary(f, v);
        }
        let total = b.reduce(operator, v);
        let zero = b.literal(Literal::index(0));
        b.atomic(out, zero, total);
        None
    });
}

#[test]
fn absent_elements_count_as_the_identity() {
    // exp(absent) is absent, not exp(0) = 1.
    let mut b = Builder::tiled("sum_exp", &[4]);
    reduction(Operator::Sum, Some(UnaryOp::Exp), &mut b);
    let kernel = b.finish();
    let mut tensors = [bytes_f32(&[0.0; 6]), bytes_f32(&[0.0])];
    run(&kernel, &mut tensors, &EvalOptions::default()).unwrap();
    assert_eq!(floats(&tensors[1]), [6.0]);
    // The maximum of negative numbers is not 0: both tiles' maxima, −5 and −1, are added.
    let mut b = Builder::tiled("max", &[4]);
    reduction(Operator::Max, None, &mut b);
    let kernel = b.finish();
    let mut tensors = [bytes_f32(&[-5.0, -6.0, -7.0, -8.0, -1.0]), bytes_f32(&[0.0])];
    run(&kernel, &mut tensors, &EvalOptions::default()).unwrap();
    assert_eq!(floats(&tensors[1]), [-6.0]);
}

#[test]
fn user_operators_keep_order() {
    // a·b = 2a + b, which is no sum: the order shows.
    let mut b = Builder::tiled("user", &[4]);
    let scalar = || Ty::Scalar(DType::F32);
    let (left, right) = (b.value(scalar()), b.value(scalar()));
    let mut result = left;
    let body = b.block(|b| {
        let two = b.literal(Literal::f32(2.0));
        let twice = b.binary(BinaryOp::Mul, left, two);
        result = b.binary(BinaryOp::Add, twice, right);
    });
    let operator =
        Operator::User { identity: vec![Literal::f32(0.0)], arguments: vec![left, right], body, results: vec![result], commutative: false };
    reduction(operator, None, &mut b);
    let kernel = b.finish();
    let mut tensors = [bytes_f32(&[1.0, 2.0, 3.0]), bytes_f32(&[0.0])];
    run(&kernel, &mut tensors, &EvalOptions::default()).unwrap();
    assert_eq!(floats(&tensors[1]), [11.0]);
}

#[test]
fn carried_values_and_double_precision() {
    let mut b = Builder::tiled("sum", &[2]);
    let (x, out) = (b.tensor("x", DType::F32, 1, false), b.tensor("out", DType::F32, 1, true));
    let zero = b.splat(Literal::f32(0.0));
    let acc = b.tiles(x, Some(zero), |b, t, acc| {
        let v = b.load(x, t);
        Some(b.binary(BinaryOp::Add, acc.unwrap(), v))
    });
    let total = b.reduce(Operator::Sum, acc.unwrap());
    let at = b.literal(Literal::index(0));
    b.atomic(out, at, total);
    let kernel = b.finish();
    // 2^24 + 1 + 1 is lost in f32 one by one, kept in f64. In the last turn the second element is absent: what it carried stays.
    let data = [16777216.0, 4.0, 1.0, 0.0, 1.0];
    for (float64, expected) in [(false, 16777220.0), (true, 16777222.0)] {
        let mut tensors = [bytes_f32(&data), bytes_f32(&[0.0])];
        run(&kernel, &mut tensors, &EvalOptions { float64, ..Default::default() }).unwrap();
        assert_eq!(floats(&tensors[1]), [expected]);
    }
}

/// `if x[t] < 2 { g[x[t]] } else { -1 }` stored to y, with the gather inside of the side.
#[test]
fn per_element_choice_masks_loads() {
    let mut b = Builder::tiled("choice", &[4]);
    let (x, y) = (b.tensor("x", DType::I32, 1, false), b.tensor("y", DType::I32, 1, true));
    b.tiles(y, None, |b, t, _| {
        let v = b.load(x, t);
        let two = b.splat(Literal::i32(2));
        let mask = b.op(Builder::tile_ty(DType::Bool), Op::Compare(CompareOp::Lt, v, two));
        let mut inside = v;
        let body = b.block(|b| inside = b.op(Builder::tile_ty(DType::I32), Op::Gather(x, vec![v])));
        b.push(Stmt::Where { mask, negate: false, body, loc: LOC });
        let other = b.splat(Literal::i32(-1));
        let chosen = b.op(Builder::tile_ty(DType::I32), Op::Select(mask, inside, other));
        b.store(y, t, chosen);
        None
    });
    let kernel = b.finish();
    let data = |v: &[i32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    // −7 is below 2, but out of range: absent, so the store leaves y alone.
    let mut tensors = [data(&[1, 0, 9, -7, 1]), data(&[5; 5])];
    run(&kernel, &mut tensors, &EvalOptions::default()).unwrap();
    assert_eq!(ints(&tensors[1]), [0, 1, -1, 5, 0]);
}

fn scatter() -> Kernel {
    let mut b = Builder::tiled("scatter", &[4]);
    let (x, y) = (b.tensor("x", DType::I32, 1, false), b.tensor("y", DType::I32, 1, true));
    b.tiles(x, None, |b, t, _| {
        let v = b.load(x, t);
        let at = b.op(Builder::tile_ty(DType::I64), Op::Coordinates(t));
        let here = b.op(Builder::tile_ty(DType::I32), Op::Cast(at));
        b.push(Stmt::Scatter { view: y, indices: vec![v], value: here, run: None, loc: LOC });
        None
    });
    b.finish()
}

#[test]
fn scatters_must_not_meet() {
    let kernel = scatter();
    let data = |v: &[i32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let mut tensors = [data(&[4, 2, 0, 1, 3, 99]), data(&[-1; 6])];
    run(&kernel, &mut tensors, &EvalOptions::default()).unwrap();
    assert_eq!(ints(&tensors[1]), [2, 3, 1, 4, 0, -1]);
    // Elements 0 and 5 are in different tiles.
    let mut tensors = [data(&[4, 2, 0, 1, 3, 4]), data(&[-1; 6])];
    let error = run(&kernel, &mut tensors, &EvalOptions::default()).unwrap_err();
    assert_eq!(error, EvalError::ScatterMeets { param: "y".into(), element: 4, loc: LOC });
}

#[test]
fn half_floats_compute_in_f32_and_round_at_stores() {
    let mut b = Builder::tiled("half", &[4]);
    let (x, y) = (b.tensor("x", DType::F16, 1, false), b.tensor("y", DType::F16, 1, true));
    b.tiles(y, None, |b, t, _| {
        let v = b.load(x, t);
        let big = b.splat(Literal::from_f64(DType::F16, 2048.0));
        let sum = b.binary(BinaryOp::Add, v, big);
        let back = b.binary(BinaryOp::Sub, sum, big);
        b.store(y, t, back);
        None
    });
    let kernel = b.finish();
    let half = |v: f32| half::f16::from_f32(v).to_bits().to_le_bytes();
    let (mut x, mut y) = (half(0.5).to_vec(), half(0.0).to_vec());
    let shape = TensorArg::packed(0, &[1]);
    let mut args = [EvalArg::Tensor { bytes: &mut x, shape: shape.clone() }, EvalArg::Tensor { bytes: &mut y, shape }];
    eval(&kernel, &mut args, &EvalOptions::default()).unwrap();
    // In f16 arithmetic 2048.5 would round to 2048.
    assert_eq!(y, half(0.5));
}

#[test]
fn two_axes_transposed_broadcast_picked_and_stacked() {
    let mut b = Builder::tiled("axes", &[2]);
    let (x, y) = (b.tensor("x", DType::I32, 2, false), b.tensor("y", DType::I32, 2, true));
    b.tiles(x, None, |b, t, _| {
        let (rows, three) = (Builder::size(), Size::constant(3));
        // Rows t of x, whole second axis: [T, 3].
        let v = b.op(Ty::Tile(DType::I32, vec![rows.clone(), three.clone()]), Op::Load(x, vec![Index::Tile(t), Index::All(3)]));
        let turned = b.op(Ty::Tile(DType::I32, vec![three.clone(), rows.clone()]), Op::Transpose(v, vec![1, 0]));
        let picks: Vec<ValueId> = (0..3).map(|at| b.op(Builder::tile_ty(DType::I32), Op::Pick { tile: turned, axis: 0, at })).collect();
        let first = b.op(Ty::Tile(DType::I32, vec![rows.clone(), three.clone()]), Op::Broadcast(picks[0], vec![Some(0), None]));
        let stacked = b.op(Ty::Tile(DType::I32, vec![rows, three]), Op::Stack(vec![picks[2], picks[1], picks[0]]));
        let sum = b.binary(BinaryOp::Add, stacked, first);
        b.push(Stmt::Store { view: y, index: vec![Index::Tile(t), Index::All(3)], value: sum, loc: LOC });
        None
    });
    let kernel = b.finish();
    let data = |v: &[i32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let (mut x, mut y) = (data(&[1, 2, 3, 10, 20, 30, 100, 200, 300]), data(&[0; 9]));
    let mut call = |lens: &[i64]| {
        let shape = TensorArg::packed(0, lens);
        let mut args = [EvalArg::Tensor { bytes: &mut x, shape: shape.clone() }, EvalArg::Tensor { bytes: &mut y, shape }];
        eval(&kernel, &mut args, &EvalOptions::default())
    };
    let error = call(&[2, 4]).unwrap_err();
    assert!(matches!(&error, EvalError::Argument { param, .. } if param == "x") || matches!(error, EvalError::Requirement { .. }));
    call(&[3, 3]).unwrap();
    assert_eq!(ints(&y), [4, 3, 2, 40, 30, 20, 400, 300, 200]);
}

#[test]
fn loops_and_choices_on_scalars() {
    // Collatz steps of x[0], then Σ i for i in 0..steps, into out[0].
    let mut b = Builder::tiled("scalars", &[1]);
    let (x, out) = (b.tensor("x", DType::I32, 1, false), b.tensor("out", DType::I32, 1, true));
    let int = || Ty::Scalar(DType::I32);
    let at = b.literal(Literal::index(0));
    let start = b.op(int(), Op::Load(x, vec![Index::At(at)]));
    let [zero, one, two, three] = [0, 1, 2, 3].map(|v| b.literal(Literal::i32(v)));
    let (n, steps) = (b.value(int()), b.value(int()));
    let mut condition = n;
    let header = b.block(|b| condition = b.op(Ty::Scalar(DType::Bool), Op::Compare(CompareOp::Ne, n, one)));
    let (mut next, mut more) = (n, steps);
    let body = b.block(|b| {
        let rest = b.binary(BinaryOp::Rem, n, two);
        let odd = b.op(Ty::Scalar(DType::Bool), Op::Compare(CompareOp::Eq, rest, one));
        let (mut up, mut down) = (n, n);
        let then = b.block(|b| {
            let thrice = b.binary(BinaryOp::Mul, n, three);
            up = b.binary(BinaryOp::Add, thrice, one);
        });
        let otherwise = b.block(|b| down = b.binary(BinaryOp::Div, n, two));
        next = b.value(Ty::Scalar(DType::I32));
        let results = vec![crate::tile::Branch { then: up, otherwise: down, result: next }];
        b.push(Stmt::If { condition: odd, then, otherwise, results, loc: LOC });
        more = b.binary(BinaryOp::Add, steps, one);
    });
    let (last, count) = (b.value(int()), b.value(int()));
    let carries = vec![Carry { init: start, inner: n, next, result: last }, Carry { init: zero, inner: steps, next: more, result: count }];
    b.push(Stmt::While { once: false, carries, header, condition, body, loc: LOC });
    let (i, acc, total) = (b.value(int()), b.value(int()), b.value(int()));
    let mut sum = acc;
    let body = b.block(|b| sum = b.binary(BinaryOp::Add, acc, i));
    let carries = vec![Carry { init: zero, inner: acc, next: sum, result: total }];
    b.push(Stmt::Range { var: i, start: zero, end: count, carries, body, loc: LOC });
    b.push(Stmt::Store { view: out, index: vec![Index::At(at)], value: total, loc: LOC });
    let kernel = b.finish();
    // 6 → 3 → 10 → 5 → 16 → 8 → 4 → 2 → 1: eight steps, 0 + .. + 7 = 28.
    let mut tensors = [6i32.to_le_bytes().to_vec(), vec![0; 4]];
    run(&kernel, &mut tensors, &EvalOptions::default()).unwrap();
    assert_eq!(ints(&tensors[1]), [28]);
    // Zero never reaches 1: fuel ends it.
    let mut tensors = [vec![0; 4], vec![0; 4]];
    let error = run(&kernel, &mut tensors, &EvalOptions { fuel: Some(1000), ..Default::default() }).unwrap_err();
    assert_eq!(error, EvalError::Fuel { kernel: "scalars".into(), fuel: 1000 });
    // No element to read.
    let mut tensors = [vec![], vec![0; 4]];
    let error = run(&kernel, &mut tensors, &EvalOptions::default()).unwrap_err();
    assert!(matches!(error, EvalError::BeyondAxis { axis: 0, at: 0, len: 0, .. }), "{error}");
}

#[test]
fn views_outside_of_the_tensor_and_unmet_requirements_are_errors() {
    let mut b = Builder::tiled("outside", &[4]);
    let y = b.tensor("y", DType::F32, 1, true);
    let (axis, offset) = (b.kernel.view(y).axes[0], b.literal(Literal::index(1)));
    let shifted = b.view(0, DType::F32, vec![axis], offset);
    b.tiles(y, None, |b, t, _| {
        let v = b.load(shifted, t);
        b.store(y, t, v);
        None
    });
    let len = axis.len;
    b.kernel.requirements.push(Requirement { kind: RequirementKind::Divisible(len, 2), loc: LOC });
    let kernel = b.finish();
    let error = run(&kernel, &mut [bytes_f32(&[0.0; 6])], &EvalOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "::0:0: y reaches element 6 of y, whose memory has 6 elements of this type".replacen("::0:0", ":0:0", 1));
    let error = run(&kernel, &mut [bytes_f32(&[0.0; 5])], &EvalOptions::default()).unwrap_err();
    assert!(error.to_string().contains("5 is not divisible by 2"), "{error}");
}
