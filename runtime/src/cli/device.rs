//! The flags that choose a device, and the sentence where there is none.

use crate::compile::cache;
use crate::compile::nvrtc;
use crate::device::Device;
use crate::device::cuda::Gpu;
use crate::error::Error;
use girih_core::target::{RELATIVES, TARGETS, Target};
use std::time::{Duration, Instant};

/// Where to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum DeviceChoice {
    /// The first GPU.
    Cuda,
    /// The simulator: right on any machine, slow, and without a clock.
    Sim,
}

/// The device of a choice; without one the first GPU, else the simulator with a note on stderr that says why.
///
/// # Errors
/// A GPU was asked for and there is none, or the target is unknown.
pub fn open(choice: Option<DeviceChoice>, target_name: Option<&str>) -> Result<Device, String> {
    let simulated = target(target_name)?;
    match choice {
        Some(DeviceChoice::Sim) => Ok(Device::sim(simulated)),
        Some(DeviceChoice::Cuda) => gpu().map_err(|e| e.to_string()),
        None => Ok(gpu().unwrap_or_else(|e| {
            eprintln!("note: no GPU is used, but the simulator: {e}");
            Device::sim(simulated)
        })),
    }
}

/// The first GPU, with an NVRTC to compile for it.
///
/// # Errors
/// There is none: what is missing.
pub fn gpu() -> Result<Device, Error> {
    let device = Device::cuda(0)?;
    provide_nvrtc();
    Ok(device)
}

/// The first GPU without opening it, with an NVRTC to compile for it.
///
/// # Errors
/// There is none: what is missing.
pub fn look() -> Result<Gpu, Error> {
    let gpu = Gpu::look(0)?;
    provide_nvrtc();
    Ok(gpu)
}

/// Fetches NVRTC where there is none; how long that took. Where it fails, too, a note says why, and whoever compiles says what was looked for.
pub fn provide_nvrtc() -> Duration {
    if nvrtc::identity().is_ok() {
        return Duration::ZERO;
    }
    let begun = Instant::now();
    eprintln!("note: there is no NVRTC; fetching {} into {}", nvrtc::WHEEL, cache::folder().display());
    if let Err(e) = nvrtc::fetch() {
        eprintln!("note: {e}");
    }
    begun.elapsed()
}

/// The target of a name; the H200 without one.
///
/// # Errors
/// The name is unknown, with those that are known.
pub fn target(name: Option<&str>) -> Result<&'static Target, String> {
    let Some(name) = name else { return Ok(Target::h200()) };
    let known = || TARGETS.iter().map(|t| format!("{} ({})", t.name, t.arch)).collect::<Vec<_>>().join(", ");
    let others = || RELATIVES.iter().map(|t| t.arch).collect::<Vec<_>>().join(", ");
    Target::find(name)
        .ok_or_else(|| format!("unknown target or architecture `{name}`; known are {}, and the architectures {}", known(), others()))
}

/// A progress line on stderr that counts and names what is being worked on; nothing where stderr is no terminal.
pub fn spinner() -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new_spinner();
    let style = indicatif::ProgressStyle::with_template("{spinner} {pos} {msg} {elapsed}").expect("a constant template");
    bar.set_style(style);
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}
