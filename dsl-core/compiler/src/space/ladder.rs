//! The ladder of a kernel that multiplies tiles: named schedules, each the one before with one more idea.
//!
//! A rung is found by what the kernel's knobs decide, from the choices that its author listed. Knobs that a rung does not speak of stay as
//! they were, also where they have no effect yet: what a rung shows of them is plain, not canonical.

use super::Space;
use girih_ir::error::CompileError;
use girih_ir::schedule::{Choice, KnobKind, Schedule, ScheduleError};
use std::fmt;

/// An idea that makes a product of matrices faster, in the order in which they are taught.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// One element a thread, operands from global memory.
    Naive,
    /// Operands through shared memory.
    Shared,
    /// Several elements a thread along every axis, in registers.
    Register,
    /// The widest accesses to global memory.
    Vector,
    /// Left operands transposed on their way to shared memory, and read in vectors from there.
    Transposed,
    /// Two stages: the next operands are in registers while these are multiplied.
    Double,
    /// Asynchronous copies, at least three stages.
    Pipeline,
    /// Blocks in an order that shares the cache.
    Raster,
    /// Few enough registers that two blocks share a multiprocessor.
    Blocks,
    /// Matrix instructions.
    Mma,
    /// The first fragments of a turn are read while the last ones of the turn before are multiplied.
    Overlap,
    /// Matrix instructions of warp groups.
    Wgmma,
    /// Copies by tensor maps.
    Tensor,
    /// Several blocks for the sum of each tile.
    Split,
    /// As many blocks as fit, with equal shares of all sums.
    Stream,
}

impl Step {
    /// All, from the bottom.
    pub const ALL: [Step; 15] = [
        Step::Naive,
        Step::Shared,
        Step::Register,
        Step::Vector,
        Step::Transposed,
        Step::Double,
        Step::Pipeline,
        Step::Raster,
        Step::Blocks,
        Step::Mma,
        Step::Overlap,
        Step::Wgmma,
        Step::Tensor,
        Step::Split,
        Step::Stream,
    ];

    /// `naive`, `shared`, ..
    pub fn name(self) -> &'static str {
        match self {
            Step::Naive => "naive",
            Step::Shared => "shared",
            Step::Register => "register",
            Step::Vector => "vector",
            Step::Transposed => "transposed",
            Step::Double => "double",
            Step::Pipeline => "pipeline",
            Step::Raster => "raster",
            Step::Blocks => "blocks",
            Step::Mma => "mma",
            Step::Overlap => "overlap",
            Step::Wgmma => "wgmma",
            Step::Tensor => "tensor",
            Step::Split => "split",
            Step::Stream => "stream",
        }
    }

    /// What it adds to the rung before, in words.
    pub fn idea(self) -> &'static str {
        match self {
            Step::Naive => "One element per thread and access: the textbook kernel",
            Step::Shared => "And operands through shared memory",
            Step::Register => "And several elements per thread along every axis",
            Step::Vector => "And the widest accesses",
            Step::Transposed => "And operands transposed on their way to shared memory, so that all reads there are wide",
            Step::Double => "And two stages, the second in registers",
            Step::Pipeline => "And asynchronous copies in at least three stages",
            Step::Raster => "And blocks in an order that shares the cache",
            Step::Blocks => "And two blocks per multiprocessor, which hide each other's waits",
            Step::Mma => "And matrix instructions",
            Step::Overlap => "And a turn's first fragments read under the products of the turn before",
            Step::Wgmma => "And matrix instructions of warp groups, which read their operands in shared memory and run beside the copies",
            Step::Tensor => "And copies by tensor maps, which one thread asks for and a barrier waits for",
            Step::Split => "And several blocks for the sum of each tile",
            Step::Stream => "And as many blocks as fit, with equal shares of all sums",
        }
    }

    /// The groups of knobs without which a kernel can't have the rung.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Step::Naive => &[],
            Step::Shared | Step::Transposed => &["operands"],
            Step::Register => &["coarsen"],
            Step::Vector => &["vector"],
            Step::Double => &["stages"],
            Step::Pipeline => &["stages", "copy"],
            Step::Tensor => &["copy"],
            Step::Overlap => &["unit", "copy"],
            Step::Raster => &["raster"],
            Step::Blocks => &["min_blocks"],
            Step::Mma | Step::Wgmma => &["unit"],
            Step::Split | Step::Stream => &["split"],
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A named schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rung {
    /// What it adds to the rung before.
    pub step: Step,
    /// The schedule: legal, and another kernel than the rung before.
    pub schedule: Schedule,
}

/// The rungs that a kernel has, and why it lacks the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    kernel: String,
    /// From the bottom.
    pub rungs: Vec<Rung>,
    missing: Vec<(Step, String)>,
}

/// A rung that a kernel does not have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kernel} has no rung `{step}`: {why}; it has {has}")]
pub struct MissingRung {
    /// The kernel's name.
    pub kernel: String,
    /// What was asked for.
    pub step: Step,
    /// Why there is none.
    pub why: String,
    /// The names there are.
    pub has: String,
}

/// Points that are looked at for one rung. Spaces of the knobs that a rung moves are smaller, or their best points come early.
const TRIED: usize = 512;

impl Ladder {
    /// The ladder of a space's kernel; `None` where it multiplies no tiles.
    ///
    /// # Errors
    /// The kernel has no legal schedule at all here: why its first one is illegal.
    pub fn new(space: &Space) -> Result<Option<Ladder>, ScheduleError> {
        let kernel = space.kernel();
        if !kernel.has_dots() {
            return Ok(None);
        }
        let mut rungs = vec![Rung { step: Step::Naive, schedule: space.plain()? }];
        let mut missing = Vec::new();
        for step in &Step::ALL[1..] {
            let before = &rungs[rungs.len() - 1].schedule;
            match climb(space, before, *step) {
                Ok(schedule) => rungs.push(Rung { step: *step, schedule }),
                Err(why) => missing.push((*step, why)),
            }
        }
        Ok(Some(Ladder { kernel: kernel.name.clone(), rungs, missing }))
    }

    /// The schedule of a rung.
    ///
    /// # Errors
    /// The kernel does not have it: why, and those it has.
    pub fn rung(&self, step: Step) -> Result<&Schedule, MissingRung> {
        if let Some(rung) = self.rungs.iter().find(|r| r.step == step) {
            return Ok(&rung.schedule);
        }
        let why = self.missing.iter().find(|(s, _)| *s == step).map_or_else(String::new, |(_, why)| why.clone());
        let has: Vec<&str> = self.rungs.iter().map(|r| r.step.name()).collect();
        Err(MissingRung { kernel: self.kernel.clone(), step, why, has: has.join(", ") })
    }

    /// The schedule of a rung or, where the kernel lacks it, of the highest one below.
    pub fn up_to(&self, step: Step) -> &Schedule {
        let at = self.rungs.iter().rposition(|r| r.step <= step).unwrap_or(0);
        &self.rungs[at].schedule
    }
}

/// The rung above `before` by one step: of the choices that the step allows the first in its order that is legal and another kernel. Else why
/// there is none.
fn climb(space: &Space, before: &Schedule, step: Step) -> Result<Schedule, String> {
    let kernel = space.kernel();
    if let Some(group) = step.needs().iter().find(|g| kernel.knobs.iter().all(|k| k.kind.group() != **g)) {
        return Err(format!("it has no knob {group}"));
    }
    let mut wishes = Vec::new();
    for (knob, now) in kernel.knobs.iter().zip(&before.choices) {
        let mut wished = wishes_of(step, knob.kind, &knob.choices).unwrap_or_else(|| vec![kept(step, knob.kind, now)]);
        if wished.is_empty() && knob.of.is_some() {
            // Other loops and tensors may take the step.
            wished.push(now.clone());
        }
        if wished.is_empty() {
            return Err(format!("{} lists no such choice", knob.name));
        }
        wishes.push(wished);
    }
    let mut refused = None;
    for schedule in by_distance(&wishes) {
        match space.lowers(&schedule) {
            Ok(()) if space.same_code(&schedule, before) => refused = refused.or(Some("it would change nothing".to_string())),
            Ok(()) => return Ok(schedule),
            Err(e) => refused = refused.or(Some(reason(&e))),
        }
    }
    Err(refused.unwrap_or_else(|| "it would change nothing".into()))
}

/// The choice of a knob of which a step does not speak: as it was, but that tensor maps bring no sum that blocks share.
fn kept(step: Step, kind: KnobKind, now: &Choice) -> Choice {
    let shares = matches!(step, Step::Split | Step::Stream) && kind == KnobKind::Copy;
    if shares && *now == Choice::Word("Tensor".into()) { Choice::Word("Async".into()) } else { now.clone() }
}

/// One line of an error.
fn reason(error: &CompileError) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
}

/// What a step wants of a knob among the listed choices, the most wanted first; `None` where the knob stays as it is.
fn wishes_of(step: Step, kind: KnobKind, listed: &[Choice]) -> Option<Vec<Choice>> {
    let numbers = |keep: &dyn Fn(i64) -> bool| -> Vec<i64> {
        let all = listed.iter().filter_map(|c| if let Choice::Int(i) = c { Some(*i) } else { None });
        all.filter(|i| keep(*i)).collect()
    };
    let ints = |v: Vec<i64>| Some(v.into_iter().map(Choice::Int).collect());
    let descending = |mut v: Vec<i64>| {
        v.sort_by_key(|i| -i);
        ints(v)
    };
    let word = |name: &str| Some(listed.iter().filter(|c| **c == Choice::Word(name.into())).cloned().collect());
    match (step, kind) {
        (Step::Shared, KnobKind::Operands) => word("Shared"),
        // Authors list what they like best first.
        (Step::Register, KnobKind::Tile) => Some(listed.to_vec()),
        (Step::Register, KnobKind::Coarsen { .. }) => ints(numbers(&|i| i > 1)),
        (Step::Vector, KnobKind::Vector) => descending(numbers(&|i| i > 1)),
        (Step::Transposed, KnobKind::Operands) => word("Transposed"),
        (Step::Double, KnobKind::Stages) => ints(numbers(&|i| i == 2)),
        (Step::Double, KnobKind::Copy) => word("Registers"),
        (Step::Pipeline, KnobKind::Stages) => descending(numbers(&|i| i > 2)),
        (Step::Pipeline, KnobKind::Copy) => word("Async"),
        // Asynchronous copies of 16 bytes transpose nothing, and matrix units do it themselves.
        (Step::Pipeline | Step::Mma, KnobKind::Operands) => word("Shared"),
        (Step::Raster, KnobKind::Raster) => ints(numbers(&|i| i > 1)),
        (Step::Blocks, KnobKind::MinBlocks) => ints(numbers(&|i| i == 2)),
        (Step::Mma, KnobKind::Unit) => word("Mma"),
        (Step::Mma, KnobKind::Warps) => Some(listed.to_vec()),
        (Step::Overlap, KnobKind::Copy) => word("Overlap"),
        // Twice the fragments want registers, and an even number of steps.
        (Step::Overlap, KnobKind::Tile | KnobKind::MinBlocks) => Some(listed.to_vec()),
        (Step::Wgmma, KnobKind::Unit) => word("Wgmma"),
        // f32 is rounded by tensor maps alone.
        (Step::Wgmma, KnobKind::Copy) => Some(["Async", "Tensor"].into_iter().filter_map(word).flatten().collect()),
        (Step::Wgmma, KnobKind::Operands) => word("Shared"),
        (Step::Wgmma, KnobKind::Tile | KnobKind::Warps | KnobKind::MinBlocks) => Some(listed.to_vec()),
        (Step::Tensor, KnobKind::Copy) => word("Tensor"),
        (Step::Tensor, KnobKind::Tile) => Some(listed.to_vec()),
        (Step::Split, KnobKind::Split) => ints(numbers(&|i| i > 1)),
        (Step::Stream, KnobKind::Split) => ints(numbers(&|i| i == 0)),
        _ => None,
    }
}

/// Points of a product of choices, those nearest to the first of each list first.
fn by_distance(choices: &[Vec<Choice>]) -> Vec<Schedule> {
    let mut places: Vec<Vec<usize>> = vec![Vec::new()];
    for list in choices {
        let longer = |p: &Vec<usize>| (0..list.len()).map(|i| p.iter().copied().chain([i]).collect()).collect::<Vec<_>>();
        places = places.iter().flat_map(longer).collect();
    }
    places.sort_by_key(|p| p.iter().sum::<usize>());
    places.truncate(TRIED);
    let schedule = |p: Vec<usize>| Schedule { choices: p.into_iter().zip(choices).map(|(i, list)| list[i].clone()).collect() };
    places.into_iter().map(schedule).collect()
}
