//! What is counted from a few blocks beside what the simulator does in all of them.

use super::rungs::gallery;
use girih::challenge::{Sizes, challenges};
use girih::device::Device;
use girih::device::sim::{LaunchReport, SimDevice};
use girih::launch::program::Runner;
use girih::measure::bench::scaled_sizes;
use girih::subject::Subject;
use girih::subject::guarded_args::Placed;
use girih::subject::schedules;
use girih::tune::counted::{self, Counted};
use girih::tune::launches::{Launch, launches};
use girih::tune::predict::Prediction;
use girih_core::cuda::function_name;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::sim::{Class, Options, Program, counting::Slice};
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::BTreeMap;

/// Bytes of the largest tensor: some hundred blocks. Where a call takes more than `FUEL`, a quarter of them, and so on.
const BYTES: [f64; 4] = [192.0 * 1024.0, 48.0 * 1024.0, 12.0 * 1024.0, 3.0 * 1024.0];
/// Part of those bytes in the call that stands for what other launches leave in memory.
const REHEARSED: f64 = 1.0;
/// Warp-level operations of a launch, at most.
const FUEL: u64 = 4_000_000;
/// The same at the smallest size where challenges are asked for by name (`GIRIH_TEST_CHALLENGE=kmeans_clustering`, `=all`).
const PATIENT: u64 = 64_000_000;
/// By how much a number may be off whatever it is: a handful of sectors.
const SLACK: f64 = 8.0;
/// Challenges of which one is looked at.
const EVERY: usize = 4;
/// What is not compared, by the reason: a challenge for its calls, with a kernel for the launches of that, and with `known` or `naive` where it
/// is so under schedules that are known, or under the naive ones, alone.
const LEFT: [&[&str]; 4] = [TOO_LONG, INDIVISIBLE, OVERLAPPING, UNEVEN];
/// They take more than `FUEL` at every size: they are compared only where they are asked for.
const TOO_LONG: &[&str] = &[
    "2d_max_pooling (naive)",
    "3d_convolution",
    "flash_attention_backward_bf16_d128 (naive)",
    "flash_attention_backward_bf16_d128_causal",
    "flash_attention_backward_bf16_d64",
    "flash_attention_backward_bf16_d64_causal (naive)",
    "flash_attention_backward_f16_d128 (naive)",
    "flash_attention_backward_f16_d64",
    "flash_attention_bf16_d128",
    "flash_attention_bf16_d128_causal",
    "flash_attention_bf16_d64",
    "flash_attention_bf16_d64_causal (naive)",
    "flash_attention_f16_d128",
    "flash_attention_f16_d128_causal",
    "flash_attention_f16_d64",
    "flash_attention_f16_d64_causal (naive)",
    "flash_decoding",
    "gpt2_block",
    "group_normalization (known)",
    "grouped_query_attention",
    "grpo_surrogate_loss (known)",
    "kmeans_clustering",
    "llama_transformer_block",
    "multi_head_attention",
    "multi_head_cross_attention",
    "token_embedding_layer (naive)",
    "top_k_selection",
];
/// They ask for what no smaller size has: parts that end inside of their tensors, chunks that cover them.
const INDIVISIBLE: &[&str] = &["2d_subarray_sum", "3d_subarray_sum", "gpt2_block_of_any_width"];
/// Two of its tensors are strips of one matrix, and the square where they meet is counted for each.
const OVERLAPPING: &[&str] = &["all_pairs_shortest_paths join_paths"];
/// Their numbers are not those of their neighbours: `times_chirp` reads places that jump from block to block without an order, `embed` rows
/// that data choose, of which several blocks choose the same, blocks of biased scores rows that others read, too; what is probable enough for
/// `keep_probable`, or large enough for `keep_above`, lies in a few blocks; in a call that is small enough, one in a hundred blocks of
/// `run_maxima` has elements.
const UNEVEN: &[&str] = &[
    "2d_fft times_chirp (known)",
    "attn_w_linear_bias biased_scores (naive)",
    "attn_w_linear_bias weighted_values (naive)",
    "grouped_query_attention attention",
    "multi_head_attention attention (naive)",
    "multi_head_cross_attention attention (naive)",
    "top_k_selection keep_above",
    "top_k_selection run_maxima",
    "token_embedding_layer embed (known)",
    "top_p_sampling keep_probable (naive)",
];

/// A call whose every launch was simulated.
struct Simulated {
    subject: Subject,
    sizes: Sizes,
    launches: Vec<Launch>,
    sites: Vec<(Schedule, Kernel)>,
    reports: Vec<LaunchReport>,
}

/// Under the schedules that are known, or the naive ones: the largest call that is not too long.
fn simulated(subject: &Subject, naive: bool, most: u64) -> Result<Simulated, String> {
    let perf = subject.perf_sizes(&Sizes::default())?;
    let mut why = (Sizes::default(), String::new());
    for bytes in BYTES {
        let sizes = if subject.largest_bytes(&perf)? <= bytes { perf.clone() } else { scaled_sizes(subject, &perf, bytes)? };
        if sizes == why.0 {
            continue;
        }
        match simulated_at(subject, &sizes, naive, FUEL) {
            Ok(found) => return Ok(found),
            Err(e) => why = (sizes, e),
        }
    }
    if most > FUEL {
        return simulated_at(subject, &why.0, naive, most);
    }
    Err(format!("at {}: {}", why.0, why.1))
}

fn simulated_at(subject: &Subject, sizes: &Sizes, naive: bool, most: u64) -> Result<Simulated, String> {
    let sizes = sizes.clone();
    let call = subject.call(&sizes, 1)?;
    let launches = launches(&subject.program, &call, 0)?;
    let known = schedules::schedules(subject, None, Target::h200(), None, &launches)?;
    let mut sites: Vec<(Schedule, Kernel)> = known.into_iter().map(|(s, k, _)| (s, k)).collect();
    for launch in launches.iter().filter(|_| naive) {
        let (schedule, kernel) = &mut sites[launch.site];
        *schedule = Space::new(kernel, &launch.facts, Target::h200()).naive().map_err(|e| e.to_string())?;
    }
    // What blocks leave each other is there, as counting takes it to be.
    let options = Options { fuel: most, count: true, resident: Some(1), ..Options::default() };
    let device = Device::Sim(SimDevice::with_options(Target::h200(), options).into());
    let placed = Placed::new(&device, &call, 0).map_err(|e| e.to_string())?;
    let mut runner = Runner::new(&device, subject.program.clone());
    runner.schedules = sites.iter().map(|(s, _)| Some(s.clone())).collect();
    let Device::Sim(sim) = &device else { return Err("no simulator".into()) };
    sim.record();
    runner.run(&placed.arguments()).map_err(|e| e.to_string())?;
    let reports = sim.recorded();
    Ok(Simulated { subject: subject.clone(), sizes, launches, sites, reports })
}

/// How far a count is from what was done, of the numbers that the model reads, the farthest first.
fn distances(own: &Counted, done: &LaunchReport) -> Vec<(f64, &'static str, f64, f64)> {
    let c = &done.report.counters;
    let instructions = (c.instructions() - c.warps(Class::Move)) as f64;
    let shared = (c.shared_load.wavefronts + c.shared_store.wavefronts + c.shared_atomic.wavefronts) as f64;
    let loads = (c.global_load.sectors + c.global_async.sectors) as f64;
    let stores = (c.global_store.sectors + c.global_atomic.sectors) as f64;
    let [read, written] = own.count.unique_bytes();
    let matrix = (c.matrix.half + c.matrix.tf32 + c.matrix.int8 + c.matrix.float8) as f64;
    let all = [
        ("instructions", own.work.instructions, instructions),
        ("load sectors", own.work.load_sectors, loads),
        ("store sectors", own.work.store_sectors, stores),
        ("shared wavefronts", own.work.shared_wavefronts, shared),
        ("matrix", own.count.matrix().iter().sum(), matrix),
        ("unique bytes", read + written, (c.unique_read_bytes + c.unique_written_bytes) as f64),
    ];
    let mut found = all.map(|(what, a, b)| (((a - b).abs() - SLACK).max(0.0) / b.max(1.0), what, a, b)).to_vec();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found
}

/// Whether what decides where threads go is there, at the true size or at any.
fn depends_on_data(simt: &simt::Kernel) -> bool {
    simt.launches().any(|l| !Slice::of(&Program::decode(l)).contents().is_empty())
}

/// What was found of some launches.
struct Found {
    /// Warp-level operations of a launch at the smallest size, at most.
    most: u64,
    /// How far launches that were compared are, at the most of all their counts.
    distances: Vec<f64>,
    /// Those whose counts are too far from what was done.
    wrong: Vec<String>,
    /// Calls and launches that were not compared, by name and way, with why.
    left: BTreeMap<String, BTreeMap<&'static str, String>>,
}

impl Found {
    /// Compares all launches of a call.
    fn call(&mut self, subject: &Subject, naive: bool) {
        let way = if naive { "naive" } else { "known" };
        let s = match simulated(subject, naive, self.most) {
            Ok(s) => s,
            Err(why) => return self.leave(subject.name.clone(), way, why),
        };
        for launch in &s.launches {
            if let Err(why) = self.launch(&s, launch) {
                self.leave(format!("{} {}", subject.name, s.sites[launch.site].1.name), way, why);
            }
        }
    }

    fn leave(&mut self, name: String, way: &'static str, why: String) {
        self.left.entry(name).or_default().insert(way, why);
    }

    fn launch(&mut self, s: &Simulated, launch: &Launch) -> Result<(), String> {
        let (schedule, kernel) = &s.sites[launch.site];
        let simt = lower(kernel, &launch.facts, schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let schedules = s.sites.iter().map(|(s, _)| s.clone()).collect();
        let prediction = Prediction::new(&s.subject, &s.sizes, (kernel, launch), Target::h200(), schedules);
        // What the launches before have left is not there, but what they leave in a smaller call.
        let prediction = prediction.rehearsing_within(REHEARSED * s.subject.largest_bytes(&s.sizes)?);
        let own = prediction.counted(&simt, counted::FUEL).map_err(|e| e.to_string())?;
        let name = function_name(&simt);
        let within = if depends_on_data(&simt) { 0.15 } else { 0.02 };
        // A kernel may be launched several times: it is one of these launches.
        let grid = own.first().ok_or("no block is launched")?.launch.grid;
        let same = (0..s.reports.len()).filter(|r| s.reports[*r].function == name && u64::from(s.reports[*r].grid) == grid);
        let nearest = same.min_by(|a, b| distances(&own[0], &s.reports[*a])[0].0.total_cmp(&distances(&own[0], &s.reports[*b])[0].0));
        let first = nearest.ok_or("nothing like it was simulated")?;
        for (own, done) in own.iter().zip(&s.reports[first..]) {
            let far = distances(own, done);
            let is_far = far[0].0 > within;
            let called = format!("{} {}", s.subject.name, kernel.name);
            if is_far && [OVERLAPPING, UNEVEN].concat().iter().any(|listed| listed.split(" (").next() == Some(&called)) {
                return Err(format!("{:?}", far[0]));
            }
            self.distances.push(far[0].0);
            if is_far {
                let what = format!("{} {name} at {}, {}", s.subject.name, s.sizes, schedule.short(kernel));
                self.wrong.push(format!("{what}: grid {}, {} blocks run: {:?}", done.grid, own.count.blocks, &far[..3]));
            }
        }
        Ok(())
    }

    /// Whatever was left under both ways by its name, else with its way; and why.
    fn names_of_left(&self) -> BTreeMap<String, String> {
        let one = |(name, ways): (&String, &BTreeMap<&str, String>)| match ways.first_key_value() {
            Some((way, why)) if ways.len() == 1 => (format!("{name} ({way})"), why.clone()),
            _ => (name.clone(), format!("{ways:?}")),
        };
        self.left.iter().map(one).collect()
    }
}

#[test]
fn counts_are_what_the_simulator_does() {
    // Links the gallery in.
    assert!(!gallery().is_empty());
    let begun = std::time::Instant::now();
    let chosen = std::env::var("GIRIH_TEST_CHALLENGE").ok();
    let most = chosen.as_ref().map_or(FUEL, |_| PATIENT);
    let mut found = Found { most, distances: Vec::new(), wrong: Vec::new(), left: BTreeMap::new() };
    let every = chosen.as_ref().map_or(EVERY, |_| 1);
    let mut looked_at = Vec::new();
    for challenge in challenges().iter().filter(|c| chosen.as_ref().is_none_or(|n| n == "all" || n == c.slug)).step_by(every) {
        looked_at.push(challenge.slug);
        let subject = Subject::of_challenge(challenge).unwrap_or_else(|e| panic!("{}: {e}", challenge.slug));
        for naive in [false, true] {
            found.call(&subject, naive);
        }
    }
    let left = found.names_of_left();
    let Found { distances, wrong, .. } = found;
    let (compared, within) = (distances.len(), |most: f64| distances.iter().filter(|d| **d <= most).count());
    println!(
        "{compared} launches in {:?}: {} as simulated, {} within 2 %, {} not compared",
        begun.elapsed(),
        within(0.0),
        within(0.02),
        left.len()
    );
    let too_long = |name: &str| name.split(" (").next().is_some_and(|both| TOO_LONG.contains(&both));
    let listed = |name: &str| too_long(name) || LEFT.iter().any(|names| names.contains(&name));
    let unlisted: Vec<_> = left.iter().filter(|(name, _)| !listed(name)).collect();
    let looked_at = |name: &str| looked_at.iter().any(|slug| name.split(' ').next() == Some(slug));
    // Who has patience sees the end of more, and others do not see the launches of what is too long.
    let of = |name: &str, listed: &str| name.split(' ').next() == listed.split(' ').next();
    let skipped = |name: &&str| most > FUEL && TOO_LONG.contains(name) || most == FUEL && TOO_LONG.iter().any(|l| of(name, l) && l != name);
    let listed = LEFT.iter().flat_map(|names| *names);
    let needless: Vec<_> = listed.filter(|n| looked_at(n) && !skipped(n) && !left.contains_key(**n)).collect();
    assert!(
        wrong.is_empty() && unlisted.is_empty() && needless.is_empty(),
        "{} of {compared}:\n{}\nnot compared, and not listed in `LEFT`:\n{unlisted:#?}\nlisted in `LEFT`, and compared: {needless:#?}",
        wrong.len(),
        wrong.join("\n")
    );
    let least = match chosen.as_deref() {
        None => 60,
        Some("all") => 260,
        Some(_) => 0,
    };
    assert!(compared >= least, "{compared} launches were compared");
}
