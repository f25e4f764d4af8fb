//! Copies beside kernels: tensors go to the device, through a kernel and back, all at once or in chunks on three streams.
//!
//! The copy engines of both directions and the multiprocessors work beside each other, once the host's memory is page-locked and there is more
//! than one stream.

use super::{after_steps, compare, numbers, steps_of_each, warm};
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Shared, Stream};

/// Steps for each element: on a large GPU about as long as its copies.
const STEPS: i64 = 512;
/// Chunks of the pipeline, and streams that take turns with them.
const CHUNKS: usize = 8;
const STREAMS: usize = 3;

/// The three ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let len = elements.next_multiple_of(CHUNKS);
    let data = numbers(len);
    warm(stream, STEPS)?;
    let mut x: Shared<f32> = stream.pinned(len)?;
    x.write(stream, 0, &data)?;
    let pageable = best_of(3, || one_after_the_other_pageable(stream, &data))?;
    let pinned = best_of(3, || one_after_the_other(stream, &x, &data))?;
    let streams: Vec<Stream> = (0..STREAMS).map(|_| stream.beside()).collect::<Result<_, _>>()?;
    let chunked = best_of(3, || in_chunks(stream, &streams, &x, &data))?;
    Ok(vec![pageable, pinned, chunked])
}

/// Ordinary memory: the driver copies it through its own page-locked memory, and the host waits.
fn one_after_the_other_pageable(stream: &Stream, data: &[f32]) -> Result<Timeline, Error> {
    let mut recorder = Recorder::begin(stream)?;
    let (mut x, mut result) = (None, Vec::new());
    let mut y: DeviceTensor<f32, 1> = stream.zeros([data.len()])?;
    recorder.span(stream, ("copies in", "x"), || {
        x = Some(stream.tensor(data, [data.len()])?);
        Ok(())
    })?;
    let x = x.expect("copied above");
    recorder.span(stream, ("kernels", "all"), || steps_of_each(stream, &x, STEPS, &mut y))?;
    recorder.span(stream, ("copies out", "y"), || {
        result = stream.read(&y)?;
        Ok(())
    })?;
    let title = "ordinary memory, one after the other";
    compare(title, &result, |i| after_steps(data[i], STEPS))?;
    recorder.end(title)
}

/// Page-locked memory on one stream: copies at the bus's speed, one after the other.
fn one_after_the_other(stream: &Stream, x: &Shared<f32>, data: &[f32]) -> Result<Timeline, Error> {
    let len = data.len();
    let mut on_device: DeviceTensor<f32, 1> = stream.zeros([len])?;
    let mut y: DeviceTensor<f32, 1> = stream.zeros([len])?;
    let mut result: Shared<f32> = stream.pinned(len)?;
    let mut recorder = Recorder::begin(stream)?;
    recorder.span(stream, ("copies in", "x"), || stream.copy_in(x, 0..len, &mut on_device, 0))?;
    recorder.span(stream, ("kernels", "all"), || steps_of_each(stream, &on_device, STEPS, &mut y))?;
    recorder.span(stream, ("copies out", "y"), || stream.copy_out(&y, 0..len, &mut result, 0))?;
    let title = "page-locked memory, one after the other";
    compare(title, &result.read(stream, 0..len)?, |i| after_steps(data[i], STEPS))?;
    recorder.end(title)
}

/// Chunks on several streams: while one is copied back, the next is computed, and the one behind it is on its way in.
fn in_chunks(stream: &Stream, streams: &[Stream], x: &Shared<f32>, data: &[f32]) -> Result<Timeline, Error> {
    let (len, chunk) = (data.len(), data.len() / CHUNKS);
    let mut result: Shared<f32> = stream.pinned(len)?;
    let zeros = |_| -> Result<DeviceTensor<f32, 1>, Error> { stream.zeros([chunk]) };
    let mut inputs: Vec<DeviceTensor<f32, 1>> = (0..streams.len()).map(zeros).collect::<Result<_, _>>()?;
    let mut outputs: Vec<DeviceTensor<f32, 1>> = (0..streams.len()).map(zeros).collect::<Result<_, _>>()?;
    let mut recorder = Recorder::begin(stream)?;
    streams.iter().try_for_each(|s| s.wait(recorder.origin()))?;
    for number in 0..CHUNKS {
        let (turn, first) = (number % streams.len(), number * chunk);
        let (own, input, output) = (&streams[turn], &mut inputs[turn], &mut outputs[turn]);
        let name = format!("chunk {number}");
        // A stream's work is in order: its buffers are free again when its next chunk comes.
        recorder.span(own, ("copies in", &name), || own.copy_in(x, first..first + chunk, input, 0))?;
        recorder.span(own, ("kernels", &name), || steps_of_each(own, input, STEPS, output))?;
        recorder.span(own, ("copies out", &name), || own.copy_out(output, 0..chunk, &mut result, first))?;
    }
    for own in streams {
        stream.wait(&own.record()?)?;
    }
    let title = format!("page-locked memory, {CHUNKS} chunks on {} streams", streams.len());
    compare(&title, &result.read(stream, 0..len)?, |i| after_steps(data[i], STEPS))?;
    recorder.end(&title)
}

girih::technique! {
    Technique::new("overlapped_copies", "Copies beside kernels, in chunks on several streams", ways)
}
