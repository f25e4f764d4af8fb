//! Ladders: a technique from the naive kernel to the best one, rung by rung.
//!
//! A ladder is data beside its kernels, one [`ladder!`](crate::ladder!) block: rungs of one challenge, each a program with the same parameters
//! (the challenge's own where none is named), what its schedule sets, and a title. Everything else that is told of a rung is computed:
//! [`climb`](mod@climb) asks counts, model and GPU, [`paragraph`] says what changed by the counters, [`text`] and [`page`] print it.
//!
//! ```text
//! girih::ladder! {
//!     Ladder::new("reduction", "The sum of all elements", "reduction")
//!         .rung_of(one_by_one::Program::def, "An atomic addition for every element", "T=256")
//!         .rung("A sum for each block first", "T=512,F=Atomics")
//! }
//! ```

pub mod climb;
pub mod page;
pub mod paragraph;
pub mod text;
pub(crate) mod timed;
mod totals;
pub mod verdict;

use crate::subject::Subject;
use crate::subject::challenge::{Challenge, Sizes, challenges};
use crate::subject::set::Set;
use crate::tune::launches::{self, promised};
use girih_core::linkme::distributed_slice;
use girih_core::program::ProgramDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_settings;
use girih_core::schedule::space::Space;
use girih_core::target::Target;

/// Every linked ladder. Filled by [`ladder!`](crate::ladder!).
#[distributed_slice]
#[linkme(crate = girih_core::linkme)]
pub static LADDERS: [fn() -> Ladder];

/// All linked ladders, sorted by name.
pub fn ladders() -> Vec<Ladder> {
    let mut all: Vec<Ladder> = LADDERS.iter().map(|make| make()).collect();
    all.sort_by_key(|ladder| ladder.name);
    all
}

/// The ladder of a name.
///
/// # Errors
/// There is none, with those there are.
pub fn ladder(name: &str) -> Result<Ladder, String> {
    let all = ladders();
    let known: Vec<&str> = all.iter().map(|l| l.name).collect();
    let unknown = || match known[..] {
        [] => "no ladders are linked into this program: declare one with `girih::ladder!` beside a kernel".to_string(),
        _ => format!("there is no ladder `{name}`; there are {}", known.join(", ")),
    };
    all.iter().find(|l| l.name == name).cloned().ok_or_else(unknown)
}

/// Registers a [`Ladder`]: `ladder! { Ladder::new(..).. }`. One per module.
#[macro_export]
macro_rules! ladder {
    ($make:expr) => {
        /// This module's ladder.
        pub fn ladder() -> $crate::ladder::Ladder {
            use $crate::ladder::Ladder;
            $make
        }

        #[$crate::linkme::distributed_slice($crate::ladder::LADDERS)]
        #[linkme(crate = $crate::linkme)]
        static GIRIH_LADDER: fn() -> $crate::ladder::Ladder = ladder;
    };
}

/// A technique, rung by rung.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// `reduction`: what the command line calls it.
    pub name: &'static str,
    /// What it is about, for a reader.
    pub title: &'static str,
    /// The challenge whose inputs, reference and sizes all rungs share.
    pub challenge: &'static str,
    /// Sizes to climb at, where they are not the challenge's own.
    pub sizes: &'static str,
    /// From the bottom.
    pub rungs: Vec<Rung>,
}

/// A program under a schedule.
#[derive(Clone, Debug)]
pub struct Rung {
    /// What it does otherwise than the rung before.
    pub title: &'static str,
    /// What is run; the challenge's own program where it is nothing.
    pub program: Option<ProgramDef>,
    /// What its schedule sets beside the plainest one, as `autotune show --set` reads it.
    pub set: &'static str,
    /// Why the model may say that it is slower than the rung before.
    pub slower: Option<&'static str>,
    /// What a GPU finds that the model does not know.
    pub found: Option<&'static str>,
}

/// A rung at sizes: the subject with its variants chosen, and a schedule for each launch site.
pub struct At {
    /// What is run.
    pub subject: Subject,
    /// The sizes.
    pub sizes: Sizes,
    /// By launch site, each with where it comes from.
    pub way: Vec<(Schedule, &'static str)>,
}

impl Ladder {
    /// A ladder without rungs.
    pub fn new(name: &'static str, title: &'static str, challenge: &'static str) -> Ladder {
        Ladder { name, title, challenge, sizes: "", rungs: Vec::new() }
    }

    /// Sizes to climb at, as `N=1000`, where they are not those of the challenge.
    pub fn at(mut self, sizes: &'static str) -> Ladder {
        self.sizes = sizes;
        self
    }

    /// The challenge's own program; what its schedule sets beside the plainest one, as `T=1024,V=4` at every launch or by launch site and
    /// variant, as in `chunks=no; normalise: V=4`.
    pub fn rung(mut self, title: &'static str, set: &'static str) -> Ladder {
        self.rungs.push(Rung { title, program: None, set, slower: None, found: None });
        self
    }

    /// Another program with the same parameters.
    pub fn rung_of(mut self, program: fn() -> ProgramDef, title: &'static str, set: &'static str) -> Ladder {
        self.rungs.push(Rung { title, program: Some(program()), set, slower: None, found: None });
        self
    }

    /// Says of the last rung why the model may find it slower than the one before.
    pub fn slower(mut self, why: &'static str) -> Ladder {
        if let Some(rung) = self.rungs.last_mut() {
            rung.slower = Some(why);
        }
        self
    }

    /// Says of the last rung why a GPU finds another time than the model has: a page shows that instead of the model's reasons where what was
    /// measured says that these are wrong, and where a rung is slower than the one before on the GPU alone.
    pub fn found(mut self, why: &'static str) -> Ladder {
        if let Some(rung) = self.rungs.last_mut() {
            rung.found = Some(why);
        }
        self
    }

    /// The sizes to climb at: those that are asked for, else the ladder's, else the challenge's.
    ///
    /// # Errors
    /// A text that is no sizes.
    pub fn sizes(&self, asked: &Sizes) -> Result<Sizes, String> {
        Ok(asked.or(&Sizes::parse(self.sizes).map_err(|e| self.named(&e))?))
    }

    /// A rung at sizes.
    ///
    /// # Errors
    /// A challenge that there is not, a program with other parameters, sizes that do not fit; settings that can't be read, or are illegal for
    /// the launches of these sizes.
    pub fn rung_at(&self, rung: &Rung, asked: &Sizes, target: &Target) -> Result<At, String> {
        let found = challenges().into_iter().find(|c| c.slug == self.challenge);
        let challenge = found.ok_or_else(|| self.named(&format!("there is no challenge `{}`", self.challenge)))?;
        let program = rung.program.unwrap_or(challenge.program);
        let subject = Subject::of_challenge(&Challenge { program, ..challenge })?;
        let set = Set::read(&subject, Some(rung.set).filter(|set| !set.is_empty()))?;
        let subject = set.applied(&subject)?;
        let sizes = subject.perf_sizes(&self.sizes(asked)?)?;
        let way = way(&subject, &sizes, &set, target)?;
        Ok(At { subject, sizes, way })
    }

    fn named(&self, error: &str) -> String {
        format!("ladder {}: {error}", self.name)
    }
}

/// The plainest schedule of each launch site with what is set; sites that a call of these sizes does not launch have any legal one.
fn way(subject: &Subject, sizes: &Sizes, set: &Set, target: &Target) -> Result<Vec<(Schedule, &'static str)>, String> {
    let launches = launches::at(subject, sizes)?;
    let names = subject.program.site_names();
    if let Some(idle) = set.sites().find(|name| !launches.iter().any(|l| names[l.site] == **name)) {
        let launched: Vec<&str> = launches.iter().map(|l| names[l.site].as_str()).collect();
        return Err(format!(
            "a rung sets `{idle}`, which a call at {sizes} does not launch under its variants; it launches {}",
            launched.join(", ")
        ));
    }
    let site = |(site, (name, def)): (usize, (String, girih_core::registry::KernelDef))| {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        let (facts, _) = promised(&launches, site, &kernel);
        let space = Space::new(&kernel, &facts, target);
        let plain = space.naive().map_err(|e| format!("{name}: {e}"))?;
        let Some(text) = set.of_site(&name) else { return Ok((plain, "the plainest")) };
        let schedule = parse_settings(&kernel, text, &plain).map_err(|e| format!("{name}: {e}"))?;
        girih_core::lower::check(&kernel, &facts, &schedule, target).map_err(|e| format!("{name}: {e}"))?;
        Ok((schedule, "set"))
    };
    subject.program.site_names().into_iter().zip(subject.program.sites()).enumerate().map(site).collect()
}
