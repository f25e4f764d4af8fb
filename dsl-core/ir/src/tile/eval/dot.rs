//! Dots: products along the inner axis, added to an accumulator.

use super::run::Machine;
use super::value::{TileVal, Val};
use crate::tile::ValueId;
use crate::types::{BinaryOp, DType, TernaryOp};

impl Machine<'_, '_> {
    /// `acc + a · b`, the inner axis in ascending order.
    pub(super) fn dot(&self, a: ValueId, b: ValueId, acc: ValueId) -> Val {
        let to = self.dtype(acc);
        let zeros_for_absent = |v: ValueId| -> Vec<u64> {
            // An operand has its type's precision, whatever it was computed in.
            let (from, numbers) = (self.dtype(v), self.numbers);
            let cast = numbers.cast(from, to);
            let widen = move |cell: u64| cast(numbers.load(from, numbers.store(from, cell)));
            let tile = self.tile(v);
            (0..tile.data.len()).map(|i| widen(tile.at(i).unwrap_or(0))).collect()
        };
        let (left, right, sums) = (zeros_for_absent(a), zeros_for_absent(b), self.tile(acc));
        let (inner, columns) = (self.tile(a).shape[1], sums.shape[1]);
        let step = self.multiply_add(to);
        let element = |i: usize| {
            let (m, n) = (i / columns, i % columns);
            (0..inner).fold(sums.data[i], |sum, k| step(left[m * inner + k], right[k * columns + n], sum))
        };
        let data = (0..sums.data.len()).map(element).collect();
        TileVal { shape: sums.shape.clone(), data, mask: sums.mask.clone() }.into()
    }

    /// Fused for floats; integers wrap.
    fn multiply_add(&self, dtype: DType) -> Box<dyn Fn(u64, u64, u64) -> u64> {
        if dtype.is_float() {
            return self.numbers.ternary(TernaryOp::Fma, dtype);
        }
        let (product, sum) = (self.numbers.binary(BinaryOp::Mul, dtype), self.numbers.binary(BinaryOp::Add, dtype));
        Box::new(move |a, b, c| sum(product(a, b), c))
    }
}
