//! What is wrong with the kernels of a program before anything is run: told once, where a subject is made.

use girih_core::program::Program;
use girih_core::registry::KernelDef;
use girih_core::schedule::illegal_first_choices;
use std::collections::HashMap;
use std::sync::Mutex;

/// What was found of kernels, by their paths and places: kernels don't change while a program runs.
static FOUND: Mutex<Option<HashMap<String, Option<String>>>> = Mutex::new(None);

/// Whether the first choices of every kernel are a schedule somewhere. A kernel that can't be built says so where it is needed.
///
/// # Errors
/// The first kernel whose first choices are none.
pub(super) fn check_first_choices(program: &Program) -> Result<(), String> {
    program.sites().iter().find_map(wrong_first_choices).map_or(Ok(()), Err)
}

/// What is wrong with a kernel's first choices, if anything is.
pub(crate) fn wrong_first_choices(def: &KernelDef) -> Option<String> {
    let key = format!("{} {}", def.path(), def.loc);
    let known = |found: &Option<HashMap<String, Option<String>>>| found.as_ref().and_then(|f| f.get(&key).cloned());
    if let Some(known) = known(&FOUND.lock().unwrap_or_else(|e| e.into_inner())) {
        return known;
    }
    let wrong = (def.build)().ok().and_then(|kernel| illegal_first_choices(&kernel)).map(|d| d.to_string());
    FOUND.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_default().insert(key, wrong.clone());
    wrong
}
