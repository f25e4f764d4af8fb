//! Parts in words: a scalar of at most 32 bits and a flag go from block to block in one word of 64 bits, so that no fence and no counter has
//! to say that the part is there. The block with the highest number waits for the words of all, and leaves zeros for the next launch.
//!
//! Only that block waits, and the others wait for nobody: they run to their end whether it has started or not, and it takes the room of
//! one block of a grid all of whose other blocks have started.

use super::combine::int;
use super::context::Lowering;
use super::index::{binary, compare, literal};
use super::uses::{loaded_tensor, stored_tensor};
use crate::simt::{Expr, Place, Space, Stmt};
use crate::tile::access::visit;
use crate::tile::{self, Combine, Kernel, Ty};
use crate::types::{BinaryOp, CompareOp, DType};

/// The bit at which a word's value begins; the flag is the first one.
const VALUE: i64 = 32;

impl Lowering<'_> {
    /// Whether every component is a scalar that leaves room for a flag.
    pub fn parts_are_words(&self, combines: &[&Combine]) -> bool {
        let fits = |v| matches!(self.kernel.ty(v), Ty::Scalar(dtype) if dtype.compute().size() <= 4);
        combines.iter().all(|c| c.inputs.iter().all(|v| fits(*v)))
    }

    /// Whether something else than parts goes from block to block: what runs in the last block only (`after`) touches a tensor that all
    /// blocks touch before it, and one of them writes. Words order nothing but themselves.
    pub fn memory_is_passed_on<'k>(&self, before: impl Iterator<Item = &'k tile::Stmt>, after: &[&tile::Stmt]) -> bool {
        let (before, after) = (touched(self.kernel, before), touched(self.kernel, after.iter().copied()));
        after.iter().any(|(p, writes)| before.iter().any(|(q, wrote)| p == q && (*writes || *wrote)))
    }

    /// Whether this is the last block of so many, by its number.
    pub fn has_highest_number(&self, total: &Expr) -> Expr {
        let block = match self.block_number() {
            Expr::Cast(_, number) => *number,
            number => number,
        };
        compare(CompareOp::Eq, block, binary(BinaryOp::Sub, total.clone(), int(1)))
    }

    /// Leaves a scalar of the block, with the flag.
    pub fn leave_word(&mut self, space: usize, value: Expr) {
        let place = word(space, self.block_number());
        let bits = match self.dtype_of(&value) {
            DType::F32 => Expr::Bitcast(DType::U32, Box::new(value)),
            _ => value,
        };
        let shifted = binary(BinaryOp::Shl, Expr::Cast(DType::U64, Box::new(bits)), literal(DType::U64, VALUE));
        let value = binary(BinaryOp::Or, shifted, literal(DType::U64, 1));
        self.emit(Stmt::StoreRelaxed { place, value, predicate: self.is_first_thread() });
    }

    /// Waits for a block's word, and takes the scalar from it.
    pub fn take_word(&mut self, space: usize, dtype: DType, index: Expr) -> Expr {
        let var = self.new_var("part", DType::U64, None);
        self.emit(Stmt::Declare { var, init: None });
        self.emit(Stmt::WaitNonzero { var, place: word(space, index.clone()) });
        self.emit(Stmt::StoreRelaxed { place: word(space, index), value: literal(DType::U64, 0), predicate: None });
        let bits = Box::new(binary(BinaryOp::Shr, Expr::Var(var), literal(DType::U64, VALUE)));
        match dtype {
            DType::F32 => Expr::Bitcast(DType::F32, Box::new(Expr::Cast(DType::U32, bits))),
            _ => Expr::Cast(dtype, bits),
        }
    }
}

fn word(space: usize, index: Expr) -> Place {
    Place { space: Space::Global(space), dtype: DType::U64, index }
}

/// The tensors that statements access, each with whether it is written there.
fn touched<'k>(kernel: &Kernel, block: impl Iterator<Item = &'k tile::Stmt>) -> Vec<(usize, bool)> {
    let mut found = Vec::new();
    for stmt in block {
        visit(std::slice::from_ref(stmt), &mut |s| {
            found.extend(loaded_tensor(kernel, s).map(|p| (p, false)));
            found.extend(stored_tensor(kernel, s).map(|p| (p, true)));
        });
    }
    found
}
