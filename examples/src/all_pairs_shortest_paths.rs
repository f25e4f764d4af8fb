//! All pairs' shortest paths by Floyd and Warshall, 64 intermediate nodes at a time.
//!
//! A round closes the square of its nodes in one block, joins it with their rows and their columns, and then relaxes all pairs by paths
//! through these: products of matrices in which + is a minimum and · is a sum, from registers and shared memory.

use girih::inputs::Rng;
use girih::prelude::*;

/// Intermediate nodes of a round.
const SIDE: i64 = 64;
/// Elements from one row of `left` in shared memory to the next: rows begin in different banks, and at multiples of 16 bytes.
const APART: i64 = SIDE + 4;

/// The shortest paths inside of a square of at most 64 nodes; infinite beyond it.
#[kernel(tile(R = 64, C = 64), coarsen(CR of R = [4, 8], CC of C = [1, 2]))]
pub fn close_square(square: &Tensor<f32, 2>, closed: &mut Tensor<f32, 2>) {
    for (r, c) in closed.tiles([R, C]) {
        let (row, column) = (r.coords().expand(1, C), c.coords().expand(0, R));
        let mut even = shared::<f32>([R, C], f32::INFINITY);
        let mut odd = shared::<f32>([R, C], f32::INFINITY);
        even.scatter((row, column), square.gather((row, column)));
        let mut paths = even.load((.., ..));
        for pair in 0..(square.len(0).cast::<i32>() + 1) / 2 {
            let k = pair * 2;
            paths = paths.min(even.load((.., k)).expand(1, C) + even.load((k, ..)).expand(0, R));
            odd.store((.., ..), paths);
            paths = paths.min(odd.load((.., k + 1)).expand(1, C) + odd.load((k + 1, ..)).expand(0, R));
            even.store((.., ..), paths);
        }
        closed.store((r, c), paths);
    }
}

/// The shortest ways from rows of `a` to columns of `b` through the `width` nodes between them, if shorter than what there is.
#[device]
fn through(
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    (m, n): (TileIdx, TileIdx),
    (rows, columns): (Size, Size),
    width: Scalar<i64>,
    paths: Tile<f32>,
) -> Tile<f32> {
    let side = Size::from(SIDE as usize);
    let mut left = shared_uninit::<f32>([rows * APART]);
    let mut right = shared_uninit::<f32>([side, columns]);
    let to = a.gather((m.coords().expand(1, side), iota::<i64>(side).expand(0, rows))).or(f32::INFINITY);
    left.scatter((iota::<i32>(rows) * APART as i32).expand(1, side) + iota::<i32>(side).expand(0, rows), to);
    right.store((.., ..), b.gather((iota::<i64>(side).expand(1, columns), n.coords().expand(0, side))).or(f32::INFINITY));
    let mut paths = paths;
    for four in 0..(width.cast::<i32>() + 3) / 4 {
        // Below 64, as nobody need look.
        let first = (four * 4) & (SIDE as i32 - 4);
        let ways = left.gather_run(4, iota::<i32>(rows) * APART as i32 + first);
        for k in 0..4 {
            paths = paths.min(ways.pick(0, k).expand(1, columns) + right.load((first + k as i32, ..)).expand(0, rows));
        }
    }
    paths
}

/// The rows or the columns of a round, joined with its closed square.
#[kernel(tile(BM = [64, 32], BN = [64, 32]), coarsen(TM of BM = [4, 2, 8], TN of BN = [4, 2, 1]), vector(V = [4, 2, 1]))]
pub fn join_paths(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, joined: &mut Tensor<f32, 2>, width: Scalar<i64>) {
    for (m, n) in joined.tiles([BM, BN]) {
        joined.store((m, n), through(a, b, (m, n), (BM, BN), width, full([BM, BN], f32::INFINITY)));
    }
}

/// All pairs, relaxed by paths through the nodes of a round.
#[kernel(
    tile(BM = [64, 128], BN = [64, 128]),
    coarsen(TM of BM = [8, 4], TN of BN = [4, 8]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [2, 4, 1])
)]
pub fn relax(to: &Tensor<f32, 2>, from: &Tensor<f32, 2>, paths: &mut Tensor<f32, 2>, width: Scalar<i64>) {
    for (m, n) in paths.tiles([BM, BN]) {
        paths.store((m, n), through(to, from, (m, n), (BM, BN), width, paths.load((m, n))));
    }
}

/// What the judge calls.
#[program]
pub fn solve(dist: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let n = dist.len(0);
    let mut closed = temp((SIDE, SIDE));
    let (mut columns, mut rows) = (temp((n, SIDE)), temp((SIDE, n)));
    output.copy_from(dist);
    for round in 0..(n + SIDE - 1) / SIDE {
        let first = round * SIDE;
        let width = (n - first).min(SIDE);
        close_square(&output.slice(0, first, width).slice(1, first, width), &mut closed);
        join_paths(&closed, &output.slice(0, first, width), &mut rows, width);
        join_paths(&output.slice(1, first, width), &closed, &mut columns, width);
        relax(&columns, &rows, output, width);
    }
}

/// The judge's graph: three edges in ten are there, each of a length from 0.1 to 10.1; sparser where few nodes would all be neighbours.
fn edge(lens: &[i64], i: usize) -> f64 {
    let (row, column) = (i as i64 / lens[1], i as i64 % lens[1]);
    let mut draw = Rng::new(i as u64);
    let share = if lens[0] < 1000 { 3.0 / lens[0] as f64 } else { 0.3 };
    let there = draw.unit() < share;
    if row == column {
        0.0
    } else if there {
        0.1 + 10.0 * draw.unit()
    } else {
        f64::INFINITY
    }
}

girih::challenge! {
    Challenge::new("all_pairs_shortest_paths", solve::Program::def, "void solve(const float* dist[N, N], float* output[N, N], int N)")
        .input("dist", formula(edge))
        .output_all("output", |x| {
            let n = x.len("N");
            let mut paths: Vec<f64> = (0..n * n).map(|i| x.at("dist", i)).collect();
            for k in 0..n {
                let from: Vec<f64> = paths[k * n..(k + 1) * n].to_vec();
                for row in paths.chunks_exact_mut(n) {
                    let to = row[k];
                    row.iter_mut().zip(&from).for_each(|(path, onward)| *path = path.min(to + onward));
                }
            }
            paths
        })
        .tolerance(1e-2, 1e-2)
        .check_at(["N=0", "N=3", "N=65"])
        .perf_at("N=2048")
        .flops(|s| 4.0 * s.size("N").powi(3))
}
