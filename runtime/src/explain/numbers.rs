//! What one launch does, as numbers that a reader and the rules of advice can take: counts at the true size beside the model's word.

use crate::measure::ncu::Launched;
use crate::tune::predict::{Explained, Predicted};
use girih_core::model::{self, Bottleneck, Limit};
use girih_core::sim::Class;
use girih_core::sim::counting::{Count, CountedShared, CountedTraffic};
use girih_core::target::Target;

/// One launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Numbers {
    /// The `__global__` function.
    pub function: String,
    /// Blocks, and threads of each.
    pub grid: u64,
    pub block: u32,
    /// What a thread and a block occupy.
    pub resources: model::Resources,
    /// No machine code was made: registers and spills are a guess.
    pub is_guess: bool,
    /// Blocks that each limit lets a multiprocessor hold.
    pub fits: [(u32, Limit); 4],
    /// The model's word.
    pub predicted: model::Prediction,
    /// Bytes that each multiprocessor must have in flight, so that the memory is never idle: its bandwidth × its latency (Little's law).
    pub needed_in_flight: f64,
    /// What the launch does; nothing where that could not be counted.
    pub counts: Option<Counts>,
    /// What NVIDIA's profiler counted of it, where it was asked.
    pub profiled: Option<Launched>,
}

/// What a launch does at its true size.
#[derive(Clone, PartialEq, Debug)]
pub struct Counts {
    /// Loads from global memory, stores to it, atomics on it, and what asynchronous and bulk copies read of it.
    pub loads: CountedTraffic,
    pub stores: CountedTraffic,
    pub atomics: CountedTraffic,
    pub copies: CountedTraffic,
    /// Loads from shared memory, stores and copies to it, atomics on it.
    pub shared: [CountedShared; 3],
    /// Loads from constant memory by warps, whose lanes read one word each time.
    pub constants: f64,
    /// Instructions of warps by class, without moves that compiled code has none of; the most frequent class first.
    pub mix: Vec<(Class, f64)>,
    /// Barriers of the whole block (`__syncthreads`) that a block passes, on average.
    pub barriers: f64,
    /// Barriers of some of a block's warps (`bar.sync` by number) and phases of mbarriers that a warp waits for, on average.
    pub named_barriers: f64,
    pub phase_waits: f64,
    /// Clocks of a block's longest chain of dependent operations, on average.
    pub chain: f64,
    /// Bytes of distinct sectors that are read, and written.
    pub unique: [f64; 2],
    /// Sectors that the L1 asks the L2 for.
    pub l2_sectors: f64,
    /// Atomic operations of threads.
    pub atomic_operations: f64,
    /// Multiply-adds of matrix instructions.
    pub matrix: f64,
    /// Threads draw numbers from a tensor, and each block was counted as if it came first.
    pub each_first: bool,
    /// Blocks ask for words that others leave, of a smaller launch here.
    pub asks_words: bool,
}

impl Numbers {
    /// Of the launches of a schedule.
    pub fn of(explained: &Explained, target: &Target) -> Vec<Numbers> {
        explained.launches.iter().map(|launch| Numbers::one(launch, explained, target)).collect()
    }

    fn one(predicted: &Predicted, explained: &Explained, target: &Target) -> Numbers {
        let (launch, resources) = (&predicted.launch, &explained.resources);
        Numbers {
            function: predicted.function.clone(),
            grid: launch.grid,
            block: launch.block,
            resources: *resources,
            is_guess: explained.compiled.as_ref().is_none_or(|compiled| compiled.resources.is_none()),
            fits: model::fits(target, launch, resources),
            predicted: predicted.model,
            needed_in_flight: f64::from(target.bytes_in_flight),
            counts: predicted.counted.as_ref().map(|c| Counts::of(&c.count, launch)),
            profiled: None,
        }
    }

    /// What bounds the launch, with the seconds that each resource would take alone; the longest first, without those that take nothing.
    pub fn bounds(&self) -> Vec<(Bottleneck, f64)> {
        let mut bounds: Vec<(Bottleneck, f64)> = self.predicted.bounds.iter().map(|(s, b)| (*b, *s)).filter(|(_, s)| *s > 0.0).collect();
        bounds.sort_by(|a, b| b.1.total_cmp(&a.1));
        bounds
    }

    /// Seconds of a bound in parts of the longest one's; 0 where nothing takes time.
    pub fn share(&self, bound: Bottleneck) -> f64 {
        let of = |wanted: Option<Bottleneck>| {
            let bounds = self.predicted.bounds.iter().filter(|(_, b)| wanted.is_none_or(|w| w == *b));
            bounds.map(|(seconds, _)| *seconds).fold(0.0, f64::max)
        };
        let longest = of(None);
        if longest > 0.0 { of(Some(bound)) / longest } else { 0.0 }
    }

    /// Share of the last wave's slots that hold a block, 0 to 1.
    pub fn last_wave(&self) -> f64 {
        let waves = self.predicted.waves;
        if waves > 0.0 { 1.0 - (waves.ceil() - waves) } else { 0.0 }
    }
}

impl Counts {
    /// Of a launch that was counted.
    pub fn of(count: &Count, launch: &model::Launch) -> Counts {
        let mut mix: Vec<(Class, f64)> = Class::ALL.into_iter().filter(|c| *c != Class::Move).map(|c| (c, count.warps(c))).collect();
        mix.retain(|(_, n)| *n > 0.0);
        mix.sort_by(|a, b| b.1.total_cmp(&a.1));
        let grid = launch.grid.max(1) as f64;
        let warps = grid * f64::from(launch.block.div_ceil(32).max(1));
        Counts {
            loads: count.global_load(),
            stores: count.global_store(),
            atomics: count.global_atomic(),
            copies: count.global_async(),
            shared: count.shared(),
            constants: count.constant_loads(),
            mix,
            barriers: count.block_barriers() / warps,
            named_barriers: count.named_barriers() / warps,
            phase_waits: count.phase_waits() / warps,
            chain: count.chain() / grid,
            unique: count.unique_bytes(),
            l2_sectors: count.passed_on()[1],
            atomic_operations: count.threads(Class::Atomic),
            matrix: count.matrix().iter().sum(),
            each_first: count.each_first,
            asks_words: count.asks_words,
        }
    }

    /// Instructions of warps.
    pub fn instructions(&self) -> f64 {
        self.mix.iter().map(|(_, n)| n).sum()
    }

    /// Kinds of access to global memory that there are, by name.
    pub fn global(&self) -> impl Iterator<Item = (&'static str, &CountedTraffic)> {
        let all = [("loads", &self.loads), ("copies", &self.copies), ("stores", &self.stores), ("atomics", &self.atomics)];
        all.into_iter().filter(|(_, traffic)| traffic.requests > 0.0)
    }

    /// Kinds of access to shared memory that there are, by name.
    pub fn shared(&self) -> impl Iterator<Item = (&'static str, &CountedShared)> {
        ["loads", "stores and copies", "atomics"].into_iter().zip(&self.shared).filter(|(_, traffic)| traffic.requests > 0.0)
    }

    /// Bytes of all sectors that are asked for, each as often as it is.
    pub fn asked_bytes(&self) -> f64 {
        32.0 * self.global().map(|(_, traffic)| traffic.sectors).sum::<f64>()
    }
}

/// 32-byte sectors that a request touches, and those that its bytes fill: the least.
pub fn sectors_per_request(traffic: &CountedTraffic) -> (f64, f64) {
    let requests = traffic.requests.max(1.0);
    (traffic.sectors / requests, (traffic.bytes / requests / 32.0).max(1.0))
}
