//! Left operands that are computed of what was loaded for them: where they are computed, and what is written about it.

use super::super::launches::best_facts;
use super::super::rungs::all_kernels;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;

fn text(name: &str, settings: &str) -> String {
    let kernel = all_kernels().into_iter().find(|k| k.name == name).unwrap_or_else(|| panic!("no kernel {name}"));
    let schedule = parse_schedule(&kernel, settings).unwrap_or_else(|e| panic!("{e}"));
    emit(&lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn left_operands_are_computed_in_registers() {
    let ring = |copy: &str| text("weights_of_bytes", &format!("BN=128,BM=64,BK=64,U=Wgmma,W=8,S=3,P={copy},V=16"));
    for copy in ["Tensor", "Async"] {
        let text = ring(copy);
        assert!(text.contains("wgmma_m64n64k16_f16_fed<"), "{copy}: {text}");
        assert!(!text.contains("weights_smem"), "{copy}: weights have no copy in shared memory\n{text}");
    }
    // The bytes go to shared memory as they are, and the swizzle of a thread's rows is the same in all steps.
    let text = ring("Tensor");
    assert!(text.contains("copy_box(&w_smem[stage * 8192]"), "{text}");
    assert!(text.contains("((thread_row >> 1) & 3) << 4"), "{text}");
    // Who has read a stage by its own instructions says so behind all lanes of its warp.
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in\n{text}"));
    assert!(place("__syncwarp();") < place("mbarrier_arrive(&stage_free"), "{text}");
}

/// Both products of a turn take what one load was brought to registers for, and follow one another.
#[test]
fn products_of_one_load_read_it_once() {
    let text = text("halves_of_bytes", "BN=64,BM=32,BK=64,U=Wgmma,W=4,S=4,P=Tensor,V=16");
    assert_eq!(text.matches("reinterpret_cast<const unsigned short*>(w_smem").count(), 1, "{text}");
    assert_eq!(text.matches("wgmma_commit();").count(), 1, "{text}");
    assert_eq!(text.matches("_fed<").count(), 2, "{text}");
}

/// Groups side by side share rows: each would compute all of them. Then all threads bring the operand to shared memory.
#[test]
fn groups_that_share_rows_find_left_operands_in_shared_memory() {
    let text = text("weights_of_bytes", "BN=64,BM=64,BK=64,U=Wgmma,W=8,S=1,P=Registers,V=16");
    assert!(text.contains("elements of weights to shared memory") && !text.contains("_fed<"), "{text}");
}

/// Neighbours in a thread's registers are read together, whatever their type.
#[test]
fn neighbours_of_a_copy_are_read_together() {
    let text = text("scaled_sums", "BM=64,BN=32,BK=32,U=Wgmma,W=4,S=2,P=Tensor,V=8");
    for read in ["reinterpret_cast<const float2*>(a_smem", "reinterpret_cast<const unsigned int*>(b_smem"] {
        assert!(text.contains(read), "no `{read}` in\n{text}");
    }
}
