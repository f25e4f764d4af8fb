//! What the driver says of a GPU that nobody has opened: opening one takes a quarter of a second and half a gigabyte of its memory.

use super::{check, offered};
use crate::error::Error;
use cudarc::driver::{result, sys};
use girih_core::target::{TARGETS, Target};
use sys::CUdevice_attribute_enum as Attribute;

/// A GPU of this machine, by what is known of it.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Its number.
    pub ordinal: usize,
    /// `NVIDIA H200`.
    pub name: String,
    /// The limits that kernels for it are compiled for.
    pub target: Target,
}

impl Gpu {
    /// Asks the driver.
    ///
    /// # Errors
    /// [`Error::NoDevice`] says what is missing.
    pub fn look(ordinal: usize) -> Result<Gpu, Error> {
        offered(ordinal)?;
        Gpu::of(ordinal)
    }

    /// Opens it.
    ///
    /// # Errors
    /// The driver's, in words.
    #[cfg(feature = "tune")]
    pub(crate) fn open(&self) -> Result<crate::device::Device, String> {
        crate::device::Device::cuda(self.ordinal).map_err(|e| e.to_string())
    }

    /// The driver's version, and the GPU's highest clocks in MHz, of multiprocessors and of memory; what is not known is missing.
    #[cfg(feature = "tune")]
    pub fn driver_and_clocks(&self) -> (Option<String>, Option<(u32, u32)>) {
        let device = check("cuDeviceGet", result::device::get(self.ordinal as i32)).ok();
        let khz = |a| {
            // SAFETY: the device came from cuDeviceGet.
            let value = device.and_then(|d| check("cuDeviceGetAttribute", unsafe { result::device::get_attribute(d, a) }).ok());
            value.map(|khz| khz.max(0) as u32 / 1000)
        };
        let clocks = khz(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).zip(khz(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
        let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        (version_in(&text), clocks)
    }

    /// One that the driver is known to offer.
    pub(super) fn of(ordinal: usize) -> Result<Gpu, Error> {
        let device = check("cuDeviceGet", result::device::get(ordinal as i32))?;
        let name = check("cuDeviceGetName", result::device::get_name(device))?;
        let target = target_of(device, &name)?;
        Ok(Gpu { ordinal, name, target })
    }
}

/// The target of a GPU: the known one of its name or else generation, with the limits that the driver states.
fn target_of(device: sys::CUdevice, name: &str) -> Result<Target, Error> {
    // SAFETY: the device came from cuDeviceGet.
    let attribute = |a| check("cuDeviceGetAttribute", unsafe { result::device::get_attribute(device, a) }).map(|v| v.max(0) as u32);
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let capability = major * 10 + minor;
    let words: Vec<String> = name.to_lowercase().replace(['-', '_'], " ").split_whitespace().map(str::to_string).collect();
    let joined = words.concat();
    let named = TARGETS
        .iter()
        .find(|t| t.capability == capability && (words.iter().any(|w| w == t.name) || (t.name.len() > 4 && joined.contains(t.name))));
    let nearest = TARGETS.iter().rev().find(|t| t.capability <= capability);
    let Some(base) = named.or(nearest) else {
        return Err(Error::NoDevice(format!("{name} has compute capability {major}.{minor}; girih needs 7.5 or newer")));
    };
    let mut target = base.clone();
    target.capability = capability;
    if named.is_none() {
        target.name = name.to_lowercase().replace(' ', "-").leak();
    }
    if base.capability != capability {
        // Features of the exact architecture need the suffix; plain ones run on later minor versions, too.
        target.arch = format!("sm_{capability}{}", if capability >= 90 { "a" } else { "" }).leak();
    }
    target.multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    target.threads_per_multiprocessor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
    target.blocks_per_multiprocessor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?;
    target.shared_per_block = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    target.shared_per_multiprocessor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
    target.shared_reserved = attribute(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?;
    target.l2 = attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64;
    Ok(target)
}

/// The version in what the kernel module says of itself: the first word of numbers with dots.
#[cfg(feature = "tune")]
fn version_in(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.') && !word.ends_with('.');
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_string)
}

#[cfg(all(test, feature = "tune"))]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_version_is_read() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder)\nGCC version: 12.2.0";
        assert_eq!(version_in(open).as_deref(), Some("570.86.15"));
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023";
        assert_eq!(version_in(closed).as_deref(), Some("535.129.03"));
        assert_eq!(version_in(""), None);
    }
}
