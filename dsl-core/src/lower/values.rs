//! Values: scalars, and tiles as expressions of one element.

use super::context::{Data, Lowered, Lowering, Rep, TileRep};
use super::index::literal;
use super::mask::{Bound, Mask, Test};
use crate::error::{CompileError, Diagnostic};
use crate::layout::{Layout, Source};
use crate::loc::SourceLoc;
use crate::simt::{Expr, Stmt, VarId};
use crate::tile::host::HostExpr;
use crate::tile::{Index, Op, Ty, ValueId};
use crate::types::{BinaryOp, DType, Literal, UnaryOp};
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
    pub fn register_part(&self, cx: &Lowering, axis: usize) -> Expr {
        self.digits.iter().filter(|(a, _, _)| *a == axis).fold(cx.ix.lit(0), |sum, (_, place, digit)| {
            let digit = cx.ix.cast(DType::I32, digit.clone());
            cx.ix.add(sum, cx.ix.mul(digit, cx.ix.lit(*place)))
        })
    }
}

/// Tile operands of an elementwise operation that is computed where it is used.
fn tile_operands(cx: &Lowering, op: &Op) -> Vec<ValueId> {
    super::uses::operands(op).into_iter().filter(|v| matches!(cx.kernel.ty(*v), Ty::Tile(..))).collect()
}

impl Lowering<'_> {
    /// The error for a construct that lowering does not know.
    pub fn unsupported(&self, loc: SourceLoc, what: &str) -> CompileError {
        let d = Diagnostic::new(loc, format!("{what} cannot be lowered to a kernel yet")).help("the evaluator (`eval`) computes it");
        CompileError::Kernel(vec![d.with_source(&self.kernel.source, self.kernel.loc.line)])
    }

    /// A scalar value in its register type.
    pub fn scalar(&mut self, value: ValueId) -> Expr {
        if let Some(Rep::Scalar(e)) = &self.values[value.0 as usize] {
            return e.clone();
        }
        // Host-computable scalars are made where they are used: most are only parts of views.
        match HostExpr::of_value(self.kernel, value) {
            Some(host) => {
                let name = self.name_of(value, "extent");
                let (from, e) = self.host_number(&host, &name);
                super::index::Index { dtype: self.register_type(value) }.cast(from, e)
            }
            None => panic!("lowering: scalar {value:?} is used before it is made in\n{}", self.kernel),
        }
    }

    /// The type in which a value is kept in registers.
    pub fn register_type(&self, value: ValueId) -> DType {
        self.kernel.ty(value).dtype().unwrap_or(DType::I64).compute()
    }

    /// Lowers `let value = op`.
    pub fn lower_let(&mut self, value: ValueId, op: &Op) -> Lowered<()> {
        match self.kernel.ty(value).clone() {
            Ty::TileIdx(_) => panic!("lowering: a tile index is made by a loop only"),
            Ty::Window(..) => self.open_window(value, op),
            Ty::Scalar(_) => self.lower_scalar(value, op),
            Ty::Tile(dtype, _) => self.lower_tile(value, dtype, op),
        }
    }

    fn lower_scalar(&mut self, value: ValueId, op: &Op) -> Lowered<()> {
        let expr = match op {
            Op::Literal(l) => {
                let e = Expr::Literal(register_literal(*l));
                self.set(value, Rep::Scalar(e));
                return Ok(());
            }
            Op::Dim(..) | Op::Stride(..) => return Ok(()),
            Op::Near(..) => return self.near(value),
            Op::Start(index) => {
                let start = self.tile_start(*index);
                super::index::Index { dtype: DType::I64 }.cast(self.ix.dtype, start)
            }
            Op::Param(p) => self.load_register(self.kernel.ty(value).dtype(), Expr::Param(*p)),
            Op::Load(view, index) => self.scalar_load(*view, index),
            Op::Gather(view, indices) => {
                let index: Vec<Index> = indices.iter().map(|v| Index::At(*v)).collect();
                self.scalar_load(*view, &index)
            }
            Op::Number(index) => match self.rep(*index).clone() {
                Rep::TileIndex(number) => super::index::Index { dtype: DType::I64 }.cast(self.ix.dtype, number),
                other => panic!("lowering: {index:?} is no tile index but {other:?}"),
            },
            _ if HostExpr::of_value(self.kernel, value).is_some() => return Ok(()),
            _ => {
                let operands: Vec<Expr> = super::uses::operands(op).into_iter().map(|v| self.scalar(v)).collect();
                self.apply(value, op, operands)
            }
        };
        let reads = matches!(op, Op::Load(..) | Op::Gather(..));
        let uses = self.used(value);
        let named = self.kernel.value(value).name.is_some() && !matches!(op, Op::Param(_));
        let expr = if reads || (uses.count > 1 && !matches!(expr, Expr::Param(_))) || (named && uses.count > 0) {
            let name = self.name_of(value, "s");
            self.declare_let(&name, self.register_type(value), expr)
        } else {
            expr
        };
        self.set(value, Rep::Scalar(expr));
        Ok(())
    }

    /// A value just read from memory or a parameter, in its register type.
    pub fn load_register(&self, dtype: Option<DType>, e: Expr) -> Expr {
        match dtype {
            Some(d) if d != d.compute() => Expr::Cast(d.compute(), Box::new(e)),
            _ => e,
        }
    }

    fn lower_tile(&mut self, value: ValueId, dtype: DType, op: &Op) -> Lowered<()> {
        match op {
            Op::Load(..) if self.dots.is_load(value) => return self.open_operand(value, op),
            _ if self.dots.is_absorbed(value) => return Ok(()),
            Op::Dot { a, b, acc } => return self.dot(value, [*a, *b, *acc]),
            Op::Load(view, index) => return self.load_tile(value, *view, index),
            Op::Near(..) => return self.near(value),
            Op::Gather(view, indices) => return self.gather_tile(value, *view, indices),
            Op::Shuffle { .. } | Op::Vote(..) => return self.warp_op(value, op),
            Op::Stack(parts) => return self.stack(value, parts),
            Op::Pick { tile, axis, at } => return self.pick(value, *tile, *axis, *at),
            Op::Transpose(tile, perm) => return self.transpose(value, *tile, perm),
            Op::Splat(scalar) => {
                let e = self.scalar(*scalar);
                self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: None, mask: Mask::default(), data: Data::Splat(e) }));
                return Ok(());
            }
            Op::Like { value: scalar, model } => {
                let (e, mask) = (self.scalar(*scalar), self.tile(*model).mask.clone());
                self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: None, mask, data: Data::Splat(e) }));
                return Ok(());
            }
            Op::Iota => {
                self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: None, mask: Mask::default(), data: Data::Iota }));
                return Ok(());
            }
            Op::Coordinates(index) => {
                self.set(
                    value,
                    Rep::Tile(TileRep { elsewhere: vec![], layout: None, mask: Mask::default(), data: Data::Coordinates(*index) }),
                );
                return Ok(());
            }
            _ => {}
        }
        debug_assert!(dtype.compute() == self.register_type(value));
        let operands = tile_operands(self, op);
        let mut rep = TileRep { elsewhere: vec![], layout: None, mask: self.mask_of(op, &operands), data: Data::Pending(op.clone()) };
        if !matches!(op, Op::Broadcast(..)) {
            rep.layout = operands.iter().find_map(|v| self.tile(*v).layout.clone());
            // Where an operand came from memory in longer runs than accumulators have, these go there, too.
            let longer = |l: &&Layout| rep.layout.as_ref().is_some_and(|own| own.run(own.axes.len() - 1) < l.run(l.axes.len() - 1));
            if let Some(own) = rep.layout.clone()
                && let Some(l) = operands.iter().filter_map(|v| self.tile(*v).layout.as_ref()).find(longer)
                && self.can_exchange(&own, l)
            {
                rep.layout = Some(l.clone());
            }
        }
        let uses = self.used(value);
        let single = rep.layout.as_ref().is_some_and(|l| l.registers == 1);
        self.set(value, Rep::Tile(rep));
        if single && uses.count > 0 {
            return self.settle_single(value);
        }
        let layout = self.tile(value).layout.clone();
        match layout {
            // Used inside a loop or branch: computed once, here, and turned once, not at every turn.
            Some(layout) if uses.escapes => {
                self.in_array(value, &layout)?;
                let natural = self.layout_of_shape(self.kernel.ty(value).shape().unwrap_or(&[]));
                if natural.lane_axis() == layout.lane_axis() { Ok(()) } else { self.convert(value, &natural) }
            }
            _ => Ok(()),
        }
    }

    /// One register per thread: the value becomes an expression, or a variable where it is used often or has a name.
    fn settle_single(&mut self, value: ValueId) -> Lowered<()> {
        let layout = self.tile(value).layout.clone().unwrap_or_else(|| panic!("lowering: {value:?} has no layout"));
        self.prepare(value, &layout)?;
        let at = At::only(&layout, literal(DType::I32, 0));
        let e = self.element(value, &at, &HashMap::new());
        let uses = self.used(value);
        let keep = uses.count > 1 || self.kernel.value(value).name.is_some() || uses.escapes;
        let e = if keep && !matches!(e, Expr::Var(_) | Expr::Literal(_)) {
            let name = self.name_of(value, "v");
            self.declare_let(&name, self.register_type(value), e)
        } else {
            e
        };
        let mask = self.tile(value).mask.clone();
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data: Data::One(e) }));
        Ok(())
    }

    /// Absent where an operand is; a select where the chosen operand is.
    fn mask_of(&self, op: &Op, operands: &[ValueId]) -> Mask {
        let mut mask = Mask::default();
        match op {
            Op::Select(condition, a, b) => {
                let known = self.tile(*condition).mask.clone();
                let side = |v: ValueId, negated: bool| {
                    let mut m = self.tile(v).mask.clone();
                    let rank = self.kernel.ty(*condition).shape().map_or(0, <[_]>::len);
                    let test = |holds| Test::of(*condition, holds, rank);
                    // Where the other operand is chosen, this one need not exist.
                    let other = self.tile(if negated { *a } else { *b }).mask.clone();
                    let everywhere = |bound: &Bound| other.bounds.contains(bound) || known.bounds.contains(bound);
                    let own: Vec<Bound> = m.bounds.extract_if(.., |b| !everywhere(b)).collect();
                    m.sides.extend(own.into_iter().map(|bound| vec![Test::Below(bound)]));
                    m.sides.retain(|s| !s.contains(&test(!negated)));
                    m.sides.iter_mut().filter(|s| !s.contains(&test(negated))).for_each(|s| s.push(test(negated)));
                    m
                };
                mask.and(&side(*a, false));
                mask.and(&side(*b, true));
                mask.and(&known);
            }
            Op::Broadcast(v, from) => {
                let inner = self.tile(*v).mask.clone();
                mask.sides = inner.sides;
                for a in mask.sides.iter_mut().flatten().flat_map(Test::axes_mut) {
                    *a = from.iter().position(|f| *f == Some(*a)).unwrap_or_else(|| panic!("lowering: an axis vanished in a broadcast"));
                }
                for b in inner.bounds {
                    if let Some(axis) = from.iter().position(|f| *f == Some(b.axis)) {
                        mask.bounds.push(super::mask::Bound { axis, ..b });
                    }
                }
            }
            Op::Within(v, ends) => {
                let end = |(axis, index): (usize, &Option<ValueId>)| index.map(|index| Bound { axis, index, len: self.lengths[&index] });
                mask.bounds = ends.iter().enumerate().filter_map(end).collect();
                mask.and(&self.tile(*v).mask);
            }
            _ => operands.iter().for_each(|v| mask.and(&self.tile(*v).mask)),
        }
        mask
    }

    fn transpose(&mut self, value: ValueId, tile: ValueId, perm: &[usize]) -> Lowered<()> {
        if let Some(layout) = self.tile(tile).layout.clone()
            && matches!(self.tile(tile).data, Data::Pending(_) | Data::Moved { .. })
        {
            self.in_array(tile, &layout)?;
        }
        if self.tile(tile).layout.is_none() {
            // It depends on coordinates alone.
            let layout = self.natural_layout(tile);
            self.in_array(tile, &layout)?;
        }
        let source = self.tile(tile).clone();
        let mut mask = source.mask.clone();
        for b in &mut mask.bounds {
            b.axis = perm.iter().position(|k| *k == b.axis).unwrap_or(b.axis);
        }
        for a in mask.sides.iter_mut().flatten().flat_map(Test::axes_mut) {
            *a = perm.iter().position(|k| k == a).unwrap_or(*a);
        }
        let layout = source.layout.map(|l| l.permuted(perm));
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout, mask, data: source.data }));
        Ok(())
    }

    /// Tiles side by side along a new last axis, all of it in the registers of a thread. What is absent in one of them is absent there.
    fn stack(&mut self, value: ValueId, parts: &[ValueId]) -> Lowered<()> {
        let layout = parts.iter().find_map(|v| self.tile(*v).layout.clone()).unwrap_or_else(|| self.natural_layout(parts[0]));
        let masks: Vec<Mask> = parts.iter().map(|v| self.tile(*v).mask.clone()).collect();
        let n = parts.len() as i64;
        let wide = layout.with_register_axis(layout.axes.len(), n);
        let var = self.new_var(&self.name_of(value, "stack"), self.register_type(value), Some(wide.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.for_elements(parts, &layout, false, &mut |cx, at, elements| {
            let ix = super::index::Index { dtype: DType::I32 };
            for (k, value) in elements.into_iter().enumerate() {
                let index = ix.add(ix.mul(at.flat.clone(), ix.lit(n)), ix.lit(k as i64));
                cx.emit(Stmt::Assign { var, index: Some(index), value });
            }
            Ok(())
        })?;
        let mask = self.mask_of_stack(value, &masks, &layout, &wide)?;
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(wide), mask, data: Data::Array(var) }));
        Ok(())
    }

    /// Which elements of a stack exist. What not all parts ask for goes into a bool beside each element.
    fn mask_of_stack(&mut self, value: ValueId, parts: &[Mask], layout: &Layout, wide: &Layout) -> Lowered<Mask> {
        let mut common = parts[0].clone();
        parts.iter().for_each(|part| common = common.without(&common.without(part)));
        if parts.iter().all(|part| *part == common) {
            return Ok(common);
        }
        let condition = self.found.get(&value).copied().unwrap_or_else(|| panic!("values: nothing says which parts of a stack exist"));
        let var = self.new_var("there", DType::Bool, Some(wide.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        for (k, part) in parts.iter().enumerate() {
            self.set_present(&part.without(&common), var, layout, (parts.len() as i64, k as i64))?;
        }
        let there = TileRep { elsewhere: vec![], layout: Some(wide.clone()), mask: Mask::default(), data: Data::Array(var) };
        self.set(condition, Rep::Tile(there));
        common.sides.push(vec![Test::of(condition, true, wide.axes.len())]);
        Ok(common)
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
            rep.lie_in(&super::elements::projected(&at.layout, &at.axes));
        }
        match &rep.data {
            Data::One(e) | Data::Splat(e) => e.clone(),
            Data::Array(var) => {
                let index = self.register_index(rep.layout.as_ref(), at);
                self.register(*var, index)
            }
            Data::Moved { var, at: first, digits } => {
                let ix = super::index::Index { dtype: DType::I32 };
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
                super::index::Index { dtype: DType::I64 }.cast(self.ix.dtype, e)
            }
            Data::Iota => {
                let base = self.base_coordinate(None, &at.layout, at.axes[0]);
                let e = self.ix.add(base, at.register_part(self, at.axes[0]));
                super::index::Index { dtype: self.register_type(value) }.cast(self.ix.dtype, e)
            }
            Data::Pending(Op::Pick { tile, axis, at: position }) => {
                let source = self.tile(*tile).clone();
                let (Data::Array(var), Some(layout)) = (&source.data, &source.layout) else { panic!("lowering: pick from {source:?}") };
                let (extent, ix) = (layout.shape()[*axis], super::index::Index { dtype: DType::I32 });
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
                let operands: Vec<Expr> = super::uses::operands(&op)
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
    fn register_index(&self, layout: Option<&Layout>, at: &At) -> Expr {
        let Some(layout) = layout else { return at.flat.clone() };
        let same = at.axes.iter().copied().eq(0..at.layout.axes.len());
        if same && *layout == at.layout {
            return at.flat.clone();
        }
        let ix = super::index::Index { dtype: DType::I32 };
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
            Op::Splat(_) | Op::Within(..) => *next(),
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
