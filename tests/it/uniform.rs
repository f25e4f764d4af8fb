//! Conditions below which threads of a block meet: all must take the same way, and where they know they do nobody is asked.

use super::differential::compare;
use super::launches::best_facts;
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// How far from the end of a chunk on one has to go until the sum is large: turns and branches by sums and by elements of a tensor that is
/// only read.
#[kernel(tile(B = 1, S = 64), coarsen(C of S = [1, 2]))]
pub fn summed_from_the_end(x: &Tensor<f32, 1>, signs: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
    for c in y.tiles([B]) {
        let start = c.number() * 512;
        let mut from = start + 512;
        let mut sum = scalar(0.0f32);
        while sum.abs() < 4.0 && from > start {
            from -= 64;
            let part = x.gather(iota::<i64>(S) + from).or(0.0);
            if signs.at(c.number()) > 0 {
                sum += part.sum();
            } else {
                sum -= part.max_all();
            }
        }
        y.scatter(c.number(), sum + (from - start).cast::<f32>());
    }
}

/// A branch by an element of an array that the author keeps by hand: threads read it when they come to it.
#[kernel(tile(B = 1, N = 64))]
pub fn summed_by_an_element(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for c in y.tiles([B]) {
        let mut kept = shared_uninit::<f32>([128]).by_hand();
        let v = x.gather(threads(N).cast::<i64>() + c.number() * 64).or(0.0);
        kept.scatter(threads(N), v);
        barrier();
        let mut sum = scalar(0.0f32);
        if kept.at(0) > 0.0 {
            sum = v.max_all();
        }
        y.scatter(c.number(), sum);
    }
}

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn text(def: KernelDef) -> String {
    let kernel = built(def);
    text_with(&kernel, &best_facts(&kernel))
}

fn text_with(kernel: &Kernel, facts: &Facts) -> String {
    emit(&lower(kernel, facts, &Schedule::default_of(kernel), Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn ways_of_a_block_compute_what_eval_computes() {
    compare(&[summed_from_the_end::Kernel::def(), summed_by_an_element::Kernel::def()].map(built));
}

#[test]
fn what_all_threads_have_is_not_asked_of_the_first() {
    let text = text(summed_from_the_end::Kernel::def());
    assert!(text.contains("while (") || text.contains("for (;;)"), "{text}");
    assert!(!text.contains("goes_on"), "{text}");
}

#[test]
fn the_first_thread_says_what_others_may_see_otherwise() {
    // A tensor that is only read may be the one that is written, where nothing says that they lie apart.
    let kernel = built(summed_from_the_end::Kernel::def());
    for text in [text(summed_by_an_element::Kernel::def()), text_with(&kernel, &Facts::none(&kernel))] {
        assert!(text.contains("all go by what holds for thread 0"), "{text}");
    }
}
