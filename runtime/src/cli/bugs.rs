//! Faults of the compiler that this process has run into: each costs one schedule, and the command that met it tells of it at its end.

use girih_core::bug::{Bug, note_place, watch};
use std::sync::{Mutex, PoisonError};

/// Bugs with the number of schedules that they cost: the first one of each kernel and message stands for the others.
static SEEN: Mutex<Vec<(Bug, usize)>> = Mutex::new(Vec::new());
/// Bugs that are told of.
const TOLD: usize = 8;

/// From now on bugs are noted, and their panics are not printed.
pub fn watch_compiler() {
    watch(note);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.location().is_some_and(note_place) {
            report(info);
        }
    }));
}

fn note(bug: &Bug) {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    match seen.iter_mut().find(|(b, _)| b.kernel == bug.kernel && b.message == bug.message) {
        Some((_, count)) => *count += 1,
        None => seen.push((bug.clone(), 1)),
    }
}

/// What was noted, with the number of times.
pub fn seen() -> Vec<(Bug, usize)> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Tells of what was noted on stderr; how much that is.
pub fn tell() -> usize {
    let seen = seen();
    for (bug, count) in seen.iter().take(TOLD) {
        let often = if *count > 1 { format!(" (met {count} times)") } else { String::new() };
        eprintln!("compiler bug{often}: {bug}");
    }
    if seen.len() > TOLD {
        eprintln!("and {} more compiler bugs", seen.len() - TOLD);
    }
    seen.len()
}
