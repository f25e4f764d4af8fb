//! Which versions of a kernel an exported launch chooses from.

use super::known::Known;
use super::weakest::weakest;
use crate::cuda;
use crate::lower;
use crate::space::Space;
use girih_ir::bug::Bug;
use girih_ir::error::CompileError;
use girih_ir::facts::{Facts, MAX_ALIGN, MAX_DIVISOR};
use girih_ir::schedule::Schedule;
use girih_ir::simt::{self, ParamKind};
use girih_ir::target::Target;
use girih_ir::tile::Kernel;

/// A kernel compiled for some facts.
#[derive(Clone, Debug)]
pub struct Version {
    /// What the launch must promise.
    pub facts: Facts,
    /// The code.
    pub kernel: simt::Kernel,
    /// What its name ends with: nothing for the first version, else what it does without.
    pub suffix: &'static str,
    /// The compiler bug because of which the code is the naive schedule's.
    pub bug: Option<Box<Bug>>,
    /// The compiler bug because of which launches that promise more, and are tuned for, have no version of their own but this one.
    pub stands_in: Option<Box<Bug>>,
}

impl Version {
    /// The name that its function has where no other one has it.
    pub fn name(&self) -> String {
        cuda::function_identifier(&format!("{}{}", self.kernel.name, self.suffix))
    }

    /// What a compiler bug has made of it, in words that follow its name.
    pub fn excuse(&self) -> Option<String> {
        let (what, bug) = match (&self.bug, &self.stands_in) {
            (Some(bug), _) => ("has the naive schedule", bug),
            (None, bug) => ("also serves tuned launches whose own version is missing", bug.as_ref()?),
        };
        Some(format!("{what} because of a compiler bug, which `{}` shows", bug.replay))
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
/// reached is none. Where the schedule is illegal under weaker facts, or the compiler panics over it, the naive one stands in; where it panics
/// under stronger ones, a version that asks for less serves their launches.
///
/// # Errors
/// The kernel is wrong, the schedule is illegal even under the best facts, or the compiler panics over the naive one, too.
pub fn versions_for_export(kernel: &Kernel, chosen: &Chosen, target: &Target, known: &Known) -> Result<Vec<Version>, CompileError> {
    let Chosen { schedule, tuned } = chosen;
    let best = known.facts(kernel, MAX_ALIGN, MAX_DIVISOR, true);
    let named = |(n, facts): (usize, &Facts)| (known.promised(facts), if n == 0 { OWN } else { TUNED });
    let all = [(fitting(best.clone(), kernel, schedule), FITTING), (best.clone(), DIVISIBLE)];
    let mut versions = Versions::default();
    let (mut illegal, mut missing) = (None, Vec::new());
    for (facts, suffix) in tuned.iter().enumerate().map(named).chain(all) {
        match lower::lower(kernel, &facts, schedule, target) {
            Ok(_) => {
                let least = fitting(known.facts(kernel, 1, 1, facts.index32), kernel, schedule);
                let facts = weakest(facts, &least, |facts| lower::lower(kernel, facts, schedule, target).ok());
                let suffix = if versions.0.is_empty() { OWN } else { suffix };
                let kernel = lower::lower(kernel, &facts, schedule, target)?;
                versions.add(Version { facts, kernel, suffix, bug: None, stands_in: None });
            }
            Err(CompileError::Schedule(e)) => illegal = Some(CompileError::Schedule(e)),
            Err(CompileError::Bug(bug)) => missing.push((facts, bug)),
            Err(other) => return Err(other),
        }
    }
    if let Some(error) = illegal.filter(|_| versions.0.is_empty() && missing.is_empty()) {
        return Err(error);
    }
    let plain = [
        (known.facts(kernel, MAX_ALIGN, 1, true), ANY_SIZE),
        (known.facts(kernel, 1, 1, true), ANY_ALIGN),
        (known.facts(kernel, 1, 1, false), WIDE),
    ];
    for (facts, suffix) in plain {
        let (kernel, bug) = lower_or_naive(kernel, schedule, &facts, target)?;
        versions.add(Version { facts, kernel, suffix, bug, stands_in: None });
    }
    Ok(excused(versions.in_order(), missing))
}

/// The versions, in order, each with the bug that keeps launches which come to it from one of their own.
pub(super) fn excused(mut versions: Vec<Version>, missing: Vec<(Facts, Box<Bug>)>) -> Vec<Version> {
    for (facts, bug) in missing {
        if let Some(serving) = versions.iter_mut().find(|v| facts.imply(&v.facts)) {
            serving.stands_in.get_or_insert(bug);
        }
    }
    versions
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
    fn add(&mut self, version: Version) {
        let own = code(&without_room(&version.kernel));
        for there in self.0.iter_mut().filter(|v| code(&without_room(&v.kernel)) == own) {
            if version.facts.imply(&there.facts) {
                there.bug = there.bug.take().or(version.bug);
                return;
            }
            if there.facts.imply(&version.facts) {
                // The same code asks for less than was thought.
                let (suffix, bug) = (there.suffix, there.bug.take().or(version.bug));
                *there = Version { suffix, bug, ..version };
                return;
            }
        }
        self.0.push(version);
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

/// The code of a schedule, or of the naive one in its place, with the compiler bug that was the reason if it was one.
fn lower_or_naive(
    kernel: &Kernel,
    schedule: &Schedule,
    facts: &Facts,
    target: &Target,
) -> Result<(simt::Kernel, Option<Box<Bug>>), CompileError> {
    let bug = match lower::lower(kernel, facts, schedule, target) {
        Err(CompileError::Schedule(_)) => None,
        Err(CompileError::Bug(bug)) => Some(bug),
        other => return Ok((other?, None)),
    };
    let naive = Space::new(kernel, facts, target).naive()?;
    Ok((lower::lower(kernel, facts, &naive, target)?, bug))
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
