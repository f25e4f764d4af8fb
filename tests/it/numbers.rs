//! Scalars as numbers: computed in as many bits as their type has, however wide indices are.

use super::launches::{Launch, Placement, Shape};
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::types::Literal;

/// Sums, products and quotients of scalars, stored as they are.
#[kernel(tile(T = 64))]
fn splats(y: &mut Tensor<i64, 1>, n: Scalar<i64>, small: Scalar<i32>, positive: Scalar<u32>) {
    let (wide, seed) = (small.cast::<i64>(), positive.cast::<i64>());
    let parts = [
        n * 3 + 1,
        wide * 1_000_000_007i64,
        scalar::<i64>(3) * 2_000_000_000i64 + n,
        n + i64::MIN,
        n - i64::MIN,
        seed + 1,
        (n - 1) / wide,
        n % (wide - 1),
        n.max(5).min(wide),
        n.cast::<i32>().cast::<i64>(),
        (n + 1).cast::<u8>().cast::<i64>(),
        wide.cast::<u32>().cast::<i64>(),
        n.cast::<u64>().cast::<i64>() * n,
        y.len(0) * y.len(0) * n,
    ];
    for t in y.tiles([T]) {
        let mut mixed = zeros::<i64>([T]);
        for part in parts {
            mixed = (mixed ^ (mixed >> 7)) * 0x9e37_79b9_7f4a_7c15u64 as i64 + part;
        }
        y.store(t, mixed);
    }
}

/// The same beside coordinates.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2]))]
fn beside_coordinates(y: &mut Tensor<i64, 1>, n: Scalar<i64>, small: Scalar<i32>, positive: Scalar<u32>) {
    for t in y.tiles([T]) {
        let at = t.coords();
        let below = (at < n * 2).cast::<i64>() + (at >= n - small.cast::<i64>()).cast::<i64>() * 2;
        let hash = (at + n * 6364136223846793005i64) * (positive.cast::<i64>() + 1) + 1442695040888963407i64;
        y.store(t, (hash ^ (hash >> 29)) * 4 + below + t.start() * (n + 1) + at / (n - 1));
    }
}

/// Lengths as floats: a mean over pairs.
#[kernel(tile(T = 64))]
fn squares(x: &Tensor<u8, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let pairs = (x.len(0) * x.len(0)).cast::<f32>();
        y.store(t, t.coords().cast::<f32>() + pairs / x.len(0).cast::<f32>());
    }
}

const I64S: [i64; 8] = [0, 1, 1_500_000_000, 5_000_000_000, -800_000_000, i64::MAX, i64::MIN, -1];
const I32S: [i32; 6] = [0, 7, 2_000_000_000, i32::MIN, -1, i32::MAX];
const U32S: [u32; 3] = [3, 4_000_000_000, u32::MAX];

fn build(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

/// Every kind of facts: indices of 32 and of 64 bits.
fn check(kernel: &Kernel, shape: &Shape) {
    let launch = Launch::new(kernel, shape, Placement::Aligned, 1);
    let expected = launch.evaluate(kernel).expect("the evaluator runs it");
    for facts in [Facts::none(kernel), Facts::packed(kernel, true), launch.facts(kernel)] {
        let simt = lower(kernel, &facts, &Schedule::default_of(kernel), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let after = launch.simulate(&simt, 1 << 30).unwrap_or_else(|trap| panic!("{shape:?}: {trap}\n{}", emit(&simt)));
        if let Some(found) = launch.difference(kernel, &after, &expected) {
            panic!("{shape:?} under {facts}: {found}\n{}", emit(&simt));
        }
    }
}

#[test]
fn scalars_are_computed_in_their_own_width() {
    for kernel in [build(splats::Kernel::def()), build(beside_coordinates::Kernel::def())] {
        for (i, n) in I64S.into_iter().enumerate() {
            for (j, small) in I32S.into_iter().enumerate() {
                let scalars = [Literal::index(n), Literal::i32(small), Literal::u32(U32S[(i + j) % U32S.len()])];
                let shape =
                    Shape { lens: vec![vec![70], vec![], vec![], vec![]], scalars: [None].into_iter().chain(scalars.map(Some)).collect() };
                check(&kernel, &shape);
            }
        }
    }
}

#[test]
fn products_of_lengths_are_computed_in_64_bits() {
    let kernel = build(squares::Kernel::def());
    for n in [3, 46_341, 50_000] {
        check(&kernel, &Shape { lens: vec![vec![n], vec![5]], scalars: vec![None, None] });
    }
    let simt = lower(&kernel, &Facts::packed(&kernel, true), &Schedule::default_of(&kernel), Target::h200()).expect("it is lowered");
    let text = emit(&simt);
    assert!(text.contains("(float)x_len") && text.contains("long long extent"), "{text}");
}
