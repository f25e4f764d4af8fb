//! The items of a window's copy: how wide they are, which of them a thread has, where they lie in the window's view and in the copy, and whether
//! they are there.

use super::context::Expander;
use super::convert::swizzled;
use super::elements::unrolled;
use super::index::{Index, binary, compare};
use super::window::{Shift, WindowCopy, WindowRep};
use crate::block::gcd;
use crate::block::{Boundary, ValueId};
use girih_ir::simt::{Expr, Place};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// A window's items along each axis, in the order in which neighbouring threads copy them.
#[derive(Clone)]
pub(super) struct Fill {
    /// Axes from slowest to fastest.
    pub order: Vec<usize>,
    /// Items along each axis, in that order.
    pub counts: Vec<i64>,
    /// Elements per item along the last of them.
    pub width: i64,
    /// How far an item's neighbours lie apart in the copy.
    pub step: i64,
    /// The view's coordinate of the copy's first element, per axis.
    pub first: Vec<Expr>,
    /// What the copy's variables are called after.
    pub name: String,
    /// The thread's first item, where the others follow below it.
    pub own: Option<Own>,
}

/// The items of a thread, one below the other.
#[derive(Clone)]
pub(super) struct Own {
    /// The axis along which they lie, and elements from one to the next.
    pub down: usize,
    pub step: i64,
    /// The first one's position along that axis and along the fastest one.
    pub row: Expr,
    pub column: Expr,
    /// The column as it lies in memory, the same in all of the thread's rows.
    pub lies: Option<Expr>,
}

/// An item that a thread copies.
pub(super) struct Item {
    /// Its number among the thread's.
    pub number: Expr,
    /// Whether there is one, where some threads have fewer.
    pub exists: Option<Expr>,
    /// Where it lies in the copy.
    pub local: Vec<Expr>,
    /// Its column as it lies in memory, where that is known.
    pub lies: Option<Expr>,
}

impl Expander<'_> {
    /// The order of the copy and how wide its accesses may be, by strides, alignment and divisibility.
    pub(super) fn plan_fill(&mut self, window: &WindowRep, copy: &WindowCopy, name: &str) -> Fill {
        let rank = window.index.len();
        let strides: Vec<ValueId> = self.kernel.view(window.view).axes.iter().map(|a| a.stride).collect();
        let fast = (0..rank).rev().find(|k| self.constant(strides[*k]) == Some(1)).unwrap_or(copy.fast);
        let name = name.strip_suffix("_smem").unwrap_or(name).to_string();
        let mut first = Vec::new();
        for k in 0..rank {
            let mut start = self.tile_start(window.index[k]);
            if let Some(by) = &window.shift[k].by {
                start = self.ix.add(start, by.clone());
            }
            let start = self.ix.sub(start, self.ix.lit(copy.axes[k].before));
            first.push(self.declare_let(&format!("{name}_{}0", axis_name(k, rank)), self.ix.dtype, start));
        }
        let (width, scatters) = (window.width, window.read.transposed && !window.read.asynchronous);
        if (fast == copy.fast || scatters) && self.constant(strides[fast]) == Some(1) {
            self.begin_copy_of(window.view, fast);
            if window.boundary != Boundary::Clamp {
                self.window_len(window, fast);
            }
        }
        let mut order: Vec<usize> = (0..rank).filter(|k| *k != fast).collect();
        order.push(fast);
        let counts = order.iter().map(|k| if *k == fast { copy.axes[*k].extent / width } else { copy.axes[*k].extent }).collect();
        let step = if fast == copy.fast { 1 } else { copy.axes[fast].pitch };
        let mut fill = Fill { order, counts, width, step, first, name, own: None };
        fill.own = self.own_items(copy, &fill);
        fill
    }

    /// Where a thread's items lie, if the threads fill whole rows: one below the other.
    pub(super) fn own_items(&mut self, copy: &WindowCopy, fill: &Fill) -> Option<Own> {
        let (threads, rank) = (self.team.threads, fill.order.len());
        let (fast, across) = (fill.order[rank - 1], fill.counts[rank - 1]);
        let mut long = fill.order[..rank - 1].iter().zip(&fill.counts).filter(|(_, n)| **n > 1);
        let down = *long.next()?.0;
        if long.next().is_some() || threads % across != 0 {
            return None;
        }
        let (thread, step) = (self.thread32(), threads / across);
        let position = |what: &str, axis: usize| format!("{}_{what}{}", fill.name, axis_name(axis, rank));
        let column = LOCAL.mul(LOCAL.rem(thread.clone(), across), LOCAL.lit(fill.width));
        let row = self.declare_let(&position("own_", down), DType::I32, LOCAL.div(thread, across));
        let column = self.declare_let(&position("own_", fast), DType::I32, column);
        let swizzle = copy.swizzle.filter(|(slow, rows)| *slow == down && step % rows.period() == 0 && fast == copy.fast);
        let lies = swizzle.map(|(_, rows)| {
            let lies = swizzled(&rows, &row, copy.column(column.clone()));
            self.declare_let(&position("smem_", fast), DType::I32, lies)
        });
        Some(Own { down, step, row, column, lies })
    }

    /// Loops over the items that a thread copies.
    pub(super) fn each_item(&mut self, fill: &Fill, turns: i64, body: &mut dyn FnMut(&mut Self, &Item)) {
        let (items, threads) = (fill.counts.iter().product::<i64>(), self.team.threads);
        let (counter, number) = self.loop_var("i");
        self.open();
        let item = match &fill.own {
            Some(own) => {
                let rank = fill.order.len();
                let mut local = vec![LOCAL.lit(0); rank];
                local[own.down] = LOCAL.add(own.row.clone(), LOCAL.mul(number.clone(), LOCAL.lit(own.step)));
                local[fill.order[rank - 1]] = own.column.clone();
                let rows = LOCAL.lit(items / fill.counts[rank - 1]);
                let exists = (items % threads != 0).then(|| compare(CompareOp::Lt, local[own.down].clone(), rows));
                Item { number, exists, local, lies: own.lies.clone() }
            }
            None => {
                let n = LOCAL.add(self.thread32(), LOCAL.mul(number.clone(), LOCAL.lit(threads)));
                let n = self.declare_let("chunk", DType::I32, n);
                let exists = (items % threads != 0).then(|| compare(CompareOp::Lt, n.clone(), LOCAL.lit(items)));
                let local = self.item_at(fill, n);
                Item { number, exists, local, lies: None }
            }
        };
        body(self, &item);
        let turn = self.close();
        // A block of its own: its variables end with it.
        self.emit(unrolled(counter, turns, turn));
    }

    /// Where item `n` lies, from the copy's first element.
    pub(super) fn item_at(&mut self, fill: &Fill, n: Expr) -> Vec<Expr> {
        let rank = fill.order.len();
        let mut local = vec![LOCAL.lit(0); rank];
        let mut left = n;
        for (at, axis) in fill.order.iter().enumerate().rev() {
            if fill.counts[at] == 1 {
                continue;
            }
            let last = fill.counts[..at].iter().all(|n| *n == 1);
            let c = if last { left.clone() } else { binary(BinaryOp::Rem, left.clone(), LOCAL.lit(fill.counts[at])) };
            let c = if at + 1 == rank { LOCAL.mul(c, LOCAL.lit(fill.width)) } else { c };
            left = LOCAL.div(left, fill.counts[at]);
            let name = format!("{}_own_{}", fill.name, axis_name(*axis, rank));
            local[*axis] = if rank == 1 { c } else { self.declare_let(&name, DType::I32, c) };
        }
        local
    }

    /// The view's coordinates of an item, and along which axes they may be negative.
    pub(super) fn item_outside(&self, window: &WindowRep, copy: &WindowCopy, fill: &Fill, local: &[Expr]) -> (Vec<Expr>, Vec<bool>) {
        let global = fill.first.iter().zip(local).map(|(f, l)| self.ix.add(f.clone(), self.ix.cast(DType::I32, l.clone()))).collect();
        let negative = copy.axes.iter().zip(&window.shift).map(|(a, shift)| a.before > 0 || !shift.forward).collect();
        (global, negative)
    }

    /// Along which axes the copy of an operand of a dot may reach behind the end.
    pub fn operand_ends(&mut self, window: &WindowRep, copy: &WindowCopy) -> Vec<bool> {
        let still = (0..window.index.len()).map(|_| Shift { by: None, forward: true }).collect();
        self.item_ends(&WindowRep { shift: still, ..window.clone() }, copy)
    }

    /// Along which axes an item may lie behind the end.
    pub(super) fn item_ends(&mut self, window: &WindowRep, copy: &WindowCopy) -> Vec<bool> {
        let inside = |cx: &mut Self, k: usize| {
            if window.unseen == Some(k) {
                return true;
            }
            let within = copy.axes[k].extent - copy.axes[k].before <= cx.window_size(window, k);
            within && window.shift[k].by.is_none() && cx.walks_itself(window, k) && cx.tile_lies_inside(window, k)
        };
        (0..copy.axes.len()).map(|k| !inside(self, k)).collect()
    }

    /// Where the length is a multiple of so many rows, these are there together: one test does for all of a thread's among them.
    pub(super) fn tested_together(&mut self, window: &WindowRep, fill: &Fill, own: &Own, number: &Expr, at: &Expr) -> Expr {
        let together = gcd(self.ends_multiple(window, own.down), self.multiple(&fill.first[own.down]));
        if together <= own.step || together % own.step != 0 {
            return at.clone();
        }
        let row = LOCAL.mul(LOCAL.div(LOCAL.mul(number.clone(), LOCAL.lit(own.step)), together), LOCAL.lit(together));
        self.ix.add(fill.first[own.down].clone(), self.ix.cast(DType::I32, row))
    }
}

/// The place of an item, whose column in memory may be known already.
pub(super) fn item_place(copy: &WindowCopy, dtype: DType, local: &[Expr], lies: Option<Expr>) -> Place {
    match lies {
        Some(column) => copy.place_in_row(dtype, local, column),
        None => copy.place(dtype, local),
    }
}

/// What positions along an axis are called.
pub(super) fn axis_name(axis: usize, rank: usize) -> &'static str {
    match (rank, rank - axis) {
        (1, _) => "at",
        (_, 1) => "col",
        (_, 2) => "row",
        (_, 3) => "plane",
        _ => "cube",
    }
}
