//! Between which numbers an integer surely lies: what makes a check of a computed position unnecessary.

use super::index::as_literal;
use crate::block::Kernel;
use crate::block::range::{Range, binary, host, of_type};
use girih_ir::simt::{Expr, Param, ParamKind, Special, VarId, expr_dtype};
use girih_ir::types::UnaryOp;
use std::collections::HashMap;

/// What is known of a launch.
pub(crate) struct Launch {
    /// Threads of a block.
    pub threads: i64,
    /// Blocks, at most.
    pub blocks: i64,
    /// Between which numbers parameters lie, by the facts; none for all further ones.
    pub given: Vec<Option<Range>>,
}

impl Launch {
    /// As many blocks as there may be, of so many threads, with any arguments.
    pub fn any(threads: i64) -> Launch {
        Launch { threads, blocks: i64::from(i32::MAX), given: Vec::new() }
    }

    /// What is known of a kernel that was written out from a page.
    pub fn of(page: &Kernel, kernel: &girih_ir::simt::Kernel) -> Launch {
        let given = |param: &Param| match &param.kind {
            ParamKind::Host { value, .. } => page.host_range(value),
            _ => None,
        };
        let any = Launch::any(i64::from(kernel.launch.block));
        let blocks = page.host_range(&kernel.launch.grid).map_or(any.blocks, |grid| grid.1.clamp(1, any.blocks));
        Launch { blocks, given: kernel.params.iter().map(given).collect(), ..any }
    }
}

/// What is known of variables.
pub(crate) struct Known<'a> {
    pub vars: &'a [girih_ir::simt::Var],
    pub params: &'a [girih_ir::simt::Param],
    /// Of variables, and of all elements of arrays.
    pub ranges: &'a HashMap<VarId, Range>,
    pub launch: &'a Launch,
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
                // What a launch cannot pass, it refuses.
                ParamKind::Host { value, .. } => {
                    let (least, most) = self.launch.given.get(*p).copied().flatten().unwrap_or(host(value));
                    Some((least.clamp(whole.0, whole.1), most.clamp(whole.0, whole.1)))
                }
                ParamKind::Scalar { range, .. } => *range,
                _ => None,
            },
            Expr::Special(Special::Thread) => Some((0, self.launch.threads - 1)),
            Expr::Special(Special::Lane | Special::Warp) => Some((0, 31)),
            Expr::Special(Special::Elected) => Some((0, 1)),
            Expr::Special(Special::Block) => Some((0, self.launch.blocks - 1)),
            Expr::Special(Special::GridDim) => Some((0, self.launch.blocks)),
            Expr::Cast(_, a) => self.range(a),
            Expr::Select(_, a, b) => self.range(a).zip(self.range(b)).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            Expr::Unary(UnaryOp::Neg, a) => self.range(a).and_then(|(least, most)| Some((most.checked_neg()?, least.checked_neg()?))),
            Expr::Binary(op, a, b) => self.range(a).zip(self.range(b)).and_then(|(a, b)| binary(*op, a, b)),
            _ => None,
        };
        Some(known.filter(|k| whole.0 <= k.0 && k.1 <= whole.1).unwrap_or(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::expand::index::{binary as apply, literal};
    use girih_ir::types::{BinaryOp, DType};

    #[test]
    fn ranges_follow_arithmetic_and_give_up_at_overflow() {
        let vars = [girih_ir::simt::Var { name: "x".into(), dtype: DType::I32, len: None }];
        let known = Known { vars: &vars, params: &[], ranges: &HashMap::new(), launch: &Launch::any(256) };
        let (x, thread) = (Expr::Var(VarId(0)), Expr::Special(Special::Thread));
        let lit = |v| literal(DType::I32, v);
        let of = |e: &Expr| known.range(e);
        let whole = Some((i32::MIN as i64, i32::MAX as i64));
        assert_eq!(of(&x), whole);
        assert_eq!(of(&apply(BinaryOp::And, x.clone(), lit(15))), Some((0, 15)));
        assert_eq!(of(&apply(BinaryOp::Add, x.clone(), lit(1))), whole, "may wrap");
        assert_eq!(of(&apply(BinaryOp::Rem, x.clone(), lit(8))), Some((-7, 7)), "negative remainders");
        assert_eq!(of(&apply(BinaryOp::Rem, lit(9), x.clone())), Some((0, 9)), "by zero, too");
        assert_eq!(of(&apply(BinaryOp::Rem, x.clone(), x.clone())), whole, "by zero, too");
        assert_eq!(of(&apply(BinaryOp::Div, x.clone(), apply(BinaryOp::Add, thread.clone(), lit(2)))), Some((-1 << 30, (1 << 30) - 1)));
        assert_eq!(of(&apply(BinaryOp::Div, lit(9), thread.clone())), Some((-1, 9)), "by zero");
        assert_eq!(of(&Expr::Unary(UnaryOp::Neg, Box::new(thread.clone()))), Some((-255, 0)));
        assert_eq!(of(&apply(BinaryOp::Add, apply(BinaryOp::Mul, thread.clone(), lit(4)), lit(3))), Some((3, 1023)));
        assert_eq!(of(&apply(BinaryOp::Rem, thread.clone(), lit(32))), Some((0, 31)));
        assert_eq!(of(&apply(BinaryOp::Xor, thread.clone(), lit(96))), Some((0, 255)));
        assert_eq!(of(&apply(BinaryOp::Or, lit(4), lit(8))), Some((0, 15)));
        assert_eq!(of(&apply(BinaryOp::Xor, thread.clone(), lit(-1))), Some((-256, 255)));
        assert_eq!(of(&apply(BinaryOp::And, x.clone(), apply(BinaryOp::Sub, thread.clone(), lit(1)))), whole, "no bit but theirs");
        assert_eq!(of(&apply(BinaryOp::Or, apply(BinaryOp::Sub, thread.clone(), lit(300)), lit(7))), Some((-512, 511)));
        assert_eq!(of(&apply(BinaryOp::Sub, lit(63), thread.clone())), Some((-192, 63)));
        assert_eq!(of(&Expr::Cast(DType::U32, Box::new(apply(BinaryOp::Sub, lit(0), thread)))), Some((0, u32::MAX as i64)), "wraps");
    }
}
