//! The rules that a page obeys behind each pass. A page that breaks one is a compiler bug: the panic names the rule, the pass and the page.

mod alone;

use super::{
    Access, Block, Carry, Combine, Finish, FinishWay, Form, Handover, Index, Kernel, Loop, Neighbours, Op, Operator, ParamKind, Pipeline,
    Range, RingPlan, Stmt, Tail, Ty, ValueId, Window,
};
use crate::block::{operands, print};
use girih_ir::layout::Layout;
use std::collections::HashSet;

/// What is decided on a page by now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Decided {
    /// Extents, and how loops run.
    Loops,
    /// And where elements lie.
    Layouts,
    /// And how wide accesses are.
    Widths,
    /// And how tiles are checked.
    Tails,
}

/// Checks a page behind a pass.
///
/// # Panics
/// Where a rule is broken: with the rule, the pass and the page.
pub(crate) fn verify(page: &Kernel, pass: &str, decided: Decided) {
    let mut check = Check { page, decided, made: HashSet::new() };
    if let Err(rule) = check.kernel() {
        panic!("{pass}: {rule} in\n{}", print::print(page, pass));
    }
}

/// What a broken rule says.
type Rule = Result<(), String>;

struct Check<'a> {
    page: &'a Kernel,
    decided: Decided,
    /// Values that are made where the walk stands.
    made: HashSet<ValueId>,
}

fn rule(holds: bool, text: impl FnOnce() -> String) -> Rule {
    if holds { Ok(()) } else { Err(text()) }
}

impl Check<'_> {
    fn kernel(&mut self) -> Rule {
        let page = self.page;
        for team in &page.teams {
            let threads = page.teams.last().map_or(1, |last| last.threads);
            rule(team.threads * team.slices == threads, || format!("a block has {threads} threads, a team of it {}", team.threads))?;
            if self.decided >= Decided::Layouts {
                rule(team.anchor.is_some() && !team.dealt.is_empty() || page.values.iter().all(|v| v.form.is_none()), || {
                    "a team has no layouts".into()
                })?;
            }
        }
        for param in &page.params {
            let stored = matches!(param.kind, ParamKind::Tensor { written: true, constant: Some(_), .. });
            rule(!stored, || format!("{} lies in constant memory, and is stored to", param.name))?;
        }
        for link in &page.fed {
            rule(page.can_be_fed(link), || format!("{} cannot stay in the registers of sums", self.name(link.operand)))?;
        }
        self.late_sums()?;
        let loops = page.body.iter().filter(|s| matches!(s, Stmt::Loop(l) if l.grid.is_some())).count();
        rule(loops <= 1, || format!("{loops} loops walk the tiles of the grid"))?;
        let ends = page.body.iter().position(|s| matches!(s, Stmt::Finish(_)));
        rule(ends.is_none_or(|at| at + 1 == page.body.len()), || "something stands behind what the last block does".into())?;
        // What the host computes is made where it is used.
        self.made.extend((0..page.values.len() as u32).map(ValueId).filter(|v| page.value(*v).host.is_some()));
        // Tile indices that are always 0 are known before their loops.
        self.made.extend(&page.fitting);
        self.block(&page.body, true)
    }

    /// Parts that lanes add up in a loop meet behind it.
    fn late_sums(&self) -> Rule {
        let mut turns = HashSet::new();
        super::visit(&self.page.body, &mut |stmt| {
            if let Stmt::Loop(l) = stmt {
                let sums = l.body.iter().filter_map(|s| if let Stmt::Combine(c) = s { c.results.first().copied() } else { None });
                turns.extend(sums.flat_map(|sum| l.carries.iter().map(move |c| (sum, c.inner))));
            }
        });
        self.page.late_sums.iter().try_for_each(|late| {
            let met = turns.contains(&(late.turn.results[0], late.carried));
            rule(met && !late.lanes.is_empty(), || format!("lanes of {} never meet", self.name(late.turn.results[0])))
        })
    }

    fn uses(&self, values: &[ValueId]) -> Rule {
        values.iter().try_for_each(|v| rule(self.made.contains(v), || format!("{} is read before it is made", self.name(*v))))
    }

    fn name(&self, value: ValueId) -> String {
        self.page.value(value).name.clone().unwrap_or_else(|| format!("%{}", value.0))
    }

    fn makes(&mut self, value: ValueId) -> Rule {
        let host = self.page.value(value).host.is_some();
        rule(self.made.insert(value) || host, || format!("{} is made twice", self.name(value)))
    }

    /// A block of statements, whose values are known inside alone.
    fn scope(&mut self, body: &Block, inner: impl FnOnce(&mut Self) -> Rule) -> Rule {
        let before = self.made.clone();
        let checked = self.block(body, false).and_then(|()| inner(self));
        self.made = before;
        checked
    }

    fn block(&mut self, body: &Block, top: bool) -> Rule {
        body.iter().try_for_each(|stmt| self.stmt(stmt, top))
    }

    fn stmt(&mut self, stmt: &Stmt, top: bool) -> Rule {
        match stmt {
            Stmt::Let(v, op) => {
                rule(!matches!(op, Op::Load(..) | Op::Window { .. }), || format!("{} is loaded by an operation", self.name(*v)))?;
                self.uses(&operands(op))?;
                self.makes(*v)
            }
            Stmt::Load(v, access) => {
                let idle = access.read.shared && !self.page.dots.is_load(*v);
                rule(!idle, || format!("{} is no operand of a dot, and has a copy in shared memory", self.name(*v)))?;
                self.access(access, self.page.ty(*v))?;
                let of_operand = self.page.dots.is_load(*v);
                self.width(access, access.layout.as_ref().filter(|_| !of_operand), of_operand && !access.read.shared)?;
                self.makes(*v)
            }
            Stmt::Window(v, Window { tile, shift, .. }) => {
                self.uses(&shift.iter().flatten().copied().collect::<Vec<_>>())?;
                self.access(tile, self.page.ty(*v))?;
                self.width(tile, None, !tile.read.shared)?;
                self.makes(*v)
            }
            Stmt::Store { to, value, from, by_first, .. } => {
                rule(!by_first || self.page.launch.cluster > 1, || "the first block of no cluster stores alone".into())?;
                self.uses(&[*value])?;
                self.access(to, self.page.ty(*value))?;
                self.width(to, from.as_ref().or(to.layout.as_ref()), false)
            }
            Stmt::Scatter { indices, value, .. } => self.uses(indices).and_then(|()| self.uses(&[*value])),
            Stmt::Atomic { update, .. } => {
                self.uses(&update.uses())?;
                update.result.map_or(Ok(()), |r| self.makes(r))
            }
            Stmt::Combine(c) => self.combine(c),
            Stmt::OverCluster(c) => {
                let reduces = self.page.launch.cluster > 1 && matches!(c.form, Form::Reduce { .. });
                rule(reduces, || "blocks that are no cluster reduce together, or what they combine is no reduction".into())?;
                self.combine(c)
            }
            Stmt::Together(all) => {
                let reductions = all.iter().all(|c| matches!(c.form, Form::Reduce { .. }));
                rule(reductions, || "threads meet once for what is no reduction".into())?;
                all.iter().try_for_each(|c| self.uses(&c.inputs))?;
                all.iter().try_for_each(|c| self.combine(c))
            }
            Stmt::Shared { kind, .. } => {
                self.uses(&kind.operands())?;
                kind.result().map_or(Ok(()), |r| self.makes(r))
            }
            Stmt::Barrier(_) | Stmt::Copies { .. } | Stmt::Meet(_) => Ok(()),
            Stmt::Loop(l) => self.tile_loop(l, top),
            Stmt::Range { var, start, end, carries, body } => {
                self.uses(&[*start, *end])?;
                self.carried(carries, |check| {
                    check.makes(*var)?;
                    check.scope(body, |check| check.nexts(carries))
                })
            }
            Stmt::While { carries, header, condition, body, .. } => self.carried(carries, |check| {
                check.block(header, false)?;
                check.uses(&[*condition])?;
                check.scope(body, |check| check.nexts(carries))
            }),
            Stmt::If { condition, then, otherwise, results } => {
                self.uses(&[*condition])?;
                self.scope(then, |check| check.uses(&results.iter().map(|r| r.then).collect::<Vec<_>>()))?;
                self.scope(otherwise, |check| check.uses(&results.iter().map(|r| r.otherwise).collect::<Vec<_>>()))?;
                results.iter().try_for_each(|r| self.makes(r.result))
            }
            // Transparent: its values belong to the block around it.
            Stmt::Where { mask, body, .. } => {
                self.uses(&[*mask])?;
                self.block(body, false)
            }
            Stmt::Alone(alone) => self.alone(alone),
            Stmt::Finish(finish) => {
                rule(top, || "blocks are combined within a loop or a choice".into())?;
                self.finish(finish)
            }
        }
    }

    fn access(&self, access: &Access, ty: &Ty) -> Rule {
        let view = self.page.view(access.view);
        rule(access.index.len() == view.axes.len(), || format!("{} has {} axes, not {}", view.text, view.axes.len(), access.index.len()))?;
        let mut shape = Vec::new();
        for index in &access.index {
            match index {
                Index::Tile(v) => {
                    self.uses(&[*v])?;
                    shape.push(self.page.tile_size(*v));
                }
                Index::At(v) => self.uses(&[*v])?,
                Index::All(n) => shape.push(*n),
            }
        }
        if let Ty::Tile(_, own) = ty {
            rule(*own == shape, || format!("a tile of {own:?} is accessed at {shape:?} of {}", view.text))?;
        }
        match &access.layout {
            Some(layout) => self.layout(layout, &shape),
            None => rule(self.decided < Decided::Layouts || shape.is_empty(), || format!("an access of {} has no layout", view.text)),
        }
    }

    /// Instructions are no wider than memory and registers allow. `layout` is that of the elements, unless they are copied; what is read
    /// `in_place` by single elements has no instructions of its own.
    fn width(&self, access: &Access, layout: Option<&Layout>, in_place: bool) -> Rule {
        let view = self.page.view(access.view);
        let single = access.layout.as_ref().is_none_or(|l| l.axes.is_empty());
        let Some(cuts) = &access.cuts else {
            return rule(self.decided < Decided::Widths || single || in_place, || {
                format!("nobody knows how wide an access of {} is", view.text)
            });
        };
        for cut in [cuts.full, cuts.checked] {
            let bytes = cut.width * view.dtype.size() as i64;
            let param = &self.page.params[view.param];
            rule(bytes <= 16 && (cut.width == 1 || bytes <= param.align()), || format!("{bytes} bytes of {} at once", param.name))?;
            let whole = cut.width.count_ones() == 1 && cut.run % cut.width == 0;
            rule(whole, || format!("a run of {} neighbours in {} elements at once", cut.run, cut.width))?;
            let in_rows = self.page.launch.shared_rows && self.page.whole_rows(access).is_some();
            let registers = layout.filter(|_| !in_rows).map_or(cut.run, |l| l.registers);
            rule(registers % cut.run == 0, || format!("a run of {} among {registers} registers", cut.run))?;
            let overwritten = cut.beyond && self.page.is_written(view.param);
            rule(!overwritten, || format!("{} is read beyond what is asked for, and written", view.text))?;
        }
        Ok(())
    }

    /// A layout deals its tile, to threads of the block.
    fn layout(&self, layout: &Layout, shape: &[i64]) -> Rule {
        rule(layout.shape() == shape, || format!("a layout of {:?} deals a tile of {shape:?}", layout.shape()))?;
        let teams: Vec<i64> = self.page.teams.iter().map(|t| t.threads).collect();
        rule(teams.contains(&layout.threads), || format!("a layout deals to {} threads; teams have {teams:?}", layout.threads))
    }

    fn combine(&mut self, c: &Combine) -> Rule {
        self.uses(&c.inputs)?;
        if let Operator::User { arguments, body, results, .. } = &c.operator {
            let before = self.made.clone();
            self.made.extend(arguments);
            self.block(body, false)?;
            self.uses(results)?;
            self.made = before;
        }
        c.results.iter().try_for_each(|r| self.makes(*r))
    }

    /// What loops carry has one type all along, and goes on from iteration to iteration.
    fn carried(&mut self, carries: &[Carry], body: impl FnOnce(&mut Self) -> Rule) -> Rule {
        for c in carries {
            self.uses(&[c.init])?;
            let alike = [c.inner, c.next, c.result].iter().all(|v| self.page.ty(*v) == self.page.ty(c.init));
            rule(alike, || format!("{} changes its type from one iteration to the next", self.name(c.inner)))?;
        }
        let before = self.made.clone();
        carries.iter().try_for_each(|c| self.makes(c.inner))?;
        body(self)?;
        self.made = before;
        carries.iter().try_for_each(|c| self.makes(c.result))
    }

    fn nexts(&mut self, carries: &[Carry]) -> Rule {
        self.uses(&carries.iter().map(|c| c.next).collect::<Vec<_>>())
    }

    fn tile_loop(&mut self, l: &Loop, top: bool) -> Rule {
        rule(l.vars.len() == l.axes.len() && l.vars.len() == l.sizes.len(), || "a loop has as many tile indices, axes and extents".into())?;
        for (var, size) in l.vars.iter().zip(&l.sizes) {
            rule(self.page.ty(*var) == &Ty::TileIndex(*size), || {
                format!("{} counts tiles of another extent than {size}", self.name(*var))
            })?;
        }
        if let Some(span) = l.span {
            rule(l.vars.len() == 1, || "a loop that keeps to some positions walks one axis".into())?;
            self.uses(&[span.first, span.end])?;
        }
        rule(l.grid.is_none() || top, || "the grid's tiles are walked within a loop or a choice".into())?;
        self.ranges(l)?;
        self.pipeline(l)?;
        let once = l.plan.range == Range::Once;
        self.carried(&l.carries, |check| {
            l.vars.iter().try_for_each(|v| rule(check.made.insert(*v) || once, || format!("{} is made twice", check.name(*v))))?;
            check.scope(&l.body, |check| check.nexts(&l.carries))
        })?;
        // The values of the only iteration stay known.
        if once {
            self.made.extend(l.vars.iter().copied());
            super::visit(&l.body, &mut |stmt| self.made.extend(made_by(stmt)));
        }
        Ok(())
    }

    fn ranges(&self, l: &Loop) -> Rule {
        let of_grid = matches!(l.plan.range, Range::OnePerBlock | Range::Persistent(_));
        rule(of_grid == l.grid.is_some(), || format!("{:?} is no range of this loop", l.plan.range))?;
        let together = if let Range::Cluster(blocks) = l.plan.range { blocks } else { self.page.launch.cluster };
        rule(together == self.page.launch.cluster, || {
            format!("a loop is shared by {together} blocks of clusters of {}", self.page.launch.cluster)
        })?;
        let mut meets = false;
        super::visit(&l.body, &mut |s| meets |= matches!(s, Stmt::OverCluster(_)));
        rule(l.grid.is_some() || !meets, || "the blocks of a cluster reduce together within a loop".into())?;
        let Some(grid) = &l.grid else { return Ok(()) };
        if let Some(Neighbours { blocks, axis }) = grid.neighbours {
            let legal = blocks == self.page.launch.cluster && axis < l.vars.len() && matches!(l.plan.pipeline, Pipeline::Roles { .. });
            rule(legal, || format!("{blocks} blocks at neighbouring tiles are no cluster whose rings a warp fills"))?;
        }
        if let Some(inner) = grid.shared {
            rule(l.place_of(inner).is_some(), || "the loop that is shared is not there".into())?;
        }
        match &grid.tail {
            Tail::Open => rule(self.decided < Decided::Tails, || "nobody has decided the tail".into()),
            Tail::OneIf(layout) => {
                self.layout(layout, &l.sizes)?;
                rule(l.carries.is_empty(), || "one condition stands around a body that carries values".into())
            }
            Tail::None => rule(grid.divides, || "no tile is checked, and lengths are no multiples of theirs".into()),
            Tail::TwoTexts | Tail::Predicates | Tail::OneText => Ok(()),
        }
    }

    fn pipeline(&self, l: &Loop) -> Rule {
        match &l.plan.pipeline {
            Pipeline::None => Ok(()),
            Pipeline::Multistage { ring, copies } => {
                self.ring(ring)?;
                self.copied(l, &copies.windows)?;
                let neighbours = self.page.grid_loop().and_then(|l| l.grid.as_ref()).and_then(|grid| grid.neighbours);
                let parts = neighbours.is_some() != copies.to_all.is_empty() && copies.to_all.iter().all(|v| copies.windows.contains(v));
                rule(parts, || "blocks bring parts of copies for each other, and are no neighbours, or of what is not copied".into())?;
                self.read_through(l, ring, &copies.windows)
            }
            Pipeline::GridPrefetch { stages, loads, .. } => rule(l.grid.is_some() && *stages >= 2 && !loads.is_empty(), || {
                "loads of later tiles are no loads of the grid's tiles".into()
            }),
            Pipeline::Roles { sum, places } => {
                let before = l.body.iter().take_while(|s| !matches!(s, Stmt::Loop(_)));
                let lets = before.filter_map(|s| if let Stmt::Let(v, _) = s { Some(*v) } else { None }).collect::<Vec<_>>();
                rule(places.iter().all(|p| lets.contains(p)), || "copies lie where nothing before their loop says".into())?;
                let tensors = |inner: &Loop| matches!(&inner.plan.pipeline, Pipeline::Multistage { ring, .. } if ring.handover == Handover::Transactions);
                let there = l.body.iter().any(|s| matches!(s, Stmt::Loop(inner) if inner.vars[0] == *sum && tensors(inner)));
                rule(there && l.grid.is_some() && self.page.launch.producer.threads > 0, || "no warp fills a ring of tensor maps".into())
            }
            Pipeline::Persistent { sum } => {
                let goes_on = |inner: &Loop| matches!(&inner.plan.pipeline, Pipeline::Multistage { ring, .. } if ring.fragment_prefetch);
                let there = l.body.iter().any(|s| matches!(s, Stmt::Loop(inner) if inner.vars[0] == *sum && goes_on(inner)));
                rule(there && l.grid.is_some(), || "no ring stands where one goes on from tile to tile".into())
            }
        }
    }

    fn ring(&self, ring: &RingPlan) -> Rule {
        rule(ring.stages >= 2, || format!("a ring of {} stages", ring.stages))?;
        let by_hand = ring.handover == Handover::Mbarriers && !ring.fragment_prefetch;
        rule(!by_hand, || "mbarriers hand stages over where no fragments are read ahead".into())?;
        let by_groups = self.page.launch.units.as_ref().is_some_and(|units| units.group.is_some());
        rule(by_groups || !ring.products_first, || "copies start behind products that are there at once".into())?;
        let several = by_groups && self.page.launch.units.as_ref().is_some_and(|units| units.along != [1, 1]);
        let apart = ring.handover == Handover::Transactions && !ring.products_first;
        rule(!ring.in_turn || several && apart, || "one warp group multiplies in turn, or all wait for copies together".into())?;
        rule(apart && ring.stages > 2 || !ring.products_overlap, || "products of two turns overlap where nobody keeps both stages".into())?;
        let two = ring.handover != Handover::Registers || (ring.stages == 2 && !ring.fragment_prefetch);
        rule(two, || "registers fill other than two stages, or fragments are read ahead of them".into())
    }

    /// What a pipeline copies is opened by the loop's own statements.
    fn copied(&self, l: &Loop, windows: &[ValueId]) -> Rule {
        let opened = |v: &ValueId| l.body.iter().any(|s| matches!(s, Stmt::Window(w, _) | Stmt::Load(w, _) if w == v));
        rule(!windows.is_empty(), || "a pipeline copies nothing".into())?;
        windows.iter().try_for_each(|v| rule(opened(v), || format!("{} is copied ahead, and is not opened in the loop", self.name(*v))))
    }

    /// The copies of a ring are handed over as the ring says, and some of them are asynchronous but where registers fill it.
    fn read_through(&self, l: &Loop, ring: &RingPlan, windows: &[ValueId]) -> Rule {
        let mut asynchronous = false;
        let read = |stmt: &Stmt| {
            if let Stmt::Load(v, access) | Stmt::Window(v, Window { tile: access, .. }) = stmt { Some((*v, access.read)) } else { None }
        };
        for (v, read) in l.body.iter().filter_map(read).filter(|(v, _)| windows.contains(v)) {
            asynchronous |= read.asynchronous;
            let agrees = read.shared
                && read.mbarriers == (ring.handover == Handover::Mbarriers)
                && read.tensor == (ring.handover == Handover::Transactions)
                && (read.tensor || !read.rounded);
            rule(agrees, || format!("{} is not copied as its ring is handed over", self.name(v)))?;
        }
        let by_registers = matches!(ring.handover, Handover::Registers | Handover::Transactions);
        rule(asynchronous || by_registers, || "a ring has no asynchronous copy".into())?;
        rule(!asynchronous || !by_registers, || "registers fill a ring that has an asynchronous copy".into())
    }

    fn finish(&mut self, finish: &Finish) -> Rule {
        self.block(&finish.before, true)?;
        finish.combines.iter().try_for_each(|c| self.combine(c))?;
        if let FinishWay::SecondLaunch { again } = &finish.way {
            // They are in this launch, too.
            for value in again.iter().flat_map(made_by) {
                self.made.remove(&value);
            }
            self.block(again, true)?;
        }
        let single = matches!(finish.way, FinishWay::SingleBlock);
        rule(single != self.page.grid_loop().is_some(), || "one block combines what several have".into())?;
        self.block(&finish.after, true)
    }
}

/// The values that a statement itself makes.
fn made_by(stmt: &Stmt) -> Vec<ValueId> {
    match stmt {
        Stmt::Let(v, _) | Stmt::Load(v, _) | Stmt::Window(v, _) => vec![*v],
        Stmt::Combine(c) => c.results.clone(),
        Stmt::OverCluster(c) => c.results.clone(),
        Stmt::Together(all) => all.iter().flat_map(|c| c.results.clone()).collect(),
        Stmt::Atomic { update, .. } => update.result.into_iter().collect(),
        Stmt::Shared { kind, .. } => kind.result().into_iter().collect(),
        Stmt::Loop(Loop { carries, .. }) | Stmt::Range { carries, .. } | Stmt::While { carries, .. } => {
            carries.iter().map(|c| c.result).collect()
        }
        Stmt::If { results, .. } => results.iter().map(|r| r.result).collect(),
        Stmt::Store { .. }
        | Stmt::Scatter { .. }
        | Stmt::Barrier(_)
        | Stmt::Copies { .. }
        | Stmt::Meet(_)
        | Stmt::Where { .. }
        | Stmt::Finish(_) => vec![],
        Stmt::Alone(alone) => alone.gives.clone(),
    }
}
