//! `--set` for whole programs: knobs of every launch, or variants and launch sites by name.
//!
//! `T=1024,V=4` is set at every launch; `row in registers=no; stats: T=1024,C=4` chooses a variant and sets the knobs of one launch site.
//! What is not named stays as the preset has it.

use super::show::{self, Preset};
use crate::launch::program_schedule::Joint;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::schedules;
use crate::tune::launches::AtPerf;
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::target::Target;

/// A subject with its variants chosen, and the schedule of each of its launch sites, with where it comes from.
pub type Way = (Subject, Vec<(Schedule, &'static str)>);

/// What `--set` says.
pub struct Set<'a> {
    /// Knobs of every launch; nothing where launch sites or variants are named.
    knobs: Option<&'a str>,
    named: Joint,
}

impl<'a> Set<'a> {
    /// Reads a text for a subject.
    ///
    /// # Errors
    /// The part that is neither a variant nor a site's schedule.
    pub fn read(subject: &Subject, text: Option<&'a str>) -> Result<Set<'a>, String> {
        match text.filter(|text| names_sites(subject, text)) {
            Some(text) => Ok(Set { knobs: None, named: Joint::parse(text)? }),
            None => Ok(Set { knobs: text, named: Joint::default() }),
        }
    }

    /// Whether variants are named.
    pub fn chooses(&self) -> bool {
        !self.named.variants.is_empty()
    }

    /// The subject with the variants that are named; the others stay as they are.
    ///
    /// # Errors
    /// A variant or launch site that there is not, with those there are.
    pub fn applied(&self, subject: &Subject) -> Result<Subject, String> {
        let subject = with_variants(subject, &self.named)?;
        self.named.sites.iter().try_for_each(|(name, _)| is_site(&subject, name))?;
        Ok(subject)
    }

    /// The knobs that are set at a launch site.
    pub fn of_site(&self, site: &str) -> Option<&str> {
        let own = self.named.sites.iter().find(|(name, _)| name == site);
        own.map(|(_, text)| text.as_str()).or(self.knobs)
    }
}

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
        Some(site) => having(subject, site, set.chooses())?,
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
        let at_own_size = at_perf.facts_of_site(site).filter(|_| preset == Preset::Best).cloned();
        let facts = at_own_size.unwrap_or_else(|| Facts::best(&kernel));
        // Where one site is asked for, knobs that name no site are its own.
        let set = set.of_site(name).filter(|_| only.is_none_or(|only| only == name));
        let chosen = show::schedule(&kernel, &facts, at_perf.of_site(site), target, preset, set, own);
        schedules.push(chosen.map_err(|e| if names.len() > 1 { format!("{name}: {e}") } else { e })?);
    }
    Ok((subject, schedules))
}

/// A subject, or where its variants do without a launch site and nobody has chosen them, the first of its ways that has it.
///
/// # Errors
/// There is no such site, with those there are.
pub fn having(subject: Subject, site: &str, chosen: bool) -> Result<Subject, String> {
    let Err(none) = is_site(&subject, site) else { return Ok(subject) };
    let with = subject.ways().into_iter().find(|w| w.program.site_names().iter().any(|name| name == site));
    with.filter(|_| !chosen).ok_or(none)
}

/// Whether a text names variants or launch sites.
fn names_sites(subject: &Subject, text: &str) -> bool {
    let variant = |name: &str| subject.source.variants.iter().any(|v| v == name.trim());
    text.contains([':', ';']) || text.split_once('=').is_some_and(|(name, _)| variant(name))
}

fn with_variants(subject: &Subject, named: &Joint) -> Result<Subject, String> {
    let mut variants = subject.variants.clone();
    let known = &subject.source.variants;
    for (name, first) in &named.variants {
        let listed = if known.is_empty() { "none".into() } else { known.join(", ") };
        let unknown = || format!("{} has no variant `{name}`; it has {listed}", subject.name);
        variants[known.iter().position(|v| v == name).ok_or_else(unknown)?] = *first;
    }
    Ok(subject.with_variants(&variants))
}

/// Refuses a launch site that there is not.
pub fn is_site(subject: &Subject, name: &str) -> Result<(), String> {
    let sites = subject.program.site_names();
    if sites.iter().any(|s| s == name) {
        return Ok(());
    }
    Err(format!("{} has no launch site `{name}`; it has {}", schedules::way_name(subject), sites.join(", ")))
}
