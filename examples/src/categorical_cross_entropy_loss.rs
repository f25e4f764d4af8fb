//! The mean over all rows of log Σ e^logit − the logit of the row's label. One launch: a block takes several rows and carries its sum to the
//! meeting of the blocks. A row that fits one tile stays in registers between finding the largest logit and adding up; a longer one is read
//! again, from the cache. The label's logit is asked for when the label has long arrived, and comes while the row is added up.

use girih::prelude::*;
use std::f64::consts::LOG2_E;

/// loss = the mean loss of the rows of `logits`.
#[kernel(
    tile(R = [1, 2, 4, 8], C = [256, 512, 1024, 2048, 4096]),
    coarsen(CC of C = [1, 4, 8, 16, 32]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 6, 8, 13, 16, 0]),
    cache(H = [Default, Loads])
)]
pub fn categorical_cross_entropy(logits: &Tensor<f32, 2>, labels: &Tensor<i32, 1>, loss: &mut Tensor<f32, 1>) {
    labels.within(0..logits.len(1));
    let mut losses = zeros::<f32>([R]);
    for r in logits.axis(0).tiles(R).strided() {
        let label = labels.load(r);
        // The largest of nothing is a number, too: −∞ − −∞ is none.
        let mut largest = full([R, C], f32::MIN);
        for c in logits.axis(1).tiles(C) {
            largest = largest.max(logits.load((r, c)));
        }
        let largest = largest.max_axis(1);
        let scaled = largest * LOG2_E;
        let chosen = logits.gather((r.coords(), label));
        let mut sum = zeros::<f32>([R, C]);
        for c in logits.axis(1).tiles(C) {
            // e^(x − largest) as a power of two: one multiply-add and the unit's instruction.
            sum += (logits.load((r, c)) * LOG2_E - scaled.expand(1, C)).exp2_approx();
        }
        losses += sum.sum_axis(1).log() + largest - chosen;
    }
    let total = losses.sum().sum_grid();
    loss.store_at(0, total / logits.len(0).cast::<f32>());
}

/// What the judge calls.
#[program]
pub fn solve(logits: &Tensor<f32, 2>, true_labels: &Tensor<i32, 1>, loss: &mut Tensor<f32, 1>) {
    categorical_cross_entropy(logits, true_labels, loss);
}

girih::challenge! {
    Challenge::new(
        "categorical_cross_entropy_loss",
        solve::Program::def,
        "void solve(const float* logits[N, C], const int* true_labels[N], float* loss[1], int N, int C)",
    )
    .input("logits", uniform(-10.0, 10.0))
    .input("true_labels", below("C"))
    .output("loss", |x, _| {
        let (n, classes) = (x.len("N"), x.len("C"));
        let of_row = |i: usize| {
            let row: Vec<f64> = (0..classes).map(|j| x.at("logits", i * classes + j)).collect();
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter().map(|v| (v - largest).exp()).sum::<f64>().ln() + largest - row[x.at("true_labels", i) as usize]
        };
        (0..n).map(of_row).sum::<f64>() / n as f64
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["N=1 C=1", "N=2 C=128", "N=3 C=127", "N=7 C=129", "N=5 C=1000", "N=9 C=1025"])
    .perf_at("N=10_000, C=1000")
    .flops(|s| 4.0 * s.size("N") * s.size("C"))
}
