//! Well-formedness of matrix instructions.

use super::{Check, Verifier};
use crate::fragments::{ATOMS, Atom, LoadMatrix, Operand};
use crate::simt::{Expr, Fragment, Place, Space, VarId};

impl Verifier<'_> {
    pub(super) fn mma(&self, atom: &Atom, [d, a, b, c]: [&Fragment; 4]) -> Check {
        self.whole_warps()?;
        self.require(ATOMS.contains(atom), || format!("there is no matrix instruction {atom}"))?;
        self.target(d.var)?;
        for (fragment, operand) in [(d, Operand::Accumulator), (a, Operand::A), (b, Operand::B), (c, Operand::Accumulator)] {
            self.words(fragment.var, &fragment.at, atom.registers(operand), atom.per_word(operand))?;
            self.same(self.var(fragment.var)?.dtype, atom.dtype(operand))?;
        }
        Ok(())
    }

    pub(super) fn load_matrix(&self, load: LoadMatrix, var: VarId, at: &Expr, place: &Place) -> Check {
        self.whole_warps()?;
        self.require(matches!(load.count, 1 | 2 | 4), || format!("1, 2 or 4 matrices are loaded at once, not {}", load.count))?;
        let size = place.dtype.size() as u32;
        self.require(size <= 4, || format!("a word of a matrix holds no {}", place.dtype))?;
        self.require(!load.transposed || size == 2, || format!("16-bit elements are transposed, not {}", place.dtype))?;
        self.target(var)?;
        self.words(var, at, load.registers(place.dtype), 4 / size)?;
        self.same(self.var(var)?.dtype, place.dtype)?;
        self.place(place, false)?;
        let Space::Shared(array) = place.space else {
            return self.fail("matrices are loaded from shared memory");
        };
        let align = self.kernel.shared[array.0 as usize].align;
        self.require(align >= LoadMatrix::ROW_BYTES, || format!("rows of matrices lie in an array that is aligned to {align} bytes only"))
    }

    /// Elements of an array from a whole word on.
    fn words(&self, var: VarId, at: &Expr, count: u32, per_word: u32) -> Check {
        self.element(var, at, count)?;
        match at {
            Expr::Literal(l) => {
                let first = l.to_i64();
                self.require(first % i64::from(per_word) == 0, || format!("a fragment starts within a word, at element {first}"))
            }
            _ => Ok(()),
        }
    }

    fn whole_warps(&self) -> Check {
        let threads = self.kernel.launch.block;
        self.require(threads.is_multiple_of(32), || format!("a matrix instruction needs whole warps, the block has {threads} threads"))
    }
}
