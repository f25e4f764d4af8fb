//! What is run for one subject: its sizes, aligned and not, under each of its schedules; and what each run has to leave.

use super::evaluated::{evaluated, run};
use super::report::{Failure, Report, Run};
use super::schedules::sampled;
use super::tile_dependence::dependence;
use super::{Options, Part, caught};
use crate::device::Device;
use crate::error::Error;
use crate::launch::program::Runner;
use crate::launch::program_schedule::{self, Joint};
use crate::subject::challenge::Sizes;
use crate::subject::deviation::Deviation;
use crate::subject::differences::Mismatch;
use crate::subject::guarded_args::Placed;
use crate::subject::inputs::HostTensor;
use crate::subject::random_sizes::Drawn;
use crate::subject::schedules;
use crate::subject::{Call, CallArg, Subject};
use girih_core::error::CompileError;
use girih_core::program::eval::ProgramEvalError;
use girih_core::schedule::Schedule;
use girih_core::tile::eval::{EvalError, EvalOptions};

/// Nothing could be checked: a challenge names no sizes, or what random lengths and scalars broke; and what to do.
fn no_sizes(subject: &Subject, reason: Option<String>) -> String {
    if subject.challenge.is_some() {
        return "no sizes to check at: the challenge has to name some, as in `.check_at([\"N=0\", \"N=1\", \"N=1000\"])`".into();
    }
    let reason = reason.map_or(String::new(), |r| format!(", as in this one: {r}"));
    format!(
        "no sizes to check at: random lengths, and scalars from 1 to 3, do not meet the kernel's requirements{reason}\n      \
         help: check the program that launches it, as a challenge with `check_at` sizes of its own"
    )
}

/// What is run for one subject.
pub(super) struct Plan<'a> {
    pub subject: &'a Subject,
    pub sizes: Vec<Sizes>,
    /// The perf size, the last call, where it is asked for.
    perf: Option<Sizes>,
    /// Whether tensors lie off alignment, where that does not follow from the size's number.
    misaligned: Option<bool>,
    /// Unusual lengths that were not drawn.
    left_out: usize,
    /// One schedule per launch site; every entry is a way to run the program.
    pub schedules: Vec<Vec<Schedule>>,
    /// Why nothing can be run.
    broken: Option<String>,
    /// Errors are worth a report.
    multiplies: bool,
    /// Too much work is no mistake.
    pub may_be_unfinished: bool,
    /// An illegal schedule is a mistake: it was asked for.
    must_be_legal: bool,
}

/// A call, and its tensors as it shall leave them, where the evaluator says it.
pub(super) type Expected = (Call, Option<Vec<Option<HostTensor>>>);

/// Elements of each output that are compared with the references at the perf size.
const SAMPLED: usize = 20_000;

/// By whose word elements differ.
const FROM_EVAL: &str = "differs from eval";
const FROM_REFERENCE: &str = "differs from the reference";
const EVAL_FROM_REFERENCE: &str = "eval differs from the reference";

impl<'a> Plan<'a> {
    pub fn new(subject: &'a Subject, schedules: Result<Vec<Vec<Schedule>>, String>, options: &Options) -> Plan<'a> {
        Plan::of_sizes(subject, schedules, options.seed)
    }

    pub fn of_sizes(subject: &'a Subject, schedules: Result<Vec<Vec<Schedule>>, String>, seed: u64) -> Plan<'a> {
        let (schedules, broken) = match schedules {
            Ok(schedules) => (schedules, None),
            Err(e) => (Vec::new(), Some(e)),
        };
        let multiplies = subject.multiplies() && subject.challenge.is_some();
        let Drawn { sizes, left_out, reason } = subject.drawn_sizes(seed);
        let broken = broken.or_else(|| sizes.is_empty().then(|| no_sizes(subject, reason)));
        let (perf, misaligned, may_be_unfinished, must_be_legal) = (None, None, false, false);
        Plan { subject, sizes, perf, misaligned, left_out, schedules, broken, multiplies, may_be_unfinished, must_be_legal }
    }

    pub fn of_part(part: &'a Part, options: &Options) -> Plan<'a> {
        let sampled = || caught(|| sampled(&part.subject, options));
        let ways = part.way.as_ref().map_or_else(sampled, |way| Ok(vec![way.clone()]));
        let mut plan = Plan::new(&part.subject, ways, options);
        plan.must_be_legal = part.way.is_some();
        if part.at_perf_size && part.sizes.is_none() {
            plan.perf = part.subject.challenge.as_ref().map(|c| c.perf.clone());
        }
        if let Some(sizes) = &part.sizes {
            (plan.sizes, plan.misaligned, plan.left_out) = (vec![sizes.clone()], Some(part.misaligned), 0);
        }
        plan
    }

    /// Aligned for even numbers of calls, one element off for odd ones, unless it was asked for.
    pub fn misaligned(&self, number: usize) -> bool {
        self.misaligned.unwrap_or(number % 2 == 1 && !self.is_at_perf_size(number))
    }

    fn is_at_perf_size(&self, number: usize) -> bool {
        number == self.sizes.len()
    }

    fn sizes_of(&self, number: usize) -> &Sizes {
        self.sizes.get(number).or(self.perf.as_ref()).expect("calls() counts them")
    }

    /// Of the data of a call.
    fn seed(number: usize, seed: u64) -> u64 {
        seed.wrapping_add(number as u64 * 1000)
    }

    /// A call, before anything is launched.
    pub fn run(&self, number: usize, seed: u64) -> Run {
        Run {
            subject: self.subject.name.clone(),
            sizes: self.sizes_of(number).clone(),
            seed: Plan::seed(number, seed),
            misaligned: self.misaligned(number),
            schedule: None,
        }
    }

    /// A call for which there is nothing to compare with.
    pub fn failure(&self, number: usize, seed: u64, why: Mismatch) -> Failure {
        Failure::of_elements(self.run(number, seed), EVAL_FROM_REFERENCE, why)
    }

    pub fn calls(&self) -> usize {
        if self.broken.is_some() { 0 } else { self.sizes.len() + usize::from(self.perf.is_some()) }
    }

    pub fn report(&self) -> Report {
        let failures = self.broken.iter().cloned().map(Failure::from).collect();
        Report {
            name: schedules::way_name(self.subject),
            schedules: self.schedules.len(),
            left_out: self.left_out,
            failures,
            ..Report::default()
        }
    }

    /// One size.
    pub fn check_size(&self, number: usize, device: &Device, seed: u64) -> Report {
        let mut report = Report { sizes: 1, ..Report::default() };
        if let Err(e) = self.try_size(number, device, seed, &mut report) {
            report.fail(self.failure(number, seed, e));
        }
        report
    }

    pub fn call(&self, number: usize, seed: u64) -> Result<Call, String> {
        self.subject.call(self.sizes_of(number), Plan::seed(number, seed))
    }

    /// A call, and what it shall leave.
    fn expected(&self, number: usize, seed: u64) -> Result<Expected, Mismatch> {
        Ok(self.expected_within(number, seed, None)?.expect("without a limit it is finished"))
    }

    /// The same; nothing where a launch takes the evaluator more statements than it may.
    pub fn expected_within(&self, number: usize, seed: u64, statements: Option<u64>) -> Result<Option<Expected>, Mismatch> {
        let call = self.call(number, seed)?;
        if self.is_at_perf_size(number) {
            return Ok(Some((call, None)));
        }
        let options = EvalOptions { fuel: statements, ..EvalOptions::default() };
        let after = match evaluated(self.subject, &call, &[], &options) {
            Ok(after) => after,
            Err(ProgramEvalError::Kernel { error, .. }) if matches!(*error, EvalError::Fuel { .. }) => return Ok(None),
            Err(e) => return Err(format!("eval: {e}{}", self.chosen_inputs(&call)).into()),
        };
        self.subject.judged_elements(&call, &after, None, true).map_err(|e| match e {
            Mismatch::Other(e) => Mismatch::Other(format!("{EVAL_FROM_REFERENCE}: {e}")),
            elements => elements,
        })?;
        Ok(Some((call, Some(after))))
    }

    /// What to think of before a kernel is called wrong for inputs that nobody described.
    fn chosen_inputs(&self, call: &Call) -> &'static str {
        let integers = |arg: &CallArg| matches!(arg, CallArg::Tensor { dtype, .. } if !dtype.is_float());
        if self.subject.challenge.is_some() || !call.args.iter().any(integers) {
            return "";
        }
        "\n      help: a kernel without a challenge gets random integers (0 to 1000, any byte); where they are indices, bounds or labels, \
         check it in a challenge, whose `.input(..)` says what they are"
    }

    fn try_size(&self, number: usize, device: &Device, seed: u64, report: &mut Report) -> Result<(), Mismatch> {
        let expected = self.expected(number, seed)?;
        let ways = &self.schedules[..];
        // At the perf size the naive way, the first, may take minutes; the next ones are the default and the winner.
        let ways = if self.is_at_perf_size(number) && ways.len() > 1 { &ways[1..ways.len().min(3)] } else { ways };
        self.try_ways(number, seed, device, ways, &expected, report)
    }

    pub fn try_ways(
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
                Err(e @ Error::GivenUp { .. }) => report.fail(Failure::at_any_size(this(), e)),
                Err(e) => report.fail(Failure::of_run(this(), e)),
                Ok(after) => {
                    report.runs += 1;
                    match self.compare(call, &placed, &after, expected.as_deref()) {
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
        expected: Option<&[Option<HostTensor>]>,
    ) -> Result<Deviation, (&'static str, Mismatch)> {
        let samples = expected.is_none().then_some(SAMPLED);
        let deviation = self.subject.judged_elements(call, after, samples, true).map_err(|e| (FROM_REFERENCE, e))?;
        if let Some(expected) = expected {
            self.subject.compared_elements(call, after, expected).map_err(|e| (FROM_EVAL, e))?;
        }
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
        expected: &Option<Vec<Option<HostTensor>>>,
        run: &Run,
        (whose, mismatch): (&str, Mismatch),
    ) -> Vec<Failure> {
        let dependence = expected.as_ref().and_then(|expected| dependence(self.subject, call, schedules, expected));
        let Some(dependence) = dependence else {
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
        Some(if program_schedule::is_joint(&self.subject.source) { Joint::of(self.subject, &texts).to_string() } else { texts.concat() })
    }
}
