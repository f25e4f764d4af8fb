//! The loss of direct preference optimisation: the mean of softplus(−z) over a batch.
//!
//! A megabyte in one launch: every block sums its share, the last one sums what the blocks have.

use girih::prelude::*;

/// out = the mean of log(1 + e^−z) with z = beta · ((chosen − rejected) − (chosen_ref − rejected_ref)).
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [1, 2, 4]),
    cache(H = [Default, Loads])
)]
pub fn mean_preference_loss(
    chosen: &Tensor<f32, 1>,
    rejected: &Tensor<f32, 1>,
    chosen_ref: &Tensor<f32, 1>,
    rejected_ref: &Tensor<f32, 1>,
    out: &mut Tensor<f32, 1>,
    beta: Scalar<f32>,
) {
    let mut acc = zeros::<f32>([T]);
    for t in chosen.tiles([T]).strided() {
        let ours = chosen.load(t) - rejected.load(t);
        let theirs = chosen_ref.load(t) - rejected_ref.load(t);
        acc += softplus(beta * (theirs - ours));
    }
    let total = acc.sum().sum_grid();
    out.store_at(0, total / chosen.len(0).cast::<f32>());
}

/// log(1 + eˣ) without overflow. Where eˣ is below the rounding of 1 the result is 0, which is wrong by less than 1.2e-7.
fn softplus(x: Tile<f32>) -> Tile<f32> {
    x.max(0.0) + (1.0 + (-x.abs()).exp_approx()).log_approx()
}

/// What the judge calls.
#[program]
pub fn solve(
    chosen: &Tensor<f32, 1>,
    rejected: &Tensor<f32, 1>,
    chosen_ref: &Tensor<f32, 1>,
    rejected_ref: &Tensor<f32, 1>,
    output: &mut Tensor<f32, 1>,
    beta: Scalar<f32>,
) {
    mean_preference_loss(chosen, rejected, chosen_ref, rejected_ref, output, beta);
}

girih::challenge! {
    Challenge::new(
        "dpo_sequence_loss",
        solve::Program::def,
        "void solve(const float* chosen_logps[B], const float* rejected_logps[B], const float* chosen_ref_logps[B], \
         const float* rejected_ref_logps[B], float* output[1], float beta, int B)",
    )
    .input("chosen_logps", normal(0.0, 1.0))
    .input("rejected_logps", normal(0.0, 1.0))
    .input("chosen_ref_logps", normal(0.0, 1.0))
    .input("rejected_ref_logps", normal(0.0, 1.0))
    .output("output", |x, _| {
        let loss = |i| {
            let ours = x.at("chosen_logps", i) - x.at("rejected_logps", i);
            let theirs = x.at("chosen_ref_logps", i) - x.at("rejected_ref_logps", i);
            let z = x.scalar("beta") * (ours - theirs);
            (-z).max(0.0) + (-z.abs()).exp().ln_1p()
        };
        (0..x.len("B")).map(loss).sum::<f64>() / x.scalar("B")
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["B=1", "B=31 beta=0.5", "B=257 beta=20", "B=1023", "B=1024 beta=100", "B=4099"])
    .perf_at("beta=0.1, B=65_536")
    .flops(|s| 8.0 * s.size("B"))
}
