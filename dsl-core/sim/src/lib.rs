//! The simulator: the definition of SIMT IR.
//!
//! It runs a launch as warps of 32 lanes with an active mask and a program counter over flat code ([`Program`]), stepped in a seeded
//! order. Order between accesses is happens-before, never the luck of the stepping: barriers, mbarrier phases, waits on asynchronous
//! copies, and atomics and fences of stated scope and order make it. Two unordered accesses to one byte, one of them a write, are a
//! race, also within a warp. Shuffles order nothing. Every access is checked, and what `ncu` counts is counted.
//!
//! Lanes that part at an `If` or a loop go one side after the other and meet at its end. A lane that spins for another lane of its own
//! warp therefore never ends ([`TrapKind::FuelExhausted`]), although a GPU might get there.
//!
//! ```text
//! lib.rs       what callers see
//! decode.rs    structured body → flat code (op.rs), statement by statement (decode/);  unrolled.rs: what compilers leave of unrolled loops
//! constants.rs what the host copies to constant memory
//! machine.rs   blocks, stepping;  machine/: barriers that several warps meet at, traps
//! warp.rs      registers, masks, arithmetic;  step.rs: its operations one by one, shuffles
//! access.rs    loads, stores, atomics
//! words.rs     what blocks leave for the grid's last one
//! order.rs     what orders accesses: atomics and fences;  order/: asynchronous copies, mbarriers
//! clock.rs     vector clocks;  shadow.rs: who accessed what, and races
//! matrix.rs    matrix instructions and their numbers
//! group.rs     those of warp groups, and what is in flight of them
//! counting/    what a launch does at its true size, without doing all of it
//! model.rs     how long it takes
//! memory.rs    bytes and what was written;  counters.rs;  trap.rs
//! ```

mod access;
mod clock;
mod constants;
mod counters;
pub mod counting;
mod decode;
mod group;
mod machine;
mod matrix;
mod memory;
pub mod model;
mod op;
mod order;
mod owners;
mod shadow;
mod step;
mod trap;
mod unrolled;
mod warp;
mod words;

#[cfg(test)]
mod tests;

pub use counters::{Class, ConstantTraffic, Counters, GlobalTraffic, MatrixWork, SharedTraffic};
pub use decode::Program;
pub use memory::{BufferId, Memory};
pub use trap::{RaceSide, Trap, TrapKind};

use girih_ir::simt::TensorMap;
use girih_ir::types::Literal;

/// An argument of a launch, one per [`girih_ir::simt::Kernel::params`].
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A pointer: byte `offset` of a buffer. Accesses below the pointer or beyond the buffer's end
    /// are traps.
    Buffer {
        /// The buffer.
        buffer: BufferId,
        /// Bytes from its start.
        offset: u64,
    },
    /// The tensor that the host copies to an array in constant memory before the launch.
    Constant {
        /// The buffer.
        buffer: BufferId,
        /// Bytes from its start to the tensor's first element.
        offset: u64,
        /// Bytes of the tensor.
        bytes: usize,
    },
    /// The tensor behind a tensor map.
    Map {
        /// The buffer.
        buffer: BufferId,
        /// Bytes from its start to the tensor's first element.
        offset: u64,
        /// Extents, innermost axis first.
        lens: [i64; TensorMap::AXES],
        /// Strides in elements.
        strides: [i64; TensorMap::AXES],
    },
    /// A scalar or host-computed parameter, of the parameter's type.
    Scalar(Literal),
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Order of stepping. Results of kernels without races and without floating-point atomics don't depend on it.
    pub seed: u64,
    /// Warp-level operations after which the launch is given up.
    pub fuel: u64,
    /// Count traffic and instructions; otherwise all counters stay 0.
    pub count: bool,
    /// Blocks that run at once; one to three by `seed` where nothing is said. Blocks that ask for one another's words find them at their first look
    /// where one runs at a time.
    pub resident: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 0, fuel: 200_000_000, count: true, resident: None }
    }
}

/// What a launch did that ended well.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Traffic and instructions.
    pub counters: Counters,
    /// Warp-level operations executed.
    pub steps: u64,
}

/// Runs a launch of `grid` blocks; none is no launch. Panics where the arguments don't fit the parameters' kinds or the IR is malformed.
///
/// # Errors
/// The first [`Trap`]. Memory then holds what was written before it.
pub fn simulate(program: &Program, grid: u32, args: &[Arg], memory: &mut Memory, options: &Options) -> Result<Report, Box<Trap>> {
    machine::run(program, grid, args, memory, options)
}
