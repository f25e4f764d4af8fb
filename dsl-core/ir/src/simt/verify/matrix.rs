//! Well-formedness of matrix instructions.

use super::{Check, Verifier};
use crate::fragments::{ATOMS, Atom, GroupAtom, LoadMatrix, Number, Operand};
use crate::simt::{Expr, Fragment, LeftMatrix, Place, SharedMatrix, Space, VarId};

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

    pub(super) fn wgmma(&self, atom: &GroupAtom, d: &Fragment, a: &LeftMatrix, b: &SharedMatrix) -> Check {
        self.whole_groups()?;
        self.require(atom.exists(), || {
            format!("there is no matrix instruction m64n{} of {} and {}", atom.n, atom.a.name(), atom.b.name())
        })?;
        self.target(d.var)?;
        self.words(d.var, &d.at, atom.registers(), atom.part().per_word(Operand::Accumulator))?;
        self.same(self.var(d.var)?.dtype, atom.accumulator)?;
        match a {
            LeftMatrix::Shared(a) => self.matrix_of(atom, a, (atom.a, GroupAtom::M))?,
            LeftMatrix::Registers(a) => {
                self.words(a.var, &a.at, atom.left_registers(), atom.part().per_word(Operand::A))?;
                self.same(self.var(a.var)?.dtype, atom.a.dtype())?;
                self.require(a.var != d.var, || "a matrix instruction reads its left operand where it adds up".into())?;
            }
        }
        self.matrix_of(atom, b, (atom.b, atom.n))
    }

    /// An operand in shared memory: how it is read, and its rows of A or columns of B.
    fn matrix_of(&self, atom: &GroupAtom, matrix: &SharedMatrix, (number, outer): (Number, u32)) -> Check {
        self.same(matrix.place.dtype, number.dtype())?;
        self.require(!matrix.across || atom.takes_across(), || format!("a {atom} takes operands along the sum only"))?;
        self.shared_matrix(matrix, outer)
    }

    /// A matrix with so many rows of A or columns of B.
    fn shared_matrix(&self, matrix: &SharedMatrix, outer: u32) -> Check {
        let SharedMatrix { place, across, row_bytes, eight_rows, next_panel } = matrix;
        self.require(matches!(row_bytes, 32 | 64 | 128), || format!("rows of a matrix have 32, 64 or 128 bytes, not {row_bytes}"))?;
        let apart = [*eight_rows, *next_panel];
        self.require(apart.iter().all(|b| b.is_multiple_of(SharedMatrix::CHUNK) && *b < 1 << 18), || {
            format!("parts of a matrix lie multiples of 16 bytes apart, less than 256 KB, not {eight_rows} and {next_panel}")
        })?;
        let wide = outer * place.dtype.size() as u32;
        self.require(!across || wide.is_multiple_of(*row_bytes), || format!("{wide} bytes are no whole rows of {row_bytes}"))?;
        self.place(place, false)?;
        let Space::Shared(array) = place.space else {
            return self.fail("matrices of a warp group lie in shared memory");
        };
        let align = self.kernel.shared[array.0 as usize].align;
        self.require(align.is_multiple_of(SharedMatrix::ALIGN), || {
            format!("a matrix of a warp group lies in an array that is aligned to {align} bytes, not to {}", SharedMatrix::ALIGN)
        })
    }

    pub(super) fn whole_groups(&self) -> Check {
        let launch = &self.kernel.launch;
        let (threads, group) = (launch.roles.first().map_or(launch.block, |role| 32 * role.warps), GroupAtom::THREADS);
        self.require(threads.is_multiple_of(group), || format!("warp groups have {group} threads each, those who multiply are {threads}"))
    }

    fn whole_warps(&self) -> Check {
        let threads = self.kernel.launch.block;
        self.require(threads.is_multiple_of(32), || format!("a matrix instruction needs whole warps, the block has {threads} threads"))
    }
}
