//! Operators of authors: what cannot be regrouped, or has another identity, is told by the evaluator; what can is left alone.

use super::evaluator::{Given, kernel, try_kernel};
use girih::prelude::*;
use girih_core::registry::KernelDef;
use girih_core::tile::eval::{EvalError, EvalOptions};
use girih_core::types::Literal;

#[kernel(tile(T = [64, 128]))]
fn differences(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let total = x.load(t).reduce_all(0.0, |a, b| a - b);
        y.store(t, full([T], 1.0) * total);
    }
}

#[kernel(tile(T = [64, 128]))]
fn averages(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        y.store(t, x.load(t).scan(0, 0.0, |a, b| (a + b) * 0.5));
    }
}

#[kernel(tile(T = [64, 128]))]
fn products_from_zero(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        y.store(t, x.load(t).scan(0, 0.0, |a, b| a * b));
    }
}

#[kernel(tile(T = [64, 128]))]
fn decayed(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, decay: Scalar<f32>) {
    for t in x.tiles([T]) {
        y.store(t, x.load(t).scan(0, 0.0, |a, b| a * decay + b));
    }
}

#[kernel(tile(T = [64, 128]), grid(G = [0, 1]))]
fn doubled(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut all = scalar(0.0);
    for t in x.tiles([T]).strided() {
        all += x.load(t).sum();
    }
    let total = all.reduce_grid(0.0, |a, b| a * 2.0 + b);
    y.store_at(0, total);
}

/// Residues are associative below the modulus, and nowhere else; so are pairs of a maximum and a sum, up to rounding.
#[kernel(tile(T = [64, 128]))]
fn lawful(x: &Tensor<f32, 1>, n: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>, r: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let residues = n.load(t).scan(0, 1, |a, b| a * b % 30011);
        r.store(t, residues);
        let v = x.load(t);
        let (most, sum) = (v, v * 0.0 + 1.0).scan(0, (f32::MIN, 0.0), |a, b| {
            let most = a.0.max(b.0);
            (most, a.1 * (a.0 - most).exp() + b.1 * (b.0 - most).exp())
        });
        let last = v.scan(0, 0.0, |a, b| select(b != 0.0, b, a));
        y.store(t, most + sum.log() + last);
    }
}

fn error(def: KernelDef, mut given: Vec<Given>) -> String {
    let numbers = (0..100).map(|i| ((i * 37) % 23) as f32 * 0.25 - 1.5);
    given.insert(0, Given::f(numbers));
    given.insert(1, Given::f(vec![0.0; 100]));
    match try_kernel(def, &given, &EvalOptions::default()) {
        Err(e @ EvalError::Operator { .. }) => e.to_string(),
        other => panic!("{:?}", other.map(|_| "evaluated")),
    }
}

#[test]
fn operators_that_cannot_be_regrouped_are_told() {
    for (def, given) in [
        (differences::Kernel::def(), vec![]),
        (averages::Kernel::def(), vec![]),
        (decayed::Kernel::def(), vec![Given::S(Literal::f32(0.5))]),
        (doubled::Kernel::def(), vec![]),
    ] {
        let text = error(def, given);
        assert!(text.contains("operator_laws.rs:") && text.contains("the operator is not associative: f(f(a, b), c) = "), "{text}");
        assert!(text.contains("fold in a loop"), "{text}");
    }
}

#[test]
fn identities_that_change_something_are_told() {
    let text = error(products_from_zero::Kernel::def(), vec![]);
    assert!(text.contains("the operator has another identity than 0: f("), "{text}");
}

#[test]
fn operators_are_tried_on_what_they_meet() {
    let x = Given::f((0..500).map(|i| ((i * 37) % 23) as f32 * 0.75 - 5.0));
    let n = Given::i((0..500).map(|i| (i * 7919) % 30011));
    kernel(lawful::Kernel::def(), &[x, n, Given::f(vec![0.0; 500]), Given::i(vec![0; 500])]);
}
