//! Cells: how the evaluator holds numbers.
//!
//! A cell is 64 bits. Integers and bools are bit patterns zero-extended. Floats are f32 bit patterns (narrower ones too: they
//! compute in f32), or in double precision f64 bit patterns.

use crate::scalar;
use crate::types::{BinaryOp, CompareOp, DType, Literal, TernaryOp, UnaryOp};

/// A function on one cell.
pub(super) type Unary = Box<dyn Fn(u64) -> u64>;
/// A function on two cells.
pub(super) type Binary = Box<dyn Fn(u64, u64) -> u64>;
/// A function on three cells.
pub(super) type Ternary = Box<dyn Fn(u64, u64, u64) -> u64>;

/// The chosen arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// Floats are f64.
    pub float64: bool,
}

impl Numbers {
    fn wide(self, dtype: DType) -> bool {
        self.float64 && dtype.is_float()
    }

    /// The cell of a bit pattern in memory.
    pub fn load(self, dtype: DType, bits: u64) -> u64 {
        match dtype {
            d if self.wide(d) => (Literal { dtype, bits }).to_f64().to_bits(),
            d if d.is_narrow_float() => scalar::cast(dtype, DType::F32, bits),
            DType::Bool => (bits != 0) as u64,
            _ => bits,
        }
    }

    /// The bit pattern in memory of a cell: floats round.
    pub fn store(self, dtype: DType, cell: u64) -> u64 {
        match dtype {
            d if self.wide(d) => Literal::from_f64(d, f64::from_bits(cell)).bits,
            d if d.is_narrow_float() => scalar::cast(DType::F32, dtype, cell),
            _ => cell,
        }
    }

    /// The cell of a constant.
    pub fn literal(self, literal: Literal) -> u64 {
        self.load(literal.dtype, literal.bits)
    }

    /// An operation on one operand.
    pub fn unary(self, op: UnaryOp, dtype: DType) -> Unary {
        if self.wide(dtype) {
            return Box::new(move |a| scalar::unary_f64(op, f64::from_bits(a)).to_bits());
        }
        Box::new(scalar::unary_fn(op, dtype.compute()).unwrap_or_else(|| panic!("eval: {op:?} is not defined on {dtype}")))
    }

    /// An operation on two operands.
    pub fn binary(self, op: BinaryOp, dtype: DType) -> Binary {
        if self.wide(dtype) {
            return Box::new(move |a, b| scalar::binary_f64(op, f64::from_bits(a), f64::from_bits(b)).to_bits());
        }
        Box::new(scalar::binary_fn(op, dtype.compute()).unwrap_or_else(|| panic!("eval: {op:?} is not defined on {dtype}")))
    }

    /// An operation on three operands.
    pub fn ternary(self, op: TernaryOp, dtype: DType) -> Ternary {
        if self.wide(dtype) {
            return Box::new(move |a, b, c| scalar::ternary_f64(op, f64::from_bits(a), f64::from_bits(b), f64::from_bits(c)).to_bits());
        }
        Box::new(scalar::ternary_fn(op, dtype.compute()).unwrap_or_else(|| panic!("eval: {op:?} is not defined on {dtype}")))
    }

    /// A comparison; its result is a cell of type bool.
    pub fn compare(self, op: CompareOp, dtype: DType) -> Binary {
        if self.wide(dtype) {
            return Box::new(move |a, b| scalar::compare_f64(op, f64::from_bits(a), f64::from_bits(b)) as u64);
        }
        let f = scalar::compare_fn(op, dtype.compute()).unwrap_or_else(|| panic!("eval: {op:?} is not defined on {dtype}"));
        Box::new(move |a, b| f(a, b) as u64)
    }

    /// A conversion. In double precision a cast to f32 keeps what it has; a cast to a narrower float rounds always, because the author
    /// asked for that precision.
    pub fn cast(self, from: DType, to: DType) -> Unary {
        let rounds = to.is_narrow_float();
        if !self.float64 || !(from.is_float() || to.is_float()) {
            let (from, numbers) = (from.compute(), self);
            return Box::new(move |a| numbers.load(to, scalar::cast(from, to, a)));
        }
        match (from.is_float(), to.is_float()) {
            (true, true) if !rounds => Box::new(|a| a),
            (true, true) => Box::new(move |a| Literal::from_f64(to, f64::from_bits(a)).to_f64().to_bits()),
            (true, false) => Box::new(move |a| Literal::from_f64(to, f64::from_bits(a)).bits),
            _ if rounds => Box::new(move |a| (Literal { dtype: to, bits: scalar::cast(from, to, a) }).to_f64().to_bits()),
            _ => Box::new(move |a| (Literal { dtype: from, bits: a }).to_f64().to_bits()),
        }
    }

    /// A reinterpretation: through the bit pattern that the value has in memory.
    pub fn bitcast(self, from: DType, to: DType) -> Unary {
        Box::new(move |a| self.load(to, scalar::bitcast(from, to, self.store(from, a))))
    }

    /// A cell of integer type as a number; u64 wraps.
    pub fn integer(self, dtype: DType, cell: u64) -> i64 {
        (Literal { dtype, bits: cell }).to_i64()
    }
}
