//! Memory: the callers' buffers, and the tensors and views on them.

use super::EvalRef;

/// Marks an element without an address.
pub(super) const ABSENT: i64 = i64::MIN;

/// A tensor argument.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    /// Which buffer.
    pub buffer: usize,
    /// Byte of element (0, 0, ..).
    pub offset: i64,
    /// First byte that belongs to it, and one past the last.
    pub span: (i64, i64),
}

impl Tensor {
    /// The memory that an argument describes, or why it doesn't fit its buffer.
    pub fn new(arg: &EvalRef, size: usize, buffers: &[&mut [u8]]) -> Result<Option<Tensor>, String> {
        let EvalRef::Tensor { buffer, offset, shape } = arg else { return Ok(None) };
        let (offset, size) = (*offset as i64, size as i64);
        let reach = |sign: i64| -> i64 { shape.lens.iter().zip(&shape.strides).map(|(l, s)| ((l - 1) * s * sign).max(0)).sum() };
        let span = if shape.numel() == 0 { (offset, offset) } else { (offset - reach(-1) * size, offset + (reach(1) + 1) * size) };
        let len = buffers[*buffer].len() as i64;
        if span.0 < 0 || span.1 > len {
            let (lens, strides) = (&shape.lens, &shape.strides);
            return Err(format!("shape {lens:?} with strides {strides:?} needs bytes {}..{} of {len}", span.0, span.1));
        }
        Ok(Some(Tensor { buffer: *buffer, offset, span }))
    }
}

/// A view with its numbers.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Which buffer.
    pub buffer: usize,
    /// Byte of element (0, 0, ..).
    pub start: i64,
    /// Bytes of the tensor.
    pub span: (i64, i64),
    /// Bytes of an element.
    pub size: i64,
    /// Extents.
    pub lens: Vec<i64>,
    /// Bytes between neighbours.
    pub strides: Vec<i64>,
}

impl Window {
    /// Contribution of a coordinate along an axis to the address, or [`ABSENT`].
    pub fn step(&self, axis: usize, at: i64) -> i64 {
        if (0..self.lens[axis]).contains(&at) { at * self.strides[axis] } else { ABSENT }
    }

    /// The first address outside of the tensor, if there is one.
    pub fn outside(&self, addresses: &[i64]) -> Option<i64> {
        let inside = self.span.0..=self.span.1 - self.size;
        addresses.iter().copied().find(|a| *a != ABSENT && !inside.contains(a))
    }

    /// The bit pattern at an address.
    pub fn read(&self, buffers: &[&mut [u8]], address: i64) -> u64 {
        let bytes = &buffers[self.buffer][address as usize..];
        match self.size {
            1 => bytes[0] as u64,
            2 => u16::from_le_bytes([bytes[0], bytes[1]]) as u64,
            4 => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as u64,
            _ => u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")),
        }
    }

    /// Sets the bit pattern at an address.
    pub fn write(&self, buffers: &mut [&mut [u8]], address: i64, bits: u64) {
        let size = self.size as usize;
        buffers[self.buffer][address as usize..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// Adds one axis to row-major addresses.
pub(super) fn extend(addresses: &[i64], steps: &[i64]) -> Vec<i64> {
    let mut all = Vec::with_capacity(addresses.len() * steps.len());
    for a in addresses {
        all.extend(steps.iter().map(|s| if *a == ABSENT || *s == ABSENT { ABSENT } else { a + s }));
    }
    all
}
