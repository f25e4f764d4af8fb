//! Host expressions as C++.

use super::arithmetic::{Knowledge, Origin, integers, negative};
use crate::cuda::{c_type, typed};
use crate::program::signature::Signature;
use crate::program::{Arg, Base, Expr, Program, ScalarVar, Stmt, TensorView};
use crate::tile::ParamKind;
use crate::tile::host::HostExpr;
use crate::types::{BinaryOp, CompareOp, DType, Literal, UnaryOp};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A function that rounds as `UnaryOp::RoundTf32` does.
const ROUND_TF32: &str = "[](float x) { unsigned int b; __builtin_memcpy(&b, &x, 4); \
if ((b & 0x7f800000u) != 0x7f800000u) b = (b + 0xfffu + (b >> 13 & 1u)) & 0xffffe000u; __builtin_memcpy(&x, &b, 4); return x; }";

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
    prec: Prec,
    pub constant: Option<i64>,
    /// The text is this other text times a constant.
    scaled: Option<(Box<Text>, i64)>,
    /// What is known of it as an integer.
    pub known: Knowledge,
}

/// What nothing is known of, but that a tensor's lengths are not mentioned for nothing.
const UNKNOWN: Knowledge = Knowledge { origin: Origin::Lengths, least: i64::MIN as i128, most: i64::MAX as i128 };

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
    fn typed(&self) -> String {
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

/// The names of a program's things in C++.
pub(super) struct Names<'a> {
    pub program: &'a Program,
    pub signature: &'a Signature,
    pub binding: &'a [usize],
    /// Temporaries.
    pub temps: Vec<String>,
    /// Scalar variables.
    pub vars: Vec<String>,
    /// 64-bit copies of the signature's scalars.
    pub wide: Vec<String>,
    /// Scalars whose 64-bit copies the text uses.
    pub used: RefCell<BTreeSet<usize>>,
    /// The text asks for the number of multiprocessors.
    pub multiprocessors: RefCell<bool>,
    /// Views of the launch that is written whose memory may have to be copied for it, and the pointers that stand for them.
    pub stand_ins: Vec<(TensorView, String)>,
    /// Values that have the author's name here.
    pub lets: Vec<Let>,
}

/// A value that is kept in a constant of the author's name.
pub(super) struct Let {
    pub value: Expr,
    /// The constant's name, with what is known of the value.
    pub text: Text,
    /// Of the block in which it is declared.
    pub depth: usize,
}

impl Names<'_> {
    /// A scalar of the signature in 64 bits.
    fn wide(&self, scalar: usize) -> Text {
        let param = &self.signature.params[scalar];
        if param.dtype == DType::I64 {
            return Text::primary(param.name.clone()).knowing(self.known(scalar));
        }
        self.used.borrow_mut().insert(scalar);
        Text::primary(self.wide[scalar].clone()).knowing(self.known(scalar))
    }

    /// A scalar of the signature.
    fn known(&self, scalar: usize) -> Knowledge {
        let dtype = self.signature.params[scalar].dtype;
        if self.signature.is_extent(scalar) { Knowledge::length(dtype) } else { Knowledge::any(dtype, Origin::Data) }
    }

    /// The length of an axis of a program's tensor parameter.
    pub fn dim(&self, param: usize, axis: usize) -> Text {
        let shape = self.signature.params[self.binding[param]].shape.as_ref();
        let extent = &shape.unwrap_or_else(|| panic!("export: parameter {param} is no tensor"))[axis];
        self.host(extent, &|leaf| match leaf {
            HostExpr::Scalar(i) => self.wide(*i),
            other => panic!("export: {other:?} in a signature's shape"),
        })
    }

    /// An expression over a launch's arguments.
    pub fn launch(&self, e: &HostExpr, args: &[Arg]) -> Text {
        let view = |p: usize| match &args[p] {
            Arg::Tensor(view) => view,
            Arg::Scalar(_) => panic!("export: argument {p} is no tensor"),
        };
        self.host(e, &|leaf| match leaf {
            HostExpr::Dim(p, k) => self.index(&view(*p).lens[*k]),
            HostExpr::Stride(p, k) => self.index(&view(*p).strides[*k]),
            HostExpr::Scalar(p) => match &args[*p] {
                Arg::Scalar(e) => self.index(e),
                Arg::Tensor(_) => panic!("export: argument {p} is no scalar"),
            },
            HostExpr::Multiprocessors => {
                *self.multiprocessors.borrow_mut() = true;
                Text::primary("multiprocessor_count()").knowing(Knowledge { least: 1, ..Knowledge::length(DType::I32) })
            }
            HostExpr::Const(_) | HostExpr::Binary(..) | HostExpr::Wrap(..) => panic!("export: {leaf:?} is no leaf"),
        })
    }

    fn host(&self, e: &HostExpr, leaf: &dyn Fn(&HostExpr) -> Text) -> Text {
        match e {
            HostExpr::Const(c) => Text::integer(*c),
            HostExpr::Binary(op, a, b) => Text::combine(*op, &self.host(a, leaf), &self.host(b, leaf)),
            HostExpr::Wrap(dtype, e) => Text::new(format!("({}){}", c_type(*dtype), self.host(e, leaf).at_least(Prec::Unary)), Prec::Unary)
                .knowing(Knowledge::any(*dtype, Origin::Data)),
            other => leaf(other),
        }
    }

    /// The constant that holds a value here.
    fn kept(&self, e: &Expr) -> Option<Text> {
        self.lets.iter().find(|l| l.value == *e).map(|l| l.text.clone())
    }

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
                let constant = l.dtype.is_int().then(|| l.to_i64());
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
            Expr::Binary(op, a, b) if self.dtype(e).is_int() => integers(*op, self.dtype(e), &self.expr(a), &self.expr(b)),
            Expr::Binary(op, a, b) => {
                let text = Text::operator(*op, self.dtype(e), &self.expr(a), &self.expr(b));
                if matches!(op, BinaryOp::Min | BinaryOp::Max) { text } else { rounded(self.dtype(e), text) }
            }
            Expr::Compare(op, a, b) => {
                let (sign, prec, tighter) = match op {
                    CompareOp::Lt => ("<", Prec::Less, Prec::Shift),
                    CompareOp::Le => ("<=", Prec::Less, Prec::Shift),
                    CompareOp::Gt => (">", Prec::Less, Prec::Shift),
                    CompareOp::Ge => (">=", Prec::Less, Prec::Shift),
                    CompareOp::Eq => ("==", Prec::Equal, Prec::Less),
                    CompareOp::Ne => ("!=", Prec::Equal, Prec::Less),
                };
                let side = |e: &Expr| if self.dtype(e) == DType::I64 { self.index(e) } else { self.expr(e) };
                let (a, b) = (side(a), side(b));
                let truth = a.constant.zip(b.constant).map(|(a, b)| crate::scalar::compare(*op, DType::I64, a as u64, b as u64) as i64);
                Text { constant: truth, ..Text::new(format!("{} {sign} {}", a.at_least(tighter), b.at_least(tighter)), prec) }
            }
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
            Expr::Cast(to @ (DType::F16 | DType::BF16), a) => rounded(*to, self.expr(a)),
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
            Expr::Cast(DType::F16 | DType::BF16, a) if self.dtype(a) == DType::F32 => self.expr(a),
            _ => self.expr(e),
        }
    }

    fn param(&self, p: usize) -> Text {
        let there = &self.signature.params[self.binding[p]];
        let ParamKind::Scalar(dtype) = self.program.params[p].kind else { panic!("export: parameter {p} is no scalar") };
        if dtype == there.dtype {
            return Text::primary(there.name.clone()).knowing(self.known(self.binding[p]));
        }
        let text = Text::new(format!("({}){}", host_type(dtype), there.name), Prec::Unary);
        if dtype.is_int() { text.knowing(Knowledge::any(dtype, Origin::Data)) } else { text }
    }

    fn unary(&self, op: UnaryOp, a: &Expr) -> Text {
        let (dtype, x) = (self.dtype(a), self.expr(a));
        let call = |f: &str| Text::primary(format!("{f}({})", x.text));
        match op {
            UnaryOp::Neg if dtype.is_int() => negative(dtype, &x),
            UnaryOp::Neg => Text::new(format!("-{}", x.at_least(Prec::Primary)), Prec::Unary),
            UnaryOp::Not if dtype == DType::Bool => Text::new(format!("!{}", x.at_least(Prec::Primary)), Prec::Unary),
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

    /// The type of an expression.
    pub fn dtype(&self, e: &Expr) -> DType {
        match e {
            Expr::Literal(l) => l.dtype,
            Expr::Param(p) => match self.program.params[*p].kind {
                ParamKind::Scalar(d) => d,
                ParamKind::Tensor { .. } => panic!("export: parameter {p} is no scalar"),
            },
            Expr::Dim(..) => DType::I64,
            Expr::Var(v) => self.program.scalars[v.0 as usize].0,
            Expr::Variant(_) => DType::Bool,
            Expr::Unary(_, a) | Expr::Binary(_, a, _) | Expr::Select(_, a, _) => self.dtype(a),
            Expr::Compare(..) => DType::Bool,
            Expr::Cast(d, _) => *d,
        }
    }

    /// The pointer of a view's memory.
    pub fn base(&self, base: Base) -> &str {
        match base {
            Base::Temp(t) => &self.temps[t],
            Base::Param(p) => &self.signature.params[self.binding[p]].name,
        }
    }

    /// A pointer to the first element of a view, of C type `const T*` or `T*`.
    pub fn pointer(&self, view: &TensorView, dtype: DType, constant: bool) -> String {
        let qualifier = if constant { "const " } else { "" };
        if let Some(name) = self.stand_in(view) {
            let same = c_type(view.dtype) == c_type(dtype);
            return if same { name.to_string() } else { format!("({qualifier}{}*){name}", c_type(dtype)) };
        }
        let name = self.base(view.base);
        let same = match view.base {
            Base::Temp(t) => c_type(self.program.temps[t].dtype) == c_type(dtype),
            Base::Param(p) => is_same(&self.signature.params[self.binding[p]].c_type, dtype),
        };
        let base = if same { name.to_string() } else { format!("({qualifier}{}*){name}", c_type(dtype)) };
        let offset = self.index(&view.offset);
        match offset.constant {
            Some(0) => base,
            _ => format!("{base} + {}", offset.at_least(Prec::Mul)),
        }
    }

    /// The pointer that stands for a view's memory in the launch that is written.
    pub fn stand_in(&self, view: &TensorView) -> Option<&str> {
        self.stand_ins.iter().find(|(v, _)| v == view).map(|(_, name)| name.as_str())
    }
}

/// Where a variable's numbers come from.
fn origin(body: &[Stmt], var: ScalarVar) -> Origin {
    if counts(body, var) {
        return Origin::Lengths;
    }
    if is_counted(body, var) { Origin::Counter } else { Origin::Data }
}

/// No program lives to count so far that 64 bits are too few.
const STEP: i64 = 1 << 20;

/// Whether a variable only ever begins with a small constant or a length and is counted up and down by small constants, be it by way of
/// others that take the same numbers.
fn is_counted(body: &[Stmt], var: ScalarVar) -> bool {
    let small = |e: &Expr| matches!(e, Expr::Literal(l) if l.dtype.is_int() && (-STEP..=STEP).contains(&l.to_i64()));
    let (mut group, mut next) = (vec![var], 0);
    while let Some(var) = group.get(next).copied() {
        next += 1;
        let mut values = Vec::new();
        if !assigned(body, var, &mut values) {
            return false;
        }
        for value in values {
            match value {
                Expr::Dim(..) => {}
                Expr::Var(from) if group.contains(from) => {}
                Expr::Var(from) => group.push(*from),
                Expr::Binary(BinaryOp::Add | BinaryOp::Sub, from, step) if small(step) => match **from {
                    Expr::Var(from) if group.contains(&from) => {}
                    Expr::Var(from) => group.push(from),
                    _ => return false,
                },
                other if small(other) => {}
                _ => return false,
            }
        }
    }
    true
}

/// The values that a variable is set to; `false` where it is read back, too.
fn assigned<'a>(body: &'a [Stmt], var: ScalarVar, values: &mut Vec<&'a Expr>) -> bool {
    body.iter().all(|stmt| match stmt {
        Stmt::Set { var: own, value } => {
            values.extend((*own == var).then_some(value));
            true
        }
        Stmt::ReadBack { var: own, .. } => *own != var,
        Stmt::For { body, .. } => assigned(body, var, values),
        Stmt::While { header, body, .. } => assigned(header, var, values) && assigned(body, var, values),
        Stmt::If { then, otherwise, .. } => assigned(then, var, values) && assigned(otherwise, var, values),
        Stmt::Launch { .. } | Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Let { .. } => true,
    })
}

/// Whether a variable counts the turns of a loop.
fn counts(body: &[Stmt], var: ScalarVar) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::For { var: own, body, .. } => *own == var || counts(body, var),
        Stmt::While { header, body, .. } => counts(header, var) || counts(body, var),
        Stmt::If { then, otherwise, .. } => counts(then, var) || counts(otherwise, var),
        _ => false,
    })
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
fn unsigned(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "unsigned char",
        4 => "unsigned int",
        _ => "unsigned long long",
    }
}

/// A float that is kept as one, of a type's own precision: 16-bit floats round after each operation, as where programs are evaluated.
fn rounded(dtype: DType, text: Text) -> Text {
    match dtype {
        DType::F16 => Text::primary(format!("round_f16({})", text.text)),
        DType::BF16 => Text::primary(format!("round_bf16({})", text.text)),
        _ => text,
    }
}

/// The type of a scalar on the host: 16-bit floats are computed in float.
pub(super) fn host_type(dtype: DType) -> &'static str {
    c_type(dtype.compute())
}

/// A judge's type of pointer converts to the kernels' without a cast.
fn is_same(declared: &str, dtype: DType) -> bool {
    let base = declared.trim_start_matches("const ").trim_end_matches('*').trim();
    match dtype {
        DType::F16 | DType::BF16 => false,
        DType::F32 => base == "float",
        DType::Bool => base == "bool",
        DType::I8 => matches!(base, "signed char" | "int8_t"),
        DType::U8 => matches!(base, "unsigned char" | "uint8_t"),
        DType::I32 => matches!(base, "int" | "int32_t"),
        DType::U32 => matches!(base, "unsigned int" | "unsigned" | "uint32_t"),
        DType::I64 => base == "long long",
        DType::U64 => base == "unsigned long long",
    }
}
