//! Positive definite systems, by elimination without pivoting: small ones within one block, others a panel of columns per launch.

use girih::prelude::*;

/// Columns that one launch eliminates.
const PANEL: i64 = 32;

/// The solution of a positive definite system of a block's own, by elimination through shared memory: rows and columns of pivots are read
/// from where all threads have put their elements, two pivots at a time. Two arrays take turns, so that the block meets once per two
/// pivots. `right` is one right side of `size` elements, or, if there are `sides`, the columns of a matrix. The size is a multiple of 4.
#[device]
pub fn solve_in_block(matrix: Tile<f32>, right: Tile<f32>, count: Scalar<i32>, size: Size, sides: Option<Size>) -> Tile<f32> {
    let at = iota::<i32>(size);
    let (row, col) = (at.expand(1, size), at.expand(0, size));
    let at = sides.map_or(at, |n| at.expand(1, n));
    let side = sides.map(|n| iota::<i32>(n).expand(0, size));
    let put = |rights: &mut Shared<f32>, b| match side {
        None => rights.scatter(at, b),
        Some(side) => rights.scatter((at, side), b),
    };
    let of_row = |rights: &Shared<f32>, p: Scalar<i32>| match side {
        None => rights.at(p).splat([size]),
        Some(side) => rights.gather((p, side)),
    };
    // Rows that are not there get a pivot of 1, so that they do no harm.
    let mut m = select(row == col && row >= count, 1.0, matrix);
    let mut b = right;
    let mut even = shared::<f32>([size, size + 8], 0.0);
    let mut odd = shared::<f32>([size, size + 8], 0.0);
    let rights = || sides.map_or_else(|| shared::<f32>([size], 0.0), |n| shared([size, n + 8], 0.0));
    let (mut even_right, mut odd_right) = (rights(), rights());
    let mut turns = [(&mut even, &mut even_right), (&mut odd, &mut odd_right)];
    for four in 0..(count + 3) / 4 {
        for (k, (system, rights)) in turns.iter_mut().enumerate() {
            let p = four * 4 + 2 * k as i32;
            let q = p + 1;
            system.scatter((row, col), m);
            put(rights, b);
            let inverse = 1.0 / system.at((p, p));
            let (across, down) = (system.at((p, q)), system.at((q, p)) * inverse);
            let next_inverse = 1.0 / (system.at((q, q)) - down * across);
            // What is taken from a row: so much of row p, and so much of what elimination by p leaves of row q.
            let factors = |at: Tile<i32>| {
                let first = select(at == p, 0.0, system.gather((at, p)) * inverse);
                (first, select(at == q, 0.0, (system.gather((at, q)) - first * across) * next_inverse))
            };
            let (first, second) = factors(row);
            let (row_p, row_q) = (system.gather((p, col)), system.gather((q, col)));
            m = m - first * row_p - second * (row_q - down * row_p);
            let (first, second) = factors(at);
            let (row_p, row_q) = (of_row(rights, p), of_row(rights, q));
            b = b - first * row_p - second * (row_q - down * row_p);
        }
    }
    even.scatter((row, col), m);
    b / even.gather((at, at))
}

/// A panel of elimination: the columns from `first` on, of which the leading ones vanish but for ones on the diagonal.
///
/// Every block solves the panel's own square for its columns of the panel's rows, and takes that, times the panel's columns, from its rows.
#[kernel(tile(R = 32, C = [32, 16, 64]), coarsen(CR of R = [4, 1, 2, 8], CC of C = [1, 2]))]
pub fn eliminate_panel(from: &Tensor<f32, 2>, to: &mut Tensor<f32, 2>, first: Scalar<i64>) {
    let there = (from.len(0) - first).min(PANEL).max(0).cast::<i32>();
    for (i, j) in to.tiles([R, C]) {
        let (row, col) = (iota::<i32>(R) + first.cast::<i32>(), iota::<i32>(R));
        let square = from.gather((row.expand(1, R), col.expand(0, R)));
        let rights = from.gather((row.expand(1, C), j.coords().expand(0, R)));
        let solved = solve_in_block(square, rights, there, R, Some(C));
        let factors = from.gather((i.coords().expand(1, R), col.expand(0, R)));
        let reduced = dot(-factors, solved, from.load((i, j)));
        to.store((i, j), if i.start() == first { solved } else { reduced });
    }
}

/// The solution that elimination leaves: the column behind the system's square.
#[kernel(tile(T = [32, 64, 128]))]
pub fn solution_column(system: &Tensor<f32, 2>, column: &mut Tensor<f32, 1>) {
    // A launch without a right side is refused.
    let system = system.slice(1, 0, system.len(0) + 1);
    for t in column.tiles([T]) {
        column.store(t, system.load((t, system.len(0))));
    }
}

/// Solves a positive definite system whose right side is the column behind its square; further columns do no harm. The system is used up.
#[program]
pub fn solve_system(system: &mut Tensor<f32, 2>, solution: &mut Tensor<f32, 1>) {
    let count = system.len(0);
    let panels = (count + PANEL - 1) / PANEL;
    let mut other = temp([count, system.len(1)]);
    for half in 0..(panels + 1) / 2 {
        let first = half * (2 * PANEL);
        let rest = system.len(1) - first;
        eliminate_panel(&system.slice(1, first, rest), &mut other.slice(1, first, rest), first);
        if first + PANEL < count {
            let rest = rest - PANEL;
            eliminate_panel(&other.slice(1, first + PANEL, rest), &mut system.slice(1, first + PANEL, rest), first + PANEL);
        } else {
            system.copy_from(&other);
        }
    }
    solution_column(system, solution);
}
