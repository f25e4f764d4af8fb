//! All pairs' shortest paths by Floyd and Warshall, 64 intermediate nodes at a time.
//!
//! A round joins the closed square of its nodes with their rows and their columns, and then relaxes all pairs by paths through these: products
//! of matrices in which + is a minimum and · is a sum, from registers and shared memory. One block closes the next square in the meantime.

use girih::inputs::Rng;
use girih::prelude::*;

/// Intermediate nodes of a round.
const SIDE: i64 = 64;
/// Elements from one row of `left` in shared memory to the next: rows begin in different banks, and at multiples of 16 bytes.
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

/// The shortest ways through `width` nodes, if shorter than what there is: to them by `left`, which has a row for each row of `paths`, and on
/// from them by `right`, which has a row for each node.
#[device]
fn through(paths: Tile<f32>, (rows, columns): (Size, Size), width: Scalar<i64>, left: &Shared<f32>, right: &Shared<f32>) -> Tile<f32> {
    let (row, column) = (iota::<i32>(rows), iota::<i32>(columns));
    let mut paths = paths;
    for four in 0..(width.cast::<i32>() + 3) / 4 {
        let first = (four * 4) & (SIDE as i32 - 4);
        let ways = left.gather_run(4, row * APART as i32 + first);
        for k in 0..4 {
            let onward = right.gather(column + (first + k as i32) * APART as i32);
            paths = paths.min(ways.pick(0, k).expand(1, columns) + onward.expand(0, rows));
        }
    }
    paths
}

/// Keeps a part of a matrix in a block's array: its rows `m` and columns `n`, turned or as they lie.
#[device]
fn keep(of: &Tensor<f32, 2>, (m, n): (Tile<i64>, Tile<i64>), (rows, columns): (Size, Size), turned: bool, array: &mut Shared<f32>) {
    let (row, column) = (iota::<i32>(rows).expand(1, columns), iota::<i32>(columns).expand(0, rows));
    let part = of.gather((m.expand(1, columns), n.expand(0, rows))).or(f32::INFINITY);
    array.scatter(if turned { place(column, row) } else { place(row, column) }, part);
}

/// The rows and the columns of a round, each joined with its closed square: blocks of the upper half of `rows` make these, the others columns,
/// which they have turned.
#[kernel(tile(BM = 64, BN = [64, 32, 16]), coarsen(TM of BM = [4, 2, 8], TN of BN = [4, 2, 1]), vector(V = [4, 2, 1]))]
pub fn join_paths(
    closed: &Tensor<f32, 2>,
    to: &Tensor<f32, 2>,
    from: &Tensor<f32, 2>,
    columns: &mut Tensor<f32, 2>,
    rows: &mut Tensor<f32, 2>,
    width: Scalar<i64>,
) {
    require(rows.len(0) == 2 * SIDE);
    let side = Size::from(SIDE as usize);
    for (m, n) in rows.tiles([BM, BN]) {
        let (mut left, mut right) = (shared_uninit::<f32>([ROOM]), shared_uninit::<f32>([ROOM]));
        let (node, inner) = (iota::<i64>(BM), iota::<i64>(side));
        if m.number() == 0 {
            keep(closed, (node, inner), (BM, side), false, &mut left);
            keep(from, (inner, n.coords()), (side, BN), false, &mut right);
        } else {
            keep(closed, (inner, node), (side, BM), true, &mut left);
            keep(to, (n.coords(), inner), (BN, side), true, &mut right);
        }
        let joined = through(full([BM, BN], f32::INFINITY), (BM, BN), width, &left, &right);
        if m.number() == 0 {
            rows.store((m, n), joined);
        } else {
            columns.scatter((n.coords().expand(0, BM), node.expand(1, BN)), joined);
        }
    }
}

/// All pairs, relaxed by paths through the nodes of a round. The block that has the square of the next round closes it, while others relax.
#[kernel(
    tile(BM = 64, BN = 64),
    coarsen(TM of BM = [8, 4], TN of BN = [4, 8]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [2, 4, 1])
)]
pub fn relax(
    to: &Tensor<f32, 2>,
    from: &Tensor<f32, 2>,
    paths: &mut Tensor<f32, 2>,
    closed: &mut Tensor<f32, 2>,
    width: Scalar<i64>,
    next: Scalar<i64>,
) {
    let side = Size::from(SIDE as usize);
    for (m, n) in paths.tiles([BM, BN]) {
        let (mut left, mut right) = (shared_uninit::<f32>([ROOM]), shared_uninit::<f32>([ROOM]));
        keep(to, (m.coords(), iota::<i64>(side)), (BM, side), false, &mut left);
        keep(from, (iota::<i64>(side), n.coords()), (side, BN), false, &mut right);
        let relaxed = through(paths.load((m, n)), (BM, BN), width, &left, &right);
        paths.store((m, n), relaxed);
        if m.number() == next && n.number() == next {
            let inside = (paths.len(0) - next * SIDE).min(SIDE);
            let square = close(relaxed.or(f32::INFINITY), (BM, BN), inside, &mut left, &mut right);
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
        join_paths(&closed, &output.slice(1, first, width), &output.slice(0, first, width), &mut columns, &mut rows, width);
        relax(&columns, &rows.slice(0, 0, SIDE), output, &mut closed, width, round + 1);
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
