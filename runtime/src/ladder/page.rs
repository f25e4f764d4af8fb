//! A climbed ladder as a page of the guide, in Markdown: what a reader without the program sees.

use super::climb::{Climbed, Step};
use super::text::kind_of_times;
use std::fmt::Write;

/// Lines of a function that a page shows; longer ones are left to the terminal.
const MOST_LINES: usize = 70;

/// The page: a table of all rungs, then each with its paragraph and its CUDA C.
pub fn page(climbed: &Climbed, device: &str) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes all text");
    let ladder = &climbed.ladder;
    line(format!("# {}, rung by rung\n", ladder.title));
    line(format!("What `autotune ladder {}` prints at {} for {device}: {}.", ladder.name, climbed.sizes, kind_of_times(climbed)));
    line("The page is generated, and a test holds it against what girih writes now.\n".into());
    line("| rung | us | x the rung before | schedule |\n|---|--:|--:|---|".into());
    for (number, step, before) in numbered(climbed) {
        let faster = before.map_or(String::new(), |b| format!("{:.2}", step.faster(b)));
        line(format!("| {number}. {} | {:.2} | {faster} | `{}` |", step.title, step.us(), step.schedules.join("; ")));
    }
    for (number, step, before) in numbered(climbed) {
        line(format!("\n## {number}. {}\n", step.title));
        line(step.paragraph.clone());
        if let Some(why) = step.slower.filter(|_| before.is_some_and(|b| step.us() > b.us())) {
            line(why.to_string());
        }
        for side in &step.sides {
            line(format!("\n`{}` with `{}`:\n", side.site, side.schedule));
            let source = function(&side.source);
            match source.lines().count() {
                lines if lines <= MOST_LINES => line(format!("```cuda\n{source}\n```")),
                lines => line(format!("{lines} lines of CUDA C, which `autotune ladder {} --cuda` prints.", ladder.name)),
            }
        }
    }
    out
}

/// The page that leads to the others: a line for each ladder.
pub fn index(all: &[Climbed], device: &str) -> String {
    let mut out = String::from("# Techniques, rung by rung\n\n");
    out += "A ladder leads from what a learner writes first to the best that girih makes of it: `autotune ladder NAME` climbs it, on the GPU \
            at hand or, without one, as the model has it.\n";
    out += "Rungs are data beside the kernels (`girih::ladder!`), and everything below is generated.\n\n";
    writeln!(out, "| ladder | rungs | the lowest, us | the best, us |\n|---|--:|--:|--:|").expect("a String takes all text");
    for climbed in all {
        let us: Vec<f64> = climbed.steps().map(Step::us).collect();
        let (first, best) = (us.first().copied().unwrap_or(f64::NAN), us.iter().copied().fold(f64::NAN, f64::min));
        let ladder = &climbed.ladder;
        writeln!(out, "| [{}]({}.md) | {} | {first:.2} | {best:.2} |", ladder.title, ladder.name, us.len())
            .expect("a String takes all text");
    }
    out + &format!("\nTimes are those of the model for {device}, at the sizes that each page names.\n")
}

/// The kernels of a text, without its head and its helpers.
fn function(source: &str) -> &str {
    source.find("extern \"C\"").map_or(source, |at| &source[at..]).trim_end()
}

/// The rungs that are there with their numbers and the rung before.
fn numbered(climbed: &Climbed) -> Vec<(usize, &Step, Option<&Step>)> {
    let mut before = None;
    let mut all = Vec::new();
    for (number, outcome) in climbed.rungs.iter().enumerate() {
        let Ok(step) = &outcome.step else { continue };
        all.push((number + 1, step, before));
        before = Some(step);
    }
    all
}
