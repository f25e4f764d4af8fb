//! Loops that keep to some positions of an axis: which turns they take, what the code compares, and what is refused. `differential`, `dots`
//! and `mutants` try the kernels under every kind of schedule.

pub mod kernels;

use super::evaluator::{Given, ints, kernel};
use super::language::{ir, mistakes_in, says};
use super::launches::best_facts;
use super::nvrtc;
use super::rungs::all_kernels;
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use kernels::{between_tiles, ragged_rows, segments, split_band, turns_taken};

fn build(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

/// The CUDA C of a kernel.
fn cuda(kernel: &Kernel, facts: &Facts, schedule: &str) -> String {
    let schedule = parse_schedule(kernel, schedule).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let simt = lower(kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    girih_core::cuda::emit(&simt)
}

#[test]
fn a_loop_takes_the_turns_of_tiles_that_hold_its_positions() {
    let len = 50;
    let points = [i32::MIN, -40, -1, 0, 1, 15, 16, 17, 31, 33, 48, 49, 50, 51, 63, 64, 90, i32::MAX];
    let pairs: Vec<[i32; 2]> = points.iter().flat_map(|a| points.map(|b| [*a, b])).collect();
    let ends = Given::I(pairs.concat(), vec![pairs.len() as i64, 2]);
    let zeros = || Given::i(vec![0; pairs.len()]);
    let after = kernel(turns_taken::Kernel::def(), &[ends, Given::i(0..len), zeros(), zeros()]);
    let (turns, sums) = (ints(&after[2]), ints(&after[3]));
    for ((turns, sum), [first, end]) in turns.iter().zip(&sums).zip(&pairs) {
        let positions = (*first).max(0)..(*end).min(len);
        let mut tiles: Vec<i32> = positions.clone().map(|i| i / 16).collect();
        tiles.dedup();
        assert_eq!((*turns as usize, *sum), (tiles.len(), positions.sum()), "{first}..{end}");
    }
}

#[test]
fn segments_are_summed_up() {
    let x: Vec<i32> = (0..200).map(|i| i * 7919 % 1009 - 300).collect();
    let (firsts, lens): (Vec<i32>, Vec<i32>) = (0..60).map(|i| (i * 37, i * 53)).unzip();
    let given = [Given::i(x.clone()), Given::i(firsts.clone()), Given::i(lens.clone()), Given::i(vec![9; 60]), Given::i(vec![9; 60])];
    let after = kernel(segments::Kernel::def(), &given);
    for ((sum, most), (first, len)) in ints(&after[3]).into_iter().zip(ints(&after[4])).zip(firsts.iter().zip(&lens)) {
        let first = first % 130 - 15;
        let end = (first + len % 90 - 20).clamp(0, 200);
        let some = x.get(first.max(0) as usize..end as usize).unwrap_or_default();
        assert_eq!((sum, most), (some.iter().sum(), some.iter().copied().fold(-1, i32::max)), "{first}..{end}");
    }
}

#[test]
fn positions_are_written_as_they_are_read() {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        for (def, schedule) in [
            (ragged_rows::Kernel::def(), "R=1,C=128,K=4,V=4"),
            (segments::Kernel::def(), "S=1,T=96,C=1,V=1,G=0"),
            (kernels::windows_between::Kernel::def(), "R=1,T=32,C=1,V=1,H=Shared,P=Async,S=3"),
            (super::dots::spanned::kernels::band_product::Kernel::def(), "BM=16,BN=32,BK=16,TM=2,TN=4,V=4,O=Shared,S=1,P=Registers,G=0"),
        ] {
            let kernel = build(def);
            let text = format!("{}\n{}", ir(def), cuda(&kernel, &best_facts(&kernel), schedule));
            insta::assert_snapshot!(format!("positions.{}", kernel.name), text);
        }
    });
}

/// Where both ends are multiples of the tile, every tile is whole: nothing is compared with them but the turns.
#[test]
fn whole_tiles_are_not_compared_with_positions() {
    let kernel = build(between_tiles::Kernel::def());
    let whole = cuda(&kernel, &best_facts(&kernel), "T=16,K=16,C=1,V=1");
    assert!(whole.contains("k_first = ") && whole.contains("k_end = "), "{whole}");
    assert!(!whole.contains(">= k_first") && !whole.contains("k2 < k_end"), "{whole}");
    // Where a tile of the loop is not one of the grid's, it may hold others.
    let parts = cuda(&kernel, &best_facts(&kernel), "T=16,K=32,C=1,V=1");
    assert!(parts.contains("k2 >= k_first && k2 < k_end ? x[k2] : 0"), "{parts}");
    // Where lengths are no multiples, the last position may be the tensor's.
    let tail = cuda(&kernel, &Facts::none(&kernel), "T=16,K=16,C=1,V=1");
    assert!(!tail.contains(">= k_first") && tail.contains("k2 < k_end ? x["), "{tail}");
}

#[test]
fn positions_of_a_grid_are_refused() {
    let wrong = |x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size| {
        let _ = (y, n);
        over_the_grid(x, m);
    };
    let text = mistakes_in(include_str!("mod.rs"), wrong);
    says(&text, &["the grid's loop walks all tiles", "`x.slice(axis, first, len)`"]);
    assert_eq!(text.matches("error:").count(), 1, "{text}");
}

#[device]
fn over_the_grid(x: &Tensor<f32, 2>, m: Size) {
    for r in x.axis(0).tiles(m).within(3..x.len(0)) {
        let _ = x.load((r, 0));
    }
}

#[test]
fn nvrtc_accepts_loops_over_some_positions() {
    let own = |k: &Kernel| ["spans::", "spanned::"].iter().any(|p| k.path.contains(p)) || k.name == "causal_attention";
    let kernels: Vec<Kernel> = all_kernels().into_iter().filter(own).collect();
    assert!(kernels.len() >= 11, "{} kernels with such loops", kernels.len());
    nvrtc::accepts(&kernels);
}

/// Turns that only the GPU knows are not dealt to blocks or slices.
#[test]
fn sums_over_some_positions_are_not_shared() {
    let kernel = build(split_band::Kernel::def());
    for schedule in ["BM=16,BN=16,BK=16,TM=2,TN=2,Z=2,Y=1", "BM=16,BN=16,BK=16,TM=2,TN=2,Z=1,Y=2"] {
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        let refused = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).expect_err("it was accepted").to_string();
        says(&refused, &["the turns of the loop must be known before the launch", "only 1 is allowed"]);
    }
}
