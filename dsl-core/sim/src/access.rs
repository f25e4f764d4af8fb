//! Loads, stores and atomics: address, bounds, alignment, initialisation, order, traffic, data; in this sequence.

use super::clock::Clock;
use super::counters;
use super::memory::Bytes;
use super::op::{AccessOp, AtomicStep, ElementsOp, Op, PlaceOp};
use super::shadow::{Entry, Kind, Shadow};
use super::step::Step;
use super::trap::{RaceSide, TrapKind};
use super::warp::{Exec, Lanes, active_lanes, fault, signed};
use girih_ir::scalar;
use girih_ir::simt::Space;
use girih_ir::types::{AtomicOp, BinaryOp, DType, Scope};

/// Which counters an access belongs to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Traffic {
    Load,
    Store,
    Atomic,
    Async,
}

impl Step<'_, '_> {
    /// The bytes of a space and their shadow, which global memory has only where the launch may write.
    pub(super) fn bytes(&mut self, space: Space) -> (&mut Bytes, Option<&mut Shadow>) {
        match space {
            Space::Shared(_) => (&mut self.block.shared, Some(&mut self.block.shadow)),
            Space::Global(p) | Space::Constant(p) => {
                let buffer = self.core.pointers[p].buffer;
                (&mut self.core.memory.buffers[buffer], self.core.shadows[buffer].as_mut())
            }
        }
    }

    /// Start and end of a space in its bytes.
    pub(super) fn extent(&self, space: Space) -> (u64, u64) {
        match space {
            Space::Shared(s) => {
                let (at, len) = self.core.program.shared[s.0 as usize];
                (at, at + len)
            }
            Space::Global(p) | Space::Constant(p) => {
                let pointer = &self.core.pointers[p];
                (pointer.offset, (self.core.memory.buffers[pointer.buffer].data.len() as u64).max(pointer.offset))
            }
        }
    }

    /// Byte addresses of an access of `bytes` bytes per lane, in bounds and aligned to `bytes`.
    pub(super) fn resolve(&self, place: &PlaceOp, lanes: u32, bytes: u32) -> Exec<Lanes> {
        self.resolve_aligned(place, lanes, |_| bytes as u64, bytes)
    }

    pub(super) fn resolve_aligned(&self, place: &PlaceOp, lanes: u32, bytes: impl Fn(usize) -> u64, align: u32) -> Exec<Lanes> {
        let (start, end) = self.extent(place.space);
        let index = self.warp.reg(place.index);
        let size = place.dtype.size() as i64;
        let mut out = [0; 32];
        for lane in active_lanes(lanes) {
            let element = signed(index[lane], place.index_type);
            let bytes = bytes(lane);
            let offset = element.checked_mul(size).filter(|o| *o >= 0 && *o as u64 + bytes <= end - start);
            let Some(offset) = offset else {
                let memory = self.space_name(place.space);
                return fault(TrapKind::OutOfBounds { memory, element, bytes: bytes as u32, len: end - start }, lane);
            };
            let address = start + offset as u64;
            if !address.is_multiple_of(align as u64) {
                return fault(TrapKind::Misaligned { memory: self.space_name(place.space), address, align }, lane);
            }
            out[lane] = address;
        }
        Ok(out)
    }

    fn space_name(&self, space: Space) -> String {
        let k = &self.core.program.kernel;
        match space {
            Space::Shared(s) => k.shared[s.0 as usize].name.clone(),
            Space::Global(p) | Space::Constant(p) => k.params[p].name.clone(),
        }
    }

    /// `x[5]`: the element of the space's own type that holds a byte.
    pub(super) fn element_name(&self, space: Space, address: usize) -> String {
        let k = &self.core.program.kernel;
        let dtype = match space {
            Space::Shared(s) => k.shared[s.0 as usize].dtype,
            Space::Global(p) | Space::Constant(p) => super::decode::pointer(&k.params[p].kind).map_or(DType::U8, |p| p.0),
        };
        let offset = address as u64 - self.extent(space).0.min(address as u64);
        format!("{}[{}]", self.space_name(space), offset / dtype.size() as u64)
    }

    /// Traps on bytes that nobody wrote.
    pub(super) fn require_known(&mut self, space: Space, address: u64, len: usize, lane: usize) -> Exec {
        let Some(at) = self.bytes(space).0.first_unknown(address as usize, len) else { return Ok(()) };
        let what = self.element_name(space, at);
        fault(TrapKind::Uninitialised { what }, lane)
    }

    /// The access of some lanes of this warp as the shadow records it.
    pub(super) fn entry(&self, lanes: u32, kind: Kind) -> Entry {
        let warp = &self.warp;
        Entry { block: warp.clocks[0].block(), epoch: warp.epoch, lanes, pc: warp.pc - 1, warp: warp.index as u8, kind, bytes: 0 }
    }

    /// Checks and records the order of an access by lanes to one address.
    pub(super) fn touch(&mut self, space: Space, address: u64, len: usize, entry: Entry) -> Exec {
        if let Space::Shared(array) = space {
            self.of_own_array(array, address, len, &entry)?;
        }
        let lane = entry.lanes.trailing_zeros() as usize;
        let clock = &self.warp.clocks[lane];
        let shadow = match space {
            Space::Shared(_) => Some(&mut self.block.shadow),
            Space::Global(p) | Space::Constant(p) => self.core.shadows[self.core.pointers[p].buffer].as_mut(),
        };
        let Some(shadow) = shadow else { return Ok(()) };
        match shadow.access(address as usize, len, entry, clock) {
            Ok(()) => Ok(()),
            Err((at, other)) => self.race(space, at, entry.kind, other, lane),
        }
    }

    /// The clock of who has observed nothing.
    pub(super) fn nothing_observed(&self) -> Clock {
        let program = self.core.program;
        let warps = program.kernel.launch.block.div_ceil(32) as usize + program.mbarriers.div_ceil(32);
        Clock::new(self.block.index, warps)
    }

    /// The same for what a matrix unit does, which sees what was written before a proxy fence.
    pub(super) fn touch_by_proxy(&mut self, space: Space, address: u64, len: usize, entry: Entry) -> Exec {
        if let Space::Shared(array) = space {
            self.of_own_array(array, address, len, &entry)?;
        }
        let nothing = self.warp.proxy.is_none().then(|| self.nothing_observed());
        let clock = self.warp.proxy.as_ref().or(nothing.as_ref()).unwrap_or(&self.warp.clocks[0]);
        let seen = match space {
            Space::Shared(_) => self.block.shadow.access(address as usize, len, entry, clock),
            Space::Global(_) | Space::Constant(_) => Ok(()),
        };
        seen.or_else(|(at, other)| self.race(space, at, entry.kind, other, 0))
    }

    fn race(&self, space: Space, at: usize, kind: Kind, other: Entry, lane: usize) -> Exec {
        let thread = other.warp as u32 * 32 + other.lanes.trailing_zeros();
        let warps = self.core.program.kernel.launch.block.div_ceil(32);
        let side = RaceSide {
            block: other.block,
            thread: ((other.warp as u32) < warps).then_some(thread),
            access: other.kind.name(),
            statement: self.core.program.statement(other.pc).0,
        };
        fault(TrapKind::Race { what: self.element_name(space, at), access: kind.name(), other: side }, lane)
    }

    /// Records order for all lanes; those that read one address go together.
    fn touch_lanes(&mut self, space: Space, addresses: &Lanes, lanes: u32, len: usize, kind: Kind) -> Exec {
        if let Space::Global(p) | Space::Constant(p) = space
            && self.core.shadows[self.core.pointers[p].buffer].is_none()
        {
            return Ok(());
        }
        let mut rest = lanes;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            let mut group = 1u32 << lane;
            if kind == Kind::Read && self.warp.uniform {
                let same = addresses.iter().enumerate().fold(0, |same, (at, other)| same | ((*other == addresses[lane]) as u32) << at);
                group = same & rest;
            }
            rest &= !group;
            let entry = self.entry(group, kind);
            self.touch(space, addresses[lane], len, entry)?;
        }
        Ok(())
    }

    /// Counts a warp-level access.
    pub(super) fn count(&mut self, space: Space, addresses: &Lanes, lanes: u32, bytes: u32, traffic: Traffic) {
        if !self.core.options.count || lanes == 0 {
            return;
        }
        let c = &mut self.core.counters;
        match space {
            Space::Global(p) => {
                let counter = match traffic {
                    Traffic::Load => &mut c.global_load,
                    Traffic::Store => &mut c.global_store,
                    Traffic::Atomic => &mut c.global_atomic,
                    Traffic::Async => &mut c.global_async,
                };
                counter.requests += 1;
                counter.sectors += counters::sectors(addresses, lanes, bytes);
                counter.bytes += lanes.count_ones() as u64 * bytes as u64;
                let unique = &mut self.core.sectors[self.core.pointers[p].buffer];
                for lane in active_lanes(lanes) {
                    for sector in addresses[lane] >> 5..=(addresses[lane] + bytes as u64 - 1) >> 5 {
                        unique.touch(sector as usize, traffic);
                    }
                }
            }
            Space::Constant(_) => {
                c.constant_load.requests += 1;
                c.constant_load.addresses += counters::distinct(addresses, lanes);
            }
            Space::Shared(_) => {
                let counter = match traffic {
                    Traffic::Load => &mut c.shared_load,
                    Traffic::Store | Traffic::Async => &mut c.shared_store,
                    Traffic::Atomic => &mut c.shared_atomic,
                };
                let (wavefronts, conflicts) = counters::wavefronts(addresses, lanes, bytes);
                counter.requests += 1;
                counter.wavefronts += wavefronts;
                counter.conflicts += conflicts;
            }
        }
    }

    pub(super) fn memory(&mut self, op: &Op) -> Exec {
        match op {
            Op::Load { dst, access } => {
                let (lanes, addresses) = self.prepare(access, Kind::Read)?;
                let size = access.place.dtype.size();
                let bytes = self.bytes(access.place.space).0;
                let mut values = [0; 32];
                for lane in active_lanes(lanes) {
                    values[lane] = normalise(bytes.load(addresses[lane] as usize, size), access.place.dtype);
                }
                self.warp.set(*dst, &values, self.warp.active);
                Ok(())
            }
            Op::Store { access, value } => {
                let (lanes, addresses) = self.prepare(access, Kind::Write)?;
                let size = access.place.dtype.size();
                let values = *self.warp.reg(*value);
                let bytes = self.bytes(access.place.space).0;
                for lane in active_lanes(lanes) {
                    bytes.store(addresses[lane] as usize, size, values[lane]);
                }
                Ok(())
            }
            Op::LoadVector { of, access } => self.load_vector(of, access),
            Op::StoreVector { of, access } => self.store_vector(of, access),
            other => panic!("simulator: {other:?} is no memory access"),
        }
    }

    /// Everything about an access but its data.
    fn prepare(&mut self, access: &AccessOp, kind: Kind) -> Exec<(u32, Lanes)> {
        let lanes = self.warp.lanes(access.predicate);
        let len = access.lanes as usize * access.place.dtype.size();
        let space = access.place.space;
        let addresses = self.resolve(&access.place, lanes, len as u32)?;
        if kind == Kind::Read {
            for lane in active_lanes(lanes) {
                self.require_known(space, addresses[lane], len, lane)?;
            }
        }
        self.touch_lanes(space, &addresses, lanes, len, kind)?;
        let traffic = if kind == Kind::Read { Traffic::Load } else { Traffic::Store };
        self.count(space, &addresses, lanes, len as u32, traffic);
        Ok((lanes, addresses))
    }

    fn load_vector(&mut self, of: &ElementsOp, access: &AccessOp) -> Exec {
        let starts = self.warp.element_slots(self.core.program, of, access.lanes)?;
        let (lanes, addresses) = self.prepare(access, Kind::Read)?;
        let (dtype, active) = (access.place.dtype, self.warp.active);
        let size = dtype.size();
        for k in 0..access.lanes {
            for lane in active_lanes(active) {
                let slot = starts.of(lane) + k;
                let mut value = 0;
                if lanes >> lane & 1 == 1 {
                    let bytes = self.bytes(access.place.space).0;
                    value = normalise(bytes.load(addresses[lane] as usize + k as usize * size, size), dtype);
                }
                self.warp.regs[slot as usize][lane] = value;
                self.warp.mark_known(slot, lane);
            }
        }
        Ok(())
    }

    fn store_vector(&mut self, of: &ElementsOp, access: &AccessOp) -> Exec {
        let program = self.core.program;
        let starts = self.warp.element_slots(program, of, access.lanes)?;
        let (lanes, addresses) = self.prepare(access, Kind::Write)?;
        let size = access.place.dtype.size();
        for k in 0..access.lanes {
            for lane in active_lanes(lanes) {
                let slot = starts.of(lane) + k;
                self.warp.check(program, slot, 1 << lane)?;
                let value = self.warp.reg(slot)[lane];
                self.bytes(access.place.space).0.store(addresses[lane] as usize + k as usize * size, size, value);
            }
        }
        Ok(())
    }

    pub(super) fn atomic(&mut self, step: &AtomicStep) -> Exec {
        let place = &step.access.place;
        let (space, dtype, size) = (place.space, place.dtype, place.dtype.size());
        let lanes = self.warp.lanes(step.access.predicate);
        let addresses = self.resolve(place, lanes, size as u32)?;
        let kind = if step.scope <= Scope::Block { Kind::AtomicBlock } else { Kind::AtomicDevice };
        self.count(space, &addresses, lanes, size as u32, Traffic::Atomic);
        let (values, mut old) = (*self.warp.reg(step.value), [0; 32]);
        let expected = step.expected.map(|e| *self.warp.reg(e));
        for lane in active_lanes(lanes) {
            self.require_known(space, addresses[lane], size, lane)?;
            let entry = self.entry(1 << lane, kind);
            self.touch(space, addresses[lane], size, entry)?;
            let at = addresses[lane] as usize;
            let bytes = self.bytes(space).0;
            old[lane] = normalise(bytes.load(at, size), dtype);
            let new = match (step.op, expected) {
                (AtomicOp::CompareSwap, Some(e)) if e[lane] == old[lane] => values[lane],
                (AtomicOp::CompareSwap | AtomicOp::Load, _) => old[lane],
                (AtomicOp::Add, _) if dtype == DType::F32 && matches!(space, Space::Global(_)) => added_in_memory(old[lane], values[lane]),
                (op, _) => apply(op, dtype, old[lane], values[lane]),
            };
            bytes.store(at, size, new);
            self.synchronise(space, addresses[lane], lane, step.scope, step.order);
        }
        self.end_release(step.order);
        self.core.wake = true;
        if let Some(result) = step.result {
            // A thread whose predicate is false gets no old value; it keeps what it had.
            self.warp.set(result, &old, lanes);
        }
        Ok(())
    }
}

/// A bool in memory is true if any bit is set.
pub(super) fn normalise(bits: u64, dtype: DType) -> u64 {
    if dtype == DType::Bool { (bits != 0) as u64 } else { bits }
}

/// A sum of floats in global memory, where subnormal numbers are zeros of their sign, before and after (PTX ISA, `atom.add.f32`; in shared
/// memory they are not).
fn added_in_memory(old: u64, value: u64) -> u64 {
    let flushed = |bits: u64| if f32::from_bits(bits as u32).is_subnormal() { bits & 1 << 31 } else { bits };
    flushed(apply(AtomicOp::Add, DType::F32, flushed(old), flushed(value)))
}

/// The new value of a read-modify-write; 16-bit floats compute in f32 and round.
pub(super) fn apply(op: AtomicOp, dtype: DType, old: u64, value: u64) -> u64 {
    let op = match op {
        AtomicOp::Add => BinaryOp::Add,
        AtomicOp::Min => BinaryOp::Min,
        AtomicOp::Max => BinaryOp::Max,
        AtomicOp::And => BinaryOp::And,
        AtomicOp::Or => BinaryOp::Or,
        AtomicOp::Xor => BinaryOp::Xor,
        AtomicOp::Exchange | AtomicOp::CompareSwap => return value,
        AtomicOp::Load => return old,
    };
    let wide = dtype.compute();
    let result = scalar::binary(op, wide, scalar::cast(dtype, wide, old), scalar::cast(dtype, wide, value));
    scalar::cast(wide, dtype, result)
}
