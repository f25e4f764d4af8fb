//! Lengths of axes: which one bounds a tile index, which of them a launch must prove equal, which are constant, and which a block walks.

use super::host::HostExpr;
use super::visit::visit;
use super::{Index, Kernel, KnobId, Op, ParamKind, Requirement, RequirementKind, Span, Stmt, TileLoop, Ty, ValueId, ViewId};
use crate::loc::SourceLoc;
use crate::schedule::{KnobKind, Of};
use std::collections::HashMap;

/// The length that bounds each tile index: that of the axis its loop walks.
pub fn loop_lengths(kernel: &Kernel) -> HashMap<ValueId, ValueId> {
    let mut lengths = HashMap::new();
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Tiles(l) = stmt {
            for (var, axis) in l.vars.iter().zip(&l.axes) {
                lengths.insert(*var, kernel.view(l.view).axes[*axis].len);
            }
        }
    });
    lengths
}

/// The positions to which the loop of a tile index keeps, of loops that have such.
pub fn loop_spans(kernel: &Kernel) -> HashMap<ValueId, Span> {
    let mut spans = HashMap::new();
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Tiles(TileLoop { vars, span: Some(span), .. }) = stmt {
            spans.extend(vars.iter().map(|var| (*var, *span)));
        }
    });
    spans
}

/// Axes of parameters (parameter, axis) whose lengths decide what the code is: those that a block walks tile by tile, since one tile may span
/// them, and those of tensors that may lie in constant memory.
pub fn bounded_axes(kernel: &Kernel) -> Vec<(usize, usize)> {
    let mut axes = Vec::new();
    let walked = walked_tiles(kernel).into_iter().map(|(axis, _)| axis);
    for axis in walked.chain(constant_axes(kernel)) {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    axes
}

/// The tensors (parameters) that a knob may put into constant memory, each with its knob, in the order of the knobs.
pub fn constant_params(kernel: &Kernel) -> Vec<(KnobId, usize)> {
    let param = |id: KnobId| match &kernel.knob(id).of {
        Some(Of::Tensor(name)) => kernel.params.iter().position(|p| p.name == *name).map(|p| (id, p)),
        Some(Of::Loop(_)) | None => None,
    };
    kernel.knobs_of(KnobKind::Constant).filter_map(param).collect()
}

/// All axes of such tensors.
fn constant_axes(kernel: &Kernel) -> Vec<(usize, usize)> {
    let axes = |(_, p): (KnobId, usize)| match kernel.params[p].kind {
        ParamKind::Tensor { rank, .. } => (0..rank).map(|k| (p, k)).collect(),
        ParamKind::Scalar(_) => vec![],
    };
    constant_params(kernel).into_iter().flat_map(axes).collect()
}

/// Axes of parameters (parameter, axis) that a block walks tile by tile, with the size of each loop's tiles.
pub fn walked_tiles(kernel: &Kernel) -> Vec<((usize, usize), super::Size)> {
    let mut found = Vec::new();
    let grid = kernel.grid_loop().map(|l| l.vars.clone());
    visit(&kernel.body, &mut |stmt| {
        let Stmt::Tiles(l) = stmt else { return };
        if grid.as_ref() == Some(&l.vars) || l.span.is_some() {
            return;
        }
        for (var, axis) in l.vars.iter().zip(&l.axes) {
            if let Some(HostExpr::Dim(p, k)) = HostExpr::of_value(kernel, kernel.view(l.view).axes[*axis].len) {
                found.push(((p, k), tile_size(kernel, *var).clone()));
            }
        }
    });
    found
}

/// What a launch must satisfy besides [`Kernel::requirements`]: a tile index may be used only on axes as long as the one its loop walks
/// (tensors that are walked together have the same shape), and a whole axis `..` has the constant length that its tile has.
/// Lengths that the host can't compute are left to predicates.
pub fn shape_requirements(kernel: &Kernel) -> Vec<Requirement> {
    let lengths = loop_lengths(kernel);
    let mut found: Vec<Requirement> = Vec::new();
    let mut require = |view: ViewId, index: &[Index], loc: SourceLoc| {
        for (axis, at) in kernel.view(view).axes.iter().zip(index) {
            let Index::Tile(var) = at else { continue };
            let (Some(length), Some(own)) = (lengths.get(var), HostExpr::of_value(kernel, axis.len)) else { continue };
            let walked = HostExpr::of_value(kernel, *length);
            if walked.is_some_and(|w| w != own) {
                let known = found.iter().any(|r| matches!(r.kind, RequirementKind::Equal(a, b) if a == axis.len && b == *length));
                if !known {
                    found.push(Requirement { kind: RequirementKind::Equal(axis.len, *length), loc });
                }
            }
        }
    };
    visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Let(v, Op::Load(view, index)) => require(*view, index, kernel.value(*v).loc),
        Stmt::Store { view, index, loc, .. } => require(*view, index, *loc),
        _ => {}
    });
    found
}

/// Axes of parameters (parameter, axis) whose lengths every launch proves equal, each with the one that stands for its class.
pub fn dim_classes(kernel: &Kernel) -> HashMap<(usize, usize), (usize, usize)> {
    let mut class: HashMap<(usize, usize), (usize, usize)> = HashMap::new();
    for r in shape_requirements(kernel).iter().chain(&kernel.requirements) {
        let RequirementKind::Equal(a, b) = r.kind else { continue };
        let (Some(HostExpr::Dim(p, k)), Some(HostExpr::Dim(q, l))) = (HostExpr::of_value(kernel, a), HostExpr::of_value(kernel, b)) else {
            continue;
        };
        let (x, y) = (*class.get(&(p, k)).unwrap_or(&(p, k)), *class.get(&(q, l)).unwrap_or(&(q, l)));
        for d in [(p, k), (q, l)] {
            class.insert(d, y);
        }
        for c in class.values_mut().filter(|c| **c == x) {
            *c = y;
        }
    }
    class
}

/// Lengths of parameters' axes (parameter, axis) that a requirement or a whole-axis index fixes, equal ones included.
pub fn dim_constants(kernel: &Kernel) -> HashMap<(usize, usize), i64> {
    let mut constants = HashMap::new();
    let mut fix = |len: ValueId, n: i64| {
        if let Some(HostExpr::Dim(p, k)) = HostExpr::of_value(kernel, len) {
            constants.insert((p, k), n);
        }
    };
    for r in &kernel.requirements {
        let RequirementKind::Equal(a, b) = r.kind else { continue };
        for (len, constant) in [(a, b), (b, a)] {
            if let Some(HostExpr::Const(n)) = HostExpr::of_value(kernel, constant) {
                fix(len, n);
            }
        }
    }
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Let(_, Op::Load(view, index)) | Stmt::Store { view, index, .. } = stmt {
            for (axis, at) in kernel.view(*view).axes.iter().zip(index) {
                if let Index::All(n) = at {
                    fix(axis.len, *n);
                }
            }
        }
    });
    let classes = dim_classes(kernel);
    let known: Vec<_> = constants.iter().filter_map(|(d, n)| Some((*classes.get(d)?, *n))).collect();
    for (class, n) in known {
        constants.extend(classes.iter().filter(|(_, c)| **c == class).map(|(d, _)| (*d, n)));
    }
    constants
}

/// The extent of a tile index' tile.
pub fn tile_size(kernel: &Kernel, index: ValueId) -> &super::Size {
    match kernel.ty(index) {
        Ty::TileIdx(size) => size,
        other => panic!("access: {other:?} is no tile index"),
    }
}
