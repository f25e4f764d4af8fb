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
    /// Adds the author's line, cut from the text of the function that starts at `start`. A place elsewhere, in a helper of another file or
    /// behind the function's end, has no line there; nor has one of another crate's file of the same name, where no word begins.
    pub fn with_source(mut self, source: &str, start: SourceLoc) -> Diagnostic {
        if self.loc.file == start.file && self.loc.line >= start.line {
            let line = source.lines().nth((self.loc.line - start.line) as usize);
            self.snippet = line.filter(|line| begins_at(line, self.loc.column)).map(str::to_string);
        }
        self
    }
}

/// Whether something begins at a column, counted from 1, of a line: a word, or a sign.
fn begins_at(line: &str, column: u32) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = None;
    for (i, c) in line.chars().enumerate() {
        if i + 1 == column as usize {
            return !(c.is_whitespace() || in_word(c) && before.is_some_and(in_word));
        }
        before = Some(c);
    }
    false
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub fn sum(x: &Tensor<f32, 1>) {\n    let v = x.load(t);\n}";

    fn shown(file: &'static str, line: u32, column: u32) -> Option<String> {
        let start = SourceLoc { file: "src/kernels.rs", line: 10, column: 1 };
        Diagnostic::new(SourceLoc { file, line, column }, "wrong").with_source(SOURCE, start).snippet
    }

    #[test]
    fn only_lines_of_the_file_itself_are_shown() {
        let line = Some("    let v = x.load(t);".to_string());
        assert_eq!((shown("src/kernels.rs", 11, 15), shown("src/kernels.rs", 11, 13)), (line.clone(), line));
        // A helper of another file, whose line has the same number.
        assert_eq!(shown("src/helpers.rs", 11, 15), None);
        // Before the function, behind it, and where no word begins: another file that has the same name.
        for (line, column) in [(9, 1), (13, 1), (11, 16), (11, 12), (11, 60), (11, 0)] {
            assert_eq!(shown("src/kernels.rs", line, column), None, "{line}:{column}");
        }
    }
}
