//! Integer expressions that the host computes before a launch: grid sizes, parameters, requirements.

use super::{Kernel, Op, ParamKind, RequirementKind, Stmt, ValueId};
use crate::facts::TensorArg;
use crate::types::{BinaryOp, DType, Literal};
use std::collections::HashMap;
use std::fmt;

/// An i64 expression over a launch's arguments. Division truncates; operands are checked non-negative where it matters by requirements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HostExpr {
    /// A constant.
    Const(i64),
    /// The length of a tensor argument's axis.
    Dim(usize, usize),
    /// The stride of a tensor argument's axis, in elements.
    Stride(usize, usize),
    /// An integer scalar argument.
    Scalar(usize),
    /// The device's multiprocessors.
    Multiprocessors,
    /// Add, Sub, Mul, Div, Rem, Min or Max.
    Binary(BinaryOp, Box<HostExpr>, Box<HostExpr>),
    /// What is left of a number in an integer type of at most 32 bits.
    Wrap(DType, Box<HostExpr>),
}

/// Operations of one expression that the host computes. A value that takes more, each use of another value counted anew, is computed by the GPU.
pub const MOST_OPERATIONS: usize = 256;

/// The arguments of one launch as [`HostExpr::eval`] reads them: exactly one of the two per parameter.
#[derive(Clone, Debug)]
pub enum HostArg {
    /// A tensor's shape, strides and address.
    Tensor(TensorArg),
    /// A scalar.
    Scalar(Literal),
}

impl HostExpr {
    /// As [`HostExpr::to_c`], with `min(a, b)` and `max(a, b)`: for people.
    pub fn to_words(&self, leaf: &dyn Fn(&HostExpr) -> String) -> String {
        self.text(leaf, true)
    }

    /// In words, with the parameters' names: `a.len(0)`.
    pub fn named(&self, kernel: &Kernel) -> String {
        let name = |p: &usize| kernel.params[*p].name.as_str();
        self.to_words(&|leaf| match leaf {
            HostExpr::Dim(p, k) => format!("{}.len({k})", name(p)),
            HostExpr::Stride(p, k) => format!("{}.stride({k})", name(p)),
            HostExpr::Scalar(p) => name(p).to_string(),
            other => other.to_string(),
        })
    }

    /// `a op b`, folded where both are constants or one is neutral.
    pub fn binary(op: BinaryOp, a: HostExpr, b: HostExpr) -> HostExpr {
        use HostExpr::Const;
        match (op, &a, &b) {
            (_, Const(x), Const(y)) => Const(apply(op, *x, *y)),
            (BinaryOp::Add | BinaryOp::Sub, _, Const(0)) | (BinaryOp::Mul | BinaryOp::Div, _, Const(1)) => a,
            (BinaryOp::Add, Const(0), _) | (BinaryOp::Mul, Const(1), _) => b,
            (BinaryOp::Mul, Const(0), _) | (BinaryOp::Mul, _, Const(0)) => Const(0),
            _ => HostExpr::Binary(op, Box::new(a), Box::new(b)),
        }
    }

    /// `ceil(a / b)` for a ≥ 0 and constant b > 0.
    pub fn ceil_div(a: HostExpr, b: i64) -> HostExpr {
        let rounded = HostExpr::binary(BinaryOp::Add, a, HostExpr::Const(b - 1));
        HostExpr::binary(BinaryOp::Div, rounded, HostExpr::Const(b))
    }

    /// The expression of a scalar value that depends on nothing but arguments; `None` if it depends on memory or loops, or takes more than
    /// [`MOST_OPERATIONS`] written out.
    pub fn of_value(kernel: &Kernel, value: ValueId) -> Option<HostExpr> {
        let made =
            |value: ValueId| kernel.body.iter().find_map(|s| if let Stmt::Let(v, op) = s { (*v == value).then_some(op) } else { None });
        HostExpr::written_out((kernel, &made), value, &mut { MOST_OPERATIONS })
    }

    /// The same of all values: nothing of those that the host cannot compute.
    pub fn of_values(kernel: &Kernel) -> HashMap<ValueId, HostExpr> {
        let lets = kernel.body.iter().filter_map(|s| if let Stmt::Let(v, op) = s { Some((*v, op)) } else { None });
        let made: HashMap<ValueId, &Op> = lets.collect();
        let of = |value: ValueId| HostExpr::written_out((kernel, &|v| made.get(&v).copied()), value, &mut { MOST_OPERATIONS });
        made.keys().filter_map(|value| Some((*value, of(*value)?))).collect()
    }

    /// `made` says how values are made in front of all loops and branches.
    fn written_out<'k>(
        (kernel, made): (&'k Kernel, &dyn Fn(ValueId) -> Option<&'k Op>),
        value: ValueId,
        left: &mut usize,
    ) -> Option<HostExpr> {
        *left = left.checked_sub(1)?;
        match made(value)? {
            Op::Literal(l) if !l.dtype.is_float() => Some(HostExpr::Const(l.to_i64())),
            Op::Dim(p, k) => Some(HostExpr::Dim(*p, *k)),
            Op::Stride(p, k) => Some(HostExpr::Stride(*p, *k)),
            Op::Param(p) => match kernel.params[*p].kind {
                ParamKind::Scalar(d) if d.is_int() => Some(HostExpr::Scalar(*p)),
                _ => None,
            },
            Op::Cast(v) if kernel.ty(value).dtype()?.is_int() => {
                let (from, to) = (kernel.ty(*v).dtype()?, kernel.ty(value).dtype()?);
                HostExpr::written_out((kernel, made), *v, left).map(|e| if keeps(from, to) { e } else { HostExpr::wrap(to, e) })
            }
            Op::Binary(op, a, b) => {
                use BinaryOp::{Add, Div, Max, Min, Mul, Rem, Sub};
                let known = matches!(op, Add | Sub | Mul | Div | Rem | Min | Max);
                let wide = kernel.ty(value).dtype() == Some(crate::types::DType::I64);
                if !(known && wide) {
                    return None;
                }
                Some(HostExpr::binary(
                    *op,
                    HostExpr::written_out((kernel, made), *a, left)?,
                    HostExpr::written_out((kernel, made), *b, left)?,
                ))
            }
            _ => None,
        }
    }

    /// What is left of `e` in an integer type of at most 32 bits.
    fn wrap(dtype: DType, e: HostExpr) -> HostExpr {
        match e {
            HostExpr::Const(c) => HostExpr::Const(Literal::from_i64(dtype, c).to_i64()),
            e => HostExpr::Wrap(dtype, Box::new(e)),
        }
    }

    /// The lengths that it depends on: parameter and axis, once for each time that they stand in it.
    pub fn lengths(&self) -> Vec<(usize, usize)> {
        match self {
            HostExpr::Dim(p, k) => vec![(*p, *k)],
            HostExpr::Binary(_, a, b) => [a.lengths(), b.lengths()].concat(),
            HostExpr::Wrap(_, e) => e.lengths(),
            HostExpr::Const(_) | HostExpr::Stride(..) | HostExpr::Scalar(_) | HostExpr::Multiprocessors => vec![],
        }
    }

    /// The scalar parameters that it depends on, once for each time that they stand in it.
    pub fn scalars(&self) -> Vec<usize> {
        match self {
            HostExpr::Scalar(p) => vec![*p],
            HostExpr::Binary(_, a, b) => [a.scalars(), b.scalars()].concat(),
            HostExpr::Wrap(_, e) => e.scalars(),
            HostExpr::Const(_) | HostExpr::Dim(..) | HostExpr::Stride(..) | HostExpr::Multiprocessors => vec![],
        }
    }

    /// Its value for a launch.
    pub fn eval(&self, args: &[HostArg], multiprocessors: i64) -> i64 {
        match self {
            HostExpr::Const(c) => *c,
            HostExpr::Dim(p, k) => match &args[*p] {
                HostArg::Tensor(t) => t.lens[*k],
                HostArg::Scalar(_) => panic!("host expression: parameter {p} is no tensor"),
            },
            HostExpr::Stride(p, k) => match &args[*p] {
                HostArg::Tensor(t) => t.strides[*k],
                HostArg::Scalar(_) => panic!("host expression: parameter {p} is no tensor"),
            },
            HostExpr::Scalar(p) => match &args[*p] {
                HostArg::Scalar(l) => l.to_i64(),
                HostArg::Tensor(_) => panic!("host expression: parameter {p} is no scalar"),
            },
            HostExpr::Multiprocessors => multiprocessors,
            HostExpr::Binary(op, a, b) => apply(*op, a.eval(args, multiprocessors), b.eval(args, multiprocessors)),
            HostExpr::Wrap(dtype, e) => Literal::from_i64(*dtype, e.eval(args, multiprocessors)).to_i64(),
        }
    }

    /// C text, with the caller's spelling of dims, strides, scalars and multiprocessors; parenthesised where needed.
    pub fn to_c(&self, leaf: &dyn Fn(&HostExpr) -> String) -> String {
        self.text(leaf, false)
    }

    /// Text for people (`words`) or for the C compiler.
    fn text(&self, leaf: &dyn Fn(&HostExpr) -> String, words: bool) -> String {
        match self {
            HostExpr::Const(c) => c.to_string(),
            HostExpr::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) if words => {
                let name = if *op == BinaryOp::Min { "min" } else { "max" };
                format!("{name}({}, {})", a.text(leaf, words), b.text(leaf, words))
            }
            HostExpr::Binary(op, a, b) => {
                let side = |e: &HostExpr| match e {
                    HostExpr::Binary(BinaryOp::Min | BinaryOp::Max, ..) => e.text(leaf, words),
                    HostExpr::Binary(..) => format!("({})", e.text(leaf, words)),
                    _ => e.text(leaf, words),
                };
                let (x, y) = (side(a), side(b));
                match op {
                    BinaryOp::Min => format!("({x} < {y} ? {x} : {y})"),
                    BinaryOp::Max => format!("({x} > {y} ? {x} : {y})"),
                    BinaryOp::Add => format!("{x} + {y}"),
                    BinaryOp::Sub => format!("{x} - {y}"),
                    BinaryOp::Mul => format!("{x} * {y}"),
                    BinaryOp::Div => format!("{x} / {y}"),
                    BinaryOp::Rem => format!("{x} % {y}"),
                    other => panic!("host expression: {other:?} is not computed on the host"),
                }
            }
            HostExpr::Wrap(dtype, e) if words => format!("{dtype}({})", e.text(leaf, words)),
            HostExpr::Wrap(dtype, e) => format!("({})({})", crate::types::c_type(*dtype), e.text(leaf, words)),
            other => leaf(other),
        }
    }
}

/// Whether a cast between integers keeps all numbers, or all bits of what an i64 holds.
fn keeps(from: DType, to: DType) -> bool {
    let fits = |from: DType| from.size() < to.size() && (to.is_signed() || !from.is_signed());
    to.size() == 8 || from == to || from == DType::Bool || fits(from)
}

/// Elements that a launch visits: the product of what nested loops over tiles walk, of the deepest such nest. Loops over scalars count
/// once, and so does what only the GPU knows.
pub fn work(kernel: &Kernel, args: &[HostArg]) -> i64 {
    fn inside(kernel: &Kernel, block: &[Stmt], args: &[HostArg]) -> i64 {
        let of = |stmt: &Stmt| match stmt {
            Stmt::Tiles(l) => {
                let len = |axis: &usize| HostExpr::of_value(kernel, kernel.view(l.view).axes[*axis].len).map_or(1, |e| e.eval(args, 1));
                l.axes.iter().map(len).fold(inside(kernel, &l.body, args), i64::saturating_mul)
            }
            Stmt::Range { body, .. } => inside(kernel, body, args),
            _ => 1,
        };
        block.iter().map(of).max().unwrap_or(1)
    }
    inside(kernel, &kernel.body, args)
}

fn apply(op: BinaryOp, a: i64, b: i64) -> i64 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => {
            if b == 0 {
                -1
            } else {
                a.wrapping_div(b)
            }
        }
        BinaryOp::Rem => {
            if b == 0 {
                a
            } else {
                a.wrapping_rem(b)
            }
        }
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        other => panic!("host expression: {other:?} is not computed on the host"),
    }
}

impl fmt::Display for HostExpr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let leaf = |e: &HostExpr| match e {
            HostExpr::Dim(p, k) => format!("dim({p}, {k})"),
            HostExpr::Stride(p, k) => format!("stride({p}, {k})"),
            HostExpr::Scalar(p) => format!("scalar({p})"),
            _ => "multiprocessors".to_string(),
        };
        f.write_str(&self.to_c(&leaf))
    }
}
/// Between which numbers, the last one excluded, a kernel demands the elements of a tensor parameter to be, for a launch's arguments.
pub fn demanded_values(kernel: &Kernel, param: usize, args: &[HostArg]) -> Option<(i64, i64)> {
    let number = |v| HostExpr::of_value(kernel, v).map(|e| e.eval(args, 1));
    let ends = kernel.requirements.iter().filter_map(|r| match r.kind {
        RequirementKind::Values(p, first, end) if p == param => number(first).zip(number(end)),
        _ => None,
    });
    ends.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
}
