//! A climbed ladder as text for a terminal.

use super::climb::{Climbed, Step};
use super::verdict::{Compared, Times, Verdict};
use std::fmt::Write;

/// Columns of a paragraph.
const WIDTH: usize = 100;

/// How its times came to be.
pub fn kind_of_times(climbed: &Climbed) -> &'static str {
    match climbed.steps().any(|step| step.measured.is_some()) {
        true => "medians of rounds in which every rung runs once, L2 flushed before each",
        false => "predicted by the model, not measured",
    }
}

/// The whole ladder; with the CUDA C of each rung if asked for.
pub fn text(climbed: &Climbed, device: &str, cuda: bool) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{}", text.trim_end()).expect("a String takes all text");
    line(format!("{} at {}, {device}: {}", climbed.ladder.title, climbed.sizes, kind_of_times(climbed)));
    let mut before: Option<&Step> = None;
    for (number, outcome) in climbed.rungs.iter().enumerate() {
        line(String::new());
        line(format!("{}. {}", number + 1, outcome.title));
        let step = match &outcome.step {
            Ok(step) => step,
            Err(why) => {
                line(format!("   no such rung here: {why}"));
                continue;
            }
        };
        line(format!("   {}", times(step, before)));
        step.schedules.iter().for_each(|schedule| line(format!("   {schedule}")));
        wrapped(&step.paragraph).into_iter().for_each(|part| line(format!("   {part}")));
        let times = |step: &Step| Some(Times { measured: step.gpu()?.us, predicted: step.predicted.us });
        let compared = times(step).map(|now| Compared { now, before: before.and_then(times) });
        if let Some(why) = step.found.filter(|_| compared.is_some_and(|c| c.is_slower() || c.verdict() == Verdict::Wrong)) {
            wrapped(why).into_iter().for_each(|part| line(format!("   {part}")));
        }
        if let Some(why) = step.slower.filter(|_| before.is_some_and(|b| step.us() > b.us())) {
            wrapped(why).into_iter().for_each(|part| line(format!("   {part}")));
        }
        if cuda {
            step.sides.iter().for_each(|side| line(format!("\n{}", side.source.trim_end())));
        }
        before = Some(step);
    }
    out
}

/// `43.00 us predicted, 1.65 x as fast as the rung before`.
pub fn times(step: &Step, before: Option<&Step>) -> String {
    let us = match &step.measured {
        Some(Ok(measured)) => format!("{:.2} us (the model: {:.2} us)", measured.us, step.predicted.us),
        Some(Err(why)) => format!("failed: {why}; {:.2} us predicted", step.predicted.us),
        None => format!("{:.2} us predicted", step.predicted.us),
    };
    let faster = before.map_or(String::new(), |before| format!(", {:.2} x as fast as the rung before", step.faster(before)));
    let remark = step.predicted.remark().filter(|_| step.measured.is_none()).map_or(String::new(), |remark| format!(" ({remark})"));
    format!("{us}{faster}{remark}")
}

/// A paragraph in lines.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one from the beginning");
        if !last.is_empty() && last.chars().count() + word.chars().count() >= WIDTH {
            lines.push(word.to_string());
        } else {
            let gap = if last.is_empty() { "" } else { " " };
            last.push_str(&format!("{gap}{word}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        let text = "word ".repeat(60);
        let lines = wrapped(&text);
        assert!(lines.len() > 2 && lines.iter().all(|l| l.len() <= WIDTH && !l.ends_with(' ')), "{lines:?}");
        assert_eq!(lines.join(" "), text.trim_end());
    }
}
