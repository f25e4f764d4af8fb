//! Windows: where they are kept, and what of them lies outside. `fill` copies them to shared memory, `near` reads them.

mod copy;

pub(crate) use copy::{CopyAxis, Step, WindowCopy};

use super::context::{Expanded, Expander, Mode, Rep};
use super::index::{all, binary, compare};
use super::spans::Walked;
use crate::block::{Access, Boundary, Index, Op, Reading, Ty, ValueId, ViewId, Window};
use girih_ir::layout::{Layout, Source};
use girih_ir::simt::{Expr, Place};
use girih_ir::types::{BinaryOp, CompareOp};

/// What is copied to shared memory: a window, or the tile of a load that is an operand of a dot.
#[derive(Clone, Copy)]
pub(crate) enum Copied<'k> {
    Window(&'k Window),
    Operand(&'k Access),
}

/// The tile indices and coordinates of a place.
pub(crate) fn index_values(index: &[Index]) -> Vec<ValueId> {
    let value = |i: &Index| match i {
        Index::Tile(v) | Index::At(v) => *v,
        Index::All(_) => panic!("window: a whole axis is not copied"),
    };
    index.iter().map(value).collect()
}

/// A window during lowering.
#[derive(Clone, Debug)]
pub(crate) struct WindowRep {
    pub view: ViewId,
    /// The tile index of each axis; of an operand of a dot also scalars, where one coordinate is meant.
    pub index: Vec<ValueId>,
    pub boundary: Boundary,
    /// How it is read.
    pub read: Reading,
    /// Elements per access of its copy to global memory.
    pub width: i64,
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

impl Expander<'_> {
    /// Opens a window, or a load for dots alone: all threads copy it to shared memory, unless it is read where it is.
    pub fn open_copied(&mut self, value: ValueId, copied: Copied) -> Expanded<()> {
        let mut window = self.window_at(value, copied);
        if window.read.shared && self.used(value).count > 0 {
            let name = self.copy_name(value);
            let copy = self.place_copy(value, &window, &name, 1);
            self.start_copy(&window, &copy, &name);
            window.copy = Some(copy);
        }
        self.set(value, Rep::Window(Box::new(window)));
        Ok(())
    }

    /// The name of a window's copy.
    pub fn copy_name(&self, value: ValueId) -> String {
        let source = match self.loads.get(&value) {
            Some(access) => self.kernel.params[self.kernel.view(access.view).param].name.as_str(),
            None => "window",
        };
        format!("{}_smem", self.name_of(value, source))
    }

    /// A window at the tiles that its indices stand for now, without a copy.
    pub fn window_at(&mut self, value: ValueId, copied: Copied) -> WindowRep {
        let shift: Vec<Option<ValueId>> = match copied {
            Copied::Window(window) => window.shift.clone(),
            Copied::Operand(access) => vec![None; access.index.len()],
        };
        let shift = shift.into_iter().map(|s| self.shift(s)).collect();
        WindowRep { shift, ..self.window_anywhere(value, copied) }
    }

    /// A window without its place.
    pub fn window_anywhere(&mut self, value: ValueId, copied: Copied) -> WindowRep {
        let window = match copied {
            Copied::Operand(access) => {
                let window = self.operand_anywhere(access);
                let unseen = self.unseen_axis(value, &window);
                return WindowRep { unseen, ..window };
            }
            Copied::Window(window) => window,
        };
        let Ty::Window(_, reach) = self.kernel.ty(value) else { panic!("window: {value:?} is no window") };
        let halo: Vec<(i64, i64)> = reach.iter().map(|r| (r.before, r.after)).collect();
        let layout = self.layout_at(&window.tile);
        let (view, index, boundary) = (window.tile.view, index_values(&window.tile.index), window.boundary);
        let (read, width) = (window.tile.read, self.copied_width(&window.tile));
        WindowRep { view, index, boundary, read, width, shift: vec![], halo, layout, copy: None, unseen: None }
    }

    fn shift(&mut self, shift: Option<ValueId>) -> Shift {
        let Some(value) = shift else { return Shift { by: None, forward: true } };
        let by = match self.op(value) {
            Some(Op::Start(index)) => self.tile_start(*index),
            _ => self.index_of(value),
        };
        Shift { by: Some(by), forward: self.kernel.window_groups.forward.contains(&value) }
    }

    /// The first coordinate of a tile, in index arithmetic.
    pub fn tile_start(&mut self, index: ValueId) -> Expr {
        if !self.kernel.is_tile_index(index) {
            return self.index_of(index);
        }
        let size = self.kernel.tile_size(index);
        match self.rep(index) {
            Rep::TileIndex(e) => self.ix.mul(e.clone(), self.ix.lit(size)),
            other => panic!("window: {index:?} is no tile index but {other:?}"),
        }
    }

    /// Extent of the window's tile along an axis.
    pub fn window_size(&self, window: &WindowRep, axis: usize) -> i64 {
        match self.kernel.ty(window.index[axis]) {
            Ty::TileIndex(size) => *size,
            _ => 1,
        }
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
                    let walked = self.length(window.index[k]);
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
                    guards.extend(upper[k].then(|| self.before_end(window, k, &tested[k])));
                }
            }
            terms.push((at, self.index_of(view.axes[k].stride)));
        }
        let offset = self.index_of(view.offset);
        let address = self.linear(offset, terms);
        (self.place(window.view, address), all(guards))
    }

    /// Whether a coordinate of a window's view, which is none before its first one, is one of those that are read.
    pub fn before_end(&mut self, window: &WindowRep, axis: usize, at: &Expr) -> Expr {
        match self.walked_by(window, axis) {
            Some(walked) => walked.has(at),
            None => compare(CompareOp::Lt, at.clone(), self.window_len(window, axis)),
        }
    }

    /// Whether the tile that a window lies about is surely whole along an axis: a full one of the grid, or one of tiles that divide the
    /// length that is walked.
    pub fn tile_lies_inside(&mut self, window: &WindowRep, axis: usize) -> bool {
        let index = window.index[axis];
        if !self.kernel.is_tile_index(index) {
            return true;
        }
        if self.mode == Mode::Full && self.grid_vars.contains(&index) {
            return true;
        }
        // One block of a grid that combines runs in any case: its first tile need not be there.
        if self.grid_vars.contains(&index) && self.runs_anyway() {
            return false;
        }
        let (walked, size) = (self.length(index), self.window_size(window, axis));
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
        self.walked_by(window, axis).map_or(own, |walked| crate::block::gcd(own, self.walked_multiple(&walked)))
    }

    /// Whether the loop walks an axis of just this length.
    pub fn walks_itself(&mut self, window: &WindowRep, axis: usize) -> bool {
        if !self.kernel.is_tile_index(window.index[axis]) {
            return true;
        }
        let walked = self.length(window.index[axis]);
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
