//! The names of a program's things in C++: its tensors, scalars and temporaries, and where their memory begins.

use super::arithmetic::{Knowledge, Origin};
use super::expr::host_type;
use super::text::{Prec, Text};
use crate::cuda::c_type;
use girih_ir::program::signature::Signature;
use girih_ir::program::{Arg, Base, Expr, Program, TensorView};
use girih_ir::tile::ParamKind;
use girih_ir::tile::host::HostExpr;
use girih_ir::types::DType;
use std::cell::RefCell;
use std::collections::BTreeSet;

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
    pub fn wide(&self, scalar: usize) -> Text {
        let param = &self.signature.params[scalar];
        if param.dtype == DType::I64 {
            return Text::primary(param.name.clone()).knowing(self.known(scalar));
        }
        self.used.borrow_mut().insert(scalar);
        Text::primary(self.wide[scalar].clone()).knowing(self.known(scalar))
    }

    /// A scalar of the signature.
    pub fn known(&self, scalar: usize) -> Knowledge {
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

    pub fn host(&self, e: &HostExpr, leaf: &dyn Fn(&HostExpr) -> Text) -> Text {
        match e {
            HostExpr::Const(c) => Text::integer(*c),
            HostExpr::Binary(op, a, b) => Text::combine(*op, &self.host(a, leaf), &self.host(b, leaf)),
            HostExpr::Wrap(dtype, e) => Text::new(format!("({}){}", c_type(*dtype), self.host(e, leaf).at_least(Prec::Unary)), Prec::Unary)
                .knowing(Knowledge::any(*dtype, Origin::Data)),
            other => leaf(other),
        }
    }

    /// The constant that holds a value here.
    pub fn kept(&self, e: &Expr) -> Option<Text> {
        self.lets.iter().find(|l| l.value == *e).map(|l| l.text.clone())
    }

    pub fn param(&self, p: usize) -> Text {
        let there = &self.signature.params[self.binding[p]];
        let ParamKind::Scalar(dtype) = self.program.params[p].kind else { panic!("export: parameter {p} is no scalar") };
        if dtype == there.dtype {
            return Text::primary(there.name.clone()).knowing(self.known(self.binding[p]));
        }
        let text = Text::new(format!("({}){}", host_type(dtype), there.name), Prec::Unary);
        if dtype.is_int() { text.knowing(Knowledge::any(dtype, Origin::Data)) } else { text }
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

/// A judge's type of pointer converts to the kernels' without a cast.
fn is_same(declared: &str, dtype: DType) -> bool {
    let base = declared.trim_start_matches("const ").trim_end_matches('*').trim();
    match dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => false,
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
