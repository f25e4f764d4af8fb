//! Kernels without a grid loop are one block, which may store to one tensor several times.

use super::access::mistakes;
use super::launches::{Launch, Placement, Shape};
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::types::Literal;

/// A sum and a maximum, side by side.
#[kernel(tile(T = [64, 128]))]
fn statistics(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, at: Scalar<i64>) {
    let v = x.gather(iota::<i32>(T));
    y.store_at(0, v.sum());
    y.store_at(1, v.max_all());
    y.store_at(at, scalar(1.0f32));
    y.store_at(2, v.min_all());
}

/// Reads one element and stores another one.
#[kernel(tile(T = [64, 128]))]
fn state(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let v = x.gather(iota::<i32>(T));
    y.store_at(0, v.sum() + y.at(1));
    y.store_at(2, y.at(1));
}

/// Rows at constant places, one tile each.
#[kernel]
fn rows(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>) {
    let v = x.gather(iota::<i32>(64));
    y.store((0, ..64), v);
    y.store((1, ..64), v + 1.0);
}

/// Reads what another thread may have stored.
#[kernel]
fn behind_a_store(x: &mut Tensor<f32, 1>, at: Scalar<i64>) {
    x.store_at(0, scalar(1.0f32));
    let next = x.at(at);
    x.store_at(2, next);
}

/// Overlapping stores of many threads.
#[kernel]
fn over_each_other(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    y.store(..64, x.gather(iota::<i32>(64)));
    y.store_at(3, scalar(1.0f32));
}

/// Nothing but positions and a shared array: its threads are those of the largest tile.
#[kernel(tile(T = [256, 512]), coarsen(C of T = [2, 4]))]
fn by_positions(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let i = iota::<i32>(T);
    let mut own = shared::<i32>([T], 1);
    own.scatter(i, x.gather(i & 31));
    y.scatter(i & 255, own.gather(i ^ 1) * select(i < 256, 1, 0) + 1);
}

/// One result to a block, added up by many threads.
#[kernel(tile(O = 1, S = [128, 256]))]
fn one_result(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for o in y.tiles([O]) {
        let v = x.gather(iota::<i32>(S)).sum();
        y.store(o, v.splat([O]));
    }
}

/// A row or two to a block, and a count for each byte: what its threads share is of a constant length.
#[kernel(tile(R = [1, 2]))]
fn byte_counts(x: &Tensor<u8, 1>, y: &mut Tensor<i32, 2>) {
    for r in y.axis(0).tiles(R) {
        let byte = iota::<i32>(256).expand(0, R);
        let mine = x.load(r).cast::<i32>().expand(1, 256);
        y.scatter((r.coords().expand(1, 256), byte), select(mine == byte, 1, 0));
    }
}

#[test]
fn a_block_has_the_threads_of_its_largest_tile() {
    let threads = |def: KernelDef| {
        let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
        let simt = lower(&kernel, &Facts::packed(&kernel, true), &Schedule::default_of(&kernel), Target::h200()).expect("it is lowered");
        simt.launch.block
    };
    let all = [by_positions::Kernel::def(), one_result::Kernel::def(), byte_counts::Kernel::def()];
    assert_eq!(all.map(threads), [128, 128, 256]);
}

/// A pinned tile is what the author relies on: the number of a tile, here.
#[test]
fn a_pinned_tile_stays() {
    let kernel = (one_result::Kernel::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let schedule = girih_core::schedule::parse::parse_schedule(&kernel, "O=2,S=128").unwrap_or_else(|e| panic!("{e}"));
    let error = lower(&kernel, &Facts::packed(&kernel, true), &schedule, Target::h200()).expect_err("it is illegal");
    let rule = "illegal schedule: O = 2: the kernel's author has pinned it to 1: what is computed may depend on it";
    assert!(error.to_string().starts_with(rule), "{error}");
}

#[test]
fn one_block_stores_to_a_tensor_several_times() {
    let all = [
        (state::Kernel::def(), Shape { lens: vec![vec![100], vec![3]], scalars: vec![None, None] }),
        (statistics::Kernel::def(), Shape { lens: vec![vec![100], vec![3], vec![]], scalars: vec![None, None, Some(Literal::index(1))] }),
        (one_result::Kernel::def(), Shape { lens: vec![vec![100], vec![3]], scalars: vec![None, None] }),
        (rows::Kernel::def(), Shape { lens: vec![vec![100], vec![2, 64]], scalars: vec![None, None] }),
        (byte_counts::Kernel::def(), Shape { lens: vec![vec![5], vec![5, 256]], scalars: vec![None, None] }),
    ];
    for (def, shape) in all {
        let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
        let launch = Launch::new(&kernel, &shape, Placement::Aligned, 3);
        let simt = lower(&kernel, &Facts::packed(&kernel, true), &Schedule::default_of(&kernel), Target::h200()).expect("it is lowered");
        let after = launch.simulate(&simt, 1 << 20).unwrap_or_else(|t| panic!("{t}"));
        let expected = launch.evaluate(&kernel).expect("the evaluator runs it");
        assert_eq!(launch.difference(&kernel, &after, &expected), None, "{}", kernel.name);
    }
}

#[test]
fn what_needs_an_order_between_threads_is_refused() {
    let text = mistakes(behind_a_store::Kernel::def());
    assert!(text.contains("another thread of the block may already have stored"), "{text}");
    let text = mistakes(over_each_other::Kernel::def());
    assert!(text.contains("by different threads of the block"), "{text}");
}
