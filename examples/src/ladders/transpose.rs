//! The transpose of a matrix: accesses that coalesce on both sides, and shared memory without bank conflicts: by padding, and by a swizzle.

use girih::prelude::*;

/// Rows and columns of the tile that is kept by hand.
const SIDE: i32 = 32;

/// How long a row of the shared tile is.
pub trait Row {
    /// Elements.
    const LENGTH: i32;
}
/// As long as the tile's.
pub struct Packed;

/// One element longer.
pub struct Padded;

impl Row for Packed {
    const LENGTH: i32 = SIDE;
}

impl Row for Padded {
    const LENGTH: i32 = SIDE + 1;
}

/// y = xᵀ: what is read by rows is written by columns.
#[kernel(tile(R = [8, 4, 16], C = [32, 64]))]
pub fn write_columns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        let (row, column) = (r.coords().expand(1, C), c.coords().expand(0, R));
        y.scatter((column, row), x.load((r, c)));
    }
}

/// y = xᵀ, through a shared tile whose columns are read.
#[kernel(tile(R = 32, C = 32), coarsen(CR of R = [1, 2, 4, 8]), types(P = [Packed, Padded]))]
pub fn through_shared<P: Row>(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (c, r) in y.tiles([C, R]) {
        let mut own = shared::<f32>([(SIDE * P::LENGTH) as i64], 0.0);
        let (i, j) = (iota::<i32>(R).expand(1, C), iota::<i32>(C).expand(0, R));
        own.scatter(i * P::LENGTH + j, x.load((r, c)).or(0.0));
        let (j, i) = (iota::<i32>(C).expand(1, R), iota::<i32>(R).expand(0, C));
        y.store((c, r), own.gather(i * P::LENGTH + j));
    }
}

/// By columns.
pub mod columns {
    use super::write_columns;
    use girih::prelude::*;

    /// What the lowest rung runs.
    #[program]
    pub fn solve(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
        write_columns(x, y);
    }
}

/// Through a shared tile.
pub mod packed {
    use super::{Packed, through_shared};
    use girih::prelude::*;

    /// A rung's program.
    #[program]
    pub fn solve(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
        through_shared::<Packed>(x, y);
    }
}

/// Through a padded one.
pub mod padded {
    use super::{Padded, through_shared};
    use girih::prelude::*;

    /// A rung's program.
    #[program]
    pub fn solve(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
        through_shared::<Padded>(x, y);
    }
}

girih::ladder! {
    Ladder::new("transpose", "Matrix transpose", "matrix_transpose")
        .rung_of(columns::solve::Program::def, "Rows are read, columns are written", "R=8,C=32")
        .rung_of(packed::solve::Program::def, "Through a shared tile, so that rows are written, too", "")
        .rung_of(padded::solve::Program::def, "Its rows padded by one element", "")
        .rung("Swizzled instead: the layout is the compiler's", "R=32,C=32")
        .rung("Four rows a thread", "R=32,C=32,CR=4")
        .rung("Four columns a thread, too, in accesses of two", "R=64,C=128,CR=4,CC=4,V=2")
        .rung("Blocks walk down the rows", "R=64,C=128,CR=4,CC=4,V=2,X=1024")
}
