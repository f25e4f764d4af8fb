//! Where the threads of a block meet between accesses of shared arrays, and of tensors that a block both stores and loads.

use super::Source;
use crate::analyses::barriers::{Barriers, place};
use crate::block::{Access, Block, Finish, FinishWay, Kernel, Key, Meet, Stmt, ValueId};

/// Puts the meetings before what they are for.
pub(crate) fn place_barriers(page: &mut Kernel, source: &Source) {
    let barriers = place(source.kernel, source.plan.grid > 0);
    insert(&mut page.body, &barriers);
}

fn insert(block: &mut Block, barriers: &Barriers) {
    for mut stmt in std::mem::take(block) {
        match &mut stmt {
            Stmt::Loop(l) => insert(&mut l.body, barriers),
            Stmt::Range { body, .. } | Stmt::Where { body, .. } => insert(body, barriers),
            Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| insert(b, barriers)),
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| insert(b, barriers)),
            Stmt::Finish(Finish { before, after, way, .. }) => {
                let again = if let FinishWay::SecondLaunch { again } = way { Some(again) } else { None };
                [before, after].into_iter().chain(again).for_each(|b| insert(b, barriers));
            }
            Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
            Stmt::Combine(_) | Stmt::Shared { .. } | Stmt::Barrier(_) | Stmt::Copies { .. } | Stmt::Meet(_) => {}
        }
        block.extend(before(&stmt, barriers).map(Stmt::Meet));
        block.push(stmt);
    }
}

/// Why threads meet before a statement, if they do.
fn before(stmt: &Stmt, barriers: &Barriers) -> Option<Meet> {
    match stmt {
        Stmt::Loop(l) => at_loop(l.vars[0], barriers),
        Stmt::Range { var, .. } => at_loop(*var, barriers),
        Stmt::While { condition, .. } => at_loop(*condition, barriers),
        Stmt::Shared { number, .. } => barriers.accesses.contains(number).then_some(Meet::Shared),
        Stmt::Load(value, access) => at_access(Key::Load(*value), access, barriers),
        Stmt::Store { to, value, .. } => at_access(Key::Store(to.view, *value), to, barriers),
        Stmt::Let(..) | Stmt::Window(..) | Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Combine(_) | Stmt::Barrier(_) => None,
        Stmt::Copies { .. } | Stmt::Meet(_) | Stmt::If { .. } | Stmt::Where { .. } | Stmt::Finish(_) => None,
    }
}

fn at_loop(key: ValueId, barriers: &Barriers) -> Option<Meet> {
    barriers.loops.contains(&key).then_some(Meet::Loop)
}

fn at_access(key: Key, access: &Access, barriers: &Barriers) -> Option<Meet> {
    if barriers.stand_before_access(key) {
        return Some(Meet::Memory(key));
    }
    let earlier = barriers.at_the_same_place(key)?.clone();
    Some(Meet::SamePlace { key, access: access.clone(), earlier })
}
