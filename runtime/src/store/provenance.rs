//! Where a row was made: the driver, NVRTC and clocks. What was measured under others may be faster or slower by now.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

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
