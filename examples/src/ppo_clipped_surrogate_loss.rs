//! The clipped surrogate loss of proximal policy optimisation: a mean over all positions of all sequences.

use girih::prelude::*;

/// loss = −mean of min(r·a, clamp(r, 1 − ε, 1 + ε)·a) with r = e^(new − old).
#[kernel(
    tile(T = [2048, 1024, 4096, 8192]),
    coarsen(C of T = [4, 8, 16]),
    vector(V = [4, 2, 1]),
    grid(G = [4, 1, 2, 8]),
    finish(F = [LastBlock, SecondLaunch, Atomics]),
    cache(H = [Default, Loads])
)]
pub fn surrogate(advantages: &Tensor<f32, 1>, new: &Tensor<f32, 1>, old: &Tensor<f32, 1>, loss: &mut Tensor<f32, 1>, eps: Scalar<f32>) {
    let mut acc = zeros::<f32>([T]);
    for t in advantages.tiles([T]).strided() {
        let a = advantages.load(t);
        let r = (new.load(t) - old.load(t)).exp();
        acc += (r * a).min(r.clamp(1.0 - eps, 1.0 + eps) * a);
    }
    let total = acc.sum().sum_grid();
    loss.store_at(0, -total / advantages.len(0).cast::<f32>());
}

/// What the judge calls.
#[program]
pub fn solve(
    advantages: &Tensor<f32, 2>,
    log_pi: &Tensor<f32, 2>,
    log_pi_old: &Tensor<f32, 2>,
    output: &mut Tensor<f32, 1>,
    clip_eps: Scalar<f32>,
) {
    surrogate(&advantages.flat(), &log_pi.flat(), &log_pi_old.flat(), output, clip_eps);
}

girih::challenge! {
    Challenge::new(
        "ppo_clipped_surrogate_loss",
        solve::Program::def,
        "void solve(const float* advantages[B, S], const float* log_pi[B, S], const float* log_pi_old[B, S], float* output[1], float clip_eps, int B, int S)",
    )
    .input("advantages", normal(0.0, 1.0))
    .input("log_pi", normal(0.0, 1.0))
    .input("log_pi_old", normal(0.0, 1.0))
    .output_all("output", |x| {
        let (n, eps) = (x.len("B") * x.len("S"), x.scalar("clip_eps"));
        let mut sum = 0.0;
        for i in 0..n {
            let a = x.at("advantages", i);
            let r = (x.at("log_pi", i) - x.at("log_pi_old", i)).exp();
            let c = if r < 1.0 - eps { 1.0 - eps } else if r > 1.0 + eps { 1.0 + eps } else { r };
            sum += f64::min(r * a, c * a);
        }
        vec![-sum / n as f64]
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["B=1, S=1", "B=3, S=7", "B=1, S=4099", "B=17, S=1023", "B=0, S=5", "B=5, S=257, clip_eps=0.1", "B=64, S=1024"])
    .perf_at("clip_eps=0.2, B=256, S=16_384")
    .flops(|s| 8.0 * s.size("B") * s.size("S"))
}
