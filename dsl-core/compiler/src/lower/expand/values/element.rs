//! One element of a tile: where it lies, what it is, and operations on elements in their register types.

use crate::block::{Op, Ty, ValueId};
use crate::lower::expand::context::{Data, Expander};
use crate::lower::expand::index::Index;
use girih_ir::layout::{Layout, Source};
use girih_ir::simt::{Expr, VarId};
use girih_ir::types::{BinaryOp, DType, Literal, UnaryOp};
use std::collections::HashMap;

/// One element of a tile, as seen from the loop nest over a thread's registers.
#[derive(Clone)]
pub(crate) struct At {
    /// The layout whose registers are walked.
    pub layout: Layout,
    /// Register index.
    pub flat: Expr,
    /// Value of each register digit, by axis and place; empty in a flat loop.
    pub digits: Vec<(usize, i64, Expr)>,
    /// The tile's axis `k` is the layout's axis `axes[k]`.
    pub axes: Vec<usize>,
}

impl At {
    /// The element of a one-register layout.
    pub fn only(layout: &Layout, zero: Expr) -> At {
        At { layout: layout.clone(), flat: zero, digits: Vec::new(), axes: (0..layout.axes.len()).collect() }
    }

    /// The part of a coordinate along `axis` (of the layout) that comes from registers.
    pub fn register_part(&self, cx: &Expander, axis: usize) -> Expr {
        self.digits.iter().filter(|(a, _, _)| *a == axis).fold(cx.ix.lit(0), |sum, (_, place, digit)| {
            let digit = cx.ix.cast(DType::I32, digit.clone());
            cx.ix.add(sum, cx.ix.mul(digit, cx.ix.lit(*place)))
        })
    }
}

impl Expander<'_> {
    /// A value just read from memory or a parameter, in its register type.
    pub fn load_register(&self, dtype: Option<DType>, e: Expr) -> Expr {
        match dtype {
            Some(d) if d != d.compute() => Expr::Cast(d.compute(), Box::new(e)),
            _ => e,
        }
    }

    /// An element of a register array, in its register type.
    pub fn register(&self, var: VarId, index: Expr) -> Expr {
        let dtype = self.vars[var.0 as usize].dtype;
        self.load_register(Some(dtype), Expr::Element(var, Box::new(index)))
    }

    /// One element of a tile. The tile must have been prepared for the layout; `known` holds elements already in variables.
    pub fn element(&mut self, value: ValueId, at: &At, known: &HashMap<ValueId, Expr>) -> Expr {
        if let Some(e) = known.get(&value) {
            return e.clone();
        }
        let mut rep = self.tile(value).clone();
        if !rep.elsewhere.is_empty() {
            rep.lie_in(&crate::block::layouts::projected(&at.layout, &at.axes));
        }
        match &rep.data {
            Data::One(e) | Data::Splat(e) => e.clone(),
            Data::Array(var) => {
                let index = self.register_index(rep.layout.as_ref(), at);
                self.register(*var, index)
            }
            Data::Moved { var, at: first, digits } => {
                let ix = Index { dtype: DType::I32 };
                let found = |axis: usize, place: i64| at.digits.iter().find(|(a, p, _)| *a == at.axes[axis] && *p == place);
                let index = digits.iter().fold(ix.lit(0), |sum, (axis, place, step)| {
                    let (_, _, e) = found(*axis, *place).unwrap_or_else(|| panic!("lowering: no loop over a digit of axis {axis}"));
                    ix.add(sum, ix.mul(e.clone(), ix.lit(*step)))
                });
                self.register(*var, ix.add(index, ix.lit(*first)))
            }
            Data::Coordinates(index) => {
                let base = self.base_coordinate(*index, &at.layout, at.axes[0]);
                let e = self.ix.add(base, at.register_part(self, at.axes[0]));
                Index { dtype: DType::I64 }.cast(self.ix.dtype, e)
            }
            Data::Iota => {
                let base = self.base_coordinate(None, &at.layout, at.axes[0]);
                let e = self.ix.add(base, at.register_part(self, at.axes[0]));
                Index { dtype: self.register_type(value) }.cast(self.ix.dtype, e)
            }
            Data::Pending(Op::Pick { tile, axis, at: position }) => {
                let source = self.tile(*tile).clone();
                let (Data::Array(var), Some(layout)) = (&source.data, &source.layout) else { panic!("lowering: pick from {source:?}") };
                let (extent, ix) = (layout.shape()[*axis], Index { dtype: DType::I32 });
                let flat = self.register_index(rep.layout.as_ref(), at);
                self.register(*var, ix.add(ix.mul(flat, ix.lit(extent)), ix.lit(*position)))
            }
            Data::Pending(Op::Broadcast(source, from)) => {
                let mut axes = vec![0; from.iter().flatten().count()];
                for (k, f) in from.iter().enumerate() {
                    if let Some(j) = f {
                        axes[*j] = at.axes[k];
                    }
                }
                self.element(*source, &At { axes, ..at.clone() }, &HashMap::new())
            }
            Data::Pending(op) => {
                let op = op.clone();
                let operands: Vec<Expr> = crate::block::operands(&op)
                    .into_iter()
                    .map(|v| match self.kernel.ty(v) {
                        Ty::Tile(..) => self.element(v, at, known),
                        _ => self.scalar(v),
                    })
                    .collect();
                self.apply(value, &op, operands)
            }
        }
    }

    /// The register index in `layout` of the element that `at` stands on.
    pub fn register_index(&self, layout: Option<&Layout>, at: &At) -> Expr {
        let Some(layout) = layout else { return at.flat.clone() };
        let same = at.axes.iter().copied().eq(0..at.layout.axes.len());
        if same && *layout == at.layout {
            return at.flat.clone();
        }
        let ix = Index { dtype: DType::I32 };
        let mut flat = ix.lit(0);
        for (axis, digits) in layout.axes.iter().enumerate() {
            for d in digits.iter().filter(|d| d.source == Source::Register) {
                let found = at.digits.iter().find(|(a, place, _)| *a == at.axes[axis] && *place == d.place);
                let (_, _, value) = found.unwrap_or_else(|| panic!("lowering: no loop over the digit {d:?} of axis {axis}"));
                flat = ix.add(flat, ix.mul(value.clone(), ix.lit(d.stride)));
            }
        }
        flat
    }

    /// `op` on operands in their register types; the result in the value's register type.
    pub fn apply(&mut self, value: ValueId, op: &Op, mut operands: Vec<Expr>) -> Expr {
        let mut next = || Box::new(operands.remove(0));
        let to = self.kernel.ty(value).dtype().unwrap_or(DType::I64);
        match op {
            Op::Unary(op, _) => Expr::Unary(*op, next()),
            Op::Binary(op, ..) => {
                let (a, b) = (next(), next());
                fold_binary(*op, a, b)
            }
            Op::Ternary(op, ..) => Expr::Ternary(*op, next(), next(), next()),
            Op::Compare(op, ..) => Expr::Compare(*op, next(), next()),
            Op::Select(..) => Expr::Select(next(), next(), next()),
            Op::Cast(v) => {
                let from = self.register_type(*v);
                match *next() {
                    // Widened and narrowed again.
                    Expr::Cast(DType::I64, e) if to == DType::I32 && self.dtype_of(&e) == DType::I32 => *e,
                    e => cast_register(from, to, e),
                }
            }
            Op::Bitcast(v) => {
                // Through storage where registers are wider than memory.
                let from = self.kernel.ty(*v).dtype().unwrap_or(to);
                let raw = if from == from.compute() { *next() } else { Expr::Cast(from, next()) };
                let bits = if from == to { raw } else { Expr::Bitcast(to, Box::new(raw)) };
                self.load_register(Some(to), bits)
            }
            // Of what is absent a scalar stands there already, where it has to: see `absent`.
            Op::Splat(_) | Op::Within(..) | Op::Or { .. } => *next(),
            other => panic!("lowering: {other:?} is not elementwise"),
        }
    }
}

/// A literal in its register type.
pub(crate) fn register_literal(l: Literal) -> Literal {
    if l.dtype == l.dtype.compute() { l } else { Literal::from_f64(l.dtype.compute(), l.to_f64()) }
}

/// A cast between register types that rounds to the named type.
fn cast_register(from: DType, to: DType, e: Expr) -> Expr {
    if let (Expr::Literal(l), true) = (&e, to.is_int() && from.is_int()) {
        return Expr::Literal(Literal::from_i64(to, l.to_i64()));
    }
    if to == to.compute() {
        return if from == to { e } else { Expr::Cast(to, Box::new(e)) };
    }
    Expr::Cast(to.compute(), Box::new(Expr::Cast(to, Box::new(e))))
}

/// Neutral elements vanish from bool masks; the rest stays as the author wrote it.
fn fold_binary(op: BinaryOp, a: Box<Expr>, b: Box<Expr>) -> Expr {
    let truth = |e: &Expr| matches!(e, Expr::Literal(l) if *l == Literal::bool(true));
    match op {
        BinaryOp::And if truth(&a) => *b,
        BinaryOp::And if truth(&b) => *a,
        _ => Expr::Binary(op, a, b),
    }
}

/// `!e`.
pub(crate) fn not(e: Expr) -> Expr {
    Expr::Unary(UnaryOp::Not, Box::new(e))
}
