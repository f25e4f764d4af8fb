//! Turns that overlap: the first fragments of a turn are read while the matrix units still multiply the last ones of the turn before, and
//! the copies of a later turn are started among the products. Nothing waits between two turns but the barrier itself. (The order of
//! operations is that of CUTLASS's multistage mainloops.)
//!
//! Fragments have two halves for that: the steps of a turn multiply one and fill the other in turn.

use super::context::Expander;
use super::index::{Index, as_literal, binary, compare};
use crate::block::Handover;
use crate::lower::cleanup::simplify::substitute;
use girih_ir::simt::visit::{blocks, children, each_expr};
use girih_ir::simt::{Expr, Fragment, Stmt, Var, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};
use std::collections::HashMap;

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

/// The steps of a turn, with fragments of two halves.
pub(crate) struct Steps {
    /// What a turn does before them.
    before: Vec<Stmt>,
    counter: VarId,
    step: i64,
    end: i64,
    /// The fragments, and elements of a half.
    fragments: HashMap<VarId, i64>,
    loads: Vec<Stmt>,
    /// Conversions that go on among the products of the step before.
    conversions: Vec<Conversion>,
    /// What is done with the fragments: they are converted, if not where they are, and multiplied.
    products: Vec<Stmt>,
    /// What it does after them.
    after: Vec<Stmt>,
}

/// A loop of steps as it was lowered: `for (counter) { declare and load fragments; declare and convert them; multiply }`.
pub(crate) struct LoweredSteps {
    /// Open blocks around it, and its place in the innermost of them.
    pub depth: usize,
    pub at: usize,
    /// The fragments that are loaded, with the elements of each.
    pub fragments: Vec<(VarId, i64)>,
    /// Statements of its body that declare and load them.
    pub loads: usize,
    /// What becomes of fragments before they are multiplied, by loops over their elements: statements that declare and convert.
    pub conversions: Vec<Conversion>,
    pub converts: usize,
}

impl Steps {
    /// Takes a turn apart, of which the statement at a place is a loop of steps that is written out.
    fn of(mut turn: Vec<Stmt>, at: usize, lowered: LoweredSteps, vars: &[Var]) -> Steps {
        let after = turn.split_off(at + 1);
        let Some(Stmt::For { var: counter, end, step, mut body, .. }) = turn.pop() else { panic!("fragment_prefetch: no loop of steps") };
        let number = |e: &Expr| as_literal(e).expect("fragment_prefetch: steps are written out");
        let (end, step) = (number(&end), number(&step));
        let products = body.split_off(lowered.loads + lowered.converts);
        let converted = body.split_off(lowered.loads);
        let loads = body.into_iter().filter(|s| !matches!(s, Stmt::Declare { .. })).collect();
        let fragments = lowered.fragments.into_iter().collect();
        let (conversions, products) = converted_ahead(lowered.conversions, converted, products, vars);
        Steps { before: turn, counter, step, end, fragments, loads, conversions, products, after }
    }

    /// The loads of the step at `position`.
    fn loads_at(&self, position: &Expr) -> Vec<Stmt> {
        let half = self.half(position);
        let mut loads: Vec<Stmt> = self.loads.iter().map(|s| substitute(s.clone(), self.counter, position)).collect();
        self.in_half(&mut loads, &half);
        loads
    }

    /// Part `part` of `parts` of the conversions of what the step at `position` multiplies.
    fn conversions_at(&self, position: &Expr, part: &Expr, parts: i64) -> Vec<Stmt> {
        let mut all: Vec<Stmt> = self.conversions.iter().map(|c| c.part(part, parts)).collect();
        self.in_half(&mut all, &self.half(position));
        all
    }

    /// Which half of the fragments the step at `position` multiplies.
    fn half(&self, position: &Expr) -> Expr {
        LOCAL.rem(LOCAL.div(position.clone(), self.step), 2)
    }

    /// Moves accesses to fragments to one of their halves.
    fn in_half(&self, stmts: &mut [Stmt], half: &Expr) {
        let moved = |var: VarId, at: &Expr| match self.fragments.get(&var) {
            Some(len) => LOCAL.add(LOCAL.mul(half.clone(), LOCAL.lit(*len)), at.clone()),
            None => at.clone(),
        };
        for stmt in stmts {
            if let Stmt::LoadVector { var, at, .. } | Stmt::LoadMatrix { var, at, .. } | Stmt::Assign { var, index: Some(at), .. } = stmt {
                *at = moved(*var, at);
            } else if let Stmt::Mma { a, b, .. } = stmt {
                [a, b].into_iter().for_each(|f| f.at = moved(f.var, &f.at));
            }
            each_expr(stmt, &mut |e| {
                deep(e, &mut |e| {
                    if let Expr::Element(var, at) = e {
                        **at = moved(*var, at);
                    }
                });
            });
            blocks(stmt).into_iter().for_each(|b| self.in_half(b, half));
        }
    }
}

impl Expander<'_> {
    /// Takes the turn apart that was just lowered into the innermost block, behind a mark; `None` where its steps are not written out in
    /// the turn itself.
    pub fn steps_of_turn(&mut self, mark: usize) -> Option<Steps> {
        let depth = self.blocks.len();
        let lowered = self.steps.take().filter(|steps| steps.depth == depth && steps.at >= mark)?;
        let turn = self.take_from(mark);
        let at = lowered.at - mark;
        let steps = Steps::of(turn, at, lowered, &self.vars);
        for (var, len) in &steps.fragments {
            self.vars[var.0 as usize].len = Some(2 * *len as u32);
        }
        Some(steps)
    }

    /// Emits what comes before the loop: both halves of the fragments, and the first one filled.
    pub fn first_fragments(&mut self, steps: &Steps, wait: &[Stmt]) {
        let mut fragments: Vec<VarId> = steps.fragments.keys().copied().collect();
        fragments.sort_by_key(|v| v.0);
        fragments.into_iter().for_each(|var| self.emit(Stmt::Declare { var, init: None }));
        self.comment("read what the first step multiplies");
        wait.iter().cloned().for_each(|s| self.emit(s));
        let first = LOCAL.lit(0);
        steps.loads_at(&first).into_iter().for_each(|s| self.emit(s));
        steps.conversions_at(&first, &first, 1).into_iter().for_each(|s| self.emit(s));
    }

    /// A turn: every step reads what the next one multiplies, the last one that of the next turn, whose stage `leave` goes on to and for whose
    /// copies `wait` waits. The second one starts `copies`, the first one where there are only two.
    pub fn overlapped_turn(&mut self, handover: Handover, steps: Steps, copies: Vec<Stmt>, leave: Vec<Stmt>, wait: Vec<Stmt>) -> Vec<Stmt> {
        let here = Expr::Var(steps.counter);
        let next = self.new_var("next", DType::I32, None);
        let value = binary(BinaryOp::Rem, LOCAL.add(here.clone(), LOCAL.lit(steps.step)), LOCAL.lit(steps.end));
        let when = |at: i64, then: Vec<Stmt>| {
            let condition = compare(CompareOp::Eq, here.clone(), LOCAL.lit(at));
            Stmt::If { condition, then, otherwise: vec![] }
        };
        let text = match handover {
            Handover::Mbarriers => "the next turn: this warp is done with the stage, and the copies to the next one have landed",
            Handover::Barrier | Handover::Registers | Handover::Transactions => {
                "the next turn: its copies have landed, and nobody reads any more what the turn before has read"
            }
        };
        let mut last = vec![Stmt::Comment(text.into())];
        last.extend(leave);
        last.extend(wait);
        let mut body = vec![when(steps.end - steps.step, last)];
        body.push(Stmt::Let { var: next, value });
        body.extend(steps.loads_at(&Expr::Var(next)));
        // Not among the products that follow the barrier: those begin at once. (1.5 % at 4096³ in f16.)
        // Behind mbarriers, whose waits are branches, in the middle of the turn: 3 % at 4096³ in tf32.
        let start = match steps.end / steps.step {
            2 => 0,
            n if handover == Handover::Mbarriers => n / 2 * steps.step,
            _ => steps.step,
        };
        body.push(when(start, copies));
        let half = steps.half(&here);
        let mut products = steps.products.clone();
        steps.in_half(&mut products, &half);
        if let Some((round, rounds, within)) = rounds(&mut products).filter(|_| !steps.conversions.is_empty()) {
            within.push(Stmt::Comment("meanwhile: convert some of what the next step multiplies".into()));
            within.extend(steps.conversions_at(&Expr::Var(next), &Expr::Var(round), rounds));
        }
        body.extend(products);
        let Steps { mut before, counter: var, step, end, after, .. } = steps;
        before.push(Stmt::For { var, start: LOCAL.lit(0), end: LOCAL.lit(end), step: LOCAL.lit(step), unroll: true, body });
        before.extend(after);
        before
    }
}

/// A loop over the elements of a fragment that converts each.
pub(crate) struct Conversion {
    pub fragment: VarId,
    /// The array that it writes.
    pub written: VarId,
    pub len: i64,
    /// The number of an element, and what becomes of it.
    pub element: VarId,
    pub value: Expr,
}

impl Conversion {
    /// Whether it can be done where the elements are: each is read once, as its own number, and stays of its type.
    fn stays(&self, vars: &[Var]) -> bool {
        let mut read = Vec::new();
        deep(&mut self.value.clone(), &mut |e| match e {
            Expr::Element(from, at) => read.push(*from == self.fragment && **at == Expr::Var(self.element)),
            Expr::Load { .. } => read.push(false),
            _ => {}
        });
        let dtype = |var: VarId| vars[var.0 as usize].dtype;
        read == [true] && dtype(self.fragment) == dtype(self.written)
    }

    /// Part `part` of `parts` of it.
    fn part(&self, part: &Expr, parts: i64) -> Stmt {
        let own = self.len / parts;
        let at = LOCAL.add(LOCAL.mul(part.clone(), LOCAL.lit(own)), Expr::Var(self.element));
        let stmt = Stmt::Assign { var: self.fragment, index: Some(Expr::Var(self.element)), value: self.value.clone() };
        super::elements::unrolled(self.element, own, vec![substitute(stmt, self.element, &at)])
    }
}

/// Conversions that leave the type as it is go on among the products of the step before, a part behind each round of them, and those read the
/// fragments themselves: the matrix units don't wait for them. (tf32 at 4096³: 2 %.) Others are made when they are multiplied: nobody waits for
/// loads then.
fn converted_ahead(all: Vec<Conversion>, converted: Vec<Stmt>, mut products: Vec<Stmt>, vars: &[Var]) -> (Vec<Conversion>, Vec<Stmt>) {
    let parts = rounds(&mut products).map(|(_, rounds, _)| rounds);
    if !parts.is_some_and(|n| all.iter().all(|c| c.len % n == 0 && c.stays(vars))) {
        return (vec![], converted.into_iter().chain(products).collect());
    }
    let fragment = |var: VarId| all.iter().find(|c| c.written == var).map_or(var, |c| c.fragment);
    each_product(&mut products, &mut |f| f.var = fragment(f.var));
    (all, products)
}

/// The outermost loop of products: its counter, its turns, and its body.
fn rounds(products: &mut [Stmt]) -> Option<(VarId, i64, &mut Vec<Stmt>)> {
    let last = products.last_mut()?;
    if let Stmt::For { var, end, body, .. } = last { Some((*var, as_literal(end)?, body)) } else { None }
}

/// Calls `f` on the operands of all matrix instructions.
fn each_product(body: &mut [Stmt], f: &mut dyn FnMut(&mut Fragment)) {
    for stmt in body {
        if let Stmt::Mma { a, b, .. } = stmt {
            [a, b].into_iter().for_each(&mut *f);
        }
        blocks(stmt).into_iter().for_each(|b| each_product(b, f));
    }
}

/// Calls `f` on an expression and on its operands.
fn deep(e: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
    f(e);
    children(e, &mut |c| deep(c, f));
}
