//! Whether the first choices of a kernel's knobs, which stand where nothing better is known, are a schedule at all.

use super::Space;
use girih_ir::error::Diagnostic;
use girih_ir::facts::Facts;
use girih_ir::schedule::Schedule;
use girih_ir::target::{TARGETS, Target};
use girih_ir::tile::Kernel;

/// What is wrong with the first choices: no GPU has a schedule of them, whatever launches promise, while other choices that are listed give
/// one. Nothing where they are legal somewhere (first choices may be for a certain GPU), or where nothing listed is legal.
pub fn illegal_first_choices(kernel: &Kernel) -> Option<Diagnostic> {
    let first = Schedule::default_of(kernel);
    let space = Space::of_some_launch(kernel, Target::h200());
    let error = space.check(&first).err()?;
    let none = Facts::none(kernel);
    let mut elsewhere = TARGETS.iter().flat_map(|t| [Space::of_some_launch(kernel, t), Space::new(kernel, &none, t)]);
    if elsewhere.any(|space| space.check(&first).is_ok()) {
        return None;
    }
    let (legal, what) = match one_knob_away(kernel, &space, &first) {
        Some((knob, legal)) => {
            let found = format!("{}={}", kernel.knobs[knob].name, legal.choices[knob]);
            (legal, format!("put `{found}` first: the first choices need not be the best ones, but together a schedule"))
        }
        None => {
            let legal = space.naive().ok()?;
            (legal, "reorder the choices so that the first ones fit each other".to_string())
        }
    };
    let message = format!(
        "the first choices of the knobs of {}, {}, are no schedule on any GPU: {} = {}: {}",
        kernel.full_name(),
        first.short(kernel),
        error.knob,
        error.found,
        error.rule
    );
    let help = format!("{what}; {} is legal", legal.short(kernel));
    Some(Diagnostic::new(error.loc.unwrap_or(kernel.loc), message).help(help).note("of this kernel", kernel.loc))
}

/// A legal schedule that differs from another one in a single knob, with that knob.
fn one_knob_away(kernel: &Kernel, space: &Space, from: &Schedule) -> Option<(usize, Schedule)> {
    let mut others = kernel.knobs.iter().enumerate().flat_map(|(at, knob)| {
        knob.choices.iter().skip(1).map(move |choice| {
            let mut other = from.clone();
            other.choices[at] = choice.clone();
            (at, other)
        })
    });
    others.find(|(_, schedule)| space.check(schedule).is_ok())
}
