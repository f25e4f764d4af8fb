//! Operators that no other test's kernel asks for: products, truth values along an axis, the smallest element of a tile and of the grid,
//! every update that gives the old element. Lowered and simulated as in `differential`, and compiled.

use super::differential::compare;
use super::evaluator::{Given, ints, kernel};
use super::nvrtc;
use girih::prelude::*;
use girih_core::registry::KernelDef;
use girih_core::tile::Kernel;

/// Of each row the product of its odd parts, whether any element is a multiple of 7, and whether none is 5.
#[kernel(tile(R = [1, 4], C = [32, 96]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn rows_of_truth(x: &Tensor<i32, 2>, products: &mut Tensor<i32, 1>, found: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut product = full([R], 1);
        let (mut any, mut all) = (full([R], false), full([R], true));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            product *= (v | 1).product_axis(1);
            any |= (v % 7 == 0).any_axis(1);
            all &= (v != 5).all_axis(1);
        }
        products.store(r, product);
        found.store((r, ..2), stack([any.cast::<i32>(), all.cast::<i32>()]));
    }
}

/// The product of odd numbers over the grid: as a scalar of 64 bits, and one for each position of a tile.
#[kernel(tile(T = [32, 64]), coarsen(C of T = [1, 2]), vector(V = [1, 2]), grid(G = [0, 2]))]
pub fn grid_products(x: &Tensor<i64, 1>, whole: &mut Tensor<i64, 1>) {
    let (mut product, mut least) = (full::<i64>([T], 1), full::<i64>([T], 1));
    for t in x.tiles([T]).strided() {
        let v = x.load(t) * 2 + 1;
        product *= v;
        least *= v;
    }
    let whole_product = product.product().product_grid();
    let positions = least.product_grid();
    whole.store_at(0, whole_product);
    whole.store_at(1, positions.product());
}

/// The smallest element and where it is, of a tile and of the grid.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 2]))]
pub fn smallest_at(x: &Tensor<f32, 1>, least: &mut Tensor<f32, 1>, index: &mut Tensor<i64, 1>) {
    let mut best = (scalar(f32::INFINITY), scalar(i64::MAX));
    for t in x.tiles([T]).strided() {
        best = best.arg_min(x.load(t).arg_min_all(t));
    }
    let (value, at) = best.arg_min_grid();
    least.store_at(0, value);
    index.store_at(0, at);
}

/// Every update of one element, of a tensor and of a shared array; what was there before, and what is there behind them.
#[kernel]
pub fn single_updates(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, old: &mut Tensor<i32, 1>) {
    let v = x.at(0);
    let mut own = shared::<i32>([4], 9);
    let before = [
        y.exchange_at(0, v),
        y.fetch_min_at(0, 300),
        y.fetch_max_at(0, 200),
        y.fetch_and_at(0, 0xf7),
        y.fetch_or_at(0, 0x108),
        y.fetch_xor_at(0, v),
        y.ordered(Scope::Block, MemoryOrder::AcquireRelease).exchange_at(1, 17),
        y.compare_swap_at(1, 17, v),
        y.compare_swap_at(1, 17, 5),
        own.exchange_at(2, v),
        own.compare_swap_at(2, v, 3),
        own.fetch_max_at(2, 8),
        own.fetch_xor_at(2, 1),
        own.at(2),
        own.at(v),
        y.fetch_add_at(v, 1),
    ];
    for (i, was) in before.into_iter().enumerate() {
        old.store_at(i as i32, was);
    }
}

/// The same of the elements of a tile, each at its own place.
#[kernel(tile(T = [32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn tile_updates(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, old: &mut Tensor<u32, 2>) {
    x.same_shape(y);
    for t in x.tiles([T]) {
        let (v, at) = (x.load(t), t.coords());
        let before = [
            y.exchange(at, v * 3),
            y.fetch_min(at, v + 400),
            y.fetch_max(at, v.like(350)),
            y.fetch_and(at, v | 0xf0),
            y.fetch_or(at, v & 0x10f),
            y.fetch_xor(at, v),
            y.compare_swap(at, v, v.like(1)),
        ];
        old.store((t, ..7), stack(before));
    }
}

/// Upper halves of products of bytes, for which there is no instruction.
#[kernel(tile(T = [32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 4]), types(I = [i8, u8]))]
pub fn high_bytes<I: Int>(x: &Tensor<I, 1>, by: Scalar<I>, y: &mut Tensor<I, 2>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        y.store((t, ..3), stack([v.mul_hi(v), (v + 1).mul_hi(by), (v - by).mul_hi(v >> 1).mul_hi(7)]));
    }
}

fn built(defs: &[KernelDef]) -> Vec<Kernel> {
    defs.iter().map(|d| (d.build)().unwrap_or_else(|e| panic!("{e}"))).collect()
}

#[test]
fn rare_operators_compute_what_eval_computes() {
    let kernels = built(&[
        rows_of_truth::Kernel::def(),
        grid_products::Kernel::def(),
        smallest_at::Kernel::def(),
        single_updates::Kernel::def(),
        tile_updates::Kernel::def(),
        high_bytes::Kernel::<i8>::def(),
        high_bytes::Kernel::<u8>::def(),
    ]);
    compare(&kernels);
    nvrtc::accepts(&kernels);
}

#[test]
fn updates_of_one_element_give_what_was_there() {
    let given = [Given::i(vec![250]), Given::i(vec![70, 71]), Given::i(vec![-1; 16])];
    let after = kernel(single_updates::Kernel::def(), &given);
    let kept = (250 & 0xf7) | 0x108;
    assert_eq!(ints(&after[1]), [kept ^ 250, 250]);
    assert_eq!(ints(&after[2]), [70, 250, 250, 250, 250 & 0xf7, kept, 71, 17, 250, 9, 250, 3, 8, 9, 0, 0]);
}

#[test]
fn truth_values_and_products_are_of_their_row() {
    let x = vec![3, 14, 5, 9, 11, 1, 2, 8, 6];
    let given = [Given::I(x, vec![3, 3]), Given::i(vec![-1; 3]), Given::I(vec![-1; 6], vec![3, 2])];
    let after = kernel(rows_of_truth::Kernel::def(), &given);
    assert_eq!(ints(&after[1]), [3 * 15 * 5, 9 * 11, 3 * 9 * 7]);
    assert_eq!(ints(&after[2]), [1, 0, 0, 1, 0, 1]);
}
