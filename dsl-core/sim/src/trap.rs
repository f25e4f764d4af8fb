//! Traps: what a launch did that no launch may do. A trap is a result of the simulation, not an error of the simulator.

use std::fmt;

/// A defect found while running a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Trap {
    /// The kernel's name.
    pub kernel: String,
    /// The block, where one thread is to blame.
    pub block: Option<u32>,
    /// The thread in its block, where one thread is to blame.
    pub thread: Option<u32>,
    /// The statement, as the text form of SIMT IR shows it.
    pub statement: String,
    /// The nearest comment above it.
    pub comment: Option<String>,
    /// What happened.
    pub kind: TrapKind,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum TrapKind {
    /// An access outside of its buffer or shared array.
    OutOfBounds {
        /// Parameter or shared array.
        memory: String,
        /// First element of the access, in elements of its type, relative to the parameter's pointer or the array's start.
        element: i64,
        /// Bytes accessed.
        bytes: u32,
        /// Bytes that there are from the pointer or the array's start on.
        len: u64,
    },
    /// A read of memory or of a register that nobody wrote.
    Uninitialised {
        /// `x[5]`.
        what: String,
    },
    /// An address that is not a multiple of the access's size.
    Misaligned {
        /// Parameter or shared array.
        memory: String,
        /// Byte address, relative to the buffer or the block's shared memory.
        address: u64,
        /// What it must be a multiple of.
        align: u32,
    },
    /// Two accesses to one byte, one of them a write, that nothing orders.
    Race {
        /// `x[5]`.
        what: String,
        /// What this access does.
        access: &'static str,
        /// The other access.
        other: RaceSide,
    },
    /// A barrier or shuffle that not all threads reach together.
    Divergent {
        /// What was found.
        found: String,
    },
    /// A shuffle that reads a lane that does not take part.
    InactiveLane {
        /// The lane.
        lane: u32,
    },
    /// An element outside of an array variable.
    ElementOutOfBounds {
        /// The array variable.
        array: String,
        /// The element.
        element: i64,
        /// Elements.
        len: u32,
    },
    /// Nobody can run and not everybody has finished.
    Deadlock {
        /// Who waits where.
        waiting: Vec<String>,
    },
    /// The instruction limit was reached.
    FuelExhausted {
        /// The limit, in warp instructions.
        fuel: u64,
    },
    /// A block's shared memory is read when the block has ended, or nothing orders the read before its end.
    Ended {
        /// What was found.
        found: String,
    },
    /// An mbarrier, an asynchronous copy, a word between blocks or a loop was used against its rules.
    Misuse {
        /// What was found.
        found: String,
    },
}

/// The other access of a race.
#[derive(Clone, PartialEq, Debug)]
pub struct RaceSide {
    /// Its block.
    pub block: u32,
    /// Its thread, where it was one thread and no bulk copy.
    pub thread: Option<u32>,
    /// What it did: `write`, `read`, `atomic`, `asynchronous write`, ..
    pub access: &'static str,
    /// Its statement.
    pub statement: String,
}

impl fmt::Display for RaceSide {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.thread {
            Some(t) => write!(f, "{} by block {} thread {t} in `{}`", self.access, self.block, self.statement),
            None => write!(f, "{} by a bulk copy of block {} in `{}`", self.access, self.block, self.statement),
        }
    }
}

impl TrapKind {
    /// One word for tests and tables: `race`, `bounds`, `uninitialised`, ..
    pub fn name(&self) -> &'static str {
        match self {
            TrapKind::OutOfBounds { .. } => "bounds",
            TrapKind::Uninitialised { .. } => "uninitialised",
            TrapKind::Misaligned { .. } => "misaligned",
            TrapKind::Race { .. } => "race",
            TrapKind::Divergent { .. } => "divergent",
            TrapKind::InactiveLane { .. } => "inactive lane",
            TrapKind::ElementOutOfBounds { .. } => "element",
            TrapKind::Deadlock { .. } => "deadlock",
            TrapKind::FuelExhausted { .. } => "fuel",
            TrapKind::Ended { .. } => "ended",
            TrapKind::Misuse { .. } => "misuse",
        }
    }
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TrapKind::OutOfBounds { memory, element, bytes, len } => {
                write!(f, "out of bounds: {bytes} bytes at element {element} of {memory}, which has {len} bytes")
            }
            TrapKind::Uninitialised { what } => write!(f, "uninitialised: {what} is read before it is written"),
            TrapKind::Misaligned { memory, address, align } => {
                write!(f, "misaligned: byte {address} of {memory} is accessed, which must be a multiple of {align}")
            }
            TrapKind::Race { what, access, other } => write!(f, "race on {what}: this {access} and a {other} are not ordered"),
            TrapKind::Divergent { found } => write!(f, "divergent: {found}"),
            TrapKind::InactiveLane { lane } => write!(f, "the shuffle reads lane {lane}, which takes no part"),
            TrapKind::ElementOutOfBounds { array, element, len } => write!(f, "element {element} of array {array} of {len} elements"),
            TrapKind::Deadlock { waiting } => write!(f, "deadlock: {}", waiting.join("; ")),
            TrapKind::FuelExhausted { fuel } => write!(f, "not finished after {fuel} warp instructions"),
            TrapKind::Ended { found } | TrapKind::Misuse { found } => f.write_str(found),
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.kind)?;
        if let (Some(b), Some(t)) = (self.block, self.thread) {
            write!(f, "\n  at block {b} thread {t}")?;
        }
        if !self.statement.is_empty() {
            write!(f, "\n  in `{}`", self.statement)?;
        }
        if let Some(c) = &self.comment {
            write!(f, "\n  below `// {c}`")?;
        }
        Ok(())
    }
}

impl std::error::Error for Trap {}
