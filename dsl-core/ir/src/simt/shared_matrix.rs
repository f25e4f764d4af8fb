//! Matrices in shared memory as `wgmma` reads them: what a matrix descriptor says (PTX ISA, "Matrix-descriptor", "Shared memory matrix layout").

use super::{Fragment, Place};

/// An operand of a matrix instruction of a warp group, in a shared array: rows of 8 or more elements one below the other, whose chunks of 16 bytes
/// change places by the address.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedMatrix {
    /// The first element. In the panel that it lies in, its row is a multiple of 8.
    pub place: Place,
    /// Rows lie along rows of A or columns of B, and the sum goes across them; else they lie along the sum.
    pub across: bool,
    /// Bytes of a row of a panel: 32, 64 or 128. Chunks change places within it.
    pub row_bytes: u32,
    /// Bytes from 8 rows to the next 8.
    pub eight_rows: u32,
    /// Bytes from one panel to the next along the rows, which only operands across the sum have.
    pub next_panel: u32,
}

/// The left operand of a matrix instruction of a warp group.
#[derive(Clone, PartialEq, Debug)]
pub enum LeftMatrix {
    /// In shared memory.
    Shared(SharedMatrix),
    /// In registers: each warp has its 16 rows as the left fragment of [`GroupAtom::part`](crate::fragments::GroupAtom::part).
    Registers(Fragment),
}

impl LeftMatrix {
    /// Where it lies in shared memory, if it does.
    pub fn place(&self) -> Option<&Place> {
        match self {
            LeftMatrix::Shared(matrix) => Some(&matrix.place),
            LeftMatrix::Registers(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            LeftMatrix::Shared(matrix) => Some(&mut matrix.place),
            LeftMatrix::Registers(_) => None,
        }
    }

    /// The registers that it lies in, if it does.
    pub fn fragment(&self) -> Option<&Fragment> {
        match self {
            LeftMatrix::Shared(_) => None,
            LeftMatrix::Registers(fragment) => Some(fragment),
        }
    }
}

impl SharedMatrix {
    /// Bytes of a chunk that stays together.
    pub const CHUNK: u32 = 16;
    /// Bytes of which the place of a panel is a multiple: 8 rows of the longest kind.
    pub const ALIGN: u32 = 1024;

    /// Bytes from the first element to the one at position `outer` along the axis that the result has, too, and `k` along the sum, before chunks
    /// change places.
    pub fn offset(&self, outer: u32, k: u32) -> u32 {
        let size = self.place.dtype.size() as u32;
        let (row, column) = if self.across { (k, outer) } else { (outer, k) };
        let (panel, within) =
            if self.across { (column * size / self.row_bytes, column * size % self.row_bytes) } else { (0, column * size) };
        panel * self.next_panel + row / 8 * self.eight_rows + row % 8 * self.row_bytes + within
    }

    /// Where the byte at an address of shared memory lies when chunks have changed places: those of line `l` of 128 bytes by `l`.
    pub fn swizzled(&self, address: u64) -> u64 {
        swizzled(self.row_bytes, address)
    }
}

/// Where the byte at an address of shared memory lies in rows of so many bytes (32, 64 or 128) whose chunks of 16 change places: those of line `l`
/// of 128 bytes by `l` (PTX ISA, "Swizzling modes"). Nothing moves in rows of 0 bytes.
pub fn swizzled(row_bytes: u32, address: u64) -> u64 {
    let chunks = u64::from(row_bytes / SharedMatrix::CHUNK).max(1);
    address ^ ((address >> 7) & (chunks - 1)) << SharedMatrix::CHUNK.ilog2()
}
