//! The schedules of a subject: what is known for its program as a whole, and for each of its launch sites.

use crate::launch::program_schedule::{FACTS, Joint, identity, is_joint};
use crate::launch::schedule_lookup::{self, Known, Origin};
use crate::store::{Store, TrialKey};
use crate::subject::{Call, Subject};
use crate::tune::launches::{Launch, promised};
use girih_core::facts::Facts;
use girih_core::lengths::Lengths;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::BTreeSet;
use std::sync::Mutex;

impl Joint {
    /// The schedule of a subject whose variants are chosen.
    pub fn of(subject: &Subject, schedules: &[String]) -> Joint {
        let variants = subject.source.variants.iter().cloned().zip(subject.variants.iter().copied()).collect();
        let sites = subject.program.site_names().into_iter().zip(schedules.iter().cloned()).collect();
        Joint { variants, sites, ..Joint::default() }
    }
}

/// Under what a program's schedules for a call are stored.
pub fn key(subject: &Subject, call: &Call, device: &str, target: &Target) -> TrialKey {
    TrialKey {
        kernel: subject.source.path.clone(),
        identity: identity(&subject.source),
        facts: FACTS.to_string(),
        lengths: Some(call.lengths()),
        sizes: call.sizes.to_string(),
        device: device.to_string(),
        arch: target.arch.to_string(),
    }
}

/// The best schedule known for a program called with arguments of these lengths, without which it is one for the longest: of the
/// store's for a device and the committed winners' the nearest. It is a proposal: each site's schedule is to be proved legal for its launch.
/// What was measured on this architecture and can't be used any more is told once.
pub fn best(subject: &Subject, lengths: Option<&Lengths>, target: &Target, store: Option<(&Store, &str)>) -> Option<(Joint, Subject)> {
    if !is_joint(&subject.source) {
        return None;
    }
    let known = schedule_lookup::of_program(&subject.source, lengths, target, store);
    known.iter().find_map(|known| {
        let predicted = known.origin == Origin::Predicted;
        let usable = Joint::parse(&known.text).and_then(|joint| Ok((joint.variants_on(&subject.source, target)?, joint)));
        match usable {
            Ok((chosen, joint)) => {
                known.tell(&subject.source.path);
                Some((Joint { predicted, distance: known.distance, ..joint }, subject.with_variants(&chosen)))
            }
            Err(reason) => {
                if known.distance.is_finite() {
                    tell_of_unused(&subject.name, known, &reason);
                }
                None
            }
        }
    })
}

/// Tells, once for each, of a program's schedule that was measured on this architecture and is not used.
fn tell_of_unused(name: &str, known: &Known, reason: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let told = format!(
        "{name}: what was measured on this architecture ({}) is not used: {reason}\n  schedule: {}",
        known.origin.name(),
        known.text
    );
    if let Ok(mut all) = TOLD.lock()
        && all.insert(told.clone())
    {
        eprintln!("{told}\n  help: tune it again, `autotune tune {name}`");
    }
}

/// A schedule for each launch site of a subject, with where it came from: the program's own where it is legal and no schedule of the kernel was
/// measured for launches nearer to what a call launches, else the kernel's.
///
/// # Errors
/// A kernel that is wrong, or has no legal schedule here.
pub fn schedules(
    subject: &Subject,
    joint: Option<&Joint>,
    target: &Target,
    store: Option<(&Store, &str)>,
    launches: &[Launch],
) -> Result<Vec<(Schedule, Kernel, &'static str)>, String> {
    let names = subject.program.site_names();
    let mut all = Vec::new();
    for (site, def) in subject.program.sites().iter().enumerate() {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        let (facts, lengths) = promised(launches, site, &kernel);
        let legal = |s: &Schedule| girih_core::lower::check(&kernel, &facts, s, target).is_ok();
        let own = joint.and_then(|j| Some((j.schedule(&names[site], &kernel).filter(|s| legal(s))?, j)));
        let nearer = own
            .as_ref()
            .filter(|(_, j)| j.distance > 0.0)
            .and_then(|(_, joint)| schedule_lookup::nearer((&kernel, &facts), lengths.as_ref(), target, store, joint.distance, legal));
        let (schedule, origin) = match (nearer, own) {
            (Some((schedule, origin)), _) => (schedule, origin.name()),
            (None, Some((schedule, joint))) => (schedule, joint.origin()),
            (None, None) => {
                let chosen = schedule_lookup::choose(&kernel, &facts, lengths.as_ref(), target, store, legal);
                let (schedule, origin) = chosen.ok_or_else(|| no_schedule(&kernel, &facts, target))?;
                (schedule, origin.name())
            }
        };
        all.push((schedule, kernel, origin));
    }
    Ok(all)
}

/// Why a kernel cannot be launched: the rule that its naive schedule breaks, or the fault of the compiler that shows in it.
fn no_schedule(kernel: &Kernel, facts: &Facts, target: &Target) -> String {
    let why = Space::new(kernel, facts, target).naive().err().map_or(String::new(), |e| format!(": {e}"));
    format!("kernel `{}` has no legal schedule on {}{why}", kernel.name, target.name)
}

/// `softmax`, or `softmax (row in registers=no)` where its program has variants.
pub fn way_name(subject: &Subject) -> String {
    let joint = Joint { sites: Vec::new(), ..Joint::of(subject, &[]) };
    if joint.variants.is_empty() { subject.name.clone() } else { format!("{} ({joint})", subject.name) }
}
