//! The CUDA driver. The only module that names cudarc.
//!
//! cudarc loads `libcuda` on first use and panics where there is none, so opening a device looks first.

mod constants;
mod function;
mod gpu;
mod graph;
mod host;
mod interop;
mod tensor_map;
#[cfg(feature = "tune")]
mod text;

pub(crate) use function::CudaBound;
pub use function::CudaLoaded;
pub use gpu::Gpu;
pub(crate) use graph::CudaGraph;
pub(crate) use host::CudaPoint;
pub use interop::{Borrowed, BorrowedMut};
pub(crate) use interop::{borrow, borrow_mut};
#[cfg(feature = "tune")]
pub use text::Text;

/// Re-exported so that callers can name what [`crate::Stream`] is made from, in the version that it takes.
pub use cudarc;
pub use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};

use crate::error::Error;
use crate::launch::Kernels;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, sys};
use girih_core::target::Target;
use std::sync::Arc;

/// A stream's handle.
pub(crate) type RawStream = sys::CUstream;

/// A GPU and one stream on it.
#[derive(Clone)]
pub struct CudaDevice {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    name: String,
    target: Target,
    /// Shared by the streams of a GPU.
    kernels: Arc<Kernels>,
    /// The share of a multiprocessor's memory, in percent, that kernels prefer as shared memory; the driver's choice where none is named.
    carve_out: Option<u8>,
    #[cfg(feature = "tune")]
    texts: Arc<text::Texts>,
}

/// What the driver says of itself and the machine's GPUs, for `doctor`.
#[derive(Clone, Debug)]
pub struct DriverReport {
    /// The CUDA version that the driver supports: `13.0`.
    pub version: String,
    /// Names of the GPUs, by ordinal.
    pub devices: Vec<String>,
}

/// The folders of a library path without those that `cargo run` puts in front of it: beside this program, and the Rust toolchain's.
fn own_library_path(path: &str) -> String {
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(std::path::Path::to_path_buf));
    let of_cargo = |folder: &std::path::Path| {
        beside.as_ref().is_some_and(|b| folder.starts_with(b)) || folder.components().any(|c| c.as_os_str() == "toolchains")
    };
    let own: Vec<std::path::PathBuf> = std::env::split_paths(path).filter(|folder| !of_cargo(folder)).collect();
    std::env::join_paths(own).map_or_else(|_| path.to_string(), |joined| joined.to_string_lossy().into_owned())
}

/// Looks for the driver without opening a device.
pub fn driver_report() -> Result<DriverReport, Error> {
    find_driver()?;
    let mut version = 0;
    // SAFETY: the library is there, and the pointer is good for one int.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) }.result())?;
    let count = CudaContext::device_count().map_err(no_device)?;
    let name = |i| result::device::get(i).and_then(result::device::get_name).unwrap_or_else(|e| format!("({e})"));
    Ok(DriverReport { version: format!("{}.{}", version / 1000, version % 1000 / 10), devices: (0..count).map(name).collect() })
}

fn find_driver() -> Result<(), Error> {
    // SAFETY: opening the driver's library runs only its own initialisers.
    if unsafe { sys::is_culib_present() } {
        return Ok(());
    }
    let path = own_library_path(&std::env::var("LD_LIBRARY_PATH").unwrap_or_default());
    Err(Error::NoDevice(format!(
        "no CUDA driver: libcuda.so and libcuda.so.1 are neither in the system's library folders nor in LD_LIBRARY_PATH ({}). \
         Install NVIDIA's driver to use a GPU; everything else runs on the simulator.",
        if path.is_empty() { "which names none" } else { &path }
    )))
}

/// Whether the driver offers a GPU of this number.
fn offered(ordinal: usize) -> Result<(), Error> {
    find_driver()?;
    let count = CudaContext::device_count().map_err(no_device)?;
    if ordinal as i64 >= count as i64 {
        return Err(Error::NoDevice(format!("there is no GPU number {ordinal}: the CUDA driver offers {count}")));
    }
    Ok(())
}

fn no_device(e: DriverError) -> Error {
    Error::NoDevice(format!("the CUDA driver is there, but offers no GPU: {}", describe(&e).1))
}

/// Name and text of a driver error.
fn describe(e: &DriverError) -> (String, String) {
    let text = |r: Result<&std::ffi::CStr, DriverError>| r.map_or_else(|_| "unknown".into(), |s| s.to_string_lossy().into_owned());
    (text(e.error_name()), text(e.error_string()))
}

/// The error of a driver call, with what was being done.
fn check<T>(call: &str, result: Result<T, DriverError>) -> Result<T, Error> {
    result.map_err(|e| {
        let (name, text) = describe(&e);
        Error::Driver { call: call.into(), name, text }
    })
}

impl CudaDevice {
    pub(crate) fn open(ordinal: usize) -> Result<CudaDevice, Error> {
        let context = CudaDevice::context_of(ordinal)?;
        CudaDevice::on_stream(check("cuStreamCreate", context.new_stream())?)
    }

    /// On the stream that launches without one go to.
    pub(crate) fn open_default_stream(ordinal: usize) -> Result<CudaDevice, Error> {
        CudaDevice::on_stream(CudaDevice::context_of(ordinal)?.default_stream())
    }

    fn context_of(ordinal: usize) -> Result<Arc<CudaContext>, Error> {
        offered(ordinal)?;
        check("opening the GPU", CudaContext::new(ordinal))
    }

    /// The device of an existing cudarc stream; its work is queued there.
    pub(crate) fn on_stream(stream: Arc<CudaStream>) -> Result<CudaDevice, Error> {
        let context = stream.context().clone();
        let Gpu { name, target, .. } = Gpu::of(context.ordinal())?;
        Ok(CudaDevice {
            context,
            stream,
            name,
            target,
            kernels: Arc::default(),
            carve_out: None,
            #[cfg(feature = "tune")]
            texts: Arc::default(),
        })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }
    /// The stream on which all work is queued.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
    /// Its place on the bus, `0000:18:00.0`.
    #[cfg(feature = "tune")]
    pub(crate) fn bus_id(&self) -> Result<String, Error> {
        let mut text = [0; 32];
        // SAFETY: the driver writes no more than the length that it is told, the zero at the end included.
        let told = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as i32, self.context.cu_device()) };
        check("cuDeviceGetPCIBusId", told.result())?;
        Ok(text.iter().take_while(|c| **c != 0).map(|c| char::from(*c as u8)).collect())
    }
    fn bind(&self) -> Result<(), Error> {
        check("cuCtxSetCurrent", self.context.bind_to_thread())
    }

    pub(crate) fn alloc(&self, bytes: usize) -> Result<u64, Error> {
        self.bind()?;
        // SAFETY: the memory is released once, by `release`; nobody reads it before it was written but kernels, which the
        // simulator checks.
        match unsafe { result::malloc_sync(bytes.max(1)) } {
            Ok(address) => Ok(address),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let free = result::mem_get_info().map_or_else(|_| "unknown".into(), |(free, _)| format!("{free} bytes"));
                Err(Error::OutOfMemory { bytes, device: self.name.clone(), free })
            }
            Err(e) => check("cuMemAlloc", Err(e)),
        }
    }

    pub(crate) fn release(&self, address: u64) {
        // A failure means that the context is lost already; whoever used it has seen the error.
        if self.bind().is_ok() {
            // SAFETY: `address` came from `alloc`, and its buffer is gone. cuMemFree waits for kernels that still use it.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    pub(crate) fn write_at(&self, address: u64, data: &[u8]) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller vouches for the range; `data` outlives the copy because we wait for it.
        check("cuMemcpyHtoD", unsafe { result::memcpy_htod_async(address, data, self.stream.cu_stream()) })?;
        self.synchronize()
    }

    pub(crate) fn read_at(&self, address: u64, data: &mut [u8]) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: as for `write_at`.
        check("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_async(data, address, self.stream.cu_stream()) })?;
        self.synchronize()
    }

    pub(crate) fn fill_at(&self, address: u64, len: usize, pattern: &[u8]) -> Result<(), Error> {
        self.fill_on(self.stream.cu_stream(), address, len, pattern)
    }

    /// Queues a fill on a stream of this device's context.
    pub(crate) fn fill_on(&self, stream: RawStream, address: u64, len: usize, pattern: &[u8]) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        self.bind()?;
        let count = len / pattern.len();
        let halves = |p: &[u8]| [u32::from_le_bytes([p[0], p[1], p[2], p[3]]), u32::from_le_bytes([p[4], p[5], p[6], p[7]])];
        // SAFETY: the caller vouches for the range; patterns longer than one byte are aligned, as elements are.
        let result = unsafe {
            match pattern {
                [byte] => sys::cuMemsetD8Async(address, *byte, count, stream).result(),
                [a, b] => sys::cuMemsetD16Async(address, u16::from_le_bytes([*a, *b]), count, stream).result(),
                [a, b, c, d] => sys::cuMemsetD32Async(address, u32::from_le_bytes([*a, *b, *c, *d]), count, stream).result(),
                eight => match halves(eight) {
                    [low, high] if low == high => sys::cuMemsetD32Async(address, low, count * 2, stream).result(),
                    // Two passes over rows of eight bytes: the low words, then the high ones.
                    [low, high] => sys::cuMemsetD2D32Async(address, 8, low, 1, count, stream)
                        .result()
                        .and_then(|()| sys::cuMemsetD2D32Async(address + 4, 8, high, 1, count, stream).result()),
                },
            }
        };
        check("cuMemset", result)
    }

    pub(crate) fn copy_at(&self, to: u64, from: u64, len: usize) -> Result<(), Error> {
        self.copy_on(self.stream.cu_stream(), to, from, len)
    }

    /// Queues a copy on a stream of this device's context.
    pub(crate) fn copy_on(&self, stream: RawStream, to: u64, from: u64, len: usize) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller vouches for both ranges.
        check("cuMemcpyDtoD", unsafe { result::memcpy_dtod_async(to, from, len, stream) })
    }

    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        check("waiting for the GPU", self.stream.synchronize())
    }

    pub(crate) fn time(&self, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<f64, Error> {
        let start = self.record()?;
        work()?;
        Ok(self.record()?.us_since(&start)? * 1e-6)
    }
}

#[cfg(test)]
mod tests {
    use super::own_library_path;

    #[test]
    fn folders_of_cargo_are_not_told() {
        let exe = std::env::current_exe().expect("a path");
        let beside = exe.parent().expect("a folder").display().to_string();
        let path = format!("{beside}:{beside}/build/out:/home/me/.rustup/toolchains/stable/lib");
        assert_eq!(own_library_path(&path), "");
        assert_eq!(own_library_path(&format!("/opt/cuda/lib64:{path}:/usr/lib/nvidia")), "/opt/cuda/lib64:/usr/lib/nvidia");
    }
}
