//! Expressions as CUDA C, with the parentheses that precedence asks for and those that readers expect.

use super::helpers::Helper;
use super::literal::{beside, bit_mask, c_type, typed, zero};
use super::writer::Writer;
use crate::simt::{CacheHint, Expr, Place, Space, Special};
use crate::types::{BinaryOp, CompareOp, DType, Literal, TernaryOp, UnaryOp};

/// How tightly a text binds; larger binds tighter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Prec {
    Select,
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Less,
    Shift,
    Add,
    Mul,
    Unary,
    Primary,
}

/// A text and how tightly it binds.
pub(super) struct Text {
    pub text: String,
    pub prec: Prec,
}

impl Text {
    fn primary(text: impl Into<String>) -> Text {
        Text { text: text.into(), prec: Prec::Primary }
    }
    /// In parentheses if it binds less than `min`.
    pub fn at_least(self, min: Prec) -> String {
        if self.prec < min { format!("({})", self.text) } else { self.text }
    }
}

impl Writer<'_> {
    /// An expression as it stands alone: initialiser, argument, index.
    pub fn expr(&mut self, e: &Expr) -> String {
        self.text(e).text
    }

    /// An index or bound: 64-bit literals need no suffix.
    pub fn index(&mut self, e: &Expr) -> String {
        match e {
            Expr::Literal(l) => beside(*l),
            _ => self.expr(e),
        }
    }

    /// A condition in front of `?`.
    pub fn condition(&mut self, e: &Expr) -> String {
        self.text(e).at_least(Prec::Or)
    }

    /// An expression and its precedence.
    pub fn text(&mut self, e: &Expr) -> Text {
        if self.data.must_wrap(self.kernel, e) {
            let wrapped = self.unsigned(e).at_least(Prec::Primary);
            let wrapped = if wrapped.starts_with('(') { wrapped } else { format!("({wrapped})") };
            return Text { text: format!("({}){wrapped}", c_type(self.kernel.dtype(e))), prec: Prec::Unary };
        }
        match e {
            Expr::Literal(l) => literal_text(*l, typed(*l)),
            Expr::Var(v) => Text::primary(self.var_name(*v)),
            Expr::Element(v, index) => {
                let index = self.index(index);
                Text::primary(format!("{}[{index}]", self.var_name(*v)))
            }
            Expr::Param(p) => Text::primary(self.params[*p].clone()),
            Expr::Special(s) => Text { text: format!("(int){}", special(*s)), prec: Prec::Unary },
            Expr::Unary(op, a) => self.unary(*op, a),
            Expr::Binary(op, a, b) => self.binary(*op, a, b),
            Expr::Ternary(TernaryOp::Fma, a, b, c) if self.kernel.dtype(a).is_float() => {
                let (a, b, c) = (self.expr(a), self.expr(b), self.expr(c));
                Text::primary(format!("fmaf({a}, {b}, {c})"))
            }
            Expr::Ternary(TernaryOp::Fma, a, b, c) => {
                let dtype = self.kernel.dtype(a);
                let (a, b) = (self.side(a, b, Prec::Mul), self.side(b, a, Prec::Unary));
                let c = self.text(c).at_least(Prec::Mul);
                narrow(dtype, Text { text: format!("{a} * {b} + {c}"), prec: Prec::Add })
            }
            Expr::Compare(op, a, b) => self.compare(*op, a, b),
            Expr::Select(c, a, b) => {
                let c = self.condition(c);
                let (a, b) = (self.text(a).at_least(Prec::Or), self.text(b).at_least(Prec::Select));
                Text { text: format!("{c} ? {a} : {b}"), prec: Prec::Select }
            }
            Expr::Cast(to, a) => self.cast(*to, a),
            Expr::Bitcast(to, a) => self.bitcast(*to, a),
            Expr::Load { place, predicate, cache } => self.load(place, predicate.as_deref(), *cache),
        }
    }

    /// One side of a binary operation: a literal beside something else needs no suffix.
    fn side(&mut self, e: &Expr, other: &Expr, min: Prec) -> String {
        match e {
            Expr::Literal(l) if !matches!(other, Expr::Literal(_)) => literal_text(*l, beside(*l)).at_least(min),
            // C widens the narrower operand by itself, as long as the other one has the wide type.
            _ if !matches!(other, Expr::Literal(_) | Expr::Cast(..)) => self.text(self.unwidened(e)).at_least(min),
            _ => self.text(e).at_least(min),
        }
    }

    /// The operand of a conversion to 64 bits, where C converts by itself.
    pub fn unwidened<'e>(&self, e: &'e Expr) -> &'e Expr {
        match e {
            Expr::Cast(DType::I64, a) if matches!(self.kernel.dtype(a), DType::I32 | DType::U32) => a,
            _ => e,
        }
    }

    /// The same bits computed on unsigned numbers, where overflow wraps.
    fn unsigned(&mut self, e: &Expr) -> Text {
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
            _ => Text { text: format!("({unsigned}){}", self.text(e).at_least(Prec::Unary)), prec: Prec::Unary },
        }
    }

    fn unary(&mut self, op: UnaryOp, a: &Expr) -> Text {
        let dtype = self.kernel.dtype(a);
        let float = dtype.is_float();
        let wide = dtype.size() == 8;
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
            UnaryOp::Popcount => {
                let a = self.bits(a);
                result_as(dtype, format!("{}({a})", if wide { "__popcll" } else { "__popc" }))
            }
            UnaryOp::LeadingZeros if dtype.size() == 1 => {
                let a = self.bits(a);
                result_as(dtype, format!("(__clz({a}) - 24)"))
            }
            UnaryOp::LeadingZeros => {
                let a = self.bits(a);
                result_as(dtype, format!("{}({a})", if wide { "__clzll" } else { "__clz" }))
            }
        }
    }

    /// An operand of a bit count, not sign-extended.
    fn bits(&mut self, a: &Expr) -> String {
        match self.kernel.dtype(a) {
            DType::I8 => format!("(unsigned char){}", self.text(a).at_least(Prec::Unary)),
            _ => self.expr(a),
        }
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Text {
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
    fn sum(&mut self, op: BinaryOp, dtype: DType, a: &Expr, b: &Expr) -> Text {
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

    /// The amount of a shift, masked to the width unless it is a literal inside of it.
    fn shift_amount(&mut self, amount: &Expr, dtype: DType) -> String {
        let width = dtype.size() as i64 * 8;
        match amount {
            Expr::Literal(l) => (l.to_i64() & (width - 1)).to_string(),
            // The counter of a short loop needs no masking.
            Expr::Var(v) if self.below[v.0 as usize].is_some_and(|most| most <= width) => self.text(amount).at_least(Prec::Unary),
            _ => format!("({} & {})", self.text(amount).at_least(Prec::Unary), width - 1),
        }
    }

    fn compare(&mut self, op: CompareOp, a: &Expr, b: &Expr) -> Text {
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

    fn cast(&mut self, to: DType, a: &Expr) -> Text {
        let from = self.kernel.dtype(a);
        if from == to {
            return self.text(a);
        }
        match (from, to) {
            (DType::F16 | DType::BF16, DType::F32) => {
                self.uses(if from == DType::F16 { Helper::HalfToFloat } else { Helper::Bfloat16ToFloat });
                let a = self.expr(a);
                Text::primary(format!("{}({a})", if from == DType::F16 { "half_to_float" } else { "bfloat16_to_float" }))
            }
            (DType::F16 | DType::BF16, _) => {
                let float = self.cast(DType::F32, a).text;
                self.float_to(to, float)
            }
            (DType::F32, _) => {
                let a = self.expr(a);
                self.float_to(to, a)
            }
            (_, DType::F16 | DType::BF16) => {
                let a = self.text(a).at_least(Prec::Unary);
                self.float_to(to, format!("(float){a}"))
            }
            (_, DType::Bool) => {
                let a = self.text(a).at_least(Prec::Shift);
                Text { text: format!("{a} != 0"), prec: Prec::Equal }
            }
            _ => Text { text: format!("({}){}", c_type(to), self.text(a).at_least(Prec::Unary)), prec: Prec::Unary },
        }
    }

    /// A float as another type: truncated, saturated, NaN to 0; rounded for 16-bit floats.
    fn float_to(&mut self, to: DType, a: String) -> Text {
        let (helper, name) = match to {
            DType::F32 => return Text::primary(a),
            DType::Bool => return Text { text: format!("({a}) != 0.0f"), prec: Prec::Equal },
            DType::I32 => (None, "__float2int_rz"),
            DType::U32 => (None, "__float2uint_rz"),
            DType::I8 => (Some(Helper::FloatToChar), "float_to_char"),
            DType::U8 => (Some(Helper::FloatToUchar), "float_to_uchar"),
            DType::I64 => (Some(Helper::FloatToLong), "float_to_long"),
            DType::U64 => (Some(Helper::FloatToUlong), "float_to_ulong"),
            DType::F16 => (Some(Helper::FloatToHalf), "float_to_half"),
            DType::BF16 => (Some(Helper::FloatToBfloat16), "float_to_bfloat16"),
        };
        if let Some(helper) = helper {
            self.uses(helper);
        }
        Text::primary(format!("{name}({a})"))
    }

    fn bitcast(&mut self, to: DType, a: &Expr) -> Text {
        let name = match (self.kernel.dtype(a), to) {
            (DType::F32, DType::I32) => "__float_as_int",
            (DType::F32, DType::U32) => "__float_as_uint",
            (DType::I32, DType::F32) => "__int_as_float",
            (DType::U32, DType::F32) => "__uint_as_float",
            (from, to) if c_type(from) == c_type(to) => return self.text(a),
            (_, DType::Bool) => return self.cast(DType::Bool, a),
            _ => return Text { text: format!("({}){}", c_type(to), self.text(a).at_least(Prec::Unary)), prec: Prec::Unary },
        };
        let a = self.expr(a);
        Text::primary(format!("{name}({a})"))
    }

    fn load(&mut self, place: &Place, predicate: Option<&Expr>, cache: CacheHint) -> Text {
        let value = match cache {
            CacheHint::Streaming if matches!(place.space, Space::Global(_)) && place.dtype != DType::Bool => {
                format!("__ldcs({})", self.address(place, c_type(place.dtype), true))
            }
            _ => self.element(place, true),
        };
        match predicate {
            None => Text::primary(value),
            Some(p) => {
                let p = self.condition(p);
                Text::primary(format!("({p} ? {value} : {})", zero(place.dtype)))
            }
        }
    }

    /// `base[index]`, reinterpreted if the access has another type than the memory.
    pub fn element(&mut self, place: &Place, reads: bool) -> String {
        let base = self.base(place, c_type(place.dtype), reads);
        let index = self.index(&place.index);
        format!("{base}[{index}]")
    }

    /// The address of an access, as a pointer to `pointee` where that differs from the memory's type: `a + i`.
    pub fn address(&mut self, place: &Place, pointee: &str, reads: bool) -> String {
        let base = self.base(place, c_type(place.dtype), reads);
        let sum = match &place.index {
            Expr::Literal(l) if l.bits == 0 => base,
            index => match self.text(index) {
                text if text.prec >= Prec::Add => format!("{base} + {}", literal_or(index, text.text)),
                text => format!("{base} + ({})", text.text),
            },
        };
        if pointee == c_type(place.dtype) { sum } else { format!("reinterpret_cast<{}{pointee}*>({sum})", qualifier(reads)) }
    }

    fn base(&mut self, place: &Place, pointee: &str, reads: bool) -> String {
        let (name, dtype) = self.memory(place.space);
        if c_type(dtype) == pointee { name } else { format!("reinterpret_cast<{}{pointee}*>({name})", qualifier(reads)) }
    }
}

fn qualifier(reads: bool) -> &'static str {
    if reads { "const " } else { "" }
}

fn literal_or(e: &Expr, text: String) -> String {
    match e {
        Expr::Literal(l) => beside(*l),
        _ => text,
    }
}

fn literal_text(l: Literal, text: String) -> Text {
    let prec = if text.starts_with('-') { Prec::Unary } else { Prec::Primary };
    debug_assert!(!l.dtype.is_float() || !text.is_empty());
    Text { text, prec }
}

fn negated(l: Literal) -> Literal {
    if l.dtype.is_float() { Literal::from_f64(l.dtype, -l.to_f64()) } else { Literal::from_i64(l.dtype, l.to_i64().wrapping_neg()) }
}

/// The initialiser of a hardware index.
pub(super) fn special(s: Special) -> &'static str {
    match s {
        Special::Thread => "threadIdx.x",
        Special::Block => "blockIdx.x",
        Special::GridDim => "gridDim.x",
        Special::Lane => "(threadIdx.x % 32)",
        Special::Warp => "(threadIdx.x / 32)",
    }
}

/// C computes on ints: results of 8-bit types are cut back to 8 bits.
fn narrow(dtype: DType, text: Text) -> Text {
    match dtype {
        DType::I8 | DType::U8 => Text { text: format!("({}){}", c_type(dtype), text.at_least(Prec::Primary)), prec: Prec::Unary },
        _ => text,
    }
}

/// An int result as the operand's type.
fn result_as(dtype: DType, text: String) -> Text {
    match dtype {
        DType::I32 => Text::primary(text),
        _ => Text { text: format!("({}){text}", c_type(dtype)), prec: Prec::Unary },
    }
}
