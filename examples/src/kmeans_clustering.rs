//! K-means in the plane: so many rounds of Lloyd's, ties to the centroid with the lowest number, empty clusters stay where they are.
//!
//! With up to 8 clusters all rounds of a few blocks' points are one launch: each block keeps its points in registers, leaves its sums by clusters,
//! meets the others, and moves the centroids itself by what all have left. Where there are more points a round is one launch, whose last block
//! moves the centroids. More clusters take two launches, the second with a block for each cluster.

use girih::prelude::*;

/// The centroid that is nearest to each point.
#[device]
fn nearest(x: Tile<f32>, y: Tile<f32>, cx: &Tensor<f32, 1>, cy: &Tensor<f32, 1>) -> Tile<i32> {
    cx.same_shape(cy);
    let mut best = (x.like(f32::INFINITY), x.like(0.0).cast::<i32>());
    for c in 0..cx.len(0).cast::<i32>() {
        let (dx, dy) = (x - cx.at(c), y - cy.at(c));
        let distance = dx * dx + dy * dy;
        let nearer = distance < best.0;
        best = (select(nearer, distance, best.0), select(nearer, c, best.1));
    }
    best.1
}

/// Points of a block that does all rounds.
const POINTS: i64 = 128;
/// Blocks that every GPU holds at once.
const MOST_BLOCKS: i64 = 256;

/// What blocks keep and leave in a round.
struct Round {
    /// The block's points.
    points: (Tile<f32>, Tile<f32>),
    /// The block's number.
    block: Scalar<i64>,
    /// Centroids where every thread finds them.
    near: (Shared<f32>, Shared<f32>),
    /// Points and blocks that a tile has.
    sizes: [Size; 2],
}

#[device]
impl Round {
    /// The nearest of 8 centroids to each point, and in `parts` the sums of x, of y and the number of members by cluster.
    fn leave(&mut self, at: (Tile<f32>, Tile<f32>), parts: &mut Tensor<f32, 3>) -> Tile<i32> {
        let (x, y) = self.points;
        let points = self.sizes[0];
        self.near.0.store(.., at.0);
        self.near.1.store(.., at.1);
        let mut best = (x.like(f32::INFINITY), x.like(0.0).cast::<i32>());
        for c in 0..8 {
            let (dx, dy) = (x - self.near.0.at(c), y - self.near.1.at(c));
            let distance = dx * dx + dy * dy;
            let nearer = distance < best.0;
            best = (select(nearer, distance, best.0), select(nearer, scalar(c), best.1));
        }
        let c = iota::<i32>(8);
        let own = best.1.expand(0, 8) == c.expand(1, points);
        let of = |v: Tile<f32>| select(own, v.expand(0, 8), 0.0);
        let sums = (of(x), of(y), of(x.like(1.0))).commutative();
        let (sum_x, sum_y, members) = sums.reduce_axis(1, (0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
        parts.scatter((0, c, self.block), sum_x);
        parts.scatter((1, c, self.block), sum_y);
        parts.scatter((2, c, self.block), members);
        best.1
    }

    /// The centroids' next places, by what all blocks have left.
    fn moved(&self, at: (Tile<f32>, Tile<f32>), parts: &Tensor<f32, 3>) -> (Tile<f32>, Tile<f32>) {
        let blocks = self.sizes[1];
        let none = || zeros::<f32>([Size::from(8), blocks]);
        let (mut sum_x, mut sum_y, mut members) = (none(), none(), none());
        for p in parts.axis(2).tiles(blocks) {
            sum_x += parts.load((0, ..8, p));
            sum_y += parts.load((1, ..8, p));
            members += parts.load((2, ..8, p));
        }
        let sums = (sum_x, sum_y, members).commutative();
        let (sum_x, sum_y, members) = sums.reduce_axis(1, (0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
        (select(members > 0.0, sum_x / members, at.0), select(members > 0.0, sum_y / members, at.1))
    }
}

/// All rounds with up to 8 clusters, each block 128 points. `even` and `odd` take turns as what blocks leave in a round, `[3, 8, blocks]`, so that one
/// meeting a round is enough.
#[kernel(tile(T = 128, P = 128), coarsen(C of T = [1, 2, 4]))]
pub fn rounds_of_8(
    x: &Tensor<f32, 1>,
    y: &Tensor<f32, 1>,
    from_x: &Tensor<f32, 1>,
    from_y: &Tensor<f32, 1>,
    even: &mut Tensor<f32, 3>,
    odd: &mut Tensor<f32, 3>,
    labels: &mut Tensor<i32, 1>,
    to_x: &mut Tensor<f32, 1>,
    to_y: &mut Tensor<f32, 1>,
    rounds: Scalar<i32>,
) {
    for t in labels.tiles([T]) {
        let mut round = Round {
            points: (x.load(t), y.load(t)),
            block: t.number(),
            near: (shared_uninit::<f32>([8]), shared_uninit::<f32>([8])),
            sizes: [T, P],
        };
        let c = iota::<i32>(8);
        // What is no centroid is infinitely far away.
        let mut at = (from_x.gather(c).or(f32::INFINITY), from_y.gather(c).or(f32::INFINITY));
        let mut label = full::<i32>([T], 0);
        for _ in 0..rounds / 2 {
            label = round.leave(at, even);
            grid_barrier();
            at = round.moved(at, even);
            label = round.leave(at, odd);
            grid_barrier();
            at = round.moved(at, odd);
        }
        if rounds % 2 == 1 {
            label = round.leave(at, even);
            grid_barrier();
            at = round.moved(at, even);
        }
        labels.store(t, label);
        if t.number() == 0 {
            to_x.scatter(c, at.0);
            to_y.scatter(c, at.1);
        }
    }
}

/// A round with up to 8 clusters.
#[kernel(
    tile(T = [128, 64, 256, 512], K = 8),
    coarsen(C of T = [1, 2, 4]),
    grid(G = [1, 2]),
    finish(F = [LastBlock, SecondLaunch])
)]
pub fn round_of_8(
    x: &Tensor<f32, 1>,
    y: &Tensor<f32, 1>,
    from_x: &Tensor<f32, 1>,
    from_y: &Tensor<f32, 1>,
    labels: &mut Tensor<i32, 1>,
    to_x: &mut Tensor<f32, 1>,
    to_y: &mut Tensor<f32, 1>,
) {
    let (mut sum_x, mut sum_y, mut members) = (zeros::<f32>([K]), zeros::<f32>([K]), zeros::<f32>([K]));
    for t in x.tiles([T]).strided() {
        let (x, y) = (x.load(t), y.load(t));
        let label = nearest(x, y, from_x, from_y);
        labels.store(t, label);
        let own = label.expand(0, K) == iota::<i32>(K).expand(1, T);
        sum_x += select(own, x.expand(0, K), 0.0).sum_axis(1);
        sum_y += select(own, y.expand(0, K), 0.0).sum_axis(1);
        members += select(own, x.like(1.0).expand(0, K), 0.0).sum_axis(1);
    }
    let sums = (sum_x, sum_y, members).commutative();
    let (sum_x, sum_y, members) = sums.reduce_grid((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let c = iota::<i32>(K);
    to_x.scatter(c, select(members > 0.0, sum_x / members, from_x.gather(c)));
    to_y.scatter(c, select(members > 0.0, sum_y / members, from_y.gather(c)));
}

/// The labels of a round.
#[kernel(tile(T = [128, 256, 64]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn assign(x: &Tensor<f32, 1>, y: &Tensor<f32, 1>, from_x: &Tensor<f32, 1>, from_y: &Tensor<f32, 1>, labels: &mut Tensor<i32, 1>) {
    for t in labels.tiles([T]) {
        labels.store(t, nearest(x.load(t), y.load(t), from_x, from_y));
    }
}

/// The means of each cluster's members.
#[kernel(tile(K = 1, T = [1024, 512, 2048]), coarsen(C of T = [4, 2, 8]), vector(V = [1, 2, 4]))]
pub fn means(
    x: &Tensor<f32, 1>,
    y: &Tensor<f32, 1>,
    labels: &Tensor<i32, 1>,
    from_x: &Tensor<f32, 1>,
    from_y: &Tensor<f32, 1>,
    to_x: &mut Tensor<f32, 1>,
    to_y: &mut Tensor<f32, 1>,
) {
    for c in to_x.tiles([K]) {
        let (mut sum_x, mut sum_y, mut members) = (zeros::<f32>([T]), zeros::<f32>([T]), zeros::<f32>([T]));
        for t in x.axis(0).tiles(T) {
            let own = labels.load(t) == c.number().cast::<i32>();
            sum_x += select(own, x.load(t), 0.0);
            sum_y += select(own, y.load(t), 0.0);
            members += select(own, full::<f32>([T], 1.0), 0.0);
        }
        let (sum_x, sum_y, members) = (sum_x.sum(), sum_y.sum(), members.sum());
        to_x.store(c, select(members > 0.0, (sum_x / members).splat([K]), from_x.load(c)));
        to_y.store(c, select(members > 0.0, (sum_y / members).splat([K]), from_y.load(c)));
    }
}

/// One round: labels by the centroids so far, and the next ones.
#[program]
pub fn round(
    x: &Tensor<f32, 1>,
    y: &Tensor<f32, 1>,
    from_x: &Tensor<f32, 1>,
    from_y: &Tensor<f32, 1>,
    labels: &mut Tensor<i32, 1>,
    to_x: &mut Tensor<f32, 1>,
    to_y: &mut Tensor<f32, 1>,
) {
    if from_x.len(0) <= 8 {
        round_of_8(x, y, from_x, from_y, labels, to_x, to_y);
    } else {
        assign(x, y, from_x, from_y, labels);
        means(x, y, labels, from_x, from_y, to_x, to_y);
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    data_x: &Tensor<f32, 1>,
    data_y: &Tensor<f32, 1>,
    labels: &mut Tensor<i32, 1>,
    initial_x: &Tensor<f32, 1>,
    initial_y: &Tensor<f32, 1>,
    final_x: &mut Tensor<f32, 1>,
    final_y: &mut Tensor<f32, 1>,
    max_iterations: Scalar<i32>,
) {
    let blocks = (data_x.len(0) + (POINTS - 1)) / POINTS;
    if initial_x.len(0) <= 8 && blocks <= MOST_BLOCKS && max_iterations > 0 && variant("rounds in one launch") {
        let (mut even, mut odd) = (temp((3, 8, blocks)), temp((3, 8, blocks)));
        rounds_of_8(data_x, data_y, initial_x, initial_y, &mut even, &mut odd, labels, final_x, final_y, max_iterations);
    } else {
        let k = initial_x.len(0);
        let (mut odd_x, mut odd_y) = (temp([k]), temp([k]));
        final_x.copy_from(initial_x);
        final_y.copy_from(initial_y);
        for _ in 0..max_iterations / 2 {
            round(data_x, data_y, final_x, final_y, labels, &mut odd_x, &mut odd_y);
            round(data_x, data_y, &odd_x, &odd_y, labels, final_x, final_y);
        }
        if max_iterations % 2 == 1 {
            round(data_x, data_y, final_x, final_y, labels, &mut odd_x, &mut odd_y);
            final_x.copy_from(&odd_x);
            final_y.copy_from(&odd_y);
        }
    }
}

/// The last labels, and the centroids, x before y.
fn lloyd(case: &girih::challenge::Case) -> (Vec<f64>, [Vec<f64>; 2]) {
    let (n, k) = (case.len("sample_size"), case.len("k"));
    let read = |name, n| (0..n).map(|i| case.at(name, i)).collect::<Vec<f64>>();
    let points = [read("data_x", n), read("data_y", n)];
    let mut centroids = [read("initial_centroid_x", k), read("initial_centroid_y", k)];
    let mut labels = vec![0; n];
    for _ in 0..case.len("max_iterations") {
        for (i, label) in labels.iter_mut().enumerate() {
            let distance = |c: &usize| (0..2).map(|a: usize| (points[a][i] - centroids[a][*c]).powi(2)).sum::<f64>();
            *label = (0..k).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap();
        }
        for c in 0..k {
            let members: Vec<usize> = (0..n).filter(|i| labels[*i] == c).collect();
            if members.is_empty() {
                continue;
            }
            for (axis, own) in points.iter().zip(&mut centroids) {
                own[c] = members.iter().map(|i| axis[*i]).sum::<f64>() / members.len() as f64;
            }
        }
    }
    (labels.into_iter().map(|l| l as f64).collect(), centroids)
}

girih::challenge! {
    Challenge::new(
        "kmeans_clustering",
        solve::Program::def,
        "void solve(const float* data_x[sample_size], const float* data_y[sample_size], int* labels[sample_size], \
         const float* initial_centroid_x[k], const float* initial_centroid_y[k], float* final_centroid_x[k], float* final_centroid_y[k], \
         int sample_size, int k, int max_iterations)",
    )
    .input("data_x", uniform(0.0, 1000.0))
    .input("data_y", uniform(0.0, 1000.0))
    .input("initial_centroid_x", formula(|_, i| 100.0 * (i as f64 + 1.0)))
    .input("initial_centroid_y", formula(|_, i| 100.0 * (i as f64 + 1.0)))
    .output_all("labels", |x| lloyd(x).0)
    .output_all("final_centroid_x", |x| lloyd(x).1[0].clone())
    .output_all("final_centroid_y", |x| lloyd(x).1[1].clone())
    .tolerance(1e-4, 1e-4)
    .check_at([
        "sample_size=1 k=1 max_iterations=1",
        "sample_size=2 k=5 max_iterations=3",
        "sample_size=257 k=8 max_iterations=4",
        "sample_size=300 k=3 max_iterations=5",
        "sample_size=131 k=9 max_iterations=3",
    ])
    .perf_at("sample_size=10_000, k=5, max_iterations=30")
    .flops(|s| 5.0 * s.size("sample_size") * s.size("k") * s.size("max_iterations"))
}
