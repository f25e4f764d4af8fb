//! Where the numbers of a program's variables come from: lengths, counters, data.

use super::arithmetic::Origin;
use girih_ir::program::{Expr, ScalarVar, Stmt};
use girih_ir::types::BinaryOp;

/// Where a variable's numbers come from.
pub(super) fn origin(body: &[Stmt], var: ScalarVar) -> Origin {
    if counts(body, var) {
        return Origin::Lengths;
    }
    if is_counted(body, var) { Origin::Counter } else { Origin::Data }
}

/// No program lives to count so far that 64 bits are too few.
const STEP: i64 = 1 << 20;

/// Whether a variable only ever begins with a small constant or a length and is counted up and down by small constants, be it by way of
/// others that take the same numbers.
fn is_counted(body: &[Stmt], var: ScalarVar) -> bool {
    let small = |e: &Expr| matches!(e, Expr::Literal(l) if l.dtype.is_int() && (-STEP..=STEP).contains(&l.to_i64()));
    let (mut group, mut next) = (vec![var], 0);
    while let Some(var) = group.get(next).copied() {
        next += 1;
        let mut values = Vec::new();
        if !assigned(body, var, &mut values) {
            return false;
        }
        for value in values {
            match value {
                Expr::Dim(..) => {}
                Expr::Var(from) if group.contains(from) => {}
                Expr::Var(from) => group.push(*from),
                Expr::Binary(BinaryOp::Add | BinaryOp::Sub, from, step) if small(step) => match **from {
                    Expr::Var(from) if group.contains(&from) => {}
                    Expr::Var(from) => group.push(from),
                    _ => return false,
                },
                other if small(other) => {}
                _ => return false,
            }
        }
    }
    true
}

/// The values that a variable is set to; `false` where it is read back, too.
fn assigned<'a>(body: &'a [Stmt], var: ScalarVar, values: &mut Vec<&'a Expr>) -> bool {
    body.iter().all(|stmt| match stmt {
        Stmt::Set { var: own, value } => {
            values.extend((*own == var).then_some(value));
            true
        }
        Stmt::ReadBack { var: own, .. } => *own != var,
        Stmt::For { body, .. } => assigned(body, var, values),
        Stmt::While { header, body, .. } => assigned(header, var, values) && assigned(body, var, values),
        Stmt::If { then, otherwise, .. } => assigned(then, var, values) && assigned(otherwise, var, values),
        Stmt::Launch { .. } | Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Let { .. } => true,
    })
}

/// Whether a variable counts the turns of a loop.
fn counts(body: &[Stmt], var: ScalarVar) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::For { var: own, body, .. } => *own == var || counts(body, var),
        Stmt::While { header, body, .. } => counts(header, var) || counts(body, var),
        Stmt::If { then, otherwise, .. } => counts(then, var) || counts(otherwise, var),
        _ => false,
    })
}
