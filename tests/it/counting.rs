//! What is counted from a few blocks beside what the simulator does in all of them.

use super::rungs::gallery;
use girih::challenge::{Sizes, challenges};
use girih::device::Device;
use girih::device::sim::LaunchReport;
use girih::launch::program::Runner;
use girih::measure::bench::scaled_sizes;
use girih::subject::Subject;
use girih::subject::guarded_args::Placed;
use girih::subject::schedules;
use girih::tune::contents::Inputs;
use girih::tune::counted::{self, Counted, counted};
use girih::tune::launches::{Launch, launches};
use girih_core::cuda::function_name;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::sim::{Class, Program, counting::Slice};
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// Bytes of the largest tensor: some hundred blocks.
const BYTES: f64 = 192.0 * 1024.0;
/// Warp-level operations of a whole call, at most.
const FUEL: u64 = 4_000_000;
/// Challenges of which one is looked at.
const EVERY: usize = 3;
/// Kernels whose numbers are not those of their neighbours: `times_chirp` reads places that jump from block to block without an order, `embed`
/// rows that data choose, of which several blocks choose the same.
const UNEVEN: [&str; 2] = ["times_chirp", "embed"];

/// A call whose every launch was simulated.
struct Simulated {
    subject: Subject,
    sizes: Sizes,
    launches: Vec<Launch>,
    sites: Vec<(Schedule, Kernel)>,
    reports: Vec<LaunchReport>,
}

/// Under the schedules that are known, or the naive ones; nothing where it is too much, or fails at a reduced size.
fn simulated(subject: &Subject, naive: bool) -> Option<Simulated> {
    let perf = subject.perf_sizes(&Sizes::default()).ok()?;
    let sizes = if subject.largest_bytes(&perf).ok()? <= BYTES { perf } else { scaled_sizes(subject, &perf, BYTES).ok()? };
    let call = subject.call(&sizes, 1).ok()?;
    let launches = launches(&subject.program, &call, 0).ok()?;
    let known = schedules::schedules(subject, None, Target::h200(), None, &launches).ok()?;
    let mut sites: Vec<(Schedule, Kernel)> = known.into_iter().map(|(s, k, _)| (s, k)).collect();
    for launch in launches.iter().filter(|_| naive) {
        let (schedule, kernel) = &mut sites[launch.site];
        *schedule = Space::new(kernel, &launch.facts, Target::h200()).naive().ok()?;
    }
    let device = Device::sim_within(Target::h200(), FUEL, true);
    let placed = Placed::new(&device, &call, 0).ok()?;
    let mut runner = Runner::new(&device, subject.program.clone());
    runner.schedules = sites.iter().map(|(s, _)| Some(s.clone())).collect();
    let Device::Sim(sim) = &device else { return None };
    sim.record();
    runner.run(&placed.arguments()).ok()?;
    let reports = sim.recorded();
    Some(Simulated { subject: subject.clone(), sizes, launches, sites, reports })
}

/// How far a count is from what was done, of the numbers that the model reads, the farthest first.
fn distances(own: &Counted, done: &LaunchReport) -> Vec<(f64, &'static str, f64, f64)> {
    let c = &done.report.counters;
    let instructions = (c.instructions() - c.warps(Class::Move)) as f64;
    let shared = (c.shared_load.wavefronts + c.shared_store.wavefronts + c.shared_atomic.wavefronts) as f64;
    let loads = (c.global_load.sectors + c.global_async.sectors) as f64;
    let stores = (c.global_store.sectors + c.global_atomic.sectors) as f64;
    let [read, written] = own.count.unique_bytes();
    let matrix = (c.matrix.half + c.matrix.tf32 + c.matrix.int8) as f64;
    let all = [
        ("instructions", own.work.instructions, instructions),
        ("load sectors", own.work.load_sectors, loads),
        ("store sectors", own.work.store_sectors, stores),
        ("shared wavefronts", own.work.shared_wavefronts, shared),
        ("matrix", own.count.matrix().iter().sum(), matrix),
        ("unique bytes", read + written, (c.unique_read_bytes + c.unique_written_bytes) as f64),
    ];
    // A block's worth does not matter: a handful of sectors in a launch of thousands of instructions.
    let slack = 1e-3 * instructions;
    let mut found = all.map(|(what, a, b)| (((a - b).abs() - slack).max(0.0) / b.max(1.0), what, a, b)).to_vec();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found
}

/// Whether what decides where threads go is there, at the true size or at any.
fn depends_on_data(simt: &simt::Kernel) -> bool {
    simt.launches().any(|l| !Slice::of(&Program::decode(l)).contents().is_empty())
}

#[test]
fn counts_are_what_the_simulator_does() {
    // Links the gallery in.
    assert!(!gallery().is_empty());
    let (mut compared, mut wrong) = (0, Vec::new());
    let begun = std::time::Instant::now();
    let chosen = std::env::var("GIRIH_TEST_CHALLENGE").ok();
    let every = chosen.as_ref().map_or(EVERY, |_| 1);
    for challenge in challenges().iter().filter(|c| chosen.as_ref().is_none_or(|n| n == "all" || n == c.slug)).step_by(every) {
        let Ok(subject) = Subject::of_challenge(challenge) else { continue };
        for naive in [false, true] {
            let Some(s) = simulated(&subject, naive) else { continue };
            for launch in &s.launches {
                let (schedule, kernel) = &s.sites[launch.site];
                let simt = lower(kernel, &launch.facts, schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
                let inputs = Inputs::of(&s.subject, &s.sizes, launch, &s.launches);
                // What the launches before have left is not there.
                if UNEVEN.contains(&kernel.name.as_str()) {
                    continue;
                }
                let Ok(own) = counted(&simt, &launch.args, &inputs, Target::h200(), counted::FUEL) else { continue };
                let name = function_name(&simt);
                let within = if depends_on_data(&simt) { 0.15 } else { 0.02 };
                // A kernel may be launched several times: it is one of these launches.
                let same =
                    (0..s.reports.len()).filter(|r| s.reports[*r].function == name && u64::from(s.reports[*r].grid) == own[0].launch.grid);
                let nearest =
                    same.min_by(|a, b| distances(&own[0], &s.reports[*a])[0].0.total_cmp(&distances(&own[0], &s.reports[*b])[0].0));
                let Some(first) = nearest else { continue };
                for (own, done) in own.iter().zip(&s.reports[first..]) {
                    compared += 1;
                    let far = distances(own, done);
                    if far[0].0 > within {
                        let what = format!("{} {name} at {}, {}", challenge.slug, s.sizes, schedule.short(kernel));
                        wrong.push(format!("{what}: grid {}, {} blocks run: {:?}", done.grid, own.count.blocks, &far[..3]));
                    }
                }
            }
        }
    }
    println!("{compared} launches in {:?}", begun.elapsed());
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(chosen.is_some() || compared >= 12, "{compared} launches were compared");
}
