//! Expressions as CUDA C, with the parentheses that precedence asks for and those that readers expect.

use super::helpers::Helper;
use super::literal::{beside, c_type, typed, zero};
use super::operators::narrow;
use super::writer::Writer;
use girih_ir::simt::{CacheHint, Expr, Place, Space, Special};
use girih_ir::types::{DType, Literal, TernaryOp, UnaryOp};

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
    pub fn primary(text: impl Into<String>) -> Text {
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
    pub fn side(&mut self, e: &Expr, other: &Expr, min: Prec) -> String {
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

    fn cast(&mut self, to: DType, a: &Expr) -> Text {
        let from = self.kernel.dtype(a);
        if from == to {
            return self.text(a);
        }
        if let (DType::I32, Expr::Unary(op @ (UnaryOp::Popcount | UnaryOp::LeadingZeros), of)) = (to, a) {
            return self.bit_count(*op, of);
        }
        match (from, to) {
            (_, DType::F32) if from.is_narrow_float() => {
                let (helper, name) = match from {
                    DType::F8E4M3 => (Helper::E4m3ToFloat, "e4m3_to_float"),
                    DType::F8E5M2 => (Helper::E5m2ToFloat, "e5m2_to_float"),
                    DType::F16 => (Helper::HalfToFloat, "half_to_float"),
                    _ => (Helper::Bfloat16ToFloat, "bfloat16_to_float"),
                };
                self.uses(helper);
                let a = self.expr(a);
                Text::primary(format!("{name}({a})"))
            }
            _ if from.is_narrow_float() => {
                let float = self.cast(DType::F32, a).text;
                self.float_to(to, float)
            }
            (DType::F32, _) => {
                let a = self.expr(a);
                self.float_to(to, a)
            }
            (_, DType::BF16) if from.is_int() && from.size() >= 4 => {
                let (helper, name) = match from {
                    DType::I32 => (Helper::IntToBfloat16, "int_to_bfloat16"),
                    DType::U32 => (Helper::UintToBfloat16, "uint_to_bfloat16"),
                    DType::I64 => (Helper::LongToBfloat16, "long_to_bfloat16"),
                    _ => (Helper::UlongToBfloat16, "ulong_to_bfloat16"),
                };
                self.uses(helper);
                let a = self.expr(a);
                Text::primary(format!("{name}({a})"))
            }
            // By way of a float, which rounds bytes not at all, and no integer that is finite as an f16 or an 8-bit float.
            _ if to.is_narrow_float() => {
                let a = self.text(a).at_least(Prec::Unary);
                self.float_to(to, format!("(float){a}"))
            }
            (_, DType::Bool) => {
                let a = self.text(a).at_least(Prec::Shift);
                Text { text: format!("{a} != 0"), prec: Prec::Equal }
            }
            (DType::I32, DType::U32) | (DType::I64, DType::U64) => self.unsigned_value(a),
            _ => Text { text: format!("({}){}", c_type(to), self.text(a).at_least(Prec::Unary)), prec: Prec::Unary },
        }
    }

    /// A signed number as an unsigned one of as many bits.
    fn unsigned_value(&mut self, a: &Expr) -> Text {
        let is_unsigned = matches!(a, Expr::Cast(..)) || self.data.must_wrap(self.kernel, a);
        match is_unsigned {
            true => self.unsigned(a),
            false => {
                let unsigned = if self.kernel.dtype(a) == DType::I64 { DType::U64 } else { DType::U32 };
                Text { text: format!("({}){}", c_type(unsigned), self.text(a).at_least(Prec::Unary)), prec: Prec::Unary }
            }
        }
    }

    /// A float as another type: truncated, saturated, NaN to 0; rounded for narrower floats.
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
            DType::F8E4M3 => (Some(Helper::FloatToE4m3), "float_to_e4m3"),
            DType::F8E5M2 => (Some(Helper::FloatToE5m2), "float_to_e5m2"),
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
            CacheHint::Kept if place.dtype != DType::Bool && self.may_be_kept(place, place.dtype.size() as u32) => {
                let address = self.address(place, c_type(place.dtype), true);
                self.load_kept(&address)
            }
            CacheHint::Once if place.dtype != DType::Bool && self.may_be_loaded_once(place, place.dtype.size() as u32) => {
                let address = self.address(place, c_type(place.dtype), true);
                self.load_once(&address)
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
}

fn literal_text(l: Literal, text: String) -> Text {
    let prec = if text.starts_with('-') { Prec::Unary } else { Prec::Primary };
    debug_assert!(!l.dtype.is_float() || !text.is_empty());
    Text { text, prec }
}

/// The initialiser of a hardware index.
pub(super) fn special(s: Special) -> &'static str {
    match s {
        Special::Thread => "threadIdx.x",
        Special::Block => "blockIdx.x",
        Special::GridDim => "gridDim.x",
        Special::Lane => "(threadIdx.x % 32)",
        Special::Warp => "(threadIdx.x / 32)",
        Special::Elected => "elect",
    }
}
