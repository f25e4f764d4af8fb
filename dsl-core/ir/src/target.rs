//! Targets: the limits and rates of a GPU, as plain data.

mod relatives;

pub use relatives::RELATIVES;

use crate::fragments::Atom;

/// Registers of a multiprocessor, on every target.
pub const REGISTERS_PER_MULTIPROCESSOR: u32 = 65536;

/// Features that code generation asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// `h200`.
    pub name: &'static str,
    /// Compute capability times ten: 75, 80, 90, 100, 120.
    pub capability: u32,
    /// The architecture to compile for: `sm_90a`.
    pub arch: &'static str,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads resident on one multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Blocks resident on one multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Shared memory of one block at most, bytes.
    pub shared_per_block: u32,
    /// Shared memory of one multiprocessor, bytes.
    pub shared_per_multiprocessor: u32,
    /// Shared memory that the system keeps of each block, bytes.
    pub shared_reserved: u32,
    /// Memory bandwidth that a copy reaches, bytes per second.
    pub bandwidth: f64,
    /// Bytes in flight per multiprocessor that saturate the memory.
    pub bytes_in_flight: u32,
    /// L2 cache, bytes.
    pub l2: u64,
    /// Clock under load, Hz.
    pub clock: f64,
    /// Highest clock, Hz: data sheets give peak rates at this one.
    pub boost: f64,
    /// fp32 fused multiply-adds per clock and multiprocessor.
    pub ffma_per_clock: u32,
    /// Rates of the tensor cores.
    pub matrix: MatrixRates,
    /// Cost of a launch, seconds.
    pub launch: f64,
}

/// Dense multiply-adds per clock and multiprocessor of the tensor cores, with f32 (integers: i32) accumulators; 0 where a format is
/// unknown to them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MatrixRates {
    /// f16, and bf16 where there is any.
    pub half: u32,
    /// tf32.
    pub tf32: u32,
    /// 8-bit integers.
    pub int8: u32,
    /// 8-bit floats.
    pub float8: u32,
    /// Share of these rates that `mma.sync` reaches; the rest is for newer instructions.
    pub mma_share: f64,
}

/// Bytes of the widest global access: 32 on sm_100 and later, else 16.
pub const fn max_vector_bytes(capability: u32) -> u32 {
    if capability >= 100 { 32 } else { 16 }
}

const KB: u32 = 1024;

/// The GPUs that girih knows. Sources: NVIDIA's tuning guides and data sheets; bytes in flight from CUB's `tuning_transform`.
///
/// Rates of tensor cores are the data sheets' dense peaks, divided by multiprocessors and boost clock: T4 65 TFLOP/s in f16 and 130 TOP/s
/// in int8, A100 312, 156 (tf32) and 624, H100 and H200 989, 495 and 1979, B200 2250, 1125 and 4500, RTX 5090 209.5 (f32 accumulators),
/// 104.8 and 838. 8-bit floats have the rate of 8-bit integers, on an RTX 5090 half of it (419), and before sm_89 none. Of Hopper's peak `mma.sync` reaches 62 % (Luo et al.: Benchmarking and Dissecting the Nvidia Hopper GPU
/// Architecture via Microbenchmarking); for the B200 we assume that it runs as fast per multiprocessor as on the A100.
pub const TARGETS: [Target; 6] = [
    Target {
        name: "t4",
        capability: 75,
        arch: "sm_75",
        multiprocessors: 40,
        threads_per_multiprocessor: 1024,
        blocks_per_multiprocessor: 16,
        shared_per_block: 64 * KB,
        shared_per_multiprocessor: 64 * KB,
        shared_reserved: 0,
        bandwidth: 0.26e12,
        bytes_in_flight: 12 * KB,
        l2: 4 << 20,
        clock: 1.35e9,
        boost: 1.59e9,
        ffma_per_clock: 64,
        matrix: MatrixRates { half: 512, tf32: 0, int8: 1024, float8: 0, mma_share: 1.0 },
        launch: 3.0e-6,
    },
    Target {
        name: "a100",
        capability: 80,
        arch: "sm_80",
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_block: 163 * KB,
        shared_per_multiprocessor: 164 * KB,
        shared_reserved: KB,
        bandwidth: 1.75e12,
        bytes_in_flight: 16 * KB,
        l2: 40 << 20,
        clock: 1.41e9,
        boost: 1.41e9,
        ffma_per_clock: 64,
        matrix: MatrixRates { half: 1024, tf32: 512, int8: 2048, float8: 0, mma_share: 1.0 },
        launch: 2.5e-6,
    },
    Target {
        name: "h100",
        capability: 90,
        arch: "sm_90a",
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_block: 227 * KB,
        shared_per_multiprocessor: 228 * KB,
        shared_reserved: KB,
        bandwidth: 3.0e12,
        bytes_in_flight: 32 * KB,
        l2: 50 << 20,
        clock: 1.75e9,
        boost: 1.98e9,
        ffma_per_clock: 128,
        matrix: MatrixRates { half: 2048, tf32: 1024, int8: 4096, float8: 4096, mma_share: 0.62 },
        launch: 2.2e-6,
    },
    Target {
        name: "h200",
        capability: 90,
        arch: "sm_90a",
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_block: 227 * KB,
        shared_per_multiprocessor: 228 * KB,
        shared_reserved: KB,
        bandwidth: 4.3e12,
        bytes_in_flight: 48 * KB,
        l2: 60 << 20,
        clock: 1.75e9,
        boost: 1.98e9,
        ffma_per_clock: 128,
        matrix: MatrixRates { half: 2048, tf32: 1024, int8: 4096, float8: 4096, mma_share: 0.62 },
        launch: 2.2e-6,
    },
    Target {
        name: "b200",
        capability: 100,
        arch: "sm_100a",
        multiprocessors: 148,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_block: 227 * KB,
        shared_per_multiprocessor: 228 * KB,
        shared_reserved: KB,
        bandwidth: 7.2e12,
        bytes_in_flight: 64 * KB,
        l2: 126 << 20,
        clock: 1.85e9,
        boost: 1.965e9,
        ffma_per_clock: 128,
        matrix: MatrixRates { half: 4096, tf32: 2048, int8: 8192, float8: 8192, mma_share: 0.25 },
        launch: 2.2e-6,
    },
    Target {
        name: "rtx5090",
        capability: 120,
        arch: "sm_120",
        multiprocessors: 170,
        threads_per_multiprocessor: 1536,
        blocks_per_multiprocessor: 24,
        shared_per_block: 99 * KB,
        shared_per_multiprocessor: 100 * KB,
        shared_reserved: KB,
        bandwidth: 1.6e12,
        bytes_in_flight: 32 * KB,
        l2: 96 << 20,
        clock: 2.4e9,
        boost: 2.41e9,
        ffma_per_clock: 128,
        matrix: MatrixRates { half: 256, tf32: 128, int8: 1024, float8: 512, mma_share: 1.0 },
        launch: 2.2e-6,
    },
];

impl Target {
    /// The target of a name (`h200`) or an architecture (`sm_90a`, `sm_90`); for an architecture the first GPU that has it, or what stands in
    /// for one ([`RELATIVES`]).
    pub fn find(name: &str) -> Option<&'static Target> {
        let bare = name.trim_end_matches(['a', 'f']);
        TARGETS
            .iter()
            .find(|t| t.name.eq_ignore_ascii_case(name))
            .or_else(|| TARGETS.iter().chain(&RELATIVES).find(|t| name.starts_with("sm_") && t.arch.trim_end_matches('a') == bare))
    }
    /// The H200, which everything is measured on first.
    pub fn h200() -> &'static Target {
        &TARGETS[3]
    }
    /// Blocks of so many threads with so many bytes of shared memory that a multiprocessor holds at once, as far as registers let it.
    pub fn resident_blocks(&self, threads: u32, shared: u32) -> u32 {
        let by_threads = self.threads_per_multiprocessor / threads.next_multiple_of(32).max(32);
        let by_shared = self.shared_per_multiprocessor / (shared + self.shared_reserved).max(1);
        self.blocks_per_multiprocessor.min(by_threads).min(by_shared)
    }
    /// Seconds that the memory takes at the least to read so many bytes and to write so many. `bandwidth` is that of a copy, which turns from
    /// one to the other all the time; reads alone and writes alone are faster. An H200 was measured: 4.30 TB/s for a copy of 8 GiB, 4.49 for
    /// the fastest reads of 2 GiB, 4.67 for a fill. By this it moves two bytes read for each one written at 4.36; measured were 4.35. Other
    /// GPUs are taken to gain as much.
    pub fn memory_seconds(&self, read: f64, written: f64) -> f64 {
        const READS: f64 = 4.5 / 4.3;
        const WRITES: f64 = 4.67 / 4.3;
        // So that half of each is a copy.
        let turns = (2.0 - 1.0 / READS - 1.0 / WRITES) * read.min(written);
        (read / READS + written / WRITES + turns) / self.bandwidth
    }
    /// Has `cp.async`.
    pub fn has_async_copy(&self) -> bool {
        self.capability >= 80
    }
    /// Has `redux.sync`.
    pub fn has_warp_reduce(&self) -> bool {
        self.capability >= 80
    }
    /// Has launches that begin before the one in front of them has ended (programmatic dependent launch).
    pub fn has_dependent_launches(&self) -> bool {
        self.capability >= 90
    }
    /// Has `createpolicy` and loads that take a policy of the L2 cache.
    pub fn has_cache_policies(&self) -> bool {
        self.capability >= 80
    }
    /// Has this matrix instruction. All targets have `ldmatrix`.
    pub fn has(&self, atom: &Atom) -> bool {
        self.capability >= atom.capability
    }
    /// Has matrix instructions of warp groups (`wgmma`), which no later architecture kept.
    pub fn has_group_atoms(&self) -> bool {
        self.arch == "sm_90a"
    }
    /// Has clusters of blocks that reach one another's shared memory.
    pub fn has_clusters(&self) -> bool {
        self.capability >= 90
    }
    /// Has bulk copies that complete on mbarriers.
    pub fn has_bulk_copy(&self) -> bool {
        self.capability >= 90
    }
}
