//! Measures schedules of a program that are drawn by a seed: half of them evenly from all that are legal, the others beside the best so far, and
//! at most twice as slow.

use super::SEED;
use super::client::{WORKER, WorkerMeasure};
use super::launches::{self, Launch};
use super::protocol::{PATIENCE_MS, Setup};
use super::recording::{Recording, Timed};
use super::search::median;
use crate::child::Launcher;
use crate::compile::{Output, compile};
use crate::device::Device;
use crate::measure::timing::L2;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::schedules;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How much to record.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Ways to run the program.
    pub schedules: usize,
    /// Of the draw.
    pub seed: u64,
    /// When to stop with fewer.
    pub end: Option<Instant>,
    /// For one of them.
    pub limit: Duration,
}

/// Samples of each.
const ROUNDS: usize = 5;
/// Those that are compiled together.
const BATCH: usize = 16;
/// The best so many have their neighbours measured; more where these are known.
const PARENTS: usize = 6;
/// These are left out where they take more than so many times the best's time: half of a recording tells the fast ones apart.
const NEAR: f64 = 2.0;
/// As many times those that are asked for may be tried beside the best.
const PATIENCE: usize = 3;
/// Threads that compile, at most: each starts a process.
const COMPILERS: usize = 16;

/// One way to run the program: a schedule for each launch site.
type Way = Vec<Schedule>;

/// Measures a subject's schedules at these sizes, and tells of each as it is known.
///
/// # Errors
/// Anything that keeps the first from being measured.
pub fn record(
    subject: &Subject,
    sizes: &Sizes,
    device: &Device,
    asked: &Asked,
    told: &mut dyn FnMut(&Recording, &Timed) -> Result<(), String>,
) -> Result<usize, String> {
    let target = device.target();
    let lengths = crate::tune::launches::AtPerf::of(subject).program;
    let known = schedules::best(subject, lengths.as_ref(), target, None);
    let subject = known.as_ref().map_or(subject, |(_, way)| way);
    let launches = launches::at(subject, sizes)?;
    let start = schedules::schedules(subject, known.as_ref().map(|(joint, _)| joint), target, None, &launches)?;
    let (first, kernels): (Way, Vec<Kernel>) = start.into_iter().map(|(s, kernel, _)| (s, kernel)).unzip();
    let spaces: Vec<Space> =
        kernels.iter().enumerate().map(|(site, k)| Space::new(k, &launches::promised(&launches, site, k).0, target)).collect();
    let setup = Setup {
        name: subject.name.clone(),
        variants: subject.variants.clone(),
        sizes: sizes.to_string(),
        seed: SEED,
        ordinal: 0,
        patience_ms: PATIENCE_MS,
        l2: L2::Cold,
    };
    let texts = |way: &Way| -> Vec<String> { way.iter().zip(&kernels).map(|(s, k)| s.short(k)).collect() };
    let worker = WorkerMeasure::new(Launcher::this_program(WORKER)?, setup, asked.limit, texts(&first))?;
    let head = Recording {
        name: subject.name.clone(),
        sizes: sizes.to_string(),
        device: device.name(),
        arch: target.arch.to_string(),
        timed: Vec::new(),
    };
    let mut measured =
        Measured { subject, sites: Sites { target, kernels: &kernels, launches: &launches }, worker, head, ways: Vec::new() };
    // What is not launched at these sizes keeps its schedule.
    let launched = (0..spaces.len()).map(|site| launches.iter().any(|l| l.site == site)).collect();
    let mut draw = Draw { spaces: &spaces, launched, first: &first, seen: HashSet::new(), at: asked.seed as usize };
    let mut evenly = draw.evenly(asked.seed, (asked.schedules / 2).max(1), asked.end);
    evenly.insert(0, first.clone());
    let over = |count: usize| count >= asked.schedules || asked.end.is_some_and(|end| Instant::now() >= end);
    for batch in evenly.chunks(BATCH) {
        if over(measured.ways.len()) {
            break;
        }
        measured.all(batch, f64::INFINITY, &texts, told)?;
    }
    let (mut parents, mut tried) = (PARENTS, 0);
    while !over(measured.ways.len()) && tried < PATIENCE * asked.schedules {
        let mut near = draw.beside(&measured.best(parents));
        near.truncate(BATCH.min(asked.schedules - measured.ways.len()));
        tried += near.len();
        if !near.is_empty() {
            measured.all(&near, NEAR, &texts, told)?;
        } else if parents < measured.ways.len() {
            // All that is beside the best is known.
            parents *= 2;
        } else {
            break;
        }
    }
    Ok(measured.ways.len())
}

/// What was measured so far, and what measures.
struct Measured<'a> {
    subject: &'a Subject,
    sites: Sites<'a>,
    worker: WorkerMeasure,
    head: Recording,
    ways: Vec<(Way, f64)>,
}

impl Measured<'_> {
    /// Measures these, and keeps those that take at most so many times the best's time.
    fn all(
        &mut self,
        batch: &[Way],
        within: f64,
        texts: &dyn Fn(&Way) -> Vec<String>,
        told: &mut dyn FnMut(&Recording, &Timed) -> Result<(), String>,
    ) -> Result<(), String> {
        let resources = self.sites.compiled(batch);
        for (way, resources) in batch.iter().zip(resources) {
            let (Some(resources), schedules) = (resources, texts(way)) else { continue };
            let Some(us) = self.worker.ways(std::slice::from_ref(&schedules), ROUNDS).first().and_then(|samples| median(samples)) else {
                continue;
            };
            // A recording is what predictions are judged by.
            if self.worker.throttled().is_some() {
                continue;
            }
            if self.ways.iter().any(|(_, best)| us > within * best) {
                continue;
            }
            told(&self.head, &Timed::new(self.subject, &schedules, us, resources))?;
            self.ways.push((way.clone(), us));
        }
        Ok(())
    }

    fn best(&self, count: usize) -> Vec<Way> {
        let mut ways: Vec<&(Way, f64)> = self.ways.iter().collect();
        ways.sort_by(|a, b| a.1.total_cmp(&b.1));
        ways.into_iter().take(count).map(|(way, _)| way.clone()).collect()
    }
}

/// The launch sites, whose schedules are compiled.
struct Sites<'a> {
    target: &'a Target,
    kernels: &'a [Kernel],
    launches: &'a [Launch],
}

impl Sites<'_> {
    /// Registers and spilled bytes of each way's launch sites, compiled on all cores; nothing where one does not compile.
    fn compiled(&self, batch: &[Way]) -> Vec<Option<Vec<(u32, u32)>>> {
        let (next, threads) = (AtomicUsize::new(0), crate::cores::cores().min(COMPILERS));
        let work = || {
            let mut found = Vec::new();
            while let i = next.fetch_add(1, Ordering::Relaxed)
                && i < batch.len()
            {
                found.push((i, self.resources(&batch[i])));
            }
            found
        };
        let mut all = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running.into_iter().flat_map(|t| t.join().expect("no panic while compiling")).collect::<Vec<_>>()
        });
        all.sort_by_key(|(i, _)| *i);
        all.into_iter().map(|(_, found)| found).collect()
    }

    fn resources(&self, way: &Way) -> Option<Vec<(u32, u32)>> {
        let of_site = |(site, (schedule, kernel)): (usize, (&Schedule, &Kernel))| {
            let (facts, _) = launches::promised(self.launches, site, kernel);
            let found = compile(kernel, &facts, schedule, self.target, Output::Cubin).ok()?.resources?;
            Some((found.registers, found.spill_store_bytes + found.spill_load_bytes))
        };
        way.iter().zip(self.kernels).enumerate().map(of_site).collect()
    }
}

/// Draws ways, each once.
struct Draw<'a> {
    spaces: &'a [Space<'a>],
    /// By site: whether its kernel is launched.
    launched: Vec<bool>,
    /// The schedules of those that are not.
    first: &'a Way,
    seen: HashSet<Way>,
    /// Which step is taken next.
    at: usize,
}

impl Draw<'_> {
    /// A candidate of each launch site's space, chosen evenly; those of small spaces come again beside others.
    fn evenly(&mut self, seed: u64, count: usize, end: Option<Instant>) -> Vec<Way> {
        let within = |_: &Schedule| end.is_none_or(|end| Instant::now() < end);
        let of_site = |(site, space): (usize, &Space)| -> Vec<Schedule> {
            if self.launched[site] { space.shuffled(seed).take_while(within).take(count).collect() } else { vec![self.first[site].clone()] }
        };
        let drawn: Vec<Vec<Schedule>> = self.spaces.iter().enumerate().map(of_site).collect();
        if drawn.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        let ways = (0..count).map(|i| drawn.iter().map(|of_site| of_site[i % of_site.len()].clone()).collect::<Way>());
        ways.filter(|way| self.seen.insert(way.clone())).collect()
    }

    /// What is one legal step away from one of these, taken in turn; nothing where all is known.
    fn beside(&mut self, parents: &[Way]) -> Vec<Way> {
        let mut found = Vec::new();
        for parent in parents {
            for (site, space) in self.spaces.iter().enumerate().filter(|(site, _)| self.launched[*site]) {
                let steps = space.steps(&parent[site]);
                let turn = self.at % steps.len().max(1);
                let legal = |s: &&Schedule| space.check(s).is_ok() && space.canonical(s) == **s;
                let mut fresh = 0;
                for step in steps[turn..].iter().chain(&steps[..turn]).filter(legal) {
                    let mut way = parent.clone();
                    way[site] = step.clone();
                    if fresh < BATCH / parents.len().max(1) + 1 && self.seen.insert(way.clone()) {
                        fresh += 1;
                        found.push(way);
                    }
                }
                self.at = self.at.wrapping_mul(31).wrapping_add(7);
            }
        }
        found
    }
}

/// A schedule of each launch site, from a recording's text; `None` where one is not what the kernel has knobs for.
pub fn schedules(subject: &Subject, kernels: &[Kernel], timed: &Timed) -> Option<Way> {
    let names = subject.program.site_names();
    let text = |name: &String| timed.joint.sites.iter().find(|(n, _)| n == name).map(|(_, s)| s.as_str());
    names.iter().zip(kernels).map(|(name, kernel)| parse_schedule(kernel, text(name)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::facts::Facts;
    use girih_core::tile::by_hand::four_knobs;

    #[test]
    fn what_is_not_launched_keeps_its_schedule() {
        let kernel = four_knobs();
        let facts = Facts::best(&kernel);
        let spaces: Vec<Space> = (0..2).map(|_| Space::new(&kernel, &facts, Target::h200())).collect();
        let first: Way = vec![spaces[0].candidates().next().expect("a candidate"); 2];
        let mut draw = Draw { spaces: &spaces, launched: vec![true, false], first: &first, seen: HashSet::new(), at: 1 };
        let drawn = draw.evenly(1, 8, None);
        let near = draw.beside(&drawn[..2]);
        assert!(drawn.len() == 8 && !near.is_empty(), "{} and {}", drawn.len(), near.len());
        let all: Vec<&Way> = drawn.iter().chain(&near).collect();
        assert!(all.iter().all(|way| way[1] == first[1]), "{all:?}");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "each way is drawn once");
    }
}
