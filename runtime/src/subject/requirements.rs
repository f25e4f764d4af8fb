//! What a kernel asks of a launch, at sizes without data: whether they meet it, and sizes near them that do.

use crate::launch::{Argument, check_arguments};
use crate::subject::bare_kernel::{axis_size, lengths_given};
use crate::subject::challenge::Sizes;
use crate::subject::random_sizes::random_sizes;
use girih_core::facts::TensorArg;
use girih_core::tile::access::shape_requirements;
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::tile::{Kernel, ParamKind, Requirement, RequirementKind};
use girih_core::types::{BinaryOp, DType, Literal};

/// An axis of a tensor parameter.
pub(crate) type Axis = (usize, usize);

/// What a scalar parameter is where no size gives it.
pub(crate) fn usual_scalar(dtype: DType) -> Literal {
    Literal::from_i64(dtype, 2)
}

/// The arguments of a launch at sizes; an axis without a length is empty.
pub(crate) fn host_args(kernel: &Kernel, sizes: &Sizes) -> Vec<HostArg> {
    let arg = |p: &girih_core::tile::Param| match p.kind {
        ParamKind::Tensor { rank, .. } => {
            let lens: Vec<i64> = (0..rank).map(|k| axis_size(sizes, &p.name, k).unwrap_or(0)).collect();
            HostArg::Tensor(TensorArg::packed(0, &lens))
        }
        ParamKind::Scalar(d) => HostArg::Scalar(sizes.0.get(&p.name).map_or(usual_scalar(d), |v| Literal::from_f64(d, *v))),
    };
    kernel.params.iter().map(arg).collect()
}

/// What a launch at sizes would be refused for: the requirement, in words. Tensors in memory of their own are packed and aligned.
pub(crate) fn broken(kernel: &Kernel, sizes: &Sizes) -> Option<String> {
    let own = |(i, (param, arg)): (usize, (&girih_core::tile::Param, HostArg))| match (param.kind, arg) {
        (ParamKind::Tensor { dtype, .. }, HostArg::Tensor(t)) => {
            let tensor = TensorArg { address: (i as u64 + 1) << 44, ..t };
            Argument::Tensor { dtype, tensor, mutable: true }
        }
        (_, HostArg::Scalar(l)) => Argument::Scalar(l),
        (_, HostArg::Tensor(_)) => unreachable!("made from the parameter's kind"),
    };
    let args: Vec<Argument> = kernel.params.iter().zip(host_args(kernel, sizes)).enumerate().map(own).collect();
    check_arguments(kernel, &args, 1).err().map(|e| e.to_string())
}

/// Whether a launch at sizes meets the requirements, as far as these give all lengths; else which one it breaks, and sizes that do.
pub(crate) fn launchable(kernel: &Kernel, sizes: &Sizes) -> Result<(), String> {
    let Some(why) = broken(kernel, sizes).filter(|_| lengths_given(kernel, sizes)) else { return Ok(()) };
    let largest = random_sizes(kernel, 1).sizes.into_iter().max_by_key(|s| s.0.values().map(|v| *v as i64).sum::<i64>());
    let example = largest.map_or(String::new(), |s| format!(", as in --size {}", s.to_string().replace(' ', ",")));
    Err(format!("{why}\nhelp: give lengths that meet this requirement{example}"))
}

/// Sizes that meet the requirements, near the given ones; these themselves where none are found.
pub(crate) fn met(kernel: &Kernel, sizes: Sizes) -> Sizes {
    let mut changed = sizes.clone();
    meet_requirements(kernel, &mut changed, &[]);
    if broken(kernel, &changed).is_none() { changed } else { sizes }
}

/// Sets the length of an axis.
pub(crate) fn set(kernel: &Kernel, sizes: &mut Sizes, (p, k): Axis, len: i64) {
    sizes.0.insert(format!("{}.{k}", kernel.params[p].name), len as f64);
}

/// What a launch must satisfy: what the author asked for, and that tensors which are walked together have one shape.
fn requirements(kernel: &Kernel) -> Vec<Requirement> {
    kernel.requirements.iter().cloned().chain(shape_requirements(kernel)).collect()
}

/// A number that a launch gives.
#[derive(Clone, Copy)]
enum Given {
    Length(Axis),
    Scalar(usize),
}

/// What an expression is computed of: lengths, those of the axes `kept` behind the others, and then scalars.
fn given(e: &HostExpr, kept: &[Axis]) -> Vec<Given> {
    let mut lengths = e.lengths();
    lengths.sort_by_key(|axis| kept.contains(axis));
    lengths.into_iter().map(Given::Length).chain(e.scalars().into_iter().map(Given::Scalar)).collect()
}

/// The sizes with another value of one number.
fn with(kernel: &Kernel, sizes: &Sizes, number: Given, value: i64) -> Sizes {
    let mut changed = sizes.clone();
    match number {
        Given::Length(axis) => set(kernel, &mut changed, axis, value),
        Given::Scalar(p) => {
            changed.0.insert(kernel.params[p].name.clone(), value as f64);
        }
    }
    changed
}

/// Makes a number a multiple of `by`, by more or by fewer of what it is computed of.
fn meet_divisor(kernel: &Kernel, sizes: &mut Sizes, e: &HostExpr, by: i64, kept: &[Axis]) {
    let rest = |sizes: &Sizes| e.eval(&host_args(kernel, sizes), 1).rem_euclid(by);
    let over = rest(sizes);
    if over == 0 {
        return;
    }
    for number in given(e, kept) {
        let name = match number {
            Given::Length((p, k)) => HostExpr::Dim(p, k),
            Given::Scalar(p) => HostExpr::Scalar(p),
        };
        let now = name.eval(&host_args(kernel, sizes), 1);
        let tries = [now + by - over, now - over, (now / by + 1) * by];
        let found = tries.into_iter().filter(|n| *n >= 0).map(|n| with(kernel, sizes, number, n)).find(|s| rest(s) == 0);
        if let Some(found) = found {
            *sizes = found;
            return;
        }
    }
}

/// Changes lengths, and scalars where no length will do, so that requirements hold, those of the axes `kept` last; three times, for requirements
/// that build on each other. One number at a time, as equalities are linear in it: `x.len(0) - y.len(0) == y.len(0)` is met by another `x.len(0)`.
pub(crate) fn meet_requirements(kernel: &Kernel, sizes: &mut Sizes, kept: &[Axis]) {
    for _ in 0..3 {
        for r in requirements(kernel) {
            if let RequirementKind::Divisible(a, by) = r.kind
                && let Some(e) = HostExpr::of_value(kernel, a)
            {
                meet_divisor(kernel, sizes, &e, by, kept);
            }
            let (RequirementKind::Equal(a, b) | RequirementKind::AtMost(a, b)) = r.kind else { continue };
            let (Some(a), Some(b)) = (HostExpr::of_value(kernel, a), HostExpr::of_value(kernel, b)) else { continue };
            let difference = |sizes: &Sizes| {
                let args = host_args(kernel, sizes);
                a.eval(&args, 1) - b.eval(&args, 1)
            };
            let holds = |d: i64| if matches!(r.kind, RequirementKind::Equal(..)) { d == 0 } else { d <= 0 };
            if holds(difference(sizes)) {
                continue;
            }
            let both = HostExpr::binary(BinaryOp::Sub, a.clone(), b.clone());
            for number in given(&both, kept) {
                let with = |n: i64| with(kernel, sizes, number, n);
                let (at_zero, at_one) = (difference(&with(0)), difference(&with(1)));
                let (by, step) = (-at_zero, at_one - at_zero);
                // Rounded up, too: `1 <= 2 * n`.
                let exact = by.checked_div(step).unwrap_or(-1);
                let found = [exact, exact + 1].into_iter().find(|n| step != 0 && *n >= 0 && holds(difference(&with(*n))));
                if let Some(n) = found {
                    *sizes = with(n);
                    break;
                }
            }
        }
    }
}
