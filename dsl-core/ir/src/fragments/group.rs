//! Matrix instructions of a warp group: four warps multiply 64 rows at once (`wgmma.mma_async`, sm_90a).

use super::{ATOMS, Atom, Number, Operand};
use crate::layout::{Digit, Layout, Source};
use crate::types::DType;
use std::fmt;

/// `D = A · B + D` by the 128 threads of a warp group. A and B lie in shared memory, as matrix descriptors say
/// ([`SharedMatrix`](crate::simt::SharedMatrix)), D in registers. A may be in registers, too.
///
/// Warp `w` of the group holds rows `16 w ..` of D, of every 8 columns as the accumulator of an `mma.sync` with 16 rows and 8 columns (PTX
/// ISA, "Register fragments for wgmma"), and of an A in registers the same rows: so a warp's part of the instruction is
/// [`GroupAtom::part`], once for every 8 columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct GroupAtom {
    /// Columns of B and of D: a multiple of 8, at most 256.
    pub n: u32,
    /// How A is read.
    pub a: Number,
    /// How B is read.
    pub b: Number,
    /// Type of the accumulators: f32 or f16 for floats, i32 for integers.
    pub accumulator: DType,
}

impl GroupAtom {
    /// Rows of A and D.
    pub const M: u32 = 64;
    /// Warps of a group.
    pub const WARPS: u32 = 4;
    /// Threads of a group.
    pub const THREADS: u32 = 32 * GroupAtom::WARPS;
    /// Bytes of a row of A, and of a column of B, along the axis of the sum.
    pub const DEPTH_BYTES: u32 = 32;
    /// The widest one's columns.
    pub const WIDEST: u32 = 256;

    /// The widest instruction for these operands and accumulators whose columns divide so many; `None` where there is none.
    pub fn widest(a: Number, b: Number, accumulator: DType, columns: i64) -> Option<GroupAtom> {
        let of = |n: u32| GroupAtom { n, a, b, accumulator };
        (1..=GroupAtom::WIDEST / 8).rev().map(|n| of(8 * n)).find(|atom| atom.exists() && columns % i64::from(atom.n) == 0)
    }

    /// Whether there is such an instruction. Of integers there are those with 8, 16, 24 and 32 columns, and then every second one.
    pub fn exists(&self) -> bool {
        let integers = self.accumulator == DType::I32;
        let columns = self.n.is_multiple_of(8) && (8..=GroupAtom::WIDEST).contains(&self.n);
        let wide = !integers || self.n <= 32 || self.n.is_multiple_of(16);
        columns && wide && self.found().is_some()
    }

    /// Rows of B, columns of A.
    pub const fn k(&self) -> u32 {
        GroupAtom::DEPTH_BYTES / self.a.dtype().size() as u32
    }

    /// What each warp does for 8 columns.
    pub fn part(&self) -> Atom {
        self.found().unwrap_or_else(|| panic!("fragments: there is no {self}"))
    }

    fn found(&self) -> Option<Atom> {
        let numbers = |atom: &Atom| atom.a == self.a && atom.b == self.b && atom.accumulator == self.accumulator;
        ATOMS.into_iter().find(|atom| numbers(atom) && atom.m == 16 && atom.n == 8 && atom.k == self.k())
    }

    /// Whether operands may lie along rows and columns of the result, rather than along the axis of the sum: those of 16 bits.
    pub const fn takes_across(&self) -> bool {
        self.a.dtype().size() == 2
    }

    /// Elements of the accumulator that each thread holds.
    pub fn registers(&self) -> u32 {
        self.part().registers(Operand::Accumulator) * self.n / 8
    }

    /// Elements of a left operand in registers that each thread holds.
    pub fn left_registers(&self) -> u32 {
        self.part().registers(Operand::A)
    }

    /// Multiply-adds of one instruction.
    pub const fn multiply_adds(&self) -> u64 {
        GroupAtom::M as u64 * self.n as u64 * self.k() as u64
    }

    /// Which thread of the group and which register hold an element of the accumulator: axes are rows and columns.
    pub fn accumulators(&self) -> Layout {
        let mut layout = self.part().layout(Operand::Accumulator);
        let (own, groups) = (layout.registers, i64::from(self.n / 8));
        let digit = |source, stride, extent, place| Digit { source, stride, extent, place };
        layout.axes[0].push(digit(Source::Thread, 32, i64::from(GroupAtom::WARPS), 16));
        if groups > 1 {
            layout.axes[1].push(digit(Source::Register, own, groups, 8));
        }
        Layout { axes: layout.axes, threads: i64::from(GroupAtom::THREADS), registers: own * groups }
    }
}

/// `m64n128k16_f16`, in the pattern of an [`Atom`].
impl fmt::Display for GroupAtom {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "m{}n{}k{}_{}", GroupAtom::M, self.n, self.k(), self.a.name())?;
        if self.a != self.b {
            write!(f, "_{}", self.b.name())?;
        }
        if self.accumulator == DType::F16 { write!(f, "_into_f16") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_group_hold_what_the_ptx_isa_says() {
        let atom = GroupAtom { n: 64, a: Number::F16, b: Number::F16, accumulator: DType::F32 };
        let layout = atom.accumulators();
        assert_eq!((layout.threads, layout.registers, layout.shape()), (128, 32, vec![64, 64]));
        for (thread, register) in [(0, 0), (37, 5), (127, 31), (96, 18)] {
            let (row, column) =
                (16 * (thread / 32) + thread % 32 / 4 + 8 * (register / 2 % 2), 8 * (register / 4) + 2 * (thread % 4) + register % 2);
            assert_eq!(layout.coordinates(thread, register), [row, column], "thread {thread}, register {register}");
        }
        assert_eq!(atom.to_string(), "m64n64k16_f16");
    }

    #[test]
    fn the_widest_instruction_divides_the_columns() {
        let half = |columns| GroupAtom::widest(Number::BF16, Number::BF16, DType::F32, columns).map(|a| a.n);
        assert_eq!([half(512), half(192), half(40), half(264), half(4)], [Some(256), Some(192), Some(40), Some(132 * 2 / 3), None]);
        let integers = |columns| GroupAtom::widest(Number::I8, Number::U8, DType::I32, columns).map(|a| a.n);
        assert_eq!([integers(40), integers(24), integers(96)], [Some(8), Some(24), Some(96)]);
        assert!(!GroupAtom { n: 8, a: Number::BF16, b: Number::BF16, accumulator: DType::F16 }.exists());
    }
}
