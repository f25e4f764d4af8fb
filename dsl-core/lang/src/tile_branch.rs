//! An `if` on a tile: both sides are evaluated, and each element takes its own. On a vote, each warp takes its own side.

use super::branch::{Change, Changes, Condition, Side};
use super::carry::{Carrier, Carry, Kept};
use super::elem::Elem;
use super::join::{FromLiterals, Join};
use super::loops::{per_element, reads_memory};
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::tile::Tile;
use super::warp_branch::WarpSides;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::Stmt;

/// An `if` on a tile: both sides are evaluated, each element takes its own, and loads of a side carry that side's mask.
pub struct TileBranch {
    mask: Handle,
    loc: SourceLoc,
    side: Side,
    changes: Changes,
    kept: Kept,
    /// Warps take the sides.
    warps: Option<WarpSides>,
}

impl Condition for Tile<bool> {
    type Branch = TileBranch;
    fn branch(self, loc: SourceLoc) -> TileBranch {
        let (mask, warps) = (self.handle(), WarpSides::of(self.handle()));
        TileBranch { mask, loc, side: Side::Before, changes: Changes::default(), kept: Kept::default(), warps }
    }
}

impl TileBranch {
    /// Carries a variable: called before the `if`, after the first side, and after the second.
    pub fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        if self.side == Side::Otherwise {
            self.settle();
        }
        let mut changes = std::mem::take(&mut self.changes);
        let side = self.side;
        variable.handles(&mut |h| changes.visit(name, side, h, &mut |change| self.result(change)));
        self.changes = changes;
    }
    /// The first side follows.
    pub fn then(&mut self) -> bool {
        self.side = Side::Then;
        self.open();
        true
    }
    /// The second side follows.
    pub fn otherwise(&mut self) -> bool {
        self.close(false);
        self.side = Side::Otherwise;
        self.open();
        true
    }
    fn settle(&mut self) {
        if self.side != Side::Joined {
            self.close(true);
            self.side = Side::Joined;
        }
    }
    /// The value of the `if`.
    pub fn join<A: Join<B>, B>(mut self, then: Option<A>, otherwise: Option<B>) -> A::Output {
        self.settle();
        let (Some(a), Some(b)) = (then, otherwise) else { panic!("language: both sides of a recorded `if` run") };
        let joined = a.join(b, self.loc, &mut |then, otherwise| self.result(Change { name: None, old: None, then, otherwise }));
        self.finish();
        joined
    }
    /// The value of an `if` whose sides are both literals.
    pub fn join_literals<L, T: Elem>(mut self, then: Option<L>, otherwise: Option<L>) -> Tile<T>
    where
        Tile<T>: FromLiterals<L>,
    {
        self.settle();
        let (Some(a), Some(b)) = (then, otherwise) else { panic!("language: both sides of a recorded `if` run") };
        let (mask, loc) = (self.mask, self.loc);
        let joined = Tile::<T>::from_literals(a, b, loc, &mut |a, b| per_element(mask, a, b, loc));
        self.finish();
        joined
    }
    /// The value of an `if` whose sides are both literals, as a scalar that stands for the elements.
    pub(super) fn join_scalars<L, T: Elem>(mut self, then: Option<L>, otherwise: Option<L>) -> Scalar<T>
    where
        Scalar<T>: FromLiterals<L>,
    {
        self.settle();
        let (Some(a), Some(b)) = (then, otherwise) else { panic!("language: both sides of a recorded `if` run") };
        let (mask, loc) = (self.mask, self.loc);
        Scalar::<T>::from_literals(a, b, loc, &mut |a, b| per_element(mask, a, b, loc))
    }
    /// The end of the `if`.
    pub fn finish(mut self) {
        self.settle();
        if let Some(warps) = self.warps {
            warps.finish(self.mask, self.loc);
        }
    }
    fn result(&mut self, change: Change) -> Handle {
        match &mut self.warps {
            Some(warps) => warps.result(self.mask, change, self.loc),
            None => per_element(self.mask, change.then, change.otherwise, self.loc),
        }
    }
    fn open(&mut self) {
        if let Some(warps) = &mut self.warps {
            return warps.open(usize::from(self.side == Side::Otherwise));
        }
        session::with(|s| {
            if let Some(k) = s.kernel("a per-element `if`", self.loc) {
                k.open(true);
            }
        });
    }
    fn close(&mut self, negate: bool) {
        if let Some(warps) = &mut self.warps {
            return warps.close(usize::from(negate));
        }
        let loc = self.loc;
        session::with(|s| {
            let Session::Kernel(k) = s else { return };
            let body = k.close();
            match k.operand(self.mask, loc) {
                Some(mask) if reads_memory(&body) => k.push(Stmt::Where { mask, negate, body, loc }),
                _ => body.into_iter().for_each(|s| k.push(s)),
            }
        });
    }
}
impl Carrier for TileBranch {
    fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        TileBranch::carry(self, name, variable);
    }
    fn keep(&mut self, name: &str, tensor: &mut Handle) {
        self.kept.visit(name, tensor, self.loc);
    }
}
