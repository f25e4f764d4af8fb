//! Winners: the best schedules by architecture, committed as text beside the kernels and compiled in.
//!
//! `autotune winners` writes them from the store; `winners!` compiles the file in. A machine with no GPU and an empty store exports and launches good code
//! this way. A winner is a proposal: whoever uses one proves first, by lowering, that it is legal for the facts at hand.
//!
//! # The file
//! One winner a line, fields separated by ` | `; `#` starts a comment:
//! ```text
//! # arch | kernel | facts | lengths | schedule | median us
//! sm_90a | gallery::softmax::solve | program | 500000 500000 - | row in registers=no; stats: T=1024; normalise: T=512 V=4 | 80.10
//! sm_90a | gallery::vector_add::vector_add | 16p/16 16p/16 16p/16 i32 noalias | 25000000 25000000 25000000 | T=1024 C=4 V=4 S=1 | 73.90
//! ```
//! Lengths that nobody wrote down are `any`. A seventh field is the number of a line that says where it was measured, before all others:
//! ```text
//! made | 1 | NVIDIA H200, girih 0.1.0, driver 570.86.15, NVRTC 13.0, clocks 1980/3201 MHz
//! ```

use crate::launch::schedule_lookup::{is_predicted, is_warm};
use crate::store::Elected;
use girih_core::facts_distance::Occasion;
use girih_core::lengths::Lengths;
use girih_core::linkme::distributed_slice;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::HashMap;
use std::fmt;

/// The texts of every linked winners' file. Filled by [`winners!`](crate::winners!).
#[distributed_slice]
#[linkme(crate = girih_core::linkme)]
pub static WINNERS: [&'static str];

/// Compiles a winners' file in: `winners!("winners.txt")`, the path as for `include_str!`. One per module.
#[macro_export]
macro_rules! winners {
    ($path:literal) => {
        #[$crate::linkme::distributed_slice($crate::store::winners::WINNERS)]
        #[linkme(crate = $crate::linkme)]
        static GIRIH_WINNERS: &'static str = include_str!($path);
    };
}

/// The word for lengths that nobody wrote down.
const ANY: &str = "any";
/// The first field of a line that says where winners were measured.
const MADE: &str = "made";
/// The fields of a line.
const FIELDS: &str = "arch | kernel | facts | lengths | schedule | median us";

/// One line of a winners' file.
#[derive(Clone, PartialEq, Debug)]
pub struct Winner {
    /// `sm_90a`.
    pub arch: String,
    /// `crate::module::name`.
    pub kernel: String,
    /// The facts' key text, or `program`.
    pub facts: String,
    /// Of the arguments of the launch that was tuned, or of the program; `None` where nobody wrote them down.
    pub lengths: Option<Lengths>,
    /// `T=1024 C=4 V=4`.
    pub schedule: String,
    /// Median time in microseconds where it won.
    pub median_us: f64,
    /// On which GPU, by which girih, under which driver, NVRTC and clocks it was measured; empty where nobody wrote that down.
    pub made: String,
}

/// But for where it was measured.
impl fmt::Display for Winner {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Winner { arch, kernel, facts, lengths, schedule, median_us, .. } = self;
        let lengths = lengths.as_ref().map_or(ANY.to_string(), Lengths::to_string);
        write!(f, "{arch} | {kernel} | {facts} | {lengths} | {schedule} | {median_us:.2}")
    }
}

impl Winner {
    pub(crate) fn occasion(&self) -> Occasion<'_> {
        Occasion { facts: &self.facts, lengths: self.lengths.as_ref() }
    }

    /// Whether it is of the same kernel, architecture and facts.
    fn is_like(&self, other: &Winner) -> bool {
        (&self.arch, &self.kernel, &self.facts) == (&other.arch, &other.kernel, &other.facts)
    }
}

/// Reads a winners' file.
///
/// # Errors
/// The number and text of the first line that is none.
pub fn parse(text: &str) -> Result<Vec<Winner>, String> {
    let (mut all, mut places) = (Vec::new(), HashMap::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let wrong = || format!("line {}: `{line}` is no winner: {FIELDS}", number + 1);
        if let [MADE, place, made] = fields[..] {
            places.insert(place.to_string(), made.to_string());
            continue;
        }
        let (fields, made) = match fields[..] {
            [ref fields @ .., place] if fields.len() == 6 => (fields, places.get(place).ok_or_else(wrong)?.clone()),
            ref fields => (fields, String::new()),
        };
        let [arch, kernel, facts, lengths, schedule, median] = *fields else { return Err(wrong()) };
        let lengths = match lengths {
            ANY => None,
            text => Some(Lengths::parse(text).map_err(|e| format!("line {}: {e}; `{ANY}` where they are not known", number + 1))?),
        };
        let median_us = median.parse().map_err(|_| wrong())?;
        all.push(Winner {
            arch: arch.into(),
            kernel: kernel.into(),
            facts: facts.into(),
            lengths,
            schedule: schedule.into(),
            median_us,
            made,
        });
    }
    Ok(all)
}

/// Every winner that is compiled in.
pub fn all() -> Vec<Winner> {
    WINNERS.iter().flat_map(|text| parse(text).unwrap_or_else(|e| panic!("winners' file: {e}"))).collect()
}

/// The text of a winners' file with the elected schedules of the store and where they were measured, and the lines of `former` that the store knows
/// nothing newer about.
pub fn file_text(elected: &[(Elected, String)], former: &[Winner]) -> String {
    let mut lines: Vec<Winner> = Vec::new();
    // Predictions are no measurements, and a warm cache is a case of its own: they stay in the store.
    for (e, made) in elected.iter().filter(|(e, _)| !is_predicted(&e.key.device) && !is_warm(&e.key.device)) {
        let winner = Winner {
            arch: e.key.arch.clone(),
            kernel: e.key.kernel.clone(),
            facts: e.key.facts.clone(),
            lengths: e.key.lengths.clone(),
            schedule: e.schedule.clone(),
            median_us: e.median_us,
            made: format!("{}, {made}", e.key.device),
        };
        // Two programs may launch the same; times are those of whole programs.
        match lines.iter_mut().find(|w| w.is_like(&winner) && w.lengths == winner.lengths) {
            Some(w) if winner.median_us < w.median_us => *w = winner,
            Some(_) => {}
            None => lines.push(winner),
        }
    }
    let newer = |w: &Winner, l: &Winner| l.is_like(w) && (w.lengths.is_none() || l.lengths == w.lengths);
    let kept: Vec<Winner> = former.iter().filter(|w| !lines.iter().any(|l| newer(w, l))).cloned().collect();
    lines.extend(kept);
    let octaves = |w: &Winner| w.lengths.as_ref().map_or(0.0, Lengths::octaves);
    lines.sort_by(|a, b| (&a.arch, &a.kernel, &a.facts).cmp(&(&b.arch, &b.kernel, &b.facts)).then(octaves(a).total_cmp(&octaves(b))));
    let mut text = format!("# The best schedules by architecture. Written by `autotune winners`.\n# {FIELDS}\n");
    let mut places: Vec<&str> = lines.iter().map(|w| w.made.as_str()).filter(|made| !made.is_empty()).collect();
    places.sort_unstable();
    places.dedup();
    for (number, made) in places.iter().enumerate() {
        text.push_str(&format!("{MADE} | {} | {made}\n", number + 1));
    }
    for line in &lines {
        let place = places.binary_search(&line.made.as_str()).map_or(String::new(), |number| format!(" | {}", number + 1));
        text.push_str(&format!("{line}{place}\n"));
    }
    text
}

/// The winners of a kernel or program in the order in which they are considered, with how far their architecture is. Equally near ones
/// stay in their order.
pub(crate) fn nearest(winners: Vec<Winner>, path: &str, asked: Occasion, target: &Target) -> Vec<(u32, Winner)> {
    let of_path = winners.into_iter().filter(|w| w.kernel == path);
    let mut found: Vec<(u32, Winner)> = of_path.filter_map(|w| Some((arch_distance(&w.arch, target)?, w))).collect();
    found.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| asked.order(&x.occasion(), &y.occasion())));
    found
}

/// How far an architecture is from a target's; nothing where it is none.
pub(crate) fn arch_distance(arch: &str, target: &Target) -> Option<u32> {
    Some(capability(arch)?.abs_diff(target.capability))
}

/// `sm_90a` → 90.
fn capability(arch: &str) -> Option<u32> {
    arch.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// `crate::module::name` with the instance's types, as [`girih_core::registry::KernelDef::path`] writes it.
pub fn kernel_path(kernel: &Kernel) -> String {
    let types: Vec<&str> = kernel.instance.iter().map(|(_, t)| t.as_str()).collect();
    if types.is_empty() { kernel.path.clone() } else { format!("{}<{}>", kernel.path, types.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TrialKey;

    const FILE: &str = "
        sm_90a | g::k | 16p/16x16<0x4096 i32 | 4096x4096 | T=4096 | 80.00
        sm_90a | g::k | 16p/16x16<0x4096 i32 | 16x4096 | T=16 | 8.00   # skinny
        sm_90a | g::k | 16p/16x16<0x4096 i32 | any | T=1 | 9.00
        sm_80 | g::k | 16p/16x16<0x4096 i32 | 16x4096 | T=80 | 7.00
        sm_90a | g::solve | program | 4096x4096 - | k: T=4096 | 80.00
        sm_90a | g::solve | program | 16x4096 - | k: T=16 | 8.00
    ";

    fn lengths(text: &str) -> Option<Lengths> {
        Some(Lengths::parse(text).unwrap())
    }

    fn elected(n: &str, schedule: &str, median_us: f64) -> (Elected, String) {
        let key = TrialKey {
            kernel: "g::k".into(),
            identity: 7,
            facts: "16p/16x16<0x4096 i32".into(),
            lengths: lengths(n),
            sizes: n.into(),
            device: "GPU".into(),
            arch: "sm_90a".into(),
        };
        (Elected { key, schedule: schedule.into(), median_us }, "girih 0.1.0, driver 570".into())
    }

    #[test]
    fn files_are_read_back_as_written() {
        let mut all = parse(FILE).unwrap();
        assert_eq!((all.len(), all[1].lengths.clone(), all[2].lengths.clone()), (6, lengths("16x4096"), None));
        let text = file_text(&[], &all);
        let mut found = parse(&text).unwrap();
        assert_eq!(file_text(&[], &found), text);
        for list in [&mut all, &mut found] {
            list.sort_by_key(Winner::to_string);
        }
        assert_eq!(found, all);
        assert!(parse("sm_90a | k").unwrap_err().starts_with("line 1: `sm_90a | k` is no winner: arch | kernel | facts | lengths"));
        let old = parse("sm_90a | g::k | 16p/16 i32 | 4y | T=1 | 80.00").unwrap_err();
        assert!(old.starts_with("line 1: `4y` is no argument's lengths") && old.ends_with("; `any` where they are not known"), "{old}");
    }

    #[test]
    fn several_sizes_of_a_kernel_stand_beside_each_other() {
        let former = parse(FILE).unwrap();
        let all = [elected("16x4096", "T=17", 9.0), elected("64x4096", "T=64", 12.0), elected("64x4096", "T=65", 11.0)];
        let found = parse(&file_text(&all, &former)).unwrap();
        let of_kernel: Vec<&str> = found.iter().filter(|w| w.is_like(&former[0])).map(|w| w.schedule.as_str()).collect();
        // What is measured anew replaces the former line of its lengths, and those of which nobody knows the lengths.
        assert_eq!(of_kernel, ["T=17", "T=65", "T=4096"]);
        assert_eq!(found.len(), 6);
        // Where the new ones were measured is known, and stays known.
        let made = |of: &[Winner]| of.iter().map(|w| (w.schedule.clone(), w.made.clone())).collect::<Vec<_>>();
        let known: Vec<_> = made(&found).into_iter().filter(|(_, made)| !made.is_empty()).collect();
        assert_eq!(known, ["T=17", "T=65"].map(|s| (s.to_string(), "GPU, girih 0.1.0, driver 570".to_string())));
        assert_eq!(made(&parse(&file_text(&[], &found)).unwrap()), made(&found));
        let lost = parse("sm_90a | g::k | 16p/16 i32 | any | T=1 | 80.00 | 7").unwrap_err();
        assert!(lost.starts_with("line 1:"), "no line says what 7 is: {lost}");
    }

    #[test]
    fn the_nearest_winner_comes_first() {
        let target = Target::h200();
        let order = |path: &str, facts: &str, n: Option<Lengths>| -> Vec<String> {
            let asked = Occasion { facts, lengths: n.as_ref() };
            nearest(parse(FILE).unwrap(), path, asked, target).into_iter().map(|(_, w)| w.schedule).collect()
        };
        let kernel = |n: Option<Lengths>| order("g::k", "16p/16x16<0x4096 i32", n);
        assert_eq!(kernel(lengths("16x4096")), ["T=16", "T=4096", "T=1", "T=80"]);
        assert_eq!(kernel(lengths("8x4096"))[0], "T=16");
        assert_eq!(kernel(lengths("8192x4096"))[0], "T=4096");
        assert_eq!(kernel(None), ["T=4096", "T=16", "T=1", "T=80"], "the longest first");
        let program = |n: Option<Lengths>| order("g::solve", crate::launch::program_schedule::FACTS, n);
        assert_eq!(program(lengths("32x4096 -")), ["k: T=16", "k: T=4096"]);
        assert_eq!(program(None), ["k: T=4096", "k: T=16"]);
    }
}
