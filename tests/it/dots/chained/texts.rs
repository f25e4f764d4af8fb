//! What an attention becomes on matrix units: which barriers and shared arrays it has, and two of its texts.

use super::pairs::{Format, Half, HalfAlong, Rounded, RoundedAlong, attention_of_pairs};
use crate::launches::best_facts;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::{lower, page};
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// An attention of heads of `d` columns: 64 queries to a block, 64 keys a turn.
fn attention<F: Format>(d: i64, settings: &str) -> (Kernel, Schedule, Facts) {
    let kernel = (attention_of_pairs::Kernel::<F>::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let text = format!("BM=64,BN=64,BE={d},BD={d},TM=4,TD=4,V=8,U=Mma,{settings}");
    let schedule = parse_schedule(&kernel, &text).unwrap_or_else(|e| panic!("{e}"));
    let mut facts = best_facts(&kernel);
    // One tile spans the queries' columns: their loop takes one turn.
    for p in [0, 1] {
        facts.tensors[p].as_mut().expect("a tensor").bound(1, d);
    }
    (kernel, schedule, facts)
}

fn text<F: Format>(d: i64, settings: &str) -> String {
    let (kernel, schedule, facts) = attention::<F>(d, settings);
    let text = emit(&lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    // But for the line of this source.
    text.lines().filter(|l| !l.contains("pairs.rs:")).map(|l| format!("{l}\n")).collect()
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// The turns of the loop over the keys.
fn turns(text: &str) -> &str {
    let from = text.find("for (int turn = ").or_else(|| text.find("for (int n = ")).unwrap_or_else(|| panic!("no loop in\n{text}"));
    let end = text[from..].find("\n    }\n").unwrap_or_else(|| panic!("no end of the loop in\n{text}"));
    &text[from..from + end]
}

/// Four warps have 16 whole rows each: a turn waits for its keys and values once, and for nothing else.
#[test]
fn a_turn_of_attention_meets_for_its_copies_alone() {
    for d in [64, 128] {
        for text in [text::<Half>(d, "W=4,S=2,C=Async"), text::<HalfAlong>(d, "W=4,S=2,C=Async"), text::<Rounded>(d, "W=4,S=2,C=Async")] {
            let turn = turns(&text);
            assert!(!text.contains("weights_smem") && !text.contains("operand_smem"), "{text}");
            assert_eq!(count(turn, "__syncthreads"), 1, "{text}");
            assert!(!turn.contains("copy_async<16>(q_smem"), "queries stay:\n{text}");
            assert_eq!(count(turn, "copy_async_commit"), 1, "keys and values share a ring:\n{text}");
        }
    }
}

/// Where warps split columns, and where they are too many for whole rows, weights go through shared memory; so they do on warps whose operands
/// are swapped.
#[test]
fn weights_go_through_shared_memory_where_warps_split_columns() {
    let text = text::<Half>(64, "W=8,S=2,C=Async");
    assert!(text.contains("elements of operand to shared memory"), "{text}");
    let (kernel, schedule, facts) = attention::<Half>(64, "W=8,S=2,C=Async");
    let shown = page(&kernel, &facts, &schedule, Target::h200(), None).unwrap_or_else(|e| panic!("{e}")).expect("a page");
    assert!(!shown.contains("the left from registers"), "{shown}");
    let (kernel, schedule, facts) = attention::<Half>(64, "W=4,S=2,C=Async");
    let shown = page(&kernel, &facts, &schedule, Target::h200(), None).unwrap_or_else(|e| panic!("{e}")).expect("a page");
    assert_eq!(count(&shown, "the left from registers"), 1, "{shown}");
}

/// Values that lie along the axis of the sum are read element by element where tf32's positions are taken in another order.
#[test]
fn texts_of_attention() {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("attention_of_pairs_f16", text::<Half>(64, "W=4,S=2,C=Async"));
        insta::assert_snapshot!("attention_of_pairs_tf32", text::<RoundedAlong>(64, "W=4,S=1,C=Async"));
    });
}
