//! Generalised advantage estimation: a linear recurrence that runs backwards along each row.
//!
//! An affine step x → d + c·x is a pair (c, d), and steps are joined associatively, so the recurrence is a scan. Rows of up to 4096 elements
//! are one tile, read once as they lie and scanned from behind; longer ones are walked from their end, tile after tile.

use girih::prelude::*;

/// Rows of any length: a block walks one from behind.
#[kernel(
    tile(R = 1, C = [4096, 1024, 2048, 8192]),
    coarsen(CC of C = [4, 8, 16]),
    vector(V = [4, 2, 1]),
    halo(H = [Direct, Shared])
)]
pub fn gae(rewards: &Tensor<f32, 2>, values: &Tensor<f32, 2>, advantages: &mut Tensor<f32, 2>, gamma: Scalar<f32>, lam: Scalar<f32>) {
    let rewards = rewards.reversed(1);
    let values = values.reversed(1);
    let mut out = advantages.reversed(1);
    let decay = gamma * lam;
    for r in out.axis(0).tiles(R) {
        let mut last = zeros::<f32>([R]);
        for c in out.axis(1).tiles(C) {
            let v = values.window((r, c), [(0, 0), (1, 0)], Boundary::Zero);
            let delta = rewards.load((r, c)) + gamma * v.at((0, -1)) - v.at((0, 0));
            // What the tile before leaves goes into the first element.
            let first = (c.coords() == c.start()).expand(0, R);
            let delta = select(first, delta + decay * last.expand(1, C), delta);
            let (_, y) = (delta.like(1.0) * decay, delta).scan(1, (1.0, 0.0), |f, g| (f.0 * g.0, g.0 * f.1 + g.1));
            out.store((r, c), y);
            last = y.total_axis(1);
        }
    }
}

/// Rows that fit one tile.
#[kernel(
    tile(R = 1, C = 4096),
    coarsen(CC of C = [4, 8, 16]),
    vector(V = [4, 2, 1]),
    halo(H = [Direct, Shared]),
    cache(K = [Default, Loads])
)]
pub fn gae_row(rewards: &Tensor<f32, 2>, values: &Tensor<f32, 2>, advantages: &mut Tensor<f32, 2>, gamma: Scalar<f32>, lam: Scalar<f32>) {
    let decay = gamma * lam;
    for r in advantages.axis(0).tiles(R) {
        for c in advantages.axis(1).tiles(C) {
            let v = values.window((r, c), [(0, 0), (0, 1)], Boundary::Zero);
            let delta = rewards.load((r, c)) + gamma * v.at((0, 1)) - v.at((0, 0));
            let (_, y) = (delta.like(1.0) * decay, delta).scan(along(1).reversed(), (1.0, 0.0), |f, g| (f.0 * g.0, g.0 * f.1 + g.1));
            advantages.store((r, c), y);
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(rewards: &Tensor<f32, 2>, values: &Tensor<f32, 2>, advantages: &mut Tensor<f32, 2>, gamma: Scalar<f32>, lam: Scalar<f32>) {
    if rewards.len(1) <= 4096 {
        gae_row(rewards, values, advantages, gamma, lam);
    } else {
        gae(rewards, values, advantages, gamma, lam);
    }
}

girih::challenge! {
    Challenge::new(
        "gae_reverse_scan",
        solve::Program::def,
        "void solve(const float* rewards[B, S], const float* values[B, S], float* advantages[B, S], float gamma, float lam, int B, int S)",
    )
    .input("rewards", normal(0.0, 1.0))
    .input("values", normal(0.0, 1.0))
    .output_rows("advantages", |x, b| {
        let (s, gamma, lam) = (x.len("S"), x.scalar("gamma"), x.scalar("lam"));
        let mut out = vec![0.0; s];
        let mut next = 0.0;
        for t in (0..s).rev() {
            let v1 = if t + 1 < s { x.at("values", b * s + t + 1) } else { 0.0 };
            let delta = x.at("rewards", b * s + t) + gamma * v1 - x.at("values", b * s + t);
            next = delta + gamma * lam * next;
            out[t] = next;
        }
        out
    })
    .tolerance(1e-3, 1e-3)
    .check_at(["B=0, S=7", "B=3, S=0", "B=1, S=1", "B=3, S=31", "B=2, S=1025", "B=5, S=4099", "B=2, S=16_388, gamma=1, lam=1", "B=64, S=256"])
    .perf_at("gamma=0.99, lam=0.95, B=64, S=4096")
    .flops(|s| 8.0 * s.size("B") * s.size("S"))
}
