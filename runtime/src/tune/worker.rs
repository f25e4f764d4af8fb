//! The worker process: checks and times candidates on the GPU. One that hangs, traps or crashes takes this process with it,
//! and nothing else; the tuner starts another one.

use super::launches::launches;
use super::protocol::{Reply, Request, Setup};
use super::references::References;
use crate::check::run;
use crate::child;
use crate::compile::{Output, compile};
use crate::device::Device;
use crate::error::Error;
use crate::launch::program::Runner;
use crate::measure::timing::Timer;
use crate::subject::challenge::Sizes;
use crate::subject::guarded_args::Placed;
use crate::subject::inputs::{Elements, HostTensor};
use crate::subject::names;
use crate::subject::{Call, Subject};
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::tile::Kernel;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves requests until stdin ends.
///
/// # Errors
/// As `child::serve`: the tuner is gone.
pub fn serve() -> Result<(), String> {
    let mut worker: Option<Worker> = None;
    child::serve(|request: Request| match (request, &mut worker) {
        (Request::Setup(setup), _) => match Worker::new(&setup) {
            Ok((ready, note)) => {
                worker = Some(ready);
                note.map_or(Reply::Ready, |note| Reply::Noted { note })
            }
            Err(reason) => Reply::Lost { reason },
        },
        (Request::Trial { schedules, limit_us }, Some(worker)) => worker.trial(&schedules, limit_us),
        (Request::Interleaved { ways, rounds, limit_ms }, Some(worker)) => {
            worker.interleaved(&ways, rounds, Duration::from_millis(limit_ms))
        }
        (_, None) => Reply::Lost { reason: "no set-up came before the first trial".into() },
    })
}

struct Worker {
    device: Device,
    subject: Subject,
    kernels: Vec<Kernel>,
    runner: Runner,
    timer: Timer,
    /// Small awkward calls with the evaluator's results.
    small: Vec<Placement>,
    /// Facts of what they launch, by site, without repetitions.
    small_facts: Vec<(usize, Facts)>,
    /// What references and evaluator have not said yet.
    references: References,
    /// The call at the tuned size.
    tuned: (Arc<Call>, Placed),
    /// What the naive schedules left there, on the device.
    naive: Arc<Vec<Option<Elements>>>,
}

/// A small call, with what it shall leave.
struct Placement {
    call: Call,
    placed: Placed,
    expected: Vec<Option<HostTensor>>,
}

impl Placement {
    /// Compares a result, and looks at the guard zones.
    fn judge(&self, subject: &Subject, after: &[Option<HostTensor>]) -> Result<(), Reply> {
        subject.compare(&self.call, after, &self.expected).map_err(|reason| Reply::Wrong { reason })?;
        guarded(&self.placed, &self.call)
    }
}

fn guarded(placed: &Placed, call: &Call) -> Result<(), Reply> {
    match placed.guards_intact() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Reply::Wrong { reason: format!("wrote outside of its tensors at {}", call.sizes) }),
        Err(e) => Err(failed(&e)),
    }
}

/// Samples by which a candidate is found too slow.
const HASTY: usize = 2;
/// Samples of a trial, after one run that warms up.
const SAMPLES: usize = 11;

impl Worker {
    /// The worker, and what could not be checked in time.
    fn new(setup: &Setup) -> Result<(Worker, Option<String>), String> {
        let subject = names::subject(&setup.name)?.with_variants(&setup.variants);
        let device = Device::cuda(setup.ordinal).map_err(|e| e.to_string())?;
        let text = |e: Error| e.to_string();
        let kernels: Vec<Kernel> =
            subject.program.sites().iter().map(|d| (d.build)().map_err(|e| e.to_string())).collect::<Result<_, _>>()?;
        let mut runner = Runner::new(&device, subject.program.clone());
        let naive = kernels.iter().map(|k| {
            let none = Facts::none(k);
            Space::new(k, &none, device.target()).naive().map(Some).map_err(|e| e.to_string())
        });
        runner.schedules = naive.collect::<Result<_, String>>()?;
        let call = subject.call(&Sizes::parse(&setup.sizes)?, setup.seed)?;
        let placed = Placed::new(&device, &call, 0).map_err(text)?;
        placed.restore().and_then(|()| runner.run(&placed.arguments())).map_err(text)?;
        // References read on a stream of their own: they wait for no trial.
        let reader = Device::cuda(setup.ordinal).map_err(text)?;
        let naive = Arc::new(placed.keep_stored(&reader).map_err(text)?);
        let call = Arc::new(call);
        let calls = small_calls(&subject, setup.seed)?;
        let small_facts = small_facts(&subject, &calls);
        let references = References::ask(&subject, calls, (&call, &naive));
        let timer = Timer::new(&device).map_err(text)?;
        let (small, tuned) = (Vec::new(), (call, placed));
        let mut worker = Worker { device, subject, kernels, runner, timer, small, small_facts, references, tuned, naive };
        worker.hear(Duration::from_millis(setup.patience_ms))?;
        let note = worker.references.note(&worker.subject.name);
        Ok((worker, note))
    }

    /// Takes what references and evaluator have come to say, and waits for it so long.
    fn hear(&mut self, patience: Duration) -> Result<(), String> {
        let end = Instant::now() + patience;
        while let Some(word) = self.references.next(end.saturating_duration_since(Instant::now()))? {
            let placed = Placed::new(&self.device, &word.call, word.misalign).map_err(|e| e.to_string())?;
            self.small.push(Placement { call: word.call, placed, expected: word.expected });
        }
        Ok(())
    }

    fn trial(&mut self, schedules: &[String], limit_us: Option<f64>) -> Reply {
        if let Err(reason) = self.hear(Duration::ZERO) {
            return Reply::Lost { reason };
        }
        if let Err(reply) = self.take(schedules) {
            return reply;
        }
        // Most candidates are slow; checking them would take most of the time.
        if let Some(limit_us) = limit_us {
            match self.tuned.1.restore().and_then(|()| self.sample(1 + HASTY)) {
                Ok(samples_us) if samples_us[1..].iter().all(|us| *us > limit_us) => {
                    return Reply::Slow { samples_us: samples_us[1..].to_vec() };
                }
                Ok(_) => {}
                Err(e) => return failed(&e),
            }
        }
        self.compile_small();
        if let Err(reply) = self.check() {
            return reply;
        }
        match self.sample(SAMPLES) {
            Ok(samples_us) => Reply::Measured { samples_us },
            Err(e) => failed(&e),
        }
    }

    fn interleaved(&mut self, ways: &[Vec<String>], rounds: usize, limit: Duration) -> Reply {
        let end = Instant::now() + limit;
        let mut samples_us: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
        // One round that is not counted warms up the kernels.
        for round in 0..=rounds {
            // Rounds are whole: every way has as many samples.
            if round > 1 && Instant::now() >= end {
                break;
            }
            for (way, samples) in ways.iter().zip(&mut samples_us) {
                let sampled = self.take(way).and_then(|()| self.sample(1).map_err(|e| failed(&e)));
                match sampled {
                    Ok(new) if round > 0 => samples.extend(new),
                    Ok(_) => {}
                    Err(lost @ Reply::Lost { .. }) => return lost,
                    Err(_) => samples.clear(),
                }
            }
        }
        Reply::Interleaved { samples_us }
    }

    /// Makes the runner use these schedules.
    fn take(&mut self, schedules: &[String]) -> Result<(), Reply> {
        let parse = |(kernel, text): (&Kernel, &String)| {
            parse_schedule(kernel, text).map(Some).map_err(|e| Reply::Rejected { reason: e.to_string() })
        };
        let parsed: Vec<Option<Schedule>> = self.kernels.iter().zip(schedules).map(parse).collect::<Result<_, _>>()?;
        self.runner.schedules = parsed;
        Ok(())
    }

    /// Compiles what the small calls launch on all cores: one after another is slow, and failures are the check's to report.
    fn compile_small(&self) {
        let target = self.device.target();
        std::thread::scope(|scope| {
            for (site, facts) in &self.small_facts {
                if let Some(schedule) = &self.runner.schedules[*site] {
                    let kernel = &self.kernels[*site];
                    scope.spawn(move || drop(compile(kernel, facts, schedule, target, Output::Cubin)));
                }
            }
        });
    }

    fn check(&mut self) -> Result<(), Reply> {
        for at in &self.small {
            let after = run(&mut self.runner, &at.placed, &at.placed.arguments()).map_err(|e| failed(&e))?;
            at.judge(&self.subject, &after)?;
        }
        let (call, placed) = &self.tuned;
        placed.restore().and_then(|()| self.runner.run(&placed.arguments())).map_err(|e| failed(&e))?;
        let differing = placed.count_differing(&self.naive, |dtype| self.subject.tolerance(call, dtype)).map_err(|e| failed(&e))?;
        if differing != Some(0) {
            let after = placed.download_stored().map_err(|e| failed(&e))?;
            let expected: Vec<Option<HostTensor>> = self.naive.iter().map(|n| n.as_ref().map(|n| n.host().clone())).collect();
            self.subject.compare(call, &after, &expected).map_err(|reason| Reply::Wrong { reason })?;
        }
        guarded(placed, call)
    }

    /// Samples of the program at the tuned size, in microseconds.
    fn sample(&mut self, samples: usize) -> Result<Vec<f64>, Error> {
        let placed = &self.tuned.1;
        let arguments = placed.arguments();
        (0..samples).map(|_| self.timer.sample(placed, &mut || self.runner.run(&arguments))).collect()
    }
}

/// An error of one candidate, or of the whole process: after most driver errors the context is unusable.
fn failed(e: &Error) -> Reply {
    let reason = e.to_string();
    match e {
        Error::Driver { .. } | Error::NoDevice(_) => Reply::Lost { reason },
        _ => Reply::Rejected { reason },
    }
}

/// Up to three calls that are likely to find a mistake at little cost: the largest check sizes, one of them one element off
/// alignment, and the smallest that is not empty.
fn small_calls(subject: &Subject, seed: u64) -> Result<Vec<(Call, usize)>, String> {
    let calls: Vec<Call> = subject.check_sizes(seed).iter().map(|s| subject.call(s, seed)).collect::<Result<_, _>>()?;
    let mut calls: Vec<Call> = calls.into_iter().filter(|c| subject.compulsory_bytes(c) > 0.0).collect();
    calls.sort_by_key(|c| subject.compulsory_bytes(c) as u64);
    let mut chosen = Vec::new();
    if let Some(largest) = calls.pop() {
        chosen.push((largest.clone(), 1));
        chosen.push((calls.pop().unwrap_or(largest), 0));
    }
    chosen.extend(calls.into_iter().next().map(|smallest| (smallest, 0)));
    Ok(chosen)
}

/// Facts of the launches of the small calls, by site, without repetitions.
fn small_facts(subject: &Subject, calls: &[(Call, usize)]) -> Vec<(usize, Facts)> {
    let mut seen: Vec<(usize, Facts)> = Vec::new();
    for (call, misalign) in calls {
        for launch in launches(&subject.program, call, *misalign).unwrap_or_default() {
            if !seen.contains(&(launch.site, launch.facts.clone())) {
                seen.push((launch.site, launch.facts));
            }
        }
    }
    seen
}
