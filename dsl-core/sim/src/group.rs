//! Matrix instructions of a warp group: each warp does its 16 rows, and reads its operands in shared memory as their descriptors say.
//!
//! What they compute is there at once; what may go wrong until the warp waits for it is kept: their reads of shared memory are in flight, as those
//! of asynchronous copies are (one lane's, for its warp), and nobody may use the accumulators, nor the registers of a left operand. They see what was written to shared memory behind a proxy fence only: a
//! clock of its own says what those are ([`Warp::proxy`](crate::warp::Warp)).

use crate::matrix::{Places, multiply};
use crate::op::{ElementsOp, PlaceOp, Slot};
use crate::shadow::{Entry, Kind};
use crate::step::Step;
use crate::trap::TrapKind;
use crate::warp::{Exec, Starts, fault};
use girih_ir::fragments::{GroupAtom, Operand};
use girih_ir::simt::{SharedMatrix, Space};
use std::collections::VecDeque;

/// A matrix instruction of a warp group.
#[derive(Clone, Debug)]
pub(super) struct WgmmaStep {
    pub(super) atom: GroupAtom,
    pub(super) d: ElementsOp,
    pub(super) a: LeftOp,
    pub(super) b: MatrixOp,
    /// Not 0 where the sums are added to.
    pub(super) accumulate: Slot,
    places: Places,
    /// Those of a left operand in registers.
    left_places: Places,
}

/// A left operand.
#[derive(Clone, Debug)]
pub(super) enum LeftOp {
    /// In shared memory.
    Shared(MatrixOp),
    /// In registers.
    Registers(ElementsOp),
}

/// An operand in shared memory.
#[derive(Clone, Debug)]
pub(super) struct MatrixOp {
    pub(super) place: PlaceOp,
    matrix: SharedMatrix,
}

/// Instructions in flight.
#[derive(Default)]
pub(super) struct Flights {
    /// A fence stands between the last other access to accumulators and what comes.
    fenced: bool,
    open: Vec<Flight>,
    groups: VecDeque<Vec<Flight>>,
}

/// One instruction in flight: its accumulators, the registers of its left operand, and what it reads of shared memory.
struct Flight {
    first: Slot,
    len: u32,
    left: Option<(Slot, u32)>,
    reads: Vec<(Space, u64)>,
    issued: Entry,
}

impl Flights {
    fn all(&self) -> impl Iterator<Item = &Flight> {
        self.open.iter().chain(self.groups.iter().flatten())
    }
}

impl WgmmaStep {
    pub(super) fn new(atom: GroupAtom, d: ElementsOp, (a, b): (LeftOp, MatrixOp), accumulate: Slot) -> WgmmaStep {
        let [places, left_places] = [Operand::Accumulator, Operand::A].map(|operand| Places::of(&atom.part().layout(operand)));
        WgmmaStep { atom, d, a, b, accumulate, places, left_places }
    }
}

impl MatrixOp {
    pub(super) fn new(place: PlaceOp, matrix: &SharedMatrix) -> MatrixOp {
        MatrixOp { place, matrix: matrix.clone() }
    }
}

impl Step<'_, '_> {
    pub(super) fn wgmma(&mut self, step: &WgmmaStep) -> Exec {
        self.whole_warp("matrix instruction of a warp group")?;
        let (atom, registers) = (step.atom, step.atom.registers());
        let Starts::Same(first) = self.warp.element_slots(self.core.program, &step.d, registers)? else {
            return fault(TrapKind::Misuse { found: "lanes have their accumulators at different elements".into() }, 0);
        };
        let accumulate = *self.warp.reg(step.accumulate);
        if accumulate.iter().any(|lane| *lane != accumulate[0]) {
            return fault(TrapKind::Misuse { found: "lanes differ in whether sums are added to".into() }, 0);
        }
        let accumulate = accumulate[0] != 0;
        self.accumulators_are_ready(first, registers, accumulate)?;
        let token = self.block.token();
        let issued = Entry { epoch: token, ..self.entry(1, Kind::AsyncRead) };
        let mut reads = Vec::new();
        let own = GroupAtom::M / GroupAtom::WARPS;
        let row = own * (self.warp.index % GroupAtom::WARPS);
        let (a, left) = match &step.a {
            LeftOp::Shared(a) => (self.operand(a, [row, own], atom.k(), issued, &mut reads)?, None),
            LeftOp::Registers(a) => {
                let left = self.left_slots(a, &atom)?;
                (self.left_operand(step, left), Some(left))
            }
        };
        let b = self.operand(&step.b, [0, atom.n], atom.k(), issued, &mut reads)?;
        self.multiply_rows(step, (first, accumulate), &a, &b);
        if let Some((first, len)) = left {
            (first..first + len).for_each(|slot| self.warp.known[slot as usize] = 0);
        }
        self.warp.flights.open.push(Flight { first, len: registers, left, reads, issued });
        if self.core.options.count {
            let part = atom.multiply_adds() / u64::from(GroupAtom::WARPS);
            self.core.counters.matrix.add(atom.a, part);
            self.core.counters.matrix.groups += part;
        }
        Ok(())
    }

    /// Accumulators are set behind a fence, or have been those of instructions in flight; or it does not matter what is in them.
    fn accumulators_are_ready(&mut self, first: Slot, len: u32, read: bool) -> Exec {
        if self.warp.flights.all().any(|f| (f.first, f.len) == (first, len)) {
            return Ok(());
        }
        let taken = |f: &Flight| [(f.first, f.len)].into_iter().chain(f.left).any(|(at, n)| at < first + len && first < at + n);
        if self.warp.flights.all().any(taken) {
            return fault(TrapKind::Misuse { found: "accumulators overlap those of an instruction in flight".into() }, 0);
        }
        if !self.warp.flights.fenced {
            return fault(TrapKind::Misuse { found: "no wgmma fence stands behind the last access to accumulators".into() }, 0);
        }
        (first..first + len).filter(|_| read).try_for_each(|slot| self.warp.check(self.core.program, slot, u32::MAX))
    }

    /// The slots of a left operand in registers: set behind a fence, or in flight already, and nobody has written them since.
    fn left_slots(&mut self, a: &ElementsOp, atom: &GroupAtom) -> Exec<(Slot, u32)> {
        let count = atom.left_registers();
        let Starts::Same(first) = self.fragment(a, count, atom.part().per_word(Operand::A))? else {
            return fault(TrapKind::Misuse { found: "lanes have their left operands at different elements".into() }, 0);
        };
        if self.warp.flights.all().any(|f| f.first < first + count && first < f.first + f.len) {
            return fault(TrapKind::Misuse { found: "a left operand is an accumulator in flight".into() }, 0);
        }
        if self.warp.flights.all().any(|f| f.left == Some((first, count))) {
            (first..first + count).try_for_each(|slot| self.is_untouched(slot, "a left operand"))?;
            return Ok((first, count));
        }
        if !self.warp.flights.fenced {
            return fault(TrapKind::Misuse { found: "no wgmma fence stands behind the last access to a left operand".into() }, 0);
        }
        (first..first + count).try_for_each(|slot| self.warp.check(self.core.program, slot, u32::MAX))?;
        Ok((first, count))
    }

    /// The rows of the warp of a left operand in registers.
    fn left_operand(&self, step: &WgmmaStep, (first, count): (Slot, u32)) -> Vec<u64> {
        let mut rows = vec![0; (GroupAtom::M / GroupAtom::WARPS * step.atom.k()) as usize];
        for (slot, places) in (first..first + count).zip(step.left_places.registers()) {
            places.iter().enumerate().for_each(|(lane, place)| rows[*place as usize] = self.warp.regs[slot as usize][lane]);
        }
        rows
    }

    /// Nobody has written a register that is in flight.
    fn is_untouched(&self, slot: Slot, what: &str) -> Exec {
        if self.warp.known[slot as usize] == 0 {
            return Ok(());
        }
        let found = format!("{} was written while it was {what} in flight", self.core.program.slot_name(slot));
        fault(TrapKind::Misuse { found }, 0)
    }

    /// The elements of an operand at positions from the first, so many, along the axis that the result has, too; each with all along the sum.
    fn operand(&mut self, op: &MatrixOp, [from, count]: [u32; 2], k: u32, issued: Entry, reads: &mut Vec<(Space, u64)>) -> Exec<Vec<u64>> {
        let (space, size) = (op.place.space, op.place.dtype.size());
        let addresses = self.resolve(&op.place, u32::MAX, size as u32)?;
        if addresses.iter().any(|a| *a != addresses[0]) {
            return fault(TrapKind::Misuse { found: "lanes name different matrices".into() }, 0);
        }
        let (_, end) = self.extent(space);
        let mut elements = Vec::with_capacity((count * k) as usize);
        let mut seen = std::collections::HashSet::new();
        for outer in from..from + count {
            for k in 0..k {
                let at = op.matrix.swizzled(addresses[0] + u64::from(op.matrix.offset(outer, k)));
                let chunk = at / u64::from(SharedMatrix::CHUNK) * u64::from(SharedMatrix::CHUNK);
                if seen.insert(chunk) {
                    self.read_chunk(space, chunk, end, issued)?;
                    reads.push((space, chunk));
                }
                elements.push(self.bytes(space).0.load(at as usize, size));
            }
        }
        Ok(elements)
    }

    fn read_chunk(&mut self, space: Space, at: u64, end: u64, issued: Entry) -> Exec {
        let len = SharedMatrix::CHUNK as usize;
        if at + len as u64 > end {
            let found = format!("the matrix reaches beyond its array, to {}", self.element_name(space, at as usize));
            return fault(TrapKind::Misuse { found }, 0);
        }
        self.require_known(space, at, len, 0)?;
        self.touch_by_proxy(space, at, len, issued)
    }

    /// Multiplies the warp's rows. Nobody may look at the sums before they were waited for.
    fn multiply_rows(&mut self, step: &WgmmaStep, (first, accumulate): (Slot, bool), a: &[u64], b: &[u64]) {
        let (atom, part) = (step.atom, step.atom.part());
        let (depth, own) = (atom.k() as usize, part.registers(Operand::Accumulator));
        for column in 0..atom.n / 8 {
            let slots = first + column * own;
            let mut c = vec![0; (part.m * part.n) as usize];
            for (register, places) in step.places.registers().enumerate().filter(|_| accumulate) {
                places.iter().enumerate().for_each(|(lane, place)| c[*place as usize] = self.warp.regs[slots as usize + register][lane]);
            }
            let of = |k: usize, n: usize| b[(8 * column as usize + n) * depth + k];
            let b: Vec<u64> = (0..depth).flat_map(|k| (0..8).map(move |n| (k, n))).map(|(k, n)| of(k, n)).collect();
            let d = multiply(&part, a, &b, &c);
            for (register, places) in step.places.registers().enumerate() {
                places.iter().enumerate().for_each(|(lane, place)| self.warp.regs[slots as usize + register][lane] = d[*place as usize]);
            }
        }
        (first..first + atom.registers()).for_each(|slot| self.warp.known[slot as usize] = 0);
    }

    pub(super) fn wgmma_fence(&mut self) -> Exec {
        self.whole_warp("fence of a warp group")?;
        self.warp.flights.fenced = true;
        Ok(())
    }

    pub(super) fn wgmma_commit(&mut self) -> Exec {
        self.whole_warp("commit of a warp group")?;
        let group = std::mem::take(&mut self.warp.flights.open);
        self.warp.flights.groups.push_back(group);
        Ok(())
    }

    /// `sums`: first slots and lengths of the arrays whose elements may be used from here on.
    pub(super) fn wgmma_wait(&mut self, pending: u32, sums: &[(Slot, u32)]) -> Exec {
        self.whole_warp("wait of a warp group")?;
        let mut ended = Vec::new();
        while self.warp.flights.groups.len() > pending as usize {
            ended.extend(self.warp.flights.groups.pop_front().unwrap_or_default());
        }
        for flight in &ended {
            let landed = Entry { pc: flight.issued.pc, ..self.entry(u32::MAX, Kind::MatrixRead) };
            for (space, at) in &flight.reads {
                if let (_, Some(shadow)) = self.bytes(*space) {
                    shadow.land(*at as usize, SharedMatrix::CHUNK as usize, flight.issued, landed);
                }
            }
        }
        let lefts: std::collections::BTreeSet<(Slot, u32)> = ended.iter().filter_map(|flight| flight.left).collect();
        lefts.into_iter().try_for_each(|left| self.left_is_free(left))?;
        ended.sort_by_key(|flight| flight.first);
        ended.dedup_by_key(|flight| flight.first);
        ended.iter().try_for_each(|flight| self.sums_are_there(flight, sums))?;
        self.warp.flights.fenced = false;
        Ok(())
    }

    fn sums_are_there(&mut self, flight: &Flight, sums: &[(Slot, u32)]) -> Exec {
        let slots = flight.first..flight.first + flight.len;
        if self.warp.flights.all().any(|f| f.first == flight.first) {
            return Ok(());
        }
        slots.clone().try_for_each(|slot| self.is_untouched(slot, "an accumulator"))?;
        if sums.iter().any(|(base, len)| (*base..base + len).contains(&flight.first)) {
            slots.for_each(|slot| self.warp.known[slot as usize] = u32::MAX);
        }
        Ok(())
    }

    /// The registers of a left operand are anybody's again, once no instruction in flight reads them.
    fn left_is_free(&mut self, left: (Slot, u32)) -> Exec {
        if self.warp.flights.all().any(|f| f.left == Some(left)) {
            return Ok(());
        }
        let (first, count) = left;
        (first..first + count).try_for_each(|slot| self.is_untouched(slot, "a left operand"))?;
        (first..first + count).for_each(|slot| self.warp.known[slot as usize] = u32::MAX);
        Ok(())
    }

    /// What this warp's threads have observed and written is seen by what matrix units and the copy engine do behind it.
    pub(super) fn proxy_fence(&mut self) {
        for lane in crate::warp::active_lanes(self.warp.active) {
            let clock = self.published(lane);
            match &mut self.warp.proxy {
                Some(proxy) => proxy.join(&clock),
                None => self.warp.proxy = Some(clock),
            }
        }
        self.warp.epoch += 1;
    }

    /// No instruction is in flight when a warp ends.
    pub(super) fn nothing_in_flight(&self) -> Exec {
        match self.warp.flights.all().next() {
            None => Ok(()),
            Some(_) => fault(TrapKind::Misuse { found: "the warp ends while a wgmma is in flight".into() }, 0),
        }
    }
}
