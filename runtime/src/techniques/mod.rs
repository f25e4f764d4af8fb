//! Techniques of the host: what a program does around its kernels. Copies beside launches, graphs, memory that both reach, a cache that keeps.
//!
//! A technique is data beside its kernels, one [`technique!`](crate::technique!) block: a function that runs some ways of doing the same work on a
//! stream, checks that all of them are right, and gives a [`Timeline`] of each. [`text`] prints them, the report draws them.
//!
//! ```text
//! girih::technique! {
//!     Technique::new("overlapped_copies", "Copies beside kernels", overlapped)
//! }
//! ```

pub mod recorder;
pub mod text;

use crate::error::Error;
use crate::launch::stream::Stream;
use girih_core::linkme::distributed_slice;

/// Every linked technique. Filled by [`technique!`](crate::technique!).
#[distributed_slice]
#[linkme(crate = girih_core::linkme)]
pub static TECHNIQUES: [fn() -> Technique];

/// Registers a [`Technique`]: `technique! { Technique::new(..) }`. One per module.
#[macro_export]
macro_rules! technique {
    ($make:expr) => {
        /// This module's technique.
        pub fn technique() -> $crate::techniques::Technique {
            use $crate::techniques::Technique;
            $make
        }

        #[$crate::linkme::distributed_slice($crate::techniques::TECHNIQUES)]
        #[linkme(crate = $crate::linkme)]
        static GIRIH_TECHNIQUE: fn() -> $crate::techniques::Technique = technique;
    };
}

/// A technique of the host.
#[derive(Clone, Copy, Debug)]
pub struct Technique {
    /// `overlapped_copies`: what the command line calls it.
    pub name: &'static str,
    /// What it is about, for a reader.
    pub title: &'static str,
    /// Runs its ways of doing the same work with tensors of about so many elements, the plainest way first.
    pub run: fn(&Stream, usize) -> Result<Vec<Timeline>, Error>,
}

impl Technique {
    /// A technique of this name.
    pub const fn new(name: &'static str, title: &'static str, run: fn(&Stream, usize) -> Result<Vec<Timeline>, Error>) -> Technique {
        Technique { name, title, run }
    }
}

/// All linked techniques, sorted by name.
pub fn techniques() -> Vec<Technique> {
    let mut all: Vec<Technique> = TECHNIQUES.iter().map(|make| make()).collect();
    all.sort_by_key(|technique| technique.name);
    all
}

/// The technique of a name.
///
/// # Errors
/// There is none, with those there are.
pub fn technique(name: &str) -> Result<Technique, String> {
    let all = techniques();
    let known: Vec<&str> = all.iter().map(|t| t.name).collect();
    let unknown = || format!("there is no technique `{name}`; there are: {}", known.join(", "));
    all.iter().find(|t| t.name == name).copied().ok_or_else(unknown)
}

/// What one way of doing the work did when.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// The way, for a reader: `three streams, eight chunks`.
    pub title: String,
    /// What took how long, in the order in which it was queued.
    pub spans: Vec<Span>,
    /// From the first to the last of it, microseconds.
    pub us: f64,
}

/// A piece of work.
#[derive(Clone, PartialEq, Debug)]
pub struct Span {
    /// What did it: `copies in`, `kernels`, a stream.
    pub lane: String,
    /// What it was.
    pub name: String,
    /// When it began and ended, microseconds from the timeline's beginning.
    pub us: (f64, f64),
}

impl Timeline {
    /// Its lanes, in the order in which they come first.
    pub fn lanes(&self) -> Vec<&str> {
        let mut lanes: Vec<&str> = Vec::new();
        for span in &self.spans {
            if !lanes.contains(&span.lane.as_str()) {
                lanes.push(&span.lane);
            }
        }
        lanes
    }

    /// What the spans of a lane take together, microseconds.
    pub fn busy_us(&self, lane: &str) -> f64 {
        self.spans.iter().filter(|s| s.lane == lane).map(|s| s.us.1 - s.us.0).sum()
    }
}
