//! What all launches of a rung do together, as numbers that a paragraph can compare.

use crate::explain::difference::Side;
use crate::explain::numbers::{Counts, Numbers};
use crate::explain::units::{amount, kib, percent, plain};
use girih_core::model::Bottleneck;

/// A number that a reader can follow from rung to rung.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    /// Launches of a call.
    Launches,
    /// Instructions of warps.
    Instructions,
    /// 32-byte sectors that loads and copies touch, and stores.
    SectorsLoaded,
    SectorsStored,
    /// Sectors for every 32 bytes that are asked for: 1 where all of them are used.
    LoadSpread,
    StoreSpread,
    /// Bytes of one instruction of a warp.
    LoadWidth,
    StoreWidth,
    /// Passes through the banks of shared memory, and those beyond the first of an access.
    Wavefronts,
    Conflicts,
    /// 32-bit words of global memory that atomics change, each as often as they do.
    Atomics,
    /// Bytes of loads that each multiprocessor has on their way; as all that follow, of the launch that takes the longest.
    InFlight,
    /// Share of a multiprocessor's threads that are there.
    Occupancy,
    /// Clocks of a block's longest chain of dependent operations, times the rounds of blocks.
    Chain,
    /// What a thread, and a block, occupies.
    Registers,
    Shared,
}

impl Counter {
    /// As the subject of a sentence in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Counter::Launches => "launches",
            Counter::Instructions => "instructions of warps",
            Counter::SectorsLoaded => "32-byte sectors that are loaded",
            Counter::SectorsStored => "32-byte sectors that are stored",
            Counter::LoadSpread => "sectors for every 32 bytes that are loaded",
            Counter::StoreSpread => "sectors for every 32 bytes that are stored",
            Counter::LoadWidth => "bytes that a warp's load brings",
            Counter::StoreWidth => "bytes that a warp's store takes away",
            Counter::Wavefronts => "passes through the banks of shared memory",
            Counter::Conflicts => "bank conflicts",
            Counter::Atomics => "words that atomics change in global memory",
            Counter::InFlight => "bytes in flight per multiprocessor",
            Counter::Occupancy => "threads of a multiprocessor that are there",
            Counter::Chain => "clocks of dependent operations",
            Counter::Registers => "registers of a thread",
            Counter::Shared => "bytes of shared memory of a block",
        }
    }

    /// A value with its unit.
    pub fn text(self, x: f64) -> String {
        match self {
            _ if x.is_infinite() => "any number".into(),
            Counter::InFlight | Counter::Shared => kib(x),
            Counter::Occupancy => percent(x),
            Counter::LoadSpread | Counter::StoreSpread | Counter::Registers | Counter::Launches => plain(x),
            Counter::LoadWidth | Counter::StoreWidth => plain(x.round()),
            Counter::Instructions
            | Counter::SectorsLoaded
            | Counter::SectorsStored
            | Counter::Wavefronts
            | Counter::Conflicts
            | Counter::Atomics
            | Counter::Chain => amount(x.round()),
        }
    }

    /// Whether less of it is better; nothing is said of counters that are neither.
    pub fn less_is_better(self) -> bool {
        !matches!(self, Counter::LoadWidth | Counter::StoreWidth | Counter::InFlight | Counter::Occupancy)
    }

    /// Counters that say why a resource takes as long as it does, the most telling first.
    pub fn of_bound(bound: Bottleneck) -> &'static [Counter] {
        match bound {
            Bottleneck::Memory => &[
                Counter::InFlight,
                Counter::LoadSpread,
                Counter::StoreSpread,
                Counter::SectorsLoaded,
                Counter::SectorsStored,
                Counter::Occupancy,
            ],
            Bottleneck::L2 => &[Counter::LoadSpread, Counter::StoreSpread, Counter::SectorsLoaded, Counter::SectorsStored],
            Bottleneck::Latency => &[Counter::Chain, Counter::InFlight, Counter::Occupancy],
            Bottleneck::Shared => {
                &[Counter::Conflicts, Counter::Wavefronts, Counter::LoadSpread, Counter::StoreSpread, Counter::Instructions]
            }
            Bottleneck::Issue | Bottleneck::Arithmetic | Bottleneck::SpecialFunctions | Bottleneck::Tensor => {
                &[Counter::Instructions, Counter::LoadWidth, Counter::StoreWidth]
            }
            Bottleneck::Atomics => &[Counter::Atomics],
            Bottleneck::Launch => &[Counter::Launches],
            Bottleneck::Resources => &[Counter::Registers, Counter::Shared],
        }
    }
}

/// What the launches of a rung come to.
pub struct Totals {
    launches: Vec<Numbers>,
}

impl Totals {
    pub fn of(sides: &[Side]) -> Totals {
        Totals { launches: sides.iter().flat_map(|side| side.launches.iter().cloned()).collect() }
    }

    /// What bounds the launch that takes the longest.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        self.longest().map(|n| n.predicted.bottleneck)
    }

    /// Microseconds that a resource takes by itself in all launches.
    pub fn bound_us(&self, bound: Bottleneck) -> f64 {
        let of = |n: &Numbers| match bound {
            Bottleneck::Launch => n.predicted.front,
            _ => n.predicted.bounds.iter().filter(|(_, b)| *b == bound).map(|(s, _)| *s).fold(0.0, f64::max),
        };
        self.launches.iter().map(of).sum::<f64>() * 1e6
    }

    /// The resource whose time changed the most since another rung.
    pub fn most_changed(&self, former: &Totals) -> Option<Bottleneck> {
        let bounds = self.launches.iter().chain(&former.launches).flat_map(|n| n.predicted.bounds.iter().map(|(_, b)| *b));
        let change = |b: &Bottleneck| (self.bound_us(*b) - former.bound_us(*b)).abs();
        bounds.max_by(|a, b| change(a).total_cmp(&change(b)))
    }

    fn longest(&self) -> Option<&Numbers> {
        self.launches.iter().max_by(|a, b| a.predicted.seconds.total_cmp(&b.predicted.seconds))
    }

    /// The value of a counter; nothing where the launches could not be counted, or nothing of the kind is done.
    pub fn value(&self, counter: Counter) -> Option<f64> {
        let longest = self.longest()?;
        let predicted = &longest.predicted;
        let found = match counter {
            Counter::Launches => self.launches.len() as f64,
            Counter::Instructions => self.sum(Counts::instructions)?,
            Counter::SectorsLoaded => self.sum(|c| c.loads.sectors + c.copies.sectors)?,
            Counter::SectorsStored => self.sum(|c| c.stores.sectors)?,
            Counter::LoadSpread => 32.0 * self.ratio(|c| (c.loads.sectors, c.loads.bytes))?,
            Counter::StoreSpread => 32.0 * self.ratio(|c| (c.stores.sectors, c.stores.bytes))?,
            Counter::LoadWidth => self.ratio(|c| (c.loads.bytes, c.loads.requests))?,
            Counter::StoreWidth => self.ratio(|c| (c.stores.bytes, c.stores.requests))?,
            Counter::Wavefronts => self.sum(|c| c.shared.iter().map(|s| s.wavefronts).sum())?,
            Counter::Conflicts => self.sum(|c| c.shared.iter().map(|s| s.conflicts).sum())?,
            Counter::Atomics => self.sum(|c| c.atomics.bytes / 4.0)?,
            Counter::InFlight => predicted.bytes_in_flight,
            Counter::Occupancy => predicted.occupancy.fraction,
            Counter::Chain => longest.counts.as_ref()?.chain * predicted.waves.ceil(),
            Counter::Registers => f64::from(longest.resources.registers),
            Counter::Shared => f64::from(longest.resources.shared),
        };
        Some(found)
    }

    fn sum(&self, of: impl Fn(&Counts) -> f64) -> Option<f64> {
        self.launches.iter().map(|n| n.counts.as_ref().map(&of)).sum()
    }

    /// Of two sums over all launches the first in parts of the second.
    fn ratio(&self, of: impl Fn(&Counts) -> (f64, f64)) -> Option<f64> {
        let (amount, whole) = (self.sum(|c| of(c).0)?, self.sum(|c| of(c).1)?);
        (whole > 0.0).then(|| amount / whole)
    }

    /// Whether so many of what is counted matter beside all that the rung does: a few sectors of totals are no news.
    pub fn matters(&self, counter: Counter, amount: f64) -> bool {
        let beside = match counter {
            Counter::SectorsLoaded | Counter::SectorsStored => self.sum(|c| c.asked_bytes() / 32.0),
            Counter::Wavefronts | Counter::Conflicts | Counter::Atomics => self.sum(Counts::instructions),
            _ => None,
        };
        beside.is_none_or(|beside| amount >= MATTERS * beside)
    }
}

/// Share of all sectors, or instructions, from which on some of them matter.
const MATTERS: f64 = 0.01;
