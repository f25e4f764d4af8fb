//! How a block copies a window to shared memory: all threads together, item by item, each as wide as strides, alignment and lengths allow.

use super::context::Expander;
use super::copy_chunks::{Fill, Item, item_place};
use super::elements::unrolled;
use super::index::{Index, all, binary, compare, literal};
use super::window::{Outside, WindowCopy, WindowRep};
use crate::block::Boundary;
use girih_ir::simt::{Expr, Place, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Turns of a thread's copy loop that are written out; more are counted at run time.
const UNROLLED_TURNS: i64 = 8;
/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// The registers in which the items that a thread copies wait.
struct Parts {
    var: VarId,
    dtype: DType,
    /// Items.
    turns: i64,
    /// Elements per item.
    width: i64,
    /// How far an item's elements lie apart in the copy.
    step: i64,
}

/// A copy whose loads are under way, in registers.
pub(crate) struct Begun {
    fill: Fill,
    parts: Parts,
}

impl Expander<'_> {
    /// Starts a window's copy, by all threads together.
    pub fn start_copy(&mut self, window: &WindowRep, copy: &WindowCopy, name: &str) {
        let fill = self.plan_fill(window, copy, name);
        self.fill_copy(window, copy, &fill);
    }

    fn fill_copy(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill) {
        self.comment(describe(window, copy, &self.kernel.view(window.view).text, fill.step != 1));
        let items: i64 = fill.counts.iter().product();
        let threads = self.team.threads;
        let turns = (items + threads - 1) / threads;
        if turns <= UNROLLED_TURNS && !window.read.asynchronous && !(window.boundary == Boundary::Clamp && fill.width > 1) {
            return self.copy_by_registers(window, copy, fill, turns);
        }
        if turns <= UNROLLED_TURNS {
            self.each_item(fill, turns, &mut |cx, item| {
                cx.open();
                cx.copy_item(window, copy, fill, item);
                let inner = cx.close();
                match item.exists.clone() {
                    None => inner.into_iter().for_each(|s| cx.emit(s)),
                    Some(condition) => cx.emit(Stmt::If { condition, then: inner, otherwise: vec![] }),
                }
            });
            return;
        }
        let thread = self.thread32();
        let (counter, at) = self.loop_var("chunk");
        self.open();
        let item = Item { number: at.clone(), exists: None, local: self.item_at(fill, at), lies: None };
        self.copy_item(window, copy, &Fill { own: None, ..fill.clone() }, &item);
        let body = self.close();
        let (end, step) = (LOCAL.lit(items), LOCAL.lit(threads));
        self.emit(Stmt::For { var: counter, start: thread, end, step, unroll: false, body });
    }

    /// Waits for the copies and meets.
    pub fn finish_copies(&mut self, asynchronous: bool) {
        if asynchronous {
            self.emit(Stmt::AsyncCommit);
            self.emit(Stmt::AsyncWait { pending: 0 });
        }
        self.meet_behind_copies().into_iter().for_each(|s| self.emit(s));
    }

    /// All threads meet behind copies, which matrix units then see, too.
    pub fn meet_behind_copies(&self) -> Vec<Stmt> {
        let by_groups = self.kernel.launch.units.as_ref().is_some_and(|units| units.group.is_some());
        by_groups.then_some(Stmt::ProxyFence).into_iter().chain([Stmt::Barrier(self.team_barrier())]).collect()
    }

    /// Copies a few items per thread: reads all of them before it stores the first, so that their latencies pass at the same time.
    fn copy_by_registers(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill, turns: i64) {
        self.stored_copies = true;
        let parts = self.declare_parts(window, fill, turns);
        if turns == 1 {
            self.each_item(fill, 1, &mut |cx, at| {
                cx.load_part(window, copy, fill, &parts, at);
                cx.store_part(window, copy, &parts, at);
            });
            return;
        }
        self.load_parts(window, copy, fill, &parts);
        self.store_parts(window, copy, fill, &parts);
    }

    /// Registers for the items that each thread copies.
    fn declare_parts(&mut self, window: &WindowRep, fill: &Fill, turns: i64) -> Parts {
        let view = self.kernel.view(window.view);
        let (dtype, name) = (view.dtype, format!("{}_part", self.kernel.params[view.param].name));
        let var = self.new_var(&name, dtype, Some((turns * fill.width) as u32));
        self.emit(Stmt::Declare { var, init: None });
        Parts { var, dtype, turns, width: fill.width, step: fill.step }
    }

    fn load_parts(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill, parts: &Parts) {
        self.each_item(fill, parts.turns, &mut |cx, at| cx.load_part(window, copy, fill, parts, at));
    }

    fn store_parts(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill, parts: &Parts) {
        self.each_item(fill, parts.turns, &mut |cx, at| cx.store_part(window, copy, parts, at));
    }

    fn load_part(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill, parts: &Parts, item: &Item) {
        let (upper, cache) = (self.item_ends(window, copy), self.kernel.launch.load_cache);
        let (global, negative) = self.item_outside(window, copy, fill, &item.local);
        let outside = Outside { at: &global, tested: &global, negative: &negative, upper: &upper, inside: None };
        let (place, inside) = self.outside_place(window, &outside);
        let predicate = all(item.exists.clone().into_iter().chain(inside));
        let (var, at) = (parts.var, LOCAL.mul(item.number.clone(), LOCAL.lit(parts.width)));
        self.emit(if parts.width == 1 {
            let value = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache };
            Stmt::Assign { var, index: Some(at), value }
        } else {
            Stmt::LoadVector { var, at, place, lanes: parts.width as u32, predicate, cache }
        });
    }

    fn store_part(&mut self, window: &WindowRep, copy: &WindowCopy, parts: &Parts, item: &Item) {
        debug_assert_eq!(self.kernel.view(window.view).dtype, parts.dtype);
        let place = item_place(copy, parts.dtype, &item.local, item.lies.clone());
        let (predicate, cache) = (item.exists.clone(), Default::default());
        let (var, at) = (parts.var, LOCAL.mul(item.number.clone(), LOCAL.lit(parts.width)));
        if parts.width == 1 {
            self.emit(Stmt::Store { place, value: Expr::Element(var, Box::new(at)), predicate, cache });
        } else {
            self.store_neighbours(place, (var, at), [parts.width, parts.step], predicate);
        }
    }

    /// Stores neighbours in registers so many elements apart: as one vector where they are neighbours there, too.
    fn store_neighbours(&mut self, place: Place, (var, at): (VarId, Expr), [width, step]: [i64; 2], predicate: Option<Expr>) {
        let cache = Default::default();
        if step == 1 {
            self.emit(Stmt::StoreVector { place, var, at, lanes: width as u32, predicate, cache });
            return;
        }
        let (counter, e) = self.loop_var("e");
        let index = LOCAL.add(place.index.clone(), LOCAL.mul(e.clone(), LOCAL.lit(step)));
        let value = Expr::Element(var, Box::new(LOCAL.add(at, e)));
        let store = Stmt::Store { place: Place { index, ..place }, value, predicate, cache };
        self.emit(unrolled(counter, width, vec![store]));
    }

    /// Starts the loads of a window: a thread's items stay in registers until [`Expander::land_copy`] stores them.
    pub fn begin_copy(&mut self, window: &WindowRep, copy: &WindowCopy, name: &str) -> Begun {
        let fill = self.plan_fill(window, copy, name);
        let items: i64 = fill.counts.iter().product();
        let parts = self.declare_parts(window, &fill, (items + self.team.threads - 1) / self.team.threads);
        Begun { fill, parts }
    }

    /// Loads what was begun.
    pub fn take_copy(&mut self, window: &WindowRep, copy: &WindowCopy, begun: &Begun) {
        self.load_parts(window, copy, &begun.fill, &begun.parts);
    }

    /// Stores what was loaded.
    pub fn land_copy(&mut self, window: &WindowRep, copy: &WindowCopy, begun: &Begun) {
        self.store_parts(window, copy, &begun.fill, &begun.parts);
    }

    /// Copies an item.
    fn copy_item(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill, item: &Item) {
        let Item { number, local, lies, .. } = item;
        let lies = lies.clone();
        let (mut global, negative) = self.item_outside(window, copy, fill, local);
        let upper = self.item_ends(window, copy);
        let (dtype, fast) = (self.kernel.view(window.view).dtype, fill.order[fill.order.len() - 1]);
        if window.boundary == Boundary::Clamp && fill.width > 1 {
            let len = self.window_len(window, fast);
            let end = self.ix.add(global[fast].clone(), self.ix.lit(fill.width));
            let low = negative[fast].then(|| compare(CompareOp::Ge, global[fast].clone(), self.ix.lit(0)));
            let inside = all(low.into_iter().chain([compare(CompareOp::Le, end, len)])).unwrap_or_else(|| panic!("window: no bound"));
            self.open();
            let shared = item_place(copy, dtype, local, lies);
            let outside = Outside { at: &global, tested: &global, negative: &negative, upper: &upper, inside: Some(fast) };
            self.copy_elements(window, shared, &outside, [fill.width, fill.step]);
            let then = self.close();
            self.open();
            let (var, e) = self.loop_var("e");
            self.open();
            let mut local = local.clone();
            local[fast] = LOCAL.add(local[fast].clone(), e.clone());
            global[fast] = self.ix.add(global[fast].clone(), self.ix.cast(DType::I32, e));
            let shared = copy.place(dtype, &local);
            let outside = Outside { at: &global, tested: &global, negative: &negative, upper: &upper, inside: None };
            self.copy_elements(window, shared, &outside, [1, 1]);
            let turn = self.close();
            self.emit(unrolled(var, fill.width, turn));
            let otherwise = self.close();
            self.emit(Stmt::If { condition: inside, then, otherwise });
        } else {
            let shared = item_place(copy, dtype, local, lies);
            let mut tested = global.clone();
            if let Some(own) = &fill.own
                && window.read.mbarriers
                && upper[own.down]
            {
                tested[own.down] = self.tested_together(window, fill, own, number, &global[own.down]);
            }
            if let Some(axis) = window.unseen {
                let (len, width) = (self.window_len(window, axis), if axis == fast { fill.width } else { 1 });
                global[axis] = binary(BinaryOp::Min, global[axis].clone(), self.ix.sub(len, self.ix.lit(width)));
            }
            let outside = Outside { at: &global, tested: &tested, negative: &negative, upper: &upper, inside: None };
            self.copy_elements(window, shared, &outside, [fill.width, fill.step]);
        }
    }

    /// Copies `width` neighbours, which lie `step` apart in the copy.
    fn copy_elements(&mut self, window: &WindowRep, shared: Place, outside: &Outside, [width, step]: [i64; 2]) {
        let dtype = self.kernel.view(window.view).dtype;
        let (place, predicate) = self.outside_place(window, outside);
        let bytes = width * dtype.size() as i64;
        if window.read.asynchronous && bytes >= 4 {
            self.emit(Stmt::AsyncCopy { shared, global: place, bytes: bytes as u32, predicate });
            return;
        }
        self.stored_copies = true;
        let cache = self.kernel.launch.load_cache;
        if width == 1 {
            let value = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache };
            self.emit(Stmt::Store { place: shared, value, predicate: None, cache: Default::default() });
        } else {
            let name = format!("{}_part", self.kernel.params[self.kernel.view(window.view).param].name);
            let var = self.new_var(&name, dtype, Some(width as u32));
            let zero = literal(DType::I32, 0);
            self.emit(Stmt::Declare { var, init: None });
            self.emit(Stmt::LoadVector { var, at: zero.clone(), place, lanes: width as u32, predicate, cache });
            self.store_neighbours(shared, (var, zero), [width, step], None);
        }
    }
}

fn describe(window: &WindowRep, copy: &WindowCopy, text: &str, turned: bool) -> String {
    let dims = copy.axes.iter().map(|a| a.extent.to_string()).collect::<Vec<_>>().join(" x ");
    let gaps = if copy.gap > copy.run {
        format!(", in panels of {} elements a row", copy.run)
    } else if copy.gap > 0 {
        format!(", {} elements left out after every {}", copy.gap, copy.run)
    } else {
        String::new()
    };
    let outside = match window.boundary {
        _ if window.unseen.is_some() => "zeros, or the last ones where nobody looks",
        Boundary::Valid | Boundary::Zero => "zeros",
        Boundary::Clamp => "the nearest element",
    };
    let what = if window.halo.is_empty() { "" } else { "a window of " };
    let turned = if turned { ", transposed" } else { "" };
    format!("copy {what}{dims} elements of {text} to shared memory{turned}{gaps}; outside of the tensor {outside}")
}
