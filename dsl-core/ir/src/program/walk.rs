//! The generic walker of programs: evaluates host expressions, resolves views, and tells an [`Executor`] what to do in order.
//! The reference evaluator, the simulator and the devices are executors; none of them decides anything about a program.

use super::{Arg, Base, Expr, Program, Requirement, ScalarVar, Stmt, Temp, TensorView};
use crate::facts::{TensorArg, packed_strides};
use crate::lengths::Lengths;
use crate::loc::SourceLoc;
use crate::registry::KernelDef;
use crate::scalar;
use crate::tile::ParamKind;
use crate::types::{BinaryOp, DType, Literal, UnaryOp};

/// A tensor of a program with its numbers: a window on its base's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its memory.
    pub base: Base,
    /// Element type.
    pub dtype: DType,
    /// Byte offset of the first element from the base's pointer.
    pub offset: i64,
    /// Lengths.
    pub lens: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
}

impl Region {
    /// Elements.
    pub fn numel(&self) -> i64 {
        self.lens.iter().product()
    }
    /// Bytes of a packed region.
    pub fn bytes(&self) -> i64 {
        self.numel() * self.dtype.size() as i64
    }
    /// Shape, strides and address, for a base that lies at `base_address`.
    pub fn tensor_arg(&self, base_address: u64) -> TensorArg {
        let address = base_address.wrapping_add_signed(self.offset);
        TensorArg { address, lens: self.lens.clone(), strides: self.strides.clone() }
    }
    /// Bytes of the base that elements reach: first and one past the last; empty where there is no element.
    pub fn span(&self) -> (i64, i64) {
        if self.numel() == 0 {
            return (self.offset, self.offset);
        }
        let reach = |sign: i64| -> i64 { self.lens.iter().zip(&self.strides).map(|(l, s)| ((l - 1) * s * sign).max(0)).sum() };
        let size = self.dtype.size() as i64;
        (self.offset - reach(-1) * size, self.offset + (reach(1) + 1) * size)
    }
}

/// An argument of a launch with its numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaunchArg {
    /// A tensor.
    Tensor(Region),
    /// A scalar of the parameter's type.
    Scalar(Literal),
}

/// An argument of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProgramArg {
    /// A packed tensor of these lengths; its memory is the executor's affair.
    Tensor(Vec<i64>),
    /// A scalar of the parameter's type.
    Scalar(Literal),
}

impl ProgramArg {
    /// The scalar.
    ///
    /// # Panics
    /// If it is a tensor.
    pub(super) fn scalar(&self) -> Literal {
        let ProgramArg::Scalar(l) = self else { panic!("program: a tensor is no scalar") };
        *l
    }

    /// The length of a tensor's axis.
    ///
    /// # Panics
    /// If it is a scalar.
    pub(super) fn len(&self, axis: usize) -> Literal {
        let ProgramArg::Tensor(lens) = self else { panic!("program: a scalar has no axes") };
        Literal::index(lens[axis])
    }

    /// How long a call's arguments are.
    pub fn lengths(args: &[ProgramArg]) -> Lengths {
        let lens = |a: &ProgramArg| match a {
            ProgramArg::Tensor(lens) => Some(lens.clone()),
            ProgramArg::Scalar(_) => None,
        };
        Lengths(args.iter().map(lens).collect())
    }
}

/// What runs a program's steps. Steps come in order; an executor may let them overlap as long as it seems they did not.
pub trait Executor {
    /// Why a step failed.
    type Error;
    /// Provides memory for a temporary: at least `bytes` (which may be 0), kept until the program ends.
    fn temp(&mut self, index: usize, temp: &Temp, bytes: usize) -> Result<(), Self::Error>;
    /// Launches a kernel. A tensor may have no elements.
    fn launch(&mut self, site: usize, kernel: &KernelDef, args: &[LaunchArg], loc: SourceLoc) -> Result<(), Self::Error>;
    /// Sets every element of a packed region (at least one) to a value of its type.
    fn memset(&mut self, region: &Region, value: Literal) -> Result<(), Self::Error>;
    /// Copies a packed region (at least one element) to another of the same size.
    fn copy(&mut self, to: &Region, from: &Region) -> Result<(), Self::Error>;
    /// Waits, and reads the only element of a region.
    fn read_back(&mut self, from: &Region) -> Result<Literal, Self::Error>;
}

/// Why a program stopped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WalkError<E> {
    /// An argument doesn't fit its parameter.
    #[error("argument {param}: {message}")]
    Argument {
        /// The parameter's name.
        param: String,
        /// What was found and what is allowed.
        message: String,
    },
    /// A requirement of the program doesn't hold for these arguments.
    #[error("{loc}: requirement not met: {text}")]
    Requirement {
        /// The rule, and the numbers that break it.
        text: String,
        /// The author's line.
        loc: SourceLoc,
    },
    /// Two tensors of a copy differ in size, or a tensor has a negative length.
    #[error("{loc}: {message}")]
    Size {
        /// What was found and what is allowed.
        message: String,
        /// The author's line.
        loc: SourceLoc,
    },
    /// The executor failed.
    #[error("{0}")]
    Executor(E),
}

/// Runs a program: temporaries first, then the body in order.
///
/// # Errors
/// Arguments that don't fit, requirements that don't hold, and whatever the executor reports.
pub fn walk<X: Executor + ?Sized>(program: &Program, args: &[ProgramArg], executor: &mut X) -> Result<(), WalkError<X::Error>> {
    check_args(program, args)?;
    let mut walker = Walker { program, args, scalars: vec![None; program.scalars.len()], executor };
    for Requirement { holds, rule, loc } in &program.requirements {
        if walker.eval(holds).bits == 0 {
            return Err(WalkError::Requirement { text: format!("{rule}: found {}", walker.show(holds)), loc: *loc });
        }
    }
    for (index, temp) in program.temps.iter().enumerate() {
        walker.temp(index, temp)?;
    }
    walker.block(&program.body)
}

fn check_args<E>(program: &Program, args: &[ProgramArg]) -> Result<(), WalkError<E>> {
    if program.params.len() != args.len() {
        let message = format!("{} takes {} arguments, found {}", program.name, program.params.len(), args.len());
        return Err(WalkError::Argument { param: format!("0..{}", args.len()), message });
    }
    for (param, arg) in program.params.iter().zip(args) {
        let message = match (&param.kind, arg) {
            (ParamKind::Tensor { rank, .. }, ProgramArg::Tensor(lens)) if lens.len() != *rank => {
                format!("takes a tensor with {rank} axes, found {}", lens.len())
            }
            (ParamKind::Scalar(d), ProgramArg::Scalar(l)) if l.dtype != *d => format!("takes {d}, found {}", l.dtype),
            (ParamKind::Tensor { .. }, ProgramArg::Scalar(_)) => "takes a tensor, found a scalar".into(),
            (ParamKind::Scalar(_), ProgramArg::Tensor(_)) => "takes a scalar, found a tensor".into(),
            _ => continue,
        };
        return Err(WalkError::Argument { param: param.name.clone(), message });
    }
    Ok(())
}

struct Walker<'a, X: ?Sized> {
    program: &'a Program,
    args: &'a [ProgramArg],
    scalars: Vec<Option<Literal>>,
    executor: &'a mut X,
}

impl<X: Executor + ?Sized> Walker<'_, X> {
    fn temp(&mut self, index: usize, temp: &Temp) -> Result<(), WalkError<X::Error>> {
        let lens: Vec<i64> = temp.lens.iter().map(|l| self.index(l)).collect();
        if lens.iter().any(|l| *l < 0) {
            let message = format!("temporary {} has shape {lens:?}; lengths must not be negative", temp.name);
            return Err(WalkError::Size { message, loc: self.program.loc });
        }
        let strides = packed_strides(&lens);
        let region = Region { base: Base::Temp(index), dtype: temp.dtype, offset: 0, lens, strides };
        self.executor.temp(index, temp, region.bytes() as usize).map_err(WalkError::Executor)
    }

    fn block(&mut self, body: &[Stmt]) -> Result<(), WalkError<X::Error>> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), WalkError<X::Error>> {
        match stmt {
            Stmt::Launch { site, kernel, args, loc } => {
                let args: Vec<LaunchArg> = args
                    .iter()
                    .map(|a| match a {
                        Arg::Tensor(view) => Ok(LaunchArg::Tensor(self.region(view, *loc)?)),
                        Arg::Scalar(e) => Ok(LaunchArg::Scalar(self.eval(e))),
                    })
                    .collect::<Result<_, _>>()?;
                self.executor.launch(*site, kernel, &args, *loc).map_err(WalkError::Executor)
            }
            Stmt::Memset { tensor, value, loc } => {
                let region = self.region(tensor, *loc)?;
                if region.numel() == 0 {
                    return Ok(());
                }
                self.executor.memset(&region, *value).map_err(WalkError::Executor)
            }
            Stmt::Copy { to, from, loc } => {
                let (to, from) = (self.region(to, *loc)?, self.region(from, *loc)?);
                if to.bytes() != from.bytes() {
                    let message = format!("copies {:?} elements to {:?}; both must have the same size", from.lens, to.lens);
                    return Err(WalkError::Size { message, loc: *loc });
                }
                if to.numel() == 0 {
                    return Ok(());
                }
                self.executor.copy(&to, &from).map_err(WalkError::Executor)
            }
            Stmt::Set { var, value } => {
                self.set(*var, self.eval(value));
                Ok(())
            }
            Stmt::Let { .. } => Ok(()),
            Stmt::ReadBack { var, from, loc } => {
                let region = self.region(from, *loc)?;
                if region.numel() != 1 {
                    let message = format!("reads back a tensor of shape {:?}; it must have one element", region.lens);
                    return Err(WalkError::Size { message, loc: *loc });
                }
                let value = self.executor.read_back(&region).map_err(WalkError::Executor)?;
                self.set(*var, value);
                Ok(())
            }
            Stmt::If { condition, then, otherwise } => self.block(if self.holds(condition) { then } else { otherwise }),
            Stmt::For { var, start, end, body } => {
                for i in self.index(start)..self.index(end) {
                    self.set(*var, Literal::index(i));
                    self.block(body)?;
                }
                Ok(())
            }
            Stmt::While { header, condition, body } => loop {
                self.block(header)?;
                if !self.holds(condition) {
                    return Ok(());
                }
                self.block(body)?;
            },
        }
    }

    fn region(&self, view: &TensorView, loc: SourceLoc) -> Result<Region, WalkError<X::Error>> {
        let region = Region {
            base: view.base,
            dtype: view.dtype,
            offset: self.index(&view.offset) * view.dtype.size() as i64,
            lens: view.lens.iter().map(|e| self.index(e)).collect(),
            strides: view.strides.iter().map(|e| self.index(e)).collect(),
        };
        if region.lens.iter().any(|l| *l < 0) {
            let message = format!("a tensor has shape {:?}; lengths must not be negative", region.lens);
            return Err(WalkError::Size { message, loc });
        }
        Ok(region)
    }

    fn set(&mut self, var: ScalarVar, value: Literal) {
        self.scalars[var.0 as usize] = Some(value);
    }

    fn holds(&self, condition: &Expr) -> bool {
        self.eval(condition).bits != 0
    }

    fn index(&self, expr: &Expr) -> i64 {
        self.eval(expr).to_i64()
    }

    fn eval(&self, expr: &Expr) -> Literal {
        let leaf = |e: &Expr| match e {
            Expr::Param(p) => self.args[*p].scalar(),
            Expr::Dim(p, k) => self.args[*p].len(*k),
            Expr::Var(v) => self.scalars[v.0 as usize].unwrap_or_else(|| {
                panic!("program {}: {} is read before it is set", self.program.path, self.program.scalars[v.0 as usize].1)
            }),
            other => panic!("program {}: {other:?} is no leaf", self.program.path),
        };
        eval_expr(expr, &leaf)
    }

    /// A requirement in words, with the numbers that made it fail.
    fn show(&self, condition: &Expr) -> String {
        match condition {
            Expr::Compare(op, a, b) => {
                let sign = match op {
                    crate::types::CompareOp::Lt => "<",
                    crate::types::CompareOp::Le => "<=",
                    crate::types::CompareOp::Gt => ">",
                    crate::types::CompareOp::Ge => ">=",
                    crate::types::CompareOp::Eq => "==",
                    crate::types::CompareOp::Ne => "!=",
                };
                format!("{} {sign} {}", self.eval(a), self.eval(b))
            }
            Expr::Select(_, holds, _) => self.show(holds),
            // Of several that must hold, those that do not.
            Expr::Binary(BinaryOp::And, a, b) => {
                let broken = [a, b].into_iter().filter(|e| self.eval(e).bits == 0);
                broken.map(|e| self.show(e)).collect::<Vec<_>>().join(" and ")
            }
            Expr::Binary(BinaryOp::Or, a, b) => format!("{} or {}", self.show(a), self.show(b)),
            Expr::Unary(UnaryOp::Not, a) => format!("not {}", self.show(a)),
            other => self.eval(other).to_string(),
        }
    }
}

/// The value of a host expression, given the values of its parameters, dims and variables.
pub fn eval_expr(expr: &Expr, leaf: &dyn Fn(&Expr) -> Literal) -> Literal {
    // 16-bit floats compute in f32 and round after each operation: a host scalar has nowhere to keep more.
    let wide = |l: Literal| Literal { dtype: l.dtype.compute(), bits: scalar::cast(l.dtype, l.dtype.compute(), l.bits) };
    let narrow = |dtype: DType, bits: u64| Literal { dtype, bits: scalar::cast(dtype.compute(), dtype, bits) };
    match expr {
        Expr::Literal(l) => *l,
        Expr::Param(_) | Expr::Dim(..) | Expr::Var(_) => leaf(expr),
        Expr::Variant(_) => Literal::bool(true),
        Expr::Unary(op, a) => {
            let a = eval_expr(a, leaf);
            narrow(a.dtype, scalar::unary(*op, a.dtype.compute(), wide(a).bits))
        }
        Expr::Binary(op, a, b) => {
            let (a, b) = (eval_expr(a, leaf), eval_expr(b, leaf));
            narrow(a.dtype, scalar::binary(*op, a.dtype.compute(), wide(a).bits, wide(b).bits))
        }
        Expr::Compare(op, a, b) => {
            let (a, b) = (eval_expr(a, leaf), eval_expr(b, leaf));
            Literal::bool(scalar::compare(*op, a.dtype.compute(), wide(a).bits, wide(b).bits))
        }
        Expr::Select(c, a, b) => eval_expr(if eval_expr(c, leaf).bits != 0 { a } else { b }, leaf),
        Expr::Cast(to, a) => {
            let a = eval_expr(a, leaf);
            Literal { dtype: *to, bits: scalar::cast(a.dtype, *to, a.bits) }
        }
    }
}
