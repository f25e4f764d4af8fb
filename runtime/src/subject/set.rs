//! What a text sets of a program's schedule: knobs of every launch, or variants and launch sites by name.
//!
//! `T=1024,V=4` is set at every launch; `row in registers=no; stats: T=1024,C=4` chooses a variant and sets the knobs of one launch site.

use crate::launch::program_schedule::Joint;
use crate::subject::Subject;
use crate::subject::schedules;

/// What such a text says; what it does not name stays as it is.
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

    /// The launch sites that are named.
    pub fn sites(&self) -> impl Iterator<Item = &str> {
        self.named.sites.iter().map(|(name, _)| name.as_str())
    }

    /// The knobs that are set at a launch site.
    pub fn of_site(&self, site: &str) -> Option<&str> {
        let own = self.named.sites.iter().find(|(name, _)| name == site);
        own.map(|(_, text)| text.as_str()).or(self.knobs)
    }
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

/// A subject, or where its variants do without a launch site and nobody has chosen them, the first of its ways that has it.
///
/// # Errors
/// There is no such site, with those there are.
pub fn having(subject: Subject, site: &str, chosen: bool) -> Result<Subject, String> {
    let Err(none) = is_site(&subject, site) else { return Ok(subject) };
    let with = subject.ways().into_iter().find(|w| w.program.site_names().iter().any(|name| name == site));
    with.filter(|_| !chosen).ok_or(none)
}
