//! Turns whose last product runs beside the next turn's first one: what they compute, and that each of their waits is needed.

use super::kernels::{All, AllAlong, Past, PastBrain, Sight, attention_of_groups};
use crate::launches::{Launch, Placement, Shape, best_facts};
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt::visit::blocks;
use girih_core::simt::{self, Stmt};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::types::Literal;

const FUEL: u64 = 200_000_000;

/// An attention of heads of `d` columns in three or four stages that a producer fills.
fn attention<S: Sight>(d: i64, settings: &str) -> (Kernel, simt::Kernel) {
    let kernel = (attention_of_groups::Kernel::<S>::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let text = format!("BE={d},BD={d},TM=8,TD=8,V=8,U=Wgmma,C=Tensor,{settings}");
    let schedule = parse_schedule(&kernel, &text).unwrap_or_else(|e| panic!("{e}"));
    let mut facts = best_facts(&kernel);
    for p in [0, 1] {
        facts.tensors[p].as_mut().expect("a tensor").bound(1, d);
    }
    let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    (kernel, simt)
}

/// So many queries and keys, and columns.
fn launch(kernel: &Kernel, along: bool, [queries, keys, d]: [i64; 3]) -> Launch {
    let values = if along { vec![d, keys] } else { vec![keys, d] };
    let tensors = [vec![queries, d], vec![keys, d], values, vec![], vec![queries, d]];
    let scalars = (0..5).map(|p| (p == 3).then(|| Literal::f32(0.25))).collect();
    let shape = Shape { lens: tensors.to_vec(), scalars };
    Launch::new(kernel, &shape, Placement::Aligned, 7)
}

fn equal<S: Sight>(d: i64, settings: &str, along: bool, sizes: &[[i64; 2]]) {
    let (kernel, simt) = attention::<S>(d, settings);
    for [queries, keys] in sizes {
        let launch = launch(&kernel, along, [*queries, *keys, d]);
        let expected = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
        let after = launch.simulate(&simt, FUEL).unwrap_or_else(|trap| panic!("{settings}, {queries} x {keys}: {trap}"));
        let differs = launch.difference(&kernel, &after, &expected);
        assert!(differs.is_none(), "{settings}, {queries} x {keys}: {}", differs.unwrap_or_default());
    }
}

#[test]
fn overlapped_turns_compute_what_eval_computes() {
    let sizes = [[64, 16], [16, 64], [80, 208], [128, 336], [16, 0], [208, 208]];
    equal::<All>(64, "BM=64,BN=64,W=4,R=3,G=0", false, &sizes);
    equal::<AllAlong>(64, "BM=64,BN=32,W=4,R=4,G=0", true, &sizes);
    equal::<Past>(64, "BM=128,BN=64,W=8,R=3,G=1", false, &sizes);
    equal::<PastBrain>(128, "BM=128,BN=64,W=8,R=3,G=0", false, &sizes);
}

/// Tiles from the last on, dealt to blocks or not, and groups that wait for one another instead of overlapping.
#[test]
fn groups_in_turn_and_tiles_from_the_last_on_compute_what_eval_computes() {
    let sizes = [[64, 16], [16, 64], [80, 208], [400, 336], [16, 0], [208, 208]];
    equal::<All>(64, "BM=128,BN=64,W=8,R=2,G=0,D=Falling,T=InTurn", false, &sizes);
    equal::<Past>(64, "BM=128,BN=64,W=8,R=3,G=1,D=Falling,T=InTurn", false, &sizes);
    equal::<Past>(64, "BM=128,BN=64,W=8,R=3,G=1,D=Falling,T=Free", false, &sizes);
    equal::<PastBrain>(128, "BM=64,BN=64,W=4,R=2,G=0,D=Falling,T=InTurn", false, &sizes);
}

/// Takes a statement for which `is` holds out of a block, the `left`-th one.
fn without(block: &mut Vec<Stmt>, left: &mut usize, is: &dyn Fn(&Stmt) -> bool) -> bool {
    let mut at = 0;
    while at < block.len() {
        if is(&block[at]) {
            if *left == 0 {
                block.remove(at);
                return true;
            }
            *left -= 1;
        }
        if blocks(&mut block[at]).into_iter().any(|inner| without(inner, left, is)) {
            return true;
        }
        at += 1;
    }
    false
}

#[test]
fn each_wait_of_overlapped_turns_is_needed() {
    let (kernel, simt) = attention::<All>(64, "BM=64,BN=64,W=4,R=3,G=0");
    let launch = launch(&kernel, false, [64, 400, 64]);
    let is = |s: &Stmt| {
        matches!(s, Stmt::WgmmaWait { .. } | Stmt::MbarrierWait { .. } | Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::ProxyFence)
    };
    let mut removed = 0;
    loop {
        let (mut mutant, mut left) = (simt.clone(), removed);
        if !without(&mut mutant.body, &mut left, &is) {
            break;
        }
        assert!(launch.simulate(&mutant, FUEL).is_err(), "number {removed} of its waits and fences may go");
        removed += 1;
    }
    // Of the first turn, of the others, and behind them; the producer's.
    assert!(removed >= 14, "{removed} waits and fences");
}
