//! Sums that several blocks share (`split`): whose turns are dealt out, and what must hold for it.
//!
//! A tile of the result may be shared where all that its loop carries is added up: then a block can take some of the turns, beginning at
//! zero, and what the blocks have is added in the order of the turns.

use super::legality::{Broken, Rule};
use super::{Plan, illegal, knob_of_kind};
use crate::analyses::uses::operands;
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::tile::access::{tile_size, visit};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{Block, Form, Kernel, Op, Stmt, TileLoop, Ty, ValueId};
use girih_ir::types::{BinaryOp, DType, TernaryOp};
use std::collections::{HashMap, HashSet};

/// Threads of a multiprocessor that leave each all registers that it can name.
const ROOMY: i64 = 256;

/// How the sums of a kernel are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Split {
    /// So many blocks for each tile of the result, at least 2, each with as many turns of its loop.
    SplitK(i64),
    /// A grid of so many blocks per multiprocessor, each with as many of the turns of all tiles, one tile after the other.
    StreamK(i64),
}

/// Where the shared loop is in the body of the grid loop, and the loop.
pub(crate) fn shared_loop(grid: &TileLoop) -> Option<(usize, &TileLoop)> {
    let loops = loops_with_dots(grid);
    match loops[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// How many blocks share a tile, by the schedule; `None` where each has one of its own. `fitting` has the tile indices of loops of one
/// turn, which there is nothing to share of. Of blocks with `threads` at least `min_blocks` fit a multiprocessor.
pub(crate) fn split(
    kernel: &Kernel,
    schedule: &Schedule,
    fitting: &HashSet<ValueId>,
    threads: i64,
    min_blocks: i64,
) -> Result<Option<Split>, ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::Split) else { return Ok(None) };
    let parts = schedule.int(id);
    if parts == 1 {
        return Ok(None);
    }
    let l = check(kernel).map_err(|broken| illegal(kernel, &[id], parts.to_string(), broken))?;
    if l.vars.iter().all(|v| fitting.contains(v)) {
        return Ok(None);
    }
    if parts > 0 {
        return Ok(Some(Split::SplitK(parts)));
    }
    let blocks = schedule.int_of_kind(kernel, KnobKind::Grid, 0);
    Ok(Some(Split::StreamK(if blocks > 0 { blocks } else { (ROOMY / threads).max(min_blocks) })))
}

/// Blocks of a grid whose blocks share all turns: so many per multiprocessor, but not more than there are turns. `index` is the type of
/// indices.
pub(crate) fn blocks(kernel: &Kernel, plan: &Plan, grid: &TileLoop, (tiles, each): (HostExpr, i64), index: DType) -> HostExpr {
    let turns = turns(kernel, plan, grid);
    let most = most(&turns, each, index);
    HostExpr::binary(BinaryOp::Min, HostExpr::binary(BinaryOp::Mul, tiles, turns), most)
}

/// Turns of each block of such a grid; the last ones have fewer.
pub(crate) fn run(kernel: &Kernel, plan: &Plan, grid: &TileLoop, (tiles, each): (HostExpr, i64), index: DType) -> HostExpr {
    let turns = turns(kernel, plan, grid);
    let most = most(&turns, each, index);
    let beyond = HostExpr::binary(BinaryOp::Sub, most.clone(), HostExpr::Const(1));
    let all = HostExpr::binary(BinaryOp::Mul, tiles, turns);
    HostExpr::binary(BinaryOp::Div, HostExpr::binary(BinaryOp::Add, all, beyond), most)
}

/// Blocks times turns of a tile is an index.
fn most(turns: &HostExpr, each: i64, index: DType) -> HostExpr {
    let fit = HostExpr::binary(BinaryOp::Mul, HostExpr::Multiprocessors, HostExpr::Const(each));
    match index {
        DType::I32 => {
            let indices = HostExpr::binary(BinaryOp::Div, HostExpr::Const(i32::MAX as i64), turns.clone());
            HostExpr::binary(BinaryOp::Min, fit, indices)
        }
        _ => fit,
    }
}

/// Turns of the shared loop for each tile, at least one: a tile without any has to be stored, too.
fn turns(kernel: &Kernel, plan: &Plan, grid: &TileLoop) -> HostExpr {
    let Some((_, l)) = shared_loop(grid) else { return HostExpr::Const(1) };
    let of = |(var, axis): (&ValueId, &usize)| {
        let len = HostExpr::of_value(kernel, kernel.view(l.view).axes[*axis].len).expect("split: the host knows the loop's length");
        HostExpr::ceil_div(len, plan.size(tile_size(kernel, *var)))
    };
    let all = l.vars.iter().zip(&l.axes).map(of).fold(HostExpr::Const(1), |a, b| HostExpr::binary(BinaryOp::Mul, a, b));
    HostExpr::binary(BinaryOp::Max, all, HostExpr::Const(1))
}

/// Whether a carried value starts as zeros.
pub(crate) fn starts_at_zero(ops: &HashMap<ValueId, &Op>, init: ValueId) -> bool {
    let mut at = init;
    loop {
        match ops.get(&at) {
            Some(Op::Splat(of) | Op::Like { value: of, .. } | Op::Broadcast(of, _) | Op::Cast(of)) => at = *of,
            // A negative zero is none: it is lost when zero is added to it.
            Some(Op::Literal(l)) => return l.bits == 0,
            _ => return false,
        }
    }
}

fn loops_with_dots(grid: &TileLoop) -> Vec<(usize, &TileLoop)> {
    let with_dots = |(i, s): (usize, &'_ Stmt)| match s {
        Stmt::Tiles(_) if has_dots(std::slice::from_ref(s)) => Some(i),
        _ => None,
    };
    let places: Vec<usize> = grid.body.iter().enumerate().filter_map(with_dots).collect();
    places.into_iter().filter_map(|i| if let Stmt::Tiles(l) = &grid.body[i] { Some((i, l)) } else { None }).collect()
}

fn has_dots(block: &[Stmt]) -> bool {
    let mut found = false;
    visit(block, &mut |s| found |= matches!(s, Stmt::Let(_, Op::Dot { .. })));
    found
}

/// The loop whose turns can be dealt to several blocks, or why there is none.
pub(crate) fn check(kernel: &Kernel) -> Result<&TileLoop, Broken> {
    let grid = kernel.grid_loop().filter(|_| kernel.has_dots()).ok_or(Rule::SumDots)?;
    let loops = loops_with_dots(grid);
    let [(at, l)] = loops[..] else {
        let found = if loops.is_empty() { "none".to_string() } else { format!("{} of these", loops.len()) };
        return Err(Rule::SumLoop.with(&[&found]));
    };
    if !grid.carries.is_empty() || crate::plan::finish::combines_grid(kernel) {
        return Err(Rule::SumGrid.into());
    }
    let mut early = false;
    visit(&grid.body[..at], &mut |s| early |= matches!(s, Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. }));
    if early {
        return Err(Rule::SumStores.into());
    }
    let known = |axis: &usize| HostExpr::of_value(kernel, kernel.view(l.view).axes[*axis].len).is_some();
    if l.span.is_some() || !l.axes.iter().all(known) {
        return Err(Rule::SumTurns.into());
    }
    check_sums(kernel, l)?;
    Ok(l)
}

/// All that a loop carries is added to, and nothing else is done in it.
fn check_sums(kernel: &Kernel, l: &TileLoop) -> Result<(), Broken> {
    let name = |v: ValueId| match &kernel.value(v).name {
        Some(name) => format!("`{name}`"),
        None => "a value".to_string(),
    };
    let carried = carried(&l.body, l.carries.iter().map(|c| c.inner).collect());
    let mut on_the_way = HashSet::new();
    for c in &l.carries {
        let adds = matches!(kernel.ty(c.init), Ty::Tile(DType::F32 | DType::I32 | DType::U32, _));
        if !adds || !follow(l, c.inner, c.next, &carried, &mut on_the_way) {
            return Err(Rule::SumCarries.with(&[&name(c.inner)]));
        }
    }
    let mut wrong: Option<Broken> = None;
    visit(&l.body, &mut |s| match s {
        Stmt::Let(v, _) if carried.contains(v) && !on_the_way.contains(v) => {
            wrong = wrong.take().or(Some(Rule::SumSoFar.with(&[&name(*v)])));
        }
        Stmt::Combine(c) if c.form == Form::Grid || c.inputs.iter().any(|v| carried.contains(v)) => {
            wrong = wrong.take().or(Some(Rule::SumSoFar.with(&[&name(c.results[0])])));
        }
        Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Shared(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => {
            wrong = wrong.take().or(Some(Rule::SumMore.into()));
        }
        Stmt::If { .. } | Stmt::While { .. } | Stmt::Range { .. } | Stmt::Tiles(_) => {
            wrong = wrong.take().or(Some(Rule::SumBranches.into()));
        }
        Stmt::Let(..) | Stmt::Combine(_) | Stmt::Where { .. } => {}
    });
    wrong.map_or(Ok(()), Err)
}

/// The values of a block that depend on what a loop carries, which are `from`.
fn carried(block: &Block, from: HashSet<ValueId>) -> HashSet<ValueId> {
    let mut found = from;
    visit(block, &mut |s| match s {
        Stmt::Let(v, op) if operands(op).iter().any(|o| found.contains(o)) => drop(found.insert(*v)),
        Stmt::Combine(c) if c.inputs.iter().any(|o| found.contains(o)) => found.extend(&c.results),
        _ => {}
    });
    found
}

/// Whether `next` is `inner` with something added that does not depend on what is carried. Collects the values between.
fn follow(l: &TileLoop, inner: ValueId, next: ValueId, carried: &HashSet<ValueId>, between: &mut HashSet<ValueId>) -> bool {
    let ops: HashMap<ValueId, &Op> = l.body.iter().filter_map(|s| if let Stmt::Let(v, op) = s { Some((*v, op)) } else { None }).collect();
    let free = |v: &ValueId| !carried.contains(v);
    let mut at = next;
    while at != inner {
        between.insert(at);
        at = match ops.get(&at) {
            Some(Op::Dot { a, b, acc, fold: None }) if free(a) && free(b) => *acc,
            Some(Op::Ternary(TernaryOp::Fma, a, b, acc)) if free(a) && free(b) => *acc,
            Some(Op::Binary(BinaryOp::Add | BinaryOp::Sub, acc, x)) if free(x) => *acc,
            Some(Op::Binary(BinaryOp::Add, x, acc)) if free(x) => *acc,
            _ => return false,
        };
    }
    true
}
