//! A power of a matrix: by squaring, so that few multiplications do.

use super::matrix_multiplication::matrix_multiplication;
use girih::prelude::*;

/// What the judge calls. Small powers go without copies.
#[program]
pub fn solve(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, p: Scalar<i32>) {
    let n = x.len(0);
    if p <= 1 {
        y.copy_from(x);
    } else if p == 2 {
        matrix_multiplication(x, x, y);
    } else if p == 3 {
        let mut square = temp([n, n]);
        matrix_multiplication(x, x, &mut square);
        matrix_multiplication(&square, x, y);
    } else {
        let mut base = temp([n, n]);
        let mut next = temp([n, n]);
        y.copy_from(x);
        base.copy_from(x);
        let mut left = p - 1;
        while left > 0 {
            if left % 2 == 1 {
                matrix_multiplication(y, &base, &mut next);
                y.copy_from(&next);
            }
            left = left / 2;
            if left > 0 {
                matrix_multiplication(&base, &base, &mut next);
                base.copy_from(&next);
            }
        }
    }
}

girih::challenge! {
    Challenge::new("matrix_power", solve::Program::def, "void solve(const float* input[N, N], float* output[N, N], int N, int P)")
        .input("input", uniform(-10.0, 10.0))
        .output_all("output", |x| {
            let n = x.len("N");
            let base: Vec<f64> = (0..n * n).map(|i| x.at("input", i)).collect();
            let product = |a: &[f64]| -> Vec<f64> {
                let mut c = vec![0.0; n * n];
                for (i, l) in (0..n * n).map(|i| (i / n, i % n)) {
                    (0..n).for_each(|j| c[i * n + j] += a[i * n + l] * base[l * n + j]);
                }
                c
            };
            (1..x.scalar("P") as i64).fold(base.clone(), |power, _| product(&power))
        })
        .tolerance(1e-4, 1e-4)
        // Each further factor makes elements, and what they are off by, 5.8 √N times as large.
        .rounding(|s| {
            let (n, p) = (s.size("N"), s.size("P"));
            (p - 1.0).max(0.0) * girih::challenge::sum_rounding(n, 100.0 / 3.0) * (6.0 * n.sqrt()).powf((p - 2.0).max(0.0))
        })
        .check_at(["N=0 P=2", "N=1 P=5", "N=5 P=1", "N=17 P=2", "N=33 P=3", "N=16 P=6", "N=7 P=4"])
        .perf_at("N=512, P=3")
        .flops(|s| 2.0 * s.size("N").powi(3) * (s.size("P") - 1.0))
}
