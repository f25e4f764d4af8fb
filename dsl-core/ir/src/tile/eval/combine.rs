//! Reductions, scans, and what is combined over the grid.

use super::EvalError;
use super::run::Machine;
use super::value::{TileVal, Val, positions, strides};
use crate::tile::{Combine, Form, Operator, Ty, ValueId};
use std::rc::Rc;

/// Groups of elements that an operator is tried on, and elements of each.
const TRIED: usize = 8;

/// What the tiles up to one come to, and each of the latest.
#[derive(Default)]
pub(super) struct SoFar {
    all: Vec<u64>,
    last: Vec<Vec<u64>>,
}

impl Machine<'_, '_> {
    /// Runs a combination. Elements are combined one by one, from the first to the last.
    pub(super) fn combine(&mut self, c: &Combine) -> Result<(), EvalError> {
        match &c.form {
            Form::Reduce { axes } => self.reduce(c, axes),
            Form::Scan { axis, exclusive, reversed, over_grid } => {
                let before = if *over_grid { self.up_to_here(c) } else { self.identity(c) };
                let all = self.scan(c, *axis, *exclusive, *reversed, before)?;
                if *over_grid {
                    self.so_far.entry(c.results[0]).or_default().all = all;
                }
                Ok(())
            }
            Form::Before => self.before(c),
            // The evaluator is one block: it has combined everything already.
            Form::Grid => {
                self.try_total(c)?;
                for (input, result) in c.inputs.iter().zip(&c.results) {
                    let value = self.val(*input).clone();
                    self.set(*result, value);
                }
                Ok(())
            }
        }
    }

    fn reduce(&mut self, c: &Combine, axes: &[usize]) -> Result<(), EvalError> {
        let tiles: Vec<Rc<TileVal>> = c.inputs.iter().map(|v| self.tile(*v)).collect();
        let shape = tiles[0].shape.clone();
        let all = strides(&shape);
        let of =
            |keep: bool, from: &[usize]| -> Vec<usize> { (0..from.len()).filter(|k| axes.contains(k) != keep).map(|k| from[k]).collect() };
        let kept = positions(&of(true, &shape), &of(true, &all));
        let along = positions(&of(false, &shape), &of(false, &all));
        let identity = self.identity(c);
        for k in kept.iter().take(TRIED) {
            let some: Vec<Vec<u64>> = along.iter().filter_map(|a| element(&tiles, k + a)).take(TRIED).collect();
            self.try_operator(c, &some)?;
        }
        let mut cells: Vec<Vec<u64>> = vec![Vec::with_capacity(kept.len()); tiles.len()];
        for k in &kept {
            let mut acc = identity.clone();
            for a in &along {
                if let Some(element) = element(&tiles, k + a) {
                    acc = self.apply(c, acc, element)?;
                }
            }
            cells.iter_mut().zip(acc).for_each(|(column, cell)| column.push(cell));
        }
        for (result, cells) in c.results.iter().zip(cells) {
            let value = match self.kernel.ty(*result) {
                Ty::Scalar(_) => Val::Scalar(Some(cells[0])),
                _ => TileVal { shape: self.extents(*result), data: cells, mask: None }.into(),
            };
            self.set(*result, value);
        }
        Ok(())
    }

    /// From what lies before each row on; what the last row comes to.
    fn scan(&mut self, c: &Combine, axis: usize, exclusive: bool, reversed: bool, before: Vec<u64>) -> Result<Vec<u64>, EvalError> {
        let tiles: Vec<Rc<TileVal>> = c.inputs.iter().map(|v| self.tile(*v)).collect();
        let shape = tiles[0].shape.clone();
        let all = strides(&shape);
        let rest: Vec<usize> = (0..shape.len()).filter(|k| *k != axis).collect();
        let starts = positions(&rest.iter().map(|k| shape[*k]).collect::<Vec<_>>(), &rest.iter().map(|k| all[*k]).collect::<Vec<_>>());
        let mut order: Vec<usize> = (0..shape[axis]).collect();
        if reversed {
            order.reverse();
        }
        for start in starts.iter().take(TRIED) {
            let some: Vec<Vec<u64>> = order.iter().filter_map(|k| element(&tiles, start + k * all[axis])).take(TRIED).collect();
            self.try_operator(c, &some)?;
        }
        let mut outputs: Vec<Vec<u64>> = tiles.iter().map(|t| t.data.clone()).collect();
        let mut totals: Vec<Vec<u64>> = vec![Vec::new(); tiles.len()];
        let mut last = before.clone();
        for start in starts {
            let mut acc = before.clone();
            for k in &order {
                let at = start + k * all[axis];
                let front = acc.clone();
                if let Some(element) = element(&tiles, at) {
                    acc = self.apply(c, acc, element)?;
                }
                let shown = if exclusive { &front } else { &acc };
                outputs.iter_mut().zip(shown).for_each(|(column, cell)| column[at] = *cell);
            }
            totals.iter_mut().zip(&acc).for_each(|(column, cell)| column.push(*cell));
            last = acc;
        }
        self.totals.extend(c.results.iter().copied().zip(totals));
        for ((result, data), tile) in c.results.iter().zip(outputs).zip(&tiles) {
            self.set(*result, TileVal { shape: shape.clone(), data, mask: tile.mask.clone() }.into());
        }
        Ok(last)
    }

    /// What the tiles before the grid's own come to: tiles are taken one after the other.
    fn up_to_here(&self, c: &Combine) -> Vec<u64> {
        let found = self.so_far.get(&c.results[0]).filter(|_| !self.begins_row());
        found.map_or_else(|| self.identity(c), |so_far| so_far.all.clone())
    }

    fn before(&mut self, c: &Combine) -> Result<(), EvalError> {
        let own: Vec<u64> = c.inputs.iter().map(|v| self.cell(*v, "what a tile comes to", c.loc)).collect::<Result<_, _>>()?;
        let before = self.up_to_here(c);
        let mut last = self.so_far.remove(&c.results[0]).unwrap_or_default().last;
        last.push(own.clone());
        if last.len() > 3 {
            last.remove(0);
        }
        self.try_operator(c, &last)?;
        let all = self.apply(c, before.clone(), own)?;
        self.so_far.insert(c.results[0], SoFar { all, last });
        for (result, cell) in c.results.iter().zip(before) {
            self.set(*result, Val::Scalar(Some(cell)));
        }
        Ok(())
    }

    /// Whether the grid's tile at hand is the first one along the last axis.
    fn begins_row(&self) -> bool {
        let last = self.kernel.grid_loop().and_then(|l| l.vars.last());
        last.is_none_or(|v| matches!(self.val(*v), Val::Index(0)))
    }

    /// What a scan comes to, row after row.
    pub(super) fn total(&self, id: ValueId, scan: ValueId) -> Val {
        let cells = self.totals.get(&scan).unwrap_or_else(|| panic!("eval: %{} is the total of no scan", id.0));
        match self.kernel.ty(id) {
            Ty::Scalar(_) => Val::Scalar(Some(cells[0])),
            _ => TileVal { shape: self.extents(id), data: cells.clone(), mask: None }.into(),
        }
    }

    /// Tries the operator on what the only block has: its elements, where these are a tile, and what they come to with themselves.
    fn try_total(&mut self, c: &Combine) -> Result<(), EvalError> {
        let Operator::User { .. } = &c.operator else { return Ok(()) };
        let cells = |v: &Val| match v {
            Val::Scalar(cell) => cell.map(|cell| vec![cell]),
            Val::Tile(tile) => tile.mask.is_none().then(|| tile.data.iter().take(TRIED).copied().collect()),
            _ => None,
        };
        let columns: Option<Vec<Vec<u64>>> = c.inputs.iter().map(|v| cells(self.val(*v))).collect();
        let Some(columns) = columns else { return Ok(()) };
        let mut elements: Vec<Vec<u64>> = (0..columns[0].len()).map(|i| columns.iter().map(|column| column[i]).collect()).collect();
        while let Some(last) = elements.last().filter(|_| elements.len() < TRIED).cloned() {
            elements.push(self.apply(c, elements[0].clone(), last)?);
        }
        self.try_operator(c, &elements)
    }

    pub(super) fn identity(&self, c: &Combine) -> Vec<u64> {
        let dtypes: Vec<_> = c.inputs.iter().map(|v| self.dtype(*v)).collect();
        c.operator.identity(&dtypes).into_iter().map(|l| self.numbers.literal(l)).collect()
    }

    /// The operator on two elements' components, the left one's first.
    pub(super) fn apply(&mut self, c: &Combine, left: Vec<u64>, right: Vec<u64>) -> Result<Vec<u64>, EvalError> {
        let Operator::User { arguments, body, results, .. } = &c.operator else {
            let dtype = self.dtype(c.inputs[0]);
            let (op, _) = c.operator.standard(dtype).unwrap_or_else(|| panic!("eval: an operator without operation"));
            return Ok(vec![self.numbers.binary(op, dtype)(left[0], right[0])]);
        };
        for (argument, cell) in arguments.iter().zip(left.into_iter().chain(right)) {
            self.set(*argument, Val::Scalar(Some(cell)));
        }
        self.block(body)?;
        results.iter().map(|r| self.cell(*r, "the operator's result", self.kernel.value(*r).loc)).collect()
    }
}

/// The components of an element: absent where one of them is.
fn element(tiles: &[Rc<TileVal>], at: usize) -> Option<Vec<u64>> {
    tiles.iter().map(|t| t.at(at)).collect()
}
