//! GEGLU: the second half of the input, through the exact GELU, gates the first half.

use girih::prelude::*;
use std::f64::consts::FRAC_1_SQRT_2;

/// y = first half of x · gelu(second half of x).
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Streaming, Loads])
)]
pub fn geglu(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let (first, second) = (x.slice(0, 0, y.len(0)), x.slice(0, y.len(0), y.len(0)));
    for t in y.tiles([T]) {
        let gate = second.load(t);
        y.store(t, first.load(t) * (0.5 * gate * (1.0 + fast_erf(gate * FRAC_1_SQRT_2))));
    }
}

/// The error function within 1.5e-7 (Abramowitz and Stegun, 7.1.26): half the instructions of the exact one, at a size where they show.
#[device]
fn fast_erf(z: Tile<f32>) -> Tile<f32> {
    let magnitude = z.abs();
    let t = (1.0 + 0.3275911 * magnitude).recip_approx();
    let polynomial = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    let rest = polynomial * (-magnitude * magnitude).exp_approx();
    if z < 0.0 { rest - 1.0 } else { 1.0 - rest }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    geglu(x, y);
}

girih::challenge! {
    Challenge::new("geglu", solve::Program::def, "void solve(const float* input[N], float* output[N / 2], int N)")
        .input("input", uniform(-100.0, 100.0))
        .output("output", |x, i| {
            let (a, b) = (x.at("input", i), x.at("input", i + x.len("N") / 2));
            a * 0.5 * b * (1.0 + erf(b * FRAC_1_SQRT_2))
        })
        .tolerance(1e-4, 1e-4)
        .check_at(["N=0", "N=2", "N=63", "N=514", "N=2048", "N=8198"])
        .perf_at("N=1_000_000")
        .flops(|s| 8.0 * s.size("N"))
}

/// The error function by its Taylor series near zero and its continued fraction far from it, to about 1e-12.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let value = if a < 3.0 {
        let mut term = a;
        let mut sum = a;
        for n in 1..60 {
            term *= -a * a / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        2.0 / std::f64::consts::PI.sqrt() * sum
    } else {
        let fraction = (1..60).rev().fold(a, |f, k| a + k as f64 / 2.0 / f);
        1.0 - (-a * a).exp() / (fraction * std::f64::consts::PI.sqrt())
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    #[test]
    fn erf_at_known_points() {
        let known = [(0.0, 0.0), (0.5, 0.520499877813046), (1.0, 0.842700792949715), (2.9, 0.999958902121901), (3.1, 0.999988351342633)];
        for (x, y) in known {
            assert!((super::erf(x) - y).abs() < 1e-12, "erf({x})");
            assert!((super::erf(-x) + y).abs() < 1e-12, "erf(-{x})");
        }
    }
}
