//! Climbing: the numbers of every rung, and its time: measured on a GPU beside the rung before, predicted without one.

use super::paragraph::{Told, paragraph};
use super::timed::{Measured, timed};
use super::{At, Ladder, Rung};
use crate::device::Device;
use crate::explain::difference::{Side, sides};
use crate::explain::gather::Options;
use crate::measure::floor::{Floor, floor};
use crate::measure::timing::L2;
use crate::subject::challenge::Sizes;
use crate::tune::floor::{Basis, Predicted};

/// A rung with all that is known of it.
pub struct Step {
    /// What it does otherwise than the rung before.
    pub title: &'static str,
    /// The schedule of each launch site, with the site's name where there are several.
    pub schedules: Vec<String>,
    /// The launch sites with their CUDA C and their numbers.
    pub sides: Vec<Side>,
    /// The time of a call as the model has it.
    pub predicted: Predicted,
    /// As a GPU has it, or why it has none; nothing without a GPU.
    pub measured: Option<Result<Measured, String>>,
    /// What changed, by the counters.
    pub paragraph: String,
    /// Why the model may say that it is slower than the rung before.
    pub slower: Option<&'static str>,
    /// What a GPU finds that the model does not know.
    pub found: Option<&'static str>,
}

/// A rung, or why there is none here.
pub struct Outcome {
    /// The rung's title.
    pub title: &'static str,
    /// What came of it.
    pub step: Result<Step, String>,
}

/// All rungs of a ladder at one size.
pub struct Climbed {
    /// The ladder.
    pub ladder: Ladder,
    /// The sizes.
    pub sizes: Sizes,
    /// The least time of a call.
    pub floor: Floor,
    /// From the bottom.
    pub rungs: Vec<Outcome>,
}

impl Step {
    /// Microseconds: measured ones where there are some.
    pub fn us(&self) -> f64 {
        self.gpu().map_or(self.predicted.us, |m| m.us)
    }

    /// How many times faster than the rung before it is: on a GPU the median of rounds in which both ran.
    pub fn faster(&self, before: &Step) -> f64 {
        self.gpu().and_then(|m| m.faster).unwrap_or_else(|| before.us() / self.us())
    }

    pub(super) fn gpu(&self) -> Option<&Measured> {
        self.measured.as_ref()?.as_ref().ok()
    }

    fn told(&self) -> Told<'_> {
        Told { sides: &self.sides, predicted_us: self.predicted.us, measured_us: self.gpu().map(|m| m.us) }
    }
}

impl Climbed {
    /// The rungs that are there, from the bottom.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.rungs.iter().filter_map(|outcome| outcome.step.as_ref().ok())
    }
}

/// Climbs a ladder; on a GPU each rung is timed so many rounds. A rung that is not legal for the target says so in its place.
///
/// # Errors
/// Sizes that do not fit; no rung is legal; the GPU cannot be used.
pub fn climb(ladder: &Ladder, asked: &Sizes, options: &Options, gpu: Option<(&Device, usize)>) -> Result<Climbed, String> {
    let placed: Vec<Result<At, String>> = ladder.rungs.iter().map(|rung| ladder.rung_at(rung, asked, options.target)).collect();
    let Some(first) = placed.iter().find_map(|at| at.as_ref().ok()) else {
        let why = placed.into_iter().find_map(Result::err).unwrap_or_else(|| "it has no rungs".into());
        return Err(ladder.named(&why));
    };
    let bytes = first.subject.compulsory_bytes(&first.subject.call(&first.sizes, 1)?);
    // All rungs do the same work; units that the lowest has no use for may do it faster.
    let floors = placed.iter().flatten().map(|at| floor(&at.subject, &at.sizes, bytes, options.target));
    let floor = floors.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).ok_or("it has no rungs")?;
    let sizes = first.sizes.clone();
    let mut times = match gpu {
        Some((device, rounds)) => timed(device, &placed.iter().map(|at| at.as_ref().ok()).collect::<Vec<_>>(), rounds, L2::Cold)?,
        None => placed.iter().map(|_| None).collect(),
    };
    let mut rungs: Vec<Outcome> = Vec::new();
    for ((rung, at), measured) in ladder.rungs.iter().zip(placed).zip(times.drain(..)) {
        let before = rungs.iter().rev().find_map(|o| o.step.as_ref().ok());
        let step = at.and_then(|at| step(rung, &at, options, measured, before, floor.seconds * 1e6));
        rungs.push(Outcome { title: rung.title, step });
    }
    Ok(Climbed { ladder: ladder.clone(), sizes, floor, rungs })
}

fn step(
    rung: &Rung,
    at: &At,
    options: &Options,
    measured: Option<Result<Measured, String>>,
    before: Option<&Step>,
    floor_us: f64,
) -> Result<Step, String> {
    let sides = sides(&at.subject, &at.sizes, &at.way, options)?;
    let us: f64 = sides.iter().map(|side| side.us).sum();
    let basis = sides.iter().map(|side| side.basis).max().unwrap_or(Basis::Static);
    let several = sides.len() > 1;
    let schedule = |side: &Side| if several { format!("{}: {}", side.site, side.schedule) } else { side.schedule.clone() };
    let mut step = Step {
        title: rung.title,
        schedules: sides.iter().map(schedule).collect(),
        sides,
        predicted: Predicted::at_least(us, basis, floor_us),
        measured,
        paragraph: String::new(),
        slower: rung.slower,
        found: rung.found,
    };
    step.paragraph = paragraph(before.map(Step::told).as_ref(), &step.told(), floor_us);
    Ok(step)
}
