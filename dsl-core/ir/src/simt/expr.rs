//! Expressions of SIMT IR: hardware indices, places in memory, what a thread computes of them, and of which type it is.

use super::{Param, ParamKind, SharedId, Var, VarId};
use crate::types::{BinaryOp, CompareOp, DType, Literal, TernaryOp, UnaryOp};

/// Hardware indices. i32 but for [`Special::Elected`]; only as the whole initialiser of a [`Stmt::Let`](super::Stmt::Let).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Special {
    /// `threadIdx.x`.
    Thread,
    /// `blockIdx.x`.
    Block,
    /// `gridDim.x`.
    GridDim,
    /// Thread index modulo 32.
    Lane,
    /// Thread index divided by 32.
    Warp,
    /// True in one lane of the warp, always the same (`elect.sync`); bool. All lanes of the warp that exist reach it together.
    Elected,
}

/// Where memory is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Space {
    /// The tensor behind [`Kernel::params`](super::Kernel::params)`[i]`, a pointer.
    Global(usize),
    /// A shared array.
    Shared(SharedId),
    /// The array in constant memory that is [`Kernel::params`](super::Kernel::params)`[i]`. It is read only.
    Constant(usize),
}

/// A place in memory: element `index` (in elements of `dtype`) of a space.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// Which memory.
    pub space: Space,
    /// Element type of the access; may differ from the space's (then a reinterpretation).
    pub dtype: DType,
    /// Element index.
    pub index: Expr,
}

/// Neighbouring elements of an array variable: a thread's part of an operand of a matrix instruction, as many as the atom says.
#[derive(Clone, PartialEq, Debug)]
pub struct Fragment {
    /// Array variable.
    pub var: VarId,
    /// First element; a multiple of the elements in a 32-bit word.
    pub at: Expr,
}

/// Cache hint of a global access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CacheHint {
    /// As the compiler likes.
    #[default]
    Default,
    /// Read or written once: `__ldcs`, `__stcs`.
    Streaming,
    /// Loads of what a kernel does not write, whose lines the L2 is asked to keep the longest (`L2::evict_last`); from sm_80 on.
    Kept,
    /// Loads that leave nothing in the L1 and bring 128 bytes to the L2 (`L1::no_allocate.L2::128B`).
    Once,
}

/// A pure expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// A scalar variable.
    Var(VarId),
    /// An element of an array variable.
    Element(VarId, Box<Expr>),
    /// A scalar or host-computed parameter.
    Param(usize),
    /// A hardware index.
    Special(Special),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands of one type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Three operands of one type.
    Ternary(TernaryOp, Box<Expr>, Box<Expr>, Box<Expr>),
    /// Two operands of one type; bool.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// `condition ? a : b`; both sides are evaluated (they are pure), but see [`Expr::Load`] for predicated reads.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion by the numeric contract.
    Cast(DType, Box<Expr>),
    /// Same bits.
    Bitcast(DType, Box<Expr>),
    /// One element from memory; zero, and no access, where the predicate is false.
    Load {
        /// Where.
        place: Box<Place>,
        /// Bool, or always.
        predicate: Option<Box<Expr>>,
        /// Hint.
        cache: CacheHint,
    },
}

/// The type of an expression over these variables and parameters.
pub fn expr_dtype(expr: &Expr, vars: &[Var], params: &[Param]) -> DType {
    match expr {
        Expr::Literal(l) => l.dtype,
        Expr::Var(v) | Expr::Element(v, _) => vars[v.0 as usize].dtype,
        Expr::Param(p) => match &params[*p].kind {
            ParamKind::Scalar { dtype, .. } | ParamKind::Host { dtype, .. } => *dtype,
            ParamKind::Pointer { .. } | ParamKind::Workspace { .. } | ParamKind::Constant { .. } | ParamKind::TensorMap { .. } => {
                panic!("simt: parameter {p} is no value")
            }
        },
        Expr::Special(Special::Elected) => DType::Bool,
        Expr::Special(_) => DType::I32,
        Expr::Unary(_, a) | Expr::Binary(_, a, _) | Expr::Ternary(_, a, _, _) => expr_dtype(a, vars, params),
        Expr::Compare(..) => DType::Bool,
        Expr::Select(_, a, _) => expr_dtype(a, vars, params),
        Expr::Cast(d, _) | Expr::Bitcast(d, _) => *d,
        Expr::Load { place, .. } => place.dtype,
    }
}
