//! Where elements exist that nobody loaded, and loops that would wait for those that do not.

pub mod kernels;

use super::evaluator::{Given, ints, kernel, try_kernel};
use super::language::{ir, says};
use girih::prelude::*;
use girih_core::registry::KernelDef;
use kernels::{alike, block_updates, made_carries, made_rows, made_sums, made_updates, searched};

/// Tests where elements end that are made of nothing, by the lines of the tile IR.
fn ends(def: KernelDef) -> usize {
    ir(def).lines().filter(|l| l.contains(" = within ")).count()
}

#[test]
fn made_elements_end_where_they_are_looked_at() {
    says(&ir(made_updates::Kernel::def()), &["= like v, 1i32", " (t)\n"]);
    // The coordinates' own tests, the count at 0 and on one side of a choice; what is like a loaded tile has its end.
    assert_eq!(ends(made_updates::Kernel::def()), 4);
    assert_eq!(ends(block_updates::Kernel::def()), 0);
    assert_eq!(ends(made_carries::Kernel::def()), 3);
    // Rows' largest elements and the constant; not the rows while columns are reduced.
    assert_eq!(ends(made_rows::Kernel::def()), 2);
    // The gallery loads what it looks at, but for a step per chunk of rows, whose rows are scattered to a tensor that may have more, sums
    // that are asked whether all of them are finite, steps of transforms, which gather their points, rows of scores, of planes and of gates whose largest is sought, sums of squares,
    // marks of columns, places and segments that each element searches alone, paths that are scattered to columns, tables that are walked through without a look, and factors that are gathered without a look at their positions.
    let made: Vec<String> = super::rungs::gallery().into_iter().filter(|k| k.to_string().contains(" = within ")).map(|k| k.name).collect();
    let places = ["merge_paths", "merge_paths", "segments_of", "join_paths"];
    let loops = ["attention_parts", "attention_parts", "attention_parts_units"];
    let planes = ["parts_of_planes", "parts_of_planes", "parts_of_planes", "parts_of_planes", "split_heads"];
    let parts = ["longest_row", "decode_parts", "decode_parts"];
    let steps = ["radix_step", "radix_step", "halve_columns"];
    let walks = ["walked", "added_in_rounds"];
    let states = ["turned_scales", "key_states", "key_states_units", "chunk_maps"];
    let searches = ["topk_long_rows", "topk_rows_256", "topk_rows_64", "split_batched_multiplication", "split_matrix_multiplication"];
    let gathers = ["scaled_any", "scaled_quads"];
    assert_eq!(
        made,
        [&places[..], &loops[..], &planes[..], &parts[..], &steps[..], &walks[..], &states[..], &searches[..], &gathers[..]].concat()
    );
}

#[test]
fn made_elements_are_as_many_as_loaded_ones() {
    let x: Vec<i32> = (0..77).collect();
    let out = |def, n: usize| ints(&kernel(def, &[Given::i(x.clone()), Given::i(vec![0; n])])[1]);
    let given = [Given::i(x.clone()), Given::i(vec![0; 6]), Given::L(vec![0; 200])];
    assert_eq!(ints(&kernel(made_updates::Kernel::def(), &given)[1]), [77, 77, 52, 52, 50, 39]);
    let odd = 3 * x.iter().filter(|v| *v % 2 == 1).count() as i32;
    let first: i32 = (0..40).sum::<i32>() + 3 * 37;
    assert_eq!(out(made_sums::Kernel::def(), 9), [77, 152, first, 1, 20, 19, 19, 19, 77 + odd]);
    let after = kernel(made_carries::Kernel::def(), &[Given::i(x), Given::i([0; 2]), Given::i([0])]);
    assert_eq!((ints(&after[1]), ints(&after[2])), (vec![77, 76], vec![77]));
}

#[test]
fn likes_are_absent_where_their_model_is() {
    let x = Given::i(vec![5; 10]);
    // Two positions are out of range; one of the even ones' neighbours, too.
    let at = Given::i([0, 3, 9, 10, -1, 8, 2]);
    let out = kernel(alike::Kernel::def(), &[x, at, Given::i(vec![0; 4])]);
    assert_eq!(ints(&out[2]), [5, 5, 3 * 2 + 3, 10]);
}

#[test]
fn searches_of_a_tail_end() {
    let table: Vec<f32> = (0..50).map(|i| i as f32 * 2.0).collect();
    let x: Vec<f32> = (0..33).map(|i| i as f32 * 3.0 - 1.5).collect();
    let out = kernel(searched::Kernel::def(), &[Given::f(table.clone()), Given::f(x.clone()), Given::i(vec![0; 33])]);
    let expected: Vec<i32> = x.iter().map(|v| table.iter().filter(|t| *t < v).count() as i32).collect();
    assert_eq!(ints(&out[2]), expected);
}

/// Searches in columns that are not there, whose bounds never meet: they are no tile of the grid.
#[kernel(tile(R = 4, C = 32))]
pub fn waits_for_ever(table: &Tensor<f32, 1>, x: &Tensor<f32, 2>, y: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        for c in x.axis(1).tiles(C) {
            let (mut lo, mut hi) = (full([R, C], 0), full([R, C], 8));
            while (lo < hi).any() {
                let mid = (lo + hi) / 2;
                let go = table.gather(mid) < x.load((r, c));
                lo = select(go, mid + 1, lo);
                hi = select(go, hi, mid);
            }
            y.store((r, c), lo);
        }
    }
}

#[test]
fn a_loop_that_changes_nothing_is_reported() {
    let results = |columns: i64| {
        let (n, lens) = (4 * columns as usize, vec![4, columns]);
        let given = [Given::f(vec![0.0; 8]), Given::F(vec![1.0; n], lens.clone()), Given::I(vec![0; n], lens)];
        try_kernel(waits_for_ever::Kernel::def(), &given, &Default::default())
    };
    assert!(results(32).is_ok());
    let error = results(33).expect_err("elements that keep what they had").to_string();
    says(&error, &["tests/it/presence.rs:", "this loop never ends", "`.like(..)`"]);
}
