//! Counting: what a launch does at its true size, without doing all of it.
//!
//! A few of the launch's blocks are run, one for each kind (`grid`), and of a block only what decides which addresses are touched and
//! where control goes (`slice`): the rest is counted as it passes. Loops whose number of turns is known when they begin are run at some
//! turns, the first and last ones among them, each of which stands for its neighbours (`loops`). No data is there: where addresses or
//! control depend on what a kernel reads from global memory, a caller can give it ([`Contents`]).
//!
//! Blocks are run one after the other, so what they tell each other is assumed: a ticket is the number of the block that takes it, and a word
//! that is waited for has arrived, as it is when the launch ends ([`Contents::left`]). Beside what [`super::Counters`] has, the longest chain of dependent operations of a block is measured, in
//! clocks: operations of a turn begin when their operands are there, turns one after the other, and all warps meet at barriers.

mod block;
mod grid;
mod latency;
mod loops;
mod slice;
mod tally;
mod traffic;

#[cfg(test)]
mod tests;

pub use slice::Slice;
pub use tally::{Count, CountedShared, CountedTraffic};

use super::Program;
use block::Machine;
use girih_ir::simt::TensorMap;
use girih_ir::types::Literal;
use loops::Sample;

/// An argument of a launch that is counted, one per [`girih_ir::simt::Kernel::params`].
#[derive(Clone, Copy, Debug)]
pub enum CountArg {
    /// A pointer, `offset` bytes behind an aligned address, to so many bytes.
    Pointer {
        /// Bytes behind the last address that is a multiple of 256.
        offset: u64,
        /// Bytes that the tensor spans.
        bytes: u64,
    },
    /// The tensor behind a tensor map.
    Map {
        /// Bytes behind the last address that is a multiple of 256.
        offset: u64,
        /// Bytes that the tensor spans.
        bytes: u64,
        /// Extents, innermost axis first.
        lens: [i64; TensorMap::AXES],
        /// Strides in elements.
        strides: [i64; TensorMap::AXES],
    },
    /// A scalar or host-computed parameter, of the parameter's type.
    Scalar(Literal),
}

/// What lies in global memory before a launch, and behind it.
pub trait Contents: Sync {
    /// `size` bytes of a parameter's memory, `at` bytes behind its pointer, little-endian; nothing where that is not known.
    fn load(&self, param: usize, at: u64, size: usize) -> Option<u64>;

    /// The same of what the launch leaves there, for words that its blocks leave each other.
    fn left(&self, _param: usize, _at: u64, _size: usize) -> Option<u64> {
        None
    }
}

/// Nothing is known.
impl Contents for () {
    fn load(&self, _param: usize, _at: u64, _size: usize) -> Option<u64> {
        None
    }
}

/// Why a launch was not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uncounted {
    /// Even few of its blocks take more operations than are allowed.
    TooMuch,
}

/// How much a count may look at.
#[derive(Clone, Copy)]
pub struct Fuel<'a> {
    /// Warp-level operations.
    pub operations: u64,
    /// Whether it is given up, whatever is left: asked now and then.
    pub is_late: Option<&'a dyn Fn() -> bool>,
}

impl From<u64> for Fuel<'_> {
    fn from(operations: u64) -> Self {
        Fuel { operations, is_late: None }
    }
}

/// One block may take this part of what each of those that are run has of the fuel with its short loops run whole.
const PROBE: u64 = 8;
/// And this part with few turns of each loop: two blocks at least are run.
const FEWER: u64 = 3;

/// Counts a launch of `grid` blocks on so much `fuel`.
///
/// # Errors
/// More is needed.
pub fn count(program: (&Program, &Slice), grid: u32, args: &[CountArg], contents: &dyn Contents, fuel: Fuel) -> Result<Count, Uncounted> {
    let mut machine = Machine::new(program, grid, args, contents, fuel.is_late);
    // A block that takes much runs few turns of its loops.
    let probe = PROBE * grid::KINDS.min(u64::from(grid));
    for (sample, part) in [(Sample::SHORT, probe), (Sample::FEW, FEWER), (Sample::LEAST, 1)] {
        (machine.sample, machine.fuel) = (sample, fuel.operations / part);
        if sample == Sample::LEAST || machine.run(grid / 2).is_ok() {
            break;
        }
    }
    machine.forget();
    machine.fuel = fuel.operations;
    grid::count(&mut machine, grid)
}
