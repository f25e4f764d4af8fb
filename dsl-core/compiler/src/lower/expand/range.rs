//! Between which numbers an integer surely lies: what makes a check of a computed position unnecessary.

use super::index::as_literal;
use crate::block::range::{Range, binary, host, of_type};
use girih_ir::simt::{Expr, ParamKind, Special, VarId, expr_dtype};
use std::collections::HashMap;

/// What is known of variables.
pub(crate) struct Known<'a> {
    pub vars: &'a [girih_ir::simt::Var],
    pub params: &'a [girih_ir::simt::Param],
    /// Of variables, and of all elements of arrays.
    pub ranges: &'a HashMap<VarId, Range>,
    pub threads: i64,
}

impl Known<'_> {
    /// Between which numbers `e` surely lies; no more than its type says where nothing is known, `None` for floats and u64.
    pub fn range(&self, e: &Expr) -> Option<Range> {
        let dtype = expr_dtype(e, self.vars, self.params);
        let whole = of_type(dtype)?;
        let known = match e {
            Expr::Literal(_) => as_literal(e).map(|x| (x, x)),
            Expr::Var(v) | Expr::Element(v, _) => self.ranges.get(v).copied(),
            Expr::Param(p) => match &self.params[*p].kind {
                ParamKind::Host { value, .. } => Some(host(value)),
                _ => None,
            },
            Expr::Special(Special::Thread) => Some((0, self.threads - 1)),
            Expr::Special(Special::Lane | Special::Warp) => Some((0, 31)),
            Expr::Special(Special::Block | Special::GridDim) => Some((0, i32::MAX as i64)),
            Expr::Cast(_, a) => self.range(a),
            Expr::Select(_, a, b) => self.range(a).zip(self.range(b)).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            Expr::Binary(op, a, b) => self.range(a).zip(self.range(b)).and_then(|(a, b)| binary(*op, a, b)),
            _ => None,
        };
        Some(known.filter(|k| whole.0 <= k.0 && k.1 <= whole.1).unwrap_or(whole))
    }
}
