//! Inputs that a GPU draws itself, the same bits as the host's: uploading gigabytes takes longer than most searches wait.

use super::{CHUNK, Distribution};
use crate::device::cuda::{CudaDevice, Text};
use crate::error::Error;
use girih_core::types::DType;

/// The kernel. Products and sums are rounded one by one, as on the host.
pub const DRAW: Text = Text { function: "girih_draw", source: include_str!("draw.cu"), flags: &["--fmad=false"] };

/// Integers up to here are floats of 64 bits.
const EXACT: u64 = 1 << 53;

/// Draws so many elements of a type at an address, or says no where this distribution is the host's alone. Queued.
pub(super) fn draw(
    device: &CudaDevice,
    address: u64,
    (dtype, count): (DType, usize),
    distribution: &Distribution,
    seed: u64,
) -> Result<bool, Error> {
    let Some(words) = words(dtype, count, distribution, seed) else { return Ok(false) };
    let words: Vec<u64> = [address].into_iter().chain(words).collect();
    device.launch_text(&DRAW, count, &words).map(|()| true)
}

/// The kernel's arguments behind the address, each in the low bytes of a word; nothing where it cannot draw that: formulas are the host's, floats of
/// any bits are drawn until they are finite, and floats that become integers are nobody's input.
pub fn words(dtype: DType, count: usize, distribution: &Distribution, seed: u64) -> Option<[u64; 12]> {
    const { assert!(CHUNK == 1 << 18, "draw.cu has the same chunks") };
    let (exponent, mantissa) = float_format(dtype);
    let floats = |low: f64, high: f64, density: f64| dtype.is_float().then_some(([low, high, density], [0, 1]));
    let (kind, (values, whole)) = match distribution {
        Distribution::Uniform(low, high) => (0, floats(*low, *high, 1.0)?),
        Distribution::Integers(low, high) => {
            let exact = !dtype.is_float() || low.unsigned_abs().max(high.unsigned_abs()) <= EXACT;
            // One more than the largest difference is no number of 64 bits.
            let span = high.wrapping_sub(*low) as u64;
            (1, (exact && span < u64::MAX).then(|| ([0.0; 3], [*low as u64, span + 1]))?)
        }
        Distribution::Bits => (2, (!dtype.is_float()).then_some(([0.0; 3], [0, 1]))?),
        Distribution::Normal(mean, deviation) => (3, floats(*mean, *deviation, 1.0)?),
        Distribution::Sparse(low, high, density) => (4, floats(*low, *high, *density)?),
        Distribution::Formula(_) | Distribution::Below(_) => return None,
    };
    let [low, high, density] = values.map(f64::to_bits);
    let boolean = (dtype == DType::Bool) as u64;
    Some([count as u64, seed, kind, dtype.size() as u64, exponent, mantissa, boolean, low, high, density, whole[0], whole[1]])
}

/// Bits of a float's exponent and mantissa; 0 of what is no float.
pub(crate) fn float_format(dtype: DType) -> (u64, u64) {
    match dtype {
        DType::F8E4M3 => (4, 3),
        DType::F8E5M2 => (5, 2),
        DType::F16 => (5, 10),
        DType::BF16 => (8, 7),
        DType::F32 => (8, 23),
        DType::Bool | DType::I8 | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => (0, 0),
    }
}
