//! The trials of a subject's launch sites one by one: those of the store, or of a recording.

use super::gather::{Options, at, command, is_of_this_code, launched, stored};
use super::knobs::{Effects, Point, effects};
use super::stored::each_once;
use crate::store::{Status, Trial};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::tune::recording::{Recording, Timed};
use girih_core::schedule::Schedule;
use girih_core::tile::Kernel;

/// The trials of one launch site that can be compared, the oldest first.
pub struct SiteTrials {
    /// The site's name; of a recording of a whole program the program's.
    pub site: String,
    /// Where they were made; nothing where there are none.
    pub device: Option<String>,
    /// The model made their times.
    pub predicted: bool,
    /// The trials, of code that girih makes now; one for each schedule.
    pub trials: Vec<Trial>,
    /// Names of the kernel's knobs, and what these trials say of them; nothing where a trial is a whole program's.
    pub effects: Option<(Vec<String>, Effects)>,
    /// How many rows of the store they come from, by girih's version, driver, NVRTC and clocks; of a recording nothing is known of these.
    pub made: Vec<(String, usize)>,
    /// The command that makes some.
    pub command: String,
}

/// Those of the store, for each site that a call launches.
///
/// # Errors
/// As [`super::gather::page`].
pub fn trials(subject: &Subject, sizes: &Sizes, way: &[(Schedule, &'static str)], options: &Options) -> Result<Vec<SiteTrials>, String> {
    let (found, _) = launched(subject, sizes, options)?;
    let site = |launch| {
        let at = at(subject, sizes, way, launch, options)?;
        let stored = stored(&at)?;
        let is_current = |t: &Trial| is_of_this_code(&at.kernel, &at.launch.facts, at.options.target, t);
        let (device, predicted) = (stored.as_ref().map(|s| s.device.clone()), stored.as_ref().is_some_and(|s| s.predicted));
        let made = stored.as_ref().map_or(Vec::new(), |s| s.made.clone());
        let trials: Vec<Trial> = stored.map_or(Vec::new(), |s| s.trials.into_iter().filter(is_current).collect());
        let effects = Some(of_knobs(&at.kernel, &trials));
        Ok(SiteTrials { site: at.site.clone(), device, predicted, trials, effects, made, command: command(&at) })
    };
    found.iter().map(site).collect()
}

/// Those of a recording: each is a schedule of the whole program.
pub fn recorded(subject: &Subject, recording: &Recording) -> Vec<SiteTrials> {
    let one_site = subject.source.sites().len() == 1;
    let trial = |timed: &Timed| Trial {
        schedule: if one_site { timed.joint.sites.iter().map(|(_, s)| s.clone()).collect() } else { timed.joint.to_string() },
        status: Status::Measured,
        reason: String::new(),
        median_us: Some(timed.us),
        samples_us: Vec::new(),
        registers: timed.resources.first().map(|(registers, _)| *registers).filter(|_| one_site),
        flaw: None,
        code: None,
    };
    let trials = each_once(recording.timed.iter().map(trial).collect());
    let kernel = subject.source.sites().into_iter().next().filter(|_| one_site).and_then(|def| (def.build)().ok());
    vec![SiteTrials {
        site: subject.name.clone(),
        device: Some(recording.device.clone()),
        predicted: false,
        effects: kernel.map(|kernel| of_knobs(&kernel, &trials)),
        trials,
        made: Vec::new(),
        command: format!("autotune record {}", subject.name),
    }]
}

/// The knobs of a kernel, and what trials say of them.
fn of_knobs(kernel: &Kernel, trials: &[Trial]) -> (Vec<String>, Effects) {
    let points: Vec<Point> = trials.iter().enumerate().filter_map(|(number, trial)| Point::of(kernel, number, trial)).collect();
    (kernel.knobs.iter().map(|k| k.name.clone()).collect(), effects(&points))
}
