//! What did best for other kernels with the same knobs, as seeds of a search for which nothing nearer is known: another instance of a generic
//! kernel, or a kernel of the same kind.

use crate::store::winners::{Winner, kernel_path};
use girih_core::lengths::Lengths;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// The schedules of winners on this architecture that name exactly a kernel's knobs, each once: other instances of the same kernel first, then
/// those whose launches had about as many elements.
pub fn schedules(kernel: &Kernel, lengths: &Lengths, target: &Target, winners: &[Winner]) -> Vec<Schedule> {
    let path = kernel_path(kernel);
    let own = elements(lengths);
    let mut found: Vec<(bool, f64, Schedule)> = winners
        .iter()
        .filter(|w| w.arch == target.arch && w.kernel != path)
        .filter(|w| w.schedule.split_whitespace().count() == kernel.knobs.len())
        .filter_map(|w| {
            let schedule = parse_schedule(kernel, &w.schedule).ok()?;
            let far = (w.lengths.as_ref().map_or(f64::INFINITY, elements) / own).ln().abs();
            Some((generic(&w.kernel) != generic(&path), far, schedule))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)));
    let mut schedules: Vec<Schedule> = Vec::new();
    for (_, _, schedule) in found {
        if !schedules.contains(&schedule) {
            schedules.push(schedule);
        }
    }
    schedules
}

/// A kernel's path without its instance.
fn generic(path: &str) -> &str {
    path.split('<').next().unwrap_or(path)
}

/// Elements of a launch's largest tensor.
fn elements(lengths: &Lengths) -> f64 {
    let of = |lens: &Vec<i64>| lens.iter().product::<i64>() as f64;
    lengths.0.iter().flatten().map(of).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::tile::by_hand::four_knobs;

    #[test]
    fn instances_of_the_kernel_come_before_kernels_of_its_kind() {
        let kernel = four_knobs();
        let path = kernel_path(&kernel);
        let names: Vec<String> = kernel.knobs.iter().map(|k| format!("{}={}", k.name, k.choices[0])).collect();
        let other = |knob: usize| {
            let mut names = names.clone();
            names[knob] = format!("{}={}", kernel.knobs[knob].name, kernel.knobs[knob].choices[1]);
            names.join(" ")
        };
        let winner = |kernel: &str, arch: &str, elements: i64, schedule: &str| Winner {
            arch: arch.into(),
            kernel: kernel.into(),
            facts: String::new(),
            lengths: Some(Lengths(vec![Some(vec![elements])])),
            schedule: schedule.into(),
            median_us: 1.0,
            made: String::new(),
        };
        let target = Target::h200();
        let all = [
            winner("far::away", target.arch, 1 << 30, &other(0)),
            winner("about::as_long", target.arch, 1 << 21, &other(1)),
            winner(&format!("{path}<f16>"), target.arch, 1 << 30, &other(2)),
            winner(&path, target.arch, 1 << 20, &names.join(" ")),
            winner("of::another_gpu", "sm_75", 1 << 20, &names.join(" ")),
            winner("other::knobs", target.arch, 1 << 20, &names.join(" ").replace('P', "Q")),
            winner("fewer::knobs", target.arch, 1 << 20, "T=1024 C=4 V=4"),
            winner("the::same_again", target.arch, 1 << 22, &other(1)),
        ];
        let found = schedules(&kernel, &Lengths(vec![Some(vec![1 << 20])]), target, &all);
        let texts: Vec<String> = found.iter().map(|s| s.short(&kernel)).collect();
        assert_eq!(texts, [other(2), other(1), other(0)]);
    }
}
