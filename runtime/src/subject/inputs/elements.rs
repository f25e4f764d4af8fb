//! The elements of an argument before a call: described first, and drawn where somebody looks at them.

use super::on_gpu;
use super::{CHUNK, Distribution, HostTensor};
use crate::device::Device;
use crate::device::buffer::Buffer;
use crate::error::Error;
use girih_core::types::{DType, Literal};
use std::sync::{Arc, OnceLock};

/// The elements of an argument before a call. A GPU draws its own; on the host they are drawn once, where somebody looks at them, and a large
/// tensor in parts. Clones share what was drawn.
#[derive(Clone, Debug)]
pub struct Elements {
    /// Element type.
    pub dtype: DType,
    /// Lengths; row-major without gaps.
    pub lens: Vec<i64>,
    origin: Origin,
    drawn: Arc<Drawn>,
}

#[derive(Clone, Debug)]
enum Origin {
    /// They were there from the beginning.
    Given,
    /// They hold nothing: poison.
    Poison,
    Random(Distribution, u64),
    /// They lie there, on a device, and are downloaded through this one's stream.
    OnDevice(Buffer, Device),
}

/// Bytes up to which a tensor on a device is downloaded as a whole.
const WHOLE: usize = 1 << 20;

/// What has been drawn on the host.
#[derive(Debug, Default)]
struct Drawn {
    whole: OnceLock<HostTensor>,
    /// Of a tensor of several chunks, these.
    chunks: Vec<OnceLock<Vec<u8>>>,
}

impl From<HostTensor> for Elements {
    fn from(tensor: HostTensor) -> Elements {
        let (dtype, lens) = (tensor.dtype, tensor.lens.clone());
        Elements { dtype, lens, origin: Origin::Given, drawn: Arc::new(Drawn { whole: tensor.into(), chunks: Vec::new() }) }
    }
}

impl Elements {
    /// Of a tensor that nobody reads before it was stored to: [`HostTensor::poisoned`].
    pub fn poison(dtype: DType, lens: &[i64]) -> Elements {
        Elements { dtype, lens: lens.to_vec(), origin: Origin::Poison, drawn: Arc::default() }
    }

    /// [`HostTensor::random`].
    pub fn random(dtype: DType, lens: &[i64], distribution: &Distribution, seed: u64) -> Elements {
        let chunks = (lens.iter().product::<i64>() as usize).div_ceil(CHUNK);
        let chunks = if chunks > 1 { (0..chunks).map(|_| OnceLock::new()).collect() } else { Vec::new() };
        let origin = Origin::Random(distribution.clone(), seed);
        Elements { dtype, lens: lens.to_vec(), origin, drawn: Arc::new(Drawn { whole: OnceLock::new(), chunks }) }
    }

    /// Of a tensor that fills memory of a device; `reader` is the same device, maybe with another stream.
    pub(crate) fn on_device(dtype: DType, lens: &[i64], buffer: Buffer, reader: &Device) -> Elements {
        Elements { dtype, lens: lens.to_vec(), origin: Origin::OnDevice(buffer, reader.clone()), drawn: Arc::default() }
    }

    /// Where they lie on a device.
    pub(crate) fn address(&self) -> Option<u64> {
        if let Origin::OnDevice(buffer, _) = &self.origin { Some(buffer.address()) } else { None }
    }

    /// How many.
    pub fn numel(&self) -> usize {
        self.lens.iter().product::<i64>() as usize
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.numel() * self.dtype.size()
    }

    /// All of them, on the host.
    pub fn host(&self) -> &HostTensor {
        self.drawn.whole.get_or_init(|| match &self.origin {
            Origin::Given => unreachable!("inputs: given elements are there from the beginning"),
            Origin::Poison => HostTensor::poisoned(self.dtype, &self.lens),
            Origin::Random(distribution, seed) => HostTensor::random(self.dtype, &self.lens, distribution, *seed),
            Origin::OnDevice(buffer, reader) => {
                let mut tensor = HostTensor::zeros(self.dtype, &self.lens);
                downloaded(reader, buffer.address(), &mut tensor.bytes);
                tensor
            }
        })
    }

    /// Element `i` as a float; exact but for 64-bit integers. Of a large tensor, only the elements around it are drawn.
    pub fn get(&self, i: usize) -> f64 {
        let size = self.dtype.size();
        let bits = self.word((i * size) as u64, size).unwrap_or_else(|| panic!("inputs: element {i} of {:?}", self.lens));
        Literal { dtype: self.dtype, bits }.to_f64()
    }

    /// The `size` bytes, 8 at most, from byte `at` on, little-endian; nothing where there are fewer. As [`Elements::get`], only what is around
    /// them is drawn.
    pub fn word(&self, at: u64, size: usize) -> Option<u64> {
        let (at, mut word) = (usize::try_from(at).ok()?, [0; 8]);
        if let Origin::OnDevice(buffer, reader) = &self.origin
            && self.bytes() > WHOLE
        {
            downloaded(reader, buffer.range(at, size).ok()?, &mut word[..size]);
            return Some(u64::from_le_bytes(word));
        }
        let (bytes, at) = match &self.origin {
            Origin::Random(distribution, seed) if self.drawn.whole.get().is_none() && !self.drawn.chunks.is_empty() => {
                let (long, number) = (CHUNK * self.dtype.size(), at / (CHUNK * self.dtype.size()));
                let draw = || HostTensor::random_chunk(self.dtype, &self.lens, distribution, *seed, number);
                (self.drawn.chunks.get(number)?.get_or_init(draw), at % long)
            }
            _ => (&self.host().bytes, at),
        };
        word[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
        Some(u64::from_le_bytes(word))
    }

    /// Writes them to a buffer from byte `offset` on: a GPU draws them where they are to be.
    pub(crate) fn place(&self, device: &Device, buffer: &Buffer, offset: usize) -> Result<(), Error> {
        if let (Device::Cuda(gpu), Origin::Random(distribution, seed)) = (device, &self.origin)
            && on_gpu::draw(gpu, buffer.range(offset, self.bytes())?, (self.dtype, self.numel()), distribution, *seed)?
        {
            return Ok(());
        }
        device.upload(buffer, offset, &self.host().bytes)
    }
}

/// Reads memory of a device. Who looks at elements has no way to hear of a device that is lost, and neither has a use for anything then.
fn downloaded(reader: &Device, address: u64, bytes: &mut [u8]) {
    reader.read_at(address, bytes).unwrap_or_else(|e| panic!("what a call left could not be read: {e}"));
}

/// Elements of a tensor, wherever they lie.
pub trait Values {
    /// Element `i` as a float; exact but for 64-bit integers.
    fn value(&self, i: usize) -> f64;
    /// All of them, on the host.
    fn tensor(&self) -> &HostTensor;
}

impl Values for HostTensor {
    fn value(&self, i: usize) -> f64 {
        self.get(i)
    }
    fn tensor(&self) -> &HostTensor {
        self
    }
}

impl Values for Elements {
    fn value(&self, i: usize) -> f64 {
        self.get(i)
    }
    fn tensor(&self) -> &HostTensor {
        self.host()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::inputs::uniform;

    #[test]
    fn elements_are_drawn_where_they_are_looked_at() {
        let lens = [3, CHUNK as i64];
        let all = HostTensor::random(DType::F32, &lens, &uniform(0.0, 1.0), 3);
        let elements = Elements::random(DType::F32, &lens, &uniform(0.0, 1.0), 3);
        assert_eq!(elements.get(CHUNK + 5), all.get(CHUNK + 5));
        assert_eq!(elements.word(4 * (CHUNK as u64 + 5), 8), Some(all.bits(CHUNK + 5) | all.bits(CHUNK + 6) << 32));
        assert_eq!(elements.word(4 * 3 * CHUNK as u64, 4), None);
        let drawn: Vec<bool> = elements.drawn.chunks.iter().map(|c| c.get().is_some()).collect();
        assert_eq!((drawn, elements.drawn.whole.get().is_some()), (vec![false, true, false], false));
        assert_eq!(*elements.clone().host(), all);
        assert!(elements.drawn.whole.get().is_some(), "clones share what was drawn");
    }

    #[test]
    fn given_and_absent_elements() {
        let given = HostTensor::random(DType::I64, &[7], &Distribution::Bits, 1);
        let elements = Elements::from(given.clone());
        assert_eq!((elements.word(8, 8), elements.bytes()), (Some(given.bits(1)), 56));
        assert_eq!(*Elements::poison(DType::F32, &[2]).host(), HostTensor::poisoned(DType::F32, &[2]));
    }
}
