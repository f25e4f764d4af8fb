//! Dots that go on with the results of others: the left operand is made, element by element, of what another dot has added up.

use girih_ir::tile::access::visit;
use girih_ir::tile::{Kernel, Op, Stmt, ValueId};
use std::collections::{HashMap, HashSet};

/// A dot and a left operand of it that registers may hold, and what its products are added to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub dot: ValueId,
    pub operand: ValueId,
    pub acc: ValueId,
}

/// The dots of a kernel that go on with the results of others, in their order.
pub(crate) fn links(kernel: &Kernel) -> Vec<Link> {
    let mut found = Sources::default();
    let mut dots = Vec::new();
    visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Let(v, op) => {
            if let Op::Dot { a, acc, .. } = op {
                found.sums.insert(*v);
                dots.push(Link { dot: *v, operand: *a, acc: *acc });
            }
            found.of.insert(*v, elementwise(op));
        }
        Stmt::Tiles(l) => l.carries.iter().for_each(|c| found.of.extend([(c.inner, vec![c.init, c.next]), (c.result, vec![c.inner])])),
        Stmt::Range { carries, .. } | Stmt::While { carries, .. } => {
            carries.iter().for_each(|c| found.of.extend([(c.inner, vec![c.init, c.next]), (c.result, vec![c.inner])]));
        }
        Stmt::If { results, .. } => results.iter().for_each(|r| drop(found.of.insert(r.result, vec![r.then, r.otherwise]))),
        Stmt::Combine(_) | Stmt::Shared(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } | Stmt::Where { .. } => {}
        Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
    });
    dots.retain(|link| found.leads_to_sum(link.operand, &mut HashSet::new()));
    dots
}

/// What values are made of.
#[derive(Default)]
struct Sources {
    /// By value: the tiles of the same shape that its elements are made of.
    of: HashMap<ValueId, Vec<ValueId>>,
    /// Results of dots.
    sums: HashSet<ValueId>,
}

impl Sources {
    fn leads_to_sum(&self, value: ValueId, seen: &mut HashSet<ValueId>) -> bool {
        if self.sums.contains(&value) {
            return true;
        }
        seen.insert(value) && self.of.get(&value).is_some_and(|from| from.iter().any(|v| self.leads_to_sum(*v, seen)))
    }
}

/// The operands of an operation that makes each element of theirs at the same place.
pub(crate) fn elementwise(op: &Op) -> Vec<ValueId> {
    match op {
        Op::Unary(_, a) | Op::Cast(a) | Op::Bitcast(a) | Op::Within(a, _) | Op::Or { tile: a, .. } => vec![*a],
        Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![*a, *b],
        Op::Ternary(_, a, b, c) | Op::Select(a, b, c) => vec![*a, *b, *c],
        _ => vec![],
    }
}
