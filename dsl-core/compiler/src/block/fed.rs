//! Left operands that matrix instructions take from registers: those of the sums they are made of, without a copy in shared memory, or those in
//! which they were computed from what was copied there.

#[cfg(doc)]
use super::Warps;
use super::{Kernel, Link, ValueId};

impl Kernel {
    /// Whether a dot can take its left operand from registers: see [`Warps::feeds`].
    pub fn can_be_fed(&self, link: &Link) -> bool {
        let Some(units) = self.launch.units.as_ref() else { return false };
        let extents = |v: ValueId| self.ty(v).shape().and_then(|shape| <[i64; 2]>::try_from(shape).ok());
        extents(link.operand).zip(extents(link.acc)).is_some_and(|(operand, result)| units.feeds(operand, result))
    }

    /// Whether a dot takes its left operand from registers.
    pub fn is_fed(&self, dot: ValueId) -> bool {
        self.fed.iter().any(|link| link.dot == dot)
    }

    /// Whether the dot that adds to `acc` does.
    pub fn is_sum_fed(&self, acc: ValueId) -> bool {
        self.fed.iter().any(|link| link.acc == acc)
    }
}
