//! Shared arrays of loops that follow each other lie on the same bytes.

use super::differential::compare;
use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// The product of two products, element by element.
#[kernel(
    tile(BM = [128, 32, 64], BN = [128, 32], BK = [32, 16]),
    coarsen(TM of BM = [8, 2], TN of BN = [8, 2]),
    stages(S = [3, 1, 2]),
    copy(P = [Async, Registers]),
    grid(G = [0, 1])
)]
pub fn two_products(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &Tensor<f32, 2>, d: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    for (m, n) in out.tiles([BM, BN]) {
        let mut left = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            left = dot(a.load((m, k)), b.load((k, n)), left);
        }
        let mut right = zeros::<f32>([BM, BN]);
        for k in c.axis(1).tiles(BK) {
            right = dot(c.load((m, k)), d.load((k, n)), right);
        }
        out.store((m, n), left * right);
    }
}

/// Two products, and an array of the author's between them.
#[kernel(tile(BM = [32], BN = [32], BK = [32]), coarsen(TM of BM = [2], TN of BN = [2]), stages(S = [3]), copy(P = [Async]))]
pub fn beside_kept(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    for (m, n) in out.tiles([BM, BN]) {
        let mut kept = shared::<f32>([128], 0.0);
        let mut left = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            left = dot(a.load((m, k)), b.load((k, n)), left);
        }
        kept.scatter(iota::<i32>(BN), left.max_axis(0));
        let mut right = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            right = dot(a.load((m, k)), b.load((k, n)), right);
        }
        out.store((m, n), right + kept.gather(iota::<i32>(BN)).expand(0, BM));
    }
}

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn lowered(kernel: &Kernel, schedule: &str, target: &Target) -> simt::Kernel {
    let schedule = parse_schedule(kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    lower(kernel, &best_facts(kernel), &schedule, target).unwrap_or_else(|e| panic!("{e}"))
}

/// Bytes of all arrays, one behind the other.
fn side_by_side(kernel: &simt::Kernel) -> u32 {
    kernel.shared.iter().map(|a| a.len * a.dtype.size() as u32).sum()
}

#[test]
fn every_schedule_of_phases_computes_what_eval_computes() {
    compare(&[built(two_products::Kernel::def()), built(beside_kept::Kernel::def())]);
}

#[test]
fn loops_that_follow_each_other_share_memory() {
    let kernel = built(two_products::Kernel::def());
    for (schedule, meetings) in [("S=3,P=Async,G=0", 1), ("S=3,P=Async,G=1", 2)] {
        let simt = lowered(&kernel, &format!("BM=32,BN=32,BK=32,TM=2,TN=2,{schedule}"), Target::h200());
        let text = emit(&simt);
        assert_eq!(simt.shared_bytes() * 2, side_by_side(&simt), "{text}");
        assert_eq!(text.matches("arrays from here on lie where others lay").count(), meetings, "{text}");
        // Tiles of a grid that blocks walk meet before each loop as they are, once.
        assert_eq!(text.matches("__syncthreads();").count(), 3 + usize::from(meetings == 2), "{text}");
    }
}

#[test]
fn arrays_lie_apart_where_no_block_is_gained() {
    let kernel = built(two_products::Kernel::def());
    // As many blocks find room as registers and threads leave room for.
    let simt = lowered(&kernel, "BM=32,BN=32,BK=16,TM=2,TN=2,S=1,P=Registers,G=0", Target::h200());
    assert!(simt.shared.iter().all(|a| a.at.is_none()), "{}", emit(&simt));
    // Turing has a third of the shared memory, where one block found room and two do.
    let schedule = "BM=128,BN=32,BK=32,TM=8,TN=2,S=1,P=Registers,G=0";
    let turing = lowered(&kernel, schedule, Target::find("sm_75").expect("it is known"));
    assert_eq!((side_by_side(&turing), turing.shared_bytes()), (40_960, 20_480), "{}", emit(&turing));
}

#[test]
fn the_authors_arrays_keep_what_they_hold() {
    let kernel = built(beside_kept::Kernel::def());
    let simt = lowered(&kernel, "BM=32,BN=32,BK=32,TM=2,TN=2,S=3,P=Async", Target::h200());
    let (offsets, bytes) = simt.shared_offsets();
    let at = simt.shared.iter().position(|a| a.name == "kept").expect("the author's array");
    let own = offsets[at]..offsets[at] + simt.shared[at].len * 4;
    assert!(bytes < side_by_side(&simt), "{}", emit(&simt));
    for (array, offset) in simt.shared.iter().zip(&offsets).filter(|(a, _)| a.name != "kept") {
        assert!(offset + array.len * 4 <= own.start || *offset >= own.end, "{}: {}", array.name, emit(&simt));
    }
}

/// Without the barrier between the loops the simulator finds what goes wrong.
#[test]
fn what_stands_between_the_loops_is_needed() {
    let kernel = built(two_products::Kernel::def());
    let simt = lowered(&kernel, "BM=32,BN=32,BK=32,TM=2,TN=2,S=3,P=Async,G=0", Target::h200());
    let mut shape = shapes(&kernel, &[16], 1, 0).pop().expect("a shape");
    // The last turn of a loop reads what the first copies of the next one write over.
    shape.lens = vec![vec![256, 64], vec![64, 128], vec![256, 64], vec![64, 128], vec![256, 128]];
    let launch = Launch::new(&kernel, &shape, Placement::Aligned, 7);
    assert_eq!(launch.disagreement(&kernel, &simt, 1 << 32), None);
    let between = |m: &super::mutator::Mutant| m.removed == Removed::Barrier && m.place.contains("lie where others lay");
    let all: Vec<_> = mutants(&simt).into_iter().filter(between).collect();
    assert_eq!(all.len(), 1);
    for mutant in all {
        let trap = (0..3).find_map(|seed| launch.simulate_in_order(&mutant.kernel, seed).err());
        assert!(trap.is_some(), "{} is not needed", mutant.place);
    }
}
