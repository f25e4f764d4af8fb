//! Results that are compared where they lie: gigabytes take longer to download than most searches wait.

use crate::device::Device;
use crate::device::buffer::Buffer;
use crate::device::cuda::Text;
use crate::error::Error;
use crate::subject::inputs::{Elements, float_format};
use girih_core::types::DType;

/// The kernel. Products and sums are rounded one by one, as on the host.
pub const DIFFER: Text = Text { function: "girih_differ", source: include_str!("differ.cu"), flags: &["--fmad=false"] };

/// What elements may differ by: floats by `absolute + relative · |expected|`, integers not at all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// As it is.
    pub absolute: f64,
    /// Times the expected value's size.
    pub relative: f64,
}

/// How many elements in a buffer, from a byte on, differ from those that lie elsewhere on the same GPU; nothing where one of them does not lie on a
/// GPU. Waits.
pub(super) fn count(
    device: &Device,
    (buffer, offset): (&Buffer, usize),
    expected: &Elements,
    allowed: Tolerance,
) -> Result<Option<u64>, Error> {
    let (Device::Cuda(gpu), Some(there)) = (device, expected.address()) else { return Ok(None) };
    let differing = device.alloc(8)?;
    device.fill(&differing, 0, 8, &[0])?;
    let after = buffer.range(offset, expected.bytes())?;
    let words = [differing.address(), after, there].into_iter().chain(words(expected.dtype, expected.numel(), allowed));
    gpu.launch_text(&DIFFER, expected.numel(), &words.collect::<Vec<u64>>())?;
    let mut count = [0; 8];
    device.download(&differing, 0, &mut count)?;
    Ok(Some(u64::from_le_bytes(count)))
}

/// The kernel's arguments behind the three addresses, each in the low bytes of a word.
pub fn words(dtype: DType, count: usize, allowed: Tolerance) -> [u64; 6] {
    let (exponent, mantissa) = float_format(dtype);
    [count as u64, dtype.size() as u64, exponent, mantissa, allowed.absolute.to_bits(), allowed.relative.to_bits()]
}
