//! Pieces of C++: a text, how tightly it binds, and what is known of its value.

use super::arithmetic::{Knowledge, Origin, integers};
use crate::cuda::{c_type, typed};
use girih_ir::tile::host::HostExpr;
use girih_ir::types::{BinaryOp, DType, Literal};

/// How tightly a text binds; larger binds tighter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Prec {
    Select,
    Or,
    Xor,
    And,
    Equal,
    Less,
    Shift,
    Add,
    Mul,
    Unary,
    Primary,
}

/// A text, how tightly it binds, and its value if it is a constant integer.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub text: String,
    pub prec: Prec,
    pub constant: Option<i64>,
    /// The text is this other text times a constant.
    pub scaled: Option<(Box<Text>, i64)>,
    /// What is known of it as an integer.
    pub known: Knowledge,
}

/// What nothing is known of, but that a tensor's lengths are not mentioned for nothing.
pub(super) const UNKNOWN: Knowledge = Knowledge { origin: Origin::Lengths, least: i64::MIN as i128, most: i64::MAX as i128 };

impl Text {
    pub fn primary(text: impl Into<String>) -> Text {
        Text { text: text.into(), prec: Prec::Primary, constant: None, scaled: None, known: UNKNOWN }
    }

    pub fn integer(value: i64) -> Text {
        let prec = if value < 0 { Prec::Unary } else { Prec::Primary };
        Text { text: typed_index(value), prec, constant: Some(value), scaled: None, known: Knowledge::constant(value) }
    }

    pub fn new(text: String, prec: Prec) -> Text {
        Text { text, prec, constant: None, scaled: None, known: UNKNOWN }
    }

    /// The text as an argument of type `long long`.
    pub(super) fn typed(&self) -> String {
        self.constant.map_or_else(|| self.text.clone(), |c| typed(Literal::index(c)))
    }

    /// The text with what is known of it.
    pub fn knowing(self, known: Knowledge) -> Text {
        Text { known, ..self }
    }

    /// The text is nothing but a name.
    pub fn is_name(&self) -> bool {
        self.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// The name of a constant that has the text's value.
    pub fn named(&self, name: String) -> Text {
        Text { text: name, prec: Prec::Primary, ..self.clone() }
    }

    /// The text without its constant factor, and that factor.
    pub fn factors(&self) -> (Text, i64) {
        match &self.scaled {
            Some((base, factor)) => ((**base).clone(), *factor),
            None => (self.clone(), 1),
        }
    }

    pub fn at_least(&self, min: Prec) -> String {
        if self.prec < min { format!("({})", self.text) } else { self.text.clone() }
    }

    /// `a op b` on 64-bit integers, folded where both are constants or one is neutral.
    pub fn combine(op: BinaryOp, a: &Text, b: &Text) -> Text {
        if let (Some(x), Some(y)) = (a.constant, b.constant) {
            let folded = HostExpr::binary(op, HostExpr::Const(x), HostExpr::Const(y));
            if let HostExpr::Const(value) = folded {
                return Text::integer(value);
            }
        }
        match (op, a.constant, b.constant) {
            (BinaryOp::Add | BinaryOp::Sub, _, Some(0)) | (BinaryOp::Mul | BinaryOp::Div, _, Some(1)) => return a.clone(),
            (BinaryOp::Add, Some(0), _) | (BinaryOp::Mul, Some(1), _) => return b.clone(),
            (BinaryOp::Mul, Some(0), _) | (BinaryOp::Mul, _, Some(0)) => return Text::integer(0),
            _ => {}
        }
        match op {
            BinaryOp::Max if a.known.least >= b.known.most => return a.clone(),
            BinaryOp::Max if b.known.least >= a.known.most => return b.clone(),
            BinaryOp::Min if a.known.most <= b.known.least => return a.clone(),
            BinaryOp::Min if b.known.most <= a.known.least => return b.clone(),
            // 0 is what is left of 0, too.
            BinaryOp::Rem if a.text == b.text => return Text::integer(0),
            _ => {}
        }
        // Bytes that are counted as pixels: h * w * 4 / 4 is h * w.
        match (op, &a.scaled, b.constant) {
            (BinaryOp::Mul, Some((base, factor)), Some(c)) if !a.is_name() => return Text::combine(op, base, &Text::integer(factor * c)),
            (BinaryOp::Div, Some((base, factor)), Some(c)) if c != 0 && factor % c == 0 => {
                return Text::combine(BinaryOp::Mul, base, &Text::integer(factor / c));
            }
            (BinaryOp::Rem, Some((_, factor)), Some(c)) if c != 0 && factor % c == 0 => return Text::integer(0),
            _ => {}
        }
        let (base, factor) = a.factors();
        let scaled = if op == BinaryOp::Mul { b.constant.map(|c| (Box::new(base), factor * c)) } else { None };
        Text { scaled, ..integers(op, DType::I64, a, b) }
    }

    /// `a op b` by C's operator.
    pub fn operator(op: BinaryOp, dtype: DType, a: &Text, b: &Text) -> Text {
        let infix = |sign: &str, prec: Prec, tighter: Prec| Text::new(format!("{} {sign} {}", a.at_least(prec), b.at_least(tighter)), prec);
        let choose = |sign: &str| {
            let (x, y) = (a.at_least(Prec::Add), b.at_least(Prec::Add));
            Text::new(format!("{x} {sign} {y} ? {x} : {y}"), Prec::Select)
        };
        let call = |f: &str| Text::primary(format!("{f}({}, {})", a.text, b.text));
        match op {
            BinaryOp::Add => infix("+", Prec::Add, Prec::Mul),
            BinaryOp::Sub => infix("-", Prec::Add, Prec::Mul),
            BinaryOp::Mul => infix("*", Prec::Mul, Prec::Unary),
            BinaryOp::Div | BinaryOp::DivApprox => infix("/", Prec::Mul, Prec::Unary),
            BinaryOp::Rem if dtype.is_float() => call("fmodf"),
            BinaryOp::Rem => infix("%", Prec::Mul, Prec::Unary),
            // cuda_runtime.h has min and max for two operands of one integer type.
            BinaryOp::Min if dtype == DType::I64 => Text::primary(format!("min({}, {})", a.typed(), b.typed())),
            BinaryOp::Max if dtype == DType::I64 => Text::primary(format!("max({}, {})", a.typed(), b.typed())),
            BinaryOp::Min if dtype.is_float() => call("nan_least"),
            BinaryOp::Max if dtype.is_float() => call("nan_greatest"),
            BinaryOp::Min => choose("<"),
            BinaryOp::Max => choose(">"),
            // Bitwise operators bind so loosely in C that readers want parentheses.
            BinaryOp::And if dtype == DType::Bool => infix("&&", Prec::And, Prec::Equal),
            BinaryOp::Or if dtype == DType::Bool => infix("||", Prec::Or, Prec::And),
            BinaryOp::Xor if dtype == DType::Bool => infix("!=", Prec::Equal, Prec::Less),
            BinaryOp::And => Text::new(format!("{} & {}", a.at_least(Prec::Unary), b.at_least(Prec::Unary)), Prec::Xor),
            BinaryOp::Or => Text::new(format!("{} | {}", a.at_least(Prec::Unary), b.at_least(Prec::Unary)), Prec::Xor),
            BinaryOp::Xor => Text::new(format!("{} ^ {}", a.at_least(Prec::Unary), b.at_least(Prec::Unary)), Prec::Xor),
            BinaryOp::Shl if dtype == DType::I64 => {
                let one = Text { text: a.typed(), ..a.clone() };
                Text::new(format!("{} << {}", one.at_least(Prec::Shift), b.at_least(Prec::Unary)), Prec::Shift)
            }
            BinaryOp::Shl => infix("<<", Prec::Shift, Prec::Unary),
            BinaryOp::Shr => infix(">>", Prec::Shift, Prec::Unary),
            BinaryOp::Pow => call("powf"),
            BinaryOp::MulHi => {
                let bits = 8 * dtype.size();
                Text::primary(format!(
                    "({})((({}__int128){} * {}) >> {bits})",
                    c_type(dtype),
                    if dtype.is_signed() { "" } else { "unsigned " },
                    a.at_least(Prec::Unary),
                    b.at_least(Prec::Unary)
                ))
            }
        }
    }
}

/// A 64-bit integer: suffixed where it doesn't fit an int.
fn typed_index(value: i64) -> String {
    if i32::try_from(value).is_ok_and(|v| v != i32::MIN) { value.to_string() } else { typed(Literal::index(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_and_the_smaller_are_taken_where_they_are_known() {
        let n = Text::primary("n").knowing(Knowledge::length(DType::I64));
        let minus = Text::combine(BinaryOp::Sub, &Text::integer(0), &n);
        let text = |op, a: &Text, b: &Text| Text::combine(op, a, b).text;
        assert_eq!(text(BinaryOp::Max, &n, &minus), "n");
        assert_eq!(text(BinaryOp::Max, &minus, &n), "n");
        assert_eq!(text(BinaryOp::Min, &n, &minus), minus.text);
        assert_eq!(text(BinaryOp::Max, &n, &Text::integer(1)), "max(n, 1ll)", "n may be 0");
        assert_eq!(text(BinaryOp::Max, &Text::primary("x"), &minus), "max(x, 0 - n)", "nothing is known of x");
    }

    #[test]
    fn nothing_is_left_of_a_number_by_itself() {
        let x = Text::primary("x");
        assert_eq!(Text::combine(BinaryOp::Rem, &x, &x).constant, Some(0));
        assert_eq!(Text::combine(BinaryOp::Rem, &x, &Text::primary("y")).constant, None);
    }
}
