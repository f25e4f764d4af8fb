//! Misuse of knobs.

use girih::prelude::*;

#[kernel(tyle(T = [256]))]
fn unknown_group(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = []))]
fn nothing_to_try(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), coarsen(C of Q = [1, 2]))]
fn divides_nothing(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), coarsen(C = [1, 2]))]
fn divides_what(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), vector(T = [1, 2]), stages(t = [1]))]
fn one_name(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), vector(V = [1]), vector(U = [2]))]
fn two_vectors(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [0, 256, 256, Big]), copy(P = [Fast, 1]))]
fn wrong_values(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), vector(V = [1, 3, 4]))]
fn odd_vector(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T 256))]
fn grammar(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), deterministic(D = [1]))]
fn demand_with_values(x: &mut Tensor<f32, 1>) {}

#[kernel(deterministic, tile(T = [256]), deterministic)]
fn demanded_twice(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), grid)]
fn nothing_listed(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), finish(F = [Ticket]))]
fn unknown_finish(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), vector(V of t = [1]))]
fn for_all_alone(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), stages(S of k = [1], Q of x = [2], R of t = [1], U of t = [2]))]
fn lost_loops(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t));
    }
}

#[kernel(tile(T = [256]), operands(O of n = [Shared], P of t = [Direct]), copy(C of y = [Async]))]
fn lost_tensors(x: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t));
    }
}

#[kernel(tile(T = [256]), copy(C of x = [Async]))]
fn two_of_a_name(x: &mut Tensor<f32, 1>) {
    for x in x.tiles([T]) {}
}

#[kernel(tile(T = [256]), stages(S = [1], R = [2]))]
fn twice_for_all(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), constant(M = [Off, On], N of t = [On], P of x = [Yes]))]
fn lost_constants(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t));
    }
}

#[kernel(tile(T = [256]), cluster(X = [1, 2]))]
fn cluster_of_what(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(T = [256]), cluster(X of Q = [1, 2]))]
fn cluster_of_nothing(x: &mut Tensor<f32, 1>) {}

fn main() {}
