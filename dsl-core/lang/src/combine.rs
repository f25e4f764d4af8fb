//! Records combinations: operators are traced once, inputs are checked, results get the form that the author expects.

use super::builder::KernelBuilder;
use super::components::{self, Components};
use super::session::{self, Handle, Session};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Combine, Form, Operator, Size, Stmt, TileLoop, Ty, ValueId, access};
use girih_ir::types::Literal;

/// Records a combination of elements whose components are `inputs`; one result per component, of the form `R`.
pub(crate) fn record<R: Components>(operator: Option<Operator>, form: Form, inputs: &[Handle], what: &str, loc: SourceLoc) -> R {
    let results = session::with(|s| {
        let k = s.kernel(what, loc)?;
        let inputs = inputs.iter().map(|h| k.operand(*h, loc)).collect::<Option<Vec<_>>>()?;
        let shape = common_shape(k, &inputs, what, loc)?;
        let shape = check(k, &form, &inputs, shape, what, loc)?;
        let results: Vec<ValueId> = inputs
            .iter()
            .map(|v| {
                let dtype = k.kernel.ty(*v).dtype().expect("language: a tile or scalar has an element type");
                let ty = if shape.is_empty() { Ty::Scalar(dtype) } else { Ty::Tile(dtype, shape.clone()) };
                k.new_value(ty, None, loc, 0)
            })
            .collect();
        let handles: Vec<Handle> = results.iter().map(|v| k.handle(*v)).collect();
        k.push(Stmt::Combine(Combine { operator: operator?, form, inputs, results, loc }));
        Some(handles)
    });
    match results {
        Some(handles) => R::of_handles(&mut handles.into_iter()),
        None => components::poisoned(),
    }
}

/// The shape of all inputs: empty for scalars.
fn common_shape(k: &mut KernelBuilder, inputs: &[ValueId], what: &str, loc: SourceLoc) -> Option<Vec<Size>> {
    let shape = |k: &KernelBuilder, v: ValueId| k.kernel.ty(v).shape().map(<[Size]>::to_vec).unwrap_or_default();
    let first = shape(k, inputs[0]);
    if let Some(other) = inputs.iter().find(|v| shape(k, **v) != first) {
        let message = format!("{what} of components of different shapes: {} and {}", k.describe(inputs[0]), k.describe(*other));
        let made = k.kernel.value(*other).loc;
        let help = "bring them to one shape with `.like(..)` or `.expand(axis, size)`";
        k.error(Diagnostic::new(loc, message).note("the second was made here", made).help(help));
        return None;
    }
    Some(first)
}

/// The shape of the results; `None` after a mistake.
fn check(k: &mut KernelBuilder, form: &Form, inputs: &[ValueId], shape: Vec<Size>, what: &str, loc: SourceLoc) -> Option<Vec<Size>> {
    let axes = match form {
        Form::Reduce { axes } => axes.clone(),
        Form::Scan { axis, reversed, over_grid, .. } => {
            if *over_grid {
                check_scan_over_grid(k, &shape, (*axis, *reversed), what, loc)?;
            }
            vec![*axis]
        }
        Form::Before => {
            check_in_order(k, what, loc)?;
            return Some(shape);
        }
        Form::Grid => {
            check_grid(k, inputs, what, loc)?;
            return Some(shape);
        }
    };
    if let Some(axis) = axes.iter().find(|a| **a >= shape.len()) {
        let message = format!("no axis {axis} in {}", k.shape_text(&shape));
        k.error(Diagnostic::new(loc, message).help(format!("axes are 0 to {}", shape.len().saturating_sub(1))));
        return None;
    }
    Some(match form {
        Form::Reduce { .. } => shape.into_iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, s)| s).collect(),
        Form::Scan { .. } | Form::Before | Form::Grid => shape,
    })
}

/// A tile that looks back at those before it is a row along the last axis of a grid loop that takes tiles in order.
fn check_scan_over_grid(k: &mut KernelBuilder, shape: &[Size], (axis, reversed): (usize, bool), what: &str, loc: SourceLoc) -> Option<()> {
    let row = shape.iter().rev().skip(1).all(|size| *size == Size::constant(1));
    let mistake = if reversed {
        Some((format!("{what} over the grid from the last element on"), "scan a reversed view, and store to one: `x.reversed(0)`"))
    } else if axis < shape.len() && !(row && axis + 1 == shape.len()) {
        let found = k.shape_text(shape);
        Some((
            format!("{what} over the grid along axis {axis} of {found}"),
            "a tile has one element along each axis but the last one, which is scanned",
        ))
    } else {
        None
    };
    if let Some((message, help)) = mistake {
        k.error(Diagnostic::new(loc, message).help(help));
        return None;
    }
    check_in_order(k, what, loc)
}

/// What tiles come to is passed on at the top level of the body of a grid loop that takes them in order.
fn check_in_order(k: &mut KernelBuilder, what: &str, loc: SourceLoc) -> Option<()> {
    let help = match (k.takes_in_order, k.depth()) {
        (true, 1) => return Some(()),
        (true, _) => "compute it in the body of the grid's loop, in no loop or branch inside of it: all tiles pass on what they come to",
        (false, _) => "say `.in_order()` of the grid's loop: `for t in y.tiles([T]).in_order() { .. }`",
    };
    let message = format!("{what} over the grid, where tiles cannot look back at those before them");
    k.error(Diagnostic::new(loc, message).help(help));
    None
}

/// What all blocks have is combined at the top level, after a strided grid loop, before anything is stored there; and once: a block can't
/// wait for the others.
fn check_grid(k: &mut KernelBuilder, inputs: &[ValueId], what: &str, loc: SourceLoc) -> Option<()> {
    let mistake = if k.depth() != 0 {
        Some((format!("{what} inside of a loop or branch: the blocks meet once, at the end"), "move it behind the grid loop", None))
    } else if !k.at_top().iter().any(|s| matches!(s, Stmt::Tiles(l) if l.strided)) {
        let help = "carry a value over `for t in x.tiles(..).strided() { .. }` first, and combine it behind the loop";
        Some((format!("{what} without a strided grid loop before it: there are no blocks with values to combine"), help, None))
    } else if let Some(earlier) = inputs.iter().find_map(|v| from_grid(k.at_top(), *v)) {
        let help = "combine tuples in one go, or write a second kernel that goes on from the first one's result";
        Some((format!("{what} of what was computed from the whole grid already"), help, Some(("combined here", earlier))))
    } else if let Some(stored) = stored_after_grid(k.at_top()) {
        let help = "combine everything before the first store";
        Some((
            format!("{what} behind a store: what follows the first combination runs in the last block only"),
            help,
            Some(("stored here", stored)),
        ))
    } else {
        None
    };
    let Some((message, help, note)) = mistake else { return Some(()) };
    let mut diagnostic = Diagnostic::new(loc, message).help(help);
    if let Some((text, at)) = note {
        diagnostic = diagnostic.note(text, at);
    }
    k.error(diagnostic);
    None
}

/// The first store, scatter or atomic at the top level that follows a combination over the grid.
fn stored_after_grid(top: &[Stmt]) -> Option<SourceLoc> {
    let first = top.iter().position(is_grid)?;
    let mut found = None;
    access::visit(&top[first..], &mut |s| {
        if let Stmt::Store { loc, .. } | Stmt::Scatter { loc, .. } | Stmt::Atomic { loc, .. } = s {
            found.get_or_insert(*loc);
        }
    });
    found
}

fn is_grid(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Combine(Combine { form: Form::Grid, .. }))
}

/// Where a value was combined over the grid, or what it was computed from.
fn from_grid(top: &[Stmt], value: ValueId) -> Option<SourceLoc> {
    let mut dependent: Vec<(ValueId, SourceLoc)> = Vec::new();
    for stmt in top {
        let from = match stmt {
            Stmt::Combine(c) if is_grid(stmt) => Some(c.loc),
            _ => {
                let reads = reads(stmt);
                dependent.iter().find(|(v, _)| reads.contains(v)).map(|(_, loc)| *loc)
            }
        };
        if let Some(loc) = from {
            dependent.extend(made(stmt).into_iter().map(|v| (v, loc)));
        }
    }
    dependent.iter().find(|(v, _)| *v == value).map(|(_, loc)| *loc)
}

/// Every value that a statement reads.
fn reads(stmt: &Stmt) -> Vec<ValueId> {
    let all = std::cell::RefCell::new(Vec::new());
    girih_ir::tile::substitute::stmt(&mut stmt.clone(), &|v| all.borrow_mut().push(*v));
    all.into_inner()
}

/// The values of a statement that are usable after it.
fn made(stmt: &Stmt) -> Vec<ValueId> {
    match stmt {
        Stmt::Let(v, _) => vec![*v],
        Stmt::Combine(c) => c.results.clone(),
        Stmt::Tiles(TileLoop { carries, .. }) | Stmt::Range { carries, .. } | Stmt::While { carries, .. } => {
            carries.iter().map(|c| c.result).collect()
        }
        Stmt::If { results, .. } => results.iter().map(|r| r.result).collect(),
        Stmt::Where { body, .. } => body.iter().flat_map(made).collect(),
        Stmt::Atomic { update, .. } => update.result.into_iter().collect(),
        Stmt::Shared(access) => access.kind.result().into_iter().collect(),
        Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Barrier { .. } | Stmt::Copies { .. } => vec![],
    }
}

/// Runs the author's operator once on scalars that stand for its operands.
pub(crate) fn trace<C: Components>(
    identity: C::Value,
    operator: impl FnOnce(C::Element, C::Element) -> C::Element,
    commutative: bool,
    what: &str,
    loc: SourceLoc,
) -> Option<Operator> {
    let mut arguments = Vec::new();
    let handles = session::with(|s| {
        let k = s.kernel(what, loc)?;
        k.open(false);
        for side in ["a", "b"] {
            C::describe(side, &mut |name, dtype| arguments.push(k.new_value(Ty::Scalar(dtype), Some(name), loc, 0)));
        }
        Some(arguments.iter().map(|v| k.handle(*v)).collect::<Vec<_>>())
    })?;
    let mut handles = handles.into_iter();
    let (a, b) = (C::Element::of_handles(&mut handles), C::Element::of_handles(&mut handles));
    let combined = components::handles(&operator(a, b));
    let mut literals: Vec<Literal> = Vec::new();
    C::literals(identity, &mut |l| literals.push(l));
    session::with(|s| {
        let Session::Kernel(k) = s else { return None };
        let results: Option<Vec<ValueId>> = combined.iter().map(|h| k.operand(*h, loc)).collect();
        let body = k.close();
        Some(Operator::User { identity: literals, arguments, body, results: results?, commutative })
    })
}

/// The number of a tile's axes; of a tuple, of its first component's.
pub(crate) fn rank(tile: Handle) -> usize {
    session::with(|s| match s {
        Session::Kernel(k) => tile.value(k.build).and_then(|v| k.kernel.ty(v).shape()).map_or(0, <[_]>::len),
        Session::Program(_) => 0,
    })
}
