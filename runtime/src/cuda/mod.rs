//! The CUDA driver. The only module that names cudarc.
//!
//! cudarc loads `libcuda` on first use and panics where there is none, so [`CudaDevice::open`] looks first.

use crate::compile::Compiled;
use crate::error::Error;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, CudaStream, sys};
use girih_core::simt;
use girih_core::target::{TARGETS, Target};
use girih_core::tile::host::HostArg;
use std::sync::Arc;

/// A GPU and one stream on it.
pub struct CudaDevice {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    name: String,
    target: Target,
}

/// A function of a loaded module.
#[derive(Clone)]
pub struct CudaLoaded {}

impl CudaDevice {
    pub(crate) fn open(_ordinal: usize) -> Result<CudaDevice, Error> {
        todo!()
    }
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
    pub(crate) fn alloc(&self, _bytes: usize) -> Result<u64, Error> {
        todo!()
    }
    pub(crate) fn release(&self, _address: u64) {}
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
    pub(crate) fn load(&self, _compiled: &Compiled) -> Result<CudaLoaded, Error> {
        todo!()
    }
    pub(crate) fn launch(&self, _simt: &simt::Kernel, _code: &CudaLoaded, _args: &[HostArg]) -> Result<(), Error> {
        todo!()
    }
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        todo!()
    }
    pub(crate) fn time(&self, _work: &mut dyn FnMut() -> Result<(), Error>) -> Result<f64, Error> {
        todo!()
    }
}
