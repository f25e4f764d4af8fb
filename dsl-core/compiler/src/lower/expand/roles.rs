//! Roles (`copy = Tensor`): a warp of its own, the producer, fills the ring of stages by tensor maps; the others, the consumers, multiply. Each walks the
//! same tiles and iterations, in a loop of its own. A stage is full when its bytes have arrived, and free when every consumer's warp has said so.
//! (CUTLASS calls kernels like this warp-specialised, and persistent where blocks have several tiles.)

use super::context::{Expanded, Expander, Mode};
use super::grid::grid_of;
use super::index::{Index, binary, compare};
use super::multistage::Pipelined;
use super::stages::Stages;
use super::turns::Turns;
use super::window::{WindowCopy, WindowRep};
use crate::block::{self, HostExpr, Loop, Pipeline, Range, ValueId, gcd};
use girih_ir::fragments::GroupAtom;
use girih_ir::simt::{Barrier, Expr, Param, ParamKind, Place, Space, Special, Stmt, TensorMap};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };
/// Threads of a warp.
const WARP: i64 = 32;
/// Rows of a box, at most.
const BOX_ROWS: i64 = 256;

/// A block's tiles: the first, the end, and from one to the next; or the only one.
struct Tiles {
    first: Expr,
    rest: Option<(Expr, Expr)>,
    counts: Vec<Expr>,
}

/// The place in a loop's body behind its last dot.
fn behind_dots(l: &Loop) -> usize {
    l.body.iter().rposition(block::Stmt::has_dot).map_or(l.body.len(), |at| at + 1)
}

impl Expander<'_> {
    /// Lowers a grid loop in whose tiles the loop with this tile index has a ring that a warp of its own fills;
    /// its copies lie where these scalars of the tile say.
    pub fn grid_with_roles(&mut self, l: &Loop, sum: ValueId, places: &[ValueId]) -> Expanded<()> {
        let at = l.place_of(sum).unwrap_or_else(|| panic!("roles: no loop there in\n{}", self.kernel));
        let block::Stmt::Loop(inner) = &l.body[at] else { panic!("roles: no loop there in\n{}", self.kernel) };
        let Pipeline::Multistage { ring, copies } = &inner.plan.pipeline else { panic!("roles: no ring in\n{}", self.kernel) };
        let before = self.values.clone();
        let tiles = self.tiles_of_block(l);
        self.mode = if grid_of(l).divides { Mode::Full } else { Mode::Tail };
        let p = self.begin_pipeline(inner, *ring, copies)?;
        let consumes = compare(CompareOp::Lt, self.thread32(), LOCAL.lit(self.team.threads));
        self.open();
        self.produce(l, (&p, places), &tiles)?;
        let otherwise = self.close();
        self.values = before.clone();
        self.open();
        self.has_roles = true;
        self.consume((l, at), &p, &tiles)?;
        self.has_roles = false;
        let then = self.close();
        self.emit(Stmt::If { condition: consumes, then, otherwise });
        self.end_neighbours(l);
        self.mode = Mode::Tail;
        self.values = before;
        Ok(())
    }

    fn tiles_of_block(&mut self, l: &Loop) -> Tiles {
        let counts = self.tile_counts(l);
        let total = matches!(l.plan.range, Range::Persistent(_)).then(|| self.host_param(&grid_of(l).total, "tiles"));
        let first = self.block_index();
        self.begin_neighbours(l, &first);
        let rest = total.map(|tiles| {
            self.dealt("tiles");
            let stride = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
            (tiles, self.ix.cast(DType::I32, stride))
        });
        Tiles { first, rest, counts }
    }

    /// Each of a block's tiles, in the open block.
    fn each_tile(&mut self, l: &Loop, tiles: &Tiles, body: &mut dyn FnMut(&mut Self) -> Expanded<()>) -> Expanded<()> {
        let Some((end, step)) = tiles.rest.clone() else {
            self.set_tiles(l, tiles.first.clone(), &tiles.counts);
            return body(self);
        };
        let var = self.new_var("tile", self.ix.dtype, None);
        let outer = self.enter_turn();
        self.set_tiles(l, Expr::Var(var), &tiles.counts);
        body(self)?;
        let body = self.leave_turn(outer);
        self.emit(Stmt::For { var, start: tiles.first.clone(), end, step, unroll: false, body });
        Ok(())
    }

    /// The producer: one thread of it waits for each stage to be free, says how many bytes will come, and starts the copies.
    fn produce(&mut self, l: &Loop, (p, places): (&Pipelined, &[ValueId]), tiles: &Tiles) -> Expanded<()> {
        self.comment("the producer: one thread keeps the stages full");
        self.set_registers(1);
        // Of several warps the first one has it.
        let several = self.kernel.launch.producer.threads > WARP;
        if several {
            self.open();
        }
        let elected = self.declare_let("elected", DType::Bool, Expr::Special(Special::Elected));
        self.open();
        let stages = self.first_stage(p.ring, p.signals);
        self.each_tile(l, tiles, &mut |cx| {
            let is_place = |s: &&block::Stmt| matches!(s, block::Stmt::Let(v, _) if places.contains(v));
            l.body.iter().filter(is_place).try_for_each(|s| cx.lower_block(std::slice::from_ref(s)))?;
            let turns = cx.own_turns(p);
            let var = cx.new_var("turn", cx.ix.dtype, None);
            let outer = cx.enter_turn();
            cx.set_turn(p.walked, &turns, Expr::Var(var));
            cx.start_boxes(p, &stages)?;
            cx.next_stage(&stages).into_iter().for_each(|s| cx.emit(s));
            let body = cx.leave_turn(outer);
            let (start, end, step) = (turns.start, turns.end, cx.ix.lit(1));
            cx.emit(Stmt::For { var, start, end, step, unroll: false, body });
            Ok(())
        })?;
        let then = self.close();
        self.emit(Stmt::If { condition: elected, then, otherwise: vec![] });
        if several {
            let then = self.close();
            let condition = compare(CompareOp::Lt, self.thread32(), LOCAL.lit(self.team.threads + WARP));
            self.emit(Stmt::If { condition, then, otherwise: vec![] });
        }
        Ok(())
    }

    /// How many registers a thread of a role has from here on: a consumer's more than at first, a producer's fewer.
    fn set_registers(&mut self, role: usize) {
        if let Some(registers) = self.kernel.launch.producer.registers {
            self.emit(Stmt::SetRegisters { count: registers[role], more: role == 0 });
        }
    }

    /// The turns of the loop in the tile that is set.
    pub(super) fn own_turns(&mut self, p: &Pipelined) -> Turns {
        p.turns.clone().unwrap_or_else(|| self.turns(p.walked))
    }

    /// Starts the copies of the turn that is set.
    fn start_boxes(&mut self, p: &Pipelined, stages: &Stages) -> Expanded<()> {
        self.lower_places(p)?;
        let bytes = |(value, copy): (&ValueId, &WindowCopy)| {
            let block::Ty::Tile(dtype, _) = self.kernel.ty(*value) else { panic!("roles: {value:?} is no tile") };
            copy.axes.iter().map(|a| a.extent).product::<i64>() * dtype.size() as i64
        };
        let total: i64 = p.ahead.windows.iter().map(|(v, _)| v).zip(&p.rings).map(bytes).sum();
        let full = self.begin_stage(stages, total);
        for ((value, op), ring) in p.ahead.windows.iter().zip(&p.rings) {
            let window = self.window_at(*value, *op);
            let cut = if p.ahead.to_all.contains(value) { self.kernel.launch.cluster } else { 1 };
            self.copy_boxes(&window, &ring.at_stage(&stages.stage()), &full, cut);
        }
        Ok(())
    }

    /// One tile's copy: a box for each of its panels, and for each 256 rows of these. Cut into several parts, each block of the cluster brings
    /// its own to all of them.
    fn copy_boxes(&mut self, window: &WindowRep, copy: &WindowCopy, full: &Place, cut: i64) {
        let dtype = self.kernel.view(window.view).dtype;
        let slow = (0..copy.axes.len()).find(|k| *k != copy.fast && copy.axes[*k].extent > 1).unwrap_or(usize::from(copy.fast == 0));
        let (rows, columns) = (copy.axes[slow].extent, copy.axes[copy.fast].extent);
        let own_rows = rows / cut;
        let together = gcd(own_rows, BOX_ROWS);
        let map = self.tensor_map(window, copy, slow, together);
        let mut at: Vec<Expr> = (0..window.index.len()).map(|k| self.tile_start(window.index[k])).collect();
        let ((panel, c), (part, r)) = (self.loop_var("panel"), self.loop_var("part"));
        let ix = self.ix;
        at[copy.fast] = ix.add(at[copy.fast].clone(), ix.cast(DType::I32, LOCAL.mul(c.clone(), LOCAL.lit(copy.run))));
        // The first row of the block's own part, each of so many elements.
        let own = |cx: &Self, each: i64| if cut > 1 { LOCAL.mul(cx.part_of_cluster(), LOCAL.lit(own_rows * each)) } else { LOCAL.lit(0) };
        let row = LOCAL.add(own(self, 1), LOCAL.mul(r.clone(), LOCAL.lit(together)));
        at[slow] = ix.add(at[slow].clone(), ix.cast(DType::I32, row));
        let lies = LOCAL.add(LOCAL.mul(c, LOCAL.lit(rows * copy.run)), LOCAL.mul(r, LOCAL.lit(together * copy.run)));
        let lies = LOCAL.add(lies, own(self, copy.run));
        let shared = Place { space: Space::Shared(copy.id), dtype, index: LOCAL.add(copy.first.clone(), lies) };
        let at = at.into_iter().rev().map(|e| if ix.dtype == DType::I32 { e } else { Expr::Cast(DType::I32, Box::new(e)) }).collect();
        let start = Stmt::TensorCopy { shared, map, at, barrier: full.clone(), to_all: cut > 1 };
        let text = self.kernel.view(window.view).text.clone();
        let to = if cut > 1 { "to the shared memory of all blocks of the cluster" } else { "to shared memory" };
        self.comment(format!("copy {own_rows} x {columns} elements of {text} {to}; outside of the tensor zeros"));
        let parts = super::elements::unrolled(part, own_rows / together, vec![start]);
        self.emit(super::elements::unrolled(panel, columns / copy.run, vec![parts]));
    }

    /// The parameter that is the map of an operand's tensor, by boxes of a panel's so many rows.
    fn tensor_map(&mut self, window: &WindowRep, copy: &WindowCopy, slow: usize, rows: i64) -> usize {
        let view = self.kernel.view(window.view).clone();
        let host = |v: ValueId| -> HostExpr {
            self.kernel.value(v).host.clone().unwrap_or_else(|| panic!("roles: the host does not know {v:?} in\n{}", self.kernel))
        };
        let extent = |k: usize| {
            if k == copy.fast {
                copy.run as u32
            } else if k == slow {
                rows as u32
            } else {
                1
            }
        };
        let axes = (0..view.axes.len()).rev();
        let map = TensorMap {
            tensor: view.param,
            dtype: view.dtype,
            rounds: window.read.rounded,
            lens: axes.clone().map(|k| host(view.axes[k].len)).collect(),
            strides: axes.clone().skip(1).map(|k| host(view.axes[k].stride)).collect(),
            box_lens: axes.map(extent).collect(),
            swizzle_bytes: (copy.run * view.dtype.size() as i64) as u32,
        };
        let found = self.params.iter().position(|p| matches!(&p.kind, ParamKind::TensorMap { map: other } if *other == map));
        found.unwrap_or_else(|| {
            let base = format!("{}_map", self.kernel.params[view.param].name);
            let taken = |n: &str| self.params.iter().any(|p| p.name == n);
            let name = (1..).map(|i| if i == 1 { base.clone() } else { format!("{base}{i}") }).find(|n| !taken(n)).unwrap_or(base.clone());
            self.params.push(Param { name, kind: ParamKind::TensorMap { map } });
            self.params.len() - 1
        })
    }

    /// The consumers: each tile's statements, with the loop of the sum waiting for full stages.
    fn consume(&mut self, (l, at): (&Loop, usize), p: &Pipelined, tiles: &Tiles) -> Expanded<()> {
        self.comment("the consumers");
        self.set_registers(0);
        let stages = self.first_stage(p.ring, p.signals);
        let groups = self.team.threads / i64::from(GroupAtom::THREADS);
        self.in_turn = p.ring.in_turn.then_some(groups as u32);
        self.begin_turns();
        self.each_tile(l, tiles, &mut |cx| {
            cx.lower_block(&l.body[..at])?;
            cx.consume_turns(p, &stages)?;
            cx.lower_block(&l.body[at + 1..])
        })?;
        self.end_turns();
        self.in_turn = None;
        Ok(())
    }

    fn consume_turns(&mut self, p: &Pipelined, stages: &Stages) -> Expanded<()> {
        if p.ring.products_overlap {
            return self.overlapped_turns(p, stages);
        }
        let carried = self.start_carries(&p.walked.carries)?;
        self.start_shared(p.walked, &carried);
        self.begin_dots(&p.walked.body);
        let turns = self.own_turns(p);
        let var = self.new_var("turn", self.ix.dtype, None);
        let outer = self.enter_turn();
        self.await_stage(stages).into_iter().for_each(|s| self.emit(s));
        self.in_flight = p.ring.products_first.then(Vec::new);
        self.set_turn(p.walked, &turns, Expr::Var(var));
        let end = p.walked.body.len();
        // What does not look at products in flight runs beside them.
        let behind = if p.ring.products_first { end } else { behind_dots(p.walked) };
        self.lower_statements(p, &stages.stage(), 0..behind)?;
        if let Some(sums) = self.in_flight.take() {
            self.emit(Stmt::WgmmaWait { pending: 0, sums });
        }
        // Nobody reads the stage any more.
        self.release_stage(stages);
        self.lower_statements(p, &stages.stage(), behind..end)?;
        self.end_carries(&p.walked.carries, &carried)?;
        self.next_stage(stages).into_iter().for_each(|s| self.emit(s));
        let body = self.leave_turn(outer);
        let (start, end, step) = (turns.start, turns.end, self.ix.lit(1));
        self.emit(Stmt::For { var, start, end, step, unroll: false, body });
        self.finish_carries(&p.walked.carries, &carried)?;
        Ok(())
    }

    /// One lane of each warp says that the warp has read the stage.
    fn release_stage(&mut self, stages: &Stages) {
        self.release_at(stages, &stages.stage());
    }

    /// The same of another stage.
    pub(super) fn release_at(&mut self, stages: &Stages, stage: &Expr) {
        if self.kernel.dots.converts() {
            // Its lanes have read the stage, too, and not matrix instructions alone.
            self.emit(Stmt::Barrier(Barrier::Warp));
        }
        let lane = LOCAL.rem(self.thread32(), 32);
        let blocks = self.kernel.launch.cluster;
        if blocks == 1 {
            let then = self.arrive_free_at(stages, stage);
            self.emit(Stmt::If { condition: compare(CompareOp::Eq, lane, LOCAL.lit(0)), then, otherwise: vec![] });
            return;
        }
        // Every block of the cluster fills this one's stages, too.
        let then = self.arrive_free_of(stages, stage, &lane);
        self.emit(Stmt::If { condition: compare(CompareOp::Lt, lane, LOCAL.lit(blocks)), then, otherwise: vec![] });
    }

    /// Flips a parity.
    pub(super) fn other_parity(phase: Expr) -> Expr {
        binary(BinaryOp::Xor, phase, LOCAL.lit(1))
    }
}
