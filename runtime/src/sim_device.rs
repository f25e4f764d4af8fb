//! The simulator as a device: host memory with addresses of its own.

use crate::compile::Compiled;
use crate::error::Error;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::host::HostArg;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The simulator with the limits of a target.
pub struct SimDevice {
    target: &'static Target,
    memory: Mutex<Allocations>,
}

/// A kernel ready to be simulated.
#[derive(Clone)]
pub struct SimLoaded {}

#[derive(Default)]
struct Allocations {
    next: u64,
    live: BTreeMap<u64, Vec<u8>>,
}

impl SimDevice {
    pub(crate) fn new(target: &'static Target) -> SimDevice {
        SimDevice { target, memory: Mutex::default() }
    }
    pub(crate) fn target(&self) -> &'static Target {
        self.target
    }
    pub(crate) fn alloc(&self, _bytes: usize) -> Result<u64, Error> {
        todo!()
    }
    pub(crate) fn release(&self, _address: u64, _bytes: usize) {}
    pub(crate) fn write_at(&self, _address: u64, _data: &[u8]) -> Result<(), Error> {
        todo!()
    }
    pub(crate) fn read_at(&self, _address: u64, _data: &mut [u8]) -> Result<(), Error> {
        todo!()
    }
    pub(crate) fn fill_at(&self, _address: u64, _len: usize, _pattern: &[u8]) -> Result<(), Error> {
        todo!()
    }
    pub(crate) fn copy_at(&self, _to: u64, _from: u64, _len: usize) -> Result<(), Error> {
        todo!()
    }
    pub(crate) fn load(&self, _compiled: &Compiled) -> Result<SimLoaded, Error> {
        todo!()
    }
    pub(crate) fn launch(&self, _simt: &simt::Kernel, _code: &SimLoaded, _args: &[HostArg]) -> Result<(), Error> {
        todo!()
    }
}
