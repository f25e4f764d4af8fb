//! Tiles whose sums several blocks share (`split`): which turns a block takes, and how the last one to have its part adds them all up.
//!
//! A block that does not have all turns of a tile leaves what it has in a workspace and counts itself there. Whoever finds that all parts are
//! there adds them in the order of the turns, so that the result does not depend on who it is, and goes on with the rest of the body.
//! Nobody waits for anybody.

use super::context::{Expanded, Expander, Mode};
use super::control::Carried;
use super::grid::grid_of;
use super::index::{Index, binary, compare};
use super::splitk_fixup::{Parts, Sum};
use super::turns::Turns;
use crate::block::HostExpr;
use crate::block::{self, Block, Loop, Split, ValueId};
use girih_ir::simt::{Expr, Special, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};

/// Places in workspaces: with several parts of each element these outgrow the indices of tensors.
const WIDE: Index = Index { dtype: DType::I64 };
/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

/// The turns of the shared loop that a block takes of a tile.
#[derive(Clone)]
pub(crate) struct Share {
    /// The tile indices of the loop.
    pub vars: Vec<ValueId>,
    pub turns: Turns,
    /// These are the first turns of the tile: sums start at what they start at.
    pub is_first: Expr,
}

/// What a block has where all turns of all tiles are dealt out.
struct Run {
    /// Turns of a block.
    length: Expr,
    /// Turns of a tile.
    turns: Expr,
    block: Expr,
}

impl Expander<'_> {
    /// The turns of a loop that this block takes, if blocks share them.
    pub fn shared_turns(&self, l: &Loop) -> Option<Turns> {
        self.share.as_ref().filter(|s| s.vars == l.vars).map(|s| s.turns.clone())
    }

    /// Sums whose first turns another block takes start at zero here.
    pub fn start_shared(&mut self, l: &Loop, carried: &[Carried]) {
        let Some(share) = self.share.clone().filter(|s| s.vars == l.vars) else { return };
        let elsewhere = l.carries.iter().zip(carried).filter(|(c, _)| !c.from_zero);
        let started: Vec<(VarId, DType, i64)> =
            elsewhere.map(|(c, s)| (s.var, self.register_type(c.init), s.layout.as_ref().map_or(1, |layout| layout.registers))).collect();
        if started.is_empty() {
            return;
        }
        self.comment("the first turns start at what is there, all others at zero");
        self.open();
        for (var, dtype, registers) in started {
            let zero = Expr::Literal(Literal { dtype, bits: 0 });
            self.each_run(registers, 1, &mut |cx, at| {
                let index = (registers > 1).then_some(at);
                cx.emit(Stmt::Assign { var, index, value: zero.clone() });
            });
        }
        let then = self.close();
        self.emit(Stmt::If { condition: super::values::not(share.is_first), then, otherwise: vec![] });
    }

    /// Lowers a grid loop whose tiles are shared.
    pub fn split_k_grid(&mut self, l: &Loop, split: Split) -> Expanded<()> {
        let counts = self.tile_counts(l);
        let block = self.block_index();
        self.mode = if grid_of(l).divides { Mode::Full } else { Mode::Tail };
        let before = self.values.clone();
        match split {
            Split::SplitK(parts) => self.split_k_tiles(l, &counts, block, parts)?,
            Split::StreamK(_) => self.stream_k_tiles(l, &counts, block)?,
        }
        self.values = before;
        self.mode = Mode::Tail;
        Ok(())
    }

    /// A block for each part of each tile, or parts dealt to blocks.
    fn split_k_tiles(&mut self, l: &Loop, counts: &[Expr], block: Expr, parts: i64) -> Expanded<()> {
        if self.kernel.launch.dealt == 0 {
            self.comment(format!("split = {parts}: as many blocks share a tile, each takes a part of the turns of its sum"));
            self.begin_by_hand(l, false);
            return self.part_of_tile(l, counts, block, parts);
        }
        let end = self.host_param(&self.slots_of_parts(l, parts), "parts");
        let stride = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
        let step = self.ix.cast(DType::I32, stride);
        self.comment(format!("split = {parts}: a tile has as many parts, each takes a part of the turns of its sum"));
        self.dealt("parts");
        let counter = self.new_var("n", self.ix.dtype, None);
        let outer = self.enter_turn();
        self.begin_by_hand(l, true);
        self.part_of_tile(l, counts, Expr::Var(counter), parts)?;
        let body = self.leave_turn(outer);
        self.emit(Stmt::For { var: counter, start: block, end, step, unroll: false, body });
        Ok(())
    }

    fn slots_of_parts(&self, l: &Loop, parts: i64) -> HostExpr {
        HostExpr::binary(BinaryOp::Mul, grid_of(l).total.clone(), HostExpr::Const(parts))
    }

    /// Part `number % parts` of tile `number / parts`.
    fn part_of_tile(&mut self, l: &Loop, counts: &[Expr], number: Expr, parts: i64) -> Expanded<()> {
        let ix = self.ix;
        let tile = self.declare_let("tile", ix.dtype, ix.div(number.clone(), parts));
        let part = self.declare_let("part", ix.dtype, ix.rem(number.clone(), parts));
        self.set_tiles(l, tile.clone(), counts);
        let (inner, rest) = self.before_shared(l)?;
        let mut turns = self.turns(inner);
        let each = self.declare_let("share", ix.dtype, ix.div(ix.add(turns.end.clone(), ix.lit(parts - 1)), parts));
        let all = turns.end.clone();
        turns.start = self.declare_let("from", ix.dtype, binary(BinaryOp::Min, ix.mul(part.clone(), each.clone()), all.clone()));
        turns.end = self.declare_let("to", ix.dtype, binary(BinaryOp::Min, ix.add(turns.start.clone(), each), all));
        let is_first = compare(CompareOp::Eq, part.clone(), ix.lit(0));
        let slots = self.slots_of_parts(l, parts);
        let sums = self.take_share(inner, Share { vars: inner.vars.clone(), turns, is_first }, &slots)?;
        let parts = Parts { tile, own: number.clone(), count: LOCAL.lit(parts), first: ix.sub(number, part) };
        let (last, counter) = self.leave_parts(l, &parts, &sums);
        self.open();
        let first = parts.first.clone();
        self.add_parts(&parts, &sums, &|n| WIDE.add(WIDE.cast(ix.dtype, first.clone()), WIDE.cast(DType::I32, n)));
        self.clear_counter(counter, parts.tile.clone());
        self.lower_block(rest)?;
        let then = self.close();
        self.emit(Stmt::If { condition: last, then, otherwise: vec![] });
        Ok(())
    }

    /// Blocks that have equally many of the turns of all tiles, one tile after the other.
    fn stream_k_tiles(&mut self, l: &Loop, counts: &[Expr], block: Expr) -> Expanded<()> {
        let ix = self.ix;
        let tiles = self.host_param(&grid_of(l).total, "tiles");
        let (_, inner) = self.shared_loop(l).unwrap_or_else(|| panic!("parts: no loop to share in\n{}", self.kernel));
        let of_loop = self.turns(inner);
        self.comment("split = 0: as many blocks as fit share the turns of all tiles; each takes a run of them, one tile after the other");
        // A tile without turns has to be stored, too.
        let turns = self.declare_let("turns", ix.dtype, binary(BinaryOp::Max, of_loop.end.clone(), ix.lit(1)));
        let length = grid_of(l).run.as_ref().unwrap_or_else(|| panic!("parts: nobody has counted a block's turns"));
        let run = Run { length: self.host_param(length, "run"), turns, block };
        // What a block and a run's turns make is no more than an index: the host takes fewer blocks else.
        let whole = self.declare_let("run_tiles", ix.dtype, binary(BinaryOp::Div, run.length.clone(), run.turns.clone()));
        let rest = self.declare_let("run_turns", ix.dtype, binary(BinaryOp::Rem, run.length.clone(), run.turns.clone()));
        let begin = ix.mul(run.block.clone(), rest);
        let tile = ix.add(ix.mul(run.block.clone(), whole), binary(BinaryOp::Div, begin.clone(), run.turns.clone()));
        let tile_var = self.variable("tile", ix.dtype, tile);
        let from_var = self.variable("from", ix.dtype, binary(BinaryOp::Rem, begin, run.turns.clone()));
        let left_var = self.variable("left", ix.dtype, run.length.clone());
        let (tile, from, left) = (Expr::Var(tile_var), Expr::Var(from_var), Expr::Var(left_var));
        let outer = self.enter_turn();
        self.begin_by_hand(l, true);
        self.set_tiles(l, tile.clone(), counts);
        let (inner, rest) = self.before_shared(l)?;
        let to = self.declare_let("to", ix.dtype, binary(BinaryOp::Min, ix.add(from.clone(), left.clone()), run.turns.clone()));
        let end = self.declare_let("end", ix.dtype, binary(BinaryOp::Min, to.clone(), of_loop.end.clone()));
        let is_first = compare(CompareOp::Eq, from.clone(), ix.lit(0));
        let share = Share { vars: inner.vars.clone(), turns: Turns { start: from.clone(), end, ..of_loop }, is_first };
        let slots = HostExpr::binary(BinaryOp::Mul, self.kernel.launch.grid.clone(), HostExpr::Const(2));
        let sums = self.take_share(inner, share, &slots)?;
        let taken = self.declare_let("taken", ix.dtype, ix.sub(to.clone(), from.clone()));
        let complete = self.variable("complete", DType::Bool, compare(CompareOp::Eq, taken.clone(), run.turns.clone()));
        self.open();
        self.complete_tile(l, &run, [&tile, &from, &to], &sums, complete);
        let then = self.close();
        self.emit(Stmt::If { condition: super::values::not(Expr::Var(complete)), then, otherwise: vec![] });
        self.open();
        self.lower_block(rest)?;
        let then = self.close();
        self.emit(Stmt::If { condition: Expr::Var(complete), then, otherwise: vec![] });
        self.emit(Stmt::Assign { var: left_var, index: None, value: ix.sub(left.clone(), taken) });
        self.emit(Stmt::Assign { var: from_var, index: None, value: ix.lit(0) });
        self.emit(Stmt::Assign { var: tile_var, index: None, value: ix.add(tile.clone(), ix.lit(1)) });
        let body = self.leave_turn(outer);
        let more = binary(BinaryOp::And, compare(CompareOp::Gt, left, ix.lit(0)), compare(CompareOp::Lt, tile, tiles));
        self.emit(Stmt::While { header: vec![], condition: more, body });
        Ok(())
    }

    /// Leaves what this block has of a tile of which others have the rest. Whoever is the last has it complete then.
    ///
    /// A block leaves two parts at most: of the tile that it begins within (slot 0 of its own), and of the one that it does not end (slot 1).
    fn complete_tile(&mut self, l: &Loop, run: &Run, [tile, from, to]: [&Expr; 3], sums: &[Sum], complete: VarId) {
        let ix = self.ix;
        let one_less = ix.sub(run.length.clone(), ix.lit(1));
        let blocks_of = |turns: Expr| binary(BinaryOp::Div, ix.add(turns, one_less.clone()), run.length.clone());
        let before = self.declare_let("before", ix.dtype, blocks_of(from.clone()));
        let behind = self.declare_let("behind", ix.dtype, blocks_of(ix.sub(run.turns.clone(), to.clone())));
        let first = self.declare_let("first", ix.dtype, ix.sub(run.block.clone(), before.clone()));
        let count = ix.add(ix.add(before.clone(), behind), ix.lit(1));
        let count = self.declare_let("count", DType::I32, LOCAL.cast(ix.dtype, count));
        let begins = compare(CompareOp::Eq, from.clone(), ix.lit(0));
        let own = Expr::Select(Box::new(begins), Box::new(ix.lit(1)), Box::new(ix.lit(0)));
        let parts = Parts {
            tile: tile.clone(),
            own: ix.add(ix.mul(run.block.clone(), ix.lit(2)), own),
            count,
            first: ix.add(ix.mul(first.clone(), ix.lit(2)), ix.lit(1)),
        };
        let (last, counter) = self.leave_parts(l, &parts, sums);
        self.open();
        let later = |n: Expr| WIDE.mul(WIDE.add(WIDE.cast(ix.dtype, first.clone()), WIDE.cast(DType::I32, n)), WIDE.lit(2));
        self.add_parts(&parts, sums, &later);
        self.clear_counter(counter, tile.clone());
        self.emit(Stmt::Assign { var: complete, index: None, value: Expr::Literal(Literal::bool(true)) });
        let then = self.close();
        self.emit(Stmt::If { condition: last, then, otherwise: vec![] });
    }

    /// A variable that changes.
    fn variable(&mut self, name: &str, dtype: DType, init: Expr) -> VarId {
        let var = self.new_var(name, dtype, None);
        self.emit(Stmt::Declare { var, init: Some(init) });
        var
    }

    /// Lowers what a tile does before its shared loop: the loop, and what follows it.
    pub fn before_shared<'l>(&mut self, l: &'l Loop) -> Expanded<(&'l Loop, &'l [block::Stmt])> {
        let (at, inner) = self.shared_loop(l).unwrap_or_else(|| panic!("parts: no loop to share in\n{}", self.kernel));
        self.lower_block(&l.body[..at])?;
        Ok((inner, &l.body[at + 1..]))
    }

    /// Lowers the shared loop for the turns of this block: the sums that it carries.
    fn take_share(&mut self, inner: &Loop, share: Share, slots: &HostExpr) -> Expanded<Vec<Sum>> {
        self.take_turns(inner, share)?;
        Ok(inner.carries.iter().map(|c| self.sum(c.result, slots)).collect())
    }

    /// Lowers the shared loop for some of its turns.
    pub fn take_turns(&mut self, inner: &Loop, share: Share) -> Expanded<()> {
        self.share = Some(share);
        let only: Block = vec![block::Stmt::Loop(inner.clone())];
        let lowered = self.lower_block(&only);
        self.share = None;
        lowered
    }
}
