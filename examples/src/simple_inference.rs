//! A linear layer: the weight lies the other way round, and a bias is added to every row.

use girih::prelude::*;

/// output = input · weightᵀ + bias.
#[kernel(
    tile(BM = [64, 32, 128, 16], BN = [64, 32, 128, 16], BK = [16, 8, 32]),
    coarsen(TM of BM = [4, 8, 2, 1], TN of BN = [4, 8, 2, 1]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Registers]),
    split(Z = [1, 2, 4, 0]),
    slices(Y = [1, 2, 4, 8]),
    min_blocks(Q = [2, 1]),
    opt_level(L = [3, 1])
)]
pub fn linear(input: &Tensor<f32, 2>, weight: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, output: &mut Tensor<f32, 2>) {
    for (m, n) in output.tiles([BM, BN]) {
        // Loaded ahead of the sum: behind it, its trip to memory would be waited for.
        let bias = bias.load(n);
        let mut acc = zeros::<f32>([BM, BN]);
        for k in input.axis(1).tiles(BK) {
            acc = dot(input.load((m, k)), weight.load((n, k)).t(), acc);
        }
        output.store((m, n), acc + bias.expand(0, BM));
    }
}

/// Input, weight, bias and output, then the sizes.
#[program]
pub fn solve(input: &Tensor<f32, 2>, weight: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, output: &mut Tensor<f32, 2>) {
    linear(input, weight, bias, output);
}

girih::challenge! {
    Challenge::new(
        "simple_inference",
        solve::Program::def,
        "void solve(const float* input[batch, in_features], const float* weight[out_features, in_features], const float* bias[out_features], float* output[batch, out_features], int batch, int in_features, int out_features)",
    )
    .input("input", Distribution::Normal(0.0, 1.0))
    .input("weight", Distribution::Normal(0.0, 0.1))
    .input("bias", Distribution::Normal(0.0, 0.05))
    .output("output", |x, i| {
        let (inner, cols) = (x.len("in_features"), x.len("out_features"));
        let product: f64 = (0..inner).map(|l| x.at("input", i / cols * inner + l) * x.at("weight", i % cols * inner + l)).sum();
        x.at("bias", i % cols) + product
    })
    .tolerance(1e-5, 1e-5)
    .check_at([
        "batch=0 in_features=3 out_features=2",
        "batch=2 in_features=0 out_features=3",
        "batch=1 in_features=1 out_features=1",
        "batch=17 in_features=33 out_features=5",
        "batch=32 in_features=16 out_features=64",
        "batch=65 in_features=31 out_features=33",
    ])
    .perf_at("batch=1000, in_features=512, out_features=256")
    .flops(|s| 2.0 * s.size("batch") * s.size("in_features") * s.size("out_features"))
}
