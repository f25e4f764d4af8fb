//! Techniques of the host, each with its kernels: `autotune host NAME` runs one, `autotune report --host` draws all.

pub mod carve_out;
pub mod cuda_graph;
pub mod events;
pub mod l2_persistence;
pub mod managed_memory;
pub mod mapped_memory;
pub mod overlapped_copies;

use girih::prelude::*;
use girih::{DeviceTensor, Error, Stream};

/// y is what x comes to after some steps of x ← x / 2 + 1: as much work for each element as is asked for.
#[kernel(tile(T = [1024, 256]), coarsen(C of T = [4, 1]), vector(V = [4, 1]))]
pub fn steps_of_each(x: &Tensor<f32, 1>, steps: Scalar<i64>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut v = x.load(t);
        for _ in 0..steps {
            v = v * 0.5 + 1.0;
        }
        y.store(t, v);
    }
}

/// What [`steps_of_each()`] computes.
pub fn after_steps(x: f32, steps: i64) -> f32 {
    let mut v = x;
    for _ in 0..steps {
        let next = v * 0.5 + 1.0;
        if next == v {
            // Nor would the steps behind it change anything.
            break;
        }
        v = next;
    }
    v
}

/// The inputs of an example: small numbers that differ.
pub fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 1021) as f32 * 0.25).collect()
}

/// Launches of work that takes a moment: whoever comes first to a device waits for its compiler.
///
/// # Errors
/// Those of the launch.
pub fn warm(stream: &Stream, steps: i64) -> Result<(), Error> {
    let x = stream.tensor(&numbers(64), [64])?;
    let mut y: DeviceTensor<f32, 1> = stream.zeros([64])?;
    steps_of_each(stream, &x, steps, &mut y)?;
    stream.synchronize()
}

/// Compares what a way left with what it should have: at elements that lie evenly over all of them.
///
/// # Errors
/// The first element that differs.
pub fn compare(way: &str, found: &[f32], expected: impl Fn(usize) -> f32) -> Result<(), Error> {
    let wrong = (0..found.len()).step_by((found.len() / 4096).max(1)).find(|i| (found[*i] - expected(*i)).abs() > 1e-3);
    match wrong {
        None => Ok(()),
        Some(i) => Err(Error::Buffer(format!("{way}: element {i} is {} where {} is right", found[i], expected(i)))),
    }
}
