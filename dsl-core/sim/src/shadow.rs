//! Shadow memory: for every word of memory the accesses that a later one might race with.
//!
//! A cell keeps entries: who accessed which bytes of the word, at which epoch. An access is checked against the entries that conflict
//! with it; a write, being ordered after all of them, then replaces them, and any other access replaces entries of its own kind that
//! it is ordered after. That keeps cells short and loses no race: what raced with a replaced entry races with its replacement.

use super::clock::Clock;

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// No entry.
    Empty,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Atomic among a block.
    AtomicBlock,
    /// Atomic among the device.
    AtomicDevice,
    /// A read of an asynchronous copy in flight: ordered before nothing, until it lands.
    AsyncRead,
    /// A write of an asynchronous copy in flight.
    AsyncWrite,
    /// A read of a matrix unit for which all lanes of a warp have waited: who has observed one of them since has observed it.
    MatrixRead,
}

impl Kind {
    /// The word in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Empty => "nothing",
            Kind::Read | Kind::MatrixRead => "read",
            Kind::Write => "write",
            Kind::AtomicBlock | Kind::AtomicDevice => "atomic",
            Kind::AsyncRead => "asynchronous read",
            Kind::AsyncWrite => "asynchronous write",
        }
    }

    fn in_flight(self) -> bool {
        matches!(self, Kind::AsyncRead | Kind::AsyncWrite)
    }

    /// Whether two accesses to a byte need an order.
    #[inline]
    fn conflicts(self, other: Kind, same_block: bool) -> bool {
        CONFLICTS[same_block as usize][self as usize] >> other as usize & 1 == 1
    }

    const fn conflict(self, other: Kind, same_block: bool) -> bool {
        use Kind::{AsyncRead, AtomicBlock, AtomicDevice, Empty, MatrixRead, Read};
        match (self, other) {
            (Empty, _) | (_, Empty) => false,
            (Read | AsyncRead | MatrixRead, Read | AsyncRead | MatrixRead) => false,
            (AtomicDevice, AtomicDevice) => false,
            (AtomicBlock | AtomicDevice, AtomicBlock | AtomicDevice) => !same_block,
            _ => true,
        }
    }
}

const KINDS: [Kind; 8] =
    [Kind::Empty, Kind::Read, Kind::Write, Kind::AtomicBlock, Kind::AtomicDevice, Kind::AsyncRead, Kind::AsyncWrite, Kind::MatrixRead];

/// [`Kind::conflict`] as bits of the other kind, by whether both are of one block and by this kind.
const CONFLICTS: [[u8; KINDS.len()]; 2] = {
    let mut table = [[0; KINDS.len()]; 2];
    let mut at = 0;
    while at < 2 * KINDS.len() * KINDS.len() {
        let (same, a, b) = (at % 2, at / 2 % KINDS.len(), at / 2 / KINDS.len());
        table[same][KINDS[a] as usize] |= (KINDS[a].conflict(KINDS[b], same == 1) as u8) << KINDS[b] as usize;
        at += 1;
    }
    table
};

/// One access, or several of lanes of one warp, to some bytes of a word.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    pub(super) block: u32,
    pub(super) epoch: u32,
    pub(super) lanes: u32,
    /// Instruction, for messages.
    pub(super) pc: u32,
    pub(super) warp: u8,
    pub(super) kind: Kind,
    /// Bytes of the word, as bits.
    pub(super) bytes: u8,
}

impl Entry {
    const EMPTY: Entry = Entry { block: 0, epoch: 0, lanes: 0, pc: 0, warp: 0, kind: Kind::Empty, bytes: 0 };

    fn same_warp(&self, other: &Entry) -> bool {
        self.warp == other.warp && self.block == other.block
    }
}

#[derive(Clone, Copy)]
struct Cell {
    first: [Entry; 2],
    /// Index into the spills, plus one.
    spill: u32,
}

const CELL: Cell = Cell { first: [Entry::EMPTY; 2], spill: 0 };
const PAGE: usize = 256;

/// The shadow of one memory, in pages that appear when they are touched.
pub(super) struct Shadow {
    pages: Vec<Option<Box<[Cell]>>>,
    spills: Vec<Vec<Entry>>,
}

impl Shadow {
    /// The shadow of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Shadow {
        Shadow { pages: vec![None; bytes.div_ceil(4 * PAGE)], spills: Vec::new() }
    }

    /// Forgets all accesses.
    pub(super) fn reset(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            page.fill(CELL);
        }
        self.spills.clear();
    }

    /// Checks and records an access to the bytes `at..at+len`.
    ///
    /// # Errors
    /// The first byte, and the earlier access to it that is not ordered before this one.
    #[inline]
    pub(super) fn access(&mut self, at: usize, len: usize, access: Entry, clock: &Clock) -> Result<(), (usize, Entry)> {
        let (mut at, end) = (at, at + len);
        while at < end {
            let offset = at % 4;
            let n = (4 - offset).min(end - at);
            let bytes = (((1u32 << n) - 1) << offset) as u8;
            self.touch(at / 4, Entry { bytes, ..access }, clock).map_err(|e| (at, e))?;
            at += n;
        }
        Ok(())
    }

    /// An access by another block than this one that the clock has not observed, and the word.
    pub(super) fn unobserved_of_others(&self, block: u32, clock: &Clock) -> Option<(usize, Entry)> {
        let own = |e: &&Entry| e.kind != Kind::Empty && e.block != block;
        let open = |e: &&Entry| own(e) && !clock.observed(e.block, e.warp as usize, e.lanes, e.epoch);
        let cells = self.pages.iter().enumerate().filter_map(|(page, cells)| Some((page, cells.as_ref()?)));
        cells.flat_map(|(page, cells)| cells.iter().enumerate().map(move |(at, cell)| (page * PAGE + at, cell))).find_map(|(word, cell)| {
            let spilled = if cell.spill == 0 { &[][..] } else { &self.spills[cell.spill as usize - 1] };
            Some((word, *cell.first.iter().chain(spilled).find(open)?))
        })
    }

    fn cell(&mut self, word: usize) -> (&mut Cell, &mut Vec<Vec<Entry>>) {
        let page = self.pages[word / PAGE].get_or_insert_with(|| vec![CELL; PAGE].into_boxed_slice());
        (&mut page[word % PAGE], &mut self.spills)
    }

    fn touch(&mut self, word: usize, access: Entry, clock: &Clock) -> Result<(), Entry> {
        let (cell, spills) = self.cell(word);
        let mut merged = false;
        for e in &mut cell.first {
            merged |= meet(e, &access, clock, merged)?;
        }
        if cell.spill != 0 {
            let spill = &mut spills[cell.spill as usize - 1];
            let mut emptied = false;
            for e in spill.iter_mut() {
                merged |= meet(e, &access, clock, merged)?;
                emptied |= e.kind == Kind::Empty;
            }
            if emptied {
                spill.retain(|e| e.kind != Kind::Empty);
            }
        }
        if merged {
            return Ok(());
        }
        if let Some(free) = cell.first.iter_mut().find(|e| e.kind == Kind::Empty) {
            *free = access;
            return Ok(());
        }
        if cell.spill == 0 {
            spills.push(Vec::new());
            cell.spill = spills.len() as u32;
        }
        spills[cell.spill as usize - 1].push(access);
        Ok(())
    }

    /// An asynchronous copy's access becomes an ordinary one: `issued` in flight is replaced by `landed`, which belongs to the thread
    /// that waited.
    pub(super) fn land(&mut self, at: usize, len: usize, issued: Entry, landed: Entry) {
        for word in at / 4..(at + len).div_ceil(4) {
            let (cell, spills) = self.cell(word);
            let spilled = if cell.spill == 0 { [].iter_mut() } else { spills[cell.spill as usize - 1].iter_mut() };
            for e in cell.first.iter_mut().chain(spilled) {
                if e.kind == issued.kind && e.same_warp(&issued) && e.lanes == issued.lanes && e.epoch == issued.epoch {
                    *e = Entry { bytes: e.bytes, ..landed };
                }
            }
        }
    }
}

/// Checks an access against an entry, shrinks the entry where the access replaces it, and merges the two where they are alike. True if
/// merged.
#[inline(always)]
fn meet(e: &mut Entry, access: &Entry, clock: &Clock, merged: bool) -> Result<bool, Entry> {
    let overlap = e.bytes & access.bytes;
    if e.kind == Kind::Empty || overlap == 0 {
        return Ok(false);
    }
    let conflicts = e.kind.conflicts(access.kind, e.block == access.block);
    if conflicts && !ordered(e, access, clock) {
        return Err(*e);
    }
    let writes = matches!(access.kind, Kind::Write | Kind::AsyncWrite);
    if writes {
        e.bytes &= !overlap;
    } else if e.kind == access.kind && !e.kind.in_flight() {
        if e.same_warp(access) && e.epoch == access.epoch && e.bytes == access.bytes {
            if merged {
                return Ok(false);
            }
            e.lanes |= access.lanes;
            e.pc = access.pc;
            return Ok(true);
        }
        if ordered(e, access, clock) {
            e.bytes &= !overlap;
        }
    }
    if e.bytes == 0 {
        e.kind = Kind::Empty;
    }
    Ok(false)
}

/// Whether the entry happened before the access.
#[inline(always)]
fn ordered(e: &Entry, access: &Entry, clock: &Clock) -> bool {
    if e.kind.in_flight() {
        return false;
    }
    if e.kind == Kind::MatrixRead {
        return e.same_warp(access) || clock.observed_any(e.block, e.warp as usize, e.epoch);
    }
    let mut lanes = e.lanes;
    if e.same_warp(access) && access.lanes.is_power_of_two() {
        // A thread's own accesses are ordered by its program.
        lanes &= !access.lanes;
    }
    lanes == 0 || clock.observed(e.block, e.warp as usize, lanes, e.epoch)
}
