//! Numbers that the host knows, where they are values: an index fits the type of indices because the facts say so, a value is as wide as
//! its type.

use super::context::Expander;
use crate::block::HostExpr;
use crate::block::ParamKind;
use girih_ir::simt::Expr;
use girih_ir::types::DType;

impl Expander<'_> {
    /// The number, and the type in which it is computed: that of indices where the facts bound it, 64 bits otherwise.
    pub fn host_number(&mut self, e: &HostExpr, name: &str) -> (DType, Expr) {
        if let HostExpr::Scalar(p) = e
            && let ParamKind::Scalar(dtype) = self.kernel.params[*p].kind
            && (dtype.size() == 8 || !self.kernel.fits_index(e))
        {
            return (dtype, Expr::Param(*p));
        }
        match e {
            _ if self.kernel.fits_index(e) => (self.ix.dtype, self.host_index(e, name)),
            HostExpr::Const(c) => (DType::I64, super::index::literal(DType::I64, *c)),
            _ => (DType::I64, self.host_param_of(DType::I64, e, name)),
        }
    }
}
