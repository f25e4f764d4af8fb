//! The schedules that a check tries.

use super::Options;
use crate::launch::schedule_lookup::tell_of_prediction;
use crate::store::{self, Store};
use crate::subject::{Subject, schedules};
use crate::tune::launches::AtPerf;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::tile::Kernel;

/// Ways to run a subject: each launch site naive, by default, by what a call at its own size takes where the check runs (what was tuned there, a
/// winner, what was predicted here), and `options.schedules` samples. Sites with fewer candidates repeat
/// theirs; what is legal for no launch is left out.
///
/// # Errors
/// Why a kernel cannot be built, or that nothing is legal.
pub(super) fn sampled(subject: &Subject, options: &Options) -> Result<Vec<Vec<Schedule>>, String> {
    let used = used(subject, options, store::existing().as_ref());
    let mut per_site: Vec<Vec<Schedule>> = Vec::new();
    for def in subject.program.sites() {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        per_site.push(site_schedules(&kernel, used.get(per_site.len()), options)?);
    }
    let ways = per_site.iter().map(Vec::len).max().unwrap_or(1);
    Ok((0..ways).map(|i| per_site.iter().map(|s| s[i % s.len()].clone()).collect()).collect())
}

/// What each launch site takes in a call at the subject's own size, where it is known; nothing where there is no such call.
fn used(subject: &Subject, options: &Options, store: Option<&Store>) -> Vec<Schedule> {
    let (target, device) = (options.on.target(), options.on.name_in_store());
    let store = store.map(|s| (s, device.as_str()));
    let at_perf = AtPerf::of(subject);
    let joint = schedules::best(subject, at_perf.program.as_ref(), target, store).filter(|(_, way)| way.runs_as(subject));
    let Ok(found) = schedules::schedules(subject, joint.as_ref().map(|(joint, _)| joint), target, store, &at_perf.launches) else {
        return Vec::new();
    };
    let one = |(schedule, kernel, origin): (Schedule, Kernel, &str)| {
        tell_of_prediction(&kernel.full_name(), origin);
        schedule
    };
    found.into_iter().map(one).collect()
}

fn site_schedules(kernel: &Kernel, used: Option<&Schedule>, options: &Options) -> Result<Vec<Schedule>, String> {
    let space = Space::of_some_launch(kernel, options.on.target());
    let naive = space.naive();
    let known = naive.iter().cloned().chain([Schedule::default_of(kernel)]).chain(used.cloned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::On;
    use crate::launch::schedule_lookup::predicted_device;
    use crate::store::{Elected, TrialKey};
    use crate::subject::challenge::Challenge;
    use crate::subject::inputs::uniform;
    use girih::prelude::*;
    use girih_core::target::Target;

    #[kernel(tile(T = [128, 256, 512]))]
    pub fn doubled(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([T]) {
            y.store(t, x.load(t) * 2.0);
        }
    }

    #[program]
    pub fn doubles(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        doubled(x, y);
    }

    /// What a call at its own size takes is what was tuned for that size, and not what was for another.
    #[test]
    fn a_check_runs_what_a_call_takes_and_tells_of_predictions() {
        let challenge = Challenge::new("doubled in a check", doubles::Program::def, "void solve(const float* X[N], float* Y[N], int N)")
            .input("X", uniform(0.0, 1.0))
            .output("Y", |x, i| 2.0 * x.at("X", i))
            .check_at(["N=7"])
            .perf_at("N=1000000");
        let subject = Subject::of_challenge(&challenge).expect("it is right");
        let folder = std::env::temp_dir().join(format!("girih-check-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
        let store = Store::open(&folder.join("tune.sqlite")).unwrap_or_else(|e| panic!("{e}"));
        let kernel = (doubled::Kernel::def().build)().expect("it builds");
        let at_perf = AtPerf::of(&subject);
        let (facts, lengths) = (at_perf.facts_of_site(0).expect("it is launched"), at_perf.of_site(0).expect("it is launched"));
        for (n, schedule) in [(1_000_000, "T=512"), (1000, "T=256")] {
            let key = TrialKey {
                kernel: crate::store::winners::kernel_path(&kernel),
                identity: kernel.identity(),
                facts: facts.to_string(),
                lengths: Some(
                    girih_core::lengths::Lengths::parse(&lengths.to_string().replace("1000000", &n.to_string())).expect("lengths"),
                ),
                sizes: format!("N={n}"),
                device: predicted_device(Target::h200()),
                arch: Target::h200().arch.into(),
            };
            store.elect(&Elected { key, schedule: schedule.into(), median_us: 1.0 }).unwrap_or_else(|e| panic!("{e}"));
        }
        let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 3, seed: 1 };
        let found = used(&subject, &options, Some(&store));
        assert_eq!(found.iter().map(|s| s.short(&kernel)).collect::<Vec<_>>(), ["T=512"]);
        assert!(crate::notes::was_told("doubled: its schedule is predicted on this machine"));
        std::fs::remove_dir_all(folder).expect("its own folder");
    }
}
