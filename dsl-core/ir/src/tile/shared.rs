//! Shared arrays: memory of one block, and the statements that access it.
//!
//! Accesses happen in the order of the text, each as a whole: a gather sees everything that the atomics above it did. Lowering puts
//! barriers where the order needs them. Positions outside of the array, and absent ones, are left alone.
//!
//! A *chain* is an array, too: a value that goes from warp to warp, of which each warp takes what the one before it has left
//! ([`SharedKind::Take`], [`SharedKind::Leave`]), the first warp what the last one has left before, or what the chain began with.
//!
//! An array belongs to one block. One that is made before a strided grid loop keeps its contents over the turns that its block takes;
//! what changes in a grid loop that is not strided must be made inside.

use super::{Kernel, Op, Size, Stmt, TileLoop, ValueId, ViewId, access, chain};
use crate::error::Diagnostic;
use crate::loc::SourceLoc;
use crate::types::{AtomicOp, BinaryOp, DType, Literal};

/// Index of a [`SharedArray`] in its kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SharedId(pub u32);

/// An array in shared memory.
#[derive(Clone, Debug)]
pub struct SharedArray {
    /// The author's name for it, if it has one.
    pub name: Option<String>,
    /// Element type.
    pub dtype: DType,
    /// Extent per axis, at least one axis.
    pub shape: Vec<Size>,
    /// The author's barriers alone order its accesses: lowering adds none, and an access must not need one that is not there. True of chains.
    pub by_hand: bool,
    /// Where it was made.
    pub loc: SourceLoc,
}

/// A statement that accesses a shared array.
#[derive(Clone, Debug)]
pub struct SharedAccess {
    /// Unique in the kernel; copies of a statement keep it.
    pub number: u32,
    /// The array.
    pub array: SharedId,
    /// What is done.
    pub kind: SharedKind,
    /// The author's line.
    pub loc: SourceLoc,
}

/// Read-modify-write of elements of a view or of a shared array, one after the other in any order. Scalars count once for the block.
#[derive(Clone, Debug)]
pub struct Update {
    /// The operation.
    pub op: AtomicOp,
    /// One integer tile (or scalar) per axis.
    pub indices: Vec<ValueId>,
    /// The operand; for a compare-and-swap the new value.
    pub value: ValueId,
    /// The expected value of a compare-and-swap.
    pub expected: Option<ValueId>,
    /// The old values, if wanted; absent where nothing was accessed.
    pub result: Option<ValueId>,
}

impl Update {
    /// The value and the expected value.
    pub fn operands(&self) -> Vec<ValueId> {
        [self.value].into_iter().chain(self.expected).collect()
    }

    /// All values that it uses.
    pub fn uses(&self) -> Vec<ValueId> {
        self.indices.iter().copied().chain(self.operands()).collect()
    }

    /// All values that it uses, to replace them.
    pub fn uses_mut(&mut self) -> Vec<&mut ValueId> {
        self.indices.iter_mut().chain([&mut self.value]).chain(&mut self.expected).collect()
    }
}

/// What a [`SharedAccess`] does.
#[derive(Clone, Debug)]
pub enum SharedKind {
    /// Sets every element to a scalar.
    Fill(ValueId),
    /// No element holds anything from here on, until it is written.
    Empty,
    /// Reads elements at computed positions.
    Gather {
        /// One integer tile (or scalar) per axis.
        indices: Vec<ValueId>,
        /// The elements; a scalar where the indices are scalars.
        result: ValueId,
        /// The author asserts that all positions lie inside of the array.
        inside: bool,
    },
    /// Writes elements at computed positions; no two of them meet.
    Scatter {
        /// One integer tile (or scalar) per axis.
        indices: Vec<ValueId>,
        /// What.
        value: ValueId,
    },
    /// Read-modify-write of elements.
    Atomic(Update),
    /// Reads runs of neighbours along the array's last axis: the result has one axis more in front, whose extent is the run's length. A run
    /// begins at a multiple of its length and lies inside of the array.
    GatherRun {
        /// One integer tile per axis: where each run begins.
        indices: Vec<ValueId>,
        /// The elements.
        result: ValueId,
    },
    /// Writes runs, which lie as those of [`SharedKind::GatherRun`]; no two elements meet.
    ScatterRun {
        /// One integer tile per axis: where each run begins.
        indices: Vec<ValueId>,
        /// What, with the position in the run as one axis more in front; every element is there.
        value: ValueId,
    },
    /// Starts to copy runs of neighbours along the last axis of a view to neighbours along the array's last axis; what lies outside of the
    /// view is zero. Both begin at multiples of the run's length, and the array has room for the whole run. The copies of a thread belong to its next
    /// group ([`Stmt::Copies`]), and are there for it behind a wait for the group, and for others behind a barrier that follows it.
    Copy {
        /// One integer tile per axis of the array: where each run goes.
        indices: Vec<ValueId>,
        /// Where from.
        view: ViewId,
        /// One integer tile per axis of the view: where each run begins; or one scalar, which must lie inside.
        from: Vec<ValueId>,
        /// Elements of a run: a power of two, at most 16 bytes.
        run: i64,
    },
    /// What the first warp takes first. The array is a chain, and has the value's shape: along its last axis, 32 neighbours are a warp.
    Start(ValueId),
    /// What the warp before this one has left: a tile of the chain's shape.
    Take {
        /// What each thread takes.
        result: ValueId,
    },
    /// What the next warp takes. Stands behind [`SharedKind::Take`] in one block of statements; between the two, only values are made.
    Leave(ValueId),
}

impl SharedKind {
    /// The values that it uses.
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            SharedKind::Fill(v) | SharedKind::Start(v) | SharedKind::Leave(v) => vec![*v],
            SharedKind::Gather { indices, .. } | SharedKind::GatherRun { indices, .. } => indices.clone(),
            SharedKind::Copy { indices, from, .. } => indices.iter().chain(from).copied().collect(),
            SharedKind::Take { .. } | SharedKind::Empty => vec![],
            SharedKind::Scatter { indices, value } | SharedKind::ScatterRun { indices, value } => {
                indices.iter().copied().chain([*value]).collect()
            }
            SharedKind::Atomic(update) => update.uses(),
        }
    }

    /// The values that it uses, to replace them.
    pub fn operands_mut(&mut self) -> Vec<&mut ValueId> {
        match self {
            SharedKind::Fill(v) | SharedKind::Start(v) | SharedKind::Leave(v) => vec![v],
            SharedKind::Gather { indices, .. } | SharedKind::GatherRun { indices, .. } => indices.iter_mut().collect(),
            SharedKind::Copy { indices, from, .. } => indices.iter_mut().chain(from).collect(),
            SharedKind::Take { .. } | SharedKind::Empty => vec![],
            SharedKind::Scatter { indices, value } | SharedKind::ScatterRun { indices, value } => {
                indices.iter_mut().chain([value]).collect()
            }
            SharedKind::Atomic(update) => update.uses_mut(),
        }
    }

    /// The value that it makes.
    pub fn result(&self) -> Option<ValueId> {
        match self {
            SharedKind::Gather { result, .. } | SharedKind::GatherRun { result, .. } | SharedKind::Take { result } => Some(*result),
            SharedKind::Atomic(update) => update.result,
            SharedKind::Fill(_) | SharedKind::Scatter { .. } | SharedKind::ScatterRun { .. } | SharedKind::Copy { .. } => None,
            SharedKind::Start(_) | SharedKind::Leave(_) | SharedKind::Empty => None,
        }
    }

    /// Whether it leaves the array as it is.
    pub fn only_reads(&self) -> bool {
        matches!(self, SharedKind::Gather { .. } | SharedKind::GatherRun { .. })
    }

    /// The view that it reads.
    pub fn view(&self) -> Option<ViewId> {
        if let SharedKind::Copy { view, .. } = self { Some(*view) } else { None }
    }
}

/// What an atomic computes, and the value that changes nothing; `None` for exchanges.
pub fn operation(op: AtomicOp, dtype: DType) -> Option<(BinaryOp, Literal)> {
    Some(match op {
        AtomicOp::Add => (BinaryOp::Add, Literal::from_i64(dtype, 0)),
        AtomicOp::Min => (BinaryOp::Min, Literal::extreme(dtype, true)),
        AtomicOp::Max => (BinaryOp::Max, Literal::extreme(dtype, false)),
        AtomicOp::And => (BinaryOp::And, Literal::from_i64(dtype, -1)),
        AtomicOp::Or => (BinaryOp::Or, Literal::from_i64(dtype, 0)),
        AtomicOp::Xor => (BinaryOp::Xor, Literal::from_i64(dtype, 0)),
        AtomicOp::Exchange | AtomicOp::CompareSwap | AtomicOp::Load => return None,
    })
}

/// What is wrong with chains, and with arrays that the grid loop changes: an array belongs to one block.
pub(crate) fn check(kernel: &Kernel, errors: &mut Vec<Diagnostic>) {
    chain::check(kernel, errors);
    let Some(grid) = kernel.grid_loop() else { return };
    for (id, array) in kernel.shared.iter().enumerate() {
        let id = SharedId(id as u32);
        let made_inside = !before(kernel, grid).any(|a| a.array == id);
        let mut changes = None;
        access::visit(&grid.body, &mut |stmt| {
            if let Stmt::Shared(a) = stmt
                && a.array == id
                && !a.kind.only_reads()
            {
                changes.get_or_insert(a);
            }
        });
        let Some(change) = changes.filter(|_| !made_inside) else { continue };
        let name = array.name.clone().unwrap_or_else(|| "a shared array".into());
        if !grid.strided {
            let message = format!("`{name}` changes in the grid loop, whose turns run at the same time in different blocks");
            let help = "make it inside of the loop, or write `.tiles(..).strided()`: each block then takes several tiles and keeps an array of its own";
            errors.push(Diagnostic::new(change.loc, message).note("it is made here", array.loc).help(help));
        } else if let SharedKind::Atomic(update) = &change.kind
            && let Some((_, identity)) = operation(update.op, array.dtype)
            && let Some(start) = before(kernel, grid).filter(|a| a.array == id).find_map(|a| filled_with(kernel, a))
            && start != identity
        {
            let message =
                format!("each block starts `{name}` with {start} and updates it: the result would depend on the number of blocks");
            let help = format!("start it with {identity}, which changes nothing");
            errors.push(Diagnostic::new(array.loc, message).note("changed here", change.loc).help(help));
        }
    }
}

/// The accesses of shared arrays before the grid loop.
fn before<'a>(kernel: &'a Kernel, grid: &TileLoop) -> impl Iterator<Item = &'a SharedAccess> {
    let is_grid = |s: &Stmt| matches!(s, Stmt::Tiles(l) if l.vars == grid.vars);
    let end = kernel.body.iter().position(is_grid).unwrap_or(kernel.body.len());
    kernel.body[..end].iter().filter_map(|s| if let Stmt::Shared(a) = s { Some(a) } else { None })
}

/// The constant that a fill stores.
fn filled_with(kernel: &Kernel, access: &SharedAccess) -> Option<Literal> {
    let SharedKind::Fill(value) = access.kind else { return None };
    kernel.body.iter().find_map(|s| match s {
        Stmt::Let(v, Op::Literal(l)) if *v == value => Some(*l),
        _ => None,
    })
}
