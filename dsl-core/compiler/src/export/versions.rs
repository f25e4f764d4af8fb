//! Which versions of a kernel an exported launch chooses from.

use super::weakest::weakest;
use crate::cuda;
use crate::lower;
use crate::space::Space;
use girih_ir::error::CompileError;
use girih_ir::facts::{Facts, MAX_ALIGN, MAX_DIVISOR, TensorFacts, power_within};
use girih_ir::program::signature::Signature;
use girih_ir::program::{Arg, Expr, TensorView};
use girih_ir::schedule::Schedule;
use girih_ir::simt::{self, ParamKind};
use girih_ir::target::Target;
use girih_ir::tile::access::dim_constants;
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, Kernel};

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
    /// Strides that are constants.
    pub strides: Vec<Option<i64>>,
}

impl KnownTensor {
    /// Elements of a row are neighbours.
    fn has_rows(&self) -> bool {
        self.packed || self.strides.last().is_none_or(|s| *s == Some(1))
    }
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
                tile::ParamKind::Tensor { rank, .. } => Some(KnownTensor { packed: true, lens: lens(p, rank), strides: vec![None; rank] }),
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
            strides: v.strides.iter().map(constant).collect(),
        };
        let tensors = views.iter().enumerate().map(|(p, v)| v.map(|v| known(p, v))).collect();
        let mutable = |i: usize| matches!(kernel.params[i].kind, tile::ParamKind::Tensor { mutable: true, .. });
        let bases: Vec<_> = views.iter().map(|v| v.map(|v| v.base)).collect();
        let alone = |i: usize| bases.iter().enumerate().all(|(j, b)| i == j || b.is_none() || *b != bases[i]);
        let noalias = (0..args.len()).filter(|i| bases[*i].is_some() && mutable(*i)).all(alone);
        Known { tensors, noalias }
    }

    /// What of a launch's facts the host code can test.
    fn promised(&self, facts: &Facts) -> Facts {
        let mut facts = facts.clone();
        facts.noalias &= self.noalias;
        for (tensor, known) in facts.tensors.iter_mut().zip(&self.tensors) {
            if let (Some(tensor), Some(known)) = (tensor, known) {
                tensor.packed &= known.packed;
                tensor.rows &= known.has_rows();
            }
        }
        facts
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
                    // Those of packed tensors follow from their lengths.
                    let stride = |s: &Option<i64>| if known.packed { 1 } else { s.map_or(divisor, power) };
                    let strides = known.strides.iter().map(stride).collect();
                    Some(TensorFacts {
                        align: align.max(dtype.size() as u32),
                        packed: known.packed,
                        rows: known.has_rows(),
                        lens,
                        strides,
                        most: vec![],
                    })
                }
                _ => None,
            })
            .collect();
        Facts { tensors, index32, noalias: self.noalias }
    }
}

/// What a launch site is exported with.
#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    /// The schedule of its versions.
    pub schedule: Schedule,
    /// The facts of the launches that the schedule is tuned for, the most important one first; empty where none is known.
    pub tuned: Vec<Facts>,
}

impl From<Schedule> for Chosen {
    fn from(schedule: Schedule) -> Chosen {
        Chosen { schedule, tuned: Vec::new() }
    }
}

/// The versions that an export of a launch contains, those that ask for more before those that ask for less:
/// 1. one for the facts of each launch that the schedule is tuned for;
/// 2. aligned to 16 bytes and divisible as far as that changes the code, 32-bit indices, and rows that fit the schedule's tile;
/// 3. the same with rows of any length;
/// 4. the same with lengths that need not be divisible;
/// 5. any alignment, 32-bit indices;
/// 6. any alignment, 64-bit indices: packed tensors are all it asks for.
///
/// Each asks for no more than its code needs, tensor by tensor and axis by axis. Versions with the same code are one, and one that is never
/// reached is none. Where the schedule is illegal under weaker facts the naive one stands in.
///
/// # Errors
/// The kernel is wrong, or the schedule is illegal even under the best facts.
pub fn versions_for_export(kernel: &Kernel, chosen: &Chosen, target: &Target, known: &Known) -> Result<Vec<Version>, CompileError> {
    let Chosen { schedule, tuned } = chosen;
    let best = known.facts(kernel, MAX_ALIGN, MAX_DIVISOR, true);
    let named = |(n, facts): (usize, &Facts)| (known.promised(facts), if n == 0 { OWN } else { TUNED });
    let all = [(fitting(best.clone(), kernel, schedule), FITTING), (best.clone(), DIVISIBLE)];
    let mut versions = Versions::default();
    let mut illegal = None;
    for (facts, suffix) in tuned.iter().enumerate().map(named).chain(all) {
        match lower::lower(kernel, &facts, schedule, target) {
            Ok(_) => {
                let least = fitting(known.facts(kernel, 1, 1, facts.index32), kernel, schedule);
                let facts = weakest(facts, &least, |facts| lower::lower(kernel, facts, schedule, target).ok());
                let suffix = if versions.0.is_empty() { OWN } else { suffix };
                versions.add(facts.clone(), lower::lower(kernel, &facts, schedule, target)?, suffix);
            }
            Err(CompileError::Schedule(e)) => illegal = Some(CompileError::Schedule(e)),
            Err(other) => return Err(other),
        }
    }
    if let Some(error) = illegal.filter(|_| versions.0.is_empty()) {
        return Err(error);
    }
    let plain = [
        (known.facts(kernel, MAX_ALIGN, 1, true), ANY_SIZE),
        (known.facts(kernel, 1, 1, true), ANY_ALIGN),
        (known.facts(kernel, 1, 1, false), WIDE),
    ];
    for (facts, suffix) in plain {
        versions.add(facts.clone(), lower_or_naive(kernel, schedule, &facts, target)?, suffix);
    }
    Ok(versions.in_order())
}

/// What the names of versions end with.
const OWN: &str = "";
const TUNED: &str = "_tuned";
const FITTING: &str = "_fitting";
const DIVISIBLE: &str = "_divisible";
const ANY_LENGTH: &str = "_any_length";
const ANY_SIZE: &str = "_any_size";
const ANY_ALIGN: &str = "_any_align";
const WIDE: &str = "_64bit";

/// Facts under which one tile spans what a block walks; a length that fits is divisible by no more than it may be long.
fn fitting(facts: Facts, kernel: &Kernel, schedule: &Schedule) -> Facts {
    let mut facts = facts.fitting(kernel, schedule);
    for tensor in facts.tensors.iter_mut().flatten() {
        for (len, most) in tensor.lens.iter_mut().zip(&tensor.most).filter(|(_, most)| **most > 0) {
            *len = (*len).min(1 << most.ilog2());
        }
    }
    facts
}

/// Versions as they are found.
#[derive(Default)]
struct Versions(Vec<Version>);

impl Versions {
    /// One more, unless one with the same code asks for no more.
    fn add(&mut self, facts: Facts, kernel: simt::Kernel, suffix: &'static str) {
        let own = code(&without_room(&kernel));
        for there in self.0.iter_mut().filter(|v| code(&without_room(&v.kernel)) == own) {
            if facts.imply(&there.facts) {
                return;
            }
            if there.facts.imply(&facts) {
                // The same code asks for less than was thought.
                (there.facts, there.kernel) = (facts, kernel);
                return;
            }
        }
        self.0.push(Version { facts, kernel, suffix });
    }

    /// Those that can be reached, in the order in which they are tested: what asks for more comes first, what stands for a tuned launch
    /// before the rest.
    fn in_order(self) -> Vec<Version> {
        let mut left = self.0;
        let stronger = |a: &Version, b: &Version| a.facts.imply(&b.facts) && !b.facts.imply(&a.facts);
        let mut ordered: Vec<Version> = Vec::new();
        while !left.is_empty() {
            let next = left.iter().position(|v| !left.iter().any(|other| stronger(other, v)));
            let version = left.remove(next.expect("facts that imply each other are equal"));
            if !ordered.iter().any(|earlier| version.facts.imply(&earlier.facts)) {
                ordered.push(version);
            }
        }
        // Behind a version that asks for more, the one without is named for what it does without.
        let own = ordered.iter().find(|v| v.suffix == OWN).map(|v| v.facts.clone());
        for version in ordered.iter_mut().filter(|v| v.suffix == DIVISIBLE) {
            if own.as_ref().is_some_and(|own| own.imply(&version.facts)) {
                version.suffix = ANY_LENGTH;
            }
        }
        ordered
    }
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

/// The name of a launch behind a kernel that the file has under a name of its own.
pub(super) fn behind(name: &str, kernel: &simt::Kernel, next: &simt::Kernel) -> String {
    format!("{name}{}", next.name.strip_prefix(&kernel.name).unwrap_or(&next.name))
}

/// The kernel under a name of the file.
pub(super) fn named(kernel: &simt::Kernel, name: &str) -> simt::Kernel {
    let next = kernel.next.as_ref().map(|next| Box::new(named(next, &behind(name, kernel, next))));
    simt::Kernel { name: name.to_string(), next, ..kernel.clone() }
}

/// What a launch runs: the text of the function and of those behind it, and how the host launches them.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Code {
    text: String,
    launches: Vec<(simt::LaunchRecord, Vec<simt::ParamKind>, u32)>,
}

/// A kernel's code, without where it comes from, its name, and promises that nothing used.
pub(super) fn code(kernel: &simt::Kernel) -> Code {
    let mut plain = named(kernel, "kernel");
    plain.each_launch(&mut |kernel| {
        let provenance = &mut kernel.provenance;
        (provenance.facts, provenance.schedule, provenance.launch) = Default::default();
        for param in &mut kernel.params {
            if let ParamKind::Pointer { align, .. } = &mut param.kind {
                *align = 0;
            }
        }
    });
    let launch = |k: &simt::Kernel| (k.launch.clone(), k.params.iter().map(|p| p.kind.clone()).collect(), k.shared_bytes());
    Code { text: cuda::emit(&plain), launches: plain.launches().map(launch).collect() }
}

/// The kernel, however much room its arrays in constant memory have: the one with the most serves all launches.
fn without_room(kernel: &simt::Kernel) -> simt::Kernel {
    let mut plain = kernel.clone();
    plain.each_launch(&mut |kernel| {
        for param in &mut kernel.params {
            if let ParamKind::Constant { len, .. } = &mut param.kind {
                *len = 0;
            }
        }
    });
    plain
}

/// The launch must ask for the kernel's shared memory.
pub(super) fn dynamic_shared(kernel: &simt::Kernel) -> Option<u32> {
    cuda::has_dynamic_shared(kernel).then(|| kernel.shared_bytes())
}
