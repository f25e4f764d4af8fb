//! Kernel parameters: pointers, scalars, and the integers that the host computes.

use super::context::Lowering;
use crate::plan::gcd;
use girih_ir::facts::{Facts, MAX_DIVISOR, power_within};
use girih_ir::simt::{Expr, Param, ParamKind};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, Kernel};
use girih_ir::types::{BinaryOp, DType};

impl Lowering<'_> {
    /// By what a host expression is surely divisible, by the facts.
    pub fn host_multiple(&self, e: &HostExpr) -> i64 {
        match e {
            HostExpr::Const(0) => 1 << 20,
            HostExpr::Const(c) => c.saturating_abs(),
            HostExpr::Dim(p, k) if self.dim_constant.contains_key(&(*p, *k)) => self.dim_constant[&(*p, *k)].max(1),
            HostExpr::Dim(p, k) => {
                let class = self.class_of(*p, *k);
                let of = |(p, k): (usize, usize)| self.facts.tensors[p].as_ref().map_or(1, |t| t.lens[k] as i64);
                self.dim_class.iter().filter(|(_, c)| **c == class).map(|(d, _)| of(*d)).chain([of((*p, *k))]).max().unwrap_or(1)
            }
            HostExpr::Stride(p, k) => match &self.facts.tensors[*p] {
                Some(t) if t.packed => (k + 1..t.lens.len()).map(|j| self.host_multiple(&HostExpr::Dim(*p, j))).product(),
                Some(t) => t.strides[*k] as i64,
                None => 1,
            },
            HostExpr::Scalar(_) | HostExpr::Multiprocessors => 1,
            HostExpr::Binary(BinaryOp::Mul, a, b) => self.host_multiple(a).saturating_mul(self.host_multiple(b)).min(1 << 20),
            HostExpr::Binary(BinaryOp::Div, a, b) => match **b {
                HostExpr::Const(c) if c > 0 && self.host_multiple(a) % c == 0 => self.host_multiple(a) / c,
                _ => 1,
            },
            HostExpr::Wrap(_, e) => power_within(self.host_multiple(e) as u64, MAX_DIVISOR) as i64,
            HostExpr::Binary(BinaryOp::Rem, ..) => 1,
            HostExpr::Binary(_, a, b) => gcd(self.host_multiple(a), self.host_multiple(b)),
        }
    }

    fn class_of(&self, param: usize, axis: usize) -> (usize, usize) {
        self.dim_class.get(&(param, axis)).copied().unwrap_or((param, axis))
    }

    /// A host expression in index arithmetic: lengths are parameters, sums are computed, the rest becomes a parameter of its own.
    pub fn host_index(&mut self, e: &HostExpr, name: &str) -> Expr {
        match e {
            HostExpr::Const(c) => self.ix.lit(*c),
            HostExpr::Dim(p, k) if self.dim_constant.contains_key(&(*p, *k)) => self.ix.lit(self.dim_constant[&(*p, *k)]),
            HostExpr::Dim(p, k) => {
                let (p, k) = self.class_of(*p, *k);
                let name = dim_name(self.kernel, p, k);
                self.host_param(&HostExpr::Dim(p, k), &name)
            }
            HostExpr::Stride(p, k) => match &self.facts.tensors[*p] {
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
            HostExpr::Wrap(_, inner) if self.host_range(e) == self.host_range(inner) => self.host_index(inner, name),
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

/// The parameter for a parameter of the tile kernel.
pub(crate) fn pointer_or_scalar(kernel: &Kernel, facts: &Facts, written: &[bool], p: usize, param: &tile::Param) -> Param {
    let kind = match param.kind {
        tile::ParamKind::Tensor { dtype, .. } => {
            let align = facts.tensors[p].as_ref().map_or(dtype.size() as u32, |t| t.align);
            ParamKind::Pointer { tensor: p, dtype, writable: written[p], restrict: facts.noalias, align }
        }
        tile::ParamKind::Scalar(dtype) => ParamKind::Scalar { scalar: p, dtype },
    };
    debug_assert!(kernel.params.len() > p);
    Param { name: param.name.clone(), kind }
}

/// `x_len` of a vector, `x_rows` and `x_cols` of a matrix, `x_dim0` and so on above.
fn dim_name(kernel: &Kernel, param: usize, axis: usize) -> String {
    let name = &kernel.params[param].name;
    let tile::ParamKind::Tensor { rank, .. } = kernel.params[param].kind else { panic!("lowering: parameter {name} has no length") };
    match (rank, axis) {
        (1, _) => format!("{name}_len"),
        (2, 0) => format!("{name}_rows"),
        (2, _) => format!("{name}_cols"),
        _ => format!("{name}_dim{axis}"),
    }
}
