//! Program IR: the host side of a computation as data. The runtime runs it, the simulator walks it, the exporter prints it as C++.

pub mod eval;
pub mod signature;
mod variants;
pub mod walk;

use crate::error::CompileError;
use crate::loc::SourceLoc;
use crate::registry::{KernelDef, instance_path};
use crate::tile::{Param, RequirementKind};
use crate::types::{BinaryOp, CompareOp, DType, Literal, UnaryOp};

/// Index of a scalar variable of a program (loop counter, value read back).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ScalarVar(pub u32);

/// A scalar expression that the host computes.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// A scalar parameter of the program.
    Param(usize),
    /// The length of an axis of a tensor parameter (i64).
    Dim(usize, usize),
    /// A scalar variable.
    Var(ScalarVar),
    /// Which side of a variant is taken (bool): the schedule's affair. True where nobody chose; see [`Program::with_variants`].
    Variant(usize),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands of one type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Two operands of one type; bool.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// Condition, then, otherwise.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion.
    Cast(DType, Box<Expr>),
}

impl Expr {
    /// Whether the expression, or a part of it, is such a one.
    pub fn any(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        is(self)
            || match self {
                Expr::Literal(_) | Expr::Param(_) | Expr::Dim(..) | Expr::Var(_) | Expr::Variant(_) => false,
                Expr::Unary(_, a) | Expr::Cast(_, a) => a.any(is),
                Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => a.any(is) || b.any(is),
                Expr::Select(a, b, c) => a.any(is) || b.any(is) || c.any(is),
            }
    }

    /// Depends on nothing but the program's parameters.
    pub fn is_fixed(&self) -> bool {
        !self.any(&|e| matches!(e, Expr::Var(_)))
    }
}

/// What memory a tensor of a program lies in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Base {
    /// A tensor parameter.
    Param(usize),
    /// A temporary: [`Program::temps`].
    Temp(usize),
}

/// A tensor as an argument of a launch, memset or copy: a window on its base.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorView {
    /// Its memory.
    pub base: Base,
    /// Element type (after reinterpretation).
    pub dtype: DType,
    /// First element, in elements of `dtype` from the base's pointer (i64).
    pub offset: Expr,
    /// Lengths (i64).
    pub lens: Vec<Expr>,
    /// Strides in elements (i64).
    pub strides: Vec<Expr>,
    /// Row-major without gaps, by construction.
    pub packed: bool,
}

/// A temporary: memory of the workspace, kept between calls, undefined at the start of each.
#[derive(Clone, PartialEq, Debug)]
pub struct Temp {
    /// The author's name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Lengths (i64), computable from the program's parameters alone.
    pub lens: Vec<Expr>,
}

/// An argument of a launch.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// A tensor.
    Tensor(TensorView),
    /// A scalar of the parameter's type.
    Scalar(Expr),
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Launches a kernel.
    Launch {
        /// Number of the launch site in the program, from 0: schedules are chosen per site.
        site: usize,
        /// The kernel.
        kernel: KernelDef,
        /// One per parameter of the kernel.
        args: Vec<Arg>,
        /// The author's line.
        loc: SourceLoc,
    },
    /// Sets every element of a packed tensor.
    Memset {
        /// What.
        tensor: TensorView,
        /// To what.
        value: Literal,
        /// The author's line.
        loc: SourceLoc,
    },
    /// Copies a packed tensor to another of the same type and size.
    Copy {
        /// To.
        to: TensorView,
        /// From.
        from: TensorView,
        /// The author's line.
        loc: SourceLoc,
    },
    /// Sets a scalar variable.
    Set {
        /// Which.
        var: ScalarVar,
        /// New value.
        value: Expr,
    },
    /// The author's name for a value. It changes nothing: uses of the value compute it by themselves, and exports compute it here.
    Let {
        /// The name.
        name: String,
        /// The value.
        value: Expr,
    },
    /// Reads one element back to the host (waits for the device).
    ReadBack {
        /// Receives.
        var: ScalarVar,
        /// A tensor of one element.
        from: TensorView,
        /// The author's line.
        loc: SourceLoc,
    },
    /// A choice, by shape or scalar.
    If {
        /// Bool.
        condition: Expr,
        /// Where true.
        then: Vec<Stmt>,
        /// Where false.
        otherwise: Vec<Stmt>,
    },
    /// A counted loop.
    For {
        /// The counter, i64.
        var: ScalarVar,
        /// First value.
        start: Expr,
        /// One past the last.
        end: Expr,
        /// One turn.
        body: Vec<Stmt>,
    },
    /// Repeats: `header` computes the condition (it may read back), then the body.
    While {
        /// Computes the condition.
        header: Vec<Stmt>,
        /// Bool.
        condition: Expr,
        /// One turn.
        body: Vec<Stmt>,
    },
}

/// A program: what a challenge's `solve` is exported from.
#[derive(Clone, Debug)]
pub struct Program {
    /// The function's name.
    pub name: String,
    /// `crate::module::name`.
    pub path: String,
    /// The function's place.
    pub loc: SourceLoc,
    /// The function's text.
    pub source: String,
    /// Parameters in order, as for kernels.
    pub params: Vec<Param>,
    /// Temporaries.
    pub temps: Vec<Temp>,
    /// Type and name of each scalar variable, by [`ScalarVar`].
    pub scalars: Vec<(DType, String)>,
    /// Names of the choices that are left to the tuner, by [`Expr::Variant`].
    pub variants: Vec<String>,
    /// What must hold at a call.
    pub requirements: Vec<Requirement>,
    /// The body.
    pub body: Vec<Stmt>,
}

/// What must hold for a call's arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Requirement {
    /// A bool expression of parameters and lengths.
    pub holds: Expr,
    /// The rule in words: "a chunk has 1 element or more".
    pub rule: &'static str,
    /// The author's line that asks for it.
    pub loc: SourceLoc,
}

/// One instance of a `#[program]` function.
#[derive(Clone, Copy, Debug)]
pub struct ProgramDef {
    /// The function's name.
    pub name: &'static str,
    /// `crate::module` of the function.
    pub module: &'static str,
    /// Types of this instance: `[("K", "f32")]`.
    pub instance: &'static [(&'static str, &'static str)],
    /// The function's place.
    pub loc: SourceLoc,
    /// Builds its IR.
    pub build: fn() -> Result<Program, CompileError>,
}

impl ProgramDef {
    /// `crate::module::name` with the instance's types: `sorting::in_order<f32>`.
    pub fn path(&self) -> String {
        instance_path(self.module, self.name, self.instance)
    }
}

impl Program {
    /// The kernels of the launch sites, by site.
    pub fn sites(&self) -> Vec<KernelDef> {
        let mut sites = Vec::new();
        visit_launches(&self.body, &mut |site, kernel, _| sites.push((site, *kernel)));
        sites.sort_by_key(|(site, _)| *site);
        sites.into_iter().map(|(_, kernel)| kernel).collect()
    }

    /// Bytes that a tensor parameter's address has to be a multiple of: the size of the widest elements that a launch or its kernel sees in
    /// it.
    ///
    /// # Errors
    /// What is wrong with a kernel.
    pub fn alignment(&self, param: usize) -> Result<usize, CompileError> {
        let mut uses = Vec::new();
        visit_launches(&self.body, &mut |_, kernel, args| {
            let tensors = args.iter().enumerate().filter_map(|(i, arg)| if let Arg::Tensor(view) = arg { Some((i, view)) } else { None });
            uses.extend(tensors.filter(|(_, view)| view.base == Base::Param(param)).map(|(i, view)| (*kernel, i, view.dtype.size())));
        });
        let mut bytes = 1;
        for (kernel, param, size) in uses {
            let asked = (kernel.build)()?.requirements.into_iter().filter_map(|r| match r.kind {
                RequirementKind::Aligned(p, bytes) if p == param => Some(bytes),
                _ => None,
            });
            bytes = asked.chain([size]).fold(bytes, usize::max);
        }
        Ok(bytes)
    }

    /// Whether the host waits for values of the device: then what it does next depends on them.
    pub fn reads_back(&self) -> bool {
        reads_back(&self.body)
    }
}

fn reads_back(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::ReadBack { .. } => true,
        Stmt::If { then, otherwise, .. } => reads_back(then) || reads_back(otherwise),
        Stmt::For { body, .. } => reads_back(body),
        Stmt::While { header, body, .. } => reads_back(header) || reads_back(body),
        Stmt::Launch { .. } | Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Set { .. } | Stmt::Let { .. } => false,
    })
}

/// Every launch: its site, its kernel and its arguments.
fn visit_launches(body: &[Stmt], each: &mut dyn FnMut(usize, &KernelDef, &[Arg])) {
    for stmt in body {
        match stmt {
            Stmt::Launch { site, kernel, args, .. } => each(*site, kernel, args),
            Stmt::If { then, otherwise, .. } => {
                visit_launches(then, each);
                visit_launches(otherwise, each);
            }
            Stmt::For { body, .. } => visit_launches(body, each),
            Stmt::While { header, body, .. } => {
                visit_launches(header, each);
                visit_launches(body, each);
            }
            Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Set { .. } | Stmt::Let { .. } | Stmt::ReadBack { .. } => {}
        }
    }
}
