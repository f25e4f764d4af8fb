//! Checks the invariants of tile IR. A violation is a bug of the compiler: it panics with the pass and the IR.
//!
//! Users' mistakes never get here: the language reports them as diagnostics and gives no kernel.

mod op;

use super::{Block, Carry, Index, Kernel, ParamKind, RequirementKind, Size, Stmt, TileLoop, Ty, ValueId, ViewId};
use super::{SharedAccess, SharedKind, Update};
use crate::types::{AtomicOp, DType, Scope};

/// Checks every invariant that the module's page states.
///
/// # Panics
/// If one is violated, naming `pass`.
pub fn verify(kernel: &Kernel, pass: &str) {
    let mut checker = Checker {
        kernel,
        numbers: Default::default(),
        scans: Default::default(),
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
    /// Results of scans, and their axes.
    scans: std::collections::HashSet<(ValueId, usize)>,
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
            RequirementKind::AtMost(a, b) | RequirementKind::Equal(a, b) | RequirementKind::Values(_, a, b) => {
                index(a).and_then(|()| index(b))
            }
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
            Stmt::Scatter { view, indices, value, run, .. } => {
                let mut shape = match run {
                    None => self.computed(*view, indices)?,
                    Some(_) => self.runs(*view, indices)?,
                };
                if let Some(run) = run {
                    ensure(is_run(*run, self.kernel.view(*view).dtype), || format!("a run of {run} elements"))?;
                    shape.insert(0, Size::constant(*run));
                }
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
            Stmt::Barrier { scope, .. } => {
                ensure(matches!(scope, Scope::Device | Scope::Block | Scope::Warp), || format!("a barrier of {scope:?}"))
            }
            Stmt::Copies { .. } => Ok(()),
            Stmt::Tiles(l) => {
                ensure(l.axes.len() == l.vars.len(), || "a loop over tiles with more axes than variables".into())?;
                self.span(l)?;
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
            Stmt::While { once, carries, header, condition, body, .. } => {
                self.enter(carries)?;
                let inside = self.visible.clone();
                self.block(header)?;
                let ty = self.used(*condition)?;
                match ty.shape().map(<[_]>::to_vec) {
                    None => {
                        ensure(!*once, || "a scalar condition of what warps take by themselves".into())?;
                        ensure(*ty == Ty::Scalar(DType::Bool), || "the condition of a while is no bool".into())?;
                        self.visible = inside;
                    }
                    Some(shape) => self.by_element(&shape, (carries, header, body), *condition)?,
                }
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

    /// A `while` that each element leaves by itself.
    fn by_element(&self, shape: &[Size], (carries, header, body): (&[Carry], &Block, &Block), condition: ValueId) -> Checked {
        ensure(self.kernel.ty(condition).dtype() == Some(DType::Bool), || "the condition of a while is no bool tile".into())?;
        let alike = carries.iter().all(|c| self.kernel.ty(c.inner).shape() == Some(shape));
        ensure(alike, || "elements leave a while by themselves that carries something of another shape".into())?;
        let hindrance = [header, body].into_iter().find_map(|b| super::by_element::hindrance(self.kernel, b));
        ensure(hindrance.is_none(), || format!("elements leave a while by themselves in which stands {}", hindrance.map_or("", |h| h.0)))
    }

    /// A loop inside of the grid's, over one axis, may keep to some positions.
    fn span(&self, l: &TileLoop) -> Checked {
        let Some(span) = l.span else { return Ok(()) };
        let grid = self.kernel.grid_loop().is_some_and(|g| g.vars == l.vars);
        ensure(!grid && l.vars.len() == 1, || "positions of a loop over the grid, or over several axes".into())?;
        [span.first, span.end].into_iter().try_for_each(|v| {
            let ty = self.used(v)?;
            ensure(*ty == Ty::Scalar(DType::I64), || format!("{ty:?} as a position of a loop over tiles"))
        })
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
            SharedKind::Empty => Ok(()),
            SharedKind::Fill(v) => {
                let ty = self.used(*v)?;
                ensure(*ty == Ty::Scalar(dtype), || wrong(ty))
            }
            SharedKind::Gather { indices, result, .. } => {
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
            SharedKind::GatherRun { indices, result } => {
                let shape = self.positions(indices, rank, "a shared array")?;
                self.define(*result)?;
                let ty = self.kernel.ty(*result);
                let run = ty.shape().and_then(|s| s.first()).and_then(Size::as_constant);
                let fits = ty.dtype() == Some(dtype) && ty.shape().is_some_and(|s| s[1..] == shape);
                ensure(fits && run.is_some_and(|n| is_run(n, dtype)), || wrong(ty))
            }
            SharedKind::ScatterRun { indices, value } => {
                let shape = self.positions(indices, rank, "a shared array")?;
                let ty = self.used(*value)?;
                let run = ty.shape().and_then(|s| s.first()).and_then(Size::as_constant);
                let fits = ty.dtype() == Some(dtype) && ty.shape().is_some_and(|s| s[1..] == shape);
                ensure(fits && run.is_some_and(|n| is_run(n, dtype)), || wrong(ty))
            }
            SharedKind::Copy { indices, view, from, run } => {
                let shape = self.positions(indices, rank, "a shared array")?;
                let fits = self.runs(*view, from)? == shape && self.kernel.view(*view).dtype == dtype && is_run(*run, dtype);
                ensure(fits, || format!("copies of {run} elements of {} to a shared array of {dtype}", self.kernel.view(*view).text))
            }
            SharedKind::Start(v) | SharedKind::Leave(v) => {
                let ty = self.used(*v)?;
                ensure(*ty == Ty::Tile(dtype, array.shape.clone()), || wrong(ty))
            }
            SharedKind::Take { result } => {
                self.define(*result)?;
                let ty = self.kernel.ty(*result);
                ensure(*ty == Ty::Tile(dtype, array.shape.clone()), || wrong(ty))
            }
        }
    }

    fn computed(&self, view: ViewId, indices: &[ValueId]) -> Result<Vec<Size>, String> {
        let view = self.kernel.view(view);
        self.positions(indices, view.axes.len(), &view.text)
    }

    /// The shape of the positions of runs: one tile, or one scalar, per axis.
    fn runs(&self, view: ViewId, indices: &[ValueId]) -> Result<Vec<Size>, String> {
        let view = self.kernel.view(view);
        ensure(indices.len() == view.axes.len(), || format!("{} coordinates for {}", indices.len(), view.text))?;
        let shape = indices.iter().find_map(|v| self.kernel.ty(*v).shape()).map(<[Size]>::to_vec).unwrap_or_default();
        for v in indices {
            let ty = self.used(*v)?;
            let fits = ty.dtype().is_some_and(DType::is_int) && ty.shape().is_none_or(|s| s == shape);
            ensure(fits, || format!("{ty:?} as a coordinate of {}", view.text))?;
        }
        Ok(shape)
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
}

/// Whether so many neighbours are read or copied by one instruction.
fn is_run(run: i64, dtype: DType) -> bool {
    run > 0 && (run as u64).is_power_of_two() && run * dtype.size() as i64 <= 16
}

fn stores(block: &Block) -> bool {
    block.iter().any(|s| match s {
        Stmt::Store { .. } => true,
        // Computed positions have the mask of the choice.
        Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Shared(_) => false,
        Stmt::Let(..) | Stmt::Combine(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => false,
        Stmt::Tiles(l) => stores(&l.body),
        Stmt::Range { body, .. } | Stmt::Where { body, .. } => stores(body),
        Stmt::While { header, body, .. } => stores(header) || stores(body),
        Stmt::If { then, otherwise, .. } => stores(then) || stores(otherwise),
    })
}
