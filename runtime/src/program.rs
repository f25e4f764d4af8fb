//! Programs on a device: launches, temporaries kept between calls, memsets, copies, scalar arithmetic and control flow.

use crate::device::Device;
use crate::error::Error;
use crate::launch::Argument;
use girih_core::program::Program;
use girih_core::schedule::Schedule;
use std::sync::Arc;

/// A program on a device with its workspace, which grows and is kept between calls.
pub struct Runner {
    device: Device,
    program: Arc<Program>,
    /// A schedule per launch site where it is not to be looked up.
    pub schedules: Vec<Option<Schedule>>,
}

impl Runner {
    /// Prepares to run a program.
    pub fn new(device: &Device, program: Arc<Program>) -> Runner {
        let sites = program.sites().len();
        Runner { device: device.clone(), program, schedules: vec![None; sites] }
    }
    /// Runs it: one argument per parameter. Launches are queued, so the work may not be done when the call returns.
    pub fn run(&mut self, _args: &[Argument]) -> Result<(), Error> {
        todo!()
    }
}
