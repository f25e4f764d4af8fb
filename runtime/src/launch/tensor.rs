//! Tensors in device memory: the arguments of typed launches.

use crate::device::Device;
use crate::device::buffer::Buffer;
use crate::error::Error;
use crate::launch::Argument;
use crate::launch::shared_memory::SharedMemory;
use girih_core::facts::{TensorArg, packed_strides};
use girih_core::lang::elem::Elem;
use girih_core::types::Literal;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A strided tensor of `N` axes in device memory.
pub struct DeviceTensor<T, const N: usize> {
    arg: TensorArg,
    memory: Memory,
    elem: PhantomData<fn() -> T>,
}

enum Memory {
    /// Kept alive by the tensor.
    Owned(Buffer),
    /// Alive while the flag is set.
    Borrowed(Arc<AtomicBool>),
    /// Memory that the host reaches, too; kept alive by the tensor.
    Shared { _memory: Arc<SharedMemory> },
}

/// Lengths with their strides, packed unless given.
pub(crate) fn shape<const N: usize>(address: u64, lens: [usize; N], strides: Option<[i64; N]>) -> TensorArg {
    let lens: Vec<i64> = lens.iter().map(|l| *l as i64).collect();
    let strides = strides.map_or_else(|| packed_strides(&lens), |s| s.to_vec());
    TensorArg { address, lens, strides }
}

/// The first element and one past the last that a tensor reaches, relative to its pointer. `(0, 0)` if it has no elements.
pub(crate) fn extent(arg: &TensorArg) -> (i64, i64) {
    if arg.lens.contains(&0) {
        return (0, 0);
    }
    let reach = |sign: i64| -> i64 {
        let ends = arg.lens.iter().zip(&arg.strides).map(|(l, s)| (l - 1).saturating_mul(*s));
        ends.filter(|e| e.signum() == sign).fold(0, i64::saturating_add)
    };
    (reach(-1), reach(1).saturating_add(1))
}

impl<T: Elem, const N: usize> DeviceTensor<T, N> {
    /// A packed tensor of zeros.
    pub fn zeros(device: &Device, lens: [usize; N]) -> Result<DeviceTensor<T, N>, Error> {
        let bytes = lens.iter().product::<usize>() * T::DTYPE.size();
        let buffer = device.alloc(bytes)?;
        device.fill(&buffer, 0, bytes, &[0])?;
        DeviceTensor::in_buffer(&buffer, 0, lens)
    }

    /// A packed tensor with these elements, in row-major order.
    pub fn from_slice(device: &Device, data: &[T], lens: [usize; N]) -> Result<DeviceTensor<T, N>, Error> {
        if data.len() != lens.iter().product::<usize>() {
            return Err(Error::Buffer(format!("{} elements do not fill a tensor of shape {lens:?}", data.len())));
        }
        let buffer = device.alloc(data.len() * T::DTYPE.size())?;
        device.upload(&buffer, 0, &to_bytes(data))?;
        DeviceTensor::in_buffer(&buffer, 0, lens)
    }

    /// A packed tensor from byte `offset` of a buffer on, which it keeps alive.
    pub fn in_buffer(buffer: &Buffer, offset: usize, lens: [usize; N]) -> Result<DeviceTensor<T, N>, Error> {
        DeviceTensor::in_buffer_strided(buffer, offset, lens, None)
    }

    /// As [`DeviceTensor::in_buffer`], with strides in elements.
    pub fn in_buffer_strided(
        buffer: &Buffer,
        offset: usize,
        lens: [usize; N],
        strides: Option<[i64; N]>,
    ) -> Result<DeviceTensor<T, N>, Error> {
        let size = T::DTYPE.size();
        if !offset.is_multiple_of(size) {
            return Err(Error::Buffer(format!(
                "byte {offset} is no place for elements of type {}: it must be a multiple of {size}",
                T::DTYPE
            )));
        }
        let arg = shape(buffer.address() + offset as u64, lens, strides);
        let (first, end) = extent(&arg);
        let (at, size) = (offset as i64, size as i64);
        if at + first * size < 0 || at + end * size > buffer.bytes() as i64 {
            return Err(Error::Buffer(format!(
                "a tensor of shape {lens:?} at byte {offset} reaches bytes {}..{} of a buffer of {} bytes",
                at + first * size,
                at + end * size,
                buffer.bytes()
            )));
        }
        Ok(DeviceTensor { arg, memory: Memory::Owned(buffer.clone()), elem: PhantomData })
    }

    pub(crate) fn borrowed(arg: TensorArg, alive: Arc<AtomicBool>) -> DeviceTensor<T, N> {
        DeviceTensor { arg, memory: Memory::Borrowed(alive), elem: PhantomData }
    }

    /// A packed tensor in memory that the host reaches, too.
    pub(crate) fn shared(address: u64, lens: [usize; N], memory: Arc<SharedMemory>) -> DeviceTensor<T, N> {
        DeviceTensor { arg: shape(address, lens, None), memory: Memory::Shared { _memory: memory }, elem: PhantomData }
    }

    /// Where elements of a packed tensor lie, by their number in row-major order, and their bytes.
    ///
    /// # Errors
    /// The tensor is not packed, or has fewer elements, or was taken out of a borrow that has ended.
    pub(crate) fn span(&self, range: std::ops::Range<usize>) -> Result<(u64, usize), Error> {
        self.check_alive()?;
        if !self.arg.is_packed() || range.start > range.end || range.end as i64 > self.arg.numel() {
            let (lens, strides) = (&self.arg.lens, &self.arg.strides);
            return Err(Error::Buffer(format!(
                "elements {}..{} of a tensor of shape {lens:?} and strides {strides:?}: it must be packed and have as many",
                range.start, range.end
            )));
        }
        let size = T::DTYPE.size();
        Ok((self.arg.address + (range.start * size) as u64, range.len() * size))
    }

    /// The elements in row-major order, after all queued work. Strided tensors are read element by element.
    pub fn to_vec(&self, device: &Device) -> Result<Vec<T>, Error> {
        self.check_alive()?;
        let size = T::DTYPE.size();
        let mut data = vec![0; self.arg.numel() as usize * size];
        if self.arg.is_packed() {
            device.read_at(self.arg.address, &mut data)?;
            return Ok(from_bytes(&data));
        }
        for (i, element) in data.chunks_mut(size).enumerate() {
            let mut rest = i as i64;
            let mut offset = 0;
            for (len, stride) in self.arg.lens.iter().zip(&self.arg.strides).rev() {
                offset += rest % len * stride;
                rest /= len;
            }
            device.read_at((self.arg.address as i64 + offset * size as i64) as u64, element)?;
        }
        Ok(from_bytes(&data))
    }

    /// Lengths.
    pub fn lens(&self) -> &[i64] {
        &self.arg.lens
    }
    /// Strides in elements.
    pub fn strides(&self) -> &[i64] {
        &self.arg.strides
    }
    /// The buffer, unless the memory belongs to somebody else.
    pub fn buffer(&self) -> Option<&Buffer> {
        match &self.memory {
            Memory::Owned(buffer) => Some(buffer),
            Memory::Borrowed(_) | Memory::Shared { .. } => None,
        }
    }

    fn check_alive(&self) -> Result<(), Error> {
        match &self.memory {
            Memory::Borrowed(alive) if !alive.load(Ordering::Acquire) => {
                Err(Error::Buffer("this tensor was taken out of its cudarc slice, whose borrow has ended".into()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn argument(&self, mutable: bool) -> Argument {
        match self.check_alive() {
            Ok(()) => Argument::Tensor { dtype: T::DTYPE, tensor: self.arg.clone(), mutable },
            Err(_) => Argument::Dead,
        }
    }
}

/// The elements' bytes as they lie in memory.
pub fn to_bytes<T: Elem>(data: &[T]) -> Vec<u8> {
    let size = T::DTYPE.size();
    let mut bytes = Vec::with_capacity(data.len() * size);
    for value in data {
        bytes.extend_from_slice(&value.literal().bits.to_le_bytes()[..size]);
    }
    bytes
}

/// The elements of bytes from memory. A remainder shorter than an element is left out.
pub fn from_bytes<T: Elem>(bytes: &[u8]) -> Vec<T> {
    let element = |chunk: &[u8]| {
        let mut bits = [0; 8];
        bits[..chunk.len()].copy_from_slice(chunk);
        T::of_literal(Literal { dtype: T::DTYPE, bits: u64::from_le_bytes(bits) })
    };
    bytes.chunks_exact(T::DTYPE.size()).map(element).collect()
}

impl<T: Elem, const N: usize> std::fmt::Debug for DeviceTensor<T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "DeviceTensor<{}, {N}>{:?}", T::DTYPE, self.arg.lens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_follow_the_signs_of_strides() {
        let arg = |lens: &[i64], strides: &[i64]| TensorArg { address: 0, lens: lens.to_vec(), strides: strides.to_vec() };
        assert_eq!(extent(&arg(&[3, 4], &[4, 1])), (0, 12));
        assert_eq!(extent(&arg(&[3, 4], &[-4, 1])), (-8, 4));
        assert_eq!(extent(&arg(&[0, 4], &[4, 1])), (0, 0));
        assert_eq!(extent(&arg(&[5], &[0])), (0, 1));
    }

    #[test]
    fn elements_survive_as_bytes() {
        assert_eq!(from_bytes::<f32>(&to_bytes(&[1.5f32, -0.0])), vec![1.5, -0.0]);
        assert_eq!(to_bytes(&[-2i64]), (-2i64).to_le_bytes());
        assert_eq!(from_bytes::<bool>(&to_bytes(&[true, false])), vec![true, false]);
    }
}
