//! Timing on a GPU: CUDA events around the work, the L2 cache flushed before every sample, arguments restored.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::placed::Placed;

/// Bytes written before every sample: more than any L2.
pub const FLUSH: usize = 256 << 20;

/// Works of so many microseconds and more need no run ahead of a sample: what it would warm up is below 1 % of them, and it would only heat
/// the GPU, which then lowers its clock.
const WARM_BELOW_US: f64 = 100.0;

/// Takes samples on one device.
pub struct Timer {
    device: Device,
    flush: Buffer,
}

impl Timer {
    /// Allocates what the flush writes.
    pub fn new(device: &Device) -> Result<Timer, Error> {
        Ok(Timer { device: device.clone(), flush: device.alloc(FLUSH)? })
    }

    /// As [`Timer::sample`], behind a run that is not measured where the last sample took less than 100 µs. Where others use
    /// the GPU between two samples, a kernel's instructions and address translations are lost with each change of hands; they come back
    /// here, and the L2 is flushed after.
    ///
    /// # Errors
    /// Those of [`Timer::sample`].
    pub fn warm_sample(&self, last: Option<f64>, placed: &Placed, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<f64, Error> {
        if last.is_none_or(|us| us < WARM_BELOW_US) {
            placed.restore_inputs()?;
            work()?;
        }
        self.sample(placed, work)
    }

    /// Microseconds that `work` takes on the device with a cold L2, its arguments as before the call. The flush is queued in
    /// front of the work and keeps the GPU busy while the host queues it, so no launch cost is measured.
    ///
    /// # Errors
    /// What `work` reports; also a device without a clock.
    pub fn sample(&self, placed: &Placed, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<f64, Error> {
        placed.restore_inputs()?;
        self.device.fill(&self.flush, 0, FLUSH, &[0x5a])?;
        match self.device.time(work)? {
            Some(seconds) => Ok(seconds * 1e6),
            None => Err(Error::Buffer(format!("{} has no clock", self.device.name()))),
        }
    }
}
