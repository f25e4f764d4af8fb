//! Mapped (zero-copy) memory: a kernel reads the host's page-locked memory where it lies, by way of the bus.
//!
//! It pays where every element is read once: the kernel and the bus work at the same time, and no memory is needed on the device. Where elements
//! are read again and again, a copy does.

use super::{after_steps, compare, numbers, steps_of_each, warm};
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Shared, Stream};

/// Steps for each element.
const STEPS: i64 = 64;

/// Both ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let data = numbers(elements);
    warm(stream, STEPS)?;
    let mut x: Shared<f32> = stream.pinned(data.len())?;
    x.write(stream, 0, &data)?;
    let copied = best_of(3, || copied(stream, &x, &data))?;
    let mapped = best_of(3, || mapped(stream, &x, &data))?;
    Ok(vec![copied, mapped])
}

fn copied(stream: &Stream, x: &Shared<f32>, data: &[f32]) -> Result<Timeline, Error> {
    let len = data.len();
    let mut on_device: DeviceTensor<f32, 1> = stream.zeros([len])?;
    let mut y: DeviceTensor<f32, 1> = stream.zeros([len])?;
    let mut recorder = Recorder::begin(stream)?;
    recorder.span(stream, ("copies in", "x"), || stream.copy_in(x, 0..len, &mut on_device, 0))?;
    recorder.span(stream, ("kernels", "all"), || steps_of_each(stream, &on_device, STEPS, &mut y))?;
    let title = "a copy, and a kernel that reads the device's memory";
    compare(title, &stream.read(&y)?, |i| after_steps(data[i], STEPS))?;
    recorder.end(title)
}

fn mapped(stream: &Stream, x: &Shared<f32>, data: &[f32]) -> Result<Timeline, Error> {
    let len = data.len();
    let mut y: DeviceTensor<f32, 1> = stream.zeros([len])?;
    let x = x.tensor([len])?;
    let mut recorder = Recorder::begin(stream)?;
    recorder.span(stream, ("kernels", "all"), || steps_of_each(stream, &x, STEPS, &mut y))?;
    let title = "a kernel that reads the host's memory";
    compare(title, &stream.read(&y)?, |i| after_steps(data[i], STEPS))?;
    recorder.end(title)
}

girih::technique! {
    Technique::new("mapped_memory", "The host's memory read by a kernel, beside a copy", ways)
}
