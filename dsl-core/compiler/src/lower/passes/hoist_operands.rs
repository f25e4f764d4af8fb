//! Operands of dots on matrix units are loaded where they first can be. What every turn of a loop would load again is copied to shared memory
//! once, before the loop. And what is loaded in a loop that takes one turn belongs to the loop around it, which then copies it ahead with its
//! own operands. Both go together in an attention whose rows fit one tile: its queries stay, its keys and values share one ring.

use crate::analyses::dots::Dots;
use crate::analyses::uses::{count, written_params};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::print::definitions;
use girih_ir::tile::{Block, Index, Kernel, Op, Stmt, ValueId, ViewId};
use std::collections::HashSet;

/// The kernel with its operands loaded as early as they can be; `None` where they are already. `fitting` has the tile indices that are always 0.
pub(crate) fn hoist_operands(kernel: &Kernel, fitting: &HashSet<ValueId>) -> Option<Kernel> {
    let dots = Dots::new(kernel, &count(kernel), &written_params(kernel));
    let mut pass = Pass { kernel, fitting, dots: &dots, moved: false };
    let mut body = kernel.body.clone();
    pass.block(&mut body, false);
    pass.moved.then(|| Kernel { body, ..kernel.clone() })
}

struct Pass<'k> {
    kernel: &'k Kernel,
    fitting: &'k HashSet<ValueId>,
    dots: &'k Dots,
    moved: bool,
}

impl Pass<'_> {
    /// `in_loop`: turns of a loop other than the grid's come here.
    fn block(&mut self, block: &mut Block, in_loop: bool) {
        for mut stmt in std::mem::take(block) {
            match &mut stmt {
                Stmt::Tiles(l) => {
                    let grid = self.kernel.grid_loop().is_some_and(|grid| grid.vars == l.vars);
                    let once = l.vars.iter().all(|v| self.fitting.contains(v));
                    self.block(&mut l.body, in_loop || !(grid || once));
                    // Alone in a tile of the grid, a loop of one turn loads as well.
                    if !grid && (in_loop || !once) {
                        block.extend(self.taken(&mut stmt));
                    }
                }
                Stmt::Range { body, .. } => {
                    self.block(body, true);
                    block.extend(self.taken(&mut stmt));
                }
                Stmt::While { body, .. } => self.block(body, true),
                Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| self.block(b, in_loop)),
                Stmt::Where { .. } | Stmt::Let(..) | Stmt::Combine(_) | Stmt::Shared(_) | Stmt::Barrier { .. } => {}
                Stmt::Copies { .. } | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
            }
            block.push(stmt);
        }
    }

    /// The loads of a loop's body that need nothing of the loop.
    fn taken(&mut self, stmt: &mut Stmt) -> Vec<Stmt> {
        let mut made = Vec::new();
        definitions(std::slice::from_ref(stmt), &mut made);
        let made: HashSet<ValueId> = made.into_iter().map(|(v, _)| v).collect();
        let (Stmt::Tiles(girih_ir::tile::TileLoop { body, .. }) | Stmt::Range { body, .. }) = stmt else { return vec![] };
        let moves = |stmt: &Stmt| {
            let Stmt::Let(v, Op::Load(view, index)) = stmt else { return false };
            self.dots.is_load(*v) && self.is_known(*view, index, &made)
        };
        let (taken, left): (Vec<Stmt>, Vec<Stmt>) = std::mem::take(body).into_iter().partition(moves);
        *body = left;
        self.moved |= !taken.is_empty();
        taken
    }

    /// Whether a place needs none of these values.
    fn is_known(&self, view: ViewId, index: &[Index], made: &HashSet<ValueId>) -> bool {
        let view = self.kernel.view(view);
        let free = |v: &ValueId| !made.contains(v) || HostExpr::of_value(self.kernel, *v).is_some();
        let places = index.iter().all(|i| match i {
            Index::Tile(v) => self.fitting.contains(v) || !made.contains(v),
            Index::At(v) => free(v),
            Index::All(_) => true,
        });
        places && free(&view.offset) && view.axes.iter().all(|axis| free(&axis.len) && free(&axis.stride))
    }
}
