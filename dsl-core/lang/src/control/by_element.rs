//! A `while` on a tile: each element leaves the loop by itself, and keeps what it had then.
//!
//! It is recorded as a `while` whose condition is the tile, around a choice per element: what a turn accesses are the elements that still go
//! on, and what it changes are theirs.

use crate::elementwise::is_lifted;
use crate::loops::{Slots, per_element, reads_memory};
use crate::scalar::Scalar;
use crate::session::{self, Handle, Session};
use crate::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Block, Stmt, by_element};

/// The condition of a `while`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no condition of a `while`",
    label = "neither a scalar nor a tile of bools",
    note = "a `while` goes on while a `Scalar<bool>` holds, or each element while its own of a `Tile<bool>` does; a host value would never change"
)]
pub trait LoopCondition {
    /// The condition, and whether each element has its own.
    #[doc(hidden)]
    fn condition(self) -> (Handle, bool);
}

impl LoopCondition for Scalar<bool> {
    fn condition(self) -> (Handle, bool) {
        (self.handle(), is_lifted(self.handle()))
    }
}

impl LoopCondition for Tile<bool> {
    fn condition(self) -> (Handle, bool) {
        (self.handle(), true)
    }
}

/// The choice per element around a turn.
pub(super) struct ByElement {
    /// The condition.
    pub mask: Handle,
    /// The author's `while`.
    pub loc: SourceLoc,
    /// The turn is being recorded.
    pub open: bool,
}

impl ByElement {
    /// The turn is over: what it changed of a variable is changed where the element goes on.
    pub fn leave(&mut self, slots: &Slots, handle: Handle) -> Handle {
        self.close();
        let (name, before) = slots.before_turn();
        if handle == before || self.is_of_elements(name, handle) {
            per_element(self.mask, handle, before, self.loc)
        } else {
            Handle::POISON
        }
    }

    /// Whether a variable has a value for each element; one that has not is a mistake.
    fn is_of_elements(&self, name: &str, handle: Handle) -> bool {
        session::with(|s| {
            let Session::Kernel(k) = s else { return true };
            let (Some(value), Some(mask)) = (handle.value(k.build), self.mask.value(k.build)) else { return true };
            if k.kernel.ty(value).shape() == k.kernel.ty(mask).shape() {
                return true;
            }
            let message =
                format!("`{name}` changes in a loop that each of {} leaves by itself, and is {}", k.describe(mask), k.describe(value));
            let help = "give it a value for each element, as in `x.like(0)`, or let all leave together: `while open.any() { .. }`";
            k.error(Diagnostic::new(self.loc, message).help(help));
            false
        })
    }

    /// Puts the choice around what the turn has recorded, once.
    pub fn close(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        session::with(|s| {
            let Session::Kernel(k) = s else { return };
            let body = k.split();
            match k.operand(self.mask, self.loc) {
                Some(mask) if reads_memory(&body) => k.push(Stmt::Where { mask, negate: false, body, loc: self.loc }),
                _ => body.into_iter().for_each(|s| k.push(s)),
            }
        });
    }

    /// Says what elements cannot do each by itself.
    pub fn check(&self, header: &Block, body: &Block) {
        session::with(|s| {
            let Session::Kernel(k) = s else { return };
            let wrong = by_element::hindrance(&k.kernel, header).or_else(|| by_element::hindrance(&k.kernel, body));
            if let Some((what, loc)) = wrong {
                let message = format!("each element leaves this `while` by itself, and {what} needs the others");
                let help = "let all elements leave together, `while open.any() { .. }`, or write it behind the loop";
                k.error(Diagnostic::new(self.loc, message).note("here", loc).help(help));
            }
        });
    }
}
