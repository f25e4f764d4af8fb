//! Views: the same memory, looked at in another way. Each view is a tensor like its source and may be stored to if that may.

use super::builder::KernelBuilder;
use super::elem::Elem;
use super::index::{Coordinate, Part, wide};
use super::plan;
use super::session::{self, Handle};
use super::tensor::{Tensor, check_axis};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Op, ParamKind, RequirementKind, ValueId, View, ViewAxis, ViewId};
use girih_ir::types::BinaryOp;

impl<T: Elem, const N: usize> Tensor<T, N> {
    /// One axis back to front. In a program this is a mistake: the kernel says it, where the compiler knows what to do about it.
    #[track_caller]
    pub fn reversed(&self, axis: usize) -> Tensor<T, N> {
        let loc = SourceLoc::caller();
        if session::in_program() {
            return Tensor::of(plan::reversed(self.handle(), axis, loc));
        }
        self.view(axis, loc, |k, mut v| {
            let ViewAxis { len, stride } = v.axes[axis];
            let one = k.index(1, loc);
            let minus_one = k.index(-1, loc);
            let last = k.index_op(BinaryOp::Sub, len, one, loc);
            let shift = k.index_op(BinaryOp::Mul, last, stride, loc);
            v.offset = k.index_op(BinaryOp::Add, v.offset, shift, loc);
            v.axes[axis].stride = k.index_op(BinaryOp::Mul, stride, minus_one, loc);
            v.text = format!("{}.reversed({axis})", v.text);
            Some(v)
        })
    }

    /// The axes in another order: axis `k` of the view is axis `order[k]` of this tensor.
    #[track_caller]
    pub fn permuted(&self, order: [usize; N]) -> Tensor<T, N> {
        let loc = SourceLoc::caller();
        let mut sorted = order;
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..N) {
            let message = format!("`.permuted({order:?})` of a tensor of {N} axes: name each axis once");
            let diagnostic = Diagnostic::new(loc, message).help("`.permuted([1, 0])` exchanges two axes");
            return Tensor::of(session::with(|s| s.error(diagnostic)));
        }
        if session::in_program() {
            return Tensor::of(plan::permuted(self.handle(), &order, loc));
        }
        self.view(0, loc, |_, mut v| {
            v.axes = order.iter().map(|a| v.axes[*a]).collect();
            v.text = format!("{}.permuted({order:?})", v.text);
            Some(v)
        })
    }

    /// Every `step`th element of an axis, from the first.
    #[track_caller]
    pub fn strided(&self, axis: usize, step: impl Coordinate) -> Tensor<T, N> {
        let loc = SourceLoc::caller();
        let step = step.part();
        if session::in_program() {
            return Tensor::of(if check_axis(axis, N, loc) { plan::strided(self.handle(), axis, step, loc) } else { Handle::POISON });
        }
        self.view(axis, loc, |k, mut v| {
            let (step, text) = bound(k, step, "the step", loc)?;
            let one = k.index(1, loc);
            at_most(k, one, step, "a step is at least 1", loc)?;
            let ViewAxis { len, stride } = v.axes[axis];
            let less = k.index_op(BinaryOp::Sub, step, one, loc);
            let rounded = k.index_op(BinaryOp::Add, len, less, loc);
            v.axes[axis].len = k.index_op(BinaryOp::Div, rounded, step, loc);
            v.axes[axis].stride = k.index_op(BinaryOp::Mul, stride, step, loc);
            v.text = format!("{}.strided({axis}, {text})", v.text);
            Some(v)
        })
    }

    /// `len` elements of an axis from `start` on. A launch whose tensor is shorter is refused.
    #[track_caller]
    pub fn slice(&self, axis: usize, start: impl Coordinate, len: impl Coordinate) -> Tensor<T, N> {
        let loc = SourceLoc::caller();
        let (start, len) = (start.part(), len.part());
        if session::in_program() {
            return Tensor::of(if check_axis(axis, N, loc) { plan::slice(self.handle(), axis, start, len, loc) } else { Handle::POISON });
        }
        self.view(axis, loc, |k, v| {
            let (start, start_text) = bound(k, start, "the start", loc)?;
            let (len, len_text) = bound(k, len, "the length", loc)?;
            let zero = k.index(0, loc);
            at_most(k, zero, start, "a slice starts at 0 or later", loc)?;
            at_most(k, zero, len, "a slice has 0 elements or more", loc)?;
            let end = k.index_op(BinaryOp::Add, start, len, loc);
            k.require(RequirementKind::AtMost(end, v.axes[axis].len), loc);
            let mut v = window(k, v, axis, start, len, loc);
            v.text = format!("{}.slice({axis}, {start_text}, {len_text})", v.text);
            Some(v)
        })
    }

    /// The elements of an axis before `at`, and those from `at` on. The two never overlap, so one may be stored to while the other
    /// is read. A launch whose tensor is shorter than `at` is refused.
    #[track_caller]
    pub fn split_at(&self, axis: usize, at: impl Coordinate) -> (Tensor<T, N>, Tensor<T, N>) {
        let loc = SourceLoc::caller();
        let at = at.part();
        if session::in_program() {
            let split = if check_axis(axis, N, loc) { plan::split_at(self.handle(), axis, at, loc) } else { [Handle::POISON; 2] };
            return (Tensor::of(split[0]), Tensor::of(split[1]));
        }
        let split = session::with(|s| {
            let k = s.kernel("`split_at`", loc)?;
            k.splits += 1;
            Some(k.splits - 1)
        });
        let Some(split) = split else { return (Tensor::of(Handle::POISON), Tensor::of(Handle::POISON)) };
        let side = |upper: bool| {
            self.view(axis, loc, |k, v| {
                let (at, text) = bound(k, at, "the position", loc)?;
                let zero = k.index(0, loc);
                let len = v.axes[axis].len;
                if !upper {
                    at_most(k, zero, at, "a split is at 0 or later", loc)?;
                    k.require(RequirementKind::AtMost(at, len), loc);
                }
                let (start, len) = if upper { (at, k.index_op(BinaryOp::Sub, len, at, loc)) } else { (zero, at) };
                let mut v = window(k, v, axis, start, len, loc);
                v.parts.push((split, upper));
                v.text = format!("{}.split_at({axis}, {text}).{}", v.text, upper as u8);
                Some(v)
            })
        };
        (side(false), side(true))
    }

    /// All elements in row-major order as one axis. The tensor must be row-major without gaps: checked at every launch.
    #[track_caller]
    pub fn flat(&self) -> Tensor<T, 1> {
        let loc = SourceLoc::caller();
        if session::in_program() {
            return Tensor::of(plan::flat(self.handle(), loc));
        }
        Tensor::of(self.view(0, loc, |k, v| flatten(k, v, "flat", loc)).handle())
    }

    fn view(&self, axis: usize, loc: SourceLoc, f: impl FnOnce(&mut KernelBuilder, View) -> Option<View>) -> Tensor<T, N> {
        if N > 0 && !check_axis(axis, N, loc) {
            return Tensor::of(Handle::POISON);
        }
        Tensor::of(session::with(|s| {
            let Some(k) = s.kernel("this view", loc) else { return Handle::POISON };
            let Some(id) = self.handle().get(k.build) else { return Handle::POISON };
            let source = View { loc, ..k.kernel.view(ViewId(id)).clone() };
            match f(k, source) {
                Some(view) => Handle::new(k.add_view(view).0, k.build),
                None => Handle::POISON,
            }
        }))
    }
}

impl<T: Elem> Tensor<T, 1> {
    /// The same bytes as elements of another type: a byte image as pixels, `image.reinterpret::<u32>()`. The elements must be
    /// neighbours, and wider elements must divide the length and the address: checked at every launch.
    #[track_caller]
    pub fn reinterpret<U: Elem>(&self) -> Tensor<U, 1> {
        let loc = SourceLoc::caller();
        if session::in_program() {
            return Tensor::of(plan::reinterpret(self.handle(), U::DTYPE, loc));
        }
        let view = self.view(0, loc, |k, v| {
            let mut v = flatten(k, v, "reinterpret", loc)?;
            let (from, to) = (v.dtype.size() as i64, U::DTYPE.size() as i64);
            let scale = |k: &mut KernelBuilder, value: ValueId| {
                let factor = k.index(if to > from { to / from } else { from / to }, loc);
                k.index_op(if to > from { BinaryOp::Div } else { BinaryOp::Mul }, value, factor, loc)
            };
            if to > from {
                k.require(RequirementKind::Divisible(v.axes[0].len, to / from), loc);
                k.require(RequirementKind::Divisible(v.offset, to / from), loc);
            }
            // Memory is aligned for the parameter's own elements anyway.
            if let ParamKind::Tensor { dtype, .. } = k.kernel.params[v.param].kind
                && U::DTYPE.size() > dtype.size()
            {
                k.require(RequirementKind::Aligned(v.param, U::DTYPE.size()), loc);
            }
            v.axes[0].len = scale(k, v.axes[0].len);
            v.offset = scale(k, v.offset);
            v.dtype = U::DTYPE;
            let source = v.text.strip_suffix(".flat()").unwrap_or(&v.text);
            v.text = format!("{source}.reinterpret::<{}>()", U::DTYPE);
            Some(v)
        });
        Tensor::of(view.handle())
    }
}

macro_rules! chunked {
    ($($n:literal to $more:literal),*) => {$(
        impl<T: Elem> Tensor<T, $n> {
            /// One axis cut into chunks of `len` elements: two axes in its place, the chunk and the position in it. The length of the axis
            /// must be a multiple of `len`: checked at every launch.
            #[track_caller]
            pub fn chunked(&self, axis: usize, len: impl Coordinate) -> Tensor<T, $more> {
                let loc = SourceLoc::caller();
                let len = len.part();
                if session::in_program() {
                    return Tensor::of(if check_axis(axis, $n, loc) { plan::chunked(self.handle(), axis, len, loc) } else { Handle::POISON });
                }
                let view = self.view(axis, loc, |k, mut v| {
                    let (len, text) = bound(k, len, "the length of a chunk", loc)?;
                    let one = k.index(1, loc);
                    at_most(k, one, len, "a chunk has 1 element or more", loc)?;
                    let ViewAxis { len: whole, stride } = v.axes[axis];
                    let chunks = k.index_op(BinaryOp::Div, whole, len, loc);
                    let covered = k.index_op(BinaryOp::Mul, chunks, len, loc);
                    k.require(RequirementKind::Equal(whole, covered), loc);
                    let jump = k.index_op(BinaryOp::Mul, stride, len, loc);
                    v.axes[axis] = ViewAxis { len: chunks, stride: jump };
                    v.axes.insert(axis + 1, ViewAxis { len, stride });
                    v.text = format!("{}.chunked({axis}, {text})", v.text);
                    Some(v)
                });
                Tensor::of(view.handle())
            }
        }
    )*};
}
chunked!(1 to 2, 2 to 3, 3 to 4);

/// `len` elements of an axis from `start` on.
fn window(k: &mut KernelBuilder, mut v: View, axis: usize, start: ValueId, len: ValueId, loc: SourceLoc) -> View {
    let shift = k.index_op(BinaryOp::Mul, start, v.axes[axis].stride, loc);
    v.offset = k.index_op(BinaryOp::Add, v.offset, shift, loc);
    v.axes[axis].len = len;
    v
}

/// The view as one axis of neighbours: its parameter must be packed, and the view whole but for a window on its first axis.
fn flatten(k: &mut KernelBuilder, mut v: View, what: &str, loc: SourceLoc) -> Option<View> {
    let unit = |k: &KernelBuilder, a: &ViewAxis| k.constant(a.stride).is_some_and(|l| l.to_i64() == 1);
    let own = |k: &KernelBuilder, (i, a): (usize, &ViewAxis)| {
        matches!(k.op(a.stride), Some(Op::Stride(_, n)) if *n == i) && (i == 0 || matches!(k.op(a.len), Some(Op::Dim(_, n)) if *n == i))
    };
    if v.axes.len() == 1 && unit(k, &v.axes[0]) {
        return Some(v);
    }
    if !v.axes.iter().enumerate().all(|a| own(k, a)) {
        let message = format!("`{}` has gaps or another order than memory: its elements are no neighbours", v.text);
        k.error(Diagnostic::new(loc, message).help(format!("take `.{what}(..)` of the tensor first, other views of it afterwards")));
        return None;
    }
    k.require(RequirementKind::Packed(v.param), loc);
    let one = k.index(1, loc);
    let len = v.axes.iter().map(|a| a.len).collect::<Vec<_>>().into_iter().fold(one, |n, l| k.index_op(BinaryOp::Mul, n, l, loc));
    v.axes = vec![ViewAxis { len, stride: one }];
    v.text = format!("{}.flat()", v.text);
    Some(v)
}

/// A bound of a view with its text; it must be known before the launch.
pub(super) fn bound(k: &mut KernelBuilder, part: Part, what: &str, loc: SourceLoc) -> Option<(ValueId, String)> {
    match part {
        Part::Constant(c) => Some((k.index(c, loc), c.to_string())),
        Part::At(h) => {
            let v = k.operand(h, loc)?;
            let v = wide(k, v, loc);
            let text = k.kernel.value(v).name.clone().unwrap_or_else(|| "..".into());
            if !k.host_known(v) {
                let message = format!("{what} of this view depends on memory or on a loop");
                k.error(Diagnostic::new(loc, message).help("compute it from lengths and scalar parameters alone, or gather the elements"));
                return None;
            }
            Some((v, text))
        }
        Part::Tile(_) | Part::All(_) => panic!("language: a tile index as the bound of a view"),
    }
}

/// Asks for `a <= b`; a mistake if constants contradict.
fn at_most(k: &mut KernelBuilder, a: ValueId, b: ValueId, rule: &str, loc: SourceLoc) -> Option<()> {
    if let (Some(x), Some(y)) = (k.constant(a), k.constant(b))
        && x.to_i64() > y.to_i64()
    {
        k.error(Diagnostic::new(loc, format!("{} is out of range: {rule}", y.to_i64())).help("correct the bound"));
        return None;
    }
    k.require(RequirementKind::AtMost(a, b), loc);
    Some(())
}
