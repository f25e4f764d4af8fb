//! Operators as CUDA C: signs, calls, and the parentheses that readers expect. What C leaves undefined goes by way of unsigned
//! numbers or helpers.

use super::expr::{Prec, Text};
use super::helpers::Helper;
use super::literal::{bit_mask, c_type};
use super::writer::Writer;
use girih_ir::simt::Expr;
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal, TernaryOp, UnaryOp};

impl Writer<'_> {
    /// The same bits computed on unsigned numbers, where overflow wraps.
    pub fn unsigned(&mut self, e: &Expr) -> Text {
        let signed = self.kernel.dtype(e);
        let (unsigned, suffix) = if signed == DType::I64 { ("unsigned long long", "ull") } else { ("unsigned int", "u") };
        match e {
            Expr::Literal(l) if l.to_i64() >= 0 => Text::primary(format!("{}{suffix}", l.to_i64())),
            Expr::Unary(UnaryOp::Neg, a) => {
                let a = self.unsigned(a).at_least(Prec::Unary);
                Text { text: format!("0{suffix} - {a}"), prec: Prec::Add }
            }
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
                let (symbol, prec, right) = match op {
                    BinaryOp::Add => ("+", Prec::Add, Prec::Mul),
                    BinaryOp::Sub => ("-", Prec::Add, Prec::Mul),
                    _ => ("*", Prec::Mul, Prec::Unary),
                };
                let a = self.unsigned(a).at_least(prec);
                let b = self.unsigned(b).at_least(right);
                Text { text: format!("{a} {symbol} {b}"), prec }
            }
            Expr::Binary(BinaryOp::Shl, a, n) => {
                let a = self.unsigned(a).at_least(Prec::Unary);
                let n = self.shift_amount(n, signed);
                Text { text: format!("{a} << {n}"), prec: Prec::Shift }
            }
            Expr::Ternary(TernaryOp::Fma, a, b, c) => {
                let a = self.unsigned(a).at_least(Prec::Mul);
                let b = self.unsigned(b).at_least(Prec::Unary);
                let c = self.unsigned(c).at_least(Prec::Mul);
                Text { text: format!("{a} * {b} + {c}"), prec: Prec::Add }
            }
            // What was cut to a signed number of these bits is read as an unsigned one.
            Expr::Cast(to, a) if *to == signed && self.kernel.dtype(a).is_int() && self.kernel.dtype(a).size() >= signed.size() => {
                match self.kernel.dtype(a) {
                    from if from.size() == signed.size() && !from.is_signed() => self.text(a),
                    _ => Text { text: format!("({unsigned}){}", self.text(a).at_least(Prec::Unary)), prec: Prec::Unary },
                }
            }
            _ => Text { text: format!("({unsigned}){}", self.text(e).at_least(Prec::Unary)), prec: Prec::Unary },
        }
    }

    pub fn unary(&mut self, op: UnaryOp, a: &Expr) -> Text {
        let dtype = self.kernel.dtype(a);
        let float = dtype.is_float();
        let call = |this: &mut Self, name: &str| Text::primary(format!("{name}({})", this.expr(a)));
        match op {
            UnaryOp::Neg => {
                let a = self.text(a).at_least(Prec::Unary);
                let space = if a.starts_with('-') { " " } else { "" };
                narrow(dtype, Text { text: format!("-{space}{a}"), prec: Prec::Unary })
            }
            UnaryOp::Not => {
                let a = self.text(a).at_least(Prec::Unary);
                let symbol = if dtype == DType::Bool { "!" } else { "~" };
                narrow(dtype, Text { text: format!("{symbol}{a}"), prec: Prec::Unary })
            }
            UnaryOp::Abs if float => call(self, "fabsf"),
            UnaryOp::Abs if !dtype.is_signed() => self.text(a),
            UnaryOp::Abs => {
                self.uses(Helper::AbsWrap);
                narrow(dtype, call(self, "abs_wrap"))
            }
            UnaryOp::Exp => call(self, "expf"),
            UnaryOp::Exp2 => call(self, "exp2f"),
            UnaryOp::Log => call(self, "logf"),
            UnaryOp::Log2 => call(self, "log2f"),
            UnaryOp::Sqrt => call(self, "sqrtf"),
            UnaryOp::Rsqrt => call(self, "rsqrtf"),
            UnaryOp::Sin => call(self, "sinf"),
            UnaryOp::Cos => call(self, "cosf"),
            UnaryOp::SinPi => call(self, "sinpif"),
            UnaryOp::CosPi => call(self, "cospif"),
            UnaryOp::Tanh => call(self, "tanhf"),
            UnaryOp::Erf => call(self, "erff"),
            UnaryOp::Floor => call(self, "floorf"),
            UnaryOp::Ceil => call(self, "ceilf"),
            UnaryOp::Round => call(self, "rintf"),
            UnaryOp::Trunc => call(self, "truncf"),
            UnaryOp::ExpApprox => {
                self.uses(Helper::ExpApprox);
                call(self, "exp_approx")
            }
            UnaryOp::LogApprox => call(self, "__logf"),
            UnaryOp::Exp2Approx => {
                self.uses(Helper::Exp2Approx);
                call(self, "exp2_approx")
            }
            UnaryOp::RecipApprox => {
                let a = self.expr(a);
                Text::primary(format!("__fdividef(1.0f, {a})"))
            }
            UnaryOp::TanhApprox => {
                self.uses(Helper::TanhApprox);
                call(self, "tanh_approx")
            }
            UnaryOp::RoundTf32 => {
                self.uses(Helper::RoundTf32);
                call(self, "round_tf32")
            }
            UnaryOp::Moved => {
                self.uses(Helper::Moved);
                call(self, "moved")
            }
            UnaryOp::Popcount | UnaryOp::LeadingZeros => result_as(dtype, self.bit_count(op, a)),
        }
    }

    /// A count of bits, an int.
    pub fn bit_count(&mut self, op: UnaryOp, a: &Expr) -> Text {
        let (dtype, bits) = (self.kernel.dtype(a), self.bits(a));
        let wide = dtype.size() == 8;
        match op {
            UnaryOp::Popcount => Text::primary(format!("{}({bits})", if wide { "__popcll" } else { "__popc" })),
            _ if dtype.size() == 1 => Text { text: format!("__clz({bits}) - 24"), prec: Prec::Add },
            _ => Text::primary(format!("{}({bits})", if wide { "__clzll" } else { "__clz" })),
        }
    }

    /// An operand of a bit count, not sign-extended.
    pub fn bits(&mut self, a: &Expr) -> String {
        match self.kernel.dtype(a) {
            DType::I8 => format!("(unsigned char){}", self.text(a).at_least(Prec::Unary)),
            _ => self.expr(a),
        }
    }

    pub fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Text {
        let dtype = self.kernel.dtype(a);
        match op {
            BinaryOp::Add | BinaryOp::Sub => self.sum(op, dtype, a, b),
            BinaryOp::Mul => self.infix("*", dtype, a, b, Prec::Mul),
            BinaryOp::Div | BinaryOp::Rem => self.quotient(op, dtype, a, b),
            BinaryOp::Min | BinaryOp::Max => self.extremum(op, dtype, a, b),
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor if dtype == DType::Bool => {
                let (symbol, prec) = match op {
                    BinaryOp::And => ("&&", Prec::And),
                    BinaryOp::Or => ("||", Prec::Or),
                    _ => ("!=", Prec::Equal),
                };
                // A chain of one operator needs no parentheses; any other operator of this family beside it gets them.
                let mut side = |e: &Expr| match e {
                    Expr::Binary(inner, ..) if *inner == op && op != BinaryOp::Xor => self.text(e).at_least(prec),
                    _ => self.text(e).at_least(if op == BinaryOp::Xor { Prec::Shift } else { Prec::Equal }),
                };
                let (a, b) = (side(a), side(b));
                Text { text: format!("{a} {symbol} {b}"), prec }
            }
            BinaryOp::And => self.bitwise("&", dtype, op, a, b, Prec::BitAnd),
            BinaryOp::Or => self.bitwise("|", dtype, op, a, b, Prec::BitOr),
            BinaryOp::Xor => self.bitwise("^", dtype, op, a, b, Prec::BitXor),
            BinaryOp::Shl | BinaryOp::Shr => {
                let value = self.text(a).at_least(Prec::Unary);
                let amount = self.shift_amount(b, dtype);
                let symbol = if op == BinaryOp::Shl { "<<" } else { ">>" };
                narrow(dtype, Text { text: format!("{value} {symbol} {amount}"), prec: Prec::Shift })
            }
            // No instruction for bytes: their products fit an int.
            BinaryOp::MulHi if dtype.size() == 1 => {
                let product = self.infix("*", DType::I32, a, b, Prec::Mul).at_least(Prec::Shift);
                narrow(dtype, Text { text: format!("{product} >> 8"), prec: Prec::Shift })
            }
            BinaryOp::MulHi => {
                let name = match dtype {
                    DType::I32 => "__mulhi",
                    DType::U32 => "__umulhi",
                    DType::I64 => "__mul64hi",
                    _ => "__umul64hi",
                };
                self.call(name, a, b)
            }
            BinaryOp::DivApprox => self.call("__fdividef", a, b),
            BinaryOp::Pow => self.call("powf", a, b),
        }
    }

    fn call(&mut self, name: &str, a: &Expr, b: &Expr) -> Text {
        let (a, b) = (self.expr(a), self.expr(b));
        Text::primary(format!("{name}({a}, {b})"))
    }

    fn infix(&mut self, symbol: &str, dtype: DType, a: &Expr, b: &Expr, prec: Prec) -> Text {
        let right = if prec == Prec::Mul { Prec::Unary } else { Prec::Mul };
        let (a, b) = (self.side(a, b, prec), self.side(b, a, right));
        narrow(dtype, Text { text: format!("{a} {symbol} {b}"), prec })
    }

    /// `a + -3` is written `a - 3`, which is the same number.
    pub fn sum(&mut self, op: BinaryOp, dtype: DType, a: &Expr, b: &Expr) -> Text {
        let negative = match b {
            Expr::Literal(l) if dtype.is_signed() && l.to_f64() < 0.0 && l.to_f64().is_finite() => Some(negated(*l)),
            _ => None,
        };
        match (op, negative) {
            (BinaryOp::Add, Some(b)) => self.infix("-", dtype, a, &Expr::Literal(b), Prec::Add),
            (BinaryOp::Sub, Some(b)) => self.infix("+", dtype, a, &Expr::Literal(b), Prec::Add),
            (BinaryOp::Add, None) => self.infix("+", dtype, a, b, Prec::Add),
            _ => self.infix("-", dtype, a, b, Prec::Add),
        }
    }

    fn quotient(&mut self, op: BinaryOp, dtype: DType, a: &Expr, b: &Expr) -> Text {
        let rem = op == BinaryOp::Rem;
        if dtype.is_float() {
            return if rem { self.call("fmodf", a, b) } else { self.infix("/", dtype, a, b, Prec::Mul) };
        }
        if !self.data.may_be_anything(self.kernel, b) {
            return self.infix(if rem { "%" } else { "/" }, dtype, a, b, Prec::Mul);
        }
        self.uses(match (dtype, rem) {
            (DType::I64, false) => Helper::DivLong,
            (DType::U32, false) => Helper::DivUint,
            (DType::U64, false) => Helper::DivUlong,
            (_, false) => Helper::DivInt,
            (DType::I64, true) => Helper::RemLong,
            (DType::U32, true) => Helper::RemUint,
            (DType::U64, true) => Helper::RemUlong,
            (_, true) => Helper::RemInt,
        });
        narrow(dtype, self.call(if rem { "modulo" } else { "divide" }, a, b))
    }

    fn extremum(&mut self, op: BinaryOp, dtype: DType, a: &Expr, b: &Expr) -> Text {
        let min = op == BinaryOp::Min;
        if dtype.is_float() {
            self.uses(if min { Helper::NanMin } else { Helper::NanMax });
            return self.call(if min { "nan_min" } else { "nan_max" }, a, b);
        }
        self.call(if min { "min" } else { "max" }, a, b)
    }

    /// Operands that are operations themselves get parentheses: few readers know C's table by heart.
    fn bitwise(&mut self, symbol: &str, dtype: DType, op: BinaryOp, a: &Expr, b: &Expr, prec: Prec) -> Text {
        let mut side = |e: &Expr, other: &Expr| match e {
            Expr::Binary(inner, ..) if *inner == op => self.text(e).at_least(prec),
            Expr::Literal(l) => bit_mask(*l).unwrap_or_else(|| self.side(e, other, Prec::Unary)),
            _ => self.side(e, other, Prec::Unary),
        };
        let (a, b) = (side(a, b), side(b, a));
        narrow(dtype, Text { text: format!("{a} {symbol} {b}"), prec })
    }

    /// Whether a number is one below a width by its form: a mask, or the counter of a short loop.
    fn is_below(&self, e: &Expr, width: i64) -> bool {
        match e {
            Expr::Literal(l) => (0..width).contains(&l.to_i64()),
            Expr::Var(v) => self.below[v.0 as usize].is_some_and(|most| most <= width),
            Expr::Cast(to, a) => to.is_int() && self.kernel.dtype(a).is_int() && self.is_below(a, width),
            Expr::Binary(BinaryOp::And, a, b) => [a, b].into_iter().any(|e| matches!(**e, Expr::Literal(_)) && self.is_below(e, width)),
            _ => false,
        }
    }

    /// The amount of a shift, masked to the width unless it is known to lie inside of it.
    fn shift_amount(&mut self, amount: &Expr, dtype: DType) -> String {
        let width = dtype.size() as i64 * 8;
        match amount {
            Expr::Literal(l) => (l.to_i64() & (width - 1)).to_string(),
            _ if self.is_below(amount, width) => self.text(amount).at_least(Prec::Unary),
            _ => format!("({} & {})", self.text(amount).at_least(Prec::Unary), width - 1),
        }
    }

    pub fn compare(&mut self, op: CompareOp, a: &Expr, b: &Expr) -> Text {
        let (symbol, prec) = match op {
            CompareOp::Lt => ("<", Prec::Less),
            CompareOp::Le => ("<=", Prec::Less),
            CompareOp::Gt => (">", Prec::Less),
            CompareOp::Ge => (">=", Prec::Less),
            CompareOp::Eq => ("==", Prec::Equal),
            CompareOp::Ne => ("!=", Prec::Equal),
        };
        let (a, b) = (self.side(a, b, Prec::Shift), self.side(b, a, Prec::Shift));
        Text { text: format!("{a} {symbol} {b}"), prec }
    }
}

fn negated(l: Literal) -> Literal {
    if l.dtype.is_float() { Literal::from_f64(l.dtype, -l.to_f64()) } else { Literal::from_i64(l.dtype, l.to_i64().wrapping_neg()) }
}

/// C computes on ints: results of 8-bit types are cut back to 8 bits.
pub(super) fn narrow(dtype: DType, text: Text) -> Text {
    match dtype {
        DType::I8 | DType::U8 => Text { text: format!("({}){}", c_type(dtype), text.at_least(Prec::Primary)), prec: Prec::Unary },
        _ => text,
    }
}

/// An int result as the operand's type.
fn result_as(dtype: DType, count: Text) -> Text {
    match dtype {
        DType::I32 => count,
        _ => Text { text: format!("({}){}", c_type(dtype), count.at_least(Prec::Unary)), prec: Prec::Unary },
    }
}
