//! Timing on a GPU: CUDA events around the work, the L2 cache flushed before every sample, or warm, arguments restored; what was taken while the GPU
//! was throttled is taken again.

use crate::device::Device;
use crate::device::buffer::Buffer;
use crate::error::Error;
use crate::measure::throttle::{Taken, Throttle};
use crate::subject::guarded_args::Placed;
use serde::{Deserialize, Serialize};

/// Bytes written before every sample: more than any L2.
pub const FLUSH: usize = 256 << 20;

/// Works of so many microseconds and more need no run ahead of a sample: what it would warm up is below 1 % of them, and it would only heat
/// the GPU, which then lowers its clock.
pub(crate) const WARM_BELOW_US: f64 = 100.0;
/// Samples of a short work that follow one another before somebody else has the GPU.
pub(crate) const SAMPLES_OF_A_TURN: usize = 8;
/// What the flush writes into every byte.
pub(crate) const FLUSH_BYTE: u8 = 0x5a;

/// What the L2 cache holds when a sample begins.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum L2 {
    /// Nothing of the work's: it is flushed before every sample.
    #[default]
    Cold,
    /// What a run of the same work on the same data has left there, as far as it fits.
    Warm,
}

impl L2 {
    /// The state in the words of a table's head.
    pub fn state(self) -> &'static str {
        match self {
            L2::Cold => "L2 flushed before every sample",
            L2::Warm => "L2 as a run before every sample leaves it",
        }
    }
}

/// Takes samples on one device.
pub struct Timer {
    device: Device,
    flush: Buffer,
    throttle: Throttle,
    l2: L2,
}

impl Timer {
    /// Allocates what the flush writes.
    pub fn new(device: &Device, l2: L2) -> Result<Timer, Error> {
        Ok(Timer { device: device.clone(), flush: device.alloc(FLUSH)?, throttle: Throttle::of(device), l2 })
    }

    /// The samples of one turn: several of a work whose last sample took less than 100 µs, behind a run that is not measured, and one of a
    /// longer one. Where others use the GPU between two turns, a kernel's instructions and address translations are lost with each change
    /// of hands: they come back here. The L2 is flushed before every sample all the same.
    ///
    /// # Errors
    /// Those of [`Timer::sample`].
    pub fn turn(&self, last: Option<f64>, placed: &Placed, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Taken<Vec<f64>>, Error> {
        let short = is_short(last);
        self.clean(|rested| self.in_turn(if short { SAMPLES_OF_A_TURN } else { 1 }, short || rested, placed, work))
    }

    /// So many samples, between which nobody else has the GPU.
    ///
    /// # Errors
    /// Those of [`Timer::sample`].
    pub fn samples(&self, count: usize, placed: &Placed, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Taken<Vec<f64>>, Error> {
        self.clean(|rested| self.in_turn(count, rested, placed, work))
    }

    /// Microseconds that `work` takes on the device, its arguments as before the call. The flush is queued in front of the work, or of the run
    /// that warms the cache, and keeps the GPU busy while the host queues these, so no launch cost is measured.
    ///
    /// # Errors
    /// What `work` reports; also a device without a clock.
    pub fn sample(&self, placed: &Placed, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Taken<f64>, Error> {
        self.clean(|rested| Ok(self.in_turn(1, rested, placed, work)?[0]))
    }

    /// What is taken on the device, by this timer or by somebody else, while it is not throttled; `take` hears whether the GPU has rested.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn clean<T, E>(&self, take: impl FnMut(bool) -> Result<T, E>) -> Result<Taken<T>, E> {
        self.throttle.clean(take)
    }

    /// Samples, behind a run that is not measured where the GPU has to be warmed up.
    fn in_turn(
        &self,
        count: usize,
        warm_up: bool,
        placed: &Placed,
        work: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Vec<f64>, Error> {
        if warm_up {
            placed.restore_inputs()?;
            work()?;
        }
        (0..count).map(|_| self.one(placed, work)).collect()
    }

    fn one(&self, placed: &Placed, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<f64, Error> {
        placed.restore_inputs()?;
        self.device.fill(&self.flush, 0, FLUSH, &[FLUSH_BYTE])?;
        if self.l2 == L2::Warm {
            work()?;
            placed.restore_inputs()?;
        }
        match self.device.time(work)? {
            Some(seconds) => Ok(seconds * 1e6),
            None => Err(Error::Buffer(format!("{} has no clock", self.device.name()))),
        }
    }
}

/// Whether a work whose last sample took so long is sampled several times a turn, behind a run that is not measured.
fn is_short(last: Option<f64>) -> bool {
    last.is_some_and(|us| us < WARM_BELOW_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_works_have_several_samples_a_turn() {
        assert!(is_short(Some(5.5)) && is_short(Some(99.9)));
        assert!(!is_short(Some(100.0)) && !is_short(Some(8068.0)) && !is_short(None));
    }
}
