//! Lowering: tile IR, facts, schedule and target become SIMT IR, by way of block IR (`block`), in these steps:
//!
//! 1. [`girih_ir::tile::access::classify`]: is every store safe? `drop_unread`: what nobody reads is not made. `fit_rows`: which loops the facts make superfluous, and what is loaded once
//!    because of it. `hoist_operands`: what of dots' operands is loaded before the loop that reads it. `record_presence`: which elements of gathers and choices are there, as values of their own.
//! 2. `plan`: what the schedule says, in numbers; how loops run; the rules that schedules obey.
//! 3. `PASSES`: tile IR becomes a page of block IR, and every decision is written to it. The verifier runs behind each.
//! 4. `expand`: the page becomes SIMT IR.
//! 5. `cleanup`: loops of one iteration, unused variables and barriers that order nothing vanish; 64-bit integers that 32 bits hold become
//!    32-bit ones; shared arrays that are never needed at the same time lie on the same bytes where that makes room for more blocks; pointers through which threads exchange values are not `restrict`.
//! 6. [`girih_ir::simt::verify`].

mod cleanup;
mod expand;
mod passes;
mod provenance;
pub(crate) mod refusal;

#[cfg(test)]
mod tests;

pub use crate::plan::matrix_units::dot_numbers;

use crate::block::{self, verify::Decided};
use crate::plan::{self, Plan};
use girih_ir::bug::{self, Bug};
use girih_ir::error::CompileError;
use girih_ir::facts::Facts;
use girih_ir::schedule::{Schedule, ScheduleError};
use girih_ir::simt;
use girih_ir::target::{REGISTERS_PER_MULTIPROCESSOR, Target};
use girih_ir::tile;
use passes::Source;
use provenance::{describe_launch, provenance};

/// A pass over a page.
type Pass = fn(&mut block::Kernel, &Source);

/// What is decided on a page, in this order, once tile IR has become one.
const PASSES: [(&str, Pass, Decided); 9] = [
    ("wait_alone", passes::wait_alone, Decided::Loops),
    ("assign_layouts", passes::assign_layouts, Decided::Layouts),
    ("feed_dots", passes::feed_dots, Decided::Layouts),
    ("defer_lanes", passes::defer_lanes, Decided::Layouts),
    ("share_meetings", passes::share_meetings, Decided::Layouts),
    ("assign_widths", passes::assign_widths, Decided::Widths),
    ("split_tails", passes::split_tails, Decided::Tails),
    ("place_barriers", passes::place_barriers, Decided::Tails),
    ("join_tails", passes::join_tails, Decided::Tails),
];

/// The passes over tile IR in front of them.
const TILE_PASSES: [&str; 4] = ["drop_unread", "fit_rows", "hoist_operands", "record_presence"];

/// The pass that makes a page of tile IR.
const FIRST: &str = "lower_tiles";

/// What writes a page out.
const EXPAND: &str = "expand";

/// A pass over the SIMT IR of a launch that was written out.
type Cleanup = fn(&mut simt::Kernel, &Around);

/// What such passes know besides.
struct Around<'w> {
    launch: &'w expand::range::Launch,
    authors_arrays: &'w std::collections::BTreeSet<simt::SharedId>,
    alone: bool,
    own_barriers: bool,
    target: &'w Target,
}

/// The passes behind it.
const CLEANUPS: [(&str, Cleanup); 9] = [
    ("use_known_conditions", |k, _| cleanup::known_conditions::use_known_conditions(k)),
    ("use_same_conditions", |k, _| cleanup::same_conditions::use_same_conditions(k)),
    ("use_absent_zeros", |k, _| cleanup::absent_zeros::use_absent_zeros(k)),
    ("use_known_bounds", |k, around| cleanup::known_bounds::use_known_bounds(k, around.launch)),
    ("simplify", |k, _| cleanup::simplify::simplify(k)),
    ("narrow", |k, around| cleanup::narrow::narrow(k, around.launch)),
    ("remove_barriers", |k, around| {
        if !around.own_barriers {
            cleanup::remove_barriers::remove_barriers(k, around.authors_arrays, around.alone);
        }
    }),
    ("overlay_arrays", |k, around| cleanup::overlay_arrays::overlay_arrays(k, around.authors_arrays, room(around.target))),
    ("drop_restrict", |k, _| cleanup::drop_restrict::drop_restrict(k)),
];

/// What a kernel is behind a pass.
enum Seen<'p> {
    Tile(&'p tile::Kernel),
    Block(&'p block::Kernel),
    Simt(&'p simt::Kernel),
}

/// Lowers a kernel under one schedule. Pure: the same arguments give the same result.
///
/// # Errors
/// [`CompileError::Kernel`] where the kernel is wrong under every schedule, [`CompileError::Schedule`] where this one is illegal, and
/// [`CompileError::Bug`] where a pass panics.
pub fn lower(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule, target: &Target) -> Result<simt::Kernel, CompileError> {
    let contained = |facts: &Facts| bug::contained(|| by_passes(kernel, facts, schedule, target));
    contained(facts).unwrap_or_else(|message| {
        let again = |facts: &Facts| contained(facts).is_err();
        Err(CompileError::Bug(Box::new(Bug::found("lowering", (kernel, facts, schedule, target), message, &again))))
    })
}

/// As [`lower`]; a compiler bug is a panic that names the pass and prints the IR.
fn by_passes(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule, target: &Target) -> Result<simt::Kernel, CompileError> {
    tile::access::classify(kernel).map_err(CompileError::Kernel)?;
    let mut lowered = steps((kernel, facts, schedule, target), &mut |_, _| {})?;
    plan::room::check(kernel, schedule, &lowered, target)?;
    simt::verify::verify(&lowered, "lower");
    lowered.each_launch(&mut |launch| launch.provenance.launch = describe_launch(launch, kernel));
    Ok(lowered)
}

/// What a kernel becomes under a schedule, pass by pass; `seen` is shown it behind each.
fn steps(
    (kernel, facts, schedule, target): (&tile::Kernel, &Facts, &Schedule, &Target),
    seen: &mut dyn FnMut(&str, Seen),
) -> Result<simt::Kernel, CompileError> {
    let paged = Paged::new(kernel, facts, schedule, target, seen)?;
    let page = paged.page(facts, seen)?;
    let written = expand::expand(&page, paged.launch(&page, target), provenance(kernel, facts, schedule.attribute(kernel)));
    Ok(tidy(kernel, written.map_err(|refusal| refusal.error(kernel, &paged.plan))?, target, seen))
}

/// What a kernel is under one schedule behind a pass: tile IR, the page of block IR, or the SIMT IR of the first launch; without a pass the page
/// behind all of its own.
///
/// # Errors
/// As [`lower`], but for what is found while the page is written out where that is not asked for. `None` where there is no such pass.
pub fn page(
    kernel: &tile::Kernel,
    facts: &Facts,
    schedule: &Schedule,
    target: &Target,
    after: Option<&str>,
) -> Result<Option<String>, CompileError> {
    tile::access::classify(kernel).map_err(CompileError::Kernel)?;
    let (last, mut found) = (after.unwrap_or(PASSES[PASSES.len() - 1].0), None);
    let mut seen = |name: &str, what: Seen| {
        if name == last && found.is_none() {
            found = Some(match what {
                Seen::Tile(kernel) => tile::print::print(kernel),
                Seen::Block(page) => block::print::print(page, name),
                Seen::Simt(kernel) => simt::print::print(kernel),
            });
        }
    };
    let whole = (kernel, facts, schedule, target);
    if last == EXPAND || CLEANUPS.iter().any(|(name, _)| *name == last) {
        steps(whole, &mut seen)?;
    } else {
        Paged::new(kernel, facts, schedule, target, &mut seen)?.page(facts, &mut seen)?;
    }
    Ok(found)
}

/// The passes behind which a kernel can be printed, in their order.
pub fn passes() -> Vec<&'static str> {
    let of_page = PASSES.iter().map(|(name, ..)| *name);
    TILE_PASSES.into_iter().chain([FIRST]).chain(of_page).chain([EXPAND]).chain(CLEANUPS.iter().map(|(name, _)| *name)).collect()
}

/// A kernel and its plan, from which the page is made.
struct Paged {
    kernel: tile::Kernel,
    plan: Plan,
    fitting: std::collections::HashSet<tile::ValueId>,
    found: std::collections::HashMap<tile::ValueId, tile::ValueId>,
}

impl Paged {
    fn new(
        kernel: &tile::Kernel,
        facts: &Facts,
        schedule: &Schedule,
        target: &Target,
        seen: &mut dyn FnMut(&str, Seen),
    ) -> Result<Paged, CompileError> {
        let [of_read, of_fitted, of_hoisted, of_present] = TILE_PASSES;
        let read = passes::drop_unread(kernel);
        let kernel = &*read;
        seen(of_read, Seen::Tile(kernel));
        let one_by_one = plan::one_by_one::one_by_one(kernel, schedule);
        let fitted = passes::fit(kernel, facts, &plan::numbers(kernel, schedule), &one_by_one);
        let (kernel, fitting) = fitted.as_ref().map_or((kernel, Default::default()), |(k, v)| (k, v.clone()));
        seen(of_fitted, Seen::Tile(kernel));
        let hoisted = plan::matrix_units::asked_for(kernel, schedule).then(|| passes::hoist_operands(kernel, &fitting)).flatten();
        let kernel = hoisted.as_ref().unwrap_or(kernel);
        seen(of_hoisted, Seen::Tile(kernel));
        let mapped = plan::tensor_maps::mapped(kernel, facts);
        let constants = plan::constants::constants(kernel, schedule, facts)?;
        let plan = plan::plan(kernel, schedule, target, &fitting, &one_by_one, &mapped, constants)?;
        let (kernel, found) = passes::record_presence(kernel);
        seen(of_present, Seen::Tile(&kernel));
        Ok(Paged { kernel: kernel.into_owned(), plan, fitting, found })
    }

    /// The page behind all passes. `seen` is called with the page behind each.
    fn page(&self, facts: &Facts, seen: &mut dyn FnMut(&str, Seen)) -> Result<block::Kernel, CompileError> {
        let whole = self.plan.whole();
        let source = Source { kernel: &self.kernel, facts, plan: &self.plan, whole: &whole };
        let mut page = passes::lower_tiles(&source, &self.found, &self.fitting)?;
        block::verify::verify(&page, FIRST, Decided::Loops);
        seen(FIRST, Seen::Block(&page));
        for (name, pass, decided) in PASSES {
            pass(&mut page, &source);
            block::verify::verify(&page, name, decided);
            seen(name, Seen::Block(&page));
        }
        Ok(page)
    }

    /// What the launch record says of a page.
    fn launch(&self, page: &block::Kernel, target: &Target) -> simt::LaunchRecord {
        let threads = page.teams.last().map_or(1, |team| team.threads);
        // Tiles are dealt to blocks that should all be resident. More of them than fit take turns, and none is worth a register.
        let fit = target.threads_per_multiprocessor as i64 / threads;
        let dealt = if page.launch.dealt <= fit { page.launch.dealt.max(1) } else { 1 };
        let min_blocks = (dealt as u32).max(page.launch.min_blocks);
        let (grid, opt_level) = (page.launch.grid.clone(), page.launch.opt_level);
        let producer = page.launch.producer;
        let role = |name: &str, threads: i64, own: usize| {
            let registers = producer.registers.map(|registers| registers[own]);
            simt::WarpRole { name: name.into(), warps: threads as u32 / 32, registers }
        };
        let roles = match producer.threads {
            0 => vec![],
            own => vec![role("consumer", threads, 0), role("producer", own, 1)],
        };
        let record = simt::LaunchRecord::new(grid, (threads + producer.threads) as u32);
        let (cluster, cooperative) = (page.launch.cluster as u32, page.launch.cooperative);
        simt::LaunchRecord { min_blocks, opt_level, roles, cluster, cooperative, ..record }
    }
}

/// Tidies up what was written out, and puts launches behind one another.
fn tidy(kernel: &tile::Kernel, written: expand::Written, target: &Target, seen: &mut dyn FnMut(&str, Seen)) -> simt::Kernel {
    let expand::Written { kernel: mut lowered, launch, authors_arrays, alone, next } = written;
    seen(EXPAND, Seen::Simt(&lowered));
    let own_barriers = crate::analyses::barriers::has_own(kernel);
    let around = Around { launch: &launch, authors_arrays: &authors_arrays, alone, own_barriers, target };
    for (name, pass) in CLEANUPS {
        pass(&mut lowered, &around);
        seen(name, Seen::Simt(&lowered));
    }
    lowered.next = next.map(|next| {
        let mut next = tidy(kernel, *next, target, seen);
        expand::drop_unused_params(&mut next);
        Box::new(next)
    });
    lowered
}

/// What a multiprocessor of the target has room for.
fn room(target: &Target) -> cleanup::overlay_arrays::Room {
    cleanup::overlay_arrays::Room {
        registers: REGISTERS_PER_MULTIPROCESSOR,
        threads: target.threads_per_multiprocessor,
        blocks: target.blocks_per_multiprocessor,
        shared: target.shared_per_multiprocessor,
        shared_per_block: target.shared_per_block,
        reserved: target.shared_reserved,
    }
}

/// Whether a schedule can be lowered.
pub fn check(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule, target: &Target) -> Result<(), ScheduleError> {
    match lower(kernel, facts, schedule, target) {
        Err(CompileError::Schedule(e)) => Err(e),
        Err(CompileError::Bug(bug)) => Err(unusable(kernel, schedule, &bug)),
        Ok(_) | Err(CompileError::Kernel(_)) => Ok(()),
    }
}

/// A schedule over which the compiler panics.
fn unusable(kernel: &tile::Kernel, schedule: &Schedule, bug: &Bug) -> ScheduleError {
    let names: Vec<&str> = kernel.knobs.iter().map(|k| k.name.as_str()).collect();
    let choices: Vec<String> = schedule.choices.iter().map(|c| c.to_string()).collect();
    ScheduleError {
        knob: names.join(" / "),
        found: choices.join(" / "),
        rule: bug.to_string(),
        id: "",
        loc: kernel.knobs.first().map(|k| k.loc),
    }
}
