//! The smaller call that stands for a large one in the model: fewer tiles, each as it is.

use super::launches::{host_arguments, launches};
use crate::measure::bench::{scaled_extents, scaled_sizes};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::lower::lower;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::host::HostArg;

/// Sizes whose largest tensor has about so many bytes, for simulating one launch site. Where only some sizes say how many tiles there are
/// (rows, and not how long they are), only these are reduced as long as that suffices: what a tile does stays what it was.
///
/// # Errors
/// The subject has no smaller size.
pub fn reduced(subject: &Subject, sizes: &Sizes, (site, kernel): (usize, &Kernel), target: &Target, bytes: f64) -> Result<Sizes, String> {
    if subject.largest_bytes(sizes)? <= bytes {
        return Ok(sizes.clone());
    }
    let evenly = scaled_sizes(subject, sizes, bytes)?;
    // Products of tiles have predictions of their own, from one tile.
    if kernel.has_dots() {
        return Ok(evenly);
    }
    let counting = counting(subject, &evenly, (site, kernel), target);
    if counting.len() == subject.extents().len() {
        return Ok(evenly);
    }
    let fewer = scaled_extents(subject, sizes, bytes / 2.0, &counting, 8.0)?;
    if subject.largest_bytes(&fewer)? <= 8.0 * bytes { Ok(fewer) } else { scaled_sizes(subject, &fewer, bytes) }
}

/// More or fewer of the same tiles, until the largest tensor has about so many bytes: the number of rows, say, and not how long they are.
///
/// # Errors
/// The subject has no perf size, or no launch.
pub fn scaled_tiles(subject: &Subject, sizes: &Sizes, target: &Target, bytes: f64) -> Result<Sizes, String> {
    let site = subject.program.sites().into_iter().next().ok_or("the program launches nothing")?;
    let kernel = (site.build)().map_err(|e| e.to_string())?;
    let small = scaled_sizes(subject, sizes, PROBED)?;
    let names = if kernel.has_dots() { subject.extents() } else { counting(subject, &small, (0, &kernel), target) };
    scaled_extents(subject, sizes, bytes, &names, 32.0)
}

/// Bytes of the calls by which the sizes are found that say how many tiles there are.
const PROBED: f64 = 256.0 * 1024.0;

/// The sizes that say how many tiles a site's launch has; all, if none does.
fn counting(subject: &Subject, sizes: &Sizes, site: (usize, &Kernel), target: &Target) -> Vec<String> {
    let all = subject.extents();
    let some: Vec<String> = all.iter().filter(|name| changes_tiles(subject, sizes, site, target, name)).cloned().collect();
    if some.is_empty() { all } else { some }
}

/// Whether a site's launch has more tiles when one size is doubled.
fn changes_tiles(subject: &Subject, sizes: &Sizes, site: (usize, &Kernel), target: &Target, name: &str) -> bool {
    let mut doubled = sizes.clone();
    doubled.0.entry(name.to_string()).and_modify(|value| *value *= 2.0);
    match (tiles(subject, sizes, site, target), tiles(subject, &doubled, site, target)) {
        (Some(before), Some(after)) => after > before,
        _ => false,
    }
}

/// Tiles of a site's first launch under its naive schedule, one to a block.
fn tiles(subject: &Subject, sizes: &Sizes, (site, kernel): (usize, &Kernel), target: &Target) -> Option<i64> {
    let call = subject.call(sizes, 1).ok()?;
    let launch = launches(&subject.program, &call, 0).ok()?.into_iter().find(|l| l.site == site)?;
    let naive = Space::new(kernel, &launch.facts, target).naive().ok()?;
    let simt = lower(kernel, &launch.facts, &one_tile_each(kernel, &naive), target).ok()?;
    let args: Vec<HostArg> = host_arguments(&launch.args);
    Some(simt.launch.grid.eval(&args, target.multiprocessors as i64))
}

/// The schedule with one block for each tile.
pub fn one_tile_each(kernel: &Kernel, schedule: &Schedule) -> Schedule {
    let mut plain = schedule.clone();
    for (knob, choice) in kernel.knobs.iter().zip(&mut plain.choices) {
        match knob.kind {
            KnobKind::Grid => *choice = Choice::Int(0),
            KnobKind::Split => *choice = Choice::Int(1),
            _ => {}
        }
    }
    plain
}
