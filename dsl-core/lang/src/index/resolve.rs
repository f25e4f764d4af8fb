//! What a build makes of indices: values, their common shape, and what a launch must have for them.

use super::Part;
use crate::builder::KernelBuilder;
use crate::elementwise::uniform;
use crate::ops;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Index, Op, RequirementKind, Size, Ty, ValueId, ViewId};
use girih_ir::types::{BinaryOp, DType, Literal};

/// One index per axis; a mistake if not.
pub(crate) fn check_rank(k: &mut KernelBuilder, parts: &[Part], rank: usize, loc: SourceLoc) -> Option<()> {
    if parts.len() == rank {
        return Some(());
    }
    let message = format!("{} indices where there are {rank} axes", parts.len());
    k.error(Diagnostic::new(loc, message).help("give one index per axis, in a tuple where there are several"));
    None
}

/// Tile indices and whole axes (of these extents) as computed coordinates of one shape.
pub(crate) fn spread(k: &mut KernelBuilder, parts: &[Part], extents: &[Size], loc: SourceLoc) -> Option<(Vec<ValueId>, Vec<Size>)> {
    let mut shape = Vec::new();
    let mut along = Vec::new();
    for (part, extent) in parts.iter().zip(extents) {
        let axis = shape.len();
        along.push(match part {
            Part::Tile(h) => {
                let v = k.operand(*h, loc)?;
                let Ty::TileIdx(size) = k.kernel.ty(v).clone() else { panic!("language: a tile index has another type") };
                shape.push(size.clone());
                (k.emit(Op::Coordinates(v), Ty::Tile(DType::I64, vec![size]), loc), Some(axis))
            }
            Part::All(length) => {
                let size = length.map_or_else(|| extent.clone(), Size::constant);
                shape.push(size.clone());
                (k.emit(Op::Iota, Ty::Tile(DType::I32, vec![size]), loc), Some(axis))
            }
            Part::At(h) => (k.operand(*h, loc)?, None),
            Part::Constant(c) => (k.index(*c, loc), None),
        });
    }
    if shape.is_empty() {
        k.error(Diagnostic::new(loc, "one element is no tile").help("use `.at(..)` or `.store_at(..)`, which take and give a `Scalar`"));
        return None;
    }
    let whole = |k: &mut KernelBuilder, (v, axis): (ValueId, Option<usize>)| match axis {
        None => ops::splat_to(k, v, &shape, loc),
        Some(_) if shape.len() == 1 => v,
        Some(axis) => {
            let from = (0..shape.len()).map(|a| (a == axis).then_some(0)).collect();
            let ty = Ty::Tile(k.kernel.ty(v).dtype().unwrap_or(DType::I64), shape.clone());
            k.emit(Op::Broadcast(v, from), ty, loc)
        }
    };
    let values = along.into_iter().map(|a| whole(k, a)).collect();
    Some((values, shape))
}

/// The indices of an access and the shape that they span; `None` after a mistake.
pub(crate) fn resolve(k: &mut KernelBuilder, view: ViewId, parts: &[Part], loc: SourceLoc) -> Option<(Vec<Index>, Vec<Size>)> {
    let mut shape = Vec::new();
    let mut index = Vec::new();
    for (axis, part) in parts.iter().enumerate() {
        index.push(match part {
            Part::Tile(h) => {
                let v = k.operand(*h, loc)?;
                let Ty::TileIdx(size) = k.kernel.ty(v) else { panic!("language: a tile index has another type") };
                shape.push(size.clone());
                Index::Tile(v)
            }
            Part::At(h) => {
                let v = uniform(k, *h, "one coordinate", loc)?;
                Index::At(wide(k, v, loc))
            }
            Part::Constant(c) => Index::At(k.index(*c, loc)),
            Part::All(length) => {
                let length = whole_axis(k, view, axis, *length, loc)?;
                shape.push(Size::constant(length));
                Index::All(length)
            }
        });
    }
    Some((index, shape))
}

fn whole_axis(k: &mut KernelBuilder, view: ViewId, axis: usize, length: Option<i64>, loc: SourceLoc) -> Option<i64> {
    let len = k.kernel.view(view).axes[axis].len;
    if let Some(length) = length {
        if length < 1 {
            k.error(Diagnostic::new(loc, format!("a whole axis of {length} elements")).help("write its length, at least 1"));
            return None;
        }
        let constant = k.index(length, loc);
        k.require(RequirementKind::Equal(len, constant), loc);
        return Some(length);
    }
    let required = k.kernel.requirements.iter().find_map(|r| match r.kind {
        RequirementKind::Equal(a, b) if a == len => k.constant(b),
        _ => None,
    });
    let Some(known) = k.constant(len).or(required) else {
        let message = format!("`..` takes a whole axis, but the length of axis {axis} of `{}` is not known", k.kernel.view(view).text);
        k.error(Diagnostic::new(loc, message).help("write its length: `..3`"));
        return None;
    };
    Some(known.to_i64())
}

/// An integer scalar or tile as i64.
pub(crate) fn wide(k: &mut KernelBuilder, v: ValueId, loc: SourceLoc) -> ValueId {
    let ty = ops::with_dtype(k.kernel.ty(v), DType::I64);
    if *k.kernel.ty(v) == ty { v } else { k.emit(Op::Cast(v), ty, loc) }
}

/// Computed coordinates and their common shape (empty if all are scalars); scalars beside tiles are spread.
pub(crate) fn computed(k: &mut KernelBuilder, parts: &[Part], loc: SourceLoc) -> Option<(Vec<ValueId>, Vec<Size>)> {
    let mut values = Vec::new();
    for part in parts {
        values.push(match part {
            Part::At(h) => k.operand(*h, loc)?,
            Part::Constant(c) => k.literal(Literal::index(*c), loc),
            Part::Tile(_) | Part::All(_) => panic!("language: a tile index among computed coordinates"),
        });
    }
    let shape = values.iter().find_map(|v| k.kernel.ty(*v).shape()).map(<[Size]>::to_vec).unwrap_or_default();
    for v in &mut values {
        if k.kernel.ty(*v).shape().is_some_and(|s| s != shape) {
            let message = format!("coordinates of different shapes: {} and {}", k.shape_text(&shape), k.describe(*v));
            k.error(Diagnostic::new(loc, message).help("bring them to one shape with `.expand(axis, size)`"));
            return None;
        }
        if !shape.is_empty() {
            *v = ops::splat_to(k, *v, &shape, loc);
        }
    }
    Some((values, shape))
}

/// A launch must have the elements at coordinates that the host knows.
pub(crate) fn require_inside(k: &mut KernelBuilder, view: ViewId, index: &[Index], loc: SourceLoc) {
    for (at, axis) in index.iter().zip(k.kernel.view(view).axes.clone()) {
        let Index::At(coordinate) = at else { continue };
        let wide = *k.kernel.ty(*coordinate) == Ty::Scalar(DType::I64);
        if wide && k.host_known(*coordinate) && k.host_known(axis.len) {
            let one = k.index(1, loc);
            let end = k.index_op(BinaryOp::Add, *coordinate, one, loc);
            k.require(RequirementKind::AtMost(end, axis.len), loc);
        }
    }
}
