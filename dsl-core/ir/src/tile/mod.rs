//! Tile IR: what the author wrote, with knobs as symbolic sizes. This page is the reference of its meaning.
//!
//! A [`Kernel`] is built once per instance, not once per schedule: tile sizes are [`Size`] expressions over knobs, compared
//! as expressions, so a body cannot depend on a schedule.
//!
//! # Values and regions
//! Values are in SSA form: each is made by one [`Stmt::Let`], one [`Combine`], one loop variable, one [`Carry`] or one [`Branch`].
//! Regions ([`Block`]) nest; a value is usable after its definition in its own region and in regions inside, except that the
//! region of a [`Stmt::Where`] is transparent: its values stay usable after it (both sides of a per-element choice are evaluated).
//!
//! # Masks
//! A loaded tile carries its mask: an element outside of its view (or on the other side of an enclosing [`Stmt::Where`]) is
//! *absent*. Elementwise operations are absent where any operand is; a select is absent where the chosen operand is. Who
//! consumes a tile pads: a store stores nothing, a reduction takes its identity, a dot takes zero. A gather or scatter is
//! absent where its index is absent or out of range. Where the next value of a [`Carry`] is absent, the carried element keeps its
//! value: `acc += x.load(t)` is right at the tail. An element that is absent before a loop stays absent, whatever its turns make.
//! The result of a branch on a scalar exists where the taken side's value does.
//!
//! What is made rather than loaded (a splat, coordinates) has no mask. In the body of the grid loop it ends with the grid's tensor: where
//! such elements are combined, updated, scattered or carried over the grid, the builder has put an [`Op::Within`] before
//! (`presence.rs` says which). What belongs to the block is present everywhere: positions ([`Op::Iota`]), shared arrays, what lanes exchange.
//!
//! # Spans
//! A sequential loop over the tiles of one axis may have a [`Span`] of positions, known at run time. Its turns are the tiles, at multiples of
//! their size as ever, that hold one of them: none where the span is empty. At the other positions of its first and last tile an element
//! that is loaded or stored at the loop's index is absent, as beyond the end of the view, and an element of a window's moved tile, too.
//!
//! # Windows
//! A window ([`Op::Window`]) is a tile with the elements around it: as many before and after it along each axis as its [`Reach`] says.
//! [`Op::Near`] reads it at an offset: all elements of the tile moved by it, or the one element that lies at the offset from the tile's
//! first. What lies outside of the view is what the [`Boundary`] says. An element of a moved tile exists where the tile's own element
//! does: where its coordinate is one that the tile index' loop walks. A window's tile indices may count tiles of axes of
//! another length (a valid convolution's input is longer than its output).
//! An offset beyond the halo is a mistake, which the evaluator reports. The elements may be read at any time between the window and
//! its last use: a kernel does not write them.
//!
//! # Shared arrays
//! See [`shared`]: memory of one block, accessed in the order of the text.
//!
//! # Warps
//! A warp is a run of 32 elements along the last axis of a tile, from a multiple of 32 on; the extent of that axis is a multiple of 32.
//! [`Op::Shuffle`] and [`Op::Vote`] exchange values inside of it. An element that is absent gives zero to a shuffle and a match, is false to
//! [`VoteKind::Any`] and [`VoteKind::Ballot`] and true to [`VoteKind::All`]; every element of the result is present. Distances and lane numbers
//! count modulo 32.
//!
//! # Dots
//! [`Op::Dot`] adds the products along `K` to the accumulator, in the accumulator's type: products of f16, bf16 and 8-bit integers are
//! exact in f32 and i32, of f32 fused with the addition. The order of the additions is open; the evaluator takes `K` in ascending order. An
//! absent element of an operand is zero; operands are rounded to their element type; an element of the result is absent where the accumulator's is.
//! A dot with a [`Fold`] has the author's operations instead of a product and a sum, in ascending order of `K`, and the fold's number for absent elements.
//!
//! # Barriers
//! [`Stmt::Barrier`] orders accesses of shared arrays that are kept by hand ([`SharedArray::by_hand`]); it changes no value.
//! At one of the device all blocks of the grid meet ([`meetings`]): whatever any of them did to a tensor before is there for all behind it.
//! All blocks reach it equally often; which way loops and choices around it go must be the same for all of them.
//!
//! # Grid loops
//! The outermost [`TileLoop`] is the grid: its turns run in any order and concurrently. A value carried across its turns starts at its operator's identity
//! and belongs to one block. A body without a tile loop runs once, in one block.
//!
//! # Access classes
//! See [`access`]: every store to a tensor is disjoint, permuted, atomic or scattered; anything else is rejected.
//!
//! [`VoteKind::Any`]: crate::types::VoteKind::Any
//! [`VoteKind::Ballot`]: crate::types::VoteKind::Ballot
//! [`VoteKind::All`]: crate::types::VoteKind::All

pub mod access;
mod axes;
pub mod by_element;
#[doc(hidden)]
pub mod by_hand;
pub(crate) mod chain;
pub mod combine;
pub mod eval;
mod fold;
pub mod host;
pub mod meetings;
mod op;
pub mod presence;
pub mod print;
pub mod shared;
pub mod size;
mod stmt;
pub mod substitute;
pub mod verify;
mod visit;

pub use combine::{Combine, Form, Operator};
pub use fold::Fold;
pub use op::{Boundary, Index, Op};
pub use shared::{SharedAccess, SharedArray, SharedId, SharedKind, Update};
pub use size::Size;
pub use stmt::{Block, Branch, Carry, Span, Stmt, TileLoop};

use crate::loc::SourceLoc;
use crate::schedule::Knob;
use crate::types::DType;
use std::fmt;

/// Index of a [`Value`] in its kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub u32);

/// Index of a [`View`] in its kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ViewId(pub u32);

/// Index of a knob in [`Kernel::knobs`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KnobId(pub u32);

/// Index of a parameter in [`Kernel::params`].
pub type ParamId = usize;

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ty {
    /// One value, the same for the whole block.
    Scalar(DType),
    /// A tile of a block: element type and extent per axis, at least one axis.
    Tile(DType, Vec<Size>),
    /// Which tile along an axis: elements `index*size .. (index+1)*size`.
    TileIdx(Size),
    /// A tile with the elements around it, per axis.
    Window(DType, Vec<Reach>),
}

/// How far a window reaches along an axis, in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The tile's extent.
    pub size: Size,
    /// Elements before the tile.
    pub before: Size,
    /// Elements after the tile.
    pub after: Size,
}

impl Ty {
    /// The element type of a scalar or tile.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Ty::Scalar(d) | Ty::Tile(d, _) => Some(*d),
            Ty::TileIdx(_) | Ty::Window(..) => None,
        }
    }
    /// The extents of a tile.
    pub fn shape(&self) -> Option<&[Size]> {
        match self {
            Ty::Tile(_, s) => Some(s),
            _ => None,
        }
    }
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its type.
    pub ty: Ty,
    /// The author's name for it, if it has one.
    pub name: Option<String>,
    /// Where it was made.
    pub loc: SourceLoc,
}

/// A parameter of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// The author's name.
    pub name: String,
    /// Tensor or scalar.
    pub kind: ParamKind,
}

/// What a parameter is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ParamKind {
    /// A strided tensor in global memory.
    Tensor {
        /// Element type.
        dtype: DType,
        /// Number of axes.
        rank: usize,
        /// Taken by `&mut`: may be stored to.
        mutable: bool,
    },
    /// A scalar.
    Scalar(DType),
}

/// A tensor parameter, or a part or another arrangement of it: element `(i0, i1, ..)` lies `offset + Σ i_k * axes[k].stride` elements of `dtype` after the
/// parameter's pointer. Lengths, strides and offset are scalar values of type i64.
#[derive(Clone, Debug)]
pub struct View {
    /// The tensor parameter.
    pub param: ParamId,
    /// Element type; differs from the parameter's after `reinterpret`.
    pub dtype: DType,
    /// Extent and stride of each axis.
    pub axes: Vec<ViewAxis>,
    /// Elements (of `dtype`) from the parameter's pointer to element (0, 0, ..).
    pub offset: ValueId,
    /// Which halves of which `split_at` this view lies in: two views with the same split and different sides never overlap.
    pub parts: Vec<(u32, bool)>,
    /// Different indices reach different addresses (false after a broadcast or an overlapping window).
    pub injective: bool,
    /// How the author wrote it: `x.reversed(0)`. For messages and comments.
    pub text: String,
    /// Where it was made.
    pub loc: SourceLoc,
}

/// One axis of a [`View`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewAxis {
    /// Number of elements (scalar i64).
    pub len: ValueId,
    /// Elements between neighbours (scalar i64; negative where reversed).
    pub stride: ValueId,
}

/// Something that a launch must satisfy, checked on the host at every launch and at every use of a cached result.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// What must hold.
    pub kind: RequirementKind,
    /// The author's line that asks for it.
    pub loc: SourceLoc,
}

/// Kinds of [`Requirement`].
#[derive(Clone, Debug)]
pub enum RequirementKind {
    /// The tensor is row-major without gaps (`flat`, `reinterpret` need it).
    Packed(ParamId),
    /// `a <= b`, both scalar i64 values computable on the host (slice bounds).
    AtMost(ValueId, ValueId),
    /// `a == b`, likewise (tensors that must have the same length).
    Equal(ValueId, ValueId),
    /// `a` is divisible by the constant (reinterpretation to wider elements).
    Divisible(ValueId, i64),
    /// The tensor's pointer is a multiple of this many bytes: it is read as elements wider than its own (`reinterpret`).
    Aligned(ParamId, usize),
    /// Every element of the tensor, of an integer type, lies in `first..end`, both scalar i64 values computable on the host. A launch does not
    /// look; the evaluator does, and random inputs are drawn so.
    Values(ParamId, ValueId, ValueId),
}

/// A kernel of tile IR: one instance of one `#[kernel]` function.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The function's name.
    pub name: String,
    /// `crate::module::name`.
    pub path: String,
    /// The types of this instance: `("T", "f32")`. Empty for kernels that aren't generic.
    pub instance: Vec<(String, String)>,
    /// The function's place.
    pub loc: SourceLoc,
    /// The function's text, as the author wrote it.
    pub source: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// The space of schedules.
    pub knobs: Vec<Knob>,
    /// The author's demand: a schedule's result must not depend on the order in which blocks come.
    pub deterministic: bool,
    /// Values, by [`ValueId`].
    pub values: Vec<Value>,
    /// Views, by [`ViewId`], in the order in which they were made.
    pub views: Vec<View>,
    /// Shared arrays, by [`SharedId`].
    pub shared: Vec<SharedArray>,
    /// What launches must satisfy.
    pub requirements: Vec<Requirement>,
    /// The body.
    pub body: Block,
}

impl Kernel {
    /// Whether it multiplies tiles.
    pub fn has_dots(&self) -> bool {
        let mut found = false;
        access::visit(&self.body, &mut |s| found |= matches!(s, Stmt::Let(_, Op::Dot { .. })));
        found
    }
    /// The value's description.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }
    /// The value's type.
    pub fn ty(&self, id: ValueId) -> &Ty {
        &self.values[id.0 as usize].ty
    }
    /// The view.
    pub fn view(&self, id: ViewId) -> &View {
        &self.views[id.0 as usize]
    }
    /// The shared array.
    pub fn shared_array(&self, id: SharedId) -> &SharedArray {
        &self.shared[id.0 as usize]
    }
    /// The knob.
    pub fn knob(&self, id: KnobId) -> &Knob {
        &self.knobs[id.0 as usize]
    }
    /// The name with its instance: `matmul<f32>`.
    pub fn full_name(&self) -> String {
        if self.instance.is_empty() {
            return self.name.clone();
        }
        let types: Vec<&str> = self.instance.iter().map(|(_, t)| t.as_str()).collect();
        format!("{}<{}>", self.name, types.join(", "))
    }
    /// The grid loop: the first tile loop of the body, if it has one.
    pub fn grid_loop(&self) -> Option<&TileLoop> {
        self.body.iter().find_map(|s| match s {
            Stmt::Tiles(l) => Some(l),
            _ => None,
        })
    }
    /// Identity of what the kernel computes, for stores and caches: a hash of its printed IR without source lines and without the choices of
    /// its knobs (FNV-1a, 64 bit). What is known of a schedule holds as long as the kernel computes the same: another choice beside it
    /// changes nothing.
    pub fn identity(&self) -> u64 {
        let mut bare = self.clone();
        bare.knobs.iter_mut().for_each(|k| k.choices.clear());
        bare.former_identity()
    }
    /// Identity of what the kernel computes and of its space, as stores of former versions have it.
    pub fn former_identity(&self) -> u64 {
        crate::scalar::fnv1a64(print::print_with(self, print::Places::Hidden).as_bytes())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&print::print(self))
    }
}
