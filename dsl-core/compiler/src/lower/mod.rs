//! Lowering: tile IR, facts, schedule and target become SIMT IR, in this order:
//!
//! 1. [`girih_ir::tile::access::classify`]: is every store safe?
//!    `fit`: which loops the facts make superfluous, and what is loaded once because of it.
//! 2. `plan`: what the schedule says, in numbers; how loops run; the rules that schedules obey.
//!    `presence_tiles`: which elements of gathers and choices are there, as values of their own.
//! 3. The walk, which builds the body. `control`, `uniform_conditions`, `values`, `elements`: statements, values, loops over a thread's
//!    elements. `memory`, `transfer`, `staged`, `computed`, `mask`, `spans`: addresses and guards, loads and stores, gathers and scatters.
//!    `convert`: changes of layout. `tail_liveness`: which absent elements nobody looks at.
//!    - `grid`, `tail`: which block works on which tiles, where bounds are checked. `grid_prefetch`, `multistage`, `stages`,
//!      `double_buffer`, `fragment_prefetch`, `persistent_pipeline`: what is loaded ahead of its iteration.
//!    - `combine`, `scan`, `exchange`, `finish`, `flagged_partials`, `atomic_totals`, `second_launch`: what threads, warps and blocks
//!      have, combined. `split_k`, `splitk_fixup`, `sliced_k`: sums that blocks, or groups of threads, share.
//!    - `window`, `copy_to_shared`, `copy_chunks`, `window_reads`: tiles with a halo, copied to shared memory or read where they are.
//!    - `dots`, `absorbed`, `operand`, `computed_operand`, `dot`, `fragment_reads`, `mma`: what dots read and where it lies, products.
//!      `quad_shuffle`, `epilogue_through_shared`: how results of matrix instructions come to lie in rows.
//!    - `shared`, `barriers`, `same_block_hazards`: shared arrays, and where the block meets between accesses.
//!    - `warp`, `chain`, `runs`: what lanes and warps exchange by the author's own hand.
//! 4. `cleanup`: loops of one iteration, unused variables and barriers that order nothing vanish; pointers through which threads exchange
//!    values are not `restrict`.
//! 5. [`girih_ir::simt::verify`].

mod absorbed;
pub(crate) mod atomic_totals;
pub(crate) mod barriers;
mod branch;
mod chain;
mod cleanup;
mod combine;
mod computed;
mod computed_operand;
pub(crate) mod context;
mod control;
mod convert;
mod copy_chunks;
mod copy_to_shared;
mod dot;
pub(crate) mod dots;
mod double_buffer;
mod elements;
mod epilogue_through_shared;
mod exchange;
mod finish;
mod fit;
mod flagged_partials;
mod fragment_prefetch;
mod fragment_reads;
mod grid;
mod grid_prefetch;
mod index;
mod layouts;
mod mask;
mod memory;
mod mma;
mod multistage;
mod numbers;
mod operand;
mod operand_rows;
mod params;
mod pending;
mod persistent_pipeline;
mod picks;
mod presence_tiles;
mod quad_shuffle;
mod range;
mod runs;
mod same_block_hazards;
mod scan;
pub(crate) mod second_launch;
mod shared;
mod sliced_k;
mod spans;
mod split_k;
mod splitk_fixup;
mod staged;
mod stages;
mod tail;
mod tail_liveness;
mod transfer;
mod uniform_conditions;
pub(crate) mod uses;
mod values;
mod warp;
mod window;
mod window_reads;

#[cfg(test)]
mod tests;

pub use crate::plan::matrix_units::dot_numbers;

use girih_ir::bug::{self, Bug};
use girih_ir::error::CompileError;
use girih_ir::facts::Facts;
use girih_ir::schedule::{Schedule, ScheduleError};
use girih_ir::simt;
use girih_ir::target::Target;
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, ParamKind};
use girih_ir::types::BinaryOp;

use crate::plan::split::{self, Split};
use crate::plan::{self, Plan};
use std::collections::BTreeSet;

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
    let one_by_one = plan::one_by_one::one_by_one(kernel, schedule);
    let fitted = fit::fit(kernel, facts, &plan::numbers(kernel, schedule), &one_by_one);
    let (kernel, fitting) = fitted.as_ref().map_or((kernel, Default::default()), |(k, v)| (k, v.clone()));
    let plan = plan::plan(kernel, schedule, target, &fitting, &one_by_one)?;
    let (kernel, found) = presence_tiles::with_values(kernel);
    let (kernel, whole) = (kernel.as_ref(), plan.whole());
    let mut lowering = context::Lowering::new(kernel, found, facts, &plan, &whole);
    lowering.fitting = fitting;
    let mut lowered = by_plan(lowering, schedule, target)?;
    plan::room::check(kernel, schedule, &lowered, target)?;
    simt::verify::verify(&lowered, "lower");
    lowered.each_launch(&mut |launch| launch.provenance.launch = describe_launch(launch, kernel));
    Ok(lowered)
}

/// The kernel under one plan.
fn by_plan(mut lowering: context::Lowering, schedule: &Schedule, target: &Target) -> Result<simt::Kernel, CompileError> {
    let (kernel, plan, whole) = (lowering.kernel, lowering.plan, lowering.whole);
    lowering.lower_block(&kernel.body)?;
    let grid = grid_size(kernel, plan, &lowering);
    // Tiles are dealt to blocks that should all be resident. More of them than fit take turns, and none is worth a register.
    let fit = target.threads_per_multiprocessor as i64 / whole.threads;
    let dealt = if plan.grid <= fit { plan.grid.max(1) } else { 1 };
    let min_blocks = dealt.max(plan.min_blocks) as u32;
    let (block, opt_level) = (whole.threads as u32, plan.opt_level);
    let launch = simt::LaunchRecord { grid, block, cluster: 1, cooperative: false, min_blocks, opt_level, roles: vec![] };
    let provenance = provenance(kernel, lowering.facts, schedule);
    let next = lowering.next.take();
    let tidy = |lowered: &mut simt::Kernel, kept: &BTreeSet<simt::SharedId>| {
        cleanup::simplify::simplify(lowered);
        if !barriers::has_own(kernel) {
            cleanup::remove_barriers::remove_barriers(lowered, kept);
        }
        cleanup::drop_restrict::drop_restrict(lowered);
    };
    let kept = lowering.authors_arrays();
    let mut lowered = lowering.finish(launch, provenance);
    tidy(&mut lowered, &kept);
    lowered.next = next.map(|next| {
        let kept = next.authors_arrays();
        let mut next = next.finish_behind(&lowered);
        tidy(&mut next, &kept);
        second_launch::drop_unused_params(&mut next);
        Box::new(next)
    });
    Ok(lowered)
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

fn grid_size(kernel: &tile::Kernel, plan: &Plan, lowering: &context::Lowering) -> HostExpr {
    let Some(l) = kernel.grid_loop() else { return HostExpr::Const(1) };
    let mut blocks = lowering.total_tiles(l);
    match plan.split {
        Some(Split::StreamK(each)) => return split::blocks(kernel, plan, l, (blocks, each), lowering.ix.dtype),
        Some(Split::SplitK(parts)) => blocks = HostExpr::binary(BinaryOp::Mul, blocks, HostExpr::Const(parts)),
        None => {}
    }
    if plan.grid > 0 {
        let most = HostExpr::binary(BinaryOp::Mul, HostExpr::Multiprocessors, HostExpr::Const(plan.grid));
        blocks = HostExpr::binary(BinaryOp::Min, blocks, most);
    }
    if plan::finish::combines_grid(kernel) { finish::at_least_one(blocks) } else { blocks }
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
    format!("grid {}, block {}, shared {} B", lowered.launch.grid.to_words(&leaf), lowered.launch.block, lowered.shared_bytes())
}
