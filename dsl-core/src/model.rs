//! Predicts time from counters, resources and a target. The model prunes and orders candidates and says what bounds a kernel; it
//! never picks alone: measurement decides.
//!
//! Time is the largest of the times that each resource needs if it were alone (memory, L2, shared memory, arithmetic, issue),
//! stretched where the last wave of blocks is partly empty, plus the cost of the launch. Memory runs at full bandwidth only if
//! enough bytes are in flight: occupancy × the independent bytes that a thread requests before it waits.

use crate::target::{MatrixRates, Target};

/// What a launch does, scaled to the whole grid. Numbers are totals over all blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Work {
    /// 32-byte sectors that global loads touch, counted once per request.
    pub load_sectors: f64,
    /// 32-byte sectors that global stores and atomics touch, counted once per request.
    pub store_sectors: f64,
    /// Compulsory bytes from and to memory: each byte of an input once, each of an output once. 0 if not known: then all sectors count.
    pub memory_bytes: f64,
    /// Passes through the shared-memory banks.
    pub shared_wavefronts: f64,
    /// Instructions issued, counted per warp.
    pub instructions: f64,
    /// fp32 additions, multiplications and fused multiply-adds, counted per thread.
    pub float_operations: f64,
    /// Special functions (exponentials, roots, divisions), counted per thread.
    pub special_functions: f64,
    /// Multiply-adds of matrix instructions on f16 or bf16.
    pub matrix_half: f64,
    /// Multiply-adds of matrix instructions on tf32.
    pub matrix_tf32: f64,
    /// Multiply-adds of matrix instructions on 8-bit integers.
    pub matrix_int8: f64,
    /// Atomic operations, counted per thread.
    pub atomics: f64,
    /// Dependent rounds of global loads along a thread: turns of its loop over tiles, at least 1 where anything is loaded.
    pub rounds: f64,
    /// Of these, rounds in which all threads of a block wait for what they have just asked for: none where copies run ahead.
    pub waits: f64,
}

impl Work {
    /// Each number made of this one's and another's.
    pub fn with(&self, other: &Work, of: &dyn Fn(f64, f64) -> f64) -> Work {
        Work {
            load_sectors: of(self.load_sectors, other.load_sectors),
            store_sectors: of(self.store_sectors, other.store_sectors),
            memory_bytes: of(self.memory_bytes, other.memory_bytes),
            shared_wavefronts: of(self.shared_wavefronts, other.shared_wavefronts),
            instructions: of(self.instructions, other.instructions),
            float_operations: of(self.float_operations, other.float_operations),
            special_functions: of(self.special_functions, other.special_functions),
            matrix_half: of(self.matrix_half, other.matrix_half),
            matrix_tf32: of(self.matrix_tf32, other.matrix_tf32),
            matrix_int8: of(self.matrix_int8, other.matrix_int8),
            atomics: of(self.atomics, other.atomics),
            rounds: of(self.rounds, other.rounds),
            waits: of(self.waits, other.waits),
        }
    }
}

/// What the compiled kernel occupies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of shared memory per block, without what the system keeps.
    pub shared: u32,
    /// Bytes spilled per thread, stores and loads together.
    pub spills: u32,
}

/// How the kernel is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Blocks.
    pub grid: u64,
    /// Threads per block.
    pub block: u32,
    /// Buffers of the software pipeline; 1 means none.
    pub stages: u32,
}

/// What limits the blocks that are resident on a multiprocessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
    /// Threads.
    Warps,
    /// The number of blocks that a multiprocessor keeps.
    Blocks,
}

/// Resident blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Occupancy {
    /// Blocks resident on one multiprocessor; 0 if one block doesn't fit.
    pub blocks: u32,
    /// Resident threads ÷ most resident threads.
    pub fraction: f64,
    /// What limits it.
    pub limit: Limit,
}

/// What bounds a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bottleneck {
    /// Bandwidth of the memory.
    Memory,
    /// Too few bytes are in flight to use the memory's bandwidth.
    Latency,
    /// Bandwidth of the L2 cache: more sectors than bytes that were asked for.
    L2,
    /// Passes through shared memory.
    Shared,
    /// fp32 or special-function units.
    Arithmetic,
    /// Tensor cores.
    Tensor,
    /// Instructions issued.
    Issue,
    /// Atomics.
    Atomics,
    /// The launch itself.
    Launch,
    /// One block doesn't fit a multiprocessor: the kernel can't run.
    Resources,
}

impl Bottleneck {
    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Memory => "memory bandwidth",
            Bottleneck::Latency => "memory latency",
            Bottleneck::L2 => "L2 bandwidth",
            Bottleneck::Shared => "shared memory",
            Bottleneck::Arithmetic => "arithmetic",
            Bottleneck::Tensor => "tensor pipe",
            Bottleneck::Issue => "instruction issue",
            Bottleneck::Atomics => "atomics",
            Bottleneck::Launch => "launch",
            Bottleneck::Resources => "resources",
        }
    }
}

/// A prediction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// Seconds, the launch included; infinite if the kernel can't run.
    pub seconds: f64,
    /// Resident blocks.
    pub occupancy: Occupancy,
    /// What bounds the kernel.
    pub bottleneck: Bottleneck,
    /// Bytes that one multiprocessor has in flight.
    pub bytes_in_flight: f64,
    /// Share of the memory's bandwidth that the bytes in flight can use, 0 to 1.
    pub bandwidth_share: f64,
    /// Seconds of all other bounds together: what overlaps with the longest one, if all goes well.
    pub beside: f64,
}

/// Registers are given to warps in units of this many.
const REGISTER_GRANULE: u32 = 256;
/// Registers of a multiprocessor, on every target.
const REGISTERS: u32 = 65536;
/// Sectors of L2 traffic per clock and multiprocessor: 64 bytes.
const L2_SECTORS_PER_CLOCK: f64 = 2.0;
/// Schedulers of a multiprocessor, each issues one instruction per clock.
const ISSUE_PER_CLOCK: f64 = 4.0;
/// Special functions per clock and multiprocessor.
const SPECIAL_PER_CLOCK: f64 = 16.0;
/// Atomic operations per clock on the whole device, on different addresses.
const ATOMICS_PER_CLOCK: f64 = 512.0;
/// Seconds from a load's issue to its data, on a loaded memory.
const MEMORY_LATENCY: f64 = 0.8e-6;

/// Blocks that fit one multiprocessor.
pub fn occupancy(target: &Target, launch: &Launch, resources: &Resources) -> Occupancy {
    let warps = launch.block.div_ceil(32).max(1);
    let registers = (resources.registers.max(1) * 32).next_multiple_of(REGISTER_GRANULE) * warps;
    let shared = resources.shared + target.shared_reserved;
    let fits = [
        (target.blocks_per_multiprocessor, Limit::Blocks),
        (target.threads_per_multiprocessor / (warps * 32), Limit::Warps),
        (target.shared_per_multiprocessor.checked_div(shared).unwrap_or(u32::MAX), Limit::Shared),
        (REGISTERS / registers, Limit::Registers),
    ];
    // Of equal limits the last one is named: it is the one that a schedule can change.
    let (mut blocks, mut limit) = fits.into_iter().fold((u32::MAX, Limit::Blocks), |best, next| if next.0 <= best.0 { next } else { best });
    if resources.shared > target.shared_per_block {
        (blocks, limit) = (0, Limit::Shared);
    }
    let fraction = f64::from(blocks * warps * 32) / f64::from(target.threads_per_multiprocessor);
    Occupancy { blocks, fraction, limit }
}

/// Registers that the compiler gives each of a block's threads at most, where so many blocks are to fit a multiprocessor.
pub fn most_registers(block: u32, min_blocks: u32) -> u32 {
    let threads = block.next_multiple_of(32).max(32) * min_blocks.max(1);
    (REGISTERS / threads / 8 * 8).min(255)
}

/// Predicts the time of one launch.
pub fn predict(work: &Work, launch: &Launch, resources: &Resources, target: &Target) -> Prediction {
    let occupancy = occupancy(target, launch, resources);
    if occupancy.blocks == 0 {
        let (seconds, bottleneck) = (f64::INFINITY, Bottleneck::Resources);
        return Prediction { seconds, occupancy, bottleneck, bytes_in_flight: 0.0, bandwidth_share: 0.0, beside: 0.0 };
    }
    let multiprocessors = f64::from(target.multiprocessors);
    let grid = launch.grid.max(1) as f64;
    // Small grids leave multiprocessors idle; of large ones only the last wave is partly empty.
    let busy = grid.min(multiprocessors);
    let resident = f64::from(occupancy.blocks).min((grid / multiprocessors).ceil());
    let threads = resident * f64::from(launch.block);
    let bytes_in_flight = in_flight(work, launch, threads, grid);
    let bandwidth_share = (bytes_in_flight / f64::from(target.bytes_in_flight) * busy / multiprocessors).min(1.0);

    let sector_bytes = 32.0 * (work.load_sectors + work.store_sectors);
    let bytes = if work.memory_bytes > 0.0 { work.memory_bytes } else { sector_bytes };
    let memory = bytes / target.bandwidth;
    // Only loads wait.
    let loads = work.load_sectors / (work.load_sectors + work.store_sectors).max(1.0);
    let slowed = if bandwidth_share > 0.0 { memory * loads / bandwidth_share } else { 0.0 };
    // However little there is to read, a thread waits for its loads one round after the other.
    let latency = if work.load_sectors > 0.0 { MEMORY_LATENCY * work.rounds.max(1.0) / f64::from(launch.stages.max(1)) } else { 0.0 };
    let cycles = |amount: f64, per_clock: f64| amount / (per_clock * busy * target.clock);
    let spilled = f64::from(resources.spills) * f64::from(launch.block) * grid / 32.0;
    let times = [
        (memory, Bottleneck::Memory),
        (slowed.max(latency), Bottleneck::Latency),
        (cycles(work.load_sectors + work.store_sectors + spilled, L2_SECTORS_PER_CLOCK), Bottleneck::L2),
        (cycles(work.shared_wavefronts, 1.0), Bottleneck::Shared),
        (
            cycles(work.float_operations, f64::from(target.ffma_per_clock)).max(cycles(work.special_functions, SPECIAL_PER_CLOCK)),
            Bottleneck::Arithmetic,
        ),
        (matrix_clocks(work, &target.matrix) / (busy * target.clock), Bottleneck::Tensor),
        (cycles(work.instructions, ISSUE_PER_CLOCK), Bottleneck::Issue),
        (work.atomics / (ATOMICS_PER_CLOCK * target.clock), Bottleneck::Atomics),
    ];
    let (longest, mut bottleneck) =
        times.into_iter().fold((0.0, Bottleneck::Launch), |best, next| if next.0 > best.0 * 1.000_001 { next } else { best });
    let slots = multiprocessors * f64::from(occupancy.blocks);
    // While the threads of one block wait, those of the others on its multiprocessor compute.
    let waiting = MEMORY_LATENCY * work.waits * (grid / slots).ceil() / resident;
    let seconds = longest / wave_efficiency(grid, slots, bottleneck) + waiting + target.launch;
    if longest < target.launch {
        bottleneck = Bottleneck::Launch;
    }
    let beside = times.iter().map(|(time, _)| time).sum::<f64>() - longest;
    Prediction { seconds, occupancy, bottleneck, bytes_in_flight, bandwidth_share, beside }
}

/// Clocks of one multiprocessor for all matrix instructions.
fn matrix_clocks(work: &Work, rates: &MatrixRates) -> f64 {
    let kinds = [(work.matrix_half, rates.half), (work.matrix_tf32, rates.tf32), (work.matrix_int8, rates.int8)];
    let clocks = |(amount, rate): (f64, u32)| if amount > 0.0 { amount / (f64::from(rate) * rates.mma_share) } else { 0.0 };
    kinds.into_iter().map(clocks).sum()
}

/// Bytes that the resident threads of a multiprocessor request before they wait: one round of loads, times the stages of a pipeline.
/// Kernels that only store are never short of bytes in flight: stores don't wait.
fn in_flight(work: &Work, launch: &Launch, threads: f64, grid: f64) -> f64 {
    if work.load_sectors == 0.0 {
        return f64::INFINITY;
    }
    let per_thread = 32.0 * work.load_sectors / (grid * f64::from(launch.block)) / work.rounds.max(1.0);
    // While the next stages are in flight, the oldest is consumed.
    let depth = f64::from(launch.stages.max(2)) - 1.0;
    threads * per_thread * depth
}

/// Share of the waves' slots that hold a block. Memory doesn't mind a few idle multiprocessors in the last wave, so its waves are
/// softened: blocks start as others end.
fn wave_efficiency(grid: f64, slots: f64, bottleneck: Bottleneck) -> f64 {
    let waves = grid / slots;
    if waves <= 1.0 {
        return 1.0;
    }
    let strict = waves / waves.ceil();
    match bottleneck {
        Bottleneck::Memory | Bottleneck::Latency | Bottleneck::L2 => 1.0 - (1.0 - strict) * 0.25,
        _ => strict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Resources = Resources { registers: 32, shared: 0, spills: 0 };

    fn streaming(n: f64, bytes_per_element: f64) -> Work {
        let sectors = n * bytes_per_element / 32.0;
        Work {
            load_sectors: sectors * 2.0 / 3.0,
            store_sectors: sectors / 3.0,
            memory_bytes: n * bytes_per_element,
            instructions: n / 32.0 * 2.0,
            rounds: 1.0,
            ..Default::default()
        }
    }

    #[test]
    fn occupancy_finds_the_limit() {
        let h200 = Target::h200();
        let launch = |block| Launch { grid: 1000, block, stages: 1 };
        let of = |block, registers, shared| {
            let o = occupancy(h200, &launch(block), &Resources { registers, shared, spills: 0 });
            (o.blocks, o.limit)
        };
        assert_eq!(of(256, 32, 0), (8, Limit::Registers));
        assert_eq!(of(256, 16, 0), (8, Limit::Warps));
        assert_eq!(of(32, 16, 0), (32, Limit::Blocks));
        assert_eq!(of(256, 128, 0), (2, Limit::Registers));
        // 33 registers take 1280 per warp: 51 warps fit.
        assert_eq!(of(256, 33, 0), (6, Limit::Registers));
        // 100 KiB and the reserved KiB fit twice.
        assert_eq!(of(256, 32, 100 << 10), (2, Limit::Shared));
        assert_eq!(of(256, 32, 228 << 10), (0, Limit::Shared));
        assert_eq!(of(1024, 128, 0), (0, Limit::Registers));
    }

    #[test]
    fn streaming_is_bound_by_memory_once_enough_is_in_flight() {
        let (n, h200) = (25e6, Target::h200());
        let work = streaming(n, 12.0);
        let few = predict(&work, &Launch { grid: (n / 256.0) as u64, block: 256, stages: 1 }, &SMALL, h200);
        let many = predict(&work, &Launch { grid: (n / 2048.0) as u64, block: 256, stages: 1 }, &SMALL, h200);
        assert_eq!((few.bottleneck, many.bottleneck), (Bottleneck::Latency, Bottleneck::Memory));
        assert!(many.seconds < few.seconds);
        // 300 MB at 4.3 TB/s are 70 µs.
        assert!((69e-6..80e-6).contains(&many.seconds), "{}", many.seconds);
    }

    #[test]
    fn uncoalesced_accesses_are_bound_by_l2() {
        let mut work = streaming(25e6, 12.0);
        work.load_sectors *= 8.0;
        let launch = Launch { grid: 12207, block: 256, stages: 1 };
        assert_eq!(predict(&work, &launch, &SMALL, Target::h200()).bottleneck, Bottleneck::L2);
    }

    #[test]
    fn small_launches_cost_the_launch_and_impossible_ones_infinity() {
        let launch = Launch { grid: 4, block: 256, stages: 1 };
        let small = predict(&streaming(1000.0, 12.0), &launch, &SMALL, Target::h200());
        assert_eq!(small.bottleneck, Bottleneck::Launch);
        let large = Resources { shared: 300 << 10, ..SMALL };
        let none = predict(&streaming(1000.0, 12.0), &launch, &large, Target::h200());
        assert_eq!((none.bottleneck, none.seconds), (Bottleneck::Resources, f64::INFINITY));
    }

    #[test]
    fn launch_bounds_leave_registers_for_as_many_blocks() {
        assert_eq!([1, 2, 3, 4].map(|blocks| most_registers(256, blocks)), [255, 128, 80, 64]);
        assert_eq!((most_registers(1024, 1), most_registers(1024, 2), most_registers(33, 1)), (64, 32, 255));
        let launch = |block| Launch { grid: 1, block, stages: 1 };
        for (block, blocks) in [(256, 2), (256, 3), (128, 5), (96, 7), (1024, 2)] {
            let resources = Resources { registers: most_registers(block, blocks), shared: 0, spills: 0 };
            assert!(occupancy(Target::h200(), &launch(block), &resources).blocks >= blocks, "{blocks} blocks of {block}");
        }
    }

    #[test]
    fn bank_conflicts_and_arithmetic_show() {
        let launch = Launch { grid: 12207, block: 256, stages: 1 };
        let base = streaming(25e6, 12.0);
        let conflicts = Work { shared_wavefronts: 25e6 / 32.0 * 64.0, ..base };
        assert_eq!(predict(&conflicts, &launch, &SMALL, Target::h200()).bottleneck, Bottleneck::Shared);
        let arithmetic = Work { float_operations: 25e6 * 200.0, instructions: 25e6 / 32.0 * 200.0, ..base };
        assert_eq!(predict(&arithmetic, &launch, &SMALL, Target::h200()).bottleneck, Bottleneck::Arithmetic);
    }

    #[test]
    fn matrix_instructions_are_bound_by_the_tensor_pipe() {
        // 4096³ in f16, with blocks of 128 × 128 that read each operand once per 128 elements of the other.
        let (n, block) = (4096f64, 128.0);
        let products = n * n * n;
        let work = Work {
            load_sectors: 2.0 * n * n * n / block * 2.0 / 32.0,
            store_sectors: n * n * 4.0 / 32.0,
            memory_bytes: n * n * 8.0,
            instructions: products / 2048.0 * 1.5,
            shared_wavefronts: products / 2048.0 * 1.5,
            matrix_half: products,
            rounds: 1.0,
            ..Default::default()
        };
        let launch = Launch { grid: 1024, block: 128, stages: 3 };
        for (name, tflops) in [("t4", 55.0), ("a100", 312.0), ("h200", 0.62 * 989.0), ("b200", 0.25 * 2250.0)] {
            let target = Target::find(name).expect("a target");
            let found = predict(&work, &launch, &Resources { registers: 128, shared: 16 << 10, spills: 0 }, target);
            assert_eq!(found.bottleneck, Bottleneck::Tensor, "{name}");
            // The clock under load is lower than that of the data sheet, and the last wave is partly empty.
            let reached = 2.0 * products / found.seconds / 1e12;
            assert!((0.6 * tflops..1.01 * tflops).contains(&reached), "{name}: {reached}");
        }
    }

    #[test]
    fn rates_of_tensor_cores_are_those_of_the_data_sheets() {
        for (name, half, int8) in [("t4", 65.0, 130.0), ("a100", 312.0, 624.0), ("b200", 2250.0, 4500.0), ("rtx5090", 209.5, 838.0)] {
            let target = Target::find(name).expect("a target");
            let peak = |rate: u32| 2.0 * f64::from(rate) * f64::from(target.multiprocessors) * target.boost / 1e12;
            assert!((peak(target.matrix.half) / half - 1.0).abs() < 0.07, "{name}: {}", peak(target.matrix.half));
            assert!((peak(target.matrix.int8) / int8 - 1.0).abs() < 0.07, "{name}: {}", peak(target.matrix.int8));
        }
    }
}
