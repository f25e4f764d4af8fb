//! `winners`: the store's elected schedules into the text file that is compiled in.

use super::ahead;
use crate::launch::program_schedule;
use crate::store::Store;
use crate::store::winners::{self, file_text, parse};
use crate::subject::challenge::challenges;
use std::collections::HashMap;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The winners' file; lines that the store knows nothing newer about are kept. Without, prints what those that are compiled in would
    /// become.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), String> {
    args.out.as_deref().map_or(Ok(()), ahead::writable)?;
    let store = Store::open_default().map_err(|e| e.to_string())?;
    adopt(&store)?;
    let linked = linked();
    let mut elected = store.elected_with_origins().map_err(|e| e.to_string())?;
    // The store is the user's: it knows kernels of other programs, and what these kernels once were.
    elected.retain(|(e, _)| linked.get(&e.key.kernel) == Some(&e.key.identity));
    let former = match &args.out {
        Some(path) if path.exists() => {
            let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
            parse(&text).map_err(|e| format!("{}: {e}", path.display()))?
        }
        Some(_) => Vec::new(),
        None => winners::all(),
    };
    let text = file_text(&elected, &former);
    match &args.out {
        None => print!("{text}"),
        Some(path) => {
            std::fs::write(path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("wrote {} winners to {}", text.lines().filter(|l| l.starts_with("sm_")).count(), path.display());
        }
    }
    Ok(())
}

/// The kernels and programs of this binary by their paths, with their identities.
pub(super) fn linked() -> HashMap<String, u64> {
    let kernels = girih_core::registry::kernels();
    let mut linked: HashMap<String, u64> = kernels.iter().filter_map(|d| Some((d.path(), (d.build)().ok()?.identity()))).collect();
    let programs = challenges().into_iter().filter_map(|c| (c.program.build)().ok());
    linked.extend(programs.map(|p| (p.path.clone(), program_schedule::identity(&p))));
    linked
}

/// Brings what stores of former versions know of the linked kernels and programs under their present identities.
fn adopt(store: &Store) -> Result<(), String> {
    let kernels = girih_core::registry::kernels().into_iter().filter_map(|d| (d.build)().ok());
    let kernels = kernels.map(|k| (k.former_identity(), k.identity()));
    let programs = challenges().into_iter().filter_map(|c| (c.program.build)().ok());
    let programs = programs.map(|p| (program_schedule::former_identity(&p), program_schedule::identity(&p)));
    kernels.chain(programs).try_for_each(|(former, now)| store.adopt(former, now)).map_err(|e| e.to_string())
}
