//! Well-formedness of SIMT IR. Run after the passes that make it; a violation is a bug of the pass, so it panics with the
//! invariant and the IR.
//!
//! - Types: operands of one operation agree, the operation is defined on them, conditions and predicates are bool, indices are
//!   i32, u32 or i64, assigned and stored values have the type of their destination.
//! - Variables: declared before use in an enclosing block, and not again there; `Let` variables and loop counters are never assigned; arrays are
//!   only used by element; literal indices are inside.
//! - [`Special`] only as the whole initialiser of a `Let`.
//! - Accesses: the parameter is a pointer, writable where stored to; vector lanes and bytes are legal; async copies go from global
//!   to shared memory.
//! - Shared arrays: power-of-two alignment that suits the type; sizes sum without overflow.
//! - Block, cluster and grid barriers stand under no condition that depends on the thread, as far as that shows statically (the
//!   simulator catches the rest, and divergent shuffles). Named barriers cover whole warps of the block.
//! - Matrix instructions: fragments are array variables of the atom's types with enough elements, starting at whole words; blocks are
//!   whole warps; matrices are loaded from shared arrays that are aligned to their rows, and only 16-bit elements are transposed.
//! - A launch behind another has a name of its own, and no workspace but the other's.
//! - Launch: 1 to 1024 threads; roles, where given, cover all warps; a grid barrier needs a cooperative launch.

mod matrix;

use super::print;
use super::{Barrier, Expr, Fragment, Kernel, ParamKind, Place, Space, Special, Stmt, VarId};
use crate::scalar;
use crate::types::{AtomicOp, DType, VoteKind};
use std::fmt;

/// Panics where the kernel is not well formed; `pass` is named as the culprit.
pub fn verify(kernel: &Kernel, pass: &str) {
    if let Err(e) = check(kernel) {
        panic!("SIMT IR is malformed after {pass}: {e}\n{}", print::print(kernel));
    }
}

/// The first invariant that does not hold, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// What does not hold.
    pub invariant: String,
    /// The statement, printed; empty for the kernel as a whole.
    pub statement: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.invariant)?;
        if self.statement.is_empty() { Ok(()) } else { write!(f, ", in `{}`", self.statement) }
    }
}

/// Checks a kernel without panicking.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check(kernel: &Kernel) -> Result<(), Violation> {
    if let Some(next) = &kernel.next {
        behind(kernel, next)?;
    }
    let mut verifier = Verifier {
        kernel,
        state: vec![State::Unknown; kernel.vars.len()],
        varying: vec![false; kernel.vars.len()],
        divergent: 0,
        statement: String::new(),
    };
    verifier.whole()?;
    // Until nothing changes: a variable that a loop's end makes thread-dependent is so at the loop's start too.
    loop {
        let before = verifier.varying.clone();
        verifier.mark_varying(&kernel.body, false);
        if verifier.varying == before {
            break;
        }
    }
    verifier.block(&kernel.body)
}

/// A launch behind another: well formed, of another name, and without memory of its own.
fn behind(first: &Kernel, next: &Kernel) -> Result<(), Violation> {
    check(next)?;
    let fail = |invariant: String| Err(Violation { invariant, statement: String::new() });
    if next.name == first.name {
        return fail(format!("two launches are named {}", first.name));
    }
    for param in next.params.iter().filter(|p| matches!(p.kind, ParamKind::Workspace { .. })) {
        let there = first.workspace_named(&param.name).map(|p| &first.params[p]);
        if there != Some(param) {
            return fail(format!("{} takes the workspace {}, which {} has not", next.name, param.name, first.name));
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unknown,
    Fixed,
    Mutable,
    OutOfScope,
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    state: Vec<State>,
    /// Variables whose value may differ between threads of a block.
    varying: Vec<bool>,
    /// Depth of thread-dependent conditions.
    divergent: u32,
    statement: String,
}

type Check<T = ()> = Result<T, Violation>;

impl Verifier<'_> {
    fn fail<T>(&self, invariant: impl Into<String>) -> Check<T> {
        Err(Violation { invariant: invariant.into(), statement: self.statement.clone() })
    }

    fn require(&self, holds: bool, invariant: impl FnOnce() -> String) -> Check {
        if holds { Ok(()) } else { self.fail(invariant()) }
    }

    fn whole(&self) -> Check {
        let k = self.kernel;
        let threads = k.launch.block;
        self.require((1..=1024).contains(&threads), || format!("a block has 1 to 1024 threads, not {threads}"))?;
        self.require(k.launch.cluster >= 1, || "a cluster has at least one block".to_string())?;
        let warps: u32 = k.launch.roles.iter().map(|r| r.warps).sum();
        let covered = k.launch.roles.is_empty() || warps * 32 == threads;
        self.require(covered, || format!("roles cover {warps} warps of a block of {threads} threads"))?;
        for (i, p) in k.params.iter().enumerate() {
            self.require(k.params[..i].iter().all(|q| q.name != p.name), || format!("two parameters are named {}", p.name))?;
        }
        let mut total = 0u64;
        for a in &k.shared {
            let suits = a.align.is_power_of_two() && a.align as usize >= a.dtype.size();
            self.require(suits, || format!("shared array {} of {} is aligned to {} bytes", a.name, a.dtype, a.align))?;
            total += a.len as u64 * a.dtype.size() as u64 + a.align as u64;
        }
        self.require(total < 1 << 31, || format!("shared arrays take {total} bytes"))
    }

    /// Opens a scope, checks the statements, closes it.
    fn block(&mut self, stmts: &[Stmt]) -> Check {
        let mut declared = Vec::new();
        let result = stmts.iter().try_for_each(|s| self.stmt(s, &mut declared));
        for v in declared {
            self.state[v] = State::OutOfScope;
        }
        result
    }

    fn declare(&mut self, var: VarId, state: State, declared: &mut Vec<usize>) -> Check {
        let i = var.0 as usize;
        self.require(i < self.kernel.vars.len(), || format!("variable %{i} does not exist"))?;
        let free = matches!(self.state[i], State::Unknown | State::OutOfScope);
        self.require(free, || format!("{} is declared twice in one scope", print::name(self.kernel, var)))?;
        self.state[i] = state;
        declared.push(i);
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt, declared: &mut Vec<usize>) -> Check {
        let k = self.kernel;
        self.statement = print::statement(k, stmt);
        match stmt {
            Stmt::Let { var, value } => {
                let dtype = if let Expr::Special(_) = value { DType::I32 } else { self.expr(value)? };
                self.declare(*var, State::Fixed, declared)?;
                self.require(k.var(*var).len.is_none(), || "a Let variable is a scalar".to_string())?;
                self.same(dtype, k.var(*var).dtype)
            }
            Stmt::Declare { var, init } => {
                let dtype = init.as_ref().map(|x| self.expr(x)).transpose()?;
                self.declare(*var, State::Mutable, declared)?;
                dtype.map_or(Ok(()), |d| self.same(d, k.var(*var).dtype))
            }
            Stmt::Assign { var, index, value } => {
                let dtype = self.expr(value)?;
                self.target(*var)?;
                self.require(index.is_some() == k.var(*var).len.is_some(), || "arrays are assigned by element, scalars whole".to_string())?;
                if let Some(i) = index {
                    self.element(*var, i, 1)?;
                }
                self.same(dtype, k.var(*var).dtype)
            }
            Stmt::LoadVector { var, at, place, lanes, predicate, .. } => {
                self.target(*var)?;
                self.vector(*var, at, place, *lanes, predicate)?;
                self.place(place, false)
            }
            Stmt::StoreVector { place, var, at, lanes, predicate, .. } => {
                self.vector(*var, at, place, *lanes, predicate)?;
                self.place(place, true)
            }
            Stmt::Store { place, value, predicate, .. } => {
                self.place(place, true)?;
                self.predicate(predicate)?;
                let dtype = self.expr(value)?;
                self.same(dtype, place.dtype)
            }
            Stmt::Atomic { result, op, place, value, expected, predicate, .. } => {
                self.place(place, true)?;
                self.predicate(predicate)?;
                let swap = *op == AtomicOp::CompareSwap;
                self.require(expected.is_some() == swap, || "compare-and-swap, and nothing else, has an expected value".to_string())?;
                for x in [Some(value), expected.as_ref()].into_iter().flatten() {
                    let dtype = self.expr(x)?;
                    self.same(dtype, place.dtype)?;
                }
                if let Some(r) = result {
                    self.scalar_target(*r, place.dtype)?;
                }
                let bits = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
                self.require(!(bits && place.dtype.is_float()), || format!("{op:?} is not defined on {}", place.dtype))
            }
            Stmt::StoreRelaxed { place, value, predicate } => {
                self.word(place)?;
                self.predicate(predicate)?;
                let dtype = self.expr(value)?;
                self.same(dtype, place.dtype)
            }
            Stmt::LoadRelaxed { var, place, wait, predicate } => {
                self.word(place)?;
                self.predicate(predicate)?;
                self.require(!wait || predicate.is_none(), || "a wait for a word has no predicate".to_string())?;
                self.scalar_target(*var, place.dtype)
            }
            Stmt::If { condition, then, otherwise } => {
                self.boolean(condition)?;
                let divergent = self.varies(condition) as u32;
                self.divergent += divergent;
                self.block(then)?;
                self.block(otherwise)?;
                self.divergent -= divergent;
                Ok(())
            }
            Stmt::For { var, start, end, step, unroll, body } => self.for_loop(*var, [start, end, step], *unroll, body),
            Stmt::While { header, condition, body } => self.while_loop(header, condition, body),
            Stmt::Barrier(b) => self.barrier(*b),
            Stmt::Fence { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } | Stmt::Comment(_) => Ok(()),
            Stmt::AsyncCopy { shared, global, bytes, predicate } => {
                self.require(matches!(bytes, 4 | 8 | 16), || format!("an async copy moves 4, 8 or 16 bytes, not {bytes}"))?;
                self.predicate(predicate)?;
                self.copy(shared, global)
            }
            Stmt::MbarrierInit { barrier, count } => {
                self.require(*count > 0, || "an mbarrier counts at least one arrival".to_string())?;
                self.mbarrier(barrier)
            }
            Stmt::AsyncArrive { barrier } => self.mbarrier(barrier),
            Stmt::MbarrierArrive { barrier, expect } => {
                self.mbarrier(barrier)?;
                expect.as_ref().map_or(Ok(()), |x| self.index(x))
            }
            Stmt::MbarrierWait { barrier, parity } => {
                self.mbarrier(barrier)?;
                self.index(parity)
            }
            Stmt::BulkCopy { shared, global, bytes, barrier } => {
                self.copy(shared, global)?;
                self.index(bytes)?;
                self.mbarrier(barrier)
            }
            Stmt::Mma { atom, d, a, b, c } => self.mma(atom, [d, a, b, c]),
            Stmt::LoadMatrix { load, var, at, place } => self.load_matrix(*load, *var, at, place),
            Stmt::Vote { var, kind, value } => {
                let dtype = self.expr(value)?;
                self.require(dtype == DType::Bool, || format!("a vote is on conditions, not on {dtype}"))?;
                self.scalar_target(*var, if *kind == VoteKind::Ballot { DType::U32 } else { DType::Bool })
            }
            Stmt::Shuffle { var, value, operand, width, .. } => {
                let dtype = self.expr(value)?;
                self.require(dtype.size() == 4, || format!("a shuffle moves 32-bit values, not {dtype}"))?;
                self.require(width.is_power_of_two() && *width <= 32, || {
                    format!("a shuffle's width is a power of two up to 32, not {width}")
                })?;
                self.index(operand)?;
                self.scalar_target(*var, dtype)
            }
        }
    }

    fn for_loop(&mut self, var: VarId, [start, end, step]: [&Expr; 3], unroll: bool, body: &[Stmt]) -> Check {
        let literal = |e: &Expr| matches!(e, Expr::Literal(_));
        self.require(!unroll || [start, end, step].into_iter().all(literal), || "an unrolled loop has literal bounds".to_string())?;
        if let Expr::Literal(l) = step {
            self.require(l.to_i64() > 0, || "a loop's step is positive".to_string())?;
        }
        let mut divergent = false;
        for e in [start, end, step] {
            let dtype = self.expr(e)?;
            self.same(dtype, self.var(var)?.dtype)?;
            divergent |= self.varies(e);
        }
        self.require(self.var(var)?.dtype.is_int(), || "a loop counts integers".to_string())?;
        let mut declared = Vec::new();
        self.declare(var, State::Fixed, &mut declared)?;
        self.divergent += divergent as u32;
        self.block(body)?;
        self.divergent -= divergent as u32;
        self.state[var.0 as usize] = State::OutOfScope;
        Ok(())
    }

    fn while_loop(&mut self, header: &[Stmt], condition: &Expr, body: &[Stmt]) -> Check {
        let divergent = self.varies(condition) as u32;
        self.divergent += divergent;
        // The header's variables are visible in the condition and the body.
        let mut declared = Vec::new();
        for s in header {
            self.stmt(s, &mut declared)?;
        }
        self.statement = format!("while {}", print::expr(self.kernel, condition));
        self.boolean(condition)?;
        self.block(body)?;
        self.divergent -= divergent;
        for v in declared {
            self.state[v] = State::OutOfScope;
        }
        Ok(())
    }

    fn barrier(&self, barrier: Barrier) -> Check {
        let launch = &self.kernel.launch;
        match barrier {
            Barrier::Block => self.uniform("block"),
            Barrier::Warp => Ok(()),
            Barrier::Named { id, threads } => {
                self.require((1..=15).contains(&id), || format!("named barriers are 1 to 15, not {id}"))?;
                let whole = threads > 0 && threads % 32 == 0 && threads <= launch.block;
                self.require(whole, || format!("{threads} threads at a named barrier are not whole warps of the block"))
            }
            Barrier::Slice { threads } => {
                let whole = threads >= 64 && threads % 32 == 0 && launch.block.is_multiple_of(threads) && launch.block / threads <= 15;
                self.require(whole, || format!("slices of {threads} threads do not divide a block of {}", launch.block))
            }
            Barrier::Cluster => self.uniform("cluster"),
            Barrier::Grid => {
                self.require(launch.cooperative, || "a grid barrier needs a cooperative launch".to_string())?;
                self.uniform("grid")
            }
        }
    }

    fn uniform(&self, what: &str) -> Check {
        self.require(self.divergent == 0, || format!("a {what} barrier stands under a thread-dependent condition"))
    }

    fn var(&self, var: VarId) -> Check<&super::Var> {
        match self.kernel.vars.get(var.0 as usize) {
            Some(v) => Ok(v),
            None => self.fail(format!("variable %{} does not exist", var.0)),
        }
    }

    fn used(&self, var: VarId) -> Check {
        self.var(var)?;
        let state = self.state[var.0 as usize];
        let visible = matches!(state, State::Fixed | State::Mutable);
        self.require(visible, || format!("{} is used where it is not declared", print::name(self.kernel, var)))
    }

    fn target(&self, var: VarId) -> Check {
        self.used(var)?;
        let mutable = self.state[var.0 as usize] == State::Mutable;
        self.require(mutable, || format!("{} never changes after its Let", print::name(self.kernel, var)))
    }

    fn scalar_target(&self, var: VarId, dtype: DType) -> Check {
        self.target(var)?;
        self.require(self.var(var)?.len.is_none(), || "the result is a scalar variable".to_string())?;
        self.same(dtype, self.var(var)?.dtype)
    }

    fn same(&self, found: DType, expected: DType) -> Check {
        self.require(found == expected, || format!("types differ: {found} where {expected} is expected"))
    }

    fn boolean(&self, e: &Expr) -> Check {
        let dtype = self.expr(e)?;
        self.same(dtype, DType::Bool)
    }

    fn predicate(&self, e: &Option<Expr>) -> Check {
        e.as_ref().map_or(Ok(()), |e| self.boolean(e))
    }

    fn index(&self, e: &Expr) -> Check {
        let dtype = self.expr(e)?;
        let legal = matches!(dtype, DType::I32 | DType::U32 | DType::I64);
        self.require(legal, || format!("an index is i32, u32 or i64, not {dtype}"))
    }

    fn element(&self, var: VarId, index: &Expr, count: u32) -> Check {
        self.used(var)?;
        let Some(len) = self.var(var)?.len else {
            return self.fail(format!("{} is no array", print::name(self.kernel, var)));
        };
        self.index(index)?;
        if let Expr::Literal(l) = index {
            let first = l.to_i64();
            let inside = first >= 0 && first + count as i64 <= len as i64;
            self.require(inside, || format!("elements {first}..+{count} lie outside of an array of {len}"))?;
        }
        Ok(())
    }

    fn vector(&self, var: VarId, at: &Expr, place: &Place, lanes: u32, predicate: &Option<Expr>) -> Check {
        let bytes = lanes as usize * place.dtype.size();
        self.require(matches!(lanes, 2 | 4 | 8 | 16) && bytes <= 32, || format!("{lanes} lanes of {} are no vector", place.dtype))?;
        self.predicate(predicate)?;
        self.element(var, at, lanes)?;
        self.same(self.var(var)?.dtype, place.dtype)
    }

    fn place(&self, place: &Place, store: bool) -> Check {
        self.index(&place.index)?;
        match place.space {
            Space::Shared(s) => self.require((s.0 as usize) < self.kernel.shared.len(), || format!("shared array #{} does not exist", s.0)),
            Space::Global(p) => match self.kernel.params.get(p).map(|p| &p.kind) {
                Some(ParamKind::Pointer { writable, .. }) => self.require(*writable || !store, || format!("parameter {p} is not writable")),
                Some(ParamKind::Workspace { .. }) => Ok(()),
                Some(_) => self.fail(format!("parameter {p} is no pointer")),
                None => self.fail(format!("parameter {p} does not exist")),
            },
        }
    }

    /// A word that blocks leave each other; who waits for one leaves something there, too.
    fn word(&self, place: &Place) -> Check {
        let legal = matches!(place.space, Space::Global(_)) && place.dtype == DType::U64;
        self.require(legal, || "a word between blocks is a u64 in global memory".to_string())?;
        self.place(place, true)
    }

    fn copy(&self, shared: &Place, global: &Place) -> Check {
        let spaces = matches!((shared.space, global.space), (Space::Shared(_), Space::Global(_)));
        self.require(spaces, || "an asynchronous copy goes from global to shared memory".to_string())?;
        self.place(shared, true)?;
        self.place(global, false)
    }

    fn mbarrier(&self, barrier: &Place) -> Check {
        let legal = matches!(barrier.space, Space::Shared(_)) && barrier.dtype == DType::U64;
        self.require(legal, || "an mbarrier is a u64 in shared memory".to_string())?;
        self.place(barrier, true)
    }

    /// The type of an expression, after checking it.
    fn expr(&self, e: &Expr) -> Check<DType> {
        match e {
            Expr::Literal(l) => Ok(l.dtype),
            Expr::Var(v) => {
                self.used(*v)?;
                self.require(self.var(*v)?.len.is_none(), || format!("array {} is used whole", print::name(self.kernel, *v)))?;
                Ok(self.var(*v)?.dtype)
            }
            Expr::Element(v, i) => {
                self.element(*v, i, 1)?;
                Ok(self.var(*v)?.dtype)
            }
            Expr::Param(p) => match self.kernel.params.get(*p).map(|p| &p.kind) {
                Some(ParamKind::Scalar { dtype, .. } | ParamKind::Host { dtype, .. }) => Ok(*dtype),
                _ => self.fail(format!("parameter {p} is no value")),
            },
            Expr::Special(s) => self.fail(format!("{s:?} stands only as the whole initialiser of a Let")),
            Expr::Unary(op, a) => {
                let d = self.expr(a)?;
                self.defined(scalar::unary_fn(*op, d).is_some(), op, d)
            }
            Expr::Binary(op, a, b) => {
                let d = self.pair(a, b)?;
                self.defined(scalar::binary_fn(*op, d).is_some(), op, d)
            }
            Expr::Ternary(op, a, b, c) => {
                let d = self.pair(a, b)?;
                let last = self.expr(c)?;
                self.same(last, d)?;
                self.defined(scalar::ternary_fn(*op, d).is_some(), op, d)
            }
            Expr::Compare(op, a, b) => {
                let d = self.pair(a, b)?;
                self.defined(scalar::compare_fn(*op, d).is_some(), op, d)?;
                Ok(DType::Bool)
            }
            Expr::Select(c, a, b) => {
                self.boolean(c)?;
                self.pair(a, b)
            }
            Expr::Cast(d, a) => self.expr(a).map(|_| *d),
            Expr::Bitcast(d, a) => {
                let from = self.expr(a)?;
                self.require(from.size() == d.size(), || format!("a bitcast from {from} to {d} changes the size"))?;
                Ok(*d)
            }
            Expr::Load { place, predicate, .. } => {
                self.place(place, false)?;
                predicate.as_ref().map_or(Ok(()), |p| self.boolean(p))?;
                Ok(place.dtype)
            }
        }
    }

    fn pair(&self, a: &Expr, b: &Expr) -> Check<DType> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        self.same(b, a)?;
        Ok(a)
    }

    fn defined(&self, holds: bool, op: &dyn fmt::Debug, dtype: DType) -> Check<DType> {
        self.require(holds, || format!("{op:?} is not defined on {dtype}"))?;
        Ok(dtype)
    }

    /// Whether an expression's value may differ between threads of a block. Loads may, unless they read what every thread reads.
    fn varies(&self, e: &Expr) -> bool {
        let var = |v: &VarId| self.varying.get(v.0 as usize).copied().unwrap_or(true);
        match e {
            Expr::Literal(_) | Expr::Param(_) => false,
            Expr::Var(v) => var(v),
            Expr::Element(v, i) => var(v) || self.varies(i),
            Expr::Special(s) => matches!(s, Special::Thread | Special::Lane | Special::Warp),
            Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.varies(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => self.varies(a) || self.varies(b),
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => self.varies(a) || self.varies(b) || self.varies(c),
            Expr::Load { place, predicate, .. } => self.varies(&place.index) || predicate.as_ref().is_some_and(|p| self.varies(p)),
        }
    }

    /// Marks the variables that depend on the thread, by value or because a thread-dependent condition decides whether they are set.
    fn mark_varying(&mut self, stmts: &[Stmt], divergent: bool) {
        for s in stmts {
            match s {
                Stmt::Let { var, value } | Stmt::Assign { var, value, index: None } => self.mark(*var, divergent || self.varies(value)),
                Stmt::Declare { var, init } => self.mark(*var, init.as_ref().is_some_and(|x| self.varies(x))),
                Stmt::Assign { var, value, index: Some(i) } => self.mark(*var, divergent || self.varies(value) || self.varies(i)),
                Stmt::LoadVector { var, place, at, predicate, .. } => {
                    let varies = self.varies(&place.index) || self.varies(at) || predicate.as_ref().is_some_and(|p| self.varies(p));
                    self.mark(*var, divergent || varies);
                }
                Stmt::Atomic { result: Some(var), .. }
                | Stmt::LoadRelaxed { var, .. }
                | Stmt::Shuffle { var, .. }
                | Stmt::Vote { var, .. }
                | Stmt::Mma { d: Fragment { var, .. }, .. }
                | Stmt::LoadMatrix { var, .. } => self.mark(*var, true),
                Stmt::If { condition, then, otherwise } => {
                    let divergent = divergent || self.varies(condition);
                    self.mark_varying(then, divergent);
                    self.mark_varying(otherwise, divergent);
                }
                Stmt::For { var, start, end, step, body, .. } => {
                    let varies = divergent || [start, end, step].into_iter().any(|e| self.varies(e));
                    self.mark(*var, varies);
                    self.mark_varying(body, varies);
                }
                Stmt::While { header, condition, body } => {
                    self.mark_varying(header, divergent);
                    let varies = divergent || self.varies(condition);
                    self.mark_varying(header, varies);
                    self.mark_varying(body, varies);
                }
                _ => {}
            }
        }
    }

    fn mark(&mut self, var: VarId, varies: bool) {
        if let Some(v) = self.varying.get_mut(var.0 as usize) {
            *v |= varies;
        }
    }
}

#[cfg(test)]
mod tests;
