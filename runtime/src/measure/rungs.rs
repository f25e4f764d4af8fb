//! The ladder of a subject: its named schedules one after another, measured on a GPU or predicted without one.

use crate::check::run;
use crate::device::Device;
use crate::launch::program::Runner;
use crate::launch::program_schedule::Joint;
use crate::measure::floor::{Floor, floor};
use crate::measure::timing::{L2, Timer};
use crate::store::Store;
use crate::subject::challenge::Sizes;
use crate::subject::guarded_args::Placed;
use crate::subject::schedules;
use crate::subject::{Call, Subject};
use crate::tune::By;
use crate::tune::floor::{Basis, Predicted, floor_us};
use crate::tune::launches::{Launch, launches, promised};
use crate::tune::predict::Prediction;
use crate::tune::search::median;
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::schedule::ladder::{Ladder, Step};
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// A named schedule for every launch site, and how long a call takes under them.
#[derive(Clone, PartialEq, Debug)]
pub struct Timed {
    /// `naive`, `shared`, ..
    pub name: &'static str,
    /// A text for each launch site.
    pub schedules: Vec<String>,
    /// Microseconds, or why there are none.
    pub us: Result<f64, String>,
    /// How a predicted time came to be, and whether it had to be raised to the floor; nothing of a measured one.
    pub predicted: Option<Predicted>,
}

/// All rungs of a subject at one size.
#[derive(Clone, PartialEq, Debug)]
pub struct Climb {
    /// The sizes.
    pub sizes: String,
    /// From the bottom.
    pub rungs: Vec<Timed>,
    /// Floating-point operations of the call; 0 where the challenge does not say.
    pub flops: f64,
    /// The least time that memory and arithmetic allow.
    pub floor: Floor,
}

/// Elements of each output that are compared with the reference.
const SAMPLED: usize = 20_000;

/// Times the rungs of a subject, the lowest first. Where no kernel multiplies tiles they are the naive, the default and the best schedule;
/// else the ladder's, during which launch sites that multiply nothing keep their best schedule, and the best one known at the end. Of a
/// program's variants they are the author's first sides, whichever is faster.
///
/// # Errors
/// Sizes that do not fit, or a kernel that has no legal schedule.
pub fn climb(subject: &Subject, sizes: &Sizes, by: &By, store: Option<&Store>, rounds: usize) -> Result<Climb, String> {
    let known = Known::first_sides(subject, sizes, by, store)?;
    let Known { subject, call, launches, kernels, best } = &known;
    let named = named(kernels, best, by, &|site, kernel| known.facts(site, kernel))?;
    let ways: Vec<Vec<Schedule>> = named.iter().map(|(_, s)| s.clone()).collect();
    let times: Vec<Result<(f64, Option<Predicted>), String>> = match by {
        By::Measurement(workers) => {
            measured(subject, call, &workers.gpu.open()?, &ways, rounds)?.into_iter().map(|us| us.map(|us| (us, None))).collect()
        }
        By::Prediction(_) => {
            let of = |w: &Vec<Schedule>| predicted(subject, sizes, by, kernels, launches, w).map(|p| (p.us, Some(p)));
            ways.iter().map(of).collect()
        }
    };
    let mut rungs = Vec::new();
    for ((name, schedules), time) in named.iter().zip(times) {
        let predicted = time.as_ref().ok().and_then(|t| t.1);
        rungs.push(Timed { name, schedules: known.text(schedules), us: time.map(|t| t.0), predicted });
    }
    let flops = subject.challenge.as_ref().map_or(0.0, |c| (c.flops)(&call.sizes));
    let floor = floor(subject, &call.sizes, subject.compulsory_bytes(call), by.target());
    Ok(Climb { sizes: call.sizes.to_string(), rungs, flops, floor })
}

/// What the model says of a subject under the best schedules known, without a GPU: a time, and a schedule for each launch site.
///
/// # Errors
/// As [`climb`]; or what keeps the model from a time.
pub fn predict(
    subject: &Subject,
    sizes: &Sizes,
    target: &'static Target,
    store: Option<&Store>,
) -> Result<(Predicted, Vec<String>), String> {
    let by = By::Prediction(target);
    let known = Known::best(subject, sizes, &by, store)?;
    let predicted = predicted(&known.subject, sizes, &by, &known.kernels, &known.launches, &known.best)?;
    Ok((predicted, known.text(&known.best)))
}

/// A call of a subject under the best schedules known.
struct Known {
    /// With its variants chosen.
    subject: Subject,
    call: Call,
    launches: Vec<Launch>,
    /// By launch site.
    kernels: Vec<Kernel>,
    best: Vec<Schedule>,
}

impl Known {
    /// With the best variants known.
    fn best(subject: &Subject, sizes: &Sizes, by: &By, store: Option<&Store>) -> Result<Known, String> {
        let call = subject.call(sizes, 1)?;
        let name = by.device_name();
        let store = store.map(|s| (s, name.as_str()));
        let best = schedules::best(subject, Some(&call.lengths()), by.target(), store);
        let (joint, subject) = best.map_or((None, subject.clone()), |(j, s)| (Some(j), s));
        Known::of(subject, joint, call, by, store)
    }

    /// With the author's first sides.
    fn first_sides(subject: &Subject, sizes: &Sizes, by: &By, store: Option<&Store>) -> Result<Known, String> {
        let call = subject.call(sizes, 1)?;
        let name = by.device_name();
        let subject = subject.with_variants(&subject.source.default_variants());
        let joint = schedules::best(&subject, Some(&call.lengths()), by.target(), store.map(|s| (s, name.as_str())));
        let joint = joint.filter(|(_, best)| best.variants == subject.variants).map(|(j, _)| j);
        Known::of(subject, joint, call, by, store.map(|s| (s, name.as_str())))
    }

    fn of(subject: Subject, joint: Option<Joint>, call: Call, by: &By, store: Option<(&Store, &str)>) -> Result<Known, String> {
        let launches = launches(&subject.program, &call, 0)?;
        let best = schedules::schedules(&subject, joint.as_ref(), by.target(), store, &launches)?;
        let (kernels, best) = best.into_iter().map(|(s, k, _)| (k, s)).unzip();
        Ok(Known { subject, call, launches, kernels, best })
    }

    fn facts(&self, site: usize, kernel: &Kernel) -> Facts {
        promised(&self.launches, site, kernel).0
    }

    fn text(&self, schedules: &[Schedule]) -> Vec<String> {
        let sites = self.subject.program.site_names();
        let one = |((s, k), site): ((&Schedule, &Kernel), &String)| {
            let text = s.short(k);
            if sites.len() > 1 { format!("{site}: {text}") } else { text }
        };
        schedules.iter().zip(&self.kernels).zip(&sites).map(one).collect()
    }
}

/// The rungs' names and schedules of all launch sites. One that equals the rung before is left out.
fn named(
    kernels: &[Kernel],
    best: &[Schedule],
    by: &By,
    facts: &dyn Fn(usize, &Kernel) -> Facts,
) -> Result<Vec<(&'static str, Vec<Schedule>)>, String> {
    let facts: Vec<Facts> = kernels.iter().enumerate().map(|(site, k)| facts(site, k)).collect();
    let spaces: Vec<Space> = kernels.iter().zip(&facts).map(|(k, f)| Space::new(k, f, by.target())).collect();
    let ladders: Vec<Option<Ladder>> = spaces.iter().map(Ladder::new).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let mut found: Vec<(&'static str, Vec<Schedule>)> = Vec::new();
    if ladders.iter().all(Option::is_none) {
        let naive = spaces.iter().map(Space::naive).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        found.push(("naive", naive));
        let default: Vec<Schedule> = kernels.iter().map(Schedule::default_of).collect();
        if default.iter().zip(&spaces).all(|(s, space)| space.check(s).is_ok()) {
            found.push(("default", default));
        }
    }
    for step in Step::ALL.iter().filter(|s| ladders.iter().flatten().any(|l| l.rung(**s).is_ok())) {
        let site = |(ladder, best): (&Option<Ladder>, &Schedule)| ladder.as_ref().map_or(best, |l| l.up_to(*step)).clone();
        found.push((step.name(), ladders.iter().zip(best).map(site).collect()));
    }
    found.push(("best", best.to_vec()));
    let canonical = |s: &[Schedule]| -> Vec<Schedule> { s.iter().zip(&spaces).map(|(s, space)| space.canonical(s)).collect() };
    found.dedup_by(|b, a| canonical(&a.1) == canonical(&b.1));
    Ok(found)
}

/// Medians on a GPU with a cold L2. A rung whose result is wrong, or that fails, says so in its place.
fn measured(
    subject: &Subject,
    call: &Call,
    device: &Device,
    ways: &[Vec<Schedule>],
    rounds: usize,
) -> Result<Vec<Result<f64, String>>, String> {
    let text = |e: crate::Error| e.to_string();
    let placed = Placed::new(device, call, 0).map_err(text)?;
    let arguments = placed.arguments();
    let timer = Timer::new(device, L2::Cold).map_err(text)?;
    let time = |way: &Vec<Schedule>| {
        let mut runner = Runner::new(device, subject.program.clone());
        runner.schedules = way.iter().cloned().map(Some).collect();
        placed.restore().map_err(text)?;
        let after = run(&mut runner, &placed, &arguments).map_err(|e| e.to_string())?;
        subject.verify(call, &after, Some(SAMPLED))?;
        let mut samples = Vec::new();
        // The first three warm up clocks and caches and are not counted.
        for round in 0..rounds.max(1) + 3 {
            let sample = timer.sample(&placed, &mut || runner.run(&arguments)).map_err(text)?.clean()?;
            if round >= 3 {
                samples.push(sample);
            }
        }
        median(&samples).ok_or_else(|| "no samples".to_string())
    };
    Ok(ways.iter().map(time).collect())
}

/// What the model says of all launches of a call, the least trustworthy of them saying how far to trust it.
fn predicted(
    subject: &Subject,
    sizes: &Sizes,
    by: &By,
    kernels: &[Kernel],
    launches: &[Launch],
    way: &[Schedule],
) -> Result<Predicted, String> {
    let (mut sum, mut least) = (0.0, Basis::Counted);
    for launch in launches {
        let (kernel, schedule) = (&kernels[launch.site], &way[launch.site]);
        let prediction = Prediction::new(subject, sizes, (kernel, launch), by.target(), way.to_vec());
        let (us, basis) = prediction.site_us(schedule)?;
        sum += us;
        least = least.max(basis);
    }
    Ok(Predicted::at_least(sum, least, floor_us(subject, sizes, by.target())?))
}
