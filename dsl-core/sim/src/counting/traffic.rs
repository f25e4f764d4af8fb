//! What accesses touch: sectors, banks, and what a block has touched before.

use crate::counters;
use crate::warp::{Lanes, active_lanes};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A fast hash of numbers that nobody chooses to be hard (the multiplication of FxHash).
#[derive(Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95);
    }
}

type Map<V> = HashMap<u64, V, BuildHasherDefault<Mixed>>;

/// Distinct 32-byte sectors of an access.
pub(super) struct Sectors {
    all: [u64; 64],
    len: usize,
}

impl Sectors {
    /// Under accesses of `bytes` bytes at the addresses of the lanes.
    pub fn of(addresses: &Lanes, lanes: u32, bytes: u32) -> Sectors {
        let mut found = Sectors { all: [0; 64], len: 0 };
        for lane in active_lanes(lanes) {
            let (first, last) = (addresses[lane] >> 5, (addresses[lane] + u64::from(bytes) - 1) >> 5);
            for sector in first..=last {
                if !found.list().iter().rev().any(|s| *s == sector) {
                    found.all[found.len] = sector;
                    found.len += 1;
                }
            }
        }
        found
    }

    pub fn list(&self) -> &[u64] {
        &self.all[..self.len]
    }

    /// Lines of four sectors.
    pub fn lines(&self) -> usize {
        let list = self.list();
        (0..list.len()).filter(|i| !list[..*i].iter().rev().any(|before| before >> 2 == list[*i] >> 2)).count()
    }

    /// Those of which less than all bytes are touched.
    pub fn partial(&self, addresses: &Lanes, lanes: u32, bytes: u32) -> usize {
        // Lanes store to places of their own.
        if lanes.count_ones() as usize * bytes as usize == 32 * self.len {
            return 0;
        }
        let mut touched = [0u32; 64];
        for lane in active_lanes(lanes) {
            for at in (addresses[lane]..addresses[lane] + u64::from(bytes)).step_by(bytes.min(4) as usize) {
                if let Some(i) = self.list().iter().position(|s| *s == at >> 5) {
                    let unit = bytes.min(4);
                    touched[i] |= (u32::MAX >> (32 - unit)) << (at % 32);
                }
            }
        }
        touched[..self.len].iter().filter(|t| **t != u32::MAX).count()
    }
}

/// Sectors that a block has touched, by parameter: read and written, 64 in a page.
#[derive(Default)]
pub(super) struct Touched {
    pages: Map<[u64; 2]>,
}

impl Touched {
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// Notes an access; how many sectors are read, and written, for the first time, and whether all were touched before.
    pub fn note(&mut self, param: usize, sectors: &[u64], reads: bool, writes: bool) -> ([f64; 2], bool) {
        let (mut fresh, mut known) = ([0.0; 2], true);
        for sector in sectors {
            let page = self.pages.entry((param as u64) << 52 | sector >> 6).or_default();
            let bit = 1 << (sector % 64);
            known &= (page[0] | page[1]) & bit != 0;
            for (side, touches) in [reads, writes].into_iter().enumerate() {
                if touches && page[side] & bit == 0 {
                    page[side] |= bit;
                    fresh[side] += 1.0;
                }
            }
        }
        (fresh, known)
    }

    /// Whether a sector was read or written.
    pub fn has(&self, param: usize, sector: u64) -> bool {
        let page = self.pages.get(&((param as u64) << 52 | sector >> 6));
        page.is_some_and(|[read, written]| (read | written) >> (sector % 64) & 1 == 1)
    }

    /// Adds another block's.
    pub fn add(&mut self, other: &Touched) {
        for (key, bits) in &other.pages {
            let page = self.pages.entry(*key).or_default();
            (page[0], page[1]) = (page[0] | bits[0], page[1] | bits[1]);
        }
    }

    /// By parameter and page: 64 sectors that were read, and written.
    pub fn pages(&self) -> impl Iterator<Item = (usize, u64, [u64; 2])> {
        self.pages.iter().map(|(key, bits)| ((key >> 52) as usize, key & ((1 << 52) - 1), *bits))
    }
}

/// Passes through the banks of shared memory; patterns that were seen before are looked up.
#[derive(Default)]
pub(super) struct Banks {
    known: Map<(f64, f64)>,
}

impl Banks {
    /// Wavefronts of an access, and those of them that its amount of data does not need.
    pub fn wavefronts(&mut self, addresses: &Lanes, lanes: u32, bytes: u32) -> (f64, f64) {
        if lanes == u32::MAX {
            let first = addresses[0];
            if addresses.iter().all(|a| *a == first) {
                return (1.0, 0.0);
            }
            let stride = u64::from(bytes);
            if bytes.is_power_of_two() && bytes >= 4 && first.is_multiple_of(stride) {
                let neighbours = addresses.iter().zip(0..).all(|(a, i)| *a == first + i * stride);
                if neighbours && first.is_multiple_of(128) {
                    return (f64::from(bytes) / 4.0, 0.0);
                }
            }
        }
        let base = active_lanes(lanes).map(|lane| addresses[lane]).min().unwrap_or(0) & !127;
        let mut hash = Mixed::default();
        hash.write_u64(u64::from(lanes) << 8 | u64::from(bytes));
        active_lanes(lanes).for_each(|lane| hash.write_u64(addresses[lane] - base));
        *self.known.entry(hash.finish()).or_insert_with(|| {
            let (wavefronts, conflicts) = counters::wavefronts(addresses, lanes, bytes);
            (wavefronts as f64, conflicts as f64)
        })
    }
}
