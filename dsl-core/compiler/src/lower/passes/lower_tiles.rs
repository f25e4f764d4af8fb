//! Tile IR becomes block IR: extents are numbers, and what the plan has decided stands at what it is for. Layouts and tails are still open.

use super::Source;
use crate::analyses::barriers::kept_by_hand;
use crate::analyses::dots::Dots;
use crate::analyses::tail_liveness;
use crate::analyses::uses::{self, loaded_tensor, stored_tensor};
use crate::analyses::window_groups::WindowGroups;
use crate::block::{
    Access, Block, Carry, Combine, Cuts, Demands, Finish, FinishWay, Grid, Kernel, Launch, Lengths, Loop, Neighbours, Operator, Param,
    ParamKind, Reach, Reading, SharedArray, Stmt, Tail, Team, Tickets, Ty, Value, View, Window,
};
use crate::plan::Plan;
use crate::plan::finish::{combines_grid, is_over_grid, keeps_order, split};
use crate::plan::second_launch::needed;
use crate::plan::split::{self, Split, shared_loop, starts_at_zero};
use girih_ir::error::{CompileError, Diagnostic};
use girih_ir::schedule::words::FinishPath;
use girih_ir::tile::access::{dim_classes, dim_constants, loop_lengths, operations, visit};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::shared::operation;
use girih_ir::tile::{self, Index, Op, SharedAccess, SharedKind, Size, TileLoop, ValueId};
use girih_ir::types::{AtomicOp, BinaryOp, DType};
use std::collections::{HashMap, HashSet};

/// The kernel as block IR. `found` has the values that say which elements of others exist, `fitting` the tile indices that are always 0.
///
/// # Errors
/// A combination over the grid of what was combined over the grid.
pub(crate) fn lower_tiles(source: &Source, found: &HashMap<ValueId, ValueId>, fitting: &HashSet<ValueId>) -> Result<Kernel, CompileError> {
    let (tile, plan) = (source.kernel, source.plan);
    let uses = uses::count(tile);
    let written = uses::written_params(tile);
    let mut forms = Forms::default();
    let mut dots = Dots::new(tile, &uses, &written);
    dots.convert(tile, &plan.converted);
    let builder = Builder { source, written: &written, dots: &dots, operations: operations(tile) };
    let mut hosts = HostExpr::of_values(tile);
    let values = (0..tile.values.len()).map(|v| builder.value(ValueId(v as u32), &uses, (found, &mut hosts), &mut forms)).collect();
    let shared = (0..tile.shared.len()).map(|s| builder.shared_array(tile::SharedId(s as u32), &mut forms)).collect();
    let body = builder.block(&tile.body)?;
    let team = |plan: &Plan| Team { threads: plan.threads, slices: plan.slices, anchor: None, dealt: vec![] };
    let teams = if plan.slices > 1 { vec![team(plan), team(source.whole)] } else { vec![team(plan)] };
    let lengths =
        Lengths { class: dim_classes(tile), constant: dim_constants(tile), walked: loop_lengths(tile), demands: Demands::of(tile) };
    let mut kernel = Kernel {
        name: tile.name.clone(),
        title: tile.full_name(),
        launch: builder.launch(),
        index: builder.index(),
        params: (0..tile.params.len()).map(|p| builder.param(p)).collect(),
        lengths,
        dots: dots.clone(),
        fed: vec![],
        late_sums: vec![],
        window_groups: WindowGroups::of(tile),
        gathers: HashMap::new(),
        values,
        views: tile.views.iter().map(view).collect(),
        shared,
        teams,
        alone: vec![],
        fitting: fitting.clone(),
        body,
    };
    set_divides(&mut kernel);
    Ok(kernel)
}

/// Shapes in the order in which they were met.
#[derive(Default)]
struct Forms(Vec<Vec<Size>>);

impl Forms {
    fn of(&mut self, shape: &[Size]) -> u32 {
        let at = self.0.iter().position(|s| s == shape).unwrap_or_else(|| {
            self.0.push(shape.to_vec());
            self.0.len() - 1
        });
        at as u32
    }
}

fn view(v: &tile::View) -> View {
    View { param: v.param, dtype: v.dtype, axes: v.axes.clone(), offset: v.offset, text: v.text.clone() }
}

/// Every length of the grid loop is surely a multiple of its tile.
fn set_divides(kernel: &mut Kernel) {
    let Some(l) = kernel.grid_loop() else { return };
    let lens = l.axes.iter().map(|axis| kernel.view(l.view).axes[*axis].len);
    let sizes = l.sizes.iter().enumerate().map(|(axis, size)| size * together(l.grid.as_ref().and_then(|g| g.neighbours), axis));
    let divides = lens.zip(sizes).all(|(len, size)| kernel.value(len).host.as_ref().is_some_and(|e| kernel.host_multiple(e) % size == 0));
    for stmt in &mut kernel.body {
        if let Stmt::Loop(Loop { grid: Some(grid), .. }) = stmt {
            grid.divides = divides;
        }
    }
}

/// How many neighbouring tiles along an axis the blocks of a cluster take.
fn together(neighbours: Option<Neighbours>, axis: usize) -> i64 {
    neighbours.filter(|n| n.axis == axis).map_or(1, |n| n.blocks)
}

struct Builder<'a> {
    source: &'a Source<'a>,
    /// Tensor parameters that the kernel writes.
    written: &'a [bool],
    dots: &'a Dots,
    /// How values are made.
    operations: HashMap<ValueId, &'a tile::Op>,
}

impl Builder<'_> {
    fn index(&self) -> DType {
        if self.source.facts.index32 { DType::I32 } else { DType::I64 }
    }

    fn launch(&self) -> Launch {
        let plan = self.source.plan;
        Launch {
            grid: self.grid_size(),
            dealt: plan.grid,
            cluster: plan.cluster.map(|c| c.blocks).or(plan.neighbours.map(|n| n.blocks)).unwrap_or(1),
            cooperative: girih_ir::tile::meetings::meets_over_grid(self.source.kernel),
            producer: plan.producer,
            min_blocks: plan.min_blocks as u32,
            opt_level: plan.opt_level,
            room: plan.room,
            vector: plan.vector,
            blocked: plan.blocked,
            load_cache: plan.load_cache,
            store_cache: plan.store_cache,
            has_async: plan.has_async,
            has_warp_reduce: plan.has_warp_reduce,
            copies: plan.copies,
            shared_rows: plan.shared_rows,
            has_dots: plan.dots,
            units: plan.mma.clone(),
        }
    }

    fn grid_size(&self) -> HostExpr {
        let (kernel, plan) = (self.source.kernel, self.source.plan);
        let Some(l) = kernel.grid_loop() else { return HostExpr::Const(1) };
        let mut blocks = self.total_tiles(l);
        match plan.split {
            Some(Split::StreamK(each)) => return split::blocks(kernel, plan, l, (blocks, each), self.index()),
            Some(Split::SplitK(parts)) => blocks = HostExpr::binary(BinaryOp::Mul, blocks, HostExpr::Const(parts)),
            None => {}
        }
        if let Some(cluster) = plan.cluster {
            blocks = HostExpr::binary(BinaryOp::Mul, blocks, HostExpr::Const(cluster.blocks));
        }
        if plan.grid > 0 {
            let mut most = HostExpr::binary(BinaryOp::Mul, HostExpr::Multiprocessors, HostExpr::Const(plan.grid));
            if let Some(n) = plan.neighbours {
                let clusters = HostExpr::binary(BinaryOp::Div, most, HostExpr::Const(n.blocks));
                let clusters = HostExpr::binary(BinaryOp::Max, clusters, HostExpr::Const(1));
                most = HostExpr::binary(BinaryOp::Mul, clusters, HostExpr::Const(n.blocks));
            }
            blocks = HostExpr::binary(BinaryOp::Min, blocks, most);
        }
        if combines_grid(kernel) { HostExpr::binary(BinaryOp::Max, blocks, HostExpr::Const(1)) } else { blocks }
    }

    /// Tiles of the whole grid loop; those that neighbours take together end behind its tensor, if need be.
    fn total_tiles(&self, l: &TileLoop) -> HostExpr {
        let kernel = self.source.kernel;
        let tiles = l.axes.iter().zip(&self.source.plan.grid_tile).enumerate().fold(HostExpr::Const(1), |product, (k, (axis, size))| {
            let len = HostExpr::of_value(kernel, kernel.view(l.view).axes[*axis].len)
                .unwrap_or_else(|| panic!("lower_tiles: the host cannot compute the extent of the grid loop in\n{kernel}"));
            HostExpr::binary(BinaryOp::Mul, product, HostExpr::ceil_div(len, size * together(self.neighbours(), k)))
        });
        match self.neighbours() {
            Some(n) => HostExpr::binary(BinaryOp::Mul, tiles, HostExpr::Const(n.blocks)),
            None => tiles,
        }
    }

    fn neighbours(&self) -> Option<Neighbours> {
        self.source.plan.neighbours.map(|n| Neighbours { blocks: n.blocks, axis: n.axis })
    }

    fn param(&self, p: usize) -> Param {
        let param = &self.source.kernel.params[p];
        let kind = match param.kind {
            tile::ParamKind::Tensor { dtype, rank, .. } => {
                let (written, restrict) = (self.written[p], self.source.facts.noalias);
                let (constant, known) = (self.source.plan.constants.get(&p).copied(), self.source.facts.tensors[p].clone());
                ParamKind::Tensor { dtype, rank, written, restrict, constant, known }
            }
            tile::ParamKind::Scalar(dtype) => ParamKind::Scalar(dtype),
        };
        Param { name: param.name.clone(), kind }
    }

    fn size(&self, size: &Size) -> i64 {
        self.source.plan.size(size)
    }

    fn value(
        &self,
        id: ValueId,
        uses: &[uses::Uses],
        (found, hosts): (&HashMap<ValueId, ValueId>, &mut HashMap<ValueId, HostExpr>),
        forms: &mut Forms,
    ) -> Value {
        let kernel = self.source.kernel;
        let tile::Value { ty, name, .. } = kernel.value(id);
        let form = ty.shape().map(|shape| forms.of(shape));
        let host = if matches!(ty, tile::Ty::Scalar(_)) { hosts.remove(&id) } else { None };
        let ty = match ty {
            tile::Ty::Scalar(d) => Ty::Scalar(*d),
            tile::Ty::Tile(d, shape) => Ty::Tile(*d, shape.iter().map(|s| self.size(s)).collect()),
            tile::Ty::TileIdx(size) => Ty::TileIndex(self.size(size)),
            tile::Ty::Window(d, reach) => {
                let of = |r: &tile::Reach| Reach { size: self.size(&r.size), before: self.size(&r.before), after: self.size(&r.after) };
                Ty::Window(*d, reach.iter().map(of).collect())
            }
        };
        Value { name: name.clone(), ty, form, uses: uses[id.0 as usize], host, found: found.get(&id).copied() }
    }

    fn shared_array(&self, id: tile::SharedId, forms: &mut Forms) -> SharedArray {
        let array = self.source.kernel.shared_array(id);
        SharedArray {
            name: array.name.clone(),
            dtype: array.dtype,
            shape: array.shape.iter().map(|s| self.size(s)).collect(),
            form: forms.of(&array.shape),
            by_hand: array.by_hand,
            join: only_update(self.source.kernel, id).and_then(|op| operation(op, array.dtype)),
        }
    }

    fn block(&self, block: &[tile::Stmt]) -> Result<Block, CompileError> {
        let mut out = Vec::new();
        for (i, stmt) in block.iter().enumerate() {
            if is_over_grid(stmt) {
                out.push(Stmt::Finish(self.finish(&block[i..])?));
                break;
            }
            out.push(self.stmt(stmt)?);
        }
        Ok(out)
    }

    fn stmt(&self, stmt: &tile::Stmt) -> Result<Stmt, CompileError> {
        Ok(match stmt {
            tile::Stmt::Let(v, Op::Load(view, index)) => Stmt::Load(*v, Access { read: self.reading(*v), ..access(*view, index) }),
            tile::Stmt::Let(v, Op::Window { view, index, shift, boundary }) => {
                let index: Vec<Index> = index.iter().map(|i| Index::Tile(*i)).collect();
                let tile = Access { read: self.reading(*v), ..access(*view, &index) };
                Stmt::Window(*v, Window { tile, shift: shift.clone(), boundary: *boundary })
            }
            tile::Stmt::Let(v, op) => Stmt::Let(*v, op.clone()),
            tile::Stmt::Store { view, index, value, .. } => {
                let by_first = self.by_first_block(index);
                Stmt::Store { to: access(*view, index), value: *value, from: None, rows: None, by_first }
            }
            tile::Stmt::Scatter { view, indices, value, run, .. } => {
                Stmt::Scatter { view: *view, indices: indices.clone(), value: *value, run: *run, width: 1 }
            }
            tile::Stmt::Atomic { update, view, scope, order, .. } => {
                Stmt::Atomic { update: update.clone(), view: *view, scope: *scope, order: *order }
            }
            tile::Stmt::Combine(c) if self.source.plan.cluster.is_some_and(|of| of.reduces(self.source.kernel, c)) => {
                Stmt::OverCluster(self.combine(c)?)
            }
            tile::Stmt::Combine(c) => Stmt::Combine(self.combine(c)?),
            tile::Stmt::Shared(SharedAccess { number, array, kind, .. }) => {
                Stmt::Shared { number: *number, array: *array, kind: kind.clone(), cuts: Cuts::of_width(1) }
            }
            tile::Stmt::Barrier { scope, .. } => Stmt::Barrier(*scope),
            tile::Stmt::Copies { pending, .. } => Stmt::Copies { pending: *pending },
            tile::Stmt::Tiles(l) => Stmt::Loop(self.tile_loop(l)?),
            tile::Stmt::Range { var, start, end, carries, body, .. } => {
                let (carries, body) = (self.carries(carries), self.block(body)?);
                Stmt::Range { var: *var, start: *start, end: *end, carries, body }
            }
            tile::Stmt::While { once, carries, header, condition, body, .. } => {
                let (header, body) = (self.block(header)?, self.block(body)?);
                Stmt::While { once: *once, carries: self.carries(carries), header, condition: *condition, body }
            }
            tile::Stmt::If { condition, then, otherwise, results, .. } => {
                let (then, otherwise) = (self.block(then)?, self.block(otherwise)?);
                Stmt::If { condition: *condition, then, otherwise, results: results.clone() }
            }
            tile::Stmt::Where { mask, negate, body, .. } => Stmt::Where { mask: *mask, negate: *negate, body: self.block(body)? },
        })
    }

    /// Whether all blocks of a cluster have what is stored, as it is cut by none of the tiles of which each takes its own.
    fn by_first_block(&self, index: &[Index]) -> bool {
        let kernel = self.source.kernel;
        self.source.plan.cluster.is_some_and(|cluster| {
            let own = |v: &ValueId| tile::access::tile_size(kernel, *v).as_knob() == Some(cluster.tile);
            !index.iter().any(|i| matches!(i, Index::Tile(v) if own(v)))
        })
    }

    /// How a window or a loaded tile is read: what is neither a window nor an operand of a dot has no copy.
    fn reading(&self, value: ValueId) -> Reading {
        let plan = self.source.plan.read(value);
        let is_window = matches!(self.source.kernel.ty(value), tile::Ty::Window(..));
        if !plan.shared || !(is_window || self.dots.is_load(value)) {
            return Reading::default();
        }
        Reading {
            shared: true,
            transposed: plan.transposed,
            asynchronous: plan.is_async(),
            mbarriers: plan.by_mbarriers(),
            tensor: plan.is_tensor(),
            rounded: plan.rounded,
        }
    }

    fn combine(&self, c: &tile::Combine) -> Result<Combine, CompileError> {
        let operator = match &c.operator {
            tile::Operator::User { identity, arguments, body, results, commutative } => Operator::User {
                identity: identity.clone(),
                arguments: arguments.clone(),
                body: self.block(body)?,
                results: results.clone(),
                commutative: *commutative,
            },
            tile::Operator::Sum => Operator::Sum,
            tile::Operator::Product => Operator::Product,
            tile::Operator::Min => Operator::Min,
            tile::Operator::Max => Operator::Max,
            tile::Operator::All => Operator::All,
            tile::Operator::Any => Operator::Any,
        };
        Ok(Combine { operator, form: c.form.clone(), inputs: c.inputs.clone(), results: c.results.clone(), loc: c.loc })
    }

    fn carries(&self, carries: &[tile::Carry]) -> Vec<Carry> {
        let kernel = self.source.kernel;
        let of = |c: &tile::Carry| Carry {
            init: c.init,
            inner: c.inner,
            next: c.next,
            result: c.result,
            from_zero: starts_at_zero(&self.operations, c.init),
            unobserved: tail_liveness::unobserved(kernel, c),
        };
        carries.iter().map(of).collect()
    }

    fn tile_loop(&self, l: &TileLoop) -> Result<Loop, CompileError> {
        let (kernel, plan) = (self.source.kernel, self.source.plan);
        let own = plan.loops[&l.vars[0]].clone();
        let grid = kernel.grid_loop().is_some_and(|g| g.vars == l.vars).then(|| Box::new(self.grid(l)));
        Ok(Loop {
            view: l.view,
            axes: l.axes.clone(),
            vars: l.vars.clone(),
            sizes: l.vars.iter().map(|v| self.size(tile::access::tile_size(kernel, *v))).collect(),
            span: l.span,
            carries: self.carries(&l.carries),
            plan: own,
            grid,
            body: self.block(&l.body)?,
        })
    }

    fn grid(&self, l: &TileLoop) -> Grid {
        let (kernel, plan) = (self.source.kernel, self.source.plan);
        let before = kernel.body.iter().position(|s| matches!(s, tile::Stmt::Tiles(_))).unwrap_or(0);
        let by_hand = kept_by_hand(kernel, &l.body);
        let run = match plan.split {
            Some(Split::StreamK(blocks)) => Some(split::run(kernel, plan, l, (self.total_tiles(l), blocks), self.index())),
            Some(Split::SplitK(_)) | None => None,
        };
        Grid {
            total: self.total_tiles(l),
            raster: plan.raster,
            order: plan.order,
            neighbours: self.neighbours(),
            in_order: keeps_order(kernel),
            tickets: l.in_order.then(|| if looks_back(l) { Tickets::OfLaunches } else { Tickets::OfBlocks }),
            runs_anyway: combines_grid(kernel),
            begins_by_hand: [by_hand && kept_by_hand(kernel, &kernel.body[..before]), by_hand],
            shared: shared_loop(l).map(|(_, inner)| inner.vars[0]),
            run,
            divides: false,
            tail: Tail::Open,
        }
    }

    fn finish(&self, rest: &[tile::Stmt]) -> Result<Finish, CompileError> {
        let kernel = self.source.kernel;
        let ends = split(rest).map_err(|c| {
            let what = "a combination over the grid of what was combined over the grid cannot be lowered to a kernel yet";
            let d = Diagnostic::new(c.loc, what).help("the evaluator (`eval`) computes it");
            CompileError::Kernel(vec![d.with_source(&kernel.source, kernel.loc)])
        })?;
        let list = |some: &[&tile::Stmt]| some.iter().map(|s| self.stmt(s)).collect::<Result<Block, CompileError>>();
        let combines = ends.combines.iter().map(|c| self.combine(c)).collect::<Result<_, CompileError>>()?;
        Ok(Finish { before: list(&ends.before)?, combines, after: list(&ends.after)?, way: self.finish_way(&ends, &list)? })
    }

    fn finish_way(
        &self,
        ends: &crate::plan::finish::Split,
        list: &dyn Fn(&[&tile::Stmt]) -> Result<Block, CompileError>,
    ) -> Result<FinishWay, CompileError> {
        let (kernel, plan) = (self.source.kernel, self.source.plan);
        if kernel.grid_loop().is_none() {
            return Ok(FinishWay::SingleBlock);
        }
        let all_blocks = kernel.body.iter().take_while(|s| !is_over_grid(s)).chain(ends.before.iter().copied());
        let passed_on = memory_is_passed_on(kernel, all_blocks, &ends.after);
        Ok(match plan.finish {
            FinishPath::LastBlock => FinishWay::LastBlock { words: !passed_on && parts_are_words(kernel, &ends.combines), passed_on },
            FinishPath::Atomics => FinishWay::Atomics { passed_on },
            FinishPath::SecondLaunch => {
                let again = needed(kernel, &ends.after).unwrap_or_else(|v| panic!("second launch: the plan has looked for {v:?}"));
                FinishWay::SecondLaunch { again: list(&again)? }
            }
        })
    }
}

fn access(view: tile::ViewId, index: &[Index]) -> Access {
    Access { view, index: index.to_vec(), layout: None, read: Reading::default(), cuts: None }
}

/// Whether every component is a scalar that leaves room for a flag in 64 bits.
fn parts_are_words(kernel: &tile::Kernel, combines: &[&tile::Combine]) -> bool {
    let fits = |v| matches!(kernel.ty(v), tile::Ty::Scalar(dtype) if dtype.compute().size() <= 4);
    combines.iter().all(|c| c.inputs.iter().all(|v| fits(*v)))
}

/// Whether tiles pass on what they come to to those behind them.
fn looks_back(l: &TileLoop) -> bool {
    l.body.iter().any(|s| matches!(s, tile::Stmt::Combine(c) if c.looks_back()))
}

/// Whether something else than parts goes from block to block: what runs in the last block only (`after`) touches a tensor that all blocks
/// touch before it, and one of them writes. Words order nothing but themselves.
fn memory_is_passed_on<'k>(kernel: &tile::Kernel, before: impl Iterator<Item = &'k tile::Stmt>, after: &[&tile::Stmt]) -> bool {
    let (before, after) = (touched(kernel, before), touched(kernel, after.iter().copied()));
    after.iter().any(|(p, writes)| before.iter().any(|(q, wrote)| p == q && (*writes || *wrote)))
}

/// The tensors that statements access, each with whether it is written there.
fn touched<'k>(kernel: &tile::Kernel, block: impl Iterator<Item = &'k tile::Stmt>) -> Vec<(usize, bool)> {
    let mut found = Vec::new();
    for stmt in block {
        visit(std::slice::from_ref(stmt), &mut |s| {
            found.extend(loaded_tensor(kernel, s).map(|p| (p, false)));
            found.extend(stored_tensor(kernel, s).map(|p| (p, true)));
        });
    }
    found
}

/// The operation that may be done to several copies of an array: the only one that changes it, with no old value wanted.
fn only_update(kernel: &tile::Kernel, array: tile::SharedId) -> Option<AtomicOp> {
    let mut ops = Vec::new();
    visit(&kernel.body, &mut |stmt| {
        if let tile::Stmt::Shared(SharedAccess { array: a, kind, .. }) = stmt
            && *a == array
        {
            match kind {
                SharedKind::Gather { .. } | SharedKind::GatherRun { .. } | SharedKind::Fill(_) => {}
                SharedKind::Atomic(u) => ops.push(u.result.is_none().then_some(u.op)),
                _ => ops.push(None),
            }
        }
    });
    let first = *ops.first()?;
    if ops.iter().all(|o| *o == first) { first } else { None }
}
