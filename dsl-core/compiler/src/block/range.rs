//! Between which numbers integers surely lie.

use super::{HostExpr, Kernel, Op, Stmt, ValueId, visit};
use girih_ir::types::{BinaryOp, DType};
use std::collections::HashMap;

/// Least and greatest value.
pub(crate) type Range = (i64, i64);

/// The values of a type, where i64 holds them all.
pub(crate) fn of_type(dtype: DType) -> Option<Range> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::I8 => (i8::MIN as i64, i8::MAX as i64),
        DType::U8 => (0, u8::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        DType::U32 => (0, u32::MAX as i64),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::U64 | DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => return None,
    })
}

/// Between which numbers what the host computes lies: anywhere, where nothing is known.
pub(crate) fn host(value: &HostExpr) -> Range {
    let known = match value {
        HostExpr::Const(c) => Some((*c, *c)),
        HostExpr::Dim(..) => Some((0, i64::MAX)),
        HostExpr::Multiprocessors => Some((1, i64::MAX)),
        HostExpr::Binary(op, a, b) => binary(*op, host(a), host(b)),
        HostExpr::Wrap(dtype, e) => of_type(*dtype).map(|all| within(host(e), all).unwrap_or(all)),
        HostExpr::Stride(..) | HostExpr::Scalar(_) => None,
    };
    known.unwrap_or((i64::MIN, i64::MAX))
}

/// The range, if it lies in another one.
fn within(range: Range, all: Range) -> Option<Range> {
    (all.0 <= range.0 && range.1 <= all.1).then_some(range)
}

/// The range of `a op b` without overflow of i64; overflow of the type is the caller's to look for.
pub(crate) fn binary(op: BinaryOp, a: Range, b: Range) -> Option<Range> {
    let corners = |f: fn(i64, i64) -> Option<i64>| {
        let all = [f(a.0, b.0)?, f(a.0, b.1)?, f(a.1, b.0)?, f(a.1, b.1)?];
        Some((*all.iter().min()?, *all.iter().max()?))
    };
    match op {
        BinaryOp::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        BinaryOp::Sub => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        BinaryOp::Mul => corners(i64::checked_mul),
        BinaryOp::Div if b.0 > 0 => corners(i64::checked_div),
        // By zero, all ones.
        BinaryOp::Div if b.0 == 0 => binary(op, a, (1, b.1.max(1))).map(|r| (r.0.min(-1), r.1.max(-1))),
        // By zero, the number itself; its sign is that of `a`.
        BinaryOp::Rem => {
            let most = if b.0 > 0 { b.1 - 1 } else { i64::MAX };
            let least = if b.0 > 0 { -most } else { i64::MIN };
            Some((a.0.min(0).max(least), a.1.max(0).min(most)))
        }
        BinaryOp::And if a.0 >= 0 || b.0 >= 0 => {
            let most = [a, b].iter().filter(|r| r.0 >= 0).map(|r| r.1).min()?;
            Some((0, most))
        }
        // No bit above the highest one of either.
        BinaryOp::Or | BinaryOp::Xor if a.0 >= 0 && b.0 >= 0 => Some((0, i64::MAX >> ((a.1 | b.1).leading_zeros() - 1))),
        // Above the bits of the wider one there are copies of the sign in both, and in what comes of them.
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
            let width = [a.0, a.1, b.0, b.1].map(|x| 64 - (x ^ (x >> 63)).leading_zeros()).into_iter().max()?;
            Some(if width == 63 { (i64::MIN, i64::MAX) } else { (-1 << width, (1 << width) - 1) })
        }
        BinaryOp::Shr if b.0 == b.1 && (0..63).contains(&b.0) => Some((a.0 >> b.0, a.1 >> b.0)),
        BinaryOp::Min => Some((a.0.min(b.0), a.1.min(b.1))),
        BinaryOp::Max => Some((a.0.max(b.0), a.1.max(b.1))),
        _ => None,
    }
}

/// Between which numbers the values of a page lie.
pub(crate) struct Ranges<'k> {
    page: &'k Kernel,
    ops: HashMap<ValueId, &'k Op>,
}

impl<'k> Ranges<'k> {
    pub fn new(page: &'k Kernel) -> Ranges<'k> {
        let mut ops = HashMap::new();
        visit(&page.body, &mut |stmt| {
            if let Stmt::Let(v, op) = stmt {
                ops.insert(*v, op);
            }
        });
        Ranges { page, ops }
    }

    /// Between which numbers a scalar, or every element of a tile, lies; `None` for floats and u64.
    pub fn of(&self, value: ValueId) -> Option<Range> {
        let whole = of_type(self.page.ty(value).dtype()?)?;
        let known = match (&self.page.value(value).host, self.ops.get(&value)) {
            (Some(e), _) => Some(host(e)),
            (None, Some(op)) => self.made(value, op),
            (None, None) => None,
        };
        Some(known.filter(|k| whole.0 <= k.0 && k.1 <= whole.1).unwrap_or(whole))
    }

    fn made(&self, value: ValueId, op: &Op) -> Option<Range> {
        match op {
            Op::Literal(l) => l.dtype.is_int().then(|| (l.to_i64(), l.to_i64())),
            Op::Iota => self.page.ty(value).shape().map(|s| (0, s[0] - 1)),
            Op::Coordinates(_) | Op::Start(_) | Op::End(_) | Op::Number(_) => Some((0, of_type(self.page.index)?.1)),
            Op::Binary(op, a, b) => binary(*op, self.of(*a)?, self.of(*b)?),
            Op::Select(_, a, b) => self.of(*a).zip(self.of(*b)).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            Op::Splat(v) | Op::Cast(v) | Op::Broadcast(v, _) | Op::Transpose(v, _) | Op::Within(v, _) => self.of(*v),
            Op::Like { value, .. } | Op::Pick { tile: value, .. } => self.of(*value),
            _ => None,
        }
    }

    /// Whether a number surely counts one of so many elements.
    pub fn lies_below(&self, value: ValueId, len: i64) -> bool {
        self.of(value).is_some_and(|(least, most)| least >= 0 && most < len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_what_the_host_computes_holds_though_the_rest_is_unknown() {
        let both = |op, a, b| HostExpr::Binary(op, Box::new(a), Box::new(b));
        let unknown = both(BinaryOp::Sub, HostExpr::Scalar(0), HostExpr::Const(1));
        assert_eq!(host(&unknown), (i64::MIN, i64::MAX), "may wrap");
        let at_most = both(BinaryOp::Min, unknown, HostExpr::Const(32));
        assert_eq!(host(&at_most), (i64::MIN, 32));
        assert_eq!(host(&both(BinaryOp::Max, at_most, HostExpr::Const(0))), (0, 32));
    }
}
