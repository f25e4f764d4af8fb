//! The worker process: checks and times candidates on the GPU. One that hangs, traps or crashes takes this process with it,
//! and nothing else; the tuner starts another one.

use super::demands::{CUBIN, Compiling, Demands, small_calls};
use super::naive_ahead::naive;
use super::protocol::{Reply, Request, Setup};
use super::references::References;
use crate::check::run;
use crate::child;
use crate::compile::{cubin_of_text, nvrtc};
use crate::cores;
use crate::device::Device;
use crate::device::cuda::Gpu;
use crate::device::nvml;
use crate::error::Error;
use crate::launch::program::Runner;
use crate::measure::throttle::Taken;
use crate::measure::timing::{L2, Timer};
use crate::subject::challenge::Sizes;
use crate::subject::differ_on_gpu::DIFFER;
use crate::subject::guarded_args::Placed;
use crate::subject::inputs::on_gpu::DRAW;
use crate::subject::inputs::{Elements, HostTensor};
use crate::subject::names;
use crate::subject::{Call, Subject};
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::tile::Kernel;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Serves requests until stdin ends.
///
/// # Errors
/// As `child::serve`: the tuner is gone.
pub fn serve() -> Result<(), String> {
    let mut worker: Option<Worker> = None;
    // Before anybody says what for: both take as long as the tuner's own preparation.
    let mut opening = Some(std::thread::spawn(|| Device::cuda(0)));
    std::thread::spawn(nvrtc::load);
    std::thread::spawn(|| drop(nvml::load()));
    child::serve(|request: Request| match (request, &mut worker) {
        (Request::Setup(setup), _) => match Worker::new(&setup, opening.take().filter(|_| setup.ordinal == 0)) {
            Ok((ready, note)) => {
                worker = Some(ready);
                note.map_or(Reply::Ready, |note| Reply::Noted { note })
            }
            Err(reason) => Reply::Lost { reason },
        },
        (Request::Trial { schedules, limit_us }, Some(worker)) => worker.trial(&schedules, limit_us),
        (Request::Glance { schedules, limit_us }, Some(worker)) => {
            worker.glance(&schedules, limit_us).map_or_else(|reply| reply, |samples_us| Reply::Promising { samples_us })
        }
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
    /// What all calls promise of what they launch.
    demands: Demands,
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
/// Samples of a trial, after one run that warms up; no more than the first few, or those above, where these take so many microseconds together that
/// they are exact enough.
const SAMPLES: usize = 11;
const FEW: usize = 5;
const LONG_US: f64 = 50_000.0;

impl Worker {
    /// The worker, and what could not be checked in time. The GPU is being opened, maybe.
    fn new(setup: &Setup, opening: Option<JoinHandle<Result<Device, Error>>>) -> Result<(Worker, Option<String>), String> {
        let begun = Instant::now();
        let subject = names::subject(&setup.name)?.with_variants(&setup.variants);
        let target = Gpu::look(setup.ordinal).map_err(|e| e.to_string())?.target;
        let kernels: Vec<Kernel> =
            subject.program.sites().iter().map(|d| (d.build)().map_err(|e| e.to_string())).collect::<Result<_, _>>()?;
        let naive = naive(&kernels, &target)?;
        let call = subject.call(&Sizes::parse(&setup.sizes)?, setup.seed)?;
        let small = small_calls(&subject, setup.seed)?;
        let demands = Demands::of(&subject, &call, &small);
        let references = References::ask(&subject, small);
        let mut worker = std::thread::scope(|scope| {
            // NVRTC is at work while the GPU is opened and its memory is filled: whoever needs one of these waits for that one.
            cores::begin(scope, 2, vec![&DRAW, &DIFFER], |text| drop(cubin_of_text(text, target.arch)));
            Compiling::begin(scope, cores::cores(), (&kernels, &naive), &demands, (&target, CUBIN));
            let opened = opening.and_then(|o| o.join().ok()).unwrap_or_else(|| Device::cuda(setup.ordinal));
            let device = opened.map_err(|e| e.to_string())?;
            Worker::placed((device, setup.ordinal, setup.l2), subject, (kernels.clone(), naive.clone()), call, demands, references)
        })?;
        worker.hear(Duration::from_millis(setup.patience_ms).saturating_sub(begun.elapsed()))?;
        let note = worker.references.note(&worker.subject.name);
        Ok((worker, note))
    }

    /// Brings a call to a device, and runs it under the naive schedules.
    fn placed(
        (device, ordinal, l2): (Device, usize, L2),
        subject: Subject,
        (kernels, naive): (Vec<Kernel>, Vec<Option<Schedule>>),
        call: Call,
        demands: Demands,
        mut references: References,
    ) -> Result<Worker, String> {
        let text = |e: Error| e.to_string();
        let mut runner = Runner::new(&device, subject.program.clone());
        runner.schedules = naive;
        let placed = Placed::new(&device, &call, 0).map_err(text)?;
        placed.restore().and_then(|()| runner.run(&placed.arguments())).map_err(text)?;
        // References read on a stream of their own: they wait for no trial.
        let reader = Device::cuda(ordinal).map_err(text)?;
        let (call, naive) = (Arc::new(call), Arc::new(placed.keep_stored(&reader).map_err(text)?));
        references.compare(&subject, (&call, &naive));
        let timer = Timer::new(&device, l2).map_err(text)?;
        let (small, tuned) = (Vec::new(), (call, placed));
        Ok(Worker { device, subject, kernels, runner, timer, small, demands, references, tuned, naive })
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
        // Most candidates are slow; checking them would take most of the time.
        let looked_at = match limit_us {
            Some(limit_us) => self.glance(schedules, limit_us).map(|_| ()),
            None => self.begin(schedules),
        };
        let timed = looked_at.and_then(|()| {
            let tuned = if limit_us.is_some() { Vec::new() } else { self.demands.tuned.clone() };
            self.compile(&Demands { tuned, small: self.demands.small.clone() });
            self.check()?;
            self.samples().map_err(|e| failed(&e))
        });
        timed.map_or_else(|reply| reply, |Taken { value, throttled }| Reply::Measured { samples_us: value, throttled })
    }

    /// A few samples of a way that is fast enough for a trial.
    fn glance(&mut self, schedules: &[String], limit_us: f64) -> Result<Vec<f64>, Reply> {
        self.begin(schedules)?;
        let taken = self.tuned.1.restore().and_then(|()| self.sample(1 + HASTY)).map_err(|e| failed(&e))?;
        let samples_us = taken.value[1..].to_vec();
        // Who was throttled is not called slow for it.
        let slow = taken.throttled.is_none() && samples_us.iter().all(|us| *us > limit_us);
        if slow { Err(Reply::Slow { samples_us }) } else { Ok(samples_us) }
    }

    /// Goes on to a way to run the program.
    fn begin(&mut self, schedules: &[String]) -> Result<(), Reply> {
        self.hear(Duration::ZERO).map_err(|reason| Reply::Lost { reason })?;
        self.take(schedules)
    }

    fn interleaved(&mut self, ways: &[Vec<String>], rounds: usize, limit: Duration) -> Reply {
        let end = Instant::now() + limit;
        let mut all: Option<Taken<Vec<Vec<f64>>>> = None;
        // One round that is not counted warms up the kernels.
        for round in 0..=rounds {
            // Rounds are whole: every way has as many samples.
            if round > 1 && Instant::now() >= end {
                break;
            }
            match self.round(ways) {
                Ok(new) if round > 0 => all = Some(new.behind(all.take(), beside)),
                Ok(_) => {}
                Err(lost) => return lost,
            }
        }
        let Taken { value, throttled } = all.unwrap_or(Taken { value: vec![Vec::new(); ways.len()], throttled: None });
        Reply::Interleaved { samples_us: value, throttled }
    }

    /// A sample of each way, none of one that fails; a round counts as a whole.
    fn round(&mut self, ways: &[Vec<String>]) -> Result<Taken<Vec<Vec<f64>>>, Reply> {
        let (mut value, mut throttled) = (Vec::new(), None);
        for way in ways {
            match self.take(way).and_then(|()| self.sample(1).map_err(|e| failed(&e))) {
                Ok(new) => {
                    throttled = throttled.or(new.throttled);
                    value.push(new.value);
                }
                Err(lost @ Reply::Lost { .. }) => return Err(lost),
                Err(_) => value.push(Vec::new()),
            }
        }
        Ok(Taken { value, throttled })
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

    /// Compiles what calls launch on all cores: one after another is slow, and failures are the check's to report.
    fn compile(&self, demands: &Demands) {
        let (kernels, schedules) = (&self.kernels, &self.runner.schedules);
        let target = self.device.target();
        std::thread::scope(|scope| drop(Compiling::begin(scope, cores::cores(), (kernels, schedules), demands, (target, CUBIN))));
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

    /// Those of a trial.
    fn samples(&mut self) -> Result<Taken<Vec<f64>>, Error> {
        let mut all = self.sample(HASTY)?;
        for until in [FEW, SAMPLES] {
            if all.value.iter().sum::<f64>() >= LONG_US {
                break;
            }
            all = self.sample(until - all.value.len())?.behind(Some(all), |all, more| [all, more].concat());
        }
        Ok(all)
    }

    /// Samples of the program at the tuned size, in microseconds.
    fn sample(&mut self, samples: usize) -> Result<Taken<Vec<f64>>, Error> {
        let placed = &self.tuned.1;
        let arguments = placed.arguments();
        self.timer.samples(samples, placed, &mut || self.runner.run(&arguments))
    }
}

/// The samples of each way, with those of another round; none of one that failed there.
fn beside(all: Vec<Vec<f64>>, round: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let of_way = |(former, new): (Vec<f64>, Vec<f64>)| if new.is_empty() { new } else { [former, new].concat() };
    all.into_iter().zip(round).map(of_way).collect()
}

/// An error of one candidate, or of the whole process: after most driver errors the context is unusable.
fn failed(e: &Error) -> Reply {
    let reason = e.to_string();
    match e {
        Error::Driver { .. } | Error::NoDevice(_) => Reply::Lost { reason },
        _ => Reply::Rejected { reason },
    }
}
