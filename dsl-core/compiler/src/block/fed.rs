//! Sums that feed the next dot: left operands that matrix instructions take from the registers of the sums they are made of, without a copy in
//! shared memory.

use super::{Kernel, Link, ValueId, WRITTEN_OUT};
use girih_ir::fragments::{Operand, Order};

impl Kernel {
    /// Whether a dot can take its left operand from the registers of the sums that it is made of: every warp has there whole rows of it, those of
    /// its part of the result; and all of it is written out, as registers have no addresses.
    pub fn can_be_fed(&self, link: &Link) -> bool {
        let Some(units) = self.launch.units.as_ref() else { return false };
        let extents = |v: ValueId| self.ty(v).shape().and_then(|shape| <[i64; 2]>::try_from(shape).ok());
        let (Some([rows, inner]), Some([_, columns])) = (extents(link.operand), extents(link.acc)) else { return false };
        let (atom, [down, right]) = (units.form.atom, units.atoms(rows, columns));
        let whole = units.has_whole_rows([rows, inner]) && units.has_whole_rows([rows, columns]);
        // Instructions of groups take their right operand in no other order than the one in which it lies.
        let in_order = units.group.is_none() || atom.per_word(Operand::A) == 2;
        let plain = units.form.order == Order::Plain && in_order && atom.fed(Operand::A).is_some();
        plain && whole && inner / i64::from(atom.k) * down * right <= WRITTEN_OUT
    }

    /// Whether a dot takes its left operand from the registers of the sums that it is made of.
    pub fn is_fed(&self, dot: ValueId) -> bool {
        self.fed.iter().any(|link| link.dot == dot)
    }

    /// Whether the dot that adds to `acc` does.
    pub fn is_sum_fed(&self, acc: ValueId) -> bool {
        self.fed.iter().any(|link| link.acc == acc)
    }
}
