//! Statements: loops, choices, stores.

use super::by_hand::{Epoch, Marks};
use super::memory::{ABSENT, Tensor, Window};
use super::number::Numbers;
use super::value::{TileVal, Val};
use super::{EvalError, EvalOptions, EvalRef};
use crate::facts::TensorArg;
use crate::loc::SourceLoc;
use crate::schedule::space::Permutation;
use crate::schedule::{Choice, Schedule};
use crate::tile::host::{HostArg, HostExpr};
use crate::tile::{Block, Branch, Carry, Kernel, ParamKind, RequirementKind, Size, Span, Stmt, TileLoop, Ty, ValueId, ViewId};
use crate::types::{BinaryOp, DType, Scope};
use std::collections::HashMap;
use std::rc::Rc;

/// Runs a kernel.
pub(super) fn run(kernel: &Kernel, buffers: &mut [&mut [u8]], args: &[EvalRef], options: &EvalOptions) -> Result<(), EvalError> {
    check_args(kernel, args)?;
    check_requirements(kernel, args)?;
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
        marks: vec![Vec::new(); kernel.shared.len()],
        epoch: Epoch::default(),
        sides: Vec::new(),
        scattered: HashMap::new(),
    };
    machine.block(&kernel.body)
}

fn check_args(kernel: &Kernel, args: &[EvalRef]) -> Result<(), EvalError> {
    let error = |param: &str, message: String| Err(EvalError::Argument { param: param.to_string(), message });
    if kernel.params.len() != args.len() {
        return error("list", format!("{} takes {} arguments, found {}", kernel.name, kernel.params.len(), args.len()));
    }
    for (param, arg) in kernel.params.iter().zip(args) {
        let message = match (&param.kind, arg) {
            (ParamKind::Tensor { rank, .. }, EvalRef::Tensor { shape, .. }) if shape.lens.len() != *rank => {
                format!("takes a tensor with {rank} axes, found {}", shape.lens.len())
            }
            (ParamKind::Tensor { .. }, EvalRef::Scalar(_)) => "takes a tensor, found a scalar".to_string(),
            (ParamKind::Scalar(d), EvalRef::Scalar(l)) if l.dtype != *d => format!("takes {d}, found {}", l.dtype),
            (ParamKind::Scalar(_), EvalRef::Tensor { .. }) => "takes a scalar, found a tensor".to_string(),
            _ => continue,
        };
        return error(&param.name, message);
    }
    Ok(())
}

fn check_requirements(kernel: &Kernel, args: &[EvalRef]) -> Result<(), EvalError> {
    let host: Vec<HostArg> = args
        .iter()
        .map(|a| match a {
            EvalRef::Tensor { shape, .. } => HostArg::Tensor(shape.clone()),
            EvalRef::Scalar(l) => HostArg::Scalar(*l),
        })
        .collect();
    let host_of =
        |v: ValueId| HostExpr::of_value(kernel, v).unwrap_or_else(|| panic!("eval: requirement on %{}, which the host can't compute", v.0));
    let value = |v: ValueId| host_of(v).eval(&host, 1);
    let text = |v: ValueId| match host_of(v) {
        HostExpr::Const(c) => c.to_string(),
        e => format!("{} = {}", e.named(kernel), value(v)),
    };
    for requirement in &kernel.requirements {
        let message = match requirement.kind {
            RequirementKind::Packed(p) => match &host[p] {
                HostArg::Tensor(t) if !t.is_packed() => {
                    format!("{} must be packed, found shape {:?} with strides {:?}", kernel.params[p].name, t.lens, t.strides)
                }
                _ => continue,
            },
            RequirementKind::AtMost(a, b) if value(a) > value(b) => format!("{} is more than {}", text(a), text(b)),
            RequirementKind::Equal(a, b) if value(a) != value(b) => format!("{} is not {}", text(a), text(b)),
            RequirementKind::Divisible(a, n) if value(a) % n != 0 => format!("{} is not divisible by {n}", text(a)),
            // Buffers lie at multiples of every alignment, so the offset decides.
            RequirementKind::Aligned(p, bytes) => match &args[p] {
                EvalRef::Tensor { offset, .. } if offset % bytes != 0 => {
                    let name = &kernel.params[p].name;
                    format!(
                        "{name} must start at a multiple of {bytes} bytes, as it is viewed as wider elements; it starts at byte {offset}"
                    )
                }
                _ => continue,
            },
            RequirementKind::AtMost(..) | RequirementKind::Equal(..) | RequirementKind::Divisible(..) => continue,
        };
        return Err(EvalError::Requirement { message, loc: requirement.loc });
    }
    Ok(())
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
    fuel: u64,
    /// How often an element of memory has changed.
    pub(super) changes: u64,
    env: Vec<Option<Val>>,
    /// Cells of the shared arrays.
    pub(super) shared: Vec<Vec<u64>>,
    /// Who accessed the elements of those that are kept by hand.
    pub(super) marks: Vec<Vec<Marks>>,
    /// How often threads have met.
    pub(super) epoch: Epoch,
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

    pub(super) fn block(&mut self, body: &Block) -> Result<(), EvalError> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), EvalError> {
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
            Stmt::Scatter { view, indices, value, loc } => {
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
            Stmt::Tiles(l) => {
                let sides = std::mem::take(&mut self.sides);
                let done = self.tiles(l);
                self.sides = sides;
                done
            }
            Stmt::Range { var, start, end, carries, body, loc } => self.range(*var, *start, *end, carries, body, *loc),
            Stmt::While { carries, header, condition, body, loc } => self.repeat(carries, header, (*condition, *loc), body),
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

    /// A turn that leaves everything as it was would be followed by the same turn for ever.
    fn repeat(&mut self, carries: &[Carry], header: &Block, (condition, loc): (ValueId, SourceLoc), body: &Block) -> Result<(), EvalError> {
        self.enter(carries);
        loop {
            let before: Vec<Val> = carries.iter().map(|c| self.val(c.inner).clone()).collect();
            let changes = self.changes;
            self.block(header)?;
            if self.cell(condition, "the condition", loc)? == 0 {
                break;
            }
            self.block(body)?;
            self.advance(carries);
            if changes == self.changes && carries.iter().zip(&before).all(|(c, old)| self.val(c.inner).same(old)) {
                return Err(EvalError::Endless { loc });
            }
        }
        self.leave(carries);
        Ok(())
    }

    fn range(
        &mut self,
        var: ValueId,
        start: ValueId,
        end: ValueId,
        carries: &[Carry],
        body: &Block,
        loc: SourceLoc,
    ) -> Result<(), EvalError> {
        let dtype = self.dtype(var);
        let less = self.numbers.compare(crate::types::CompareOp::Lt, dtype);
        let next = self.numbers.binary(BinaryOp::Add, dtype);
        let (mut i, end) = (self.cell(start, "the loop's start", loc)?, self.cell(end, "the loop's end", loc)?);
        self.enter(carries);
        while less(i, end) != 0 {
            self.set(var, Val::Scalar(Some(i)));
            self.block(body)?;
            self.advance(carries);
            i = next(i, 1);
        }
        self.leave(carries);
        Ok(())
    }

    fn tiles(&mut self, l: &TileLoop) -> Result<(), EvalError> {
        let (mut counts, mut firsts) = (Vec::new(), Vec::new());
        for var in &l.vars {
            let ((first, end), size) = (self.walked(*var, l.loc)?, self.extent(*var));
            let tile = first / size;
            counts.push(if first < end { (end + size - 1) / size - tile } else { 0 });
            firsts.push(tile);
        }
        let total: i64 = counts.iter().product();
        let grid = self.kernel.grid_loop().is_some_and(|g| std::ptr::eq(g, l));
        let shuffle = self.options.shuffle.filter(|_| grid && l.carries.is_empty());
        let order = shuffle.map(|seed| Permutation::new(total as u64, seed));
        self.enter(&l.carries);
        for turn in 0..total as u64 {
            let mut index = order.as_ref().map_or(turn, |o| o.at(turn)) as i64;
            for ((var, count), first) in l.vars.iter().zip(&counts).zip(&firsts).rev() {
                self.set(*var, Val::Index(first + index % count));
                index /= count;
            }
            if grid {
                // Turns follow each other, or run in different blocks.
                self.epoch = self.epoch.next(Scope::Block);
            }
            self.block(&l.body)?;
            self.advance(&l.carries);
        }
        self.leave(&l.carries);
        Ok(())
    }

    fn enter(&mut self, carries: &[Carry]) {
        let vals: Vec<Val> = carries.iter().map(|c| self.val(c.init).clone()).collect();
        carries.iter().zip(vals).for_each(|(c, v)| self.set(c.inner, v));
    }

    /// All values are read before any is set: they may be exchanged. Where a new value is absent the old one stays.
    fn advance(&mut self, carries: &[Carry]) {
        let vals: Vec<Val> = carries.iter().map(|c| self.val(c.next).after(self.val(c.inner))).collect();
        carries.iter().zip(vals).for_each(|(c, v)| self.set(c.inner, v));
    }

    fn leave(&mut self, carries: &[Carry]) {
        for c in carries {
            let val = self.val(c.inner).clone();
            self.set(c.result, val);
        }
    }

    fn write(&mut self, view: ViewId, addresses: &[i64], tile: &TileVal, loc: SourceLoc) -> Result<(), EvalError> {
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
    fn check_scatter(&mut self, view: ViewId, addresses: &[i64], loc: SourceLoc) -> Result<(), EvalError> {
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
