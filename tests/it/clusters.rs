//! Blocks of a cluster that share tiles: what they compute, at every length about a tile; each barrier is needed; a cluster of one block is
//! the kernel as it was.

pub mod kernels;
mod refused;

use super::differential::compare;
use super::launches::{Launch, Placement, Shape, best_facts};
use super::mutator::{Removed, mutants};
use super::nvrtc::provide;
use super::rungs::all_kernels;
use girih::Compiled;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt::{self, Barrier, Stmt, visit::inner_blocks};
use girih_core::target::Target;
use girih_core::tile::Kernel;

fn own() -> Vec<Kernel> {
    all_kernels().into_iter().filter(|k| k.path.contains("clusters::kernels")).collect()
}

fn kernel(name: &str) -> Kernel {
    all_kernels().into_iter().find(|k| k.name == name).unwrap_or_else(|| panic!("no kernel {name}"))
}

fn lowered(kernel: &Kernel, facts: &Facts, text: &str) -> simt::Kernel {
    let schedule = parse_schedule(kernel, text).unwrap_or_else(|e| panic!("{e}"));
    lower(kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
}

/// Matrices of these rows and columns; every other tensor has one number for each row, or is one of them.
fn launch(kernel: &Kernel, [rows, cols]: [i64; 2], seed: u64) -> Launch {
    let lens = match kernel.name.as_str() {
        "clustered_sums" | "rows_by_blocks" => vec![vec![rows, cols], vec![rows]],
        "clustered_softmax" | "clustered_moments" => vec![vec![rows, cols], vec![rows, cols], vec![rows]],
        "clustered_integers" => vec![vec![rows, cols], vec![rows], vec![rows]],
        other => panic!("no shapes of {other}"),
    };
    let scalars = vec![None; lens.len()];
    Launch::new(kernel, &Shape { lens, scalars }, Placement::Shifted, seed)
}

fn count(block: &[Stmt], wanted: &dyn Fn(&Stmt) -> bool) -> usize {
    block.iter().map(|s| usize::from(wanted(s)) + inner_blocks(s).into_iter().map(|b| count(b, wanted)).sum::<usize>()).sum()
}

/// Two rows of a block, or one, and few threads.
fn text(kernel: &Kernel, blocks: i64) -> String {
    match kernel.name.as_str() {
        "clustered_sums" => format!("R=2,C=64,CR=1,CC=1,V=1,X={blocks}"),
        "clustered_softmax" => format!("R=1,C=64,CC=2,V=2,X={blocks}"),
        "clustered_moments" => format!("T=64,D=1,V=1,X={blocks}"),
        _ => format!("R=2,C=64,CC=2,V=1,X={blocks}"),
    }
}

#[test]
fn clusters_compute_what_eval_computes_at_every_length() {
    let kernels = own();
    assert!(kernels.len() >= 4);
    for kernel in &kernels {
        for blocks in [2, 4, 8] {
            let simt = lowered(kernel, &Facts::none(kernel), &text(kernel, blocks));
            assert_eq!(i64::from(simt.launch.cluster), blocks, "{}", emit(&simt));
            // No column, one, primes, a tile and its neighbours, as many tiles as there are blocks, and one element more or less.
            let whole = 64 * blocks;
            for (n, cols) in [0, 1, 31, 63, 64, 65, 127, 191, whole - 1, whole, whole + 1, 2 * whole + 97].into_iter().enumerate() {
                let launch = launch(kernel, [3, cols], n as u64);
                let wrong = launch.disagreement(kernel, &simt, 1 << 24);
                assert!(wrong.is_none(), "{} of {blocks} blocks, {cols} columns: {}", kernel.name, wrong.unwrap_or_default());
            }
        }
    }
}

#[test]
fn sampled_schedules_of_clusters_compute_what_eval_computes() {
    compare(&own());
}

#[test]
fn all_blocks_of_a_cluster_have_the_same_bits() {
    // What the first block stores of a row, and what every block has put into its part of the row, come of one sum.
    let kernel = kernel("clustered_softmax");
    let (simt, launch) = (lowered(&kernel, &Facts::none(&kernel), &text(&kernel, 4)), launch(&kernel, [2, 1000], 7));
    let result = |seed| launch.results(&launch.simulate_in_order(&simt, seed).unwrap_or_else(|trap| panic!("{trap}")));
    let first = result(0);
    assert!((1..8).all(|seed| result(seed) == first));
}

#[test]
fn each_barrier_of_clusters_is_needed() {
    let mut caught = 0;
    for kernel in own() {
        let (simt, launch) = (lowered(&kernel, &Facts::none(&kernel), &text(&kernel, 4)), launch(&kernel, [3, 300], 1));
        launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
        for mutant in mutants(&simt).into_iter().filter(|m| m.removed == Removed::Barrier) {
            let trap = (0..4).find_map(|seed| launch.simulate_in_order(&mutant.kernel, seed).err());
            let trap = trap.unwrap_or_else(|| panic!("nobody misses a barrier of\n{}", emit(&mutant.kernel)));
            assert!(["race", "uninitialised", "ended"].contains(&trap.kind.name()), "{trap}");
            caught += 1;
        }
    }
    assert!(caught >= 12, "{caught}");
}

#[test]
fn each_reduction_meets_once_and_one_block_stores_what_all_have() {
    let kernel = kernel("clustered_softmax");
    let simt = lowered(&kernel, &best_facts(&kernel), &text(&kernel, 4));
    let barriers = count(&simt.body, &|s| matches!(s, Stmt::Barrier(Barrier::Cluster)));
    let cuda = emit(&simt);
    // Two reductions, and the end.
    assert_eq!(barriers, 3, "{cuda}");
    assert_eq!(cuda.matches("if (cluster_block == 0) {").count(), 1, "{cuda}");
    assert!(cuda.contains("__cluster_dims__(4, 1, 1)") && cuda.contains("grid x_rows * 4, clusters of 4"), "{cuda}");
    // A row of one tile is nobody's to share.
    let fits = best_facts(&kernel).fitting(&kernel, &parse_schedule(&kernel, &text(&kernel, 4)).unwrap_or_else(|e| panic!("{e}")));
    let cuda = emit(&lowered(&kernel, &fits, &text(&kernel, 4)));
    assert!(!cuda.contains("cluster_"), "{cuda}");
}

#[test]
fn what_blocks_would_do_at_the_same_time_is_refused() {
    let refusal = |name: &str| {
        let kernel = (refused_kernel(name).build)().unwrap_or_else(|e| panic!("{e}"));
        let schedule = parse_schedule(&kernel, "X=2").unwrap_or_else(|e| panic!("{e}"));
        lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).expect_err(name).to_string()
    };
    assert!(refusal("stored_twice").contains("X = 2: y is stored to and stored to again"));
    assert!(refusal("rows_in_place").contains("X = 2: x is stored to and loaded"));
}

fn refused_kernel(name: &str) -> registry::KernelDef {
    registry::kernels().into_iter().find(|d| d.name == name).unwrap_or_else(|| panic!("no kernel {name}"))
}

#[test]
fn a_cluster_of_one_block_is_the_kernel_without() {
    for kernel in own() {
        let with = emit(&lowered(&kernel, &best_facts(&kernel), &text(&kernel, 1)));
        let without = |line: &&str| !line.starts_with("// schedule:");
        let mut plain = kernel.clone();
        plain.knobs.retain(|k| k.kind.group() != "cluster");
        let alone = text(&kernel, 1).replace(",X=1", "");
        let alone = emit(&lowered(&plain, &best_facts(&plain), &alone));
        assert!(with.lines().filter(without).eq(alone.lines().filter(without)), "{with}\n{alone}");
    }
}

#[test]
fn nvrtc_accepts_clusters() {
    provide();
    for arch in ["sm_90a", "sm_100a", "sm_120"] {
        let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
        for (kernel, blocks) in own().into_iter().flat_map(|k| [2, 8].map(|blocks| (k.clone(), blocks))) {
            let schedule = parse_schedule(&kernel, &text(&kernel, blocks)).unwrap_or_else(|e| panic!("{e}"));
            let simt = lower(&kernel, &best_facts(&kernel), &schedule, target).unwrap_or_else(|e| panic!("{e}"));
            let compiled = Compiled::of(simt, target).with_cubin().unwrap_or_else(|e| panic!("{} for {arch}: {e}", kernel.name));
            assert!(compiled.warnings.is_empty() && compiled.cubin.is_some_and(|c| !c.is_empty()), "{} for {arch}", kernel.name);
        }
    }
}

#[test]
fn a_text_that_an_expert_would_sign() {
    let kernel = kernel("rows_by_blocks");
    let cuda = emit(&lowered(&kernel, &best_facts(&kernel), "C=1024,CC=8,V=4,X=8"));
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("rows_by_clusters", cuda);
    });
}
