//! 64-bit integers that 32 bits hold. Variables and loop counters whose every value lies in an i32 become one, comparisons and quotients of such
//! numbers are made in 32 bits, and what was widened is not narrowed again.
//!
//! Before: `const long long s = i * 16; for (long long k = 0; k < n; ++k) .. x[(int)s * n + (int)k]`
//! After:  `const int s = i * 16; for (int k = 0; k < n; ++k) .. x[s * n + k]`
//!
//! Every expression keeps its value: what may not fit stays as it is, and so do elements of memory. Arithmetic on what was narrowed may wrap,
//! where it is no index: it is done on unsigned numbers then, as C asks for.

pub(super) mod ranges;

use crate::block::range::{Range, of_type};
use crate::cuda::wrap::Data;
use crate::lower::expand::index::literal;
use crate::lower::expand::range::{Known, Launch};
use girih_ir::simt::visit::{blocks, children, each_expr, each_part, inner_blocks, received};
use girih_ir::simt::{Expr, Kernel, Place, Space, Stmt, VarId, expr_dtype};
use girih_ir::types::{BinaryOp, DType, Literal, UnaryOp};
use std::collections::{BTreeSet, HashMap};

/// Narrows what fits 32 bits.
pub(crate) fn narrow(kernel: &mut Kernel, launch: &Launch) {
    if !has_wide(&mut kernel.body) {
        return;
    }
    let ranges = ranges::of(kernel, launch);
    let mut narrowed = narrowed(kernel, &ranges, launch);
    let wrapping = Wrapping::of(kernel);
    loop {
        narrowed.iter().for_each(|v| kernel.vars[v.0 as usize].dtype = DType::I32);
        let mut body = kernel.body.clone();
        Narrower { kernel, ranges: &ranges, narrowed: &narrowed, launch, wrapping: &wrapping }.block(&mut body);
        let mut used = BTreeSet::new();
        read_as_they_are(&mut body, &mut used);
        let idle: Vec<VarId> = narrowed.difference(&used).copied().collect();
        if idle.is_empty() {
            kernel.body = body;
            return;
        }
        // What is widened wherever it is read is better off with 64 bits.
        for var in idle {
            kernel.vars[var.0 as usize].dtype = DType::I64;
            narrowed.remove(&var);
        }
    }
}

/// Whether anything is widened to 64 bits.
fn has_wide(block: &mut [Stmt]) -> bool {
    fn expr(e: &mut Expr) -> bool {
        let mut found = matches!(e, Expr::Cast(DType::I64, _) | Expr::Literal(Literal { dtype: DType::I64, .. }));
        children(e, &mut |c| found |= expr(c));
        found
    }
    block.iter_mut().any(|stmt| {
        let mut found = false;
        each_expr(stmt, &mut |e| found |= expr(e));
        found || blocks(stmt).into_iter().any(|b| has_wide(b))
    })
}

/// Finds the variables that are read somewhere without being widened.
fn read_as_they_are(block: &mut [Stmt], used: &mut BTreeSet<VarId>) {
    fn expr(e: &mut Expr, used: &mut BTreeSet<VarId>) {
        match e {
            Expr::Cast(DType::I64, a) if matches!(**a, Expr::Var(_)) => return,
            Expr::Cast(DType::I64, a) if matches!(**a, Expr::Element(..)) => return children(a, &mut |c| expr(c, used)),
            Expr::Var(v) | Expr::Element(v, _) => drop(used.insert(*v)),
            _ => {}
        }
        children(e, &mut |c| expr(c, used));
    }
    for stmt in block {
        each_expr(stmt, &mut |e| expr(e, used));
        blocks(stmt).into_iter().for_each(|b| read_as_they_are(b, used));
    }
}

/// Whether a range lies in that of an i32.
fn fits(range: Range) -> bool {
    i32::try_from(range.0).is_ok() && i32::try_from(range.1).is_ok()
}

/// The 64-bit variables that only statements of the thread's own set, all to numbers that fit 32 bits.
fn narrowed(kernel: &Kernel, ranges: &HashMap<VarId, Range>, launch: &Launch) -> BTreeSet<VarId> {
    let mut wide = BTreeSet::new();
    let known = Known { vars: &kernel.vars, params: &kernel.params, ranges, launch };
    keep_wide(&kernel.body, &known, &mut wide);
    let small = |v: &VarId| kernel.var(*v).dtype == DType::I64 && ranges.get(v).is_some_and(|r| fits(*r)) && !wide.contains(v);
    (0..kernel.vars.len() as u32).map(VarId).filter(small).collect()
}

/// Finds the variables that are read or written with others of their width, and counters that run beyond 32 bits.
fn keep_wide(block: &[Stmt], known: &Known, wide: &mut BTreeSet<VarId>) {
    for stmt in block {
        wide.extend(received(stmt));
        if let Stmt::StoreVector { var, .. } = stmt {
            wide.insert(*var);
        }
        if let Stmt::For { var, start, end, step, .. } = stmt
            && !counts_in_32_bits(known, [start, end, step])
        {
            wide.insert(*var);
        }
        inner_blocks(stmt).into_iter().for_each(|b| keep_wide(b, known, wide));
    }
}

/// Whether a counter, also once it has passed the end, and the numbers that it is compared with fit 32 bits. The end may lie below all of them
/// where the start says what takes its place.
fn counts_in_32_bits(known: &Known, [start, end, step]: [&Expr; 3]) -> bool {
    let (Some(first), Some(last), Some(by)) = (known.range(start), known.range(end), known.range(step)) else { return false };
    let passed = last.1.checked_add(by.1).is_some_and(|p| i32::try_from(p - 1).is_ok());
    let end_fits = fits(last) || matches!(start, Expr::Literal(_)) && i32::try_from(last.1).is_ok();
    passed && fits(first) && fits(by) && end_fits
}

/// Which arithmetic of a kernel C takes for arithmetic on data, and may so no longer once its operands are narrowed.
struct Wrapping {
    before: Kernel,
    data: Data,
    others: Data,
}

impl Wrapping {
    fn of(kernel: &Kernel) -> Wrapping {
        Wrapping { data: Data::of(kernel), others: Data::but_for_narrowing(kernel), before: kernel.clone() }
    }

    /// Whether an expression of the kernel as it was wraps on account of narrowed operands alone.
    fn by_narrowing(&self, e: &Expr) -> bool {
        let i32s = matches!(e, Expr::Unary(..) | Expr::Binary(..) | Expr::Ternary(..)) && self.before.dtype(e) == DType::I32;
        i32s && self.data.must_wrap(&self.before, e) && !self.others.must_wrap(&self.before, e)
    }
}

/// Rewrites statements over variables that have their new types.
struct Narrower<'a> {
    kernel: &'a Kernel,
    ranges: &'a HashMap<VarId, Range>,
    narrowed: &'a BTreeSet<VarId>,
    launch: &'a Launch,
    wrapping: &'a Wrapping,
}

impl Narrower<'_> {
    fn block(&self, block: &mut [Stmt]) {
        for stmt in block {
            each_part(stmt, &mut |e, is_index| self.rewrite(e, is_index));
            if let Stmt::Let { var, value } | Stmt::Declare { var, init: Some(value) } | Stmt::Assign { var, value, .. } = stmt
                && self.narrowed.contains(var)
            {
                self.cut(value);
            }
            if let Stmt::For { var, start, end, step, .. } = stmt
                && self.narrowed.contains(var)
            {
                if !self.range(end).is_some_and(fits) {
                    *end = Expr::Binary(BinaryOp::Max, Box::new(end.clone()), Box::new(start.clone()));
                }
                [start, end, step].into_iter().for_each(|e| self.cut(e));
            }
            blocks(stmt).into_iter().for_each(|b| self.block(b));
        }
    }

    /// Brings an expression to the new types of its variables; its own type stays.
    fn rewrite(&self, e: &mut Expr, in_index: bool) {
        let wraps = !in_index && self.wrapping.by_narrowing(e);
        match e {
            Expr::Load { place, predicate, .. } => {
                match self.off_one_base(place) {
                    Some(index) => place.index = index,
                    None => self.rewrite(&mut place.index, true),
                }
                predicate.iter_mut().for_each(|p| self.rewrite(p, false));
            }
            _ => children(e, &mut |c| self.rewrite(c, in_index)),
        }
        if wraps && self.range(e) == of_type(DType::I32) {
            *e = Expr::Cast(DType::I32, Box::new(self.unsigned(e)));
            return;
        }
        let new = match e {
            Expr::Var(v) | Expr::Element(v, _) if self.narrowed.contains(v) => Some(widened(e.clone())),
            Expr::Cast(to, a) if self.dtype(a) == DType::I64 => {
                let cut = *to == DType::I32 && self.wrapping.data.must_wrap(self.kernel, a);
                let low = || cut.then(|| self.low_bits(a)).flatten().map(|bits| self.cast(*to, bits));
                self.exact(a).map(|n| self.cast(*to, n)).or_else(low)
            }
            Expr::Compare(op, a, b) if self.dtype(a) == DType::I64 => {
                self.in_32_bits(a).zip(self.in_32_bits(b)).map(|(a, b)| Expr::Compare(*op, Box::new(a), Box::new(b)))
            }
            Expr::Compare(op, a, b) if self.dtype(a) == DType::U64 => {
                self.as_word(a).zip(self.as_word(b)).map(|(a, b)| Expr::Compare(*op, Box::new(a), Box::new(b)))
            }
            Expr::Binary(BinaryOp::Div | BinaryOp::Rem, ..) if self.dtype(e) == DType::I64 => self.in_32_bits(e).map(widened),
            _ => None,
        };
        if let Some(new) = new {
            *e = new;
        }
    }

    /// An unsigned number of 64 bits that was made of an i32, made of it with 32 bits: their order is the same.
    fn as_word(&self, e: &Expr) -> Option<Expr> {
        match e {
            Expr::Cast(DType::U64, a) if self.dtype(a) == DType::I32 => Some(Expr::Cast(DType::U32, a.clone())),
            Expr::Cast(DType::U64, a) => self.in_32_bits(a).map(|a| self.cast(DType::U32, a)),
            Expr::Literal(l) => i32::try_from(l.to_i64()).ok().map(|x| literal(DType::U32, i64::from(x))),
            _ => None,
        }
    }

    /// A narrower integer with the value of a 64-bit expression, of whatever type, without a cast that cuts anything off.
    fn exact(&self, e: &Expr) -> Option<Expr> {
        match e {
            Expr::Cast(DType::I64, a) if matches!(self.dtype(a), DType::I32 | DType::U32 | DType::I8 | DType::U8) => Some((**a).clone()),
            _ => self.in_32_bits(e),
        }
    }

    /// A 64-bit expression as an i32 of the same value, computed in 32 bits throughout.
    fn in_32_bits(&self, e: &Expr) -> Option<Expr> {
        use BinaryOp::{Add, And, Div, Max, Min, Mul, Or, Rem, Shr, Sub, Xor};
        match e {
            Expr::Cast(DType::I64, a) if self.range(a).is_some_and(fits) => Some(self.cast(DType::I32, (**a).clone())),
            Expr::Literal(l) => i32::try_from(l.to_i64()).ok().map(|x| literal(DType::I32, i64::from(x))),
            Expr::Binary(Shr, _, by) if !matches!(&**by, Expr::Literal(l) if (0..32).contains(&l.to_i64())) => None,
            Expr::Binary(op @ (Add | Sub | Mul | Div | Rem | Min | Max | And | Or | Xor | Shr), a, b)
                if self.range(e).is_some_and(fits) =>
            {
                Some(Expr::Binary(*op, Box::new(self.in_32_bits(a)?), Box::new(self.in_32_bits(b)?)))
            }
            Expr::Select(c, a, b) => Some(Expr::Select(c.clone(), Box::new(self.in_32_bits(a)?), Box::new(self.in_32_bits(b)?))),
            _ => None,
        }
    }

    /// The lower 32 bits of 64-bit sums and products, which need no more of their operands, on unsigned numbers.
    fn low_bits(&self, e: &Expr) -> Option<Expr> {
        let of = |e: &Expr| match e {
            Expr::Cast(DType::I64, a) if matches!(self.dtype(a), DType::I32 | DType::U32) => self.cast(DType::U32, (**a).clone()),
            Expr::Literal(l) => literal(DType::U32, l.to_i64() & i64::from(u32::MAX)),
            e => self.low_bits(e).unwrap_or_else(|| self.cast(DType::U32, e.clone())),
        };
        match e {
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
                Some(Expr::Binary(*op, Box::new(of(a)), Box::new(of(b))))
            }
            _ => None,
        }
    }

    /// Loads at constant distances from a number that 32 bits hold keep 64 bits where 32 might wrap: the number is made an address once, the
    /// distances are parts of the instructions. None of these is below 0 or beyond 32 bits: what would wrap comes out below 0, where nothing is read.
    fn off_one_base(&self, place: &Place) -> Option<Expr> {
        let (Space::Global(_), Expr::Cast(DType::I32, index)) = (place.space, &place.index) else { return None };
        let mut index = (**index).clone();
        self.rewrite(&mut index, true);
        let Expr::Binary(BinaryOp::Add, base, distance) = &index else { return None };
        let small = matches!(**base, Expr::Cast(DType::I64, _) | Expr::Var(_)) && self.range(base).is_some_and(fits);
        let near = matches!(&**distance, Expr::Literal(l) if (0..=i64::from(i32::MAX)).contains(&l.to_i64()));
        (small && near && !self.range(&index).is_some_and(fits)).then_some(index)
    }

    /// Makes an i32 of a 64-bit expression whose value is known to fit.
    fn cut(&self, e: &mut Expr) {
        *e = self.in_32_bits(e).unwrap_or_else(|| Expr::Cast(DType::I32, Box::new(e.clone())));
    }

    /// The bits of 32-bit arithmetic, by unsigned numbers.
    fn unsigned(&self, e: &Expr) -> Expr {
        let of = |e: &Expr| {
            Box::new(match e {
                Expr::Cast(DType::I32, a) if self.dtype(a) == DType::U32 => (**a).clone(),
                Expr::Literal(l) => literal(DType::U32, l.to_i64()),
                e => Expr::Cast(DType::U32, Box::new(e.clone())),
            })
        };
        match e {
            Expr::Unary(UnaryOp::Neg, a) => Expr::Binary(BinaryOp::Sub, Box::new(literal(DType::U32, 0)), of(a)),
            Expr::Binary(op, a, b) => Expr::Binary(*op, of(a), of(b)),
            Expr::Ternary(op, a, b, c) => Expr::Ternary(*op, of(a), of(b), of(c)),
            other => panic!("narrow: {other:?} is no arithmetic"),
        }
    }

    fn cast(&self, to: DType, e: Expr) -> Expr {
        if self.dtype(&e) == to { e } else { Expr::Cast(to, Box::new(e)) }
    }

    fn dtype(&self, e: &Expr) -> DType {
        expr_dtype(e, &self.kernel.vars, &self.kernel.params)
    }

    fn range(&self, e: &Expr) -> Option<Range> {
        let (vars, params) = (&self.kernel.vars, &self.kernel.params);
        Known { vars, params, ranges: self.ranges, launch: self.launch }.range(e)
    }
}

/// The same number in 64 bits.
fn widened(e: Expr) -> Expr {
    Expr::Cast(DType::I64, Box::new(e))
}

#[cfg(test)]
mod tests;
