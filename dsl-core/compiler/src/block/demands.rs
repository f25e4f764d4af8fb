//! What every launch meets of the numbers that the host computes, because the kernel demands it.

use super::HostExpr;
use super::range::Range;
use girih_ir::tile::{self, RequirementKind};
use std::collections::HashMap;

/// What is demanded of one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    /// Between which numbers it lies.
    pub range: Range,
    /// By what it is divisible.
    pub multiple: i64,
}

/// Nothing.
const ANY: Demand = Demand { range: (i64::MIN, i64::MAX), multiple: 1 };

impl Demand {
    /// Both.
    fn and(self, other: Demand) -> Demand {
        let range = (self.range.0.max(other.range.0), self.range.1.min(other.range.1));
        // Of two divisors neither of which divides the other the larger one will do.
        Demand { range, multiple: self.multiple.max(other.multiple) }
    }
}

/// Demands by number.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Demands(HashMap<HostExpr, Demand>);

impl Demands {
    /// Those of a kernel that compare a number with a constant, or ask by what it is divisible.
    pub fn of(kernel: &tile::Kernel) -> Demands {
        let host = |value| HostExpr::of_value(kernel, value);
        let mut all = Demands::default();
        for requirement in &kernel.requirements {
            match requirement.kind {
                RequirementKind::AtMost(a, b) => match (host(a), host(b)) {
                    (Some(HostExpr::Const(least)), Some(e)) => all.add(e, Demand { range: (least, i64::MAX), ..ANY }),
                    (Some(e), Some(HostExpr::Const(most))) => all.add(e, Demand { range: (i64::MIN, most), ..ANY }),
                    _ => {}
                },
                RequirementKind::Divisible(a, multiple) => {
                    if let Some(e) = host(a) {
                        all.add(e, Demand { multiple, ..ANY });
                    }
                }
                RequirementKind::Packed(_) | RequirementKind::Equal(..) | RequirementKind::Aligned(..) | RequirementKind::Values(..) => {}
            }
        }
        all
    }

    fn add(&mut self, e: HostExpr, demand: Demand) {
        let known = self.0.entry(e).or_insert(ANY);
        *known = known.and(demand);
    }

    /// Whether a number is kept between others.
    pub fn limit(&self, e: &HostExpr) -> bool {
        self.get(e).range != ANY.range
    }

    /// What is demanded of a number by its own name.
    pub fn get(&self, e: &HostExpr) -> Demand {
        self.0.get(e).copied().unwrap_or(ANY)
    }
}
