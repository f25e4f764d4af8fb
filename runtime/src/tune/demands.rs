//! What a trial launches: the tuned call and small ones, and what of them is compiled before the first of all trials, beside everything else that
//! it needs.

use super::launches::possible;
use crate::compile::{Output, compile};
use crate::cores;
use crate::subject::{Call, Subject};
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

/// What launches of trials promise, by launch site, without repetitions.
#[derive(Clone, Default, Debug)]
pub(super) struct Demands {
    /// Of the tuned call.
    pub tuned: Vec<(usize, Facts)>,
    /// Of the small ones, where it is something else.
    pub small: Vec<(usize, Facts)>,
}

impl Demands {
    /// Of a call at the tuned size, and of small ones with the elements that they lie off alignment.
    pub fn of(subject: &Subject, tuned: &Call, small: &[(Call, usize)]) -> Demands {
        let mut demands = Demands::default();
        for launch in possible(&subject.program, tuned, 0).unwrap_or_default() {
            let new = (launch.site, launch.facts);
            if !demands.tuned.contains(&new) {
                demands.tuned.push(new);
            }
        }
        for (call, misalign) in small {
            for launch in possible(&subject.program, call, *misalign).unwrap_or_default() {
                let new = (launch.site, launch.facts);
                if !demands.tuned.contains(&new) && !demands.small.contains(&new) {
                    demands.small.push(new);
                }
            }
        }
        demands
    }

    /// What small calls promise of one launch site.
    pub fn small_of(&self, site: usize) -> Vec<Facts> {
        self.small.iter().filter(|(at, _)| *at == site).map(|(_, facts)| facts.clone()).collect()
    }

    /// All of them, those of the tuned call first.
    pub fn all(&self) -> impl Iterator<Item = &(usize, Facts)> {
        self.tuned.iter().chain(&self.small)
    }
}

/// What compiles a kernel into the disk cache. Failures are the trials' to report.
pub(super) type Compile = fn(&Kernel, &Facts, &Schedule, &Target);

/// The usual one.
pub(super) const CUBIN: Compile = |kernel, facts, schedule, target| drop(compile(kernel, facts, schedule, target, Output::Cubin));

/// Kernels that are being compiled into the disk cache under one schedule each: how many are left of each launch site.
pub(super) struct Compiling(Arc<[AtomicUsize]>);

impl Compiling {
    /// Begins with them on threads of a scope, by launch site.
    pub fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        threads: usize,
        (kernels, schedules): (&'scope [Kernel], &[Option<Schedule>]),
        demands: &Demands,
        (target, compile): (&'scope Target, Compile),
    ) -> Compiling {
        let job = |(site, facts): &(usize, Facts)| Some((*site, facts.clone(), schedules[*site].clone()?));
        let jobs: Vec<_> = demands.all().filter_map(job).collect();
        let left: Arc<[AtomicUsize]> =
            (0..kernels.len()).map(|at| AtomicUsize::new(jobs.iter().filter(|(site, ..)| *site == at).count())).collect();
        let down = left.clone();
        cores::begin(scope, threads, jobs, move |(site, facts, schedule): (usize, Facts, Schedule)| {
            compile(&kernels[site], &facts, &schedule, target);
            down[site].fetch_sub(1, Ordering::Relaxed);
        });
        Compiling(left)
    }

    /// Whether all were compiled, for better or worse.
    pub fn is_done(&self) -> bool {
        self.0.iter().all(|left| left.load(Ordering::Relaxed) == 0)
    }

    /// Whether those of all other launch sites were.
    pub fn is_done_beside(&self, site: usize) -> bool {
        self.0.iter().enumerate().all(|(at, left)| at == site || left.load(Ordering::Relaxed) == 0)
    }
}

/// Up to three calls that are likely to find a mistake at little cost: the largest check sizes, one of them one element off
/// alignment, and the smallest that is not empty.
pub(super) fn small_calls(subject: &Subject, seed: u64) -> Result<Vec<(Call, usize)>, String> {
    let calls: Vec<Call> = subject.check_sizes(seed).iter().map(|s| subject.call(s, seed)).collect::<Result<_, _>>()?;
    let mut calls: Vec<Call> = calls.into_iter().filter(|c| subject.compulsory_bytes(c).total() > 0.0).collect();
    calls.sort_by_key(|c| subject.compulsory_bytes(c).total() as u64);
    let mut chosen = Vec::new();
    if let Some(largest) = calls.pop() {
        chosen.push((largest.clone(), 1));
        chosen.push((calls.pop().unwrap_or(largest), 0));
    }
    chosen.extend(calls.into_iter().next().map(|smallest| (smallest, 0)));
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::challenge::Sizes;
    use girih::prelude::*;
    use girih_core::tile::by_hand::four_knobs;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[kernel(tile(T = 128))]
    pub fn halved(x: &mut Tensor<f32, 1>, far: &mut Tensor<i32, 1>) {
        for t in x.tiles([T]) {
            x.store(t, x.load(t) * 0.5);
        }
        far.store_at(0, 0);
    }

    #[program]
    pub fn halves(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        let mut far = temp_filled([1], 1i32);
        y.copy_from(x);
        while far.at(0) == 1 {
            halved(y, &mut far);
        }
    }

    /// Zeros, which stand for what is not known, end the loop before its first turn.
    #[test]
    fn what_is_launched_where_there_is_more_to_do_is_a_demand() {
        let subject = crate::tune::by_shell::copying(halves::Program::def);
        let call = subject.call(&Sizes::parse("N=1000").expect("a size"), 1).unwrap_or_else(|e| panic!("{e}"));
        let small = small_calls(&subject, 1).unwrap_or_else(|e| panic!("{e}"));
        let demands = Demands::of(&subject, &call, &small);
        assert_eq!(demands.tuned.iter().map(|(site, _)| *site).collect::<Vec<_>>(), [0]);
        assert!(crate::tune::launches::launches(&subject.program, &call, 0).is_ok_and(|found| found.is_empty()));
    }

    static OPEN: AtomicBool = AtomicBool::new(false);

    #[test]
    fn launch_sites_are_compiled_beside_each_other() {
        let wait_if_slow: Compile = |kernel, _, _, _| {
            while kernel.name == "slow" && !OPEN.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let kernels = [four_knobs(), Kernel { name: "slow".into(), ..four_knobs() }];
        let schedules = [0, 1].map(|_| Some(Schedule { choices: Vec::new() }));
        let demands = Demands { tuned: [0, 1].map(|site| (site, Facts::none(&kernels[site]))).to_vec(), small: Vec::new() };
        let until = |done: &dyn Fn() -> bool| {
            let end = Instant::now() + Duration::from_secs(20);
            while !done() && Instant::now() < end {
                std::thread::yield_now();
            }
            done()
        };
        std::thread::scope(|scope| {
            let compiling = Compiling::begin(scope, 2, (&kernels, &schedules), &demands, (Target::h200(), wait_if_slow));
            let slow_alone = until(&|| compiling.is_done_beside(1));
            let left = (compiling.is_done_beside(0), compiling.is_done());
            OPEN.store(true, Ordering::Relaxed);
            assert!(slow_alone && left == (false, false), "{left:?}");
            assert!(until(&|| compiling.is_done()));
        });
    }
}
