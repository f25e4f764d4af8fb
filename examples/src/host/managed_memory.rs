//! Managed (unified) memory: pages move to whoever touches them, when they are touched, or ahead.

use super::{after_steps, compare, numbers, steps_of_each, warm};
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Shared, Stream};

/// Steps for each element: little, so that pages are what takes the time.
const STEPS: i64 = 8;

/// The three ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let data = numbers(elements);
    warm(stream, STEPS)?;
    let faults = best_of(2, || touched(stream, &data, false))?;
    let ahead = best_of(2, || touched(stream, &data, true))?;
    let copies = best_of(2, || copied(stream, &data))?;
    Ok(vec![faults, ahead, copies])
}

/// The host writes x, the device reads it and writes y, the host reads y.
fn touched(stream: &Stream, data: &[f32], ahead: bool) -> Result<Timeline, Error> {
    let len = data.len();
    let (mut x, y): (Shared<f32>, Shared<f32>) = (stream.managed(len)?, stream.managed(len)?);
    x.write(stream, 0, data)?;
    let mut recorder = Recorder::begin(stream)?;
    if ahead {
        recorder.span(stream, ("pages", "x"), || stream.prefetch(&x))?;
        recorder.span(stream, ("pages", "y"), || stream.prefetch(&y))?;
    }
    let mut written = y.tensor([len])?;
    recorder.span(stream, ("kernels", "all"), || steps_of_each(stream, &x.tensor([len])?, STEPS, &mut written))?;
    let title = if ahead { "managed memory, pages moved ahead" } else { "managed memory, pages moved when the kernel touches them" };
    compare(title, &y.read(stream, 0..len)?, |i| after_steps(data[i], STEPS))?;
    recorder.end(title)
}

/// The same by a copy from page-locked memory.
fn copied(stream: &Stream, data: &[f32]) -> Result<Timeline, Error> {
    let len = data.len();
    let mut x: Shared<f32> = stream.pinned(len)?;
    x.write(stream, 0, data)?;
    let mut on_device: DeviceTensor<f32, 1> = stream.zeros([len])?;
    let mut y: DeviceTensor<f32, 1> = stream.zeros([len])?;
    let mut recorder = Recorder::begin(stream)?;
    recorder.span(stream, ("pages", "x"), || stream.copy_in(&x, 0..len, &mut on_device, 0))?;
    recorder.span(stream, ("kernels", "all"), || steps_of_each(stream, &on_device, STEPS, &mut y))?;
    let title = "a copy from page-locked memory";
    compare(title, &stream.read(&y)?, |i| after_steps(data[i], STEPS))?;
    recorder.end(title)
}

girih::technique! {
    Technique::new("managed_memory", "Managed memory, touched or moved ahead, beside a copy", ways)
}
