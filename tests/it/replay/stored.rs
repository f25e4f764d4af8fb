//! The files of stored schedules: a line has a schedule, ` | `, and what it gave on each occasion.

use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedules;
use girih_core::tile::Kernel;
use std::fmt::{self, Write};
use std::path::PathBuf;

/// Facts times targets.
pub const OCCASIONS: usize = 4;

/// What a schedule gives on one occasion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gave {
    Illegal,
    /// Hashes of the CUDA C and of its form.
    Code {
        text: u32,
        form: u32,
    },
}

impl fmt::Display for Gave {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Gave::Illegal => f.write_str("-"),
            Gave::Code { text, form } => write!(f, "{text:08x}/{form:08x}"),
        }
    }
}

impl Gave {
    fn read(word: &str) -> Option<Gave> {
        if word == "-" {
            return Some(Gave::Illegal);
        }
        let (text, form) = word.split_once('/')?;
        let number = |s: &str| u32::from_str_radix(s, 16).ok();
        Some(Gave::Code { text: number(text)?, form: number(form)? })
    }
}

/// A stored schedule.
pub struct Line {
    /// `T=1024 C=4`; empty for a kernel without knobs.
    pub schedule: String,
    pub gave: [Gave; OCCASIONS],
}

impl Line {
    fn read(line: &str) -> Option<Line> {
        let (schedule, gave) = line.split_once('|')?;
        let gave: Option<Vec<Gave>> = gave.split_whitespace().map(Gave::read).collect();
        Some(Line { schedule: schedule.trim().to_string(), gave: gave?.try_into().ok()? })
    }

    /// The schedule, read for a kernel.
    pub fn schedule_of(&self, kernel: &Kernel) -> Result<Schedule, String> {
        if self.schedule.is_empty() {
            return Ok(Schedule::default_of(kernel));
        }
        let all = parse_schedules(kernel, &self.schedule).map_err(|e| e.to_string())?;
        all.into_iter().next().ok_or_else(|| "no schedule".to_string())
    }
}

/// What is stored of a kernel.
pub struct Stored {
    file: PathBuf,
    pub lines: Vec<Line>,
}

impl Stored {
    /// Reads the kernel's file; nothing where there is none.
    pub fn read(kernel: &Kernel) -> Stored {
        let instance = kernel.instance.iter().map(|(name, ty)| format!("-{name}-{ty}")).collect::<String>();
        let path = kernel.path.trim_start_matches("girih_examples::").replace("::", ".");
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("replay/{path}{instance}.txt"));
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let read = |line: &str| Line::read(line).unwrap_or_else(|| panic!("{}: `{line}` is no stored schedule", file.display()));
        let lines = text.lines().filter(|l| !l.starts_with('#')).map(read).collect();
        Stored { file, lines }
    }

    /// Writes the file anew.
    pub fn write(&self) {
        let mut text = "# Hashes of CUDA C and form: without facts for sm_75, sm_90a; with the best facts for sm_75, sm_90a.\n".to_string();
        for line in &self.lines {
            let gave: Vec<String> = line.gave.iter().map(|g| g.to_string()).collect();
            let sep = if line.schedule.is_empty() { "" } else { " " };
            writeln!(text, "{}{sep}| {}", line.schedule, gave.join(" ")).expect("a string takes all");
        }
        std::fs::write(&self.file, text).unwrap_or_else(|e| panic!("{}: {e}", self.file.display()));
    }
}
