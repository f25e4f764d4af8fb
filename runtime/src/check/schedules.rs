//! The schedules that a check tries.

use super::Options;
use crate::launch::schedule_lookup;
use crate::store::{Store, default_folder};
use crate::subject::Subject;
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// Ways to run a subject: each launch site naive, by default, by its winner or what was predicted here, and `options.schedules` samples. Sites with
/// fewer candidates repeat theirs; what is legal for no launch is left out.
///
/// # Errors
/// Why a kernel cannot be built, or that nothing is legal.
pub(super) fn sampled(subject: &Subject, target: &Target, options: &Options) -> Result<Vec<Vec<Schedule>>, String> {
    let mut per_site: Vec<Vec<Schedule>> = Vec::new();
    for def in subject.program.sites() {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        per_site.push(site_schedules(&kernel, target, options)?);
    }
    let ways = per_site.iter().map(Vec::len).max().unwrap_or(1);
    Ok((0..ways).map(|i| per_site.iter().map(|s| s[i % s.len()].clone()).collect()).collect())
}

fn site_schedules(kernel: &Kernel, target: &Target, options: &Options) -> Result<Vec<Schedule>, String> {
    let space = Space::of_some_launch(kernel, target);
    // A check does not make a store.
    let store = default_folder().join("tune.sqlite").exists().then(Store::open_default).and_then(Result::ok);
    let here = schedule_lookup::predicted_device(target);
    let committed = schedule_lookup::of_kernel(kernel, &Facts::best(kernel), None, target, store.as_ref().map(|s| (s, here.as_str())))
        .into_iter()
        .map(|(schedule, _)| schedule);
    let naive = space.naive();
    let known = naive.iter().cloned().chain([Schedule::default_of(kernel)]).chain(committed);
    let mut all = Vec::new();
    for schedule in known.filter(|s| space.check(s).is_ok()).chain(space.sample(options.schedules, options.seed)) {
        if !all.contains(&schedule) && all.len() < options.schedules.max(1) {
            all.push(schedule);
        }
    }
    match naive {
        Err(e) if all.is_empty() => Err(e.to_string()),
        _ => Ok(all),
    }
}
