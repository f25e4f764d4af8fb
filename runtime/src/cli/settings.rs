//! `--set` for whole programs, on top of a preset.

use super::show::{self, Preset};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::set::{self, Set};
use crate::tune::launches::AtPerf;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;

/// A subject with its variants chosen, and the schedule of each of its launch sites, with where it comes from.
pub type Way = (Subject, Vec<(Schedule, &'static str)>);

/// The way of a preset, with what a text sets.
///
/// # Errors
/// A variant, launch site or knob that there is not, with those there are; values that can't be read.
pub fn way(subject: &Subject, target: &Target, preset: Preset, set: Option<&str>) -> Result<Way, String> {
    way_at(subject, &Sizes::default(), None, target, preset, set)
}

/// The same at sizes, those of the challenge where none are asked for; of a program with variants one that has this launch site.
///
/// # Errors
/// As [`way`].
pub fn way_at(
    subject: &Subject,
    asked: &Sizes,
    only: Option<&str>,
    target: &Target,
    preset: Preset,
    set: Option<&str>,
) -> Result<Way, String> {
    let set = Set::read(subject, set)?;
    let (known, subject) = show::preset_program(subject, asked, target, preset);
    let subject = set.applied(&subject)?;
    let subject = match only {
        Some(site) => set::having(subject, site, set.chooses())?,
        None => subject,
    };
    let (names, at_perf) = (subject.program.site_names(), AtPerf::at(&subject, asked));
    // At sizes that are asked for it is what a call of them runs under.
    let launched =
        (preset == Preset::Best && !asked.0.is_empty()).then(|| show::as_launched(&subject, known.as_ref(), target, &at_perf.launches));
    let launched = launched.flatten();
    let mut schedules = Vec::new();
    for (site, (name, def)) in names.iter().zip(subject.program.sites()).enumerate() {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        let of_program = || known.as_ref().and_then(|j| Some((j.schedule(name, &kernel)?, j.origin())));
        let own = launched.as_ref().map(|all| all[site].clone()).or_else(of_program);
        // The best schedule is that of a launch at the challenge's own size.
        let at_own_size = at_perf.facts_of_site(site).filter(|_| preset == Preset::Best);
        let space = at_own_size.map_or_else(|| Space::of_some_launch(&kernel, target), |facts| Space::new(&kernel, facts, target));
        // Where one site is asked for, knobs that name no site are its own.
        let set = set.of_site(name).filter(|_| only.is_none_or(|only| only == name));
        let chosen = show::schedule(&space, at_perf.of_site(site), preset, set, own);
        schedules.push(chosen.map_err(|e| if names.len() > 1 { format!("{name}: {e}") } else { e })?);
    }
    Ok((subject, schedules))
}
