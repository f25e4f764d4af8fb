//! Rules fire where they must, and not where they must not.

use super::super::numbers::Counts;
use super::*;
use girih_core::model::{Bottleneck, Launch, Limit, Resources, Work, fits, predict};
use girih_core::sim::Class;
use girih_core::sim::counting::{CountedShared, CountedTraffic};

const NONE: CountedTraffic = CountedTraffic { requests: 0.0, sectors: 0.0, bytes: 0.0 };
const NOTHING: CountedShared = CountedShared { requests: 0.0, wavefronts: 0.0, conflicts: 0.0 };

fn knob(name: &str, kind: KnobKind, choices: &[i64], now: i64) -> KnobNow {
    KnobNow { name: name.into(), kind, choices: choices.iter().map(|c| Choice::Int(*c)).collect(), now: Choice::Int(now) }
}

fn word(name: &str, kind: KnobKind, choices: &[&str], now: &str) -> KnobNow {
    KnobNow {
        name: name.into(),
        kind,
        choices: choices.iter().map(|c| Choice::Word(c.to_string())).collect(),
        now: Choice::Word(now.into()),
    }
}

/// Knobs of all kinds that rules name, each with choices on both sides of what it is.
fn knobs() -> Vec<KnobNow> {
    let of = girih_core::tile::KnobId(0);
    vec![
        knob("T", KnobKind::Tile, &[256, 1024, 4096], 1024),
        knob("C", KnobKind::Coarsen { of }, &[1, 4, 8], 4),
        knob("V", KnobKind::Vector, &[1, 2, 4], 2),
        knob("S", KnobKind::Stages, &[1, 2, 3], 2),
        knob("Q", KnobKind::MinBlocks, &[1, 2, 3], 2),
        knob("G", KnobKind::Grid, &[0, 1, 4], 4),
        knob("K", KnobKind::Copies, &[1, 8], 1),
        word("U", KnobKind::Unit, &["Ffma", "Mma", "Wgmma"], "Ffma"),
        word("F", KnobKind::Finish, &["LastBlock", "Atomics", "SecondLaunch"], "Atomics"),
        word("O", KnobKind::Operands, &["Shared", "Direct"], "Direct"),
    ]
}

/// A launch that moves `bytes` bytes to and from memory in coalesced accesses of 16 bytes, with everything in order.
struct Made {
    work: Work,
    launch: Launch,
    resources: Resources,
    is_guess: bool,
    counts: Counts,
}

fn made(bytes: f64) -> Made {
    let sectors = bytes / 2.0 / 32.0;
    let half = CountedTraffic { requests: sectors / 16.0, sectors, bytes: bytes / 2.0 };
    let work = Work {
        load_sectors: sectors,
        store_sectors: sectors,
        memory_bytes: bytes,
        instructions: bytes / 500.0,
        chain: 2000.0,
        repeats: 1.0,
        ..Work::default()
    };
    let counts = Counts {
        loads: half,
        stores: half,
        atomics: NONE,
        copies: NONE,
        shared: [NOTHING; 3],
        constants: 0.0,
        mix: vec![(Class::Memory, 100.0), (Class::Integer, 50.0)],
        barriers: 0.0,
        named_barriers: 0.0,
        phase_waits: 0.0,
        chain: 2000.0,
        unique: [bytes / 2.0; 2],
        l2_sectors: 2.0 * sectors,
        atomic_operations: 0.0,
        matrix: 0.0,
        each_first: false,
        asks_words: false,
    };
    let launch = Launch { grid: 10_000, block: 256, stages: 1 };
    Made { work, launch, resources: Resources { registers: 32, shared: 0, spills: 0 }, is_guess: false, counts }
}

impl Made {
    fn numbers(&self) -> Numbers {
        let target = Target::h200();
        Numbers {
            function: "k".into(),
            grid: self.launch.grid,
            block: self.launch.block,
            resources: self.resources,
            fits: fits(target, &self.launch, &self.resources),
            predicted: predict(&self.work, &self.launch, &self.resources, target),
            is_guess: self.is_guess,
            needed_in_flight: f64::from(target.bytes_in_flight),
            counts: Some(self.counts.clone()),
            profiled: None,
        }
    }

    fn advice(&self) -> Vec<Advice> {
        advice(&self.numbers(), &knobs(), Target::h200())
    }

    fn rules(&self) -> Vec<&'static str> {
        self.advice().iter().map(|a| a.rule).collect()
    }

    /// The advice of a rule, which must fire.
    fn of(&self, rule: &str) -> Advice {
        let found = self.advice().into_iter().find(|a| a.rule == rule);
        found.unwrap_or_else(|| panic!("`{rule}` does not fire, but {:?} do: {:?}", self.rules(), self.numbers()))
    }

    fn bottleneck(&self) -> Bottleneck {
        self.numbers().predicted.bottleneck
    }
}

/// The settings that advice names, the nearest of each knob.
fn settings(advice: &Advice) -> Vec<String> {
    advice.changes.iter().map(|c| format!("{}={}", knobs()[c.knob].name, c.choices[0])).collect()
}

#[test]
fn a_launch_in_order_is_left_alone() {
    let fine = made(3e8);
    assert_eq!(fine.bottleneck(), Bottleneck::Memory);
    assert_eq!(fine.rules(), [""; 0], "{:?}", fine.advice());
}

#[test]
fn scattered_accesses_are_told() {
    let mut m = made(3e8);
    m.counts.loads.sectors *= 4.0;
    let told = m.of("sectors");
    assert!(told.why.contains("loads of global memory touch 64 sectors of 32 bytes per request, where 16 would"), "{}", told.why);
    assert_eq!(settings(&told), ["V=4", "O=Shared", "T=4096"]);
    assert_eq!(told.changes[0].words, "a larger V");
    // A request of few lanes touches a sector at least.
    m.counts.loads = CountedTraffic { requests: 100.0, sectors: 100.0, bytes: 400.0 };
    assert!(!m.rules().contains(&"sectors"));
}

#[test]
fn narrow_accesses_are_told_where_they_matter() {
    let mut m = made(3e8);
    for traffic in [&mut m.counts.loads, &mut m.counts.stores] {
        *traffic = CountedTraffic { requests: traffic.bytes / 128.0, ..*traffic };
    }
    let told = m.of("narrow accesses");
    assert!(told.why.contains("4 bytes per instruction") && told.why.contains("16 bytes"), "{}", told.why);
    assert_eq!(settings(&told), ["V=4"]);
    m.work.float_operations = 1e13;
    assert_eq!(m.bottleneck(), Bottleneck::Arithmetic);
    assert!(!m.rules().contains(&"narrow accesses"));
}

#[test]
fn spills_are_told_first() {
    let mut m = made(3e8);
    m.resources.spills = 48;
    let told = &m.advice()[0];
    assert!(told.rule == "spills" && told.why.contains("48 bytes"), "{told:?}");
    assert_eq!(settings(told), ["C=1", "Q=1", "S=1", "T=256"]);
}

#[test]
fn guesses_are_called_so_and_come_last() {
    let mut m = made(3e8);
    (m.resources.spills, m.is_guess, m.work.chain, m.counts.matrix) = (48, true, 40_000.0, 1.0);
    m.resources.registers = 168;
    let told = m.advice();
    let rules: Vec<&str> = told.iter().map(|a| a.rule).collect();
    assert_eq!(rules, ["bytes in flight", "chain", "spills", "occupancy"]);
    assert!(told[2].why.contains("may spill") && told[2].why.contains("by a guess 48 bytes"), "{}", told[2].why);
    assert!(told[3].why.contains("(168 per thread, by a guess)"), "{}", told[3].why);
    m.is_guess = false;
    assert_eq!(m.rules()[..2], ["spills", "occupancy"]);
}

/// A block or two that load, compute and store once: there is nothing to keep in flight, no lane is narrow, and nobody to make room for.
#[test]
fn calls_of_almost_nothing_get_no_advice_that_cannot_help() {
    let mut m = made(96.0);
    m.counts.loads = CountedTraffic { requests: 4.0, sectors: 6.0, bytes: 80.0 };
    m.counts.stores = CountedTraffic { requests: 1.0, sectors: 1.0, bytes: 4.0 };
    m.launch.grid = 1;
    (m.work.chain, m.counts.chain, m.resources.registers, m.counts.matrix) = (827.0, 827.0, 168, 1.0);
    assert_eq!(m.rules(), ["launches"]);
    // A chain that is longer can be made shorter, also by more blocks.
    (m.work.chain, m.counts.chain) = (8000.0, 8000.0);
    assert_eq!(m.rules(), ["idle multiprocessors", "chain"]);
    assert!(m.of("idle multiprocessors").why.starts_with("1 block leaves 131 of 132 multiprocessors idle"));
    assert!(m.of("chain").why.contains("8000 clocks, 0 barriers among them"));
}

#[test]
fn lanes_that_move_nothing_are_not_narrow() {
    let mut m = made(3e8);
    // One lane of each warp stores 4 bytes.
    m.counts.stores = CountedTraffic { requests: 1e6, sectors: 1e6, bytes: 4e6 };
    assert!(!m.rules().contains(&"narrow accesses"), "{:?}", m.advice());
}

#[test]
fn few_threads_matter_where_the_memory_waits() {
    let mut m = made(3e8);
    m.resources.registers = 168;
    m.work.chain = 40_000.0;
    assert_eq!(m.numbers().predicted.occupancy.limit, Limit::Registers);
    let told = m.of("occupancy");
    assert!(told.why.contains("12 % by registers (168 per thread)"), "{}", told.why);
    assert_eq!(settings(&told), ["C=1", "Q=3"]);
    m.resources = Resources { registers: 32, shared: 100 << 10, spills: 0 };
    let told = m.of("occupancy");
    assert!(told.why.contains("25 % by shared memory (100 KiB per block)"), "{}", told.why);
    assert_eq!(settings(&told), ["S=1", "T=256"]);
    m.work.matrix_tf32 = 1e13;
    assert!(!m.rules().contains(&"occupancy"), "a matrix unit that is busy needs no more warps");
}

#[test]
fn a_memory_that_is_not_fed_is_told() {
    let mut m = made(3e8);
    m.work.chain = 40_000.0;
    let told = m.of("bytes in flight");
    assert!(told.why.contains("48 KiB saturate the memory"), "{}", told.why);
    assert_eq!(settings(&told), ["V=4", "C=8", "S=3"]);
    assert!(m.rules().contains(&"chain") && m.bottleneck() == Bottleneck::Latency);
    assert!(!made(3e8).rules().contains(&"bytes in flight"));
}

#[test]
fn grids_that_do_not_fill_the_gpu_are_told() {
    let mut m = made(3e8);
    m.launch.grid = 100;
    let told = m.of("idle multiprocessors");
    assert!(told.why.contains("100 blocks leave 32 of 132 multiprocessors idle"), "{}", told.why);
    assert_eq!(settings(&told), ["T=256", "G=0"]);
    // Eight blocks fit each of the 132 multiprocessors.
    m.launch.grid = 132 * 8 + 100;
    assert!((m.numbers().last_wave() - 100.0 / 1056.0).abs() < 1e-9);
    let told = m.of("last wave");
    assert!(told.why.contains("1.09 waves of blocks, and the last one fills 9 %"), "{}", told.why);
    assert!(!m.rules().contains(&"idle multiprocessors"));
    m.launch.grid = 132 * 8 * 2;
    assert_eq!(m.numbers().last_wave(), 1.0);
    assert!(!m.rules().contains(&"last wave"));
}

#[test]
fn bank_conflicts_are_told_where_shared_memory_takes_time() {
    let mut m = made(3e8);
    m.counts.shared[0] = CountedShared { requests: 1e6, wavefronts: 4e6, conflicts: 3e6 };
    m.work.shared_wavefronts = 4e6;
    assert!(!m.rules().contains(&"bank conflicts"), "the memory takes much longer");
    m.work.shared_wavefronts = 4e8;
    let told = m.of("bank conflicts");
    assert!(told.why.contains("loads of shared memory take 4 M wavefronts where 1 M would do"), "{}", told.why);
    assert_eq!(settings(&told), ["V=4", "V=1", "O=Shared"]);
    m.counts.shared = [NOTHING, NOTHING, CountedShared { requests: 1e6, wavefronts: 4e6, conflicts: 3e6 }];
    assert_eq!(settings(&m.of("bank conflicts")), ["K=8"]);
}

#[test]
fn what_is_asked_for_again_and_again_is_told() {
    let mut m = made(3e8);
    m.work.load_sectors *= 20.0;
    m.counts.loads.sectors *= 20.0;
    m.counts.loads.bytes *= 20.0;
    m.counts.loads.requests *= 20.0;
    assert_eq!(m.bottleneck(), Bottleneck::L2);
    let told = m.of("traffic");
    assert!(told.why.contains("3.15 GB of sectors are asked for, 10.5 times the 300 MB that there are"), "{}", told.why);
    assert_eq!(settings(&told), ["T=4096", "C=8", "O=Shared"]);
}

#[test]
fn units_that_are_busy_are_told_of() {
    let mut m = made(3e8);
    m.work.float_operations = 1e13;
    assert_eq!(settings(&m.of("matrix unit")), ["U=Mma"]);
    m.counts.matrix = 1e9;
    assert!(!m.rules().contains(&"matrix unit"), "a matrix unit is used already");
    assert!(!made(3e8).rules().contains(&"matrix unit"), "the memory takes the longest, whichever unit multiplies");
    let mut m = made(3e8);
    m.work.instructions = 1e9;
    let told = m.of("instructions");
    assert!(told.why.contains("67 % of them memory"), "{}", told.why);
    assert_eq!(settings(&told), ["V=4", "C=8"]);
    let mut m = made(3e6);
    m.work.atomics = 1e8;
    m.counts.atomic_operations = 1e8;
    assert_eq!(settings(&m.of("atomics")), ["F=LastBlock", "K=8", "T=4096", "C=8"]);
}

#[test]
fn small_work_is_told_from_its_launch() {
    let mut m = made(3e5);
    m.launch.grid = 132;
    assert_eq!(m.bottleneck(), Bottleneck::Launch);
    assert_eq!(settings(&m.of("launches")), ["F=LastBlock"]);
    assert!(!made(3e8).rules().contains(&"launches"));
}

#[test]
fn advice_names_knobs_that_there_are() {
    let mut m = made(3e8);
    m.counts.loads.sectors *= 4.0;
    let numbers = m.numbers();
    assert_eq!(advice(&numbers, &[], Target::h200()), []);
    let widest = [knob("V", KnobKind::Vector, &[1, 2, 4], 4)];
    assert_eq!(advice(&numbers, &widest, Target::h200()), [], "nothing is wider");
    let rows = [word("R", KnobKind::Rows, &["Direct", "Shared"], "Direct")];
    let told = advice(&numbers, &rows, Target::h200());
    assert_eq!(told.iter().map(|a| a.changes[0].words.as_str()).collect::<Vec<_>>(), ["another R"]);
    // What was not counted says nothing of accesses.
    assert_eq!(advice(&Numbers { counts: None, ..numbers }, &knobs(), Target::h200()), []);
}
