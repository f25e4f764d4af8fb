//! What trials say of the knobs, as text.

use super::Tuning;
use super::knobs::{Effect, Effects, Interaction};
use super::text::Lines;
use super::units::plain;
use girih_core::schedule::Choice;

/// The part of a page that speaks of trials.
pub(super) fn tuning(out: &mut Lines, tuning: &Tuning) {
    let Tuning { effects, command, .. } = tuning;
    let stale = match tuning.of_other_code {
        0 => String::new(),
        n => format!("; {n} more are of code that girih makes no more"),
    };
    let Some(device) = tuning.device.as_ref().filter(|_| effects.tried > 0) else {
        let more = if tuning.of_other_code > 0 { stale } else { String::new() };
        out.item("trials", format!("none are stored for this launch{more}; `{command}` makes some"));
        return;
    };
    let verb = if tuning.predicted { "predicted for" } else { "measured on" };
    let device = device.trim_start_matches("simulated ");
    out.item("trials", format!("{} {verb} {device}, {} of them timed{stale}", effects.tried, effects.timed));
    if let Some(beside) = &tuning.beside {
        out.item("", format!("times are those of the whole program beside {beside}"));
    }
    if let Some((choices, us)) = &effects.best {
        let name = |(knob, choice): (&String, &Choice)| format!("{knob}={choice}");
        let schedule: Vec<String> = tuning.knobs.iter().zip(choices).map(name).collect();
        out.item("", format!("the fastest: {us:.2} us with {}", schedule.join(" ")));
    }
    effects.knobs.iter().for_each(|effect| knob(out, effect, &tuning.knobs));
    fixed(out, effects, &tuning.knobs);
    interaction(out, effects, &tuning.knobs);
    rejected(out, effects);
}

/// A knob's choices.
fn knob(out: &mut Lines, effect: &Effect, names: &[String]) {
    let name = &names[effect.knob];
    if effect.best.len() == effect.choices.len() {
        let choices: Vec<String> = effect.choices.iter().map(|c| c.choice.to_string()).collect();
        out.item(&format!("knob {name}"), format!("all of its choices are as good, at their best: {}", choices.join(", ")));
        return;
    }
    let best: Vec<String> = effect.best.iter().map(|choice| format!("{name}={choice}")).collect();
    let cost = plain(effect.cost);
    out.item(&format!("knob {name}"), format!("best {}; the worst choice costs {cost} x the time at its own best", best.join(" or ")));
    out.item("", format!("  {:<12} {:>6} {:>11} {:>11}  all else the same", "choice", "trials", "best us", "median us"));
    for choice in &effect.choices {
        let alone = match choice.alone {
            Some((ratio, 1)) => format!("{} x in 1 pair", plain(ratio)),
            Some((ratio, pairs)) => format!("{} x in {pairs} pairs", plain(ratio)),
            None if effect.best.first() == Some(&choice.choice) => "1 x, the best".to_string(),
            None => "no pair".to_string(),
        };
        let text = choice.choice.to_string();
        out.item("", format!("  {text:<12} {:>6} {:>11.2} {:>11.2}  {alone}", choice.trials.len(), choice.best_us, choice.median_us));
    }
}

/// Knobs of which nothing can be said.
fn fixed(out: &mut Lines, effects: &Effects, names: &[String]) {
    let all: Vec<String> = effects.fixed.iter().map(|(knob, choice)| format!("{}={choice}", names[*knob])).collect();
    if !all.is_empty() {
        out.item("", format!("at one choice in all timed trials: {}", all.join(", ")));
    }
}

fn interaction(out: &mut Lines, effects: &Effects, names: &[String]) {
    if effects.knobs.len() < 2 {
        return;
    }
    let text = match &effects.interaction {
        Some(Interaction { knobs: [first, second], step: [from, to], at: [one, other], ratios, fours }) => {
            let (first, second, [at_one, at_other]) = (&names[*first], &names[*second], ratios.map(plain));
            format!(
                "{first} and {second} depend on each other the most: from {first}={from} to {first}={to} the time is {at_one} x with \
                 {second}={one}, {at_other} x with {second}={other} ({fours} fours of trials that differ in these two alone)"
            )
        }
        None if effects.fours == 0 => "not known: no four trials differ in two knobs alone".to_string(),
        None => format!(
            "none: in {} fours of trials that differ in two knobs alone, a step of one does the same whatever the other",
            effects.fours
        ),
    };
    out.item("interaction", text);
}

fn rejected(out: &mut Lines, effects: &Effects) {
    let mut name = "no time";
    for rejected in &effects.rejected {
        let reason = if rejected.reason.is_empty() { String::new() } else { format!(": {}", rejected.reason) };
        out.item(name, format!("{} {}{reason}", rejected.count, rejected.status.name()));
        name = "";
    }
    if effects.flawed > 0 {
        out.item("", format!("{} timed ones are not what was meant (spills or missing instructions)", effects.flawed));
    }
}
