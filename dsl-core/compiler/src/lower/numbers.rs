//! Numbers that the host knows, where they are values: an index fits the type of indices because the facts say so, a value is as wide as
//! its type.

use super::context::Lowering;
use super::range::{self, Range};
use girih_ir::facts::INDEX32_LIMIT;
use girih_ir::simt::Expr;
use girih_ir::tile::ParamKind;
use girih_ir::tile::host::HostExpr;
use girih_ir::types::{BinaryOp, DType};

/// No tensor has more elements along an axis: addresses have 47 bits.
const LONGEST: i64 = 1 << 47;

impl Lowering<'_> {
    /// The number, and the type in which it is computed: that of indices where the facts bound it, 64 bits otherwise.
    pub fn host_number(&mut self, e: &HostExpr, name: &str) -> (DType, Expr) {
        if let HostExpr::Scalar(p) = e
            && let ParamKind::Scalar(dtype) = self.kernel.params[*p].kind
            && (dtype.size() == 8 || !self.fits_index(e))
        {
            return (dtype, Expr::Param(*p));
        }
        match e {
            _ if self.fits_index(e) => (self.ix.dtype, self.host_index(e, name)),
            HostExpr::Const(c) => (DType::I64, super::index::literal(DType::I64, *c)),
            _ => (DType::I64, self.host_param_of(DType::I64, e, name)),
        }
    }

    /// Whether the number, and all that kernels compute on the way to it, surely fits the type of indices.
    fn fits_index(&self, e: &HostExpr) -> bool {
        let fits = match self.ix.dtype {
            DType::I32 => (i32::MIN as i64, i32::MAX as i64),
            _ => (i64::MIN, i64::MAX),
        };
        let own = self.host_range(e).is_some_and(|r| fits.0 <= r.0 && r.1 <= fits.1);
        own && match e {
            HostExpr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => self.fits_index(a) && self.fits_index(b),
            _ => true,
        }
    }

    /// Between which numbers it lies by the facts; `None` where it may wrap.
    pub fn host_range(&self, e: &HostExpr) -> Option<Range> {
        let longest = if self.ix.dtype == DType::I32 { INDEX32_LIMIT } else { LONGEST };
        match e {
            HostExpr::Const(c) => Some((*c, *c)),
            HostExpr::Dim(p, k) if self.dim_constant.contains_key(&(*p, *k)) => {
                let len = self.dim_constant[&(*p, *k)];
                Some((len, len))
            }
            HostExpr::Dim(p, k) => Some((0, self.facts.most(*p, *k).unwrap_or(longest))),
            HostExpr::Stride(p, k) if self.facts.tensors[*p].as_ref().is_some_and(|t| t.is_unit_stride(*k)) => Some((1, 1)),
            // What a launch cannot pass, it refuses.
            HostExpr::Stride(..) => range::of_type(self.ix.dtype),
            HostExpr::Scalar(p) => match self.kernel.params[*p].kind {
                ParamKind::Scalar(dtype) => range::of_type(dtype),
                ParamKind::Tensor { .. } => None,
            },
            HostExpr::Multiprocessors => Some((1, i32::MAX as i64)),
            HostExpr::Binary(BinaryOp::Mul, ..) if self.counts_elements(e) => Some((0, longest)),
            HostExpr::Binary(op, a, b) => self.quotient_range(*op, a, b),
            HostExpr::Wrap(dtype, inner) => {
                let all = range::of_type(*dtype)?;
                self.host_range(inner).filter(|r| all.0 <= r.0 && r.1 <= all.1).or(Some(all))
            }
        }
    }

    fn quotient_range(&self, op: BinaryOp, a: &HostExpr, b: &HostExpr) -> Option<Range> {
        let a = self.host_range(a)?;
        // Whatever it is divided by, a number that is not negative becomes no larger; by zero, all ones.
        let any = |(least, most): Range| least.checked_neg().map(|l| (most.max(l).checked_neg().unwrap_or(least).min(-1), most.max(l)));
        match (op, self.host_range(b)) {
            (BinaryOp::Div, Some(b)) if b.0 > 0 => Some((a.0.min(0), a.1.max(0))),
            (BinaryOp::Div, _) => any(a),
            (BinaryOp::Rem, _) => Some((a.0.min(0), a.1.max(0))),
            (_, b) => range::binary(op, a, b?),
        }
    }

    /// A product of all lengths of one packed tensor.
    fn counts_elements(&self, e: &HostExpr) -> bool {
        fn factors(e: &HostExpr, out: &mut Vec<(usize, usize)>) -> bool {
            match e {
                HostExpr::Dim(p, k) => out.push((*p, *k)),
                HostExpr::Binary(BinaryOp::Mul, a, b) => return factors(a, out) && factors(b, out),
                _ => return false,
            }
            true
        }
        let mut dims = Vec::new();
        if !factors(e, &mut dims) {
            return false;
        }
        dims.sort_unstable();
        let Some(tensor) = dims.first().and_then(|(p, _)| self.facts.tensors[*p].as_ref().map(|t| (*p, t))) else { return false };
        tensor.1.packed && dims == (0..tensor.1.lens.len()).map(|k| (tensor.0, k)).collect::<Vec<_>>()
    }
}
