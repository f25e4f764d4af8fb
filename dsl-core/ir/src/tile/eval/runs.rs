//! Runs of neighbours of shared arrays, and asynchronous copies to them.

use super::EvalError;
use super::by_hand::Kind;
use super::memory::ABSENT;
use super::run::Machine;
use super::value::{TileVal, Val};
use crate::loc::SourceLoc;
use crate::tile::{SharedAccess, SharedId, ValueId, ViewId};
use std::collections::{HashSet, VecDeque};

/// Elements that one thread copies.
#[derive(Clone, Debug)]
struct Arrival {
    array: SharedId,
    /// The first element; the others follow.
    element: usize,
    cells: Vec<u64>,
    thread: usize,
}

/// Copies that are on their way, in groups: the oldest first, the last one still open.
#[derive(Default)]
pub(super) struct Copies {
    closed: VecDeque<Vec<Arrival>>,
    open: Vec<Arrival>,
    elements: HashSet<(SharedId, usize)>,
}

impl Copies {
    /// What was started since the last group is one.
    pub(super) fn close(&mut self) {
        self.closed.push_back(std::mem::take(&mut self.open));
    }

    /// Whether a copy is on its way to an element.
    pub(super) fn reach(&self, array: SharedId, element: usize) -> bool {
        self.elements.contains(&(array, element))
    }
}

impl Machine<'_, '_> {
    /// The positions of runs in an array: the first element of each, in row-major order of the whole array.
    fn runs(&self, access: &SharedAccess, indices: &[ValueId], run: i64) -> Result<(Vec<usize>, Vec<usize>), EvalError> {
        let array = self.kernel.shared_array(access.array);
        let len = array.shape.last().map_or(1, |s| self.size(s)) as usize;
        let (shape, at) = self.shared_positions(access.array, indices, &[])?;
        let what = array.name.clone().unwrap_or_else(|| "a shared array".into());
        let run_at = |a: Option<usize>| match a {
            Some(a) if (a % len) as i64 % run != 0 => {
                let wrong = "which is no multiple of its length".into();
                Err(EvalError::Run { what: what.clone(), run, at: (a % len) as i64, wrong, loc: access.loc })
            }
            Some(a) if (a % len) as i64 + run <= len as i64 => Ok(a),
            a => {
                let wrong = format!("and reaches outside of its {len} elements, or a position lies outside of another axis");
                Err(EvalError::Run { what: what.clone(), run, at: a.map_or(-1, |a| (a % len) as i64), wrong, loc: access.loc })
            }
        };
        Ok((shape, at.into_iter().map(run_at).collect::<Result<_, _>>()?))
    }

    /// Reads runs: the result has the position in the run as its first axis.
    pub(super) fn gather_runs(&mut self, access: &SharedAccess, indices: &[ValueId], result: ValueId) -> Result<(), EvalError> {
        let run = self.extents(result)[0];
        let (mut shape, first) = self.runs(access, indices, run as i64)?;
        let mut data = Vec::with_capacity(first.len() * run);
        for k in 0..run {
            let at: Vec<Option<usize>> = first.iter().map(|a| Some(a + k)).collect();
            self.by_hand(access.array, Kind::Read, false, &at, access.loc)?;
            self.read_written(access.array, &at, access.loc)?;
            data.extend(first.iter().map(|a| self.shared[access.array.0 as usize][a + k]));
        }
        shape.insert(0, run);
        self.set(result, TileVal { shape, data, mask: None }.into());
        Ok(())
    }

    /// Writes runs of an array.
    pub(super) fn scatter_shared_runs(&mut self, access: &SharedAccess, indices: &[ValueId], value: ValueId) -> Result<(), EvalError> {
        let (tile, dtype) = (self.tile(value), self.kernel.shared_array(access.array).dtype);
        let (_, first) = self.runs(access, indices, tile.shape[0] as i64)?;
        let mut met = HashSet::new();
        for k in 0..tile.shape[0] {
            let at: Vec<Option<usize>> = first.iter().map(|a| Some(a + k)).collect();
            self.by_hand(access.array, Kind::Write, false, &at, access.loc)?;
            self.written(access.array, &at);
            for (i, a) in first.iter().map(|a| a + k).enumerate() {
                let Some(cell) = tile.at(k * first.len() + i) else {
                    return Err(EvalError::Absent { what: "an element of a run that is stored".into(), loc: access.loc });
                };
                if !met.insert(a) {
                    let param = self.kernel.shared_array(access.array).name.clone().unwrap_or_else(|| "a shared array".into());
                    return Err(EvalError::ScatterMeets { param, element: a as i64, loc: access.loc });
                }
                let new = self.numbers.load(dtype, self.numbers.store(dtype, cell));
                let old = std::mem::replace(&mut self.shared[access.array.0 as usize][a], new);
                self.changes += u64::from(old != new);
            }
        }
        Ok(())
    }

    /// The addresses of runs of a view: for each position in the run those of all runs, absent where they lie outside.
    fn run_addresses(&self, view: ViewId, from: &[ValueId], shape: &[usize], run: i64, loc: SourceLoc) -> Result<Vec<Vec<i64>>, EvalError> {
        let (window, last) = (self.window(view, loc)?, from.len() - 1);
        let mut all = vec![vec![window.start; shape.iter().product()]; run as usize];
        for (axis, v) in from.iter().enumerate() {
            if !matches!(self.val(*v), Val::Tile(_)) {
                let at = self.integer(*v, "a coordinate", loc)?;
                if !(0..window.lens[axis]).contains(&at) {
                    let view = self.kernel.view(view).text.clone();
                    return Err(EvalError::BeyondAxis { view, axis, at, len: window.lens[axis], loc });
                }
            }
            let (tile, dtype) = (self.val(*v).to_tile(shape), self.dtype(*v));
            for (i, at) in (0..tile.data.len()).map(|i| (i, tile.at(i).map(|c| self.numbers.integer(dtype, c)))) {
                if let Some(at) = at.filter(|a| axis == last && a % run != 0) {
                    let (what, wrong) = (self.kernel.view(view).text.clone(), "which is no multiple of its length".into());
                    return Err(EvalError::Run { what, run, at, wrong, loc });
                }
                for (k, addresses) in all.iter_mut().enumerate() {
                    let step = at.map_or(ABSENT, |a| window.step(axis, if axis == last { a + k as i64 } else { a }));
                    let address = &mut addresses[i];
                    *address = if *address == ABSENT || step == ABSENT { ABSENT } else { *address + step };
                }
            }
        }
        all.iter().try_for_each(|addresses| self.check_inside(view, &window, addresses, loc))?;
        Ok(all)
    }

    /// Starts copies. What they bring is read now; it is there when its group has been waited for.
    pub(super) fn copy(
        &mut self,
        access: &SharedAccess,
        indices: &[ValueId],
        (view, from): (ViewId, &[ValueId]),
        run: i64,
    ) -> Result<(), EvalError> {
        let (shape, to) = self.runs(access, indices, run)?;
        let addresses = self.run_addresses(view, from, &shape, run, access.loc)?;
        let (window, dtype) = (self.window(view, access.loc)?, self.kernel.view(view).dtype);
        for (thread, element) in to.into_iter().enumerate() {
            let cell = |a: i64| if a == ABSENT { 0 } else { self.numbers.load(dtype, window.read(self.buffers, a)) };
            let cells: Vec<u64> = addresses.iter().map(|all| cell(all[thread])).collect();
            for element in element..element + run as usize {
                self.copied_by_hand(access.array, element, thread, access.loc)?;
                if !self.copies.elements.insert((access.array, element)) {
                    let array = self.kernel.shared_array(access.array).name.clone().unwrap_or_else(|| "a shared array".into());
                    return Err(EvalError::OnItsWay { array, element: element as i64, loc: access.loc });
                }
            }
            self.copies.open.push(Arrival { array: access.array, element, cells, thread });
        }
        Ok(())
    }

    /// Stores runs to computed positions of a view.
    pub(super) fn scatter_runs(&mut self, view: ViewId, at: &[ValueId], value: ValueId, run: i64, loc: SourceLoc) -> Result<(), EvalError> {
        let tile = self.tile(value);
        if tile.mask.as_ref().is_some_and(|m| m.contains(&false)) {
            return Err(EvalError::Absent { what: "an element of a run that is stored".into(), loc });
        }
        let addresses = self.run_addresses(view, at, &tile.shape[1..], run, loc)?.concat();
        self.check_scatter(view, &addresses, loc)?;
        self.write(view, &addresses, &tile, loc)
    }

    /// All groups but the newest `pending` arrive.
    pub(super) fn await_copies(&mut self, pending: u32, loc: SourceLoc) -> Result<(), EvalError> {
        while self.copies.closed.len() > pending as usize {
            for Arrival { array, element, cells, thread } in self.copies.closed.pop_front().unwrap_or_default() {
                for (k, cell) in cells.into_iter().enumerate() {
                    self.copies.elements.remove(&(array, element + k));
                    self.copied_by_hand(array, element + k, thread, loc)?;
                    self.written(array, &[Some(element + k)]);
                    let old = std::mem::replace(&mut self.shared[array.0 as usize][element + k], cell);
                    self.changes += u64::from(old != cell);
                }
            }
        }
        Ok(())
    }
}
