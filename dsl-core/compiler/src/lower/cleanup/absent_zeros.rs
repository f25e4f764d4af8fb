//! What is zero where it was not loaded is not chosen against zero by the same condition again; zero of one type is zero of another.
//!
//! Before: `const float x = i < n ? a[i] : 0.0f; sum = i < n ? x : 0.0f;`
//! After:  `const float x = i < n ? a[i] : 0.0f; sum = x;`

use super::lets::{Lets, MOST};
use girih_ir::simt::visit::{blocks, children, each_expr};
use girih_ir::simt::{Expr, Kernel, Stmt};
use girih_ir::types::{DType, Literal, UnaryOp};

/// Puts loaded values in the place of choices between them and zero that their predicates have made.
pub(crate) fn use_absent_zeros(kernel: &mut Kernel) {
    let lets = Lets::of(&mut kernel.body);
    rewrite(&mut kernel.body, &lets);
}

/// Whether every bit of an expression is zero where a condition does not hold.
fn zero_without(lets: &Lets, e: &Expr, condition: &Expr) -> bool {
    zero_within(lets, e, condition, &mut { MOST })
}

fn zero_within(lets: &Lets, e: &Expr, condition: &Expr, steps: &mut usize) -> bool {
    if *steps == 0 {
        return false;
    }
    *steps -= 1;
    match e {
        Expr::Literal(l) => l.bits == 0,
        Expr::Var(v) => lets.loaded(*v).is_some_and(|e| zero_within(lets, e, condition, steps)),
        Expr::Cast(_, a) | Expr::Bitcast(_, a) => zero_within(lets, a, condition, steps),
        Expr::Select(_, a, b) => zero_within(lets, a, condition, steps) && zero_within(lets, b, condition, steps),
        Expr::Load { predicate: Some(predicate), .. } => {
            let mut holds = Vec::new();
            lets.parts(predicate, &mut holds);
            lets.follows(condition, &holds)
        }
        _ => false,
    }
}

fn rewrite(block: &mut [Stmt], lets: &Lets) {
    for stmt in block {
        each_expr(stmt, &mut |e| expr(e, lets));
        blocks(stmt).into_iter().for_each(|inner| rewrite(inner, lets));
    }
}

fn expr(e: &mut Expr, lets: &Lets) {
    children(e, &mut |inner| expr(inner, lets));
    if let Expr::Cast(to, a) = e
        && zero(a)
    {
        *e = Expr::Literal(Literal { dtype: *to, bits: 0 });
    }
    let Expr::Select(condition, a, b) = e else { return };
    let chosen = if zero(b) && zero_without(lets, a, condition) {
        a
    } else if zero(a) && zero_without(lets, b, &not(condition)) {
        b
    } else {
        return;
    };
    *e = std::mem::replace(&mut **chosen, Expr::Literal(Literal::bool(false)));
}

fn zero(e: &Expr) -> bool {
    matches!(e, Expr::Literal(l) if l.bits == 0 && l.dtype != DType::Bool)
}

fn not(condition: &Expr) -> Expr {
    match condition {
        Expr::Unary(UnaryOp::Not, e) => (**e).clone(),
        e => Expr::Unary(UnaryOp::Not, Box::new(e.clone())),
    }
}

#[cfg(test)]
mod tests;
