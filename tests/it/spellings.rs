//! What authors try first: it is taken as it reads, or says what to write instead.

use super::language::{mistakes_in, says};
use girih::challenge::Challenge;
use girih::check::{On, Options, Report, check};
use girih::inputs::{integers, uniform};
use girih::prelude::*;
use girih::subject::Subject;
use girih_core::lang::build::{self, Header};
use girih_core::lang::world::{ByReference, ByValue};
use girih_core::loc::SourceLoc;
use girih_core::program::ProgramDef;
use girih_core::registry::KernelDef;
use girih_core::target::Target;
use girih_core::tile::{Param, ParamKind};
use girih_core::types::DType;

fn checked(subject: Subject) -> Report {
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 40, seed: 2 };
    check(&[subject], &options, &()).remove(0)
}

fn assert_right(subject: Subject) {
    let report = checked(subject);
    assert!(report.failures.is_empty() && report.runs > 0, "{report:#?}");
}

fn of_kernel(def: KernelDef) -> Subject {
    Subject::of_kernel(&def).unwrap_or_else(|e| panic!("{e}"))
}

fn of_program(def: fn() -> ProgramDef, signature: &'static str, set: impl Fn(Challenge) -> Challenge) -> Subject {
    let challenge = set(Challenge::new("spelled", def, signature).tolerance(1e-5, 1e-5));
    Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"))
}

/// Literals beyond i32 in places where nothing but the element type says what they are.
#[kernel(tile(T = [64, 128]))]
pub fn large_numbers(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, z: &mut Tensor<i64, 1>) {
    for t in y.tiles([T]) {
        let all = scalar::<u32>(0xffff_ffff);
        y.store(t, (x.load(t) & all) ^ full([T], 0x8000_0000));
        z.store(t, full([T], 3_000_000_000) + scalar::<i64>(-5_000_000_000));
    }
}

#[program]
fn of_large_numbers(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, z: &mut Tensor<i64, 1>) {
    large_numbers(x, y, z);
}

#[device]
fn too_large(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = full::<i32>([m, n], 3_000_000_000);
        let w = full::<i64>([m, n], 0xffff_ffff_ffff_ffff);
        y.store((i, j), x.load((i, j)) + v.cast::<f32>() + w.cast::<f32>());
    }
    for (i, _) in x.axes([0, 0]).tiles([m, n]) {
        let _ = i;
    }
}

#[test]
fn large_literals_need_no_type() {
    let signature = "void solve(const unsigned int* x[N], unsigned int* y[N], long long* z[N], int N)";
    assert_right(of_program(of_large_numbers::Program::def, signature, |c| {
        c.input("x", integers(0, 1 << 31))
            .output("y", |c, i| (c.at("x", i) as u32 ^ 0x8000_0000) as f64)
            .output("z", |_, _| -2e9)
            .check_at(["N=1", "N=300"])
            .perf_at("N=1000")
    }));
    let text = mistakes_in(include_str!("spellings.rs"), too_large);
    says(
        &text,
        &["3000000000 is out of the range of i32", "18446744073709551615 is out of the range of i64", "`.axes([0, 0])` names axis 0 twice"],
    );
}

/// Single bits of any integers: `Int` says enough.
#[kernel(tile(T = [64, 128]), types(I = [u8, i64]))]
pub fn mixed_bits<I: Int>(x: &Tensor<I, 1>, mask: Scalar<I>, y: &mut Tensor<I, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        y.store(t, ((v & mask) | !v) ^ (v >> 1));
    }
}

/// Pairs of neighbours put in order, in place: the block's chunk lies in a shared array.
#[kernel(tile(T = [64, 128]))]
pub fn ordered_neighbours(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let mut own = shared::<f32>([T], f32::INFINITY);
        own.store(.., x.load(t));
        let (i, partner) = (iota::<i32>(T), iota::<i32>(T) ^ 1);
        let (mine, other) = (own.gather(i), own.gather(partner));
        own.store(.., if i < partner { mine.min(other) } else { mine.max(other) });
        x.store(t, own.load(..));
    }
}

/// Pairs that lie 32 apart put in order, in place.
#[kernel(tile(R = [1, 4], T = [16, 32]))]
pub fn ordered_from_afar(x: &mut Tensor<f32, 1>) {
    let (mut near, mut far) = x.chunked(0, 64).split_at(1, 32);
    for (r, t) in near.tiles([R, T]) {
        let (a, b) = (near.load((r, t)), far.load((r, t)));
        near.store((r, t), a.min(b));
        far.store((r, t), a.max(b));
    }
}

/// The largest element at each position of a tile, and where it is.
#[kernel(tile(T = 64))]
pub fn best_of_positions(x: &Tensor<f32, 1>, most: &mut Tensor<f32, 1>, index: &mut Tensor<i64, 1>) {
    let mut best = (full::<f32>([T], f32::NEG_INFINITY), full::<i64>([T], i64::MAX));
    for t in x.tiles([T]).strided() {
        best = best.arg_max((x.load(t), t.coords()));
    }
    let (value, at) = best.arg_max_grid();
    most.scatter(iota::<i32>(T), value);
    index.scatter(iota::<i32>(T), at);
}

/// Whether an element is that before it: the first one is not.
#[kernel(tile(T = [32, 64]))]
pub fn repeated(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let i = t.coords();
        let same = i > 0 && x.gather((i - 1).max(0)) == x.load(t);
        y.store(t, same.cast::<i32>());
    }
}

/// What LANGUAGE.md says to write for work in place, pairs and guards.
#[test]
fn patterns_of_the_docs_are_right() {
    for def in
        [ordered_neighbours::Kernel::def(), ordered_from_afar::Kernel::def(), best_of_positions::Kernel::def(), repeated::Kernel::def()]
    {
        assert_right(of_kernel(def));
    }
}

#[test]
fn integers_have_bits() {
    assert_right(of_kernel(mixed_bits::Kernel::<u8>::def()));
    assert_right(of_kernel(mixed_bits::Kernel::<i64>::def()));
}

/// One condition for all elements, and for scalars; typed literals say what they are.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
pub fn chosen_by_scalar(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    for t in y.tiles([T]) {
        let of_scalars: Scalar<i32> = select(n > 3, select(n > 4, 1, n), 2);
        let mut typed = scalar(-3i32);
        for _ in 0..n {
            typed += 1;
        }
        let beside = full([T], 0i32) + (typed & of_scalars);
        y.store(t, select(n > 2, x.load(t), 1.0) + select(beside > 4, 0.5, beside.cast::<f32>()));
    }
}

/// A grid over two of three axes; the third is walked inside, and written in tiles of its own.
#[kernel(tile(R = [2, 4], C = [8, 32], K = [4, 8]), coarsen(CC of C = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]), raster(X = [1, 2]), order(D = [Rising, Falling]))]
pub fn over_two_axes(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>, sums: &mut Tensor<f32, 2>) {
    for (r, c) in y.axes([0, 2]).tiles([R, C]) {
        let mut acc = zeros::<f32>([R, C]);
        for k in y.axis(1).tiles(K) {
            let v = x.load((r, k, c));
            y.store((r, k, c), v * 2.0);
            acc += v.sum_axis(1);
        }
        sums.store((r, c), acc);
    }
}

/// Two axes in another order than the tensor's, beside a whole one.
#[kernel(tile(R = [2, 4], C = [8, 16]), coarsen(CC of C = [1, 2]), vector(V = [1, 2]))]
pub fn beside_a_whole_axis(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    for (c, r) in y.axes([1, 0]).tiles([C, R]) {
        y.store((r, c, ..3), x.load((r, c, ..3)) + 1.0);
    }
}

#[test]
fn grids_and_choices_are_said_as_they_are_meant() {
    for def in [chosen_by_scalar::Kernel::def(), over_two_axes::Kernel::def(), beside_a_whole_axis::Kernel::def()] {
        assert_right(of_kernel(def));
    }
}

/// Picks from tiles whose axis no thread has whole: of computed elements, and of a shared array.
#[kernel(tile(T = [32, 64]), coarsen(C of T = [1, 2, 4]))]
pub fn picked(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared::<f32>([4], 0.5);
        own.store(.., x.gather(iota::<i32>(4)));
        let third = own.load(..).expand(1, T).pick(0, 2);
        let six = (iota::<i32>(4) * 2).expand(1, T).pick(0, 3).cast::<f32>();
        let [one, two] = stack([full([T], 1.0f32), full([T], 2.0)]).unstack();
        y.store(t, x.load(t) * two + six * third + one);
    }
}

/// A pick along the tiles of a loop, where the last one may lack the position.
#[kernel(tile(T = [32, 64]))]
pub fn picked_from_a_tail(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (s, t) in y.tiles([4, T]) {
        let v = x.load((s, t));
        y.store((s, t), v - v.pick(0, 2).expand(0, 4));
    }
}

#[test]
fn picks_need_positions_that_are_there() {
    assert_right(of_kernel(picked::Kernel::def()));
    let report = checked(of_kernel(picked_from_a_tail::Kernel::def()));
    assert_eq!(report.failures.len(), 1, "it is said once: {:#?}", report.failures);
    says(&report.failures[0].message, &["a pick along axis 0 of a tile of which some positions may be absent", "`x.load((..4, t))`"]);
}

/// y[i] = x[i] + by.
#[kernel(tile(T = [64, 128]))]
pub fn plus(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Scalar<f32>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t) + by);
    }
}

fn half_of(n: Scalar<i32>) -> Scalar<f32> {
    n.cast::<f32>() * 0.5
}

/// Temporaries are exchanged, blocks end in values and in launches, and `n` is not the length `N`.
#[program]
fn calls(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    let mut a = temp([x.len(0)]);
    let mut b = temp([x.len(0)]);
    plus(x, &mut a, scalar(1.0));
    for _ in 0..3 {
        plus(&a, &mut b, scalar(1.0));
        std::mem::swap(&mut a, &mut b);
    }
    let by = if n > 2 { scalar(5.0) } else { half_of(n) };
    if n > 10 { plus(x, y, by) } else { plus(&a, y, by) }
}

#[test]
fn programs_call_what_is_no_kernel() {
    let subject = of_program(calls::Program::def, "void solve(const float* x[N], float* y[N], int N, int n)", |c| {
        c.input("x", uniform(-1.0, 1.0))
            .output("y", |c, i| {
                let n = c.scalar("n");
                c.at("x", i) + if n > 10.0 { 0.0 } else { 4.0 } + if n > 2.0 { 5.0 } else { n / 2.0 }
            })
            .check_at(["N=300 n=1", "N=20 n=5", "N=5 n=20"])
            .perf_at("N=1000, n=3")
    });
    assert_eq!(subject.program.sites().len(), 6);
    assert_right(subject);
}

/// A recorded loop runs its body for every turn: in each of them a name stands for the same tensor.
#[test]
fn tensors_are_not_exchanged_in_recorded_loops() {
    #[device]
    fn body(x: &Tensor<f32, 1>, n: Scalar<i32>) {
        let mut a = temp::<f32, 1>([x.len(0)]);
        let mut b = temp::<f32, 1>([x.len(0)]);
        for _ in 0..n {
            plus(&girih_core::lang::prelude::Plan, &a, &mut b, scalar(1.0));
            std::mem::swap(&mut a, &mut b);
        }
        if n > 3 {
            std::mem::swap(&mut a, &mut b);
        }
    }
    let loc = SourceLoc { file: file!(), line: 1, column: 1 };
    let tensor = Param { name: "x".into(), kind: ParamKind::Tensor { dtype: DType::F32, rank: 1, mutable: false } };
    let params = vec![tensor, Param { name: "n".into(), kind: ParamKind::Scalar(DType::I32) }];
    let header = Header { name: "wrong", module: module_path!(), loc, source: include_str!("spellings.rs"), params };
    let built = build::program(header, &[], || body(&Tensor::symbol(0), Scalar::symbol(1)));
    let text = built.expect_err("tensors are exchanged").to_string();
    assert_eq!(text.matches("is another tensor after this loop or branch").count(), 4, "{text}");
    says(&text, &["`a` is another tensor", "step(&a, &mut b); step(&b, &mut a);"]);
}
