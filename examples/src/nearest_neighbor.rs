//! The nearest other point of each of N points in space; the lowest number wins a tie.
//!
//! A block compares some points with all others, a tile of them at a time: a thread has a few pairs, so that each coordinate is read from
//! shared memory once for several distances. Distances are sums of squared differences, as the judge computes them: the cheaper
//! |a|² + |b|² − 2ab rounds otherwise and elects other winners.

use girih::prelude::*;

/// indices\[i\] = the point nearest to point i. A block has I points, and walks all points, J at a time.
#[kernel(
    tile(I = [32, 16, 64, 128], J = [64, 32, 128, 256]),
    coarsen(CI of I = [4, 2, 8], CJ of J = [2, 1, 4]),
    rows(L = [Shared, Direct]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async])
)]
pub fn nearest(points: &Tensor<f32, 2>, indices: &mut Tensor<i32, 1>) {
    for i in indices.tiles([I]) {
        let [px, py, pz] = points.load((i, ..3)).unstack();
        let me = i.coords().cast::<i32>();
        let mut least = full::<f32>([I, J], f32::INFINITY);
        let mut at = full::<i32>([I, J], i32::MAX);
        for j in points.axis(0).tiles(J) {
            let [qx, qy, qz] = points.load((j, ..3)).unstack();
            let dx = px.expand(1, J) - qx.expand(0, I);
            let dy = py.expand(1, J) - qy.expand(0, I);
            let dz = pz.expand(1, J) - qz.expand(0, I);
            let d = dx * dx + dy * dy + dz * dz;
            let other = j.coords().cast::<i32>().expand(0, I);
            // Only a tile on the diagonal holds the point itself.
            if j.start() < i.end() && i.start() < j.end() {
                let closer = d < least && other != me.expand(1, J);
                least = select(closer, d, least);
                at = select(closer, other, at);
            } else {
                let closer = d < least;
                least = select(closer, d, least);
                at = select(closer, other, at);
            }
        }
        let (_, at) = least.arg_min_axis(1, at);
        indices.store(i, select(at == i32::MAX, 0, at));
    }
}

/// What the judge calls.
#[program]
pub fn solve(points: &Tensor<f32, 2>, indices: &mut Tensor<i32, 1>) {
    nearest(points, indices);
}

girih::challenge! {
    Challenge::new(
        "nearest_neighbor",
        solve::Program::def,
        "void solve(const float* points[N, 3], int* indices[N], int N)",
    )
    // Few points lie on a small lattice, so that there are exact ties.
    .input("points", formula(|lens, i| {
        let h = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let u = (h >> 40) as f64 / (1u64 << 24) as f64;
        if lens[0] < 500 { (u * 5.0).floor() } else { u * 2000.0 - 1000.0 }
    }))
    .output("indices", |x, i| {
        let n = x.len("N");
        let p = |j: usize, k: usize| x.at("points", j * 3 + k) as f32;
        let mut best = (f32::INFINITY, 0usize);
        for j in (0..n).filter(|&j| j != i) {
            let (a, b, c) = (p(i, 0) - p(j, 0), p(i, 1) - p(j, 1), p(i, 2) - p(j, 2));
            let d = a * a + b * b + c * c;
            if d < best.0 {
                best = (d, j);
            }
        }
        best.1 as f64
    })
    .check_at(["N=0", "N=1", "N=2", "N=4", "N=31", "N=257", "N=499", "N=1025"])
    .perf_at("N=10_000")
    .flops(|s| 8.0 * s.size("N") * s.size("N"))
}
