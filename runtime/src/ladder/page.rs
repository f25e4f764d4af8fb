//! A climbed ladder as a page of the guide, in Markdown: what a reader without the program sees.

use super::climb::{Climbed, Step};
use super::text::kind_of_times;
use std::fmt::Write;

/// Lines of a function that a page shows at once; longer ones are folded.
const MOST_LINES: usize = 70;

/// Microseconds that a log of a GPU has of a ladder's rung, by their titles.
pub type Logged<'l> = &'l dyn Fn(&str, &str) -> Option<f64>;

/// By how much a step's measured and predicted ratios differ at most where the model is right about it.
const ALIKE: f64 = 1.8;
/// By how much two rungs differ at least where one is faster: runs of one kernel differ by about a percent.
const NOISE: f64 = 0.015;

/// The page: a table of all rungs, then each with its times, its paragraph and its CUDA C. What the log at `log` has was measured on the
/// device, the rest is the model's.
pub fn page(climbed: &Climbed, device: &str, (log, logged): (&str, Logged)) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes all text");
    let ladder = &climbed.ladder;
    let us = |step: &Step| logged(ladder.title, step.title);
    line(format!("# {}, rung by rung\n", ladder.title));
    line(format!("What `autotune ladder {}` prints at {} for {device}: {}.", ladder.name, climbed.sizes, kind_of_times(climbed)));
    line(format!("Beside it stands what was measured there ([log]({log}))."));
    line("The page is generated, and a test holds it against what girih writes now.\n".into());
    line("| rung | measured us | x the rung before | the model's us | x | schedule |\n|---|--:|--:|--:|--:|---|".into());
    for (number, step, before) in numbered(climbed) {
        let faster = before.map_or(String::new(), |b| format!("{:.2}", step.faster(b)));
        let of_log = us(step).map_or(String::new(), |us| format!("{us:.2}"));
        let measured = before.and_then(|b| Some(format!("{:.2}", us(b)? / us(step)?))).unwrap_or_default();
        line(format!(
            "| {number}. {} | {of_log} | {measured} | {:.2} | {faster} | `{}` |",
            step.title,
            step.us(),
            step.schedules.join("; ")
        ));
    }
    for (number, step, before) in numbered(climbed) {
        line(format!("\n## {number}. {}\n", step.title));
        let measured = before.and_then(|b| Some(us(b)? / us(step)?));
        if let Some(us) = us(step) {
            line(told(us, measured, before.map(|b| step.faster(b)), log));
        }
        line(format!("By the model: {}", step.paragraph));
        let slower = measured.map_or(before.is_some_and(|b| step.us() > b.us()), |faster| faster < 1.0);
        if let Some(why) = step.slower.filter(|_| slower) {
            line(why.to_string());
        }
        for side in &step.sides {
            line(format!("\n`{}` with `{}`:\n", side.site, side.schedule));
            let source = function(&side.source);
            let text = format!("```cuda\n{source}\n```");
            match source.lines().count() {
                lines if lines <= MOST_LINES => line(text),
                // The empty lines let Markdown into the element.
                lines => line(format!("<details>\n<summary>{lines} lines of CUDA C</summary>\n\n{text}\n\n</details>")),
            }
        }
    }
    out
}

/// What was measured of a rung, and whether the model knows why.
fn told(us: f64, measured: Option<f64>, predicted: Option<f64>, log: &str) -> String {
    let Some((measured, predicted)) = measured.zip(predicted) else { return format!("Measured: {us:.2} us.") };
    let step = match measured {
        faster if faster >= 1.005 => format!("{faster:.2} times as fast as the rung before"),
        slower if slower < 0.995 => format!("{:.2} times as slow as the rung before", 1.0 / slower),
        _ => "as fast as the rung before".to_string(),
    };
    let apart = (measured / predicted).max(predicted / measured);
    let other_way = (measured - 1.0) * (predicted - 1.0) < 0.0 && (measured - 1.0).abs() > NOISE && (predicted - 1.0).abs() > NOISE;
    let wrong = format!(" The model is wrong about this step ({predicted:.2} times): [the log]({log}) says what it does not know.");
    format!("Measured: {us:.2} us, {step}.{}", if apart > ALIKE || other_way { wrong } else { String::new() })
}

/// The page that leads to the others: a line for each ladder.
pub fn index(all: &[Climbed], device: &str, (log, logged): (&str, Logged)) -> String {
    let mut out = String::from("# Techniques, rung by rung\n\n");
    out += "A ladder leads from what a learner writes first to the best that girih makes of it: `autotune ladder NAME` climbs it, on the GPU \
            at hand or, without one, as the model has it.\n";
    out += "Rungs are data beside the kernels (`girih::ladder!`), and everything below is generated.\n\n";
    writeln!(out, "| ladder | rungs | the lowest, us | the best, us | the model's | |\n|---|--:|--:|--:|--:|--:|")
        .expect("a String takes all text");
    for climbed in all {
        let ladder = &climbed.ladder;
        let ends = |us: Vec<f64>| {
            let best = us.iter().copied().fold(f64::NAN, f64::min);
            us.first().map_or(" | ".to_string(), |first| format!("{first:.2} | {best:.2}"))
        };
        let model: Vec<f64> = climbed.steps().map(Step::us).collect();
        let measured = climbed.steps().filter_map(|step| logged(ladder.title, step.title)).collect();
        let (rungs, measured, model) = (model.len(), ends(measured), ends(model));
        writeln!(out, "| [{}]({}.md) | {rungs} | {measured} | {model} |", ladder.title, ladder.name).expect("a String takes all text");
    }
    out + &format!(
        "\nTimes were measured on {device} ([log]({log})), the last two are the model's for it, at the sizes that each page names.\n"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_wrong_about_a_step_is_told_of() {
        let said = |measured: f64, predicted: f64| told(10.0, Some(measured), Some(predicted), "log.md");
        assert_eq!(said(2.0, 1.9), "Measured: 10.00 us, 2.00 times as fast as the rung before.");
        assert_eq!(said(0.5, 0.6), "Measured: 10.00 us, 2.00 times as slow as the rung before.");
        assert_eq!(said(1.0, 1.001), "Measured: 10.00 us, as fast as the rung before.");
        let wrong = "The model is wrong about this step (0.64 times): [the log](log.md) says what it does not know.";
        assert!(said(14.3, 0.64).ends_with(wrong) && said(1.2, 0.64).ends_with(wrong), "{}", said(1.2, 0.64));
        assert!(said(204.0, 2.5).contains("wrong"));
        assert!(said(0.93, 1.04).contains("wrong") && !said(0.99, 1.04).contains("wrong") && !said(0.93, 0.99).contains("wrong"));
        assert_eq!(told(10.0, None, None, "log.md"), "Measured: 10.00 us.");
    }
}
