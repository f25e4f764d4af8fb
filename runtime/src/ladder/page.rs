//! A climbed ladder as a page of the guide, in Markdown: what a reader without the program sees.

use super::climb::{Climbed, Step};
use super::text::kind_of_times;
use super::verdict::{Compared, Times, Verdict};
use std::fmt::Write;

/// Lines of a function that a page shows at once; longer ones are folded.
const MOST_LINES: usize = 70;

/// Microseconds that a log of a GPU has of a ladder's rung, by their titles.
pub type Logged<'l> = &'l dyn Fn(&str, &str) -> Option<f64>;

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
        let times = |step: &Step| Some(Times { measured: us(step)?, predicted: step.us() });
        let compared = times(step).map(|now| Compared { now, before: before.and_then(times) });
        line_by_line(step, before, compared.as_ref()).into_iter().for_each(&mut line);
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

/// What was measured of a rung, the model's reasons where they are right, and the author's word where it is slower or they are wrong.
fn line_by_line(step: &Step, before: Option<&Step>, compared: Option<&Compared>) -> Vec<String> {
    let mut lines: Vec<String> = compared.map(told).into_iter().collect();
    let verdict = compared.map_or(Verdict::Right, Compared::verdict);
    match compared.filter(|_| verdict != Verdict::Right) {
        Some(compared) => lines.push(without_reasons(compared)),
        None => lines.push(format!("By the model: {}", step.paragraph)),
    }
    let slower = compared.map_or(before.is_some_and(|b| step.us() > b.us()), |c| c.faster().is_some_and(|faster| faster < 1.0));
    let word = step.found.or(step.slower.filter(|_| slower));
    lines.extend(word.filter(|_| slower || verdict == Verdict::Wrong).map(String::from));
    lines
}

/// What was measured of a rung.
fn told(compared: &Compared) -> String {
    let us = compared.now.measured;
    let Some(faster) = compared.faster() else { return format!("Measured: {us:.2} us.") };
    let step = match faster {
        faster if faster >= 1.005 => format!("{faster:.2} times as fast as the rung before"),
        slower if slower < 0.995 => format!("{:.2} times as slow as the rung before", 1.0 / slower),
        _ => "as fast as the rung before".to_string(),
    };
    format!("Measured: {us:.2} us, {step}.")
}

/// What stands in the place of a wrong model's reasons.
fn without_reasons(compared: &Compared) -> String {
    let about = match compared.verdict() {
        Verdict::WrongBefore => "the rung before",
        _ => "this rung",
    };
    let has = match compared.expected() {
        Some(expected) => format!("{expected:.2} times the speed of the rung before"),
        None => format!("{:.2} us", compared.now.predicted),
    };
    format!("The model is wrong about {about}: it has {has}. So its reasons are left out.")
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
        let times = |(measured, predicted)| Times { measured, predicted };
        let of = |now, before: Option<_>| Compared { now: times(now), before: before.map(times) };
        assert_eq!(told(&of((10.0, 10.0), Some((20.0, 19.0)))), "Measured: 10.00 us, 2.00 times as fast as the rung before.");
        assert_eq!(told(&of((20.0, 20.0), Some((10.0, 10.0)))), "Measured: 20.00 us, 2.00 times as slow as the rung before.");
        assert_eq!(told(&of((10.0, 10.0), Some((10.0, 10.0)))), "Measured: 10.00 us, as fast as the rung before.");
        let lowest = of((484.0, 13.5), None);
        assert_eq!(told(&lowest), "Measured: 484.00 us.");
        assert_eq!(without_reasons(&lowest), "The model is wrong about this rung: it has 13.50 us. So its reasons are left out.");
        let second =
            "The model is wrong about the rung before: it has 0.57 times the speed of the rung before. So its reasons are left out.";
        assert_eq!(without_reasons(&of((34.0, 23.77), Some((484.0, 13.5)))), second);
    }
}
