//! Counters as `ncu` counts, and the rules that turn lane addresses into sectors and wavefronts.

use super::warp::active_lanes;
use girih_ir::fragments::Number;

/// What a statement's instructions occupy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// f32 fused multiply-add.
    Fma,
    /// f32 addition, subtraction, comparison, minimum, maximum and the like.
    FloatAdd,
    /// f32 multiplication.
    FloatMul,
    /// Exponential, logarithm, roots, trigonometry, division.
    SpecialFunction,
    /// Integer and bool arithmetic, selects.
    Integer,
    /// Conversions between types.
    Convert,
    /// Loads and stores of any memory, asynchronous copies.
    Memory,
    /// Atomics.
    Atomic,
    /// Branches and loops.
    Control,
    /// Barriers, waits and fences.
    Barrier,
    /// Shuffles.
    Shuffle,
    /// Matrix instructions.
    Matrix,
    /// Register moves, which mostly vanish in compiled code.
    Move,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = 13;
    /// All of them, in the order of the enum.
    pub const ALL: [Class; Class::COUNT] = [
        Class::Fma,
        Class::FloatAdd,
        Class::FloatMul,
        Class::SpecialFunction,
        Class::Integer,
        Class::Convert,
        Class::Memory,
        Class::Atomic,
        Class::Control,
        Class::Barrier,
        Class::Shuffle,
        Class::Matrix,
        Class::Move,
    ];
}

/// Traffic of one kind of global access.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GlobalTraffic {
    /// Warp-level instructions with at least one lane that accesses.
    pub requests: u64,
    /// 32-byte sectors touched, counted once per request.
    pub sectors: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
}

/// Traffic of one kind of shared access.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SharedTraffic {
    /// Warp-level instructions with at least one lane that accesses.
    pub requests: u64,
    /// Passes through the 32 banks of 4 bytes.
    pub wavefronts: u64,
    /// Wavefronts beyond those that the amount of data needs.
    pub conflicts: u64,
}

/// Traffic with constant memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ConstantTraffic {
    /// Warp-level instructions with at least one lane that reads.
    pub requests: u64,
    /// Different addresses that lanes read, counted once per request: one after the other, so as many as requests where all lanes read one.
    pub addresses: u64,
}

/// Multiply-adds of matrix instructions, by the formats that a tensor core tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MatrixWork {
    /// f16 and bf16.
    pub half: u64,
    /// tf32.
    pub tf32: u64,
    /// 8-bit integers.
    pub int8: u64,
    /// 8-bit floats.
    pub float8: u64,
    /// Those of them that instructions of warp groups make.
    pub groups: u64,
}

impl MatrixWork {
    pub(super) fn add(&mut self, number: Number, multiply_adds: u64) {
        *match number {
            Number::F16 | Number::BF16 => &mut self.half,
            Number::Tf32 => &mut self.tf32,
            Number::I8 | Number::U8 => &mut self.int8,
            Number::F8E4M3 | Number::F8E5M2 => &mut self.float8,
        } += multiply_adds;
    }
}

/// What a launch did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Warp-level instructions of SIMT IR by [`Class`] (`counters.warp[Class::Fma as usize]`).
    pub warp: [u64; Class::COUNT],
    /// The same, counted once per active lane.
    pub thread: [u64; Class::COUNT],
    /// Loads from global memory.
    pub global_load: GlobalTraffic,
    /// Stores to global memory.
    pub global_store: GlobalTraffic,
    /// Atomics on global memory.
    pub global_atomic: GlobalTraffic,
    /// Reads of asynchronous and bulk copies.
    pub global_async: GlobalTraffic,
    /// Loads from shared memory.
    pub shared_load: SharedTraffic,
    /// Stores to shared memory; asynchronous copies count here too.
    pub shared_store: SharedTraffic,
    /// Atomics on shared memory.
    pub shared_atomic: SharedTraffic,
    /// Loads from constant memory.
    pub constant_load: ConstantTraffic,
    /// Multiply-adds of matrix instructions.
    pub matrix: MatrixWork,
    /// Bytes of the distinct 32-byte sectors that were read from global memory: what an ideal cache fetches.
    pub unique_read_bytes: u64,
    /// Bytes of the distinct 32-byte sectors that were written to global memory.
    pub unique_written_bytes: u64,
    /// Barriers of the whole block, per warp that arrives.
    pub block_barriers: u64,
}

impl Counters {
    /// Warp-level instructions of one class.
    pub fn warps(&self, class: Class) -> u64 {
        self.warp[class as usize]
    }
    /// Thread-level instructions of one class.
    pub fn threads(&self, class: Class) -> u64 {
        self.thread[class as usize]
    }
    /// Warp-level instructions of all classes.
    pub fn instructions(&self) -> u64 {
        self.warp.iter().sum()
    }
}

/// Distinct 32-byte sectors under accesses of `bytes` bytes at the addresses of the lanes.
pub(super) fn sectors(addresses: &[u64; 32], lanes: u32, bytes: u32) -> u64 {
    let mut seen = [0u64; 64];
    let mut count = 0;
    for lane in active_lanes(lanes) {
        let first = addresses[lane] >> 5;
        let last = (addresses[lane] + bytes as u64 - 1) >> 5;
        for sector in first..=last {
            if !seen[..count].iter().rev().any(|s| *s == sector) {
                seen[count] = sector;
                count += 1;
            }
        }
    }
    count as u64
}

/// Different addresses of the lanes.
pub(super) fn distinct(addresses: &[u64; 32], lanes: u32) -> u64 {
    let is_new =
        |lane: &usize| !active_lanes(lanes).take_while(|earlier| earlier < lane).any(|earlier| addresses[earlier] == addresses[*lane]);
    active_lanes(lanes).filter(is_new).count() as u64
}

/// Wavefronts and conflicts of a shared access of `bytes` bytes per lane. Accesses of 8 bytes go by half-warps and those of 16 bytes
/// by quarter-warps; lanes that read one word share it; two groups go together where all their words fit the banks at once.
pub(super) fn wavefronts(addresses: &[u64; 32], lanes: u32, bytes: u32) -> (u64, u64) {
    let group = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        9..=16 => 8,
        _ => 4,
    };
    let mut total = 0;
    let mut distinct = Words::default();
    let mut pending = Words::default();
    for first in (0..32).step_by(group) {
        let mut merged = pending;
        let mut own = Words::default();
        let members = lanes & (u32::MAX >> (32 - group)) << first;
        if members == 0 {
            continue;
        }
        for lane in active_lanes(members) {
            for word in addresses[lane] >> 2..=(addresses[lane] + bytes as u64 - 1) >> 2 {
                merged.add(word);
                own.add(word);
                distinct.add(word);
            }
        }
        if merged.depth() <= 1 {
            pending = merged;
        } else {
            total += pending.depth();
            pending = own;
        }
    }
    total += pending.depth();
    let ideal = (distinct.len as u64).div_ceil(32).max(1);
    (total, total.saturating_sub(ideal))
}

/// Distinct words and how many fall into each bank.
#[derive(Clone, Copy)]
struct Words {
    words: [u64; 256],
    len: usize,
    banks: [u16; 32],
}

impl Default for Words {
    fn default() -> Words {
        Words { words: [0; 256], len: 0, banks: [0; 32] }
    }
}

impl Words {
    fn add(&mut self, word: u64) {
        let bank = (word % 32) as usize;
        if self.banks[bank] > 0 && self.words[..self.len].contains(&word) {
            return;
        }
        self.words[self.len] = word;
        self.len += 1;
        self.banks[bank] += 1;
    }

    fn depth(&self) -> u64 {
        self.banks.iter().copied().max().unwrap_or(0) as u64
    }
}
