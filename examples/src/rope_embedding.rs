//! Rotary position embedding: each row is cut into halves, and the pair of an element of both is turned by its own sine and cosine.

use girih::prelude::*;

/// out = (a·cos − b·sin, b·cos + a·sin) for the halves a and b of each row of q.
#[kernel(
    tile(R = [8, 4, 16, 32, 64], C = [64, 32, 128]),
    coarsen(CR of R = [2, 1, 4, 8], CC of C = [4, 1, 2]),
    vector(V = [4, 1, 2]),
    grid(G = [0, 4, 8]),
    cache(H = [Default, Streaming, Stores])
)]
pub fn rope(q: &Tensor<f32, 2>, cos: &Tensor<f32, 2>, sin: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    let h = q.len(1) / 2;
    let (q1, q2) = q.split_at(1, h);
    let (c1, c2) = cos.split_at(1, h);
    let (s1, s2) = sin.split_at(1, h);
    let (mut o1, mut o2) = out.split_at(1, h);
    for (r, c) in o1.tiles([R, C]) {
        let (a, b) = (q1.load((r, c)), q2.load((r, c)));
        o1.store((r, c), a * c1.load((r, c)) - b * s1.load((r, c)));
        o2.store((r, c), b * c2.load((r, c)) + a * s2.load((r, c)));
    }
}

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, cos: &Tensor<f32, 2>, sin: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    rope(q, cos, sin, output);
}

girih::challenge! {
    Challenge::new("rope_embedding", solve::Program::def,
        "void solve(float* Q[M, D], float* cos[M, D], float* sin[M, D], float* output[M, D], int M, int D)")
        .input("Q", normal(0.0, 1.0))
        .input("cos", normal(0.0, 1.0))
        .input("sin", normal(0.0, 1.0))
        .output("output", |x, i| {
            let d = x.len("D");
            let (j, h) = (i % d, d / 2);
            let other = if j < h { -x.at("Q", i + h) } else { x.at("Q", i - h) };
            x.at("Q", i) * x.at("cos", i) + other * x.at("sin", i)
        })
        .tolerance(1e-4, 1e-4)
        .check_at(["M=0, D=8", "M=1, D=2", "M=3, D=6", "M=7, D=64", "M=33, D=128", "M=5, D=130", "M=65, D=22", "M=130, D=256"])
        .perf_at("M=1_048_576, D=128")
        .flops(|s| 3.0 * s.size("M") * s.size("D"))
}
