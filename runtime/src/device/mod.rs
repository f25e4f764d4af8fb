//! A device: a GPU behind the CUDA driver, or the simulator with the limits of a GPU.

pub mod buffer;
pub mod cuda;
#[cfg(feature = "tune")]
pub mod nvml;
pub mod sim;

use crate::compile::Compiled;
use crate::device::buffer::Buffer;
use crate::device::cuda::{CudaBound, CudaDevice, CudaLoaded, RawStream};
use crate::device::sim::{SimDevice, SimLoaded};
use crate::error::Error;
use crate::launch::Kernels;
use crate::launch::order::Access;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::host::HostArg;
use std::sync::Arc;

/// Where kernels run. Clones are cheap and mean the same device and stream.
#[derive(Clone)]
pub enum Device {
    /// A GPU; work is queued on one stream, in order.
    Cuda(Arc<CudaDevice>),
    /// The simulator; work is done when the call returns.
    Sim(Arc<SimDevice>),
}

/// A compiled kernel that a device can launch. Clones are cheap.
#[derive(Clone)]
pub struct Loaded {
    /// The kernel with its launch record.
    pub simt: Arc<simt::Kernel>,
    pub(crate) code: Code,
}

/// A launch whose arguments are bound to the kernel's parameters: what remains is the driver's call.
pub struct Bound {
    device: Device,
    launch: BoundLaunch,
}

enum BoundLaunch {
    /// A grid of 0 blocks.
    Nothing,
    Cuda(CudaBound),
    Sim(Loaded, Vec<HostArg>),
}

impl Bound {
    /// Queues the launch. The tensors' memory must still be there.
    pub fn launch(&self) -> Result<(), Error> {
        match (&self.device, &self.launch) {
            (Device::Cuda(d), BoundLaunch::Cuda(bound)) => bound.launch(d),
            (device, BoundLaunch::Sim(kernel, args)) => device.launch(kernel, args),
            (_, BoundLaunch::Nothing | BoundLaunch::Cuda(_)) => Ok(()),
        }
    }

    /// Queues the launch on a stream of the GPU's.
    pub(crate) fn launch_on(&self, device: &CudaDevice, stream: RawStream) -> Result<(), Error> {
        match &self.launch {
            BoundLaunch::Cuda(bound) => bound.launch_on(device, stream),
            BoundLaunch::Nothing => Ok(()),
            BoundLaunch::Sim(..) => Err(Error::Buffer(format!("a simulated launch cannot be queued on {}", device.name()))),
        }
    }

    pub(crate) fn preload(&self) {
        if let BoundLaunch::Cuda(bound) = &self.launch {
            bound.preload();
        }
    }

    /// The memory that a launch on a GPU reads and writes.
    pub(crate) fn accesses(&self) -> &[Access] {
        match &self.launch {
            BoundLaunch::Cuda(bound) => bound.accesses(),
            BoundLaunch::Nothing | BoundLaunch::Sim(..) => &[],
        }
    }

    /// A grid of 0 blocks: there is nothing to launch.
    pub fn is_empty(&self) -> bool {
        matches!(self.launch, BoundLaunch::Nothing)
    }
}

#[derive(Clone)]
pub(crate) enum Code {
    Cuda(CudaLoaded),
    Sim(SimLoaded),
}

impl Device {
    /// GPU number `ordinal`, on a stream of its own. [`Error::NoDevice`] says what is missing.
    pub fn cuda(ordinal: usize) -> Result<Device, Error> {
        Ok(Device::Cuda(Arc::new(CudaDevice::open(ordinal)?)))
    }
    /// The same on the context's default stream, on which code that was compiled by nvcc launches. It cannot record CUDA graphs.
    pub fn cuda_on_default_stream(ordinal: usize) -> Result<Device, Error> {
        Ok(Device::Cuda(Arc::new(CudaDevice::open_default_stream(ordinal)?)))
    }
    /// The simulator, with the limits of `target`.
    pub fn sim(target: &Target) -> Device {
        Device::Sim(Arc::new(SimDevice::new(target)))
    }
    /// The same simulator, with a limit to the warp instructions of a launch.
    pub fn sim_within(target: &Target, fuel: u64, count: bool) -> Device {
        let options = girih_core::sim::Options { fuel, count, ..Default::default() };
        Device::Sim(Arc::new(SimDevice::with_options(target, options)))
    }
    /// The same simulator, whose traffic and instructions are not counted.
    pub fn sim_without_counters(target: &Target) -> Device {
        let options = girih_core::sim::Options { count: false, ..Default::default() };
        Device::Sim(Arc::new(SimDevice::with_options(target, options)))
    }
    /// The first GPU, or the simulated H200 where there is none, with the reason.
    pub fn any() -> (Device, Option<Error>) {
        match Device::cuda(0) {
            Ok(device) => (device, None),
            Err(e) => (Device::sim(Target::h200()), Some(e)),
        }
    }
    /// The limits that kernels for this device are compiled for.
    pub fn target(&self) -> &Target {
        match self {
            Device::Cuda(d) => d.target(),
            Device::Sim(d) => d.target(),
        }
    }
    /// `NVIDIA H200`, or `simulator (h200)`.
    pub fn name(&self) -> String {
        match self {
            Device::Cuda(d) => d.name().to_string(),
            Device::Sim(d) => format!("simulator ({})", d.target().name),
        }
    }
    /// Multiprocessors, as grids may count on.
    pub fn multiprocessors(&self) -> i64 {
        self.target().multiprocessors as i64
    }
    pub(crate) fn kernels(&self) -> &Kernels {
        match self {
            Device::Cuda(d) => d.kernels(),
            Device::Sim(d) => d.kernels(),
        }
    }
    /// Kernels for it need a cubin (NVRTC); the simulator runs SIMT IR.
    pub fn needs_cubin(&self) -> bool {
        matches!(self, Device::Cuda(_))
    }
    /// Memory of `bytes` bytes, aligned to 256, contents undefined. 0 bytes are fine.
    pub fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        let address = match self {
            Device::Cuda(d) => d.alloc(bytes)?,
            Device::Sim(d) => d.alloc(bytes)?,
        };
        Ok(Buffer::own(self, address, bytes))
    }
    pub(crate) fn release(&self, address: u64) {
        match self {
            Device::Cuda(d) => d.release(address),
            Device::Sim(d) => d.release(address),
        }
    }
    /// Writes `data` from byte `offset` on; done when the call returns.
    pub fn upload(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<(), Error> {
        self.write_at(buffer.range(offset, data.len())?, data)
    }
    /// Reads `data.len()` bytes from byte `offset` on, after all queued work.
    pub fn download(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        self.read_at(buffer.range(offset, data.len())?, data)
    }
    /// Repeats `pattern` (1, 2, 4 or 8 bytes) over `len` bytes from byte `offset` on; queued.
    pub fn fill(&self, buffer: &Buffer, offset: usize, len: usize, pattern: &[u8]) -> Result<(), Error> {
        self.fill_at(buffer.range(offset, len)?, len, pattern)
    }
    /// Copies `len` bytes; the ranges must not overlap; queued.
    pub fn copy(&self, to: &Buffer, to_offset: usize, from: &Buffer, from_offset: usize, len: usize) -> Result<(), Error> {
        self.copy_at(to.range(to_offset, len)?, from.range(from_offset, len)?, len)
    }
    /// As [`Device::upload`], at an address of this device that the caller vouches for.
    pub(crate) fn write_at(&self, address: u64, data: &[u8]) -> Result<(), Error> {
        match self {
            Device::Cuda(d) => d.write_at(address, data),
            Device::Sim(d) => d.write_at(address, data),
        }
    }
    pub(crate) fn read_at(&self, address: u64, data: &mut [u8]) -> Result<(), Error> {
        match self {
            Device::Cuda(d) => d.read_at(address, data),
            Device::Sim(d) => d.read_at(address, data),
        }
    }
    pub(crate) fn fill_at(&self, address: u64, len: usize, pattern: &[u8]) -> Result<(), Error> {
        if !matches!(pattern.len(), 1 | 2 | 4 | 8) || !len.is_multiple_of(pattern.len()) {
            return Err(Error::Buffer(format!(
                "cannot fill {len} bytes with a pattern of {}: it takes 1, 2, 4 or 8 that divide",
                pattern.len()
            )));
        }
        match self {
            Device::Cuda(d) => d.fill_at(address, len, pattern),
            Device::Sim(d) => d.fill_at(address, len, pattern),
        }
    }
    pub(crate) fn copy_at(&self, to: u64, from: u64, len: usize) -> Result<(), Error> {
        match self {
            Device::Cuda(d) => d.copy_at(to, from, len),
            Device::Sim(d) => d.copy_at(to, from, len),
        }
    }
    /// Makes a compiled kernel launchable here. A GPU needs the cubin of [`Compiled::cubin`].
    pub fn load(&self, compiled: &Compiled) -> Result<Loaded, Error> {
        let code = match self {
            Device::Cuda(d) => Code::Cuda(d.load(compiled)?),
            Device::Sim(d) => Code::Sim(d.load(compiled)?),
        };
        Ok(Loaded { simt: compiled.simt.clone(), code })
    }
    /// Queues a launch: one argument per parameter of the *tile* kernel. The arguments must meet the facts and requirements that
    /// the kernel was compiled for ([`crate::launch`] checks them). A grid of 0 blocks is no launch.
    pub fn launch(&self, kernel: &Loaded, args: &[HostArg]) -> Result<(), Error> {
        match (self, &kernel.code) {
            (Device::Cuda(d), Code::Cuda(code)) => d.launch(&kernel.simt, code, args),
            (Device::Sim(d), Code::Sim(code)) => d.launch(&kernel.simt, code, args),
            _ => Err(Error::Buffer(format!("kernel `{}` was loaded on another device than {}", kernel.simt.name, self.name()))),
        }
    }
    /// A launch to be repeated: parameters and grid are computed once, here.
    pub fn bind(&self, kernel: &Loaded, args: &[HostArg]) -> Result<Bound, Error> {
        let launch = match (self, &kernel.code) {
            (Device::Cuda(d), Code::Cuda(code)) => d.bound(&kernel.simt, code, args)?.map_or(BoundLaunch::Nothing, BoundLaunch::Cuda),
            _ => BoundLaunch::Sim(kernel.clone(), args.to_vec()),
        };
        Ok(Bound { device: self.clone(), launch })
    }
    /// Waits for all queued work; errors of kernels show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        match self {
            Device::Cuda(d) => d.synchronize(),
            Device::Sim(_) => Ok(()),
        }
    }
    /// Seconds that the work queued by `work` takes on the device (CUDA events around it, waited for). The simulator has no
    /// clock: `work` runs and the result is `None`.
    pub fn time(&self, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Option<f64>, Error> {
        match self {
            Device::Cuda(d) => d.time(work).map(Some),
            Device::Sim(_) => work().map(|()| None),
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// Blocks that wait for one another must all be there.
///
/// # Errors
/// More blocks than the device holds at once.
pub(crate) fn check_resident(launch: &girih_core::simt::Kernel, grid: u32, resident: i64) -> Result<(), Error> {
    if i64::from(grid) <= resident {
        return Ok(());
    }
    Err(Error::Launch {
        kernel: launch.name.clone(),
        message: format!(
            "its {grid} blocks meet over the grid and must run at the same time; the device holds {resident} of them: choose larger tiles, \
             or give each block more to do"
        ),
        loc: launch.provenance.loc,
    })
}
