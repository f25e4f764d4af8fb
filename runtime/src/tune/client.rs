//! The tuner's side of the worker process: a time limit on every request, and a new process when one is lost.

use super::demands::{CUBIN, Compile};
use super::protocol::{Reply, Request, Setup};
use super::search::median;
use crate::child::{Gone, Launcher, Process};
use crate::device::cuda::Gpu;
use crate::measure::timing::L2;
use crate::store::{Status, Trial};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The hidden command that a worker process runs.
pub const WORKER: &str = "__worker";

/// Seconds for opening the GPU, random data and the naive schedule.
const SETUP_LIMIT: Duration = Duration::from_secs(180);

/// A GPU, the processes that measure there, and what compiles for the first of their trials.
#[derive(Clone, Debug)]
pub struct Workers {
    /// The GPU.
    pub gpu: Gpu,
    /// How the processes are started.
    pub(super) launcher: Launcher,
    pub(super) compile: Compile,
    /// What samples find in the L2 cache.
    pub l2: L2,
}

impl Workers {
    /// Of this very program.
    ///
    /// # Errors
    /// Its path is not known.
    pub fn of(gpu: Gpu, l2: L2) -> Result<Box<Workers>, String> {
        Ok(Box::new(Workers { gpu, launcher: Launcher::this_program(WORKER)?, compile: CUBIN, l2 }))
    }
}

/// A worker process that nobody has given anything to do yet, and how it was started.
static SPARE: Mutex<Option<(Launcher, Process)>> = Mutex::new(None);

/// Starts the first worker, which opens the GPU while the tuner prepares what it will ask for.
#[cfg(any(feature = "cli", test))]
pub fn start_ahead(launcher: &Launcher) {
    // Where it does not start, whoever needs one is told why.
    let spare = Process::start(launcher).ok().map(|process| (launcher.clone(), process));
    *SPARE.lock().unwrap_or_else(|e| e.into_inner()) = spare;
}

/// A worker that has been told its set-up.
fn begun(launcher: &Launcher, setup: &Setup) -> Result<Process, String> {
    let spare = SPARE.lock().unwrap_or_else(|e| e.into_inner()).take_if(|(started, _)| started == launcher);
    let mut worker = spare.map_or_else(|| Process::start(launcher), |(_, process)| Ok(process))?;
    worker.tell(&Request::Setup(setup.clone()));
    Ok(worker)
}

/// Measures the candidates of one launch site in worker processes.
pub struct WorkerMeasure {
    launcher: Launcher,
    setup: Setup,
    /// For one trial.
    limit: Duration,
    /// The schedule of every launch site; the tuned site's is replaced by each candidate.
    schedules: Vec<String>,
    site: usize,
    worker: Option<Process>,
    /// Whether its answer to the set-up is to come.
    setting_up: bool,
    /// When nothing is wanted any more.
    end: Option<Instant>,
    /// What the worker could not check in time.
    note: Option<String>,
    /// That what was timed in turn was throttled.
    throttled: Option<String>,
}

/// Why there is no worker.
enum NotStarted {
    /// The budget was over before it was ready; the time that it had.
    OutOfTime(Duration),
    Failed(String),
}

impl NotStarted {
    fn reason(self) -> String {
        match self {
            NotStarted::OutOfTime(had) => {
                let why = "the budget was over before inputs and the naive schedule's result were there";
                format!("{why} ({:.1} s): a longer --budget has more, and a smaller --size needs less", had.as_secs_f64())
            }
            NotStarted::Failed(why) => why,
        }
    }
}

impl WorkerMeasure {
    /// Starts a worker.
    ///
    /// # Errors
    /// It could not be started or set up: no GPU, or a naive schedule that is wrong.
    pub fn new(launcher: Launcher, setup: Setup, limit: Duration, schedules: Vec<String>) -> Result<WorkerMeasure, String> {
        WorkerMeasure::until(launcher, setup, limit, schedules, None)
    }

    /// As [`WorkerMeasure::new`]; every answer, that to the set-up included, is waited for until `end` at most.
    ///
    /// # Errors
    /// As [`WorkerMeasure::new`]; there was no time for the set-up.
    pub fn until(
        launcher: Launcher,
        setup: Setup,
        limit: Duration,
        schedules: Vec<String>,
        end: Option<Instant>,
    ) -> Result<WorkerMeasure, String> {
        let mut measure = WorkerMeasure::begin(launcher, setup, limit, end)?;
        measure.take(0, schedules);
        measure.ready(end)?;
        Ok(measure)
    }

    /// Starts a worker, whose set-up is waited for in [`WorkerMeasure::ready`]: there is something else to do meanwhile.
    ///
    /// # Errors
    /// It could not be started.
    pub fn begin(launcher: Launcher, setup: Setup, limit: Duration, end: Option<Instant>) -> Result<WorkerMeasure, String> {
        let worker = Some(begun(&launcher, &setup)?);
        Ok(WorkerMeasure {
            launcher,
            setup,
            limit,
            schedules: Vec::new(),
            site: 0,
            worker,
            setting_up: true,
            end,
            note: None,
            throttled: None,
        })
    }

    /// Waits for the set-up, until `by` at most.
    ///
    /// # Errors
    /// There is no GPU, the naive schedule is wrong, or there was no time.
    pub fn ready(&mut self, by: Option<Instant>) -> Result<(), String> {
        let end = self.end;
        self.end = by.or(end);
        let ready = self.set_up().map_err(NotStarted::reason);
        self.end = end;
        ready
    }

    /// From now on nothing is wanted behind `end`.
    pub fn end_at(&mut self, end: Option<Instant>) {
        self.end = end;
    }

    /// Goes on to another launch site; `schedules` are those of all sites.
    pub fn take(&mut self, site: usize, schedules: Vec<String>) {
        (self.site, self.schedules) = (site, schedules);
    }

    /// What the set-up could not check in time, once.
    pub fn note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// Why no sample counts of what was timed in turn, once.
    pub fn throttled(&mut self) -> Option<String> {
        self.throttled.take()
    }

    /// Time for an answer that may take `limit`.
    fn left(&self, limit: Duration) -> Duration {
        self.end.map_or(limit, |end| end.saturating_duration_since(Instant::now()).min(limit))
    }

    /// Sees to it that there is a worker which is set up.
    fn set_up(&mut self) -> Result<(), NotStarted> {
        if self.worker.is_none() {
            self.worker = Some(begun(&self.launcher, &self.setup).map_err(NotStarted::Failed)?);
            self.setting_up = true;
        }
        if !std::mem::take(&mut self.setting_up) {
            return Ok(());
        }
        let (limit, start) = (self.left(SETUP_LIMIT), Instant::now());
        let worker = self.worker.as_mut().expect("started above");
        let why = match worker.answer_while(|| limit.saturating_sub(start.elapsed())) {
            Ok(Reply::Ready) => return Ok(()),
            Ok(Reply::Noted { note }) => {
                self.note.get_or_insert(note);
                return Ok(());
            }
            Err(Gone::TimedOut) if limit < SETUP_LIMIT => NotStarted::OutOfTime(limit),
            Ok(Reply::Lost { reason }) => NotStarted::Failed(reason),
            Ok(other) => NotStarted::Failed(format!("the worker answered {other:?} to its set-up")),
            Err(Gone::TimedOut) => NotStarted::Failed(format!("the worker was not ready after {} s", SETUP_LIMIT.as_secs())),
            Err(Gone::Died(status)) => NotStarted::Failed(format!("the worker process died in its set-up ({status})")),
        };
        self.worker = None;
        Err(why)
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply, Gone> {
        self.set_up().map_err(|e| match e {
            // What the budget did not allow is not the candidate's fault.
            NotStarted::OutOfTime(_) => Gone::TimedOut,
            NotStarted::Failed(why) => Gone::Died(why),
        })?;
        let worker = self.worker.as_mut().expect("set up above");
        let answer = worker.ask(request, limit);
        if !matches!(&answer, Ok(reply) if !matches!(reply, Reply::Lost { .. })) {
            self.worker = None;
        }
        answer
    }

    fn way(&self, candidate: &str) -> Vec<String> {
        let mut way = self.schedules.clone();
        way[self.site] = candidate.to_string();
        way
    }

    /// Times one schedule of the site, given by its short name, and checks it unless it takes longer than `limit_us`.
    pub fn trial(&mut self, schedule: &str, limit_us: Option<f64>) -> Trial {
        let (limit, answer) = self.asked_for(&Request::Trial { schedules: self.way(schedule), limit_us });
        self.ended(schedule, limit, answer)
    }

    /// A few samples in microseconds of a schedule that takes no longer than `limit_us`, unchecked.
    ///
    /// # Errors
    /// The trial of one that takes longer, or can't be timed at all.
    pub fn glance(&mut self, schedule: &str, limit_us: f64) -> Result<Vec<f64>, Box<Trial>> {
        match self.asked_for(&Request::Glance { schedules: self.way(schedule), limit_us }) {
            (_, Ok(Reply::Promising { samples_us })) => Ok(samples_us),
            (limit, answer) => Err(Box::new(self.ended(schedule, limit, answer))),
        }
    }

    /// What the worker answers about a candidate, and the time that it had.
    fn asked_for(&mut self, request: &Request) -> (Duration, Result<Reply, Gone>) {
        let limit = self.left(self.limit);
        match self.ask(request, limit) {
            // Nothing that a candidate does looks like this: it is asked for again, once.
            Err(Gone::Died(status)) if is_from_outside(&status) => {
                let limit = self.left(self.limit);
                (limit, self.ask(request, limit))
            }
            answer => (limit, answer),
        }
    }

    /// The trial that an answer ends.
    fn ended(&self, schedule: &str, limit: Duration, answer: Result<Reply, Gone>) -> Trial {
        let (status, reason, samples_us) = match answer {
            Ok(Reply::Measured { samples_us, throttled }) => (Status::Measured, throttled.unwrap_or_default(), samples_us),
            Ok(Reply::Slow { samples_us }) => (Status::Slow, String::new(), samples_us),
            Ok(Reply::Rejected { reason }) => (Status::Rejected, reason, Vec::new()),
            Ok(Reply::Wrong { reason }) => (Status::Wrong, reason, Vec::new()),
            Ok(Reply::Lost { reason }) => (Status::Crashed, reason, Vec::new()),
            Ok(other) => (Status::Crashed, format!("the worker answered {other:?}"), Vec::new()),
            Err(Gone::TimedOut) if limit < self.limit => (Status::Untried, "the time for it was over".into(), Vec::new()),
            Err(Gone::TimedOut) => (Status::TimedOut, format!("no result after {} s", self.limit.as_secs()), Vec::new()),
            Err(Gone::Died(status)) => (Status::Crashed, format!("the worker process died ({status})"), Vec::new()),
        };
        let schedule = schedule.to_string();
        Trial { schedule, status, reason, median_us: median(&samples_us), samples_us, registers: None, flaw: None, code: None }
    }

    /// Times several in turn: so many samples of each in microseconds. Empty where one failed.
    pub fn interleaved(&mut self, candidates: &[&str], rounds: usize) -> Vec<Vec<f64>> {
        self.ways(&candidates.iter().map(|c| self.way(c)).collect::<Vec<_>>(), rounds)
    }

    /// As [`WorkerMeasure::interleaved`], of ways that give every launch site a schedule.
    pub fn ways(&mut self, ways: &[Vec<String>], rounds: usize) -> Vec<Vec<f64>> {
        let limit = self.left(self.limit * ways.len() as u32);
        // The last round that begins in time may end a little later.
        let limit_ms = limit.as_millis() as u64 * 3 / 4;
        match self.ask(&Request::Interleaved { ways: ways.to_vec(), rounds, limit_ms }, limit) {
            Ok(Reply::Interleaved { samples_us, throttled }) => {
                self.throttled = throttled;
                samples_us
            }
            _ => vec![Vec::new(); ways.len()],
        }
    }
}

/// Whether a process ended by a signal that somebody else sends: an administrator, or a machine that is short of memory.
fn is_from_outside(status: &str) -> bool {
    ["(SIGKILL)", "(SIGTERM)"].iter().any(|signal| status.contains(signal))
}

#[cfg(test)]
mod tests;
