//! Sums over lanes that are taken once, behind the loop in whose turns they are added up: until then each lane has a part.

use super::{Carry, Combine, Kernel, ValueId};

/// Such a sum.
#[derive(Clone, Debug)]
pub(crate) struct LateSum {
    /// The reduction of a turn, of which each lane takes what it has itself.
    pub turn: Combine,
    /// What the loop adds these up in, at the start of a turn.
    pub carried: ValueId,
    /// The lanes that meet behind the loop: their distance, and how many they are.
    pub lanes: Vec<(i64, i64)>,
}

impl Kernel {
    /// Whether the lanes of a reduction meet later, behind a loop.
    pub fn is_late(&self, turn: &Combine) -> bool {
        self.late_sums.iter().any(|late| late.turn.results == turn.results)
    }

    /// The sum whose lanes meet behind the loop that carries it.
    pub fn late_sum(&self, carry: &Carry) -> Option<&LateSum> {
        self.late_sums.iter().find(|late| late.carried == carry.inner)
    }
}
