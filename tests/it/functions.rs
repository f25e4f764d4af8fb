//! Functions of floats as authors call them: the evaluator against plain Rust, the simulator against the evaluator, and compiled.

use super::differential::compare;
use super::launches::best_facts;
use super::nvrtc;
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::facts::TensorArg;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::eval::{EvalArg, EvalOptions, eval};
use girih_core::types::{DType, Literal};

/// Every function of one float, and `pow`, at each element.
#[kernel(tile(T = [32, 128]), coarsen(C of T = [1, 2]), vector(V = [1, 2]), types(F = [f32, f16, bf16]))]
pub fn functions<F: Float>(x: &Tensor<F, 1>, y: &mut Tensor<F, 2>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let some = v.abs() + 0.5;
        let all = [
            v.exp(),
            v.exp2(),
            some.log(),
            some.log2(),
            some.sqrt(),
            some.rsqrt(),
            v.sin(),
            v.cos(),
            v.tanh(),
            v.erf(),
            some.pow(v),
            v.sigmoid(),
            v.floor(),
            v.ceil(),
            v.round(),
            v.trunc(),
            v.exp_approx(),
            v.exp2_approx(),
            some.log_approx(),
            some.recip_approx(),
            v.tanh_approx(),
            v.div_approx(some),
        ];
        y.store((t, ..22), stack(all));
    }
}

/// Multiplies by roots of unity and by their squares: what is made of coordinates alone is used four times.
#[kernel(tile(T = [32, 128]), coarsen(C of T = [1, 2]))]
pub fn turned(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>) {
    for t in x.tiles([T]) {
        let angle = t.coords().cast::<f32>() * 0.03125;
        let (re, im) = (angle.cos_pi(), angle.sin_pi());
        let v = x.load(t);
        y.store((t, ..4), stack([v * re, v * im, v * (re * re - im * im), v * (re * im + im * re)]));
    }
}

/// What [`functions`] stores for an element, by plain Rust.
fn expected(v: f64) -> [f64; 22] {
    let some = f64::from((v.abs() + 0.5) as f32);
    let sigmoid = 1.0 / (1.0 + (-v).exp());
    [
        v.exp(),
        v.exp2(),
        some.ln(),
        some.log2(),
        some.sqrt(),
        1.0 / some.sqrt(),
        v.sin(),
        v.cos(),
        v.tanh(),
        erf(v),
        some.powf(v),
        sigmoid,
        v.floor(),
        v.ceil(),
        v.round_ties_even(),
        v.trunc(),
        v.exp(),
        v.exp2(),
        some.ln(),
        1.0 / some,
        v.tanh(),
        v / some,
    ]
}

/// The error function by Simpson's rule.
fn erf(x: f64) -> f64 {
    const STEPS: usize = 2000;
    let step = x.clamp(-7.0, 7.0) / STEPS as f64;
    let weight = |i: usize| if i == 0 || i == STEPS { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
    let sum: f64 = (0..=STEPS).map(|i| weight(i) * (-(step * i as f64).powi(2)).exp()).sum();
    sum * step / 3.0 * 2.0 / std::f64::consts::PI.sqrt()
}

fn definitions() -> [(DType, KernelDef); 3] {
    [
        (DType::F32, functions::Kernel::<f32>::def()),
        (DType::F16, functions::Kernel::<f16>::def()),
        (DType::BF16, functions::Kernel::<bf16>::def()),
    ]
}

/// Ties, signed zeros, ends, and numbers between -8 and 8.
fn inputs() -> Vec<f64> {
    let special = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-3];
    special.into_iter().chain((0..200).map(|i| -8.0 + i as f64 * 0.0803)).collect()
}

/// Within a few units in the last place of the type; `sigmoid` and quotients are several operations, each rounded.
fn agrees(dtype: DType, got: f64, want: f64) -> bool {
    let (epsilon, least, most) = match dtype {
        DType::F16 => (9.8e-4, 6e-8, 65504.0),
        DType::BF16 => (7.9e-3, 1e-38, 3.4e38),
        _ => (1.2e-7, 1e-38, 3.4e38),
    };
    let overflows = |v: f64| v.abs() > most;
    got == want
        || got.is_nan() && want.is_nan()
        || overflows(got) && overflows(want)
        || (got - want).abs() <= 3.0 * epsilon * want.abs() + least
}

#[test]
fn functions_are_those_of_plain_rust() {
    for (dtype, def) in definitions() {
        let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
        let x: Vec<Literal> = inputs().into_iter().map(|v| Literal::from_f64(dtype, v)).collect();
        let (n, size) = (x.len(), dtype.size());
        let mut input: Vec<u8> = x.iter().flat_map(|l| l.bits.to_le_bytes()[..size].to_vec()).collect();
        let mut output = vec![0; 22 * n * size];
        let mut args = [
            EvalArg::Tensor { bytes: &mut input, shape: TensorArg::packed(0, &[n as i64]) },
            EvalArg::Tensor { bytes: &mut output, shape: TensorArg::packed(0, &[n as i64, 22]) },
        ];
        eval(&kernel, &mut args, &EvalOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        for (x, row) in x.iter().zip(output.chunks(22 * size)) {
            for (i, (want, got)) in expected(x.to_f64()).into_iter().zip(row.chunks(size)).enumerate() {
                let mut bits = [0; 8];
                bits[..size].copy_from_slice(got);
                let got = Literal { dtype, bits: u64::from_le_bytes(bits) }.to_f64();
                assert!(agrees(dtype, got, want), "function {i} of {dtype} at {x}: {got}, where {want} is expected");
            }
        }
    }
}

#[test]
fn functions_are_the_same_in_every_schedule() {
    let kernels = definitions().map(|(_, def)| (def.build)().unwrap_or_else(|e| panic!("{e}")));
    compare(&kernels);
    nvrtc::accepts(&kernels);
}

#[test]
fn floats_of_coordinates_are_computed_once() {
    let kernel = (turned::Kernel::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let schedule = Schedule::default_of(&kernel);
    let text = emit(&lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(["cospif(", "sinpif("].map(|call| text.matches(call).count()), [1, 1], "{text}");
    compare(&[kernel]);
}
