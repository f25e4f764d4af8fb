//! Combinations inside of a block and over the grid: sums, rows, operators that keep order.

mod finishes;
pub mod kernels;
mod meeting;

use super::launches::{Launch, Placement, Shape, best_facts};
use super::snapshots::page;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::sim::Class;
use girih_core::target::Target;
use girih_core::tile::Kernel;

fn kernel(module: &str, name: &str) -> Kernel {
    let def = girih_core::registry::kernels().into_iter().find(|d| d.module.ends_with(module) && d.name == name);
    (def.unwrap_or_else(|| panic!("no kernel {name}")).build)().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Source, schedule and CUDA C of one of these kernels.
fn shown(name: &str, schedule: &str) -> String {
    let kernel = kernel("cooperating::kernels", name);
    page(&kernel, &parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[test]
fn registers_lanes_and_warps_are_combined() {
    for (name, schedule) in [("mean", "T=1024,C=4,V=4,G=2"), ("softmax_rows", "R=1,C=512,CC=4,V=4"), ("last_odd", "R=2,C=64,CR=1,CC=4,V=2")]
    {
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("cooperating.{name}"), shown(name, schedule));
        });
    }
}

/// Blocks with several tiles each: what keeps order gets neighbouring tiles.
#[test]
fn operators_keep_the_order_of_tiles_over_the_grid() {
    let kernel = kernel("cooperating::kernels", "composition");
    let few = Target { multiprocessors: 3, ..Target::h200().clone() };
    for facts in [best_facts(&kernel), Facts::none(&kernel)] {
        let space = Space::new(&kernel, &facts, &few);
        for (n, schedule) in space.sample(12, 3).iter().enumerate() {
            let simt = lower(&kernel, &facts, schedule, &few).unwrap_or_else(|e| panic!("{e}"));
            for len in [0, 16, 64, 640, 1008, 2000] {
                let shape = Shape { lens: vec![vec![len], vec![16]], scalars: vec![None; 2] };
                let launch = Launch::new(&kernel, &shape, Placement::Aligned, n as u64);
                let outcome = launch.disagreement(&kernel, &simt, 50_000_000);
                assert!(outcome.is_none(), "{} at {len}: {}", schedule.short(&kernel), outcome.unwrap_or_default());
            }
        }
    }
}

#[test]
fn turns_meet_once_for_each_exchange() {
    // Two exchanges in a turn keep each other's turns apart, one alone has two copies of its parts.
    for (module, name, schedule, axis, tile, warps, meetings) in [
        ("cooperating::kernels", "softmax_rows", "R=1,C=512,CC=4,V=4", 1, 512, 4, 2),
        ("scans::kernels", "prefix_rows", "R=1,C=256,CR=1,CC=2,V=1,G=0", 1, 256, 4, 2),
        ("scans::kernels", "most_so_far", "R=64,C=2,CR=1,CC=1,V=1,G=1", 0, 64, 4, 1),
    ] {
        let kernel = kernel(module, name);
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{name}: {e}"));
        let simt = lower(&kernel, &Facts::packed(&kernel, true), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let barriers = |turns: i64| {
            let lens = [turns * tile, 1];
            let lens = vec![lens[axis], lens[1 - axis]];
            let shape = Shape { lens: vec![lens; 2], scalars: vec![None; 2] };
            let counters = Launch::new(&kernel, &shape, Placement::Aligned, 1).counters(&simt).unwrap_or_else(|t| panic!("{name}: {t}"));
            counters.warp[Class::Barrier as usize]
        };
        assert_eq!(barriers(5) - barriers(2), 3 * warps * meetings, "{name}");
    }
}

#[test]
fn rows_that_fit_are_loaded_ahead_of_their_turn_and_what_was_stored_is_not() {
    let ahead = |name: &str, schedule: &str, fits: bool| {
        let kernel = kernel("cooperating::kernels", name);
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{name}: {e}"));
        let facts = Facts::packed(&kernel, true);
        let facts = if fits { facts.fitting(&kernel, &schedule) } else { facts };
        let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{name}: {e}"));
        simt.vars.iter().filter(|v| v.name.contains("_next")).count()
    };
    let rows = "R=2,C=128,CC=4,V=4,G=1,P=Registers";
    assert_eq!(ahead("row_variances", &format!("{rows},S=2"), true), 1, "one tensor, one turn");
    assert_eq!(ahead("row_variances", &format!("{rows},S=3"), true), 2, "two turns");
    assert_eq!(ahead("row_variances", &format!("{rows},S=2"), false), 0, "several tiles to a row");
    assert_eq!(ahead("two_steps", "T=256,C=4,V=4,G=1,S=2", false), 1, "the load before the store alone");
}

#[test]
fn one_comparison_tells_of_a_run_whether_it_exists() {
    let text = |facts: fn(&Kernel) -> Facts| {
        let kernel = kernel("cooperating::kernels", "row_variances");
        let schedule = parse_schedule(&kernel, "R=1,C=512,CC=4,V=4").unwrap_or_else(|e| panic!("{e}"));
        let simt = lower(&kernel, &facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        girih_core::cuda::emit(&simt)
    };
    let divisible = text(best_facts);
    assert!(divisible.contains(" < x_cols") && !divisible.contains("+ u < x_cols") && !divisible.contains("+ v < x_cols"), "{divisible}");
    let any = text(|k| Facts::packed(k, true));
    assert!(any.contains("+ u < x_cols"), "{any}");
}
