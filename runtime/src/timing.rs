//! Timing on a GPU: CUDA events around the work, the L2 cache flushed before every sample, arguments restored.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::placed::Placed;

/// Bytes written before every sample: more than any L2.
pub const FLUSH: usize = 256 << 20;

/// Works of so many microseconds and more need no run ahead of a sample: what it would warm up is below 1 % of them, and it would only heat
/// the GPU, which then lowers its clock.
pub(crate) const WARM_BELOW_US: f64 = 100.0;
/// What the flush writes into every byte.
pub(crate) const FLUSH_BYTE: u8 = 0x5a;

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
        if runs_ahead(last) {
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
        self.device.fill(&self.flush, 0, FLUSH, &[FLUSH_BYTE])?;
        match self.device.time(work)? {
            Some(seconds) => Ok(seconds * 1e6),
            None => Err(Error::Buffer(format!("{} has no clock", self.device.name()))),
        }
    }
}

/// Whether a work whose last sample took so long runs once before the next one.
fn runs_ahead(last: Option<f64>) -> bool {
    last.is_none_or(|us| us < WARM_BELOW_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_works_run_ahead_of_a_sample() {
        assert!(runs_ahead(None) && runs_ahead(Some(5.5)) && runs_ahead(Some(99.9)));
        assert!(!runs_ahead(Some(100.0)) && !runs_ahead(Some(8068.0)));
    }
}
