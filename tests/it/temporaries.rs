//! Temporaries whose lengths are numbers beside scalars.

use girih::prelude::*;
use girih_core::program::{Expr, Program};

#[kernel(tile(T = 64))]
fn copied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
fn through_parts(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let parts = temp((16, x.len(0)));
    let filled = temp_filled((x.len(0), 2usize), 1.0f32);
    let mut one = temp(x.len(0));
    copied(x, &mut parts.flat());
    copied(x, &mut filled.flat());
    copied(x, &mut one);
    copied(&one, y);
}

#[test]
fn lengths_of_temporaries_may_be_numbers_beside_scalars() {
    let program: Program = (through_parts::Program::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let constants = |at: usize| program.temps[at].lens.iter().map(|l| matches!(l, Expr::Literal(_))).collect::<Vec<_>>();
    assert_eq!([constants(0), constants(1), constants(2)], [vec![true, false], vec![false, true], vec![false]]);
}
