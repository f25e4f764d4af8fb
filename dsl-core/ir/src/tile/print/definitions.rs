//! The values that statements define.

use crate::tile::{Carry, Op, Operator, Stmt, ValueId};

/// The values that a block defines, with their operations, in order.
pub fn definitions<'a>(block: &'a [Stmt], out: &mut Vec<(ValueId, Option<&'a Op>)>) {
    let inner = |carries: &[Carry], out: &mut Vec<(ValueId, Option<&'a Op>)>| out.extend(carries.iter().map(|c| (c.inner, None)));
    let after = |carries: &[Carry], out: &mut Vec<(ValueId, Option<&'a Op>)>| out.extend(carries.iter().map(|c| (c.result, None)));
    for stmt in block {
        match stmt {
            Stmt::Let(v, op) => {
                if let Op::Dot { fold: Some(fold), .. } = op {
                    out.extend(fold.arguments.iter().map(|a| (*a, None)));
                    out.extend(fold.steps.iter().map(|(v, op)| (*v, Some(op))));
                }
                out.push((*v, Some(op)));
            }
            Stmt::Combine(c) => {
                if let Operator::User { arguments, body, .. } = &c.operator {
                    out.extend(arguments.iter().map(|a| (*a, None)));
                    definitions(body, out);
                }
                out.extend(c.results.iter().map(|r| (*r, None)));
            }
            Stmt::Atomic { update, .. } => out.extend(update.result.map(|r| (r, None))),
            Stmt::Shared(access) => out.extend(access.kind.result().map(|r| (r, None))),
            Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            Stmt::Tiles(l) => {
                out.extend(l.vars.iter().map(|v| (*v, None)));
                inner(&l.carries, out);
                definitions(&l.body, out);
                after(&l.carries, out);
            }
            Stmt::Range { var, carries, body, .. } => {
                out.push((*var, None));
                inner(carries, out);
                definitions(body, out);
                after(carries, out);
            }
            Stmt::While { carries, header, body, .. } => {
                inner(carries, out);
                definitions(header, out);
                definitions(body, out);
                after(carries, out);
            }
            Stmt::If { then, otherwise, results, .. } => {
                definitions(then, out);
                definitions(otherwise, out);
                out.extend(results.iter().map(|r| (r.result, None)));
            }
            Stmt::Where { body, .. } => definitions(body, out),
        }
    }
}
