//! Matrix instructions as data: their *atoms* (`mma.sync`), `ldmatrix`, and those of a group of four warps (`wgmma`: [`GroupAtom`]).
//!
//! An atom multiplies an m × k by a k × n fragment and adds an m × n fragment, all of them spread over the registers of one warp.
//! Which lane and register hold an element is a [`Layout`] over 32 threads, described here once; lowering, the simulator and the
//! tests read it. Registers are counted in elements: two 16-bit or four 8-bit elements share a 32-bit word, the earlier one in the
//! lower bits.
//!
//! All layouts follow one pattern (PTX ISA, "Matrix fragments for mma"): a lane is row `lane / 4` and word `lane % 4` of an 8 × 16-byte
//! matrix, and a fragment is a few such matrices, the upper 8 rows of the tile before the next 16 bytes of k. It is the pattern in
//! which `ldmatrix` hands out matrices, so that a fragment is loaded by as many matrices as it has words ([`Atom::matrices`]).

mod fed;
mod form;
mod group;

pub use form::{Form, Order};
pub use group::GroupAtom;

use crate::layout::{Digit, Layout, Source};
use crate::types::DType;
use std::fmt;

/// The number format in which an atom reads an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Number {
    /// IEEE binary16.
    F16,
    /// The upper half of an f32.
    BF16,
    /// f32 of which only sign, exponent and the upper 10 bits of the fraction are read: see [`crate::types::UnaryOp::RoundTf32`].
    Tf32,
    /// 8-bit float with 3 bits of fraction.
    F8E4M3,
    /// 8-bit float with 2 bits of fraction.
    F8E5M2,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
}

impl Number {
    /// The type in which a fragment is stored.
    pub const fn dtype(self) -> DType {
        match self {
            Number::F16 => DType::F16,
            Number::BF16 => DType::BF16,
            Number::Tf32 => DType::F32,
            Number::F8E4M3 => DType::F8E4M3,
            Number::F8E5M2 => DType::F8E5M2,
            Number::I8 => DType::I8,
            Number::U8 => DType::U8,
        }
    }

    /// `f16`, `tf32`, `i8`, ..
    pub const fn name(self) -> &'static str {
        match self {
            Number::Tf32 => "tf32",
            other => other.dtype().name(),
        }
    }

    /// The name in instructions: `f16`, `e4m3`, `s8`, ..
    pub const fn ptx_name(self) -> &'static str {
        match self {
            Number::F8E4M3 => "e4m3",
            Number::F8E5M2 => "e5m2",
            Number::I8 => "s8",
            other => other.name(),
        }
    }

    /// A float of 8 bits.
    pub const fn is_float8(self) -> bool {
        self.dtype().is_float8()
    }
}

/// One of the three fragments of an atom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// m × k.
    A,
    /// k × n.
    B,
    /// m × n: what is added, and the result.
    Accumulator,
}

/// A matrix instruction of one warp: `D = A · B + C`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Atom {
    /// Rows of A and of the accumulator.
    pub m: u32,
    /// Columns of B and of the accumulator.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// How A is read.
    pub a: Number,
    /// How B is read.
    pub b: Number,
    /// Type of the accumulators: f32 or f16 for floats, i32 for integers.
    pub accumulator: DType,
    /// The least compute capability, times ten, that has it.
    pub capability: u32,
}

const fn atom([m, n, k]: [u32; 3], a: Number, b: Number, accumulator: DType, capability: u32) -> Atom {
    Atom { m, n, k, a, b, accumulator, capability }
}

/// All atoms. Those with the same operands and accumulators are in the order of their k, the largest first.
pub const ATOMS: [Atom; 19] = [
    atom([16, 8, 16], Number::F16, Number::F16, DType::F32, 80),
    atom([16, 8, 8], Number::F16, Number::F16, DType::F32, 75),
    atom([16, 8, 16], Number::F16, Number::F16, DType::F16, 80),
    atom([16, 8, 8], Number::F16, Number::F16, DType::F16, 75),
    atom([16, 8, 16], Number::BF16, Number::BF16, DType::F32, 80),
    atom([16, 8, 8], Number::Tf32, Number::Tf32, DType::F32, 80),
    atom([16, 8, 4], Number::Tf32, Number::Tf32, DType::F32, 80),
    atom([16, 8, 32], Number::F8E4M3, Number::F8E4M3, DType::F32, 89),
    atom([16, 8, 32], Number::F8E4M3, Number::F8E5M2, DType::F32, 89),
    atom([16, 8, 32], Number::F8E5M2, Number::F8E4M3, DType::F32, 89),
    atom([16, 8, 32], Number::F8E5M2, Number::F8E5M2, DType::F32, 89),
    atom([16, 8, 32], Number::I8, Number::I8, DType::I32, 80),
    atom([8, 8, 16], Number::I8, Number::I8, DType::I32, 75),
    atom([16, 8, 32], Number::U8, Number::U8, DType::I32, 80),
    atom([8, 8, 16], Number::U8, Number::U8, DType::I32, 75),
    atom([16, 8, 32], Number::I8, Number::U8, DType::I32, 80),
    atom([8, 8, 16], Number::I8, Number::U8, DType::I32, 75),
    atom([16, 8, 32], Number::U8, Number::I8, DType::I32, 80),
    atom([8, 8, 16], Number::U8, Number::I8, DType::I32, 75),
];

impl Atom {
    /// The atoms for these operands and accumulators that a compute capability (times ten) has, the most work first.
    pub fn all_of(a: Number, b: Number, accumulator: DType, capability: u32) -> impl Iterator<Item = Atom> {
        ATOMS.into_iter().filter(move |t| t.a == a && t.b == b && t.accumulator == accumulator && t.capability <= capability)
    }

    /// The type in which an operand's fragment is stored.
    pub const fn dtype(&self, operand: Operand) -> DType {
        match operand {
            Operand::A => self.a.dtype(),
            Operand::B => self.b.dtype(),
            Operand::Accumulator => self.accumulator,
        }
    }

    /// Rows and columns of an operand.
    pub const fn shape(&self, operand: Operand) -> [u32; 2] {
        match operand {
            Operand::A => [self.m, self.k],
            Operand::B => [self.k, self.n],
            Operand::Accumulator => [self.m, self.n],
        }
    }

    /// Elements of an operand that each lane holds.
    pub const fn registers(&self, operand: Operand) -> u32 {
        let [rows, columns] = self.shape(operand);
        rows * columns / 32
    }

    /// Elements of an operand in a 32-bit word. A fragment starts at a multiple of it.
    pub const fn per_word(&self, operand: Operand) -> u32 {
        4 / self.dtype(operand).size() as u32
    }

    /// 32-bit words of an operand that each lane holds.
    pub const fn words(&self, operand: Operand) -> u32 {
        self.registers(operand) / self.per_word(operand)
    }

    /// Multiply-adds of one instruction.
    pub const fn multiply_adds(&self) -> u64 {
        self.m as u64 * self.n as u64 * self.k as u64
    }

    /// Which lane and register hold an element: axes are rows and columns as in [`Atom::shape`].
    pub fn layout(&self, operand: Operand) -> Layout {
        let (m, k) = (self.m as i64, self.k as i64);
        let packed = self.per_word(operand) as i64;
        let eight = vec![lanes(4, 8, 1)];
        match operand {
            Operand::A => {
                let rows = vec![lanes(4, 8, 1), registers(packed, m / 8, 8)];
                let columns = vec![registers(1, packed, 1), lanes(1, 4, packed), registers(packed * (m / 8), k / (4 * packed), 4 * packed)];
                layout(vec![rows, columns])
            }
            Operand::B => {
                let rows = vec![registers(1, packed, 1), lanes(1, 4, packed), registers(packed, k / (4 * packed), 4 * packed)];
                layout(vec![rows, eight])
            }
            Operand::Accumulator => {
                let rows = vec![lanes(4, 8, 1), registers(2, m / 8, 8)];
                layout(vec![rows, vec![registers(1, 2, 1), lanes(1, 4, 2)]])
            }
        }
    }

    /// How [`LoadMatrix`] loads operand A or B from shared memory in which its axis `contiguous` is the contiguous one: whether matrices
    /// are transposed on the way, and the row and column of the fragment at which the matrix of each word starts. A matrix is 8 rows
    /// of 16 bytes along `contiguous`. `None` where there is no such way: only 16-bit elements can be transposed.
    pub fn matrices(&self, operand: Operand, contiguous: usize) -> Option<(bool, Vec<[i64; 2]>)> {
        let along_k = match operand {
            Operand::A => 1,
            Operand::B => 0,
            Operand::Accumulator => return None,
        };
        let transposed = contiguous != along_k;
        if transposed && self.dtype(operand).size() != 2 {
            return None;
        }
        let fragment = self.layout(operand);
        let origin = |word: u32| {
            let at = fragment.coordinates(0, (word * self.per_word(operand)) as i64);
            [at[0], at[1]]
        };
        Some((transposed, (0..self.words(operand)).map(origin).collect()))
    }

    /// How far an element of the result may be from the exact one, in parts of `|c| + Σ |a · b|`, on any GPU.
    ///
    /// Hardware aligns blocks of at least 4 products and the accumulator to the largest of them, keeps 24 bits or more, and truncates
    /// (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7:e330): each of `k / 4`
    /// blocks loses less than one unit of 2⁻²³ per term. f16 accumulators are rounded once more after each block.
    ///
    /// Products of 8-bit floats are aligned all at once, and to 13 bits of fraction alone (DeepSeek-AI: DeepSeek-V3 Technical Report, 2024,
    /// 3.3.2, of Hopper's), the accumulator among them: each of `k + 1` terms loses less than one unit of 2⁻¹³ of the largest.
    pub fn error_bound(&self) -> f64 {
        if self.a.is_float8() {
            return f64::from(self.k + 2) * 2f64.powi(-13);
        }
        let terms = f64::from(self.k + self.k / 4 + 1);
        match self.accumulator {
            DType::F32 => terms * 2f64.powi(-23),
            DType::F16 => terms * 2f64.powi(-23) + f64::from(self.k / 4) * 2f64.powi(-11),
            _ => 0.0,
        }
    }
}

/// `m16n8k16_f16`: the shape, the operands' format (both, if they differ), and the accumulators' type where it is not the usual one.
impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "m{}n{}k{}_{}", self.m, self.n, self.k, self.a.name())?;
        if self.a != self.b {
            write!(f, "_{}", self.b.name())?;
        }
        if self.accumulator == DType::F16 { write!(f, "_into_f16") } else { Ok(()) }
    }
}

/// `ldmatrix`: a warp reads 1, 2 or 4 matrices of 8 rows of 16 bytes each from shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LoadMatrix {
    /// Matrices: 1, 2 or 4.
    pub count: u32,
    /// Each matrix of 8 × 8 16-bit elements is transposed on its way.
    pub transposed: bool,
}

impl LoadMatrix {
    /// Bytes of a row: the alignment of its address.
    pub const ROW_BYTES: u32 = 16;

    /// Elements that each lane receives.
    pub const fn registers(&self, dtype: DType) -> u32 {
        self.count * 4 / dtype.size() as u32
    }

    /// Which lane gives the address of a row: axes are the matrix and its row. Further lanes are replicas: their addresses must be
    /// legal, and are not read.
    pub fn addresses(&self) -> Layout {
        Layout { registers: 1, ..layout(vec![vec![lanes(8, self.count as i64, 1)], vec![lanes(1, 8, 1)]]) }
    }

    /// Which lane and register receive an element: axes are the matrix, its row, and the element in the row.
    pub fn received(&self, dtype: DType) -> Layout {
        let packed = 4 / dtype.size() as i64;
        let (eight, word) = (vec![lanes(4, 8, 1)], vec![registers(1, packed, 1), lanes(1, 4, packed)]);
        let matrix = vec![registers(packed, self.count as i64, 1)];
        layout(if self.transposed { vec![matrix, word, eight] } else { vec![matrix, eight, word] })
    }
}

/// `x4`, `x2_transposed`.
impl fmt::Display for LoadMatrix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "x{}{}", self.count, if self.transposed { "_transposed" } else { "" })
    }
}

fn lanes(stride: i64, extent: i64, place: i64) -> Digit {
    Digit { source: Source::Thread, stride, extent, place }
}

fn registers(stride: i64, extent: i64, place: i64) -> Digit {
    Digit { source: Source::Register, stride, extent, place }
}

/// A layout over one warp, without the digits that have one value only.
fn layout(mut axes: Vec<Vec<Digit>>) -> Layout {
    axes.iter_mut().for_each(|digits| digits.retain(|d| d.extent > 1));
    let registers = axes.iter().flatten().filter(|d| d.source == Source::Register).map(|d| d.extent).product();
    Layout { axes, threads: 32, registers }
}

#[cfg(test)]
mod tests;
