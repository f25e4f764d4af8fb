//! `check`: eval = device = plain-Rust reference, over odd sizes, misaligned pointers and sampled schedules.
//!
//! Outputs are poisoned before every run, memory around every tensor is guarded on a GPU (the simulator traps by itself), and inputs must
//! come out unchanged. A schedule that is illegal for the facts at hand is counted with its reason and is no failure.

use crate::challenge::Sizes;
pub use crate::check_report::{Failure, Report, Run};
use crate::compile::{Output, compile};
use crate::deviation::Deviation;
use crate::device::Device;
use crate::differences::Mismatch;
use crate::error::Error;
use crate::inputs::HostTensor;
use crate::joint::{self, Joint};
use crate::known;
use crate::placed::Placed;
use crate::program::Runner;
use crate::random_sizes::Drawn;
use crate::subject::{Call, CallArg, Subject};
use crate::tile_dependence::dependence;
use crate::tune::launches::launches;
use girih_core::error::CompileError;
use girih_core::facts::{Facts, TensorArg};
use girih_core::program::eval::{ProgramEvalError, eval_program_under};
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::eval::{EvalArg, EvalError, EvalOptions};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What to check with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where kernels run.
    pub on: On,
    /// Schedules sampled per kernel, besides the naive one, the default and the committed winner.
    pub schedules: usize,
    /// Of data, sizes and samples.
    pub seed: u64,
}

/// Less than all sizes and schedules of a subject.
#[derive(Clone)]
pub struct Part {
    /// The subject; with its variants chosen where there is a way.
    pub subject: Subject,
    /// The only size; the check sizes without.
    pub sizes: Option<Sizes>,
    /// Tensors lie one element off alignment at that size.
    pub misaligned: bool,
    /// The only schedule of each launch site, which has to be legal; sampled ones, with each choice of variants, without.
    pub way: Option<Vec<Schedule>>,
}

/// Where kernels run.
#[derive(Clone, Debug)]
pub enum On {
    /// The simulator with a target's limits, on all cores.
    Simulator(Target),
    /// A device, one run at a time.
    Device(Device),
}

/// Checks subjects, and each choice of a program's variants as a subject of its own; reports in their order. `done` is told of each size of a subject that has been checked.
pub fn check(subjects: &[Subject], options: &Options, done: &(dyn Fn(&str) + Sync)) -> Vec<Report> {
    let whole = |s: &Subject| Part { subject: s.clone(), sizes: None, misaligned: false, way: None };
    check_parts(&subjects.iter().map(whole).collect::<Vec<_>>(), options, done)
}

/// As [`check`], of parts of subjects.
pub fn check_parts(parts: &[Part], options: &Options, done: &(dyn Fn(&str) + Sync)) -> Vec<Report> {
    let ways = |part: &Part| match part.way {
        Some(_) => vec![part.clone()],
        None => part.subject.ways().into_iter().map(|subject| Part { subject, ..part.clone() }).collect(),
    };
    let parts: Vec<Part> = parts.iter().flat_map(ways).collect();
    let plans: Vec<Plan> = parts.iter().map(|part| Plan::of_part(part, options)).collect();
    let tasks: Vec<(usize, usize)> = plans.iter().enumerate().flat_map(|(i, p)| (0..p.calls()).map(move |c| (i, c))).collect();
    let reports = plans.iter().map(|p| Mutex::new(p.report())).collect::<Vec<_>>();
    if let On::Device(device) = &options.on
        && device.needs_cubin()
    {
        compile_all(&plans, device.target(), options.seed);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let device = options.on.device();
        while let Some((plan, call)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            // A panic is a bug of girih, or of a challenge's reference: it is reported, and the rest is checked all the same.
            let checked = caught(|| Ok(plans[plan].check_size(call, &device, options.seed)));
            let part = checked.unwrap_or_else(|e| Report::failed(Failure::of_run(plans[plan].run(call, options.seed), e)));
            reports[plan].lock().expect("no panic while reporting").merge(part);
            done(&plans[plan].subject.name);
        }
    };
    let threads = match &options.on {
        On::Simulator(_) => std::thread::available_parallelism().map_or(1, usize::from),
        On::Device(_) => 1,
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    reports.into_iter().map(|r| r.into_inner().expect("no panic while reporting")).collect()
}

/// Checks a subject with given schedules (one per launch site, for each way to run it), at its check sizes, on this thread.
pub fn check_ways(subject: &Subject, ways: Vec<Vec<Schedule>>, options: &Options) -> Report {
    let plan = Plan::new(subject, Ok(ways), options);
    let (mut report, device) = (plan.report(), options.on.device());
    (0..plan.calls()).for_each(|c| report.merge(plan.check_size(c, &device, options.seed)));
    report
}

/// Warp instructions that a launch may take for each second that is left, and statements of the evaluator.
const STEPS_PER_SECOND: f64 = 1e6;
const STATEMENTS_PER_SECOND: f64 = 1e5;

/// Checks of one way after the other to run a subject, on the simulator: what the evaluator and the references say is asked for once.
pub struct Checks<'a> {
    plan: Plan<'a>,
    seed: u64,
    /// The numbers of its sizes, those with the smallest tensors first.
    order: Vec<usize>,
    /// Nothing where that is too much work.
    expected: Vec<OnceLock<Result<Option<Expected>, Mismatch>>>,
}

impl<'a> Checks<'a> {
    /// At the subject's check sizes, with data drawn by `seed`.
    pub fn new(subject: &'a Subject, seed: u64) -> Checks<'a> {
        let mut plan = Plan::of_sizes(subject, Ok(Vec::new()), seed);
        plan.may_be_unfinished = true;
        let mut order: Vec<usize> = (0..plan.calls()).collect();
        let bytes = |number: &usize| subject.largest_bytes(&plan.sizes[*number]).unwrap_or(0.0) as u64;
        order.sort_by_key(bytes);
        let expected = (0..plan.calls()).map(|_| OnceLock::new()).collect();
        Checks { plan, seed, order, expected }
    }

    /// Checks a way (one schedule per launch site) from the smallest size on, until the first that fails or is not finished in the time
    /// that is left.
    pub fn check(&self, way: Vec<Schedule>, target: &Target, left: Option<Duration>) -> Report {
        let (begun, ways, mut report) = (Instant::now(), [way], self.plan.report());
        for number in self.order.iter().copied() {
            let now = left.map(|t| t.saturating_sub(begun.elapsed()));
            if !report.failures.is_empty() || report.unfinished > 0 || (report.runs > 0 && now.is_some_and(|t| t.is_zero())) {
                break;
            }
            let all = girih_core::sim::Options::default().fuel;
            let fuel = now.map_or(all, |t| ((t.as_secs_f64() * STEPS_PER_SECOND) as u64).clamp(STEPS_PER_SECOND as u64, all));
            let statements = now.map(|t| (t.as_secs_f64().max(1.0) * STATEMENTS_PER_SECOND) as u64);
            let part = self.check_size(number, &ways, &Device::sim_within(target, fuel, false), statements);
            report.merge(part);
        }
        report
    }

    fn check_size(&self, number: usize, ways: &[Vec<Schedule>], device: &Device, statements: Option<u64>) -> Report {
        let mut report = Report { sizes: 1, ..Report::default() };
        let expected = self.expected[number].get_or_init(|| self.plan.expected_within(number, self.seed, statements));
        let tried = match expected {
            Ok(Some(expected)) => self.plan.try_ways(number, self.seed, device, ways, expected, &mut report),
            Ok(None) => {
                report.unfinished += 1;
                Ok(())
            }
            Err(e) => Err(e.clone()),
        };
        if let Err(e) = tried {
            report.fail(self.plan.failure(number, self.seed, e));
        }
        report
    }
}

/// Compiles everything that the plans launch into the disk cache, on all cores: a device runs one kernel at a time and would wait for
/// NVRTC before each. Failures are for the runs to report.
fn compile_all(plans: &[Plan], target: &Target, seed: u64) {
    let mut jobs: Vec<(KernelDef, Facts, Schedule)> = Vec::new();
    for plan in plans {
        for number in 0..plan.calls() {
            let call = plan.call(number, seed);
            let found = call.and_then(|c| launches(&plan.subject.program, &c, plan.misaligned(number) as usize)).unwrap_or_default();
            for launch in found {
                for way in &plan.schedules {
                    jobs.push((launch.kernel, launch.facts.clone(), way[launch.site].clone()));
                }
            }
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((def, facts, schedule)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Ok(kernel) = (def.build)() {
                let _ = compile(&kernel, facts, schedule, target, Output::Cubin);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

/// The outcome of `work`, or what it panicked with; the whole message stands on stderr, too.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let text = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        format!("panicked: {}", text.and_then(|t| t.lines().next()).unwrap_or("without a message"))
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(text(panic)))
}

impl On {
    /// The GPU whose limits hold.
    pub fn target(&self) -> &Target {
        match self {
            On::Simulator(target) => target,
            On::Device(device) => device.target(),
        }
    }

    fn device(&self) -> Device {
        match self {
            // Nobody looks at what is counted, which takes a tenth of the time.
            On::Simulator(target) => Device::sim_without_counters(target),
            On::Device(device) => device.clone(),
        }
    }
}

/// Nothing could be checked: what random lengths and scalars broke, and what to do.
fn no_sizes(reason: Option<String>) -> String {
    let reason = reason.map_or(String::new(), |r| format!(", as in this one: {r}"));
    format!(
        "no sizes to check at: random lengths, and scalars from 1 to 3, do not meet the kernel's requirements{reason}\n      \
         help: check the program that launches it, as a challenge with `check_at` sizes of its own"
    )
}

/// What is run for one subject.
struct Plan<'a> {
    subject: &'a Subject,
    sizes: Vec<Sizes>,
    /// Whether tensors lie off alignment, where that does not follow from the size's number.
    misaligned: Option<bool>,
    /// Unusual lengths that were not drawn.
    left_out: usize,
    /// One schedule per launch site; every entry is a way to run the program.
    schedules: Vec<Vec<Schedule>>,
    /// Why nothing can be run.
    broken: Option<String>,
    /// Errors are worth a report.
    multiplies: bool,
    /// Too much work is no mistake.
    may_be_unfinished: bool,
    /// An illegal schedule is a mistake: it was asked for.
    must_be_legal: bool,
}

/// A call, and its tensors as it shall leave them.
type Expected = (Call, Vec<Option<HostTensor>>);

/// By whose word elements differ.
const FROM_EVAL: &str = "differs from eval";
const FROM_REFERENCE: &str = "differs from the reference";
const EVAL_FROM_REFERENCE: &str = "eval differs from the reference";

impl<'a> Plan<'a> {
    fn new(subject: &'a Subject, schedules: Result<Vec<Vec<Schedule>>, String>, options: &Options) -> Plan<'a> {
        Plan::of_sizes(subject, schedules, options.seed)
    }

    fn of_sizes(subject: &'a Subject, schedules: Result<Vec<Vec<Schedule>>, String>, seed: u64) -> Plan<'a> {
        let (schedules, broken) = match schedules {
            Ok(schedules) => (schedules, None),
            Err(e) => (Vec::new(), Some(e)),
        };
        let multiplies = subject.multiplies() && subject.challenge.is_some();
        let Drawn { sizes, left_out, reason } = subject.drawn_sizes(seed);
        let broken = broken.or_else(|| sizes.is_empty().then(|| no_sizes(reason)));
        let (misaligned, may_be_unfinished, must_be_legal) = (None, false, false);
        Plan { subject, sizes, misaligned, left_out, schedules, broken, multiplies, may_be_unfinished, must_be_legal }
    }

    fn of_part(part: &'a Part, options: &Options) -> Plan<'a> {
        let sampled = || caught(|| schedules(&part.subject, options.on.target(), options));
        let ways = part.way.as_ref().map_or_else(sampled, |way| Ok(vec![way.clone()]));
        let mut plan = Plan::new(&part.subject, ways, options);
        plan.must_be_legal = part.way.is_some();
        if let Some(sizes) = &part.sizes {
            (plan.sizes, plan.misaligned, plan.left_out) = (vec![sizes.clone()], Some(part.misaligned), 0);
        }
        plan
    }

    /// Aligned for even numbers of calls, one element off for odd ones, unless it was asked for.
    fn misaligned(&self, number: usize) -> bool {
        self.misaligned.unwrap_or(number % 2 == 1)
    }

    /// Of the data of a call.
    fn seed(number: usize, seed: u64) -> u64 {
        seed.wrapping_add(number as u64 * 1000)
    }

    /// A call, before anything is launched.
    fn run(&self, number: usize, seed: u64) -> Run {
        Run {
            subject: self.subject.name.clone(),
            sizes: self.sizes[number].clone(),
            seed: Plan::seed(number, seed),
            misaligned: self.misaligned(number),
            schedule: None,
        }
    }

    /// A call for which there is nothing to compare with.
    fn failure(&self, number: usize, seed: u64, why: Mismatch) -> Failure {
        Failure::of_elements(self.run(number, seed), EVAL_FROM_REFERENCE, why)
    }

    fn calls(&self) -> usize {
        if self.broken.is_some() { 0 } else { self.sizes.len() }
    }

    fn report(&self) -> Report {
        let failures = self.broken.iter().cloned().map(Failure::from).collect();
        Report {
            name: joint::way_name(self.subject),
            schedules: self.schedules.len(),
            left_out: self.left_out,
            failures,
            ..Report::default()
        }
    }

    /// One size.
    fn check_size(&self, number: usize, device: &Device, seed: u64) -> Report {
        let mut report = Report { sizes: 1, ..Report::default() };
        if let Err(e) = self.try_size(number, device, seed, &mut report) {
            report.fail(self.failure(number, seed, e));
        }
        report
    }

    fn call(&self, number: usize, seed: u64) -> Result<Call, String> {
        self.subject.call(&self.sizes[number], Plan::seed(number, seed))
    }

    /// A call, and what it shall leave.
    fn expected(&self, number: usize, seed: u64) -> Result<Expected, Mismatch> {
        Ok(self.expected_within(number, seed, None)?.expect("without a limit it is finished"))
    }

    /// The same; nothing where a launch takes the evaluator more statements than it may.
    fn expected_within(&self, number: usize, seed: u64, statements: Option<u64>) -> Result<Option<Expected>, Mismatch> {
        let call = self.call(number, seed)?;
        let options = EvalOptions { fuel: statements, ..EvalOptions::default() };
        let after = match evaluated(self.subject, &call, &[], &options) {
            Ok(after) => after,
            Err(ProgramEvalError::Kernel { error, .. }) if matches!(*error, EvalError::Fuel { .. }) => return Ok(None),
            Err(e) => return Err(format!("eval: {e}").into()),
        };
        self.subject.judged_elements(&call, &after, None, true).map_err(|e| match e {
            Mismatch::Other(e) => Mismatch::Other(format!("{EVAL_FROM_REFERENCE}: {e}")),
            elements => elements,
        })?;
        Ok(Some((call, after)))
    }

    fn try_size(&self, number: usize, device: &Device, seed: u64, report: &mut Report) -> Result<(), Mismatch> {
        let expected = self.expected(number, seed)?;
        self.try_ways(number, seed, device, &self.schedules, &expected, report)
    }

    fn try_ways(
        &self,
        number: usize,
        seed: u64,
        device: &Device,
        ways: &[Vec<Schedule>],
        (call, expected): &Expected,
        report: &mut Report,
    ) -> Result<(), Mismatch> {
        let placed = Placed::new(device, call, self.misaligned(number) as usize).map_err(|e| e.to_string())?;
        let arguments = placed.arguments();
        let mut runner = Runner::new(device, self.subject.program.clone());
        for schedules in ways {
            runner.schedules = schedules.iter().cloned().map(Some).collect();
            let outcome = run(&mut runner, &placed, &arguments);
            let this = || Run { schedule: self.written(schedules), ..self.run(number, seed) };
            match outcome {
                Err(Error::Compile(CompileError::Schedule(e))) if self.must_be_legal => report.fail(Failure::of_run(this(), e)),
                Err(Error::Compile(CompileError::Schedule(e))) => *report.rejected.entry(e.rule.clone()).or_default() += 1,
                Err(Error::Unfinished { .. }) if self.may_be_unfinished => report.unfinished += 1,
                Err(Error::Compile(e)) => report.fail(Failure::once(Some(this()), e.to_string())),
                Err(e) => report.fail(Failure::of_run(this(), e)),
                Ok(after) => {
                    report.runs += 1;
                    match self.compare(call, &placed, &after, expected) {
                        Ok(deviation) if self.multiplies => report.deviate(deviation),
                        Ok(_) => {}
                        Err(e) => self.explain(call, schedules, &after, expected, &this(), e).into_iter().for_each(|f| report.fail(f)),
                    }
                }
            }
        }
        Ok(())
    }

    /// How far the tensors are from the references; else by whose word they are wrong, and where.
    fn compare(
        &self,
        call: &Call,
        placed: &Placed,
        after: &[Option<HostTensor>],
        expected: &[Option<HostTensor>],
    ) -> Result<Deviation, (&'static str, Mismatch)> {
        let deviation = self.subject.judged_elements(call, after, None, true).map_err(|e| (FROM_REFERENCE, e))?;
        self.subject.compared_elements(call, after, expected).map_err(|e| (FROM_EVAL, e))?;
        match placed.guards_intact() {
            Ok(true) => Ok(deviation),
            Ok(false) => Err((FROM_EVAL, Mismatch::Other("wrote outside of its tensors".into()))),
            Err(e) => Err((FROM_EVAL, Mismatch::Other(e.to_string()))),
        }
    }

    /// Why a schedule leaves something else than expected: the author's body says something else under its tiles, or girih is wrong, or both.
    fn explain(
        &self,
        call: &Call,
        schedules: &[Schedule],
        after: &[Option<HostTensor>],
        expected: &Vec<Option<HostTensor>>,
        run: &Run,
        (whose, mismatch): (&str, Mismatch),
    ) -> Vec<Failure> {
        let Some(dependence) = dependence(self.subject, call, schedules, expected) else {
            return vec![Failure::of_elements(run.clone(), whose, mismatch)];
        };
        let also = self.subject.compared_elements(call, after, &dependence.after).err();
        let also = also.map(|e| Failure::of_elements(run.clone(), "differs from eval with the same tiles", e));
        std::iter::once(Failure::once(Some(run.clone()), dependence.message)).chain(also).collect()
    }

    /// The schedule as `--set` takes it: of the kernel alone, or of each launch site.
    fn written(&self, schedules: &[Schedule]) -> Option<String> {
        let kernels = self.subject.program.sites().into_iter().map(|def| (def.build)().ok());
        let texts = schedules.iter().zip(kernels).map(|(s, k)| Some(s.short(&k?).replace(' ', ",")));
        let texts: Vec<String> = texts.collect::<Option<_>>()?;
        Some(if joint::is_joint(&self.subject.source) { Joint::of(self.subject, &texts).to_string() } else { texts.concat() })
    }
}

/// Restores the arguments, runs a program once and reads all tensors back.
pub fn run(runner: &mut Runner, placed: &Placed, arguments: &[crate::launch::Argument]) -> Result<Vec<Option<HostTensor>>, Error> {
    placed.restore()?;
    runner.run(arguments)?;
    placed.download()
}

/// The tensors after a call, by the evaluator.
///
/// # Errors
/// Why the program could not be evaluated.
pub fn evaluate(subject: &Subject, call: &Call) -> Result<Vec<Option<HostTensor>>, String> {
    evaluate_under(subject, call, &[])
}

/// As [`evaluate`], with the tiles of a schedule for each launch site; of none, with the smallest.
pub(crate) fn evaluate_under(subject: &Subject, call: &Call, schedules: &[Schedule]) -> Result<Vec<Option<HostTensor>>, String> {
    evaluated(subject, call, schedules, &EvalOptions::default()).map_err(|e| e.to_string())
}

fn evaluated(
    subject: &Subject,
    call: &Call,
    schedules: &[Schedule],
    options: &EvalOptions,
) -> Result<Vec<Option<HostTensor>>, ProgramEvalError> {
    let mut after: Vec<Option<HostTensor>> = call
        .args
        .iter()
        .map(|a| match a {
            CallArg::Tensor { data, .. } => Some(data.clone()),
            CallArg::Scalar(_) => None,
        })
        .collect();
    let mut args: Vec<EvalArg> = call
        .args
        .iter()
        .zip(&mut after)
        .map(|(arg, after)| match (arg, after) {
            (CallArg::Scalar(l), _) => EvalArg::Scalar(*l),
            (CallArg::Tensor { data, .. }, Some(t)) => EvalArg::Tensor { bytes: &mut t.bytes, shape: TensorArg::packed(0, &data.lens) },
            (CallArg::Tensor { .. }, None) => unreachable!("every tensor was cloned above"),
        })
        .collect();
    eval_program_under(&subject.program, schedules, &mut args, options)?;
    Ok(after)
}

/// Ways to run a subject: each launch site naive, by default, by its winner, and `options.schedules` samples. Sites with
/// fewer candidates repeat theirs.
fn schedules(subject: &Subject, target: &Target, options: &Options) -> Result<Vec<Vec<Schedule>>, String> {
    let mut per_site: Vec<Vec<Schedule>> = Vec::new();
    for def in subject.program.sites() {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        per_site.push(site_schedules(&kernel, target, options)?);
    }
    let ways = per_site.iter().map(Vec::len).max().unwrap_or(1);
    Ok((0..ways).map(|i| per_site.iter().map(|s| s[i % s.len()].clone()).collect()).collect())
}

fn site_schedules(kernel: &Kernel, target: &Target, options: &Options) -> Result<Vec<Schedule>, String> {
    let facts = Facts::best(kernel);
    let space = Space::new(kernel, &facts, target);
    let mut all = vec![space.naive().map_err(|e| e.to_string())?];
    let committed = known::of_kernel(kernel, &facts, None, target, None).into_iter().map(|(schedule, _)| schedule);
    let known = std::iter::once(Schedule::default_of(kernel)).chain(committed);
    for schedule in known.filter(|s| space.check(s).is_ok()).chain(space.sample(options.schedules, options.seed)) {
        if !all.contains(&schedule) && all.len() < options.schedules.max(1) {
            all.push(schedule);
        }
    }
    Ok(all)
}
