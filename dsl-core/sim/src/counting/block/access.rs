//! Accesses of memory: what they touch, how long they take, and, where contents matter, what is there.

use super::super::{CountArg, latency, tally, traffic};
use super::Machine;
use super::atomics::ARRIVED;
use super::warp::Warp;
use crate::access::{Traffic, normalise};
use crate::op::{AccessOp, BulkStep, CopyStep, MatrixStep, Op, PlaceOp, Slot, TensorStep};
use crate::warp::{Lanes, active_lanes, signed};
use girih_ir::fragments::LoadMatrix;
use girih_ir::simt::{ParamKind, Space};
use girih_ir::types::DType;

/// Bytes of a word that one block leaves for another.
const WORD: u32 = 8;

impl Machine<'_> {
    /// An operation that touches memory.
    pub(super) fn access(&mut self, warp: &mut Warp, op: &Op, carried_out: bool) {
        match op {
            Op::Load { dst, access } => {
                let (lanes, addresses, at) = self.accessed(warp, access, []);
                let bytes = access.place.dtype.size() as u32;
                let takes = self.touch(warp, access.place.space, &addresses, lanes, bytes, Traffic::Load);
                warp.ready[*dst as usize] = at + takes;
                if carried_out {
                    let values = self.loaded(&access.place, &addresses, lanes, 0);
                    warp.set(*dst, &values, warp.active);
                }
            }
            Op::LoadVector { of, access } => {
                let (lanes, addresses, at) = self.accessed(warp, access, []);
                let bytes = access.lanes * access.place.dtype.size() as u32;
                let takes = self.touch(warp, access.place.space, &addresses, lanes, bytes, Traffic::Load);
                warp.elements(of, access.lanes).for_each(|slot| warp.ready[slot as usize] = at + takes);
                if carried_out {
                    for k in 0..access.lanes {
                        let values = self.loaded(&access.place, &addresses, lanes, k);
                        active_lanes(warp.active).for_each(|lane| warp.set(warp.element(of, lane) + k, &values, 1 << lane));
                    }
                }
            }
            Op::Store { access, value } => {
                let (lanes, addresses, _) = self.accessed(warp, access, [*value]);
                let bytes = access.place.dtype.size() as u32;
                self.touch(warp, access.place.space, &addresses, lanes, bytes, Traffic::Store);
                if carried_out {
                    self.store(&access.place, &addresses, lanes, 0, warp.reg(*value));
                }
            }
            Op::StoreVector { of, access } => {
                let (lanes, addresses, _) = self.accessed(warp, access, warp.elements(of, access.lanes));
                let bytes = access.lanes * access.place.dtype.size() as u32;
                self.touch(warp, access.place.space, &addresses, lanes, bytes, Traffic::Store);
                for k in 0..if carried_out { access.lanes } else { 0 } {
                    let values = std::array::from_fn(|lane| warp.reg(warp.element(of, lane) + k)[lane]);
                    self.store(&access.place, &addresses, lanes, k, &values);
                }
            }
            Op::Atomic(step) => self.atomic(warp, step, carried_out),
            Op::StoreRelaxed { access, value } => {
                let (lanes, addresses, _) = self.accessed(warp, access, [*value]);
                self.touch(warp, access.place.space, &addresses, lanes, WORD, Traffic::Store);
            }
            Op::LoadRelaxed { dst, access, wait } => {
                let (lanes, addresses, at) = self.accessed(warp, access, []);
                self.touch(warp, access.place.space, &addresses, lanes, WORD, Traffic::Load);
                warp.ready[*dst as usize] = at + if *wait { latency::WORD } else { latency::CACHE };
                warp.set(*dst, &[ARRIVED; 32], warp.active);
            }
            // What another block has left is not known.
            Op::LoadFromBlock { dst, place, block } => {
                let (at, lanes) = (warp.issue([place.index, *block]), warp.active);
                let addresses = self.addresses(warp, place, lanes);
                self.touch(warp, place.space, &addresses, lanes, place.dtype.size() as u32, Traffic::Load);
                warp.ready[*dst as usize] = at + latency::OTHER_BLOCK;
                self.count.guessed |= carried_out;
            }
            Op::AsyncCopy(step) => self.copy(warp, step, carried_out),
            Op::BulkCopy(step) => self.bulk_copy(warp, step),
            Op::TensorCopy(step) => self.tensor_copy(warp, step),
            Op::LoadMatrix(step) => self.load_matrix(warp, step, carried_out),
            other => panic!("counting: {other:?} is no access"),
        }
    }

    /// Lanes and addresses of an access, and when it begins: when its place, its predicate and these slots are there.
    pub(super) fn accessed(&mut self, warp: &mut Warp, access: &AccessOp, reads: impl IntoIterator<Item = Slot>) -> (u32, Lanes, f64) {
        let at = warp.issue(reads.into_iter().chain([access.place.index]).chain(access.predicate));
        let lanes = warp.lanes(access.predicate);
        (lanes, self.addresses(warp, &access.place, lanes), at)
    }

    pub(super) fn start(&self, space: Space) -> u64 {
        match space {
            Space::Shared(s) => self.program.shared[s.0 as usize].0,
            Space::Global(p) | Space::Constant(p) => match self.args[p] {
                CountArg::Pointer { offset, .. } | CountArg::Map { offset, .. } => offset,
                CountArg::Scalar(_) => 0,
            },
        }
    }

    fn addresses(&self, warp: &Warp, place: &PlaceOp, lanes: u32) -> Lanes {
        let (start, size) = (self.start(place.space), place.dtype.size() as i64);
        let index = warp.reg(place.index);
        let mut out = [0; 32];
        for lane in active_lanes(lanes) {
            // What is read from a place that was guessed may lie anywhere.
            let offset = signed(index[lane], place.index_type).saturating_mul(size).clamp(0, 1 << 48);
            out[lane] = start + offset as u64;
        }
        out
    }

    /// Where the first active lane's element lies.
    pub(super) fn address(&self, warp: &Warp, place: &PlaceOp) -> u64 {
        let lane = warp.active.trailing_zeros().min(31);
        self.addresses(warp, place, 1 << lane)[lane as usize]
    }

    /// A copy of a barrier's newest phase is there at that time.
    fn arrives(&mut self, warp: &Warp, barrier: &PlaceOp, there: f64) {
        let phases = self.phases.entry(self.address(warp, barrier)).or_default();
        match phases.last_mut() {
            Some(last) => *last = last.max(there),
            None => phases.push(there),
        }
    }

    /// Counts an access; the clocks until its data are there.
    pub(super) fn touch(&mut self, warp: &Warp, space: Space, addresses: &Lanes, lanes: u32, bytes: u32, kind: Traffic) -> f64 {
        if lanes == 0 {
            return latency::SHARED;
        }
        let weight = warp.weight;
        match space {
            Space::Global(p) => {
                let place = match kind {
                    Traffic::Load => tally::LOADS,
                    Traffic::Store => tally::STORES,
                    Traffic::Atomic => tally::ATOMICS,
                    Traffic::Async => tally::COPIES,
                };
                let sectors = traffic::Sectors::of(addresses, lanes, bytes);
                let numbers = &mut self.count.numbers;
                numbers[place] += weight;
                numbers[place + 1] += weight * sectors.list().len() as f64;
                numbers[place + 2] += weight * f64::from(lanes.count_ones() * bytes);
                let lines = sectors.lines() as f64;
                // What is copied to shared memory is counted there.
                numbers[tally::LINES] += if kind == Traffic::Async { 0.0 } else { weight * lines };
                if kind == Traffic::Store {
                    numbers[tally::PARTIAL] += weight * sectors.partial(addresses, lanes, bytes) as f64;
                }
                self.first_touch(p, (sectors.list(), lines), weight, kind)
            }
            // All lanes read one word, which the cache of constants has.
            Space::Constant(_) => {
                self.count.numbers[tally::CONSTANTS] += weight;
                latency::SHARED
            }
            Space::Shared(_) => {
                let place = match kind {
                    Traffic::Load => tally::SHARED_LOADS,
                    Traffic::Store | Traffic::Async => tally::SHARED_STORES,
                    Traffic::Atomic => tally::SHARED_ATOMICS,
                };
                let (wavefronts, conflicts) = self.banks.wavefronts(addresses, lanes, bytes);
                let numbers = &mut self.count.numbers[place..];
                numbers[0] += weight;
                numbers[1] += weight * wavefronts;
                numbers[2] += weight * conflicts;
                latency::SHARED + wavefronts - 1.0
            }
        }
    }

    /// Counts sectors that are new to the block; the clocks until they are there.
    fn first_touch(&mut self, param: usize, (sectors, lines): (&[u64], f64), weight: f64, kind: Traffic) -> f64 {
        let (reads, writes) = (kind != Traffic::Store, matches!(kind, Traffic::Store | Traffic::Atomic));
        let (fresh, known) = self.touched.note(param, sectors, reads, writes);
        for (side, sectors) in fresh.into_iter().enumerate() {
            self.count.numbers[tally::UNIQUE + 2 * param + side] += 32.0 * weight * sectors;
        }
        let passed = if writes { sectors.len() as f64 } else { fresh[0] };
        if passed > 0.0 {
            self.count.numbers[tally::PASSED] += weight * lines;
            self.count.numbers[tally::PASSED + 1] += weight * passed;
        }
        match self.program.kernel.params[param].kind {
            _ if known => latency::NEAR,
            // Other blocks have left it.
            ParamKind::Workspace { .. } => latency::CACHE,
            _ if sectors.iter().all(|sector| self.others.has(param, *sector)) => latency::CACHE,
            _ => latency::MEMORY,
        }
    }

    /// What lanes load, `k` elements behind their addresses; zeros in the others.
    fn loaded(&mut self, place: &PlaceOp, addresses: &Lanes, lanes: u32, k: u32) -> Lanes {
        let size = place.dtype.size();
        let mut values = [0; 32];
        for lane in active_lanes(lanes) {
            let at = addresses[lane] + u64::from(k) * size as u64;
            values[lane] = normalise(self.value(place.space, at, size), place.dtype);
        }
        values
    }

    pub(super) fn value(&mut self, space: Space, at: u64, size: usize) -> u64 {
        match space {
            Space::Shared(_) => {
                let byte = |i: usize| u64::from(self.shared.get(at as usize + i).copied().unwrap_or(0)) << (8 * i);
                (0..size).map(byte).sum()
            }
            Space::Global(p) | Space::Constant(p) => {
                let known = self.contents.load(p, at - self.start(space), size);
                self.count.guessed |= known.is_none() && !self.stored.contains_key(&(p, at));
                let known = known.unwrap_or(0);
                if self.stored.is_empty() {
                    return known;
                }
                let byte = |i: usize| {
                    let stored = self.stored.get(&(p, at + i as u64)).copied();
                    u64::from(stored.unwrap_or((known >> (8 * i)) as u8)) << (8 * i)
                };
                (0..size).map(byte).sum()
            }
        }
    }

    fn store(&mut self, place: &PlaceOp, addresses: &Lanes, lanes: u32, k: u32, values: &Lanes) {
        let size = place.dtype.size();
        for lane in active_lanes(lanes) {
            self.set_value(place.space, addresses[lane] + u64::from(k) * size as u64, size, values[lane]);
        }
    }

    pub(super) fn set_value(&mut self, space: Space, at: u64, size: usize, value: u64) {
        for (i, byte) in value.to_le_bytes().into_iter().take(size).enumerate() {
            match space {
                Space::Shared(_) => {
                    if let Some(b) = self.shared.get_mut(at as usize + i) {
                        *b = byte;
                    }
                }
                Space::Global(p) | Space::Constant(p) => drop(self.stored.insert((p, at + i as u64), byte)),
            }
        }
    }

    fn copy(&mut self, warp: &mut Warp, step: &CopyStep, carried_out: bool) {
        let at = warp.issue([step.shared.index, step.global.index].into_iter().chain(step.predicate));
        let (all, copied) = (warp.active, warp.lanes(step.predicate));
        let (targets, sources) = (self.addresses(warp, &step.shared, all), self.addresses(warp, &step.global, copied));
        let takes = self.touch(warp, step.global.space, &sources, copied, step.bytes, Traffic::Async);
        self.touch(warp, step.shared.space, &targets, all, step.bytes, Traffic::Async);
        warp.open = warp.open.max(at + takes);
        for lane in active_lanes(if carried_out { all } else { 0 }) {
            for i in 0..u64::from(step.bytes) {
                let there = copied >> lane & 1 == 1;
                let byte = if there { self.value(step.global.space, sources[lane] + i, 1) } else { 0 };
                self.set_value(step.shared.space, targets[lane] + i, 1, byte);
            }
        }
    }

    fn bulk_copy(&mut self, warp: &mut Warp, step: &BulkStep) {
        let at = warp.issue([step.global.index, step.shared.index, step.bytes]);
        let lanes = warp.active;
        let (sources, sizes) = (self.addresses(warp, &step.global, lanes), *warp.reg(step.bytes));
        let Space::Global(param) = step.global.space else { return };
        for lane in active_lanes(lanes) {
            let len = signed(sizes[lane], DType::I32).clamp(1, 1 << 20) as u64;
            let sectors: Vec<u64> = (sources[lane] >> 5..=(sources[lane] + len - 1) >> 5).collect();
            let numbers = &mut self.count.numbers[tally::COPIES..];
            numbers[0] += warp.weight;
            numbers[1] += warp.weight * sectors.len() as f64;
            numbers[2] += warp.weight * len as f64;
            let lines = (sectors.len() as f64 / 4.0).ceil();
            let takes = self.first_touch(param, (&sectors, lines), warp.weight, Traffic::Async);
            self.arrives(warp, &step.barrier, at + takes);
        }
    }

    /// The rows of a box that lie in the tensor are read in whole sectors.
    fn tensor_copy(&mut self, warp: &mut Warp, step: &TensorStep) {
        let at = warp.issue(step.at.iter().copied().chain([step.shared.index]));
        let (ParamKind::TensorMap { map }, CountArg::Map { offset: start, lens, strides, .. }) =
            (&self.program.kernel.params[step.map].kind, self.args[step.map])
        else {
            return;
        };
        let size = map.dtype.size() as i64;
        for lane in active_lanes(warp.active) {
            let first: Vec<i64> = step.at.iter().map(|slot| signed(warp.reg(*slot)[lane], DType::I32)).collect();
            let columns = (lens[0] - first[0]).clamp(0, i64::from(map.box_lens[0]));
            let (mut sectors, mut bytes) = (Vec::new(), 0);
            for row in 0..map.box_lens[1..].iter().product::<u32>() {
                let (mut left, mut offset, mut inside) = (row, first[0], columns > 0);
                for axis in 1..map.box_lens.len() {
                    let at = first[axis] + i64::from(left % map.box_lens[axis]);
                    left /= map.box_lens[axis];
                    inside &= (0..lens[axis]).contains(&at);
                    offset += at * strides[axis];
                }
                if inside {
                    let from = start + (offset * size) as u64;
                    sectors.extend(from >> 5..=(from + (columns * size) as u64 - 1) >> 5);
                    bytes += columns * size;
                }
            }
            let numbers = &mut self.count.numbers[tally::COPIES..];
            numbers[0] += warp.weight;
            numbers[1] += warp.weight * sectors.len() as f64;
            numbers[2] += warp.weight * bytes as f64;
            let lines = (sectors.len() as f64 / 4.0).ceil();
            let takes = self.first_touch(step.map, (&sectors, lines), warp.weight, Traffic::Async);
            self.arrives(warp, &step.barrier, at + takes);
        }
    }

    fn load_matrix(&mut self, warp: &mut Warp, step: &MatrixStep, carried_out: bool) {
        let at = warp.issue([step.place.index]);
        let addresses = self.addresses(warp, &step.place, u32::MAX);
        let (mut wavefronts, mut conflicts) = (0.0, 0.0);
        for rows in step.givers.chunks_exact(8) {
            let lanes = rows.iter().fold(0, |lanes, lane| lanes | 1 << lane);
            let passes = self.banks.wavefronts(&addresses, lanes, LoadMatrix::ROW_BYTES);
            wavefronts += passes.0;
            conflicts += passes.1;
        }
        let numbers = &mut self.count.numbers[tally::SHARED_LOADS..];
        numbers[0] += warp.weight;
        numbers[1] += warp.weight * wavefronts;
        numbers[2] += warp.weight * conflicts;
        let sets = warp.elements(&step.of, step.load.registers(step.place.dtype));
        sets.for_each(|slot| warp.ready[slot as usize] = at + latency::SHARED + wavefronts);
        self.count.guessed |= carried_out;
    }
}
