//! Kernel parameters: pointers, scalars, and the integers that the host computes.

use super::context::Expander;
use crate::block::HostExpr;
use crate::block::{self, Kernel};
use girih_ir::simt::{Expr, Param, ParamKind};
use girih_ir::types::{BinaryOp, DType};

impl Expander<'_> {
    /// A host expression in index arithmetic: lengths are parameters, sums are computed, the rest becomes a parameter of its own.
    pub fn host_index(&mut self, e: &HostExpr, name: &str) -> Expr {
        match e {
            HostExpr::Const(c) => self.ix.lit(*c),
            HostExpr::Dim(p, k) if self.kernel.lengths.constant.contains_key(&(*p, *k)) => {
                self.ix.lit(self.kernel.lengths.constant[&(*p, *k)])
            }
            HostExpr::Dim(p, k) => {
                let (p, k) = self.kernel.class_of(*p, *k);
                let name = dim_name(self.kernel, p, k);
                self.host_param(&HostExpr::Dim(p, k), &name)
            }
            HostExpr::Stride(p, k) => match self.kernel.params[*p].known() {
                Some(t) if t.packed => {
                    let rank = t.lens.len();
                    (k + 1..rank).fold(self.ix.lit(1), |product, j| {
                        let dim = self.host_index(&HostExpr::Dim(*p, j), name);
                        self.ix.mul(product, dim)
                    })
                }
                Some(t) if t.is_unit_stride(*k) => self.ix.lit(1),
                _ => {
                    let name = format!("{}_stride{k}", self.kernel.params[*p].name);
                    self.host_param(e, &name)
                }
            },
            HostExpr::Binary(BinaryOp::Add, a, b) => {
                let (a, b) = (self.host_index(a, name), self.host_index(b, name));
                self.ix.add(a, b)
            }
            HostExpr::Binary(BinaryOp::Sub, a, b) => {
                let (a, b) = (self.host_index(a, name), self.host_index(b, name));
                self.ix.sub(a, b)
            }
            HostExpr::Binary(BinaryOp::Mul, a, b)
                if matches!(**a, HostExpr::Const(_)) || matches!(**b, HostExpr::Const(_)) || matches!(**b, HostExpr::Stride(..)) =>
            {
                let (a, b) = (self.host_index(a, name), self.host_index(b, name));
                self.ix.mul(a, b)
            }
            HostExpr::Wrap(_, inner) if self.kernel.host_range(e) == self.kernel.host_range(inner) => self.host_index(inner, name),
            HostExpr::Scalar(_) | HostExpr::Multiprocessors | HostExpr::Binary(..) | HostExpr::Wrap(..) => self.host_param(e, name),
        }
    }

    /// The parameter with this value; made at its first use.
    pub fn host_param(&mut self, e: &HostExpr, name: &str) -> Expr {
        self.host_param_of(self.ix.dtype, e, name)
    }

    /// The parameter of this type with this value.
    pub fn host_param_of(&mut self, dtype: DType, e: &HostExpr, name: &str) -> Expr {
        let is_it = |p: &Param| matches!(&p.kind, ParamKind::Host { dtype: d, value } if *d == dtype && value == e);
        let found = self.params.iter().position(is_it);
        let at = found.unwrap_or_else(|| {
            let taken = |n: &str| self.params.iter().any(|p| p.name == n);
            let unique =
                if taken(name) { (1..).map(|i| format!("{name}_{i}")).find(|n| !taken(n)).unwrap_or_default() } else { name.to_string() };
            self.params.push(Param { name: unique, kind: ParamKind::Host { dtype, value: e.clone() } });
            self.params.len() - 1
        });
        Expr::Param(at)
    }
}

/// The parameter for a parameter of the author's.
pub(crate) fn pointer_or_scalar(page: &Kernel, p: usize) -> Param {
    let param = &page.params[p];
    let kind = match &param.kind {
        block::ParamKind::Tensor { dtype, constant: Some(len), .. } => ParamKind::Constant { tensor: p, dtype: *dtype, len: *len },
        block::ParamKind::Tensor { dtype, written, restrict, .. } => {
            ParamKind::Pointer { tensor: p, dtype: *dtype, writable: *written, restrict: *restrict, align: param.align() as u32 }
        }
        block::ParamKind::Scalar(dtype) => {
            let demanded = Some(HostExpr::Scalar(p)).filter(|e| page.lengths.demands.limit(e));
            ParamKind::Scalar { scalar: p, dtype: *dtype, range: demanded.and_then(|e| page.host_range(&e)) }
        }
    };
    Param { name: param.name.clone(), kind }
}

/// `x_len` of a vector, `x_rows` and `x_cols` of a matrix, `x_dim0` and so on above.
fn dim_name(kernel: &Kernel, param: usize, axis: usize) -> String {
    let name = &kernel.params[param].name;
    let block::ParamKind::Tensor { rank, .. } = kernel.params[param].kind else { panic!("lowering: parameter {name} has no length") };
    match (rank, axis) {
        (1, _) => format!("{name}_len"),
        (2, 0) => format!("{name}_rows"),
        (2, _) => format!("{name}_cols"),
        _ => format!("{name}_dim{axis}"),
    }
}
