//! Kernels that nobody wrote: random bodies under random schedules, the simulator beside the evaluator.
//!
//! Values are small whole numbers, so that every order of a sum gives the same. `GIRIH_RANDOM_SEEDS=1000..2000` tries other kernels than
//! those of every run. `GIRIH_RANDOM_SHOW=1` prints the bodies, `GIRIH_RANDOM_CUDA=T=32,C=4` their CUDA C under a schedule.

use super::differential::compare;
use bodies::{random_ends, random_product, random_row, random_square, random_total, random_updates, random_view};
use girih::prelude::{bf16, f16};
use girih_core::registry::KernelDef;
use girih_core::tile::Kernel;
use std::cell::Cell;
use turns::{random_depths, random_group, random_pair, random_turn};

mod bodies;
mod drawn;
mod grow;
pub mod links;
mod turns;

thread_local! {
    /// Which body the kernels below get.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// The kernel with the body of a seed.
fn with_seed(def: &KernelDef, seed: u64) -> Kernel {
    SEED.set(seed);
    let mut kernel = (def.build)().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    kernel.name = format!("{}_{seed}", kernel.name);
    kernel
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("GIRIH_RANDOM_SEEDS") else { return 0..8 };
    let (from, to) = range.split_once("..").unwrap_or_else(|| panic!("GIRIH_RANDOM_SEEDS is FROM..TO, not {range}"));
    let number = |text: &str| text.parse().unwrap_or_else(|e| panic!("GIRIH_RANDOM_SEEDS: {text}: {e}"));
    number(from)..number(to)
}

fn tried(def: KernelDef) {
    let kernels: Vec<Kernel> = seeds().map(|seed| with_seed(&def, seed)).collect();
    if std::env::var_os("GIRIH_RANDOM_SHOW").is_some() {
        kernels.iter().for_each(|k| println!("{}", girih_core::tile::print::print(k)));
    }
    if let Ok(text) = std::env::var("GIRIH_RANDOM_CUDA") {
        for kernel in &kernels {
            let schedule = girih_core::schedule::parse::parse_schedule(kernel, &text).unwrap_or_else(|e| panic!("GIRIH_RANDOM_CUDA: {e}"));
            let facts = girih_core::facts::Facts::none(kernel);
            let simt = girih_core::lower::lower(kernel, &facts, &schedule, girih_core::target::Target::h200());
            println!("{}", girih_core::cuda::emit(&simt.unwrap_or_else(|e| panic!("{e}"))));
        }
    }
    compared(&kernels);
}

/// Compares the kernels, which have the same knobs. Under the seeds of every run, each choice of how a loop is run came to a loop with a dot
/// and another statement.
fn compared(kernels: &[Kernel]) {
    let missing = drawn::missing(kernels, &compare(kernels));
    let every_run = std::env::var_os("GIRIH_RANDOM_SEEDS").is_none();
    assert!(missing.is_empty() || !every_run, "{}: no loop with a dot and another statement came under {missing:?}", kernels[0].path);
}

#[test]
fn random_rows_compute_what_eval_computes() {
    tried(random_row::Kernel::def());
}

#[test]
fn random_totals_are_what_eval_computes() {
    tried(random_total::Kernel::def());
}

#[test]
fn random_products_compute_what_eval_computes() {
    tried(random_product::Kernel::def());
}

#[test]
fn random_turns_compute_what_eval_computes() {
    tried(random_turn::Kernel::def());
}

#[test]
fn random_depths_compute_what_eval_computes() {
    tried(random_depths::Kernel::def());
}

#[test]
fn random_pairs_compute_what_eval_computes() {
    // Of each format some of the bodies.
    let defs = [random_pair::Kernel::<f16>::def(), random_pair::Kernel::<bf16>::def(), random_pair::Kernel::<f32>::def()];
    compared(&seeds().map(|seed| with_seed(&defs[seed as usize % defs.len()], seed)).collect::<Vec<_>>());
}

#[test]
fn random_groups_compute_what_eval_computes() {
    tried(random_group::Kernel::def());
}

#[test]
fn random_squares_compute_what_eval_computes() {
    tried(random_square::Kernel::def());
}

#[test]
fn random_views_compute_what_eval_computes() {
    tried(random_view::Kernel::def());
}

#[test]
fn random_updates_leave_what_eval_leaves() {
    tried(random_updates::Kernel::def());
}

#[test]
fn random_ends_leave_what_eval_leaves() {
    tried(random_ends::Kernel::def());
}

#[test]
fn chains_of_links_compute_what_eval_computes() {
    links::LINKS.set(5);
    // What an update finds depends on the order of the blocks.
    let defs = links::all().into_iter().filter(|d| d.name != "updates");
    let kernels: Vec<Kernel> = defs.map(|d| (d.build)().unwrap_or_else(|e| panic!("{e}"))).collect();
    compare(&kernels);
}
