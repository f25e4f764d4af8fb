//! What matrix units may multiply, and how wide the copies of their operands are: by the author's word and by facts, never by chance.

use super::super::launches::best_facts;
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_examples::lower_precision_gemm::{F16F32, NN, Tf32, lower_precision_gemm};

/// A product in f32 whose author rounds nothing.
#[kernel(tile(BM = 32, BN = 32, BK = 16), coarsen(TM of BM = 4, TN of BN = 4), unit(U = [Ffma, Mma]), warps(W = 4))]
pub fn unrounded(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

#[test]
fn f32_is_never_rounded_for_a_matrix_unit() {
    let kernel = (unrounded::Kernel::def().build)().expect("a kernel");
    let with = |unit: &str| {
        let schedule = parse_schedule(&kernel, &format!("U={unit}")).unwrap_or_else(|e| panic!("{e}"));
        lower(&kernel, &best_facts(&kernel), &schedule, Target::h200())
    };
    assert!(!emit(&with("Ffma").expect("multiply-adds need no word")).contains("tf32"));
    let text = with("Mma").expect_err("nobody said that bits may go").to_string();
    assert!(text.contains("U = Mma") && text.contains("round_tf32()"), "{text}");
}

/// Rows that begin anywhere are copied in the largest pieces that surely lie at multiples of their size: 16 bytes, 4, or through registers.
#[test]
fn copies_of_operands_are_as_wide_as_facts_allow() {
    let built = |def: KernelDef| (def.build)().expect("a kernel of the gallery");
    let singles = built(lower_precision_gemm::Kernel::<Tf32, NN>::def());
    let halves = built(lower_precision_gemm::Kernel::<F16F32, NN>::def());
    let text = |kernel: &girih_core::tile::Kernel, facts: &Facts, knobs: &str| {
        let schedule = parse_schedule(kernel, knobs).unwrap_or_else(|e| panic!("{e}"));
        emit(&lower(kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")))
    };
    for (kernel, packed) in [(&singles, Some("copy_async<4>(")), (&halves, None)] {
        assert!(text(kernel, &best_facts(kernel), "U=Mma,V=8,S=2,P=Async").contains("copy_async<16>("), "{}", kernel.name);
        let found = text(kernel, &Facts::packed(kernel, true), "U=Mma,V=8,S=2,P=Async");
        match packed {
            Some(copies) => assert!(found.contains(copies) && !found.contains("copy_async<16>("), "{found}"),
            None => assert!(!found.contains("copy_async<16>(") && !found.contains("copy_async<4>("), "{found}"),
        }
    }
}
