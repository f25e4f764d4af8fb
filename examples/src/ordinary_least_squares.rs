//! Least squares by the normal equations: (XᵀX) β = Xᵀy.
//!
//! Few features: everything happens in one block, in one launch. Otherwise the sums over samples are cut into chunks that run at the
//! same time, and the system, which is positive definite, is eliminated without pivoting, a column per launch; the launches depend on
//! sizes alone, so the host is never waited for.

use girih::inputs::Rng;
use girih::prelude::*;

/// Into how many chunks the samples are cut.
const CHUNKS: i64 = 32;

/// The solution of a positive definite system of a block's own, by elimination through shared memory: a pivot's row and column are read
/// from where all threads have put their elements. Two arrays take turns, so that the block meets once per pivot.
#[device]
pub fn solve_in_block(matrix: Tile<f32>, right: Tile<f32>, count: Scalar<i32>, size: Size) -> Tile<f32> {
    let at = iota::<i32>(size);
    let (row, col) = (at.expand(1, size), at.expand(0, size));
    // Rows that are not there get a pivot of 1, so that an odd number of them does no harm.
    let mut m = select(row == col && row >= count, 1.0, matrix);
    let mut b = right;
    let mut even = shared::<f32>([size, size + 1], 0.0);
    let mut odd = shared::<f32>([size, size + 1], 0.0);
    let mut even_right = shared::<f32>([size], 0.0);
    let mut odd_right = shared::<f32>([size], 0.0);
    let mut turns = [(&mut even, &mut even_right), (&mut odd, &mut odd_right)];
    for half in 0..(count + 1) / 2 {
        for (k, (system, rights)) in turns.iter_mut().enumerate() {
            let p = half * 2 + k as i32;
            system.scatter((row, col), m);
            rights.scatter(at, b);
            let inverse = 1.0 / system.at((p, p));
            let factor = select(row == p, 0.0, system.gather((row, p)) * inverse);
            let below = select(at == p, 0.0, system.gather((at, p)) * inverse);
            m = m - factor * system.gather((p, col));
            b = b - below * rights.at(p);
        }
    }
    even.scatter((row, col), m);
    b / even.gather((at, at))
}

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
        beta.store(f, solve_in_block(sums.0, sums.1, x.len(1).cast::<i32>().min(32), F));
    }
}

/// The samples with their targets as a last column.
#[kernel(tile(R = [1, 2, 4], C = [32, 64, 128, 256]), coarsen(CC of C = [1, 2, 4]))]
pub fn with_targets(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 2>) {
    let (mut samples, mut targets) = z.split_at(1, x.len(1));
    for r in x.axis(0).tiles(R) {
        for c in x.axis(1).tiles(C) {
            samples.store((r, c), x.load((r, c)));
        }
        targets.store((r, 0), y.load(r));
    }
}

/// Xᵀ · Z over each chunk of the samples.
#[kernel(tile(R = [32, 64], C = [32, 64]), coarsen(CR of R = [2, 4, 8], CC of C = [2, 4]), vector(V = [1, 2, 4]))]
pub fn chunk_products(x: &Tensor<f32, 2>, z: &Tensor<f32, 2>, products: &mut Tensor<f32, 3>) {
    let samples = x.len(0);
    // As many rows as samples: a launch with fewer is refused.
    let z = z.slice(0, 0, samples);
    let share = (samples + CHUNKS - 1) / CHUNKS;
    let one = Size::from(1);
    for (s, i, j) in products.tiles([one, R, C]) {
        let mut acc = zeros::<f32>([R, C]);
        for group in 0..(share + 3) / 4 {
            // Four samples at a time, so that their loads are in flight together; past the chunk's end they weigh nothing.
            for k in 0..4i64 {
                let within = group * 4 + k;
                let sample = s.number() * share + within;
                let weight = if within < share && sample < samples { 1.0f32 } else { 0.0f32 };
                let sample = sample.min(samples - 1);
                let left = x.load((sample, i)) * weight;
                acc = left.expand(1, C).fma(z.load((sample, j)).expand(0, R), acc);
            }
        }
        products.store((s, i, j), acc.expand(0, 1));
    }
}

/// The chunks' products together, and what pulls the solution towards zero: `ridge` on the diagonal, `ridge` · `beta` on the right.
#[kernel(tile(R = [1, 2, 4], C = [32, 64, 128]), vector(V = [1, 2, 4]))]
pub fn system(products: &Tensor<f32, 3>, beta: &Tensor<f32, 1>, system: &mut Tensor<f32, 2>, ridge: Scalar<f32>) {
    // A launch without all chunks is refused.
    let products = products.slice(0, 0, CHUNKS);
    for (i, j) in system.tiles([R, C]) {
        let mut acc = zeros::<f32>([R, C]);
        for s in 0..CHUNKS as usize {
            acc = acc + products.load((s, i, j));
        }
        let (row, col) = (i.coords().expand(1, C), j.coords().expand(0, R));
        let pull = select(col == products.len(1), beta.load(i).expand(1, C), select(row == col, acc.like(1.0), acc.like(0.0)));
        system.store((i, j), acc + ridge * pull);
    }
}

/// One step of elimination: column `p` vanishes but for its diagonal element.
#[kernel(tile(R = [1, 2, 4, 8], C = [32, 64, 128, 256]), coarsen(CC of C = [1, 2, 4]))]
pub fn eliminate(from: &Tensor<f32, 2>, to: &mut Tensor<f32, 2>, p: Scalar<i64>) {
    let pivot = from.at((p, p));
    for (i, j) in to.tiles([R, C]) {
        let here = from.load((i, j));
        let factor = (from.load((i, p)) / pivot).expand(1, C);
        let reduced = here - factor * from.load((p, j)).expand(0, R);
        to.store((i, j), select((i.coords() == p).expand(1, C), here, reduced));
    }
}

/// The solution of a diagonal system whose right side is its last column.
#[kernel(tile(T = [32, 64, 128]))]
pub fn diagonal_solution(system: &Tensor<f32, 2>, beta: &mut Tensor<f32, 1>) {
    // A launch without a right side is refused.
    let system = system.slice(1, 0, system.len(0) + 1);
    for t in beta.tiles([T]) {
        let at = t.coords();
        beta.store(t, system.load((t, system.len(0))) / system.gather((at, at)));
    }
}

/// Solves a positive definite system whose right side is its last column. The system is used up.
#[program]
pub fn solve_system(system: &mut Tensor<f32, 2>, solution: &mut Tensor<f32, 1>) {
    let count = system.len(0);
    let mut other = temp([count, count + 1]);
    for half in 0..(count + 1) / 2 {
        let p = half * 2;
        eliminate(system, &mut other, p);
        if p + 1 < count {
            eliminate(&other, system, p + 1);
        } else {
            system.copy_from(&other);
        }
    }
    diagonal_solution(system, solution);
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, y: &Tensor<f32, 1>, beta: &mut Tensor<f32, 1>) {
    let (samples, features) = (x.len(0), x.len(1));
    if features <= 32 && samples <= 4096 {
        least_squares_in_block(x, y, beta);
    } else {
        let mut z = temp([samples, features + 1]);
        let mut products = temp([scalar(CHUNKS), features, features + 1]);
        let mut equations = temp([features, features + 1]);
        let nothing = temp_filled([features], 0.0f32);
        with_targets(x, y, &mut z);
        chunk_products(x, &z, &mut products);
        system(&products, &nothing, &mut equations, scalar(0.0f32));
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
