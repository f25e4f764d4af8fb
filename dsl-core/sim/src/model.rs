//! Predicts time from counters, resources and a target. The model prunes and orders candidates and says what bounds a kernel; it
//! never picks alone: measurement decides.
//!
//! Each resource has the time that it needs if it were alone (memory, L2, shared memory, arithmetic, issue). Three things hide one another in
//! part: what memory and the L2 take (the slower one counts), what warps take to issue, calculate and reach shared memory (again the slowest),
//! and what a block's longest chain of dependent operations takes, wave after wave. They add up as sides of right angles do: the longest one
//! alone where the others are short, more where they are about as long. Tensor cores and atomics go on by themselves: they count where they
//! take longer than the first two together. To that come the cost of the launch, and a part of the chain that nothing hides; where
//! the last wave of blocks is partly empty the units' times are stretched. Without a chain the longest time counts, and memory runs at full
//! bandwidth only if enough bytes are in flight: occupancy × the independent bytes that a thread requests before it waits.

use girih_ir::target::{MatrixRates, REGISTERS_PER_MULTIPROCESSOR, Target};

/// What a launch does, scaled to the whole grid. Numbers are totals over all blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Work {
    /// 32-byte sectors that global loads touch, counted once per request.
    pub load_sectors: f64,
    /// 32-byte sectors that global stores and atomics touch, counted once per request.
    pub store_sectors: f64,
    /// Lines of 128 bytes that loads, stores and atomics touch in global memory, counted once per request; 0 if not known.
    pub lines: f64,
    /// Lines that the L1 asks the L2 for: all but those of loads whose sectors a block has touched before. 0 if not known.
    pub l2_lines: f64,
    /// Sectors of these; 0 if not known: then all sectors count.
    pub l2_sectors: f64,
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
    /// Multiply-adds of matrix instructions on 8-bit floats.
    pub matrix_float8: f64,
    /// Those of them that instructions of warp groups make.
    pub matrix_groups: f64,
    /// Atomic operations, counted per thread.
    pub atomics: f64,
    /// Dependent rounds of global loads along a thread: turns of its loop over tiles, at least 1 where anything is loaded.
    pub rounds: f64,
    /// Of the sectors of stores those of which a request writes only a part: what is there has to be fetched.
    pub partial_stores: f64,
    /// Clocks of a block's longest chain of dependent operations, barriers and trips to memory among them, were it alone; an average over the
    /// blocks. 0 if not known: then `rounds` stands for it.
    pub chain: f64,
    /// The same of the block whose chain is the longest, without the last one, which may have to finish what all have left.
    pub longest_chain: f64,
    /// Clocks by which that last block takes longer than the others.
    pub behind: f64,
    /// Copies to constant memory that the host queues in front of the launch.
    pub constant_copies: f64,
    /// How often a warp runs an instruction of its code on average; 0 if not known.
    pub repeats: f64,
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
    /// fp32 units.
    Arithmetic,
    /// Special-function units: exponentials, roots, divisions.
    SpecialFunctions,
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
    /// Those that have a time of their own: all but the launch and resources.
    pub const BOUNDS: usize = 9;

    /// Whether it is of what lies behind the multiprocessors.
    fn is_of_memory(self) -> bool {
        matches!(self, Bottleneck::Memory | Bottleneck::L2)
    }

    /// Whether it is of what warps issue one instruction after the other for. Tensor cores and atomics go on by themselves.
    fn is_of_warps(self) -> bool {
        matches!(self, Bottleneck::Shared | Bottleneck::Arithmetic | Bottleneck::SpecialFunctions | Bottleneck::Issue)
    }

    /// Whether it goes on by itself.
    fn is_beside_warps(self) -> bool {
        matches!(self, Bottleneck::Tensor | Bottleneck::Atomics)
    }

    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Memory => "memory bandwidth",
            Bottleneck::Latency => "memory latency",
            Bottleneck::L2 => "L2 bandwidth",
            Bottleneck::Shared => "shared memory",
            Bottleneck::Arithmetic => "arithmetic",
            Bottleneck::SpecialFunctions => "special functions",
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
    /// Those of the launch itself, and of copies in front of it.
    pub front: f64,
    /// Those of the first blocks' loads and the last ones' stores, and by which the last block takes longer: nothing overlaps with these.
    pub ends: f64,
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
    /// Seconds that each bound would take if it were alone, without the launch; none if the kernel can't run.
    pub bounds: [(f64, Bottleneck); Bottleneck::BOUNDS],
    /// Rounds of blocks: the grid ÷ the blocks that all multiprocessors hold at a time; 0 if the kernel can't run.
    pub waves: f64,
}

/// Registers are given to warps in units of this many.
const REGISTER_GRANULE: u32 = 256;
/// Sectors of L2 traffic per clock and multiprocessor: 64 bytes.
const L2_SECTORS_PER_CLOCK: f64 = 2.0;
/// Lines that the L1 of a multiprocessor asks the L2 for per clock, however little of each: measured with columns of a matrix on an H200.
const L2_LINES_PER_CLOCK: f64 = 0.4;
/// Bytes of the L1 that threads' spilled values may fill: more of them are written to the L2.
const SPILLS_KEPT: f64 = 192.0 * 1024.0;
/// Part of a block's chain that nothing overlaps: the first blocks' loads, and the last ones' stores.
const CHAIN_ALONE: f64 = 0.25;
/// Part of a sector by which a store of some of its bytes lengthens the memory's time, though others may fill it before it leaves the L2:
/// measured with pairs of vectors that lie two vectors apart on an H200 (108 µs where stores of whole sectors take 99).
const HALF_FILLED: f64 = 0.1;
/// A block is waited for whose chain is so many times as long as that of others: below that, the first one that is run may seem longer, since it
/// finds nothing in the cache.
const HEAVY: f64 = 2.0;
/// Schedulers of a multiprocessor, each issues one instruction per clock.
const ISSUE_PER_CLOCK: f64 = 4.0;
/// Special functions per clock and multiprocessor.
const SPECIAL_PER_CLOCK: f64 = 16.0;
/// Atomic operations per clock on the whole device, on different addresses.
const ATOMICS_PER_CLOCK: f64 = 512.0;
/// Clocks by which one spilled value that is loaded or stored lengthens a thread's chain: some of its latency is hidden.
const SPILL_CLOCKS: f64 = 8.0;
/// Seconds by which a call's first launch takes longer than those behind it.
pub const FIRST_LAUNCH: f64 = 1.0e-6;
/// Seconds that a copy of a few KiB in front of a launch takes.
const COPY: f64 = 2.0e-6;
/// Seconds from a load's issue to its data, on a loaded memory.
const MEMORY_LATENCY: f64 = 0.8e-6;

impl Limit {
    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Registers => "registers",
            Limit::Shared => "shared memory",
            Limit::Warps => "threads",
            Limit::Blocks => "blocks",
        }
    }
}

/// How many blocks each limit lets one multiprocessor hold, whatever the others do.
pub fn fits(target: &Target, launch: &Launch, resources: &Resources) -> [(u32, Limit); 4] {
    let warps = launch.block.div_ceil(32).max(1);
    let registers = (resources.registers.max(1) * 32).next_multiple_of(REGISTER_GRANULE) * warps;
    let shared = resources.shared + target.shared_reserved;
    let whole = if resources.shared > target.shared_per_block { Some(0) } else { target.shared_per_multiprocessor.checked_div(shared) };
    [
        (target.blocks_per_multiprocessor, Limit::Blocks),
        (target.threads_per_multiprocessor / (warps * 32), Limit::Warps),
        (whole.unwrap_or(u32::MAX), Limit::Shared),
        (REGISTERS_PER_MULTIPROCESSOR / registers, Limit::Registers),
    ]
}

/// Blocks that fit one multiprocessor.
pub fn occupancy(target: &Target, launch: &Launch, resources: &Resources) -> Occupancy {
    let warps = launch.block.div_ceil(32).max(1);
    let fits = fits(target, launch, resources);
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
    (REGISTERS_PER_MULTIPROCESSOR / threads / 8 * 8).min(255)
}

/// Predicts the time of one launch.
pub fn predict(work: &Work, launch: &Launch, resources: &Resources, target: &Target) -> Prediction {
    let occupancy = occupancy(target, launch, resources);
    if occupancy.blocks == 0 {
        let (seconds, bottleneck) = (f64::INFINITY, Bottleneck::Resources);
        let bounds = [(0.0, Bottleneck::Resources); Bottleneck::BOUNDS];
        return Prediction {
            seconds,
            front: 0.0,
            ends: 0.0,
            occupancy,
            bottleneck,
            bytes_in_flight: 0.0,
            bandwidth_share: 0.0,
            beside: 0.0,
            bounds,
            waves: 0.0,
        };
    }
    let multiprocessors = f64::from(target.multiprocessors);
    let grid = launch.grid.max(1) as f64;
    // Small grids leave multiprocessors idle; of large ones only the last wave is partly empty.
    let busy = grid.min(multiprocessors);
    let resident = f64::from(occupancy.blocks).min((grid / multiprocessors).ceil());
    let threads = resident * f64::from(launch.block);
    let bytes_in_flight = in_flight(work, launch, target, threads, grid);
    let bandwidth_share = (bytes_in_flight / f64::from(target.bytes_in_flight) * busy / multiprocessors).min(1.0);

    let sector_bytes = 32.0 * (work.load_sectors + work.store_sectors);
    let bytes = if work.memory_bytes > 0.0 { work.memory_bytes } else { sector_bytes };
    let memory = (bytes + HALF_FILLED * 32.0 * work.partial_stores) / target.bandwidth;
    // Only loads wait.
    let loads = work.load_sectors / (work.load_sectors + work.store_sectors).max(1.0);
    let slots = multiprocessors * f64::from(occupancy.blocks);
    // Words that a thread spills, each as often as an instruction runs.
    let spilled = f64::from(resources.spills) / 4.0 * work.repeats.max(1.0);
    let slowed = match work.chain {
        0.0 if bandwidth_share > 0.0 => memory * loads / bandwidth_share,
        _ => 0.0,
    };
    let latency = match work.chain {
        // However little there is to read, a thread waits for its loads one round after the other.
        0.0 if work.load_sectors > 0.0 => MEMORY_LATENCY * work.rounds.max(1.0) / f64::from(launch.stages.max(1)),
        0.0 => 0.0,
        // Blocks that fit at the same time take as long as one of them alone; the others follow, each as one has ended. A few that have
        // much to do are waited for.
        chain => {
            let waves = (grid / slots).ceil().min(grid / slots + 0.5).max(1.0);
            let longest = if work.longest_chain > HEAVY * chain { work.longest_chain } else { 0.0 };
            (waves * (chain + SPILL_CLOCKS * spilled)).max(longest) / target.clock
        }
    };
    let cycles = |amount: f64, per_clock: f64| amount / (per_clock * busy * target.clock);
    // Warps' accesses for what their threads spill; four sectors each where these are too many for the L1.
    let spilled = spilled * f64::from(launch.block.div_ceil(32)) * grid;
    let far = if threads * f64::from(resources.spills) / 2.0 > SPILLS_KEPT { spilled } else { 0.0 };
    let sectors = if work.l2_sectors > 0.0 { work.l2_sectors } else { work.load_sectors + work.store_sectors };
    let l2 = cycles(sectors + work.partial_stores + 4.0 * far, L2_SECTORS_PER_CLOCK).max(cycles(work.l2_lines + far, L2_LINES_PER_CLOCK));
    let (floats, special) =
        (cycles(work.float_operations, f64::from(target.ffma_per_clock)), cycles(work.special_functions, SPECIAL_PER_CLOCK));
    let bounds = [
        (memory, Bottleneck::Memory),
        (slowed.max(latency), Bottleneck::Latency),
        (l2, Bottleneck::L2),
        // Shared memory and the L1 have one pipe.
        (cycles(work.shared_wavefronts + work.lines + spilled, 1.0), Bottleneck::Shared),
        (floats, Bottleneck::Arithmetic),
        (special, Bottleneck::SpecialFunctions),
        (matrix_clocks(work, &target.matrix) / (busy * target.clock), Bottleneck::Tensor),
        (cycles(work.instructions + spilled, ISSUE_PER_CLOCK), Bottleneck::Issue),
        (work.atomics / (ATOMICS_PER_CLOCK * target.clock), Bottleneck::Atomics),
    ];
    let (longest, mut bottleneck) =
        bounds.into_iter().fold((0.0, Bottleneck::Launch), |best, next| if next.0 > best.0 * 1.000_001 { next } else { best });
    let slowest = |side: fn(Bottleneck) -> bool| bounds.iter().filter(|b| side(b.1)).map(|b| b.0).fold(0.0, f64::max);
    let mixed = slowest(Bottleneck::is_of_memory).hypot(slowest(Bottleneck::is_of_warps));
    let throughput = mixed.max(slowest(Bottleneck::is_beside_warps));
    let efficiency = wave_efficiency(grid, slots, bottleneck);
    let (overlapped, ends) = match work.chain {
        0.0 => (longest / efficiency, 0.0),
        // What takes about as long hides the other badly: a loaded memory answers later, and units that wait have no work for it.
        chain => ((throughput / efficiency).hypot(latency), (CHAIN_ALONE * chain + work.behind) / target.clock),
    };
    let front = target.launch + COPY * work.constant_copies;
    let seconds = overlapped + ends + front;
    if longest < front {
        bottleneck = Bottleneck::Launch;
    }
    // Of the two units of plain arithmetic only the busier one counts here.
    let beside = bounds.iter().map(|(time, _)| time).sum::<f64>() - floats.min(special) - longest;
    Prediction { seconds, front, ends, occupancy, bottleneck, bytes_in_flight, bandwidth_share, beside, bounds, waves: grid / slots }
}

/// Clocks of one multiprocessor for all matrix instructions.
fn matrix_clocks(work: &Work, rates: &MatrixRates) -> f64 {
    let kinds = [
        (work.matrix_half, rates.half),
        (work.matrix_tf32, rates.tf32),
        (work.matrix_int8, rates.int8),
        (work.matrix_float8, rates.float8),
    ];
    let clocks = |(amount, rate): (f64, u32)| if amount > 0.0 { amount / f64::from(rate) } else { 0.0 };
    let (all, amount) = (kinds.into_iter().map(clocks).sum::<f64>(), kinds.iter().map(|k| k.0).sum::<f64>());
    let by_groups = if amount > 0.0 { work.matrix_groups / amount } else { 0.0 };
    all * (by_groups + (1.0 - by_groups) / rates.mma_share)
}

/// Bytes that the resident threads of a multiprocessor request before they wait: one round of loads, times the stages of a pipeline.
/// Kernels that only store are never short of bytes in flight: stores don't wait.
fn in_flight(work: &Work, launch: &Launch, target: &Target, threads: f64, grid: f64) -> f64 {
    if work.load_sectors == 0.0 {
        return f64::INFINITY;
    }
    if work.chain > 0.0 {
        let per_block = 32.0 * work.load_sectors / grid;
        return threads / f64::from(launch.block) * per_block * (MEMORY_LATENCY * target.clock / work.chain).min(1.0);
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
mod tests;
