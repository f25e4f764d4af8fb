//! A sum of rows that a loop adds up (`total = total * factor + weights.sum_axis(1)`) needs its lanes once, behind the loop: in the turns each
//! lane adds up what it has, as long as what a turn does to the total does the same to each part of it. (Shah and others, FlashAttention-3, 2024.)

use super::Source;
use crate::analyses::uses::{Uses, count, operands};
use crate::block::late_sums::LateSum;
use crate::block::layouts::projected;
use crate::block::lying::Walk;
use crate::block::steps::{Step, steps};
use crate::block::{Block, Carry, Combine, Form, Kernel, Layout, Loop, Op, Operator, Range, Stmt, Ty, ValueId, visit};
use girih_ir::types::{BinaryOp, TernaryOp, UnaryOp};
use std::collections::{HashMap, HashSet};

/// Finds the sums of loops' turns whose lanes can meet behind the loop.
pub(crate) fn defer_lanes(page: &mut Kernel, source: &Source) {
    let uses = count(source.kernel);
    let (mut found, mut lying, mut sums) = (Vec::new(), HashMap::new(), HashMap::new());
    let mut walk = Walk::new(page);
    walk.block(&page.body, &mut |walk, stmt| {
        if let Stmt::Combine(c) = stmt {
            sums.extend(row_sum(walk, c).map(|sum| (c.results[0], sum)));
        } else if let Stmt::Let(_, op) = stmt {
            lying.extend(operands(op).into_iter().map(|v| (v, walk.tile(v).layout)));
        }
    });
    visit(&page.body, &mut |stmt| {
        if let Stmt::Loop(l) = stmt
            && l.grid.is_none()
            && l.plan.range == Range::All
        {
            let turn = Turn { page, l, made: operations(&l.body), uses: &uses, lying: &lying };
            found.extend(l.carries.iter().filter(|c| c.from_zero).filter_map(|c| turn.late_sum(c, &sums)));
        }
    });
    page.late_sums = found;
}

/// A sum of a tile's rows that needs no threads of other warps.
struct RowSum {
    /// Lanes by their distance and number.
    lanes: Vec<(i64, i64)>,
    /// How its results lie.
    layout: Layout,
}

fn row_sum(walk: &Walk, c: &Combine) -> Option<RowSum> {
    let (Form::Reduce { axes }, Operator::Sum, [input], [result]) = (&c.form, &c.operator, &c.inputs[..], &c.results[..]) else {
        return None;
    };
    let float = matches!(walk.page.ty(*result), Ty::Tile(dtype, _) if dtype.is_float());
    let layout = walk.tile(*input).layout.filter(|_| float)?;
    let mut lanes = Vec::new();
    for step in steps(&layout, axes, true) {
        match step {
            Step::Registers { .. } => {}
            Step::Lanes { distance, extent } => lanes.push((distance, extent)),
            Step::Threads(_) => return None,
        }
    }
    let kept: Vec<usize> = (0..layout.axes.len()).filter(|k| !axes.contains(k)).collect();
    (!lanes.is_empty()).then(|| RowSum { lanes, layout: projected(&layout, &kept) })
}

/// A loop's turn.
struct Turn<'t> {
    page: &'t Kernel,
    l: &'t Loop,
    /// The values that its operations make.
    made: HashMap<ValueId, &'t Op>,
    uses: &'t [Uses],
    /// How tiles lie that operations use.
    lying: &'t HashMap<ValueId, Option<Layout>>,
}

impl Turn<'_> {
    /// The sum that a carried tile is, if its lanes can meet behind the loop.
    fn late_sum(&self, carry: &Carry, sums: &HashMap<ValueId, RowSum>) -> Option<LateSum> {
        let mut turns = self.l.body.iter().filter_map(|s| if let Stmt::Combine(c) = s { Some(c) } else { None });
        turns.find_map(|turn| {
            let RowSum { lanes, layout } = sums.get(&turn.results[0])?;
            let leaves = [carry.inner, turn.results[0]];
            let of_leaves = made_of(&self.l.body, &leaves);
            let mut chain = Chain { made: &self.made, leaves, of_leaves, read: HashMap::new(), inside: HashSet::new() };
            let alone = chain.is_linear(carry.next) && self.is_read_there_alone(&chain, carry) && self.lies_alike(&chain, layout);
            alone.then(|| LateSum { turn: turn.clone(), carried: carry.inner, lanes: lanes.clone() })
        })
    }

    /// Whether nothing else looks at the total, at the turn's sum, or at what lies between.
    fn is_read_there_alone(&self, chain: &Chain, carry: &Carry) -> bool {
        let both = chain.leaves.iter().all(|leaf| chain.read.contains_key(leaf));
        let count = |v: &ValueId| self.uses[v.0 as usize].count;
        // The next total is read by the loop.
        both && count(&carry.next) == 1 && chain.read.iter().all(|(v, reads)| count(v) == *reads)
    }

    /// Whether all tiles that are looked at on the way lie as the sum does, so that each lane's part stays where it is.
    fn lies_alike(&self, chain: &Chain, layout: &Layout) -> bool {
        chain
            .inside
            .iter()
            .all(|v| !matches!(self.page.ty(*v), Ty::Tile(..)) || self.lying.get(v).is_some_and(|l| l.as_ref().is_none_or(|l| l == layout)))
            && self.lying.get(&chain.leaves[0]).is_some_and(|l| l.as_ref() == Some(layout))
    }
}

/// These values, and those that operations of a block make of them.
fn made_of(body: &Block, leaves: &[ValueId]) -> HashSet<ValueId> {
    let mut found: HashSet<ValueId> = leaves.iter().copied().collect();
    for stmt in body {
        if let Stmt::Let(v, op) = stmt
            && operands(op).iter().any(|o| found.contains(o))
        {
            found.insert(*v);
        }
    }
    found
}

/// The values that operations of a block make.
fn operations(body: &Block) -> HashMap<ValueId, &Op> {
    body.iter().filter_map(|s| if let Stmt::Let(v, op) = s { Some((*v, op)) } else { None }).collect()
}

/// How the next total is made of the total and of the turn's sum.
struct Chain<'c> {
    made: &'c HashMap<ValueId, &'c Op>,
    leaves: [ValueId; 2],
    /// The values that are made of them.
    of_leaves: HashSet<ValueId>,
    /// How often each value between is read here.
    read: HashMap<ValueId, u32>,
    /// All operands.
    inside: HashSet<ValueId>,
}

impl Chain<'_> {
    /// Whether a value is a sum of multiples of the leaves.
    fn is_linear(&mut self, value: ValueId) -> bool {
        if self.leaves.contains(&value) {
            return true;
        }
        let Some(op) = self.made.get(&value).copied() else { return false };
        match op {
            Op::Unary(UnaryOp::Neg, a) => self.reads(*a),
            Op::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => self.reads(*a) && self.reads(*b),
            Op::Binary(BinaryOp::Mul, a, b) if self.of_leaves.contains(a) => self.reads(*a) && self.is_factor(*b),
            Op::Binary(BinaryOp::Mul, a, b) => self.is_factor(*a) && self.reads(*b),
            Op::Binary(BinaryOp::Div, a, b) => self.reads(*a) && self.is_factor(*b),
            Op::Ternary(TernaryOp::Fma, a, b, c) if self.of_leaves.contains(a) => self.reads(*a) && self.is_factor(*b) && self.reads(*c),
            Op::Ternary(TernaryOp::Fma, a, b, c) => self.is_factor(*a) && self.reads(*b) && self.reads(*c),
            _ => false,
        }
    }

    fn reads(&mut self, value: ValueId) -> bool {
        let times = self.read.entry(value).or_default();
        *times += 1;
        let first = *times == 1;
        self.inside.insert(value);
        !first || self.is_linear(value)
    }

    /// A value that all lanes of a row have alike.
    fn is_factor(&mut self, value: ValueId) -> bool {
        self.inside.insert(value);
        !self.of_leaves.contains(&value)
    }
}
