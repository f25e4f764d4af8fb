//! Times from the model instead of a GPU: for ordering candidates, and for tuning where the target is not at hand.
//!
//! What a candidate does is counted at the true size ([`super::counted`]), and the model turns it into a time with the registers that
//! NVRTC reports. Where there is no NVRTC a guess stands for the registers. Where data decide what is done that are not known at the true
//! size, a dry run at a reduced size is simulated and its counters are scaled; where even that cannot be, bytes and operations have to
//! do. The caller is told which it was ([`Basis`]).

mod explained;
mod trial;

pub use explained::{Explained, Predicted};

use super::SEED;
use super::contents::Inputs;
use super::counted::{Counted, FUEL, NotCounted, constant_copies, counted, repeats};
use super::dry_run::DryRuns;
use super::floor::Basis;
use super::launches::{Launch, at as launches_at, host_arguments, launches_reading};
use super::reduced::one_tile_each;
use crate::check::Checks;
use crate::device::Device;
use crate::device::sim::LaunchReport;
use crate::launch::{Argument, host_args, prepare};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::model;
use girih_core::program::walk::LaunchArg;
use girih_core::schedule::{KnobKind, Schedule, Site};
use girih_core::sim::{Class, Counters, Program};
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::host::HostArg;
use girih_core::tile::{Kernel, ParamKind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Predicts the candidates of one launch site.
pub struct Prediction<'a> {
    subject: &'a Subject,
    kernel: &'a Kernel,
    launch: &'a Launch,
    sizes: &'a Sizes,
    /// The reduced calls that are known.
    dry_runs: Arc<DryRuns>,
    /// The same site's launch in a reduced call, found only where it is wanted: data that are not known at the true size decide what is done.
    small: OnceLock<Result<Small, String>>,
    target: &'a Target,
    /// Schedules of all launch sites; the tuned site's is replaced by each candidate.
    schedules: Vec<Schedule>,
    /// Its checks, whose references are computed once.
    checks: OnceLock<Checks<'a>>,
    /// When the time for checks is over.
    end: Option<Instant>,
    /// What the other launch sites take, microseconds.
    others_us: f64,
    /// What the launch finds in memory.
    inputs: OnceLock<Inputs>,
    /// It begins the call.
    starts: OnceLock<bool>,
}

/// A site's launch at a reduced size.
struct Small {
    launch: Launch,
    /// What it finds in memory, by argument; zeros where that is not known.
    before: Vec<Option<Vec<u8>>>,
    /// How much more work the whole launch is.
    scale: f64,
    /// Warp instructions after which a candidate is given up.
    fuel: u64,
}

/// Registers of a thread that has no arrays.
const LEAST_REGISTERS: u32 = 32;
/// Registers for addresses and counters.
const ADDRESSES: u32 = 24;
/// Part of what should overlap with the slowest unit's work and doesn't: it orders candidates that the model takes for equals.
const UNHIDDEN: f64 = 0.05;

impl<'a> Prediction<'a> {
    /// For the launch of a kernel on a target.
    pub fn new(
        subject: &'a Subject,
        sizes: &'a Sizes,
        (kernel, launch): (&'a Kernel, &'a Launch),
        target: &'a Target,
        schedules: Vec<Schedule>,
    ) -> Prediction<'a> {
        let (dry_runs, small) = (Arc::new(DryRuns::within(None)), OnceLock::new());
        let (checks, inputs, starts, end, others_us) = (OnceLock::new(), OnceLock::new(), OnceLock::new(), None, 0.0);
        Prediction { subject, kernel, launch, sizes, dry_runs, small, target, schedules, checks, end, others_us, inputs, starts }
    }

    /// With checks that end with a search that has so much time.
    pub(super) fn until(self, end: Option<Instant>) -> Prediction<'a> {
        Prediction { end, ..self }
    }

    /// With the reduced calls that the program's other sites know, too.
    pub(super) fn sharing(self, dry_runs: &Arc<DryRuns>) -> Prediction<'a> {
        Prediction { dry_runs: dry_runs.clone(), ..self }
    }

    /// The reduced launch.
    fn small(&self) -> Result<&Small, String> {
        self.small.get_or_init(|| self.find_small()).as_ref().map_err(Clone::clone)
    }

    fn find_small(&self) -> Result<Small, String> {
        let (subject, site) = (self.subject, self.launch.site);
        let dry_run = self.dry_runs.of_site(subject, self.sizes, (site, self.kernel), self.target)?;
        let call = subject.call(&dry_run.sizes, SEED)?;
        let found = launches_reading(&subject.program, &call, &dry_run.read)?;
        let launch = found.into_iter().find(|l| l.site == site).unwrap_or_else(|| self.launch.clone());
        let scale = scale(subject, self.kernel, (self.launch, self.sizes), (&launch, &dry_run.sizes));
        let site_run = dry_run.site(site);
        let before = site_run.map_or(vec![None; launch.args.len()], |r| r.before.clone());
        Ok(Small { launch, before, scale, fuel: self.dry_runs.fuel(site_run.and_then(|r| r.steps)) })
    }

    /// Predicts the whole program, whose other launch sites take so many microseconds.
    pub fn beside(self, others_us: f64) -> Prediction<'a> {
        Prediction { others_us, ..self }
    }

    /// Microseconds of all launches of the site under a schedule, and how they came to be.
    ///
    /// # Errors
    /// A schedule that is illegal, or that no GPU of the target can run.
    pub fn site_us(&self, schedule: &Schedule) -> Result<(f64, Basis), String> {
        self.site_us_with(schedule, self.resources(schedule)?)
    }

    /// The same where the registers per thread and the bytes that each spills are known, as a recording has them.
    ///
    /// # Errors
    /// As [`Prediction::site_us`].
    pub fn site_us_compiled(&self, schedule: &Schedule, (registers, spills): (u32, u32)) -> Result<(f64, Basis), String> {
        let simt = girih_core::lower::lower(self.kernel, &self.launch.facts, schedule, self.target).map_err(|e| e.to_string())?;
        self.site_us_with(schedule, Some(model::Resources { registers, shared: simt.shared_bytes(), spills }))
    }

    fn site_us_with(&self, schedule: &Schedule, resources: Option<model::Resources>) -> Result<(f64, Basis), String> {
        let (predicted, basis) = self.predict(schedule, resources)?;
        if !predicted.seconds.is_finite() {
            return Err(format!("a block of {} does not fit a multiprocessor", schedule.short(self.kernel)));
        }
        Ok((self.us(&predicted), basis))
    }

    /// Microseconds of all launches of the site.
    fn us(&self, one: &model::Prediction) -> f64 {
        let start = if self.starts_the_call() { model::FIRST_LAUNCH } else { 0.0 };
        (one.seconds * self.launch.count as f64 + start) * 1e6
    }

    /// Whether the site stands for a call's beginning: one of those that are launched does.
    fn starts_the_call(&self) -> bool {
        *self.starts.get_or_init(|| {
            let all = launches_at(self.subject, self.sizes).unwrap_or_default();
            all.first().is_none_or(|first| first.site == self.launch.site)
        })
    }

    /// A time in microseconds with guessed registers: good enough to order trials, also what the model takes for equals. Infinite where
    /// the schedule is illegal or fails on the simulator.
    pub fn rough_us(&self, schedule: &Schedule) -> f64 {
        self.predict(schedule, None).map_or(f64::INFINITY, |(p, _)| rough(&p))
    }

    /// The same where each schedule may take so many seconds, about; nothing where they do not suffice.
    pub fn rough_us_within(&self, schedule: &Schedule, seconds: f64) -> Option<f64> {
        let fuel = (FUEL as f64 * seconds.clamp(1.0 / 32.0, 1.0)) as u64;
        let Ok(simt) = girih_core::lower::lower(self.kernel, &self.launch.facts, schedule, self.target) else { return Some(f64::INFINITY) };
        match self.predict_counted(&simt, None, fuel) {
            Ok((p, _)) => Some(rough(&p)),
            Err(Some(NotCounted::TooMuch)) if fuel < FUEL => None,
            Err(_) => Some(rough(&self.predict_uncounted(&simt, schedule, None).0)),
        }
    }

    /// What bounds a schedule, by the model with guessed registers; nothing where it is illegal or fails on the simulator.
    pub fn bottleneck(&self, schedule: &Schedule) -> Option<model::Bottleneck> {
        self.predict(schedule, None).ok().map(|(p, _)| p.bottleneck)
    }

    /// The model's word on one schedule, and how it came to be. A legal schedule always has one.
    fn predict(&self, schedule: &Schedule, registers: Option<model::Resources>) -> Result<(model::Prediction, Basis), String> {
        let simt = girih_core::lower::lower(self.kernel, &self.launch.facts, schedule, self.target).map_err(|e| e.to_string())?;
        if let Ok(predicted) = self.predict_counted(&simt, registers, FUEL) {
            return Ok(predicted);
        }
        Ok(self.predict_uncounted(&simt, schedule, registers))
    }

    /// What stands in where a launch cannot be counted at its true size.
    fn predict_uncounted(
        &self,
        simt: &simt::Kernel,
        schedule: &Schedule,
        registers: Option<model::Resources>,
    ) -> (model::Prediction, Basis) {
        match self.predict_reduced(simt, schedule, registers) {
            Ok(predicted) => (predicted, Basis::Estimated),
            Err(_) => (self.predict_static(simt, registers), Basis::Static),
        }
    }

    /// From what the launch does at its true size. Without a reason where nothing is launched.
    fn predict_counted(
        &self,
        simt: &simt::Kernel,
        registers: Option<model::Resources>,
        fuel: u64,
    ) -> Result<(model::Prediction, Basis), Option<NotCounted>> {
        let mut whole: Option<(model::Prediction, Basis)> = None;
        for (found, one) in self.counted_launches(simt, registers, fuel)? {
            whole = Some(match whole {
                None => (one, found.basis),
                Some((mut first, basis)) => {
                    first.seconds += one.seconds;
                    first.beside += one.beside;
                    (first, basis.max(found.basis))
                }
            });
        }
        whole.ok_or(None)
    }

    /// The launches of a kernel with what each does at its true size, and the model's word on it. Without a reason where nothing is launched.
    fn counted_launches(
        &self,
        simt: &simt::Kernel,
        registers: Option<model::Resources>,
        fuel: u64,
    ) -> Result<Vec<(Counted, model::Prediction)>, Option<NotCounted>> {
        let inputs = self.inputs.get_or_init(|| {
            let all = launches_at(self.subject, self.sizes).unwrap_or_default();
            Inputs::of(self.subject, self.sizes, self.launch, &all)
        });
        let resources = registers.unwrap_or_else(|| guessed(simt));
        let found = match counted(simt, &self.launch.args, inputs, self.target, fuel) {
            Err(NotCounted::Unknown(param)) => self.counted_as_rehearsed(simt, inputs, param, fuel)?,
            found => found?,
        };
        let of = |found: Counted| {
            let one = model::predict(&found.work, &found.launch, &resources, self.target);
            (found, one)
        };
        if found.is_empty() { Err(None) } else { Ok(found.into_iter().map(of).collect()) }
    }

    /// The launches of a kernel whose threads go where a parameter's data send them that other launches leave: those that they left in a
    /// rehearsal stand for them.
    fn counted_as_rehearsed(&self, simt: &simt::Kernel, inputs: &Inputs, param: String, fuel: u64) -> Result<Vec<Counted>, NotCounted> {
        let Ok(small) = self.small() else { return Err(NotCounted::Unknown(param)) };
        let mut found = counted(simt, &self.launch.args, &inputs.rehearsed(&small.before), self.target, fuel)?;
        found.iter_mut().for_each(|counted| counted.basis = Basis::Estimated);
        Ok(found)
    }

    /// From bytes and operations alone: what a schedule does cannot be counted.
    fn predict_static(&self, simt: &simt::Kernel, registers: Option<model::Resources>) -> model::Prediction {
        let grid = simt.launch.grid.eval(&arguments(self.launch), self.target.multiprocessors as i64).max(1);
        let bytes = tensor_bytes(&self.launch.args);
        let constant_copies = constant_copies(simt);
        let work = model::Work { load_sectors: bytes / 32.0, memory_bytes: bytes, rounds: 1.0, constant_copies, ..model::Work::default() };
        let launch = model::Launch { grid: grid as u64, block: simt.launch.block, stages: 1 };
        model::predict(&work, &launch, &registers.unwrap_or_else(|| guessed(simt)), self.target)
    }

    /// From a call at a reduced size, scaled.
    fn predict_reduced(
        &self,
        simt: &simt::Kernel,
        schedule: &Schedule,
        registers: Option<model::Resources>,
    ) -> Result<model::Prediction, String> {
        let small = self.small()?;
        let reports = self.count((&small.launch.args, &small.before), schedule, small.fuel)?;
        let counters = &reports[0].report.counters;
        let multiprocessors = self.target.multiprocessors as i64;
        let grid = simt.launch.grid.eval(&arguments(self.launch), multiprocessors).max(1);
        let dealt = schedule.int_of_kind(self.kernel, KnobKind::Grid, 0) > 0;
        let tiles = if dealt { self.tiles(schedule).unwrap_or(grid) } else { grid };
        let mut work = scaled(counters, small.scale, (tiles as f64 / grid as f64).ceil().max(1.0));
        let site = self.kernel.grid_loop().map(Site::of_loop).unwrap_or_default();
        let stages = schedule.int_at(self.kernel, KnobKind::Stages, &site, 1).max(1) as u32;
        let launch = model::Launch { grid: grid as u64, block: simt.launch.block, stages: if dealt { stages } else { 1 } };
        work.constant_copies = constant_copies(simt);
        work.repeats = repeats(work.instructions, &launch, &Program::decode(simt));
        let resources = registers.unwrap_or_else(|| guessed(simt));
        let mut predicted = model::predict(&work, &launch, &resources, self.target);
        for (next, small) in simt.launches().zip(&reports).skip(1) {
            // A launch behind it takes the parts that blocks have left, one for each of its threads at a time.
            let turns = |parts: i64| (parts as f64 / f64::from(next.launch.block)).ceil();
            let (now, then) = (turns(grid), turns(reports[0].grid.into()));
            let launch = model::Launch { grid: small.grid.into(), block: next.launch.block, stages: 1 };
            predicted.seconds += model::predict(&scaled(&small.report.counters, now / then, now), &launch, &resources, self.target).seconds;
        }
        Ok(predicted)
    }

    /// Tiles of the whole launch: the blocks there would be with one tile each.
    fn tiles(&self, schedule: &Schedule) -> Option<i64> {
        let simt = girih_core::lower::lower(self.kernel, &self.launch.facts, &one_tile_each(self.kernel, schedule), self.target).ok()?;
        Some(simt.launch.grid.eval(&arguments(self.launch), self.target.multiprocessors as i64))
    }

    /// What a reduced launch with these arguments does, and the launches behind it; at least one. Memory of which nothing is known is zero.
    fn count(
        &self,
        (reduced, before): (&[LaunchArg], &[Option<Vec<u8>>]),
        schedule: &Schedule,
        fuel: u64,
    ) -> Result<Vec<LaunchReport>, String> {
        let device = Device::sim_within(self.target, fuel, true);
        let text = |e: crate::Error| e.to_string();
        let mut buffers = Vec::new();
        let mut args = Vec::new();
        for (i, (arg, param)) in reduced.iter().zip(&self.kernel.params).enumerate() {
            args.push(match (arg, param.kind) {
                (LaunchArg::Tensor(region), ParamKind::Tensor { mutable, .. }) => {
                    let (start, end) = region.span();
                    let buffer = device.alloc((end - start) as usize).map_err(text)?;
                    match before.get(i).and_then(Option::as_ref) {
                        Some(bytes) => device.upload(&buffer, 0, bytes).map_err(text)?,
                        None => device.fill(&buffer, 0, buffer.bytes(), &[0]).map_err(text)?,
                    }
                    let mut tensor = region.tensor_arg(0);
                    tensor.address = buffer.address().wrapping_add_signed(region.offset - start);
                    buffers.push(buffer);
                    Argument::Tensor { dtype: region.dtype, tensor, mutable }
                }
                (LaunchArg::Scalar(l), _) => Argument::Scalar(*l),
                (LaunchArg::Tensor(_), ParamKind::Scalar(_)) => return Err(format!("`{}` is a scalar", param.name)),
            });
        }
        let prepared = prepare(&device, &self.launch.kernel, Some(schedule), &args).map_err(text)?;
        let Device::Sim(sim) = &device else { unreachable!("made above") };
        sim.record();
        device.launch(&prepared.loaded, &host_args(&args)).map_err(text)?;
        let reports = sim.recorded();
        if reports.is_empty() { Err("nothing was launched".into()) } else { Ok(reports) }
    }

    /// What NVRTC says of a schedule's code: nothing where there is no NVRTC. An error where it was given up: nobody could launch that.
    fn resources(&self, schedule: &Schedule) -> Result<Option<model::Resources>, String> {
        Ok(self.compiled(schedule)?.as_ref().and_then(Prediction::resources_of))
    }
}

/// How much more work a launch is than one at a reduced size. Elements say that, but for products of matrices: these grow faster than their
/// tensors, by as much as the challenge's operations.
fn scale(subject: &Subject, kernel: &Kernel, large: (&Launch, &Sizes), small: (&Launch, &Sizes)) -> f64 {
    let elements = elements(&large.0.args) / elements(&small.0.args).max(1.0);
    let Some(challenge) = subject.challenge.as_ref().filter(|_| kernel.has_dots()) else { return elements };
    let flops = |of: (&Launch, &Sizes)| (challenge.flops)(of.1) / of.0.count.max(1) as f64;
    let operations = flops(large) / flops(small);
    if operations.is_finite() && operations > 0.0 { operations } else { elements }
}

/// Elements of all tensors of a launch.
fn elements(args: &[LaunchArg]) -> f64 {
    let of = |a: &LaunchArg| match a {
        LaunchArg::Tensor(r) => r.numel() as f64,
        LaunchArg::Scalar(_) => 0.0,
    };
    args.iter().map(of).sum()
}

/// Bytes of all tensors of a launch.
fn tensor_bytes(args: &[LaunchArg]) -> f64 {
    let of = |a: &LaunchArg| match a {
        LaunchArg::Tensor(r) => r.bytes() as f64,
        LaunchArg::Scalar(_) => 0.0,
    };
    args.iter().map(of).sum()
}

/// Microseconds by which candidates are put in order: what overlaps counts a little, too.
fn rough(p: &model::Prediction) -> f64 {
    (p.seconds + UNHIDDEN * p.beside) * 1e6
}

/// A guess at what the compiled kernel occupies: a thread's arrays, and what addresses and counters take, as far as the launch bounds leave it
/// registers; the rest is spilled, stored and loaded.
fn guessed(simt: &simt::Kernel) -> model::Resources {
    let arrays: u32 = simt.vars.iter().filter_map(|v| v.len.map(|n| n * v.dtype.size() as u32)).sum();
    let wanted = (ADDRESSES + arrays / 4).max(LEAST_REGISTERS);
    let most = most_registers(simt);
    model::Resources { registers: wanted.min(most), shared: simt.shared_bytes(), spills: 8 * wanted.saturating_sub(most) }
}

/// Registers that the launch bounds leave a thread.
fn most_registers(simt: &simt::Kernel) -> u32 {
    model::most_registers(simt.launch.block, simt.launch.min_blocks)
}

fn arguments(launch: &Launch) -> Vec<HostArg> {
    host_arguments(&launch.args)
}

fn scaled(c: &Counters, scale: f64, rounds: f64) -> model::Work {
    let times = |n: u64| n as f64 * scale;
    let shared = c.shared_load.wavefronts + c.shared_store.wavefronts + c.shared_atomic.wavefronts;
    let floats = c.threads(Class::Fma) + c.threads(Class::FloatAdd) + c.threads(Class::FloatMul);
    model::Work {
        load_sectors: times(c.global_load.sectors + c.global_async.sectors),
        store_sectors: times(c.global_store.sectors + c.global_atomic.sectors),
        memory_bytes: times(c.unique_read_bytes + c.unique_written_bytes),
        shared_wavefronts: times(shared),
        instructions: times(c.instructions() - c.warps(Class::Move)),
        float_operations: times(floats),
        special_functions: times(c.threads(Class::SpecialFunction)),
        matrix_groups: times(c.matrix.groups),
        matrix_half: times(c.matrix.half),
        matrix_tf32: times(c.matrix.tf32),
        matrix_int8: times(c.matrix.int8),
        atomics: times(c.threads(Class::Atomic)),
        rounds,
        ..model::Work::default()
    }
}
