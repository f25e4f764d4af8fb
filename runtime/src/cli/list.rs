//! `list`: challenges and kernels with the size of their spaces.

use super::{names, print_json};
use crate::challenge::challenges;
use crate::subject::Subject;
use girih_core::facts::Facts;
use girih_core::registry::{KernelDef, kernels};
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use serde_json::json;

/// Points of a space that are looked at; of larger ones the number of schedules is an estimate.
const ESTIMATED: u64 = 128;

#[derive(clap::Args)]
pub struct Args {
    /// One JSON object per challenge and kernel.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let (challenges, kernels) = (challenges(), kernels());
    if challenges.is_empty() && kernels.is_empty() {
        return Err(names::EMPTY.into());
    }
    let uses = |def: &KernelDef| -> Vec<&'static str> {
        let used = |c: &&crate::challenge::Challenge| {
            Subject::of_challenge(c).is_ok_and(|s| s.program.sites().iter().any(|d| d.path() == def.path()))
        };
        challenges.iter().filter(used).map(|c| c.slug).collect()
    };
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
        println!("kernels (schedules legal on an {} / listed; ~ estimated)", Target::h200().name);
    }
    for def in &kernels {
        let kernel = match (def.build)() {
            Ok(kernel) => kernel,
            Err(e) => {
                println!("  {}: {e}", def.path());
                continue;
            }
        };
        let facts = Facts::best(&kernel);
        let space = Space::new(&kernel, &facts, Target::h200());
        let knobs: Vec<String> = kernel.knobs.iter().map(|k| format!("{}({})", k.kind.group(), k.name)).collect();
        if args.json {
            let (size, points) = (space.estimate(ESTIMATED), space.points());
            print_json(&json!({
                "kernel": def.path(), "challenges": uses(def), "place": def.loc.to_string(), "knobs": knobs,
                "schedules": size.0, "estimated": !size.1, "points": points, "identity": format!("{:016x}", kernel.identity()),
            }));
        } else {
            let (size, exact) = space.estimate(ESTIMATED);
            let size = if exact { size.to_string() } else { format!("~{size}") };
            println!("  {:<52} {:>7} / {:<7} {}", def.path(), size, space.points(), knobs.join(" "));
        }
    }
    Ok(())
}
