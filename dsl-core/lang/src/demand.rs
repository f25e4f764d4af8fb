//! What kernels and programs demand of their launches.

use super::builder::KernelBuilder;
use super::index::wide;
use super::scalar::Scalar;
use super::session::{self, Session};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Op, RequirementKind, Ty, ValueId};
use girih_ir::types::{BinaryOp, CompareOp};

/// Asks that something holds at every launch of a kernel, or at every call of a program: `require(group % 64 == 0)`, `require(table.len(0) > 0)`.
/// It is computed of lengths and integer parameters, before anything is launched; a launch that does not meet it is an error that shows the
/// line. Random arguments of `check` and `tune` meet it, and the compiler takes it as a fact: a divisor that is not zero is not looked at.
///
/// A kernel compares two integers by `==`, `<`, `<=`, `>` or `>=`, or a remainder by a constant with zero; `&&` joins several. A program may
/// demand whatever it can compute. Say it outside of loops and branches.
#[track_caller]
pub fn require(holds: Scalar<bool>) {
    let loc = SourceLoc::caller();
    session::with(|s| match s {
        Session::Kernel(k) => {
            if let Some(condition) = k.operand(holds.handle(), loc) {
                demand(k, condition, loc);
            }
        }
        Session::Program(p) => p.demand(holds.handle(), loc),
    });
}

fn demand(k: &mut KernelBuilder, condition: ValueId, loc: SourceLoc) {
    if let Some(known) = k.constant(condition) {
        if known.bits == 0 {
            k.error(Diagnostic::new(loc, "a demand that no launch meets").help("correct the condition"));
        }
        return;
    }
    match k.op(condition).cloned() {
        Some(Op::Binary(BinaryOp::And, a, b)) => [a, b].into_iter().for_each(|side| demand(k, side, loc)),
        Some(Op::Compare(op, a, b)) if is_integer(k, a) => compared(k, op, (a, b), loc),
        _ => {
            let help = "compare integers by `==`, `<`, `<=`, `>` or `>=`, or a remainder by a constant with zero; join several by `&&`";
            k.error(Diagnostic::new(loc, "a demand that is no comparison of integers").help(help));
        }
    }
}

fn is_integer(k: &KernelBuilder, value: ValueId) -> bool {
    matches!(k.kernel.ty(value), Ty::Scalar(dtype) if dtype.is_int())
}

fn compared(k: &mut KernelBuilder, op: CompareOp, (a, b): (ValueId, ValueId), loc: SourceLoc) {
    if let Some((of, by)) = remainder(k, a, b).filter(|_| op == CompareOp::Eq) {
        if let Some(of) = before_launch(k, of, loc) {
            k.require(RequirementKind::Divisible(of, by), loc);
        }
        return;
    }
    let (Some(a), Some(b)) = (before_launch(k, a, loc), before_launch(k, b, loc)) else { return };
    // Of a constant one less, which says more than a sum on the other side, and cannot wrap.
    let less = |k: &mut KernelBuilder, a: ValueId, b: ValueId| {
        let one = k.index(1, loc);
        match k.constant(b) {
            Some(most) if most.to_i64() > i64::MIN => (a, k.index(most.to_i64() - 1, loc)),
            _ => (k.index_op(BinaryOp::Add, a, one, loc), b),
        }
    };
    let kind = match op {
        CompareOp::Eq => RequirementKind::Equal(a, b),
        CompareOp::Le => RequirementKind::AtMost(a, b),
        CompareOp::Ge => RequirementKind::AtMost(b, a),
        CompareOp::Lt | CompareOp::Gt => {
            let (a, b) = if op == CompareOp::Lt { less(k, a, b) } else { less(k, b, a) };
            RequirementKind::AtMost(a, b)
        }
        CompareOp::Ne => {
            let help = "say on which side it lies: `<` or `>`";
            k.error(Diagnostic::new(loc, "a demand that two numbers differ").help(help));
            return;
        }
    };
    k.require(kind, loc);
}

/// A number in 64 bits that the host can compute before the launch.
fn before_launch(k: &mut KernelBuilder, value: ValueId, loc: SourceLoc) -> Option<ValueId> {
    let value = wide(k, value, loc);
    if k.host_known(value) {
        return Some(value);
    }
    let help = "compute it from lengths and integer parameters alone, in 64 bits: by sums, differences, products, quotients, remainders";
    k.error(Diagnostic::new(loc, "a demand on what is not known before the launch").help(help));
    None
}

/// Of `of % by` beside zero, with a constant `by`, both.
fn remainder(k: &KernelBuilder, a: ValueId, b: ValueId) -> Option<(ValueId, i64)> {
    let is_zero = k.constant(b)?.to_i64() == 0;
    match k.op(a)? {
        Op::Binary(BinaryOp::Rem, of, by) if is_zero => Some((*of, k.constant(*by)?.to_i64())).filter(|(_, by)| *by > 0),
        _ => None,
    }
}
