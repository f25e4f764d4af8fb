//! Logistic regression by Newton's method, with a trace of a ridge (1e-6) that decides where the data alone do not.
//!
//! A step solves (XᵀWX + ridge) s = Xᵀ(p − y) + ridge · β. With few features the whole iteration is one launch of one block. Otherwise it
//! is a loop of the program: the launches of a step, then one number read back that says whether to go on.

use super::ordinary_least_squares::{add_outer, add_products, identities, normal_equations, padded, solved, store_behind};
use super::positive_definite::{solve_in_block, solve_system};
use girih::prelude::*;

/// Weight of the ridge.
const RIDGE: f32 = 1e-6;
/// Steps after which the iteration ends in any case.
const STEPS: i32 = 50;
/// The iteration ends when a step is this small beside the solution: steps shrink by squares, so the next one would be below the
/// rounding of f32.
const ENOUGH: f32 = 3e-4;

/// p − y and p · (1 − p) of labels 0 and 1 with these log-odds, to full relative precision: p itself would round to 1.
fn residual_and_weight(odds: Tile<f32>, y: Tile<f32>) -> (Tile<f32>, Tile<f32>) {
    let sign = 2.0 * y - 1.0;
    let e = (-odds.abs()).exp();
    let residual = -sign * (-sign * odds).sigmoid();
    (residual, (e / ((1.0 + e) * (1.0 + e))).max(1e-8))
}

/// Samples that are summed up together.
const ROWS: i32 = 16;

/// All steps in one block, for at most `most` features, which is the size of a tile.
#[device]
fn newton(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, f: TileIdx, (size, most): (Size, i32)) -> Tile<f32> {
    let rows = Size::from(ROWS as usize);
    let at = iota::<i32>(size);
    let diagonal = at.expand(1, size) == at.expand(0, size);
    let features = x.len(1).cast::<i32>().min(most);
    let mut b = zeros::<f32>([size]);
    let mut turns = scalar::<i32>(0);
    let mut far = scalar(true);
    while far && turns < STEPS {
        let mut sums = (select(diagonal, full::<f32>([size, size], RIDGE), 0.0), b * RIDGE);
        for r in x.axis(0).tiles(rows) {
            let here = x.load((r, f));
            let odds = (here * b.expand(0, rows)).sum_axis(1);
            let (residual, weight) = residual_and_weight(odds, y.load(r));
            let mut samples = shared_uninit::<f32>([rows, size]);
            let mut weights = shared_uninit::<f32>([rows]);
            let mut residuals = shared_uninit::<f32>([rows]);
            samples.store((.., ..), here.or(0.0));
            weights.store(.., weight.or(0.0));
            residuals.store(.., residual.or(0.0));
            let left = (x.len(0) - r.start()).cast::<i32>().min(ROWS);
            sums = add_products(sums, &samples, Some(&weights), &residuals, left, size);
        }
        let step = solve_in_block(sums.0, sums.1, features, size, None);
        b = b - step;
        far = (step * step).sum() > (b * b).sum() * (ENOUGH * ENOUGH);
        turns += 1;
    }
    b
}

/// At most 8 features, in a block of one or two warps.
#[kernel(tile(F = 8), threads(N = [32, 64]), cache(H = [Default, Stores]))]
pub fn newton_of_8(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, beta: &mut Tensor<f32, 1>) {
    for f in beta.tiles([F]) {
        beta.store(f, newton(x, y, f, (F, 8)));
    }
}

/// At most 32 features.
#[kernel(tile(F = 32), threads(N = [256, 512, 1024]))]
pub fn newton_of_32(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, beta: &mut Tensor<f32, 1>) {
    for f in beta.tiles([F]) {
        beta.store(f, newton(x, y, f, (F, 32)));
    }
}

/// The rows of one step's right factor: samples times their weights, and the residuals behind them.
#[kernel(tile(R = [1, 2, 4, 8], C = [32, 64, 128, 256]), coarsen(CC of C = [1, 2, 4]))]
pub fn weighted(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, beta: &Tensor<f32, 1>, z: &mut Tensor<f32, 2>) {
    let (mut samples, mut rest) = z.split_at(1, x.len(1));
    for r in x.axis(0).tiles(R) {
        let mut odds = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            odds += x.load((r, c)) * beta.load(c).expand(0, R);
        }
        let (residual, weight) = residual_and_weight(odds.sum_axis(1), y.load(r));
        for c in x.axis(1).tiles(C) {
            samples.store((r, c), x.load((r, c)) * weight.expand(1, C));
        }
        store_behind(&mut rest, r, residual, R);
    }
}

/// Takes a step and says whether it was a long one: 1 in `far`, else 0.
#[kernel(tile(T = [128, 256, 512]))]
pub fn take_step(step: &Tensor<f32, 1>, beta: &mut Tensor<f32, 1>, far: &mut Tensor<i32, 1>) {
    let mut length = zeros::<f32>([T]);
    let mut reach = zeros::<f32>([T]);
    for t in beta.tiles([T]).strided() {
        let s = step.load(t);
        let b = beta.load(t) - s;
        beta.store(t, b);
        length += s * s;
        reach += b * b;
    }
    let (length, reach) = (length.sum(), reach.sum()).commutative().reduce_grid((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    far.store_at(0, (length > reach * (ENOUGH * ENOUGH)).cast::<i32>());
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, beta: &mut Tensor<f32, 1>) {
    let (samples, features) = (x.len(0), x.len(1));
    if features <= 8 && samples <= 128 {
        newton_of_8(x, y, beta);
    } else if features <= 32 && samples <= 128 {
        newton_of_32(x, y, beta);
    } else {
        let mut z = temp([samples, padded(features)]);
        let mut equations = temp([features, padded(features)]);
        let mut step = temp([features]);
        let mut far = temp_filled([1], 1i32);
        beta.fill(0.0);
        let mut turns = scalar::<i32>(0);
        while far.at(0) == 1 && turns < STEPS {
            weighted(x, y, beta, &mut z);
            normal_equations(x, &z, beta, &mut equations, scalar(RIDGE));
            solve_system(&mut equations, &mut step);
            take_step(&step, beta, &mut far);
            turns += 1;
        }
    }
}

girih::challenge! {
    Challenge::new(
        "logistic_regression",
        solve::Program::def,
        "void solve(const float* X[n_samples, n_features], const float* y[n_samples], float* beta[n_features], int n_samples, int n_features)",
    )
    // The judge's input: the identity twice, with labels 0, 1, 0, 1. They are separable, so that the ridge decides.
    .input("X", formula(|lens, i| identities(lens, i, 2)))
    .input("y", formula(|_, i| (i % 2) as f64))
    .output_all("beta", |c| {
        let (samples, features) = (c.len("n_samples"), c.len("n_features"));
        let mut beta = vec![0.0; features];
        for _ in 0..1000 {
            let mut system = vec![vec![0.0; features + 1]; features];
            for r in 0..samples {
                let row: Vec<f64> = (0..features).map(|f| c.at("X", r * features + f)).collect();
                let odds: f64 = row.iter().zip(&beta).map(|(x, b)| x * b).sum();
                let p = 1.0 / (1.0 + (-odds).exp());
                let weight = (p * (1.0 - p)).max(1e-8);
                // The right side is weighted like the rest.
                let target = (p - c.at("y", r)) / weight;
                add_outer(&mut system, &row.into_iter().chain([target]).collect::<Vec<_>>(), weight);
            }
            for (f, equation) in system.iter_mut().enumerate() {
                equation[f] += RIDGE as f64;
                equation[features] += RIDGE as f64 * beta[f];
            }
            let step = solved(system);
            beta.iter_mut().zip(&step).for_each(|(b, s)| *b -= s);
            if step.iter().map(|s| s * s).sum::<f64>().sqrt() < 1e-8 {
                break;
            }
        }
        beta
    })
    .tolerance(1e-2, 1e-2)
    .check_at([
        "n_samples=1 n_features=1",
        "n_samples=16 n_features=8",
        "n_samples=37 n_features=5",
        "n_samples=21 n_features=9",
        "n_samples=129 n_features=1",
        "n_samples=140 n_features=12",
        "n_samples=66 n_features=33",
    ])
    .perf_at("n_samples=16, n_features=8")
    .flops(|s| 2.0 * s.size("n_samples") * s.size("n_features").powi(2))
}
