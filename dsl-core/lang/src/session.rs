//! The build in progress: handles refer to it through a thread-local, so that bodies are ordinary Rust.
//!
//! One build at a time per thread. A guard ends it when a body panics.

use super::builder::KernelBuilder;
use super::recorder::ProgramBuilder;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::ValueId;
use std::cell::{Cell, RefCell};

/// What a handle holds: a number in one build. Poison stands for the result of a wrong operation; it is silent, so that one
/// mistake gives one diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    id: u32,
    build: u32,
}

impl Handle {
    /// The result of a wrong operation.
    pub const POISON: Handle = Handle { id: u32::MAX, build: 0 };

    /// Number `id` of build `build`.
    pub(crate) fn new(id: u32, build: u32) -> Handle {
        Handle { id, build }
    }
    /// The number, or `None` for poison.
    ///
    /// # Panics
    /// If the handle belongs to another build.
    pub(crate) fn get(self, build: u32) -> Option<u32> {
        if self == Handle::POISON {
            return None;
        }
        assert!(self.build == build, "a tile, scalar or tensor was kept from another kernel's build: make it anew in this one");
        Some(self.id)
    }
    /// The value in a kernel's build.
    pub(crate) fn value(self, build: u32) -> Option<ValueId> {
        self.get(build).map(ValueId)
    }
}

/// A build in progress.
pub(crate) enum Session {
    /// Of a kernel.
    Kernel(Box<KernelBuilder>),
    /// Of a program.
    Program(Box<ProgramBuilder>),
}

impl Session {
    /// Records a mistake.
    pub(crate) fn error(&mut self, diagnostic: Diagnostic) -> Handle {
        let all = match self {
            Session::Kernel(k) => &mut k.diagnostics,
            Session::Program(p) => &mut p.diagnostics,
        };
        if !all.iter().any(|d| d.loc == diagnostic.loc && d.message == diagnostic.message) {
            all.push(diagnostic);
        }
        Handle::POISON
    }
    /// The kernel's builder; in a program, an error that `what` (a tile operation) belongs into a kernel.
    pub(crate) fn kernel(&mut self, what: &str, loc: SourceLoc) -> Option<&mut KernelBuilder> {
        if matches!(self, Session::Program(_)) {
            let message = format!("{what} belongs into a kernel; a program runs on the host");
            self.error(Diagnostic::new(loc, message).help("move it into a `#[kernel]` and launch that here"));
            return None;
        }
        match self {
            Session::Kernel(k) => Some(k),
            Session::Program(_) => None,
        }
    }
    /// The program's recorder; in a kernel, an error that `what` belongs into a program.
    pub(crate) fn program(&mut self, what: &str, loc: SourceLoc) -> Option<&mut ProgramBuilder> {
        if matches!(self, Session::Kernel(_)) {
            let message = format!("{what} belongs into a program; a kernel runs on the GPU");
            self.error(Diagnostic::new(loc, message).help("write it in a `#[program]`"));
            return None;
        }
        match self {
            Session::Program(p) => Some(p),
            Session::Kernel(_) => None,
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Session>> = const { RefCell::new(None) };
    static BUILDS: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f` on the build in progress.
///
/// # Panics
/// If there is none.
pub(crate) fn with<R>(f: impl FnOnce(&mut Session) -> R) -> R {
    CURRENT.with(|current| {
        let mut current = current.borrow_mut();
        let session = current.as_mut().expect("tiles, scalars and tensors exist only while a #[kernel] or #[program] is being built");
        f(session)
    })
}

/// Whether a program is being recorded on this thread.
pub(crate) fn in_program() -> bool {
    CURRENT.with(|current| matches!(*current.borrow(), Some(Session::Program(_))))
}

/// The stamp of a new build.
pub(crate) fn next_build() -> u32 {
    BUILDS.with(|b| {
        b.set(b.get().wrapping_add(1).max(1));
        b.get()
    })
}

struct Guard {
    outer: Option<Option<Session>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            CURRENT.with(|current| *current.borrow_mut() = outer);
        }
    }
}

/// Runs `body` with `session` as the build in progress and gives the session back. A build that is already in progress on this
/// thread (a program that builds a kernel it launches) waits.
pub(crate) fn run(session: Session, body: impl FnOnce()) -> Session {
    let outer = CURRENT.with(|current| current.borrow_mut().replace(session));
    let mut guard = Guard { outer: Some(outer) };
    body();
    let outer = guard.outer.take().expect("the guard holds the outer build until here");
    let mut current = outer;
    CURRENT.with(|c| std::mem::swap(&mut *c.borrow_mut(), &mut current));
    current.expect("the body cannot end its own build")
}
