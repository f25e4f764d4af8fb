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
    let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    let pageable = best_of(3, || one_after_the_other_pageable(stream, &data, &bytes))?;
    let pinned = best_of(3, || one_after_the_other(stream, &x, &data))?;
    let streams: Vec<Stream> = (0..STREAMS).map(|_| stream.beside()).collect::<Result<_, _>>()?;
    let chunked = best_of(3, || in_chunks(stream, &streams, &x, &data))?;
    Ok(vec![pageable, pinned, chunked])
}

/// Ordinary memory: the driver copies it through its own page-locked memory, and the host waits.
fn one_after_the_other_pageable(stream: &Stream, data: &[f32], bytes: &[u8]) -> Result<Timeline, Error> {
    let (device, len) = (stream.device(), data.len());
    let (x, y) = (device.alloc(bytes.len())?, device.alloc(bytes.len())?);
    let on_device: DeviceTensor<f32, 1> = DeviceTensor::in_buffer(&x, 0, [len])?;
    let mut written: DeviceTensor<f32, 1> = DeviceTensor::in_buffer(&y, 0, [len])?;
    // Pages that were written before: the first touch of fresh ones takes longer than the copy.
    let mut left = vec![1; bytes.len()];
    let mut recorder = Recorder::begin(stream)?;
    recorder.span(stream, ("copies in", "x"), || device.upload(&x, 0, bytes))?;
    recorder.span(stream, ("kernels", "all"), || steps_of_each(stream, &on_device, STEPS, &mut written))?;
    recorder.span(stream, ("copies out", "y"), || device.download(&y, 0, &mut left))?;
    let title = "ordinary memory, one after the other";
    let result: Vec<f32> = left.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
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
