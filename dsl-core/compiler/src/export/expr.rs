//! Expressions of a program as C++: in 64 bits as an index, or of their own type.

use super::arithmetic::{Knowledge, Origin, integers, negative};
use super::names::Names;
use super::origin::origin;
use super::text::{Prec, Text, UNKNOWN};
use crate::cuda::{c_type, typed};
use girih_ir::program::Expr;
use girih_ir::types::{BinaryOp, CompareOp, DType, UnaryOp};

/// A function that rounds as `UnaryOp::RoundTf32` does.
const ROUND_TF32: &str = "[](float x) { unsigned int b; __builtin_memcpy(&b, &x, 4); \
if ((b & 0x7f800000u) != 0x7f800000u) b = (b + 0xfffu + (b >> 13 & 1u)) & 0xffffe000u; __builtin_memcpy(&x, &b, 4); return x; }";

impl Names<'_> {
    /// An integer expression in 64 bits.
    pub fn index(&self, e: &Expr) -> Text {
        if self.dtype(e) == DType::I64
            && let Some(kept) = self.kept(e)
        {
            return kept;
        }
        match e {
            Expr::Param(p) if self.dtype(e) == self.signature.params[self.binding[*p]].dtype => self.wide(self.binding[*p]),
            Expr::Cast(DType::I64, inner) if self.dtype(inner).is_int() => self.index(inner),
            _ if self.dtype(e) == DType::I64 => self.expr(e),
            _ => {
                let text = self.expr(e);
                match text.constant {
                    Some(_) => text,
                    None => Text::new(format!("(long long){}", text.at_least(Prec::Unary)), Prec::Unary).knowing(text.known),
                }
            }
        }
    }

    /// An expression of its own type.
    pub fn expr(&self, e: &Expr) -> Text {
        if let Some(kept) = self.kept(e) {
            return kept;
        }
        match e {
            Expr::Literal(l) if l.dtype == DType::I64 => Text::integer(l.to_i64()),
            Expr::Literal(l) if l.dtype.is_float() => host_float(l.to_f64() as f32),
            Expr::Literal(l) => {
                let constant = (!l.dtype.is_float()).then(|| l.to_i64());
                let text = typed(*l);
                let prec = if text.starts_with('-') { Prec::Unary } else { Prec::Primary };
                let known = constant.map_or(UNKNOWN, Knowledge::constant);
                Text { constant, known, ..Text::new(text, prec) }
            }
            Expr::Param(p) => self.param(*p),
            Expr::Dim(p, k) => self.dim(*p, *k),
            Expr::Var(v) => {
                let text = Text::primary(self.vars[v.0 as usize].clone());
                let origin = origin(&self.program.body, *v);
                if self.dtype(e).is_float() { text } else { text.knowing(Knowledge::any(self.dtype(e), origin)) }
            }
            Expr::Variant(_) => Text { constant: Some(1), ..Text::primary("true") },
            Expr::Unary(op, a) => {
                let exact = matches!(
                    op,
                    UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc | UnaryOp::Moved
                );
                if exact { self.unary(*op, a) } else { rounded(self.dtype(e), self.unary(*op, a)) }
            }
            Expr::Binary(op, a, b) if self.dtype(e) == DType::I64 && !matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) => {
                let (a, b) = (self.index(a), self.index(b));
                let known = matches!(
                    op,
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Min | BinaryOp::Max
                );
                if known { Text::combine(*op, &a, &b) } else { integers(*op, DType::I64, &a, &b) }
            }
            Expr::Binary(BinaryOp::And | BinaryOp::Or, ..) | Expr::Select(..) if self.dtype(e) == DType::Bool => self.truth(e, true),
            Expr::Binary(op, a, b) if self.dtype(e).is_int() => integers(*op, self.dtype(e), &self.expr(a), &self.expr(b)),
            Expr::Binary(op, a, b) => {
                let text = Text::operator(*op, self.dtype(e), &self.expr(a), &self.expr(b));
                if matches!(op, BinaryOp::Min | BinaryOp::Max) { text } else { rounded(self.dtype(e), text) }
            }
            Expr::Compare(op, a, b) => self.comparison(*op, a, b),
            Expr::Select(c, a, b) => {
                let (yes, no) = (self.expr(a), self.expr(b));
                let of = |t: &Text| if self.dtype(e) == DType::I64 { t.typed() } else { t.at_least(Prec::Or) };
                let text = format!("{} ? {} : {}", self.expr(c).at_least(Prec::Or), of(&yes), of(&no));
                Text::new(text, Prec::Select).knowing(yes.known.or(no.known))
            }
            Expr::Cast(to, a) if self.dtype(a) == *to => self.expr(a),
            Expr::Cast(DType::I64, a) if self.dtype(a).is_int() => self.index(a),
            Expr::Cast(DType::Bool, a) => Text::new(format!("{} != 0", self.expr(a).at_least(Prec::Less)), Prec::Equal),
            Expr::Cast(to, a) if to.is_int() && self.dtype(a).is_float() => {
                let text = Text::primary(format!("to_integer<{}>({})", c_type(*to), self.expr(a).text));
                text.knowing(Knowledge::any(*to, Origin::Data))
            }
            // Others by way of a float, which rounds no integer that is finite as an f16 or an 8-bit float.
            Expr::Cast(DType::BF16, a) if self.dtype(a).is_int() => Text::primary(format!("integer_to_bf16({})", self.expr(a).text)),
            Expr::Cast(to, a) if to.is_narrow_float() => rounded(*to, self.expr(a)),
            Expr::Cast(to, a) => {
                let inner = self.expr(a);
                let text = Text::new(format!("({}){}", host_type(*to), inner.at_least(Prec::Unary)), Prec::Unary);
                let any = Knowledge::any(if to.is_int() { *to } else { DType::I64 }, Origin::Data);
                text.knowing(if inner.known.within(any) { inner.known } else { any })
            }
        }
    }

    /// An argument of a launch, which is rounded to its type when it becomes bits.
    pub fn argument(&self, e: &Expr) -> Text {
        if let Some(kept) = self.kept(e) {
            return kept;
        }
        match e {
            Expr::Cast(to, a) if to.is_narrow_float() && self.dtype(a) == DType::F32 => self.expr(a),
            _ => self.expr(e),
        }
    }

    fn comparison(&self, op: CompareOp, a: &Expr, b: &Expr) -> Text {
        let (sign, prec, tighter) = match op {
            CompareOp::Lt => ("<", Prec::Less, Prec::Shift),
            CompareOp::Le => ("<=", Prec::Less, Prec::Shift),
            CompareOp::Gt => (">", Prec::Less, Prec::Shift),
            CompareOp::Ge => (">=", Prec::Less, Prec::Shift),
            CompareOp::Eq => ("==", Prec::Equal, Prec::Less),
            CompareOp::Ne => ("!=", Prec::Equal, Prec::Less),
        };
        let side = |e: &Expr| if self.dtype(e) == DType::I64 { self.index(e) } else { self.expr(e) };
        let whole = self.dtype(a).is_int() && self.dtype(a) != DType::U64;
        let rounded = match op {
            CompareOp::Le | CompareOp::Gt if rounds_up(b, a) => Some(op == CompareOp::Le),
            CompareOp::Ge | CompareOp::Lt if rounds_up(a, b) => Some(op == CompareOp::Ge),
            _ => None,
        };
        let (a, b) = (side(a), side(b));
        let truth = decided(op, a.known, b.known).filter(|_| whole).or(rounded).map(i64::from);
        Text { constant: truth, ..Text::new(format!("{} {sign} {}", a.at_least(tighter), b.at_least(tighter)), prec) }
    }

    /// Not this.
    pub fn negated(&self, e: &Expr) -> Text {
        self.truth(e, false)
    }

    /// A condition, or where it does not hold: without what is decided, and with no sign before what has an inverse.
    fn truth(&self, e: &Expr, holds: bool) -> Text {
        match e {
            _ if self.kept(e).is_some() => self.plain_truth(e, holds),
            Expr::Unary(UnaryOp::Not, inner) => self.truth(inner, !holds),
            // With NaN neither order holds.
            Expr::Compare(op, a, b) if !holds && (!self.dtype(a).is_float() || matches!(op, CompareOp::Eq | CompareOp::Ne)) => {
                self.comparison(op.inverse(), a, b)
            }
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let other = if *op == BinaryOp::And { BinaryOp::Or } else { BinaryOp::And };
                logic(if holds { *op } else { other }, self.truth(a, holds), self.truth(b, holds))
            }
            Expr::Select(c, a, b) => {
                let (yes, no) = (self.truth(a, holds), self.truth(b, holds));
                match (self.truth(c, true).constant, yes.constant, no.constant) {
                    (Some(0), ..) => no,
                    (Some(_), ..) => yes,
                    (_, Some(0), _) => logic(BinaryOp::And, self.truth(c, false), no),
                    (_, Some(_), _) => logic(BinaryOp::Or, self.truth(c, true), no),
                    (.., Some(0)) => logic(BinaryOp::And, self.truth(c, true), yes),
                    (.., Some(_)) => logic(BinaryOp::Or, self.truth(c, false), yes),
                    (None, None, None) => {
                        let [c, yes, no] = [self.truth(c, true), yes, no].map(|t| t.at_least(Prec::Or));
                        Text::new(format!("{c} ? {yes} : {no}"), Prec::Select)
                    }
                }
            }
            _ => self.plain_truth(e, holds),
        }
    }

    fn plain_truth(&self, e: &Expr, holds: bool) -> Text {
        let x = self.expr(e);
        if holds {
            return x;
        }
        Text { constant: x.constant.map(|c| 1 - c), ..Text::new(format!("!{}", x.at_least(Prec::Primary)), Prec::Unary) }
    }

    fn unary(&self, op: UnaryOp, a: &Expr) -> Text {
        let (dtype, x) = (self.dtype(a), self.expr(a));
        let call = |f: &str| Text::primary(format!("{f}({})", x.text));
        match op {
            UnaryOp::Neg if dtype.is_int() => negative(dtype, &x),
            UnaryOp::Neg => Text::new(format!("-{}", x.at_least(Prec::Primary)), Prec::Unary),
            UnaryOp::Not if dtype == DType::Bool => self.negated(a),
            UnaryOp::Not if dtype.size() == 1 => Text::new(format!("({})~{}", c_type(dtype), x.at_least(Prec::Primary)), Prec::Unary),
            UnaryOp::Not => Text::new(format!("~{}", x.at_least(Prec::Primary)), Prec::Unary),
            UnaryOp::Abs if dtype.is_float() => call("fabsf"),
            UnaryOp::Abs => {
                let minus = negative(dtype, &x);
                let x = x.at_least(Prec::Primary);
                Text::new(format!("{x} < 0 ? {} : {x}", minus.text), Prec::Select)
            }
            UnaryOp::Exp | UnaryOp::ExpApprox => call("expf"),
            UnaryOp::Exp2 | UnaryOp::Exp2Approx => call("exp2f"),
            UnaryOp::Log | UnaryOp::LogApprox => call("logf"),
            UnaryOp::Log2 => call("log2f"),
            UnaryOp::Sqrt => call("sqrtf"),
            UnaryOp::Rsqrt => Text::new(format!("1.0f / sqrtf({})", x.text), Prec::Mul),
            UnaryOp::Sin => call("sinf"),
            UnaryOp::Cos => call("cosf"),
            UnaryOp::SinPi => call("sinpif"),
            UnaryOp::CosPi => call("cospif"),
            UnaryOp::Tanh | UnaryOp::TanhApprox => call("tanhf"),
            UnaryOp::Erf => call("erff"),
            UnaryOp::Floor => call("floorf"),
            UnaryOp::Ceil => call("ceilf"),
            UnaryOp::Round => call("rintf"),
            UnaryOp::Trunc => call("truncf"),
            UnaryOp::RecipApprox => Text::new(format!("1.0f / {}", x.at_least(Prec::Unary)), Prec::Mul),
            UnaryOp::RoundTf32 => Text::primary(format!("{ROUND_TF32}({})", x.text)),
            UnaryOp::Moved => x,
            UnaryOp::Popcount if dtype.size() == 8 => call("__builtin_popcountll"),
            UnaryOp::Popcount => Text::primary(format!("__builtin_popcount(({}){})", unsigned(dtype), x.at_least(Prec::Unary))),
            UnaryOp::LeadingZeros => {
                let bits = 8 * dtype.size();
                let x = x.at_least(Prec::Unary);
                Text::new(format!("{x} == 0 ? {bits} : __builtin_clzll(({}){x}) - {}", unsigned(dtype), 64 - bits), Prec::Select)
            }
        }
    }
}

/// `a && b` or `a || b`, or what of it is not decided.
fn logic(op: BinaryOp, a: Text, b: Text) -> Text {
    let decides = i64::from(op == BinaryOp::Or);
    match (a.constant, b.constant) {
        (Some(x), _) if x == decides => a,
        (_, Some(y)) if y == decides => b,
        (Some(_), _) => b,
        (_, Some(_)) => a,
        (None, None) => Text::operator(op, DType::Bool, &a, &b),
    }
}

/// What a comparison of integers says, where all that they can be says the same.
fn decided(op: CompareOp, a: Knowledge, b: Knowledge) -> Option<bool> {
    let one = |value| if a.least == a.most && b.least == b.most { Some((a.least == b.least) == value) } else { None };
    let apart = a.most < b.least || b.most < a.least;
    match op {
        CompareOp::Lt if a.most < b.least => Some(true),
        CompareOp::Lt if a.least >= b.most => Some(false),
        CompareOp::Le if a.most <= b.least => Some(true),
        CompareOp::Le if a.least > b.most => Some(false),
        CompareOp::Gt => decided(CompareOp::Lt, b, a),
        CompareOp::Ge => decided(CompareOp::Le, b, a),
        CompareOp::Eq if apart => Some(false),
        CompareOp::Ne if apart => Some(true),
        CompareOp::Eq => one(true),
        CompareOp::Ne => one(false),
        CompareOp::Lt | CompareOp::Le => None,
    }
}

/// Whether an expression is a length rounded up to a multiple of a constant: `(x + 7) / 8 * 8`.
fn rounds_up(e: &Expr, x: &Expr) -> bool {
    let constant = |e: &Expr| if let Expr::Literal(l) = e { (l.dtype == DType::I64).then(|| l.to_i64()) } else { None };
    let Expr::Binary(BinaryOp::Mul, quotient, unit) = e else { return false };
    let Expr::Binary(BinaryOp::Div, sum, divisor) = &**quotient else { return false };
    let Expr::Binary(BinaryOp::Add, length, more) = &**sum else { return false };
    let unit = constant(unit).filter(|u| *u > 0 && constant(divisor) == Some(*u));
    let is_length = matches!(x, Expr::Dim(..));
    is_length && **length == *x && unit.is_some_and(|u| constant(more).is_some_and(|m| m >= u - 1 && m < 1 << 30))
}

/// A float literal of the host, which has no spelling for infinities without <math.h>. 16-bit floats are computed in float.
pub(super) fn host_float(value: f32) -> Text {
    if value.is_nan() {
        return Text::primary("__builtin_nanf(\"\")");
    }
    let size = if value.is_infinite() { "__builtin_inff()".to_string() } else { format!("{:?}f", value.abs()) };
    if value.is_sign_negative() { Text::new(format!("-{size}"), Prec::Unary) } else { Text::primary(size) }
}

/// The unsigned type of an integer's width.
pub(super) fn unsigned(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "unsigned char",
        4 => "unsigned int",
        _ => "unsigned long long",
    }
}

/// A float that is kept as one, of a type's own precision: narrower ones round after each operation, as where programs are evaluated.
fn rounded(dtype: DType, text: Text) -> Text {
    match dtype {
        DType::F8E4M3 | DType::F8E5M2 => Text::primary(format!("round_{}({})", super::float8::format(dtype), text.text)),
        DType::F16 => Text::primary(format!("round_f16({})", text.text)),
        DType::BF16 => Text::primary(format!("round_bf16({})", text.text)),
        _ => text,
    }
}

/// The type of a scalar on the host: narrower floats are computed in float.
pub(super) fn host_type(dtype: DType) -> &'static str {
    c_type(dtype.compute())
}
