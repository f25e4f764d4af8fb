//! `show`: a kernel at one schedule, at any level from tile IR to SASS.

use super::{acceptance_json, device, known, print_json};
use crate::compile::{Compiled, Output, compile};
use crate::launch::program_schedule::Joint;
use crate::launch::schedule_lookup::{self, Origin, tell_of_prediction};
use crate::measure::acceptance::Acceptance;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::names;
use crate::subject::schedules;
use crate::subject::set::{self, Set};
use crate::tune::launches::{AtPerf, Launch};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use girih_core::facts::Facts;
use girih_core::lengths::Lengths;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::ladder::{Ladder, Step};
use girih_core::schedule::parse::parse_settings;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use serde_json::json;
use std::sync::LazyLock;

#[derive(clap::Args)]
pub struct Args {
    /// A challenge (all its launch sites), one of its sites as in softmax.stats, or a kernel.
    name: String,
    /// Knobs to set at every launch, as in --set T=1024,V=4, or launch sites and variants by name, as in
    /// --set 'row in registers=no; stats: T=1024,C=4'; the others stay as the preset has them.
    #[arg(long, value_name = "KNOBS")]
    set: Option<String>,
    /// The schedule to start from.
    #[arg(long, value_enum, default_value = "best")]
    preset: Preset,
    /// The architecture or GPU: sm_75, sm_80, sm_90a, h200, ..
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
    /// What launches promise.
    #[arg(long, value_enum, default_value = "best")]
    facts: FactsChoice,
    /// Which form.
    #[arg(long, value_enum, default_value = "cuda")]
    ir: Level,
    /// With `--ir block`: behind which pass, in front of the page as tile IR and behind it as SIMT IR; the finished page if not given.
    #[arg(long, value_name = "PASS")]
    after: Option<String>,
    /// One JSON object per kernel.
    #[arg(long)]
    json: bool,
}

/// A schedule to start from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// The best known.
    Best,
    /// The first value of every knob.
    Default,
    /// A rung of the ladder. All but the lowest are for kernels that multiply tiles.
    Rung(Step),
}

impl ValueEnum for Preset {
    fn value_variants<'a>() -> &'a [Preset] {
        static ALL: LazyLock<Vec<Preset>> =
            LazyLock::new(|| [Preset::Best, Preset::Default].into_iter().chain(Step::ALL.map(Preset::Rung)).collect());
        &ALL
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Preset::Best => {
                PossibleValue::new("best").help("The best known: tuned here, a committed winner, predicted here, or the default")
            }
            Preset::Default => PossibleValue::new("default").help("The first value of every knob"),
            Preset::Rung(step) => PossibleValue::new(step.name()).help(step.idea()),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum FactsChoice {
    /// Aligned, packed, divisible, small, not aliased; as fitting where the schedule is legal for such rows alone.
    Best,
    /// As best, and the rows that a block walks fit one tile of the schedule.
    Fitting,
    /// Packed tensors of any length and natural alignment.
    Packed,
    /// Nothing.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Level {
    Tile,
    /// What one block does, with every decision of the schedule.
    Block,
    Simt,
    Cuda,
    Ptx,
    Sass,
}

pub fn run(args: &Args) -> Result<(), String> {
    let target = device::target(args.arch.as_deref())?;
    let (subject, only) = names::subject_site(&args.name)?;
    let set = Set::read(&subject, args.set.as_deref())?;
    let (joint, subject) = preset_program(&subject, &Sizes::default(), target, args.preset);
    let subject = set.applied(&subject)?;
    let subject = match &only {
        Some(site) => set::having(subject, site, set.chooses())?,
        None => subject,
    };
    let names = subject.program.site_names();
    let at_perf = AtPerf::of(&subject);
    let defs: Vec<(String, KernelDef)> = names.into_iter().zip(subject.program.sites()).collect();
    let show = |number: usize, site: &str, def: &KernelDef| -> Result<(), String> {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        let space = match args.facts {
            FactsChoice::Best | FactsChoice::Fitting => Space::of_some_launch(&kernel, target),
            FactsChoice::Packed => Space::new(&kernel, &Facts::packed(&kernel, true), target),
            FactsChoice::None => Space::new(&kernel, &Facts::none(&kernel), target),
        };
        let own = joint.as_ref().and_then(|j| Some((j.schedule(site, &kernel)?, j.origin())));
        let lengths = at_perf.of_site(number);
        let (schedule, from) = schedule(&space, lengths, args.preset, set.of_site(site), own)?;
        tell_of_prediction(&kernel.full_name(), from);
        let facts = match args.facts {
            FactsChoice::Fitting => space.facts().clone().fitting(&kernel, &schedule),
            _ => space.facts_for(&schedule).unwrap_or_else(|_| space.facts().clone()),
        };
        let (text, verdict) = level(&kernel, &facts, &schedule, target, (args.ir, args.after.as_deref()))?;
        if args.json {
            print_json(&json!({
                "kernel": def.path(), "site": site, "arch": target.arch, "facts": facts.to_string(), "schedule": schedule.short(&kernel),
                "attribute": schedule.attribute(&kernel), "from": from, "text": text,
                "acceptance": verdict.as_ref().map(acceptance_json),
            }));
        } else {
            print!("{text}{}", if text.ends_with('\n') { "" } else { "\n" });
        }
        Ok(())
    };
    // What cannot be shown keeps nothing else from it.
    let mut failed = Vec::new();
    for (number, (site, def)) in defs.iter().enumerate().filter(|(_, (n, _))| only.as_ref().is_none_or(|o| o == n)) {
        failed.extend(show(number, site, def).err().map(|e| if defs.len() > 1 { names::named(site, &e) } else { e }));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// The schedule of the whole program at sizes, those of the challenge where none are asked for, if the preset is one that is known, and the
/// subject with its variants.
pub fn preset_program(subject: &Subject, asked: &Sizes, target: &Target, preset: Preset) -> (Option<Joint>, Subject) {
    match preset {
        // Of a program's variants the author's first sides have the rungs that a learner climbs.
        Preset::Rung(_) | Preset::Default => (None, subject.clone()),
        Preset::Best => known_program(subject, asked, target),
    }
}

/// The schedule of the whole program, if one is known, and the subject with its variants.
fn known_program(subject: &Subject, asked: &Sizes, target: &Target) -> (Option<Joint>, Subject) {
    let store = known::store();
    let here = measured_or_predicted(target);
    let known = store.as_ref().map(|s| (s, here.as_str()));
    let lengths = AtPerf::at(subject, asked).program;
    schedules::best(subject, lengths.as_ref(), target, known).map_or_else(|| (None, subject.clone()), |(joint, s)| (Some(joint), s))
}

/// The schedules under which a call of these launches runs, if a legal one is known for each site: a program's own, or those of its kernels
/// that were tuned for something nearer.
pub fn as_launched(
    subject: &Subject,
    joint: Option<&Joint>,
    target: &Target,
    launches: &[Launch],
) -> Option<Vec<(Schedule, &'static str)>> {
    let store = known::store();
    let here = measured_or_predicted(target);
    let all = schedules::schedules(subject, joint, target, store.as_ref().map(|s| (s, here.as_str())), launches).ok()?;
    Some(all.into_iter().map(|(schedule, _, origin)| (schedule, origin)).collect())
}

/// The device whose times the store is asked for: the GPU at hand if the target is its, else the one of predictions.
fn measured_or_predicted(target: &Target) -> String {
    let here = crate::device::Device::cuda(0).ok().filter(|d| d.target().arch == target.arch);
    here.map_or_else(|| schedule_lookup::predicted_device(target), |d| d.name())
}

/// The schedule of a preset with settings, and where it came from. `own` is what the launch site has in its program's schedule.
///
/// # Errors
/// Settings that can't be read, or a schedule that is illegal, with the rule.
pub fn schedule(
    space: &Space,
    lengths: Option<&Lengths>,
    preset: Preset,
    set: Option<&str>,
    own: Option<(Schedule, &'static str)>,
) -> Result<(Schedule, &'static str), String> {
    let (kernel, target) = (space.kernel(), space.target());
    let legal = |s: &Schedule| space.check(s).is_ok();
    let (base, from) = match preset {
        Preset::Rung(step) => (rung(space, step)?, step.name()),
        Preset::Default => (Schedule::default_of(kernel), Origin::Default.name()),
        _ if own.as_ref().is_some_and(|(s, _)| legal(s)) => own.expect("checked in the guard"),
        _ => {
            let store = known::store();
            let here = measured_or_predicted(target);
            let known = store.as_ref().map(|s| (s, here.as_str()));
            let chosen = schedule_lookup::choose(kernel, space.facts(), lengths, target, known, legal);
            chosen.map_or_else(|| (Schedule::default_of(kernel), Origin::Default.name()), |(s, o)| (s, o.name()))
        }
    };
    match set {
        None => Ok((base, from)),
        Some(text) => Ok((parse_settings(kernel, text, &base).map_err(|e| e.to_string())?, "set")),
    }
}

/// A rung of a kernel's ladder; kernels that multiply no tiles have the lowest one only.
fn rung(space: &Space, step: Step) -> Result<Schedule, String> {
    match Ladder::new(space).map_err(|e| e.to_string())? {
        Some(ladder) => Ok(ladder.rung(step).map_err(|e| format!("{e}, default, best"))?.clone()),
        None if step == Step::Naive => space.naive().map_err(|e| e.to_string()),
        None => Err(format!("{} has no rung `{step}`: it multiplies no tiles; it has naive, default, best", space.kernel().name)),
    }
}

/// A kernel's text, and the verdict on its cubin at the level that makes one.
fn level(
    kernel: &Kernel,
    facts: &Facts,
    schedule: &Schedule,
    target: &Target,
    (level, after): (Level, Option<&str>),
) -> Result<(String, Option<Acceptance>), String> {
    if level == Level::Tile {
        return Ok((girih_core::tile::print::print(kernel), None));
    }
    if level == Level::Block {
        return Ok((block_page(kernel, facts, schedule, target, after)?, None));
    }
    let output = if level == Level::Sass { Output::Cubin } else { Output::Source };
    let compiled = compile(kernel, facts, schedule, target, output).map_err(|e| e.to_string())?;
    let text = match level {
        Level::Tile | Level::Block => unreachable!("returned above"),
        Level::Simt => girih_core::simt::print::print(&compiled.simt),
        Level::Cuda => compiled.source,
        Level::Ptx => compiled.ptx().map_err(|e| e.to_string())?,
        Level::Sass => {
            let verdict = compiled.acceptance().map_err(|e| e.to_string())?;
            return Ok((sass(kernel, schedule, &compiled, &verdict)?, Some(verdict)));
        }
    };
    Ok((text, None))
}

/// The page of block IR behind a pass.
fn block_page(kernel: &Kernel, facts: &Facts, schedule: &Schedule, target: &Target, after: Option<&str>) -> Result<String, String> {
    let page = girih_core::lower::page(kernel, facts, schedule, target, after).map_err(|e| e.to_string())?;
    page.ok_or_else(|| {
        let passes = girih_core::lower::passes().join(", ");
        format!("no pass is called `{}`; the passes are, in their order: {passes}", after.unwrap_or_default())
    })
}

/// The machine code behind a summary in comments: schedule, registers, the verdict, instructions by class.
fn sass(kernel: &Kernel, schedule: &Schedule, compiled: &Compiled, verdict: &Acceptance) -> Result<String, String> {
    let listing = compiled.sass().map_err(|e| e.to_string())?;
    let mut text = format!("// {}({}) for {}\n", kernel.full_name(), schedule.short(kernel), compiled.arch);
    if let Some(r) = &compiled.resources {
        let spilled = r.spill_store_bytes + r.spill_load_bytes;
        text += &format!("// {} registers, {} bytes of shared memory, {spilled} bytes spilled\n", r.registers, r.shared_bytes);
    }
    text += &format!("// {verdict}\n");
    for function in &listing.functions {
        text += &format!("// {}: {}\n", function.name, function.summary());
    }
    Ok(format!("{text}{listing}"))
}
