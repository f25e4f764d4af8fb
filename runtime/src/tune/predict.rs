//! Times from the model instead of a GPU: for ordering candidates, and for tuning where the target is not at hand.
//!
//! What a candidate does is counted at the true size ([`super::counted`]), and the model turns it into a time with the registers that
//! NVRTC reports. Where there is no NVRTC a guess stands for the registers. Where data decide what is done that are not known at the true
//! size, a dry run at a reduced size is simulated and its counters are scaled; where even that cannot be, bytes and operations have to
//! do. The caller is told which it was ([`Basis`]).

mod explained;
mod registers;
mod trial;
mod uncounted;

pub use explained::{Explained, Predicted};

use super::contents::Inputs;
use super::counted::{Counted, FUEL, NotCounted, counted};
use super::dry_run::DryRuns;
use super::floor::Basis;
use super::launches::{Launch, at as launches_at, host_arguments};
use crate::check::Checks;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::model;
use girih_core::schedule::Schedule;
use girih_core::sim::counting::Fuel;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::host::HostArg;
use registers::guessed;
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
    small: OnceLock<Result<uncounted::Small, String>>,
    target: &'a Target,
    /// Schedules of all launch sites; the tuned site's is replaced by each candidate.
    schedules: Vec<Schedule>,
    /// Its checks, whose references are computed once.
    checks: OnceLock<Checks<'a>>,
    /// When the time for checks and counts is over.
    end: Option<Instant>,
    /// What the other launch sites take, microseconds.
    others_us: f64,
    /// What the launch finds in memory.
    inputs: OnceLock<Inputs>,
    /// It begins the call.
    starts: OnceLock<bool>,
    /// Whether reduced calls may be run that are not known yet.
    rehearses: bool,
}

/// Operations that a core counts in a second, about.
const COUNTED_PER_SECOND: f64 = 2.5e6;
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
        Prediction {
            subject,
            kernel,
            launch,
            sizes,
            dry_runs,
            small,
            target,
            schedules,
            checks,
            end,
            others_us,
            inputs,
            starts,
            rehearses: true,
        }
    }

    /// With checks and counts that end with a search that has so much time.
    pub(super) fn until(self, end: Option<Instant>) -> Prediction<'a> {
        Prediction { end, ..self }
    }

    /// Without reduced calls unless `rehearses`: each takes up to a second or so.
    pub(super) fn rehearsing(self, rehearses: bool) -> Prediction<'a> {
        Prediction { rehearses, ..self }
    }

    /// With reduced calls whose largest tensor has at most so many bytes.
    pub fn rehearsing_within(self, bytes: f64) -> Prediction<'a> {
        Prediction { dry_runs: Arc::new(DryRuns::of_bytes(bytes)), ..self }
    }

    /// With the reduced calls that the program's other sites know, too.
    pub(super) fn sharing(self, dry_runs: &Arc<DryRuns>) -> Prediction<'a> {
        Prediction { dry_runs: dry_runs.clone(), ..self }
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
        (one.seconds * self.launch.count as f64 + self.start()) * 1e6
    }

    /// Seconds by which a call's first launch takes longer, where the site begins the call.
    fn start(&self) -> f64 {
        if self.starts_the_call() { model::FIRST_LAUNCH } else { 0.0 }
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

    /// The same where a schedule may take so many seconds, about, if there is an end none behind it; nothing where that does not suffice.
    pub fn rough_us_within(&self, schedule: &Schedule, (seconds, until): (f64, Option<Instant>)) -> Option<f64> {
        let operations = (FUEL.operations as f64 * seconds.clamp(1.0 / 32.0, 1.0)) as u64;
        let is_late = || until.is_some_and(|end| Instant::now() >= end);
        let fuel = Fuel { operations, is_late: Some(&is_late) };
        let Ok(simt) = girih_core::lower::lower(self.kernel, &self.launch.facts, schedule, self.target) else { return Some(f64::INFINITY) };
        match self.predict_counted(&simt, None, fuel) {
            Ok((p, _)) => Some(rough(&p)),
            Err(Some(NotCounted::TooMuch)) if operations < FUEL.operations => None,
            Err(_) => Some(rough(&self.predict_uncounted(&simt, schedule, None, fuel).0)),
        }
    }

    /// What bounds a schedule, by the model with guessed registers; nothing where it is illegal or fails on the simulator.
    pub fn bottleneck(&self, schedule: &Schedule) -> Option<model::Bottleneck> {
        self.predict(schedule, None).ok().map(|(p, _)| p.bottleneck)
    }

    /// The model's word on one schedule, and how it came to be. A legal schedule always has one.
    fn predict(&self, schedule: &Schedule, registers: Option<model::Resources>) -> Result<(model::Prediction, Basis), String> {
        let simt = girih_core::lower::lower(self.kernel, &self.launch.facts, schedule, self.target).map_err(|e| e.to_string())?;
        if let Ok(predicted) = self.predict_counted(&simt, registers, self.fuel()) {
            return Ok(predicted);
        }
        Ok(self.predict_uncounted(&simt, schedule, registers, self.fuel()))
    }

    /// What the count of one schedule may take: where a search ends, an eighth of the time that is left.
    fn fuel(&self) -> Fuel<'static> {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        let most = FUEL.operations;
        left.map_or(FUEL, |left| ((left.as_secs_f64() / 8.0 * COUNTED_PER_SECOND) as u64).clamp(most / 32, most).into())
    }

    /// From what the launch does at its true size. Without a reason where nothing is launched.
    fn predict_counted(
        &self,
        simt: &simt::Kernel,
        registers: Option<model::Resources>,
        fuel: Fuel,
    ) -> Result<(model::Prediction, Basis), Option<NotCounted>> {
        summed(self.counted_launches(simt, registers, fuel)?).ok_or(None)
    }

    /// The launches of a kernel with what each does at its true size, and the model's word on it. Without a reason where nothing is launched.
    fn counted_launches(
        &self,
        simt: &simt::Kernel,
        registers: Option<model::Resources>,
        fuel: Fuel,
    ) -> Result<Vec<(Counted, model::Prediction)>, Option<NotCounted>> {
        let resources = registers.unwrap_or_else(|| guessed(simt));
        let found = self.counted(simt, fuel)?;
        if found.is_empty() { Err(None) } else { Ok(self.modelled(found, &resources)) }
    }

    /// The model's word on each launch.
    fn modelled(&self, found: Vec<Counted>, resources: &model::Resources) -> Vec<(Counted, model::Prediction)> {
        let of = |found: Counted| {
            let one = model::predict(&found.work, &found.launch, resources, self.target);
            (found, one)
        };
        found.into_iter().map(of).collect()
    }

    /// What the launch finds in memory, as far as that is known without a rehearsal.
    fn inputs(&self) -> &Inputs {
        self.inputs.get_or_init(|| {
            let all = launches_at(self.subject, self.sizes).unwrap_or_default();
            Inputs::of(self.subject, self.sizes, self.launch, &all)
        })
    }

    /// What the launches of the site's kernel do at their true size, by so much `fuel` for each; by what a reduced call left in
    /// memory, where that decides it.
    ///
    /// # Errors
    /// As [`NotCounted`] says.
    pub fn counted(&self, simt: &simt::Kernel, fuel: Fuel) -> Result<Vec<Counted>, NotCounted> {
        let inputs = self.inputs();
        match counted(simt, &self.launch.args, inputs, self.target, fuel) {
            Err(NotCounted::Unknown(param)) => self.counted_as_rehearsed(simt, inputs, param, fuel),
            found => found,
        }
    }

    /// The launches of a kernel whose threads go where a parameter's data send them that other launches leave: those that they left in a
    /// rehearsal stand for them.
    fn counted_as_rehearsed(&self, simt: &simt::Kernel, inputs: &Inputs, param: String, fuel: Fuel) -> Result<Vec<Counted>, NotCounted> {
        let Ok(small) = self.small() else { return Err(NotCounted::Unknown(param)) };
        let mut found = counted(simt, &self.launch.args, &inputs.rehearsed(&small.before, &small.left), self.target, fuel)?;
        found.iter_mut().for_each(|counted| counted.basis = Basis::Estimated);
        Ok(found)
    }

    /// What NVRTC says of a schedule's code: nothing where there is no NVRTC. An error where it was given up: nobody could launch that.
    fn resources(&self, schedule: &Schedule) -> Result<Option<model::Resources>, String> {
        Ok(self.compiled(schedule)?.as_ref().and_then(Prediction::resources_of))
    }
}

/// Microseconds by which candidates are put in order: what overlaps counts a little, too.
fn rough(p: &model::Prediction) -> f64 {
    (p.seconds + UNHIDDEN * p.beside) * 1e6
}

/// The model's word on launches one after the other; nothing where there is none.
fn summed(launches: Vec<(Counted, model::Prediction)>) -> Option<(model::Prediction, Basis)> {
    let all = launches.into_iter().map(|(found, one)| (one, found.basis));
    all.reduce(|(mut first, basis), (one, next)| {
        first.seconds += one.seconds;
        first.beside += one.beside;
        (first, basis.max(next))
    })
}

fn arguments(launch: &Launch) -> Vec<HostArg> {
    host_arguments(&launch.args)
}
