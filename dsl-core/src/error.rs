//! What can go wrong with the author's input, and what is left of a panic of the compiler.

use crate::bug::Bug;
use crate::loc::SourceLoc;
use crate::schedule::ScheduleError;
use std::fmt;

/// A mistake in a kernel or program, found while it was built or checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// What was found and what is allowed.
    pub message: String,
    /// Where.
    pub loc: SourceLoc,
    /// Other places that matter: `made here`.
    pub notes: Vec<(String, SourceLoc)>,
    /// What to do.
    pub help: Option<String>,
    /// The author's line, where the text is known.
    pub snippet: Option<String>,
}

impl Diagnostic {
    /// A diagnostic with no notes.
    pub fn new(loc: SourceLoc, message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), loc, notes: Vec::new(), help: None, snippet: None }
    }
    /// Adds what to do.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
    /// Adds another place.
    pub fn note(mut self, text: impl Into<String>, loc: SourceLoc) -> Diagnostic {
        self.notes.push((text.into(), loc));
        self
    }
    /// Adds the author's line, cut from the text of the function that starts on line `first_line` of its file.
    pub fn with_source(mut self, source: &str, first_line: u32) -> Diagnostic {
        if self.loc.line >= first_line {
            self.snippet = source.lines().nth((self.loc.line - first_line) as usize).map(str::to_string);
        }
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        write!(f, "  --> {}", self.loc)?;
        if let Some(line) = &self.snippet {
            let text = line.trim_start();
            let column = (self.loc.column as usize).saturating_sub(1 + line.len() - text.len());
            write!(f, "\n   |  {text}\n   |  {}^", " ".repeat(column))?;
        }
        for (text, loc) in &self.notes {
            write!(f, "\nnote: {text}\n  --> {loc}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\nhelp: {help}")?;
        }
        Ok(())
    }
}

/// Why a kernel could not be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompileError {
    /// The kernel itself is wrong, under every schedule.
    #[error("{}", list(.0))]
    Kernel(Vec<Diagnostic>),
    /// This schedule is illegal for this kernel, these facts or this target.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The compiler panicked over this schedule: nothing is wrong with either.
    #[error("{0}")]
    Bug(Box<Bug>),
}

fn list(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("\n\n")
}
