//! The form of a kernel: a hash that is the same for kernels that do the same in the same way, whatever their variables are called and in
//! whichever order statements stand that do not depend on one another. Two texts of a compiler are compared by it.
//!
//! Every value is the hash of how it is computed, down to parameters and to the states of the memory that it reads. A store makes a new
//! state of its array; a barrier, a fence or a wait makes a new state of all memory. A block is the sum of its statements' hashes, so
//! that their order counts only where a state says so. Values at the beginning of an iteration are told apart by what they were before
//! the loop, no further: loops that only exchange two such values are not told apart.

mod effects;

use super::{Expr, Fragment, Kernel, LeftMatrix, ParamKind, Place, SharedMatrix, Space, Stmt, VarId};
use crate::types::Scope;
use effects::Effects;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// The form of a kernel and of those that are launched behind it.
pub fn form(kernel: &Kernel) -> u64 {
    let mut all = Fnv::default();
    for launch in kernel.launches() {
        let mut forms = Forms { kernel: launch, state: State::default() };
        let params: Vec<String> = launch.params.iter().map(|p| format!("{:?}", p.kind)).collect();
        let arrays: Vec<_> = launch.shared.iter().map(|a| (a.dtype, a.len, a.align, a.at.is_some())).collect();
        let body = forms.block(&launch.body);
        (params, arrays, format!("{:?}", launch.launch), body).hash(&mut all);
        launch.shared.iter().filter_map(|a| a.at).filter(|at| *at > 0).for_each(|at| at.hash(&mut all));
    }
    all.finish()
}

/// FNV-1a as a [`Hasher`]: the same in every process and release.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        crate::schedule::mix(self.0)
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |h, b| (h ^ *b as u64).wrapping_mul(0x0000_0100_0000_01b3));
    }
}

/// The hash of what a value or statement is made of.
fn of(parts: impl Hash) -> u64 {
    let mut hasher = Fnv::default();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// Memory that a store changes: pointers that may lead to the same place are one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Memory {
    Shared(u32),
    Global(usize),
    /// What no `restrict` keeps apart.
    Anywhere,
}

/// What variables and memory hold at one place of the text.
#[derive(Clone, Default)]
struct State {
    vars: BTreeMap<VarId, u64>,
    memory: BTreeMap<Memory, u64>,
    /// What all memory has seen.
    order: u64,
}

impl State {
    fn memory(&self, memory: Memory) -> u64 {
        of((self.order, self.memory.get(&memory)))
    }

    /// All memory is ordered by `event`.
    fn ordered(&mut self, event: u64) {
        let all: Vec<_> = std::mem::take(&mut self.memory).into_iter().collect();
        self.order = of((self.order, all, event));
    }

    /// The state behind a choice, given those behind its sides.
    fn joined(&mut self, choice: u64, then: &State, otherwise: &State) {
        let differs = |v: &&VarId| self.vars.contains_key(v) && then.vars.get(v) != otherwise.vars.get(v);
        let vars: Vec<VarId> = then.vars.keys().filter(differs).copied().collect();
        for v in vars {
            self.vars.insert(v, of((choice, then.vars.get(&v), otherwise.vars.get(&v))));
        }
        let spaces: Vec<Memory> = then.memory.keys().chain(otherwise.memory.keys()).copied().collect();
        self.memory =
            spaces.into_iter().map(|m| (m, (then.memory.get(&m), otherwise.memory.get(&m)))).map(|(m, s)| (m, of((choice, s)))).collect();
        if then.order != self.order || otherwise.order != self.order {
            self.order = of((choice, then.order, otherwise.order));
        }
    }
}

struct Forms<'a> {
    kernel: &'a Kernel,
    state: State,
}

impl Forms<'_> {
    fn memory_of(&self, space: Space) -> Memory {
        match space {
            Space::Shared(id) => Memory::Shared(id.0),
            Space::Constant(p) => Memory::Global(p),
            Space::Global(p) => match &self.kernel.params[p].kind {
                ParamKind::Pointer { restrict: false, .. } => Memory::Anywhere,
                ParamKind::Pointer { .. }
                | ParamKind::Scalar { .. }
                | ParamKind::Host { .. }
                | ParamKind::Workspace { .. }
                | ParamKind::Constant { .. }
                | ParamKind::TensorMap { .. } => Memory::Global(p),
            },
        }
    }

    fn var(&self, var: VarId) -> u64 {
        self.state.vars.get(&var).copied().unwrap_or(0)
    }

    /// A place, without what lies there.
    fn place(&self, place: &Place) -> u64 {
        of((place.space, place.dtype, self.expr(&place.index)))
    }

    /// A place and what lies there.
    fn read(&self, place: &Place) -> u64 {
        of((self.place(place), self.state.memory(self.memory_of(place.space))))
    }

    /// `event` changes what lies at a place.
    fn write(&mut self, place: &Place, event: u64) -> u64 {
        let memory = self.memory_of(place.space);
        let now = of((self.state.memory(memory), self.place(place), event));
        self.state.memory.insert(memory, now);
        now
    }

    fn set(&mut self, var: VarId, value: u64) -> u64 {
        let v = self.kernel.var(var);
        let value = of((v.dtype, v.len, value));
        self.state.vars.insert(var, value);
        value
    }

    fn maybe(&self, expr: &Option<Expr>) -> Option<u64> {
        expr.as_ref().map(|e| self.expr(e))
    }

    fn fragment(&self, fragment: &Fragment) -> u64 {
        of((self.var(fragment.var), self.expr(&fragment.at)))
    }

    fn expr(&self, expr: &Expr) -> u64 {
        match expr {
            Expr::Literal(l) => of(("literal", l)),
            Expr::Var(v) => self.var(*v),
            Expr::Element(v, i) => of(("element", self.var(*v), self.expr(i))),
            Expr::Param(p) => of(("param", p)),
            Expr::Special(s) => of(("special", s)),
            Expr::Unary(op, a) => of((op, self.expr(a))),
            Expr::Binary(op, a, b) => of((op, self.expr(a), self.expr(b))),
            Expr::Ternary(op, a, b, c) => of((op, self.expr(a), self.expr(b), self.expr(c))),
            Expr::Compare(op, a, b) => of(("compare", op, self.expr(a), self.expr(b))),
            Expr::Select(c, a, b) => of(("select", self.expr(c), self.expr(a), self.expr(b))),
            Expr::Cast(d, a) => of(("cast", d, self.expr(a))),
            Expr::Bitcast(d, a) => of(("bitcast", d, self.expr(a))),
            Expr::Load { place, predicate, cache } => of(("load", self.read(place), predicate.as_ref().map(|p| self.expr(p)), cache)),
        }
    }

    fn block(&mut self, block: &[Stmt]) -> u64 {
        block.iter().fold(0, |sum: u64, stmt| sum.wrapping_add(self.stmt(stmt)))
    }

    /// A loop's body, of which an iteration finds what the one before it left.
    fn iterations(&mut self, head: u64, parts: &[&[Stmt]], own: Option<VarId>, run: &dyn Fn(&mut Self) -> u64) -> u64 {
        let effects = Effects::of(parts);
        let carried: Vec<VarId> = effects.vars.into_iter().filter(|v| self.state.vars.contains_key(v)).collect();
        let before = self.state.clone();
        for v in &carried {
            self.state.vars.insert(*v, of(("carried", head, self.var(*v))));
        }
        if effects.orders {
            self.state.ordered(head);
        }
        for m in effects.spaces.into_iter().map(|s| self.memory_of(s)).collect::<BTreeSet<_>>() {
            let carried = of(("carried", head, self.state.memory(m)));
            self.state.memory.insert(m, carried);
        }
        if let Some(own) = own {
            self.state.vars.insert(own, of(("counter", head)));
        }
        let body = of((head, run(self)));
        let after = std::mem::replace(&mut self.state, before);
        for v in carried {
            self.state.vars.insert(v, of((head, after.vars.get(&v))));
        }
        self.state.memory =
            after.memory.into_iter().map(|(m, s)| (m, if self.state.memory.get(&m) == Some(&s) { s } else { of((head, s)) })).collect();
        if after.order != self.state.order {
            self.state.order = of((head, after.order));
        }
        body
    }

    /// Statements of which others may have to stand before or behind.
    fn stmt(&mut self, stmt: &Stmt) -> u64 {
        match stmt {
            Stmt::Comment(_) => 0,
            Stmt::Let { var, value } => {
                let value = of(("let", self.expr(value)));
                self.set(*var, value)
            }
            Stmt::Declare { var, init } => {
                let value = of(("declare", self.maybe(init)));
                self.set(*var, value)
            }
            Stmt::Assign { var, index, value } => {
                let old = index.as_ref().map(|_| self.var(*var));
                let value = of(("assign", old, self.maybe(index), self.expr(value)));
                self.set(*var, value)
            }
            Stmt::If { condition, then, otherwise } => {
                let choice = of(("if", self.expr(condition)));
                let before = self.state.clone();
                let taken = self.block(then);
                let behind = std::mem::replace(&mut self.state, before.clone());
                let left = self.block(otherwise);
                let other = std::mem::replace(&mut self.state, before);
                self.state.joined(choice, &behind, &other);
                of((choice, taken, left))
            }
            Stmt::For { var, start, end, step, unroll, body } => {
                let head = of(("for", self.expr(start), self.expr(end), self.expr(step), unroll));
                self.iterations(head, &[body], Some(*var), &|own| own.block(body))
            }
            Stmt::While { header, condition, body } => {
                let run = |own: &mut Self| {
                    let header = own.block(header);
                    of((header, own.expr(condition), own.block(body)))
                };
                self.iterations(of("while"), &[header, body], None, &run)
            }
            Stmt::LoadVector { var, at, place, lanes, predicate, cache } => {
                let loaded = (self.var(*var), self.expr(at), self.read(place), lanes, self.maybe(predicate), cache);
                self.set(*var, of(("load vector", loaded)))
            }
            Stmt::StoreVector { place, var, at, lanes, predicate, cache } => {
                let event = of(("store vector", self.var(*var), self.expr(at), lanes, self.maybe(predicate), cache));
                self.write(place, event)
            }
            Stmt::Store { place, value, predicate, cache } => {
                let event = of(("store", self.expr(value), self.maybe(predicate), cache));
                self.write(place, event)
            }
            Stmt::Atomic { result, op, place, value, expected, predicate, scope, order } => {
                let operands = (self.expr(value), self.maybe(expected), self.maybe(predicate));
                let event = of(("atomic", op, operands, scope, order, result.map(|r| self.var(r))));
                let now = self.write(place, event);
                if let Some(r) = result {
                    self.set(*r, of(("old", now)));
                }
                now
            }
            Stmt::StoreRelaxed { place, value, predicate } => {
                let event = of(("store relaxed", self.expr(value), self.maybe(predicate)));
                self.write(place, event)
            }
            Stmt::LoadRelaxed { var, place, wait, predicate } => {
                let event = of(("load relaxed", self.var(*var), wait, self.maybe(predicate)));
                let now = self.write(place, event);
                self.set(*var, now)
            }
            Stmt::LoadFromBlock { var, place, block } => {
                let value = of(("load from block", self.read(place), self.expr(block)));
                self.set(*var, value)
            }
            Stmt::AsyncCopy { shared, global, bytes, predicate } => {
                let event = of(("async copy", self.read(global), bytes, self.maybe(predicate)));
                self.write(shared, event)
            }
            Stmt::BulkCopy { shared, global, bytes, barrier } => {
                let event = of(("bulk copy", self.read(global), self.expr(bytes), self.place(barrier)));
                self.write(shared, event)
            }
            Stmt::LoadMatrix { load, var, at, place } => {
                let loaded = (self.var(*var), load, self.expr(at), self.read(place));
                self.set(*var, of(("load matrix", loaded)))
            }
            Stmt::Mma { atom, d, a, b, c } => {
                let parts = (self.fragment(a), self.fragment(b), self.fragment(c), self.fragment(d));
                self.set(d.var, of(("mma", atom, parts)))
            }
            Stmt::TensorCopy { shared, map, at, barrier, to_all } => {
                let at: Vec<u64> = at.iter().map(|e| self.expr(e)).collect();
                let event = of(("tensor copy", map, at, self.place(barrier)));
                self.write(shared, if *to_all { of((event, "to all")) } else { event })
            }
            Stmt::Wgmma { atom, d, a, b, accumulate } => {
                let matrix = |m: &SharedMatrix| (self.read(&m.place), m.across, m.row_bytes, m.eight_rows, m.next_panel);
                let sum = match a {
                    LeftMatrix::Shared(a) => {
                        let parts = (matrix(a), matrix(b));
                        of(("wgmma", atom, parts, self.fragment(d), self.expr(accumulate)))
                    }
                    LeftMatrix::Registers(a) => {
                        let parts = (self.fragment(a), matrix(b));
                        of(("wgmma of registers", atom, parts, self.fragment(d), self.expr(accumulate)))
                    }
                };
                self.set(d.var, sum)
            }
            Stmt::WgmmaWait { pending, sums } => {
                let now = self.event(of(("wgmma wait", pending)));
                for var in sums {
                    let sum = of(("summed", now, self.var(*var)));
                    self.set(*var, sum);
                }
                now
            }
            Stmt::WgmmaFence => self.event(of("wgmma fence")),
            Stmt::WgmmaCommit => self.event(of("wgmma commit")),
            Stmt::ProxyFence => self.event(of("proxy fence")),
            Stmt::SetRegisters { count, more } => self.event(of(("set registers", count, more))),
            Stmt::Shuffle { var, value, kind, operand, width } => {
                let value = of(("shuffle", self.expr(value), kind, self.expr(operand), width));
                self.set(*var, value)
            }
            Stmt::Vote { var, kind, value } => {
                let value = of(("vote", kind, self.expr(value)));
                self.set(*var, value)
            }
            Stmt::WarpReduce { var, op, value } => {
                let value = of(("warp reduce", op, self.expr(value)));
                self.set(*var, value)
            }
            Stmt::Barrier(barrier) => self.event(of(("barrier", barrier))),
            Stmt::Fence { scope, order } => self.event(of(("fence", scope, order))),
            Stmt::AsyncCommit => self.event(of("commit")),
            Stmt::AsyncWait { pending } => self.event(of(("wait", pending))),
            Stmt::AsyncArrive { barrier } => self.event(of(("async arrive", self.place(barrier)))),
            Stmt::MbarrierInit { barrier, count } => self.event(of(("init", self.place(barrier), count))),
            Stmt::MbarrierArrive { barrier, expect } => self.event(of(("arrive", self.place(barrier), self.maybe(expect)))),
            Stmt::MbarrierArriveAt { barrier, block } => self.event(of(("arrive at", self.place(barrier), self.expr(block)))),
            Stmt::MbarrierWait { barrier, parity, scope } => {
                let event = of(("wait for", self.place(barrier), self.expr(parity)));
                self.event(if *scope == Scope::Block { event } else { of((event, scope)) })
            }
        }
    }

    fn event(&mut self, event: u64) -> u64 {
        self.state.ordered(event);
        self.state.order
    }
}

#[cfg(test)]
mod tests;
