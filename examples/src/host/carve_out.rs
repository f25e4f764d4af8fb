//! The carve-out: how a multiprocessor's fast memory is parted between the L1 cache and shared memory, for a table that fits in the larger part.

use super::{compare, numbers};
use girih::prelude::*;
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Stream};

/// Calls that are timed.
const CALLS: usize = 4;
/// Entries of the table, a power of two: 128 KiB, more than the cache has where shared memory takes all it can.
const ENTRIES: usize = 1 << 15;
/// Entries that each element adds up.
const STEPS: i64 = 64;

/// `y[i]` is the sum of entries of a table along a walk from number i on, each place five times the one before and one: without an order, and all
/// of them in turn. The table's length is a power of two.
#[kernel(tile(T = [256, 1024]), coarsen(C of T = [1, 4]))]
pub fn walked(table: &Tensor<f32, 1>, steps: Scalar<i64>, y: &mut Tensor<f32, 1>) {
    let last = table.len(0).cast::<i32>() - 1;
    // Nobody walks in a table that has no entry.
    let steps = select(last >= 0, steps, 0);
    for t in y.tiles([T]) {
        let mut at = t.coords().cast::<i32>() & last;
        let mut sum = zeros::<f32>([T]);
        for _ in 0..steps {
            sum += table.gather_in_bounds(at);
            at = (at * 5 + 1) & last;
        }
        y.store(t, sum);
    }
}

/// What [`walked()`] computes.
fn sum_along(table: &[f32], from: usize) -> f32 {
    let next = |at: &usize| Some((at * 5 + 1) % table.len());
    std::iter::successors(Some(from % table.len()), next).take(STEPS as usize).map(|at| table[at]).sum()
}

/// The three ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let table = numbers(ENTRIES);
    let calls = |stream: &Stream, title: &str| -> Result<Timeline, Error> {
        let on_device = stream.tensor(&table, [ENTRIES])?;
        let mut y: DeviceTensor<f32, 1> = stream.zeros([elements])?;
        let mut recorder = Recorder::begin(stream)?;
        for number in 0..CALLS {
            recorder.span(stream, ("kernels", &format!("call {number}")), || walked(stream, &on_device, STEPS, &mut y))?;
        }
        compare(title, &stream.read(&y)?, |i| sum_along(&table, i))?;
        recorder.end(title)
    };
    let (shared, cache) = (stream.with_carve_out(100)?, stream.with_carve_out(0)?);
    Ok(vec![
        best_of(3, || calls(&shared, "shared memory has all it can have"))?,
        best_of(3, || calls(stream, "the driver chooses"))?,
        best_of(3, || calls(&cache, "the L1 cache has all it can have"))?,
    ])
}

girih::technique! {
    Technique::new("carve_out", "A multiprocessor's memory as cache or as shared memory", ways)
}
