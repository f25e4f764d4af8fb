//! What to try next: rules that follow from a launch's numbers, each naming knobs that the kernel has.
//!
//! A rule says what it found, with numbers, and in which direction knobs help. It proposes; whether a schedule is legal, and what the model
//! gives it, whoever asks finds out.

mod rules;

use super::numbers::Numbers;
use girih_core::schedule::{Choice, KnobKind};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use rules::{Case, RULES, Rule, is_guess};

/// A knob with what the author listed and what the schedule has.
#[derive(Clone, PartialEq, Debug)]
pub struct KnobNow {
    /// `V`.
    pub name: String,
    /// What it decides.
    pub kind: KnobKind,
    /// The author's choices.
    pub choices: Vec<Choice>,
    /// The schedule's.
    pub now: Choice,
}

/// The knobs of a kernel under a schedule.
pub fn knobs_now(kernel: &Kernel, choices: &[Choice]) -> Vec<KnobNow> {
    let of = |(knob, now): (&girih_core::schedule::Knob, &Choice)| KnobNow {
        name: knob.name.clone(),
        kind: knob.kind,
        choices: knob.choices.clone(),
        now: now.clone(),
    };
    kernel.knobs.iter().zip(choices).map(of).collect()
}

/// Something to try.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// The rule's name.
    pub rule: &'static str,
    /// What was found, and why it matters.
    pub why: String,
    /// What helps; never empty.
    pub changes: Vec<Change>,
}

/// A knob that helps, and its choices in that direction, the nearest first; never empty.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The knob's number.
    pub knob: usize,
    /// `a larger T`, `another P`.
    pub words: String,
    /// What to set it to.
    pub choices: Vec<Choice>,
}

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum To {
    /// To larger numbers.
    Up,
    /// To smaller ones.
    Down,
    /// To one of these words, or numbers.
    Words(&'static [&'static str]),
}

/// A kind of knob, by its group in the attribute, and a direction.
type Help = (&'static str, To);

/// What to try with a launch of a kernel that has these knobs, the weightiest first; what follows from guessed registers comes last.
pub fn advice(numbers: &Numbers, knobs: &[KnobNow], target: &Target) -> Vec<Advice> {
    let case = Case { numbers, counts: numbers.counts.as_ref(), target };
    let of = |(rule, find): &Rule| {
        let (why, help) = find(&case)?;
        let changes: Vec<Change> = help.iter().flat_map(|(group, to)| changes(group, *to, knobs)).collect();
        (!changes.is_empty()).then_some(Advice { rule, why, changes })
    };
    let mut all: Vec<Advice> = RULES.iter().filter_map(of).collect();
    all.sort_by_key(|advice| is_guess(advice.rule, numbers));
    all
}

/// The knobs of a group that have a choice in a direction.
fn changes(group: &str, to: To, knobs: &[KnobNow]) -> Vec<Change> {
    let of = |(number, knob): (usize, &KnobNow)| {
        let mut choices: Vec<Choice> = knob.choices.iter().filter(|c| **c != knob.now && lies(c, &knob.now, to)).cloned().collect();
        choices.sort();
        if to == To::Down {
            choices.reverse();
        }
        let name = &knob.name;
        let words = match to {
            To::Up => format!("a larger {name}"),
            To::Down => format!("a smaller {name}"),
            To::Words(_) => format!("another {name}"),
        };
        (!choices.is_empty()).then_some(Change { knob: number, words, choices })
    };
    knobs.iter().enumerate().filter(|(_, k)| k.kind.group() == group).filter_map(of).collect()
}

fn lies(choice: &Choice, now: &Choice, to: To) -> bool {
    match (choice, now, to) {
        (Choice::Int(a), Choice::Int(b), To::Up) => a > b,
        (Choice::Int(a), Choice::Int(b), To::Down) => a < b,
        (choice, _, To::Words(words)) => words.contains(&choice.to_string().as_str()),
        (Choice::Word(_), _, _) | (_, Choice::Word(_), _) => false,
    }
}

#[cfg(test)]
mod tests;
