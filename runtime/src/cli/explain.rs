//! `explain`: what bounds a schedule, what it occupies and moves, what trials say of its knobs, and what to try next.

use super::settings::way_at;
use super::show::Preset;
use super::{compile_apart, device, known, parse_time, print_json, run};
use crate::device::Device;
use crate::device::cuda::Gpu;
use crate::explain::gather::{Options, page};
use crate::explain::knobs::Effects;
use crate::explain::numbers::{Counts, Numbers};
use crate::explain::profiled::profile;
use crate::explain::{Page, SitePage, text};
use crate::measure::ncu::Ncu;
use crate::store::Store;
use crate::subject::challenge::Sizes;
use crate::subject::{Subject, names};
use girih_core::model::Bottleneck;
use girih_core::schedule::Schedule;
use girih_core::sim::counting::{CountedShared, CountedTraffic};
use girih_core::target::Target;
use serde_json::{Map, Value, json};
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// A challenge (all its launch sites), one of its sites as in softmax.stats, or a kernel (which needs --size).
    name: String,
    #[command(flatten)]
    of: Of,
    /// Knobs to set at every launch, as in --set T=1024,V=4, or launch sites and variants by name, as in
    /// --set 'row in registers=no; stats: T=1024,C=4'; the others stay as the preset has them.
    #[arg(long, value_name = "KNOBS")]
    set: Option<String>,
    /// The schedule to start from.
    #[arg(long, value_enum, default_value = "best")]
    preset: Preset,
    /// Count on this machine's GPU, too, by NVIDIA's profiler `ncu`, which runs the call again and again: what it measures stands beside what
    /// is counted without it.
    #[arg(long)]
    counters: bool,
    /// Name what to try, and leave out what the model says of it.
    #[arg(long)]
    no_attempts: bool,
    /// One JSON object per launch site.
    #[arg(long)]
    json: bool,
}

/// For what, and how.
#[derive(clap::Args)]
pub(super) struct Of {
    /// Sizes, as in --size N=1000; the perf size without.
    #[arg(long, value_name = "SIZES")]
    size: Option<String>,
    /// The GPU to explain for: t4, a100, h100, h200, b200, rtx5090, or an architecture. The GPU of this machine, or an H200 where there is
    /// none.
    #[arg(long, visible_alias = "arch", value_name = "TARGET")]
    target: Option<String>,
    /// Do without NVRTC: registers are a guess then.
    #[arg(long)]
    no_compile: bool,
    /// What NVRTC may take for one kernel; what takes longer is given up.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2m")]
    compile_limit: Duration,
}

/// What the flags come to.
pub(super) struct Setting {
    pub sizes: Sizes,
    pub target: Target,
    /// The GPU at hand, if it is one of the target's architecture.
    pub here: Option<String>,
    pub store: Option<Store>,
    pub cubins: bool,
}

impl Of {
    /// # Errors
    /// Sizes or a target that are none.
    pub fn setting(&self) -> Result<Setting, String> {
        let gpu = Gpu::look(0).ok();
        let target = match (&self.target, &gpu) {
            (None, Some(gpu)) => gpu.target.clone(),
            (name, _) => device::target(name.as_deref())?.clone(),
        };
        let here = gpu.filter(|gpu| gpu.target.arch == target.arch).map(|gpu| gpu.name);
        let sizes = self.size.as_deref().map_or(Ok(Sizes::default()), Sizes::parse)?;
        if !self.no_compile {
            device::provide_nvrtc();
            compile_apart(self.compile_limit)?;
        }
        Ok(Setting { sizes, target, here, store: known::store(), cubins: !self.no_compile })
    }
}

impl Setting {
    /// The GPU that times what is asked for: the one at hand where that is the target, unless times shall be predicted.
    pub fn gpu(&self, predict: bool) -> Result<Option<Device>, String> {
        match &self.here {
            Some(_) if !predict => device::gpu().map(Some).map_err(|e| e.to_string()),
            _ => Ok(None),
        }
    }

    pub fn options<'a>(&'a self, only: Option<&'a str>, attempts: bool) -> Options<'a> {
        Options { target: &self.target, store: self.store.as_ref(), here: self.here.as_deref(), cubins: self.cubins, attempts, only }
    }
}

pub fn run(args: &Args) -> Result<(), String> {
    let (subject, only) = names::subject_site(&args.name)?;
    let setting = args.of.setting()?;
    let only = only.as_deref();
    // A kernel has no size of its own: that is told before anything else.
    subject.perf_sizes(&setting.sizes)?;
    let (subject, way) = way_at(&subject, &setting.sizes, only, &setting.target, args.preset, args.set.as_deref())?;
    let sizes = subject.perf_sizes(&setting.sizes)?;
    let mut page = page(&subject, &sizes, &way, &setting.options(only, !args.no_attempts))?;
    if args.counters {
        match counted(&mut page, &subject, &sizes, &way, &setting) {
            Ok(unknown) if unknown.is_empty() => {}
            Ok(unknown) => eprintln!("note: ncu does not count {}", unknown.join(", ")),
            Err(e) => eprintln!("note: nothing is measured: {e}"),
        }
    }
    if args.json {
        page.sites.iter().for_each(|site| print_json(&as_json(&page, site)));
    } else {
        print!("{}", text::text(&page));
    }
    Ok(())
}

/// Profiles the call; the metrics that are not known here.
fn counted(
    page: &mut Page,
    subject: &Subject,
    sizes: &Sizes,
    way: &[(Schedule, &'static str)],
    setting: &Setting,
) -> Result<Vec<String>, String> {
    let ncu = Ncu::find(std::env::var_os("PATH").as_deref())?;
    setting.here.as_ref().ok_or_else(|| format!("there is no GPU of {} here", setting.target.arch))?;
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    profile(page, &ncu, (program.as_os_str(), &run::launch_only(subject, sizes, way)?))
}

fn as_json(page: &Page, site: &SitePage) -> Value {
    let measured: Vec<Value> = site.measured.iter().map(|m| json!({ "us": m.us, "source": m.source })).collect();
    let tips = site.tips.iter().map(|tip| {
        let attempt = |a: &crate::explain::Attempt| {
            let (us, error) = (a.us.as_ref().and_then(|r| r.as_ref().ok()), a.us.as_ref().and_then(|r| r.as_ref().err()));
            json!({ "setting": a.setting, "predicted_us": us, "error": error })
        };
        json!({ "rule": tip.rule, "why": tip.why, "attempts": tip.attempts.iter().map(attempt).collect::<Vec<_>>() })
    });
    let floor = &page.floor;
    json!({
        "name": page.name, "sizes": page.sizes, "target": page.target.name, "arch": page.target.arch,
        "floor_us": floor.seconds * 1e6, "floor_bound": floor.bound.to_string(),
        "program_us": page.predicted.map(|p| p.us), "site": site.site, "kernel": site.kernel, "schedule": site.schedule, "from": site.from,
        "launches": site.count, "predicted_us": site.us, "first_launch_us": site.first_us, "basis": site.basis.name(), "uncounted": site.uncounted,
        "measured": measured, "machine_code": site.verdict, "numbers": site.launches.iter().map(numbers_json).collect::<Vec<_>>(),
        "try": tips.collect::<Vec<_>>(), "tuning": tuning_json(site),
    })
}

pub(super) fn numbers_json(n: &Numbers) -> Value {
    let bounds: Map<String, Value> = n.bounds().into_iter().map(|(b, seconds)| (b.name().to_string(), json!(seconds * 1e6))).collect();
    let (p, r) = (&n.predicted, &n.resources);
    let fits: Map<String, Value> = n.fits.iter().map(|(blocks, limit)| (limit.name().into(), json!(blocks))).collect();
    json!({
        "function": n.function, "grid": n.grid, "block": n.block, "predicted_us": p.seconds * 1e6, "bound_by": Bottleneck::name(p.bottleneck),
        "bounds_us": bounds, "launch_us": p.front * 1e6, "ends_us": p.ends * 1e6,
        "registers": r.registers, "shared_bytes": r.shared, "spilled_bytes": r.spills, "resources_are_a_guess": n.is_guess,
        "blocks_per_multiprocessor": p.occupancy.blocks, "occupancy": p.occupancy.fraction, "limited_by": p.occupancy.limit.name(),
        "blocks_that_fit": fits, "waves": p.waves, "bytes_in_flight": p.bytes_in_flight.is_finite().then_some(p.bytes_in_flight),
        "bytes_in_flight_needed": n.needed_in_flight, "counts": n.counts.as_ref().map(counts_json),
        "profiled": n.profiled.as_ref().map(|launched| &launched.values),
    })
}

fn counts_json(c: &Counts) -> Value {
    let global = |t: &CountedTraffic| json!({ "requests": t.requests, "sectors": t.sectors, "bytes": t.bytes });
    let shared = |t: &CountedShared| json!({ "requests": t.requests, "wavefronts": t.wavefronts, "bank_conflicts": t.conflicts });
    let global: Map<String, Value> = c.global().map(|(kind, t)| (kind.into(), global(t))).collect();
    let shared: Map<String, Value> = c.shared().map(|(kind, t)| (kind.into(), shared(t))).collect();
    let mix: Map<String, Value> = c.mix.iter().map(|(class, n)| (super::counters::class_name(*class).into(), json!(n))).collect();
    json!({
        "global": global, "shared": shared, "instructions": mix, "barriers_per_block": c.barriers, "chain_clocks": c.chain,
        "named_barriers_per_warp": c.named_barriers, "phase_waits_per_warp": c.phase_waits, "each_block_counted_as_first": c.each_first,
        "unique_read_bytes": c.unique[0], "unique_written_bytes": c.unique[1], "l2_sectors": c.l2_sectors, "matrix_multiply_adds": c.matrix,
        "constant_loads": c.constants,
    })
}

fn tuning_json(site: &SitePage) -> Value {
    let tuning = &site.tuning;
    let Effects { tried, timed, best, knobs, interaction, rejected, flawed, .. } = &tuning.effects;
    let name = |knob: usize| tuning.knobs[knob].as_str();
    let knobs = knobs.iter().map(|effect| {
        let choices = effect.choices.iter().map(|c| {
            json!({ "choice": c.choice, "trials": c.trials.len(), "best_us": c.best_us, "median_us": c.median_us,
                "alone": c.alone.map(|a| a.0), "pairs": c.alone.map(|a| a.1) })
        });
        json!({ "knob": name(effect.knob), "best": effect.best, "cost": effect.cost, "choices": choices.collect::<Vec<_>>() })
    });
    let interaction = interaction
        .as_ref()
        .map(|i| json!({ "knobs": i.knobs.map(name), "step": i.step, "at": i.at, "ratios": i.ratios, "fours": i.fours }));
    let rejected = rejected.iter().map(|r| json!({ "status": r.status.name(), "reason": r.reason, "count": r.count }));
    json!({
        "device": tuning.device, "predicted": tuning.predicted, "beside": tuning.beside, "tried": tried, "timed": timed,
        "of_other_code": tuning.of_other_code, "best_us": best.as_ref().map(|b| b.1), "knobs": knobs.collect::<Vec<_>>(),
        "interaction": interaction, "rejected": rejected.collect::<Vec<_>>(), "not_as_meant": flawed, "command": tuning.command,
    })
}
