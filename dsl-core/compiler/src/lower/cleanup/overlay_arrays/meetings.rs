//! Where threads meet between phases whose arrays lie on the same bytes.

use super::{Found, Phase, Uses, has, uses};
use girih_ir::simt::visit::blocks;
use girih_ir::simt::{Barrier, SharedId, Stmt};
use std::collections::BTreeSet;

/// Has all threads meet between phases where they do not yet; in a loop also between the last phase of a turn and the first of the next.
pub(super) fn meet_between(body: &mut Vec<Stmt>, found: &Found) {
    let mut stmts = body;
    for (i, k) in &found.way {
        let mut inner = blocks(&mut stmts[*i]);
        stmts = inner.swap_remove(*k);
    }
    let copies = |phase: &Phase, stmts: &[Stmt]| has(&stmts[phase.first..=phase.last], &|s| matches!(s, Stmt::AsyncCopy { .. }));
    let phases = &found.phases;
    let (first, last) = (&phases[0], &phases[phases.len() - 1]);
    let around = found.repeated.then(|| (last, first, [0..first.first, last.last + 1..stmts.len()]));
    let in_order = phases.windows(2).map(|two| (&two[0], &two[1], [two[0].last + 1..two[1].first, 0..0]));
    let mut added: Vec<(usize, Vec<Stmt>)> = Vec::new();
    for (before, after, between) in around.into_iter().chain(in_order) {
        let in_flight = copies(before, stmts);
        let barrier = between.into_iter().flatten().find(|i| matches!(stmts[*i], Stmt::Barrier(Barrier::Block)));
        // Copies land before the barrier behind which their places are written.
        let soon = meets_first(&mut stmts[after.first..=after.last], &after.arrays, Way::Forth);
        let mut late = || meets_first(&mut stmts[before.first..=before.last], &before.arrays, Way::Back);
        let met = soon || barrier.is_some() || !in_flight && late();
        let why = Stmt::Comment("arrays from here on lie where others lay: all is done with those".to_string());
        let landed = in_flight.then_some(Stmt::AsyncWait { pending: 0 });
        let meet = (!met).then_some(Stmt::Barrier(Barrier::Block));
        if in_flight || !met {
            added.push((barrier.filter(|_| !soon).unwrap_or(after.first), [why].into_iter().chain(landed).chain(meet).collect()));
        }
    }
    added.sort_by_key(|(at, _)| *at);
    for (at, new) in added.into_iter().rev() {
        stmts.splice(at..at, new);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forth,
    Back,
}

/// Whether all threads meet before they come to any of the arrays, on all ways through the statements, forwards or from their end.
fn meets_first(stmts: &mut [Stmt], arrays: &BTreeSet<SharedId>, way: Way) -> bool {
    first_event(stmts, arrays, way) != Event::Access
}

/// What comes first on the ways through some statements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    /// An access, on some way.
    Access,
    /// A barrier, on all ways.
    Meeting,
    Nothing,
}

fn first_event(stmts: &mut [Stmt], arrays: &BTreeSet<SharedId>, way: Way) -> Event {
    let mut order: Vec<&mut Stmt> = stmts.iter_mut().collect();
    if way == Way::Back {
        order.reverse();
    }
    for stmt in order {
        let own = accesses(stmt, arrays);
        let is_barrier = matches!(stmt, Stmt::Barrier(Barrier::Block));
        let is_choice = matches!(stmt, Stmt::If { .. });
        let inner: Vec<Event> = blocks(stmt).into_iter().map(|block| first_event(block, arrays, way)).collect();
        let event = if own || inner.contains(&Event::Access) {
            Event::Access
        } else if is_barrier || is_choice && inner.iter().all(|e| *e == Event::Meeting) {
            Event::Meeting
        } else {
            // A loop may have no turn.
            Event::Nothing
        };
        if event != Event::Nothing {
            return event;
        }
    }
    Event::Nothing
}

/// Whether a statement itself, not those inside of it, comes to one of the arrays.
fn accesses(stmt: &mut Stmt, arrays: &BTreeSet<SharedId>) -> bool {
    let inner: Uses = blocks(stmt).into_iter().fold(Uses::new(), |mut all, block| {
        uses(block).into_iter().for_each(|(id, n)| *all.entry(id).or_default() += n);
        all
    });
    let whole = uses(std::slice::from_mut(stmt));
    arrays.iter().any(|id| whole.get(id).copied().unwrap_or(0) > inner.get(id).copied().unwrap_or(0))
}
