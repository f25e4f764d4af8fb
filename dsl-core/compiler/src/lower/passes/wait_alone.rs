//! A wait for what other blocks publish is run by one thread, or by one warp where it looks at a tile of words: the threads of the block meet
//! once behind it, and not in each turn.
//!
//! A loop may be run so if all it does is to look: words that other blocks leave are fetched, tensors that the kernel does not write are read at
//! computed positions, and what is found is combined to scalars. Choices and counted loops around such a loop are run with it.
//!
//! A word that follows from what was found is published by who waited, where no other thread has done anything that it would publish, or where it
//! publishes nothing but itself.

mod publish;

use self::publish::Unpublished;
use super::Source;
use crate::block::layouts::{LANES, one_by_one};
use crate::block::{
    Alone, Block, Carry, Combine, Form, Index, Kernel, Op, Operator, Stmt, Team, Told, Ty, Update, ValueId, ViewId, operands, visit,
};
use girih_ir::types::AtomicOp;
use std::collections::{HashMap, HashSet};

/// Finds the waits of a page that some of a block's threads can run.
pub(crate) fn wait_alone(page: &mut Kernel, _: &Source) {
    let together = page.teams.len() == 1 && page.launch.producer.threads == 0;
    if !together || page.teams[0].threads < LANES {
        return;
    }
    let mut body = std::mem::take(&mut page.body);
    let mut ops = HashMap::new();
    visit(&body, &mut |stmt| {
        if let Stmt::Let(v, op) = stmt {
            ops.insert(*v, op.clone());
        }
    });
    let mut waits = Waits { page, ops, alone: vec![] };
    waits.block(&mut body, true);
    page.alone = waits.alone;
    page.body = body;
}

struct Waits<'p> {
    page: &'p Kernel,
    /// How values are made of others.
    ops: HashMap<ValueId, Op>,
    /// Teams found so far.
    alone: Vec<Team>,
}

impl Waits<'_> {
    /// `alone` says that no other thread of the block has done anything yet.
    fn block(&mut self, block: &mut Block, alone: bool) {
        let (mut at, mut unpublished) = (0, Unpublished::before(alone));
        while at < block.len() {
            if let Some((tiles, again, gives)) = self.found(&block[at]) {
                let told = if self.page.teams[0].threads == LANES { Told::Warp } else { Told::Block };
                let team = self.team(if tiles { LANES } else { 1 });
                let mut rest = block.split_off(at + 1);
                let wait = block.remove(at);
                let [totals, published] = self.take_published(&mut rest, unpublished.is_nothing());
                let body = std::iter::once(wait).chain(published).collect();
                at += totals.len();
                block.extend(totals);
                block.push(Stmt::Alone(Alone { team, again, body, gives, told }));
                block.append(&mut rest);
                at += 1;
                continue;
            }
            let (first, stmt) = (alone && unpublished.is_nothing(), &mut block[at]);
            unpublished.pass(self, stmt);
            at += 1;
            match stmt {
                Stmt::Loop(l) => {
                    let begins = first && l.grid.is_some() && self.page.launch.dealt == 0;
                    self.block(&mut l.body, begins);
                }
                Stmt::Range { body, .. } => self.block(body, false),
                Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| self.block(b, false)),
                Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| self.block(b, first)),
                Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
                Stmt::Combine(_)
                | Stmt::OverCluster(_)
                | Stmt::Together(_)
                | Stmt::Shared { .. }
                | Stmt::Barrier(_)
                | Stmt::Copies { .. }
                | Stmt::Meet(_) => {}
                Stmt::Where { .. } | Stmt::Alone(_) | Stmt::Finish(_) => {}
            }
        }
    }

    /// The team of so many threads.
    fn team(&mut self, threads: i64) -> usize {
        if let Some(at) = self.alone.iter().position(|t| t.threads == threads) {
            return at;
        }
        let mut shapes: Vec<&[i64]> = Vec::new();
        for value in &self.page.values {
            if let (Some(form), Ty::Tile(_, shape)) = (value.form, &value.ty) {
                shapes.resize(shapes.len().max(form as usize + 1), &[]);
                shapes[form as usize] = shape;
            }
        }
        let dealt = shapes.into_iter().map(|shape| {
            let own = one_by_one(shape, threads);
            crate::block::Dealt { natural: own.clone(), own }
        });
        let slices = (self.page.teams[0].threads as u64).div_ceil(threads as u64) as i64;
        self.alone.push(Team { threads, slices, anchor: None, dealt: dealt.collect() });
        self.alone.len() - 1
    }

    /// Of a wait that some threads can run: whether it looks at tiles, what of these is made again, and what it gives.
    fn found(&self, stmt: &Stmt) -> Option<(bool, Block, Vec<ValueId>)> {
        let given: Vec<ValueId> = match stmt {
            Stmt::While { carries, .. } | Stmt::Range { carries, .. } => carries.iter().map(|c| c.result).collect(),
            Stmt::If { results, .. } => results.iter().map(|r| r.result).collect(),
            Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {
                return None;
            }
            Stmt::Combine(_) | Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::Shared { .. } | Stmt::Barrier(_) | Stmt::Copies { .. } => {
                return None;
            }
            Stmt::Meet(_) | Stmt::Loop(_) | Stmt::Where { .. } | Stmt::Alone(_) | Stmt::Finish(_) => return None,
        };
        let mut part = Part { waits: self, made: HashSet::new(), again: vec![], tiles: false };
        (waits(stmt) && part.stmt(stmt))
            .then(|| (part.tiles, part.again, given.into_iter().filter(|v| self.page.value(*v).uses.count > 0).collect()))
    }
}

/// Whether a statement has a loop in it that fetches what other blocks leave.
fn waits(stmt: &Stmt) -> bool {
    let mut found = false;
    visit(std::slice::from_ref(stmt), &mut |stmt| {
        if let Stmt::While { header, body, .. } = stmt {
            [header, body].into_iter().for_each(|b| visit(b, &mut |s| found |= matches!(s, Stmt::Atomic { .. })));
        }
    });
    found
}

/// Statements that some threads may run for the block.
struct Part<'w> {
    waits: &'w Waits<'w>,
    /// Tiles that are made in it, or again for it.
    made: HashSet<ValueId>,
    again: Block,
    tiles: bool,
}

impl Part<'_> {
    fn block(&mut self, block: &Block) -> bool {
        block.iter().all(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Let(v, op) => self.computes(op) && self.reads(&operands(op)) && self.makes(*v),
            Stmt::Load(v, access) => {
                let scalar = access.index.iter().all(|i| matches!(i, Index::At(_)));
                scalar && !access.read.shared && self.unwritten(access.view) && self.makes(*v)
            }
            Stmt::Atomic { update, .. } => self.fetches(update),
            Stmt::Combine(c) => self.combines(c),
            Stmt::Range { carries, body, .. } => self.scalars(carries) && self.block(body),
            Stmt::While { carries, header, body, .. } => self.scalars(carries) && self.block(header) && self.block(body),
            Stmt::If { then, otherwise, results, .. } => {
                results.iter().all(|r| self.is_scalar(r.result)) && self.block(then) && self.block(otherwise)
            }
            Stmt::Where { mask, body, .. } => self.reads(&[*mask]) && self.block(body),
            Stmt::Window(..)
            | Stmt::Store { .. }
            | Stmt::Scatter { .. }
            | Stmt::OverCluster(_)
            | Stmt::Together(_)
            | Stmt::Shared { .. } => false,
            Stmt::Barrier(_) | Stmt::Copies { .. } | Stmt::Meet(_) | Stmt::Loop(_) | Stmt::Alone(_) | Stmt::Finish(_) => false,
        }
    }

    /// Whether an operation leaves elements where they are and reads what the kernel does not write.
    fn computes(&self, op: &Op) -> bool {
        match op {
            Op::Gather(view, _) | Op::GatherInside(view, _) => self.unwritten(*view),
            Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) | Op::Start(_) | Op::End(_) | Op::Number(_) => true,
            Op::Like { .. } | Op::Or { .. } | Op::Shuffle { .. } | Op::Vote(..) => true,
            _ => elementwise(op),
        }
    }

    fn unwritten(&self, view: ViewId) -> bool {
        !self.waits.page.is_written(self.waits.page.view(view).param)
    }

    fn fetches(&mut self, update: &Update) -> bool {
        update.op == AtomicOp::Load && self.reads(&update.uses()) && update.result.is_none_or(|r| self.makes(r))
    }

    /// Whether elements are combined to scalars, by an operation that is none of the author's.
    fn combines(&mut self, c: &Combine) -> bool {
        let reduces = matches!(c.form, Form::Reduce { .. }) && !matches!(c.operator, Operator::User { .. });
        reduces && self.reads(&c.inputs) && c.results.iter().all(|r| self.is_scalar(*r))
    }

    fn scalars(&self, carries: &[Carry]) -> bool {
        carries.iter().all(|c| self.is_scalar(c.inner))
    }

    fn is_scalar(&self, value: ValueId) -> bool {
        matches!(self.waits.page.ty(value), Ty::Scalar(_))
    }

    /// Takes in a value that is made here: a scalar, or a tile of which a lane has one element.
    fn makes(&mut self, value: ValueId) -> bool {
        match self.waits.page.ty(value) {
            Ty::Scalar(_) => true,
            Ty::Tile(_, shape) if !shape.is_empty() && LANES % shape.iter().product::<i64>() == 0 => {
                self.tiles = true;
                self.made.insert(value)
            }
            Ty::Tile(..) | Ty::TileIndex(_) | Ty::Window(..) => false,
        }
    }

    /// Whether all tiles among these are made here, or can be made here again.
    fn reads(&mut self, values: &[ValueId]) -> bool {
        values.iter().all(|v| match self.waits.page.ty(*v) {
            Ty::Scalar(_) | Ty::TileIndex(_) => true,
            Ty::Tile(..) => self.made.contains(v) || self.makes_again(*v),
            Ty::Window(..) => false,
        })
    }

    fn makes_again(&mut self, value: ValueId) -> bool {
        let Some(op) = self.waits.ops.get(&value).filter(|op| elementwise(op)) else { return false };
        if !self.reads(&operands(op)) || !self.makes(value) {
            return false;
        }
        self.again.push(Stmt::Let(value, op.clone()));
        true
    }
}

/// Whether an element of a result is made of one element of each operand, or of none.
fn elementwise(op: &Op) -> bool {
    let computed =
        matches!(op, Op::Unary(..) | Op::Binary(..) | Op::Ternary(..) | Op::Compare(..) | Op::Select(..) | Op::Cast(_) | Op::Bitcast(_));
    computed || matches!(op, Op::Splat(_) | Op::Iota)
}
