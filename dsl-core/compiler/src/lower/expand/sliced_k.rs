//! Sums that groups of a block's threads share (`slices`): each slice takes some of the turns, with copies and barriers of its own, so that
//! slices never wait for one another in the loop. Behind it they exchange what they have through shared memory; each finishes the same part
//! of every thread's elements, and all threads of the block go on together. (CUTLASS calls the division sliced-K.)

use super::context::{Data, Expanded, Expander, Mode, Rep, TileRep};
use super::elements::unrolled;
use super::index::{Index, binary, compare};
use super::split_k::Share;
use crate::block::layouts::dealt_to_slices;
use crate::block::{Loop, ValueId};
use crate::lower::cleanup::array_copies::{in_copies, move_to_copy};
use crate::lower::refusal::Refusal;
use girih_ir::layout::Layout;
use girih_ir::simt::visit::each_place;
use girih_ir::simt::{Barrier, Expr, Place, SharedArray, SharedId, Space, Special, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };
/// The named barrier of those who multiply, where another warp copies.
const CONSUMERS: u32 = 1;

impl Expander<'_> {
    /// The threads that work on a turn together meet: those of a slice, or all of the block.
    pub fn team_barrier(&self) -> Barrier {
        match (self.team.slices, self.team.threads) {
            _ if self.alone => Barrier::Warp,
            (1, threads) if self.has_roles => Barrier::Named { id: CONSUMERS, threads: threads as u32 },
            (1, _) => Barrier::Block,
            (_, 32) => Barrier::Warp,
            (_, threads) => Barrier::Slice { threads: threads as u32 },
        }
    }

    /// Names the thread and, where there are slices, its slice.
    pub fn begin_threads(&mut self) {
        let own = Expr::Special(Special::Thread);
        let thread = if self.team.slices == 1 {
            self.declare_let("thread", DType::I32, own)
        } else {
            self.comment(format!(
                "slices = {}: as many groups of {} threads share the turns of a sum",
                self.team.slices, self.team.threads
            ));
            let all = self.declare_let("block_thread", DType::I32, own);
            self.slice = self.declare_let("slice", DType::I32, LOCAL.div(all.clone(), self.team.threads));
            self.block_thread = self.ix.cast(DType::I32, all.clone());
            self.declare_let("thread", DType::I32, LOCAL.rem(all, self.team.threads))
        };
        self.thread = self.ix.cast(DType::I32, thread);
        self.begin_groups();
    }

    /// Lowers a grid loop whose sums slices share.
    pub fn sliced_k_grid(&mut self, l: &Loop) -> Expanded<()> {
        let counts = self.tile_counts(l);
        let block = self.block_index();
        self.mode = if super::grid::grid_of(l).divides { Mode::Full } else { Mode::Tail };
        let before = self.values.clone();
        if self.kernel.launch.dealt == 0 {
            self.sliced_tile(l, &counts, block, false)?;
        } else {
            let end = self.host_param(&super::grid::grid_of(l).total, "tiles");
            let stride = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
            let step = self.ix.cast(DType::I32, stride);
            self.dealt("tiles");
            let counter = self.new_var("tile", self.ix.dtype, None);
            let outer = self.enter_turn();
            // A tile ends with all threads together.
            self.repeated = false;
            self.sliced_tile(l, &counts, Expr::Var(counter), true)?;
            let body = self.leave_turn(outer);
            self.emit(Stmt::For { var: counter, start: block, end, step, unroll: false, body });
        }
        self.values = before;
        self.mode = Mode::Tail;
        Ok(())
    }

    /// One tile: the turns of this thread's slice, the exchange, and what follows by all threads.
    fn sliced_tile(&mut self, l: &Loop, counts: &[Expr], number: Expr, repeats: bool) -> Expanded<()> {
        let (ix, slice) = (self.ix, self.ix.cast(DType::I32, self.slice.clone()));
        let (mark, first) = (self.mark(), self.shared.len());
        self.set_tiles(l, number, counts);
        let (inner, rest) = self.before_shared(l)?;
        let mut turns = self.turns(inner);
        let all = turns.end.clone();
        let each = self.declare_let("share", ix.dtype, ix.div(ix.add(all.clone(), ix.lit(self.team.slices - 1)), self.team.slices));
        turns.start = self.declare_let("from", ix.dtype, binary(BinaryOp::Min, ix.mul(slice, each.clone()), all.clone()));
        turns.end = self.declare_let("to", ix.dtype, binary(BinaryOp::Min, ix.add(turns.start.clone(), each), all));
        let is_first = compare(CompareOp::Eq, self.slice.clone(), LOCAL.lit(0));
        self.take_turns(inner, Share { vars: inner.vars.clone(), turns, is_first })?;
        self.keep_apart(mark, first);
        for (n, c) in inner.carries.iter().enumerate() {
            if n > 0 || self.shared.len() > first {
                // What lies there is read no more.
                self.emit(Stmt::Barrier(Barrier::Block));
            }
            self.join_slices(c.result)?;
        }
        let (team, thread, depth) = (self.team, self.thread.clone(), self.coordinates.len());
        self.go_on_together();
        let lowered = self.lower_block(rest);
        (self.team, self.thread) = (team, thread);
        self.coordinates.truncate(depth);
        if repeats {
            // The next tile's copies take the place of what this one has in shared memory.
            self.emit(Stmt::Barrier(Barrier::Block));
        }
        lowered
    }

    /// Gives each slice its own copy of the shared arrays from number `first` on, which the statements behind the mark use.
    fn keep_apart(&mut self, mark: usize, first: usize) {
        let mut stmts = self.take_from(mark);
        let (slice, slices) = (self.slice.clone(), self.team.slices as u32);
        let mut bytes = Vec::new();
        for array in &mut self.shared[first..] {
            bytes.push(in_copies(array, slices));
        }
        let (vars, params) = (&self.vars, &self.params);
        each_place(&mut stmts, &mut |place| {
            let Space::Shared(SharedId(id)) = place.space else { return };
            if let Some(bytes) = (id as usize).checked_sub(first).and_then(|at| bytes.get(at)) {
                move_to_copy(place, *bytes, &slice, vars, params);
            }
        });
        stmts.into_iter().for_each(|s| self.emit(s));
    }

    /// Exchanges what the slices have of a sum: each thread finishes some of its elements.
    fn join_slices(&mut self, sum: ValueId) -> Expanded<()> {
        let TileRep { layout: Some(layout), data: Data::Array(var) | Data::One(Expr::Var(var)), .. } = self.tile(sum).clone() else {
            panic!("slices: {sum:?} is in no variable in\n{}", self.kernel)
        };
        let (slices, threads, dtype) = (self.team.slices, self.team.threads, self.register_type(sum));
        let Some(dealt) = dealt_to_slices(&layout, slices) else { return Err(Refusal::Slices { registers: layout.registers }) };
        let own = dealt.registers;
        let lanes = [4, 2, 1].into_iter().find(|n| own % n == 0).unwrap_or(1);
        let name = self.name_of(sum, "sum");
        let (name_of, len) = (format!("{name}_slices"), (threads * slices * (slices - 1) * own) as u32);
        self.shared.push(SharedArray { name: name_of, dtype, len, align: 16, at: Some(0) });
        let id = SharedId(self.shared.len() as u32 - 1);
        let place = |cx: &Self, of: Expr, slot: Expr, run: &Expr| {
            let slot = LOCAL.add(LOCAL.mul(of, LOCAL.lit(slices - 1)), slot);
            let run = LOCAL.add(LOCAL.mul(slot, LOCAL.lit(own / lanes)), run.clone());
            let thread = LOCAL.add(LOCAL.mul(run, LOCAL.lit(threads)), cx.thread32());
            Place { space: Space::Shared(id), dtype, index: LOCAL.mul(thread, LOCAL.lit(lanes)) }
        };
        self.comment("each slice leaves the others what they finish of the sum");
        let slice = self.slice.clone();
        let (to, p) = self.loop_var("p");
        self.open();
        self.open();
        let before = compare(CompareOp::Lt, slice.clone(), p.clone());
        let slot = Expr::Select(Box::new(before), Box::new(slice.clone()), Box::new(LOCAL.sub(slice.clone(), LOCAL.lit(1))));
        self.each_run(own, lanes, &mut |cx, run| {
            let at = LOCAL.add(LOCAL.mul(p.clone(), LOCAL.lit(own)), LOCAL.mul(run.clone(), LOCAL.lit(lanes)));
            let place = place(cx, p.clone(), slot.clone(), &run);
            cx.store_registers(var, place, Some(at), lanes);
        });
        let then = self.close();
        self.emit(Stmt::If { condition: compare(CompareOp::Ne, slice.clone(), p), then, otherwise: vec![] });
        let body = self.close();
        self.emit(unrolled(to, slices, body));
        self.emit(Stmt::Barrier(Barrier::Block));
        self.comment("and adds up its own part");
        let total = self.own_part(&name, var, dtype, own);
        let (from, s) = self.loop_var("s");
        self.open();
        self.each_run(own, lanes, &mut |cx, run| {
            let place = place(cx, slice.clone(), s.clone(), &run);
            cx.add_registers(total, &format!("{name}_other"), place, Some(LOCAL.mul(run, LOCAL.lit(lanes))), lanes);
        });
        let body = self.close();
        self.emit(unrolled(from, slices - 1, body));
        let mut rep = self.tile(sum).clone();
        (rep.data, rep.layout, rep.elsewhere) = (Data::Array(total), Some(dealt), vec![]);
        self.set(sum, Rep::Tile(rep));
        Ok(())
    }

    /// The elements of a thread's sum that its slice finishes.
    fn own_part(&mut self, name: &str, var: VarId, dtype: DType, own: i64) -> VarId {
        let total = self.new_var(&format!("{name}_part"), dtype, Some(own as u32));
        self.emit(Stmt::Declare { var: total, init: None });
        let (counter, p) = self.loop_var("p");
        self.open();
        self.open();
        self.each_run(own, 1, &mut |cx, e| {
            let value = Expr::Element(var, Box::new(LOCAL.add(LOCAL.mul(p.clone(), LOCAL.lit(own)), e.clone())));
            cx.emit(Stmt::Assign { var: total, index: Some(e), value });
        });
        let then = self.close();
        self.emit(Stmt::If { condition: compare(CompareOp::Eq, self.slice.clone(), p), then, otherwise: vec![] });
        let body = self.close();
        self.emit(unrolled(counter, self.team.slices, body));
        total
    }

    /// From here on all threads of the block are one: what each slice has loaded is there once for every slice.
    fn go_on_together(&mut self) {
        let together = self.kernel.teams.last().unwrap_or(self.team);
        let (own, all) = (self.team.threads, together.threads);
        let widen = |layout: &mut Layout| {
            if layout.threads == own {
                layout.threads = all;
            }
        };
        for rep in self.values.iter_mut() {
            if let Rep::Tile(tile) = rep {
                tile.layout.iter_mut().for_each(widen);
                tile.elsewhere.iter_mut().for_each(|(layout, _)| widen(layout));
            }
        }
        self.team = together;
        self.thread = self.block_thread.clone();
    }
}
