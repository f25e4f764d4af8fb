//! Shared arrays that lie on the same bytes: which of them was written last, byte by byte.

use super::shadow::{Entry, Kind};
use super::step::Step;
use super::trap::TrapKind;
use super::warp::{Exec, fault};
use girih_ir::simt::{Kernel, SharedId};

/// The array that each byte of a block's shared memory was written as.
#[derive(Clone, Debug)]
pub(super) struct Owners(Vec<u16>);

/// Nobody.
const NONE: u16 = u16::MAX;

impl Owners {
    /// None where no two arrays have a byte in common.
    pub(super) fn of(kernel: &Kernel) -> Option<Owners> {
        let (offsets, bytes) = kernel.shared_offsets();
        let mut spans: Vec<(u32, u32)> = kernel
            .shared
            .iter()
            .zip(offsets)
            .map(|(a, at)| (at, at + a.len * a.dtype.size() as u32))
            .filter(|(at, end)| at < end)
            .collect();
        spans.sort_unstable();
        spans.windows(2).any(|two| two[1].0 < two[0].1).then(|| Owners(vec![NONE; bytes as usize]))
    }

    /// No byte was written.
    pub(super) fn reset(&mut self) {
        self.0.fill(NONE);
    }

    fn write(&mut self, at: usize, len: usize, array: SharedId) {
        self.0[at..at + len].fill(array.0 as u16);
    }

    /// The first byte that was last written as another array, and that array.
    fn foreign(&self, at: usize, len: usize, array: SharedId) -> Option<(usize, usize)> {
        let found = (at..at + len).find(|i| ![NONE, array.0 as u16].contains(&self.0[*i]))?;
        Some((found, usize::from(self.0[found])))
    }
}

impl Step<'_, '_> {
    /// A write makes bytes its array's; what reads them, an atomic too, reads no other's.
    pub(super) fn of_own_array(&mut self, array: SharedId, address: u64, len: usize, entry: &Entry) -> Exec {
        let Some(owners) = &mut self.block.owners else { return Ok(()) };
        if matches!(entry.kind, Kind::Write | Kind::AsyncWrite) {
            owners.write(address as usize, len, array);
            return Ok(());
        }
        let Some((at, other)) = owners.foreign(address as usize, len, array) else { return Ok(()) };
        let other = &self.core.program.kernel.shared[other].name;
        let what = format!("{}, where `{other}` was written since,", self.element_name(girih_ir::simt::Space::Shared(array), at));
        fault(TrapKind::Uninitialised { what }, entry.lanes.trailing_zeros() as usize)
    }
}
