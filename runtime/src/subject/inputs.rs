//! Tensors on the host and the random data that checks, tuning and benchmarks fill them with.
//!
//! Everything is seeded: the same seed gives the same data on every machine.

mod elements;
pub mod on_gpu;
mod rng;

pub use elements::{Elements, Values};
pub(crate) use on_gpu::float_format;
pub use rng::Rng;

use girih_core::types::{DType, Literal};
use std::sync::Mutex;

/// A tensor in host memory.
#[derive(Clone, PartialEq, Debug)]
pub struct HostTensor {
    /// Element type.
    pub dtype: DType,
    /// Lengths; row-major without gaps.
    pub lens: Vec<i64>,
    /// The elements' bytes, little-endian.
    pub bytes: Vec<u8>,
}

impl HostTensor {
    /// All bytes zero.
    pub fn zeros(dtype: DType, lens: &[i64]) -> HostTensor {
        HostTensor::filled(dtype, lens, 0)
    }

    /// Every byte set to [`POISON`]: what outputs hold before a kernel runs, so that an element that nobody wrote is seen.
    pub fn poisoned(dtype: DType, lens: &[i64]) -> HostTensor {
        HostTensor::filled(dtype, lens, POISON)
    }

    fn filled(dtype: DType, lens: &[i64], byte: u8) -> HostTensor {
        let numel: i64 = lens.iter().product();
        HostTensor { dtype, lens: lens.to_vec(), bytes: vec![byte; numel as usize * dtype.size()] }
    }

    /// Random elements. The same `seed` gives the same elements.
    pub fn random(dtype: DType, lens: &[i64], distribution: &Distribution, seed: u64) -> HostTensor {
        let mut tensor = HostTensor::zeros(dtype, lens);
        let size = dtype.size();
        let fill = |chunk: usize, bytes: &mut [u8]| fill_chunk(dtype, lens, distribution, seed, (chunk, bytes));
        let mut bytes = std::mem::take(&mut tensor.bytes);
        let chunks = Mutex::new(bytes.chunks_mut(CHUNK * size).enumerate());
        let next = || chunks.lock().expect("no panic while drawing").next();
        let threads = if lens.iter().product::<i64>() as usize > CHUNK { crate::cores::cores() } else { 1 };
        let work = || {
            while let Some((chunk, bytes)) = next() {
                fill(chunk, bytes);
            }
        };
        match threads {
            1 => work(),
            _ => std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work)))),
        }
        tensor.bytes = bytes;
        tensor
    }

    /// The bytes of one of the chunks, of [`CHUNK`] elements each, of which [`HostTensor::random`] is made.
    pub fn random_chunk(dtype: DType, lens: &[i64], distribution: &Distribution, seed: u64, chunk: usize) -> Vec<u8> {
        let numel = lens.iter().product::<i64>() as usize;
        let mut bytes = vec![0; dtype.size() * CHUNK.min(numel.saturating_sub(chunk * CHUNK))];
        fill_chunk(dtype, lens, distribution, seed, (chunk, &mut bytes));
        bytes
    }

    /// Elements.
    pub fn numel(&self) -> usize {
        self.lens.iter().product::<i64>() as usize
    }

    /// Element `i` in row-major order as its bit pattern, zero-extended.
    pub fn bits(&self, i: usize) -> u64 {
        let size = self.dtype.size();
        let at = &self.bytes[i * size..(i + 1) * size];
        let mut wide = [0u8; 8];
        wide[..size].copy_from_slice(at);
        u64::from_le_bytes(wide)
    }

    /// Sets element `i` to a bit pattern.
    pub fn set_bits(&mut self, i: usize, bits: u64) {
        let size = self.dtype.size();
        self.bytes[i * size..(i + 1) * size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }

    /// Element `i` as a float; exact but for 64-bit integers.
    pub fn get(&self, i: usize) -> f64 {
        Literal { dtype: self.dtype, bits: self.bits(i) }.to_f64()
    }

    /// Sets element `i` to the value of its type nearest to `value`.
    pub fn set(&mut self, i: usize, value: f64) {
        self.set_bits(i, Literal::from_f64(self.dtype, value).bits);
    }
}

/// Elements that one generator draws: a large tensor is filled by several threads, or only in part.
pub const CHUNK: usize = 1 << 18;

fn fill_chunk(dtype: DType, lens: &[i64], distribution: &Distribution, seed: u64, (chunk, bytes): (usize, &mut [u8])) {
    let size = dtype.size();
    let mut rng = Rng::new(seed ^ ((chunk as u64) << 32));
    for (i, element) in bytes.chunks_exact_mut(size).enumerate() {
        let bits = match distribution {
            Distribution::Formula(value) => Literal::from_f64(dtype, value(lens, chunk * CHUNK + i)).bits,
            random => random.draw(dtype, &mut rng),
        };
        element.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// The byte that outputs and guard zones are filled with: as f32 about −9·10⁻⁹, as an integer far from small numbers.
pub const POISON: u8 = 0xB2;

/// What the elements of an input are drawn from.
#[derive(Clone, Debug)]
pub enum Distribution {
    /// Uniform floats in `[low, high)`, rounded to the element type.
    Uniform(f64, f64),
    /// Uniform integers in `low..=high`, stored as the element type (floats hold them exactly up to 2²⁴).
    Integers(i64, i64),
    /// Every bit pattern alike (floats: of finite values).
    Bits,
    /// Normal with this mean and standard deviation, rounded to the element type.
    Normal(f64, f64),
    /// Uniform floats in `[low, high)`, kept with a probability and 0 otherwise.
    Sparse(f64, f64, f64),
    /// Not random: the value of element `i` (row-major) of a tensor with these lengths.
    Formula(fn(&[i64], usize) -> f64),
    /// Uniform integers from 0 to below the value of a scalar of the signature: labels of as many classes.
    Below(&'static str),
}

impl Distribution {
    /// What a tensor gets that no challenge describes: floats in [−8, 8), whole small integers, any byte.
    pub fn default_of(dtype: DType) -> Distribution {
        match dtype {
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => Distribution::Uniform(-8.0, 8.0),
            DType::Bool => Distribution::Integers(0, 1),
            DType::U8 | DType::I8 => Distribution::Bits,
            DType::I32 | DType::U32 | DType::I64 | DType::U64 => Distribution::Integers(0, 1000),
        }
    }

    /// The distribution where the signature's scalars have these values.
    pub fn at(&self, value: impl Fn(&str) -> f64) -> Distribution {
        match self {
            Distribution::Below(scalar) => Distribution::Integers(0, (value(scalar) as i64 - 1).max(0)),
            other => other.clone(),
        }
    }

    /// One element's bit pattern, of the first element where a formula says which.
    pub fn draw(&self, dtype: DType, rng: &mut Rng) -> u64 {
        match self {
            Distribution::Uniform(low, high) => Literal::from_f64(dtype, low + (high - low) * rng.unit()).bits,
            Distribution::Integers(low, high) => {
                let span = (high - low) as u64 + 1;
                Literal::from_i64(dtype, low + (rng.next_u64() % span) as i64).bits
            }
            Distribution::Normal(mean, deviation) => Literal::from_f64(dtype, mean + deviation * rng.normal()).bits,
            Distribution::Sparse(low, high, density) => {
                let value = low + (high - low) * rng.unit();
                Literal::from_f64(dtype, if rng.unit() < *density { value } else { 0.0 }).bits
            }
            Distribution::Formula(value) => Literal::from_f64(dtype, value(&[1], 0)).bits,
            Distribution::Below(scalar) => panic!("inputs: drawn before the value of `{scalar}` was known"),
            Distribution::Bits => loop {
                let bits = rng.next_u64() & (u64::MAX >> (64 - 8 * dtype.size()));
                let literal = Literal { dtype, bits: if dtype == DType::Bool { bits & 1 } else { bits } };
                if !dtype.is_float() || literal.to_f64().is_finite() {
                    break literal.bits;
                }
            },
        }
    }
}

/// Uniform floats in `[low, high)`.
pub fn uniform(low: f64, high: f64) -> Distribution {
    Distribution::Uniform(low, high)
}

/// Uniform integers in `low..=high`.
pub fn integers(low: i64, high: i64) -> Distribution {
    Distribution::Integers(low, high)
}

/// Normally distributed floats.
pub fn normal(mean: f64, deviation: f64) -> Distribution {
    Distribution::Normal(mean, deviation)
}

/// Uniform floats in `[low, high)`, of which all but a share of `density` are 0.
pub fn sparse(low: f64, high: f64, density: f64) -> Distribution {
    Distribution::Sparse(low, high, density)
}

/// The value of element `i` (row-major) of a tensor, from its lengths and `i`.
pub fn formula(value: fn(&[i64], usize) -> f64) -> Distribution {
    Distribution::Formula(value)
}

/// Uniform integers from 0 to below the value of a scalar of the signature.
pub fn below(scalar: &'static str) -> Distribution {
    Distribution::Below(scalar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_data_is_seeded_and_in_range() {
        let a = HostTensor::random(DType::F32, &[100], &uniform(-2.0, 3.0), 7);
        assert_eq!(a, HostTensor::random(DType::F32, &[100], &uniform(-2.0, 3.0), 7));
        assert_ne!(a, HostTensor::random(DType::F32, &[100], &uniform(-2.0, 3.0), 8));
        assert!((0..100).all(|i| (-2.0..3.0).contains(&a.get(i))));
        let b = HostTensor::random(DType::I32, &[1000], &integers(-1, 1), 1);
        let mut seen: Vec<i64> = (0..1000).map(|i| b.get(i) as i64).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [-1, 0, 1]);
    }

    #[test]
    fn normal_and_sparse_data_have_their_moments() {
        let moments = |d: &Distribution| {
            let t = HostTensor::random(DType::F32, &[20_000], d, 3);
            let mean = (0..20_000).map(|i| t.get(i)).sum::<f64>() / 2e4;
            (mean, (0..20_000).map(|i| (t.get(i) - mean).powi(2)).sum::<f64>() / 2e4)
        };
        let (mean, variance) = moments(&normal(1.0, 2.0));
        assert!((mean - 1.0).abs() < 0.05 && (variance - 4.0).abs() < 0.2, "{mean} {variance}");
        let t = HostTensor::random(DType::F32, &[20_000], &sparse(1.0, 2.0, 0.35), 3);
        let kept = (0..20_000).filter(|i| t.get(*i) != 0.0).count();
        assert!((6_700..7_300).contains(&kept), "{kept}");
    }

    #[test]
    fn formulas_see_lengths_and_positions() {
        let t = HostTensor::random(DType::F32, &[2, 3], &formula(|lens, i| (i as i64 / lens[1] * 10 + i as i64 % lens[1]) as f64), 0);
        assert_eq!((0..6).map(|i| t.get(i)).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
    }

    #[test]
    fn elements_keep_their_bits() {
        for dtype in DType::ALL {
            let mut t = HostTensor::zeros(dtype, &[2, 3]);
            t.set(4, 1.0);
            assert_eq!((t.get(4), t.get(3), t.get(5)), (1.0, 0.0, 0.0), "{dtype}");
        }
    }
}
