//! Least squares by the normal equations: (XᵀX) β = Xᵀy.
//!
//! Few features: everything happens in one block, in one launch. Otherwise the equations are a product of matrices, whose sums blocks
//! share, and the system, which is positive definite, is eliminated without pivoting, 32 columns per launch; the launches depend on
//! sizes alone, so the host is never waited for.

use super::positive_definite::{solve_in_block, solve_system};
use girih::inputs::Rng;
use girih::prelude::*;

/// Adds weighted products of rows of `samples` with themselves and with `targets` to a system.
#[device]
pub fn add_products(
    (gram, right): (Tile<f32>, Tile<f32>),
    samples: &Shared<f32>,
    weights: Option<&Shared<f32>>,
    targets: &Shared<f32>,
    rows: Scalar<i32>,
    size: Size,
) -> (Tile<f32>, Tile<f32>) {
    let at = iota::<i32>(size);
    let (row, col) = (at.expand(1, size), at.expand(0, size));
    let (mut gram, mut right) = (gram, right);
    for group in 0..(rows + 7) / 8 {
        for k in 0..8i32 {
            let sample = group * 8 + k;
            let mut left = samples.gather((sample, row));
            if let Some(weights) = weights {
                left = left * weights.at(sample);
            }
            gram = left.fma(samples.gather((sample, col)), gram);
            right = samples.gather((sample, at)).fma(targets.at(sample).splat([size]), right);
        }
    }
    (gram, right)
}

/// At most 32 features: one block sums and solves.
#[kernel(tile(F = 32), threads(N = [256, 512, 1024]))]
pub fn least_squares_in_block(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, beta: &mut Tensor<f32, 1>) {
    const ROWS: i32 = 32;
    let rows = Size::from(ROWS as usize);
    for f in beta.tiles([F]) {
        let mut sums = (zeros::<f32>([F, F]), zeros::<f32>([F]));
        for r in x.axis(0).tiles(rows) {
            let mut samples = shared::<f32>([rows, F], 0.0);
            let mut targets = shared::<f32>([rows], 0.0);
            samples.store((.., ..), x.load((r, f)));
            targets.store(.., y.load(r));
            let left = (x.len(0) - r.start()).cast::<i32>().min(ROWS);
            sums = add_products(sums, &samples, None, &targets, left, F);
        }
        beta.store(f, solve_in_block(sums.0, sums.1, x.len(1).cast::<i32>().min(32), F, None));
    }
}

/// Rows of a matrix and its right side have a multiple of so many columns: they are aligned for wide accesses.
const WIDE: i64 = 4;

/// Columns of a matrix with a right side behind its `features` columns, and zeros behind that.
pub fn padded(features: Scalar<i64>) -> Scalar<i64> {
    (features + WIDE) / WIDE * WIDE
}

/// Stores what is behind a matrix' own columns: a right side, and zeros.
#[device]
pub fn store_behind(columns: &mut Tensor<f32, 2>, r: TileIdx, right: Tile<f32>, rows: Size) {
    let width = Size::from(WIDE as usize);
    for c in columns.axis(1).tiles(width) {
        columns.store((r, c), select((c.coords() == 0).expand(0, rows), right.expand(1, width), 0.0));
    }
}

/// The samples with their targets behind them.
#[kernel(tile(R = [1, 2, 4], C = [32, 64, 128, 256]), coarsen(CC of C = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn with_targets(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 2>) {
    let (mut samples, mut rest) = z.split_at(1, x.len(1));
    for r in x.axis(0).tiles(R) {
        for c in x.axis(1).tiles(C) {
            samples.store((r, c), x.load((r, c)));
        }
        store_behind(&mut rest, r, y.load(r), R);
    }
}

/// Xᵀ · Z, and what pulls the solution towards zero: `ridge` on the diagonal, `ridge` · `beta` in the column behind the square.
#[kernel(
    tile(BM = [32, 64], BN = [32, 64], BK = [32, 16]),
    coarsen(TM of BM = [4, 8, 1], TN of BN = [4, 8, 1]),
    vector(V = [4, 1]),
    operands(O = [Shared, Direct]),
    stages(S = [2, 3, 1]),
    copy(P = [Async, Registers]),
    split(Z = [8, 16, 32, 4, 1])
)]
pub fn normal_equations(x: &Tensor<f32, 2>, z: &Tensor<f32, 2>, beta: &Tensor<f32, 1>, system: &mut Tensor<f32, 2>, ridge: Scalar<f32>) {
    // A launch with fewer samples or features than it needs is refused.
    let x = x.slice(1, 0, system.len(0));
    let z = z.slice(0, 0, x.len(0)).slice(1, 0, system.len(1));
    for (i, j) in system.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in x.axis(0).tiles(BK) {
            acc = dot(x.load((k, i)).t(), z.load((k, j)), acc);
        }
        let (row, col) = (i.coords().expand(1, BN), j.coords().expand(0, BM));
        let pull = select(col == system.len(0), beta.load(i).expand(1, BN), select(row == col, acc.like(1.0), acc.like(0.0)));
        system.store((i, j), acc + ridge * pull);
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, beta: &mut Tensor<f32, 1>) {
    let (samples, features) = (x.len(0), x.len(1));
    if features <= 32 && samples <= 4096 {
        least_squares_in_block(x, y, beta);
    } else {
        let mut z = temp([samples, padded(features)]);
        let mut equations = temp([features, padded(features)]);
        let nothing = temp_filled([features], 0.0f32);
        with_targets(x, y, &mut z);
        normal_equations(x, &z, &nothing, &mut equations, scalar(0.0f32));
        solve_system(&mut equations, beta);
    }
}

/// The identity, repeated downwards; noise on top of it below the first `clean` copies.
pub fn identities(lens: &[i64], i: usize, clean: i64) -> f64 {
    let (row, col) = (i as i64 / lens[1], i as i64 % lens[1]);
    let noise = if row < clean * lens[1] { 0.0 } else { Rng::new(i as u64).unit() - 0.5 };
    noise + f64::from(row % lens[1] == col)
}

girih::challenge! {
    Challenge::new(
        "ordinary_least_squares",
        solve::Program::def,
        "void solve(const float* X[n_samples, n_features], const float* y[n_samples], float* beta[n_features], int n_samples, int n_features)",
    )
    // The judge's input is the identity with targets of 1.
    .input("X", formula(|lens, i| identities(lens, i, 1)))
    .input("y", formula(|lens, i| if lens[0] == 32 { 1.0 } else { Rng::new(!(i as u64)).normal() }))
    .output_all("beta", |c| {
        let (samples, features) = (c.len("n_samples"), c.len("n_features"));
        let mut system = vec![vec![0.0; features + 1]; features];
        for r in 0..samples {
            let row: Vec<f64> = (0..features).map(|f| c.at("X", r * features + f)).chain([c.at("y", r)]).collect();
            add_outer(&mut system, &row, 1.0);
        }
        solved(system)
    })
    .tolerance(1e-2, 1e-2)
    .check_at([
        "n_samples=1 n_features=1",
        "n_samples=7 n_features=5",
        "n_samples=32 n_features=32",
        "n_samples=67 n_features=31",
        "n_samples=53 n_features=33",
        "n_samples=75 n_features=65",
    ])
    .perf_at("n_samples=32, n_features=32")
    .flops(|s| s.size("n_samples") * s.size("n_features").powi(2) + s.size("n_features").powi(3) / 3.0)
}

/// Adds a weighted product of a row with itself to a system with its right side: the row's last element is the target.
pub fn add_outer(system: &mut [Vec<f64>], row: &[f64], weight: f64) {
    for (f, equation) in system.iter_mut().enumerate() {
        equation.iter_mut().zip(row).for_each(|(e, v)| *e += weight * row[f] * v);
    }
}

/// The solution of a positive definite system with its right side as a last column.
pub fn solved(mut system: Vec<Vec<f64>>) -> Vec<f64> {
    let count = system.len();
    for p in 0..count {
        let pivot = system[p].clone();
        for (_, row) in system.iter_mut().enumerate().filter(|(i, _)| *i != p) {
            let factor = row[p] / pivot[p];
            row.iter_mut().zip(&pivot).for_each(|(r, v)| *r -= factor * v);
        }
    }
    (0..count).map(|i| system[i][count] / system[i][i]).collect()
}
