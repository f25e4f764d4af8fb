//! The clipped surrogate loss of group-relative policy optimisation, with its penalty for leaving the reference policy.
//!
//! Two launches: the advantage of each response, normalised within its group (a few kilobytes), then one pass over the three tables of
//! log-probabilities, whose sum the last block finishes.

use girih::prelude::*;

/// Each reward less its group's mean, in units of its group's standard deviation.
#[kernel(tile(R = [1, 2, 4, 8], G = [16, 32, 64]))]
pub fn advantages(rewards: &Tensor<f32, 2>, advantage: &mut Tensor<f32, 2>) {
    let count = rewards.len(1).cast::<f32>();
    for r in rewards.axis(0).tiles(R) {
        let mut sum = zeros::<f32>([R, G]);
        for g in rewards.axis(1).tiles(G) {
            sum += rewards.load((r, g));
        }
        let mean = sum.sum_axis(1) / count;
        let mut squares = zeros::<f32>([R, G]);
        for g in rewards.axis(1).tiles(G) {
            let off = rewards.load((r, g)) - mean.expand(1, G);
            squares += off * off;
        }
        // Where all rewards of a group are equal the deviation is 0, and so is every difference that it divides.
        let deviation = (squares.sum_axis(1) / count).sqrt() + 1e-8;
        for g in rewards.axis(1).tiles(G) {
            let off = rewards.load((r, g)) - mean.expand(1, G);
            advantage.store((r, g), off / deviation.expand(1, G));
        }
    }
}

/// out = −mean(L − beta · kl), over all tokens of all responses; one row per response.
#[kernel(
    tile(R = [1, 2, 4], T = [128, 256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8, 16]),
    vector(V = [1, 2, 4]),
    grid(G = [1, 2, 4, 8, 0]),
    cache(H = [Default, Loads])
)]
pub fn surrogate_loss(
    advantage: &Tensor<f32, 1>,
    log_pi: &Tensor<f32, 2>,
    log_pi_old: &Tensor<f32, 2>,
    log_ref: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 1>,
    clip_eps: Scalar<f32>,
    beta: Scalar<f32>,
) {
    let mut acc = zeros::<f32>([R, T]);
    for (r, t) in log_pi.tiles([R, T]).strided() {
        let a = advantage.load(r).expand(1, T);
        let now = log_pi.load((r, t));
        let ratio = (now - log_pi_old.load((r, t))).exp_approx();
        let surrogate = (ratio * a).min(ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps) * a);
        let d = log_ref.load((r, t)) - now;
        acc += beta * (d.exp_approx() - d - 1.0) - surrogate;
    }
    let total = acc.sum().sum_grid();
    let tokens = log_pi.len(0) * log_pi.len(1);
    out.store_at(0, total / tokens.cast::<f32>());
}

/// What the judge calls.
#[program]
pub fn solve(
    rewards: &Tensor<f32, 2>,
    log_pi: &Tensor<f32, 2>,
    log_pi_old: &Tensor<f32, 2>,
    log_ref: &Tensor<f32, 2>,
    output: &mut Tensor<f32, 1>,
    clip_eps: Scalar<f32>,
    beta: Scalar<f32>,
) {
    let mut advantage = temp([rewards.len(0), rewards.len(1)]);
    advantages(rewards, &mut advantage);
    surrogate_loss(&advantage.flat(), log_pi, log_pi_old, log_ref, output, clip_eps, beta);
}

girih::challenge! {
    Challenge::new(
        "grpo_surrogate_loss",
        solve::Program::def,
        "void solve(const float* rewards[B, G], const float* log_pi[B * G, S], const float* log_pi_old[B * G, S], \
         const float* log_ref[B * G, S], float* output[1], float clip_eps, float beta, int B, int G, int S)",
    )
    .input("rewards", normal(0.0, 1.0))
    .input("log_pi", normal(0.0, 1.0))
    .input("log_pi_old", normal(0.0, 1.0))
    .input("log_ref", normal(0.0, 1.0))
    .output("output", |x, _| expected(x))
    .tolerance(1e-4, 1e-4)
    .check_at(["B=1 G=1 S=1", "B=3 G=5 S=7", "B=2 G=17 S=127", "B=2 G=16 S=512", "B=1 G=67 S=33", "B=5 G=4 S=1025 beta=0.5"])
    .perf_at("clip_eps=0.2, beta=0.01, B=64, G=16, S=4096")
    .flops(|s| 12.0 * s.size("B") * s.size("G") * s.size("S"))
}

fn expected(x: &girih::challenge::Case) -> f64 {
    let (groups, responses, tokens) = (x.len("B"), x.len("G"), x.len("S"));
    let (eps, beta) = (x.scalar("clip_eps"), x.scalar("beta"));
    let mut total = 0.0;
    for b in 0..groups {
        let rewards: Vec<f64> = (0..responses).map(|g| x.at("rewards", b * responses + g)).collect();
        let mean = rewards.iter().sum::<f64>() / responses as f64;
        let deviation = (rewards.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / responses as f64).sqrt();
        for (g, reward) in rewards.iter().enumerate() {
            let a = (reward - mean) / (deviation + 1e-8);
            for i in (0..tokens).map(|s| (b * responses + g) * tokens + s) {
                let r = (x.at("log_pi", i) - x.at("log_pi_old", i)).exp();
                let d = x.at("log_ref", i) - x.at("log_pi", i);
                total += beta * (d.exp() - d - 1.0) - (r * a).min(r.clamp(1.0 - eps, 1.0 + eps) * a);
            }
        }
    }
    total / (groups * responses * tokens) as f64
}
