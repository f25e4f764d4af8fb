//! Faults of the compiler: a panic of a pass costs one kernel under one schedule, and is reported with a command that shows it again.

use crate::facts::Facts;
use crate::schedule::Schedule;
use crate::target::Target;
use crate::tile::Kernel;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

thread_local! {
    /// How many calls of [`contained`] the thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Where the last panic of such a call was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Who is told of every bug.
static WATCHER: OnceLock<fn(&Bug)> = OnceLock::new();

/// A panic of the compiler over one kernel under one schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bug {
    /// What was being done: `lowering`, `emitting`.
    pub step: &'static str,
    /// The kernel's path.
    pub kernel: String,
    /// The schedule.
    pub schedule: String,
    /// What the launch promised.
    pub facts: String,
    /// The panic's first line, and where it was if that is known.
    pub message: String,
    /// The command that shows it again.
    pub replay: String,
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Bug { step, kernel, schedule, facts, message, replay } = self;
        write!(f, "a fault of girih, not of the kernel: {step} `{kernel}` under {schedule} panicked: {message}")?;
        write!(f, "\n  facts: {facts}\n  help: this schedule cannot be used, others may be; please report it with: {replay}")
    }
}

impl Bug {
    /// Notes a panic, and tells whoever watches. `again` says whether the same happens under other facts: a command line knows a few.
    pub fn found(
        step: &'static str,
        (kernel, facts, schedule, target): (&Kernel, &Facts, &Schedule, &Target),
        message: String,
        again: &dyn Fn(&Facts) -> bool,
    ) -> Bug {
        let best = Facts::best(kernel);
        let fitting = best.clone().fitting(kernel, schedule);
        let named = [("best", best), ("fitting", fitting), ("packed", Facts::packed(kernel, true)), ("none", Facts::none(kernel))];
        let same = named.iter().find(|(_, f)| f == facts).or_else(|| named.iter().find(|(_, f)| again(f)));
        let path = format!("{}{}", kernel.path, kernel.full_name().trim_start_matches(&kernel.name));
        let set = schedule.short(kernel).replace(' ', ",");
        let set = if set.is_empty() { String::new() } else { format!(" --set {set}") };
        let replay = format!("autotune show '{path}'{set} --arch {} --facts {}", target.arch, same.map_or("best", |(name, _)| name));
        let bug = Bug { step, kernel: path, schedule: schedule.short(kernel), facts: facts.to_string(), message, replay };
        if let Some(watcher) = WATCHER.get() {
            watcher(&bug);
        }
        bug
    }
}

/// From now on this function is told of every bug, by the thread that ran into it. The first caller is the only one.
pub fn watch(watcher: fn(&Bug)) {
    // A second watcher is none.
    let _ = WATCHER.set(watcher);
}

/// What `work` makes, or what it panicked with.
///
/// # Errors
/// The first line of the panic's message, and where it was if a panic hook has called [`note_place`].
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    PLACE.take();
    DEPTH.set(DEPTH.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    outcome.map_err(|panic| {
        let place = PLACE.take().map_or(String::new(), |place| format!(" ({place})"));
        format!("{}{place}", first_line(&*panic))
    })
}

/// The first line of what a thread panicked with.
pub fn first_line(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.and_then(|t| t.lines().next()).unwrap_or("without a message").to_string()
}

/// For a panic hook: whether this thread's panic is contained and will be reported as a [`Bug`], so that nothing has to be printed; and
/// where it is.
pub fn note_place(place: impl fmt::Display) -> bool {
    let is_contained = DEPTH.get() > 0;
    if is_contained {
        PLACE.replace(Some(place.to_string()));
    }
    is_contained
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_contained_with_its_first_line() {
        let panics = |text: &'static str| contained(move || if text.is_empty() { 1 } else { panic!("{text}") });
        assert_eq!(panics(""), Ok(1));
        assert!(
            panics("pass: no such thing in\nkernel k").is_err_and(|e| e.starts_with("pass: no such thing in") && !e.contains("kernel k"))
        );
        assert_eq!(contained(|| contained(|| 2)), Ok(Ok(2)));
        assert!(!note_place("here"), "outside of it nothing is contained");
        assert_eq!(contained(|| note_place("there")), Ok(true));
    }
}
