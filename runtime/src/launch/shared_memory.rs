//! Memory that the host and the GPU both reach: page-locked memory of the host, which the GPU copies without the processor's help and kernels may
//! read where it lies, and managed memory, whose pages move to whoever touches them.

use crate::device::Device;
use crate::error::Error;
use crate::launch::stream::Stream;
use crate::launch::tensor::{DeviceTensor, from_bytes, to_bytes};
use girih_core::lang::elem::Elem;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// What kind of memory it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Page-locked memory of the host.
    Pinned,
    /// Pages that move.
    Managed,
}

/// Memory that both reach. It is freed with the last clone, once nothing that was queued uses it.
pub(crate) struct SharedMemory {
    device: Device,
    kind: Kind,
    address: u64,
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        match (&self.device, self.kind) {
            (Device::Cuda(d), Kind::Pinned) => d.free_pinned(self.address),
            (Device::Cuda(d), Kind::Managed) => d.free_managed(self.address),
            (Device::Sim(d), _) => d.release(self.address),
        }
    }
}

/// Elements in memory that the host and the GPU both reach ([`Stream::pinned`], [`Stream::managed`]).
///
/// Reads and writes of the host wait for what is queued on the stream that they name; what is queued elsewhere has to be waited for there, or by
/// an event.
pub struct Shared<T> {
    memory: Arc<SharedMemory>,
    len: usize,
    elem: PhantomData<fn() -> T>,
}

impl<T: Elem> Shared<T> {
    pub(crate) fn new(device: &Device, kind: Kind, len: usize) -> Result<Shared<T>, Error> {
        let bytes = len * T::DTYPE.size();
        let address = match (device, kind) {
            (Device::Cuda(d), Kind::Pinned) => d.alloc_pinned(bytes)?,
            (Device::Cuda(d), Kind::Managed) => d.alloc_managed(bytes)?,
            // The simulator has one memory.
            (Device::Sim(d), _) => d.alloc(bytes)?,
        };
        let memory = Arc::new(SharedMemory { device: device.clone(), kind, address });
        let shared = Shared { memory, len, elem: PhantomData };
        shared.put(device, 0, &vec![0; bytes])?;
        Ok(shared)
    }

    /// Its elements' number.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes elements from number `at` on, behind all that is queued on the stream.
    ///
    /// # Errors
    /// They are more than there is room for; what was queued has failed.
    pub fn write(&mut self, stream: &Stream, at: usize, data: &[T]) -> Result<(), Error> {
        let place = self.place(at..at + data.len())?;
        self.put(stream.device(), place, &to_bytes(data))
    }

    /// Reads elements, behind all that is queued on the stream.
    ///
    /// # Errors
    /// There are not so many; what was queued has failed.
    pub fn read(&self, stream: &Stream, range: Range<usize>) -> Result<Vec<T>, Error> {
        let mut bytes = vec![0; range.len() * T::DTYPE.size()];
        let address = self.memory.address + self.place(range)? as u64;
        match stream.device() {
            Device::Cuda(d) => d.read_shared(address, &mut bytes)?,
            Device::Sim(d) => d.read_at(address, &mut bytes)?,
        }
        Ok(from_bytes(&bytes))
    }

    /// A packed tensor of its first elements, which kernels read and write where they lie. It keeps the memory alive.
    ///
    /// # Errors
    /// There are not so many elements.
    pub fn tensor<const N: usize>(&self, lens: [usize; N]) -> Result<DeviceTensor<T, N>, Error> {
        self.place(0..lens.iter().product())?;
        Ok(DeviceTensor::shared(self.memory.address, lens, self.memory.clone()))
    }

    /// Where these elements lie, in the address space of the device, and their bytes.
    pub(crate) fn span(&self, range: Range<usize>) -> Result<(u64, usize), Error> {
        let bytes = range.len() * T::DTYPE.size();
        Ok((self.memory.address + self.place(range)? as u64, bytes))
    }

    /// Whether its pages move.
    pub(crate) fn is_managed(&self) -> bool {
        self.memory.kind == Kind::Managed
    }

    /// The first byte of these elements.
    fn place(&self, range: Range<usize>) -> Result<usize, Error> {
        match range.start <= range.end && range.end <= self.len {
            true => Ok(range.start * T::DTYPE.size()),
            false => Err(Error::Buffer(format!("elements {}..{} of {} in memory of the host", range.start, range.end, self.len))),
        }
    }

    fn put(&self, device: &Device, place: usize, bytes: &[u8]) -> Result<(), Error> {
        let address = self.memory.address + place as u64;
        match device {
            Device::Cuda(d) => d.write_shared(address, bytes),
            Device::Sim(d) => d.write_at(address, bytes),
        }
    }
}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Shared({:?}, {} elements)", self.memory.kind, self.len)
    }
}
