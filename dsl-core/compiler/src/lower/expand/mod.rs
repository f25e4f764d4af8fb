//! Block IR becomes SIMT IR, statement by statement. What a page says is written out as it stands there: nothing here sees tile IR, facts, a plan
//! or a schedule.
//!
//! - `context`, `values`, `elements`, `control`: the SIMT kernel that grows, what became of each value, loops over a thread's elements,
//!   statements. `memory`, `transfer`, `staged`, `computed`, `gather_inside`, `mask`, `absent`, `spans`: addresses and guards, loads and stores,
//!   gathers and scatters.
//!   `convert`: changes of layout.
//!   `alone`: what some threads do for the block.
//! - `grid`, `tail`: which block works on which tiles, where bounds are checked. `turns`, `multistage`, `stages`, `persistent_pipeline`,
//!   `fragment_prefetch`, `grid_prefetch`: what is loaded ahead of its iteration.
//! - `combine`, `scan`, `scan_total`, `exchange`, `finish`, `flagged_partials`, `atomic_totals`, `second_launch`: what threads, warps and blocks have,
//!   combined. `split_k`, `splitk_fixup`, `sliced_k`: sums that blocks, or groups of threads, share.
//!   `cluster`: blocks that work together on a tile.
//! - `window`, `copy_to_shared`, `copy_chunks`, `window_reads`: tiles with a halo, copied to shared memory or read where they are.
//! - `operand`, `computed_operand`, `dot`, `fragment_reads`, `mma`: what dots read and where it lies, products. `quad_shuffle`,
//!   `epilogue_through_shared`: how results of matrix instructions come to lie in rows.
//! - `shared`: shared arrays. `warp`, `chain`, `runs`: what lanes and warps exchange by the author's own hand.

mod absent;
mod alone;
mod atomic_totals;
mod branch;
mod by_element;
mod chain;
mod cluster;
mod combine;
mod computed;
mod computed_operand;
mod context;
mod control;
mod convert;
mod converted_operand;
mod copy_chunks;
mod copy_to_shared;
mod dot;
mod elements;
mod epilogue_through_shared;
mod exchange;
mod finish;
mod flagged_partials;
mod fold;
mod fragment_prefetch;
mod fragment_reads;
mod gather_inside;
mod gather_vectors;
mod grid;
mod grid_prefetch;
pub(crate) mod index;
mod lanes;
mod look_back;
mod mask;
mod memory;
mod mma;
mod multistage;
mod numbers;
mod operand;
mod operand_rows;
mod overlapped_products;
mod params;
mod pending;
mod persistent_pipeline;
mod picks;
mod presence_tiles;
mod quad_shuffle;
pub(crate) mod range;
mod roles;
mod runs;
mod scan;
mod scan_total;
mod second_launch;
mod shared;
mod short_vectors;
mod sliced_k;
mod spans;
mod split_k;
mod splitk_fixup;
mod staged;
mod stages;
mod transfer;
mod turns;
mod uniform_conditions;
mod values;
mod warp;
mod wgmma;
mod window;
mod window_reads;

use super::refusal::Refusal;
use crate::block::Kernel;
use girih_ir::simt::{self, SharedId};
use std::collections::BTreeSet;

/// A launch that was written out, what is known of it, and its author's shared arrays.
pub(crate) struct Written {
    pub kernel: simt::Kernel,
    pub launch: range::Launch,
    pub authors_arrays: BTreeSet<SharedId>,
    /// Some statements are run by one warp, whose barriers order nothing of the others.
    pub alone: bool,
    /// The launch behind it.
    pub next: Option<Box<Written>>,
}

/// Writes out a page, for a launch with this record and origin.
///
/// # Errors
/// Where the page asks for what cannot be had.
pub(crate) fn expand(page: &Kernel, launch: simt::LaunchRecord, provenance: simt::Provenance) -> Result<Written, Refusal> {
    let mut expander = context::Expander::new(page);
    expander.lower_block(&page.body)?;
    let (next, alone) = (expander.next.take(), !page.alone.is_empty());
    let authors_arrays = expander.authors_arrays();
    let kernel = expander.finish(launch, provenance);
    let next = next.map(|next| {
        let authors_arrays = next.authors_arrays();
        let kernel = next.finish_behind(&kernel);
        Box::new(Written { launch: range::Launch::of(page, &kernel), kernel, authors_arrays, alone, next: None })
    });
    Ok(Written { launch: range::Launch::of(page, &kernel), kernel, authors_arrays, alone, next })
}

pub(crate) use second_launch::drop_unused_params;
