//! Operations of the flat code: what one warp does in one step.

use super::group::WgmmaStep;
use super::matrix::Places;
use girih_ir::fragments::{Atom, LoadMatrix};
use girih_ir::scalar::{BinaryFn, BinaryLanes, TernaryLanes, UnaryFn};
use girih_ir::simt::{Barrier, ShuffleKind, Space, Special, VoteKind};
use girih_ir::types::{AtomicOp, DType, MemoryOrder, Scope};

/// Index of a register slot.
pub(super) type Slot = u32;

/// A decoded place.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceOp {
    pub(super) space: Space,
    pub(super) dtype: DType,
    pub(super) index: Slot,
    /// The type of the index, for its sign.
    pub(super) index_type: DType,
}

/// A predicated access of `lanes` elements per thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessOp {
    pub(super) place: PlaceOp,
    pub(super) predicate: Option<Slot>,
    pub(super) lanes: u32,
}

/// `len` elements of an array variable from `base`, starting with element `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementsOp {
    pub(super) base: Slot,
    pub(super) len: u32,
    pub(super) at: Slot,
    pub(super) at_type: DType,
}

#[derive(Clone, Debug)]
pub(super) struct AtomicStep {
    pub(super) access: AccessOp,
    pub(super) op: AtomicOp,
    pub(super) value: Slot,
    pub(super) expected: Option<Slot>,
    pub(super) result: Option<Slot>,
    pub(super) scope: Scope,
    pub(super) order: MemoryOrder,
}

#[derive(Clone, Debug)]
pub(super) struct CopyStep {
    pub(super) shared: PlaceOp,
    pub(super) global: PlaceOp,
    pub(super) bytes: u32,
    pub(super) predicate: Option<Slot>,
}

#[derive(Clone, Debug)]
pub(super) struct BulkStep {
    pub(super) shared: PlaceOp,
    pub(super) global: PlaceOp,
    pub(super) bytes: Slot,
    pub(super) barrier: PlaceOp,
}

#[derive(Clone, Debug)]
pub(super) struct TensorStep {
    pub(super) shared: PlaceOp,
    /// Parameter that is the map.
    pub(super) map: usize,
    pub(super) at: Vec<Slot>,
    pub(super) barrier: PlaceOp,
    /// All blocks of the cluster receive it.
    pub(super) to_all: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ShuffleStep {
    pub(super) dst: Slot,
    pub(super) value: Slot,
    pub(super) kind: ShuffleKind,
    pub(super) operand: Slot,
    pub(super) width: u32,
}

/// A matrix instruction, and where the elements of A, B and the accumulators lie.
#[derive(Clone, Debug)]
pub(super) struct MmaStep {
    pub(super) atom: Atom,
    pub(super) d: ElementsOp,
    pub(super) a: ElementsOp,
    pub(super) b: ElementsOp,
    pub(super) c: ElementsOp,
    pub(super) places: [Places; 3],
}

/// A load of matrices, with the lane that gives each row's address and where the elements go.
#[derive(Clone, Debug)]
pub(super) struct MatrixStep {
    pub(super) load: LoadMatrix,
    pub(super) of: ElementsOp,
    pub(super) place: PlaceOp,
    pub(super) givers: Vec<usize>,
    pub(super) received: Places,
}

/// One warp-level operation. Pure operations write all lanes of their destination, which is never one of their operands.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Unary {
        f: UnaryFn,
        dst: Slot,
        a: Slot,
    },
    Binary {
        f: BinaryLanes,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    Ternary {
        f: TernaryLanes,
        dst: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Compare {
        f: BinaryLanes,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    Select {
        dst: Slot,
        c: Slot,
        a: Slot,
        b: Slot,
    },
    Cast {
        from: DType,
        to: DType,
        dst: Slot,
        a: Slot,
    },
    Bitcast {
        from: DType,
        to: DType,
        dst: Slot,
        a: Slot,
    },
    /// Active lanes.
    Move {
        dst: Slot,
        a: Slot,
    },
    Special {
        dst: Slot,
        special: Special,
    },
    /// Traps where an active lane never set the slot.
    Check {
        slot: Slot,
    },
    /// The slots are not set in the active lanes.
    Forget {
        base: Slot,
        len: u32,
    },
    /// All elements, active lanes.
    Fill {
        base: Slot,
        len: u32,
        a: Slot,
    },
    Element {
        dst: Slot,
        of: ElementsOp,
    },
    SetElement {
        of: ElementsOp,
        a: Slot,
    },
    Load {
        dst: Slot,
        access: AccessOp,
    },
    Store {
        access: AccessOp,
        value: Slot,
    },
    LoadVector {
        of: ElementsOp,
        access: AccessOp,
    },
    StoreVector {
        of: ElementsOp,
        access: AccessOp,
    },
    Atomic(Box<AtomicStep>),
    /// From the same shared array of a block of the cluster.
    LoadFromBlock {
        dst: Slot,
        place: PlaceOp,
        block: Slot,
    },
    StoreRelaxed {
        access: AccessOp,
        value: Slot,
    },
    LoadRelaxed {
        dst: Slot,
        access: AccessOp,
        wait: bool,
    },
    /// Pushes the masks, continues with those where the condition holds, or jumps if there are none.
    If {
        condition: Slot,
        otherwise: u32,
    },
    /// Continues with the other lanes, or jumps if there are none.
    Else {
        end: u32,
    },
    /// Restores the mask.
    EndIf,
    /// Pushes the mask.
    Loop,
    /// Keeps the lanes where the condition holds; without any, restores the mask and jumps.
    LoopTest {
        condition: Slot,
        end: u32,
    },
    /// Traps unless the loop's step is positive.
    StepCheck {
        step: Slot,
        dtype: DType,
    },
    Jump {
        to: u32,
    },
    Barrier(Barrier),
    Fence {
        scope: Scope,
        order: MemoryOrder,
    },
    AsyncCopy(Box<CopyStep>),
    AsyncCommit,
    AsyncWait {
        pending: u32,
    },
    AsyncArrive {
        barrier: PlaceOp,
    },
    MbarrierInit {
        barrier: PlaceOp,
        count: u32,
    },
    MbarrierArrive {
        barrier: PlaceOp,
        expect: Option<Slot>,
    },
    MbarrierArriveAt {
        barrier: PlaceOp,
        block: Slot,
    },
    MbarrierWait {
        barrier: PlaceOp,
        parity: Slot,
        scope: Scope,
    },
    BulkCopy(Box<BulkStep>),
    TensorCopy(Box<TensorStep>),
    Shuffle(Box<ShuffleStep>),
    Vote {
        dst: Slot,
        kind: VoteKind,
        value: Slot,
    },
    WarpReduce {
        dst: Slot,
        combine: BinaryFn,
        value: Slot,
    },
    Mma(Box<MmaStep>),
    LoadMatrix(Box<MatrixStep>),
    Wgmma(Box<WgmmaStep>),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        pending: u32,
        /// First slots and lengths of arrays.
        sums: Box<[(Slot, u32)]>,
    },
    ProxyFence,
    End,
}

impl Op {
    /// Whether it reads and sets scalars of registers, and does nothing else.
    pub(super) fn is_plain(&self) -> bool {
        matches!(
            self,
            Op::Unary { .. }
                | Op::Binary { .. }
                | Op::Ternary { .. }
                | Op::Compare { .. }
                | Op::Select { .. }
                | Op::Cast { .. }
                | Op::Bitcast { .. }
                | Op::Move { .. }
                | Op::Special { .. }
                | Op::Shuffle(_)
                | Op::Vote { .. }
                | Op::WarpReduce { .. }
                | Op::Check { .. }
                | Op::Forget { .. }
                | Op::StepCheck { .. }
        )
    }
}
