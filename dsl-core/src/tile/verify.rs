//! Checks the invariants of tile IR. A violation is a bug of the compiler: it panics with the pass and the IR.
//!
//! Users' mistakes never get here: the language reports them as diagnostics and gives no kernel.

use super::{Block, Carry, Combine, Form, Index, Kernel, Op, Operator, ParamKind, RequirementKind, Size, Stmt, Ty, ValueId, ViewId};
use super::{SharedAccess, SharedKind, Update};
use crate::types::{AtomicOp, DType, Scope, VoteKind};

/// Checks every invariant that the module's page states.
///
/// # Panics
/// If one is violated, naming `pass`.
pub fn verify(kernel: &Kernel, pass: &str) {
    let mut checker = Checker {
        kernel,
        numbers: Default::default(),
        visible: vec![false; kernel.values.len()],
        defined: vec![false; kernel.values.len()],
    };
    let checked = checker.block(&kernel.body).and_then(|()| checker.header());
    if let Err(rule) = checked {
        panic!("{pass}: tile IR is broken: {rule}\n{kernel}");
    }
}

type Checked = Result<(), String>;

struct Checker<'a> {
    kernel: &'a Kernel,
    /// Of the accesses of shared arrays so far.
    numbers: std::collections::HashSet<u32>,
    visible: Vec<bool>,
    defined: Vec<bool>,
}

fn ensure(holds: bool, rule: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(rule()) }
}

impl Checker<'_> {
    fn define(&mut self, v: ValueId) -> Checked {
        let i = v.0 as usize;
        ensure(i < self.defined.len(), || format!("value {} does not exist", v.0))?;
        ensure(!self.defined[i], || format!("value {} is defined twice", v.0))?;
        (self.defined[i], self.visible[i]) = (true, true);
        Ok(())
    }

    fn used(&self, v: ValueId) -> Result<&Ty, String> {
        ensure(self.visible.get(v.0 as usize) == Some(&true), || format!("value {} is used where it is not defined", v.0))?;
        Ok(self.kernel.ty(v))
    }

    fn all_used(&self, values: &[ValueId]) -> Checked {
        values.iter().try_for_each(|v| self.used(*v).map(|_| ()))
    }

    fn same(&self, a: ValueId, b: ValueId) -> Checked {
        let (x, y) = (self.used(a)?, self.used(b)?);
        ensure(x == y, || format!("values {} and {} have the types {x:?} and {y:?}", a.0, b.0))
    }

    /// After the body: what the host computes is defined at the top level.
    fn header(&self) -> Checked {
        let index = |v: ValueId| {
            let ty = self.used(v)?;
            ensure(*ty == Ty::Scalar(DType::I64), || format!("value {} is {ty:?} where a scalar i64 is expected", v.0))
        };
        for view in &self.kernel.views {
            index(view.offset)?;
            view.axes.iter().try_for_each(|a| index(a.len).and_then(|()| index(a.stride)))?;
            ensure(matches!(self.kernel.params[view.param].kind, ParamKind::Tensor { .. }), || {
                format!("view {} is of no tensor", view.text)
            })?;
        }
        self.kernel.requirements.iter().try_for_each(|r| match r.kind {
            RequirementKind::Packed(_) => Ok(()),
            RequirementKind::Aligned(_, bytes) => ensure(bytes.is_power_of_two(), || format!("alignment to {bytes} bytes")),
            RequirementKind::AtMost(a, b) | RequirementKind::Equal(a, b) => index(a).and_then(|()| index(b)),
            RequirementKind::Divisible(a, by) => index(a).and_then(|()| ensure(by > 0, || "divisibility by nothing".into())),
        })
    }

    fn block(&mut self, block: &Block) -> Checked {
        block.iter().try_for_each(|s| self.stmt(s))
    }

    fn enter(&mut self, carries: &[Carry]) -> Checked {
        carries.iter().try_for_each(|c| {
            self.used(c.init)?;
            self.define(c.inner)?;
            self.same(c.init, c.inner)
        })
    }

    fn leave(&mut self, carries: &[Carry], before: Vec<bool>) -> Checked {
        carries.iter().try_for_each(|c| self.same(c.inner, c.next))?;
        self.visible = before;
        carries.iter().try_for_each(|c| {
            self.define(c.result)?;
            self.same(c.init, c.result)
        })
    }

    fn stmt(&mut self, stmt: &Stmt) -> Checked {
        let before = self.visible.clone();
        match stmt {
            Stmt::Let(v, op) => {
                self.op(*v, op)?;
                self.define(*v)
            }
            Stmt::Combine(c) => self.combine(c),
            Stmt::Store { view, index, value, .. } => {
                let shape = self.access(*view, index)?;
                let ty = self.used(*value)?;
                let fits = ty.dtype() == Some(self.kernel.view(*view).dtype) && ty.shape().unwrap_or_default() == shape;
                ensure(fits && self.mutable(*view), || format!("a store of {ty:?} to {}", self.kernel.view(*view).text))
            }
            Stmt::Scatter { view, indices, value, .. } => {
                let shape = self.computed(*view, indices)?;
                let ty = self.used(*value)?;
                let fits = ty.dtype() == Some(self.kernel.view(*view).dtype) && ty.shape().unwrap_or_default() == shape;
                ensure(fits && self.mutable(*view), || format!("a scatter of {ty:?} to {}", self.kernel.view(*view).text))
            }
            Stmt::Atomic { update, view, .. } => {
                let (shape, dtype) = (self.computed(*view, &update.indices)?, self.kernel.view(*view).dtype);
                ensure(self.mutable(*view), || format!("an atomic on {}", self.kernel.view(*view).text))?;
                self.update(update, dtype, &shape)
            }
            Stmt::Shared(access) => self.shared(access),
            Stmt::Barrier { scope, .. } => ensure(matches!(scope, Scope::Block | Scope::Warp), || format!("a barrier of {scope:?}")),
            Stmt::Tiles(l) => {
                ensure(l.axes.len() == l.vars.len(), || "a loop over tiles with more axes than variables".into())?;
                for (v, axis) in l.vars.iter().zip(&l.axes) {
                    self.define(*v)?;
                    let fits = matches!(self.kernel.ty(*v), Ty::TileIdx(_)) && *axis < self.kernel.view(l.view).axes.len();
                    ensure(fits, || format!("value {} counts no tiles of an axis", v.0))?;
                }
                self.enter(&l.carries)?;
                self.block(&l.body)?;
                self.leave(&l.carries, before)
            }
            Stmt::Range { var, start, end, carries, body, .. } => {
                self.same(*start, *end)?;
                self.define(*var)?;
                self.same(*start, *var)?;
                self.enter(carries)?;
                self.block(body)?;
                self.leave(carries, before)
            }
            Stmt::While { carries, header, condition, body, .. } => {
                self.enter(carries)?;
                let inside = self.visible.clone();
                self.block(header)?;
                let ty = self.used(*condition)?;
                ensure(*ty == Ty::Scalar(DType::Bool), || "the condition of a while is no scalar bool".into())?;
                self.visible = inside;
                self.block(body)?;
                self.leave(carries, before)
            }
            Stmt::If { condition, then, otherwise, results, .. } => {
                let ty = self.used(*condition)?;
                ensure(*ty == Ty::Scalar(DType::Bool), || "the condition of an if is no scalar bool".into())?;
                self.block(then)?;
                for r in results {
                    self.used(r.then)?;
                    ensure(self.kernel.ty(r.then) == self.kernel.ty(r.result), || {
                        format!("value {} has another type than its side", r.result.0)
                    })?;
                }
                self.visible.clone_from(&before);
                self.block(otherwise)?;
                for r in results {
                    self.same(r.otherwise, r.otherwise)?;
                    let (a, b) = (self.kernel.ty(r.otherwise), self.kernel.ty(r.result));
                    ensure(a == b, || format!("value {} has another type than its side", r.result.0))?;
                }
                self.visible = before;
                results.iter().try_for_each(|r| self.define(r.result))
            }
            Stmt::Where { mask, body, .. } => {
                let ty = self.used(*mask)?;
                ensure(matches!(ty, Ty::Tile(DType::Bool, _)), || "the mask of a per-element choice is no bool tile".into())?;
                ensure(!stores(body), || "a store inside of a per-element choice".into())?;
                self.block(body)
            }
        }
    }

    fn mutable(&self, view: ViewId) -> bool {
        matches!(self.kernel.params[self.kernel.view(view).param].kind, ParamKind::Tensor { mutable: true, .. })
    }

    /// The shape that an index spans.
    fn access(&self, view: ViewId, index: &[Index]) -> Result<Vec<Size>, String> {
        let view = self.kernel.view(view);
        ensure(index.len() == view.axes.len(), || format!("{} indices for {}", index.len(), view.text))?;
        let mut shape = Vec::new();
        for i in index {
            match i {
                Index::Tile(v) => match self.used(*v)? {
                    Ty::TileIdx(size) => shape.push(size.clone()),
                    other => return Err(format!("{other:?} as a tile index of {}", view.text)),
                },
                Index::At(v) => {
                    let ty = self.used(*v)?;
                    ensure(matches!(ty, Ty::Scalar(d) if d.is_int()), || format!("{ty:?} as a coordinate of {}", view.text))?;
                }
                Index::All(n) => shape.push(Size::constant(*n)),
            }
        }
        Ok(shape)
    }

    /// Operands and result of a read-modify-write of elements at positions of this shape.
    fn update(&mut self, update: &Update, dtype: DType, shape: &[Size]) -> Checked {
        let Update { op, expected, result, .. } = update;
        let bits = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
        ensure(!(bits && dtype.is_float()), || format!("atomic {op:?} on {dtype}"))?;
        ensure(expected.is_some() == (*op == AtomicOp::CompareSwap), || format!("atomic {op:?} and an expected value"))?;
        for v in update.operands() {
            let ty = self.used(v)?;
            let fits = ty.dtype() == Some(dtype) && ty.shape().unwrap_or_default() == shape;
            ensure(fits, || format!("atomic {op:?} of {ty:?} on elements of {dtype}"))?;
        }
        let Some(result) = *result else { return Ok(()) };
        self.define(result)?;
        let ty = self.kernel.ty(result);
        ensure(ty.dtype() == Some(dtype) && ty.shape().unwrap_or_default() == shape, || format!("an old value of type {ty:?}"))
    }

    fn shared(&mut self, access: &SharedAccess) -> Checked {
        ensure(self.numbers.insert(access.number), || format!("two accesses of shared arrays have the number {}", access.number))?;
        let Some(array) = self.kernel.shared.get(access.array.0 as usize) else { return Err("no such shared array".into()) };
        let (dtype, rank) = (array.dtype, array.shape.len());
        let wrong = |ty: &Ty| format!("{ty:?} beside a shared array of {dtype}");
        match &access.kind {
            SharedKind::Fill(v) => {
                let ty = self.used(*v)?;
                ensure(*ty == Ty::Scalar(dtype), || wrong(ty))
            }
            SharedKind::Gather { indices, result } => {
                let shape = self.positions(indices, rank, "a shared array")?;
                self.define(*result)?;
                let ty = self.kernel.ty(*result);
                ensure(ty.dtype() == Some(dtype) && ty.shape().unwrap_or_default() == shape, || wrong(ty))
            }
            SharedKind::Scatter { indices, value } => {
                let shape = self.positions(indices, rank, "a shared array")?;
                let ty = self.used(*value)?;
                ensure(ty.dtype() == Some(dtype) && ty.shape().unwrap_or_default() == shape, || wrong(ty))
            }
            SharedKind::Atomic(update) => {
                let shape = self.positions(&update.indices, rank, "a shared array")?;
                self.update(update, dtype, &shape)
            }
        }
    }

    fn computed(&self, view: ViewId, indices: &[ValueId]) -> Result<Vec<Size>, String> {
        let view = self.kernel.view(view);
        self.positions(indices, view.axes.len(), &view.text)
    }

    /// The shape of computed positions, one value per axis.
    fn positions(&self, indices: &[ValueId], rank: usize, text: &str) -> Result<Vec<Size>, String> {
        ensure(indices.len() == rank && !indices.is_empty(), || format!("{} coordinates for {text}", indices.len()))?;
        let shape = self.used(indices[0])?.shape().unwrap_or_default().to_vec();
        for i in indices {
            let ty = self.used(*i)?;
            let fits = ty.dtype().is_some_and(DType::is_int) && ty.shape().unwrap_or_default() == shape;
            ensure(fits, || format!("{ty:?} as a coordinate of {text}"))?;
        }
        Ok(shape)
    }

    fn op(&mut self, v: ValueId, op: &Op) -> Checked {
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
            Op::Start(a) => {
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
                let gives = if *kind == VoteKind::Ballot { DType::U32 } else { DType::Bool };
                let fits = mask.dtype() == Some(DType::Bool) && result.dtype() == Some(gives) && shape(mask) == shape(result);
                ensure(fits && !shape(result).is_empty(), wrong)
            }
            Op::Dot { a, b, acc } => {
                let (x, y) = (self.used(*a)?.clone(), self.used(*b)?.clone());
                ensure(x.dtype() == y.dtype(), wrong)?;
                let fits = match (shape(&x).as_slice(), shape(&y).as_slice(), shape(result).as_slice()) {
                    ([m, k], [l, n], [r, c]) => m == r && k == l && n == c,
                    _ => false,
                };
                let types = matches!((x.dtype(), result.dtype()), (Some(a), Some(b)) if a.dot_accumulators().contains(&b));
                ensure(self.used(*acc)? == result && fits && types, wrong)
            }
            Op::Number(a) => {
                let Ty::TileIdx(size) = self.used(*a)? else { return Err(wrong()) };
                ensure(*result == Ty::Scalar(DType::I64) && size.is_pinned(&kernel.knobs), wrong)
            }
            Op::Load(view, index) => {
                let spanned = self.access(*view, index)?;
                ensure(spanned == shape(result) && result.dtype() == Some(kernel.view(*view).dtype), wrong)
            }
            Op::Gather(view, indices) => {
                let spanned = self.computed(*view, indices)?;
                ensure(spanned == shape(result) && result.dtype() == Some(kernel.view(*view).dtype), wrong)
            }
        }
    }

    fn combine(&mut self, c: &Combine) -> Checked {
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
            Form::Scan { axis, .. } => {
                ensure(*axis < first.len(), wrong)?;
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

    fn operator(&mut self, operator: &Operator) -> Checked {
        let Operator::User { arguments, body, results, .. } = operator else { return Ok(()) };
        let before = self.visible.clone();
        arguments.iter().try_for_each(|a| self.define(*a))?;
        self.block(body)?;
        self.all_used(results)?;
        self.visible = before;
        Ok(())
    }
}

fn stores(block: &Block) -> bool {
    block.iter().any(|s| match s {
        Stmt::Store { .. } => true,
        // Computed positions have the mask of the choice.
        Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Shared(_) => false,
        Stmt::Let(..) | Stmt::Combine(_) | Stmt::Barrier { .. } => false,
        Stmt::Tiles(l) => stores(&l.body),
        Stmt::Range { body, .. } | Stmt::Where { body, .. } => stores(body),
        Stmt::While { header, body, .. } => stores(header) || stores(body),
        Stmt::If { then, otherwise, .. } => stores(then) || stores(otherwise),
    })
}
