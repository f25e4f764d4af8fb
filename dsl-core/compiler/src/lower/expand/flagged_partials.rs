//! Parts in words: a scalar of at most 32 bits and a flag go from block to block in one word of 64 bits, so that no fence and no counter has
//! to say that the part is there. The block with the highest number waits for the words of all, and leaves zeros for the next launch.
//!
//! Only that block waits, and the others wait for nobody: they run to their end whether it has started or not, and it takes the room of
//! one block of a grid all of whose other blocks have started.

use super::combine::int;
use super::context::{Expanded, Expander};
use super::elements::unrolled;
use super::finish::Left;
use super::index::{binary, compare, literal, without_cast};
use girih_ir::simt::{Expr, Place, Space, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Words that a thread asks for at once.
const TOGETHER: i64 = 4;
/// The bit at which a word's value begins; the flag is the first one.
const VALUE: i64 = 32;

impl Expander<'_> {
    /// Whether this is the last block of so many, by its number.
    pub fn has_highest_number(&self, total: &Expr) -> Expr {
        compare(CompareOp::Eq, without_cast(self.block_number()), binary(BinaryOp::Sub, total.clone(), int(1)))
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

    /// Combines the words from a first one on, `step` apart, into `vars`. Some are asked for at once, so that their trips to memory overlap;
    /// those that are not there yet are waited for.
    pub fn combine_words(&mut self, left: &Left, vars: &[VarId], [start, end]: [Expr; 2], step: i64) -> Expanded<()> {
        let c = left.combine;
        let first = self.new_var("b", DType::I32, None);
        let early: Vec<VarId> = left.spaces.iter().map(|_| self.new_var("early", DType::U64, Some(TOGETHER as u32))).collect();
        let (u, turn) = self.loop_var("u");
        let index = binary(BinaryOp::Add, Expr::Var(first), binary(BinaryOp::Mul, turn.clone(), int(step)));
        let there = compare(CompareOp::Lt, index.clone(), end.clone());
        let index = self.ix.cast(DType::I32, index);
        self.open();
        early.iter().for_each(|var| self.emit(Stmt::Declare { var: *var, init: None }));
        self.open();
        for (space, early) in left.spaces.iter().zip(&early) {
            let var = self.new_var("word", DType::U64, None);
            let (place, predicate) = (word(*space, index.clone()), Some(there.clone()));
            self.emit(Stmt::Declare { var, init: None });
            self.emit(Stmt::LoadRelaxed { var, place, wait: false, predicate });
            self.emit(Stmt::Assign { var: *early, index: Some(turn.clone()), value: Expr::Var(var) });
        }
        let ask = self.close();
        self.emit(unrolled(u, TOGETHER, ask));
        self.open();
        let mut part = Vec::new();
        for ((space, input), early) in left.spaces.iter().zip(&c.inputs).zip(&early) {
            let dtype = self.register_type(*input);
            part.push(self.take_word(*space, dtype, index.clone(), self.slot(*early, Some(&turn))));
        }
        self.join_part(c, vars, None, part)?;
        let then = self.close();
        self.emit(unrolled(u, TOGETHER, vec![Stmt::If { condition: there, then, otherwise: vec![] }]));
        let body = self.close();
        self.emit(Stmt::For { var: first, start, end, step: int(step * TOGETHER), unroll: false, body });
        Ok(())
    }

    /// Takes the scalar from a block's word as it was found, or else waits for it.
    fn take_word(&mut self, space: usize, dtype: DType, index: Expr, found: Expr) -> Expr {
        let var = self.new_var("part", DType::U64, None);
        self.emit(Stmt::Declare { var, init: Some(found) });
        self.emit(Stmt::LoadRelaxed { var, place: word(space, index.clone()), wait: true, predicate: None });
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
