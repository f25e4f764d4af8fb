//! The rules: what of a launch's numbers each fires on, what it says, and which knobs help.

use super::super::numbers::{Counts, Numbers, sectors_per_request};
use super::super::units::{amount, bytes, class, counted, kib, percent, plain};
use super::{Help, To};
use girih_core::model::{Bottleneck, Limit};
use girih_core::target::{Target, max_vector_bytes};

/// What rules look at.
pub(super) struct Case<'a> {
    pub numbers: &'a Numbers,
    pub counts: Option<&'a Counts>,
    pub target: &'a Target,
}

impl Case<'_> {
    /// Whether one of these takes the longest, also where the launch itself takes longer than all of them.
    fn bound_by(&self, bounds: &[Bottleneck]) -> bool {
        self.numbers.bounds().first().is_some_and(|(longest, _)| bounds.contains(longest))
    }

    /// All that the launch asks for can be in flight at once, so nothing that is done about bytes in flight or about their accesses helps.
    fn asks_for_little(&self) -> bool {
        let busy = self.numbers.grid.min(u64::from(self.target.multiprocessors)) as f64;
        self.counts.is_some_and(|counts| counts.asked_bytes() < LITTLE * busy * self.numbers.needed_in_flight)
    }

    /// The memory waits: it is not fed, or nothing else takes as long.
    fn is_starved(&self) -> bool {
        self.bound_by(&[Bottleneck::Latency]) || self.bound_by(&[Bottleneck::Memory]) && self.numbers.predicted.bandwidth_share < FED
    }
}

/// What a rule found, and what helps.
pub(super) type Found = Option<(String, Vec<Help>)>;

/// A rule with its name.
pub(super) type Rule = (&'static str, fn(&Case) -> Found);

/// All rules, those that cost the most first; behind them those that speak of a guess.
pub(super) const RULES: [Rule; 14] = [
    ("spills", spills),
    ("matrix unit", matrix_unit),
    ("sectors", sectors),
    ("bank conflicts", bank_conflicts),
    ("occupancy", occupancy),
    ("bytes in flight", in_flight),
    ("idle multiprocessors", idle),
    ("last wave", last_wave),
    ("traffic", traffic),
    ("atomics", atomics),
    ("narrow accesses", narrow),
    ("instructions", instructions),
    ("chain", chain),
    ("launches", launches),
];

/// Sectors beyond those that the bytes fill, in parts of these, from which on accesses are not coalesced.
const SCATTERED: f64 = 1.5;
/// Share of wavefronts that are conflicts, and share of the longest bound that shared memory takes, from which on they matter.
const CONFLICTS: f64 = 0.15;
const SHARED_MATTERS: f64 = 0.4;
/// Resident threads ÷ most resident threads below which there are few.
const FEW_THREADS: f64 = 0.5;
/// Share of the bandwidth that the bytes in flight can use, from which on the memory is fed.
const FED: f64 = 0.9;
/// Share of the last wave's slots below which it wastes time, and waves from which on it does not matter.
const EMPTY_WAVE: f64 = 0.7;
const MANY_WAVES: f64 = 6.0;
/// Share of the multiprocessors with a block from which on the others do not matter.
const BUSY: f64 = 0.95;
/// Part of the bytes in flight that keep its multiprocessors' share of the memory busy, below which a launch asks for little in all.
const LITTLE: f64 = 0.125;
/// Clocks of a chain that is little more than a trip to memory and back.
const ONE_TRIP: f64 = 1000.0;
/// Part of a byte that a lane moves on average below which most lanes of the warps move nothing.
const HARDLY_ANY: f64 = 0.5;
/// How often each byte may be asked for.
const ASKED_AGAIN: f64 = 2.0;

/// Whether a rule's finding rests on a guess.
pub(super) fn is_guess(rule: &str, numbers: &Numbers) -> bool {
    let limited = rule == "occupancy" && numbers.predicted.occupancy.limit == Limit::Registers;
    numbers.is_guess && (rule == "spills" || limited)
}

fn spills(case: &Case) -> Found {
    let spilled = case.numbers.resources.spills;
    let why = || match case.numbers.is_guess {
        true => format!("a thread may spill, which machine code would tell: by a guess {spilled} bytes do not fit its registers"),
        false => format!("a thread spills: {spilled} bytes of registers are stored to its local memory and loaded again"),
    };
    let help = vec![
        ("coarsen", To::Down),
        ("min_blocks", To::Down),
        ("warps", To::Up),
        ("threads", To::Up),
        ("stages", To::Down),
        ("tile", To::Down),
    ];
    (spilled > 0).then(|| (why(), help))
}

fn matrix_unit(case: &Case) -> Found {
    let counts = case.counts?;
    let plain_products = counts.matrix == 0.0 && !case.bound_by(&[Bottleneck::Memory]);
    let why = "no product is made by a matrix unit: each one is a multiply-add of a thread".to_string();
    plain_products.then(|| (why, vec![("unit", To::Words(&["Mma", "Wgmma"]))]))
}

fn sectors(case: &Case) -> Found {
    let counts = case.counts?;
    let scattered = |(_, t): &(&str, &girih_core::sim::counting::CountedTraffic)| {
        let (found, least) = sectors_per_request(t);
        found >= SCATTERED * least
    };
    if case.asks_for_little() {
        return None;
    }
    // A bulk copy is one request for many sectors, which are whole.
    let (kind, traffic) = counts.global().filter(|(kind, _)| *kind != "atomics").find(scattered)?;
    let (found, least) = sectors_per_request(traffic);
    let why = format!(
        "{kind} of global memory touch {} sectors of 32 bytes per request, where {} would hold what is asked for: neighbouring threads \
         should reach neighbouring bytes",
        plain(found),
        plain(least.ceil()),
    );
    let shared = To::Words(&["Shared", "Transposed"]);
    Some((why, vec![("vector", To::Up), ("rows", shared), ("halo", shared), ("operands", shared), ("tile", To::Up)]))
}

fn bank_conflicts(case: &Case) -> Found {
    let counts = case.counts?;
    let (kind, worst) = counts.shared().max_by(|a, b| a.1.conflicts.total_cmp(&b.1.conflicts))?;
    let matters = worst.conflicts >= CONFLICTS * worst.wavefronts && case.numbers.share(Bottleneck::Shared) >= SHARED_MATTERS;
    let why = || {
        let ideal = worst.wavefronts - worst.conflicts;
        format!(
            "{kind} of shared memory take {} wavefronts where {} would do: lanes of a warp meet in a bank",
            amount(worst.wavefronts),
            amount(ideal)
        )
    };
    let mut help = vec![("vector", To::Up), ("vector", To::Down), ("operands", To::Words(&["Direct", "Shared", "Transposed"]))];
    if kind == "atomics" {
        help = vec![("copies", To::Up)];
    }
    matters.then(|| (why(), help))
}

fn occupancy(case: &Case) -> Found {
    let (numbers, found) = (case.numbers, case.numbers.predicted.occupancy);
    // Where all blocks are resident at once there is nobody to make room for.
    if found.fraction >= FEW_THREADS || !case.is_starved() || numbers.predicted.waves <= 1.0 {
        return None;
    }
    let guess = if numbers.is_guess { ", by a guess" } else { "" };
    let resources = numbers.resources;
    let (what, help) = match found.limit {
        Limit::Registers => (
            format!("by registers ({} per thread{guess})", resources.registers),
            vec![("coarsen", To::Down), ("min_blocks", To::Up), ("warps", To::Up), ("threads", To::Up)],
        ),
        Limit::Shared => {
            (format!("by shared memory ({} per block)", kib(f64::from(resources.shared))), vec![("stages", To::Down), ("tile", To::Down)])
        }
        Limit::Warps => ("by threads".to_string(), vec![("tile", To::Down), ("coarsen", To::Up)]),
        Limit::Blocks => {
            (format!("by blocks ({} threads each)", numbers.block), vec![("tile", To::Up), ("coarsen", To::Down), ("threads", To::Up)])
        }
    };
    let why = format!("occupancy is limited to {} {what}: few warps hide each other's waits", percent(found.fraction));
    Some((why, help))
}

fn in_flight(case: &Case) -> Found {
    let predicted = &case.numbers.predicted;
    let waits = predicted.bandwidth_share < FED && case.bound_by(&[Bottleneck::Memory, Bottleneck::Latency]);
    let fires = waits && !case.asks_for_little();
    let why = || {
        format!(
            "{} are in flight per multiprocessor, and {} saturate the memory",
            kib(predicted.bytes_in_flight),
            kib(case.numbers.needed_in_flight)
        )
    };
    let help =
        vec![("vector", To::Up), ("coarsen", To::Up), ("stages", To::Up), ("copy", To::Words(&["Async", "Bulk", "Tensor", "Overlap"]))];
    fires.then(|| (why(), help))
}

fn idle(case: &Case) -> Found {
    let (grid, all) = (case.numbers.grid, u64::from(case.target.multiprocessors));
    let why = || {
        let verb = if grid == 1 { "leaves" } else { "leave" };
        format!("{} {verb} {} of {all} multiprocessors idle", counted(grid as f64, "block"), all - grid)
    };
    let fires = (grid as f64) < BUSY * all as f64 && !is_one_trip(case);
    fires.then(|| (why(), vec![("tile", To::Down), ("split", To::Up), ("grid", To::Words(&["0"]))]))
}

fn last_wave(case: &Case) -> Found {
    let (waves, full) = (case.numbers.predicted.waves, case.numbers.last_wave());
    let fires = waves > 1.0 && waves <= MANY_WAVES && full < EMPTY_WAVE;
    let why = || format!("{} waves of blocks, and the last one fills {} of its places", plain(waves), percent(full));
    let dealt = To::Words(&["1", "2", "4"]);
    fires.then(|| (why(), vec![("tile", To::Down), ("tile", To::Up), ("grid", dealt), ("split", To::Words(&["0"]))]))
}

fn traffic(case: &Case) -> Found {
    let counts = case.counts?;
    let (asked, unique) = (counts.asked_bytes(), counts.unique[0] + counts.unique[1]);
    let fires = unique > 0.0 && asked >= ASKED_AGAIN * unique && case.bound_by(&[Bottleneck::L2, Bottleneck::Shared]);
    let why = || format!("{} of sectors are asked for, {} times the {} that there are", bytes(asked), plain(asked / unique), bytes(unique));
    let shared = To::Words(&["Shared"]);
    fires.then(|| (why(), vec![("tile", To::Up), ("coarsen", To::Up), ("raster", To::Up), ("operands", shared), ("halo", shared)]))
}

fn atomics(case: &Case) -> Found {
    let counts = case.counts?;
    let fires = case.bound_by(&[Bottleneck::Atomics]);
    let why = || format!("{} atomic operations of threads take the longest", amount(counts.atomic_operations));
    fires.then(|| {
        (why(), vec![("finish", To::Words(&["LastBlock", "SecondLaunch"])), ("copies", To::Up), ("tile", To::Up), ("coarsen", To::Up)])
    })
}

fn narrow(case: &Case) -> Found {
    let counts = case.counts?;
    let fires = case.bound_by(&[Bottleneck::Memory, Bottleneck::Latency, Bottleneck::Shared, Bottleneck::Issue, Bottleneck::L2]);
    let most = f64::from(max_vector_bytes(case.target.capability));
    // Bytes of a lane, were all lanes of each warp active.
    let of_lane = |t: &girih_core::sim::counting::CountedTraffic| t.bytes / t.requests / 32.0;
    let plain_accesses = counts.global().filter(|(kind, _)| matches!(*kind, "loads" | "stores"));
    let is_narrow = |t: &girih_core::sim::counting::CountedTraffic| (HARDLY_ANY..=most / 2.0).contains(&of_lane(t));
    let fires = fires && !case.asks_for_little();
    let (kind, traffic) = plain_accesses.filter(|(_, t)| is_narrow(t)).max_by(|a, b| a.1.bytes.total_cmp(&b.1.bytes))?;
    let why = || {
        let lane = bytes(of_lane(traffic));
        format!("a lane moves {lane} per instruction on average in {kind}, where one instruction can move {}", bytes(most))
    };
    fires.then(|| (why(), vec![("vector", To::Up)]))
}

fn instructions(case: &Case) -> Found {
    let counts = case.counts?;
    let why = || {
        let (what, most) = counts.mix.first().map_or(("", 0.0), |(kind, n)| (class(*kind), *n));
        let share = percent(most / counts.instructions().max(1.0));
        format!(
            "{} instructions of warps are issued, {share} of them {what}: more elements per thread share what is not theirs",
            amount(counts.instructions())
        )
    };
    case.bound_by(&[Bottleneck::Issue]).then(|| (why(), vec![("vector", To::Up), ("coarsen", To::Up)]))
}

fn chain(case: &Case) -> Found {
    let counts = case.counts?;
    let fires = case.bound_by(&[Bottleneck::Latency]) && counts.chain > 0.0 && !is_one_trip(case);
    let waves = case.numbers.predicted.waves;
    let why = || {
        format!(
            "a block's longest chain of dependent operations takes {} clocks, {} among them; waves of blocks: {}",
            amount(counts.chain.round()),
            counted(counts.barriers, "barrier"),
            plain(waves.max(1.0).ceil())
        )
    };
    let help = vec![("tile", To::Down), ("coarsen", To::Down), ("split", To::Up), ("slices", To::Up), ("stages", To::Up)];
    fires.then(|| (why(), help))
}

/// Blocks that all run at once and load, compute and store but once: nothing makes that shorter.
fn is_one_trip(case: &Case) -> bool {
    let chain = case.counts.map_or(0.0, |counts| counts.chain);
    case.numbers.predicted.waves <= 1.0 && chain > 0.0 && chain < ONE_TRIP && case.bound_by(&[Bottleneck::Latency])
}

fn launches(case: &Case) -> Found {
    let why = || "the work takes less time than the launch itself: fewer launches help, or more work in each".to_string();
    (case.numbers.predicted.bottleneck == Bottleneck::Launch).then(|| (why(), vec![("finish", To::Words(&["LastBlock", "Atomics"]))]))
}
