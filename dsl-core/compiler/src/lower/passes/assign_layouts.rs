//! Which layout a tile has: what suits the memory that it is loaded from or stored to, and what it gets by its shape. Nothing here depends on
//! what was lowered before.
//!
//! Layouts come from that of the *anchor*, the tile whose elements the schedule deals to the threads of a block. It is the grid loop's tile,
//! unless a tile that is carried or loaded shows more of what the author coarsens: a kernel that walks rows by `r` and loops over columns
//! by `c` has the anchor `[R, C]`. Every other tile gets its layout from the anchor's, by its axes.

use super::Source;
use crate::block::layouts::{dealt_to_slices, projected, with_runs};
use crate::block::{self, Access, Dealt, Finish, Loop, Operator, Range, Stmt, Window};
use crate::plan::anchor::{grid_sizes, lies_in_registers};
use crate::plan::{Plan, gcd, spread};
use girih_ir::facts::Facts;
use girih_ir::layout::{Deal, Digit, Layout, Source as From};
use girih_ir::tile::access::tile_size;
use girih_ir::tile::{self, Index, Kernel, Op, Size, ValueId, ViewId};

/// Gives every access its layout, and every team the layouts of tiles that have none by themselves.
pub(crate) fn assign_layouts(page: &mut block::Kernel, source: &Source) {
    let lanes = lanes(source.kernel, source.plan);
    let plans = [source.plan, source.whole];
    let shapes = shapes(page, source.kernel);
    let written: Vec<bool> = (0..page.params.len()).map(|p| page.is_written(p)).collect();
    let mut body = std::mem::take(&mut page.body);
    let teams: Vec<Layouts> = (0..page.teams.len())
        .map(|team| Layouts { kernel: source.kernel, facts: source.facts, plan: plans[team], lanes, written: &written, page })
        .collect();
    accesses(&mut body, &teams, Place { team: 0, in_turns: false });
    let dealt: Vec<(Layout, Vec<Dealt>)> = teams
        .iter()
        .map(|l| (l.anchor(), shapes.iter().map(|shape| Dealt { own: l.of_shape(shape), natural: l.natural(shape) }).collect()))
        .collect();
    for (team, (anchor, dealt)) in page.teams.iter_mut().zip(dealt) {
        (team.anchor, team.dealt) = (Some(anchor), dealt);
    }
    page.body = body;
}

/// The author's shapes, by form.
fn shapes(page: &block::Kernel, kernel: &Kernel) -> Vec<Vec<Size>> {
    let values = page.values.iter().zip(&kernel.values).filter_map(|(v, own)| Some((v.form?, own.ty.shape()?.to_vec())));
    let shared = page.shared.iter().zip(&kernel.shared).map(|(s, own)| (s.form, own.shape.clone()));
    let mut shapes = Vec::new();
    for (form, shape) in values.chain(shared) {
        if form as usize >= shapes.len() {
            shapes.resize(form as usize + 1, vec![]);
        }
        shapes[form as usize] = shape;
    }
    shapes
}

/// Where statements stand.
#[derive(Clone, Copy)]
struct Place {
    /// The team whose threads run them.
    team: usize,
    /// In a loop over several tiles inside a tile of the grid.
    in_turns: bool,
}

/// Gives the accesses of a block of statements their layouts among the threads of a team.
fn accesses(block: &mut [Stmt], teams: &[Layouts], at: Place) {
    let Place { team, in_turns } = at;
    let set = |a: &mut Access| a.layout = Some(teams[team].preferred(a.view, &a.index, in_turns));
    for stmt in block {
        match stmt {
            Stmt::Load(v, a) if teams[team].page.dots.is_converted(*v) => a.layout = Some(teams[team].of_value(*v)),
            Stmt::Load(_, a) | Stmt::Window(_, Window { tile: a, .. }) => set(a),
            Stmt::Store { to, from, .. } => {
                set(to);
                *from = teams[team].stored(teams[team].page.view(to.view).dtype.size() as i64);
            }
            Stmt::Loop(l) => {
                let in_turns = in_turns || l.grid.is_none() && l.plan.range != Range::Once;
                let behind = behind_slices(l).unwrap_or(l.body.len());
                let (inside, together) = l.body.split_at_mut(behind);
                accesses(inside, teams, Place { team, in_turns });
                accesses(together, teams, Place { team: teams.len() - 1, in_turns });
            }
            Stmt::Range { body, .. } | Stmt::Where { body, .. } => accesses(body, teams, at),
            Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| accesses(b, teams, at)),
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| accesses(b, teams, at)),
            Stmt::Finish(Finish { before, combines, after, way }) => {
                let again = if let block::FinishWay::SecondLaunch { again } = way { Some(again) } else { None };
                [before, after].into_iter().chain(again).for_each(|b| accesses(b, teams, at));
                combines.iter_mut().for_each(|c| operator(&mut c.operator, teams, at));
            }
            Stmt::Alone(alone) => accesses(&mut alone.body, teams, at),
            Stmt::Combine(c) | Stmt::OverCluster(c) => operator(&mut c.operator, teams, at),
            Stmt::Together(all) => all.iter_mut().for_each(|c| operator(&mut c.operator, teams, at)),
            Stmt::Let(..)
            | Stmt::Scatter { .. }
            | Stmt::Atomic { .. }
            | Stmt::Shared { .. }
            | Stmt::Barrier(_)
            | Stmt::Copies { .. }
            | Stmt::Meet(_) => {}
        }
    }
}

fn operator(operator: &mut Operator, teams: &[Layouts], at: Place) {
    if let Operator::User { body, .. } = operator {
        accesses(body, teams, at);
    }
}

/// Where in the body of a grid loop all threads of a block go on together, behind a loop that slices share.
fn behind_slices(l: &Loop) -> Option<usize> {
    let at = l.place_of(l.grid.as_ref()?.shared?)?;
    let inner = l.body[at].as_loop()?;
    matches!(inner.plan.range, Range::SlicedK(_)).then_some(at + 1)
}

/// 128 bytes of neighbours fill a memory transaction; the other lanes of a warp then lie along the next axis, without which a
/// transposition by vectors through shared memory cannot do without bank conflicts.
fn full_lanes(vector: i64, bytes: i64) -> i64 {
    (128 / (vector * bytes)).clamp(1, 32)
}

/// How many lanes lie side by side along the anchor's last axis, if a transposition asks for fewer than all of a warp.
fn lanes(kernel: &Kernel, plan: &Plan) -> Option<i64> {
    if plan.dots {
        return if plan.shared_operands { dot_lanes(plan) } else { None };
    }
    let turns = |op: &Op| matches!(op, Op::Transpose(_, perm) if perm.iter().enumerate().any(|(k, p)| k != *p));
    let (mut transposed, mut combined) = (false, false);
    tile::access::visit(&kernel.body, &mut |stmt| {
        transposed |= matches!(stmt, tile::Stmt::Let(_, op) if turns(op));
        combined |= matches!(stmt, tile::Stmt::Combine(_));
    });
    let bytes = kernel.views.iter().map(|v| v.dtype.size()).max()? as i64;
    let lanes = full_lanes(plan.vector, bytes);
    // Threads that combine along the last axis had better lie side by side.
    (transposed && !combined && plan.anchor.len() == 2 && lanes < 32).then_some(lanes)
}

/// A warp of a dot is 8 threads wide and 4 high: it reads the fewest different elements of both operands.
fn dot_lanes(plan: &Plan) -> Option<i64> {
    let [.., rows, columns] = plan.thread_shape[..] else { return None };
    (rows % 4 == 0 && columns % 8 == 0).then_some(8)
}

/// Deals a dot's result so that threads own runs along its rows, too: as long as those along its columns, where they own so many.
fn with_runs_of_rows(deal: &Deal) -> Layout {
    let Some(axis) = deal.shape.len().checked_sub(2) else { return Layout::dealt(deal) };
    let run = gcd(deal.shape[axis] / deal.threads[axis], deal.vector);
    let mut shape = deal.shape.to_vec();
    shape[axis] /= run;
    let mut layout = Layout::dealt(&Deal { shape: &shape, ..*deal });
    if run == 1 {
        return layout;
    }
    let register = |d: &&mut Digit| d.source == From::Register;
    let stride = layout.axes[axis].iter_mut().filter(register).map(|d| d.stride).min().unwrap_or(layout.registers);
    layout.axes.iter_mut().flatten().filter(register).filter(|d| d.stride >= stride).for_each(|d| d.stride *= run);
    layout.axes[axis].iter_mut().for_each(|d| d.place *= run);
    layout.axes[axis].insert(0, Digit { source: From::Register, stride, extent: run, place: 1 });
    layout.registers *= run;
    layout
}

/// All that layouts are chosen by.
struct Layouts<'p> {
    kernel: &'p Kernel,
    facts: &'p Facts,
    plan: &'p Plan,
    /// See [`lanes`].
    lanes: Option<i64>,
    /// Tensor parameters that the kernel writes.
    written: &'p [bool],
    page: &'p block::Kernel,
}

impl Layouts<'_> {
    /// The layout of the anchor: runs of the schedule's vector along the last axis, interleaved across the threads. Where windows are read,
    /// a thread's elements are neighbours along every axis.
    fn anchor(&self) -> Layout {
        let plan = self.plan;
        if plan.anchor.is_empty() {
            return Layout { axes: vec![], threads: plan.threads, registers: 1 };
        }
        self.dealt(self.layout_of_slice(plan.threads / plan.joined))
    }

    /// The layout of the whole block that a layout of a slice becomes behind the sum.
    fn dealt(&self, own: Layout) -> Layout {
        match self.plan.joined {
            1 => own,
            slices => dealt_to_slices(&own, slices).unwrap_or(Layout { threads: self.plan.threads, ..own }),
        }
    }

    /// The layout of a tile of the shape of some dot's result on matrix units, or of some of its axes in any order, with the last one as `fast` if
    /// it is among them.
    fn of_result(&self, axes: &[&Size], fast: usize) -> Option<Layout> {
        let mma = self.plan.mma.as_ref()?;
        let parts = self.plan.results.iter().filter_map(|shape| Some((shape, positions(axes, shape)?)));
        let (shape, at) = parts.into_iter().find(|(shape, at)| at[fast] + 1 == shape.len() || !at.contains(&(shape.len() - 1)))?;
        let extents: Vec<i64> = shape.iter().map(|s| self.plan.size(s)).collect();
        Some(projected(&self.dealt(mma.layout(&extents)), &at))
    }

    /// The layout of the anchor among the threads of a slice, or of a block without slices.
    fn layout_of_slice(&self, block: i64) -> Layout {
        let plan = self.plan;
        if let Some(mma) = &plan.mma {
            return mma.layout(&plan.anchor);
        }
        let order: Vec<usize> = (0..plan.anchor.len()).rev().collect();
        let (shape, threads) = (&plan.anchor[..], &plan.thread_shape[..]);
        let lanes = self.lanes;
        if plan.transposed_operands {
            return with_runs_of_rows(&Deal { shape, threads, order: &order, vector: plan.vector, lanes, block });
        }
        let deal = Deal { shape, threads, order: &order, vector: plan.vector, lanes, block };
        if plan.blocked { Layout::blocked(&deal) } else { Layout::dealt(&deal) }
    }

    /// The layout from which a tile in the anchor's layout is stored, if another one. Where a thread's run is longer than one access, neighbouring
    /// threads would store far apart: such a tile changes hands first. `bytes` is the size of an element.
    fn stored(&self, bytes: i64) -> Option<Layout> {
        let (plan, own) = (self.plan, self.anchor());
        let long = own.axes.last().is_some() && own.run(own.axes.len() - 1) * bytes > 16;
        if !(plan.blocked && plan.joined == 1 && long) {
            return None;
        }
        let order: Vec<usize> = (0..plan.anchor.len()).rev().collect();
        let (shape, threads) = (&plan.anchor[..], &plan.thread_shape[..]);
        Some(Layout::dealt(&Deal { shape, threads, order: &order, vector: plan.vector, lanes: None, block: plan.threads }))
    }

    /// Which axis of the anchor each axis of a tile is, if all are: by the grid's tile indices where those span the anchor, else by extent.
    fn anchor_axes(&self, axes: &[(Option<ValueId>, Size)]) -> Option<Vec<usize>> {
        let grid_vars: &[ValueId] = self.kernel.grid_loop().map_or(&[], |l| &l.vars);
        let by_index: Option<Vec<usize>> = axes.iter().map(|(v, _)| grid_vars.iter().position(|g| Some(*g) == *v)).collect();
        if self.plan.anchor_sizes == grid_sizes(self.kernel)
            && let Some(found) = by_index
        {
            return Some(found);
        }
        positions(&axes.iter().map(|(_, size)| size).collect::<Vec<_>>(), &self.plan.anchor_sizes)
    }

    /// Deals a tile so that `fast` is its fastest axis: as part of the anchor or of a dot's result where it is one, else to the same threads.
    fn deal(&self, axes: &[(Option<ValueId>, Size)], fast: usize, bytes: i64) -> Layout {
        if axes.is_empty() {
            return Layout { axes: vec![], threads: self.plan.threads, registers: 1 };
        }
        if let Some(positions) = self.anchor_axes(axes) {
            let last = self.plan.anchor.len() - 1;
            if positions[fast] == last || !positions.contains(&last) {
                return projected(&self.anchor(), &positions);
            }
        }
        let sizes: Vec<&Size> = axes.iter().map(|(_, size)| size).collect();
        if let Some(layout) = self.of_result(&sizes, fast) {
            return layout;
        }
        let shape: Vec<i64> = sizes.into_iter().map(|size| self.plan.size(size)).collect();
        self.deal_alone(&shape, fast, bytes)
    }

    fn deal_alone(&self, shape: &[i64], fast: usize, bytes: i64) -> Layout {
        let plan = self.plan;
        let own = (shape.iter().product::<i64>() / plan.threads).max(1);
        let vector = gcd(gcd(shape[fast], own), plan.vector);
        let mut order: Vec<usize> = (0..shape.len()).rev().filter(|k| *k != fast).collect();
        order.insert(0, fast);
        // Deal along the fast axis first; `spread` fills the last axis first, so present it in that order.
        let room: Vec<i64> = order.iter().rev().map(|k| if *k == fast { shape[*k] / vector } else { shape[*k] }).collect();
        let along = spread(plan.threads, &room);
        let mut threads = vec![1; shape.len()];
        for (n, k) in order.iter().rev().zip(along).map(|(k, n)| (n, *k)) {
            threads[k] = n;
        }
        let lanes = (shape.len() > 1).then_some(full_lanes(vector, bytes));
        Layout::dealt(&Deal { shape, threads: &threads, order: &order, vector, lanes, block: plan.threads })
    }

    /// The layout of a tile that has none by itself (a constant, the start of an accumulator): part of the anchor where its axes are;
    /// short constant axes lie in the registers of a thread.
    fn of_shape(&self, shape: &[Size]) -> Layout {
        if self.plan.results.iter().any(|s| s == shape) {
            return self.natural(shape);
        }
        let short = |s: &Size| lies_in_registers(s) && !self.plan.anchor_sizes.contains(s);
        let dealt: Vec<(Option<ValueId>, Size)> = shape.iter().filter(|s| !short(s)).map(|s| (None, s.clone())).collect();
        let mut layout = self.deal(&dealt, dealt.len().saturating_sub(1), 4);
        for (k, size) in shape.iter().enumerate().filter(|(_, s)| short(s)) {
            layout = layout.with_register_axis(k, self.plan.size(size));
        }
        layout
    }

    /// The layout of a value by its shape alone.
    fn of_value(&self, value: ValueId) -> Layout {
        self.natural(self.kernel.ty(value).shape().unwrap_or_default())
    }

    /// The layout of a tile that fits every layout: that of the grid loop's own tile, or one dealt to the same threads.
    fn natural(&self, shape: &[Size]) -> Layout {
        if self.plan.results.iter().any(|s| s == shape)
            && let Some(layout) = self.of_result(&shape.iter().collect::<Vec<_>>(), shape.len() - 1)
        {
            return layout;
        }
        let axes: Vec<(Option<ValueId>, Size)> = shape.iter().map(|s| (None, s.clone())).collect();
        self.deal(&axes, axes.len().saturating_sub(1), 4)
    }

    /// The layout in which a tile is read from or written to this place with neighbouring threads on neighbouring elements; `in_turns` of a loop
    /// it goes with the sums of matrix instructions.
    fn preferred(&self, view: ViewId, index: &[Index], in_turns: bool) -> Layout {
        let axes = tile_axes(self.kernel, self.plan, index);
        let positions = view_axes(index);
        let strides: Vec<ValueId> = positions.iter().map(|k| self.kernel.view(view).axes[*k].stride).collect();
        // Whole axes lie in the registers of a thread; the rest is dealt.
        let dealt: Vec<usize> = (0..axes.len()).filter(|k| axes[*k].0.is_some()).collect();
        let mut fast = None;
        let mut least = i64::MAX;
        for (at, k) in dealt.iter().enumerate() {
            if let Some(s) = self.page.constant(strides[*k]).filter(|s| s.abs() < least) {
                (fast, least) = (Some(at), s.abs());
            }
        }
        let tiles: Vec<(Option<ValueId>, Size)> =
            dealt.iter().filter_map(|k| axes[*k].0.map(|v| (Some(v), tile_size(self.kernel, v).clone()))).collect();
        let bytes = self.kernel.view(view).dtype.size() as i64;
        let mut layout = self.deal(&tiles, fast.unwrap_or(tiles.len().saturating_sub(1)), bytes);
        for (k, axis) in axes.iter().enumerate().filter(|(_, a)| a.0.is_none()) {
            layout = layout.with_register_axis(k, axis.1);
        }
        // A row is the same for all rows of a result: each lane reads what belongs to its own columns. Behind the loop results change hands.
        let beside_sums = in_turns && axes.len() == 1;
        if !beside_sums && fast.is_none_or(|at| at + 1 == tiles.len()) && dealt.len() == axes.len() {
            return self.in_runs(&layout).unwrap_or(layout);
        }
        layout
    }

    /// Neighbours that a lane should have of results that are stored: as many as the widest access that the facts allow.
    fn result_run(&self) -> i64 {
        let mut run = 0;
        for view in self.kernel.views.iter().filter(|v| self.written[v.param]) {
            let bytes = view.dtype.size() as i64;
            let Some(facts) = &self.facts.tensors[view.param] else { return 1 };
            let last = facts.strides.len().saturating_sub(1);
            let columns = facts.lens.last().map_or(1, |l| *l as i64);
            // Rows of a packed tensor lie as far apart as they are long.
            let steps =
                facts.strides[..last].iter().fold(16, |all, s| gcd(all, if facts.packed { columns.max(*s as i64) } else { *s as i64 }));
            let width = gcd(gcd(16.min(facts.align as i64) / bytes, steps), columns);
            run = if run == 0 { width } else { run.min(width) };
        }
        run
    }

    /// The layout in which a tile that is dealt as the results of matrix instructions are is loaded and stored: with longer runs.
    fn in_runs(&self, layout: &Layout) -> Option<Layout> {
        self.plan.mma.as_ref()?;
        let axis = layout.axes.len().checked_sub(1)?;
        let most = self.result_run();
        [16, 8, 4, 2].into_iter().filter(|run| *run <= most).find_map(|run| with_runs(layout, axis, run))
    }
}

/// Which axis of a shape each of these axes is, by extent, if all are.
fn positions(axes: &[&Size], shape: &[Size]) -> Option<Vec<usize>> {
    let mut free: Vec<usize> = (0..shape.len()).collect();
    axes.iter()
        .map(|size| {
            let at = free.iter().position(|k| shape[*k] == **size)?;
            Some(free.remove(at))
        })
        .collect()
}

/// Position of each tile axis among the view's axes.
fn view_axes(index: &[Index]) -> Vec<usize> {
    (0..index.len()).filter(|k| !matches!(index[*k], Index::At(_))).collect()
}

/// The axes of the tile at `index`: their tile indices and extents.
fn tile_axes(kernel: &Kernel, plan: &Plan, index: &[Index]) -> Vec<(Option<ValueId>, i64)> {
    let of = |i: &Index| match i {
        Index::Tile(v) => Some((Some(*v), plan.size(tile_size(kernel, *v)))),
        Index::All(n) => Some((None, *n)),
        Index::At(_) => None,
    };
    index.iter().filter_map(of).collect()
}
