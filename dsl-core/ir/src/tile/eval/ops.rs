//! Operations: what each [`Op`] computes.

use super::memory::{ABSENT, Window, extend};
use super::number::Numbers;
use super::run::Machine;
use super::value::{TileVal, Val, meet, positions, strides};
use super::{EvalError, EvalRef};
use crate::loc::SourceLoc;
use crate::tile::{Index, Op, Ty, ValueId, ViewId};
use crate::types::{DType, Literal};
use std::rc::Rc;

impl Machine<'_, '_> {
    /// Computes the value that `id` gets from `op`.
    pub(super) fn op(&mut self, id: ValueId, op: &Op) -> Result<Val, EvalError> {
        let loc = self.kernel.value(id).loc;
        Ok(match op {
            Op::Literal(l) => Val::Scalar(Some(self.numbers.literal(*l))),
            Op::Param(p) => match &self.args[*p] {
                EvalRef::Scalar(l) => Val::Scalar(Some(self.numbers.literal(*l))),
                EvalRef::Tensor { .. } => panic!("eval: parameter {p} is no scalar"),
            },
            Op::Dim(p, k) => Val::Scalar(Some(self.shape(*p).lens[*k] as u64)),
            Op::Stride(p, k) => Val::Scalar(Some(self.shape(*p).strides[*k] as u64)),
            Op::Unary(op, a) => {
                let f = self.numbers.unary(*op, self.dtype(*a));
                self.map(id, *a, f)
            }
            Op::Binary(op, a, b) => {
                let f = self.numbers.binary(*op, self.dtype(*a));
                self.map2(id, *a, *b, f)
            }
            Op::Compare(op, a, b) => {
                let f = self.numbers.compare(*op, self.dtype(*a));
                self.map2(id, *a, *b, f)
            }
            Op::Ternary(op, a, b, c) => {
                let f = self.numbers.ternary(*op, self.dtype(*a));
                self.map3(id, [*a, *b, *c], f)
            }
            Op::Select(c, a, b) => self.select(id, *c, *a, *b),
            Op::Cast(a) => {
                let f = self.numbers.cast(self.dtype(*a), self.dtype(id));
                self.map(id, *a, f)
            }
            Op::Bitcast(a) => {
                let f = self.numbers.bitcast(self.dtype(*a), self.dtype(id));
                self.map(id, *a, f)
            }
            Op::Splat(a) => Val::Tile(self.val(*a).to_tile(&self.extents(id))),
            Op::Like { value, model } => {
                let (one, model) = (self.val(*value).to_tile(&self.extents(id)), self.tile(*model));
                TileVal { shape: one.shape.clone(), data: one.data.clone(), mask: meet(&one.mask, &model.mask) }.into()
            }
            Op::Or { tile, absent } => {
                let (tile, absent) = (self.tile(*tile), self.cell(*absent, "what stands for absent elements", loc)?);
                let data = (0..tile.data.len()).map(|i| tile.at(i).unwrap_or(absent)).collect();
                TileVal { shape: tile.shape.clone(), data, mask: None }.into()
            }
            Op::Total { scan, .. } => self.total(id, *scan),
            Op::Within(a, ends) => self.within(*a, ends, loc)?,
            Op::Broadcast(a, from) => self.broadcast(id, *a, from),
            Op::Transpose(a, perm) => {
                let tile = self.tile(*a);
                let from = strides(&tile.shape);
                let shape: Vec<usize> = perm.iter().map(|p| tile.shape[*p]).collect();
                let steps: Vec<usize> = perm.iter().map(|p| from[*p]).collect();
                let order = positions(&shape, &steps);
                tile.rearranged(shape, order.into_iter()).into()
            }
            Op::Pick { tile, axis, at } => self.pick(id, *tile, *axis, *at as usize),
            Op::Stack(parts) => self.stack(id, parts),
            Op::Iota => {
                let size = self.extents(id)[0];
                let from = self.dtype(id);
                TileVal { shape: vec![size], data: (0..size as i64).map(|i| Literal::from_i64(from, i).bits).collect(), mask: None }.into()
            }
            Op::Coordinates(index) => {
                let (first, size) = (self.first(*index), self.extents(id)[0]);
                let data = (0..size as i64).map(|i| (first + i) as u64).collect();
                TileVal { shape: vec![size], data, mask: None }.into()
            }
            Op::Start(index) => Val::Scalar(Some(self.first(*index) as u64)),
            Op::End(index) => Val::Scalar(Some((self.first(*index) + self.extent(*index)) as u64)),
            Op::Window { view, index, shift, boundary } => self.frame(id, *view, index, shift, *boundary, loc)?,
            Op::Near(window, offsets) => self.near(id, *window, offsets, loc)?,
            Op::Shuffle { value, kind, lane } => self.shuffle(*value, *kind, *lane, loc)?,
            Op::Vote(kind, mask) => self.vote(*kind, *mask, loc)?,
            Op::Dot { a, b, acc, fold: None } => self.dot(*a, *b, *acc),
            Op::Dot { a, b, acc, fold: Some(fold) } => self.fold([*a, *b, *acc], fold, loc)?,
            Op::Number(index) => match self.val(*index) {
                Val::Index(number) => Val::Scalar(Some(*number as u64)),
                other => panic!("eval: %{} is no tile index: {other:?}", index.0),
            },
            Op::Load(view, index) => {
                let (shape, addresses) = self.addresses(*view, index, id, loc)?;
                self.load(id, *view, shape, addresses, loc)?
            }
            Op::Gather(view, indices) => {
                let (shape, addresses) = self.gathered(*view, indices, None, loc)?;
                self.load(id, *view, shape, addresses, loc)?
            }
            Op::GatherInside(view, indices) => {
                let (shape, addresses) = self.gathered(*view, indices, None, loc)?;
                self.check_positions(id, *view, indices, &shape, loc)?;
                self.load(id, *view, shape, addresses, loc)?
            }
        })
    }

    fn map(&self, id: ValueId, a: ValueId, f: impl Fn(u64) -> u64) -> Val {
        match self.val(a) {
            Val::Scalar(cell) => Val::Scalar(cell.map(f)),
            Val::Tile(t) => TileVal { shape: t.shape.clone(), data: t.data.iter().map(|x| f(*x)).collect(), mask: t.mask.clone() }.into(),
            Val::Index(_) | Val::Window(_) => panic!("eval: %{} is computed from a tile index or window", id.0),
        }
    }

    fn map2(&self, id: ValueId, a: ValueId, b: ValueId, f: impl Fn(u64, u64) -> u64) -> Val {
        if let (Val::Scalar(a), Val::Scalar(b)) = (self.val(a), self.val(b)) {
            return Val::Scalar(a.zip(*b).map(|(a, b)| f(a, b)));
        }
        let shape = self.extents(id);
        let (a, b) = (self.val(a).to_tile(&shape), self.val(b).to_tile(&shape));
        let data = a.data.iter().zip(&b.data).map(|(x, y)| f(*x, *y)).collect();
        TileVal { shape, data, mask: meet(&a.mask, &b.mask) }.into()
    }

    fn map3(&self, id: ValueId, [a, b, c]: [ValueId; 3], f: impl Fn(u64, u64, u64) -> u64) -> Val {
        if let (Val::Scalar(a), Val::Scalar(b), Val::Scalar(c)) = (self.val(a), self.val(b), self.val(c)) {
            return Val::Scalar(a.zip(*b).zip(*c).map(|((a, b), c)| f(a, b, c)));
        }
        let shape = self.extents(id);
        let [a, b, c] = [a, b, c].map(|v| self.val(v).to_tile(&shape));
        let data = (0..a.data.len()).map(|i| f(a.data[i], b.data[i], c.data[i])).collect();
        TileVal { shape, data, mask: meet(&meet(&a.mask, &b.mask), &c.mask) }.into()
    }

    /// Absent where the condition or the chosen operand is.
    fn select(&self, id: ValueId, c: ValueId, a: ValueId, b: ValueId) -> Val {
        if let (Val::Scalar(c), Val::Scalar(a), Val::Scalar(b)) = (self.val(c), self.val(a), self.val(b)) {
            return Val::Scalar(c.and_then(|c| if c != 0 { *a } else { *b }));
        }
        let shape = self.extents(id);
        let [c, a, b] = [c, a, b].map(|v| self.val(v).to_tile(&shape));
        let chosen = |i: usize| if c.data[i] != 0 { &a } else { &b };
        let data = (0..c.data.len()).map(|i| chosen(i).data[i]).collect();
        let present = |i: usize| c.at(i).is_some() && chosen(i).at(i).is_some();
        let masked = [&c, &a, &b].iter().any(|t| t.mask.is_some());
        let mask = masked.then(|| (0..c.data.len()).map(present).collect());
        TileVal { shape, data, mask }.into()
    }

    /// The elements inside of the grid's tensor.
    fn within(&self, a: ValueId, ends: &[Option<ValueId>], loc: SourceLoc) -> Result<Val, EvalError> {
        let tile = self.tile(a);
        let mut inside = vec![true];
        for (end, size) in ends.iter().zip(&tile.shape) {
            let left = match end {
                Some(index) => self.integer(self.lengths[index], "the shape of a view", loc)? - self.first(*index),
                None => i64::MAX,
            };
            inside = inside.iter().flat_map(|own| (0..*size as i64).map(move |i| *own && i < left)).collect();
        }
        let mask = meet(&tile.mask, &inside.contains(&false).then_some(inside));
        Ok(TileVal { shape: tile.shape.clone(), data: tile.data.clone(), mask }.into())
    }

    fn broadcast(&self, id: ValueId, a: ValueId, from: &[Option<usize>]) -> Val {
        let (tile, shape) = (self.tile(a), self.extents(id));
        let old = strides(&tile.shape);
        let steps: Vec<usize> = from.iter().map(|f| f.map_or(0, |axis| old[axis])).collect();
        let order = positions(&shape, &steps);
        tile.rearranged(shape, order.into_iter()).into()
    }

    fn pick(&self, id: ValueId, tile: ValueId, axis: usize, at: usize) -> Val {
        let tile = self.tile(tile);
        let mut steps = strides(&tile.shape);
        let first = at * steps[axis];
        let mut shape = tile.shape.clone();
        steps.remove(axis);
        shape.remove(axis);
        let order: Vec<usize> = positions(&shape, &steps).into_iter().map(|p| p + first).collect();
        if let Ty::Scalar(_) = self.kernel.ty(id) {
            return Val::Scalar(tile.at(order[0]));
        }
        tile.rearranged(shape, order.into_iter()).into()
    }

    fn stack(&self, id: ValueId, parts: &[ValueId]) -> Val {
        let shape = self.extents(id);
        let inner = &shape[..shape.len() - 1];
        let parts: Vec<Rc<TileVal>> = parts.iter().map(|p| self.val(*p).to_tile(inner)).collect();
        let n = parts[0].data.len();
        let data = (0..n).flat_map(|i| parts.iter().map(move |p| p.data[i])).collect();
        let masked = parts.iter().any(|p| p.mask.is_some());
        let mask = masked.then(|| (0..n).flat_map(|i| parts.iter().map(move |p| p.at(i).is_some())).collect());
        TileVal { shape, data, mask }.into()
    }

    /// Shape and addresses of a load or store of `value` by tiles and coordinates; an empty shape is a scalar. Elements of a tile may lie
    /// outside, and are absent; those at a coordinate outside are accessed all the same on a GPU.
    pub(super) fn addresses(
        &self,
        view: ViewId,
        index: &[Index],
        value: ValueId,
        loc: SourceLoc,
    ) -> Result<(Vec<usize>, Vec<i64>), EvalError> {
        let window = self.window(view, loc)?;
        let (mut shape, mut addresses, mut beyond) = (Vec::new(), vec![window.start], None);
        for (axis, index) in index.iter().enumerate() {
            let steps: Vec<i64> = match index {
                Index::Tile(v) => {
                    let (first, size) = (self.first(*v), self.extent(*v));
                    shape.push(size as usize);
                    let walked = match self.spans.contains_key(v) {
                        true => self.walked(*v, loc)?,
                        false => (0, i64::MAX),
                    };
                    let step = |i: i64| if (walked.0..walked.1).contains(&i) { window.step(axis, i) } else { ABSENT };
                    (first..first + size).map(step).collect()
                }
                Index::At(v) => {
                    let at = self.integer(*v, "the coordinate", loc)?;
                    let inside = window.step(axis, at) != ABSENT;
                    beyond = beyond.or((!inside).then_some((axis, at)));
                    vec![if inside { window.step(axis, at) } else { 0 }]
                }
                Index::All(len) => {
                    self.check_all(&window, axis, *len, loc)?;
                    shape.push(*len as usize);
                    (0..*len).map(|i| window.step(axis, i)).collect()
                }
            };
            addresses = extend(&addresses, &steps);
        }
        if let Some((axis, at)) = beyond {
            self.hide(&[value], &mut addresses);
            if addresses.iter().any(|a| *a != ABSENT) {
                let (view, len) = (self.kernel.view(view).text.clone(), window.lens[axis]);
                return Err(EvalError::BeyondAxis { view, axis, at, len, loc });
            }
        }
        self.check_inside(view, &window, &addresses, loc)?;
        Ok((shape, addresses))
    }

    fn check_all(&self, window: &Window, axis: usize, len: i64, loc: SourceLoc) -> Result<(), EvalError> {
        if window.lens[axis] == len {
            return Ok(());
        }
        let message = format!("axis {axis} is used whole as {len} elements, but has {}", window.lens[axis]);
        Err(EvalError::Requirement { message, loc })
    }

    /// Shape and addresses of a gather, scatter or atomic: absent where an index is absent or out of range.
    pub(super) fn gathered(
        &self,
        view: ViewId,
        indices: &[ValueId],
        value: Option<ValueId>,
        loc: SourceLoc,
    ) -> Result<(Vec<usize>, Vec<i64>), EvalError> {
        let window = self.window(view, loc)?;
        let shape = indices.iter().copied().chain(value).find_map(|v| match self.val(v) {
            Val::Tile(t) => Some(t.shape.clone()),
            _ => None,
        });
        let shape = shape.unwrap_or_default();
        let mut addresses = vec![window.start; shape.iter().product()];
        for (axis, v) in indices.iter().enumerate() {
            let (tile, dtype) = (self.val(*v).to_tile(&shape), self.dtype(*v));
            for (i, a) in addresses.iter_mut().enumerate() {
                let step = tile.at(i).map_or(ABSENT, |cell| window.step(axis, coordinate(self.numbers, dtype, cell)));
                *a = if *a == ABSENT || step == ABSENT { ABSENT } else { *a + step };
            }
        }
        self.check_inside(view, &window, &addresses, loc)?;
        Ok((shape, addresses))
    }

    /// Positions that the author asserts to lie inside: those of elements that exist, on their side of enclosing choices.
    fn check_positions(&self, id: ValueId, view: ViewId, indices: &[ValueId], shape: &[usize], loc: SourceLoc) -> Result<(), EvalError> {
        let window = self.window(view, loc)?;
        let beyond = self.first_beyond(&[id], indices, shape, |axis, at| window.step(axis, at) != ABSENT);
        let Some((axis, at)) = beyond else { return Ok(()) };
        Err(EvalError::BeyondAxis { view: self.kernel.view(view).text.clone(), axis, at, len: window.lens[axis], loc })
    }

    /// The axis and the position of the first element that lies nowhere, of those that exist where `hidden_by` is not on the other side of an
    /// enclosing choice.
    pub(super) fn first_beyond(
        &self,
        hidden_by: &[ValueId],
        indices: &[ValueId],
        shape: &[usize],
        lies_inside: impl Fn(usize, i64) -> bool,
    ) -> Option<(usize, i64)> {
        let tiles: Vec<_> = indices.iter().map(|v| (self.val(*v).to_tile(shape), self.dtype(*v))).collect();
        let there = |i: usize| if tiles.iter().all(|(t, _)| t.at(i).is_some()) { 0 } else { ABSENT };
        let mut asked: Vec<i64> = (0..shape.iter().product()).map(there).collect();
        self.hide(hidden_by, &mut asked);
        let exist = (0..asked.len()).filter(|i| asked[*i] != ABSENT);
        for i in exist {
            for (axis, (tile, dtype)) in tiles.iter().enumerate() {
                let at = coordinate(self.numbers, *dtype, tile.data[i]);
                if !lies_inside(axis, at) {
                    return Some((axis, at));
                }
            }
        }
        None
    }

    fn load(&mut self, id: ValueId, view: ViewId, shape: Vec<usize>, mut addresses: Vec<i64>, loc: SourceLoc) -> Result<Val, EvalError> {
        let (window, dtype) = (self.window(view, loc)?, self.kernel.view(view).dtype);
        self.hide(&[id], &mut addresses);
        let read = |a: i64| self.numbers.load(dtype, window.read(self.buffers, a));
        if let Ty::Scalar(_) = self.kernel.ty(id) {
            return Ok(Val::Scalar(addresses.first().filter(|a| **a != ABSENT).map(|a| read(*a))));
        }
        let data = addresses.iter().map(|a| if *a == ABSENT { 0 } else { read(*a) }).collect();
        let mask = addresses.contains(&ABSENT).then(|| addresses.iter().map(|a| *a != ABSENT).collect());
        Ok(TileVal { shape, data, mask }.into())
    }

    /// Elements on the other side of the enclosing per-element choices are not accessed: of tiles as the choices are, by what their axes
    /// are called. The shape is that of the first tile among `values`.
    pub(super) fn hide(&self, values: &[ValueId], addresses: &mut [i64]) {
        let shape = values.iter().find_map(|v| self.kernel.ty(*v).shape());
        for (condition, mask, negate) in &self.sides {
            if self.kernel.ty(*condition).shape() != shape {
                continue;
            }
            for (i, a) in addresses.iter_mut().enumerate() {
                if mask.at(i).is_none_or(|cell| (cell != 0) == *negate) {
                    *a = ABSENT;
                }
            }
        }
    }
}

/// A u64 above the range of i64 lies outside of every view.
pub(super) fn coordinate(numbers: Numbers, dtype: DType, cell: u64) -> i64 {
    if dtype == DType::U64 { i64::try_from(cell).unwrap_or(-1) } else { numbers.integer(dtype, cell) }
}
