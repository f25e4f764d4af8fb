//! `report`: one page of HTML that needs nothing else, of all that is known of some subjects.

use super::device::DeviceChoice;
use super::explain::{Of, Setting};
use super::settings::way_at;
use super::show::Preset;
use super::{ahead, host, winners};
use crate::compile::nvrtc;
use crate::device::Device;
use crate::device::cuda::Gpu;
use crate::explain::units::counted;
use crate::report::{Environment, SubjectReport, html};
use crate::store::rows::Which;
use crate::subject::challenge::challenges;
use crate::subject::names;
use crate::tune::recording::{self, Recording};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    /// Challenges; those that the store knows something of without.
    names: Vec<String>,
    #[command(flatten)]
    of: Of,
    /// Times that `autotune record` wrote: what they have of a subject at these sizes stands in the place of the store's trials.
    #[arg(long, value_name = "FILE")]
    recordings: Option<PathBuf>,
    /// With the techniques of the host, which are run now, on the GPU or, with --host=sim, on the simulator, whose times are its own.
    #[arg(long, value_enum, value_name = "DEVICE", num_args = 0..=1, require_equals = true, default_missing_value = "cuda")]
    host: Option<DeviceChoice>,
    /// Predict the rungs of ladders, though there is a GPU.
    #[arg(long)]
    predict: bool,
    /// The page to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &Args) -> Result<(), String> {
    ahead::writable(&args.out)?;
    let setting = args.of.setting()?;
    let recordings = args.recordings.as_deref().map_or(Ok(Vec::new()), read)?;
    let (hosts, hosts_on) = args.host.map_or(Ok((Vec::new(), None)), host::all)?;
    let gpu = setting.gpu(args.predict)?;
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for name in named(args, &setting, &recordings)? {
        match one(reports.len(), &name, &setting, &recordings, gpu.as_ref()) {
            Ok(report) => reports.push(report),
            Err(e) => failed.push(names::named(&name, &e)),
        }
    }
    failed.iter().for_each(|e| eprintln!("{e}"));
    if reports.is_empty() && hosts.is_empty() {
        return Err(format!("nothing to report on, so {} is not written", args.out.display()));
    }
    let around = hosts_on.map(|on| ("techniques of the host".to_string(), on));
    let environment = environment(&setting, args.recordings.as_deref(), &recordings).into_iter().chain(around).collect();
    std::fs::write(&args.out, html(&reports, &hosts, &environment)).map_err(|e| format!("{}: {e}", args.out.display()))?;
    println!("wrote {}: {}", args.out.display(), counted(reports.len() as f64, "subject"));
    if failed.is_empty() { Ok(()) } else { Err(format!("not in the report: {}", counted(failed.len() as f64, "subject"))) }
}

/// What to report on.
fn named(args: &Args, setting: &Setting, recordings: &[Recording]) -> Result<Vec<String>, String> {
    if !args.names.is_empty() {
        return Ok(args.names.clone());
    }
    let rows = setting.store.as_ref().map_or(Ok(Vec::new()), |store| store.summaries(&Which::default())).map_err(|e| e.to_string())?;
    let linked = winners::linked();
    let tuned: Vec<String> = rows.into_iter().map(|row| row.kernel).filter(|kernel| linked.contains_key(kernel)).collect();
    let is_known =
        |slug: &str, paths: &[String]| recordings.iter().any(|r| r.name == slug) || paths.iter().any(|path| tuned.contains(path));
    let paths = |c: &crate::challenge::Challenge| {
        let program = (c.program.build)().ok();
        program.map_or(Vec::new(), |p| p.sites().into_iter().map(|d| d.path()).chain([p.path.clone()]).collect::<Vec<_>>())
    };
    let all: Vec<String> = challenges().iter().filter(|c| is_known(c.slug, &paths(c))).map(|c| c.slug.to_string()).collect();
    match all.is_empty() {
        true => Err("the store knows nothing of any challenge that is linked: name some, or tune some first (`autotune tune NAME`)".into()),
        false => Ok(all),
    }
}

fn one(number: usize, name: &str, setting: &Setting, recordings: &[Recording], gpu: Option<&Device>) -> Result<SubjectReport, String> {
    let subject = names::subject(name)?;
    subject.perf_sizes(&setting.sizes)?;
    let (subject, way) = way_at(&subject, &setting.sizes, None, &setting.target, Preset::Best, None)?;
    let sizes = subject.perf_sizes(&setting.sizes)?;
    SubjectReport::gather(number, &subject, &sizes, &way, &setting.options(None, false), recordings, gpu)
}

fn read(file: &Path) -> Result<Vec<Recording>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    recording::parse(&text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Where the page is made.
fn environment(setting: &Setting, file: Option<&Path>, recordings: &[Recording]) -> Environment {
    let mut devices: Vec<&str> = recordings.iter().map(|r| r.device.as_str()).collect();
    devices.dedup();
    let recorded = file.map(|file| format!("{}: times of {}", file.display(), devices.join(", ")));
    let compiler = if setting.cubins {
        nvrtc::identity().map_or_else(|e| e.to_string(), |i| format!("{}.{}", i.version.0, i.version.1))
    } else {
        "not asked".into()
    };
    let rows = [
        ("girih", env!("CARGO_PKG_VERSION").to_string()),
        ("explained for", format!("{} ({})", setting.target.name, setting.target.arch)),
        ("GPU at hand", setting.here.clone().unwrap_or_else(|| "none of that architecture: what is not measured is predicted".into())),
        ("NVRTC", compiler),
        ("store", setting.store.as_ref().map_or("none".into(), |store| store.path().display().to_string())),
    ];
    let gpu = setting.here.as_ref().and_then(|_| Gpu::look(0).ok());
    let (driver, clocks) = gpu.map_or((None, None), |gpu| gpu.driver_and_clocks());
    let clocks = clocks.map(|(multiprocessors, memory)| format!("{multiprocessors}/{memory} MHz at most, of multiprocessors and memory"));
    let more = [("driver", driver), ("clocks", clocks), ("recordings", recorded)];
    let more = more.into_iter().filter_map(|(name, value)| Some((name, value?)));
    rows.into_iter().chain(more).map(|(name, value)| (name.to_string(), value)).collect()
}
