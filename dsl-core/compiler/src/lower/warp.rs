//! Shuffles and votes: operands come to a layout whose neighbours along the last axis are the lanes of a warp.

use super::context::{Data, Lowered, Lowering, Rep, TileRep};
use super::index::{as_literal, binary, literal};
use super::mask::Mask;
use crate::plan::illegal;
use crate::plan::legality::Rule;
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, ShuffleKind, Stmt, VoteKind};
use girih_ir::tile::{KnobId, Op, Ty, ValueId};
use girih_ir::types::{BinaryOp, DType, Literal};

/// Lanes of a warp.
pub(super) const LANES: i64 = 32;

impl Lowering<'_> {
    /// Lowers a shuffle or vote of a tile.
    pub fn warp_op(&mut self, value: ValueId, op: &Op) -> Lowered<()> {
        let (operand, lane) = match op {
            Op::Shuffle { value, lane, .. } => (*value, Some(*lane)),
            Op::Vote(_, mask) => (*mask, None),
            other => panic!("warp: {other:?} is no exchange between lanes"),
        };
        let layout = self.lane_layout(operand)?;
        let lane_tile = lane.filter(|v| matches!(self.kernel.ty(*v), Ty::Tile(..)));
        let inputs: Vec<ValueId> = [operand].into_iter().chain(lane_tile).collect();
        let mut masks = Vec::new();
        for v in &inputs {
            self.prepare(*v, &layout)?;
            let mask = self.tile(*v).mask.clone();
            self.prepare_sides(&mask, &layout)?;
            let instead = Literal { dtype: self.register_type(*v), bits: u64::from(matches!(op, Op::Vote(VoteKind::All, _))) };
            let zeros = instead.bits == 0 && self.zero_where_absent(*v);
            let axes = self.bound_axes(&mask, &layout);
            let base = if zeros || mask == Mask::default() { None } else { Some(self.base_coordinates(&axes, &layout)) };
            masks.push((mask, base, instead));
        }
        let (dtype, name) = (self.register_type(value), self.name_of(value, if lane.is_some() { "other" } else { "vote" }));
        let array = (layout.registers > 1).then(|| self.new_var(&name, dtype, Some(layout.registers as u32)));
        if let Some(var) = array {
            self.emit(Stmt::Declare { var, init: None });
        }
        let mut single = None;
        self.for_elements(&inputs, &layout, true, &mut |cx, at, elements| {
            let mut brought = Vec::new();
            for (e, (mask, base, instead)) in elements.into_iter().zip(&masks) {
                let present = base.as_ref().and_then(|base| cx.present(mask, base, at));
                brought.push(match present {
                    Some(p) => Expr::Select(Box::new(p), Box::new(e), Box::new(Expr::Literal(*instead))),
                    None => e,
                });
            }
            let mut brought = brought.into_iter();
            let mine = brought.next().unwrap_or_else(|| panic!("warp: no operand"));
            let found = match op {
                Op::Shuffle { kind, lane, .. } => {
                    let number = brought.next().unwrap_or_else(|| cx.scalar(*lane));
                    cx.shuffle_as(&name, mine, *kind, distance(*kind, number))
                }
                Op::Vote(kind, _) => {
                    let var = cx.new_var(&name, dtype, None);
                    cx.emit(Stmt::Declare { var, init: None });
                    cx.emit(Stmt::Vote { var, kind: *kind, value: mine });
                    Expr::Var(var)
                }
                other => panic!("warp: {other:?} is no exchange between lanes"),
            };
            match array {
                Some(var) => cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value: found }),
                None => single = Some(found),
            }
            Ok(())
        })?;
        let data = array.map(Data::Array).or(single.map(Data::One)).unwrap_or_else(|| panic!("warp: a tile without elements"));
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask: Mask::default(), data }));
        Ok(())
    }

    /// A layout of the tile in which 32 neighbours along the last axis are the lanes of a warp: its own if it is one.
    fn lane_layout(&self, value: ValueId) -> Lowered<Layout> {
        let sizes = self.kernel.ty(value).shape().unwrap_or_else(|| panic!("warp: {value:?} is no tile"));
        let own = self.layout_of(value);
        let extent = own.shape().last().copied().unwrap_or(0);
        self.layouts().by_lanes(own).ok_or_else(|| {
            let knobs: Vec<KnobId> = sizes.iter().flat_map(|s| s.knobs()).collect();
            let found = knobs.iter().map(|k| self.plan.knobs[k.0 as usize].to_string()).collect::<Vec<_>>().join(" / ");
            illegal(self.kernel, &knobs, found, Rule::Lanes.with(&[&extent, &self.plan.threads])).into()
        })
    }
}

/// The number that a shuffle is given: distances count modulo 32, as lane numbers do by themselves.
fn distance(kind: ShuffleKind, number: Expr) -> Expr {
    match as_literal(&number) {
        Some(n) => literal(DType::I32, n & (LANES - 1)),
        None if kind == ShuffleKind::Index => number,
        None => binary(BinaryOp::And, number, literal(DType::I32, LANES - 1)),
    }
}
