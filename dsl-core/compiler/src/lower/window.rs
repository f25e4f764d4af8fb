//! Windows: where they are kept, and what of them lies outside. `fill` copies them to shared memory, `near` reads them.

mod copy;

pub(crate) use copy::{CopyAxis, WindowCopy};

use super::context::{Lowered, Lowering, Mode, Rep};
use super::dots::is_tile_index;
use super::index::{all, binary, compare};
use super::spans::Walked;
use crate::plan::ReadPlan;
use girih_ir::layout::{Layout, Source};
use girih_ir::simt::{Expr, Place};
use girih_ir::tile::{Boundary, Index as TileIndex, Op, Ty, ValueId, ViewId};
use girih_ir::types::{BinaryOp, CompareOp};

/// A window during lowering.
#[derive(Clone, Debug)]
pub(crate) struct WindowRep {
    pub view: ViewId,
    /// The tile index of each axis; of an operand of a dot also scalars, where one coordinate is meant.
    pub index: Vec<ValueId>,
    pub boundary: Boundary,
    /// How it is read.
    pub read: ReadPlan,
    /// What is added to the loop's coordinates, per axis.
    pub shift: Vec<Shift>,
    /// Halo before and after the tile, per axis; empty for an operand of a dot.
    pub halo: Vec<(i64, i64)>,
    /// The layout of moved tiles.
    pub layout: Layout,
    /// The copy in shared memory.
    pub copy: Option<WindowCopy>,
    /// The axis behind whose end the copy may hold anything, as nobody looks at what becomes of it: it repeats what lies there last.
    pub unseen: Option<usize>,
}

/// Coordinates of a view that may lie outside of it.
pub(crate) struct Outside<'a> {
    pub at: &'a [Expr],
    /// What of them is compared with the view's ends.
    pub tested: &'a [Expr],
    /// Along which axes they may lie before the view's first, or after its last element.
    pub negative: &'a [bool],
    pub upper: &'a [bool],
    /// An axis along which they lie inside.
    pub inside: Option<usize>,
}

/// How far a window lies from its tile along an axis.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    /// Elements; `None` for none.
    pub by: Option<Expr>,
    /// Surely not negative.
    pub forward: bool,
}

impl Lowering<'_> {
    /// Lowers a window: the block copies it to shared memory, unless the schedule reads it where it is.
    pub fn open_window(&mut self, value: ValueId, op: &Op) -> Lowered<()> {
        let mut window = self.window_at(value, op);
        if window.read.shared && self.used(value).count > 0 {
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
        let source = match self.near.op(value) {
            Some(Op::Load(view, _)) => self.kernel.params[self.kernel.view(*view).param].name.as_str(),
            _ => "window",
        };
        format!("{}_smem", self.name_of(value, source))
    }

    /// A window at the tiles that its indices stand for now, without a copy.
    pub fn window_at(&mut self, value: ValueId, op: &Op) -> WindowRep {
        let shift: Vec<Option<ValueId>> = match op {
            Op::Window { shift, .. } => shift.clone(),
            Op::Load(_, index) => vec![None; index.len()],
            _ => panic!("window: {op:?} makes no window"),
        };
        let shift = shift.into_iter().map(|s| self.shift(s)).collect();
        WindowRep { shift, ..self.window_anywhere(value, op) }
    }

    /// A window without its place.
    pub fn window_anywhere(&mut self, value: ValueId, op: &Op) -> WindowRep {
        if let Op::Load(view, index) = op {
            let window = self.operand_anywhere(value, *view, index);
            let unseen = self.unseen_axis(value, &window);
            return WindowRep { unseen, ..window };
        }
        let Op::Window { view, index, boundary, .. } = op else { panic!("window: {op:?} makes no window") };
        let Ty::Window(_, reach) = self.kernel.ty(value) else { panic!("window: {value:?} is no window") };
        let halo: Vec<(i64, i64)> = reach.iter().map(|r| (self.plan.size(&r.before), self.plan.size(&r.after))).collect();
        let tiles: Vec<TileIndex> = index.iter().map(|v| TileIndex::Tile(*v)).collect();
        let layout = self.preferred_layout(*view, &tiles);
        WindowRep {
            view: *view,
            index: index.clone(),
            boundary: *boundary,
            read: self.plan.read(value),
            shift: vec![],
            halo,
            layout,
            copy: None,
            unseen: None,
        }
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
        if !is_tile_index(self.kernel, index) {
            return self.index_of(index);
        }
        let size = self.plan.size(girih_ir::tile::access::tile_size(self.kernel, index));
        match self.rep(index) {
            Rep::TileIndex(e) => self.ix.mul(e.clone(), self.ix.lit(size)),
            other => panic!("window: {index:?} is no tile index but {other:?}"),
        }
    }

    /// Extent of the window's tile along an axis.
    pub fn window_size(&self, window: &WindowRep, axis: usize) -> i64 {
        match self.kernel.ty(window.index[axis]) {
            Ty::TileIdx(size) => self.plan.size(size),
            _ => 1,
        }
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
            crate::plan::gcd(self.multiple(&offset), self.multiple(&first[fast]))
        };
        for k in (0..rank).filter(|k| *k != fast) {
            let stride = self.index_of(axes[k].stride);
            aligned = crate::plan::gcd(aligned, self.multiple(&stride));
        }
        if window.boundary != Boundary::Clamp {
            aligned = crate::plan::gcd(aligned, self.ends_multiple(window, fast));
        }
        let most = (16.min(align) / dtype.size() as i64).min(self.plan.vector);
        let mut width = 1;
        while width * 2 <= most && aligned % (width * 2) == 0 {
            width *= 2;
        }
        width
    }

    /// The place in global memory of these coordinates, and the condition under which it is read.
    pub fn outside_place(&mut self, window: &WindowRep, outside: &Outside) -> (Place, Option<Expr>) {
        let Outside { at: global, tested, negative, upper, inside } = *outside;
        let view = self.kernel.view(window.view).clone();
        let (mut guards, mut terms): (Vec<Expr>, _) = (self.copies_if.clone().into_iter().collect(), Vec::new());
        for (k, g) in global.iter().enumerate() {
            let len = self.index_of(view.axes[k].len);
            let mut at = g.clone();
            match window.boundary {
                Boundary::Clamp => {
                    let walked = self.lengths[&window.index[k]];
                    if inside != Some(k) && self.index_of(walked) != len {
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
                    guards.extend(negative[k].then(|| compare(CompareOp::Ge, tested[k].clone(), self.ix.lit(0))));
                    guards.extend(upper[k].then(|| match self.walked_by(window, k) {
                        Some(walked) => walked.has(&tested[k]),
                        None => compare(CompareOp::Lt, tested[k].clone(), len),
                    }));
                }
            }
            terms.push((at, self.index_of(view.axes[k].stride)));
        }
        let offset = self.index_of(view.offset);
        let address = self.linear(offset, terms);
        (self.place(window.view, address), all(guards))
    }

    /// Whether the tile that a window lies about is surely whole along an axis: a full one of the grid, or one of tiles that divide the
    /// length that is walked.
    pub fn tile_lies_inside(&mut self, window: &WindowRep, axis: usize) -> bool {
        let index = window.index[axis];
        if !is_tile_index(self.kernel, index) {
            return true;
        }
        if self.mode == Mode::Full && self.grid_vars.contains(&index) {
            return true;
        }
        // One block of a grid that combines runs in any case: its first tile need not be there.
        if self.grid_vars.contains(&index) && crate::plan::finish::combines_grid(self.kernel) {
            return false;
        }
        let (walked, size) = (self.lengths[&index], self.window_size(window, axis));
        if let Some(walked) = self.walked_by(window, axis) {
            return self.walked_multiple(&walked) % size == 0;
        }
        let walked = self.index_of(walked);
        self.multiple(&walked) % size == 0
    }

    /// The positions to which the loop along an axis keeps, if an operand of a dot is zero elsewhere. A window is read as its boundary says.
    fn walked_by(&self, window: &WindowRep, axis: usize) -> Option<Walked> {
        self.walked.get(&window.index[axis]).filter(|_| window.halo.is_empty()).cloned()
    }

    /// By what the ends are divisible between which a window's elements lie along an axis.
    pub fn ends_multiple(&mut self, window: &WindowRep, axis: usize) -> i64 {
        let len = self.window_len(window, axis);
        let own = self.multiple(&len);
        self.walked_by(window, axis).map_or(own, |walked| crate::plan::gcd(own, self.walked_multiple(&walked)))
    }

    /// Whether the loop walks an axis of just this length.
    pub fn walks_itself(&mut self, window: &WindowRep, axis: usize) -> bool {
        if !is_tile_index(self.kernel, window.index[axis]) {
            return true;
        }
        let walked = self.lengths[&window.index[axis]];
        self.index_of(walked) == self.window_len(window, axis)
    }

    /// The length of the view's axis.
    pub fn window_len(&mut self, window: &WindowRep, axis: usize) -> Expr {
        let len = self.kernel.view(window.view).axes[axis].len;
        self.index_of(len)
    }
}

/// Neighbours along an axis that a thread owns.
pub(crate) fn own_run(layout: &Layout, axis: usize) -> i64 {
    match layout.axes[axis].first() {
        Some(d) if d.source == Source::Register && d.place == 1 => d.extent,
        _ => 1,
    }
}
