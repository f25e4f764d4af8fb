//! Where the body of a tile stands twice, for full tiles and for the tail: whether the text with checks does for both. The second text saves
//! a full tile its predicates, and costs compile time. Where threads meet, or loop over what they hold, the predicates of the loads and stores
//! around are lost in the rest.

use super::Source;
use crate::block::lying::Walk;
use crate::block::{Access, Cuts, Kernel, Key, Layout, Loop, Meet, Op, Range, SharedKind, Stmt, Tail, ValueId, operands};
use girih_ir::types::MemoryOrder;
use std::collections::{BTreeSet, HashMap};

/// Leaves one text where it is as good as two.
pub(crate) fn join_tails(page: &mut Kernel, _: &Source) {
    if page.grid().is_none_or(|grid| grid.tail != Tail::TwoTexts) {
        return;
    }
    let mut body = Body {
        page,
        stored: HashMap::new(),
        combines: false,
        looks_back: false,
        meets: false,
        loops: false,
        looped_access: false,
        narrower: false,
    };
    Walk::new(page).block(&page.body, &mut |walk, stmt| {
        if walk.in_grid {
            body.stmt(walk, stmt);
        }
    });
    let padded = body.combines && !body.looks_back;
    let joined = !padded && (body.meets || body.loops) && !body.looped_access && !body.narrower;
    for stmt in &mut page.body {
        if let Stmt::Loop(Loop { grid: Some(grid), .. }) = stmt
            && joined
        {
            grid.tail = Tail::OneText;
        }
    }
}

/// What the body of a tile does, as far as it matters here.
struct Body<'k> {
    page: &'k Kernel,
    /// In which layouts tensors are accessed.
    stored: HashMap<Key, Layout>,
    /// Combinations pad absent elements, one by one: a full tile is better off without.
    combines: bool,
    /// Tiles look back at those before them: much text, beside which that costs little.
    looks_back: bool,
    /// Threads meet at a barrier.
    meets: bool,
    /// There is a loop that is not written out.
    loops: bool,
    /// Global memory is accessed inside of one.
    looped_access: bool,
    /// Accesses are narrower where they are checked.
    narrower: bool,
}

impl Body<'_> {
    fn stmt(&mut self, walk: &Walk, stmt: &Stmt) {
        match stmt {
            Stmt::Let(v, op) => self.operation(walk, *v, op),
            Stmt::Load(v, access) => {
                self.access(walk, access.cuts.as_ref());
                self.stored.extend(access.layout.clone().map(|l| (Key::Load(*v), l)));
                self.meets |= self.page.launch.shared_rows && self.page.whole_rows(access).is_some();
            }
            Stmt::Window(_, window) => self.access(walk, window.tile.cuts.as_ref()),
            Stmt::Store { to, value, from, rows, by_first: _ } => {
                self.access(walk, to.cuts.as_ref());
                let layout = rows.as_ref().map(|r| &r.layout).or(from.as_ref()).or(to.layout.as_ref());
                if let Some(layout) = layout.filter(|l| !l.axes.is_empty()) {
                    self.stored.insert(Key::Store(to.view, *value), layout.clone());
                    self.meets |= rows.is_some();
                    self.used(walk, *value, layout);
                }
            }
            Stmt::Scatter { indices, value, .. } => {
                self.access(walk, None);
                let all = [&indices[..], &[*value]].concat();
                self.positions(walk, &all);
            }
            Stmt::Atomic { update, order, .. } => {
                self.access(walk, None);
                self.updated(walk, update, *order);
            }
            Stmt::Shared { kind, array, .. } => self.shared(walk, *array, kind),
            Stmt::Combine(c) => {
                self.combines = true;
                self.looks_back |= c.looks_back();
                self.meets |= c.looks_back();
            }
            Stmt::OverCluster(_) | Stmt::Together(_) => self.combines = true,
            Stmt::Barrier(_) => self.meets = true,
            Stmt::Meet(meet) => self.meets |= self.met(walk, meet),
            Stmt::Loop(l) => self.loops |= l.plan.range != Range::Once && l.grid.is_none(),
            Stmt::Range { .. } | Stmt::While { .. } => self.loops = true,
            Stmt::Alone(_) => self.meets = true,
            Stmt::If { .. } | Stmt::Where { .. } | Stmt::Copies { .. } | Stmt::Finish(_) => {}
        }
    }

    /// Something of global memory is accessed.
    fn access(&mut self, walk: &Walk, cuts: Option<&Cuts>) {
        self.looped_access |= walk.loops > 0;
        self.narrower |= cuts.is_some_and(|cuts| cuts.full.width != cuts.checked.width);
    }

    fn operation(&mut self, walk: &Walk, value: ValueId, op: &Op) {
        match op {
            Op::Near(..) => self.access(walk, None),
            Op::Gather(_, indices) | Op::GatherInside(_, indices) => {
                self.access(walk, self.page.gathers.get(&value));
                self.positions(walk, indices);
            }
            Op::Shuffle { .. } | Op::Vote(..) | Op::Stack(_) | Op::Pick { .. } => {
                // Their operands are brought where the result is.
                let result = walk.made(value, op).layout;
                for v in operands(op).into_iter().filter(|_| matches!(op, Op::Shuffle { .. } | Op::Vote(..))) {
                    self.meets |= walk.tile(v).layout.is_some() && walk.tile(v).layout != result;
                }
            }
            Op::Broadcast(..) | Op::Transpose(..) | Op::Splat(_) | Op::Like { .. } | Op::Iota | Op::Coordinates(_) => {}
            _ => {
                if let Some(layout) = walk.made(value, op).layout {
                    operands(op).into_iter().for_each(|v| self.used(walk, v, &layout));
                }
            }
        }
    }

    /// A tile is wanted in a layout.
    fn used(&mut self, walk: &Walk, value: ValueId, layout: &Layout) {
        let axes: Vec<usize> = (0..layout.axes.len()).collect();
        self.meets |= !walk.fits(value, layout, &axes);
    }

    /// Tiles meet at computed positions.
    fn positions(&mut self, walk: &Walk, values: &[ValueId]) {
        if let Some(layout) = values.iter().find_map(|v| walk.tile(*v).layout) {
            values.iter().for_each(|v| self.used(walk, *v, &layout));
        }
    }

    fn updated(&mut self, walk: &Walk, update: &crate::block::Update, order: MemoryOrder) {
        self.positions(walk, &update.uses());
        let spread = || {
            let layout = update.uses().iter().find_map(|v| walk.tile(*v).layout);
            let threads = walk.team().threads;
            layout.map_or(threads > 1, |l| l.distinct_threads() < l.threads)
        };
        self.meets |= order != MemoryOrder::Relaxed || update.result.is_some() && spread();
    }

    fn shared(&mut self, walk: &Walk, array: crate::block::SharedId, kind: &SharedKind) {
        match kind {
            SharedKind::Fill(_) => {
                let array = self.page.shared_array(array);
                let copies = if array.join.is_some() { self.page.launch.copies } else { 1 };
                self.loops |= array.shape.iter().product::<i64>() * copies > walk.team().threads;
            }
            SharedKind::Gather { indices, .. } | SharedKind::GatherRun { indices, .. } => self.positions(walk, indices),
            SharedKind::Scatter { indices, value } => self.positions(walk, &[&indices[..], &[*value]].concat()),
            SharedKind::ScatterRun { indices, .. } => self.positions(walk, indices),
            SharedKind::Atomic(update) => self.updated(walk, update, MemoryOrder::Relaxed),
            SharedKind::Copy { indices, from, .. } => {
                self.access(walk, None);
                self.positions(walk, &[&indices[..], &from[..]].concat());
            }
            SharedKind::Start(_) => self.meets = true,
            SharedKind::Empty | SharedKind::Take { .. } | SharedKind::Leave(_) => {}
        }
    }

    fn met(&self, walk: &Walk, meet: &Meet) -> bool {
        match meet {
            Meet::Loop | Meet::Shared | Meet::Memory(_) | Meet::Replaced | Meet::Copied { .. } => true,
            Meet::SamePlace { key, access, earlier } => self.others_have_been_there(walk, *key, access, earlier),
        }
    }

    /// Whether other threads have been where an access goes: in another layout, or by several threads.
    fn others_have_been_there(&self, walk: &Walk, key: Key, access: &Access, earlier: &BTreeSet<Key>) -> bool {
        let own = match key {
            _ if walk.team().threads == 1 => return false,
            Key::Load(_) => access.layout.clone(),
            Key::Store(_, value) => walk.tile(value).layout.or_else(|| access.layout.clone()),
        };
        let Some(own) = own.filter(|l| !l.axes.is_empty()) else { return true };
        own.distinct_threads() < own.threads || earlier.iter().any(|key| self.stored.get(key) != Some(&own))
    }
}
