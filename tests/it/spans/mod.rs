//! Loops that keep to some positions of an axis.

pub mod kernels;

use super::launches::best_facts;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// The tile IR of a kernel, and its CUDA C under a schedule.
fn page(kernel: &Kernel, facts: &Facts, schedule: &str) -> String {
    let schedule = parse_schedule(kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    let simt = lower(kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    format!("{kernel}\n{}", girih_core::cuda::emit(&simt))
}

#[test]
fn dbg() {
    let k = (kernels::constant_positions::Kernel::def().build)().unwrap();
    println!("{}", page(&k, &best_facts(&k), "R=2 C=16 K=1 V=1"));
    let k = (kernels::ragged_rows::Kernel::def().build)().unwrap();
    println!("{}", page(&k, &best_facts(&k), "R=1 C=128 K=4 V=4"));
    let k = (kernels::segments::Kernel::def().build)().unwrap();
    println!("{}", page(&k, &best_facts(&k), "S=1 T=32 C=1 V=1 G=0"));
}
