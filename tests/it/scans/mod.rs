//! Scans inside of a block: sampled schedules against the evaluator.

pub mod kernels;

use super::differential::compare;
use super::rungs::all_kernels;
use girih_core::tile::Kernel;

#[test]
fn every_schedule_of_scans_computes_what_eval_computes() {
    let chosen = std::env::var("GIRIH_TEST_KERNEL").ok();
    let mut kernels: Vec<Kernel> = all_kernels().into_iter().filter(|k| k.path.contains("scans")).collect();
    assert!(kernels.len() >= 7, "{} kernels that scan", kernels.len());
    kernels.retain(|k| chosen.as_ref().is_none_or(|c| k.name == *c));
    compare(&kernels);
}
