//! How a dot uses an atom: as it is, or with its operands swapped, whose columns may be dealt in pairs.

use super::{Atom, Operand};
use crate::layout::{Digit, Layout, Source};
use crate::types::DType;
use std::fmt;

/// An atom as a dot uses it. Operands, rows and columns are those of the dot.
///
/// *Swapped* it makes the transposed result from the transposed operands, `(a · b)ᵀ = bᵀ · aᵀ`: the right operand is its A, the left one its B.
/// That is for skinny results: 8 rows of the dot are enough, where as it is the instruction has 16.
///
/// *Dealt*, rows `g` and `g + 8` of the instruction's A are columns `2 g` and `2 g + 1` of the dot, so that a lane's two elements of a row of
/// the right operand are neighbours in it, and so are two of the result. That is for operands of 32 bits whose rows lie across the axis of the
/// sum, which `ldmatrix` cannot transpose: half the reads, each twice as wide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Form {
    /// The instruction.
    pub atom: Atom,
    /// How the operands of the dot become the instruction's.
    pub order: Order,
}

/// How the operands of a dot become those of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// As they are.
    Plain,
    /// They change places.
    Swapped,
    /// They change places, and columns of the dot are dealt to the instruction's rows in pairs.
    Dealt,
}

impl Form {
    /// Whether the operands change places.
    pub const fn is_swapped(&self) -> bool {
        !matches!(self.order, Order::Plain)
    }

    /// Rows and columns of the result that one instruction makes.
    pub const fn tile(&self) -> [i64; 2] {
        let (m, n) = (self.atom.m as i64, self.atom.n as i64);
        if self.is_swapped() { [n, m] } else { [m, n] }
    }

    /// The atom's fragment that a fragment of the dot is.
    pub const fn role(&self, operand: Operand) -> Operand {
        match operand {
            Operand::A if self.is_swapped() => Operand::B,
            Operand::B if self.is_swapped() => Operand::A,
            as_it_is => as_it_is,
        }
    }

    /// The type in which an operand's fragment is stored.
    pub const fn dtype(&self, operand: Operand) -> DType {
        self.atom.dtype(self.role(operand))
    }

    /// Elements of an operand that each lane holds.
    pub const fn registers(&self, operand: Operand) -> u32 {
        self.atom.registers(self.role(operand))
    }

    /// Which lane and register hold an element of the dot's operand or result: see [`Atom::layout`].
    pub fn layout(&self, operand: Operand) -> Layout {
        let mut layout = self.atom.layout(self.role(operand));
        if !self.is_swapped() {
            return layout;
        }
        if self.order == Order::Dealt && operand != Operand::A {
            deal(&mut layout.axes[0]);
        }
        layout.axes.reverse();
        layout
    }

    /// The layout in which an operand is read: its own, or the one that it has where the left operand is `fed` by accumulators ([`Atom::fed`]).
    pub fn read(&self, operand: Operand, fed: bool) -> Layout {
        if fed { self.atom.fed(operand).unwrap_or_else(|| self.layout(operand)) } else { self.layout(operand) }
    }

    /// How `ldmatrix` loads an operand that is read so: it cannot change the order of words.
    pub fn matrices_read(&self, operand: Operand, contiguous: usize, fed: bool) -> Option<(bool, Vec<[i64; 2]>)> {
        let in_order = self.read(operand, fed) == self.layout(operand);
        self.matrices(operand, contiguous).filter(|_| in_order)
    }

    /// How `ldmatrix` loads an operand: see [`Atom::matrices`]. It cannot deal rows.
    pub fn matrices(&self, operand: Operand, contiguous: usize) -> Option<(bool, Vec<[i64; 2]>)> {
        if !self.is_swapped() {
            return self.atom.matrices(operand, contiguous);
        }
        if self.order == Order::Dealt && operand == Operand::B {
            return None;
        }
        let (transposed, origins) = self.atom.matrices(self.role(operand), 1 - contiguous)?;
        Some((transposed, origins.into_iter().map(|[row, column]| [column, row]).collect()))
    }
}

/// Makes rows `g` and `g + 8` neighbours, where there are that many.
fn deal(rows: &mut [Digit]) {
    if rows.iter().all(|d| d.source == Source::Thread) {
        return;
    }
    for digit in rows.iter_mut() {
        digit.place = if digit.source == Source::Thread { digit.place * 2 } else { digit.place / 8 };
    }
    rows.sort_by_key(|d| d.place);
}

/// `m16n8k8_tf32`, `m16n8k8_tf32 swapped`, `m16n8k8_tf32 dealt`.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let order = match self.order {
            Order::Plain => "",
            Order::Swapped => " swapped",
            Order::Dealt => " dealt",
        };
        write!(f, "{}{order}", self.atom)
    }
}
