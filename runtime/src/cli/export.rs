//! `export`: `.cu` files for a judge.

use super::show::Preset;
use super::{device, known, print_json, settings};
use crate::device::Device;
use crate::launch::schedule_lookup::tuned_facts;
use crate::store::Store;
use crate::subject::Subject;
use crate::subject::names;
use crate::tune::launches::AtPerf;
use girih_core::facts::Facts;
use girih_core::program::export::{Chosen, compile_sites, export as program_text};
use girih_core::target::Target;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Challenges.
    names: Vec<String>,
    /// Every challenge.
    #[arg(long)]
    all: bool,
    /// The folder to write `<slug>.cu` files to; made if need be.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The architecture or GPU: sm_75, sm_80, sm_90a, h200, ..
    #[arg(long, value_name = "ARCH", default_value = "sm_90a")]
    arch: String,
    /// Knobs to set at every launch, as in --set T=1024,V=4, or launch sites and variants by name, as in
    /// --set 'stats: T=1024,C=4; normalise: T=512'; the best schedule known without.
    #[arg(long, value_name = "KNOBS")]
    set: Option<String>,
    /// One JSON object per file.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let target = device::target(Some(&args.arch))?;
    let (mut subjects, unbuilt) = names::subjects(&args.names, args.all)?;
    if args.all {
        // Kernels without a challenge have no signature to be called with.
        subjects.retain(|s| s.signature().is_some());
    }
    std::fs::create_dir_all(&args.out).map_err(|e| format!("{}: {e}", args.out.display()))?;
    // What has no legal schedule on this architecture keeps nothing else from being written.
    let mut left: Vec<(&str, String)> = Vec::new();
    for subject in &subjects {
        let (text, schedules) = match export(subject, target, args.set.as_deref()) {
            Ok(exported) => exported,
            Err(e) => {
                left.push((&subject.name, e));
                continue;
            }
        };
        let path = args.out.join(format!("{}.cu", subject.name));
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        if args.json {
            print_json(&json!({ "name": subject.name, "file": path, "arch": target.arch, "schedules": schedules }));
        } else {
            println!("{} for {}: {}", path.display(), target.arch, schedules.join("; "));
        }
    }
    let broken = names::tell(&unbuilt);
    for (name, e) in &left {
        eprintln!("not written for {}: {}", target.arch, names::named(name, e));
    }
    match (broken + left.len(), broken) {
        (0, _) => Ok(()),
        (_, 0) => {
            let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
            Err(format!("{} of {} were not written: {}", left.len(), subjects.len(), names.join(", ")))
        }
        (wrong, _) => Err(format!("{wrong} of {} were not written, {broken} of which could not be built", subjects.len() + broken)),
    }
}

/// The tuner's store, and the name of the GPU here, if that is one of the target's architecture.
fn tuned_here(target: &Target) -> Option<(Store, String)> {
    let device = Device::cuda(0).ok().filter(|d| d.target().arch == target.arch)?;
    Some((known::store()?, device.name()))
}

/// The CUDA C++ of a challenge and the schedules it was made with.
pub(super) fn export(subject: &Subject, target: &Target, set: Option<&str>) -> Result<(String, Vec<String>), String> {
    let signature = subject.signature().ok_or("is no challenge, so it has no signature to export")?;
    let (subject, way) = settings::way(subject, target, Preset::Best, set)?;
    let (names, mut schedules) = (subject.program.site_names(), Vec::new());
    let (at_perf, here) = (AtPerf::of(&subject), tuned_here(target));
    let store = here.as_ref().map(|(store, device)| (store, device.as_str()));
    let mut choose = |site: usize, kernel: &girih_core::tile::Kernel| {
        let (schedule, from) = &way[site];
        let name = if names.len() > 1 { format!("{}: ", names[site]) } else { String::new() };
        schedules.push(format!("{name}{} ({from})", schedule.short(kernel)));
        let mut tuned: Vec<Facts> = at_perf.facts_of_site(site).cloned().into_iter().collect();
        tuned.extend(tuned_facts(kernel, target, store).into_iter().filter(|facts| Some(facts) != at_perf.facts_of_site(site)));
        Chosen { schedule: schedule.clone(), tuned }
    };
    let program = subject.program.with_variants(&subject.program.default_variants());
    let sites = compile_sites(&program, signature, target, &mut choose).map_err(|e| e.to_string())?;
    let versions = sites.iter().flat_map(|site| &site.versions);
    versions.filter_map(|v| Some((v.name(), v.excuse()?))).for_each(|(name, excuse)| eprintln!("{}: {name} {excuse}", subject.name));
    let text = program_text(&program, signature, &sites, target).map_err(|e| e.to_string())?;
    Ok((text, schedules))
}
