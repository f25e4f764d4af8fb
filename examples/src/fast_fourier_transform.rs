//! The discrete Fourier transform of N complex numbers: N = 512 · 512 in two launches, other lengths by [`fourier_steps`](crate::fourier_steps).
//!
//! With n = 512 n1 + n2 and k = k1 + 512 k2 (Bailey's four steps): transforms along n1 for each n2, each result times
//! exp(-2πi n2 k1 / N), and transforms along n2, which leave the spectrum transposed.

use crate::fourier::{Computed, Table, columns_of_512, rows_of_512};
use crate::fourier_steps::transform;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(signal: &Tensor<f32, 1>, spectrum: &mut Tensor<f32, 1>) {
    let n = signal.len(0) / 2;
    if n == 512 * 512 {
        let mut halfway = temp((512, 512));
        if variant("computed factors") {
            columns_of_512::<Computed>(&signal.reinterpret::<u64>().chunked(0, 512), &mut halfway);
            rows_of_512::<Computed>(&halfway, &mut spectrum.reinterpret::<u64>().chunked(0, 512));
        } else {
            columns_of_512::<Table>(&signal.reinterpret::<u64>().chunked(0, 512), &mut halfway);
            rows_of_512::<Table>(&halfway, &mut spectrum.reinterpret::<u64>().chunked(0, 512));
        }
    } else if n > 0 {
        transform(&signal.reinterpret::<u64>(), &mut spectrum.reinterpret::<u64>(), n, scalar(1i64));
    }
}

girih::challenge! {
    Challenge::new(
        "Fast_Fourier_transform",
        solve::Program::def,
        "void solve(const float* signal[2 * N], float* spectrum[2 * N], int N)",
    )
    .input("signal", normal(0.0, 1.0))
    .output_all("spectrum", |x| {
        let n = x.len("N");
        let mut line: Vec<(f64, f64)> = (0..n).map(|i| (x.at("signal", 2 * i), x.at("signal", 2 * i + 1))).collect();
        dft(&mut line);
        line.into_iter().flat_map(|(re, im)| [re, im]).collect()
    })
    .tolerance(1e-3, 1e-3)
    .check_at(["N=0", "N=1", "N=2", "N=3", "N=4", "N=8", "N=97", "N=100", "N=512", "N=1021", "N=2048", "N=6000", "N=262_144"])
    .perf_at("N=262_144")
    .flops(|s| 5.0 * s.size("N") * s.size("N").log2())
}

/// The transform in double precision: by halves where there are some, else term by term.
pub(crate) fn dft(line: &mut [(f64, f64)]) {
    let n = line.len();
    let root = |k: usize| (std::f64::consts::TAU * (k % n) as f64 / n as f64).sin_cos();
    if n > 1 && n.is_multiple_of(2) {
        let mut even: Vec<_> = line.iter().copied().step_by(2).collect();
        let mut odd: Vec<_> = line.iter().copied().skip(1).step_by(2).collect();
        dft(&mut even);
        dft(&mut odd);
        for (k, (e, o)) in even.into_iter().zip(odd).enumerate() {
            let (sin, cos) = root(k);
            let turned = (o.0 * cos + o.1 * sin, o.1 * cos - o.0 * sin);
            line[k] = (e.0 + turned.0, e.1 + turned.1);
            line[k + n / 2] = (e.0 - turned.0, e.1 - turned.1);
        }
    } else if n > 1 {
        let roots: Vec<_> = (0..n).map(root).collect();
        let term = |k: usize| {
            line.iter().enumerate().fold((0.0, 0.0), |sum, (i, v)| {
                let (sin, cos) = roots[i * k % n];
                (sum.0 + v.0 * cos + v.1 * sin, sum.1 + v.1 * cos - v.0 * sin)
            })
        };
        let all: Vec<_> = (0..n).map(term).collect();
        line.copy_from_slice(&all);
    }
}
