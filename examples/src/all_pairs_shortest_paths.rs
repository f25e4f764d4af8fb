//! All pairs' shortest paths by Floyd and Warshall, 64 intermediate nodes at a time.
//!
//! A round joins the closed square of its nodes with their rows and their columns, and then relaxes all pairs by paths through these: products
//! of matrices in which + is a minimum and · is a sum. One block closes the next square in the meantime.

use girih::inputs::Rng;
use girih::prelude::*;

/// Intermediate nodes of a round.
const SIDE: i64 = 64;
/// Elements from one row of a square in shared memory to the next: rows begin in different banks, and at multiples of 16 bytes.
const APART: i64 = SIDE + 4;

/// Elements of one of a block's two arrays.
const ROOM: i64 = SIDE * APART;

/// The shortest paths inside of a square of at most 64 nodes; infinite beyond it.
#[kernel(tile(R = 64, C = 64), coarsen(CR of R = [4, 8], CC of C = [1, 2, 4]))]
pub fn close_square(square: &Tensor<f32, 2>, closed: &mut Tensor<f32, 2>) {
    for (r, c) in closed.tiles([R, C]) {
        let (row, column) = (r.coords().expand(1, C), c.coords().expand(0, R));
        let paths = square.gather((row, column)).or(f32::INFINITY);
        let (mut even, mut odd) = (shared_uninit::<f32>([ROOM]), shared_uninit::<f32>([ROOM]));
        closed.store((r, c), close(paths, (R, C), square.len(0), &mut even, &mut odd));
    }
}

/// Where elements of a square lie in a block's array.
#[device]
fn place(row: Tile<i32>, column: Tile<i32>) -> Tile<i32> {
    row * APART as i32 + column
}

/// The shortest paths through the first `width` nodes of a square, of such as lead over one edge.
#[device]
fn close(edges: Tile<f32>, (rows, columns): (Size, Size), width: Scalar<i64>, even: &mut Shared<f32>, odd: &mut Shared<f32>) -> Tile<f32> {
    let (row, column) = (iota::<i32>(rows), iota::<i32>(columns));
    let all = place(row.expand(1, columns), column.expand(0, rows));
    even.scatter(all, edges);
    let mut paths = edges;
    for pair in 0..(width.cast::<i32>() + 1) / 2 {
        // Below 64, as nobody need look.
        let k = (pair * 2) & (SIDE as i32 - 2);
        let here = |array: &Shared<f32>, k: Scalar<i32>| {
            let from = array.gather(row * APART as i32 + k).expand(1, columns);
            from + array.gather(column + k * APART as i32).expand(0, rows)
        };
        paths = paths.min(here(even, k));
        odd.scatter(all, paths);
        paths = paths.min(here(odd, k + 1));
        even.scatter(all, paths);
    }
    paths
}

/// The shortest ways of `paths`, `to` a node and `from` it on, if shorter than what there is: a product of matrices over (min, +).
#[device]
fn through(to: &Tensor<f32, 2>, from: &Tensor<f32, 2>, (m, n): (TileIdx, TileIdx), inner: Size, paths: Tile<f32>) -> Tile<f32> {
    let mut paths = paths;
    for k in to.axis(1).tiles(inner) {
        paths = dot_with(to.load((m, k)), from.load((k, n)), paths, f32::INFINITY, |path, to, from| path.min(to + from));
    }
    paths
}

/// The rows and the columns of a round, each joined with its closed square: blocks of the first half of `rows` make these, the others columns.
#[kernel(
    tile(BM = [32, 64], BN = [32, 64], BK = [16, 32, 64]),
    coarsen(TM of BM = [2, 4, 8], TN of BN = [4, 2]),
    vector(V = [4, 2, 1]),
    stages(S = [3, 2, 1]),
    copy(P = [Async, Registers])
)]
pub fn join_paths(
    closed: &Tensor<f32, 2>,
    to: &Tensor<f32, 2>,
    from: &Tensor<f32, 2>,
    columns: &mut Tensor<f32, 2>,
    rows: &mut Tensor<f32, 3>,
) {
    require(rows.len(1) % SIDE == 0);
    let (left, right) = (closed.slice(1, 0, from.len(0)), closed.slice(0, 0, to.len(1)));
    for (half, m, n) in rows.tiles([Size::from(1), BM, BN]) {
        if half.number() == 0 {
            let joined = through(&left, from, (m, n), BK, full([BM, BN], f32::INFINITY));
            rows.store((half.number(), m, n), joined);
        } else {
            let joined = through(to, &right, (n, m), BK, full([BN, BM], f32::INFINITY));
            columns.scatter((n.coords().expand(1, BM), m.coords().expand(0, BN)), joined);
        }
    }
}

/// All pairs, relaxed by paths through the nodes of a round. The block that has the square of the next round closes it, while others relax.
#[kernel(
    tile(BM = 64, BN = 64, BK = [16, 32, 64]),
    coarsen(TM of BM = [8, 4], TN of BN = [4, 8]),
    vector(V = [4, 2, 1]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Registers]),
    min_blocks(Q = [2, 4, 1])
)]
pub fn relax(to: &Tensor<f32, 2>, from: &Tensor<f32, 2>, paths: &mut Tensor<f32, 2>, closed: &mut Tensor<f32, 2>, next: Scalar<i64>) {
    for (m, n) in paths.tiles([BM, BN]) {
        let relaxed = through(to, from, (m, n), BK, paths.load((m, n)));
        paths.store((m, n), relaxed);
        if m.number() == next && n.number() == next {
            let (mut even, mut odd) = (shared_uninit::<f32>([ROOM]), shared_uninit::<f32>([ROOM]));
            let inside = (paths.len(0) - next * SIDE).min(SIDE);
            let square = close(relaxed.or(f32::INFINITY), (BM, BN), inside, &mut even, &mut odd);
            closed.scatter((iota::<i32>(BM).expand(1, BN), iota::<i32>(BN).expand(0, BM)), square);
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(dist: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let n = dist.len(0);
    let mut closed = temp((SIDE, SIDE));
    let (mut columns, mut rows) = (temp((n, SIDE)), temp((2 * SIDE, n)));
    output.copy_from(dist);
    close_square(&output.slice(0, 0, n.min(SIDE)).slice(1, 0, n.min(SIDE)), &mut closed);
    for round in 0..(n + SIDE - 1) / SIDE {
        let first = round * SIDE;
        let width = (n - first).min(SIDE);
        let (to, from) = (output.slice(1, first, width), output.slice(0, first, width));
        join_paths(&closed, &to, &from, &mut columns, &mut rows.chunked(0, SIDE));
        relax(&columns, &rows.slice(0, 0, SIDE), output, &mut closed, round + 1);
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
