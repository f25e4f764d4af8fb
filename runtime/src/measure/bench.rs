//! Benchmarks: a subject at one size, each sample with a cold L2, beside its peers in turn (ours, eager, compiled, ours, ..).
//! A turn of a short work has several samples: the GPU changes hands between turns.

use crate::check::run;
use crate::compile::{Output, compile};
use crate::device::Device;
use crate::launch::program::Runner;
use crate::measure::acceptance::Acceptance;
use crate::measure::floor::{Floor, floor};
use crate::measure::quiet::Quiet;
use crate::measure::throttle::Taken;
use crate::measure::timing::{L2, Timer};
use crate::store::Store;
use crate::subject::challenge::Sizes;
use crate::subject::deviation::Deviation;
use crate::subject::guarded_args::Placed;
use crate::subject::inputs::HostTensor;
use crate::subject::schedules;
use crate::subject::{Call, CallArg, Subject};
use crate::tune::launches::{Launch, launches};
use crate::tune::search::median;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::time::Instant;

/// Something else that does the same work, sampled in turn with ours: PyTorch, on the same GPU.
pub trait Peers {
    /// Prepares for a subject at sizes; the names of the peers there are, or why there are none.
    fn setup(&mut self, name: &str, sizes: &Sizes) -> Result<Vec<String>, String>;
    /// One more peer, named after the yardstick, over a tensor of so many bytes.
    fn setup_yardstick(&mut self, yardstick: Yardstick, bytes: usize) -> Result<(), String>;
    /// Microseconds of each run of one turn, with a cold L2.
    fn turn(&mut self, peer: &str) -> Result<Vec<f64>, String>;
    /// What the operation that was set up gives for a call's own inputs, as a tensor like `output`, with the peer's name.
    ///
    /// # Errors
    /// Inputs that are not the operation's, in number or size; or what went wrong.
    fn result(&mut self, inputs: &[&HostTensor], output: &HostTensor) -> Result<(String, HostTensor), String>;
}

/// Simple work that shows what the memory gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Yardstick {
    /// PyTorch's `copy_`.
    Copy,
    /// The plainest hand-written sum that is right: zero the result, then 16-byte loads, shuffles and one atomic per block.
    Sum,
}

impl Yardstick {
    /// The peer's name.
    pub fn name(self) -> &'static str {
        match self {
            Yardstick::Copy => "copy",
            Yardstick::Sum => "sum",
        }
    }
}

/// What came out for one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The subject's name.
    pub name: String,
    /// Its sizes.
    pub sizes: String,
    /// The schedules of the launch sites that the call reaches, and where they came from.
    pub schedules: Vec<(String, &'static str)>,
    /// How a call runs: one launch, or so many steps as one CUDA graph, or one by one and why.
    pub way: String,
    /// Median in microseconds.
    pub median_us: f64,
    /// That none of its samples counts, and why.
    pub throttled: Option<String>,
    /// Bytes that must move.
    pub bytes: f64,
    /// Operations that must be done: floating-point, or integer ones where there are more of these.
    pub operations: f64,
    /// The least time that memory and arithmetic allow.
    pub floor: Floor,
    /// Medians of the peers in microseconds.
    pub peers: Vec<(String, f64)>,
    /// Bytes that the peer `copy` moves.
    pub copy_bytes: f64,
    /// Why a peer is missing.
    pub note: Option<String>,
    /// Errors against the reference in double precision, ours first and the peer's on the same inputs, where matrices are multiplied.
    pub errors: Vec<(String, Deviation)>,
    /// The verdicts on the cubins of the launch sites that the call reaches, by the sites' names.
    pub verdicts: Vec<(String, Acceptance)>,
    /// What took the time of this row, in seconds.
    pub spent: Spent,
}

/// Seconds of the parts of a benchmark.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Spent {
    /// Making inputs, compiling, a first run, and comparing it with the reference.
    pub checking: f64,
    /// The peers' preparation: their inputs, their compiler, their first runs.
    pub peers: f64,
    /// The turns.
    pub turns: f64,
}

impl Row {
    /// Bytes that must move, per second of our median.
    pub fn bandwidth(&self) -> f64 {
        self.bytes / (self.median_us * 1e-6)
    }
    /// The floor in microseconds.
    pub fn floor_us(&self) -> f64 {
        self.floor.seconds * 1e6
    }
    /// The fastest peer that does the same work.
    pub fn best_peer(&self) -> Option<f64> {
        self.peers.iter().filter(|(n, _)| n != "copy" && n != "sum").map(|(_, t)| *t).min_by(f64::total_cmp)
    }
    /// Median of the peer `sum`.
    pub fn plain_sum(&self) -> Option<f64> {
        self.peers.iter().find(|(n, _)| n == "sum").map(|(_, t)| *t)
    }
    /// Bandwidth of the peer `copy`.
    pub fn copy_bandwidth(&self) -> Option<f64> {
        self.peers.iter().find(|(n, _)| n == "copy").map(|(_, t)| self.copy_bytes / (t * 1e-6))
    }
}

/// How to bench.
pub struct Options<'a> {
    /// The GPU.
    pub device: &'a Device,
    /// Where schedules come from.
    pub store: Option<&'a Store>,
    /// Turns of each.
    pub rounds: usize,
    /// Calls of several steps run as CUDA graphs, where they can.
    pub graphs: bool,
    /// Also time a copy of the largest tensor.
    pub copy: bool,
    /// Who uses the GPU: turns are taken alone.
    pub quiet: &'a Quiet,
    /// What samples find in the L2 cache.
    pub l2: L2,
}

/// The first rounds warm up clocks and caches and are not counted.
const WARM_ROUNDS: usize = 3;
/// Elements of each output that are compared with the reference.
pub(crate) const SAMPLED: usize = 20_000;

/// Times a subject beside its peers.
///
/// # Errors
/// Sizes that do not fit, a result that is wrong, or what the device reports.
pub fn bench(subject: &Subject, sizes: &Sizes, options: &Options, peers: Option<&mut dyn Peers>) -> Result<Row, String> {
    let device = options.device;
    let preparing = options.quiet.beside_others();
    let started = Instant::now();
    let call = subject.call(sizes, 1)?;
    let (subject, chosen) = chosen(subject, &call, options)?;
    let subject = &subject;
    let mut runner = Runner::new(device, subject.program.clone());
    runner.graphs &= options.graphs;
    runner.schedules = chosen.iter().map(|(s, _, _)| Some(s.clone())).collect();
    let placed = Placed::new(device, &call, 0).map_err(|e| e.to_string())?;
    let after = run(&mut runner, &placed, &placed.arguments()).map_err(|e| e.to_string())?;
    let deviation = subject.judge(&call, &after, Some(SAMPLED), true)?;
    drop(after);

    let mut row = empty_row(subject, &call, device.target());
    if subject.multiplies() && subject.challenge.is_some() {
        row.errors.push(("girih".to_string(), deviation));
    }
    let reached = launches(&subject.program, &call, 0)?;
    row.verdicts = verdicts(subject, &reached, device.target(), &chosen);
    let is_reached = |site: usize| reached.iter().any(|launch| launch.site == site);
    let shown = chosen.into_iter().enumerate().filter(|(site, _)| is_reached(*site));
    row.schedules = shown.map(|(_, (_, text, origin))| (text, origin)).collect();
    let timer = Timer::new(device, options.l2).map_err(|e| e.to_string())?;
    let arguments = placed.arguments();
    let mut last = None;
    let mut ours = || {
        let samples = timer.turn(last, &placed, &mut || runner.run(&arguments)).map_err(|e| e.to_string())?;
        last = samples.value.last().copied();
        Ok::<Taken<Vec<f64>>, String>(samples)
    };
    let mut samples: Option<Taken<Vec<f64>>> = None;
    row.spent.checking = started.elapsed().as_secs_f64();
    let mut peers = peers;
    let names = match &mut peers {
        None => Vec::new(),
        Some(peers) => prepared(*peers, subject, sizes, &call, options, &mut row)?,
    };
    drop(preparing);
    let alone = options.quiet.alone();
    let started = Instant::now();
    let mut timed: Vec<(String, Vec<f64>)> = names.into_iter().map(|n| (n, Vec::new())).collect();
    for round in 0..options.rounds + WARM_ROUNDS {
        let turn = ours()?;
        if round >= WARM_ROUNDS {
            samples = Some(turn.behind(samples.take(), |all, turn| [all, turn].concat()));
        }
        if let Some(peers) = &mut peers {
            timed.retain_mut(|(name, times)| turn_of_peer((&mut **peers, &timer), name, times, round, &mut row.note));
        }
    }
    row.spent.turns = started.elapsed().as_secs_f64();
    drop(alone);
    if let Some(peers) = peers.filter(|_| !row.errors.is_empty() && !timed.is_empty()) {
        let _preparing = options.quiet.beside_others();
        match peer_error(peers, subject, &call) {
            Ok(error) => row.errors.push(error),
            Err(e) => row.note = Some(format!("no error of the peer: {e}")),
        }
    }
    row.peers = timed.into_iter().map(|(n, times)| (n, median(&times).unwrap_or(f64::NAN))).collect();
    let Taken { value, throttled } = samples.unwrap_or(Taken { value: Vec::new(), throttled: None });
    (row.median_us, row.throttled) = (median(&value).unwrap_or(f64::NAN), throttled);
    row.way = runner.way().to_string();
    let way = schedules::way_name(subject);
    if way != subject.name {
        row.way = format!("{}, {}", way.trim_start_matches(&subject.name).trim(), row.way);
    }
    Ok(row)
}

/// Sets up the peers of a subject; the names of those that may be timed.
fn prepared(
    peers: &mut dyn Peers,
    subject: &Subject,
    sizes: &Sizes,
    call: &Call,
    options: &Options,
    row: &mut Row,
) -> Result<Vec<String>, String> {
    let started = Instant::now();
    let mut names = peers.setup(&subject.name, sizes).unwrap_or_else(|e| {
        row.note = Some(e);
        Vec::new()
    });
    if options.copy {
        let largest = largest_tensor(call);
        peers.setup_yardstick(Yardstick::Copy, largest)?;
        names.push(Yardstick::Copy.name().into());
        row.copy_bytes = 2.0 * largest as f64;
    }
    if reads_mostly(call, row.bytes) {
        // A sum of the same bytes, in whole vectors.
        peers.setup_yardstick(Yardstick::Sum, (row.bytes as usize).div_ceil(16) * 16)?;
        names.push(Yardstick::Sum.name().into());
    }
    row.spent.peers = started.elapsed().as_secs_f64();
    Ok(names)
}

/// One turn of a peer; whether it may have another.
fn turn_of_peer(
    (peers, timer): (&mut dyn Peers, &Timer),
    name: &str,
    times: &mut Vec<f64>,
    round: usize,
    note: &mut Option<String>,
) -> bool {
    match timer.clean(|_| peers.turn(name)) {
        Ok(turn) => {
            times.extend(turn.value.into_iter().filter(|_| round >= WARM_ROUNDS));
            true
        }
        Err(e) => {
            *note = Some(format!("{name}: {e}"));
            false
        }
    }
}

/// How far a peer is from the reference for the very inputs of a call, at the elements at which ours was looked at.
fn peer_error(peers: &mut dyn Peers, subject: &Subject, call: &Call) -> Result<(String, Deviation), String> {
    let challenge = subject.challenge.as_ref().ok_or("there is no reference")?;
    let [(output, _)] = challenge.outputs[..] else { return Err("there are several outputs".into()) };
    let (mut inputs, mut wanted) = (Vec::new(), None);
    for (at, arg) in call.args.iter().enumerate() {
        let CallArg::Tensor { name, data, read, .. } = arg else { continue };
        if *read {
            inputs.push(data.host());
        }
        if name == output {
            wanted = Some((at, data.host()));
        }
    }
    let (at, like) = wanted.ok_or("there is no output")?;
    let (peer, result) = peers.result(&inputs, like)?;
    let mut after: Vec<Option<HostTensor>> = vec![None; call.args.len()];
    after[at] = Some(result);
    Ok((peer, subject.judge(call, &after, Some(SAMPLED), false)?))
}

/// Whether what a call stores to is a small part of what it must move: a sum of the same bytes is then what it is measured by.
fn reads_mostly(call: &Call, bytes: f64) -> bool {
    let stored = |a: &CallArg| match a {
        CallArg::Tensor { data, mutable: true, .. } => data.bytes(),
        _ => 0,
    };
    call.args.iter().map(stored).sum::<usize>() as f64 * 50.0 <= bytes
}

/// Bytes of the largest tensor of a call.
pub fn largest_tensor(call: &Call) -> usize {
    let bytes = |a: &CallArg| match a {
        CallArg::Tensor { data, .. } => data.bytes(),
        CallArg::Scalar(_) => 0,
    };
    call.args.iter().map(bytes).max().unwrap_or(0)
}

/// The subject with the variants to take, and a schedule for each launch site with its text and origin.
pub(crate) type Chosen = (Subject, Vec<(Schedule, String, &'static str)>);

/// The way and the schedules that a call at its lengths is known to be fastest with.
pub(crate) fn chosen(subject: &Subject, call: &Call, options: &Options) -> Result<Chosen, String> {
    let (target, device) = (options.device.target(), options.device.name());
    let store = options.store.map(|s| (s, device.as_str()));
    let (joint, subject) =
        schedules::best(subject, Some(&call.lengths()), target, store).map_or((None, subject.clone()), |(j, s)| (Some(j), s));
    let launches = launches(&subject.program, call, 0)?;
    let schedules = schedules::schedules(&subject, joint.as_ref(), target, store, &launches)?;
    let names = subject.program.site_names();
    let labelled = |(site, (schedule, kernel, origin)): (usize, (Schedule, Kernel, &'static str))| {
        let text = schedule.short(&kernel);
        let text = if names.len() > 1 { format!("{}: {text}", names[site]) } else { text };
        (schedule, text, origin)
    };
    let schedules = schedules.into_iter().enumerate().map(labelled).collect();
    Ok((subject, schedules))
}

/// Whether the cubins of a call's launches are what was meant; nothing of kernels that could not be compiled by themselves.
fn verdicts(
    subject: &Subject,
    reached: &[Launch],
    target: &Target,
    chosen: &[(Schedule, String, &'static str)],
) -> Vec<(String, Acceptance)> {
    let names = subject.program.site_names();
    let verdict = |launch: &Launch| {
        let kernel = (launch.kernel.build)().ok()?;
        let compiled = compile(&kernel, &launch.facts, &chosen[launch.site].0, target, Output::Cubin).ok()?;
        Some((names[launch.site].clone(), compiled.acceptance().ok()?))
    };
    reached.iter().filter_map(verdict).collect()
}

fn empty_row(subject: &Subject, call: &Call, target: &Target) -> Row {
    let bytes = subject.compulsory_bytes(call);
    let (flops, int_ops) = subject.challenge.as_ref().map_or((0.0, 0.0), |c| ((c.flops)(&call.sizes), (c.int_ops)(&call.sizes)));
    Row {
        name: subject.name.clone(),
        sizes: call.sizes.to_string(),
        schedules: Vec::new(),
        way: String::new(),
        median_us: f64::NAN,
        throttled: None,
        bytes: bytes.total(),
        operations: flops.max(int_ops),
        floor: floor(subject, &call.sizes, bytes, target),
        peers: Vec::new(),
        copy_bytes: 0.0,
        note: None,
        errors: Vec::new(),
        verdicts: Vec::new(),
        spent: Spent::default(),
    }
}

/// The perf sizes scaled until the largest tensor has about `bytes` bytes: every scalar that a shape mentions by the same
/// factor, rounded to multiples of 32.
///
/// # Errors
/// A subject without sizes of its own, or whose tensors do not grow.
pub fn scaled_sizes(subject: &Subject, asked: &Sizes, bytes: f64) -> Result<Sizes, String> {
    scaled_extents(subject, asked, bytes, &subject.extents(), 32.0)
}

/// As [`scaled_sizes`], with nothing but the named sizes scaled, to multiples of `unit`.
///
/// # Errors
/// The subject has no perf size.
pub fn scaled_extents(subject: &Subject, asked: &Sizes, bytes: f64, extents: &[String], unit: f64) -> Result<Sizes, String> {
    let perf = subject.perf_sizes(asked)?;
    let at = |factor: f64| {
        let scale = |(name, value): (&String, &f64)| {
            let least = if factor < 1.0 { value.min(unit) } else { unit };
            let scaled = if extents.contains(name) { ((value * factor / unit).round() * unit).max(least) } else { *value };
            (name.clone(), scaled)
        };
        Sizes(perf.0.iter().map(scale).collect())
    };
    let (mut low, mut high) = (1e-4, 1e5);
    for _ in 0..60 {
        // Between the same sizes there are no others.
        if at(low) == at(high) {
            break;
        }
        let middle = f64::sqrt(low * high);
        if subject.largest_bytes(&at(middle))? < bytes { low = middle } else { high = middle }
    }
    Ok(subject.meeting_requirements(at(high)))
}
