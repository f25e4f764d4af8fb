//! A CUDA graph: a program of many short launches, queued one by one or as one graph.
//!
//! A launch takes the host some microseconds; where a kernel takes less, the device waits for the host. A graph is made once and queued whole.

use super::{after_steps, compare, numbers, steps_of_each};
use girih::prelude::*;
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Stream};

/// Rounds of two launches each.
const ROUNDS: i64 = 20;
/// Elements at most: few, so that launches are what takes the time.
const MOST: usize = 4096;
/// Calls of the program that are timed.
const CALLS: usize = 10;

/// y = x after 2 · `ROUNDS` steps, each in a launch of its own.
#[program]
pub fn many_launches(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut between = temp([x.len(0)]);
    steps_of_each(x, scalar(1), &mut between);
    for _ in 1..ROUNDS {
        steps_of_each(&between, scalar(1), y);
        steps_of_each(y, scalar(1), &mut between);
    }
    steps_of_each(&between, scalar(1), y);
}

/// Both ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let data = numbers(elements.min(MOST));
    let one_by_one = best_of(3, || calls(&stream.with_graphs(false), &data, "launch by launch"))?;
    let graph = best_of(3, || calls(&stream.with_graphs(true), &data, "as a graph"))?;
    Ok(vec![one_by_one, graph])
}

fn calls(stream: &Stream, data: &[f32], title: &str) -> Result<Timeline, Error> {
    let x = stream.tensor(data, [data.len()])?;
    let mut y: DeviceTensor<f32, 1> = stream.zeros([data.len()])?;
    // The first calls compile, find their memory and make the graph.
    for _ in 0..3 {
        many_launches(stream, &x, &mut y)?;
    }
    let mut recorder = Recorder::begin(stream)?;
    for number in 0..CALLS {
        recorder.span(stream, ("calls", &format!("call {number}")), || many_launches(stream, &x, &mut y))?;
    }
    compare(title, &stream.read(&y)?, |i| after_steps(data[i], 2 * ROUNDS))?;
    recorder.end(title)
}

girih::technique! {
    Technique::new("cuda_graph", "Forty short launches a call, one by one and as a CUDA graph", ways)
}
