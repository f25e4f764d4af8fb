//! Statements: loops with carried values, branches, and the statements of a block in order.

use super::combine::Partial;
use super::computed::Memory;
use super::context::{Data, Expanded, Expander, Rep, Reps, TileRep};
use super::index::literal;
use super::mask::{Bound, Mask, Test};
use super::window::Copied;
use crate::block::Key;
use crate::block::late_sums::LateSum;
use crate::block::{self, Block, Carry, HostExpr, Loop, Meet, Op, Ty, ValueId};
use crate::block::{Pipeline, Range};
use girih_ir::layout::Layout;
use girih_ir::simt::{Barrier, Expr, OPT_LEVEL, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType, Scope, TernaryOp};

/// A variable that stands for a carried value.
pub(crate) struct Carried {
    pub var: VarId,
    /// `None` for scalars.
    pub layout: Option<Layout>,
}

impl Expander<'_> {
    /// Lowers the statements of a block into the open block.
    pub fn lower_block(&mut self, block: &[block::Stmt]) -> Expanded<()> {
        for stmt in block {
            self.lower_stmt(stmt)?;
        }
        Ok(())
    }

    fn lower_stmt(&mut self, stmt: &block::Stmt) -> Expanded<()> {
        let early = matches!(stmt, block::Stmt::Load(value, _) if self.loaded_early.contains(value));
        match stmt {
            block::Stmt::Load(value, access) if early => {
                let layout = self.layout_at(access);
                self.accessed(Key::Load(*value), &layout);
                Ok(())
            }
            block::Stmt::Load(value, access) => self.load(*value, access),
            block::Stmt::Window(value, window) => self.open_copied(*value, Copied::Window(window)),
            block::Stmt::Let(value, op) => self.lower_let(*value, op),
            block::Stmt::Combine(c) => self.combine(c),
            block::Stmt::OverCluster(c) => self.reduce_over_cluster(c),
            block::Stmt::Together(all) => self.combine_together(all),
            block::Stmt::Store { to, value, from, rows, by_first: true } => {
                self.by_first_block(&mut |cx| cx.store(to, *value, from.as_ref(), rows.as_deref()))
            }
            block::Stmt::Store { to, value, from, rows, .. } => self.store(to, *value, from.as_ref(), rows.as_deref()),
            block::Stmt::Scatter { view, indices, value, run: Some(_), width } => {
                self.scatter_runs(Memory::View(*view), indices, *value, *width)
            }
            block::Stmt::Scatter { view, indices, value, run: None, width } if *width > 1 => {
                self.scatter_vectors(Memory::View(*view), indices, *value, *width)
            }
            block::Stmt::Scatter { view, indices, value, .. } => self.scatter(Memory::View(*view), indices, *value),
            block::Stmt::Atomic { update, view, scope, order, .. } => self.update(Memory::View(*view), update, *scope, *order),
            block::Stmt::Shared { array, kind, cuts, .. } => self.shared_access(*array, kind, self.text_of(cuts).width),
            block::Stmt::Barrier(scope) => {
                self.meet_by_hand(*scope);
                Ok(())
            }
            block::Stmt::Copies { pending, .. } => {
                self.copy_groups(*pending);
                Ok(())
            }
            block::Stmt::Loop(l) if l.grid.is_some() => self.grid_loop(l),
            block::Stmt::Finish(finish) => self.finish_grid(finish),
            block::Stmt::Alone(alone) => self.run_alone(alone),
            block::Stmt::Meet(meet) => {
                self.meet_before(meet);
                Ok(())
            }
            block::Stmt::Loop(l) => {
                // A choice says nothing of the tiles that a loop inside of it walks.
                let sides = std::mem::take(&mut self.sides);
                let lowered = self.sequential(l);
                self.sides = sides;
                lowered
            }
            block::Stmt::Range { var, start, end, carries, body, .. } => self.range(*var, *start, *end, carries, body),
            block::Stmt::While { once, carries, header, condition, body } => match self.kernel.ty(*condition) {
                Ty::Scalar(_) => self.repeat(carries, header, *condition, body),
                _ => self.repeat_by_element(*once, carries, header, *condition, body),
            },
            block::Stmt::If { condition, then, otherwise, results, .. } => self.branch(*condition, then, otherwise, results),
            block::Stmt::Where { mask, negate, body, .. } => {
                let rank = self.kernel.ty(*mask).shape().map_or(0, <[_]>::len);
                let test = Test::of(*mask, !*negate, rank);
                // Where nobody knows the condition neither side is.
                let mut side = self.tile(*mask).mask.clone();
                side.sides.push(vec![test]);
                self.sides.push((*mask, side));
                let lowered = self.lower_block(body);
                self.sides.pop();
                lowered
            }
        }
    }

    /// The author's own barriers. All of the grid's count blocks at one counter.
    fn meet_by_hand(&mut self, scope: Scope) {
        let barrier = match scope {
            Scope::Warp => Barrier::Warp,
            Scope::Device => {
                let counter = self.meetings.unwrap_or_else(|| self.workspace("meetings", DType::U32, HostExpr::Const(1)));
                self.meetings = Some(counter);
                Barrier::Grid { counter }
            }
            Scope::Block | Scope::Cluster | Scope::System => Barrier::Block,
        };
        self.emit(Stmt::Barrier(barrier));
    }

    /// The threads that work together meet, if another one may have been where the next statement goes.
    fn meet_before(&mut self, meet: &Meet) {
        let needed = match meet {
            Meet::Loop | Meet::Shared | Meet::Replaced => return self.emit(Stmt::Barrier(self.team_barrier())),
            Meet::Copied { asynchronous } => return self.finish_copies(*asynchronous),
            _ if self.keeps_to_own => false,
            Meet::Memory(Key::Load(value)) | Meet::SamePlace { key: Key::Load(value), .. } if self.loaded_early.contains(value) => false,
            Meet::Memory(_) => true,
            Meet::SamePlace { key, access, earlier } => self.others_have_been_there(*key, access, earlier),
        };
        if needed {
            self.comment("other threads of the block may have stored what is loaded here, or load what is stored");
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
    }

    /// A loop over the tiles of an axis inside a block.
    fn sequential(&mut self, l: &Loop) -> Expanded<()> {
        let plan = &l.plan;
        if plan.range == Range::Once {
            return self.single_turn(l);
        }
        let before = self.taken.len();
        match &plan.pipeline {
            Pipeline::Multistage { ring, copies } => self.pipelined_loop(l, *ring, copies)?,
            Pipeline::None => self.plain_loop(l)?,
            Pipeline::GridPrefetch { .. } | Pipeline::Persistent { .. } | Pipeline::Roles { .. } => {
                panic!("control: a pipeline of the grid in\n{}", self.kernel)
            }
        }
        // What the turns had in shared memory ends with them.
        self.vacant.extend_from_slice(&self.taken[before..]);
        Ok(())
    }

    /// The turns of a loop over tiles that this block takes, one after the other.
    fn plain_loop(&mut self, l: &Loop) -> Expanded<()> {
        let carried = self.start_carries(&l.carries)?;
        self.start_shared(l, &carried);
        let shared = self.shared_turns(l);
        let counters = match &shared {
            Some(turns) => vec![self.counter_of_turns(l, turns)],
            None => (0..l.vars.len()).map(|along| self.counter_along(l, along)).collect(),
        };
        self.begin_dots(&l.body);
        let outer = self.enter_turn();
        if let (Some(turns), [(counter, ..)]) = (shared.filter(|_| l.vars.len() > 1), &counters[..]) {
            self.set_turn(l, &turns, Expr::Var(*counter));
        }
        self.lower_block(&l.body)?;
        self.end_carries(&l.carries, &carried)?;
        let mut body = self.leave_turn(outer);
        for (var, start, end) in counters.into_iter().rev() {
            let (start, step) = self.turns_of_block(l.plan.range, start);
            body = vec![Stmt::For { var, start, end, step, unroll: false, body }];
        }
        body.into_iter().for_each(|s| self.emit(s));
        self.finish_carries(&l.carries, &carried)?;
        Ok(())
    }

    /// A counter of the tiles along one axis of a loop, with its first value and the end.
    fn counter_along(&mut self, l: &Loop, along: usize) -> (VarId, Expr, Expr) {
        let (start, end) = self.tiles_walked(l, along);
        let name = self.name_of(l.vars[along], "tile");
        let counter = self.new_var(&name, self.ix.dtype, None);
        self.set(l.vars[along], Rep::TileIndex(Expr::Var(counter)));
        (counter, start, end)
    }

    /// A counter of the turns that this block takes of a loop: the tile index itself where there is one axis.
    fn counter_of_turns(&mut self, l: &Loop, turns: &super::turns::Turns) -> (VarId, Expr, Expr) {
        let single = l.vars.len() == 1;
        let name = if single { self.name_of(l.vars[0], "tile") } else { "turn".to_string() };
        let counter = self.new_var(&name, self.ix.dtype, None);
        if single {
            self.set(l.vars[0], Rep::TileIndex(Expr::Var(counter)));
        }
        (counter, turns.start.clone(), turns.end.clone())
    }

    /// A loop whose axes fit one tile takes one turn, whose values stay known behind it.
    fn single_turn(&mut self, l: &Loop) -> Expanded<()> {
        for v in &l.vars {
            let first = self.ix.lit(0);
            self.set(*v, Rep::TileIndex(first));
        }
        let carried = self.start_carries(&l.carries)?;
        self.lower_block(&l.body)?;
        self.end_carries(&l.carries, &carried)?;
        self.finish_carries(&l.carries, &carried)?;
        Ok(())
    }

    fn range(&mut self, var: ValueId, start: ValueId, end: ValueId, carries: &[Carry], body: &Block) -> Expanded<()> {
        let (start, end) = (self.scalar(start), self.scalar(end));
        let carried = self.start_carries(carries)?;
        let dtype = self.register_type(var);
        let name = self.name_of(var, "n");
        let counter = self.new_var(&name, dtype, None);
        let ends = self.range_of(&start).zip(self.range_of(&end));
        self.ranges.extend(ends.and_then(|(start, end)| Some((counter, (start.0, end.1.checked_sub(1)?.max(start.0))))));
        self.set(var, Rep::Scalar(Expr::Var(counter)));
        let outer = self.enter_turn();
        self.lower_block(body)?;
        self.end_carries(carries, &carried)?;
        let turn = self.leave_turn(outer);
        self.emit(Stmt::For { var: counter, start, end, step: literal(dtype, 1), unroll: false, body: turn });
        self.finish_carries(carries, &carried)?;
        Ok(())
    }

    fn repeat(&mut self, carries: &[Carry], header: &Block, condition: ValueId, body: &Block) -> Expanded<()> {
        let carried = self.start_carries(carries)?;
        let outer = self.enter_turn();
        self.lower_block(header)?;
        let (value, condition) = (condition, self.scalar(condition));
        let header = self.close();
        self.open();
        self.lower_block(body)?;
        self.end_carries(carries, &carried)?;
        let turn = self.leave_turn(outer);
        self.blocks.push(header.clone());
        let condition = self.agreed(value, condition, &[&header, &turn]);
        let header = self.close();
        self.emit(Stmt::While { header, condition, body: turn });
        self.finish_carries(carries, &carried)?;
        Ok(())
    }

    /// Opens the block of a loop's turn. What values become inside is forgotten outside.
    pub fn enter_turn(&mut self) -> (Reps, bool) {
        let outer = (self.values.clone(), self.repeated);
        self.repeated = true;
        self.open();
        outer
    }

    pub fn leave_turn(&mut self, outer: (Reps, bool)) -> Vec<Stmt> {
        (self.values, self.repeated) = outer;
        self.close()
    }

    /// Declares a variable for each carried value, with its first value in it.
    pub fn start_carries(&mut self, carries: &[Carry]) -> Expanded<Vec<Carried>> {
        let mut carried = Vec::new();
        for c in carries {
            let name = self.name_of(c.inner, "carried");
            let slot = match self.kernel.ty(c.init).clone() {
                Ty::Tile(..) => {
                    let layout = self.layout_of_carry(c)?;
                    let dtype = self.register_type(c.init);
                    let mask = self.tile(c.init).mask.clone();
                    let (var, data) = if layout.registers == 1 {
                        self.prepare(c.init, &layout)?;
                        let at = super::values::At::only(&layout, literal(DType::I32, 0));
                        let init = self.element(c.init, &at, &Default::default());
                        let var = self.new_var(&name, dtype, None);
                        self.emit(Stmt::Declare { var, init: Some(init) });
                        self.carried.insert(var);
                        (var, Data::One(Expr::Var(var)))
                    } else {
                        let var = self.fill_array(c.init, &layout, &name, dtype)?;
                        (var, Data::Array(var))
                    };
                    self.set(c.inner, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask, data }));
                    Carried { var, layout: Some(layout) }
                }
                _ => {
                    let init = self.scalar(c.init);
                    let var = self.new_var(&name, self.register_type(c.init), None);
                    self.emit(Stmt::Declare { var, init: Some(init) });
                    self.set(c.inner, Rep::Scalar(Expr::Var(var)));
                    Carried { var, layout: None }
                }
            };
            carried.push(slot);
        }
        Ok(carried)
    }

    fn layout_of_carry(&mut self, c: &Carry) -> Expanded<Layout> {
        if let Some(layout) = &self.tile(c.init).layout {
            return Ok(layout.clone());
        }
        Ok(self.own_layout(c.init))
    }

    /// Sets the carried variables to the values at the end of a turn, all at once.
    pub fn end_carries(&mut self, carries: &[Carry], carried: &[Carried]) -> Expanded<()> {
        let mut assigns = Vec::new();
        let others = |own: VarId| -> Vec<VarId> { carried.iter().map(|slot| slot.var).filter(|var| *var != own).collect() };
        for (c, slot) in carries.iter().zip(carried).filter(|(_, s)| s.layout.is_none()) {
            let next = self.scalar(c.next);
            let value = self.named_if_it_reads(next, &others(slot.var));
            assigns.push(Stmt::Assign { var: slot.var, index: None, value });
        }
        let mut groups: Vec<(Layout, Vec<usize>)> = Vec::new();
        for (i, slot) in carried.iter().enumerate() {
            let Some(layout) = slot.layout.as_ref().filter(|_| !self.kept_in_place(&carries[i], slot.var)) else { continue };
            match groups.iter_mut().find(|(l, _)| l == layout) {
                Some((_, members)) => members.push(i),
                None => groups.push((layout.clone(), vec![i])),
            }
        }
        if groups.len() > 1 {
            // The first group's variables change before the last group's values are computed.
            for (layout, members) in &groups {
                for i in members {
                    self.in_array(carries[*i].next, layout)?;
                }
            }
        }
        for (layout, members) in groups {
            let nexts: Vec<ValueId> = members.iter().map(|i| carries[*i].next).collect();
            let vars: Vec<VarId> = members.iter().map(|i| carried[*i].var).collect();
            let absent: Vec<Mask> = members.iter().map(|i| self.newly_absent(&carries[*i])).collect();
            let guarded = absent.iter().any(|m| !m.bounds.is_empty() || !m.sides.is_empty());
            let bases: Vec<Vec<Expr>> = absent
                .iter()
                .map(|m| {
                    let axes = self.bound_axes(m, &layout);
                    self.base_coordinates(&axes, &layout)
                })
                .collect();
            absent.iter().try_for_each(|m| self.prepare_sides(m, &layout))?;
            let array = layout.registers > 1;
            let mut late = Vec::new();
            self.for_elements(&nexts, &layout, guarded, &mut |cx, at, elements| {
                let mut values = Vec::new();
                for (k, e) in elements.into_iter().enumerate() {
                    let old = if array { Expr::Element(vars[k], Box::new(at.flat.clone())) } else { Expr::Var(vars[k]) };
                    let e = cx.keep_where_absent(&absent[k], &bases[k], at, e, old);
                    values.push(cx.named_if_it_reads(e, &others(vars[k])));
                }
                for (var, value) in vars.iter().zip(values) {
                    let assign = Stmt::Assign { var: *var, index: array.then(|| at.flat.clone()), value };
                    if array { cx.emit(assign) } else { late.push(assign) }
                }
                Ok(())
            })?;
            assigns.extend(late);
        }
        assigns.into_iter().for_each(|a| self.emit(a));
        Ok(())
    }

    /// What makes an element of a carried tile absent at the end of a turn that was present at its start.
    fn newly_absent(&self, c: &Carry) -> Mask {
        let before = self.tile(c.inner).mask.clone();
        if self.adds_zeros(c) {
            return Mask::default();
        }
        let mut mask = self.tile(c.next).mask.clone();
        mask.bounds.retain(|b| !before.bounds.contains(b) && !self.is_unobserved(c, b));
        mask.sides.retain(|s| !before.sides.contains(s));
        mask
    }

    /// Whether no element of a carried tile beyond this bound is ever looked at.
    fn is_unobserved(&self, c: &Carry, bound: &Bound) -> bool {
        bound.len == self.length(bound.index) && c.unobserved.contains(&(bound.axis, bound.index))
    }

    /// `acc + x` where absent elements of `x` hold zeros keeps the carried value by itself.
    fn adds_zeros(&self, c: &Carry) -> bool {
        match &self.tile(c.next).data {
            Data::Pending(Op::Binary(BinaryOp::Add, a, b)) if *a == c.inner => self.zero_where_absent(*b),
            Data::Pending(Op::Binary(BinaryOp::Add, a, b)) if *b == c.inner => self.zero_where_absent(*a),
            Data::Pending(Op::Ternary(TernaryOp::Fma, a, b, d)) if *d == c.inner => {
                self.tile(*a).mask == self.tile(*b).mask && self.zero_where_absent(*a) && self.zero_where_absent(*b)
            }
            _ => false,
        }
    }

    /// A carried element keeps its value where the next one is absent.
    fn keep_where_absent(&mut self, mask: &Mask, base: &[Expr], at: &super::values::At, next: Expr, old: Expr) -> Expr {
        match self.present(mask, base, at) {
            Some(present) => Expr::Select(Box::new(present), Box::new(next), Box::new(old)),
            None => next,
        }
    }

    /// Makes what a loop carries the values behind it.
    pub fn finish_carries(&mut self, carries: &[Carry], carried: &[Carried]) -> Expanded<()> {
        for (c, slot) in carries.iter().zip(carried) {
            let rep = match &slot.layout {
                None => Rep::Scalar(Expr::Var(slot.var)),
                Some(layout) => {
                    if self.kernel.launch.opt_level < OPT_LEVEL && self.kernel.launch.units.is_none() && self.kernel.dots.in_place(c.next) {
                        self.move_sums(slot.var, layout.registers);
                    }
                    let data = if layout.registers == 1 { Data::One(Expr::Var(slot.var)) } else { Data::Array(slot.var) };
                    let mask = self.tile(c.init).mask.clone();
                    if let Some(late) = self.kernel.late_sum(c).cloned() {
                        self.join_lanes(&late, slot.var, layout)?;
                    }
                    Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask, data })
                }
            };
            self.set(c.result, rep);
        }
        Ok(())
    }

    /// The lanes of a sum whose parts the turns have added up meet.
    fn join_lanes(&mut self, late: &LateSum, var: VarId, layout: &Layout) -> Expanded<()> {
        let mut parts = Partial { vars: vec![var], layout: layout.clone() };
        late.lanes.iter().try_for_each(|(distance, extent)| self.combine_lanes(&late.turn, &mut parts, *distance, *extent))
    }
}
