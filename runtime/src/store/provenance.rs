//! Where a row was made: the driver, NVRTC and clocks. What was measured under others may be faster or slower by now.

use std::fmt;
use std::sync::Mutex;

/// What times depend on beside the GPU's name and girih's version, which rows have anyway.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provenance {
    /// `570.86.15`; empty where it is not known, as all that follow.
    pub driver: String,
    /// `13.0`.
    pub nvrtc: String,
    /// The highest clocks, `1980/2619 MHz`: of multiprocessors and of memory.
    pub clocks: String,
}

impl Provenance {
    fn parts(&self) -> [(&'static str, &str); 3] {
        [("driver", &self.driver), ("NVRTC", &self.nvrtc), ("clocks", &self.clocks)]
    }

    /// Reads what [`fmt::Display`] wrote; what is missing there is not known.
    pub fn parse(text: &str) -> Provenance {
        let of = |name: &str| text.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_default().to_string();
        Provenance { driver: of("driver"), nvrtc: of("NVRTC"), clocks: of("clocks") }
    }

    /// What differs here, `driver 550.54 and not 570.86`; nothing where all that is known of both is the same.
    pub fn other_than(&self, here: &Provenance) -> Option<String> {
        let pairs = self.parts().into_iter().zip(here.parts());
        let differing = pairs.filter(|((_, a), (_, b))| !a.is_empty() && !b.is_empty() && a != b);
        let texts: Vec<String> = differing.map(|((name, a), (_, b))| format!("{name} {a} and not {b}")).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let known: Vec<String> =
            self.parts().iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!("{name} {text}")).collect();
        f.write_str(&known.join(", "))
    }
}

/// What is other than here where a row was made, girih's own version first; nothing where all that is known fits.
pub(super) fn elsewhere((made, versions): (&str, &str), (here, now): (&Provenance, &str)) -> Option<String> {
    let girih = (versions != now).then(|| format!("{versions} and not {}", now.trim_start_matches("girih ")));
    let texts: Vec<String> = girih.into_iter().chain(Provenance::parse(made).other_than(here)).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// What was told of winners, by the kernel or program.
static TOLD: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Tells, once for each kernel or program, that what the store has for it was tuned elsewhere.
pub(crate) fn tell(name: &str, elsewhere: &str) {
    let Ok(mut told) = TOLD.lock() else { return };
    if told.iter().all(|(known, _)| known != name) {
        let text = format!("note: {name}: its schedule was tuned under {elsewhere}; tuning it again may find a faster one");
        eprintln!("{text}");
        told.push((name.to_string(), text));
    }
}

/// All that was told of winners that were tuned elsewhere.
pub fn told() -> Vec<String> {
    TOLD.lock().map_or(Vec::new(), |told| told.iter().map(|(_, text)| text.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_of_girih_are_elsewhere() {
        let here = Provenance { driver: "570".into(), ..Provenance::default() };
        let of = |made: &str, versions: &str| elsewhere((made, versions), (&here, "girih 0.2.0"));
        assert_eq!(of("driver 570", "girih 0.2.0"), None);
        assert_eq!(of("", "girih 0.1.0").as_deref(), Some("girih 0.1.0 and not 0.2.0"));
        assert_eq!(of("driver 550", "girih 0.1.0").as_deref(), Some("girih 0.1.0 and not 0.2.0, driver 550 and not 570"));
    }

    #[test]
    fn provenance_survives_its_text() {
        let here = Provenance { driver: "570.86.15".into(), nvrtc: "13.0".into(), clocks: "1980/2619 MHz".into() };
        assert_eq!(here.to_string(), "driver 570.86.15, NVRTC 13.0, clocks 1980/2619 MHz");
        assert_eq!(Provenance::parse(&here.to_string()), here);
        assert_eq!(Provenance::parse(""), Provenance::default());
    }

    #[test]
    fn what_differs_is_named_and_what_is_not_known_does_not() {
        let here = Provenance { driver: "570".into(), nvrtc: "13.0".into(), ..Provenance::default() };
        let there = Provenance { driver: "550".into(), nvrtc: "13.0".into(), clocks: "1980/2619 MHz".into() };
        assert_eq!(there.other_than(&here).as_deref(), Some("driver 550 and not 570"));
        assert_eq!(here.other_than(&here), None);
        assert_eq!(Provenance::default().other_than(&here), None);
    }
}
