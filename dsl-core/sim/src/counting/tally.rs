//! Numbers of a block or a launch, as floats: a block that was run may stand for many.

use crate::Class;

/// Places of numbers in a [`Count`]: by class, per warp and per thread.
pub(super) const WARP: usize = 0;
pub(super) const THREAD: usize = Class::COUNT;
/// Three each: requests, sectors, bytes.
pub(super) const LOADS: usize = 2 * Class::COUNT;
pub(super) const STORES: usize = LOADS + 3;
pub(super) const ATOMICS: usize = LOADS + 6;
pub(super) const COPIES: usize = LOADS + 9;
/// Three each: requests, wavefronts, conflicts.
pub(super) const SHARED_LOADS: usize = LOADS + 12;
pub(super) const SHARED_STORES: usize = SHARED_LOADS + 3;
pub(super) const SHARED_ATOMICS: usize = SHARED_LOADS + 6;
/// Requests.
pub(super) const CONSTANTS: usize = SHARED_LOADS + 9;
pub(super) const HALF: usize = CONSTANTS + 1;
pub(super) const TF32: usize = HALF + 1;
pub(super) const INT8: usize = HALF + 2;
pub(super) const PARTIAL: usize = HALF + 3;
pub(super) const BARRIERS: usize = HALF + 4;
pub(super) const CHAIN: usize = HALF + 5;
pub(super) const LINES: usize = HALF + 6;
pub(super) const PASSED: usize = HALF + 7;
pub(super) const GROUPS: usize = HALF + 9;
pub(super) const NAMED: usize = HALF + 10;
pub(super) const PHASES: usize = HALF + 11;
pub(super) const FLOAT8: usize = HALF + 12;
/// Two for each parameter: bytes of distinct sectors read and written.
pub(super) const UNIQUE: usize = HALF + 13;

/// What a launch does.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    pub(super) numbers: Vec<f64>,
    /// Clocks that the longest chain of dependent operations of a block takes, of all blocks that were run but the last at most.
    pub longest: f64,
    /// Clocks by which the last block's chain is longer than the others' on the whole.
    pub behind: f64,
    /// Blocks that were run.
    pub blocks: usize,
    /// Something was not known that decides addresses or control.
    pub guessed: bool,
    /// Threads take numbers by an atomic on a tensor, and what they do depends on it: each block was run as if it came first.
    pub each_first: bool,
    /// Blocks ask for words that others leave: these are of a smaller launch, and so may be where they send their elements.
    pub asks_words: bool,
}

/// Traffic of one kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CountedTraffic {
    /// Warp-level instructions with at least one lane that accesses.
    pub requests: f64,
    /// 32-byte sectors touched, counted once per request.
    pub sectors: f64,
    /// Bytes that lanes asked for.
    pub bytes: f64,
}

/// Traffic of one kind with shared memory.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct CountedShared {
    /// Warp-level instructions with at least one lane that accesses.
    pub requests: f64,
    /// Passes through the 32 banks of 4 bytes.
    pub wavefronts: f64,
    /// Wavefronts beyond those that the amount of data needs.
    pub conflicts: f64,
}

impl Count {
    pub(super) fn zero(params: usize) -> Count {
        Count {
            numbers: vec![0.0; UNIQUE + 2 * params],
            longest: 0.0,
            behind: 0.0,
            blocks: 0,
            guessed: false,
            each_first: false,
            asks_words: false,
        }
    }

    /// Adds so many times another one's numbers.
    pub(super) fn add(&mut self, other: &Count, times: f64) {
        for (a, b) in self.numbers.iter_mut().zip(&other.numbers) {
            *a += b * times;
        }
        self.longest = self.longest.max(other.longest);
        self.guessed |= other.guessed;
        self.each_first |= other.each_first;
        self.asks_words |= other.asks_words;
    }

    fn traffic(&self, at: usize) -> CountedTraffic {
        CountedTraffic { requests: self.numbers[at], sectors: self.numbers[at + 1], bytes: self.numbers[at + 2] }
    }

    /// Warp-level instructions of one class.
    pub fn warps(&self, class: Class) -> f64 {
        self.numbers[WARP + class as usize]
    }
    /// Thread-level instructions of one class.
    pub fn threads(&self, class: Class) -> f64 {
        self.numbers[THREAD + class as usize]
    }
    /// Warp-level instructions of all classes.
    pub fn instructions(&self) -> f64 {
        self.numbers[WARP..WARP + Class::COUNT].iter().sum()
    }
    /// Loads from global memory.
    pub fn global_load(&self) -> CountedTraffic {
        self.traffic(LOADS)
    }
    /// Stores to global memory.
    pub fn global_store(&self) -> CountedTraffic {
        self.traffic(STORES)
    }
    /// Atomics on global memory.
    pub fn global_atomic(&self) -> CountedTraffic {
        self.traffic(ATOMICS)
    }
    /// Reads of asynchronous and bulk copies.
    pub fn global_async(&self) -> CountedTraffic {
        self.traffic(COPIES)
    }
    /// Accesses of shared memory: loads, stores and copies, atomics.
    pub fn shared(&self) -> [CountedShared; 3] {
        let of =
            |at: usize| CountedShared { requests: self.numbers[at], wavefronts: self.numbers[at + 1], conflicts: self.numbers[at + 2] };
        [SHARED_LOADS, SHARED_STORES, SHARED_ATOMICS].map(of)
    }
    /// Loads from constant memory: warp-level instructions.
    pub fn constant_loads(&self) -> f64 {
        self.numbers[CONSTANTS]
    }
    /// Passes through the banks of shared memory: of loads, of stores and copies, of atomics.
    pub fn shared_wavefronts(&self) -> [f64; 3] {
        self.shared().map(|of| of.wavefronts)
    }
    /// Multiply-adds of matrix instructions: f16 and bf16, tf32, 8-bit integers, 8-bit floats.
    pub fn matrix(&self) -> [f64; 4] {
        [HALF, TF32, INT8, FLOAT8].map(|at| self.numbers[at])
    }
    /// Those of them that instructions of warp groups make.
    pub fn matrix_groups(&self) -> f64 {
        self.numbers[GROUPS]
    }
    /// Sectors of stores, counted once per request, of which the request writes only a part.
    pub fn partial_stores(&self) -> f64 {
        self.numbers[PARTIAL]
    }
    /// Lines of 128 bytes that loads, stores and atomics touch in global memory, counted once per request; not those of copies to shared memory.
    pub fn lines(&self) -> f64 {
        self.numbers[LINES]
    }
    /// Lines and sectors that the L1 passes on to the L2, copies' among them: all but those of loads that the block has touched before.
    pub fn passed_on(&self) -> [f64; 2] {
        [self.numbers[PASSED], self.numbers[PASSED + 1]]
    }
    /// Barriers of the whole block, per warp that arrives.
    pub fn block_barriers(&self) -> f64 {
        self.numbers[BARRIERS]
    }
    /// Barriers at which some of a block's warps meet, per warp that arrives.
    pub fn named_barriers(&self) -> f64 {
        self.numbers[NAMED]
    }
    /// Waits for a phase of an mbarrier, per warp that waits.
    pub fn phase_waits(&self) -> f64 {
        self.numbers[PHASES]
    }
    /// Clocks of the longest chain of dependent operations, added up over all blocks.
    pub fn chain(&self) -> f64 {
        self.numbers[CHAIN]
    }
    /// Bytes of the distinct sectors that are read from a parameter's memory, and of those that are written.
    pub fn unique(&self, param: usize) -> [f64; 2] {
        [self.numbers[UNIQUE + 2 * param], self.numbers[UNIQUE + 2 * param + 1]]
    }
    /// Bytes of distinct sectors of all parameters, read and written.
    pub fn unique_bytes(&self) -> [f64; 2] {
        let of = |side: usize| self.numbers[UNIQUE + side..].iter().step_by(2).sum();
        [of(0), of(1)]
    }
}
