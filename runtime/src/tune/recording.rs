//! Recordings: times of schedules that were drawn by a seed, as text. They are the evidence by which predictions are judged
//! on machines without that GPU.

use crate::launch::program_schedule::Joint;
use crate::subject::Subject;
use std::fmt;

/// One way to run a program, as it was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Timed {
    /// The median in microseconds, of the whole program.
    pub us: f64,
    /// Registers per thread and bytes spilled per thread, by launch site.
    pub resources: Vec<(u32, u32)>,
    /// Variants, and the schedule of each launch site.
    pub joint: Joint,
}

/// What was measured of one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// The subject's name.
    pub name: String,
    /// Its sizes: `N=1000`.
    pub sizes: String,
    /// The GPU, and its architecture.
    pub device: String,
    /// `sm_90a`.
    pub arch: String,
    /// In the order in which they were measured.
    pub timed: Vec<Timed>,
}

impl Timed {
    /// Of schedules by launch site.
    pub fn new(subject: &Subject, schedules: &[String], us: f64, resources: Vec<(u32, u32)>) -> Timed {
        Timed { us, resources, joint: Joint::of(subject, schedules) }
    }

    fn parse(line: &str) -> Option<Timed> {
        let mut parts = line.splitn(3, ' ');
        let us = parts.next()?.parse().ok()?;
        let of_site = |text: &str| text.split_once('+').and_then(|(r, s)| Some((r.parse().ok()?, s.parse().ok()?)));
        let resources = parts.next()?.split(',').map(of_site).collect::<Option<_>>()?;
        Some(Timed { us, resources, joint: Joint::parse(parts.next()?).ok()? })
    }
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let resources: Vec<String> = self.resources.iter().map(|(registers, spilled)| format!("{registers}+{spilled}")).collect();
        write!(f, "{:.2} {} {}", self.us, resources.join(","), self.joint)
    }
}

impl Recording {
    /// The line before its times.
    pub fn head(&self) -> String {
        format!("[{}] {} | {} | {}", self.name, self.sizes, self.device, self.arch)
    }

    fn of_head(line: &str) -> Option<Recording> {
        let (name, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let mut parts = rest.split(" | ").map(str::to_string);
        let (sizes, device, arch) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Recording { name: name.to_string(), sizes, device, arch, timed: Vec::new() })
    }
}

/// Reads what was recorded: heads, each with a line for every time (`41.30 32+0 solve: T=1024 C=4`), `#` before comments.
///
/// # Errors
/// The first line that is neither.
pub fn parse(text: &str) -> Result<Vec<Recording>, String> {
    let mut all: Vec<Recording> = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(recording) = Recording::of_head(line) {
            all.push(recording);
            continue;
        }
        match (all.last_mut(), Timed::parse(line)) {
            (Some(recording), Some(timed)) => recording.timed.push(timed),
            _ => return Err(format!("line {number} is neither `[name] sizes | device | arch` nor `us registers+spilled site: schedule`")),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_read_back_as_written() {
        let text = "[softmax] N=500000 | NVIDIA H200 | sm_90a\n12.50 32+0,40+16 in registers=no; stats: T=1024 C=4; normalise: T=512\n";
        let read = parse(&format!("# times\n\n{text}")).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(format!("{}\n{}\n", read[0].head(), read[0].timed[0]), text);
        assert_eq!(read[0].timed[0].resources, [(32, 0), (40, 16)]);
        assert_eq!(parse("12.5 32+0 a: T=1").unwrap_err().split(' ').take(2).collect::<Vec<_>>(), ["line", "1"]);
    }
}
