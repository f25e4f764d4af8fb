//! Well-formedness of SIMT IR. Run after the passes that make it; a violation is a bug of the pass, so it panics with the
//! invariant and the IR.
//!
//! - Types: operands of one operation agree, the operation is defined on them, conditions and predicates are bool, indices are
//!   i32, u32 or i64, assigned and stored values have the type of their destination.
//! - Variables: declared before use in an enclosing block, and not again there; `Let` variables and loop counters are never assigned; arrays are
//!   only used by element; literal indices are inside.
//! - [`Special`](super::Special) only as the whole initialiser of a `Let`.
//! - Accesses: the parameter is a pointer, writable where stored to; vector lanes and bytes are legal; async copies go from global
//!   to shared memory.
//! - Arrays in constant memory are only read, and a module has room for them.
//! - Shared arrays: power-of-two alignment that suits the type; sizes sum without overflow.
//! - Block, cluster and grid barriers stand under no condition that depends on the thread, as far as that shows statically (the
//!   simulator catches the rest, and divergent shuffles). Named barriers cover whole warps of the block.
//! - What a block reads of another one's shared memory stands between two barriers of the cluster: one behind which the other has written
//!   it, and one before which it neither writes again nor ends.
//! - Matrix instructions: fragments are array variables of the atom's types with enough elements, starting at whole words; blocks are
//!   whole warps; matrices are loaded from shared arrays that are aligned to their rows, and only 16-bit elements are transposed.
//! - A launch behind another has a name of its own, and no workspace but the other's.
//! - Launch: 1 to 1024 threads; roles, where given, cover all warps; a grid barrier needs a cooperative launch.

mod clusters;
mod divergence;
mod expr;
mod matrix;
mod stmt;

use super::print;
use super::{Kernel, ParamKind, Stmt, VarId};
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
    verifier.block(&kernel.body)?;
    clusters::between_barriers(&kernel.body)
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
        let (_, constant) = super::constant_offsets(&k.params);
        self.require(constant <= super::CONSTANT_BYTES, || format!("arrays in constant memory take {constant} bytes"))?;
        let mut total = 0u64;
        for a in &k.shared {
            let suits = a.align.is_power_of_two() && a.align as usize >= a.dtype.size();
            self.require(suits, || format!("shared array {} of {} is aligned to {} bytes", a.name, a.dtype, a.align))?;
            self.require(a.at.is_none_or(|at| at.is_multiple_of(a.align)), || {
                format!("shared array {} begins at byte {:?}", a.name, a.at)
            })?;
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
}

#[cfg(test)]
mod tests;
