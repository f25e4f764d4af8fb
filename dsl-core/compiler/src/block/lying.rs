//! Where the elements of tiles lie, and which of them exist, as the statements of a page leave them.

mod made;

use super::layouts::dealt_to_slices;
use super::mask::{Bound, Mask, Test};
use super::range::Ranges;
use super::{Block, Branch, Carry, Finish, FinishWay, Kernel, Layout, Op, Range, SharedId, Stmt, Team, Ty, ValueId};
use made::Memory;
use std::collections::HashMap;

/// A tile.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lying {
    /// `None`: any layout will do.
    pub layout: Option<Layout>,
    pub mask: Mask,
}

/// What is known of tiles where a walk over a page's statements stands.
pub(crate) struct Walk<'k> {
    pub page: &'k Kernel,
    tiles: HashMap<ValueId, Lying>,
    ranges: Ranges<'k>,
    /// The choices around.
    sides: Vec<(ValueId, Mask)>,
    /// The team of the statements.
    team: usize,
    /// The threads that run them for the block.
    alone: Option<usize>,
    /// The statements are those of a tile of the grid.
    pub in_grid: bool,
    /// Loops of several iterations around them, that over the grid's tiles aside.
    pub loops: u32,
    ops: HashMap<ValueId, &'k Op>,
}

/// What is done at each statement, before it makes its values.
pub(crate) type AtEach<'v> = &'v mut dyn FnMut(&Walk, &Stmt);

impl<'k> Walk<'k> {
    pub fn new(page: &'k Kernel) -> Walk<'k> {
        Walk {
            page,
            tiles: HashMap::new(),
            ranges: Ranges::new(page),
            sides: vec![],
            team: 0,
            alone: None,
            in_grid: false,
            loops: 0,
            ops: HashMap::new(),
        }
    }

    /// The threads that work together on the statements.
    pub fn team(&self) -> &'k Team {
        self.alone.map_or(&self.page.teams[self.team], |alone| &self.page.alone[alone])
    }

    /// What is known of a tile.
    pub fn tile(&self, value: ValueId) -> Lying {
        self.tiles.get(&value).cloned().unwrap_or_default()
    }

    /// The layout of a tile: its own, or the one that its shape gets.
    pub fn layout_of(&self, value: ValueId) -> Option<Layout> {
        self.tile(value).layout.or_else(|| self.own(value))
    }

    /// The layout that a tile has by its shape.
    fn own(&self, value: ValueId) -> Option<Layout> {
        let form = self.page.value(value).form?;
        Some(self.team().dealt.get(form as usize)?.own.clone())
    }

    fn natural(&self, value: ValueId) -> Option<Layout> {
        let form = self.page.value(value).form?;
        Some(self.team().dealt.get(form as usize)?.natural.clone())
    }

    fn is_tile(&self, value: ValueId) -> bool {
        matches!(self.page.ty(value), Ty::Tile(..))
    }

    /// On which sides of the choices around elements of a tile of this form lie.
    pub fn sides_of(&self, form: Option<u32>) -> Mask {
        let mut mask = Mask::default();
        let alike = self.sides.iter().filter(|(condition, _)| self.page.value(*condition).form == form);
        alike.for_each(|(_, side)| mask.and(side));
        mask
    }

    /// Whether a position surely lies below a length.
    pub fn lies_below(&self, position: ValueId, len: ValueId) -> bool {
        self.page.constant(len).is_some_and(|len| self.ranges.lies_below(position, len))
    }

    /// Whether positions in a shared array surely lie inside of it.
    pub fn lies_in_array(&self, array: SharedId, positions: &[ValueId]) -> bool {
        self.surely_found(positions, Memory::Shared(array))
    }

    fn set(&mut self, value: ValueId, lying: Lying) {
        self.tiles.insert(value, lying);
    }

    /// Walks a block of statements.
    pub fn block(&mut self, block: &'k Block, each: AtEach) {
        for stmt in block {
            each(self, stmt);
            self.stmt(stmt, each);
        }
    }

    fn stmt(&mut self, stmt: &'k Stmt, each: AtEach) {
        match stmt {
            Stmt::Let(v, op) => {
                self.ops.insert(*v, op);
                if self.is_tile(*v) {
                    let lying = self.made(*v, op);
                    self.set(*v, lying);
                }
            }
            Stmt::Load(v, access) => {
                let mut mask = self.page.mask_at(access);
                mask.and(&self.sides_of(self.page.value(*v).form));
                self.set(*v, Lying { layout: access.layout.clone(), mask });
            }
            Stmt::Window(v, window) => {
                let index = window.tile.index.iter().enumerate();
                let bounds = index.filter_map(|(axis, i)| match i {
                    super::Index::Tile(index) => Some(Bound { axis, index: *index, len: self.page.lengths.walked[index] }),
                    super::Index::At(_) | super::Index::All(_) => None,
                });
                let mask = Mask { bounds: bounds.collect(), sides: vec![] };
                self.set(*v, Lying { layout: window.tile.layout.clone(), mask });
            }
            Stmt::Combine(c) | Stmt::OverCluster(c) => self.combined(c),
            Stmt::Together(all) => all.iter().for_each(|c| self.combined(c)),
            Stmt::Atomic { update, view, .. } => self.updated(update, Memory::View(*view)),
            Stmt::Shared { array, kind, .. } => self.shared(*array, kind),
            Stmt::Loop(l) if l.grid.is_some() => self.carried(&l.carries, |walk| {
                walk.in_grid = true;
                let shared = l.grid.as_deref().and_then(|g| l.place_of(g.shared?)).filter(|_| walk.page.teams.len() > 1);
                for (at, stmt) in l.body.iter().enumerate() {
                    each(walk, stmt);
                    walk.stmt(stmt, each);
                    if shared == Some(at) {
                        walk.go_on_together(stmt);
                    }
                }
                (walk.team, walk.in_grid) = (0, false);
            }),
            Stmt::Loop(l) => {
                let sides = std::mem::take(&mut self.sides);
                let turns = u32::from(l.plan.range != Range::Once);
                self.loops += turns;
                self.carried(&l.carries, |walk| walk.block(&l.body, each));
                self.loops -= turns;
                self.sides = sides;
            }
            Stmt::Range { carries, body, .. } => {
                self.loops += 1;
                self.carried(carries, |walk| walk.block(body, each));
                self.loops -= 1;
            }
            Stmt::While { carries, header, body, .. } => {
                self.loops += 1;
                self.carried(carries, |walk| {
                    walk.block(header, each);
                    walk.block(body, each);
                });
                self.loops -= 1;
            }
            Stmt::If { then, otherwise, results, .. } => {
                self.block(then, each);
                self.block(otherwise, each);
                results.iter().for_each(|r| self.chosen(r, results[0].result));
            }
            Stmt::Where { mask, negate, body } => {
                let rank = self.page.ty(*mask).shape().map_or(0, <[_]>::len);
                let mut side = self.tile(*mask).mask;
                side.sides.push(vec![Test::of(*mask, !*negate, rank)]);
                self.sides.push((*mask, side));
                self.block(body, each);
                self.sides.pop();
            }
            Stmt::Alone(alone) => {
                let outer = self.alone.replace(alone.team);
                self.block(&alone.body, each);
                self.alone = outer;
            }
            Stmt::Finish(finish) => self.finish(finish, each),
            Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Barrier(_) | Stmt::Copies { .. } | Stmt::Meet(_) => {}
        }
    }

    /// All threads of the block go on behind the loop that slices have shared, with what it carries.
    fn go_on_together(&mut self, stmt: &Stmt) {
        let (team, all) = (&self.page.teams[self.team], self.page.teams.last().map_or(1, |t| t.threads));
        for c in stmt.as_loop().iter().flat_map(|l| &l.carries) {
            let sum = self.tile(c.result);
            let layout = sum.layout.as_ref().and_then(|l| dealt_to_slices(l, team.slices));
            self.set(c.result, Lying { layout, ..sum });
        }
        for layout in self.tiles.values_mut().filter_map(|t| t.layout.as_mut()).filter(|l| l.threads == team.threads) {
            layout.threads = all;
        }
        self.team = self.page.teams.len() - 1;
    }

    fn carried(&mut self, carries: &[Carry], body: impl FnOnce(&mut Self)) {
        let starts: Vec<Lying> = carries
            .iter()
            .map(|c| Lying { layout: if self.is_tile(c.init) { self.layout_of(c.init) } else { None }, mask: self.tile(c.init).mask })
            .collect();
        carries.iter().zip(&starts).for_each(|(c, start)| self.set(c.inner, start.clone()));
        body(self);
        carries.iter().zip(starts).for_each(|(c, start)| self.set(c.result, start));
    }

    fn chosen(&mut self, r: &Branch, first: ValueId) {
        let [then, otherwise] = [self.tile(r.then), self.tile(r.otherwise)];
        let own = [then.mask.without(&otherwise.mask), otherwise.mask.without(&then.mask)];
        let mut mask = then.mask.without(&own[0]);
        for (own, then) in own.iter().zip([true, false]) {
            let side = |bound: &Bound| vec![Test::Below(*bound), Test::Went { result: first, then: !then }];
            mask.sides.extend(own.bounds.iter().map(side));
        }
        if own.iter().any(|mask| !mask.sides.is_empty()) {
            let rank = self.page.ty(r.result).shape().map_or(0, <[_]>::len);
            mask.sides.extend(self.page.value(r.result).found.map(|found| vec![Test::of(found, true, rank)]));
        }
        let layout = if self.is_tile(r.result) { self.layout_of(r.then) } else { None };
        self.set(r.result, Lying { layout, mask });
    }

    fn finish(&mut self, finish: &'k Finish, each: AtEach) {
        self.block(&finish.before, each);
        finish.combines.iter().for_each(|c| self.combined(c));
        if let FinishWay::SecondLaunch { again } = &finish.way {
            self.block(again, each);
        }
        self.block(&finish.after, each);
    }
}
