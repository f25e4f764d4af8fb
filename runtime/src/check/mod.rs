//! `check`: eval = device = plain-Rust reference, over odd sizes, misaligned pointers and sampled schedules.
//!
//! Outputs are poisoned before every run, memory around every tensor is guarded on a GPU (the simulator traps by itself), and inputs must
//! come out unchanged. At perf sizes, where the evaluator would take hours, samples of the references are what is compared with. A schedule that is illegal for the facts at hand is counted with its reason and is no failure.

mod ahead;
mod evaluated;
mod limited;
mod plan;
mod progress;
mod report;
mod schedules;
mod tile_dependence;

pub use evaluated::{evaluate, run};
pub use limited::Checks;
pub use progress::Progress;
pub use report::{Failure, Report, Run};

use crate::device::Device;
use crate::launch::schedule_lookup::predicted_device;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use ahead::Ahead;
use girih_core::bug::first_line;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use plan::Plan;
use progress::Reports;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// Also at the challenge's perf size, beside samples of the references alone: for machines that have the time and the memory, GPUs.
    pub at_perf_size: bool,
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

/// Checks subjects, and each choice of a program's variants as a subject of its own; reports in their order.
pub fn check(subjects: &[Subject], options: &Options, progress: &dyn Progress) -> Vec<Report> {
    let whole = |s: &Subject| Part { subject: s.clone(), sizes: None, misaligned: false, at_perf_size: false, way: None };
    check_parts(&subjects.iter().map(whole).collect::<Vec<_>>(), options, progress)
}

/// As [`check`], of parts of subjects.
pub fn check_parts(parts: &[Part], options: &Options, progress: &dyn Progress) -> Vec<Report> {
    let ways = |part: &Part| match part.way {
        Some(_) => vec![part.clone()],
        None => part.subject.ways().into_iter().map(|subject| Part { subject, ..part.clone() }).collect(),
    };
    let parts: Vec<Part> = parts.iter().flat_map(ways).collect();
    let plans: Vec<Plan> = parts.iter().map(|part| Plan::of_part(part, options)).collect();
    let tasks: Vec<(usize, usize)> = plans.iter().enumerate().flat_map(|(i, p)| (0..p.calls()).map(move |c| (i, c))).collect();
    let reports = Reports::new(plans.iter().map(|p| (p.report(), p.calls())), progress);
    let needs_cubin = matches!(&options.on, On::Device(device) if device.needs_cubin());
    let ahead = needs_cubin.then(|| Ahead::new(&plans, options.seed));
    let next = AtomicUsize::new(0);
    let work = || {
        let device = options.on.device();
        while let Some((plan, call)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            ahead.iter().for_each(|ahead| ahead.wait(plan, progress));
            // A panic is a bug of girih, or of a challenge's reference: it is reported, and the rest is checked all the same.
            let checked = caught(|| Ok(plans[plan].check_size(call, &device, options.seed)));
            let part = checked.unwrap_or_else(|e| Report::failed(Failure::of_run(plans[plan].run(call, options.seed), e)));
            reports.add(plan, part);
        }
    };
    let cores = crate::cores::cores();
    let workers = match &options.on {
        On::Simulator(_) => cores,
        On::Device(_) => 1,
    };
    std::thread::scope(|scope| {
        if let Some(ahead) = &ahead {
            (0..cores).for_each(|_| drop(scope.spawn(|| ahead.work(options.on.target()))));
        }
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    reports.into_all()
}

/// Checks a subject with given schedules (one per launch site, for each way to run it), at its check sizes, on this thread.
pub fn check_ways(subject: &Subject, ways: Vec<Vec<Schedule>>, options: &Options) -> Report {
    let plan = Plan::new(subject, Ok(ways), options);
    let (mut report, device) = (plan.report(), options.on.device());
    (0..plan.calls()).for_each(|c| report.merge(plan.check_size(c, &device, options.seed)));
    report
}

/// The outcome of `work`, or what it panicked with; the whole message stands on stderr, too.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(format!("panicked: {}", first_line(&*panic))))
}

impl On {
    /// The GPU whose limits hold.
    pub fn target(&self) -> &Target {
        match self {
            On::Simulator(target) => target,
            On::Device(device) => device.target(),
        }
    }

    /// Under what the store keeps what is known for it: of the simulator what was predicted for its target.
    fn name_in_store(&self) -> String {
        match self {
            On::Simulator(target) => predicted_device(target),
            On::Device(device) => device.name(),
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
