//! Explaining a schedule: what bounds it, what it occupies and moves, what its trials say of the knobs, and what to try next; and two schedules
//! beside each other.
//!
//! [`gather`](mod@gather) asks the counts at the true size, the model, NVRTC and the store, all of which others use, too. What is made of their numbers is
//! data to data: [`knobs`] (trials to effects), [`advice`] (a launch's numbers to what may help), [`difference`] (two schedules to what changed).
//! [`text`] is the page.

pub mod advice;
pub mod beside;
pub mod difference;
pub mod gather;
pub mod knobs;
pub mod numbers;
pub mod profiled;
mod stalls;
pub mod stored;
pub mod text;
pub mod trials;
mod tuning_text;
pub(crate) mod units;

use crate::measure::floor::Floor;
use crate::tune::floor::{Basis, Predicted};
use girih_core::target::Target;
use knobs::Effects;
use numbers::Numbers;

/// A subject under a schedule, explained.
#[derive(Clone, Debug)]
pub struct Page {
    /// The challenge's slug, or the kernel's path, with its variants.
    pub name: String,
    /// The sizes.
    pub sizes: String,
    /// The GPU that it is explained for.
    pub target: Target,
    /// The least time of a call.
    pub floor: Floor,
    /// The predicted time of a call; nothing where only one launch site was asked for.
    pub predicted: Option<Predicted>,
    /// The launch sites.
    pub sites: Vec<SitePage>,
    /// Launch sites that a call of these sizes does not reach.
    pub not_launched: Vec<String>,
}

/// A launch site under its schedule.
#[derive(Clone, Debug)]
pub struct SitePage {
    /// Its name in the program.
    pub site: String,
    /// The kernel's path.
    pub kernel: String,
    /// `T=1024 C=4 V=4`.
    pub schedule: String,
    /// Where it comes from.
    pub from: &'static str,
    /// How often a call launches it.
    pub count: usize,
    /// Predicted microseconds of all its launches, and how they came to be.
    pub us: f64,
    pub basis: Basis,
    /// Those of them that a call's first launch takes longer than others; 0 where another site begins the call.
    pub first_us: f64,
    /// Why its launches could not be counted.
    pub uncounted: Option<String>,
    /// Times that were measured of this schedule.
    pub measured: Vec<Measured>,
    /// The verdict on its cubin; nothing where there is none: its registers are a guess then.
    pub verdict: Option<String>,
    /// Its launches, one behind the other; none where there is nothing to do at these sizes.
    pub launches: Vec<Numbers>,
    /// What to try.
    pub tips: Vec<Tip>,
    /// What the store's trials say.
    pub tuning: Tuning,
}

/// A measured time.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Microseconds.
    pub us: f64,
    /// Where it is from, and of what it is.
    pub source: String,
}

/// Something to try, with what comes of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Tip {
    /// The rule that says so.
    pub rule: &'static str,
    /// What was found.
    pub why: String,
    /// What helps.
    pub attempts: Vec<Attempt>,
}

/// A schedule that differs in one knob.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// `a larger V`.
    pub words: String,
    /// `V=4`.
    pub setting: String,
    /// Predicted microseconds of the site, or why it is none; nothing where nobody was to predict.
    pub us: Option<Result<f64, String>>,
}

/// What trials there are, and what they say.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuning {
    /// Names of the knobs.
    pub knobs: Vec<String>,
    /// Where the trials are from; nothing where there are none.
    pub device: Option<String>,
    /// The model made their times.
    pub predicted: bool,
    /// What the other launch sites ran under, where times are those of a whole program.
    pub beside: Option<String>,
    /// Trials of code that girih makes no more: they say nothing.
    pub of_other_code: usize,
    /// What the others say.
    pub effects: Effects,
    /// The command that makes trials.
    pub command: String,
}
