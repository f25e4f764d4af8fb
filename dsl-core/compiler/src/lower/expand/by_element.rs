//! A `while` that each element leaves by itself: a thread goes on while one of its elements does. Where lanes exchange something in a turn a warp
//! goes on while one of its lanes does, and where threads meet the block.

use super::combine::Partial;
use super::context::{Expanded, Expander};
use super::index::literal;
use super::uniform_conditions::meets;
use super::values::At;
use crate::block::steps::{Step, steps};
use crate::block::{Block, Carry, Combine, Form, Op, Operator, Stmt as Page, ValueId, visit};
use girih_ir::layout::Layout;
use girih_ir::loc::SourceLoc;
use girih_ir::simt::{Expr, Stmt};
use girih_ir::types::{DType, Scope, VoteKind};
use std::collections::HashMap;

impl Expander<'_> {
    /// Lowers a `while` on a tile, or with `once` what a warp takes or passes: its condition is the same in all lanes.
    pub fn repeat_by_element(&mut self, once: bool, carries: &[Carry], header: &Block, condition: ValueId, body: &Block) -> Expanded<()> {
        let carried = self.start_carries(carries)?;
        let outer = self.enter_turn();
        self.lower_block(header)?;
        let own = self.own_any(condition)?;
        let test = self.close();
        self.open();
        self.lower_block(body)?;
        self.end_carries(carries, &carried)?;
        let turn = self.leave_turn(outer);
        self.blocks.push(test);
        let goes_on = if meets(&turn) {
            self.any_of_block(own)?
        } else if !once && (exchanges(header) || exchanges(body)) {
            let var = self.new_var("vote", DType::Bool, None);
            self.emit(Stmt::Declare { var, init: None });
            self.emit(Stmt::Vote { var, kind: VoteKind::Any, value: own.value });
            Expr::Var(var)
        } else {
            own.value
        };
        let test = self.close();
        match once {
            true => {
                test.into_iter().for_each(|stmt| self.emit(stmt));
                self.emit(Stmt::If { condition: goes_on, then: turn, otherwise: vec![] });
            }
            false => self.emit(Stmt::While { header: test, condition: goes_on, body: turn }),
        }
        self.finish_carries(carries, &carried)?;
        Ok(())
    }

    /// Whether one of the thread's elements holds.
    fn own_any(&mut self, condition: ValueId) -> Expanded<Own> {
        let axes: Vec<usize> = (0..self.kernel.ty(condition).shape().map_or(0, <[_]>::len)).collect();
        let form = Form::Reduce { axes: axes.clone() };
        let any = Combine { operator: Operator::Any, inputs: vec![condition], results: vec![condition], form, loc: SourceLoc::NONE };
        let layout = self.layout_of(condition);
        self.prepare(condition, &layout)?;
        if layout.registers == 1 && self.inputs_mask(&any, &layout)?.is_none() {
            let value = self.element(condition, &At::only(&layout, literal(DType::I32, 0)), &HashMap::new());
            return Ok(Own { steps: steps(&layout, &axes, true), any, value, layout });
        }
        let (partial, steps, _) = self.begin_reduction(&any, &axes)?;
        Ok(Own { any, value: Expr::Var(partial.vars[0]), layout: partial.layout, steps })
    }

    /// Whether one of the block's elements holds.
    fn any_of_block(&mut self, own: Own) -> Expanded<Expr> {
        let var = self.new_var("any", DType::Bool, None);
        self.emit(Stmt::Declare { var, init: Some(own.value) });
        let mut partial = Partial { vars: vec![var], layout: own.layout };
        self.take_steps(&own.any, &mut partial, own.steps)?;
        Ok(Expr::Var(partial.vars[0]))
    }
}

/// What a thread knows of its elements, and what is left to know it of all.
struct Own {
    any: Combine,
    value: Expr,
    layout: Layout,
    steps: Vec<Step>,
}

/// Whether the lanes of a warp exchange something in a block, or meet.
fn exchanges(block: &Block) -> bool {
    let mut found = false;
    visit(block, &mut |stmt| {
        found |= matches!(stmt, Page::Let(_, Op::Shuffle { .. } | Op::Vote(..)) | Page::Barrier(Scope::Warp));
    });
    found
}
