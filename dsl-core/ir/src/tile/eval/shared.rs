//! Shared arrays, and read-modify-write of any memory.

use super::by_hand::Kind;
use super::memory::ABSENT;
use super::number::{Binary, Numbers};
use super::run::Machine;
use super::value::{TileVal, Val, strides};
use super::{EvalError, ops};
use crate::loc::SourceLoc;
use crate::tile::{SharedAccess, SharedId, SharedKind, Ty, Update, ValueId, ViewId, shared};
use crate::types::{AtomicOp, DType};
use std::collections::HashSet;
use std::rc::Rc;

/// A read-modify-write on cells: old value, operand and expected value to new value.
struct Rule {
    op: AtomicOp,
    combine: Option<Binary>,
}

impl Rule {
    fn new(numbers: Numbers, op: AtomicOp, dtype: DType) -> Rule {
        Rule { op, combine: shared::operation(op, dtype).map(|(op, _)| numbers.binary(op, dtype)) }
    }

    fn apply(&self, old: u64, value: u64, expected: Option<u64>) -> u64 {
        match (&self.combine, expected) {
            (Some(combine), _) => combine(old, value),
            (None, Some(expected)) if self.op == AtomicOp::CompareSwap && old != expected => old,
            (None, _) if self.op == AtomicOp::Load => old,
            (None, _) => value,
        }
    }
}

/// The result of an atomic: old values, absent where nothing was accessed.
fn old_values(scalar: bool, shape: &[usize], old: Vec<Option<u64>>) -> Val {
    if scalar {
        // An update that was not made found nothing, which is zero: a scalar is there for the whole block.
        return Val::Scalar(Some(old[0].unwrap_or(0)));
    }
    let mask = old.iter().any(Option::is_none).then(|| old.iter().map(Option::is_some).collect());
    TileVal { shape: shape.to_vec(), data: old.into_iter().map(|o| o.unwrap_or(0)).collect(), mask }.into()
}

impl Machine<'_, '_> {
    /// Runs one access of a shared array.
    pub(super) fn shared_access(&mut self, access: &SharedAccess) -> Result<(), EvalError> {
        let array = self.kernel.shared_array(access.array);
        let dtype = array.dtype;
        match &access.kind {
            SharedKind::Fill(v) => {
                let cell = self.cell(*v, "the value that fills a shared array", access.loc)?;
                let len = array.shape.iter().map(|s| self.size(s) as usize).product();
                let cell = self.numbers.load(dtype, self.numbers.store(dtype, cell));
                let old = std::mem::replace(&mut self.shared[access.array.0 as usize], vec![cell; len]);
                self.changes += u64::from(old.len() != len || old.iter().any(|o| *o != cell));
                self.filled_by_hand(access.array, access.loc)?;
                self.unwritten[access.array.0 as usize].clear();
            }
            SharedKind::Empty => {
                let len = array.shape.iter().map(|s| self.size(s) as usize).product();
                self.shared[access.array.0 as usize] = vec![0; len];
                self.unwritten[access.array.0 as usize] = vec![true; len];
            }
            SharedKind::Gather { indices, result, inside } => {
                let (shape, at) = self.shared_positions(access.array, indices, &[])?;
                if *inside {
                    self.check_array(access, indices, &shape)?;
                }
                self.by_hand(access.array, Kind::Read, shape.is_empty(), &at, access.loc)?;
                self.read_written(access.array, &at, access.loc)?;
                let cells = &self.shared[access.array.0 as usize];
                let found = at.iter().map(|a| a.map(|a| cells[a])).collect();
                let scalar = matches!(self.kernel.ty(*result), Ty::Scalar(_));
                self.set(*result, old_values(scalar, &shape, found));
            }
            SharedKind::Scatter { indices, value } => {
                let (shape, at) = self.shared_positions(access.array, indices, &[*value])?;
                self.by_hand(access.array, Kind::Write, shape.is_empty(), &at, access.loc)?;
                self.written(access.array, &at);
                let tile = self.val(*value).to_tile(&shape);
                let mut met = HashSet::new();
                for (i, a) in at.iter().enumerate() {
                    let Some(a) = *a else { continue };
                    if !met.insert(a) {
                        let param = array.name.clone().unwrap_or_else(|| "a shared array".into());
                        return Err(EvalError::ScatterMeets { param, element: a as i64, loc: access.loc });
                    }
                    let new = self.numbers.load(dtype, self.numbers.store(dtype, tile.data[i]));
                    let old = std::mem::replace(&mut self.shared[access.array.0 as usize][a], new);
                    self.changes += u64::from(old != new);
                }
            }
            SharedKind::GatherRun { indices, result } => self.gather_runs(access, indices, *result)?,
            SharedKind::ScatterRun { indices, value } => self.scatter_shared_runs(access, indices, *value)?,
            SharedKind::Copy { indices, view, from, run } => self.copy(access, indices, (*view, from), *run)?,
            SharedKind::Start(value) => self.start_chain(access.array, *value, access.loc)?,
            SharedKind::Take { .. } | SharedKind::Leave(_) => panic!("eval: a chain is taken and left together"),
            SharedKind::Atomic(update) => {
                let (shape, at) = self.shared_positions(access.array, &update.indices, &update.operands())?;
                self.by_hand(access.array, Kind::Atomic, shape.is_empty(), &at, access.loc)?;
                self.read_written(access.array, &at, access.loc)?;
                let rule = Rule::new(self.numbers, update.op, dtype);
                let (value, expected) = self.atomic_operands(&shape, update);
                let cells = &mut self.shared[access.array.0 as usize];
                let mut old = Vec::new();
                for (i, a) in at.iter().enumerate() {
                    old.push(a.map(|a| cells[a]));
                    if let Some(a) = *a {
                        let new = rule.apply(cells[a], value.data[i], expected.as_ref().map(|e| e.data[i]));
                        self.changes += u64::from(std::mem::replace(&mut cells[a], new) != new);
                    }
                }
                self.set_old(update, &shape, old);
            }
        }
        Ok(())
    }

    /// Elements that nothing was written to since their array was made empty hold nothing.
    pub(super) fn read_written(&self, id: SharedId, at: &[Option<usize>], loc: SourceLoc) -> Result<(), EvalError> {
        let unwritten = &self.unwritten[id.0 as usize];
        match at.iter().flatten().find(|a| unwritten.get(**a) == Some(&true)) {
            Some(element) => {
                let array = self.kernel.shared_array(id).name.clone().unwrap_or_else(|| "a shared array".into());
                Err(EvalError::Unwritten { array, element: *element as i64, loc })
            }
            None => Ok(()),
        }
    }

    /// Notes that elements were written.
    pub(super) fn written(&mut self, id: SharedId, at: &[Option<usize>]) {
        let unwritten = &mut self.unwritten[id.0 as usize];
        at.iter().flatten().filter(|a| **a < unwritten.len()).copied().collect::<Vec<_>>().into_iter().for_each(|a| unwritten[a] = false);
    }

    /// The operand and the expected value of an atomic as tiles.
    fn atomic_operands(&self, shape: &[usize], update: &Update) -> (Rc<TileVal>, Option<Rc<TileVal>>) {
        (self.val(update.value).to_tile(shape), update.expected.map(|e| self.val(e).to_tile(shape)))
    }

    fn set_old(&mut self, update: &Update, shape: &[usize], old: Vec<Option<u64>>) {
        if let Some(result) = update.result {
            let scalar = matches!(self.kernel.ty(result), Ty::Scalar(_));
            self.set(result, old_values(scalar, shape, old));
        }
    }

    /// All positions that are there lie inside of the array, as the author asserts.
    fn check_array(&self, access: &SharedAccess, indices: &[ValueId], shape: &[usize]) -> Result<(), EvalError> {
        let array = self.kernel.shared_array(access.array);
        let len = |axis: usize| self.size(&array.shape[axis]);
        let Some((axis, at)) = self.first_beyond(indices, indices, shape, |axis, at| (0..len(axis)).contains(&at)) else { return Ok(()) };
        let view = array.name.clone().unwrap_or_else(|| "a shared array".into());
        Err(EvalError::BeyondAxis { view, axis, at, len: len(axis), loc: access.loc })
    }

    /// Shape and row-major positions in a shared array: absent where an index is absent or out of range, where an operand is absent,
    /// and on the other side of an enclosing choice.
    pub(super) fn shared_positions(
        &self,
        array: SharedId,
        indices: &[ValueId],
        operands: &[ValueId],
    ) -> Result<(Vec<usize>, Vec<Option<usize>>), EvalError> {
        let lens: Vec<usize> = self.kernel.shared_array(array).shape.iter().map(|s| self.size(s) as usize).collect();
        let steps = strides(&lens);
        let shape = indices.iter().chain(operands).find_map(|v| match self.val(*v) {
            Val::Tile(t) => Some(t.shape.clone()),
            _ => None,
        });
        let shape = shape.unwrap_or_default();
        let mut at: Vec<i64> = vec![0; shape.iter().product()];
        for (axis, v) in indices.iter().enumerate() {
            let (tile, dtype) = (self.val(*v).to_tile(&shape), self.dtype(*v));
            for (i, a) in at.iter_mut().enumerate().filter(|(_, a)| **a != ABSENT) {
                let inside = |c: &i64| (0..lens[axis] as i64).contains(c);
                let found = tile.at(i).map(|cell| ops::coordinate(self.numbers, dtype, cell)).filter(inside);
                *a = found.map_or(ABSENT, |c| *a + c * steps[axis] as i64);
            }
        }
        for v in operands {
            super::run::drop_absent(&mut at, &self.val(*v).to_tile(&shape));
        }
        self.hide(&[indices, operands].concat(), &mut at);
        Ok((shape, at.into_iter().map(|a| (a != ABSENT).then_some(a as usize)).collect()))
    }

    /// Where an access of a view is not absent for its operands and the enclosing choices.
    pub(super) fn present(&self, shape: &[usize], addresses: &mut [i64], indices: &[ValueId], operands: &[ValueId]) {
        for v in operands {
            super::run::drop_absent(addresses, &self.val(*v).to_tile(shape));
        }
        self.hide(&[indices, operands].concat(), addresses);
    }

    /// Read-modify-write of elements of a view.
    pub(super) fn update(&mut self, update: &Update, view: ViewId, loc: SourceLoc) -> Result<(), EvalError> {
        let (shape, mut addresses) = self.gathered(view, &update.indices, Some(update.value), loc)?;
        self.present(&shape, &mut addresses, &update.indices, &update.operands());
        let (window, dtype) = (self.window(view, loc)?, self.kernel.view(view).dtype);
        let rule = Rule::new(self.numbers, update.op, dtype);
        let (value, expected) = self.atomic_operands(&shape, update);
        let mut old = vec![None; addresses.len()];
        for (i, a) in addresses.iter().enumerate().filter(|(_, a)| **a != ABSENT) {
            let cell = self.numbers.load(dtype, window.read(self.buffers, *a));
            let new = rule.apply(cell, value.data[i], expected.as_ref().map(|e| e.data[i]));
            let (before, bits) = (window.read(self.buffers, *a), self.numbers.store(dtype, new));
            self.changes += u64::from(before != bits);
            window.write(self.buffers, *a, bits);
            old[i] = Some(cell);
        }
        self.set_old(update, &shape, old);
        Ok(())
    }
}
