//! `host`: techniques of the host, each way of doing the work with its timeline.

use super::device::DeviceChoice;
use super::{device, print_json};
use crate::device::Device;
use crate::launch::stream::Stream;
use crate::report::Host;
use crate::techniques::text::text;
use crate::techniques::{Technique, Timeline, technique, techniques};
use girih_core::target::Target;
use serde_json::json;

#[derive(clap::Args)]
pub struct Args {
    /// Techniques; without, those there are.
    names: Vec<String>,
    /// Every technique.
    #[arg(long)]
    all: bool,
    /// cuda measures; sim shows that the ways are right, and its times are those of the simulator. cuda without.
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// About so many elements a tensor.
    #[arg(long, value_name = "N")]
    elements: Option<usize>,
    /// One JSON object per way.
    #[arg(long)]
    json: bool,
}

/// Elements a tensor, where nothing is said: 64 MiB of f32 on a GPU.
const ELEMENTS: usize = 1 << 24;
const SIMULATED: usize = 1 << 12;

pub fn run(args: &Args) -> Result<(), String> {
    let chosen = match args.all {
        true => techniques(),
        false => args.names.iter().map(|name| technique(name)).collect::<Result<_, _>>()?,
    };
    if chosen.is_empty() {
        techniques().iter().for_each(|t| println!("{:<24} {}", t.name, t.title));
        return Ok(());
    }
    let (device, most) = device(args.device.unwrap_or(DeviceChoice::Cuda))?;
    for technique in &chosen {
        let ways = ways(technique, &device, args.elements.unwrap_or(most))?;
        if args.json {
            ways.iter().for_each(|way| print_json(&as_json(technique, way, &device)));
        } else {
            println!("{}", text(technique, &ways, &device.name()));
        }
    }
    Ok(())
}

/// A device, and how many elements a tensor has there.
fn device(choice: DeviceChoice) -> Result<(Device, usize), String> {
    match choice {
        DeviceChoice::Sim => Ok((Device::sim_without_counters(Target::h200()), SIMULATED)),
        DeviceChoice::Cuda => Ok((gpu()?, ELEMENTS)),
    }
}

fn gpu() -> Result<Device, String> {
    device::gpu()
        .map_err(|e| format!("a timeline is measured, so it needs a GPU (`autotune host --device sim` shows that all ways are right): {e}"))
}

/// All techniques for a report, and on what they were run.
pub(super) fn all(choice: DeviceChoice) -> Result<(Vec<Host>, Option<String>), String> {
    let (device, elements) = device(choice)?;
    let run = |t: Technique| Ok((t, ways(&t, &device, elements)?));
    let hosts = techniques().into_iter().map(run).collect::<Result<_, String>>()?;
    let times = if choice == DeviceChoice::Sim { ", whose times are those of this machine and say nothing of a GPU" } else { "" };
    Ok((hosts, Some(format!("{}{times}", device.name()))))
}

/// Runs a technique.
fn ways(technique: &Technique, device: &Device, elements: usize) -> Result<Vec<Timeline>, String> {
    (technique.run)(&Stream::on(device), elements).map_err(|e| format!("{}: {e}", technique.name))
}

fn as_json(technique: &Technique, way: &Timeline, device: &Device) -> serde_json::Value {
    let span = |s: &crate::techniques::Span| json!({ "lane": s.lane, "name": s.name, "from_us": s.us.0, "to_us": s.us.1 });
    json!({
        "technique": technique.name, "title": technique.title, "device": device.name(), "way": way.title, "us": way.us,
        "spans": way.spans.iter().map(span).collect::<Vec<_>>(),
    })
}
