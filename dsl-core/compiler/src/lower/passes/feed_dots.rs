//! Which dots take their left operand from registers: those of another dot's sums, where they can, and those in which the plan has it computed.
//! The others find it in shared memory.
//!
//! On warp groups, such a dot may run beside the next turn's first one, where a warp of its own fills a ring of at least three stages: two of
//! them are read at the same time then. Groups that multiply in turn wait for each of their own products: the others compute meanwhile.

use super::Source;
use crate::analyses::chained::links;
use crate::analyses::uses::{Uses, count};
use crate::block::{Handover, Kernel, Loop, Op, Pipeline, Range, Stmt, ValueId, visit, visit_mut};
use std::collections::HashSet;

/// Decides for every dot whose left operand is no load.
pub(crate) fn feed_dots(page: &mut Kernel, source: &Source) {
    if page.launch.units.is_some() {
        let converted = source.plan.converted.iter().map(|c| c.link);
        page.fed = links(source.kernel).into_iter().filter(|link| page.can_be_fed(link)).chain(converted).collect();
    }
    if page.launch.units.as_ref().is_none_or(|units| units.group.is_none()) {
        return;
    }
    let (fed, uses) = (page.fed.iter().map(|link| link.dot).collect(), count(source.kernel));
    visit_mut(&mut page.body, &mut |stmt| {
        let Stmt::Loop(l) = stmt else { return };
        let overlaps = can_overlap(l, &fed, &uses);
        if let Pipeline::Multistage { ring, .. } = &mut l.plan.pipeline {
            ring.products_overlap = overlaps && !ring.in_turn && ring.handover == Handover::Transactions && ring.stages > 2;
        }
    });
}

/// Whether a loop's last product may wait for the next turn: only what it adds to looks at the sums so far, and what it reads of memory is in
/// the ring, as is what the first product reads.
fn can_overlap(l: &Loop, fed: &HashSet<ValueId>, uses: &[Uses]) -> bool {
    let Some((at, dot)) = l.last_product().filter(|(_, dot)| fed.contains(dot)) else { return false };
    let Stmt::Let(_, Op::Dot { acc, .. }) = &l.body[at] else { return false };
    let once = |v: ValueId| uses[v.0 as usize].count == 1;
    let made = l.body.iter().find_map(|s| if let Stmt::Let(v, op) = s { (v == acc).then_some(op) } else { None });
    let adds_to = |inner: ValueId| match made {
        None => *acc == inner,
        Some(Op::Binary(_, a, b)) => [a, b].contains(&&inner) && once(*acc),
        Some(_) => false,
    };
    let carried = l.carries.iter().any(|c| c.next == dot && once(dot) && once(c.inner) && adds_to(c.inner));
    let mut dots = l.body.iter().enumerate().filter(|(_, s)| s.has_dot());
    let (first, last) = (dots.next(), dots.next());
    let two = dots.next().is_none() && last.is_some_and(|(place, _)| place == at);
    carried && two && first.is_some_and(|(_, s)| starts_at_once(s))
}

/// Whether a statement is a product, or a loop of one turn around some that loads nothing and meets nobody.
fn starts_at_once(stmt: &Stmt) -> bool {
    let Stmt::Loop(l) = stmt else { return matches!(stmt, Stmt::Let(_, Op::Dot { .. })) };
    let mut alone = true;
    visit(&l.body, &mut |s| alone &= matches!(s, Stmt::Let(..)));
    l.plan.range == Range::Once && alone
}
