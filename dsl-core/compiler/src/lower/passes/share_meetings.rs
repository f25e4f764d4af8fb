//! Reductions for which threads of several warps meet and that do not depend on each other, with nothing but values between them, become one
//! statement: the threads of the block meet once for all of them.

use super::Source;
use crate::block::lying::Walk;
use crate::block::steps::{Step, steps};
use crate::block::{Block, Combine, Finish, FinishWay, Form, Index, Kernel, Loop, Stmt, ValueId, operands};
use std::collections::HashSet;

/// Lanes that need no barrier to meet.
const LANES: i64 = 32;

/// Joins what can be joined, in each block of statements.
pub(crate) fn share_meetings(page: &mut Kernel, _: &Source) {
    // Slices of a block meet by themselves, and then together.
    if page.teams.len() == 1 && page.teams[0].threads > LANES {
        let meeting = meeting(page);
        block(&mut page.body, &meeting);
    }
}

/// The results of reductions for which threads of several warps meet where the reduction stands.
fn meeting(page: &Kernel) -> HashSet<ValueId> {
    let mut found = HashSet::new();
    Walk::new(page).block(&page.body, &mut |walk, stmt| {
        if let Stmt::Combine(c) = stmt
            && let Form::Reduce { axes } = &c.form
            && !page.is_late(c)
        {
            let layout = c.inputs.iter().find_map(|v| walk.tile(*v).layout).or_else(|| walk.layout_of(c.inputs[0]));
            let meets = |layout| steps(&layout, axes, c.operator.commutative()).iter().any(|s| matches!(s, Step::Threads(_)));
            if layout.is_some_and(meets) {
                found.extend(&c.results);
            }
        }
    });
    found
}

fn block(statements: &mut Block, meeting: &HashSet<ValueId>) {
    for stmt in statements.iter_mut() {
        match stmt {
            Stmt::Loop(Loop { body, .. }) | Stmt::Range { body, .. } | Stmt::Where { body, .. } => block(body, meeting),
            Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| block(b, meeting)),
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| block(b, meeting)),
            Stmt::Alone(_) => {}
            Stmt::Finish(Finish { before, after, way, .. }) => {
                let again = if let FinishWay::SecondLaunch { again } = way { Some(again) } else { None };
                [before, after].into_iter().chain(again).for_each(|b| block(b, meeting));
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
        if as_reduction(&statements[at], meeting).is_some() {
            join(statements, at, meeting);
        }
        at += 1;
    }
}

/// A reduction for which threads meet.
fn as_reduction<'s>(stmt: &'s Stmt, meeting: &HashSet<ValueId>) -> Option<&'s Combine> {
    let Stmt::Combine(c) = stmt else { return None };
    c.results.iter().all(|r| meeting.contains(r)).then_some(c)
}

/// Joins the reduction at a place with those behind it that do not need it. What these are computed of goes in front.
fn join(statements: &mut Block, first: usize, meeting: &HashSet<ValueId>) {
    let mut behind: HashSet<ValueId> = HashSet::new();
    let mut joined = Vec::new();
    for (at, stmt) in statements.iter().enumerate().skip(first) {
        if let Some(c) = as_reduction(stmt, meeting).filter(|c| c.inputs.iter().all(|i| !behind.contains(i))) {
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
