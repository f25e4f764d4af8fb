//! Operations on untyped handles, in kernels and in programs. The typed handles are thin covers of these.

use super::builder::KernelBuilder;
use super::session::{self, Handle, Session};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program::Expr;
use girih_ir::tile::{Op, Size, Ty, ValueId};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal, TernaryOp, UnaryOp};

/// A constant scalar.
pub(crate) fn literal(literal: Literal, loc: SourceLoc) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => {
            let v = k.literal(literal, loc);
            k.handle(v)
        }
        Session::Program(p) => p.expr(Expr::Literal(literal), literal.dtype, loc),
    })
}

/// The number as a constant of an integer type; a mistake if it does not fit.
pub(crate) fn int_literal(dtype: DType, value: i64, loc: SourceLoc) -> Handle {
    let exact = Literal::from_i64(dtype, value);
    if exact.to_i64() != value && dtype != DType::U64 || dtype == DType::U64 && value < 0 {
        return out_of_range(dtype, &value, loc);
    }
    literal(exact, loc)
}

/// As [`int_literal`], of a number beyond i64.
pub(crate) fn large_literal(dtype: DType, value: u64, loc: SourceLoc) -> Handle {
    if dtype == DType::U64 { literal(Literal { dtype, bits: value }, loc) } else { out_of_range(dtype, &value, loc) }
}

fn out_of_range(dtype: DType, value: &dyn std::fmt::Display, loc: SourceLoc) -> Handle {
    let message = format!("{value} is out of the range of {dtype}");
    session::with(|s| s.error(Diagnostic::new(loc, message).help("write a number that fits, or convert after the computation")))
}

/// `op a`.
pub(crate) fn unary(op: UnaryOp, a: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => {
            let Some(a) = k.operand(a, loc) else { return Handle::POISON };
            let ty = k.kernel.ty(a).clone();
            let v = k.emit(Op::Unary(op, a), ty, loc);
            k.handle(v)
        }
        Session::Program(p) => p.unary(op, a, loc),
    })
}

/// `a op b`; a scalar beside a tile is spread over it.
pub(crate) fn binary(op: BinaryOp, a: Handle, b: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => {
            let Some([a, b]) = unify(k, symbol(op), [a, b], loc) else { return Handle::POISON };
            let ty = k.kernel.ty(a).clone();
            let v = k.emit(Op::Binary(op, a, b), ty, loc);
            k.handle(v)
        }
        Session::Program(p) => p.binary(op, a, b, loc),
    })
}

/// `op(a, b, c)`.
pub(crate) fn ternary(op: TernaryOp, args: [Handle; 3], loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(k) = s.kernel("`fma`", loc) else { return Handle::POISON };
        let Some([a, b, c]) = unify(k, "fma", args, loc) else { return Handle::POISON };
        let ty = k.kernel.ty(a).clone();
        let v = k.emit(Op::Ternary(op, a, b, c), ty, loc);
        k.handle(v)
    })
}

/// `a op b`, bool.
pub(crate) fn compare(op: CompareOp, a: Handle, b: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => {
            let Some([a, b]) = unify(k, compare_symbol(op), [a, b], loc) else { return Handle::POISON };
            let ty = with_dtype(k.kernel.ty(a), DType::Bool);
            let v = k.emit(Op::Compare(op, a, b), ty, loc);
            k.handle(v)
        }
        Session::Program(p) => p.compare(op, a, b, loc),
    })
}

/// `condition ? a : b`, elementwise.
pub(crate) fn select(condition: Handle, a: Handle, b: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => {
            let Some([c, a, b]) = unify(k, "the choice", [condition, a, b], loc) else { return Handle::POISON };
            if a == b {
                return k.handle(a);
            }
            let ty = k.kernel.ty(a).clone();
            let v = k.emit(Op::Select(c, a, b), ty, loc);
            k.handle(v)
        }
        Session::Program(p) => p.select(condition, a, b, loc),
    })
}

/// Conversion to another element type.
pub(crate) fn cast(to: DType, a: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => {
            let Some(a) = k.operand(a, loc) else { return Handle::POISON };
            let ty = with_dtype(k.kernel.ty(a), to);
            if *k.kernel.ty(a) == ty {
                return k.handle(a);
            }
            let v = k.emit(Op::Cast(a), ty, loc);
            k.handle(v)
        }
        Session::Program(p) => p.cast(to, a, loc),
    })
}

/// The same bits as another element type of the same size.
pub(crate) fn bitcast(to: DType, a: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(k) = s.kernel("`bitcast`", loc) else { return Handle::POISON };
        let Some(a) = k.operand(a, loc) else { return Handle::POISON };
        let from = k.kernel.ty(a).dtype().expect("language: a tile or scalar has an element type");
        if from.size() != to.size() {
            let message = format!("{from} has {} bytes and {to} has {}: their bits cannot be exchanged", from.size(), to.size());
            k.error(Diagnostic::new(loc, message).help("convert with `.cast()`, or take a type of the same size"));
            return Handle::POISON;
        }
        let ty = with_dtype(k.kernel.ty(a), to);
        let v = if from == to { a } else { k.emit(Op::Bitcast(a), ty, loc) };
        k.handle(v)
    })
}

/// A scalar as a tile.
pub(crate) fn splat(a: Handle, shape: Vec<Size>, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(k) = s.kernel("a tile", loc) else { return Handle::POISON };
        let Some(a) = k.operand(a, loc) else { return Handle::POISON };
        let v = splat_to(k, a, &shape, loc);
        k.handle(v)
    })
}

pub(crate) fn splat_to(k: &mut KernelBuilder, a: ValueId, shape: &[Size], loc: SourceLoc) -> ValueId {
    match k.kernel.ty(a) {
        Ty::Scalar(d) => {
            let ty = Ty::Tile(*d, shape.to_vec());
            k.emit(Op::Splat(a), ty, loc)
        }
        _ => a,
    }
}

/// Brings operands to one shape: scalars are spread where one is a tile. Tiles of different shapes are a mistake.
fn unify<const N: usize>(k: &mut KernelBuilder, what: &str, handles: [Handle; N], loc: SourceLoc) -> Option<[ValueId; N]> {
    let mut values = [ValueId(0); N];
    for (v, h) in values.iter_mut().zip(handles) {
        *v = k.operand(h, loc)?;
    }
    let Some(tile) = values.iter().copied().find(|v| k.kernel.ty(*v).shape().is_some()) else { return Some(values) };
    let shape = k.kernel.ty(tile).shape().map(<[Size]>::to_vec).unwrap_or_default();
    for v in &mut values {
        if k.kernel.ty(*v).shape().is_some_and(|s| s != shape) {
            let message = format!("{what} on tiles of different shapes: {} and {}", k.shape_text(&shape), k.describe(*v));
            let (a, b) = (k.kernel.value(tile).loc, k.kernel.value(*v).loc);
            k.error(
                Diagnostic::new(loc, message)
                    .note("the first was made here", a)
                    .note("the second was made here", b)
                    .help("exchange axes with `.t()`, or add one with `.expand(axis, size)`"),
            );
            return None;
        }
        *v = splat_to(k, *v, &shape, loc);
    }
    Some(values)
}

pub(crate) fn with_dtype(ty: &Ty, dtype: DType) -> Ty {
    match ty {
        Ty::Tile(_, shape) => Ty::Tile(dtype, shape.clone()),
        Ty::Scalar(_) | Ty::TileIdx(_) | Ty::Window(..) => Ty::Scalar(dtype),
    }
}

fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "`+`",
        BinaryOp::Sub => "`-`",
        BinaryOp::Mul => "`*`",
        BinaryOp::Div => "`/`",
        BinaryOp::Rem => "`%`",
        BinaryOp::Min => "`min`",
        BinaryOp::Max => "`max`",
        BinaryOp::And => "`&`",
        BinaryOp::Or => "`|`",
        BinaryOp::Xor => "`^`",
        BinaryOp::Shl => "`<<`",
        BinaryOp::Shr => "`>>`",
        BinaryOp::MulHi => "`mul_hi`",
        BinaryOp::DivApprox => "`div_approx`",
        BinaryOp::Pow => "`pow`",
    }
}

fn compare_symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "`<`",
        CompareOp::Le => "`<=`",
        CompareOp::Gt => "`>`",
        CompareOp::Ge => "`>=`",
        CompareOp::Eq => "`==`",
        CompareOp::Ne => "`!=`",
    }
}
