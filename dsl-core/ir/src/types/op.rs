//! Operations on scalars, and comparisons.

/// Operations on one operand. Result type = operand type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum UnaryOp {
    /// −x; integers wrap.
    Neg,
    /// Bitwise complement of integers, logical not of bool.
    Not,
    /// |x|; `i32::MIN` stays.
    Abs,
    /// eˣ.
    Exp,
    /// 2ˣ.
    Exp2,
    /// Natural logarithm.
    Log,
    /// Logarithm to base 2.
    Log2,
    /// IEEE square root.
    Sqrt,
    /// 1/√x (2 ulp, as CUDA's `rsqrtf`).
    Rsqrt,
    /// Sine, argument in radians.
    Sin,
    /// Cosine, argument in radians.
    Cos,
    /// Sine of the argument times π.
    SinPi,
    /// Cosine of the argument times π.
    CosPi,
    /// Hyperbolic tangent.
    Tanh,
    /// Error function.
    Erf,
    /// Round towards −∞.
    Floor,
    /// Round towards +∞.
    Ceil,
    /// Round to nearest, ties to even.
    Round,
    /// Round towards 0.
    Trunc,
    /// eˣ by the fast unit (as `__expf`, but two instructions); denormal results may be 0.
    ExpApprox,
    /// 2ˣ by the fast unit; denormal results may be 0.
    Exp2Approx,
    /// ln x by the fast unit (`__logf`).
    LogApprox,
    /// 1/x by the fast unit (`__frcp_rn` is IEEE; this is `__fdividef(1, x)`).
    RecipApprox,
    /// tanh by the hardware instruction (sm_75 on).
    TanhApprox,
    /// The nearest number with 10 bits of fraction, ties to even, as `tf32` operands of matrix instructions need it.
    RoundTf32,
    /// The same number, in a register of its own: compilers neither leave it out nor bind it to where the other one is. Of f32.
    Moved,
    /// Number of one bits.
    Popcount,
    /// Number of leading zero bits.
    LeadingZeros,
}

/// Operations on two operands of one type. Result type = operand type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum BinaryOp {
    /// x + y.
    Add,
    /// x − y.
    Sub,
    /// x · y.
    Mul,
    /// x / y; integers truncate.
    Div,
    /// Remainder with the dividend's sign (C's `%`; `fmodf` for floats).
    Rem,
    /// Smaller one; NaN if either is.
    Min,
    /// Larger one; NaN if either is.
    Max,
    /// Bitwise (bool: logical) and.
    And,
    /// Bitwise (bool: logical) or.
    Or,
    /// Bitwise (bool: logical) exclusive or.
    Xor,
    /// Shift left; the amount is masked to the width.
    Shl,
    /// Shift right, arithmetic for signed types; the amount is masked to the width.
    Shr,
    /// Upper half of the double-width product.
    MulHi,
    /// x / y by the fast unit (`__fdividef`).
    DivApprox,
    /// xʸ.
    Pow,
}

/// Operations on three operands of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum TernaryOp {
    /// a · b + c with one rounding (integers: wrapping).
    Fma,
}

/// Comparisons. Result type bool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum CompareOp {
    /// <
    Lt,
    /// ≤
    Le,
    /// >
    Gt,
    /// ≥
    Ge,
    /// =
    Eq,
    /// ≠
    Ne,
}

impl CompareOp {
    /// The comparison that holds where this one does not, but for NaN.
    pub const fn inverse(self) -> CompareOp {
        match self {
            CompareOp::Lt => CompareOp::Ge,
            CompareOp::Le => CompareOp::Gt,
            CompareOp::Gt => CompareOp::Le,
            CompareOp::Ge => CompareOp::Lt,
            CompareOp::Eq => CompareOp::Ne,
            CompareOp::Ne => CompareOp::Eq,
        }
    }
}
