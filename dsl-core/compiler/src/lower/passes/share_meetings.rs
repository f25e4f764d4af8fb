//! Reductions to scalars that do not depend on each other, with nothing but values between them, become one statement: the threads of the
//! block meet once for all of them.

use super::Source;
use crate::block::{Block, Combine, Finish, FinishWay, Form, Index, Kernel, Loop, Operator, Stmt, ValueId, operands};
use std::collections::HashSet;

/// Lanes that need no barrier to meet.
const LANES: i64 = 32;

/// Joins what can be joined, in each block of statements.
pub(crate) fn share_meetings(page: &mut Kernel, _: &Source) {
    // Slices of a block meet by themselves, and then together.
    if page.teams.len() == 1 && page.teams[0].threads > LANES {
        let scalar: Vec<bool> = page.values.iter().map(|v| v.form.is_none()).collect();
        block(&mut page.body, &scalar);
    }
}

fn block(statements: &mut Block, scalar: &[bool]) {
    for stmt in statements.iter_mut() {
        match stmt {
            Stmt::Loop(Loop { body, .. }) | Stmt::Range { body, .. } | Stmt::Where { body, .. } => block(body, scalar),
            Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| block(b, scalar)),
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| block(b, scalar)),
            Stmt::Alone(_) => {}
            Stmt::Finish(Finish { before, after, way, .. }) => {
                let again = if let FinishWay::SecondLaunch { again } = way { Some(again) } else { None };
                [before, after].into_iter().chain(again).for_each(|b| block(b, scalar));
            }
            Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
            Stmt::Combine(_)
            | Stmt::OverCluster(_)
            | Stmt::Together(_)
            | Stmt::Shared { .. }
            | Stmt::Barrier(_)
            | Stmt::Copies { .. }
            | Stmt::Meet(_) => {}
        }
    }
    let mut at = 0;
    while at < statements.len() {
        if as_reduction(&statements[at], scalar).is_some() {
            join(statements, at, scalar);
        }
        at += 1;
    }
}

/// A reduction of all elements by an operator that is none of the author's.
fn as_reduction<'s>(stmt: &'s Stmt, scalar: &[bool]) -> Option<&'s Combine> {
    let Stmt::Combine(c) = stmt else { return None };
    let reduces = matches!(c.form, Form::Reduce { .. }) && !matches!(c.operator, Operator::User { .. });
    (reduces && c.results.iter().all(|r| scalar[r.0 as usize])).then_some(c)
}

/// Joins the reduction at a place with those behind it that do not need it. What these are computed of goes in front.
fn join(statements: &mut Block, first: usize, scalar: &[bool]) {
    let mut behind: HashSet<ValueId> = HashSet::new();
    let mut joined = Vec::new();
    for (at, stmt) in statements.iter().enumerate().skip(first) {
        if let Some(c) = as_reduction(stmt, scalar).filter(|c| c.inputs.iter().all(|i| !behind.contains(i))) {
            behind.extend(&c.results);
            joined.push(at);
        } else if let Some((v, uses)) = as_value(stmt) {
            if uses.iter().any(|o| behind.contains(o)) {
                behind.insert(v);
            }
        } else {
            break;
        }
    }
    if joined.len() > 1 {
        let last = joined[joined.len() - 1];
        let part: Vec<Stmt> = statements.drain(first..=last).collect();
        statements.splice(first..first, rearranged(part));
    }
}

/// What the reductions need, these in one statement, and the rest, each in its order.
fn rearranged(part: Vec<Stmt>) -> Vec<Stmt> {
    let mut needed: HashSet<ValueId> = HashSet::new();
    let mut in_front = vec![false; part.len()];
    for (at, stmt) in part.iter().enumerate().rev() {
        if let Stmt::Combine(c) = stmt {
            needed.extend(&c.inputs);
        } else if let Some((_, uses)) = as_value(stmt).filter(|(v, _)| needed.contains(v)) {
            needed.extend(uses);
            in_front[at] = true;
        }
    }
    let (mut front, mut together, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (at, stmt) in part.into_iter().enumerate() {
        if let Stmt::Combine(c) = stmt {
            together.push(c);
        } else {
            let place = if in_front[at] { &mut front } else { &mut rest };
            place.push(stmt);
        }
    }
    front.push(Stmt::Together(together));
    front.extend(rest);
    front
}

/// The value that a statement makes of others, or loads where it is, and what it uses for that.
fn as_value(stmt: &Stmt) -> Option<(ValueId, Vec<ValueId>)> {
    match stmt {
        Stmt::Let(v, op) => Some((*v, operands(op))),
        Stmt::Load(v, access) if !access.read.shared => {
            let of = |index: &Index| match index {
                Index::Tile(v) | Index::At(v) => Some(*v),
                Index::All(_) => None,
            };
            Some((*v, access.index.iter().filter_map(of).collect()))
        }
        Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Combine(_) => None,
        Stmt::OverCluster(_)
        | Stmt::Together(_)
        | Stmt::Shared { .. }
        | Stmt::Barrier(_)
        | Stmt::Copies { .. }
        | Stmt::Meet(_)
        | Stmt::Loop(_) => None,
        Stmt::Range { .. } | Stmt::While { .. } | Stmt::If { .. } | Stmt::Where { .. } | Stmt::Alone(_) | Stmt::Finish(_) => None,
    }
}
