//! Places in the author's source: from the macro's spans to error messages and comments in the CUDA C.

use std::fmt;
use std::panic::Location;

/// A place in the author's Rust source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLoc {
    /// The file as rustc names it, relative to the folder where cargo ran.
    pub file: &'static str,
    /// Line, counted from 1. 0 where there is no source.
    pub line: u32,
    /// Column, counted from 1.
    pub column: u32,
}

impl SourceLoc {
    /// For values that the compiler made itself.
    pub const NONE: SourceLoc = SourceLoc { file: "", line: 0, column: 0 };

    /// The place of the caller of the nearest `#[track_caller]` function.
    #[track_caller]
    pub fn caller() -> SourceLoc {
        SourceLoc::from(Location::caller())
    }

    /// The last component of the file with the line, as the comments of the CUDA C show it: `vector_add.rs:12`.
    pub fn short(&self) -> String {
        let name = self.file.rsplit(['/', '\\']).next().unwrap_or(self.file);
        format!("{name}:{}", self.line)
    }
}

impl From<&'static Location<'static>> for SourceLoc {
    fn from(l: &'static Location<'static>) -> SourceLoc {
        SourceLoc { file: l.file(), line: l.line(), column: l.column() }
    }
}

impl fmt::Display for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Debug for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
