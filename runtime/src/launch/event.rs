//! Events: points in a stream's work that other streams wait for, and times between them.

use crate::device::Device;
use crate::device::cuda::CudaPoint;
use crate::error::Error;
use std::time::Instant;

/// A point in a stream's work ([`crate::Stream::record`]).
pub struct Event {
    at: At,
}

enum At {
    Cuda(CudaPoint),
    /// The simulator's work is done when a call returns.
    Sim(Instant),
}

impl Event {
    pub(crate) fn record(device: &Device) -> Result<Event, Error> {
        let at = match device {
            Device::Cuda(d) => At::Cuda(d.record()?),
            Device::Sim(_) => At::Sim(Instant::now()),
        };
        Ok(Event { at })
    }

    /// Has what is queued on a device's stream from here on begin behind this point.
    pub(crate) fn hold(&self, device: &Device) -> Result<(), Error> {
        match (&self.at, device) {
            (At::Cuda(point), Device::Cuda(d)) => d.wait_for(point),
            (At::Sim(_), Device::Sim(_)) => Ok(()),
            (_, device) => Err(Error::Buffer(format!("an event of another device than {}", device.name()))),
        }
    }

    /// Microseconds from an earlier event of the same device to this one, by the device's clock. Waits for both.
    ///
    /// # Errors
    /// They are of different devices; what was queued has failed.
    pub fn us_since(&self, earlier: &Event) -> Result<f64, Error> {
        match (&self.at, &earlier.at) {
            (At::Cuda(end), At::Cuda(start)) => end.us_since(start),
            (At::Sim(end), At::Sim(start)) => Ok(end.saturating_duration_since(*start).as_secs_f64() * 1e6),
            _ => Err(Error::Buffer("events of different devices have no time between them".into())),
        }
    }
}
