//! Blocks at neighbouring tiles (`cluster(X of BM)`): what is written, what is read, and that each wait and each order of it is needed.

use super::super::launches::{Launch, Placement, Shape, best_facts};
use super::super::mutator::{Removed, mutants};
use super::super::rungs::all_kernels;
use girih_core::cuda::emit;
use girih_core::error::CompileError;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;

const FUEL: u64 = 20_000_000;

fn kernel(name: &str) -> Kernel {
    all_kernels().into_iter().find(|k| k.name == name).unwrap_or_else(|| panic!("no kernel {name}"))
}

fn lowered(kernel: &Kernel, settings: &str) -> Result<simt::Kernel, CompileError> {
    let schedule = parse_schedule(kernel, settings).unwrap_or_else(|e| panic!("{e}"));
    lower(kernel, &best_facts(kernel), &schedule, Target::h200())
}

/// Two turns of a ring of two stages, and tiles that end behind the tensor.
fn launch(kernel: &Kernel, [m, n, k]: [i64; 3]) -> Launch {
    let shape = Shape { scalars: vec![None; 3], lens: vec![vec![m, k], vec![k, n], vec![m, n]] };
    Launch::new(kernel, &shape, Placement::Aligned, 3).exact()
}

const ROWS: &str = "BM=64,BN=64,BK=32,U=Wgmma,W=4,S=2,P=Tensor,R=1";

#[test]
fn each_block_brings_its_part_to_all() {
    let kernel = kernel("neighbouring_rows");
    let text = emit(&lowered(&kernel, &format!("{ROWS},G=1,X=2")).unwrap_or_else(|e| panic!("{e}")));
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in\n{text}"));
    place("__cluster_dims__(2, 1, 1)");
    // A block's own rows of a, and half of the rows of b.
    place("copy_box(&a_smem[stage * 2048], a_map");
    place("copy_box_to_all(&b_smem[stage * 2048 + cluster_block * 1024], b_map");
    // All bytes of both, and the warps of both blocks.
    place("mbarrier_arrive_expect(&stage_full[stage], 8192);");
    place("mbarrier_init(&stage_free[stage], 8);");
    assert!(place("sync_cluster();\n    if") < place("mbarrier_wait_cluster(&stage_free[stage]"), "{text}");
    place("if (thread % 32 < 2) {\n                    mbarrier_arrive_at(&stage_free[stage], thread % 32);");
    assert_eq!(text.matches("    sync_cluster();").count(), 2, "{text}");
    let alone = emit(&lowered(&kernel, &format!("{ROWS},G=1,X=1")).unwrap_or_else(|e| panic!("{e}")));
    assert!(!alone.contains("sync_cluster") && !alone.contains("__cluster_dims__"), "{alone}");
}

/// Two blocks read b once for both.
#[test]
fn neighbours_read_what_is_the_same_once() {
    let kernel = kernel("neighbouring_rows");
    let (m, n, k) = (256, 64, 64);
    let sectors = |x: i64| {
        let simt = lowered(&kernel, &format!("{ROWS},G=0,X={x}")).unwrap_or_else(|e| panic!("{e}"));
        launch(&kernel, [m, n, k]).counters(&simt).unwrap_or_else(|e| panic!("{e}")).global_async.bytes
    };
    let bytes = |blocks: i64| (2 * (m * k + m / 64 / blocks * k * n)) as u64;
    assert_eq!([1, 2, 4].map(sectors), [1, 2, 4].map(bytes));
}

#[test]
fn clusters_at_tiles_copy_by_tensor_maps() {
    let kernel = kernel("neighbouring_rows");
    let refused = |settings: &str| match lowered(&kernel, settings) {
        Ok(_) => panic!("{settings} is legal"),
        Err(e) => e.to_string(),
    };
    let error = refused("BM=64,BN=64,BK=32,U=Wgmma,W=4,S=2,P=Async,R=1,G=0,X=2");
    assert!(error.contains("copy for each other what is the same for all, and no tensor map fills a ring"), "{error}");
    let error = refused(&format!("{ROWS},G=0,X=3"));
    assert!(error.contains("must be 1, 2, 4 or 8"), "{error}");
    // Without facts no map may serve it, and each block copies for itself.
    let schedule = parse_schedule(&kernel, &format!("{ROWS},G=0,X=2")).unwrap_or_else(|e| panic!("{e}"));
    let none = girih_core::facts::Facts::none(&kernel);
    let text = emit(&lower(&kernel, &none, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    assert!(!text.contains("sync_cluster") && !text.contains("__cluster_dims__"), "{text}");
}

/// Each wait, order, arrival, fence and barrier of the ring is needed: without one of them a launch traps, or its result is another.
#[test]
fn each_wait_and_order_among_neighbours_is_needed() {
    let kernel = kernel("neighbouring_rows");
    let simt = lowered(&kernel, &format!("{ROWS},G=1,X=2")).unwrap_or_else(|e| panic!("{e}"));
    let launch = launch(&kernel, [200, 72, 200]);
    let right = launch.simulate(&simt, FUEL).unwrap_or_else(|e| panic!("{e}")).buffers(&launch);
    let guards = [Removed::Barrier, Removed::Wait, Removed::Fence, Removed::Update, Removed::Order];
    let all: Vec<_> = mutants(&simt).into_iter().filter(|m| guards.contains(&m.removed)).collect();
    for removed in [Removed::Barrier, Removed::Wait, Removed::Update, Removed::Order] {
        assert!(all.iter().any(|m| m.removed == removed), "no mutant without {removed:?}");
    }
    let unnoticed = |m: &&super::super::mutator::Mutant| match launch.simulate(&m.kernel, FUEL) {
        Err(_) => false,
        Ok(after) => launch.difference(&kernel, &after, &right).is_none(),
    };
    let missed: Vec<String> = all.iter().filter(unnoticed).map(|m| format!("{:?} of `{}`", m.removed, m.place)).collect();
    assert!(missed.is_empty(), "{} of {} mutants were not noticed:\n{}", missed.len(), all.len(), missed.join("\n"));
}
