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
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, ParamKind};
use passes::Source;

/// A pass over a page.
type Pass = fn(&mut block::Kernel, &Source);

/// What is decided on a page, in this order, once tile IR has become one.
const PASSES: [(&str, Pass, Decided); 9] = [
    ("wait_alone", passes::wait_alone, Decided::Loops),
    ("share_meetings", passes::share_meetings, Decided::Loops),
    ("assign_layouts", passes::assign_layouts, Decided::Layouts),
    ("feed_dots", passes::feed_dots, Decided::Layouts),
    ("defer_lanes", passes::defer_lanes, Decided::Layouts),
    ("assign_widths", passes::assign_widths, Decided::Widths),
    ("split_tails", passes::split_tails, Decided::Tails),
    ("place_barriers", passes::place_barriers, Decided::Tails),
    ("join_tails", passes::join_tails, Decided::Tails),
];

/// The pass that makes a page of tile IR.
const FIRST: &str = "lower_tiles";

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
    let paged = Paged::new(kernel, facts, schedule, target)?;
    let page = paged.page(facts, &mut |_, _| {})?;
    let written = expand::expand(&page, paged.launch(&page, target), provenance(kernel, facts, schedule));
    let mut lowered = tidy(kernel, written.map_err(|refusal| refusal.error(kernel, &paged.plan))?, target);
    plan::room::check(kernel, schedule, &lowered, target)?;
    simt::verify::verify(&lowered, "lower");
    lowered.each_launch(&mut |launch| launch.provenance.launch = describe_launch(launch, kernel));
    Ok(lowered)
}

/// The page of block IR that a kernel becomes under one schedule, behind a pass or behind all.
///
/// # Errors
/// As [`lower`], but for what is found while the page is written out. `None` where there is no such pass.
pub fn page(
    kernel: &tile::Kernel,
    facts: &Facts,
    schedule: &Schedule,
    target: &Target,
    after: Option<&str>,
) -> Result<Option<String>, CompileError> {
    tile::access::classify(kernel).map_err(CompileError::Kernel)?;
    let paged = Paged::new(kernel, facts, schedule, target)?;
    let (last, mut found) = (after.unwrap_or(PASSES[PASSES.len() - 1].0), None);
    paged.page(facts, &mut |name, page| {
        if name == last {
            found = Some(block::print::print(page, name));
        }
    })?;
    Ok(found)
}

/// The passes behind which a page can be printed, in their order.
pub fn passes() -> Vec<&'static str> {
    [FIRST].into_iter().chain(PASSES.iter().map(|(name, ..)| *name)).collect()
}

/// A kernel and its plan, from which the page is made.
struct Paged {
    kernel: tile::Kernel,
    plan: Plan,
    fitting: std::collections::HashSet<tile::ValueId>,
    found: std::collections::HashMap<tile::ValueId, tile::ValueId>,
}

impl Paged {
    fn new(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule, target: &Target) -> Result<Paged, CompileError> {
        let read = passes::drop_unread(kernel);
        let kernel = &*read;
        let one_by_one = plan::one_by_one::one_by_one(kernel, schedule);
        let fitted = passes::fit(kernel, facts, &plan::numbers(kernel, schedule), &one_by_one);
        let (kernel, fitting) = fitted.as_ref().map_or((kernel, Default::default()), |(k, v)| (k, v.clone()));
        let hoisted = plan::matrix_units::asked_for(kernel, schedule).then(|| passes::hoist_operands(kernel, &fitting)).flatten();
        let kernel = hoisted.as_ref().unwrap_or(kernel);
        let mapped = plan::tensor_maps::mapped(kernel, facts);
        let constants = plan::constants::constants(kernel, schedule, facts)?;
        let plan = plan::plan(kernel, schedule, target, &fitting, &one_by_one, &mapped, constants)?;
        let (kernel, found) = passes::record_presence(kernel);
        Ok(Paged { kernel: kernel.into_owned(), plan, fitting, found })
    }

    /// The page behind all passes. `seen` is called with the page behind each.
    fn page(&self, facts: &Facts, seen: &mut dyn FnMut(&str, &block::Kernel)) -> Result<block::Kernel, CompileError> {
        let whole = self.plan.whole();
        let source = Source { kernel: &self.kernel, facts, plan: &self.plan, whole: &whole };
        let mut page = passes::lower_tiles(&source, &self.found, &self.fitting)?;
        block::verify::verify(&page, FIRST, Decided::Loops);
        seen(FIRST, &page);
        for (name, pass, decided) in PASSES {
            pass(&mut page, &source);
            block::verify::verify(&page, name, decided);
            seen(name, &page);
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
fn tidy(kernel: &tile::Kernel, written: expand::Written, target: &Target) -> simt::Kernel {
    let expand::Written { kernel: mut lowered, launch, authors_arrays, alone, next } = written;
    cleanup::known_conditions::use_known_conditions(&mut lowered);
    cleanup::simplify::simplify(&mut lowered);
    cleanup::narrow::narrow(&mut lowered, &launch);
    if !crate::analyses::barriers::has_own(kernel) {
        cleanup::remove_barriers::remove_barriers(&mut lowered, &authors_arrays, alone);
    }
    cleanup::overlay_arrays::overlay_arrays(&mut lowered, &authors_arrays, room(target));
    cleanup::drop_restrict::drop_restrict(&mut lowered);
    lowered.next = next.map(|next| {
        let mut next = tidy(kernel, *next, target);
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

fn provenance(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule) -> simt::Provenance {
    let params: Vec<String> = kernel
        .params
        .iter()
        .map(|p| match p.kind {
            ParamKind::Tensor { dtype, rank, mutable } => {
                format!("{}: {}Tensor<{dtype}, {rank}>", p.name, if mutable { "&mut " } else { "&" })
            }
            ParamKind::Scalar(dtype) => format!("{}: Scalar<{dtype}>", p.name),
        })
        .collect();
    simt::Provenance {
        signature: format!("{}({})", kernel.full_name(), params.join(", ")),
        loc: kernel.loc,
        schedule: schedule.attribute(kernel),
        facts: describe_facts(kernel, facts),
        launch: String::new(),
    }
}

/// What a launch promises, in words.
fn describe_facts(kernel: &tile::Kernel, facts: &Facts) -> String {
    let mut words = Vec::new();
    for (param, t) in kernel.params.iter().zip(&facts.tensors) {
        let (Some(t), ParamKind::Tensor { dtype, .. }) = (t, param.kind) else { continue };
        let mut list = Vec::new();
        if t.align as usize > dtype.size() {
            list.push(format!("aligned to {} bytes", t.align));
        }
        if !t.packed {
            list.push(if t.rows { "in rows" } else { "strided" }.to_string());
        }
        if t.lens.iter().any(|l| *l > 1) {
            list.push(format!("lengths multiples of {}", t.lens.iter().map(u32::to_string).collect::<Vec<_>>().join(" x ")));
        }
        if t.most.iter().any(|m| *m > 0) {
            let most = |m: &u32| if *m > 0 { m.to_string() } else { "any".to_string() };
            list.push(format!("lengths at most {}", t.most.iter().map(most).collect::<Vec<_>>().join(" x ")));
        }
        if !list.is_empty() {
            words.push(format!("{} {}", param.name, list.join(", ")));
        }
    }
    words.push(if facts.index32 { "32-bit indices" } else { "64-bit indices" }.to_string());
    if facts.noalias {
        words.push("no aliasing".to_string());
    }
    words.join("; ")
}

/// Grid, block and shared memory, in words.
fn describe_launch(lowered: &simt::Kernel, kernel: &tile::Kernel) -> String {
    let leaf = |e: &HostExpr| match e {
        HostExpr::Dim(p, k) => match kernel.params[*p].kind {
            ParamKind::Tensor { rank: 1, .. } => format!("{}_len", kernel.params[*p].name),
            ParamKind::Tensor { rank: 2, .. } => format!("{}_{}", kernel.params[*p].name, ["rows", "cols"][*k]),
            _ => format!("{}_dim{k}", kernel.params[*p].name),
        },
        HostExpr::Stride(p, k) => format!("{}_stride{k}", kernel.params[*p].name),
        HostExpr::Scalar(p) => kernel.params[*p].name.clone(),
        _ => "multiprocessors".to_string(),
    };
    let constant = match simt::constant_offsets(&lowered.params).1 {
        0 => String::new(),
        bytes => format!(", constant {bytes} B"),
    };
    let cluster = match lowered.launch.cluster {
        1 => String::new(),
        blocks => format!(", clusters of {blocks}"),
    };
    let (grid, shared) = (lowered.launch.grid.to_words(&leaf), lowered.shared_bytes());
    format!("grid {grid}{cluster}, block {}, shared {shared} B{constant}", lowered.launch.block)
}
