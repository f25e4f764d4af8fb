//! Blocks that work together on a tile of the grid (`cluster`): their turns, what they reduce together, and what one of them does for all.
//!
//! A reduction ends in another step: each block leaves what it has in its own shared memory, all meet, and each reads the parts of all blocks
//! in their order, so that all have the same bits. Each reduction has arrays of its own, so nobody waits for those who read; but at the end of
//! the tile all meet once more, as a block whose memory others read may not end.

use super::combine::int;
use super::context::{Expanded, Expander};
use super::elements::unrolled;
use super::exchange::Meeting;
use super::grid::grid_of;
use super::index::{Index, all, compare};
use crate::block::steps::Step;
use crate::block::{self, Combine, Form, Loop, Range};
use girih_ir::simt::{Barrier, Expr, Place, Space, Stmt, VarId};
use girih_ir::types::{CompareOp, DType};

impl Expander<'_> {
    /// The tile of the grid for a block: all blocks of a cluster have the same.
    pub fn tile_of_cluster(&mut self, block: Expr) -> Expr {
        let (ix, blocks) = (self.ix, self.kernel.launch.cluster);
        if blocks == 1 {
            return block;
        }
        self.comment(format!("cluster = {blocks}: as many blocks share a tile, and take the turns of its loops one after the other"));
        let number = self.declare_let("cluster_block", ix.dtype, ix.rem(block.clone(), blocks));
        self.in_cluster = Some(number);
        ix.div(block, blocks)
    }

    /// The first turn of a loop that this block takes, and how far on the next one is.
    pub fn turns_of_block(&self, range: Range, first: Expr) -> (Expr, Expr) {
        match range {
            Range::Cluster(blocks) => (self.ix.add(first, self.number_in_cluster()), self.ix.lit(blocks)),
            _ => (first, self.ix.lit(1)),
        }
    }

    /// The block's number in a cluster of blocks at neighbouring tiles.
    pub fn begin_neighbours(&mut self, l: &Loop, block: &Expr) {
        if let Some(n) = grid_of(l).neighbours {
            self.comment(format!("cluster = {}: as many blocks at neighbouring tiles copy for each other", n.blocks));
            let number = self.declare_let("cluster_block", self.ix.dtype, self.ix.rem(block.clone(), n.blocks));
            self.in_cluster = Some(number);
        }
    }

    /// The end of the block's tiles, among those who copied to its shared memory and arrived at its barriers.
    pub fn end_neighbours(&mut self, l: &Loop) {
        if grid_of(l).neighbours.is_some() {
            self.comment("no block ends while others may copy to it, or arrive at its barriers");
            self.emit(Stmt::Barrier(Barrier::Cluster));
        }
    }

    /// Which part of what all blocks read this one brings.
    pub fn part_of_cluster(&self) -> Expr {
        Index { dtype: DType::I32 }.cast(self.ix.dtype, self.number_in_cluster())
    }

    fn number_in_cluster(&self) -> Expr {
        self.in_cluster.clone().unwrap_or_else(|| panic!("cluster: no tile of the grid has begun in\n{}", self.kernel))
    }

    /// What one block does for all of the cluster.
    pub fn by_first_block(&mut self, does: &mut dyn FnMut(&mut Self) -> Expanded<()>) -> Expanded<()> {
        let before = self.values.clone();
        self.open();
        does(self)?;
        let then = self.close();
        self.values = before;
        let condition = compare(CompareOp::Eq, self.number_in_cluster(), self.ix.lit(0));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        Ok(())
    }

    /// Reduces what the block has, and then what the blocks of the cluster have.
    pub fn reduce_over_cluster(&mut self, c: &Combine) -> Expanded<()> {
        let Form::Reduce { axes } = &c.form else { panic!("cluster: a combination that is no reduction in\n{}", self.kernel) };
        let (mut partial, steps, result) = self.begin_reduction(c, axes)?;
        let reduced = threads_of(&steps);
        self.take_steps(c, &mut partial, steps)?;
        self.comment(format!("combine {} parts of the cluster through shared memory", self.kernel.launch.cluster));
        let first = |(stride, extent): &(i64, i64)| compare(CompareOp::Eq, self.thread_part(*stride, *extent), int(0));
        let writer = all(reduced.iter().map(first));
        let meeting = self.arrange_meeting(&partial, &reduced, &[]);
        for (array, var) in meeting.arrays.iter().zip(&partial.vars) {
            self.shared[array.0 as usize].name = format!("{}_of_block", self.vars[var.0 as usize].name);
        }
        self.leave_for_group(&partial, &meeting, &writer)?;
        self.emit(Stmt::Barrier(Barrier::Cluster));
        let vars = partial.vars.clone();
        self.each_slot(partial.layout.registers, &mut |cx, slot| {
            let reads: Vec<VarId> = (0..vars.len()).map(|k| cx.read_blocks(vars[k], k, &meeting, slot)).collect();
            cx.combine_read(c, (&vars, slot), &reads, cx.kernel.launch.cluster)
        })?;
        self.end_reduction(c, &partial, &result);
        Ok(())
    }

    /// The end of a tile of the grid, for whose reductions blocks have read one another's shared memory.
    pub fn end_cluster(&mut self, l: &Loop) {
        let mut reads = false;
        block::visit(&l.body, &mut |s| reads |= matches!(s, block::Stmt::OverCluster(_)));
        if reads {
            self.comment("no block ends while others may read what it has left");
            self.emit(Stmt::Barrier(Barrier::Cluster));
        }
    }

    /// What each block of the cluster has left of a component, in their order: an array.
    fn read_blocks(&mut self, like: VarId, component: usize, meeting: &Meeting, slot: Option<&Expr>) -> VarId {
        let (blocks, own) = (self.kernel.launch.cluster, self.vars[like.0 as usize].clone());
        let name = format!("{}_blocks", own.name);
        let read = self.new_var(&name, own.dtype, Some(blocks as u32));
        self.emit(Stmt::Declare { var: read, init: None });
        let (k, block) = self.loop_var("k");
        let one = self.new_var("part", own.dtype, None);
        let place = Place { space: Space::Shared(meeting.arrays[component]), dtype: own.dtype, index: meeting.first(slot) };
        let turn = vec![
            Stmt::Declare { var: one, init: None },
            Stmt::LoadFromBlock { var: one, place, block: block.clone() },
            Stmt::Assign { var: read, index: Some(block), value: Expr::Var(one) },
        ];
        self.emit(unrolled(k, blocks, turn));
        read
    }
}

/// The digits of threads over which steps combine: stride and extent, neighbouring ones as one.
fn threads_of(steps: &[Step]) -> Vec<(i64, i64)> {
    let of = |step: &Step| match step {
        Step::Registers { .. } => vec![],
        Step::Lanes { distance, extent } => vec![(*distance, *extent)],
        Step::Threads(parts) => parts.clone(),
    };
    let mut digits: Vec<(i64, i64)> = steps.iter().flat_map(of).collect();
    digits.sort_unstable();
    digits.dedup_by(|(stride, extent), before| {
        let joins = before.0 * before.1 == *stride;
        before.1 *= if joins { *extent } else { 1 };
        joins
    });
    digits
}
