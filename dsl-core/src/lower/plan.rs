//! What a schedule means for a kernel: numbers for the symbolic sizes, threads, elements per thread, and the rules they must obey.

use super::overlap::overlaps;
use super::split::Split;
use crate::facts::INDEX32_OVERHANG;
use crate::schedule::{Choice, KnobKind, Schedule, ScheduleError};
use crate::simt::{CacheHint, OPT_LEVEL};
use crate::target::{Target, max_vector_bytes};
use crate::tile::{Kernel, KnobId, Op, ParamKind, Size, Stmt, ValueId};
use std::collections::HashSet;

/// How a stage of the pipeline is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// Loads into registers, used one turn later.
    Registers,
    /// `cp.async` into a ring of shared buffers.
    Async,
}

/// A schedule in numbers.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Value of each knob (0 for words).
    pub knobs: Vec<i64>,
    /// Extents of the grid loop's tile; empty without a grid loop.
    pub grid_tile: Vec<i64>,
    /// The tile whose elements are dealt to the threads: symbolic extents. See [`super::anchor`].
    pub anchor_sizes: Vec<Size>,
    /// Extents of the anchor.
    pub anchor: Vec<i64>,
    /// Threads along each axis of the anchor.
    pub thread_shape: Vec<i64>,
    /// Threads that work on a tile together: those of a block, or of each of its slices.
    pub threads: i64,
    /// Groups of as many threads in a block, which share the sum of a tile.
    pub slices: i64,
    /// Slices whose threads go on together, behind their sum: 1 before.
    pub joined: i64,
    /// Elements per run of a thread.
    pub vector: i64,
    /// Buffers of the pipeline over the tiles dealt to a block.
    pub stages: i64,
    /// How a stage is filled.
    pub fill: Fill,
    /// 0: one tile per block. k: k blocks per multiprocessor, to which tiles are dealt.
    pub grid: i64,
    /// How blocks share the sum of a tile.
    pub split: Option<Split>,
    /// Blocks per multiprocessor that registers must leave room for.
    pub min_blocks: i64,
    /// See [`crate::simt::LaunchRecord::opt_level`].
    pub opt_level: u32,
    /// Rows of tiles that blocks walk together; 1 for row after row.
    pub raster: i64,
    /// Copies of each element of a shared array that is only updated.
    pub copies: i64,
    /// Tiles of whole rows are read through shared memory.
    pub shared_rows: bool,
    /// Windows are copied to shared memory.
    pub shared_windows: bool,
    /// Those copies, and those of dots' operands, go by `cp.async`.
    pub async_windows: bool,
    /// The turns of a loop along a sum overlap.
    pub overlap: bool,
    /// Stages are handed over by mbarriers.
    pub mbarriers: bool,
    /// The kernel has dots.
    pub dots: bool,
    /// The matrix instruction that dots become, and how warps share the anchor.
    pub mma: Option<super::matrix_units::Warps>,
    /// Results of matrix instructions may have shared memory of their own on their way to global memory.
    pub shared_results: bool,
    /// Operands of dots are copied to shared memory.
    pub shared_operands: bool,
    /// Those that lie along the axis of the sum are transposed on the way.
    pub transposed_operands: bool,
    /// A thread's elements are one block of neighbours along each axis, as windows want it.
    pub blocked: bool,
    /// How a combination over the grid ends.
    pub finish: super::finish::Finish,
    /// Hint for global loads.
    pub load_cache: CacheHint,
    /// Hint for global stores.
    pub store_cache: CacheHint,
}

impl Plan {
    /// The value of a size.
    pub fn size(&self, size: &Size) -> i64 {
        size.value(|k| self.knobs[k.0 as usize])
    }
}

/// The error for a choice that breaks a rule.
pub(crate) fn illegal(kernel: &Kernel, knobs: &[KnobId], found: String, rule: String) -> ScheduleError {
    let names: Vec<&str> = knobs.iter().map(|k| kernel.knob(*k).name.as_str()).collect();
    ScheduleError { knob: names.join(" / "), found, rule, loc: knobs.first().map(|k| kernel.knob(*k).loc) }
}

fn knob_of_kind(kernel: &Kernel, kind: KnobKind) -> Option<KnobId> {
    kernel.knobs.iter().position(|k| k.kind == kind).map(|i| KnobId(i as u32))
}

/// Checks the rules that need no lowering and works out the numbers.
/// `fitting` has the tile indices of loops of one turn.
pub(crate) fn plan(kernel: &Kernel, schedule: &Schedule, target: &Target, fitting: &HashSet<ValueId>) -> Result<Plan, ScheduleError> {
    check_choices(kernel, schedule)?;
    let mut knobs: Vec<i64> = (0..kernel.knobs.len()).map(|i| schedule.int(KnobId(i as u32))).collect();
    let value = |k: KnobId| knobs[k.0 as usize];
    let grid_tile: Vec<i64> = super::anchor::grid_sizes(kernel).iter().map(|s| s.value(value)).collect();
    let sizes = super::anchor::sizes(kernel);
    let anchor: Vec<i64> = sizes.iter().map(|s| s.value(value)).collect();
    let mut coarsen = vec![1; anchor.len()];
    for (i, knob) in kernel.knobs.iter().enumerate() {
        let id = KnobId(i as u32);
        if let KnobKind::Coarsen { of } = knob.kind {
            if value(of) % value(id) != 0 {
                return Err(illegal(kernel, &[id], value(id).to_string(), format!("must divide {} = {}", kernel.knob(of).name, value(of))));
            }
            for (axis, size) in sizes.iter().enumerate().filter(|(_, s)| s.as_knob() == Some(of)) {
                debug_assert!(size.as_knob().is_some());
                coarsen[axis] = value(id);
            }
        }
    }
    let dots = kernel.has_dots();
    let mma = super::matrix_units::warps(kernel, schedule, target, &anchor, &knobs)?;
    let mut thread_shape: Vec<i64> = anchor.iter().zip(&coarsen).map(|(t, c)| t / c).collect();
    let override_ = override_threads(kernel, schedule).filter(|_| !dots);
    if let Some(mma) = &mma {
        thread_shape = mma.thread_shape();
    } else if let Some((id, threads)) = override_ {
        let elements: i64 = anchor.iter().product();
        if elements % threads != 0 {
            return Err(illegal(kernel, &[id], threads.to_string(), format!("threads must divide the tile's {elements} elements")));
        }
        thread_shape = spread(threads, &anchor);
    }
    let threads: i64 = thread_shape.iter().product::<i64>().max(1);
    if threads > 1024 {
        let ids: Vec<KnobId> = kernel
            .knobs
            .iter()
            .enumerate()
            .filter(|(_, k)| matches!(k.kind, KnobKind::Tile | KnobKind::Coarsen { .. }))
            .map(|(i, _)| KnobId(i as u32))
            .collect();
        let found = ids.iter().map(|k| value(*k).to_string()).collect::<Vec<_>>().join(" / ");
        return Err(illegal(kernel, &ids, found, format!("gives {threads} threads per block; a block has at most 1024")));
    }
    let vector = schedule.int_of_kind(kernel, KnobKind::Vector, 1);
    if mma.is_none() {
        check_vector(kernel, target, vector, &anchor, &thread_shape)?;
    }
    let slices = super::slices::slices(kernel, schedule, fitting, threads)?;
    let min_blocks = check_min_blocks(kernel, schedule, target, threads * slices)?;
    let split = super::split::split(kernel, schedule, fitting, threads, min_blocks)?;
    super::slices::check_alone(kernel, slices, split)?;
    let grid = match split {
        Some(Split::Stream(blocks)) => blocks,
        _ => schedule.int_of_kind(kernel, KnobKind::Grid, 0),
    };
    let stages = schedule.int_of_kind(kernel, KnobKind::Stages, 1);
    let fill = check_fill(kernel, schedule, target, grid, stages)?;
    if grid > 0 && stages > 1 {
        check_ahead(kernel, target, grid * stages * anchor.iter().max().copied().unwrap_or(1))?;
    }
    let shared_rows = matches!(schedule.of_kind(kernel, KnobKind::Rows), Some(Choice::Word(w)) if w == "Shared");
    let (load_cache, store_cache) = cache_hints(kernel, schedule, target)?;
    let blocked = reads_windows(kernel);
    let shared_windows = blocked && !matches!(schedule.of_kind(kernel, KnobKind::Halo), Some(Choice::Word(w)) if w == "Direct");
    let shared_operands = dots && !super::dots::are_direct(kernel, schedule);
    let transposed_operands = dots && super::dots::are_transposed(kernel, schedule);
    walk_one_by_one(kernel, schedule, &mut knobs)?;
    let async_windows = (shared_windows || shared_operands) && check_async_windows(kernel, schedule, target)?;
    let overlap = super::overlap::check(kernel, schedule, mma.as_ref().and_then(|m| m.steps), stages, slices)?;
    let raster = schedule.int_of_kind(kernel, KnobKind::Raster, 1);
    let copies = schedule.int_of_kind(kernel, KnobKind::Copies, 1);
    if !(copies as u64).is_power_of_two() || copies > 32 {
        let id = knob_of_kind(kernel, KnobKind::Copies).into_iter().collect::<Vec<_>>();
        return Err(illegal(kernel, &id, copies.to_string(), "must be a power of two up to 32: lanes share copies evenly".into()));
    }
    Ok(Plan {
        copies,
        split,
        min_blocks,
        opt_level: check_opt_level(kernel, schedule)?,
        raster,
        knobs,
        grid_tile,
        anchor_sizes: sizes,
        anchor,
        thread_shape,
        threads,
        slices,
        joined: 1,
        vector,
        stages,
        fill,
        grid,
        shared_rows,
        shared_windows,
        async_windows,
        overlap,
        mbarriers: overlap && matches!(schedule.of_kind(kernel, KnobKind::Copy), Some(Choice::Word(w)) if w == "Mbarriers"),
        dots,
        shared_results: mma.is_some(),
        mma,
        shared_operands,
        transposed_operands,
        blocked,
        finish: super::finish::finish(kernel, schedule)?,
        load_cache,
        store_cache,
    })
}

/// Every choice is of the knob's kind and sensible in itself; it need not be among those that the author listed, unless that is one tile size.
fn check_choices(kernel: &Kernel, schedule: &Schedule) -> Result<(), ScheduleError> {
    assert_eq!(schedule.choices.len(), kernel.knobs.len(), "plan: a schedule of another kernel was given to {}", kernel.path);
    for (i, (knob, choice)) in kernel.knobs.iter().zip(&schedule.choices).enumerate() {
        let id = [KnobId(i as u32)];
        let words = knob.kind.words();
        match choice {
            Choice::Word(w) if !words.contains(&w.as_str()) => {
                let rule = if words.is_empty() { "must be a number".to_string() } else { format!("must be one of {}", words.join(", ")) };
                return Err(illegal(kernel, &id, w.clone(), rule));
            }
            Choice::Int(n) if !words.is_empty() => {
                return Err(illegal(kernel, &id, n.to_string(), format!("must be one of {}", words.join(", "))));
            }
            Choice::Int(n) if *n < 0 || (*n == 0 && !matches!(knob.kind, KnobKind::Grid | KnobKind::Split)) => {
                return Err(illegal(kernel, &id, n.to_string(), "must be positive".into()));
            }
            Choice::Int(_) if knob.kind == KnobKind::Tile && knob.choices.len() == 1 && *choice != knob.choices[0] => {
                let rule = format!("the kernel's author has pinned it to {}: what is computed may depend on it", knob.choices[0]);
                return Err(illegal(kernel, &id, choice.to_string(), rule));
            }
            Choice::Int(n) if knob.kind == KnobKind::Tile && *n > 1 << 16 => {
                return Err(illegal(kernel, &id, n.to_string(), "a tile has at most 65536 elements along an axis".into()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn override_threads(kernel: &Kernel, schedule: &Schedule) -> Option<(KnobId, i64)> {
    let threads = knob_of_kind(kernel, KnobKind::Threads).map(|id| (id, schedule.int(id)));
    threads.or_else(|| knob_of_kind(kernel, KnobKind::Warps).map(|id| (id, 32 * schedule.int(id))))
}

/// Threads dealt to the axes, the last one first.
pub(crate) fn spread(threads: i64, shape: &[i64]) -> Vec<i64> {
    let mut left = threads;
    let mut along = vec![1; shape.len()];
    for axis in (0..shape.len()).rev() {
        along[axis] = gcd(left, shape[axis]);
        left /= along[axis];
    }
    along
}

/// Greatest common divisor.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn check_vector(kernel: &Kernel, target: &Target, vector: i64, anchor: &[i64], threads: &[i64]) -> Result<(), ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::Vector) else { return Ok(()) };
    if !(vector as u64).is_power_of_two() {
        return Err(illegal(kernel, &[id], vector.to_string(), "must be a power of two".into()));
    }
    if let (Some(tile), Some(along)) = (anchor.last(), threads.last()) {
        let own = tile / along;
        if own % vector != 0 {
            let rule = format!("must divide the {own} elements that a thread owns along the contiguous axis (coarsen)");
            return Err(illegal(kernel, &[id], vector.to_string(), rule));
        }
    }
    let narrowest = kernel.views.iter().map(|v| v.dtype.size()).chain(kernel.params.iter().filter_map(|p| match p.kind {
        ParamKind::Tensor { dtype, .. } if kernel.views.is_empty() => Some(dtype.size()),
        _ => None,
    }));
    let narrowest = narrowest.min().unwrap_or(4) as i64;
    let widest = max_vector_bytes(target.capability) as i64;
    if vector * narrowest > widest {
        let rule = format!(
            "{vector} elements of {narrowest} bytes are {} bytes; one access moves at most {widest} on {}",
            vector * narrowest,
            target.arch
        );
        return Err(illegal(kernel, &[id], vector.to_string(), rule));
    }
    Ok(())
}

/// Blocks that a multiprocessor holds at least. The threads it can hold have 32 registers each on every target, so none has fewer.
fn check_min_blocks(kernel: &Kernel, schedule: &Schedule, target: &Target, threads: i64) -> Result<i64, ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::MinBlocks) else { return Ok(1) };
    let (blocks, most) = (schedule.int(id), target.threads_per_multiprocessor as i64);
    let refused = |rule: String| Err(illegal(kernel, &[id], blocks.to_string(), rule));
    if blocks > target.blocks_per_multiprocessor as i64 {
        return refused(format!("a multiprocessor of {} holds at most {} blocks", target.arch, target.blocks_per_multiprocessor));
    }
    let per_warp = (threads + 31) / 32 * 32;
    if blocks > 1 && blocks * per_warp > most {
        let rule = format!("as many blocks have {} threads; a multiprocessor of {} holds at most {most}", blocks * per_warp, target.arch);
        return refused(rule);
    }
    Ok(blocks)
}

/// What ptxas is asked for.
fn check_opt_level(kernel: &Kernel, schedule: &Schedule) -> Result<u32, ScheduleError> {
    let level = schedule.int_of_kind(kernel, KnobKind::OptLevel, i64::from(OPT_LEVEL));
    let id = knob_of_kind(kernel, KnobKind::OptLevel);
    match u32::try_from(level) {
        Ok(level @ 1..=OPT_LEVEL) => Ok(level),
        _ => Err(illegal(kernel, &id.into_iter().collect::<Vec<_>>(), level.to_string(), format!("ptxas knows 1 to {OPT_LEVEL}"))),
    }
}

/// A pipeline's loads run ahead of the last tile: their indices must stay within what 32-bit facts leave free.
fn check_ahead(kernel: &Kernel, target: &Target, per_multiprocessor: i64) -> Result<(), ScheduleError> {
    let ahead = per_multiprocessor * target.multiprocessors as i64;
    match knob_of_kind(kernel, KnobKind::Stages) {
        Some(id) if ahead > INDEX32_OVERHANG => {
            let rule = format!("loads would run {ahead} elements ahead; at most {INDEX32_OVERHANG} leave 32-bit indices room");
            Err(illegal(kernel, &[id], "stages".into(), rule))
        }
        _ => Ok(()),
    }
}

/// The hints of loads and of stores.
fn cache_hints(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<(CacheHint, CacheHint), ScheduleError> {
    let Some(Choice::Word(word)) = schedule.of_kind(kernel, KnobKind::Cache) else { return Ok((CacheHint::Default, CacheHint::Default)) };
    match (word.as_str(), knob_of_kind(kernel, KnobKind::Cache)) {
        ("Streaming", _) => Ok((CacheHint::Streaming, CacheHint::Streaming)),
        ("Loads", _) => Ok((CacheHint::Streaming, CacheHint::Default)),
        ("Stores", _) => Ok((CacheHint::Default, CacheHint::Streaming)),
        ("Kept", Some(id)) if !target.has_cache_policies() => {
            Err(illegal(kernel, &[id], word.clone(), format!("{} has no policies of its L2 cache; use Default", target.arch)))
        }
        ("Kept", _) => Ok((CacheHint::Kept, CacheHint::Default)),
        _ => Ok((CacheHint::Default, CacheHint::Default)),
    }
}

fn check_fill(kernel: &Kernel, schedule: &Schedule, target: &Target, grid: i64, stages: i64) -> Result<Fill, ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::Copy) else { return Ok(Fill::Registers) };
    let pipelined = grid > 0 && stages > 1;
    match schedule.of_kind(kernel, KnobKind::Copy) {
        Some(Choice::Word(w)) if (w == "Async" || overlaps(w)) && pipelined => {
            if !target.has_async_copy() {
                return Err(illegal(kernel, &[id], w.clone(), format!("{} has no cp.async; use Registers", target.arch)));
            }
            Ok(Fill::Async)
        }
        Some(Choice::Word(w)) if (w == "Bulk" || w == "Tensor") && pipelined => {
            Err(illegal(kernel, &[id], w.clone(), "the tiles dealt to a block are copied by Registers or Async".into()))
        }
        _ => Ok(Fill::Registers),
    }
}

/// Knobs of tiles that are walked element by element have no effect.
fn walk_one_by_one(kernel: &Kernel, schedule: &Schedule, knobs: &mut [i64]) -> Result<(), ScheduleError> {
    for id in super::dots::one_by_one(kernel, schedule) {
        let (knob, choice) = (kernel.knob(id), &schedule.choices[id.0 as usize]);
        if *choice != knob.choices[0] {
            let rule = format!("has no effect where operands are read directly: only its first value, {}, is allowed", knob.choices[0]);
            return Err(illegal(kernel, &[id], choice.to_string(), rule));
        }
        knobs[id.0 as usize] = 1;
    }
    Ok(())
}

/// Whether the body reads moved tiles of windows.
fn reads_windows(kernel: &Kernel) -> bool {
    let mut found = false;
    crate::tile::access::visit(&kernel.body, &mut |stmt| found |= matches!(stmt, Stmt::Let(_, Op::Near(..))));
    found
}

/// Whether windows are copied by `cp.async`.
fn check_async_windows(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<bool, ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::Copy) else { return Ok(false) };
    match schedule.of_kind(kernel, KnobKind::Copy) {
        Some(Choice::Word(w)) if (w == "Async" || overlaps(w)) && !target.has_async_copy() => {
            Err(illegal(kernel, &[id], w.clone(), format!("{} has no cp.async; use Registers", target.arch)))
        }
        Some(Choice::Word(w)) if w == "Bulk" || w == "Tensor" => {
            Err(illegal(kernel, &[id], w.clone(), "windows are copied by Registers or Async".into()))
        }
        Some(Choice::Word(w)) => Ok(w == "Async" || overlaps(w)),
        _ => Ok(false),
    }
}
