//! What the set-ups of a program's choices of variants run first: their naive schedules, compiled while the model is asked which choice is worth
//! most.

use super::SEED;
use super::demands::{Compile, Demands, small_calls};
use crate::cores;
use crate::subject::{Call, Subject};
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

/// What is compiled for choices of variants on threads of a scope, until it is dropped: what is at NVRTC then goes on, and nothing else begins.
pub(super) struct NaiveAhead(Arc<AtomicBool>);

/// One launch of a kernel.
#[derive(PartialEq)]
struct Job {
    kernel: u64,
    facts: Facts,
    schedule: Schedule,
}

impl NaiveAhead {
    /// Begins with the launches of a call, those of the small calls of a check behind them.
    pub fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        ways: Vec<Subject>,
        call: &'scope Call,
        (target, compile): (&'scope Target, Compile),
    ) -> NaiveAhead {
        let wanted = Arc::new(AtomicBool::new(true));
        let asked = wanted.clone();
        scope.spawn(move || {
            let jobs = jobs(&ways, call, target);
            let threads = cores::cores().saturating_sub(1).max(1);
            cores::begin(scope, threads, jobs, move |(kernel, Job { facts, schedule, .. }): (Arc<Kernel>, Job)| {
                if asked.load(Ordering::Relaxed) {
                    compile(&kernel, &facts, &schedule, target);
                }
            });
        });
        NaiveAhead(wanted)
    }
}

impl Drop for NaiveAhead {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The naive schedule of each launch site, whatever a launch promises.
///
/// # Errors
/// A kernel without one.
pub(super) fn naive(kernels: &[Kernel], target: &Target) -> Result<Vec<Option<Schedule>>, String> {
    let of = |kernel: &Kernel| Space::new(kernel, &Facts::none(kernel), target).naive().map(Some).map_err(|e| e.to_string());
    kernels.iter().map(of).collect()
}

/// What the choices launch, each once. A choice that cannot be set up says so when it is.
fn jobs(ways: &[Subject], call: &Call, target: &Target) -> Vec<(Arc<Kernel>, Job)> {
    let (mut tuned, mut small) = (Vec::new(), Vec::new());
    let small_calls = ways.first().and_then(|way| small_calls(way, SEED).ok()).unwrap_or_default();
    for way in ways {
        let kernels: Vec<Kernel> = way.program.sites().iter().filter_map(|site| (site.build)().ok()).collect();
        let Ok(schedules) = naive(&kernels, target) else { continue };
        if kernels.len() < way.program.sites().len() {
            continue;
        }
        let demands = Demands::of(way, call, &small_calls);
        let kernels: Vec<Arc<Kernel>> = kernels.into_iter().map(Arc::new).collect();
        for (list, launches) in [(&mut tuned, demands.tuned), (&mut small, demands.small)] {
            for (site, facts) in launches {
                let Some(schedule) = schedules[site].clone() else { continue };
                let job = Job { kernel: kernels[site].identity(), facts, schedule };
                if list.iter().all(|(_, known)| *known != job) {
                    list.push((kernels[site].clone(), job));
                }
            }
        }
    }
    tuned.into_iter().chain(small).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::challenge::Sizes;
    use crate::tune::by_shell::copying;
    use girih::prelude::*;
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    #[kernel(tile(T = [128, 256]))]
    pub fn carried(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([T]) {
            y.store(t, x.load(t));
        }
    }

    #[kernel(tile(T = [128, 256]))]
    pub fn negated_twice(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([T]) {
            y.store(t, -(-x.load(t)));
        }
    }

    #[program]
    pub fn either(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        if variant("plainly") {
            carried(x, y);
        } else {
            negated_twice(x, y);
        }
    }

    static COMPILED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn every_choice_has_its_naive_schedules_compiled() {
        let subject = copying(either::Program::def);
        let call = subject.call(&Sizes::parse("N=1000").expect("a size"), SEED).unwrap_or_else(|e| panic!("{e}"));
        let ways = subject.ways_for(&call.arguments());
        assert_eq!(ways.len(), 2);
        let note: Compile = |kernel, _, _, _| COMPILED.lock().unwrap().push(kernel.name.clone());
        std::thread::scope(|scope| {
            let ahead = NaiveAhead::begin(scope, ways, &call, (Target::h200(), note));
            let end = Instant::now() + Duration::from_secs(20);
            while COMPILED.lock().unwrap().len() < 2 && Instant::now() < end {
                std::thread::yield_now();
            }
            drop(ahead);
        });
        let compiled = COMPILED.lock().unwrap();
        assert!(["carried", "negated_twice"].iter().all(|name| compiled.iter().any(|c| c == name)), "{compiled:?}");
    }
}
