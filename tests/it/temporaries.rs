//! Temporaries: their lengths, and where they are filled.

use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::program::{Expr, Program, Stmt};
use girih_core::target::Target;

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

#[kernel(tile(T = 64))]
fn add_all(x: &Tensor<f32, 1>, sum: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        sum.atomic_add(0, x.load(t).sum());
    }
}

#[program]
fn sums(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, rounds: Scalar<i32>) {
    if rounds > 0 {
        for round in 0..rounds {
            let mut sum = temp_filled([1], 0.5f32);
            add_all(x, &mut sum);
            y.slice(0, round, 1).copy_from(&sum);
        }
    } else {
        y.fill(-1.0);
    }
}

#[test]
fn temporaries_are_filled_where_they_are_made() {
    let stream = Stream::on(&Device::sim(Target::h200()));
    let x = stream.tensor(&[1.0f32; 100], [100]).expect("memory");
    let run = |rounds: i32| {
        let mut y = stream.tensor(&[0.0f32; 3], [3]).expect("memory");
        sums(&stream, &x, &mut y, rounds).unwrap_or_else(|e| panic!("{e}"));
        stream.read(&y).expect("memory")
    };
    // Each turn begins at what it is filled with.
    assert_eq!(run(3), [100.5; 3]);
    assert_eq!(run(0), [-1.0; 3]);
    // The side that is not taken fills nothing.
    let program: Program = (sums::Program::def().build)().unwrap_or_else(|e| panic!("{e}"));
    assert!(program.body.iter().all(|s| !matches!(s, Stmt::Memset { .. })), "{:?}", program.body);
}
