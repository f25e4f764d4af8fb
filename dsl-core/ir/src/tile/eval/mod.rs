//! The reference evaluator: runs tile IR with no schedule at all.
//!
//! Tile sizes are symbolic, so running needs a number for each knob, but results don't depend on it (beyond the order of
//! floating-point additions). The smallest listed tile is taken unless the caller names a schedule.
//!
//! Floats compute in f32 as on the GPU, or in double precision throughout ([`EvalOptions::float64`]), which gives the value that
//! tolerances are measured from. Values of narrower floats are held as f32 and round at casts to them and at stores.

mod by_hand;
mod chain;
mod combine;
mod dot;
mod fold;
mod laws;
mod memory;
mod number;
mod ops;
mod run;
mod runs;
mod shared;
mod value;
mod warp;
mod window;

use super::Kernel;
use crate::facts::TensorArg;
use crate::loc::SourceLoc;
use crate::schedule::Schedule;
use crate::types::Literal;

/// An argument of [`eval`].
#[derive(Debug)]
pub enum EvalArg<'a> {
    /// A tensor in memory of its own.
    Tensor {
        /// Its bytes. Element (0, 0, ..) is the first unless a stride is negative: then see [`eval_in`].
        bytes: &'a mut [u8],
        /// Lengths and strides, in elements of the parameter's type. The address is ignored.
        shape: TensorArg,
    },
    /// A scalar of the parameter's type.
    Scalar(Literal),
}

/// An argument of [`eval_in`], which allows several tensors in one buffer.
#[derive(Clone, Debug)]
pub enum EvalRef {
    /// A tensor.
    Tensor {
        /// Which of the buffers.
        buffer: usize,
        /// Byte offset of element (0, 0, ..).
        offset: usize,
        /// Lengths and strides, in elements of the parameter's type. The address is ignored.
        shape: TensorArg,
    },
    /// A scalar of the parameter's type.
    Scalar(Literal),
}

/// How to evaluate.
#[derive(Clone, Debug, Default)]
pub struct EvalOptions {
    /// Numbers for the knobs; the smallest choices if `None`.
    pub schedule: Option<Schedule>,
    /// Floats compute in double precision and round only at casts to 16-bit floats and at stores.
    pub float64: bool,
    /// Turns of the grid loop are shuffled by this seed instead of running in row-major order. Loops that carry values keep their order.
    pub shuffle: Option<u64>,
    /// Statements that may run before the evaluator gives up on a loop that doesn't end; no limit if `None`.
    pub fuel: Option<u64>,
}

/// Why a kernel could not be evaluated: a mistake in the kernel, its arguments or its data.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvalError {
    /// An argument doesn't fit its parameter.
    #[error("argument {param}: {message}")]
    Argument {
        /// The parameter's name.
        param: String,
        /// What was found and what is allowed.
        message: String,
    },
    /// A requirement of the kernel doesn't hold for these arguments.
    #[error("{loc}: requirement not met: {message}")]
    Requirement {
        /// What was found.
        message: String,
        /// The author's line that asks for it.
        loc: SourceLoc,
    },
    /// A view reaches outside of its tensor's memory.
    #[error("{loc}: {view} reaches element {element} of {param}, whose memory has {len} elements of this type")]
    OutOfBounds {
        /// How the author wrote the view.
        view: String,
        /// The tensor parameter's name.
        param: String,
        /// Element, counted in the view's element type from the tensor's first byte.
        element: i64,
        /// Elements of the view's type in the tensor's memory.
        len: i64,
        /// The access.
        loc: SourceLoc,
    },
    /// A coordinate that nothing checks on a GPU lies outside of its axis.
    #[error(
        "{loc}: {view} is accessed at {at} along axis {axis}, which has {len} elements; a coordinate beside tiles, or of a single element, \
         must lie inside: guard it (`if i < x.len({axis})`) or bound it (`.min(x.len({axis}) - 1)`)"
    )]
    BeyondAxis {
        /// How the author wrote the view.
        view: String,
        /// The axis.
        axis: usize,
        /// The coordinate.
        at: i64,
        /// Elements along the axis.
        len: i64,
        /// The access.
        loc: SourceLoc,
    },
    /// An operator of the author's cannot be regrouped.
    #[error(
        "{loc}: the operator {law}; threads and blocks combine neighbours in groups of any size, so f must be associative and e its \
         identity: change the operator or the identity, or fold in a loop"
    )]
    Operator {
        /// Which law it breaks, on which elements.
        law: String,
        /// The reduction or scan.
        loc: SourceLoc,
    },
    /// A dot's step changes sums where there is nothing to add.
    #[error(
        "{loc}: the step of this dot changes what it has of elements that are absent: {law}; tiles that reach behind the end of an axis \
         have such elements, of which a schedule may make more or fewer: choose a number for them that leaves a sum as it is"
    )]
    Fold {
        /// The sum, and what became of it.
        law: String,
        /// The dot.
        loc: SourceLoc,
    },
    /// Two elements of scatters meet.
    #[error("{loc}: element {element} of {param} is scattered to twice; scatters assert that no two elements meet (use an atomic)")]
    ScatterMeets {
        /// The tensor parameter's name.
        param: String,
        /// Where they meet, counted in the view's element type from the tensor's first byte.
        element: i64,
        /// The scatter.
        loc: SourceLoc,
    },
    /// An absent value decides control flow or an address.
    #[error("{loc}: {what} is absent: it was read from outside of its view")]
    Absent {
        /// `the loop bound`, `the condition`.
        what: String,
        /// Where it is needed.
        loc: SourceLoc,
    },
    /// An access of a shared array that is kept by hand is not ordered behind another thread's.
    #[error(
        "{loc}: element {element} of {array} was {done} by another thread since the last barrier{}; write `barrier()` between them, or \
         `warp_barrier()` where both are in one warp",
        making(done)
    )]
    MissingBarrier {
        /// The array's name.
        array: String,
        /// The element, in row-major order.
        element: i64,
        /// What came before: `filled`, `accessed`.
        done: &'static str,
        /// The later access.
        loc: SourceLoc,
    },
    /// A run of neighbours ([`SharedKind::GatherRun`](super::SharedKind::GatherRun), [`SharedKind::Copy`](super::SharedKind::Copy)) does not
    /// lie as it must.
    #[error("{loc}: a run of {run} elements begins at {at} along the last axis of {what}, {wrong}")]
    Run {
        /// The array or view.
        what: String,
        /// Its length.
        run: i64,
        /// Where it begins; absent is -1.
        at: i64,
        /// What is allowed.
        wrong: String,
        /// The access.
        loc: SourceLoc,
    },
    /// An element of a shared array is read that nobody has written.
    #[error("{loc}: element {element} of {array} is read, and nothing was written to it since the array was made without values")]
    Unwritten {
        /// The array's name.
        array: String,
        /// The element, in row-major order.
        element: i64,
        /// The access.
        loc: SourceLoc,
    },
    /// An element of a shared array is accessed while an asynchronous copy to it is on its way.
    #[error(
        "{loc}: element {element} of {array} is accessed before its copy has arrived; close the group (`close_copies()`) and wait for it          (`await_copies(0)`), and then for the other threads (`warp_barrier()` or `barrier()`)"
    )]
    OnItsWay {
        /// The array's name.
        array: String,
        /// The element, in row-major order.
        element: i64,
        /// The access.
        loc: SourceLoc,
    },
    /// A window is read beyond its halo.
    #[error("{loc}: this window reaches {before} elements before and {after} after its tile along axis {axis}, and is read at {offset}")]
    BeyondHalo {
        /// The axis.
        axis: usize,
        /// The offset.
        offset: i64,
        /// The halo before the tile.
        before: i64,
        /// The last offset that is allowed.
        after: i64,
        /// The access.
        loc: SourceLoc,
    },
    /// A loop goes on as it is: a turn has left everything as it was.
    #[error(
        "{loc}: this loop never ends: a turn changed neither what it carries nor memory (where a new value is absent, an element keeps \
         what it had: start it with `.like(..)` of a tile that is absent there, too)"
    )]
    Endless {
        /// The author's `while`.
        loc: SourceLoc,
    },
    /// Blocks that meet go different ways, of which one leads past the meeting.
    #[error(
        "{loc}: some blocks of the grid would meet here once more while others go on: what decides it must be the same for all blocks, so \
         nobody may change it between two blocks' reading it (`grid_barrier()` behind the reads)"
    )]
    Apart {
        /// The loop or choice around the meeting.
        loc: SourceLoc,
    },
    /// Fuel ran out.
    #[error("evaluation of {kernel} stopped after {fuel} statements")]
    Fuel {
        /// The kernel.
        kernel: String,
        /// The limit.
        fuel: u64,
    },
}

/// What an author may not think of: an array is filled where it is made.
fn making(done: &str) -> &'static str {
    if done == "filled" { " (an array that is kept by hand is filled where it is made, by all threads)" } else { "" }
}

/// Runs a kernel on arguments that share no memory.
///
/// # Errors
/// Arguments that don't fit, requirements that don't hold, and defects that only the data shows: see [`EvalError`].
pub fn eval(kernel: &Kernel, args: &mut [EvalArg], options: &EvalOptions) -> Result<(), EvalError> {
    let mut buffers: Vec<&mut [u8]> = Vec::new();
    let mut refs = Vec::new();
    for arg in args {
        refs.push(match arg {
            EvalArg::Scalar(l) => EvalRef::Scalar(*l),
            EvalArg::Tensor { bytes, shape } => {
                buffers.push(bytes);
                EvalRef::Tensor { buffer: buffers.len() - 1, offset: 0, shape: shape.clone() }
            }
        });
    }
    eval_in(kernel, &mut buffers, &refs, options)
}

/// Runs a kernel on tensors that lie anywhere in the given buffers.
///
/// # Errors
/// As [`eval`].
pub fn eval_in(kernel: &Kernel, buffers: &mut [&mut [u8]], args: &[EvalRef], options: &EvalOptions) -> Result<(), EvalError> {
    run::run(kernel, buffers, args, options)
}

#[cfg(test)]
pub(crate) mod tests;
