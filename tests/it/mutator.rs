//! Mutants of SIMT IR: a kernel with one barrier, wait, fence, flag, order or predicate taken out.

use girih_core::simt::print;
use girih_core::simt::visit::inner_blocks;
use girih_core::simt::{CacheHint, Expr, Kernel, Place, Stmt};
use girih_core::types::{AtomicOp, MemoryOrder, Scope};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What can be taken out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Removed {
    /// A barrier of any kind.
    Barrier,
    /// A wait for asynchronous copies or an mbarrier's phase; of one for a word, the load is left; of a loop that asks for one, the first time.
    Wait,
    /// A word that another block waits for, or the zero that is left for the next launch.
    Word,
    /// A fence.
    Fence,
    /// An atomic whose old value nobody takes: a part of a sum, a word that is published, a counter that is made ready for the next launch.
    Update,
    /// What an atomic orders beside its own element, or a wait for arrivals of the cluster beside those of the block.
    Order,
    /// The predicate of a load.
    LoadPredicate,
    /// The predicate of a store.
    StorePredicate,
    /// The predicate of an asynchronous copy.
    CopyPredicate,
    /// The predicate of an atomic.
    AtomicPredicate,
    /// The condition of an `if`: its first side always runs.
    Condition,
}

/// A kernel without one of its guards.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What was taken out.
    pub removed: Removed,
    /// The statement that had it, printed, and the nearest comment above it.
    pub place: String,
    /// The kernel that is left.
    pub kernel: Kernel,
}

/// Every mutant of a kernel, in the order of its text.
pub fn mutants(kernel: &Kernel) -> Vec<Mutant> {
    let mut all = Vec::new();
    for index in 0.. {
        let mut mutator = Mutator { at: index, found: None, comment: String::new(), original: kernel };
        let mut mutant = kernel.clone();
        mutator.block(&mut mutant.body);
        if let Some(next) = &mut mutant.next {
            mutator.original = kernel.next.as_deref().expect("a copy has what the original has");
            mutator.block(&mut next.body);
        }
        let Some((removed, place)) = mutator.found else { break };
        all.push(Mutant { removed, place, kernel: mutant });
    }
    all
}

/// What comes of each case, on two cores, in any order.
pub fn of_each<C: Sync, R: Send>(cases: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let take = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let one = work(case);
            found.lock().expect("no panic while reporting").push(one);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(take))));
    found.into_inner().expect("no panic while reporting")
}

struct Mutator<'a> {
    /// Guards still to be left alone.
    at: usize,
    found: Option<(Removed, String)>,
    comment: String,
    original: &'a Kernel,
}

impl Mutator<'_> {
    /// Whether this guard is the one to take out.
    fn hit(&mut self, removed: Removed, stmt: &str) -> bool {
        if self.found.is_some() {
            return false;
        }
        if self.at > 0 {
            self.at -= 1;
            return false;
        }
        let below = if self.comment.is_empty() { String::new() } else { format!("  // {}", self.comment) };
        self.found = Some((removed, format!("{stmt}{below}")));
        true
    }

    fn block(&mut self, block: &mut Vec<Stmt>) {
        let mut i = 0;
        while i < block.len() {
            if self.found.is_some() {
                return;
            }
            let text = first_line(&print::statement(self.original, &block[i]));
            let whole = match &block[i] {
                Stmt::Barrier(_) => Some(Removed::Barrier),
                Stmt::AsyncWait { .. } | Stmt::MbarrierWait { .. } | Stmt::WgmmaWait { .. } => Some(Removed::Wait),
                Stmt::Fence { .. } | Stmt::WgmmaFence | Stmt::ProxyFence => Some(Removed::Fence),
                Stmt::StoreRelaxed { .. } => Some(Removed::Word),
                Stmt::Atomic { result: None, .. } | Stmt::MbarrierArriveAt { .. } => Some(Removed::Update),
                _ => None,
            };
            match whole {
                Some(removed) if self.hit(removed, &text) => {
                    block.remove(i);
                    return;
                }
                Some(Removed::Word | Removed::Update) | None => {
                    if let Stmt::If { then, .. } = &mut block[i]
                        && self.hit(Removed::Condition, &text)
                    {
                        let then = std::mem::take(then);
                        // Its variables stay in a block of their own.
                        let condition = Expr::Literal(girih_core::types::Literal::bool(true));
                        block[i] = Stmt::If { condition, then, otherwise: vec![] };
                        return;
                    }
                    self.stmt(&mut block[i], &text);
                }
                Some(_) => {
                    if let Stmt::MbarrierWait { scope, .. } = &mut block[i]
                        && *scope != Scope::Block
                        && self.hit(Removed::Order, &text)
                    {
                        *scope = Scope::Block;
                        return;
                    }
                }
            }
            i += 1;
        }
    }

    fn stmt(&mut self, stmt: &mut Stmt, text: &str) {
        match stmt {
            Stmt::Comment(c) => self.comment = c.clone(),
            Stmt::Let { value, .. } => self.expr(value, text),
            Stmt::Declare { init, .. } => init.iter_mut().for_each(|e| self.expr(e, text)),
            Stmt::Assign { index, value, .. } => {
                index.iter_mut().for_each(|e| self.expr(e, text));
                self.expr(value, text);
            }
            Stmt::LoadVector { at, place, predicate, .. } => {
                self.predicate(predicate, Removed::LoadPredicate, text);
                self.expr(at, text);
                self.place(place, text);
            }
            Stmt::StoreVector { at, place, predicate, .. } => {
                self.predicate(predicate, Removed::StorePredicate, text);
                self.expr(at, text);
                self.place(place, text);
            }
            Stmt::Store { place, value, predicate, .. } => {
                self.predicate(predicate, Removed::StorePredicate, text);
                self.place(place, text);
                self.expr(value, text);
            }
            Stmt::Atomic { place, value, expected, predicate, order, .. } => {
                if *order != MemoryOrder::Relaxed && self.hit(Removed::Order, text) {
                    *order = MemoryOrder::Relaxed;
                    return;
                }
                self.predicate(predicate, Removed::AtomicPredicate, text);
                self.place(place, text);
                self.expr(value, text);
                expected.iter_mut().for_each(|e| self.expr(e, text));
            }
            Stmt::StoreRelaxed { place, value, predicate } => {
                self.predicate(predicate, Removed::StorePredicate, text);
                self.place(place, text);
                self.expr(value, text);
            }
            Stmt::LoadRelaxed { var, place, wait, predicate } => {
                self.predicate(predicate, Removed::LoadPredicate, text);
                self.place(place, text);
                if *wait && self.hit(Removed::Wait, text) {
                    let value = Expr::Load { place: Box::new(place.clone()), predicate: None, cache: CacheHint::Default };
                    *stmt = Stmt::Assign { var: *var, index: None, value };
                }
            }
            Stmt::If { condition, then, otherwise } => {
                self.expr(condition, text);
                self.block(then);
                self.block(otherwise);
            }
            Stmt::For { start, end, step, body, .. } => {
                [start, end, step].into_iter().for_each(|e| self.expr(e, text));
                self.block(body);
            }
            Stmt::While { header, condition, body } => {
                if (asks_others(header) || asks_others(body)) && self.hit(Removed::Wait, text) {
                    *condition = Expr::Literal(girih_core::types::Literal::bool(false));
                    return;
                }
                self.block(header);
                self.expr(condition, text);
                self.block(body);
            }
            Stmt::AsyncCopy { shared, global, predicate, .. } => {
                self.predicate(predicate, Removed::CopyPredicate, text);
                self.place(shared, text);
                self.place(global, text);
            }
            Stmt::Vote { value, .. } | Stmt::WarpReduce { value, .. } => self.expr(value, text),
            Stmt::Shuffle { value, operand, .. } => {
                self.expr(value, text);
                self.expr(operand, text);
            }
            Stmt::LoadMatrix { at, place, .. } => {
                self.expr(at, text);
                self.place(place, text);
            }
            // Their operands hold no loads.
            Stmt::LoadFromBlock { .. }
            | Stmt::Mma { .. }
            | Stmt::Wgmma { .. }
            | Stmt::WgmmaCommit
            | Stmt::SetRegisters { .. }
            | Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierArriveAt { .. } => {}
            Stmt::AsyncArrive { .. } | Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } | Stmt::AsyncCommit => {}
            Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncWait { .. } | Stmt::MbarrierWait { .. } => unreachable!("taken out whole"),
            Stmt::WgmmaWait { .. } | Stmt::WgmmaFence | Stmt::ProxyFence => {
                unreachable!("taken out whole")
            }
        }
    }

    fn predicate(&mut self, predicate: &mut Option<Expr>, removed: Removed, text: &str) {
        if predicate.is_some() && self.hit(removed, text) {
            *predicate = None;
        }
        if let Some(p) = predicate {
            self.expr(p, text);
        }
    }

    fn place(&mut self, place: &mut Place, text: &str) {
        self.expr(&mut place.index, text);
    }

    fn expr(&mut self, e: &mut Expr, text: &str) {
        if self.found.is_some() {
            return;
        }
        match e {
            Expr::Literal(_) | Expr::Var(_) | Expr::Param(_) | Expr::Special(_) => {}
            Expr::Element(_, a) | Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.expr(a, text),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
                self.expr(a, text);
                self.expr(b, text);
            }
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => {
                self.expr(a, text);
                self.expr(b, text);
                self.expr(c, text);
            }
            Expr::Load { place, predicate, .. } => {
                if predicate.is_some() && self.hit(Removed::LoadPredicate, text) {
                    *predicate = None;
                }
                if let Some(p) = predicate {
                    self.expr(p, text);
                }
                self.place(place, text);
            }
        }
    }
}

/// Whether statements of a loop ask what other blocks have written.
fn asks_others(block: &[Stmt]) -> bool {
    let asks = |stmt: &Stmt| matches!(stmt, Stmt::LoadRelaxed { .. } | Stmt::Atomic { op: AtomicOp::Load, .. });
    block.iter().any(|stmt| asks(stmt) || inner_blocks(stmt).into_iter().any(asks_others))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("").trim().to_string()
}
