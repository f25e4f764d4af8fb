//! The reference evaluator against plain Rust, on kernels that use every part of the language.

use super::kernels::halves_of_pairs;
use super::language::{add_twice, choose, clip, gray, invert, masked, matmul, reverse, scalars, shuffle, softmax};
use girih::prelude::*;
use girih_core::facts::TensorArg;
use girih_core::program::eval::eval_program;
use girih_core::registry::KernelDef;
use girih_core::tile::eval::{EvalArg, EvalError, EvalOptions, EvalRef, eval, eval_in};
use girih_core::types::Literal;

#[kernel(tile(T = [64, 256]))]
pub fn strided_sum(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t).exp();
    }
    out.atomic_add(0, acc.sum());
}

/// An argument: a tensor of 4-byte elements with its lengths, one axis of i64, or a scalar.
pub enum Given {
    F(Vec<f32>, Vec<i64>),
    I(Vec<i32>, Vec<i64>),
    L(Vec<i64>),
    S(Literal),
}

impl Given {
    /// Floats along one axis.
    pub fn f(data: impl IntoIterator<Item = f32>) -> Given {
        let data: Vec<f32> = data.into_iter().collect();
        let n = data.len() as i64;
        Given::F(data, vec![n])
    }
    /// Integers along one axis.
    pub fn i(data: impl IntoIterator<Item = i32>) -> Given {
        let data: Vec<i32> = data.into_iter().collect();
        let n = data.len() as i64;
        Given::I(data, vec![n])
    }
    fn bytes(&self) -> Vec<u8> {
        match self {
            Given::F(v, _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Given::I(v, _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Given::L(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Given::S(_) => vec![],
        }
    }
}

fn call<E>(given: &[Given], run: impl FnOnce(&mut [EvalArg]) -> Result<(), E>) -> Result<Vec<Vec<u8>>, E> {
    let mut memory: Vec<Vec<u8>> = given.iter().map(Given::bytes).collect();
    let mut args: Vec<EvalArg> = memory
        .iter_mut()
        .zip(given)
        .map(|(bytes, g)| match g {
            Given::S(l) => EvalArg::Scalar(*l),
            Given::L(v) => EvalArg::Tensor { bytes, shape: TensorArg::packed(0, &[v.len() as i64]) },
            Given::F(_, lens) | Given::I(_, lens) => EvalArg::Tensor { bytes, shape: TensorArg::packed(0, lens) },
        })
        .collect();
    run(&mut args)?;
    drop(args);
    Ok(memory)
}

/// What is in memory after the kernel, or why it could not be evaluated.
pub fn try_kernel(def: KernelDef, given: &[Given], options: &EvalOptions) -> Result<Vec<Vec<u8>>, EvalError> {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    call(given, |args| eval(&kernel, args, options))
}

/// What is in memory after the kernel, evaluated.
pub fn kernel(def: KernelDef, given: &[Given]) -> Vec<Vec<u8>> {
    try_kernel(def, given, &EvalOptions { shuffle: Some(7), ..Default::default() }).unwrap_or_else(|e| panic!("{e}"))
}

/// Bytes as floats.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().expect("four bytes"))).collect()
}

/// Bytes as integers.
pub fn ints(bytes: &[u8]) -> Vec<i32> {
    floats(bytes).into_iter().map(|f| f.to_bits() as i32).collect()
}

/// A few numbers without a pattern, from -1 to 1.
pub fn noise(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

#[test]
fn softmax_over_partial_tiles() {
    let (rows, cols) = (5, 301);
    let x: Vec<f32> = noise(rows * cols).iter().map(|v| v * 20.0).collect();
    let lens = vec![rows as i64, cols as i64];
    let exact: Vec<f64> = x
        .chunks(cols)
        .flat_map(|row| {
            let max = row.iter().fold(f64::NEG_INFINITY, |m, v| m.max(*v as f64));
            let sum: f64 = row.iter().map(|v| (*v as f64 - max).exp()).sum();
            row.iter().map(move |v| (*v as f64 - max).exp() / sum).collect::<Vec<_>>()
        })
        .collect();
    for (float64, tolerance) in [(false, 1e-5), (true, 1e-7)] {
        let given = [Given::F(x.clone(), lens.clone()), Given::F(vec![9.0; x.len()], lens.clone())];
        let after = try_kernel(softmax::Kernel::def(), &given, &EvalOptions { float64, ..Default::default() }).unwrap();
        for (got, want) in floats(&after[1]).iter().zip(&exact) {
            assert!((*got as f64 - want).abs() <= tolerance * want, "{got} {want} with float64 = {float64}");
        }
    }
}

#[test]
fn matmul_over_partial_tiles() {
    let (m, k, n) = (67, 11, 65);
    let (a, b) = (noise(m * k), noise(k * n));
    let shape = |r: usize, c: usize| vec![r as i64, c as i64];
    let given = [Given::F(a.clone(), shape(m, k)), Given::F(b.clone(), shape(k, n)), Given::F(vec![9.0; m * n], shape(m, n))];
    let after = kernel(matmul::Kernel::<f32>::def(), &given);
    for (i, got) in floats(&after[2]).iter().enumerate() {
        let want: f64 = (0..k).map(|l| a[i / n * k + l] as f64 * b[l * n + i % n] as f64).sum();
        assert!((*got as f64 - want.max(0.0)).abs() < 1e-5, "{i}: {got} {want}");
    }
}

#[test]
fn a_carried_sum_ignores_what_is_absent() {
    // exp(0) = 1 for each of 1000 elements; absent ones count nothing, in any turn.
    let after = kernel(strided_sum::Kernel::def(), &[Given::f(vec![0.0; 1000]), Given::f([0.5])]);
    assert_eq!(floats(&after[1]), [1000.5]);
}

#[test]
fn gathers_scatters_and_per_element_choices() {
    let n = 600;
    let (to, from): (Vec<i32>, Vec<i32>) = ((0..n).map(|i| (i * 7) % n).collect(), (0..n).rev().collect());
    // 600 and 7 share no factor, so no two positions meet.
    let given = [Given::f((0..n).map(|i| i as f32)), Given::i(to.clone()), Given::i(from), Given::f(vec![-1.0; n as usize])];
    let after = floats(&kernel(shuffle::Kernel::def(), &given)[3]);
    for i in 0..n {
        assert_eq!(after[to[i as usize] as usize], (n - 1 - i) as f32);
    }
    let given = [Given::f([1.0, 2.0]), Given::i([0, 0]), Given::i([0, 1]), Given::f([0.0])];
    let error = try_kernel(shuffle::Kernel::def(), &given, &EvalOptions::default()).unwrap_err();
    assert!(matches!(error, EvalError::ScatterMeets { element: 0, .. }), "{error}");

    let given = [Given::f([1.0, 2.0, 3.0, 5.0]), Given::f([0.0; 4])];
    assert_eq!(floats(&kernel(halves_of_pairs::Kernel::def(), &given)[1]), [3.0, 8.0, -1.0, -2.0]);

    let x = noise(300);
    let table: Vec<f32> = (0..10).map(|i| i as f32).collect();
    let given = [Given::f(x.clone()), Given::f(vec![9.0; 300]), Given::f(table)];
    let after = floats(&kernel(masked::Kernel::def(), &given)[1]);
    for (i, (got, x)) in after.iter().zip(&x).enumerate() {
        assert_eq!(*got, if i < 10 && *x > 0.0 { 2.0 * i as f32 } else { *x });
    }
}

#[test]
fn views_scalars_and_loops() {
    let x = noise(513);
    let mut turned = x.clone();
    turned.reverse();
    assert_eq!(floats(&kernel(reverse::Kernel::def(), &[Given::f(x.clone())])[0]), turned);

    let bytes = [1u8, 2, 3, 4, 250, 251, 252, 253];
    let mut image = bytes;
    let pixels = (invert::Kernel::def().build)().unwrap();
    eval(&pixels, &mut [EvalArg::Tensor { bytes: &mut image, shape: TensorArg::packed(0, &[8]) }], &EvalOptions::default()).unwrap();
    assert_eq!(image, [254, 253, 252, 4, 5, 4, 3, 253]);
    let error = eval(&pixels, &mut [EvalArg::Tensor { bytes: &mut image, shape: TensorArg::packed(0, &[7]) }], &EvalOptions::default());
    assert!(matches!(error, Err(EvalError::Requirement { .. })), "seven bytes are no pixels: {error:?}");
    let mut memory = [0u8; 16];
    let four = |offset| [EvalRef::Tensor { buffer: 0, offset, shape: TensorArg::packed(0, &[4]) }];
    eval_in(&pixels, &mut [&mut memory], &four(4), &EvalOptions::default()).unwrap();
    let error = eval_in(&pixels, &mut [&mut memory], &four(6), &EvalOptions::default()).unwrap_err().to_string();
    assert!(error.contains("image must start at a multiple of 4 bytes") && error.contains("it starts at byte 6"), "{error}");

    let rgb = noise(3 * 130);
    let given = [Given::F(rgb.clone(), vec![130, 3]), Given::f(vec![9.0; 130])];
    for (got, p) in floats(&kernel(gray::Kernel::def(), &given)[1]).iter().zip(rgb.chunks(3)) {
        assert!((got - (0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2])).abs() < 1e-6);
    }

    let bound = |v: f32| Given::S(Literal::f32(v));
    let after = kernel(clip::Kernel::def(), &[Given::f(x.clone()), Given::f(vec![9.0; 513]), bound(-0.5), bound(0.25)]);
    assert!(floats(&after[1]).iter().zip(&x).all(|(got, x)| *got == x.clamp(-0.5, 0.25)));
    let lengths = [Given::f(vec![0.0; 4]), Given::f(vec![0.0; 5]), bound(0.0), bound(1.0)];
    assert!(matches!(try_kernel(clip::Kernel::def(), &lengths, &EvalOptions::default()), Err(EvalError::Requirement { .. })));

    // 27 takes 111 steps.
    let given = [Given::i([5; 3]), Given::S(Literal::index(27)), Given::S(Literal::bool(true))];
    assert_eq!(ints(&kernel(scalars::Kernel::def(), &given)[0]), [5 + 111 + 1; 3]);
}

#[test]
fn programs_with_temporaries_choices_and_loops() {
    let (a, b) = (noise(700), noise(700));
    let program = (add_twice::Program::def().build)().unwrap();
    let given = [Given::f(a.clone()), Given::f(b.clone()), Given::f(vec![9.0; 700])];
    let after = call(&given, |args| eval_program(&program, args, &EvalOptions::default())).unwrap();
    assert!(floats(&after[2]).iter().zip(a.iter().zip(&b)).all(|(got, (a, b))| *got == a + b + b));

    // No rounds: y becomes x, which is small enough to stop at once.
    let program = (choose::Program::def().build)().unwrap();
    let given = [Given::i([3, 4]), Given::i([9, 9]), Given::S(Literal::u32(0))];
    let after = call(&given, |args| eval_program(&program, args, &EvalOptions::default())).unwrap();
    assert_eq!(ints(&after[1]), [3, 4]);
}
