//! Walks over the statements of a kernel, and what is found that way: how values are made.

use super::{Block, Index, Kernel, Op, Stmt, TileLoop, ValueId};
use std::collections::HashMap;

/// Calls `f` on every statement, outer ones first.
pub fn visit<'a>(block: &'a [Stmt], f: &mut impl FnMut(&'a Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in blocks(stmt) {
            visit(inner, f);
        }
    }
}

/// How values are made; loop variables and the like are by no operation.
pub fn operations(kernel: &Kernel) -> HashMap<ValueId, &Op> {
    let mut ops = HashMap::new();
    visit(&kernel.body, &mut |s| {
        if let Stmt::Let(v, op) = s {
            ops.insert(*v, op);
        }
    });
    ops
}

/// The blocks of statements inside of a statement, in their order.
pub fn blocks(stmt: &Stmt) -> Vec<&Block> {
    match stmt {
        Stmt::Tiles(TileLoop { body, .. }) | Stmt::Range { body, .. } | Stmt::Where { body, .. } => vec![body],
        Stmt::While { header, body, .. } => vec![header, body],
        Stmt::If { then, otherwise, .. } => vec![then, otherwise],
        Stmt::Let(..) | Stmt::Combine(_) | Stmt::Shared(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => vec![],
        Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => vec![],
    }
}

/// The operands of an operation, views' lengths and strides excepted.
pub fn operands(op: &Op) -> Vec<ValueId> {
    match op {
        Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) | Op::Iota => vec![],
        Op::Unary(_, a)
        | Op::Cast(a)
        | Op::Bitcast(a)
        | Op::Splat(a)
        | Op::Broadcast(a, _)
        | Op::Transpose(a, _)
        | Op::Coordinates(a)
        | Op::Start(a)
        | Op::End(a)
        | Op::Number(a) => {
            vec![*a]
        }
        Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![*a, *b],
        Op::Ternary(_, a, b, c) | Op::Select(a, b, c) => vec![*a, *b, *c],
        Op::Pick { tile, .. } => vec![*tile],
        Op::Like { value, model } => vec![*value, *model],
        Op::Or { tile, absent } => vec![*tile, *absent],
        Op::Total { scan, .. } => vec![*scan],
        Op::Within(tile, _) => vec![*tile],
        Op::Stack(list) | Op::Gather(_, list) | Op::GatherInside(_, list) => list.clone(),
        Op::Load(_, index) => index_values(index),
        Op::Window { index, shift, .. } => index.iter().copied().chain(shift.iter().flatten().copied()).collect(),
        Op::Shuffle { value, lane, .. } => vec![*value, *lane],
        Op::Vote(_, mask) => vec![*mask],
        Op::Dot { a, b, acc, fold } => {
            let captured = fold.iter().flat_map(|f| f.captured());
            [*a, *b, *acc].into_iter().chain(captured).collect()
        }
        Op::Near(window, offsets) => [*window].into_iter().chain(offsets.iter().copied()).collect(),
    }
}

/// The values by which an access is placed.
pub fn index_values(index: &[Index]) -> Vec<ValueId> {
    index
        .iter()
        .filter_map(|i| match i {
            Index::Tile(v) | Index::At(v) => Some(*v),
            Index::All(_) => None,
        })
        .collect()
}
