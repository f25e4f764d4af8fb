//! Views of whole tensors in a program: windows that the host computes.

use super::index::Part;
use super::plan::{bound, without_gaps};
use super::recorder::{self, ProgramBuilder, ProgramTensor, binary, index};
use super::session::{self, Handle};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program::{Expr, TensorView};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// `tensor.slice(..)` in a program.
pub(crate) fn slice(tensor: Handle, axis: usize, start: Part, len: Part, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("this slice", loc) else { return Handle::POISON };
        let Some(t) = p.view(tensor).cloned() else { return Handle::POISON };
        let (Some(start), Some(len)) = (bound(p, start, loc), bound(p, len, loc)) else { return Handle::POISON };
        let text = format!("{}.slice({axis}, ..)", t.text);
        window(p, t, axis, (start, len), text, loc)
    })
}

/// `tensor.split_at(..)` in a program: the part before, and the part from the position on.
pub(crate) fn split_at(tensor: Handle, axis: usize, at: Part, loc: SourceLoc) -> [Handle; 2] {
    session::with(|s| {
        let Some(p) = s.program("this view", loc) else { return [Handle::POISON; 2] };
        let Some(t) = p.view(tensor).cloned() else { return [Handle::POISON; 2] };
        let Some(at) = bound(p, at, loc) else { return [Handle::POISON; 2] };
        let rest = binary(BinaryOp::Sub, t.view.lens[axis].clone(), at.clone());
        let text = |side: u8| format!("{}.split_at({axis}, ..).{side}", t.text);
        let before = window(p, t.clone(), axis, (index(0), at.clone()), text(0), loc);
        [before, window(p, t.clone(), axis, (at, rest), text(1), loc)]
    })
}

/// `tensor.permuted(..)` in a program; `order` names each axis once.
pub(crate) fn permuted(tensor: Handle, order: &[usize], loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("this view", loc) else { return Handle::POISON };
        let Some(mut t) = p.view(tensor).cloned() else { return Handle::POISON };
        let view = &mut t.view;
        view.lens = order.iter().map(|k| view.lens[*k].clone()).collect();
        view.strides = order.iter().map(|k| view.strides[*k].clone()).collect();
        view.packed &= order.is_sorted();
        t.text = format!("{}.permuted({order:?})", t.text);
        p.tensor(t)
    })
}

/// `tensor.strided(..)` in a program.
pub(crate) fn strided(tensor: Handle, axis: usize, step: Part, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("this view", loc) else { return Handle::POISON };
        let Some(mut t) = p.view(tensor).cloned() else { return Handle::POISON };
        let Some(step) = bound(p, step, loc) else { return Handle::POISON };
        p.require((CompareOp::Le, index(1), step.clone()), "a step is 1 or more", loc);
        let view = &mut t.view;
        let rounded = binary(BinaryOp::Add, view.lens[axis].clone(), binary(BinaryOp::Sub, step.clone(), index(1)));
        view.packed &= step == index(1);
        view.lens[axis] = binary(BinaryOp::Div, rounded, step.clone());
        view.strides[axis] = binary(BinaryOp::Mul, view.strides[axis].clone(), step);
        t.text = format!("{}.strided({axis}, ..)", t.text);
        p.tensor(t)
    })
}

/// `tensor.chunked(..)` in a program: the chunk and the position in it in the axis's place.
pub(crate) fn chunked(tensor: Handle, axis: usize, len: Part, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("this view", loc) else { return Handle::POISON };
        let Some(mut t) = p.view(tensor).cloned() else { return Handle::POISON };
        let Some(len) = bound(p, len, loc) else { return Handle::POISON };
        let view = &mut t.view;
        let (whole, stride) = (view.lens[axis].clone(), view.strides[axis].clone());
        let least = "a chunk has 1 element or more (write `.max(1)` where its length may be 0)";
        p.require((CompareOp::Le, index(1), len.clone()), least, loc);
        let rest = binary(BinaryOp::Rem, whole.clone(), len.clone());
        p.require((CompareOp::Eq, rest, index(0)), "chunks cover their axis, with no elements left over", loc);
        view.lens[axis] = binary(BinaryOp::Div, whole, len.clone());
        view.strides[axis] = binary(BinaryOp::Mul, stride.clone(), len.clone());
        view.lens.insert(axis + 1, len);
        view.strides.insert(axis + 1, stride);
        t.text = format!("{}.chunked({axis}, ..)", t.text);
        p.tensor(t)
    })
}

/// `tensor.reversed(..)` in a program: a mistake, as arguments of launches go forwards.
pub(crate) fn reversed(tensor: Handle, axis: usize, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("this view", loc) else { return Handle::POISON };
        let Some(t) = p.view(tensor) else { return Handle::POISON };
        let message = format!("`{}.reversed({axis})` in a program: tensors go to a launch forwards", t.text);
        p.error(Diagnostic::new(loc, message).help("pass the tensor as it is, and say `.reversed(..)` of the parameter in the kernel"))
    })
}

/// A window on one axis.
fn window(p: &mut ProgramBuilder, mut t: ProgramTensor, axis: usize, (start, len): (Expr, Expr), text: String, loc: SourceLoc) -> Handle {
    // Bounds that follow loops, or are those of a loop's body, cannot be promised before the call; the memory's are checked at each launch.
    if recorder::is_fixed(&start) && recorder::is_fixed(&len) && p.decided() {
        p.require((CompareOp::Le, index(0), start.clone()), "a slice starts at 0 or later", loc);
        p.require((CompareOp::Le, index(0), len.clone()), "a slice has 0 elements or more", loc);
        let end = binary(BinaryOp::Add, start.clone(), len.clone());
        p.require((CompareOp::Le, end, t.view.lens[axis].clone()), "a slice ends within its axis", loc);
    }
    let shift = binary(BinaryOp::Mul, start, t.view.strides[axis].clone());
    t.view.offset = binary(BinaryOp::Add, t.view.offset, shift);
    t.view.packed &= axis == 0 || t.view.lens[axis] == len;
    t.view.lens[axis] = len;
    t.text = text;
    p.tensor(t)
}

/// `tensor.flat()` in a program.
pub(crate) fn flat(tensor: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("this view", loc) else { return Handle::POISON };
        let Some(t) = p.view(tensor).cloned() else { return Handle::POISON };
        match flatten(p, t, loc) {
            Some(t) => p.tensor(t),
            None => Handle::POISON,
        }
    })
}

fn flatten(p: &mut ProgramBuilder, t: ProgramTensor, loc: SourceLoc) -> Option<ProgramTensor> {
    let text = t.text.clone();
    let view = without_gaps(p, t.clone(), "`flat`", loc)?;
    let len = view.lens.iter().cloned().fold(index(1), |n, l| binary(BinaryOp::Mul, n, l));
    let view = TensorView { lens: vec![len], strides: vec![index(1)], ..view };
    Some(ProgramTensor { view, text: format!("{text}.flat()"), ..t })
}

/// `tensor.reinterpret::<U>()` in a program.
pub(crate) fn reinterpret(tensor: Handle, to: DType, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("this view", loc) else { return Handle::POISON };
        let Some(t) = p.view(tensor).cloned() else { return Handle::POISON };
        let text = format!("{}.reinterpret::<{to}>()", t.text);
        let Some(mut t) = flatten(p, t, loc) else { return Handle::POISON };
        let (old, new) = (t.view.dtype.size() as i64, to.size() as i64);
        let (op, factor) = if new > old { (BinaryOp::Div, new / old) } else { (BinaryOp::Mul, old / new) };
        for part in [&mut t.view.lens[0], &mut t.view.offset] {
            if op == BinaryOp::Div {
                let rest = binary(BinaryOp::Rem, part.clone(), index(factor));
                p.require((CompareOp::Eq, rest, index(0)), "elements of the wider type are whole, with no bytes left over", loc);
            }
            *part = binary(op, part.clone(), index(factor));
        }
        t.view.dtype = to;
        t.text = text;
        p.tensor(t)
    })
}
