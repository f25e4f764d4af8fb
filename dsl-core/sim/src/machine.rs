//! The machine: blocks and warps stepped in a seeded order.

mod barriers;
mod ends;
mod traps;
mod turns;

use super::access::Traffic;
use super::clock::Clock;
use super::constants;
use super::counters::Counters;
use super::decode::{Program, pointer};
use super::memory::{Bytes, Memory};
use super::owners::Owners;
use super::shadow::Shadow;
use super::step::{Pause, Step};
use super::trap::{Trap, TrapKind};
use super::warp::{Status, Warp};
use super::{Arg, Options, Report};
use girih_ir::simt::{ParamKind, TensorMap};
use girih_ir::types::Literal;
use std::collections::{BTreeMap, HashMap, VecDeque};
use traps::launch_trap;
use turns::Passed;

/// A pointer argument.
pub(super) struct Pointer {
    pub(super) buffer: usize,
    pub(super) offset: u64,
}

/// What releases to one location made observable: per block for scopes up to the block, and for wider ones.
#[derive(Default)]
pub(super) struct Location {
    pub(super) blocks: HashMap<u32, Clock>,
    pub(super) device: Option<Clock>,
}

/// Locations by buffer (`usize::MAX`: shared memory) and byte address.
pub(super) type Locations = HashMap<(usize, u64), Location>;

/// An mbarrier in shared memory.
pub(super) struct Mbarrier {
    pub(super) count: u32,
    pub(super) pending: u32,
    /// Bytes expected and not yet arrived.
    pub(super) expected: i64,
    /// Parity of the phase that is not complete.
    pub(super) phase: u32,
    /// Completed phases, over all initialisations.
    pub(super) generation: u32,
    /// Slot of its bulk copies in clocks.
    pub(super) slot: u32,
    /// Copies that complete on it are seen by matrix units as they are.
    pub(super) by_proxy: bool,
    /// What those knew that have arrived in this phase, and in the phases before.
    pub(super) arrived: Known,
    pub(super) completed: Known,
}

/// What arrivals make known to who waits for the block's own, and to who waits for those of the cluster.
#[derive(Default)]
pub(super) struct Known {
    pub(super) block: Option<Clock>,
    /// As the block's in a launch without clusters, where it is left out.
    pub(super) cluster: Option<Clock>,
}

/// 32-byte sectors of a buffer that were read and written.
#[derive(Default)]
pub(super) struct Sectors {
    read: Vec<u64>,
    written: Vec<u64>,
}

impl Sectors {
    fn new(bytes: usize) -> Sectors {
        let words = bytes.div_ceil(32 * 64);
        Sectors { read: vec![0; words], written: vec![0; words] }
    }

    pub(super) fn touch(&mut self, sector: usize, traffic: Traffic) {
        let bit = 1 << (sector % 64);
        if traffic != Traffic::Store {
            self.read[sector / 64] |= bit;
        }
        if matches!(traffic, Traffic::Store | Traffic::Atomic) {
            self.written[sector / 64] |= bit;
        }
    }
}

/// What all blocks of a launch share.
pub(super) struct Core<'a> {
    pub(super) program: &'a Program,
    pub(super) options: &'a Options,
    pub(super) grid: u32,
    pub(super) pointers: Vec<Pointer>,
    /// Extents and strides of tensor maps, by parameter.
    pub(super) maps: Vec<Option<([i64; TensorMap::AXES], [i64; TensorMap::AXES])>>,
    pub(super) memory: &'a mut Memory,
    /// By buffer; only of buffers that the launch may write.
    pub(super) shadows: Vec<Option<Shadow>>,
    pub(super) sectors: Vec<Sectors>,
    pub(super) locations: Locations,
    pub(super) counters: Counters,
    pub(super) fuel: u64,
    /// Words that somebody waited for, by parameter and byte address, each with the instruction; zero again when the launch ends.
    pub(super) awaited: BTreeMap<(usize, u64), u32>,
    /// A word was stored: who waits for one may look again.
    pub(super) wake: bool,
}

/// A resident block.
pub(super) struct Block {
    pub(super) index: u32,
    /// A warp is taken out while it runs.
    warps: Vec<Option<Box<Warp>>>,
    pub(super) shared: Bytes,
    pub(super) shadow: Shadow,
    /// Where arrays lie on the same bytes.
    pub(super) owners: Option<Owners>,
    pub(super) mbarriers: HashMap<u64, Mbarrier>,
    pub(super) locations: Locations,
    tokens: u32,
    /// An mbarrier's phase ended: who waits for one may look again.
    pub(super) wake: bool,
    /// Turns of warp groups.
    passed: Passed,
}

impl Block {
    /// A number for a copy in flight.
    pub(super) fn token(&mut self) -> u32 {
        self.tokens += 1;
        self.tokens
    }

    fn warps(&self) -> impl Iterator<Item = &Warp> {
        self.warps.iter().flatten().map(|w| &**w)
    }

    pub(super) fn done(&self) -> bool {
        self.warps().all(|w| w.status == Status::Done)
    }
}

/// A small generator (SplitMix64, <https://prng.di.unimi.it/splitmix64.c>): order of stepping needs no more.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n.max(1) as u64) as usize
    }
}

struct Machine<'a> {
    core: Core<'a>,
    scalars: Vec<Literal>,
    /// Blocks that have not started, in groups that must run together.
    waiting: VecDeque<Vec<u32>>,
    resident: Vec<Block>,
    /// Finished blocks, whose storage is used again.
    spare: Vec<Block>,
    /// How many blocks are resident at once, at least.
    window: usize,
    random: Random,
}

pub(super) fn run(program: &Program, grid: u32, args: &[Arg], memory: &mut Memory, options: &Options) -> Result<Report, Box<Trap>> {
    let (arrays, args) = constants::copied(program, args, memory)?;
    let report = run_on(program, grid, &args, memory, options);
    constants::release(&arrays, memory);
    report
}

fn run_on(program: &Program, grid: u32, args: &[Arg], memory: &mut Memory, options: &Options) -> Result<Report, Box<Trap>> {
    let mut machine = Machine::new(program, grid, args, memory, options)?;
    machine.run()?;
    let core = machine.core;
    let mut counters = core.counters;
    for s in &core.sectors {
        let count = |bits: &[u64]| 32 * bits.iter().map(|b| b.count_ones() as u64).sum::<u64>();
        counters.unique_read_bytes += count(&s.read);
        counters.unique_written_bytes += count(&s.written);
    }
    Ok(Report { counters, steps: options.fuel - core.fuel })
}

/// A trap before anything runs.
pub(super) fn launch_fault(program: &Program, kind: TrapKind) -> Box<Trap> {
    Box::new(launch_trap(program, kind))
}

impl<'a> Machine<'a> {
    fn new(program: &'a Program, grid: u32, args: &[Arg], memory: &'a mut Memory, options: &'a Options) -> Result<Machine<'a>, Box<Trap>> {
        let kernel = &program.kernel;
        assert_eq!(args.len(), kernel.params.len(), "simulator: {} takes {} arguments", kernel.name, kernel.params.len());
        let mut pointers = Vec::new();
        let (mut scalars, mut maps) = (Vec::new(), Vec::new());
        let mut shadows: Vec<Option<Shadow>> = Vec::new();
        shadows.resize_with(memory.buffers.len(), || None);
        let mut sectors = Vec::new();
        sectors.resize_with(memory.buffers.len(), Sectors::default);
        for (param, arg) in kernel.params.iter().zip(args) {
            let (mut at, mut value, mut map) = (Pointer { buffer: 0, offset: 0 }, Literal::i32(0), None);
            match (arg, &param.kind) {
                (
                    Arg::Buffer { buffer, offset },
                    kind @ (ParamKind::Pointer { .. } | ParamKind::Workspace { .. } | ParamKind::Constant { .. }),
                ) => {
                    at = Pointer { buffer: buffer.0, offset: *offset };
                    let (_, writable, align) = pointer(kind).unwrap_or((girih_ir::types::DType::U8, false, 1));
                    if offset % align.max(1) as u64 != 0 {
                        let kind = TrapKind::Misaligned { memory: param.name.clone(), address: *offset, align };
                        return Err(Box::new(launch_trap(program, kind)));
                    }
                    let bytes = memory.buffers[buffer.0].data.len();
                    if writable {
                        shadows[buffer.0].get_or_insert_with(|| Shadow::new(bytes));
                    }
                    if options.count {
                        sectors[buffer.0] = Sectors::new(bytes);
                    }
                }
                (Arg::Map { buffer, offset, lens, strides }, ParamKind::TensorMap { .. }) => {
                    at = Pointer { buffer: buffer.0, offset: *offset };
                    map = Some((*lens, *strides));
                    if options.count {
                        sectors[buffer.0] = Sectors::new(memory.buffers[buffer.0].data.len());
                    }
                }
                (Arg::Scalar(l), ParamKind::Scalar { dtype, .. } | ParamKind::Host { dtype, .. }) => {
                    assert_eq!(l.dtype, *dtype, "simulator: type of argument {}", param.name);
                    value = *l;
                }
                _ => panic!("simulator: argument {} is {arg:?}, the parameter {:?}", param.name, param.kind),
            }
            pointers.push(at);
            maps.push(map);
            scalars.push(value);
        }
        let mut random = Random(options.seed);
        let cluster = kernel.launch.cluster.max(1);
        if !grid.is_multiple_of(cluster) {
            let found = format!("a grid of {grid} blocks is not made of clusters of {cluster}");
            return Err(Box::new(launch_trap(program, TrapKind::Misuse { found })));
        }
        let group = if kernel.launch.cooperative { grid } else { kernel.launch.cluster }.max(1);
        let mut waiting: Vec<Vec<u32>> = (0..grid.div_ceil(group)).map(|g| (g * group..grid.min((g + 1) * group)).collect()).collect();
        // The last block starts last, so that it may wait for the others.
        for i in (1..waiting.len().saturating_sub(1)).rev() {
            waiting.swap(i, random.below(i + 1));
        }
        let drawn = 1 + random.below(3);
        let window = options.resident.unwrap_or(drawn).max(1);
        let core = Core {
            program,
            options,
            grid,
            pointers,
            maps,
            memory,
            shadows,
            sectors,
            locations: Locations::new(),
            counters: Counters::default(),
            fuel: options.fuel,
            awaited: BTreeMap::new(),
            wake: false,
        };
        Ok(Machine { core, scalars, waiting: waiting.into(), resident: Vec::new(), spare: Vec::new(), window, random })
    }

    fn run(&mut self) -> Result<(), Box<Trap>> {
        loop {
            while self.resident.len() < self.window
                && let Some(group) = self.waiting.pop_front()
            {
                for index in group {
                    let block = self.start(index);
                    self.resident.push(block);
                }
            }
            if self.resident.is_empty() {
                return self.words_are_zero();
            }
            let Some((b, w)) = self.pick() else { return Err(self.deadlock()) };
            self.slice(b, w)?;
            if self.resident[b].done() {
                self.ends_behind_its_readers(b)?;
            }
            if self.resident[b].done() && !self.held(b) {
                let mine = self.group(&self.resident[b]);
                let (done, rest) = std::mem::take(&mut self.resident).into_iter().partition(|r| self.group(r) == mine);
                self.resident = rest;
                let mut done: Vec<Block> = done;
                self.spare.append(&mut done);
            }
        }
    }

    /// The number of the group of blocks that may meet at a barrier.
    fn group(&self, block: &Block) -> u32 {
        let launch = &self.core.program.kernel.launch;
        if launch.cooperative { 0 } else { block.index / launch.cluster.max(1) }
    }

    /// Such blocks stay until all of them have finished, so that a missing one shows as divergence.
    fn held(&self, b: usize) -> bool {
        let mine = self.group(&self.resident[b]);
        self.resident.iter().any(|r| self.group(r) == mine && !r.done())
    }

    fn start(&mut self, index: u32) -> Block {
        let program = self.core.program;
        let threads = program.kernel.launch.block;
        let warps = threads.div_ceil(32);
        let clock = Clock::new(index, warps as usize + program.mbarriers.div_ceil(32));
        let mut block = self.spare.pop().unwrap_or_else(|| Block {
            index,
            warps: Vec::new(),
            shared: Bytes::new(program.shared_bytes),
            shadow: Shadow::new(program.shared_bytes),
            owners: Owners::of(&program.kernel),
            mbarriers: HashMap::new(),
            locations: HashMap::new(),
            tokens: 0,
            wake: false,
            passed: Passed::default(),
        });
        block.index = index;
        block.shared.reset();
        block.shadow.reset();
        block.owners.iter_mut().for_each(Owners::reset);
        block.mbarriers.clear();
        block.passed = Passed::default();
        block.locations.clear();
        if block.warps.is_empty() {
            block.warps = (0..warps).map(|w| Some(Box::new(Warp::new(program, &self.scalars, w, threads, &clock)))).collect();
        } else {
            block.warps.iter_mut().flatten().for_each(|w| w.restart(&clock));
        }
        block
    }

    /// A warp that can run, at random.
    fn pick(&mut self) -> Option<(usize, usize)> {
        let blocks = self.resident.len();
        let first = self.random.below(blocks);
        for i in 0..blocks {
            let b = (first + i) % blocks;
            let warps = self.resident[b].warps.len();
            let start = self.random.below(warps);
            for j in 0..warps {
                let w = (start + j) % warps;
                if self.resident[b].warps[w].as_ref().is_some_and(|w| w.status == Status::Ready) {
                    return Some((b, w));
                }
            }
        }
        None
    }

    /// Runs one warp for a while.
    fn slice(&mut self, b: usize, w: usize) -> Result<(), Box<Trap>> {
        let budget = 32 + self.random.below(256) as u32;
        let mut warp = self.resident[b].warps[w].take().expect("a warp runs once at a time");
        let (before, rest) = self.resident.split_at_mut(b);
        let (block, behind) = rest.split_first_mut().expect("the block is resident");
        let result = Step { core: &mut self.core, block, others: [before, behind], warp: &mut warp }.run(budget);
        let block = &mut self.resident[b];
        let (index, pc) = (block.index, warp.pc);
        let first = warp.index * 32;
        block.warps[w] = Some(warp);
        // Those of other blocks of the cluster as well.
        for block in self.resident.iter_mut().filter_map(|b| std::mem::take(&mut b.wake).then_some(b)) {
            for other in block.warps.iter_mut().flatten().filter(|o| o.status == Status::Mbarrier) {
                other.status = Status::Ready;
            }
        }
        if std::mem::take(&mut self.core.wake) {
            for other in self.resident.iter_mut().flat_map(|b| b.warps.iter_mut().flatten()).filter(|o| o.status == Status::Words) {
                other.status = Status::Ready;
            }
        }
        // A warp may be given up before its first operation.
        let pause = result.map_err(|fault| self.trap(*fault, index, first, pc.saturating_sub(1)))?;
        match pause {
            Pause::Slice => Ok(()),
            Pause::Barrier | Pause::Done => self.release(b),
        }
    }
}
