//! From tile IR to a loadable kernel: lower, emit, and for a GPU the cubin through the disk cache.

use crate::error::Error;
use crate::resources::Resources;
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile;
use std::sync::Arc;

/// A kernel compiled for some facts, under one schedule, for one target.
#[derive(Clone)]
pub struct Compiled {
    /// What the simulator runs and the emitter printed.
    pub simt: simt::Kernel,
    /// The CUDA C.
    pub source: String,
    /// The architecture: `sm_90a`.
    pub arch: String,
    /// The machine code, if asked for.
    pub cubin: Option<Arc<Vec<u8>>>,
    /// What ptxas said of it, if there is a cubin.
    pub resources: Option<Resources>,
}

/// How far to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// SIMT IR and CUDA C: pure, needs no NVRTC. Enough for the simulator.
    Source,
    /// Also the cubin, from the disk cache or NVRTC.
    Cubin,
}

/// Compiles a kernel. [`Error::Compile`] for an illegal schedule, [`Error::NoNvrtc`] and [`Error::Nvrtc`] for the cubin.
pub fn compile(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule, target: &Target, output: Output) -> Result<Compiled, Error> {
    let simt = girih_core::lower::lower(kernel, facts, schedule, target)?;
    let compiled = Compiled::of(simt, target);
    match output {
        Output::Source => Ok(compiled),
        Output::Cubin => compiled.with_cubin(),
    }
}

impl Compiled {
    /// CUDA C of a SIMT kernel.
    pub fn of(simt: simt::Kernel, target: &Target) -> Compiled {
        let source = girih_core::cuda::emit(&simt);
        Compiled { simt, source, arch: target.arch.to_string(), cubin: None, resources: None }
    }
    /// The same with its cubin and resources.
    pub fn with_cubin(self) -> Result<Compiled, Error> {
        todo!()
    }
}
