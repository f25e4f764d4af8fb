//! Sums that slices of a block share: each barrier is needed, the order of a sum is the schedule's, and what cannot be shared is refused.

use super::super::launches::{Launch, Placement, Shape, best_facts};
use super::super::mutator::{Removed, mutants};
use super::super::rungs::all_kernels;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt::{self, Barrier, Stmt};
use girih_core::target::Target;
use girih_core::tile::Kernel;

fn kernel(name: &str) -> Kernel {
    all_kernels().into_iter().find(|k| k.path.contains("dots::sliced") && k.full_name().starts_with(name)).expect("a kernel")
}

fn lowered(kernel: &Kernel, text: &str) -> Result<simt::Kernel, String> {
    let schedule = parse_schedule(kernel, text).map_err(|e| e.to_string())?;
    lower(kernel, &best_facts(kernel), &schedule, Target::h200()).map_err(|e| e.to_string())
}

/// Two tiles of the result, dealt to one block; the sum takes 6 turns.
const DEALT: &str = "BM=16,BN=32,BK=16,TM=2,TN=4,V=4,O=Shared,S=3,P=Async,G=1,Z=1,Y=2";

fn launch(kernel: &Kernel) -> Launch {
    let shape = Shape { lens: vec![vec![32, 96], vec![96, 32], vec![32, 32]], scalars: vec![None; 3] };
    Launch::new(kernel, &shape, Placement::Aligned, 1)
}

fn count(block: &[Stmt], wanted: Barrier) -> usize {
    let inside = |s: &Stmt| match s {
        Stmt::If { then, otherwise, .. } => count(then, wanted) + count(otherwise, wanted),
        Stmt::For { body, .. } | Stmt::While { body, .. } => count(body, wanted),
        Stmt::Barrier(b) => usize::from(*b == wanted),
        _ => 0,
    };
    block.iter().map(inside).sum()
}

#[test]
fn slices_meet_alone_in_the_loop_and_together_around_the_exchange() {
    let kernel = kernel("sliced_product<f32>");
    // Slices of two warps have a barrier with a number, those of one need none of the block's.
    for (text, own) in [(DEALT, Barrier::Slice { threads: 64 }), (&DEALT.replace("TM=2", "TM=4"), Barrier::Warp)] {
        let simt = lowered(&kernel, text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            (simt.launch.block, count(&simt.body, Barrier::Block)),
            (if own == Barrier::Warp { 64 } else { 128 }, 3),
            "{}",
            emit(&simt)
        );
        assert!(count(&simt.body, own) >= 1, "{}", emit(&simt));
    }
}

#[test]
fn each_barrier_of_slices_is_needed() {
    let kernel = kernel("sliced_product<f32>");
    let (simt, launch) = (lowered(&kernel, DEALT).unwrap_or_else(|e| panic!("{e}")), launch(&kernel));
    launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
    let mut caught = 0;
    for mutant in mutants(&simt).into_iter().filter(|m| m.removed == Removed::Barrier) {
        let trap = (0..4).find_map(|seed| launch.simulate_in_order(&mutant.kernel, seed).err());
        let trap = trap.unwrap_or_else(|| panic!("nobody misses a barrier of\n{}", emit(&mutant.kernel))).to_string();
        assert!([": race on ", ": uninitialised: "].iter().any(|k| trap.contains(k)), "{trap}");
        caught += 1;
    }
    assert!(caught >= 4, "{caught}");
}

#[test]
fn the_order_of_a_sliced_sum_is_the_schedule_s() {
    let kernel = kernel("sliced_product<f32>");
    let (simt, launch) = (lowered(&kernel, DEALT).unwrap_or_else(|e| panic!("{e}")), launch(&kernel));
    let result = |seed| launch.results(&launch.simulate_in_order(&simt, seed).unwrap_or_else(|trap| panic!("{trap}")));
    let first = result(0);
    assert!((1..8).all(|seed| result(seed) == first));
}

/// The exchange takes no shared memory of its own, and what slices copy is theirs.
#[test]
fn slices_exchange_where_their_copies_were() {
    let kernel = kernel("sliced_layer");
    let text = |y: i64| format!("BM=64,BN=64,BK=64,TM=2,TN=4,V=8,U=Mma,W=2,O=Shared,S=3,P=Async,X=1,G=0,Y={y},Q=1");
    let bytes = |y: i64| lowered(&kernel, &text(y)).unwrap_or_else(|e| panic!("{e}")).shared_bytes();
    assert_eq!(bytes(2), 2 * bytes(1));
}

#[test]
fn sums_that_slices_cannot_share_are_refused() {
    let product = kernel("sliced_product<f32>");
    let layer = kernel("sliced_layer");
    let plain = "V=4,O=Shared,S=1,P=Registers,G=0";
    for (kernel, text, says) in [
        (&product, format!("BM=16,BN=32,BK=16,TM=2,TN=4,{plain},Z=2,Y=2"), "blocks share the sum already (split); one of both must be 1"),
        (&product, format!("BM=8,BN=16,BK=16,TM=4,TN=4,{plain},Z=1,Y=2"), "a slice would have 8 threads; it must have whole warps"),
        (
            &product,
            format!("BM=32,BN=32,BK=16,TM=2,TN=4,{plain},Z=1,Y=16"),
            "as many slices of 128 threads are 2048; a block has at most 1024",
        ),
        (&product, format!("BM=32,BN=32,BK=16,TM=4,TN=4,{plain},Z=1,Y=3"), "a thread's 16 elements cannot be dealt to as many slices"),
        (&layer, "BM=32,BN=32,BK=16,TM=2,TN=4,V=8,U=Mma,W=2,O=Shared,S=1,P=Registers,X=1,G=0,Y=32,Q=1".into(), "at most 1024"),
    ] {
        let error = lowered(kernel, &text).expect_err("it cannot be shared");
        assert!(error.contains("Y") && error.contains(says), "{text}: {error}");
    }
    let chained = all_kernels().into_iter().find(|k| k.path.contains("dots::chained")).expect("a kernel");
    assert!(chained.knobs.iter().all(|k| k.kind.group() != "slices"));
}
