//! Schedules: one complete choice of knobs. A schedule changes speed, never results.

pub mod parse;
mod permutation;
mod targets;
pub mod words;

pub use permutation::{Permutation, mix};
pub use targets::{Of, Site};
pub use words::Words;

use crate::loc::SourceLoc;
use crate::tile::{Kernel, KnobId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a knob decides. Names are those of the attribute's groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KnobKind {
    /// `tile(T = ..)`: elements of the output, or of a reduced axis, that one block works on at a time.
    Tile,
    /// `coarsen(C of T = ..)`: elements one thread owns along the axis that tile `T` cuts.
    Coarsen {
        /// The tile knob.
        of: KnobId,
    },
    /// `vector(V = ..)`: elements per global-memory instruction.
    Vector,
    /// `stages(S = ..)`: buffers of the software pipeline; 1 means none.
    Stages,
    /// `copy(P = [Registers, Async, Bulk, Tensor])`: how a stage is filled.
    Copy,
    /// `grid(G = [0, 1, 2, ..])`: 0 for one tile per block, k for k blocks per multiprocessor to which tiles are dealt.
    Grid,
    /// `threads(N = ..)`: threads per block, instead of those that coarsening gives.
    Threads,
    /// `warps(W = ..)`: warps per block, where a matrix unit's atoms are dealt to warps.
    Warps,
    /// `unit(U = [Ffma, Mma, Wgmma])`: which unit computes a dot.
    Unit,
    /// `rows(L = [Direct, Shared])`: how a tile of whole rows (`..n`) is read: each thread its own rows, or all threads the tile as one
    /// contiguous run through shared memory.
    Rows,
    /// `halo(H = [Shared, Direct])`: where a window is read from: a copy in shared memory that the block makes, or global memory.
    Halo,
    /// `operands(O = [Shared, Direct])`: where a dot's operands are read from: a copy in shared memory that the block makes, or global
    /// memory.
    Operands,
    /// `constant(M of w = [Off, On])`: whether a tensor that all threads of a block read at one index lies in constant memory, where it fits.
    Constant,
    /// `finish(F = [LastBlock, Atomics, SecondLaunch])`: how what blocks have is combined over the grid: in the blocks' order by the last of
    /// them, by atomics, in the order in which they come, or in the blocks' order by a launch behind this one.
    Finish,
    /// `raster(X = [1, 8, ..])`: over a grid of several axes, blocks walk this many rows of tiles together, column by column; 1 is row after row.
    Raster,
    /// `order(D = [Rising, Falling])`: from which end on blocks take the grid's tiles: from the last where that one has the most turns.
    Order,
    /// `turns(T = [Free, InTurn])`: whether the warp groups of a block multiply one after the other.
    Turns,
    /// `split(Z = [1, 4, 0, ..])`: blocks that share the turns of a sum of dots; 0 deals the turns of all tiles to as many blocks as fit,
    /// each as many of them.
    Split,
    /// `slices(G = [1, 2, 4])`: groups of a block's threads that share the turns of a sum of dots; each has copies of its own.
    Slices,
    /// `cluster(X of C = [1, 2, 4, 8])`: blocks that work together on as many neighbouring tiles of the axis that tile `C` cuts, and exchange
    /// what they reduce along it through one another's shared memory.
    Cluster {
        /// The tile knob.
        of: KnobId,
    },
    /// `min_blocks(Q = [1, 2, 3])`: blocks per multiprocessor that registers are kept low for: the second argument of `__launch_bounds__`.
    MinBlocks,
    /// `opt_level(L = [3, 1])`: how hard ptxas tries (its `-O`); at 1 it keeps more of the order in which products are written.
    OptLevel,
    /// `copies(K = [1, 8, ..])`: copies of each element of a shared array that is only updated by one kind of atomic: lanes update
    /// different ones, and a read combines them.
    Copies,
    /// `cache(H = [Default, Streaming, Stores, Loads, Kept, Once])`: hints on global accesses whose data nobody reads again: on all of them, on
    /// stores only (loads of neighbouring threads share lines of the cache), or on loads only (the output stays in the cache); or loads
    /// whose lines the L2 is asked to keep.
    Cache,
}

impl KnobKind {
    /// The group's name in the attribute.
    pub fn group(self) -> &'static str {
        match self {
            KnobKind::Tile => "tile",
            KnobKind::Coarsen { .. } => "coarsen",
            KnobKind::Vector => "vector",
            KnobKind::Stages => "stages",
            KnobKind::Copy => "copy",
            KnobKind::Grid => "grid",
            KnobKind::Threads => "threads",
            KnobKind::Warps => "warps",
            KnobKind::Unit => "unit",
            KnobKind::Rows => "rows",
            KnobKind::Halo => "halo",
            KnobKind::Operands => "operands",
            KnobKind::Constant => "constant",
            KnobKind::Finish => "finish",
            KnobKind::Raster => "raster",
            KnobKind::Order => "order",
            KnobKind::Turns => "turns",
            KnobKind::Split => "split",
            KnobKind::Slices => "slices",
            KnobKind::Cluster { .. } => "cluster",
            KnobKind::MinBlocks => "min_blocks",
            KnobKind::OptLevel => "opt_level",
            KnobKind::Copies => "copies",
            KnobKind::Cache => "cache",
        }
    }
    /// The words that a knob of this kind may take; empty for numbers.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            KnobKind::Copy => words::CopyPath::WORDS,
            KnobKind::Unit => words::DotUnit::WORDS,
            KnobKind::Rows => words::RowPath::WORDS,
            KnobKind::Halo => words::HaloPath::WORDS,
            KnobKind::Operands => words::OperandPath::WORDS,
            KnobKind::Constant => words::ConstantPath::WORDS,
            KnobKind::Finish => words::FinishPath::WORDS,
            KnobKind::Order => words::TileOrder::WORDS,
            KnobKind::Turns => words::GroupTurns::WORDS,
            KnobKind::Cache => words::CacheHint::WORDS,
            _ => &[],
        }
    }
}

/// A value of a knob.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Choice {
    /// A number.
    Int(i64),
    /// One of the kind's words.
    Word(String),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Choice::Int(i) => write!(f, "{i}"),
            Choice::Word(w) => f.write_str(w),
        }
    }
}

/// One dimension of a kernel's space.
#[derive(Clone, PartialEq, Debug)]
pub struct Knob {
    /// Unique in the kernel: `T`, `BM`; the group's name where the author gave none.
    pub name: String,
    /// What it decides.
    pub kind: KnobKind,
    /// What it is for; `None` for all that no other knob of its kind names.
    pub of: Option<Of>,
    /// The values worth trying; the first is the default. Never empty.
    pub choices: Vec<Choice>,
    /// The author's line.
    pub loc: SourceLoc,
}

/// A value for each knob of a kernel, in the order of [`Kernel::knobs`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// The choices.
    pub choices: Vec<Choice>,
}

impl Schedule {
    /// The first choice of every knob.
    pub fn default_of(kernel: &Kernel) -> Schedule {
        Schedule { choices: kernel.knobs.iter().map(|k| k.choices[0].clone()).collect() }
    }

    /// The smallest number that the author listed for each knob: what the evaluator takes where it is told nothing.
    pub fn smallest_of(kernel: &Kernel) -> Schedule {
        Schedule { choices: kernel.knobs.iter().map(|k| k.choices.iter().min().expect("a knob has choices").clone()).collect() }
    }

    /// The numeric value of a knob; 0 for words.
    pub fn int(&self, knob: KnobId) -> i64 {
        match &self.choices[knob.0 as usize] {
            Choice::Int(i) => *i,
            Choice::Word(_) => 0,
        }
    }

    /// The value of the knob of a kind (vector, stages, copy, grid, threads, warps, unit, cache) that is for all, if the kernel has one.
    pub fn of_kind<'a>(&'a self, kernel: &Kernel, kind: KnobKind) -> Option<&'a Choice> {
        kernel.knob_at(kind, &Site::default()).map(|id| &self.choices[id.0 as usize])
    }

    /// The numeric value of the knob of a kind that is for all, or `default`.
    pub fn int_of_kind(&self, kernel: &Kernel, kind: KnobKind, default: i64) -> i64 {
        self.int_at(kernel, kind, &Site::default(), default)
    }

    /// The numeric value of the knob of a kind that counts at a site, or `default`.
    pub fn int_at(&self, kernel: &Kernel, kind: KnobKind, site: &Site, default: i64) -> i64 {
        match kernel.knob_at(kind, site).map(|id| &self.choices[id.0 as usize]) {
            Some(Choice::Int(i)) => *i,
            _ => default,
        }
    }

    /// `T=1024 C=4 V=4`: short text for tables, progress and file names' sake.
    pub fn short(&self, kernel: &Kernel) -> String {
        let parts: Vec<String> = kernel.knobs.iter().zip(&self.choices).map(|(k, c)| format!("{}={c}", k.name)).collect();
        parts.join(" ")
    }

    /// The schedule as the attribute that pins it: `#[kernel(tile(T = 1024), coarsen(C of T = 4), vector(V = 4))]`.
    pub fn attribute(&self, kernel: &Kernel) -> String {
        attribute_of(&kernel.knobs, &self.choices)
    }
}

/// The attribute that pins `choices`, one per knob.
pub fn attribute_of(knobs: &[Knob], choices: &[Choice]) -> String {
    let mut groups: Vec<(&'static str, Vec<String>)> = Vec::new();
    for (knob, choice) in knobs.iter().zip(choices) {
        let text = match (knob.kind, &knob.of) {
            (KnobKind::Coarsen { of } | KnobKind::Cluster { of }, _) => {
                format!("{} of {} = {choice}", knob.name, knobs[of.0 as usize].name)
            }
            (_, Some(of)) => format!("{} of {} = {choice}", knob.name, of.name()),
            (kind, None) if knob.name == kind.group() => format!("= {choice}"),
            (_, None) => format!("{} = {choice}", knob.name),
        };
        // A group without names stands alone.
        let joins = |v: &[String]| !v[0].starts_with('=') && !text.starts_with('=');
        match groups.iter_mut().find(|(g, v)| *g == knob.kind.group() && joins(v)) {
            Some((_, v)) => v.push(text),
            None => groups.push((knob.kind.group(), vec![text])),
        }
    }
    let parts: Vec<String> = groups
        .into_iter()
        .map(|(g, v)| if v[0].starts_with('=') { format!("{g} {}", v[0]) } else { format!("{g}({})", v.join(", ")) })
        .collect();
    format!("#[kernel({})]", parts.join(", "))
}

/// Why a schedule can't be lowered: the knob, the number found and the number allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("illegal schedule: {knob}{}{found}: {rule}", if knob.is_empty() { "" } else { " = " })]
pub struct ScheduleError {
    /// The knob's name, or several: `T / C`; empty where it is about none.
    pub knob: String,
    /// What was found.
    pub found: String,
    /// What is allowed, as a sentence: `threads per block are T / C = 2048; a block has at most 1024`.
    pub rule: String,
    /// The rule's name in the compiler's table (`plan/legality`); empty where it is none of these.
    pub id: &'static str,
    /// The knob's line.
    pub loc: Option<SourceLoc>,
}
