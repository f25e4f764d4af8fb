//! 2D max pooling: every output is the largest of the inputs under a square that moves on by a stride.
//!
//! Bound by memory. In general positions are computed, so the inputs are gathered; those outside of the image count as minus infinity.
//! For the usual squares of 3 × 3 that lie 2 apart, rows and columns are taken apart into even and odd ones: then a square is four
//! windows at fixed offsets, and what a thread's squares share is read once.

use girih::prelude::*;

/// y = the maximum of each square of `size` × `size` inputs, `stride` apart, the first one `padding` before the image.
#[kernel(tile(P = [1, 2, 4], R = [4, 8, 16], C = [32, 64, 128]), coarsen(CP of P = [1, 2, 4], CR of R = [1, 2, 4]))]
pub fn max_pooling_2d(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>, size: Scalar<i32>, stride: Scalar<i32>, padding: Scalar<i32>) {
    for (p, r, c) in y.tiles([P, R, C]) {
        let plane = p.coords().cast::<i32>().expand(1, R).expand(2, C);
        let row = (r.coords().cast::<i32>() * stride - padding).expand(0, P).expand(2, C);
        let col = (c.coords().cast::<i32>() * stride - padding).expand(0, R).expand(0, P);
        y.store((p, r, c), largest(x, [plane, row, col], size));
    }
}

/// The same for squares of 3 × 3 that lie 2 apart, the first one 1 before the image, which has 2 rows and columns at least. The nearest
/// element of the same parity lies in the square itself, so repeating it outside of the image changes no maximum.
#[kernel(
    tile(P = 1, R = [4, 8, 16, 32], C = [32, 64, 128]),
    coarsen(CR of R = [1, 2, 4, 8], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    halo(H = [Direct, Shared]),
    cache(K = [Default, Stores])
)]
pub fn max_pooling_3_by_2(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    let (even_rows, odd_rows) = (x.strided(1, 2), x.slice(1, 1, x.len(1) - 1).strided(1, 2));
    for (p, r, c) in y.tiles([P, R, C]) {
        let mut near = Vec::new();
        for (rows, above) in [(&even_rows, 0), (&odd_rows, 1)] {
            let (even, odd) = (rows.strided(2, 2), rows.slice(2, 1, rows.len(2) - 1).strided(2, 2));
            for (half, before) in [(even, 0), (odd, 1)] {
                near.push((half.window((p, r, c), [(0, 0), (above, 0), (before, 0)], Boundary::Clamp), above, before));
            }
        }
        let mut best = None;
        for (window, above, before) in near {
            for i in -above..=0 {
                for j in -before..=0 {
                    let v = window.at((0, i, j));
                    best = Some(best.map_or(v, |b: Tile<f32>| b.max(v)));
                }
            }
        }
        y.store((p, r, c), best.expect("a square has elements"));
    }
}

/// The largest element of the square that begins at each position.
#[device]
fn largest(x: &Tensor<f32, 3>, [plane, row, col]: [Tile<i32>; 3], size: Scalar<i32>) -> Tile<f32> {
    let (height, width) = (x.len(1).cast::<i32>(), x.len(2).cast::<i32>());
    let mut best = plane.cast::<f32>().like(f64::NEG_INFINITY);
    for a in 0..size {
        for b in 0..size {
            let (at, along) = (row + a, col + b);
            let inside = at >= 0 && at < height && along >= 0 && along < width;
            best = best.max(if inside { x.gather((plane, at, along)) } else { f64::NEG_INFINITY });
        }
    }
    best
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 3>, output: &mut Tensor<f32, 3>, kernel_size: Scalar<i32>, stride: Scalar<i32>, padding: Scalar<i32>) {
    if kernel_size == 3 && stride == 2 && padding == 1 && input.len(1) >= 2 && input.len(2) >= 2 {
        max_pooling_3_by_2(input, output);
    } else {
        max_pooling_2d(input, output, kernel_size, stride, padding);
    }
}

girih::challenge! {
    Challenge::new(
        "2d_max_pooling",
        solve::Program::def,
        "void solve(const float* input[N * C, H, W], \
         float* output[N * C, (H + 2 * padding - kernel_size) / stride + 1, (W + 2 * padding - kernel_size) / stride + 1], \
         int N, int C, int H, int W, int kernel_size, int stride, int padding)",
    )
    .input("input", normal(0.0, 1.0))
    .output("output", |x, i| {
        let (h, w, size) = (x.len("H") as i64, x.len("W") as i64, x.len("kernel_size") as i64);
        let (stride, padding) = (x.len("stride") as i64, x.len("padding") as i64);
        let side = |n: i64| (n + 2 * padding - size) / stride + 1;
        let (i, rows, cols) = (i as i64, side(h), side(w));
        let (plane, row, col) = (i / (rows * cols), i / cols % rows * stride - padding, i % cols * stride - padding);
        let mut best = f64::NEG_INFINITY;
        for r in (row..row + size).filter(|r| (0..h).contains(r)) {
            for c in (col..col + size).filter(|c| (0..w).contains(c)) {
                best = best.max(x.at("input", ((plane * h + r) * w + c) as usize));
            }
        }
        best
    })
    .tolerance(1e-5, 1e-5)
    .check_at([
        "N=1 C=1 H=3 W=3 kernel_size=3 stride=2 padding=1",
        "N=2 C=3 H=17 W=33 kernel_size=3 stride=2 padding=1",
        "N=1 C=2 H=31 W=67 kernel_size=2 stride=2 padding=0",
        "N=1 C=1 H=1 W=1 kernel_size=3 stride=2 padding=1",
        "N=1 C=2 H=2 W=2 kernel_size=3 stride=2 padding=1",
        "N=1 C=1 H=64 W=130 kernel_size=3 stride=2 padding=1",
        "N=1 C=1 H=9 W=11 kernel_size=5 stride=1 padding=2",
        "N=2 C=2 H=24 W=130 kernel_size=4 stride=3 padding=1",
    ])
    .perf_at("N=4, C=64, H=256, W=256, kernel_size=3, stride=2, padding=1")
    .flops(|s| {
        let side = |n: f64| ((n + 2.0 * s.size("padding") - s.size("kernel_size")) / s.size("stride")).floor() + 1.0;
        s.size("N") * s.size("C") * side(s.size("H")) * side(s.size("W")) * s.size("kernel_size").powi(2)
    })
}
