//! The turns of a loop over tiles that a block takes, counted in one loop whatever the number of axes.

use super::context::{Expander, Rep};
use super::index::binary;
use crate::block::Loop;
use girih_ir::simt::Expr;
use girih_ir::types::BinaryOp;

/// The turns of a loop over tiles, as one loop.
#[derive(Clone)]
pub(crate) struct Turns {
    /// Tiles along each axis.
    pub counts: Vec<Expr>,
    /// The first turn: 0, unless blocks share them, or the loop keeps to some positions.
    pub start: Expr,
    /// One past the last.
    pub end: Expr,
}

impl Expander<'_> {
    /// The turns that this block takes of a loop: all, unless blocks share them.
    pub fn turns(&mut self, l: &Loop) -> Turns {
        if let Some(own) = self.shared_turns(l) {
            return own;
        }
        let (mut counts, mut total) = (Vec::new(), self.ix.lit(1));
        for (along, var) in l.vars.iter().enumerate() {
            let (start, tiles) = self.tiles_walked(l, along);
            if l.span.is_some() {
                return Turns { counts: vec![tiles.clone()], start, end: tiles };
            }
            let name = format!("{}_tiles", self.name_of(*var, "axis"));
            let count = self.declare_let(&name, self.ix.dtype, tiles);
            total = self.ix.mul(total, count.clone());
            counts.push(count);
        }
        let total = if l.vars.len() > 1 { self.declare_let("turns", self.ix.dtype, total) } else { total };
        Turns { counts, start: self.ix.lit(0), end: total }
    }

    /// Sets the tile indices of a turn, the last axis fastest.
    pub fn set_turn(&mut self, l: &Loop, turns: &Turns, number: Expr) {
        let mut left = number;
        for k in (1..l.vars.len()).rev() {
            let name = self.name_of(l.vars[k], "tile");
            let index = self.declare_let(&name, self.ix.dtype, binary(BinaryOp::Rem, left.clone(), turns.counts[k].clone()));
            self.set(l.vars[k], Rep::TileIndex(index));
            left = binary(BinaryOp::Div, left, turns.counts[k].clone());
        }
        let name = self.name_of(l.vars[0], "tile");
        let first = self.declare_let(&name, self.ix.dtype, left);
        self.set(l.vars[0], Rep::TileIndex(first));
    }
}
