//! `&&` and `||` inside of each other, on tiles and scalars, in kernels and device functions.

use super::evaluator::{Given, ints, kernel};
use girih::prelude::*;
use girih_core::types::Literal;

#[device]
fn nested(a: Scalar<i32>, b: Scalar<i32>) -> Scalar<i32> {
    if a > 0 && (b > 0 || a == 3 && b < -1) { scalar(1) } else { scalar(0) }
}

#[device]
fn of_tiles(v: Tile<i32>, w: Tile<i32>) -> Tile<bool> {
    v == 1 || (w == 2 && (v > 3 || w < 3 && v != 2))
}

#[kernel(tile(T = 32))]
fn logic(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, a: Scalar<i32>, b: Scalar<i32>) {
    let both = a > 0 || b > 0 && a != b;
    for t in y.tiles([T]) {
        let v = x.load(t);
        let w = v % 3;
        let mut out = of_tiles(v, w).cast::<i32>();
        if v > 5 && (v < 8 || v == 9) {
            out += 2;
        }
        if both || (a == b && (b < 0 || a == 0)) {
            out += 4;
        }
        y.store(t, out + nested(a, b) * 8);
    }
}

#[test]
fn operands_of_logic_may_be_logic() {
    for (a, b) in [(0, 0), (1, -1), (3, -2), (3, -1), (-1, -1), (-2, 5), (-3, -4), (2, 2)] {
        let x: Vec<i32> = (0..12).collect();
        let given = [Given::i(x.clone()), Given::i(vec![0; 12]), Given::S(Literal::i32(a)), Given::S(Literal::i32(b))];
        let expected = |v: i32| {
            let w = v % 3;
            let whole = |c: bool, n: i32| if c { n } else { 0 };
            let tiles = v == 1 || (w == 2 && (v > 3 || w < 3 && v != 2));
            let scalars = (a > 0 || b > 0 && a != b) || (a == b && (b < 0 || a == 0));
            let nested = a > 0 && (b > 0 || a == 3 && b < -1);
            whole(tiles, 1) + whole(v > 5 && (v < 8 || v == 9), 2) + whole(scalars, 4) + whole(nested, 8)
        };
        let found = ints(&kernel(logic::Kernel::def(), &given)[1]);
        assert_eq!(found, x.into_iter().map(expected).collect::<Vec<_>>(), "{a}, {b}");
    }
}
