//! A program's schedule as a whole: its variants, and a schedule for each launch site, tuned together.
//!
//! As text: `row in registers=no; stats: T=1024 C=4; normalise: T=512`, variants first.

use crate::device::Device;
use crate::launch::schedule_lookup::{self};
use crate::store;
use girih_core::lengths::Lengths;
use girih_core::program::Program;
use girih_core::scalar::fnv1a64;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::fmt;

/// What stands for facts where the schedules of a whole program are stored: each site has facts of its own.
pub const FACTS: &str = "program";

/// A program's schedule.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Joint {
    /// Each variant with whether its first side is taken.
    pub variants: Vec<(String, bool)>,
    /// The schedule of each launch site that the variants leave, by the site's name.
    pub sites: Vec<(String, String)>,
    /// It was tuned by prediction, of which its text says nothing.
    pub predicted: bool,
    /// How far the lengths that it was tuned for are from those of the call at hand, in octaves ([`girih_core::facts_distance`]); its text says
    /// nothing of that either.
    pub distance: f64,
}

impl Joint {
    /// Reads the text.
    ///
    /// # Errors
    /// The part that is neither a variant nor a site's schedule.
    pub fn parse(text: &str) -> Result<Joint, String> {
        let mut joint = Joint::default();
        for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            if let Some((site, schedule)) = part.split_once(':') {
                joint.sites.push((site.trim().into(), schedule.trim().into()));
                continue;
            }
            match part.split_once('=') {
                Some((name, "yes")) => joint.variants.push((name.into(), true)),
                Some((name, "no")) => joint.variants.push((name.into(), false)),
                _ => return Err(format!("`{part}` is neither `variant=yes`, `variant=no` nor `site: schedule`")),
            }
        }
        Ok(joint)
    }

    /// Where the schedules of its sites come from, in words.
    pub fn origin(&self) -> &'static str {
        if self.predicted { "predicted on this machine, with the program" } else { "tuned with the program" }
    }

    /// The choice for each variant of a program, if all that are named are its own, and its sites those of the way that they choose. Of a variant
    /// that is not named, which the program did not have when it was tuned, the first side is taken.
    fn variants_of(&self, program: &Program) -> Option<Vec<bool>> {
        let named = |variant: &String| self.variants.iter().find(|(name, _)| name == variant).map(|(_, first)| *first);
        let chosen: Vec<Option<bool>> = program.variants.iter().map(named).collect();
        if chosen.iter().flatten().count() != self.variants.len() {
            return None;
        }
        let all: Vec<bool> = chosen.iter().zip(program.default_variants()).map(|(c, first)| c.unwrap_or(first)).collect();
        let whole = chosen.iter().all(Option::is_some);
        let sites = || program.with_variants(&all).site_names();
        (whole || self.sites.iter().all(|(site, _)| sites().contains(site))).then_some(all)
    }

    /// The choice for each variant of a program, if these are its variants and the way that they choose is one for the target: each schedule
    /// that is named for it is legal there for some launch. (A way for matrix units is none where they are missing.)
    ///
    /// # Errors
    /// What it names that the program has not, or the launch site whose schedule no launch can run under, with the rule.
    pub fn variants_on(&self, program: &Program, target: &Target) -> Result<Vec<bool>, String> {
        let chosen = self.variants_of(program).ok_or("it names variants or launch sites that the program has not")?;
        if chosen.is_empty() {
            return Ok(chosen);
        }
        let way = program.with_variants(&chosen);
        for (site, def) in way.site_names().iter().zip(way.sites()) {
            let kernel = (def.build)().map_err(|e| format!("{site}: {e}"))?;
            if let Some(schedule) = self.schedule(site, &kernel) {
                Space::of_some_launch(&kernel, target).check(&schedule).map_err(|e| format!("{site}: {e}"))?;
            }
        }
        Ok(chosen)
    }

    /// The schedule of a launch site, if it names exactly the kernel's knobs.
    pub fn schedule(&self, site: &str, kernel: &Kernel) -> Option<Schedule> {
        let (_, text) = self.sites.iter().find(|(name, _)| name == site)?;
        parse_schedule(kernel, text).ok()
    }
}

impl fmt::Display for Joint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let variants = self.variants.iter().map(|(name, first)| format!("{name}={}", if *first { "yes" } else { "no" }));
        let sites = self.sites.iter().map(|(site, schedule)| format!("{site}: {schedule}"));
        f.write_str(&variants.chain(sites).collect::<Vec<_>>().join("; "))
    }
}

/// Whether a program's schedule is more than that of its only launch.
pub fn is_joint(program: &Program) -> bool {
    !program.variants.is_empty() || program.sites().len() > 1
}

/// What identifies a program in the store: its text and its kernels.
pub fn identity(program: &Program) -> u64 {
    identity_by(program, Kernel::identity)
}

/// The same, as stores of former versions have it.
pub fn former_identity(program: &Program) -> u64 {
    identity_by(program, Kernel::former_identity)
}

fn identity_by(program: &Program, of: fn(&Kernel) -> u64) -> u64 {
    let mut text = format!("{}\n{}\n", program.path, program.source);
    for def in program.sites() {
        let kernel = (def.build)().map_or(0, |k| of(&k));
        text.push_str(&format!("{} {kernel:016x}\n", def.path()));
    }
    fnv1a64(text.as_bytes())
}

/// The side of each variant that a program takes when it is called with arguments of these lengths on a device: that of the tuner's store,
/// else of a committed winner, else the author's first one. Each launch looks its schedule up itself.
pub(crate) fn variants_for(program: &Program, lengths: &Lengths, device: &Device) -> Vec<bool> {
    if program.variants.is_empty() {
        return Vec::new();
    }
    let store = store::existing();
    let name = device.name();
    let store = store.as_ref().map(|s| (s, name.as_str()));
    let known = schedule_lookup::of_program(program, Some(lengths), device.target(), store);
    let chosen =
        known.iter().filter_map(|known| Joint::parse(&known.text).ok()).find_map(|joint| joint.variants_on(program, device.target()).ok());
    chosen.unwrap_or_else(|| program.default_variants())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_schedules_survive_their_text() {
        let text = "row in registers=no; stats: T=1024 C=4; normalise: T=512";
        let joint = Joint::parse(text).unwrap();
        assert_eq!(joint.variants, [("row in registers".to_string(), false)]);
        assert_eq!(joint.sites[1], ("normalise".to_string(), "T=512".to_string()));
        assert_eq!(joint.to_string(), text);
        assert!(Joint::parse("row=maybe").unwrap_err().contains("`row=maybe` is neither"));
    }

    #[test]
    fn a_variant_that_is_new_keeps_what_was_tuned() {
        let loc = girih_core::loc::SourceLoc::NONE;
        let program = Program {
            name: "f".into(),
            path: "m::f".into(),
            loc,
            source: String::new(),
            params: vec![],
            temps: vec![],
            scalars: vec![],
            variants: vec!["old".into(), "new".into()],
            requirements: vec![],
            body: vec![],
        };
        let chosen = |text| Joint::parse(text).unwrap().variants_of(&program);
        assert_eq!(chosen("old=no; new=no"), Some(vec![false, false]));
        assert_eq!(chosen("old=no"), Some(vec![false, true]));
        // What it names is not there.
        assert_eq!(chosen("old=no; gone=yes"), None);
        assert_eq!(chosen("old=no; a_site_of_the_other_side: T=1"), None);
    }
}
