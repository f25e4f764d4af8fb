//! What a launch costs to evaluate or to simulate, estimated from its tile IR: elements that its operations make.

use girih_core::schedule::{Choice, KnobKind};
use girih_core::tile::access::{tile_size, visit};
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::tile::{Combine, Kernel, KnobId, Operator, SharedKind, Size, Stmt, Ty, ValueId};

/// Turns of a loop whose number the host does not know.
const TURNS: i64 = 16;

/// Elements that all statements of a launch make, at the largest tiles that a schedule may choose: a tile costs all of its elements,
/// however few of them exist, and loops cost their turns.
pub(crate) fn effort(kernel: &Kernel, args: &[HostArg]) -> i64 {
    Effort { kernel, args }.block(&kernel.body)
}

/// The choices of the kernel's tile sizes, smallest first.
pub(crate) fn tile_sizes(kernel: &Kernel) -> Vec<i64> {
    let tiles = kernel.knobs.iter().filter(|k| k.kind == KnobKind::Tile);
    let mut all: Vec<i64> = tiles.flat_map(|k| k.choices.iter().map(number)).collect();
    all.sort();
    all.dedup();
    all
}

fn number(choice: &Choice) -> i64 {
    match choice {
        Choice::Int(i) => *i,
        Choice::Word(_) => 1,
    }
}

struct Effort<'a> {
    kernel: &'a Kernel,
    args: &'a [HostArg],
}

impl Effort<'_> {
    fn block(&self, block: &[Stmt]) -> i64 {
        block.iter().map(|s| self.stmt(s)).fold(0, i64::saturating_add)
    }

    fn stmt(&self, stmt: &Stmt) -> i64 {
        match stmt {
            Stmt::Let(v, _) => self.elements(*v),
            Stmt::Store { value, .. } | Stmt::Scatter { value, .. } => self.elements(*value),
            Stmt::Atomic { update, .. } => self.elements(update.value),
            Stmt::Combine(combine) => self.combine(combine),
            Stmt::Shared(access) => match &access.kind {
                SharedKind::Fill(_) => self.extents(&self.kernel.shared_array(access.array).shape),
                kind => kind.operands().into_iter().map(|v| self.elements(v)).max().unwrap_or(1),
            },
            Stmt::Barrier { .. } | Stmt::Copies { .. } => 1,
            Stmt::Tiles(l) => {
                let tiles = |(var, axis): (&ValueId, &usize)| {
                    let size = self.size(tile_size(self.kernel, *var)).max(1);
                    let len = HostExpr::of_value(self.kernel, self.kernel.view(l.view).axes[*axis].len);
                    len.map_or(TURNS, |e| (e.eval(self.args, 1).max(0) + size - 1) / size)
                };
                l.vars.iter().zip(&l.axes).map(tiles).fold(self.block(&l.body), i64::saturating_mul)
            }
            Stmt::Range { start, end, body, .. } => {
                let value = |v| HostExpr::of_value(self.kernel, v).map(|e| e.eval(self.args, 1));
                let turns = value(*start).zip(value(*end)).map_or(TURNS, |(start, end)| (end - start).max(0));
                self.block(body).saturating_mul(turns)
            }
            Stmt::While { header, body, .. } => self.block(header).saturating_add(self.block(body)).saturating_mul(TURNS),
            Stmt::If { then, otherwise, .. } => self.block(then).saturating_add(self.block(otherwise)),
            Stmt::Where { body, .. } => self.block(body),
        }
    }

    /// An operator of the author's own runs once per element.
    fn combine(&self, combine: &Combine) -> i64 {
        let elements = combine.inputs.iter().map(|v| self.elements(*v)).fold(0, i64::saturating_add);
        let mut operations = 1;
        if let Operator::User { body, .. } = &combine.operator {
            visit(body, &mut |_| operations += 1);
        }
        elements.saturating_mul(operations)
    }

    fn elements(&self, value: ValueId) -> i64 {
        match self.kernel.ty(value) {
            Ty::Scalar(_) | Ty::TileIdx(_) => 1,
            Ty::Tile(_, shape) => self.extents(shape),
            Ty::Window(_, reaches) => {
                let whole = |r: &girih_core::tile::Reach| self.size(&r.size) + self.size(&r.before) + self.size(&r.after);
                reaches.iter().map(whole).fold(1, i64::saturating_mul)
            }
        }
    }

    fn extents(&self, shape: &[Size]) -> i64 {
        shape.iter().map(|s| self.size(s)).fold(1, i64::saturating_mul)
    }

    fn size(&self, size: &Size) -> i64 {
        let largest = |k: KnobId| self.kernel.knob(k).choices.iter().map(number).max().unwrap_or(1);
        size.value(largest)
    }
}
