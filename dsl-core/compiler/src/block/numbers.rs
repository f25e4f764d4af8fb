//! What is known of the numbers that the host computes of a launch's arguments, by what every launch promises.

use super::range::{Range, binary, of_type};
use super::{HostExpr, Kernel, ParamKind, ValueId};
use crate::plan::gcd;
use girih_ir::facts::{INDEX32_LIMIT, MAX_DIVISOR, power_within};
use girih_ir::types::{BinaryOp, DType};

/// No tensor has more elements along an axis: addresses have 47 bits.
const LONGEST: i64 = 1 << 47;
/// Divisibility beyond this power of two is not tracked.
pub(crate) const MOST: i64 = 1 << 20;

/// A divisor of what `divisor` divides that is small enough to be tracked.
pub(crate) fn tracked(divisor: i64) -> i64 {
    if (0..=MOST).contains(&divisor) { divisor } else { gcd(divisor, MOST) }
}

impl Kernel {
    /// By what a host expression is surely divisible, by the facts and by what the kernel demands.
    pub fn host_multiple(&self, e: &HostExpr) -> i64 {
        let (own, demanded) = (self.multiple_by_facts(e), tracked(self.lengths.demands.get(e).multiple));
        // Both divide it.
        tracked(own.saturating_mul(demanded / gcd(own, demanded).max(1)))
    }

    fn multiple_by_facts(&self, e: &HostExpr) -> i64 {
        match e {
            HostExpr::Const(0) => MOST,
            HostExpr::Const(c) => c.saturating_abs(),
            HostExpr::Dim(p, k) if self.lengths.constant.contains_key(&(*p, *k)) => self.lengths.constant[&(*p, *k)].max(1),
            HostExpr::Dim(p, k) => {
                let class = self.class_of(*p, *k);
                let of = |(p, k): (usize, usize)| {
                    let demanded = tracked(self.lengths.demands.get(&HostExpr::Dim(p, k)).multiple);
                    self.params[p].known().map_or(1, |t| t.lens[k] as i64).max(demanded)
                };
                self.lengths.class.iter().filter(|(_, c)| **c == class).map(|(d, _)| of(*d)).chain([of((*p, *k))]).max().unwrap_or(1)
            }
            HostExpr::Stride(p, k) => match self.params[*p].known() {
                Some(t) if t.packed => (k + 1..t.lens.len()).map(|j| self.host_multiple(&HostExpr::Dim(*p, j))).product(),
                Some(t) => t.strides[*k] as i64,
                None => 1,
            },
            HostExpr::Scalar(_) | HostExpr::Multiprocessors => 1,
            HostExpr::Binary(BinaryOp::Mul, a, b) => tracked(self.host_multiple(a).saturating_mul(self.host_multiple(b))),
            HostExpr::Binary(BinaryOp::Div, a, b) => match **b {
                HostExpr::Const(c) if c > 0 && self.host_multiple(a) % c == 0 => self.host_multiple(a) / c,
                _ => 1,
            },
            HostExpr::Wrap(_, e) => power_within(self.host_multiple(e) as u64, MAX_DIVISOR) as i64,
            HostExpr::Binary(BinaryOp::Rem, ..) => 1,
            HostExpr::Binary(_, a, b) => gcd(self.host_multiple(a), self.host_multiple(b)),
        }
    }

    /// The length that stands for all that are equal to one.
    pub fn class_of(&self, param: usize, axis: usize) -> (usize, usize) {
        self.lengths.class.get(&(param, axis)).copied().unwrap_or((param, axis))
    }

    /// The most elements that an axis has, if that is known.
    fn longest(&self, param: usize, axis: usize) -> Option<i64> {
        let most = *self.params[param].known()?.most.get(axis)?;
        (most > 0).then_some(i64::from(most))
    }

    /// Whether the number, and all that kernels compute on the way to it, surely fits the type of indices.
    pub fn fits_index(&self, e: &HostExpr) -> bool {
        let fits = match self.index {
            DType::I32 => (i32::MIN as i64, i32::MAX as i64),
            _ => (i64::MIN, i64::MAX),
        };
        let own = self.host_range(e).is_some_and(|r| fits.0 <= r.0 && r.1 <= fits.1);
        own && match e {
            HostExpr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => self.fits_index(a) && self.fits_index(b),
            _ => true,
        }
    }

    /// Between which numbers it lies by the facts and by what the kernel demands; `None` where it may wrap.
    pub fn host_range(&self, e: &HostExpr) -> Option<Range> {
        let (own, demanded) = (self.range_by_facts(e)?, self.lengths.demands.get(e).range);
        // No launch meets what contradicts itself.
        Some((own.0.max(demanded.0), own.1.min(demanded.1))).filter(|(least, most)| least <= most).or(Some(own))
    }

    fn range_by_facts(&self, e: &HostExpr) -> Option<Range> {
        let longest = if self.index == DType::I32 { INDEX32_LIMIT } else { LONGEST };
        match e {
            HostExpr::Const(c) => Some((*c, *c)),
            HostExpr::Dim(p, k) if self.lengths.constant.contains_key(&(*p, *k)) => {
                let len = self.lengths.constant[&(*p, *k)];
                Some((len, len))
            }
            HostExpr::Dim(p, k) => Some((0, self.longest(*p, *k).unwrap_or(longest))),
            HostExpr::Stride(p, k) if self.params[*p].known().is_some_and(|t| t.is_unit_stride(*k)) => Some((1, 1)),
            // What a launch cannot pass, it refuses.
            HostExpr::Stride(..) => of_type(self.index),
            HostExpr::Scalar(p) => match self.params[*p].kind {
                ParamKind::Scalar(dtype) => of_type(dtype),
                ParamKind::Tensor { .. } => None,
            },
            HostExpr::Multiprocessors => Some((1, i32::MAX as i64)),
            HostExpr::Binary(BinaryOp::Mul, ..) if self.counts_elements(e) => Some((0, longest)),
            HostExpr::Binary(op, a, b) => self.quotient_range(*op, a, b),
            HostExpr::Wrap(dtype, inner) => {
                let all = of_type(*dtype)?;
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
            (_, b) => binary(op, a, b?),
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
        let Some(tensor) = dims.first().and_then(|(p, _)| self.params[*p].known().map(|t| (*p, t))) else { return false };
        tensor.1.packed && dims == (0..tensor.1.lens.len()).map(|k| (tensor.0, k)).collect::<Vec<_>>()
    }

    /// Whether the facts say that two scalars which the host computes are the same number.
    pub fn same_number(&self, a: ValueId, b: ValueId) -> bool {
        let standing_for = |v: ValueId| match self.value(v).host.as_ref()? {
            HostExpr::Dim(p, k) => Some(self.class_of(*p, *k)),
            _ => None,
        };
        let alike = |x: Option<(usize, usize)>, y| x.is_some() && x == y;
        a == b || alike(standing_for(a), standing_for(b)) || self.constant(a).is_some() && self.constant(a) == self.constant(b)
    }

    /// The constant value of a scalar that the host computes, given the facts.
    pub fn constant(&self, value: ValueId) -> Option<i64> {
        self.constant_of(&self.value(value).host.clone()?)
    }

    fn constant_of(&self, e: &HostExpr) -> Option<i64> {
        match e {
            HostExpr::Const(c) => Some(*c),
            HostExpr::Dim(p, k) => self.lengths.constant.get(&(*p, *k)).copied(),
            HostExpr::Stride(p, k) => match self.params[*p].known() {
                Some(t) if t.packed => (k + 1..t.lens.len()).map(|j| self.constant_of(&HostExpr::Dim(*p, j))).product(),
                Some(t) if t.is_unit_stride(*k) => Some(1),
                _ => None,
            },
            HostExpr::Binary(BinaryOp::Add, a, b) => Some(self.constant_of(a)? + self.constant_of(b)?),
            HostExpr::Binary(BinaryOp::Sub, a, b) => Some(self.constant_of(a)? - self.constant_of(b)?),
            HostExpr::Binary(BinaryOp::Mul, a, b) => Some(self.constant_of(a)? * self.constant_of(b)?),
            HostExpr::Wrap(_, inner) => self.constant_of(inner),
            HostExpr::Scalar(_) | HostExpr::Multiprocessors | HostExpr::Binary(..) => None,
        }
    }
}
