//! What a signature may not contain.

use girih::prelude::*;

#[kernel(tile(T = [256]))]
fn gives_back(x: &Tensor<f32, 1>, (a, b): (Scalar<f32>, Scalar<f32>), mut c: Scalar<f32>) -> Tile<f32> {
    let _ = (x, a, b);
    c += 1.0;
    zeros([T])
}

#[kernel(tile(T = [256]))]
async fn zeros<const N: usize>(x: &mut Tensor<f32, N>) {}

#[kernel(tile(T = [256]))]
fn generic<E: Float>(x: &mut Tensor<E, 1>) {}

#[kernel(tile(T = [256]), types(E = [f32]))]
fn not_generic(x: &mut Tensor<f32, 1>) {}

#[kernel(tile(E = [256]), types(E = [f32]))]
fn twice<E: Float>(x: &mut Tensor<E, 1>) {}

struct Thing;
impl Thing {
    #[kernel(tile(T = [256]))]
    fn method(&self, x: &mut Tensor<f32, 1>) {}
}

#[kernel(tile(T = [256]))]
fn of_the_host(x: &[f32], n: usize, f: f64, y: &mut [i32; 3]) {}

#[program]
fn generic_program<T: Float>(x: &mut Tensor<T, 1>) {}

#[program(fast)]
fn arguments(x: &mut Tensor<f32, 1>) {}

fn main() {}
