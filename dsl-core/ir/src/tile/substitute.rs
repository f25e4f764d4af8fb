//! Replaces values in statements.

use crate::tile::{Block, Index, Op, Operator, Stmt, ValueId, View};

/// Applies `replace` to every use of a value in a block.
pub fn block(block: &mut Block, replace: &dyn Fn(&mut ValueId)) {
    block.iter_mut().for_each(|s| stmt(s, replace));
}

/// Applies `replace` to every value of views.
pub fn views(views: &mut [View], replace: &dyn Fn(&mut ValueId)) {
    for view in views {
        replace(&mut view.offset);
        for axis in &mut view.axes {
            replace(&mut axis.len);
            replace(&mut axis.stride);
        }
    }
}

/// Applies `replace` to every use of a value in a statement.
pub fn stmt(stmt: &mut Stmt, replace: &dyn Fn(&mut ValueId)) {
    let carries = |carries: &mut Vec<crate::tile::Carry>| {
        for c in carries {
            replace(&mut c.init);
            replace(&mut c.next);
        }
    };
    match stmt {
        Stmt::Let(_, o) => op(o, replace),
        Stmt::Store { index, value, .. } => {
            index.iter_mut().for_each(|i| one_index(i, replace));
            replace(value);
        }
        Stmt::Scatter { indices, value, .. } => indices.iter_mut().chain([value]).for_each(replace),
        Stmt::Atomic { update, .. } => update.uses_mut().into_iter().for_each(replace),
        Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
        Stmt::Shared(access) => access.kind.operands_mut().into_iter().for_each(replace),
        Stmt::Tiles(l) => {
            l.span.iter_mut().flat_map(|s| [&mut s.first, &mut s.end]).for_each(replace);
            carries(&mut l.carries);
            block(&mut l.body, replace);
        }
        Stmt::Range { start, end, carries: c, body, .. } => {
            replace(start);
            replace(end);
            carries(c);
            block(body, replace);
        }
        Stmt::While { carries: c, header, condition, body, .. } => {
            carries(c);
            block(header, replace);
            replace(condition);
            block(body, replace);
        }
        Stmt::If { condition, then, otherwise, results, .. } => {
            replace(condition);
            block(then, replace);
            block(otherwise, replace);
            for r in results {
                replace(&mut r.then);
                replace(&mut r.otherwise);
            }
        }
        Stmt::Combine(c) => {
            c.inputs.iter_mut().for_each(replace);
            if let Operator::User { body, results, .. } = &mut c.operator {
                block(body, replace);
                results.iter_mut().for_each(replace);
            }
        }
        Stmt::Where { mask, body, .. } => {
            replace(mask);
            block(body, replace);
        }
    }
}

fn one_index(index: &mut Index, replace: &dyn Fn(&mut ValueId)) {
    match index {
        Index::Tile(v) | Index::At(v) => replace(v),
        Index::All(_) => {}
    }
}

fn op(op: &mut Op, replace: &dyn Fn(&mut ValueId)) {
    match op {
        Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) | Op::Iota => {}
        Op::Unary(_, a)
        | Op::Cast(a)
        | Op::Bitcast(a)
        | Op::Splat(a)
        | Op::Broadcast(a, _)
        | Op::Transpose(a, _)
        | Op::Coordinates(a)
        | Op::Start(a)
        | Op::End(a)
        | Op::Number(a) => replace(a),
        Op::Pick { tile, .. } => replace(tile),
        Op::Like { value, model } => [value, model].into_iter().for_each(replace),
        Op::Or { tile, absent } => [tile, absent].into_iter().for_each(replace),
        Op::Total { scan, .. } => replace(scan),
        Op::Within(tile, ends) => [tile].into_iter().chain(ends.iter_mut().flatten()).for_each(replace),
        Op::Binary(_, a, b) | Op::Compare(_, a, b) => {
            replace(a);
            replace(b);
        }
        Op::Ternary(_, a, b, c) | Op::Select(a, b, c) => {
            replace(a);
            replace(b);
            replace(c);
        }
        Op::Shuffle { value, lane, .. } => {
            replace(value);
            replace(lane);
        }
        Op::Vote(_, mask) => replace(mask),
        Op::Dot { a, b, acc, fold } => {
            [a, b, acc].into_iter().for_each(replace);
            if let Some(f) = fold {
                f.steps.iter_mut().for_each(|(_, step)| self::op(step, replace));
                replace(&mut f.result);
            }
        }
        Op::Stack(all) | Op::Gather(_, all) | Op::GatherInside(_, all) => all.iter_mut().for_each(replace),
        Op::Window { index, shift, .. } => {
            index.iter_mut().for_each(replace);
            shift.iter_mut().flatten().for_each(replace);
        }
        Op::Near(window, offsets) => {
            replace(window);
            offsets.iter_mut().for_each(replace);
        }
        Op::Load(_, index) => index.iter_mut().for_each(|i| one_index(i, replace)),
    }
}
