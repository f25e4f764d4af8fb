//! Sums of rows that a loop adds up: their lanes meet once, behind the loop, where what a turn does to the total it does to each part of it.

use girih::check::{On, Options, check};
use girih::prelude::*;
use girih::subject::Subject;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::{lower, page};
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;

/// y[r] = the sum of x's row, whose tiles fade.
#[kernel(tile(R = [4, 8], C = 64), coarsen(CC of C = [1, 2]), vector(V = [1, 2]))]
pub fn faded_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, kept: Scalar<f32>) {
    for r in y.tiles([R]) {
        let mut total = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            total = total * kept + x.load((r, c)).sum_axis(1) / 2.0;
        }
        y.store(r, total);
    }
}

/// The same with what the turns took off, and a number for each row.
#[kernel(tile(R = [4, 8], C = 64), coarsen(CC of C = [1, 2]), vector(V = [1, 2]))]
pub fn weighted_sums(x: &Tensor<f32, 2>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let mut total = zeros::<f32>([R]);
        let weight = w.load(r);
        for c in x.axis(1).tiles(C) {
            total = weight * (total - x.load((r, c)).sum_axis(1));
        }
        y.store(r, total);
    }
}

/// A turn looks at the total.
#[kernel(tile(R = [4, 8], C = 64), coarsen(CC of C = [1, 2]))]
pub fn looked_at_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, most: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let mut total = zeros::<f32>([R]);
        let mut largest = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            total += x.load((r, c)).sum_axis(1);
            largest = largest.max(total);
        }
        y.store(r, total);
        most.store(r, largest);
    }
}

/// A turn adds one, which is not the lanes' own.
#[kernel(tile(R = [4, 8], C = 64), coarsen(CC of C = [1, 2]))]
pub fn counted_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let mut total = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            total = total + x.load((r, c)).sum_axis(1) + 1.0;
        }
        y.store(r, total);
    }
}

/// It begins at one.
#[kernel(tile(R = [4, 8], C = 64), coarsen(CC of C = [1, 2]))]
pub fn begun_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let mut total = full([R], 1.0f32);
        for c in x.axis(1).tiles(C) {
            total += x.load((r, c)).sum_axis(1);
        }
        y.store(r, total);
    }
}

/// The total's square is no sum of squares of its parts.
#[kernel(tile(R = [4, 8], C = 64), coarsen(CC of C = [1, 2]))]
pub fn squared_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let mut total = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            let sum = x.load((r, c)).sum_axis(1) * 0.01;
            total = total * sum + sum;
        }
        y.store(r, total);
    }
}

/// The page of a kernel behind all passes, and its text.
pub(crate) fn written(def: &KernelDef, set: &str) -> [String; 2] {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let schedule = parse_schedule(&kernel, set).unwrap_or_else(|e| panic!("{e}"));
    let (facts, target) = (Facts::best(&kernel), Target::h200());
    let page = page(&kernel, &facts, &schedule, target, None).unwrap_or_else(|e| panic!("{e}")).expect("the last page");
    [page, emit(&lower(&kernel, &facts, &schedule, target).unwrap_or_else(|e| panic!("{e}")))]
}

#[test]
fn lanes_meet_once_behind_the_loop() {
    for (def, set) in [(faded_sums::Kernel::def(), "R=4,C=64,CC=2,V=2"), (weighted_sums::Kernel::def(), "R=8,C=64,CC=2,V=1")] {
        let [page, text] = written(&def, set);
        assert!(page.contains("lanes meet behind the loop"), "{page}");
        let [turn, met] =
            ["for (int c = 0", "__shfl_xor_sync"].map(|what| text.find(what).unwrap_or_else(|| panic!("no {what} in\n{text}")));
        let end = turn + text[turn..].find("\n    }\n").expect("the end of the loop");
        assert!(end < met && text.matches("__shfl_xor_sync").count() == 1, "lanes meet in a turn:\n{text}");
    }
}

#[test]
fn totals_that_are_no_sums_of_parts_meet_in_each_turn() {
    for def in [looked_at_sums::Kernel::def(), counted_sums::Kernel::def(), begun_sums::Kernel::def(), squared_sums::Kernel::def()] {
        let [page, _] = written(&def, "R=4,C=64,CC=1");
        assert!(page.contains("combine sum") && !page.contains("lanes meet behind"), "{page}");
    }
}

#[test]
fn late_sums_are_right_under_every_schedule() {
    let all: [KernelDef; 6] = [
        faded_sums::Kernel::def(),
        weighted_sums::Kernel::def(),
        looked_at_sums::Kernel::def(),
        counted_sums::Kernel::def(),
        begun_sums::Kernel::def(),
        squared_sums::Kernel::def(),
    ];
    let subjects: Vec<Subject> = all.iter().map(|def| Subject::of_kernel(def).unwrap_or_else(|e| panic!("{e}"))).collect();
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 16, seed: 4 };
    for report in check(&subjects, &options, &()) {
        assert!(report.failures.is_empty() && report.runs > 0, "{report:#?}");
    }
}
