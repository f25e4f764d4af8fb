//! Stores that two blocks could make to one place do not compile.

use super::launches::{Launch, Placement, Shape};
use girih::prelude::*;
use girih_core::error::CompileError;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::space::Space;
use girih_core::simt::ParamKind;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::access::{Class, classify};

/// The published reversal in place: each block stores its mirror image over what another block has yet to read.
#[kernel(tile(T = [64, 256]))]
pub fn racy_reversal(x: &mut Tensor<f32, 1>) {
    let mut mirrored = x.reversed(0);
    for t in x.tiles([T]) {
        mirrored.store(t, x.load(t));
    }
}

/// Every block stores the same row.
#[kernel(tile(R = [8, 16], C = [32, 64]))]
pub fn one_row(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((0, c), x.load((r, c)).sum_axis(0));
    }
}

/// The mistakes of a kernel, as text.
pub fn mistakes(def: girih_core::registry::KernelDef) -> String {
    let of = |kernel: Kernel| match classify(&kernel) {
        Ok(_) => panic!("{} was accepted", kernel.name),
        Err(diagnostics) => CompileError::Kernel(diagnostics).to_string(),
    };
    match (def.build)() {
        Ok(kernel) => of(kernel),
        Err(e) => e.to_string(),
    }
}

#[test]
fn racy_stores_are_rejected() {
    let text = mistakes(racy_reversal::Kernel::def());
    assert!(text.contains("is loaded where another block may already have stored"), "{text}");
    assert!(text.contains("split_at") && text.contains("tests/it/access.rs:"), "{text}");
    let text = mistakes(one_row::Kernel::def());
    assert!(text.contains("the same elements") && text.contains("tests/it/access.rs:"), "{text}");
}

/// Every element goes to one place of its own: rows as columns, and back to front.
#[kernel(tile(R = [4, 8], C = [16, 32]))]
pub fn turned(x: &Tensor<f32, 2>, columns: &mut Tensor<f32, 2>, back: &mut Tensor<f32, 2>, across: &mut Tensor<f32, 2>) {
    let (mut mirrored, mut exchanged) = (back.reversed(1), across.permuted([1, 0]));
    for (r, c) in x.tiles([R, C]) {
        let v = x.load((r, c));
        columns.store((c, r), v.t());
        mirrored.store((r, c), v);
        exchanged.store((r, c), v);
    }
}

/// Where each element goes is data.
#[kernel(tile(T = [32, 64]))]
pub fn sent(at: &Tensor<i32, 1>, x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        y.scatter(at.load(t), x.load(t));
    }
}

fn classes(kernel: &Kernel) -> Vec<Class> {
    classify(kernel).unwrap_or_else(|e| panic!("{e:?}")).into_iter().map(|c| c.class).collect()
}

fn built(def: girih_core::registry::KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn permuted_stores_have_a_place_for_each_element() {
    let kernel = built(turned::Kernel::def());
    assert_eq!(classes(&kernel), [Class::Permuted; 3]);
    super::differential::compare(&[kernel]);
}

#[test]
fn scattered_stores_are_checked_by_the_simulator() {
    let kernel = built(sent::Kernel::def());
    assert_eq!(classes(&kernel), [Class::Scattered]);
    let facts = Facts::packed(&kernel, true);
    let naive = Space::new(&kernel, &facts, Target::h200()).naive().unwrap_or_else(|e| panic!("{e}"));
    let simt = lower(&kernel, &facts, &naive, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let n = 200i64;
    let shape = Shape { lens: vec![vec![n]; 3], scalars: vec![None; 3] };
    let launch = |place: &dyn Fn(usize) -> usize| {
        let mut launch = Launch::new(&kernel, &shape, Placement::Aligned, 1);
        launch.set(&kernel, "at", &|i| place(i) as u64);
        launch
    };
    // 77 has no divisor in common with 200; what lies beyond the end is left out.
    for place in [|i: usize| i * 77 % 200, |i: usize| if i.is_multiple_of(3) { 1000 + i } else { i }] {
        assert_eq!(launch(&place).disagreement(&kernel, &simt, 1 << 20), None);
    }
    // The first and the last element lie in tiles of different blocks; the evaluator says it, too.
    let meeting = launch(&|i| if i == 199 { 0 } else { i });
    let Err(trap) = meeting.simulate(&simt, 1 << 20) else { panic!("two blocks write one place") };
    assert!(trap.to_string().contains("race"), "{trap}");
    let error = meeting.evaluate(&kernel).expect_err("two elements meet");
    assert!(error.contains("y") && error.contains("access.rs:"), "{error}");
}

/// A compiler keeps over a barrier what it has read through a restricted pointer, though another thread has stored there.
#[test]
fn pointers_through_which_threads_exchange_values_are_not_restricted() {
    let kernel = built(super::kernels::stored_and_loaded::Kernel::def());
    let facts = Facts::packed(&kernel, true);
    for schedule in Space::new(&kernel, &facts, Target::h200()).sample(8, 1) {
        let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let restricted = |name: &str| match simt.params.iter().find(|p| p.name == name).map(|p| &p.kind) {
            Some(ParamKind::Pointer { restrict, .. }) => *restrict,
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(["x", "s", "y", "z"].map(restricted), [true, false, false, true], "{}", schedule.short(&kernel));
    }
}

/// A vector, and what lies in front of it back to front.
#[kernel(tile(T = [128, 256]), coarsen(C of T = [4, 1]), vector(V = [4, 2, 1]))]
pub fn mirrored(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
    let (from, mut to) = (x.reversed(0), z.reversed(0));
    for t in y.tiles([T]) {
        y.store(t, from.load(t));
        to.store(t, x.load(t));
    }
}

/// The mirror image of a vector is one, turned round in registers, where the length says that it is aligned; element by element where not.
#[test]
fn mirrored_accesses_are_vectors_where_lengths_allow() {
    let kernel = built(mirrored::Kernel::def());
    let schedule = girih_core::schedule::Schedule::default_of(&kernel);
    let text = |facts: &Facts| {
        let simt = lower(&kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        girih_core::cuda::emit(&simt)
    };
    let (even, odd) = (text(&super::launches::best_facts(&kernel)), text(&Facts::packed(&kernel, true)));
    assert!(even.contains("_mirrored[4]") && even.matches("const float4*>(x").count() >= 2, "{even}");
    assert!(!odd.contains("_mirrored"), "{odd}");
    super::differential::compare(&[kernel]);
}
