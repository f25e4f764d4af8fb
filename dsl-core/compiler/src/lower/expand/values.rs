//! Values: scalars, and tiles as expressions of one element.

mod element;

pub(crate) use element::{At, not, register_literal};

use super::computed::Memory;
use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::mask::{Mask, Test};
use crate::block::{Index, Op, Ty, ValueId};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, Stmt};
use girih_ir::types::DType;

/// A variable, widened or as it is.
pub(super) fn is_at_hand(expr: &Expr) -> bool {
    match expr {
        Expr::Var(_) => true,
        Expr::Cast(DType::I64, inner) => is_at_hand(inner),
        _ => false,
    }
}

/// Tile operands of an elementwise operation that is computed where it is used.
fn tile_operands(cx: &Expander, op: &Op) -> Vec<ValueId> {
    crate::block::operands(op).into_iter().filter(|v| matches!(cx.kernel.ty(*v), Ty::Tile(..))).collect()
}

impl Expander<'_> {
    /// A scalar value in its register type.
    pub fn scalar(&mut self, value: ValueId) -> Expr {
        if let Some(Rep::Scalar(e)) = self.values.get(value) {
            return e.clone();
        }
        // Host-computable scalars are made where they are used: most are only parts of views.
        match self.host_of(value) {
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
    pub fn lower_let(&mut self, value: ValueId, op: &Op) -> Expanded<()> {
        self.take_converted(op)?;
        match self.kernel.ty(value).clone() {
            Ty::TileIndex(_) => panic!("lowering: a tile index is made by a loop only"),
            Ty::Window(..) => panic!("lowering: a window is opened by a statement of its own"),
            Ty::Scalar(_) => self.lower_scalar(value, op),
            Ty::Tile(dtype, _) => self.lower_tile(value, dtype, op),
        }
    }

    fn lower_scalar(&mut self, value: ValueId, op: &Op) -> Expanded<()> {
        let expr = match op {
            Op::Literal(l) => {
                let e = Expr::Literal(register_literal(*l));
                self.set(value, Rep::Scalar(e));
                return Ok(());
            }
            Op::Dim(..) | Op::Stride(..) => return Ok(()),
            Op::Near(..) => return self.near(value),
            Op::Total { scan, .. } => return self.total(value, *scan),
            Op::Start(index) => {
                let start = self.tile_start(*index);
                super::index::Index { dtype: DType::I64 }.cast(self.ix.dtype, start)
            }
            Op::End(index) => {
                let size = self.kernel.tile_size(*index);
                let end = self.tile_start(*index);
                super::index::Index { dtype: DType::I64 }.cast(self.ix.dtype, self.ix.add(end, self.ix.lit(size)))
            }
            Op::Param(p) => self.load_register(self.kernel.ty(value).dtype(), Expr::Param(*p)),
            Op::Gather(view, indices) => {
                let index: Vec<Index> = indices.iter().map(|v| Index::At(*v)).collect();
                self.scalar_load(*view, &index)
            }
            Op::Number(index) => match self.rep(*index).clone() {
                Rep::TileIndex(number) => super::index::Index { dtype: DType::I64 }.cast(self.ix.dtype, number),
                other => panic!("lowering: {index:?} is no tile index but {other:?}"),
            },
            _ if self.host_of(value).is_some() => return Ok(()),
            _ => {
                let operands: Vec<Expr> = crate::block::operands(op).into_iter().map(|v| self.scalar(v)).collect();
                self.apply(value, op, operands)
            }
        };
        let reads = matches!(op, Op::Gather(..));
        let uses = self.used(value);
        let named = self.kernel.value(value).name.is_some() && !matches!(op, Op::Param(_));
        // A tile's number is in a variable of its own as long as the tile lasts.
        let is_number = matches!(op, Op::Start(_) | Op::Number(_)) && is_at_hand(&expr);
        let costs = !matches!(expr, Expr::Param(_)) && !is_number;
        let expr = if reads || (uses.count > 1 && costs) || (named && uses.count > 0) {
            let name = self.name_of(value, "s");
            self.declare_let(&name, self.register_type(value), expr)
        } else {
            expr
        };
        self.set(value, Rep::Scalar(expr));
        Ok(())
    }

    fn lower_tile(&mut self, value: ValueId, dtype: DType, op: &Op) -> Expanded<()> {
        match op {
            _ if self.kernel.dots.is_absorbed(value) => return Ok(()),
            Op::Dot { a, b, acc, fold } => return self.dot(value, [*a, *b, *acc], fold.as_deref()),
            Op::Near(..) => return self.near(value),
            Op::Gather(view, indices) | Op::GatherInside(view, indices) if self.gathered_width(value) > 1 => {
                let (inside, width) = (matches!(op, Op::GatherInside(..)), self.gathered_width(value));
                return self.gather_vectors(value, Memory::View(*view), indices, inside, width);
            }
            Op::Gather(view, indices) => return self.gather_tile(value, *view, indices, false),
            Op::GatherInside(view, indices) => return self.gather_tile(value, *view, indices, true),
            Op::Or { tile, absent } => return self.or(value, op, *tile, *absent),
            Op::Total { scan, .. } => return self.total(value, *scan),
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
                && self.kernel.can_exchange(&own, l)
            {
                rep.layout = Some(l.clone());
            }
        }
        rep.mask = self.few_tests(value, rep.mask, rep.layout.as_ref())?;
        self.set_pending(value, rep)
    }

    /// A tile that is computed where it is used, or once where that is better.
    pub fn set_pending(&mut self, value: ValueId, rep: TileRep) -> Expanded<()> {
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
                let natural = self.own_layout(value);
                if natural.lane_axis() == layout.lane_axis() { Ok(()) } else { self.convert(value, &natural) }
            }
            _ => Ok(()),
        }
    }

    /// One register per thread: the value becomes an expression, or a variable where it is used often or has a name.
    fn settle_single(&mut self, value: ValueId) -> Expanded<()> {
        let layout = self.tile(value).layout.clone().unwrap_or_else(|| panic!("lowering: {value:?} has no layout"));
        self.prepare(value, &layout)?;
        let e = self.only_element(value, &layout);
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
        self.kernel.mask_of(op, operands, &|v| &self.tile(v).mask)
    }

    fn transpose(&mut self, value: ValueId, tile: ValueId, perm: &[usize]) -> Expanded<()> {
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
        mask.renumber(|axis| perm.iter().position(|k| *k == axis));
        let layout = source.layout.map(|l| l.permuted(perm));
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout, mask, data: source.data }));
        Ok(())
    }

    /// Tiles side by side along a new last axis, all of it in the registers of a thread. What is absent in one of them is absent there.
    fn stack(&mut self, value: ValueId, parts: &[ValueId]) -> Expanded<()> {
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
    fn mask_of_stack(&mut self, value: ValueId, parts: &[Mask], layout: &Layout, wide: &Layout) -> Expanded<Mask> {
        let mut common = parts[0].clone();
        parts.iter().for_each(|part| common = common.without(&common.without(part)));
        if parts.iter().all(|part| *part == common) {
            return Ok(common);
        }
        let condition = self.kernel.value(value).found.unwrap_or_else(|| panic!("values: nothing says which parts of a stack exist"));
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
}
