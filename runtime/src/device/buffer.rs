//! Device memory that frees itself.

use crate::device::Device;
use crate::error::Error;
use std::sync::Arc;

/// Memory of one device, aligned to 256 bytes. Clones share it; it is freed when the last one goes.
#[derive(Clone)]
pub struct Buffer {
    memory: Arc<Memory>,
}

struct Memory {
    device: Device,
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// Takes over `bytes` bytes at `address`, which [`Device::release`] gives back.
    pub(crate) fn own(device: &Device, address: u64, bytes: usize) -> Buffer {
        Buffer { memory: Arc::new(Memory { device: device.clone(), address, bytes }) }
    }
    /// The device it lies on.
    pub fn device(&self) -> &Device {
        &self.memory.device
    }
    /// Its first byte, in the device's address space.
    pub fn address(&self) -> u64 {
        self.memory.address
    }
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
    /// The address of byte `offset`, if `len` bytes from there lie inside.
    pub(crate) fn range(&self, offset: usize, len: usize) -> Result<u64, Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes() => Ok(self.address() + offset as u64),
            _ => Err(Error::Buffer(format!("bytes {offset}..{offset}+{len} of a buffer of {} bytes", self.bytes()))),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.device.release(self.address);
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Buffer({} bytes at {:#x} on {})", self.bytes(), self.address(), self.device().name())
    }
}
