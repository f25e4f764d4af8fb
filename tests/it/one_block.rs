//! Kernels without a grid loop are one block, which may store to one tensor several times.

use super::access::mistakes;
use super::launches::{Launch, Placement, Shape};
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::lower::lower;
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

#[test]
fn one_block_stores_to_a_tensor_several_times() {
    let all = [
        (state::Kernel::def(), Shape { lens: vec![vec![100], vec![3]], scalars: vec![None, None] }),
        (statistics::Kernel::def(), Shape { lens: vec![vec![100], vec![3], vec![]], scalars: vec![None, None, Some(Literal::index(1))] }),
        (rows::Kernel::def(), Shape { lens: vec![vec![100], vec![2, 64]], scalars: vec![None, None] }),
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
