//! The discrete Fourier transform of a matrix of complex numbers: its rows', then its columns'. Those of 2048 points take one launch each,
//! whose blocks keep whole lines; others take [`fourier_steps`](crate::fourier_steps).

use crate::fast_fourier_transform::dft;
use crate::fourier::{Computed, Table, columns_of_2048, rows_of_2048};
use crate::fourier_steps::transform;
use girih::prelude::*;

/// What the judge calls; rows and columns are those of the matrix.
#[program]
pub fn solve(signal: &Tensor<f32, 1>, spectrum: &mut Tensor<f32, 1>, m: Scalar<i32>, n: Scalar<i32>) {
    let (rows, columns) = (m.cast::<i64>(), n.cast::<i64>());
    if rows * columns > 0 {
        let mut halfway = temp([rows * columns]);
        if columns == 2048 {
            if variant("computed factors of rows") {
                rows_of_2048::<Computed>(&signal.reinterpret::<u64>().chunked(0, 2048), &mut halfway.chunked(0, 2048));
            } else {
                rows_of_2048::<Table>(&signal.reinterpret::<u64>().chunked(0, 2048), &mut halfway.chunked(0, 2048));
            }
        } else {
            transform(&signal.reinterpret::<u64>(), &mut halfway, columns, scalar(1i64));
        }
        if rows == 2048 {
            if variant("computed factors of columns") {
                columns_of_2048::<Computed>(&halfway.chunked(0, columns), &mut spectrum.reinterpret::<u64>().chunked(0, columns));
            } else {
                columns_of_2048::<Table>(&halfway.chunked(0, columns), &mut spectrum.reinterpret::<u64>().chunked(0, columns));
            }
        } else {
            transform(&halfway, &mut spectrum.reinterpret::<u64>(), rows, columns);
        }
    }
}

girih::challenge! {
    Challenge::new(
        "2d_fft",
        solve::Program::def,
        "void solve(const float* signal[2 * M * N], float* spectrum[2 * M * N], int M, int N)",
    )
    .input("signal", normal(0.0, 1.0))
    .output_all("spectrum", |x| {
        let (m, n) = (x.len("M"), x.len("N"));
        let mut all: Vec<(f64, f64)> = (0..m * n).map(|i| (x.at("signal", 2 * i), x.at("signal", 2 * i + 1))).collect();
        all.chunks_mut(n.max(1)).for_each(dft);
        for c in 0..n {
            let mut column: Vec<_> = (0..m).map(|r| all[r * n + c]).collect();
            dft(&mut column);
            column.into_iter().enumerate().for_each(|(r, v)| all[r * n + c] = v);
        }
        all.into_iter().flat_map(|(re, im)| [re, im]).collect()
    })
    .tolerance(1e-2, 1e-2)
    .check_at(["M=0 N=3", "M=1 N=1", "M=1 N=7", "M=5 N=1", "M=4 N=8", "M=13 N=24", "M=31 N=16", "M=3 N=2048", "M=2048 N=5"])
    .perf_at("M=2048, N=2048")
    .flops(|s| 5.0 * s.size("M") * s.size("N") * (s.size("M") * s.size("N")).log2())
}
