//! What the host and the GPU share: streams beside each other, events, memory that both reach, and a part of the L2 cache that keeps its lines.

use super::{CudaDevice, check};
use crate::error::Error;
use cudarc::driver::result;
use cudarc::driver::{CudaEvent, sys};
use std::ptr;
use std::sync::Arc;

/// A point in a stream's work.
pub(crate) struct CudaPoint(CudaEvent);

impl CudaDevice {
    /// The same GPU with a stream of its own. Compiled kernels are shared.
    pub(crate) fn beside(&self) -> Result<CudaDevice, Error> {
        let stream = check("cuStreamCreate", self.context.new_stream())?;
        Ok(CudaDevice { stream, ..self.clone() })
    }

    /// The same stream, whose kernels prefer so many percent of a multiprocessor's memory as shared memory. They are loaded anew: the preference is
    /// a function's, and others have the same functions.
    pub(crate) fn with_carve_out(&self, percent: u8) -> CudaDevice {
        CudaDevice { carve_out: Some(percent), kernels: Arc::default(), ..self.clone() }
    }

    /// Marks the end of what is queued so far.
    pub(crate) fn record(&self) -> Result<CudaPoint, Error> {
        let event = self.stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
        Ok(CudaPoint(check("cuEventRecord", event)?))
    }

    /// What is queued from here on begins behind the point.
    pub(crate) fn wait_for(&self, point: &CudaPoint) -> Result<(), Error> {
        check("cuStreamWaitEvent", self.stream.wait(&point.0))
    }

    /// Page-locked memory of the host, at an address that kernels may use, too.
    pub(crate) fn alloc_pinned(&self, bytes: usize) -> Result<u64, Error> {
        self.bind()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the memory is freed once, by `free_pinned`, and read through raw pointers alone.
        let address = check("cuMemHostAlloc", unsafe { result::malloc_host(bytes.max(1), flags) })?;
        Ok(address as u64)
    }

    /// Memory whose pages move to whoever touches them.
    pub(crate) fn alloc_managed(&self, bytes: usize) -> Result<u64, Error> {
        self.bind()?;
        let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL;
        // SAFETY: the memory is freed once, by `free_managed`, and read through raw pointers alone.
        check("cuMemAllocManaged", unsafe { result::malloc_managed(bytes.max(1), flags) })
    }

    /// Frees it once nothing that was queued in any stream uses it.
    pub(crate) fn free_pinned(&self, address: u64) {
        // A failure means that the context is lost already; whoever used it has seen the error.
        if self.context.synchronize().is_ok() {
            // SAFETY: the address came from `alloc_pinned`, whose owner is gone.
            let _ = unsafe { result::free_host(address as *mut _) };
        }
    }

    /// As [`CudaDevice::free_pinned`].
    pub(crate) fn free_managed(&self, address: u64) {
        if self.context.synchronize().is_ok() {
            // SAFETY: the address came from `alloc_managed`, whose owner is gone.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    /// Writes to memory that both reach, behind all that is queued here.
    pub(crate) fn write_shared(&self, address: u64, data: &[u8]) -> Result<(), Error> {
        self.synchronize()?;
        // SAFETY: the caller vouches for the range, which the host may write; nobody has a reference to it.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
        Ok(())
    }

    /// Reads memory that both reach, behind all that is queued here.
    pub(crate) fn read_shared(&self, address: u64, data: &mut [u8]) -> Result<(), Error> {
        self.synchronize()?;
        // SAFETY: as for `write_shared`.
        unsafe { ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), data.len()) };
        Ok(())
    }

    /// Queues a copy between any two memories that the GPU reaches: page-locked ones of the host, and its own.
    pub(crate) fn copy_any(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller vouches for both ranges, which lie in one address space.
        check("cuMemcpy", unsafe { sys::cuMemcpyAsync(to, from, bytes, self.stream.cu_stream()) }.result())
    }

    /// Queues a move of managed pages to the GPU.
    pub(crate) fn prefetch(&self, address: u64, bytes: usize) -> Result<(), Error> {
        self.bind()?;
        let device = self.context.cu_device();
        // SAFETY: the range is managed memory, for which the caller vouches.
        check("cuMemPrefetch", unsafe { sys::cuMemPrefetchAsync(address, bytes, device, self.stream.cu_stream()) }.result())
    }

    /// Sets a part of the L2 cache aside for lines of this range, which kernels of this stream touch; none for no bytes. The bytes set aside.
    pub(crate) fn keep_in_l2(&self, address: u64, bytes: usize) -> Result<usize, Error> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE as WINDOW, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE as PERSISTING,
        };
        self.bind()?;
        let most = |attribute| check("cuDeviceGetAttribute", self.context.attribute(attribute)).map(|n| n.max(0) as usize);
        let (aside, window) = (most(PERSISTING)?.min(bytes), most(WINDOW)?.min(bytes));
        // SAFETY: a limit is a number.
        check("cuCtxSetLimit", unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE, aside) }.result())?;
        // As many of the window's lines are kept as there is room for.
        let ratio = if window == 0 { 0.0 } else { (aside as f32 / window as f32).min(1.0) };
        let kept = sys::CUaccessPolicyWindow {
            base_ptr: address as *mut _,
            num_bytes: window,
            hitRatio: ratio,
            hitProp: if bytes == 0 {
                sys::CUaccessProperty::CU_ACCESS_PROPERTY_NORMAL
            } else {
                sys::CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING
            },
            missProp: sys::CUaccessProperty::CU_ACCESS_PROPERTY_NORMAL,
        };
        let value = sys::CUstreamAttrValue { accessPolicyWindow: kept };
        let attribute = sys::CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
        // SAFETY: the attribute's value is the window, and the driver only reads it.
        check("cuStreamSetAttribute", unsafe { sys::cuStreamSetAttribute(self.stream.cu_stream(), attribute, &value) }.result())?;
        if bytes == 0 {
            // SAFETY: it only changes what the cache keeps.
            check("cuCtxResetPersistingL2Cache", unsafe { sys::cuCtxResetPersistingL2Cache() }.result())?;
        }
        Ok(aside)
    }
}

impl CudaPoint {
    /// Microseconds from an earlier point of the same GPU to this one. Waits for both.
    pub(crate) fn us_since(&self, earlier: &CudaPoint) -> Result<f64, Error> {
        check("waiting for the GPU", self.0.synchronize())?;
        check("waiting for the GPU", earlier.0.synchronize())?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are recorded and complete. This entry point is the one that every driver has.
        let result = unsafe { sys::cuEventElapsedTime(&mut milliseconds, earlier.0.cu_event(), self.0.cu_event()) };
        check("cuEventElapsedTime", result.result())?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}
