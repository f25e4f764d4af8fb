//! `list`: challenges and kernels with the size of their spaces.

use super::print_json;
use crate::subject::Subject;
use crate::subject::challenge::challenges;
use crate::subject::names;
use crate::subject::sites::wrong_first_choices;
use girih_core::registry::{KernelDef, kernels};
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use serde_json::json;

/// Points of a space that are looked at; of larger ones the number of schedules is an estimate.
const ESTIMATED: u64 = 128;

#[derive(clap::Args)]
pub struct Args {
    /// Count the schedules that are legal, too: lowers many of each kernel, which takes seconds.
    #[arg(long)]
    legal: bool,
    /// One JSON object per challenge and kernel.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let (challenges, kernels) = (challenges(), kernels());
    if challenges.is_empty() && kernels.is_empty() {
        return Err(names::EMPTY.into());
    }
    let launched: Vec<(&'static str, Vec<String>)> = challenges
        .iter()
        .filter_map(|c| Some((c.slug, Subject::of_challenge(c).ok()?.program.sites().iter().map(KernelDef::path).collect())))
        .collect();
    let uses = |path: &String| launched.iter().filter(|(_, paths)| paths.contains(path)).map(|(slug, _)| *slug).collect::<Vec<_>>();
    if !args.json && !challenges.is_empty() {
        println!("challenges");
        for c in &challenges {
            println!("  {:<20} {}", c.slug, c.signature);
        }
        println!();
    }
    if args.json {
        for c in &challenges {
            print_json(&json!({ "challenge": c.slug, "program": c.program.path(), "signature": c.signature, "perf": c.perf.0 }));
        }
    } else if !kernels.is_empty() {
        let counted = if args.legal { format!("legal on an {} / listed; ~ estimated", Target::h200().name) } else { "listed".into() };
        println!("kernels (schedules {counted})");
    }
    let mut wrong = 0;
    for def in &kernels {
        let kernel = match (def.build)() {
            Ok(kernel) => kernel,
            Err(e) => {
                println!("  {}: {e}", def.path());
                continue;
            }
        };
        let space = Space::of_some_launch(&kernel, Target::h200());
        let knobs: Vec<String> = kernel.knobs.iter().map(|k| format!("{}({})", k.kind.group(), k.name)).collect();
        let legal = args.legal.then(|| space.estimate(ESTIMATED));
        if args.json {
            print_json(&json!({
                "kernel": def.path(), "challenges": uses(&def.path()), "place": def.loc.to_string(), "knobs": knobs,
                "schedules": legal.map(|l| l.0), "estimated": legal.map(|l| !l.1), "points": space.points(),
                "identity": format!("{:016x}", kernel.identity()),
            }));
        } else {
            let legal = legal.map(|(n, exact)| format!("{:>7} / ", if exact { n.to_string() } else { format!("~{n}") }));
            println!("  {:<52} {}{:<7} {}", def.path(), legal.unwrap_or_default(), space.points(), knobs.join(" "));
        }
        if let Some(message) = wrong_first_choices(def) {
            eprintln!("{message}");
            wrong += 1;
        }
    }
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} kernels have first choices that are no schedule")) }
}
