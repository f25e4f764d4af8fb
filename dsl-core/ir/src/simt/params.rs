//! What a kernel of SIMT IR takes: pointers, scalars, what the host computes, and memory of its own.

use crate::tile::host::{HostArg, HostExpr};
use crate::types::DType;

/// A kernel parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Name, unique among parameters.
    pub name: String,
    /// What it is.
    pub kind: ParamKind,
}

/// What a parameter is and where its argument comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum ParamKind {
    /// The pointer of the tile kernel's tensor parameter `tensor`.
    Pointer {
        /// Parameter of the tile kernel.
        tensor: usize,
        /// Element type.
        dtype: DType,
        /// The kernel stores to it.
        writable: bool,
        /// What a thread finds there changes only by what it stores through this pointer: no other leads to its memory, and no other thread
        /// hands it values there (`__restrict__`).
        restrict: bool,
        /// What the facts promise of the pointer, in bytes.
        align: u32,
    },
    /// The tile kernel's scalar parameter.
    Scalar {
        /// Parameter of the tile kernel.
        scalar: usize,
        /// Its type.
        dtype: DType,
        /// Between which numbers it lies, both included, in every launch that meets what the kernel demands; of integers.
        range: Option<(i64, i64)>,
    },
    /// An integer that the host computes.
    Host {
        /// Type of the parameter: i32 or i64.
        dtype: DType,
        /// Its value.
        value: HostExpr,
    },
    /// Global memory of the kernel's own, read and written, aligned to 256 bytes: partial results, words between blocks, counters. No other
    /// launch runs on it at the same time. All its bytes are zero before the first launch on it; later launches find what the launches before
    /// left there, so each leaves what it relies on zeroed (a counter at a fixed place; a kernel with memory that grows and
    /// memory that stays has two workspaces). Memory that had to grow is zero again.
    Workspace {
        /// Element type.
        dtype: DType,
        /// Elements, at least; computed from the launch's arguments. Blocks are counted by [`super::LaunchRecord::grid`]'s expression.
        len: HostExpr,
    },
    /// An array of the module in constant memory, which the host fills with a tensor's elements before the launch; the function has no argument
    /// for it. It begins at the byte that [`super::constant_offsets`] gives.
    Constant {
        /// Parameter of the tile kernel.
        tensor: usize,
        /// Element type.
        dtype: DType,
        /// Elements that there is room for; a launch has no more.
        len: u32,
    },
    /// A tensor map (TMA descriptor) that the host encodes; an opaque 128-byte constant for the kernel.
    TensorMap {
        /// What it describes.
        map: TensorMap,
    },
}

/// What a tensor map describes: read as data by the simulator, encoded by the runtime and by exported code.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorMap {
    /// Parameter of the tile kernel.
    pub tensor: usize,
    /// Element type.
    pub dtype: DType,
    /// Elements of f32 are rounded on their way to what matrix instructions read of them ([`RoundTf32`](crate::types::UnaryOp::RoundTf32)).
    pub rounds: bool,
    /// Extents, innermost first.
    pub lens: Vec<HostExpr>,
    /// Strides in elements of all axes but the innermost, innermost first.
    pub strides: Vec<HostExpr>,
    /// Elements per copy along each axis, innermost first.
    pub box_lens: Vec<u32>,
    /// Bytes of the shared-memory swizzle: 0, 32, 64 or 128.
    pub swizzle_bytes: u32,
}

impl TensorMap {
    /// Axes of a tensor map, at most.
    pub const AXES: usize = 5;

    /// Bytes that a copy moves.
    pub fn box_bytes(&self) -> u32 {
        self.box_lens.iter().product::<u32>() * self.dtype.size() as u32
    }

    /// Extents, and strides in elements with that of the innermost axis, for a launch; axes that the tensor lacks have one element.
    pub fn extents(&self, args: &[HostArg], multiprocessors: i64) -> ([i64; TensorMap::AXES], [i64; TensorMap::AXES]) {
        let (mut lens, mut strides) = ([1; TensorMap::AXES], [1; TensorMap::AXES]);
        lens.iter_mut().zip(&self.lens).for_each(|(to, len)| *to = len.eval(args, multiprocessors));
        strides[1..].iter_mut().zip(&self.strides).for_each(|(to, stride)| *to = stride.eval(args, multiprocessors));
        (lens, strides)
    }
}
