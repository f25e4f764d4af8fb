//! Operations and combinations: the types of their operands fit each other and the result.

use super::{Checked, Checker, ensure};
use crate::tile::{Combine, Fold, Form, Op, Operator, ParamKind, Size, Stmt, Ty, ValueId};
use crate::types::DType;

impl Checker<'_> {
    pub(super) fn op(&mut self, v: ValueId, op: &Op) -> Checked {
        let kernel = self.kernel;
        let result = kernel.values.get(v.0 as usize).map(|v| &v.ty).ok_or_else(|| format!("value {} does not exist", v.0))?;
        let wrong = || format!("value {}: {op:?} gives {result:?}", v.0);
        let scalar_of = |d: DType| ensure(*result == Ty::Scalar(d), wrong);
        let shape = |ty: &Ty| ty.shape().map(<[Size]>::to_vec).unwrap_or_default();
        match op {
            Op::Literal(l) => scalar_of(l.dtype),
            Op::Param(p) => match kernel.params[*p].kind {
                ParamKind::Scalar(d) => scalar_of(d),
                ParamKind::Tensor { .. } => Err(wrong()),
            },
            Op::Dim(p, k) | Op::Stride(p, k) => {
                ensure(matches!(kernel.params[*p].kind, ParamKind::Tensor { rank, .. } if *k < rank), wrong)?;
                scalar_of(DType::I64)
            }
            Op::Unary(_, a) => ensure(self.used(*a)? == result, wrong),
            Op::Binary(_, a, b) => {
                self.same(*a, *b)?;
                ensure(self.used(*a)? == result, wrong)
            }
            Op::Ternary(_, a, b, c) => {
                self.same(*a, *b)?;
                self.same(*b, *c)?;
                ensure(self.used(*a)? == result, wrong)
            }
            Op::Compare(_, a, b) => {
                self.same(*a, *b)?;
                ensure(result.dtype() == Some(DType::Bool) && shape(self.used(*a)?) == shape(result), wrong)
            }
            Op::Select(c, a, b) => {
                self.same(*a, *b)?;
                let condition = self.used(*c)?;
                ensure(condition.dtype() == Some(DType::Bool) && shape(condition) == shape(result) && self.used(*a)? == result, wrong)
            }
            Op::Cast(a) | Op::Bitcast(a) => {
                let ty = self.used(*a)?;
                let sizes = ty.dtype().map(DType::size) == result.dtype().map(DType::size);
                ensure(shape(ty) == shape(result) && (sizes || matches!(op, Op::Cast(_))), wrong)
            }
            Op::Splat(a) => ensure(matches!((self.used(*a)?, result), (Ty::Scalar(d), Ty::Tile(e, _)) if d == e), wrong),
            Op::Like { value, model } => {
                let fits = matches!((self.used(*value)?, result), (Ty::Scalar(d), Ty::Tile(e, _)) if d == e);
                ensure(fits && shape(self.used(*model)?) == shape(result), wrong)
            }
            Op::Or { tile, absent } => {
                let fits = matches!((self.used(*absent)?, result), (Ty::Scalar(d), Ty::Tile(e, _)) if d == e);
                ensure(fits && self.used(*tile)? == result, wrong)
            }
            Op::Total { scan, axis } => {
                let of = self.used(*scan)?;
                let mut left = shape(of);
                ensure(self.scans.contains(&(*scan, *axis)) && of.dtype() == result.dtype(), wrong)?;
                left.remove(*axis);
                ensure(left == shape(result), wrong)
            }
            Op::Within(a, ends) => {
                let sizes = shape(result);
                ensure(self.used(*a)? == result && ends.len() == sizes.len(), wrong)?;
                for (end, size) in ends.iter().zip(&sizes) {
                    let Some(index) = end else { continue };
                    ensure(matches!(self.used(*index)?, Ty::TileIdx(s) if s == size), wrong)?;
                }
                Ok(())
            }
            Op::Broadcast(a, from) => {
                let (old, new) = (shape(self.used(*a)?), shape(result));
                let fits = from.len() == new.len() && from.iter().zip(&new).all(|(f, n)| f.is_none_or(|k| old.get(k) == Some(n)));
                ensure(fits && from.iter().flatten().count() == old.len(), wrong)
            }
            Op::Transpose(a, perm) => {
                let (old, new) = (shape(self.used(*a)?), shape(result));
                ensure(perm.len() == new.len() && perm.iter().zip(&new).all(|(k, n)| old.get(*k) == Some(n)), wrong)
            }
            Op::Pick { tile, axis, at } => {
                let mut old = shape(self.used(*tile)?);
                ensure(*axis < old.len() && old[*axis].as_constant().is_some_and(|e| *at < e), wrong)?;
                old.remove(*axis);
                ensure(old == shape(result), wrong)
            }
            Op::Stack(all) => {
                self.all_used(all)?;
                let mut new = shape(self.used(*all.first().ok_or_else(wrong)?)?);
                new.push(Size::constant(all.len() as i64));
                ensure(new == shape(result), wrong)
            }
            Op::Iota => ensure(matches!(result, Ty::Tile(d, shape) if d.is_int() && shape.len() == 1), wrong),
            Op::Coordinates(a) => {
                let fits = matches!((self.used(*a)?, result), (Ty::TileIdx(s), Ty::Tile(DType::I64, t)) if *t == [s.clone()]);
                ensure(fits, wrong)
            }
            Op::Start(a) | Op::End(a) => {
                ensure(matches!(self.used(*a)?, Ty::TileIdx(_)), wrong)?;
                scalar_of(DType::I64)
            }
            Op::Window { view, index, shift, .. } => {
                let Ty::Window(dtype, reach) = result else { return Err(wrong()) };
                let v = kernel.view(*view);
                let ranks = [index.len(), shift.len(), reach.len()];
                ensure(*dtype == v.dtype && ranks.iter().all(|n| *n == v.axes.len()), wrong)?;
                for (i, r) in index.iter().zip(reach) {
                    ensure(*self.used(*i)? == Ty::TileIdx(r.size.clone()), wrong)?;
                }
                shift.iter().flatten().try_for_each(|s| ensure(*self.used(*s)? == Ty::Scalar(DType::I64), wrong))
            }
            Op::Near(window, offsets) => {
                let Ty::Window(dtype, reach) = self.used(*window)? else { return Err(wrong()) };
                let sizes: Vec<Size> = reach.iter().map(|r| r.size.clone()).collect();
                ensure(offsets.len() == reach.len() && (result == &Ty::Scalar(*dtype) || result == &Ty::Tile(*dtype, sizes)), wrong)?;
                offsets.iter().try_for_each(|o| ensure(*self.used(*o)? == Ty::Scalar(DType::I64), wrong))
            }
            Op::Shuffle { value, lane, .. } => {
                let (from, lane) = (self.used(*value)?.clone(), self.used(*lane)?);
                let lanes = lane.dtype() == Some(DType::I32) && (matches!(lane, Ty::Scalar(_)) || shape(lane) == shape(result));
                ensure(lanes && from == *result && !shape(result).is_empty(), wrong)
            }
            Op::Vote(kind, mask) => {
                let mask = self.used(*mask)?;
                let types = mask.dtype().is_some_and(|d| kind.takes(d)) && result.dtype() == Some(kind.gives());
                let fits = types && shape(mask) == shape(result);
                ensure(fits && !shape(result).is_empty(), wrong)
            }
            Op::Dot { a, b, acc, fold } => {
                let (x, y) = (self.used(*a)?.clone(), self.used(*b)?.clone());
                ensure(x.dtype().zip(y.dtype()).is_some_and(|(a, b)| a.multiplies(b)), wrong)?;
                let fits = match (shape(&x).as_slice(), shape(&y).as_slice(), shape(result).as_slice()) {
                    ([m, k], [l, n], [r, c]) => m == r && k == l && n == c,
                    _ => false,
                };
                let types =
                    matches!((x.dtype(), result.dtype()), (Some(a), Some(b)) if fold.is_some() || a.dot_accumulators().contains(&b));
                ensure(self.used(*acc)? == result && fits && types, wrong)?;
                match (fold, x.dtype(), result.dtype()) {
                    (Some(fold), Some(element), Some(sum)) => self.fold(fold, element, sum),
                    _ => Ok(()),
                }
            }
            Op::Number(a) => {
                let Ty::TileIdx(size) = self.used(*a)? else { return Err(wrong()) };
                ensure(*result == Ty::Scalar(DType::I64) && size.is_pinned(&kernel.knobs), wrong)
            }
            Op::Load(view, index) => {
                let spanned = self.access(*view, index)?;
                ensure(spanned == shape(result) && result.dtype() == Some(kernel.view(*view).dtype), wrong)
            }
            Op::Gather(view, indices) | Op::GatherInside(view, indices) => {
                let spanned = self.computed(*view, indices)?;
                ensure(spanned == shape(result) && result.dtype() == Some(kernel.view(*view).dtype), wrong)
            }
        }
    }

    pub(super) fn combine(&mut self, c: &Combine) -> Checked {
        let wrong = || format!("a combination of {:?} to {:?} by {:?}", c.inputs, c.results, c.form);
        let components = if let Operator::User { identity, .. } = &c.operator { identity.len() } else { 1 };
        ensure(c.inputs.len() == components && c.results.len() == components, wrong)?;
        self.all_used(&c.inputs)?;
        self.operator(&c.operator)?;
        let shape = |v: ValueId| self.kernel.ty(v).shape().map(<[Size]>::to_vec).unwrap_or_default();
        let first = shape(c.inputs[0]);
        let expected = match &c.form {
            Form::Reduce { axes } => {
                ensure(axes.iter().all(|k| *k < first.len()), wrong)?;
                first.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, s)| s.clone()).collect()
            }
            Form::Scan { axis, reversed, over_grid, .. } => {
                ensure(*axis < first.len(), wrong)?;
                if *over_grid {
                    let (last, others) = first.split_last().map_or((0, &first[..]), |(_, others)| (others.len(), others));
                    let row = *axis == last && others.iter().all(|size| *size == Size::constant(1));
                    ensure(row && !reversed && self.looks_back(c), wrong)?;
                }
                self.scans.extend(c.results.iter().map(|r| (*r, *axis)));
                first.clone()
            }
            Form::Before => {
                ensure(first.is_empty() && self.looks_back(c), wrong)?;
                first.clone()
            }
            Form::Grid => first.clone(),
        };
        for (input, result) in c.inputs.iter().zip(&c.results) {
            self.define(*result)?;
            let same = self.kernel.ty(*input).dtype() == self.kernel.ty(*result).dtype();
            ensure(same && shape(*input) == first && shape(*result) == expected, wrong)?;
        }
        Ok(())
    }

    /// The author's operations of a dot: of sums and elements of these types they make a sum.
    fn fold(&mut self, fold: &Fold, element: DType, sum: DType) -> Checked {
        let before = self.visible.clone();
        let wrong = || format!("a fold of {element} into {sum}: {fold:?}");
        for (argument, dtype) in fold.arguments.iter().zip([sum, element, element]) {
            self.define(*argument)?;
            ensure(*self.used(*argument)? == Ty::Scalar(dtype), wrong)?;
        }
        for (step, op) in &fold.steps {
            ensure(Fold::takes(op), wrong)?;
            self.op(*step, op)?;
            self.define(*step)?;
        }
        ensure(*self.used(fold.result)? == Ty::Scalar(sum) && fold.absent.dtype == element, wrong)?;
        self.visible = before;
        Ok(())
    }

    fn operator(&mut self, operator: &Operator) -> Checked {
        let Operator::User { arguments, body, results, .. } = operator else { return Ok(()) };
        let before = self.visible.clone();
        arguments.iter().try_for_each(|a| self.define(*a))?;
        self.block(body)?;
        self.all_used(results)?;
        self.visible = before;
        Ok(())
    }

    /// Whether a combination stands where a tile may look back at those before it: in the body of a grid loop that takes them in order.
    fn looks_back(&self, c: &Combine) -> bool {
        let stands = |s: &Stmt| matches!(s, Stmt::Combine(own) if own.results == c.results);
        self.kernel.grid_loop().is_some_and(|l| l.in_order && l.body.iter().any(stands))
    }
}
