//! Operations of the author's in the place of a dot's multiply-adds.

use super::{Op, ValueId};
use crate::types::Literal;

/// What a dot does with a sum so far and a pair of elements: computes the next sum. The pairs come in ascending order of `K`.
#[derive(Clone, Debug)]
pub struct Fold {
    /// What stands for an absent element of an operand; of the operands' type.
    pub absent: Literal,
    /// Scalars that stand for the sum so far, for the left and for the right element.
    pub arguments: [ValueId; 3],
    /// How the next sum is computed, each operation behind its operands: on the arguments, on one another's results, and on scalars of outside.
    pub steps: Vec<(ValueId, Op)>,
    /// The next sum.
    pub result: ValueId,
}

impl Fold {
    /// Whether an operation may be a step: one on single numbers.
    pub fn takes(op: &Op) -> bool {
        matches!(
            op,
            Op::Literal(_)
                | Op::Unary(..)
                | Op::Binary(..)
                | Op::Compare(..)
                | Op::Ternary(..)
                | Op::Select(..)
                | Op::Cast(_)
                | Op::Bitcast(_)
        )
    }

    /// Whether a value is an argument, or one of a step.
    pub fn makes(&self, value: ValueId) -> bool {
        self.arguments.contains(&value) || self.steps.iter().any(|(v, _)| *v == value)
    }

    /// The values that steps and the result read, as often as they do.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.steps.iter().flat_map(|(_, op)| super::access::operands(op)).chain([self.result])
    }

    /// The scalars of outside, each once.
    pub fn captured(&self) -> Vec<ValueId> {
        let mut found: Vec<ValueId> = self.reads().filter(|v| !self.makes(*v)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
