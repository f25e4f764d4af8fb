//! Copies of boxes by tensor maps: each row of a box by its chunks of 16 bytes, zeros outside of the tensor, f32 rounded where the map says so, all of them landing with a phase of an
//! mbarrier, where matrix units see them, too.

use super::copies::InFlight;
use crate::op::TensorStep;
use crate::shadow::{Entry, Kind};
use crate::step::Step;
use crate::trap::TrapKind;
use crate::warp::{Exec, active_lanes, fault, signed};
use girih_ir::scalar;
use girih_ir::simt::{ParamKind, SharedMatrix, Space, TensorMap, swizzled};
use girih_ir::types::{DType, UnaryOp};

/// Bytes of which a box's place in shared memory is a multiple without a swizzle.
const ALIGN: u64 = 128;

impl Step<'_, '_> {
    pub(crate) fn tensor_copy(&mut self, step: &TensorStep) -> Exec {
        let program = self.core.program;
        let ParamKind::TensorMap { map } = &program.kernel.params[step.map].kind else {
            panic!("simulator: {} is no tensor map", step.map)
        };
        let targets = self.resolve(&step.shared, self.warp.active, map.box_bytes().min(16))?;
        let barriers = self.resolve(&step.barrier, self.warp.active, 8)?;
        for lane in active_lanes(self.warp.active) {
            let target = targets[lane];
            let align = ALIGN.max(8 * u64::from(map.swizzle_bytes));
            if target % align != 0 {
                let memory = self.element_name(step.shared.space, target as usize);
                return fault(TrapKind::Misaligned { memory, address: target, align: align as u32 }, lane);
            }
            let mut at = [0; TensorMap::AXES];
            at.iter_mut().zip(&step.at).for_each(|(to, slot)| *to = signed(self.warp.reg(*slot)[lane], DType::I32));
            let issued = Entry { epoch: self.block.token(), ..self.entry(1 << lane, Kind::AsyncWrite) };
            for block in self.receivers(step.to_all) {
                self.in_block(block, lane, |there| there.receive_box(step, map, (target, at), (issued, barriers[lane]), lane))?;
            }
        }
        Ok(())
    }

    /// The box comes to the block at hand, and completes on its barrier.
    fn receive_box(
        &mut self,
        step: &TensorStep,
        map: &TensorMap,
        to: (u64, [i64; TensorMap::AXES]),
        (issued, barrier): (Entry, u64),
        lane: usize,
    ) -> Exec {
        let m = self.mbarrier(&step.barrier, barrier, lane)?;
        let (slot, generation) = (m.slot, m.generation);
        let landed = self.landed_by(slot, generation, lane, issued.pc);
        self.copy_box(step, map, to, (issued, landed), lane)?;
        if let Some(m) = self.block.mbarriers.get_mut(&barrier) {
            m.expected -= i64::from(map.box_bytes());
            m.by_proxy = true;
        }
        self.complete(barrier);
        Ok(())
    }

    fn copy_box(
        &mut self,
        step: &TensorStep,
        map: &TensorMap,
        (target, first): (u64, [i64; TensorMap::AXES]),
        (issued, landed): (Entry, Entry),
        lane: usize,
    ) -> Exec {
        let (lens, strides) = self.core.maps[step.map].expect("a tensor map has extents");
        let (size, chunk) = (map.dtype.size(), SharedMatrix::CHUNK as usize);
        let row_bytes = map.box_lens[0] as usize * size;
        let rows: u32 = map.box_lens[1..].iter().product();
        let start = self.core.pointers[step.map].offset;
        let (_, end) = self.extent(step.shared.space);
        for row in 0..rows {
            // Where the row begins in the tensor, if its outer coordinates lie inside.
            let (mut left, mut offset, mut inside) = (row, 0, true);
            for axis in 1..map.box_lens.len() {
                let at = first[axis] + i64::from(left % map.box_lens[axis]);
                left /= map.box_lens[axis];
                inside &= (0..lens[axis]).contains(&at);
                offset += at * strides[axis];
            }
            let (from, to) = (first[0].max(0), (first[0] + i64::from(map.box_lens[0])).min(lens[0]));
            let counts = !step.to_all || self.block.index == issued.block;
            if inside && from < to && counts {
                // A row is read in whole sectors, not chunk by chunk, and once for all blocks.
                let at = start + ((offset + from) * size as i64) as u64;
                self.count_bulk(Space::Global(step.map), at, (to - from) as usize * size, row == 0);
            }
            for column in (0..row_bytes).step_by(chunk) {
                let to = swizzled(map.swizzle_bytes, target + u64::from(row) * row_bytes as u64 + column as u64);
                if to + chunk as u64 > end {
                    let found = format!("the box reaches beyond its array, to {}", self.element_name(step.shared.space, to as usize));
                    return fault(TrapKind::Misuse { found }, lane);
                }
                let x = first[0] + (column / size) as i64;
                let there = if inside { (lens[0] - x).clamp(0, (chunk / size) as i64) as usize * size } else { 0 };
                let mut data = vec![0; chunk];
                let mut global = None;
                if there > 0 && x >= 0 {
                    let from = start + ((offset + x) * size as i64) as u64;
                    let space = Space::Global(step.map);
                    self.require_known(space, from, there, lane)?;
                    self.touch(space, from, there, Entry { kind: Kind::AsyncRead, ..issued })?;
                    data[..there].copy_from_slice(&self.bytes(space).0.data[from as usize..from as usize + there]);
                    global = Some((space, from));
                }
                if map.rounds {
                    round_words(&mut data);
                }
                let shared = (step.shared.space, to);
                self.touch(shared.0, to, chunk, issued)?;
                self.bytes(shared.0).0.write(to as usize, &data);
                self.land(&InFlight { shared, global, bytes: chunk, read: there, issued }, landed);
            }
        }
        Ok(())
    }
}

/// Rounds words of f32 as a map does that says so.
fn round_words(data: &mut [u8]) {
    for word in data.chunks_exact_mut(4) {
        let bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let rounded = scalar::unary(UnaryOp::RoundTf32, DType::F32, u64::from(bits)) as u32;
        word.copy_from_slice(&rounded.to_le_bytes());
    }
}
