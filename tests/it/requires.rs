//! What kernels and programs demand of their launches: it is a fact for the compiler, random arguments meet it, and others are refused.

use super::differential::compare;
use super::evaluator::{Given, try_kernel};
use super::language::{mistakes_in, says};
use girih::check::{On, Options, check};
use girih::launch::Argument;
use girih::launch::program::Runner;
use girih::prelude::*;
use girih::subject::Subject;
use girih::{Buffer, Device};
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::eval::{EvalError, EvalOptions};
use girih_core::types::{DType, Literal};
use std::sync::Arc;

/// Each element of x so many times.
#[kernel(tile(T = [128, 64]), coarsen(C of T = [1, 4]))]
pub fn repeated(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, size: Scalar<i32>) {
    require(size > 0 && x.len(0) * size.cast::<i64>() >= y.len(0));
    for t in y.tiles([T]) {
        y.store(t, x.gather_in_bounds(t.coords().cast::<i32>() / size));
    }
}

/// The same without a word about the number.
#[kernel(tile(T = [128, 64]), coarsen(C of T = [1, 4]))]
pub fn repeated_if_at_all(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, size: Scalar<i32>) {
    for t in y.tiles([T]) {
        y.store(t, x.gather(t.coords().cast::<i32>() / size).or(0.0));
    }
}

/// Rows of whole fours.
#[kernel(tile(R = [4, 1], C = [64, 128]), coarsen(CC of C = [4, 1]), vector(V = [4, 1]))]
pub fn rows_of_fours(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    x.same_shape(y);
    require(y.len(1) % 4 == 0 && y.len(1) >= 8);
    for (r, c) in y.tiles([R, C]) {
        y.store((r, c), x.load((r, c)) * 2.0);
    }
}

/// Two numbers a group, as many groups as it is told.
#[program]
pub fn pairs(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, groups: Scalar<i32>) {
    require(groups % 2 == 0 || groups == 1);
    for _ in 0..groups {
        rows_of_fours(x, y);
    }
}

fn text(def: KernelDef, schedule: &str, facts: impl Fn(&girih_core::tile::Kernel) -> Facts) -> String {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    emit(&lower(&kernel, &facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn a_demand_is_a_fact() {
    let [told, untold] = [repeated::Kernel::def(), repeated_if_at_all::Kernel::def()].map(|def| text(def, "", Facts::best));
    assert!(told.contains(" / size") && !told.contains("divide("), "{told}");
    assert!(untold.contains("divide("), "{untold}");
    // Pointers are aligned, and nothing is known of lengths.
    let undivided = |kernel: &girih_core::tile::Kernel| {
        let mut facts = Facts::best(kernel);
        facts.tensors.iter_mut().flatten().for_each(|t| t.lens.fill(1));
        facts
    };
    let fours = text(rows_of_fours::Kernel::def(), "R=1,C=64,CC=4,V=4", undivided);
    assert!(fours.contains("reinterpret_cast<const float4*>(x"), "{fours}");
}

#[test]
fn launches_that_do_not_meet_a_demand_are_refused() {
    let given = |x: usize, y: usize, size: i32| [Given::f(vec![1.0; x]), Given::f(vec![0.0; y]), Given::S(Literal::i32(size))];
    let refused = |x: usize, y: usize, size: i32| match try_kernel(repeated::Kernel::def(), &given(x, y, size), &EvalOptions::default()) {
        Err(EvalError::Requirement { message, loc }) => format!("{message} at {}", loc.short()),
        other => panic!("{other:?}"),
    };
    assert!(try_kernel(repeated::Kernel::def(), &given(5, 10, 2), &EvalOptions::default()).is_ok());
    let zero = refused(5, 0, 0);
    assert!(zero.contains("1 is more than size = 0") && zero.contains("requires.rs:26"), "{zero}");
    let short = refused(4, 9, 2);
    assert!(short.contains("y.len(0) = 9 is more than x.len(0) * size = 8"), "{short}");
}

#[test]
fn random_arguments_meet_demands() {
    let defs = [repeated::Kernel::def(), rows_of_fours::Kernel::def()];
    let subjects: Vec<Subject> = defs.iter().map(|def| Subject::of_kernel(def).expect("it builds")).collect();
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed: 1 };
    for report in check(&subjects, &options, &()) {
        assert!(report.failures.is_empty() && report.runs >= 8, "{}: {} runs, {:#?}", report.name, report.runs, report.failures);
    }
}

#[test]
fn kernels_with_demands_are_what_eval_says() {
    compare(&[repeated::Kernel::def(), rows_of_fours::Kernel::def()].map(|def| (def.build)().unwrap_or_else(|e| panic!("{e}"))));
}

#[test]
fn calls_that_do_not_meet_a_demand_are_refused() {
    let device = Device::sim(Target::h200());
    let mut runner = Runner::new(&device, Arc::new((pairs::Program::def().build)().expect("it builds")));
    let (x, y) = (device.alloc(256).expect("memory"), device.alloc(256).expect("memory"));
    device.fill(&x, 0, 256, &[0]).expect("it is there");
    let mut call = |groups: i32| {
        let tensor = |b: &Buffer, mutable| Argument::packed(b, 0, DType::F32, &[2, 8], mutable);
        runner.run(&[tensor(&x, false), tensor(&y, true), Argument::Scalar(Literal::i32(groups))])
    };
    assert!(call(4).is_ok() && call(1).is_ok());
    let refusal = call(3).expect_err("three are neither").to_string();
    assert!(refusal.contains("what the program demands") && refusal.contains("requires.rs:53"), "{refusal}");
    assert!(refusal.contains("1 == 0 or 3 == 1"), "in words, with numbers: {refusal}");
    // Its kernel demands, too.
    let kernel = (rows_of_fours::Kernel::def().build)().expect("it builds");
    assert_eq!(kernel.requirements.len(), 4, "two of shapes, two of its own: {:?}", kernel.requirements);
    assert!(lower(&kernel, &Facts::none(&kernel), &Schedule::default_of(&kernel), Target::h200()).is_ok());
}

#[device]
fn wrong_demands(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    require(x.len(0) != 3);
    require(x.at((0, 0)) > 0.0);
    require(x.at((0, 0)).cast::<i32>() > 0);
    require(scalar::<i32>(2) > scalar::<i32>(3));
    for (i, j) in x.tiles([m, n]) {
        require(i.start() < x.len(0));
        y.store((i, j), x.load((i, j)));
    }
}

#[test]
fn misused_demands_are_explained() {
    let told = [
        "a demand that two numbers differ",
        "say on which side it lies: `<` or `>`",
        "a demand that is no comparison of integers",
        "a demand on what is not known before the launch",
        "a demand that no launch meets",
        "a demand on what is not known before the launch",
    ];
    says(&mistakes_in(include_str!("requires.rs"), wrong_demands), &told);
}
