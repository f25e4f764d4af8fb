//! Branches on scalars, and which elements of their results exist: those of the side that was taken.

use super::context::{Data, Expanded, Expander, Rep, Reps, TileRep};
use super::mask::{Bound, Mask, Test};
use super::presence_tiles::Found;
use crate::block::{Block, Branch, Ty, ValueId};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::DType;

/// The variable of a branch's result.
#[derive(Clone)]
struct Chosen {
    var: VarId,
    /// `None` for scalars.
    layout: Option<Layout>,
}

/// A side whose statements are known.
struct Side {
    block: Vec<Stmt>,
    values: Reps,
    /// Of each result: where this side's value exists.
    masks: Vec<Mask>,
}

impl Expander<'_> {
    pub fn branch(&mut self, condition: ValueId, then: &Block, otherwise: &Block, results: &[Branch]) -> Expanded<()> {
        let (value, condition) = (condition, self.scalar(condition));
        let outer = self.values.clone();
        let mut slots: Vec<Option<Chosen>> = vec![None; results.len()];
        let mut sides = Vec::new();
        for (block, first) in [(then, true), (otherwise, false)] {
            self.open();
            self.lower_block(block)?;
            let mut masks = Vec::new();
            for (r, slot) in results.iter().zip(&mut slots) {
                masks.push(self.end_branch(if first { r.then } else { r.otherwise }, r.result, slot)?);
            }
            sides.push(Side { block: self.close(), values: std::mem::replace(&mut self.values, outer.clone()), masks });
        }
        let taken = self.asked_later(&sides).then(|| self.new_var("taken", DType::Bool, None));
        let condition = match taken {
            Some(var) => {
                self.taken_ways.insert(results[0].result, var);
                self.emit(Stmt::Let { var, value: condition });
                Expr::Var(var)
            }
            None => condition,
        };
        let taken = taken.map(|_| results[0].result);
        let mut reps = Vec::new();
        for (k, slot) in slots.into_iter().enumerate() {
            let Chosen { var, layout } = slot.unwrap_or_else(|| panic!("control: a branch without result"));
            reps.push(match layout {
                None => Rep::Scalar(Expr::Var(var)),
                Some(layout) => {
                    let mask = self.mask_of_either(&mut sides, k, results[k].result, (&layout, &taken))?;
                    Rep::Tile(TileRep { elsewhere: vec![], data: data_of(var, &layout), layout: Some(layout), mask })
                }
            });
        }
        let [then, otherwise] = sides.try_into().unwrap_or_else(|_| panic!("control: a branch has two sides"));
        let condition = self.agreed(value, condition, &[&then.block, &otherwise.block]);
        self.emit(Stmt::If { condition, then: then.block, otherwise: otherwise.block });
        for (r, rep) in results.iter().zip(reps) {
            self.set(r.result, rep);
        }
        Ok(())
    }

    /// Whether a result's reader has to ask which way the branch went: sides have bounds of their own.
    fn asked_later(&self, sides: &[Side]) -> bool {
        let own = |a: &Mask, b: &Mask| !a.without(b).bounds.is_empty();
        sides[0].masks.iter().zip(&sides[1].masks).any(|(a, b)| own(a, b) || own(b, a))
    }

    /// Sets the variable of a branch's result, declared before the branch by the first side. Gives where the side's value exists.
    fn end_branch(&mut self, value: ValueId, result: ValueId, slot: &mut Option<Chosen>) -> Expanded<Mask> {
        if slot.is_none() {
            let is_tile = matches!(self.kernel.ty(value), Ty::Tile(..));
            let layout = is_tile.then(|| self.layout_of(value));
            let name = self.name_of(result, "chosen");
            let var = self.declare_chosen(&name, self.register_type(result), layout.as_ref(), self.blocks.len() - 2);
            *slot = Some(Chosen { var, layout });
        }
        let Some(Chosen { var, layout }) = slot.clone() else { return Ok(Mask::default()) };
        let Some(layout) = layout else {
            let value = self.scalar(value);
            self.emit(Stmt::Assign { var, index: None, value });
            return Ok(Mask::default());
        };
        let array = layout.registers > 1;
        self.for_elements(&[value], &layout, false, &mut |cx, at, mut elements| {
            cx.emit(Stmt::Assign { var, index: array.then(|| at.flat.clone()), value: elements.remove(0) });
            Ok(())
        })?;
        Ok(self.tile(value).mask.clone())
    }

    fn declare_chosen(&mut self, name: &str, dtype: DType, layout: Option<&Layout>, block: usize) -> VarId {
        let len = layout.filter(|l| l.registers > 1).map(|l| l.registers as u32);
        let var = self.new_var(name, dtype, len);
        self.blocks[block].push(Stmt::Declare { var, init: None });
        var
    }

    /// Where result `k` exists. What else only one side asks for than bounds goes into a bool beside the result, set by each side.
    fn mask_of_either(
        &mut self,
        sides: &mut [Side],
        k: usize,
        result: ValueId,
        (layout, taken): (&Layout, &Option<ValueId>),
    ) -> Expanded<Mask> {
        let own = [0, 1].map(|n| {
            let (mine, others) = (&sides[n].masks[k], &sides[1 - n].masks[k]);
            mine.without(others)
        });
        let mut common = sides[0].masks[k].without(&own[0]);
        let own = if Found::takes(&common) {
            // Sides with many tests in common have them made once, too.
            let shared = std::mem::take(&mut common.sides);
            own.map(|mask| Mask { sides: [shared.clone(), mask.sides].concat(), ..mask })
        } else {
            own
        };
        if let Some(result) = *taken {
            for (mask, then) in own.iter().zip([true, false]) {
                let side = |bound: &Bound| vec![Test::Below(*bound), Test::Went { result, then: !then }];
                common.sides.extend(mask.bounds.iter().map(side));
            }
        }
        if own.iter().all(|mask| mask.sides.is_empty()) {
            return Ok(common);
        }
        let Some(condition) = self.kernel.value(result).found else { panic!("control: nothing says where a result exists") };
        let var = self.declare_chosen("there", DType::Bool, Some(layout), self.blocks.len() - 1);
        let outer = self.values.clone();
        for (side, own) in sides.iter_mut().zip(own) {
            self.values = side.values.clone();
            self.blocks.push(std::mem::take(&mut side.block));
            self.set_present(&Mask { bounds: vec![], ..own }, var, layout, (1, 0))?;
            side.block = self.close();
        }
        self.values = outer;
        let there = TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask: Mask::default(), data: data_of(var, layout) };
        self.set(condition, Rep::Tile(there));
        common.sides.push(vec![Test::of(condition, true, layout.axes.len())]);
        Ok(common)
    }

    /// Sets a bool per element to whether it exists: those of the variable that are `each` apart, from `first` on.
    pub fn set_present(&mut self, mask: &Mask, var: VarId, layout: &Layout, (each, first): (i64, i64)) -> Expanded<()> {
        self.prepare_sides(mask, layout)?;
        let axes = self.bound_axes(mask, layout);
        let base = self.base_coordinates(&axes, layout);
        let array = layout.registers * each > 1;
        let ix = super::index::Index { dtype: DType::I32 };
        self.for_elements(&[], layout, true, &mut |cx, at, _| {
            let value = cx.present(mask, &base, at).unwrap_or_else(|| super::index::literal(DType::Bool, 1));
            let index = ix.add(ix.mul(at.flat.clone(), ix.lit(each)), ix.lit(first));
            cx.emit(Stmt::Assign { var, index: array.then_some(index), value });
            Ok(())
        })
    }
}

fn data_of(var: VarId, layout: &Layout) -> Data {
    if layout.registers == 1 { Data::One(Expr::Var(var)) } else { Data::Array(var) }
}
