//! `run`: one call on random data, compared with the reference, or on an image.

use super::device::{self, DeviceChoice};
use super::show::Preset;
use super::{ahead, counters, picture, print_json, settings};
use crate::check::evaluate;
use crate::device::Device;
use crate::launch::program::Runner;
use crate::launch::program_schedule::Joint;
use crate::subject::challenge::Sizes;
use crate::subject::guarded_args::Placed;
use crate::subject::inputs::HostTensor;
use crate::subject::names;
use crate::subject::{Call, CallArg, Subject};
use girih_core::schedule::Schedule;
use serde_json::json;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// A challenge or kernel.
    name: String,
    /// Sizes, as in --size N=1000 or --size width=64,height=48. The first check size of a few thousand elements without.
    #[arg(long, value_name = "SIZES")]
    size: Option<String>,
    /// Run on this picture (PNG or JPEG) instead of random data.
    #[arg(long, value_name = "FILE", requires = "out")]
    image: Option<PathBuf>,
    /// Where to write the resulting picture.
    #[arg(long, value_name = "FILE", requires = "image")]
    out: Option<PathBuf>,
    /// Where to run; the first GPU, or the simulator where there is none.
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// The GPU whose limits the simulator has.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Of random data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Knobs to set at every launch, as in --set T=1024,V=4, or launch sites and variants by name, as in
    /// --set 'stats: T=1024,C=4; normalise: T=512'; the others stay as the preset has them.
    #[arg(long, value_name = "KNOBS")]
    set: Option<String>,
    /// The schedule to start from; without it and --set every launch chooses its own.
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Count what every launch does as ncu counts it: requests, sectors, wavefronts, bank conflicts, instructions (simulator only).
    #[arg(long)]
    counters: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// Launch once, and neither compare nor tell: for a profiler.
    #[arg(long, hide = true)]
    launch_only: bool,
}

/// The arguments of this program by which a profiler sees the launches of one call under these schedules.
pub(super) fn launch_only(subject: &Subject, sizes: &Sizes, way: &[(Schedule, &'static str)]) -> Result<Vec<OsString>, String> {
    let kernels = subject.program.sites().into_iter().map(|def| (def.build)().map_err(|e| e.to_string()));
    let texts = kernels.zip(way).map(|(kernel, (schedule, _))| Ok(schedule.short(&kernel?))).collect::<Result<Vec<String>, String>>()?;
    let (set, sizes) = (Joint::of(subject, &texts).to_string(), sizes.to_string());
    let fixed = ["run", &subject.name, "--device", "cuda", "--launch-only", "--preset", "naive", "--size", &sizes, "--set", &set];
    Ok(fixed.into_iter().map(OsString::from).collect())
}

pub fn run(args: &Args) -> Result<(), String> {
    let subject = names::subject(&args.name)?;
    if let Some(out) = &args.out {
        picture::check_name(out)?;
        ahead::writable(out)?;
    }
    let choice = if args.counters { args.device.or(Some(DeviceChoice::Sim)) } else { args.device };
    let device = device::open(choice, args.target.as_deref())?;
    if args.counters {
        counters::record(&device)?;
    }
    let (subject, schedules) = way(subject, &device, args)?;
    let asked = args.size.as_deref().map_or(Ok(Sizes::default()), Sizes::parse)?;
    let call = match &args.image {
        Some(path) => picture::call(&subject, path, &asked, &device)?,
        None => random_call(&subject, &asked, args.seed, &device)?,
    };
    let placed = Placed::new(&device, &call, 0).map_err(|e| e.to_string())?;
    let mut runner = Runner::new(&device, subject.program.clone());
    runner.schedules = schedules;
    let start = Instant::now();
    let arguments = placed.arguments();
    let seconds = device.time(&mut || runner.run(&arguments)).map_err(|e| e.to_string())?;
    if args.launch_only {
        return Ok(());
    }
    let after = placed.download().map_err(|e| e.to_string())?;
    if !args.json {
        println!("{} at {} on {}: {}", subject.name, call.sizes, device.name(), took(seconds, start));
    }
    if !placed.guards_intact().map_err(|e| e.to_string())? {
        return Err("the kernel wrote outside of its tensors".into());
    }
    let by = compare(&subject, &call, &after)?;
    let launches = counters::recorded(&device);
    if args.json {
        let launches = args.counters.then(|| launches.iter().map(counters::as_json).collect::<Vec<_>>());
        print_json(&json!({
            "name": subject.name, "sizes": call.sizes.0, "device": device.name(), "us": seconds.map(|s| s * 1e6), "equal_to": by,
            "launches": launches,
        }));
    } else {
        println!("equal to the {by} at every element");
        launches.iter().for_each(|l| print!("{}", counters::text(l)));
    }
    match &args.out {
        Some(out) => picture::write(&subject, &call, &after, out, args.json),
        None => {
            if !args.json && !args.counters {
                show(&call, &after);
            }
            Ok(())
        }
    }
}

/// The subject with its variants, and the schedule of every launch site; `None` lets the launch choose.
fn way(subject: Subject, device: &Device, args: &Args) -> Result<(Subject, Vec<Option<Schedule>>), String> {
    if args.set.is_none() && args.preset.is_none() {
        let sites = subject.program.sites().len();
        return Ok((subject, vec![None; sites]));
    }
    let preset = args.preset.unwrap_or(Preset::Best);
    let (subject, schedules) = settings::way(&subject, device.target(), preset, args.set.as_deref())?;
    Ok((subject, schedules.into_iter().map(|(schedule, _)| Some(schedule)).collect()))
}

fn took(seconds: Option<f64>, start: Instant) -> String {
    match seconds {
        Some(s) => format!("{:.1} us, the first launch", s * 1e6),
        None => format!("simulated in {:.2} s", start.elapsed().as_secs_f64()),
    }
}

/// The call at sizes, if the device can hold it.
pub(super) fn made(subject: &Subject, sizes: &Sizes, seed: u64, device: &Device) -> Result<Call, String> {
    if matches!(device, Device::Sim(_)) {
        ahead::simulated(subject, sizes)?;
    }
    subject.call(sizes, seed)
}

fn random_call(subject: &Subject, asked: &Sizes, seed: u64, device: &Device) -> Result<Call, String> {
    subject.perf_sizes(asked).or_else(|e| if asked.0.is_empty() { Ok(Sizes::default()) } else { Err(e) })?;
    // Sizes of a bare kernel are few and overlap (N, x, x.0): those that are given stand alone.
    if subject.challenge.is_none() && !asked.0.is_empty() {
        return made(subject, asked, seed, device);
    }
    let checks = subject.check_sizes(seed);
    // The largest check size is small enough to print and large enough to mean something.
    let base = checks.into_iter().filter_map(|s| subject.call(&s, seed).ok()).max_by_key(elements).map(|c| c.sizes);
    made(subject, &asked.or(&base.unwrap_or_default()), seed, device)
}

fn elements(call: &Call) -> usize {
    call.args.iter().map(|a| if let CallArg::Tensor { data, .. } = a { data.numel() } else { 0 }).sum()
}

/// Compares with the challenge's reference, or with the evaluator where there is none, and says which.
fn compare(subject: &Subject, call: &Call, after: &[Option<HostTensor>]) -> Result<&'static str, String> {
    if subject.challenge.is_some() {
        subject.verify(call, after, None)?;
        return Ok("reference");
    }
    let expected = evaluate(subject, call)?;
    subject.compare(call, after, &expected)?;
    Ok("evaluator")
}

fn show(call: &Call, after: &[Option<HostTensor>]) {
    for (arg, after) in call.args.iter().zip(after) {
        let (CallArg::Tensor { name, data, .. }, Some(after)) = (arg, after) else { continue };
        let shown: Vec<String> = (0..after.numel().min(8)).map(|i| format!("{}", after.get(i))).collect();
        let more = if after.numel() > 8 { ", .." } else { "" };
        println!("  {name}: {}{:?} = [{}{more}]", data.dtype, data.lens, shown.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;
    use clap::Parser;
    use girih_core::target::Target;

    /// What a profiler is given is a command of this program, which reads from it the very schedule.
    #[test]
    fn a_profiler_is_given_the_schedules_at_hand() {
        let subject = names::subject("digit_counts<u32>").expect("one of the library's kernels");
        let kernel = (subject.program.sites()[0].build)().expect("it builds");
        let schedule = Schedule::default_of(&kernel);
        let sizes = Sizes::parse("N=1000").expect("a size");
        let args = launch_only(&subject, &sizes, &[(schedule.clone(), "set")]).expect("a command");
        let parsed = Cli::try_parse_from([OsString::from("autotune")].into_iter().chain(args)).unwrap_or_else(|e| panic!("{e}"));
        let Command::Run(args) = parsed.command else { panic!("it is `run`") };
        assert!(args.launch_only && args.device == Some(DeviceChoice::Cuda) && args.size.as_deref() == Some("N=1000"));
        let preset = args.preset.expect("the plainest, of which every knob is set");
        let (_, way) = settings::way(&subject, Target::h200(), preset, args.set.as_deref()).expect("it is read");
        assert_eq!(way, [(schedule, "set")]);
    }
}
