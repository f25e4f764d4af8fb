//! `doctor`: what was found on this machine, what is missing, what to do.

use super::peers::Torch;
use super::print_json;
use crate::compile::nvrtc;
use crate::compile::sass;
use crate::device::Device;
use crate::device::cuda;
use crate::device::nvml::{Slowdown, Watched};
use crate::store::winners;
use crate::store::{self, Store};
use serde_json::json;

#[derive(clap::Args)]
pub struct Args {
    /// Fetch NVRTC and the disassembler (NVIDIA's wheels, by python3 and pip) into girih's cache if they are missing.
    #[arg(long)]
    fetch: bool,
    /// One JSON object per finding.
    #[arg(long)]
    json: bool,
}

/// One thing that was looked for.
struct Finding {
    what: &'static str,
    found: Result<String, String>,
    /// What works without it.
    without: &'static str,
}

pub fn run(args: &Args) -> Result<(), String> {
    if args.fetch && nvrtc::find().is_err() {
        let path = nvrtc::fetch().map_err(|e| e.to_string())?;
        eprintln!("fetched {}", path.display());
    }
    if args.fetch && sass::find().is_err() {
        let path = sass::fetch().map_err(|e| e.to_string())?;
        eprintln!("fetched {}", path.display());
    }
    for finding in findings() {
        let (what, ok) = (finding.what, finding.found.is_ok());
        let text = finding.found.unwrap_or_else(|e| e);
        if args.json {
            print_json(&json!({ "what": what, "ok": ok, "text": text }));
        } else {
            println!("{} {what}: {text}", if ok { "ok     " } else { "missing" });
            if !ok {
                println!("        {}", finding.without);
            }
        }
    }
    Ok(())
}

fn findings() -> Vec<Finding> {
    let driver = cuda::driver_report().map(|r| format!("CUDA {}, {} GPU(s): {}", r.version, r.devices.len(), r.devices.join(", ")));
    let opened = Device::cuda(0);
    let throttling = throttling(opened.as_ref().ok());
    let gpu = opened.map(|d| format!("{}, compiled for as {} ({})", d.name(), d.target().name, d.target().arch));
    let compiler = nvrtc::identity().map(|i| {
        let archs: Vec<String> = i.archs.iter().map(|a| format!("sm_{a}")).collect();
        format!("{}.{} at {}, for {}", i.version.0, i.version.1, i.path.display(), archs.join(" "))
    });
    let store = Store::open_default().map_err(|e| e.to_string()).and_then(|s| {
        let elected = s.elected().map_err(|e| e.to_string())?.len();
        Ok(format!("{}, {elected} elected schedules", s.path().display()))
    });
    let kernels = girih_core::registry::kernels().len();
    let linked =
        format!("{kernels} kernels, {} challenges, {} winners", crate::subject::challenge::challenges().len(), winners::all().len());
    vec![
        Finding {
            what: "kernels",
            found: if kernels > 0 { Ok(linked) } else { Err(crate::subject::names::EMPTY.into()) },
            without: "there is nothing to list, check or tune",
        },
        Finding {
            what: "CUDA driver",
            found: driver.map_err(|e| e.to_string()),
            without: "kernels run on the simulator; `tune` predicts and `bench` cannot",
        },
        Finding { what: "GPU", found: gpu.map_err(|e| e.to_string()), without: "kernels run on the simulator" },
        throttling,
        Finding {
            what: "NVRTC",
            found: compiler.map_err(|e| e.to_string()),
            without: "CUDA C can be shown and exported, but not compiled; `doctor --fetch` gets NVIDIA's wheel",
        },
        Finding {
            what: "disassembler",
            found: sass::find().map(|p| p.display().to_string()).map_err(|searched| format!("no nvdisasm in {}", searched.join(", "))),
            without: "`show --ir sass` and tests of machine code need it; `doctor --fetch` gets NVIDIA's wheel",
        },
        Finding { what: "cache folder", found: Ok(store::default_folder().display().to_string()), without: "" },
        Finding { what: "tuner's store", found: store, without: "trials are not kept" },
        Finding {
            what: "PyTorch",
            found: Torch::start().map(|t| format!("torch {}", t.version)),
            without: "`bench` shows no peers; set GIRIH_PYTHON to a python3 that has torch",
        },
    ]
}

/// Whether samples of a throttled GPU can be told from others.
fn throttling(gpu: Option<&Device>) -> Finding {
    let watched = gpu.ok_or("there is no GPU whose clocks could be watched".to_string()).and_then(Watched::of);
    Finding {
        what: "throttling",
        found: watched.map(|watched| lowered(&watched.slowdowns())),
        without: "samples that are taken while a GPU is too hot, or braked, are not told from others",
    }
}

/// What lowers a GPU's clocks now, in words.
fn lowered(slowdowns: &[Slowdown]) -> String {
    let names: Vec<String> = slowdowns.iter().map(Slowdown::to_string).collect();
    format!("NVML tells of it; clocks are lowered now by {}", if names.is_empty() { "nothing".into() } else { names.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::target::Target;

    #[test]
    fn it_is_told_where_throttling_cannot_be_seen() {
        let without_gpu = throttling(None);
        assert_eq!(without_gpu.found, Err("there is no GPU whose clocks could be watched".to_string()));
        assert!(without_gpu.without.ends_with("are not told from others"));
        assert!(throttling(Some(&Device::sim(Target::h200()))).found.is_err());
        assert_eq!(lowered(&[]), "NVML tells of it; clocks are lowered now by nothing");
        let both = lowered(&[Slowdown::SoftwareThermal, Slowdown::PowerCap]);
        assert_eq!(both, "NVML tells of it; clocks are lowered now by software thermal slowdown, power cap");
    }
}
