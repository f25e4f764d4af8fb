//! Which versions of a kernel an exported launch chooses from.

use crate::cuda;
use crate::error::CompileError;
use crate::facts::{Facts, MAX_ALIGN, MAX_DIVISOR, TensorFacts, power_within};
use crate::lower;
use crate::program::signature::Signature;
use crate::program::{Arg, Expr, TensorView};
use crate::schedule::Schedule;
use crate::schedule::space::Space;
use crate::simt::{self, ParamKind};
use crate::target::Target;
use crate::tile::access::dim_constants;
use crate::tile::host::HostExpr;
use crate::tile::{self, Kernel};

/// A kernel compiled for some facts.
#[derive(Clone, Debug)]
pub struct Version {
    /// What the launch must promise.
    pub facts: Facts,
    /// The code.
    pub kernel: simt::Kernel,
    /// What its name ends with: nothing for the first version, else what it does without.
    pub suffix: &'static str,
}

/// What is known of the arguments of a launch before it happens: from the program's text and the signature's constant extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// One entry per parameter of the kernel, `None` for scalars.
    pub tensors: Vec<Option<KnownTensor>>,
    /// No tensor that the kernel may store to lies in the memory of another argument.
    pub noalias: bool,
}

/// What is known of a tensor argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownTensor {
    /// Row-major without gaps.
    pub packed: bool,
    /// Lengths that are constants.
    pub lens: Vec<Option<i64>>,
}

impl Known {
    /// Packed tensors in memory of their own, of any lengths that the kernel does not fix.
    pub fn packed(kernel: &Kernel) -> Known {
        let constants = dim_constants(kernel);
        let lens = |p, rank| (0..rank).map(|k| constants.get(&(p, k)).copied()).collect();
        let tensors = kernel
            .params
            .iter()
            .enumerate()
            .map(|(p, param)| match param.kind {
                tile::ParamKind::Tensor { rank, .. } => Some(KnownTensor { packed: true, lens: lens(p, rank) }),
                tile::ParamKind::Scalar(_) => None,
            })
            .collect();
        Known { tensors, noalias: true }
    }

    /// What the text of a launch says. `binding` gives the signature's parameter for each parameter of the program.
    pub fn of_launch(signature: &Signature, binding: &[usize], kernel: &Kernel, args: &[Arg]) -> Known {
        let constant = |e: &Expr| match e {
            Expr::Literal(l) => Some(l.to_i64()),
            Expr::Dim(p, k) => match signature.params[binding[*p]].shape.as_ref()?.get(*k)? {
                HostExpr::Const(c) => Some(*c),
                _ => None,
            },
            _ => None,
        };
        let views: Vec<_> = args.iter().map(|a| if let Arg::Tensor(v) = a { Some(v) } else { None }).collect();
        let fixed = dim_constants(kernel);
        let len = |p: usize, k: usize, e: &Expr| constant(e).or(fixed.get(&(p, k)).copied());
        let known = |p: usize, v: &TensorView| KnownTensor {
            packed: v.packed,
            lens: v.lens.iter().enumerate().map(|(k, e)| len(p, k, e)).collect(),
        };
        let tensors = views.iter().enumerate().map(|(p, v)| v.map(|v| known(p, v))).collect();
        let mutable = |i: usize| matches!(kernel.params[i].kind, tile::ParamKind::Tensor { mutable: true, .. });
        let bases: Vec<_> = views.iter().map(|v| v.map(|v| v.base)).collect();
        let alone = |i: usize| bases.iter().enumerate().all(|(j, b)| i == j || b.is_none() || *b != bases[i]);
        let noalias = (0..args.len()).filter(|i| bases[*i].is_some() && mutable(*i)).all(alone);
        Known { tensors, noalias }
    }

    /// Facts with the given promises where they can hold at all: what is known caps them.
    fn facts(&self, kernel: &Kernel, align: u32, divisor: u32, index32: bool) -> Facts {
        let tensors = kernel
            .params
            .iter()
            .zip(&self.tensors)
            .map(|(param, known)| match (param.kind, known) {
                (tile::ParamKind::Tensor { dtype, .. }, Some(known)) => {
                    // A constant length is as divisible as it is, whatever is asked for.
                    let power = |n: i64| power_within(n as u64, MAX_DIVISOR);
                    let lens = known.lens.iter().map(|l| l.map_or(divisor, power)).collect();
                    let strides = vec![1; known.lens.len()];
                    Some(TensorFacts { align: align.max(dtype.size() as u32), packed: known.packed, lens, strides, most: vec![] })
                }
                _ => None,
            })
            .collect();
        Facts { tensors, index32, noalias: self.noalias }
    }
}

/// The versions that an export of a launch contains, best first:
/// 1. aligned to 16 bytes and divisible as far as that changes the code, 32-bit indices, and rows that fit the schedule's tile;
/// 2. the same with rows of any length;
/// 3. the same with lengths that need not be divisible;
/// 4. any alignment, 32-bit indices;
/// 5. any alignment, 64-bit indices: packed tensors are all it asks for.
///
/// Versions with the same code are merged. Where the schedule is illegal under weaker facts the naive one stands in.
///
/// # Errors
/// The kernel is wrong, or the schedule is illegal even under the best facts.
pub fn versions_for_export(kernel: &Kernel, schedule: &Schedule, target: &Target, known: &Known) -> Result<Vec<Version>, CompileError> {
    let best = known.facts(kernel, MAX_ALIGN, MAX_DIVISOR, true);
    let code = lower::lower(kernel, &best, schedule, target)?;
    let fast = weakest(kernel, schedule, target, known, best, &code);
    let candidates = [
        (fast.clone().fitting(kernel, schedule), ""),
        (fast, "_any_length"),
        (known.facts(kernel, MAX_ALIGN, 1, true), "_any_size"),
        (known.facts(kernel, 1, 1, true), "_any_align"),
        (known.facts(kernel, 1, 1, false), "_64bit"),
    ];
    let mut versions: Vec<Version> = Vec::new();
    for (facts, suffix) in candidates {
        let kernel = lower_or_naive(kernel, schedule, &facts, target)?;
        let same = comparable(&kernel);
        match versions.iter_mut().find(|v| comparable(&v.kernel) == same) {
            // The same code asks for less than was thought.
            Some(there) if there.facts.imply(&facts) => (there.facts, there.kernel) = (facts, kernel),
            Some(_) => {}
            None => versions.push(Version { facts, kernel, suffix }),
        }
    }
    // A version whose facts are no stronger than an earlier one's can never be reached.
    let facts: Vec<Facts> = versions.iter().map(|v| v.facts.clone()).collect();
    let mut index = 0;
    versions.retain(|v| {
        let reachable = !facts[..index].iter().any(|earlier| v.facts.imply(earlier));
        index += 1;
        reachable
    });
    Ok(versions)
}

fn lower_or_naive(kernel: &Kernel, schedule: &Schedule, facts: &Facts, target: &Target) -> Result<simt::Kernel, CompileError> {
    match lower::lower(kernel, facts, schedule, target) {
        Err(CompileError::Schedule(_) | CompileError::Bug(_)) => {
            let naive = Space::new(kernel, facts, target).naive()?;
            lower::lower(kernel, facts, &naive, target)
        }
        other => other,
    }
}

/// The weakest facts that give the same code, one promise after the other.
fn weakest(kernel: &Kernel, schedule: &Schedule, target: &Target, known: &Known, best: Facts, code: &simt::Kernel) -> Facts {
    let wanted = comparable(code);
    let same = |facts: &Facts| lower::lower(kernel, facts, schedule, target).is_ok_and(|k| comparable(&k) == wanted);
    let natural = known.facts(kernel, 1, 1, true);
    let mut facts = best;
    for t in 0..facts.tensors.len() {
        let Some(least) = natural.tensors[t].clone() else { continue };
        for axis in 0..least.lens.len() {
            reduce(&mut facts, least.lens[axis], &same, |f| &mut tensor(f, t).lens[axis]);
        }
        reduce(&mut facts, least.align, &same, |f| &mut tensor(f, t).align);
    }
    facts
}

fn tensor(facts: &mut Facts, t: usize) -> &mut TensorFacts {
    facts.tensors[t].as_mut().expect("a tensor has facts")
}

/// Halves a promise down to `least` while the code stays the same.
fn reduce(facts: &mut Facts, least: u32, same: &dyn Fn(&Facts) -> bool, field: impl Fn(&mut Facts) -> &mut u32) {
    loop {
        let promised = *field(facts);
        if promised <= least {
            return;
        }
        *field(facts) = promised / 2;
        if !same(facts) {
            *field(facts) = promised;
            return;
        }
    }
}

/// The name of a launch behind a kernel that the file has under a name of its own.
pub(super) fn behind(name: &str, kernel: &simt::Kernel, next: &simt::Kernel) -> String {
    format!("{name}{}", next.name.strip_prefix(&kernel.name).unwrap_or(&next.name))
}

/// The kernel under a name of the file.
pub(super) fn named(kernel: &simt::Kernel, name: &str) -> simt::Kernel {
    let next = kernel.next.as_ref().map(|next| Box::new(named(next, &behind(name, kernel, next))));
    simt::Kernel { name: name.to_string(), next, ..kernel.clone() }
}

/// The kernel without what doesn't change its code: where it comes from, its name, and promises that nothing used.
pub(super) fn comparable(kernel: &simt::Kernel) -> simt::Kernel {
    let mut kernel = kernel.clone();
    kernel.next = kernel.next.map(|next| Box::new(comparable(&next)));
    kernel.name = String::new();
    let provenance = &mut kernel.provenance;
    (provenance.facts, provenance.schedule, provenance.launch) = Default::default();
    for param in &mut kernel.params {
        if let ParamKind::Pointer { align, .. } = &mut param.kind {
            *align = 0;
        }
    }
    kernel
}

/// The launch must ask for the kernel's shared memory.
pub(super) fn dynamic_shared(kernel: &simt::Kernel) -> Option<u32> {
    cuda::has_dynamic_shared(kernel).then(|| kernel.shared_bytes())
}
