//! Kernels without a challenge that are wrong at some lengths only: the check of a kernel finds each of them.

use girih::check::{On, Options, check};
use girih::prelude::*;
use girih::subject::Subject;
use girih::{Device, Error, Stream};
use girih_core::registry::KernelDef;
use girih_core::target::Target;

/// Reads past the last column where there is an odd number of them.
#[kernel(tile(R = [1, 4], C = [32, 64]))]
pub fn odd_columns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let mut v = x.load((r, c));
        for k in 0..(x.len(1) + 1) / 2 {
            v = v + x.load((r, k * 2 + 1)).expand(1, C);
        }
        y.store((r, c), v);
    }
}

/// Reads before the first element where there is none.
#[kernel(tile(T = [32, 128]))]
pub fn no_elements(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let last = x.len(0) - 1;
    for t in y.tiles([T]) {
        y.store(t, x.at(last.min(last + t.start())).splat([T]));
    }
}

/// Reads a second row, which one row does not have.
#[kernel(tile(C = [32, 64]))]
pub fn one_row(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for c in y.tiles([C]) {
        y.store(c, x.load(((c.start() + 1).min(1), c)));
    }
}

/// Reads past the end where there is a second tile.
#[kernel(tile(R = 64, C = 8))]
pub fn above_a_tile(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let row = (r.start() / 64).min(1) * x.len(0);
        y.store((r, c), x.load((row, c)).expand(0, R));
    }
}

#[test]
fn wrong_kernels_are_found() {
    let defs: [KernelDef; 4] =
        [odd_columns::Kernel::def(), no_elements::Kernel::def(), one_row::Kernel::def(), above_a_tile::Kernel::def()];
    let subjects: Vec<Subject> = defs.iter().map(|d| Subject::of_kernel(d).unwrap_or_else(|e| panic!("{}: {e}", d.name))).collect();
    for seed in 0..3 {
        let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed };
        for report in check(&subjects, &options, &|_| {}) {
            assert!(!report.failures.is_empty(), "{} passes at {} sizes", report.name, report.sizes);
            assert!(report.runs > 0, "{} runs at no size at all: {:#?}", report.name, report.failures);
        }
    }
}

/// Shapes that only a solver's program guarantees are requirements of its kernels, too.
#[test]
fn solvers_refuse_shapes_that_do_not_fit() {
    use girih_examples::ordinary_least_squares::normal_equations;
    use girih_examples::positive_definite::solution_column;
    let stream = Stream::on(&Device::sim(Target::h200()));
    let two = |a, b| stream.zeros::<f32, 2>([a, b]).expect("the simulator has memory");
    let one = |n| stream.zeros::<f32, 1>([n]).expect("the simulator has memory");
    let refused = |outcome: Result<(), Error>| {
        let error = outcome.expect_err("the shapes do not fit");
        assert!(matches!(error, Error::Launch { .. }), "{error}");
    };
    let equations = |x, z, rows| normal_equations(&stream, &x, &z, &one(rows), &mut two(rows, rows + 1), 0.0);
    refused(equations(two(7, 5), two(6, 6), 5));
    refused(equations(two(7, 4), two(7, 6), 5));
    refused(equations(two(7, 5), two(7, 5), 5));
    equations(two(7, 5), two(7, 6), 5).expect("the shapes fit");
    refused(solution_column(&stream, &two(5, 5), &mut one(5)));
    solution_column(&stream, &two(5, 6), &mut one(5)).expect("the shapes fit");
}
