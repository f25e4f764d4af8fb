//! f32 that warp groups multiply: tensor maps round it to tf32 on its way to shared memory, as `round_tf32` says.

use super::super::launches::{Launch, Placement, Shape};
use super::groups::kernels::group_rounded;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::simt::ParamKind;
use girih_core::target::Target;

/// Numbers of every kind for rounding: half of them lie in the middle between two of tf32.
fn number(i: usize) -> u64 {
    let mixed = (i as u32).wrapping_mul(2_654_435_761);
    let (sign, exponent, fraction) = (mixed & 0x8000_0000, 90 + mixed % 70, mixed >> 5 & 0x7f_ffff);
    let fraction = if i.is_multiple_of(2) { fraction & !0x1fff | 0x1000 } else { fraction };
    u64::from(sign | exponent << 23 | fraction)
}

/// Products with a unit matrix are the numbers themselves, rounded; by the evaluator's word exactly so. A map that does not round is found.
#[test]
fn tensor_maps_round_what_groups_multiply() {
    let kernel = (group_rounded::Kernel::def().build)().expect("a kernel");
    let [rows, columns, inner] = [64i64, 64, 96];
    let shape = Shape { lens: vec![vec![rows, inner], vec![columns, inner], vec![rows, columns]], scalars: vec![None; 3] };
    let mut launch = Launch::new(&kernel, &shape, Placement::Aligned, 1).exact();
    let unit = |i: usize| u64::from(if i as i64 / inner == i as i64 % inner { 1f32.to_bits() } else { 0 });
    launch.set(&kernel, "a", &number);
    launch.set(&kernel, "b", &unit);
    let schedule = Schedule::default_of(&kernel);
    let mut simt = lower(&kernel, &launch.facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let text = emit(&simt);
    assert!(text.contains("wgmma_m64n64k8_tf32(") && !text.contains("round_tf32("), "{text}");
    assert_eq!(launch.disagreement(&kernel, &simt, 1 << 22), None);
    for param in &mut simt.params {
        if let ParamKind::TensorMap { map } = &mut param.kind {
            assert!(map.rounds, "{}", param.name);
            map.rounds = false;
        }
    }
    assert!(launch.disagreement(&kernel, &simt, 1 << 22).is_some(), "numbers that are cut off are not rounded");
}

/// Rows that no map may read, and sums of one turn, which has no ring, are multiplied by warps, which round what they have read.
#[test]
fn what_no_map_rounds_is_multiplied_by_warps() {
    let kernel = (group_rounded::Kernel::def().build)().expect("a kernel");
    let schedule = Schedule::default_of(&kernel);
    let of_one_turn = Facts::best(&kernel).fitting(&kernel, &schedule);
    for facts in [Facts::packed(&kernel, true), Facts::none(&kernel), of_one_turn] {
        let text = emit(&lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")));
        assert!(text.contains("mma_m16n8k8_tf32(") && text.contains("round_tf32(") && !text.contains("wgmma"), "{text}");
    }
}
