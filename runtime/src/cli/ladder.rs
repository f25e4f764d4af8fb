//! `ladder`: a technique from the naive kernel to the best one, each rung beside the one before.

use super::explain::{Of, numbers_json};
use super::print_json;
use crate::ladder::climb::{Climbed, Step, climb};
use crate::ladder::{Ladder, ladder, ladders, text};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub struct Args {
    /// A ladder; without, those there are.
    name: Option<String>,
    #[command(flatten)]
    of: Of,
    /// With the CUDA C of every rung.
    #[arg(long)]
    cuda: bool,
    /// On a GPU: rounds in which every rung is timed once.
    #[arg(long, default_value_t = 20, value_name = "N")]
    rounds: usize,
    /// Predict, though there is a GPU.
    #[arg(long)]
    predict: bool,
    /// One JSON object per rung.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let Some(name) = &args.name else {
        ladders().iter().for_each(|ladder| tell(ladder, args.json));
        return Ok(());
    };
    let ladder = ladder(name)?;
    let setting = args.of.setting()?;
    let gpu = setting.gpu(args.predict)?;
    let climbed = climb(&ladder, &setting.sizes, &setting.options(None, false), gpu.as_ref().map(|gpu| (gpu, args.rounds)))?;
    let shown = gpu.as_ref().map_or_else(|| setting.target.name.to_string(), crate::Device::name);
    if args.json {
        print_all(&climbed, &shown);
    } else {
        print!("{}", text::text(&climbed, &shown, args.cuda));
    }
    Ok(())
}

fn tell(ladder: &Ladder, json: bool) {
    if json {
        let rungs: Vec<&str> = ladder.rungs.iter().map(|rung| rung.title).collect();
        print_json(&json!({ "name": ladder.name, "title": ladder.title, "challenge": ladder.challenge, "rungs": rungs }));
    } else {
        println!("{:<24} {:>2} rungs  {}", ladder.name, ladder.rungs.len(), ladder.title);
    }
}

fn print_all(climbed: &Climbed, device: &str) {
    let mut before: Option<&Step> = None;
    for (number, outcome) in climbed.rungs.iter().enumerate() {
        let step = match &outcome.step {
            Ok(step) => step_json(step, before),
            Err(why) => json!({ "failure": why }),
        };
        before = outcome.step.as_ref().ok().or(before);
        print_json(&json!({
            "ladder": climbed.ladder.name, "sizes": climbed.sizes.to_string(), "device": device, "rung": number + 1,
            "title": outcome.title, "floor_us": climbed.floor.seconds * 1e6, "step": step,
        }));
    }
}

fn step_json(step: &Step, before: Option<&Step>) -> Value {
    let measured = step.measured.as_ref();
    let sites = step.sides.iter().map(|side| {
        json!({ "site": side.site, "schedule": side.schedule, "cuda": side.source,
            "numbers": side.launches.iter().map(numbers_json).collect::<Vec<_>>() })
    });
    json!({
        "predicted_us": step.predicted.us, "basis": step.predicted.basis.name(),
        "measured_us": measured.and_then(|m| m.as_ref().ok()).map(|m| m.us), "failure": measured.and_then(|m| m.as_ref().err()),
        "faster": before.map(|before| step.faster(before)), "paragraph": step.paragraph, "sites": sites.collect::<Vec<_>>(),
    })
}
