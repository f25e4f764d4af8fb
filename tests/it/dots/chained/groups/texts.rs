//! What an attention becomes on warp groups: its roles, and what its turns wait for.

use super::kernels::{All, Past, Sight, attention_of_groups};
use crate::launches::best_facts;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;

/// The text for heads of `d` columns, under these settings.
fn text<S: Sight>(d: i64, settings: &str) -> String {
    let kernel = (attention_of_groups::Kernel::<S>::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let schedule = parse_schedule(&kernel, &format!("BE={d},BD={d},TM=8,TD=8,V=8,{settings}")).unwrap_or_else(|e| panic!("{e}"));
    let mut facts = best_facts(&kernel);
    // One tile spans the queries' columns: their loop takes one turn.
    for p in [0, 1] {
        facts.tensors[p].as_mut().expect("a tensor").bound(1, d);
    }
    let text = emit(&lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    // But for the line of this source.
    text.lines().filter(|l| !l.contains("kernels.rs:")).map(|l| format!("{l}\n")).collect()
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// Behind the queries' copy consumers wait for full stages and for their products alone; weights stay where the scores were added up.
/// A choice of the schedule: each of a turn's two products is waited for by its group, and lets the next group begin.
#[test]
fn groups_of_an_attention_multiply_in_turn_where_that_is_chosen() {
    let with = |turns: &str, rest: &str| text::<Past>(64, &format!("BM=128,BN=64,U=Wgmma,C=Tensor,G=0,T={turns},{rest}"));
    let in_turn = with("InTurn", "W=8,R=3");
    assert_eq!((count(&in_turn, "    await_turn<2>();"), count(&in_turn, "    pass_turn<2, 2>();")), (3, 3), "{in_turn}");
    assert!(!in_turn.contains("wgmma_wait<1>"), "{in_turn}");
    let free = with("Free", "W=8,R=3");
    assert!(free.contains("wgmma_wait<1>") && !free.contains("_turn<2"), "{free}");
    let one = text::<Past>(64, "BM=64,BN=64,U=Wgmma,C=Tensor,G=0,T=InTurn,W=4,R=2");
    assert!(!one.contains("_turn<"), "{one}");
}

#[test]
fn a_turn_of_attention_on_warp_groups_meets_nobody() {
    for text in
        [text::<All>(64, "BM=128,BN=64,U=Wgmma,W=8,R=2,C=Tensor,G=0"), text::<Past>(64, "BM=128,BN=64,U=Wgmma,W=8,R=2,C=Tensor,G=0")]
    {
        let consumers = &text[text.find("// the consumers").unwrap_or_else(|| panic!("no roles in\n{text}"))..];
        let turn = &consumers[consumers.find("for (int turn").unwrap_or_else(|| panic!("no turns in\n{text}"))..];
        let turn = &turn[..turn.find("\n        }\n").unwrap_or(turn.len())];
        assert_eq!((count(turn, "barrier_sync"), count(turn, "__syncthreads")), (0, 0), "{text}");
        assert_eq!(count(turn, "mbarrier_wait("), 1, "{text}");
        assert_eq!((count(turn, "wgmma_m64n64k16_f16<0, 0>("), count(turn, "wgmma_m64n64k16_f16_fed<1>(")), (1, 1), "{text}");
        assert!(!text.contains("operand_smem"), "{text}");
    }
}

#[test]
fn texts_of_attention_on_warp_groups() {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("attention_of_groups", text::<All>(64, "BM=64,BN=64,U=Wgmma,W=4,R=2,C=Async,G=0"));
        insta::assert_snapshot!("attention_of_groups_overlapped", text::<All>(64, "BM=64,BN=64,U=Wgmma,W=4,R=3,C=Tensor,G=0"));
        insta::assert_snapshot!("attention_of_groups_causal", text::<Past>(128, "BM=128,BN=64,U=Wgmma,W=8,R=2,C=Tensor,G=0"));
    });
}

/// What is the same for all rows of a result (`lse`, `products`) each lane reads for its own two columns; no lanes change it round.
#[test]
fn rows_beside_a_result_are_read_in_pairs() {
    use girih_examples::flash_attention::{All, Brain64};
    use girih_examples::flash_attention_backward::gradients_of_keys;
    let kernel = (gradients_of_keys::Kernel::<Brain64, All>::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let set = "BN=128,BM=64,TN=8,V=8,U=Wgmma,W=8,R=2,C=Tensor,G=0,X=1,D=Rising,T=Free,Q=1";
    let schedule = parse_schedule(&kernel, set).unwrap_or_else(|e| panic!("{e}"));
    let facts = best_facts(&kernel).fitting(&kernel, &schedule);
    let text = emit(&lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    let turn = &text[text.find("for (int turn").unwrap_or_else(|| panic!("no turns in\n{text}"))..];
    let turn = &turn[..turn.find("mbarrier_arrive(").unwrap_or_else(|| panic!("no stage is given back in\n{text}"))];
    assert_eq!((count(turn, "reinterpret_cast<const float2*>("), count(turn, "__shfl_")), (2, 0), "{text}");
}
