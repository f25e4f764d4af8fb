//! Where the threads of a block meet: between accesses of shared arrays, and of tensors that a block both stores and loads; and around copies
//! to shared memory, those of a pipeline aside, which its ring hands over.

use super::Source;
use crate::analyses::barriers::{Barriers, place};
use crate::block::{
    Access, Block, Finish, FinishWay, Handover, Kernel, Key, Loop, Meet, Pipeline, Range, Reading, Stmt, Value, ValueId, Window, operands,
    visit,
};
use std::collections::HashMap;

/// Puts the meetings before what they are for.
pub(crate) fn place_barriers(page: &mut Kernel, source: &Source) {
    let barriers = place(source.kernel, source.plan.grid > 0);
    insert(&mut page.body, &barriers);
    let mut copies = Copies { values: &page.values, sliced: page.teams.len() > 1 };
    copies.block(&mut page.body, false, &[]);
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
            Stmt::Combine(_)
            | Stmt::OverCluster(_)
            | Stmt::Together(_)
            | Stmt::Shared { .. }
            | Stmt::Barrier(_)
            | Stmt::Copies { .. }
            | Stmt::Meet(_) => {}
            Stmt::Alone(_) => {}
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
        Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::Copies { .. } | Stmt::Meet(_) | Stmt::If { .. } | Stmt::Where { .. } => None,
        Stmt::Alone(alone) => alone.body.first().and_then(|stmt| before(stmt, barriers)),
        Stmt::Finish(_) => None,
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

/// Puts meetings around copies to shared memory. Copies that follow one another, with nothing but values between them that read none of
/// them, meet once; where a ring of asynchronous copies that alone reads them follows, at its first meeting.
struct Copies<'a> {
    values: &'a [Value],
    /// Groups of threads share a tile, and each tile ends with all of them together.
    sliced: bool,
}

/// Copies that nobody has waited for.
#[derive(Default)]
struct Open {
    values: Vec<ValueId>,
    /// Statements up to and with the last of them.
    end: usize,
    asynchronous: bool,
}

impl Copies<'_> {
    /// `repeats`: threads may come here again. `ahead` are copies that the loop around makes ahead of their iteration.
    fn block(&mut self, block: &mut Block, repeats: bool, ahead: &[ValueId]) {
        let mut open = Open::default();
        for mut stmt in std::mem::take(block) {
            if let Some((value, read)) = self.copied(&stmt).filter(|(value, _)| !ahead.contains(value)) {
                if open.values.is_empty() && repeats {
                    block.push(Stmt::Meet(Meet::Replaced));
                }
                block.push(stmt);
                open.values.push(value);
                (open.end, open.asynchronous) = (block.len(), open.asynchronous || read.asynchronous);
                continue;
            }
            let joins = matches!(&stmt, Stmt::Let(_, op) if !operands(op).iter().any(|v| open.values.contains(v)));
            if !repeats && self.waits_for(&stmt, &open.values) {
                open = Open::default();
            }
            if !joins {
                close(block, &mut open);
            }
            self.inner(&mut stmt, repeats);
            block.push(stmt);
        }
        close(block, &mut open);
    }

    /// Whether a statement is a ring that alone reads these copies: they were started before its own, and have landed where its first iteration
    /// meets.
    fn waits_for(&self, stmt: &Stmt, copies: &[ValueId]) -> bool {
        let Stmt::Loop(l) = stmt else { return false };
        let Pipeline::Multistage { ring, .. } = &l.plan.pipeline else { return false };
        let mut read: HashMap<ValueId, u32> = HashMap::new();
        visit(&l.body, &mut |inner| {
            if let Stmt::Let(_, op) = inner {
                operands(op).into_iter().for_each(|v| *read.entry(v).or_default() += 1);
            }
        });
        let all = |v: &ValueId| read.get(v) == Some(&self.values[v.0 as usize].uses.count);
        ring.handover == Handover::Barrier && copies.iter().all(all)
    }

    /// What a statement copies to shared memory.
    fn copied(&self, stmt: &Stmt) -> Option<(ValueId, Reading)> {
        let (value, read) = match stmt {
            Stmt::Load(value, access) | Stmt::Window(value, Window { tile: access, .. }) => (*value, access.read),
            Stmt::Let(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Combine(_) => {
                return None;
            }
            Stmt::Shared { .. } | Stmt::Barrier(_) | Stmt::Copies { .. } | Stmt::Meet(_) | Stmt::Loop(_) | Stmt::Range { .. } => {
                return None;
            }
            Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::While { .. } | Stmt::If { .. } | Stmt::Where { .. } => return None,
            Stmt::Alone(_) | Stmt::Finish(_) => return None,
        };
        (read.shared && self.values[value.0 as usize].uses.count > 0).then_some((value, read))
    }

    fn inner(&mut self, stmt: &mut Stmt, repeats: bool) {
        match stmt {
            Stmt::Loop(Loop { body, plan, .. }) => {
                let ahead = match &plan.pipeline {
                    Pipeline::Multistage { copies, .. } => copies.windows.clone(),
                    Pipeline::None | Pipeline::GridPrefetch { .. } | Pipeline::Persistent { .. } | Pipeline::Roles { .. } => vec![],
                };
                let again = match plan.range {
                    Range::Once | Range::OnePerBlock => repeats,
                    Range::Persistent(_) => !self.sliced,
                    Range::All | Range::Shared(_) | Range::SlicedK(_) | Range::Cluster(_) => true,
                };
                self.block(body, again, &ahead);
            }
            Stmt::Range { body, .. } => self.block(body, true, &[]),
            Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| self.block(b, true, &[])),
            Stmt::Where { body, .. } => self.block(body, repeats, &[]),
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| self.block(b, repeats, &[])),
            Stmt::Finish(Finish { before, after, way, .. }) => {
                let again = if let FinishWay::SecondLaunch { again } = way { Some(again) } else { None };
                [before, after].into_iter().chain(again).for_each(|b| self.block(b, repeats, &[]));
            }
            Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
            Stmt::Combine(_)
            | Stmt::OverCluster(_)
            | Stmt::Together(_)
            | Stmt::Shared { .. }
            | Stmt::Barrier(_)
            | Stmt::Copies { .. }
            | Stmt::Meet(_) => {}
            Stmt::Alone(_) => {}
        }
    }
}

/// The block meets behind the copies that are open.
fn close(block: &mut Block, open: &mut Open) {
    let Open { values, end, asynchronous } = std::mem::take(open);
    if !values.is_empty() {
        block.insert(end, Stmt::Meet(Meet::Copied { asynchronous }));
    }
}
