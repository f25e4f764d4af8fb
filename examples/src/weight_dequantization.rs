//! Each square of a matrix has its own factor: y\[i, j\] = x\[i, j\] · s\[i / size, j / size\].

use girih::prelude::*;

/// Any tile size: each element looks its factor up.
#[kernel(
    tile(R = [8, 4, 16, 32], C = [128, 256, 512]),
    coarsen(CR of R = [4, 1, 2, 8], CC of C = [4, 1]),
    vector(V = [4, 1]),
    cache(H = [Default, Streaming])
)]
pub fn scaled_any(x: &Tensor<f32, 2>, s: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, size: Scalar<i32>) {
    require(size > 0);
    let square = size.cast::<i64>();
    let squares = |axis| (y.len(axis) + (square - 1)) / square;
    let s = s.slice(0, 0, squares(0)).slice(1, 0, squares(1));
    for (r, c) in y.tiles([R, C]) {
        let rows = r.coords().cast::<i32>() / size;
        let cols = c.coords().cast::<i32>() / size;
        let factor = s.gather_in_bounds((rows.expand(1, C), cols.expand(0, R)));
        y.store((r, c), x.load((r, c)) * factor);
    }
}

/// Squares of `times` · 128 elements along both axes: a block has one factor.
#[kernel(
    tile(R = [16, 8, 32, 64], C = [128]),
    coarsen(CR of R = [4, 1, 2, 8], CC of C = [4, 1]),
    vector(V = [4, 1]),
    grid(G = [0, 4]),
    cache(H = [Default, Streaming])
)]
pub fn scaled_blocks(x: &Tensor<f32, 2>, s: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, times: Scalar<i32>) {
    require(times > 0);
    let square = times.cast::<i64>() * 128;
    let squares = |axis| (y.len(axis) + (square - 1)) / square;
    let s = s.slice(0, 0, squares(0)).slice(1, 0, squares(1));
    for (r, c) in y.tiles([R, C]) {
        let factor = s.at((r.start().cast::<i32>() / 128 / times, c.start().cast::<i32>() / 128 / times));
        y.store((r, c), x.load((r, c)) * factor);
    }
}

/// Rows and tile sizes that are multiples of 4: four neighbours have one factor.
#[kernel(
    tile(R = [16, 8, 32, 4], C = [64, 32, 128, 256]),
    coarsen(CR of R = [4, 1, 2, 8], CC of C = [1, 2]),
    vector(V = [1, 4]),
    grid(G = [0, 4]),
    cache(H = [Default, Streaming])
)]
pub fn scaled_quads(x: &Tensor<f32, 3>, s: &Tensor<f32, 2>, y: &mut Tensor<f32, 3>, size: Scalar<i32>) {
    require(size > 0 && size % 4 == 0);
    let square = size.cast::<i64>();
    let squares = |len: Scalar<i64>| (len + (square - 1)) / square;
    let s = s.slice(0, 0, squares(y.len(0))).slice(1, 0, squares(y.len(1) * 4));
    for (r, c) in y.axes([0, 1]).tiles([R, C]) {
        let rows = r.coords().cast::<i32>() / size;
        let cols = c.coords().cast::<i32>() * 4 / size;
        let factor = s.gather_in_bounds((rows.expand(1, C), cols.expand(0, R)));
        y.store((r, c, ..4), x.load((r, c, ..4)) * factor.expand(2, 4));
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, s: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, tile_size: Scalar<i32>) {
    if tile_size % 4 == 0 && x.len(1) % 4 == 0 {
        if tile_size % 128 == 0 && variant("a block has one factor") {
            scaled_blocks(x, s, y, tile_size / 128);
        } else {
            scaled_quads(&x.chunked(1, 4), s, &mut y.chunked(1, 4), tile_size);
        }
    } else {
        scaled_any(x, s, y, tile_size);
    }
}

girih::challenge! {
    Challenge::new(
        "weight_dequantization",
        solve::Program::def,
        "void solve(const float* X[M, N], const float* S[(M + TILE_SIZE - 1) / TILE_SIZE, (N + TILE_SIZE - 1) / TILE_SIZE], float* Y[M, N], int M, int N, int TILE_SIZE)",
    )
    .input("X", normal(0.0, 1.0))
    .input("S", normal(0.0, 1.0))
    .output("Y", |x, i| {
        let (n, t) = (x.len("N"), x.len("TILE_SIZE"));
        let cols = n.div_ceil(t);
        x.at("X", i) * x.at("S", i / n / t * cols + i % n / t)
    })
    .tolerance(1e-5, 1e-5)
    .check_at([
        "M=0, N=5, TILE_SIZE=128",
        "M=1, N=1, TILE_SIZE=1",
        "M=7, N=13, TILE_SIZE=3",
        "M=65, N=130, TILE_SIZE=16",
        "M=131, N=257, TILE_SIZE=128",
        "M=256, N=384, TILE_SIZE=128",
        "M=129, N=300, TILE_SIZE=256",
        "M=33, N=264, TILE_SIZE=100",
    ])
    .perf_at("M=8192, N=8192, TILE_SIZE=128")
    .flops(|s| s.size("M") * s.size("N"))
}
