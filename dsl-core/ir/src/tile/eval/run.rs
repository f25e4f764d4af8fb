//! Statements: loops, choices, stores.

mod arguments;
mod loops;
mod together;

use arguments::{check_args, check_requirements};

use super::by_hand::{Epoch, Marks};
use super::combine::SoFar;
use super::laws::Trial;
use super::memory::{ABSENT, Tensor, Window};
use super::number::Numbers;
use super::runs::Copies;
use super::value::{TileVal, Val};
use super::{EvalError, EvalOptions, EvalRef};
use crate::facts::TensorArg;
use crate::loc::SourceLoc;
use crate::schedule::{Choice, Schedule};
use crate::tile::chain;
use crate::tile::{Branch, Kernel, ParamKind, Size, Span, Stmt, Ty, ValueId, ViewId};
use crate::types::DType;
use std::collections::HashMap;
use std::rc::Rc;

/// Runs a kernel.
pub(super) fn run(kernel: &Kernel, buffers: &mut [&mut [u8]], args: &[EvalRef], options: &EvalOptions) -> Result<(), EvalError> {
    check_args(kernel, args)?;
    check_requirements(kernel, args, buffers)?;
    let mut tensors = Vec::new();
    for (param, arg) in kernel.params.iter().zip(args) {
        let size = if let ParamKind::Tensor { dtype, .. } = param.kind { dtype.size() } else { 0 };
        let tensor = Tensor::new(arg, size, buffers).map_err(|message| EvalError::Argument { param: param.name.clone(), message })?;
        tensors.push(tensor);
    }
    let schedule = options.schedule.clone().unwrap_or_else(|| Schedule::smallest_of(kernel));
    let mut machine = Machine {
        kernel,
        args,
        lengths: crate::tile::access::loop_lengths(kernel),
        spans: crate::tile::access::loop_spans(kernel),
        tensors,
        knobs: kernel.knobs.iter().zip(&schedule.choices).map(|(_, c)| if let Choice::Int(i) = c { *i } else { 0 }).collect(),
        numbers: Numbers { float64: options.float64 },
        options,
        fuel: options.fuel.unwrap_or(u64::MAX),
        changes: 0,
        buffers,
        env: vec![None; kernel.values.len()],
        shared: vec![Vec::new(); kernel.shared.len()],
        unwritten: vec![Vec::new(); kernel.shared.len()],
        marks: vec![Vec::new(); kernel.shared.len()],
        epoch: Epoch::default(),
        copies: Copies::default(),
        sides: Vec::new(),
        scattered: HashMap::new(),
        trials: HashMap::new(),
        totals: HashMap::new(),
        so_far: HashMap::new(),
    };
    machine.block(&kernel.body)
}

/// A running kernel.
pub(super) struct Machine<'a, 'b> {
    pub(super) kernel: &'a Kernel,
    pub(super) args: &'a [EvalRef],
    pub(super) numbers: Numbers,
    pub(super) buffers: &'a mut [&'b mut [u8]],
    /// Masks of the enclosing per-element choices; true for the side where the mask is false.
    pub(super) sides: Vec<(ValueId, Rc<TileVal>, bool)>,
    /// The length that the loop of each tile index walks.
    pub(super) lengths: HashMap<ValueId, ValueId>,
    /// The positions to which it keeps, if it does.
    pub(super) spans: HashMap<ValueId, Span>,
    tensors: Vec<Option<Tensor>>,
    knobs: Vec<i64>,
    options: &'a EvalOptions,
    pub(super) fuel: u64,
    /// What was tried of the operators of authors, by their lines.
    pub(super) trials: HashMap<SourceLoc, Trial>,
    /// What the latest scans came to, by their results.
    pub(super) totals: HashMap<ValueId, Vec<u64>>,
    /// What the tiles up to the latest one come to, where later ones look back at them, by the first result.
    pub(super) so_far: HashMap<ValueId, SoFar>,
    /// How often an element of memory has changed.
    pub(super) changes: u64,
    env: Vec<Option<Val>>,
    /// Cells of the shared arrays.
    pub(super) shared: Vec<Vec<u64>>,
    /// Of those that were made empty, which elements nobody has written.
    pub(super) unwritten: Vec<Vec<bool>>,
    /// Who accessed the elements of those that are kept by hand.
    pub(super) marks: Vec<Vec<Marks>>,
    /// How often threads have met.
    pub(super) epoch: Epoch,
    /// Asynchronous copies that are on their way.
    pub(super) copies: Copies,
    /// For each tensor one bit per byte address that a scatter has written.
    scattered: HashMap<usize, Vec<u64>>,
}

impl Machine<'_, '_> {
    pub(super) fn val(&self, id: ValueId) -> &Val {
        self.env[id.0 as usize].as_ref().unwrap_or_else(|| panic!("eval: %{} is used before it is made in {}", id.0, self.kernel.path))
    }

    pub(super) fn set(&mut self, id: ValueId, val: Val) {
        self.env[id.0 as usize] = Some(val);
    }

    pub(super) fn tile(&self, id: ValueId) -> Rc<TileVal> {
        match self.val(id) {
            Val::Tile(t) => t.clone(),
            other => panic!("eval: %{} is no tile: {other:?}", id.0),
        }
    }

    pub(super) fn dtype(&self, id: ValueId) -> DType {
        self.kernel.ty(id).dtype().unwrap_or_else(|| panic!("eval: %{} has no element type", id.0))
    }

    pub(super) fn size(&self, size: &Size) -> i64 {
        size.value(|k| self.knobs[k.0 as usize])
    }

    /// Extents of a tile value.
    pub(super) fn extents(&self, id: ValueId) -> Vec<usize> {
        let shape = self.kernel.ty(id).shape().unwrap_or_else(|| panic!("eval: %{} is no tile", id.0));
        shape.iter().map(|s| self.size(s) as usize).collect()
    }

    /// The first coordinate of a tile index.
    pub(super) fn first(&self, id: ValueId) -> i64 {
        match (self.val(id), self.kernel.ty(id)) {
            (Val::Index(i), Ty::TileIdx(size)) => i * self.size(size),
            (other, _) => panic!("eval: %{} is no tile index: {other:?}", id.0),
        }
    }

    /// The extent of a tile index' tiles.
    pub(super) fn extent(&self, index: ValueId) -> i64 {
        self.size(crate::tile::access::tile_size(self.kernel, index))
    }

    /// The positions that the loop of a tile index walks, the end excluded.
    pub(super) fn walked(&self, index: ValueId, loc: SourceLoc) -> Result<(i64, i64), EvalError> {
        let len = self.integer(self.lengths[&index], "the shape of a view", loc)?;
        let Some(span) = self.spans.get(&index) else { return Ok((0, len)) };
        let position = |v: ValueId| self.integer(v, "a position of the loop", loc);
        Ok((position(span.first)?.max(0), position(span.end)?.min(len)))
    }

    /// The cell of a scalar that must be present.
    pub(super) fn cell(&self, id: ValueId, what: &str, loc: SourceLoc) -> Result<u64, EvalError> {
        match self.val(id) {
            Val::Scalar(cell) => cell.ok_or_else(|| EvalError::Absent { what: what.to_string(), loc }),
            other => panic!("eval: %{} is no scalar: {other:?}", id.0),
        }
    }

    /// An integer scalar that must be present.
    pub(super) fn integer(&self, id: ValueId, what: &str, loc: SourceLoc) -> Result<i64, EvalError> {
        Ok(self.numbers.integer(self.dtype(id), self.cell(id, what, loc)?))
    }

    pub(super) fn shape(&self, param: usize) -> &TensorArg {
        match &self.args[param] {
            EvalRef::Tensor { shape, .. } => shape,
            EvalRef::Scalar(_) => panic!("eval: parameter {param} is no tensor"),
        }
    }

    /// A view with its numbers at this point.
    pub(super) fn window(&self, view: ViewId, loc: SourceLoc) -> Result<Window, EvalError> {
        let view = self.kernel.view(view);
        let tensor = self.tensors[view.param].as_ref().unwrap_or_else(|| panic!("eval: view {} of a scalar", view.text));
        let size = view.dtype.size() as i64;
        let number = |v: ValueId| self.integer(v, "the shape of a view", loc);
        Ok(Window {
            buffer: tensor.buffer,
            start: tensor.offset + number(view.offset)? * size,
            span: tensor.span,
            size,
            lens: view.axes.iter().map(|a| number(a.len)).collect::<Result<_, _>>()?,
            strides: view.axes.iter().map(|a| Ok(number(a.stride)? * size)).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn check_inside(&self, view: ViewId, window: &Window, addresses: &[i64], loc: SourceLoc) -> Result<(), EvalError> {
        let Some(address) = window.outside(addresses) else { return Ok(()) };
        let view = self.kernel.view(view);
        Err(EvalError::OutOfBounds {
            view: view.text.clone(),
            param: self.kernel.params[view.param].name.clone(),
            element: (address - window.span.0).div_euclid(window.size),
            len: (window.span.1 - window.span.0) / window.size,
            loc,
        })
    }

    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<(), EvalError> {
        let mut at = 0;
        while at < body.len() {
            at = match chain::left_by(body, at) {
                Some(end) => {
                    self.chain(&body[at..=end])?;
                    end + 1
                }
                None => {
                    self.stmt(&body[at])?;
                    at + 1
                }
            };
        }
        Ok(())
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<(), EvalError> {
        match self.fuel.checked_sub(1) {
            Some(fuel) => self.fuel = fuel,
            None => return Err(EvalError::Fuel { kernel: self.kernel.full_name(), fuel: self.options.fuel.unwrap_or(0) }),
        }
        match stmt {
            Stmt::Combine(c) => self.combine(c),
            Stmt::Let(id, op) => {
                let val = self.op(*id, op)?;
                self.set(*id, val);
                Ok(())
            }
            Stmt::Store { view, index, value, loc } => {
                let (shape, addresses) = self.addresses(*view, index, *value, *loc)?;
                let tile = self.val(*value).to_tile(&shape);
                self.write(*view, &addresses, &tile, *loc)
            }
            Stmt::Scatter { view, indices, value, run: Some(run), loc } => self.scatter_runs(*view, indices, *value, *run, *loc),
            Stmt::Scatter { view, indices, value, run: None, loc } => {
                let (shape, mut addresses) = self.gathered(*view, indices, Some(*value), *loc)?;
                let tile = self.val(*value).to_tile(&shape);
                self.present(&shape, &mut addresses, indices, &[*value]);
                self.check_scatter(*view, &addresses, *loc)?;
                self.write(*view, &addresses, &tile, *loc)
            }
            Stmt::Atomic { update, view, loc, .. } => self.update(update, *view, *loc),
            Stmt::Shared(access) => self.shared_access(access),
            Stmt::Barrier { scope, .. } => {
                self.epoch = self.epoch.next(*scope);
                Ok(())
            }
            Stmt::Copies { pending: None, .. } => {
                self.copies.close();
                Ok(())
            }
            Stmt::Copies { pending: Some(n), loc } => self.await_copies(*n, *loc),
            Stmt::Tiles(l) => {
                let sides = std::mem::take(&mut self.sides);
                let done = self.tiles(l);
                self.sides = sides;
                done
            }
            Stmt::Range { var, start, end, carries, body, loc } => self.range(*var, *start, *end, carries, body, *loc),
            Stmt::While { once: true, carries, header, condition, body, loc } => self.perhaps(carries, header, (*condition, *loc), body),
            Stmt::While { once: false, carries, header, condition, body, loc } => self.repeat(carries, header, (*condition, *loc), body),
            Stmt::If { condition, then, otherwise, results, loc } => {
                let holds = self.cell(*condition, "the condition", *loc)? != 0;
                self.block(if holds { then } else { otherwise })?;
                for Branch { then, otherwise, result } in results {
                    let val = self.val(if holds { *then } else { *otherwise }).clone();
                    self.set(*result, val);
                }
                Ok(())
            }
            Stmt::Where { mask, negate, body, .. } => {
                self.sides.push((*mask, self.tile(*mask), *negate));
                let done = self.block(body);
                self.sides.pop();
                done
            }
        }
    }

    pub(super) fn write(&mut self, view: ViewId, addresses: &[i64], tile: &TileVal, loc: SourceLoc) -> Result<(), EvalError> {
        let (window, dtype) = (self.window(view, loc)?, self.kernel.view(view).dtype);
        for (i, a) in addresses.iter().enumerate().filter(|(_, a)| **a != ABSENT) {
            if let Some(cell) = tile.at(i) {
                let bits = self.numbers.store(dtype, cell);
                self.changes += u64::from(window.read(self.buffers, *a) != bits);
                window.write(self.buffers, *a, bits);
            }
        }
        Ok(())
    }

    /// No element of a tensor may be scattered to twice in a launch, by whichever statements.
    pub(super) fn check_scatter(&mut self, view: ViewId, addresses: &[i64], loc: SourceLoc) -> Result<(), EvalError> {
        let window = self.window(view, loc)?;
        let bytes = (window.span.1 - window.span.0) as usize;
        let param = self.kernel.view(view).param;
        let written = self.scattered.entry(param).or_insert_with(|| vec![0; bytes.div_ceil(64)]);
        for a in addresses.iter().filter(|a| **a != ABSENT) {
            let byte = (a - window.span.0) as usize;
            if written[byte / 64] >> (byte % 64) & 1 == 1 {
                let param = self.kernel.params[param].name.clone();
                return Err(EvalError::ScatterMeets { param, element: byte as i64 / window.size, loc });
            }
            written[byte / 64] |= 1 << (byte % 64);
        }
        Ok(())
    }
}

/// Marks the addresses of absent elements.
pub(super) fn drop_absent(addresses: &mut [i64], tile: &TileVal) {
    for (i, a) in addresses.iter_mut().enumerate() {
        if tile.at(i).is_none() {
            *a = ABSENT;
        }
    }
}
