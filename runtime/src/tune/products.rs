//! The work of kernels that multiply tiles. A reduced size with fewer tiles than multiprocessors says little about them, and a product
//! that is large enough to fill a GPU takes seconds to simulate. So one tile of the result is simulated, with few turns along the sum and
//! with a few more: what the further turns add is what every turn costs, and every tile costs the same.

use girih_core::model::Work;
use girih_core::program::walk::{LaunchArg, Region};
use girih_core::schedule::{KnobKind, Schedule};
use girih_core::simt;
use girih_core::tile::access::{tile_size, visit};
use girih_core::tile::host::HostExpr;
use girih_core::tile::{Index, Kernel, Op, Size, Stmt, ValueId, View};
use std::collections::HashMap;

/// Tensor lengths are multiples of this where facts promise anything.
const PROMISED: i64 = 16;

/// An axis that a kernel walks in tiles: lengths of tensors that are one and the same.
struct Axis {
    dims: Vec<(usize, usize)>,
    sizes: Vec<Size>,
    /// Walked by every block, rather than by the grid.
    inner: bool,
}

/// The axes of a kernel with dots of which exactly one is walked by every block.
pub(super) struct Axes(Vec<Axis>);

/// A launch of one tile of the result, and how far along the sum it goes.
pub(super) struct Part {
    /// Its arguments.
    pub args: Vec<LaunchArg>,
    /// Elements along the sum.
    pub depth: i64,
}

impl Axes {
    /// `None` where the kernel has no dots, or lengths that none of its loops walks: other ways must do.
    pub fn of(kernel: &Kernel) -> Option<Axes> {
        if !kernel.has_dots() {
            return None;
        }
        let grid = kernel.grid_loop().map(|l| l.vars.clone())?;
        let mut found = Finder { kernel, axes: Vec::new(), of: HashMap::new() };
        let mut known = true;
        visit(&kernel.body, &mut |stmt| {
            known &= match stmt {
                Stmt::Tiles(l) => {
                    let inner = l.vars != grid;
                    l.vars.iter().zip(&l.axes).all(|(var, axis)| found.walk(*var, kernel.view(l.view), *axis, inner))
                }
                Stmt::Let(v, Op::Number(t)) => found.alias(*v, *t),
                Stmt::Let(_, Op::Load(view, index)) => found.touch(kernel.view(*view), index),
                Stmt::Store { view, index, .. } => found.touch(kernel.view(*view), index),
                Stmt::Let(_, Op::Gather(..) | Op::Window { .. }) | Stmt::Range { .. } | Stmt::While { .. } | Stmt::Scatter { .. } => false,
                _ => true,
            };
        });
        let axes = Axes(found.axes);
        (known && axes.0.iter().filter(|a| a.inner).count() == 1).then_some(axes)
    }

    /// A launch that computes one tile of the result in so many turns. `None` where an argument has a length of no known axis.
    pub fn part(&self, args: &[LaunchArg], size: &dyn Fn(&Size) -> i64, turns: i64) -> Option<Part> {
        let mut depth = 0;
        let mut lens: HashMap<(usize, usize), i64> = HashMap::new();
        for axis in &self.0 {
            let tile = axis.sizes.iter().map(size).max()?;
            let promised = (tile + PROMISED - 1) / PROMISED * PROMISED;
            let there =
                axis.dims.iter().find_map(|(p, k)| if let LaunchArg::Tensor(r) = &args[*p] { r.lens.get(*k).copied() } else { None })?;
            let len = there.min(if tile == 1 { 1 } else { promised } * if axis.inner { turns } else { 1 });
            depth = if axis.inner { len } else { depth };
            lens.extend(axis.dims.iter().map(|d| (*d, len)));
        }
        let mut all = Vec::new();
        for (p, arg) in args.iter().enumerate() {
            all.push(match arg {
                LaunchArg::Scalar(l) => LaunchArg::Scalar(*l),
                LaunchArg::Tensor(r) => {
                    let lens: Vec<i64> = (0..r.lens.len()).map(|k| lens.get(&(p, k)).copied()).collect::<Option<_>>()?;
                    let strides = (0..lens.len()).map(|k| lens[k + 1..].iter().product()).collect();
                    LaunchArg::Tensor(Region { offset: 0, lens, strides, ..r.clone() })
                }
            });
        }
        Some(Part { args: all, depth })
    }

    /// Elements along the sum in a launch.
    pub fn depth(&self, args: &[LaunchArg]) -> Option<i64> {
        let (p, k) = *self.0.iter().find(|a| a.inner)?.dims.first()?;
        if let LaunchArg::Tensor(r) = args.get(p)? { r.lens.get(k).copied() } else { None }
    }

    /// Elements along the sum of one turn.
    pub fn turn(&self, size: &dyn Fn(&Size) -> i64) -> i64 {
        self.0.iter().filter(|a| a.inner).flat_map(|a| &a.sizes).map(size).max().unwrap_or(1)
    }
}

struct Finder<'k> {
    kernel: &'k Kernel,
    axes: Vec<Axis>,
    /// The axis of a tile index, or of its number.
    of: HashMap<ValueId, usize>,
}

impl Finder<'_> {
    fn dim(&self, view: &View, axis: usize) -> Option<(usize, usize)> {
        match HostExpr::of_value(self.kernel, view.axes[axis].len)? {
            HostExpr::Dim(p, k) => Some((p, k)),
            _ => None,
        }
    }

    fn walk(&mut self, var: ValueId, view: &View, axis: usize, inner: bool) -> bool {
        let Some(dim) = self.dim(view, axis) else { return false };
        let at = self.axes.iter().position(|a| a.dims.contains(&dim)).unwrap_or_else(|| {
            self.axes.push(Axis { dims: vec![dim], sizes: vec![], inner });
            self.axes.len() - 1
        });
        self.axes[at].sizes.push(tile_size(self.kernel, var).clone());
        self.of.insert(var, at);
        self.axes[at].inner == inner
    }

    fn alias(&mut self, number: ValueId, tile: ValueId) -> bool {
        let axis = self.of.get(&tile).copied();
        axis.is_some_and(|a| self.of.insert(number, a).is_none())
    }

    fn touch(&mut self, view: &View, index: &[Index]) -> bool {
        for (k, i) in index.iter().enumerate() {
            let (Index::Tile(v) | Index::At(v)) = i else { return false };
            let (Some(axis), Some(dim)) = (self.of.get(v).copied(), self.dim(view, k)) else { return false };
            match self.axes.iter().position(|a| a.dims.contains(&dim)) {
                Some(there) if there != axis => return false,
                Some(_) => {}
                None => self.axes[axis].dims.push(dim),
            }
        }
        true
    }
}

/// The work of the whole launch: `few` turns of one tile (of `blocks.0` blocks) and `more`, and how many there are of both.
pub(super) fn whole(few: (Work, i64), more: (Work, i64), depth: i64, blocks: (i64, i64)) -> Work {
    let steps = if more.1 > few.1 { (depth - few.1) as f64 / (more.1 - few.1) as f64 } else { 0.0 };
    let times = blocks.1 as f64 / blocks.0.max(1) as f64;
    few.0.with(&more.0, &|a, b| (a + (b - a) * steps).max(0.0) * times)
}

/// A guess at a thread's registers: its arrays, and what addresses and counters take.
pub(super) fn registers(kernel: &simt::Kernel) -> u32 {
    let arrays: u32 = kernel.vars.iter().filter_map(|v| v.len.map(|n| n * v.dtype.size() as u32)).sum();
    40 + arrays / 4
}

/// Whether copies of later turns are on their way while a turn computes.
pub(super) fn runs_ahead(kernel: &Kernel, schedule: &Schedule) -> bool {
    schedule.int_of_kind(kernel, KnobKind::Stages, 1) > 1
}
