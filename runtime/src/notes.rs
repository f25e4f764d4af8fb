//! What a user is told once on stderr, beside what was asked for.

use std::sync::Mutex;

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tells it, unless it was told before.
pub(crate) fn once(text: String) {
    let Ok(mut told) = TOLD.lock() else { return };
    if !told.contains(&text) {
        eprintln!("note: {text}");
        told.push(text);
    }
}

/// Whether it was told in this process.
#[cfg(test)]
pub(crate) fn was_told(text: &str) -> bool {
    TOLD.lock().is_ok_and(|told| told.iter().any(|known| known.contains(text)))
}
