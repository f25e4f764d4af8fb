//! An `if` on a vote: a warp takes a side or passes it, for all of its lanes know alike.
//!
//! Each side is recorded as a loop of at most one turn that elements take by themselves, with a choice per element around what it accesses.

use super::branch::Change;
use super::loops::reads_memory;
use super::ops;
use super::session::{self, Handle, Session};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Block, Carry, Op, Stmt, Ty, ValueId, by_element};
use girih_ir::types::{Literal, UnaryOp, VoteKind};

/// The two sides.
#[derive(Default)]
pub(super) struct WarpSides {
    regions: [u32; 2],
    blocks: [Block; 2],
    /// What follows the side's own statements: the variables of the elements that take it.
    chosen: [Block; 2],
    carries: [Vec<Carry>; 2],
}

impl WarpSides {
    /// The sides of an `if`, where its condition is a vote and no choice per element stands around it.
    pub fn of(mask: Handle) -> Option<WarpSides> {
        session::with(|s| {
            let k = recording(s)?;
            let vote = matches!(k.op(mask.value(k.build)?), Some(Op::Vote(VoteKind::Any | VoteKind::All, _)));
            (vote && !k.in_where()).then(WarpSides::default)
        })
    }

    /// A side begins.
    pub fn open(&mut self, side: usize) {
        session::with(|s| {
            if let Some(k) = recording(s) {
                k.open(false);
                self.regions[side] = k.region();
            }
        });
    }

    /// A side ends.
    pub fn close(&mut self, side: usize) {
        session::with(|s| {
            if let Some(k) = recording(s) {
                self.blocks[side] = k.close();
            }
        });
    }

    /// What a variable is behind the sides, or the value of the `if`, which was nothing before.
    pub fn result(&mut self, mask: Handle, change: Change, loc: SourceLoc) -> Handle {
        session::with(|s| {
            let Some(k) = recording(s) else { return Handle::POISON };
            let Some(condition) = k.operand(mask, loc) else { return Handle::POISON };
            let shape = k.kernel.ty(condition).shape().map(<[_]>::to_vec).unwrap_or_default();
            let sides = [k.operand_of(change.then, self.regions[0], loc), k.operand_of(change.otherwise, self.regions[1], loc)];
            let [Some(then), Some(otherwise)] = sides else { return Handle::POISON };
            let [then, otherwise] = [then, otherwise].map(|v| if k.constant(v).is_some() { ops::splat_to(k, v, &shape, loc) } else { v });
            let old = change.old.and_then(|h| k.operand(h, loc)).map(|v| ops::splat_to(k, v, &shape, loc));
            let ty = k.kernel.ty(then).clone();
            if ty != *k.kernel.ty(otherwise) || ty.shape() != Some(&shape[..]) {
                let [a, b] = [then, otherwise].map(|v| k.describe(v));
                let message = format!("the sides of an `if` that warps take by themselves give {a} and {b}");
                let help = "give each thread a value of its own, as in `mask.like(0)`";
                k.error(Diagnostic::new(loc, message).help(help));
                return Handle::POISON;
            }
            let mut value = old.unwrap_or_else(|| {
                let zero = k.literal(Literal { dtype: ty.dtype().expect("language: a tile has elements"), bits: 0 }, loc);
                ops::splat_to(k, zero, &shape, loc)
            });
            let first = value;
            for (side, new) in [then, otherwise].into_iter().enumerate().filter(|(_, new)| *new != first) {
                let inner = k.new_value(ty.clone(), None, loc, 0);
                let next = k.new_value(ty.clone(), None, loc, 0);
                let result = k.new_value(ty.clone(), change.name.map(str::to_string), loc, 0);
                let [yes, no] = if side == 0 { [new, inner] } else { [inner, new] };
                self.chosen[side].push(Stmt::Let(next, Op::Select(condition, yes, no)));
                self.carries[side].push(Carry { init: value, inner, next, result });
                value = result;
            }
            k.handle(value)
        })
    }

    /// The end of the `if`.
    pub fn finish(self, mask: Handle, loc: SourceLoc) {
        session::with(|s| {
            let Some(k) = recording(s) else { return };
            let Some(condition) = k.operand(mask, loc) else { return };
            let sides = self.blocks.into_iter().zip(self.chosen).zip(self.carries).enumerate();
            for (side, ((block, chosen), carries)) in sides {
                if block.is_empty() && carries.is_empty() {
                    continue;
                }
                if let Some((what, at)) = by_element::hindrance(&k.kernel, &block) {
                    let message = format!("warps take this `if` by themselves, and {what} needs the others");
                    k.error(
                        Diagnostic::new(loc, message)
                            .note("here", at)
                            .help("write it before or behind the `if`, or let the block decide: `if found.any() { .. }`"),
                    );
                }
                let condition = if side == 0 { condition } else { passed(k, condition, loc) };
                let body = around(condition, block, chosen, loc);
                k.push(Stmt::While { once: true, carries, header: vec![], condition, body, loc });
            }
        });
    }
}

fn recording(s: &mut Session) -> Option<&mut super::builder::KernelBuilder> {
    if let Session::Kernel(k) = s { Some(k) } else { None }
}

/// The condition of the second side.
fn passed(k: &mut super::builder::KernelBuilder, condition: ValueId, loc: SourceLoc) -> ValueId {
    let ty: Ty = k.kernel.ty(condition).clone();
    k.emit(Op::Unary(UnaryOp::Not, condition), ty, loc)
}

/// A side's statements for the elements that take it.
fn around(mask: ValueId, block: Block, chosen: Block, loc: SourceLoc) -> Block {
    let mut body = match reads_memory(&block) {
        true => vec![Stmt::Where { mask, negate: false, body: block, loc }],
        false => block,
    };
    body.extend(chosen);
    body
}
