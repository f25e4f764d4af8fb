//! Rows that fit: a loop over the tiles of an axis that is no longer than one tile takes one turn.
//!
//! The facts bound the axis (see [`Facts::bounded`]). Such loops over equal lengths by equal tiles get the same tile index, and what one of
//! them has loaded the later ones use again: a row that is walked three times is read once and stays in registers. Tensors that the kernel
//! stores to are loaded again, as the text says.

use crate::analyses::uses::written_params;
use girih_ir::facts::Facts;
use girih_ir::tile::access::{dim_classes, tile_size};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::substitute;
use girih_ir::tile::{Block, Index, Kernel, KnobId, Op, Size, Stmt, TileLoop, ValueId, ViewId};
use std::collections::{HashMap, HashSet};

/// The kernel with shared tile indices and loads, and its tile indices that are always 0; `None` if no axis is known to fit. Axes by tiles
/// that are `one_by_one` are walked element by element.
pub(crate) fn fit(kernel: &Kernel, facts: &Facts, knobs: &[i64], one_by_one: &[KnobId]) -> Option<(Kernel, HashSet<ValueId>)> {
    if facts.tensors.iter().flatten().all(|t| t.most.is_empty()) {
        return None;
    }
    let grid = kernel.grid_loop().map(|l| l.vars.clone()).unwrap_or_default();
    let mut pass = Pass {
        one_by_one,
        kernel,
        facts,
        knobs,
        grid,
        classes: dim_classes(kernel),
        written: written_params(kernel),
        tiles: HashMap::new(),
        same: HashMap::new(),
        fitting: HashSet::new(),
    };
    let mut body = kernel.body.clone();
    pass.block(&mut body, &mut Vec::new());
    let same = &pass.same;
    substitute::block(&mut body, &|v| *v = same.get(v).copied().unwrap_or(*v));
    (!pass.fitting.is_empty()).then(|| (Kernel { body, ..kernel.clone() }, pass.fitting))
}

/// What has been loaded where: by view and indices.
type Loaded = Vec<(ViewId, Vec<Index>, ValueId)>;

struct Pass<'k> {
    kernel: &'k Kernel,
    facts: &'k Facts,
    /// The numbers of the schedule.
    knobs: &'k [i64],
    grid: Vec<ValueId>,
    classes: HashMap<(usize, usize), (usize, usize)>,
    written: Vec<bool>,
    /// Tiles of axes that are walked element by element.
    one_by_one: &'k [KnobId],
    /// The tile index that stands for all of an axis by tiles of a size.
    tiles: HashMap<((usize, usize), Size), ValueId>,
    /// What stands for a value.
    same: HashMap<ValueId, ValueId>,
    fitting: HashSet<ValueId>,
}

impl Pass<'_> {
    /// Takes statements out that an earlier one has done. `loaded` has what the others may use again.
    fn block(&mut self, block: &mut Block, loaded: &mut Loaded) {
        block.retain_mut(|stmt| self.stmt(stmt, loaded));
    }

    /// `false` where an earlier statement has done this one's work.
    fn stmt(&mut self, stmt: &mut Stmt, loaded: &mut Loaded) -> bool {
        match stmt {
            Stmt::Let(value, Op::Load(view, index)) => return self.load(*value, *view, index, loaded),
            Stmt::Tiles(l) => {
                if l.vars != self.grid && self.fits(l) {
                    self.block(&mut l.body, loaded);
                } else {
                    self.block(&mut l.body, &mut loaded.clone());
                }
            }
            Stmt::Range { body, .. } => self.block(body, &mut loaded.clone()),
            Stmt::While { header, body, .. } => {
                self.block(header, &mut loaded.clone());
                self.block(body, &mut loaded.clone());
            }
            Stmt::If { then, otherwise, .. } => {
                self.block(then, &mut loaded.clone());
                self.block(otherwise, &mut loaded.clone());
            }
            // Elements loaded on one side of a choice are absent on the other.
            Stmt::Where { body, .. } => self.block(body, &mut Vec::new()),
            Stmt::Let(..) | Stmt::Combine(_) | Stmt::Shared(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
        }
        true
    }

    /// Looks for an earlier load of the same elements, of a tensor that is never stored to.
    fn load(&mut self, value: ValueId, view: ViewId, index: &[Index], loaded: &mut Loaded) -> bool {
        if self.written[self.kernel.view(view).param] {
            return true;
        }
        let of = |v: &ValueId| self.same.get(v).copied().unwrap_or(*v);
        let index: Vec<Index> = index
            .iter()
            .map(|i| match i {
                Index::Tile(v) => Index::Tile(of(v)),
                Index::At(v) => Index::At(of(v)),
                Index::All(n) => Index::All(*n),
            })
            .collect();
        let earlier = loaded.iter().find(|(v, i, _)| *v == view && *i == index).map(|(_, _, value)| *value);
        match earlier {
            Some(earlier) => drop(self.same.insert(value, earlier)),
            None => loaded.push((view, index, value)),
        }
        earlier.is_none()
    }

    /// Whether one tile spans each axis of a loop; its tile indices are then those of the first such loop.
    fn fits(&mut self, l: &mut TileLoop) -> bool {
        if l.span.is_some() {
            // It may take no turn.
            return false;
        }
        let mut axes = Vec::new();
        for (var, axis) in l.vars.iter().zip(&l.axes) {
            let len = self.kernel.view(l.view).axes[*axis].len;
            let Some(HostExpr::Dim(p, k)) = HostExpr::of_value(self.kernel, len) else { return false };
            let size = tile_size(self.kernel, *var).clone();
            if size.as_knob().is_some_and(|k| self.one_by_one.contains(&k)) {
                return false;
            }
            let Some(most) = self.facts.most(p, k) else { return false };
            if most > size.value(|knob| self.knobs[knob.0 as usize]) {
                return false;
            }
            axes.push((self.classes.get(&(p, k)).copied().unwrap_or((p, k)), size));
        }
        for (var, axis) in l.vars.iter_mut().zip(axes) {
            let first = *self.tiles.entry(axis).or_insert(*var);
            self.fitting.insert(first);
            if first != *var {
                self.same.insert(*var, first);
                *var = first;
            }
        }
        true
    }
}
