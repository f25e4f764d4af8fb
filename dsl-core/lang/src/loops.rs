//! The state of a loop or branch that is being recorded: its regions and the variables that it carries.

use super::recorder::Reached;
use super::session::{self, Handle, Session};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program::{self, Expr, ScalarVar};
use girih_ir::tile::{self, Block, Op, Stmt, TileLoop, Ty, ValueId};

/// One handle of a carried variable.
pub(crate) struct Slot {
    name: String,
    init: Handle,
    inner: Handle,
    next: Handle,
    result: Handle,
    var: Option<ScalarVar>,
}

/// The variables that a loop carries.
#[derive(Default)]
pub(crate) struct Slots {
    /// All of them, in the order in which they were first seen.
    pub(crate) all: Vec<Slot>,
    cursor: usize,
}

impl Slots {
    /// The variables as they are before the loop: each becomes the value that the loop's region sees.
    pub(crate) fn enter(&mut self, name: &str, handle: &mut Handle, loc: SourceLoc) {
        let init = *handle;
        let (inner, var) = session::with(|s| match s {
            Session::Kernel(k) => match init.value(k.build) {
                Some(v) => {
                    let v = k.operand(init, loc).unwrap_or(v);
                    let ty = k.kernel.ty(v).clone();
                    let inner = k.new_value(ty, Some(name.to_string()), loc, 0);
                    (k.handle(inner), None)
                }
                None => (Handle::POISON, None),
            },
            Session::Program(p) => match p.read(init, loc) {
                Some((value, dtype)) => {
                    let var = p.var(dtype, name);
                    p.push_outside(program::Stmt::Set { var, value });
                    (p.expr(Expr::Var(var), dtype, loc), Some(var))
                }
                None => (Handle::POISON, None),
            },
        });
        self.all.push(Slot { name: name.to_string(), init, inner, next: inner, result: init, var });
        *handle = inner;
    }

    /// The name of the next variable to be seen, and what it was at the start of the turn.
    pub(crate) fn before_turn(&self) -> (&str, Handle) {
        self.all.get(self.cursor).map_or(("", Handle::POISON), |slot| (&slot.name, slot.inner))
    }

    /// The variables as they are at the end of a turn: each becomes the value after the loop, whose region is `depth` levels out.
    pub(crate) fn leave(&mut self, handle: &mut Handle, depth: usize, loc: SourceLoc) {
        let Some(slot) = self.all.get_mut(self.cursor) else {
            panic!("language: a loop carries other variables at its end than at its start")
        };
        self.cursor += 1;
        slot.next = *handle;
        if slot.inner == Handle::POISON || slot.next == Handle::POISON {
            *handle = Handle::POISON;
            return;
        }
        slot.result = session::with(|s| match s {
            Session::Kernel(_) if slot.next == slot.inner => slot.init,
            Session::Kernel(k) => {
                let (Some(next), Some(inner)) = (k.operand(slot.next, loc), slot.inner.value(k.build)) else { return Handle::POISON };
                if k.kernel.ty(next) != k.kernel.ty(inner) {
                    let message = format!("`{}` is {} before the loop and {} after a turn", slot.name, k.describe(inner), k.describe(next));
                    let made = k.kernel.value(next).loc;
                    let help = "a variable keeps its shape in a loop: give it the shape that it has at the end of a turn";
                    k.error(Diagnostic::new(loc, message).note("the value after a turn was made here", made).help(help));
                    return Handle::POISON;
                }
                let ty = k.kernel.ty(next).clone();
                let result = k.new_value(ty, Some(slot.name.clone()), loc, depth);
                k.handle(result)
            }
            // The variable itself is what is left after the loop.
            Session::Program(p) => match (slot.var, p.dtype(slot.inner)) {
                (Some(var), Some(dtype)) => p.expr_outside(Expr::Var(var), dtype, depth, loc),
                _ => Handle::POISON,
            },
        });
        *handle = slot.result;
    }

    /// The carried variables of a kernel's loop whose last region is closed: unchanged ones are dropped, and their inner values are
    /// replaced by what they were before the loop.
    pub(crate) fn carries(&self, body: &mut [&mut Block]) -> Vec<tile::Carry> {
        session::with(|s| {
            let Session::Kernel(k) = s else { return Vec::new() };
            let mut carries = Vec::new();
            let mut same = Vec::new();
            for slot in &self.all {
                let parts = (slot.init.value(k.build), slot.inner.value(k.build), slot.next.value(k.build), slot.result.value(k.build));
                let (Some(init), Some(inner), Some(next), Some(result)) = parts else { continue };
                if inner == next {
                    same.push((inner, init));
                } else {
                    carries.push(tile::Carry { init, inner, next, result });
                }
            }
            if !same.is_empty() {
                let replace = |v: &mut ValueId| {
                    if let Some((_, init)) = same.iter().find(|(inner, _)| inner == v) {
                        *v = *init;
                    }
                };
                for block in body.iter_mut() {
                    girih_ir::tile::substitute::block(block, &replace);
                }
                for carry in &mut carries {
                    replace(&mut carry.next);
                }
                girih_ir::tile::substitute::views(&mut k.kernel.views, &replace);
            }
            carries
        })
    }

    /// The value as it reads after [`Slots::carries`]: what an unchanged variable was before the loop.
    pub(crate) fn resolved(&self, value: ValueId) -> ValueId {
        session::with(|s| match s {
            Session::Kernel(k) => {
                let same = self.all.iter().find(|s| s.inner == s.next && s.inner.value(k.build) == Some(value));
                same.and_then(|s| s.init.value(k.build)).unwrap_or(value)
            }
            Session::Program(_) => value,
        })
    }

    /// The statements that end a turn of a program's loop: all new values are computed before any variable changes.
    pub(crate) fn set_variables(&self, loc: SourceLoc) {
        session::with(|s| {
            let Session::Program(p) = s else { return };
            let mut changed = Vec::new();
            for slot in &self.all {
                if let Some(var) = slot.var
                    && slot.next != slot.inner
                    && let Some((value, dtype)) = p.read(slot.next, loc)
                {
                    changed.push((var, value, dtype, slot.name.clone()));
                }
            }
            if let [(var, value, ..)] = changed.as_slice() {
                let (var, value) = (*var, value.clone());
                p.push(program::Stmt::Set { var, value });
                return;
            }
            let mut copies = Vec::new();
            for (var, value, dtype, name) in changed {
                let copy = p.var(dtype, &format!("next_{name}"));
                p.push(program::Stmt::Set { var: copy, value });
                copies.push(program::Stmt::Set { var, value: Expr::Var(copy) });
            }
            copies.into_iter().for_each(|s| p.push(s));
        });
    }
}

/// Closes a loop over tiles and appends it.
pub(crate) fn close_tiles(slots: &Slots, mut head: TileLoop, grid: bool) {
    let loc = head.loc;
    let Some(mut body) = session::with(|s| match s {
        Session::Kernel(k) => Some(k.close()),
        Session::Program(_) => None,
    }) else {
        return;
    };
    head.carries = slots.carries(&mut [&mut body]);
    head.body = body;
    session::with(|s| {
        let Session::Kernel(k) = s else { return };
        if grid && !head.strided && !head.carries.is_empty() {
            let names: Vec<String> =
                head.carries.iter().map(|c| format!("`{}`", k.kernel.value(c.inner).name.as_deref().unwrap_or("a value"))).collect();
            let message = format!("{} changes from turn to turn of the grid loop, whose turns run at the same time", names.join(", "));
            let help = "write `.tiles(..).strided()`: each block then takes several tiles and keeps a value of its own";
            k.error(Diagnostic::new(loc, message).help(help));
        }
        k.push(Stmt::Tiles(head));
    });
}

/// A value of a branch: the selected one of `then` and `otherwise`, or poison after a mistake.
pub(crate) fn per_element(mask: Handle, then: Handle, otherwise: Handle, loc: SourceLoc) -> Handle {
    if then == otherwise {
        return then;
    }
    let index = session::with(|s| match s {
        Session::Kernel(k) => [then, otherwise].iter().any(|h| matches!(h.value(k.build).map(|v| k.kernel.ty(v)), Some(Ty::TileIdx(_)))),
        Session::Program(_) => false,
    });
    if index {
        let message = "which tile is used cannot depend on a per-element condition";
        return session::with(|s| s.error(Diagnostic::new(loc, message).help("choose between loaded tiles instead")));
    }
    super::ops::select(mask, then, otherwise, loc)
}

/// Whether a block accesses memory: only then does its mask matter.
pub(crate) fn reads_memory(block: &Block) -> bool {
    block.iter().any(|s| match s {
        Stmt::Let(_, op) => matches!(op, Op::Load(..) | Op::Gather(..) | Op::GatherInside(..) | Op::Near(..)),
        Stmt::Tiles(l) => reads_memory(&l.body),
        Stmt::Range { body, .. } | Stmt::Where { body, .. } => reads_memory(body),
        Stmt::While { header, body, .. } => reads_memory(header) || reads_memory(body),
        Stmt::If { then, otherwise, .. } => reads_memory(then) || reads_memory(otherwise),
        Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Shared(_) => true,
        Stmt::Combine(_) | Stmt::Store { .. } | Stmt::Barrier { .. } | Stmt::Copies { .. } => false,
    })
}

/// Opens a region of a loop.
pub(super) fn open_region() {
    session::with(|s| match s {
        Session::Kernel(k) => k.open(false),
        Session::Program(p) => p.open(Reached::Perhaps),
    });
}

/// Closes the innermost region of a kernel: its statements.
pub(super) fn close_region() -> Option<Block> {
    session::with(|s| match s {
        Session::Kernel(k) => Some(k.close()),
        Session::Program(_) => None,
    })
}

/// Adds a statement to a kernel.
pub(super) fn push_stmt(stmt: Stmt) {
    session::with(|s| {
        if let Session::Kernel(k) = s {
            k.push(stmt);
        }
    });
}
