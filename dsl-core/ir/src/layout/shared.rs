//! Where a tile's elements lie in shared memory, and what accesses to them cost: wavefronts through its banks.

use super::Layout;

/// Addresses of a tile's elements in a shared array: row-major with the last axis contiguous, rows `pitch` elements apart, and the
/// last coordinate exclusive-ored with bits of the row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedLayout {
    /// Elements from one row to the next.
    pub pitch: i64,
    /// `column ^ ((row >> shift & mask) << chunk)`; no swizzle where `mask` is 0.
    pub chunk: u32,
    /// See `chunk`.
    pub shift: u32,
    /// See `chunk`.
    pub mask: i64,
}

/// One side of a conversion: how a tile of two axes is written to or read from shared memory.
#[derive(Clone, Copy, Debug)]
pub struct SharedUse<'a> {
    /// The registers' layout.
    pub layout: &'a Layout,
    /// Elements per access along the last axis.
    pub width: i64,
}

impl SharedLayout {
    /// Rows without padding or swizzle.
    pub fn plain(columns: i64) -> SharedLayout {
        SharedLayout { pitch: columns, chunk: 0, shift: 0, mask: 0 }
    }

    /// Rows without padding in which parts of `together` bytes change places by the row, so that 128 bytes of neighbours lie in different
    /// banks, and so do parts one below the other in `meeting` rows, each `apart` rows below the last. `None` where plain rows do that, or
    /// where a row has too few parts.
    pub fn swizzled(columns: i64, bytes: i64, together: i64, [meeting, apart]: [i64; 2]) -> Option<SharedLayout> {
        // Parts change places within segments of which rows have a whole number; segments shorter than 128 bytes share lines of that
        // length, in which they move alike.
        let row = (columns * bytes).max(1);
        let segment = (1 << row.trailing_zeros()).min(128);
        let (shift, chunk) = ((128 / segment).max(apart).ilog2(), (together / bytes).max(1).ilog2());
        (segment > together).then_some(SharedLayout { pitch: columns, chunk, shift, mask: (segment / together).min(meeting) - 1 })
    }

    /// Rows after which parts lie in the same places again.
    pub fn period(&self) -> i64 {
        if self.mask == 0 { 1 } else { (self.mask + 1) << self.shift }
    }

    /// Element address of (row, column).
    pub fn address(&self, row: i64, column: i64) -> i64 {
        row * self.pitch + (column ^ (((row >> self.shift) & self.mask) << self.chunk))
    }

    /// Elements of the array for `rows` rows.
    pub fn len(&self, rows: i64) -> i64 {
        rows * self.pitch
    }

    /// No element at all: never, a tile has elements.
    pub fn is_empty(&self) -> bool {
        self.pitch == 0
    }

    /// The layout of a `rows × columns` tile of `bytes`-byte elements with the fewest wavefronts for one write and one read; ties go to no
    /// swizzle, then to less memory. Both widths must stay aligned, so padding is a multiple of the wider access.
    pub fn choose(rows: i64, columns: i64, bytes: i64, write: SharedUse, read: SharedUse) -> SharedLayout {
        let widest = write.width.max(read.width);
        // The first and the last access of each thread stand for all: the others differ by whole rows or runs.
        let sides: Vec<Vec<LaneElements>> = [write, read]
            .iter()
            .map(|side| {
                let last = side.layout.registers - side.width;
                [0, last].iter().take(if last > 0 { 2 } else { 1 }).map(|r| LaneElements::of(*side, *r)).collect()
            })
            .collect();
        let weight = |side: &SharedUse, samples: usize| (side.layout.registers / side.width) as f64 / samples as f64;
        let cost = |s: &SharedLayout| -> f64 {
            [write, read]
                .iter()
                .zip(&sides)
                .map(|(side, samples)| {
                    let waves: i64 = samples.iter().map(|e| e.wavefronts(s, side.width, bytes)).sum();
                    waves as f64 * weight(side, samples.len())
                })
                .sum()
        };
        let ideal: f64 = [write, read]
            .iter()
            .zip(&sides)
            .map(|(side, samples)| {
                let access = side.width * bytes;
                let groups = ((samples[0].lanes.len() as i64 * access.max(4) + 127) / 128).max(1);
                groups as f64 * weight(side, 1)
            })
            .sum();
        let mut best = SharedLayout::plain(columns);
        let mut least = cost(&best);
        let mut consider = |s: SharedLayout| {
            if least <= ideal {
                return;
            }
            let c = cost(&s);
            if c < least {
                (best, least) = (s, c);
            }
        };
        for pad in [1, 2, 4, 8, 16].into_iter().filter(|p| p % widest == 0) {
            consider(SharedLayout { pitch: columns + pad, ..SharedLayout::plain(columns) });
        }
        if columns > 0 && columns & (columns - 1) == 0 {
            for chunk in 0..=4u32 {
                for mask in [31i64, 15, 7, 3] {
                    for shift in 0..=4u32 {
                        if (1 << chunk) % widest == 0 && (mask + 1) << chunk <= columns && mask << shift < rows {
                            consider(SharedLayout { pitch: columns, chunk, shift, mask });
                        }
                    }
                }
            }
        }
        best
    }
}

/// Row and column of the element at which each lane of the first warp starts one access.
struct LaneElements {
    lanes: Vec<(i64, i64)>,
}

impl LaneElements {
    fn of(side: SharedUse, register: i64) -> LaneElements {
        let lanes = (0..side.layout.threads.min(32)).map(|lane| {
            let at = side.layout.coordinates(lane, register);
            (at[0], at[1])
        });
        LaneElements { lanes: lanes.collect() }
    }

    /// Wavefronts of this access: 32 banks of 4 bytes; 8-byte accesses go by half warps, 16-byte accesses by quarter warps; one word
    /// read by several lanes counts once.
    fn wavefronts(&self, shared: &SharedLayout, width: i64, bytes: i64) -> i64 {
        let starts: Vec<i64> = self.lanes.iter().map(|(row, column)| shared.address(*row, *column) * bytes).collect();
        bank_wavefronts(&starts, width * bytes)
    }
}

/// Wavefronts of one access of a warp to shared memory: each lane's first byte, and the bytes of a lane. 32 banks of 4 bytes; 8-byte
/// accesses go by half warps, 16-byte accesses by quarter warps; one word read by several lanes counts once.
pub fn bank_wavefronts(starts: &[i64], access: i64) -> i64 {
    let group = if access > 8 {
        8
    } else if access > 4 {
        16
    } else {
        32
    };
    let mut total = 0;
    for lanes in starts.chunks(group) {
        let mut words = [i64::MAX; 32];
        let mut n = 0;
        let mut banks = [0u8; 32];
        for start in lanes {
            for word in (start / 4)..=((start + access - 1) / 4) {
                if !words[..n].contains(&word) {
                    words[n] = word;
                    n += 1;
                    banks[(word & 31) as usize] += 1;
                }
            }
        }
        total += banks.iter().max().copied().unwrap_or(0) as i64;
    }
    total
}

/// Wavefronts that the first warp's accesses to all its registers take.
pub fn wavefronts(shared: &SharedLayout, side: SharedUse, bytes: i64) -> i64 {
    (0..side.layout.registers).step_by(side.width as usize).map(|r| LaneElements::of(side, r).wavefronts(shared, side.width, bytes)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Deal;

    #[test]
    fn transposes_have_no_bank_conflicts() {
        // A 64 × 64 tile of f32, written in rows by 16-byte vectors and read in columns, one element at a time.
        let rows = Layout::dealt(&Deal { shape: &[64, 64], threads: &[16, 16], order: &[1, 0], vector: 4, lanes: None, block: 256 });
        let columns = Layout::dealt(&Deal { shape: &[64, 64], threads: &[16, 16], order: &[0, 1], vector: 4, lanes: Some(8), block: 256 });
        let (write, read) = (SharedUse { layout: &rows, width: 4 }, SharedUse { layout: &columns, width: 1 });
        let shared = SharedLayout::choose(64, 64, 4, write, read);
        assert_eq!(wavefronts(&shared, read, 4), columns.registers, "{shared:?}");
        assert_eq!(wavefronts(&shared, write, 4), rows.registers / 4 * 4, "{shared:?}");
        // Bytes: a 128 × 128 tile whose rows are read and written 16 at once.
        let rows = Layout::dealt(&Deal { shape: &[128, 128], threads: &[32, 8], order: &[1, 0], vector: 16, lanes: None, block: 256 });
        let columns = rows.permuted(&[1, 0]);
        let (write, read) = (SharedUse { layout: &columns, width: 1 }, SharedUse { layout: &rows, width: 16 });
        let shared = SharedLayout::choose(128, 128, 1, write, read);
        assert_eq!(wavefronts(&shared, write, 1), columns.registers, "{shared:?}");
        assert_eq!(wavefronts(&shared, read, 1), rows.registers / 16 * 4, "{shared:?}");
        // The textbook tile: one element a thread, padded by one column.
        let rows = Layout::dealt(&Deal { shape: &[32, 32], threads: &[32, 32], order: &[1, 0], vector: 1, lanes: None, block: 1024 });
        let columns = rows.permuted(&[1, 0]);
        let (write, read) = (SharedUse { layout: &rows, width: 1 }, SharedUse { layout: &columns, width: 1 });
        assert_eq!(SharedLayout::choose(32, 32, 4, write, read), SharedLayout { pitch: 33, ..SharedLayout::plain(32) });
        assert_eq!(wavefronts(&SharedLayout::plain(32), read, 4), 32);
    }
}
