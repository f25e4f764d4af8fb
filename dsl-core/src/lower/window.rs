//! Windows: where they are kept, and how a block copies a tile with its halo to shared memory. `near` reads them.
//!
//! The copy lies row by row. A thread that owns a run of neighbours reads it in wide accesses, so that the lanes of a warp lie a run
//! apart: every run is followed by a gap where that would put them into the same banks.

use super::context::{Lowered, Lowering, Rep};
use super::elements::unrolled;
use super::index::{Index, all, binary, compare, literal};
use crate::layout::{Layout, Source, bank_wavefronts};
use crate::simt::{Barrier, Expr, Place, SharedId, Space, Stmt};
use crate::tile::{Boundary, Index as TileIndex, Op, Ty, ValueId, ViewId};
use crate::types::{BinaryOp, CompareOp, DType};

/// Turns of a thread's copy loop that are written out; more are counted at run time.
const UNROLLED_TURNS: i64 = 8;
/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// A window during lowering.
#[derive(Clone, Debug)]
pub(crate) struct WindowRep {
    pub view: ViewId,
    /// The tile index of each axis.
    pub index: Vec<ValueId>,
    pub boundary: Boundary,
    /// What is added to the loop's coordinates, per axis.
    pub shift: Vec<Shift>,
    /// Halo before and after the tile, per axis.
    pub halo: Vec<(i64, i64)>,
    /// The layout of moved tiles.
    pub layout: Layout,
    /// The copy in shared memory.
    pub copy: Option<WindowCopy>,
}

/// How far a window lies from its tile along an axis.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    /// Elements; `None` for none.
    pub by: Option<Expr>,
    /// Surely not negative.
    pub forward: bool,
}

/// Where the elements of a window lie in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct WindowCopy {
    pub id: SharedId,
    /// Where it begins in the array: 0, or the stage's part of a ring.
    pub first: Expr,
    /// Per axis: elements before the tile, all elements, and array elements from one to the next.
    pub axes: Vec<CopyAxis>,
    /// The axis whose elements are neighbours.
    pub fast: usize,
    /// Elements between gaps along that axis.
    pub run: i64,
    /// Elements per gap.
    pub gap: i64,
    /// Widest access to a thread's run.
    pub width: i64,
    /// Elements from one copy of a ring to the next.
    pub stage: i64,
}

/// One axis of a [`WindowCopy`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAxis {
    pub before: i64,
    pub extent: i64,
    pub pitch: i64,
}

impl WindowCopy {
    /// Where an element lies along the fast axis, gaps included. `at` counts from the copy's first element.
    pub fn column(&self, at: Expr) -> Expr {
        if self.gap == 0 {
            return at;
        }
        let gaps = LOCAL.mul(LOCAL.div(at.clone(), self.run), LOCAL.lit(self.gap));
        LOCAL.add(at, gaps)
    }

    /// The copy at a stage of a ring.
    pub fn at_stage(&self, stage: &Expr) -> WindowCopy {
        WindowCopy { first: LOCAL.mul(stage.clone(), LOCAL.lit(self.stage)), ..self.clone() }
    }

    /// As [`WindowCopy::column`], of a number.
    pub fn column_at(&self, at: i64) -> i64 {
        at + if self.gap == 0 { 0 } else { at / self.run * self.gap }
    }

    /// Elements from the first to the last one.
    fn len(&self) -> i64 {
        let last =
            self.axes.iter().enumerate().map(|(k, a)| if k == self.fast { self.column_at(a.extent - 1) } else { (a.extent - 1) * a.pitch });
        last.sum::<i64>() + 1
    }
}

/// A window's items along each axis, in the order in which neighbouring threads copy them.
struct Fill {
    /// Axes from slowest to fastest.
    order: Vec<usize>,
    /// Items along each axis, in that order.
    counts: Vec<i64>,
    /// Elements per item along the last of them.
    width: i64,
    /// The view's coordinate of the copy's first element, per axis.
    first: Vec<Expr>,
}

impl Lowering<'_> {
    /// Lowers a window: the block copies it to shared memory, unless the schedule reads it where it is.
    pub fn open_window(&mut self, value: ValueId, op: &Op) -> Lowered<()> {
        let mut window = self.window_at(value, op);
        if self.plan.shared_windows && self.used(value).count > 0 {
            let name = self.copy_name(value);
            let copy = self.place_window(value, &window, &name, 1);
            self.copy_window(&window, &copy, &name);
            window.copy = Some(copy);
        }
        self.set(value, Rep::Window(Box::new(window)));
        Ok(())
    }

    /// The name of a window's copy.
    pub fn copy_name(&self, value: ValueId) -> String {
        format!("{}_smem", self.name_of(value, "window"))
    }

    /// A window at the tiles that its indices stand for now, without a copy.
    pub fn window_at(&mut self, value: ValueId, op: &Op) -> WindowRep {
        let Op::Window { shift, .. } = op else { panic!("window: {op:?} makes no window") };
        let shift = shift.iter().map(|s| self.shift(*s)).collect();
        WindowRep { shift, ..self.window_anywhere(value, op) }
    }

    /// A window without its place.
    pub fn window_anywhere(&mut self, value: ValueId, op: &Op) -> WindowRep {
        let Op::Window { view, index, boundary, .. } = op else { panic!("window: {op:?} makes no window") };
        let Ty::Window(_, reach) = self.kernel.ty(value) else { panic!("window: {value:?} is no window") };
        let halo: Vec<(i64, i64)> = reach.iter().map(|r| (self.plan.size(&r.before), self.plan.size(&r.after))).collect();
        let tiles: Vec<TileIndex> = index.iter().map(|v| TileIndex::Tile(*v)).collect();
        let layout = self.preferred_layout(*view, &tiles);
        WindowRep { view: *view, index: index.clone(), boundary: *boundary, shift: vec![], halo, layout, copy: None }
    }

    fn shift(&mut self, shift: Option<ValueId>) -> Shift {
        let Some(value) = shift else { return Shift { by: None, forward: true } };
        let by = match self.near.op(value) {
            Some(Op::Start(index)) => self.tile_start(*index),
            _ => self.index_of(value),
        };
        Shift { by: Some(by), forward: self.near.is_forward(value) }
    }

    /// The first coordinate of a tile, in index arithmetic.
    pub fn tile_start(&mut self, index: ValueId) -> Expr {
        let size = self.plan.size(crate::tile::access::tile_size(self.kernel, index));
        match self.rep(index) {
            Rep::TileIndex(e) => self.ix.mul(e.clone(), self.ix.lit(size)),
            other => panic!("window: {index:?} is no tile index but {other:?}"),
        }
    }

    /// Extent of the window's tile along an axis.
    fn window_size(&self, window: &WindowRep, axis: usize) -> i64 {
        self.plan.size(crate::tile::access::tile_size(self.kernel, window.index[axis]))
    }

    /// Lays a window out in shared memory, with room for so many copies one after the other.
    pub fn place_window(&mut self, value: ValueId, window: &WindowRep, name: &str, copies: i64) -> WindowCopy {
        let dtype = self.kernel.view(window.view).dtype;
        let (bytes, rank) = (dtype.size() as i64, window.index.len());
        let widest = 16 / bytes;
        let tiles_read = self.near.reads_tiles(value);
        // A window that is read one element at a time, the same by all threads, needs no gaps.
        let (fast, run) =
            if tiles_read { (window.layout.fast_axis(), own_run(&window.layout, window.layout.fast_axis())) } else { (rank - 1, widest) };
        let width = [16, 8, 4, 2, 1].into_iter().find(|w| *w <= widest && run % w == 0).unwrap_or(1);
        let gap = if tiles_read && (run / width) % 2 == 0 { width } else { 0 };
        let unit = widest;
        let mut axes: Vec<CopyAxis> = (0..rank)
            .map(|k| {
                let (before, after) = window.halo[k];
                let round = if k == fast { unit } else { 1 };
                let before = round_up(before, round);
                CopyAxis { before, extent: round_up(before + self.window_size(window, k) + after, round), pitch: 1 }
            })
            .collect();
        let mut copy = WindowCopy { id: SharedId(0), first: LOCAL.lit(0), stage: 0, axes: axes.clone(), fast, run, gap, width };
        let row = round_up(copy.column_at(axes[fast].extent - 1) + 1, unit);
        // Rows are moved apart until the lanes of a warp meet in as few banks as they can.
        let best = (0..8).min_by_key(|extra| {
            set_pitches(&mut axes, fast, row + extra * unit);
            copy.axes.clone_from(&axes);
            (if tiles_read { first_wavefronts(&copy, &window.layout, bytes) } else { 0 }, *extra)
        });
        set_pitches(&mut axes, fast, row + best.unwrap_or(0) * unit);
        copy.axes = axes;
        copy.stage = round_up(copy.len(), unit);
        copy.id = self.new_shared(name, dtype, if copies == 1 { copy.len() } else { copies * copy.stage });
        copy
    }

    /// Copies the window: all threads together, item by item.
    fn copy_window(&mut self, window: &WindowRep, copy: &WindowCopy, name: &str) {
        let fill = self.plan_fill(window, copy, name);
        if !self.join_copies() && self.repeated {
            // Some threads may still read what the last turn left there.
            self.emit(Stmt::Barrier(Barrier::Block));
        }
        self.fill_copy(window, copy, &fill);
        self.finish_copies();
    }

    /// Starts a window's copy, by all threads together.
    pub fn start_copy(&mut self, window: &WindowRep, copy: &WindowCopy, name: &str) {
        let fill = self.plan_fill(window, copy, name);
        self.fill_copy(window, copy, &fill);
    }

    fn fill_copy(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill) {
        self.comment(describe(window, copy, &self.kernel.view(window.view).text));
        let items: i64 = fill.counts.iter().product();
        let threads = self.plan.threads;
        let turns = (items + threads - 1) / threads;
        let thread = self.local_thread();
        let (counter, at) = self.loop_var("item");
        self.open();
        if turns <= UNROLLED_TURNS {
            let n = LOCAL.add(thread, LOCAL.mul(at, LOCAL.lit(threads)));
            let n = self.declare_let("n", DType::I32, n);
            self.open();
            self.copy_item(window, copy, fill, n.clone());
            let item = self.close();
            if items % threads == 0 {
                item.into_iter().for_each(|s| self.emit(s));
            } else {
                self.emit(Stmt::If { condition: compare(CompareOp::Lt, n, LOCAL.lit(items)), then: item, otherwise: vec![] });
            }
            let turn = self.close();
            // A block of its own: its variables end with it.
            self.emit(unrolled(counter, turns, turn));
        } else {
            self.copy_item(window, copy, fill, at);
            let body = self.close();
            let (end, step) = (LOCAL.lit(items), LOCAL.lit(threads));
            self.emit(Stmt::For { var: counter, start: thread, end, step, unroll: false, body });
        }
    }

    /// Waits for the copies and meets.
    fn finish_copies(&mut self) {
        let first = self.blocks.last().map_or(0, Vec::len);
        if self.plan.async_windows {
            self.emit(Stmt::AsyncCommit);
            self.emit(Stmt::AsyncWait { pending: 0 });
        }
        self.emit(Stmt::Barrier(Barrier::Block));
        self.copies_end = Some((self.blocks.len(), first));
    }

    /// Windows that are copied one after the other meet once: takes back the end of the copy just before. False if there is none.
    fn join_copies(&mut self) -> bool {
        let Some((depth, first)) = self.copies_end.take() else { return false };
        let count = if self.plan.async_windows { 3 } else { 1 };
        let Some(block) = (if depth == self.blocks.len() { self.blocks.last_mut() } else { None }) else { return false };
        let reads = |s: &Stmt| !matches!(s, Stmt::Let { value, .. } if !loads(value));
        if block.len() < first + count || block[first + count..].iter().any(reads) {
            return false;
        }
        block.drain(first..first + count);
        true
    }

    /// The order of the copy and how wide its accesses may be, by strides, alignment and divisibility.
    fn plan_fill(&mut self, window: &WindowRep, copy: &WindowCopy, name: &str) -> Fill {
        let rank = window.index.len();
        let strides: Vec<ValueId> = self.kernel.view(window.view).axes.iter().map(|a| a.stride).collect();
        let fast = (0..rank).rev().find(|k| self.constant(strides[*k]) == Some(1)).unwrap_or(copy.fast);
        let mut first = Vec::new();
        for k in 0..rank {
            let mut start = self.tile_start(window.index[k]);
            if let Some(by) = &window.shift[k].by {
                start = self.ix.add(start, by.clone());
            }
            let start = self.ix.sub(start, self.ix.lit(copy.axes[k].before));
            let from = format!("{name}_from{}", if rank == 1 { String::new() } else { k.to_string() });
            first.push(self.declare_let(&from, self.ix.dtype, start));
        }
        let mut width = if fast == copy.fast { self.access_width(window, &first) } else { 1 };
        while width > 1 && (copy.axes[fast].extent % width != 0) {
            width /= 2;
        }
        let mut order: Vec<usize> = (0..rank).filter(|k| *k != fast).collect();
        order.push(fast);
        let counts = order.iter().map(|k| if *k == fast { copy.axes[*k].extent / width } else { copy.axes[*k].extent }).collect();
        Fill { order, counts, width, first }
    }

    /// Elements per access to global memory from these coordinates on, along the fast axis: all of them lie inside or outside.
    pub fn access_width(&mut self, window: &WindowRep, first: &[Expr]) -> i64 {
        let view = self.kernel.view(window.view);
        let (dtype, param, rank, offset) = (view.dtype, view.param, view.axes.len(), view.offset);
        let axes = view.axes.clone();
        let Some(fast) = (0..rank).rev().find(|k| self.constant(axes[*k].stride) == Some(1)) else { return 1 };
        let align = self.facts.tensors[param].as_ref().map_or(dtype.size() as i64, |t| t.align as i64);
        let mut aligned = {
            let offset = self.index_of(offset);
            super::plan::gcd(self.multiple(&offset), self.multiple(&first[fast]))
        };
        for k in (0..rank).filter(|k| *k != fast) {
            let stride = self.index_of(axes[k].stride);
            aligned = super::plan::gcd(aligned, self.multiple(&stride));
        }
        if window.boundary != Boundary::Clamp {
            let len = self.index_of(axes[fast].len);
            aligned = super::plan::gcd(aligned, self.multiple(&len));
        }
        let most = (16.min(align) / dtype.size() as i64).min(self.plan.vector);
        let mut width = 1;
        while width * 2 <= most && aligned % (width * 2) == 0 {
            width *= 2;
        }
        width
    }

    /// Copies item `n`.
    fn copy_item(&mut self, window: &WindowRep, copy: &WindowCopy, fill: &Fill, n: Expr) {
        let rank = fill.order.len();
        let mut local = vec![LOCAL.lit(0); rank];
        let mut left = n;
        for (at, axis) in fill.order.iter().enumerate().rev() {
            let c = if at == 0 { left.clone() } else { binary(BinaryOp::Rem, left.clone(), LOCAL.lit(fill.counts[at])) };
            let c = if at + 1 == rank { LOCAL.mul(c, LOCAL.lit(fill.width)) } else { c };
            left = LOCAL.div(left, fill.counts[at]);
            local[*axis] =
                if rank == 1 { c } else { self.declare_let(["plane", "r", "c"][3 - rank.min(3) + (*axis).min(2)], DType::I32, c) };
        }
        let global: Vec<Expr> = (0..rank).map(|k| self.ix.add(fill.first[k].clone(), self.ix.cast(DType::I32, local[k].clone()))).collect();
        let negative: Vec<bool> = (0..rank).map(|k| copy.axes[k].before > 0 || !window.shift[k].forward).collect();
        let fast = fill.order[rank - 1];
        if window.boundary == Boundary::Clamp && fill.width > 1 {
            let len = self.window_len(window, fast);
            let end = self.ix.add(global[fast].clone(), self.ix.lit(fill.width));
            let low = negative[fast].then(|| compare(CompareOp::Ge, global[fast].clone(), self.ix.lit(0)));
            let inside = all(low.into_iter().chain([compare(CompareOp::Le, end, len)])).unwrap_or_else(|| panic!("window: no bound"));
            self.open();
            self.copy_elements(window, copy, &local, &global, &negative, Some(fast), fill.width);
            let then = self.close();
            self.open();
            let (var, e) = self.loop_var("e");
            self.open();
            let (mut local, mut global) = (local, global);
            local[fast] = LOCAL.add(local[fast].clone(), e.clone());
            global[fast] = self.ix.add(global[fast].clone(), self.ix.cast(DType::I32, e));
            self.copy_elements(window, copy, &local, &global, &negative, None, 1);
            let turn = self.close();
            self.emit(unrolled(var, fill.width, turn));
            let otherwise = self.close();
            self.emit(Stmt::If { condition: inside, then, otherwise });
        } else {
            self.copy_elements(window, copy, &local, &global, &negative, None, fill.width);
        }
    }

    /// Copies `width` neighbours. The axis `inside` is known to need no clamp.
    fn copy_elements(
        &mut self,
        window: &WindowRep,
        copy: &WindowCopy,
        local: &[Expr],
        global: &[Expr],
        negative: &[bool],
        inside: Option<usize>,
        width: i64,
    ) {
        let dtype = self.kernel.view(window.view).dtype;
        let upper = vec![true; global.len()];
        let (place, predicate) = self.outside_place(window, global, negative, &upper, inside);
        let index = (0..local.len()).fold(copy.first.clone(), |sum, k| {
            let part =
                if k == copy.fast { copy.column(local[k].clone()) } else { LOCAL.mul(local[k].clone(), LOCAL.lit(copy.axes[k].pitch)) };
            LOCAL.add(sum, part)
        });
        let shared = Place { space: Space::Shared(copy.id), dtype, index };
        let bytes = width * dtype.size() as i64;
        if self.plan.async_windows && bytes >= 4 {
            self.emit(Stmt::AsyncCopy { shared, global: place, bytes: bytes as u32, predicate });
            return;
        }
        let cache = self.plan.load_cache;
        if width == 1 {
            let value = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache };
            self.emit(Stmt::Store { place: shared, value, predicate: None, cache: Default::default() });
        } else {
            let name = format!("{}_part", self.kernel.params[self.kernel.view(window.view).param].name);
            let var = self.new_var(&name, dtype, Some(width as u32));
            let zero = literal(DType::I32, 0);
            self.emit(Stmt::Declare { var, init: None });
            self.emit(Stmt::LoadVector { var, at: zero.clone(), place, lanes: width as u32, predicate, cache });
            self.emit(Stmt::StoreVector { place: shared, var, at: zero, lanes: width as u32, predicate: None, cache: Default::default() });
        }
    }

    /// The place in global memory of these coordinates, and the condition under which it is read. `negative` and `upper` say along
    /// which axes a coordinate may lie before the view's first or after its last element.
    pub fn outside_place(
        &mut self,
        window: &WindowRep,
        global: &[Expr],
        negative: &[bool],
        upper: &[bool],
        inside: Option<usize>,
    ) -> (Place, Option<Expr>) {
        let view = self.kernel.view(window.view).clone();
        let (mut guards, mut terms) = (Vec::new(), Vec::new());
        for (k, g) in global.iter().enumerate() {
            let len = self.index_of(view.axes[k].len);
            let mut at = g.clone();
            match window.boundary {
                Boundary::Clamp => {
                    let walked = self.lengths[&window.index[k]];
                    if self.index_of(walked) != len {
                        guards.push(compare(CompareOp::Gt, len.clone(), self.ix.lit(0)));
                    }
                    if negative[k] && inside != Some(k) {
                        at = binary(BinaryOp::Max, at, self.ix.lit(0));
                    }
                    if upper[k] && inside != Some(k) {
                        at = binary(BinaryOp::Min, at, self.ix.sub(len, self.ix.lit(1)));
                    }
                }
                Boundary::Zero | Boundary::Valid => {
                    guards.extend(negative[k].then(|| compare(CompareOp::Ge, g.clone(), self.ix.lit(0))));
                    guards.extend(upper[k].then(|| compare(CompareOp::Lt, g.clone(), len)));
                }
            }
            terms.push((at, self.index_of(view.axes[k].stride)));
        }
        let offset = self.index_of(view.offset);
        let address = self.linear(offset, terms);
        (self.place(window.view, address), all(guards))
    }

    /// The length of the view's axis.
    pub fn window_len(&mut self, window: &WindowRep, axis: usize) -> Expr {
        let len = self.kernel.view(window.view).axes[axis].len;
        self.index_of(len)
    }

    /// The thread's number as i32.
    pub fn local_thread(&self) -> Expr {
        match &self.thread {
            Expr::Cast(_, inner) => (**inner).clone(),
            other => other.clone(),
        }
    }

    /// A thread's part of the address in a window's copy.
    pub fn copy_part(&self, copy: &WindowCopy, layout: &Layout) -> Expr {
        let thread = self.local_thread();
        let mut sum = LOCAL.lit(0);
        for (k, digits) in layout.axes.iter().enumerate() {
            for d in digits.iter().filter(|d| d.source == Source::Thread) {
                let quotient = LOCAL.div(thread.clone(), d.stride);
                let digit = if d.stride * d.extent == layout.threads { quotient } else { LOCAL.rem(quotient, d.extent) };
                let step = if k == copy.fast { copy.column_at(d.place) } else { d.place * copy.axes[k].pitch };
                sum = LOCAL.add(sum, LOCAL.mul(digit, LOCAL.lit(step)));
            }
        }
        sum
    }
}

/// Neighbours along an axis that a thread owns.
pub(crate) fn own_run(layout: &Layout, axis: usize) -> i64 {
    match layout.axes[axis].first() {
        Some(d) if d.source == Source::Register && d.place == 1 => d.extent,
        _ => 1,
    }
}

/// Whether an expression reads memory.
fn loads(e: &Expr) -> bool {
    match e {
        Expr::Load { .. } => true,
        Expr::Literal(_) | Expr::Var(_) | Expr::Param(_) | Expr::Special(_) => false,
        Expr::Element(_, a) | Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => loads(a),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => loads(a) || loads(b),
        Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => loads(a) || loads(b) || loads(c),
    }
}

fn round_up(n: i64, to: i64) -> i64 {
    (n + to - 1) / to * to
}

/// Rows of `pitch` elements, the other axes around them.
fn set_pitches(axes: &mut [CopyAxis], fast: usize, mut pitch: i64) {
    for k in (0..axes.len()).rev().filter(|k| *k != fast) {
        axes[k].pitch = pitch;
        pitch *= axes[k].extent;
    }
}

/// Wavefronts of the first warp's access to the first register of its tile.
fn first_wavefronts(copy: &WindowCopy, layout: &Layout, bytes: i64) -> i64 {
    let address = |lane: i64| -> i64 {
        let at = layout.coordinates(lane, 0);
        let part = |(k, c): (usize, &i64)| if k == copy.fast { copy.column_at(*c) } else { c * copy.axes[k].pitch };
        at.iter().enumerate().map(part).sum::<i64>() * bytes
    };
    let starts: Vec<i64> = (0..layout.threads.min(32)).map(address).collect();
    bank_wavefronts(&starts, copy.width * bytes)
}

fn describe(window: &WindowRep, copy: &WindowCopy, text: &str) -> String {
    let dims = copy.axes.iter().map(|a| a.extent.to_string()).collect::<Vec<_>>().join(" x ");
    let gaps = if copy.gap > 0 { format!(", {} elements left out after every {}", copy.gap, copy.run) } else { String::new() };
    let outside = match window.boundary {
        Boundary::Valid | Boundary::Zero => "zeros",
        Boundary::Clamp => "the nearest element",
    };
    format!("copy a window of {dims} elements of {text} to shared memory{gaps}; outside of the tensor {outside}")
}
