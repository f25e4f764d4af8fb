//! `bench --presets`: the rungs of a ladder, one after another.

use super::{known, print_json};
use crate::measure::rungs::{Climb, climb};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::tune::By;
use serde_json::json;

/// Times the rungs of every subject and prints a table of each.
///
/// # Errors
/// Subjects that could not be timed, with why on stderr.
pub fn run(subjects: &[Subject], asked: &Sizes, by: &By, rounds: usize, json: bool) -> Result<(), String> {
    let store = known::store();
    let mut failures = 0;
    for subject in subjects {
        let climbed = subject.perf_sizes(asked).and_then(|sizes| climb(subject, &sizes, by, store.as_ref(), rounds));
        match climbed {
            Ok(climb) if json => print_json(&as_json(&subject.name, &climb, by)),
            Ok(climb) => print!("{}", table(&subject.name, &climb, by)),
            Err(e) => {
                eprintln!("{}: {e}", subject.name);
                failures += 1;
            }
        }
    }
    if failures == 0 { Ok(()) } else { Err(format!("{failures} of {} could not be timed", subjects.len())) }
}

fn kind_of_times(by: &By) -> &'static str {
    if matches!(by, By::Prediction(_)) { "predicted by the model, not measured" } else { "medians, L2 flushed before every sample" }
}

/// Rung, time, rate and how many times faster than the rung before; a second line where launch sites are several.
fn table(name: &str, climb: &Climb, by: &By) -> String {
    let mut text = format!("{name} at {}, {}: {}\n", climb.sizes, by.device_name(), kind_of_times(by));
    let rate = climb.flops > 0.0;
    let head = if rate { format!(" {:>9}", "TFLOP/s") } else { String::new() };
    text += &format!("  {:<9} {:>12}{head} {:>8}  schedule\n", "rung", "us", "faster");
    let mut before: Option<f64> = None;
    for rung in &climb.rungs {
        let schedules = rung.schedules.join("; ");
        match &rung.us {
            Ok(us) => {
                let rate = if rate { format!(" {:>9.2}", climb.flops / us * 1e-6) } else { String::new() };
                let faster = before.map_or_else(String::new, |b| format!("{:.2}x", b / us));
                text += &format!("  {:<9} {us:>12.2}{rate} {faster:>8}  {schedules}\n", rung.name);
                let remark = rung.predicted.as_ref().and_then(crate::tune::floor::Predicted::remark);
                remark.iter().for_each(|r| text += &format!("  {:<9} {r}\n", ""));
                if let Some(below) = climb.floor.contradicts(*us) {
                    text += &format!("  {:<9} wrong: {below}\n", "");
                }
                before = Some(*us);
            }
            Err(e) => text += &format!("  {:<9} {:>12}  {schedules}: {e}\n", rung.name, "failed"),
        }
    }
    text
}

fn as_json(name: &str, climb: &Climb, by: &By) -> serde_json::Value {
    let rung = |r: &crate::measure::rungs::Timed| {
        let us = r.us.as_ref().ok();
        let rate = us.filter(|_| climb.flops > 0.0).map(|us| climb.flops / us * 1e-6);
        json!({ "rung": r.name, "schedules": r.schedules, "us": us, "tflop_per_s": rate, "failure": r.us.as_ref().err(),
            "below_floor": us.and_then(|us| climb.floor.contradicts(*us)),
            "basis": r.predicted.map(|p| p.basis.name()), "below_floor_us": r.predicted.and_then(|p| p.below_floor) })
    };
    json!({
        "name": name, "sizes": climb.sizes, "device": by.device_name(), "predicted": matches!(by, By::Prediction(_)),
        "floor_us": climb.floor.seconds * 1e6, "floor_bound": climb.floor.bound.to_string(), "rungs": climb.rungs.iter().map(rung).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rungs::Timed;
    use girih_core::target::Target;

    #[test]
    fn tables_compare_with_the_rung_before_that_ran() {
        let rung = |name, us| Timed { name, schedules: vec!["T=1".into()], us, predicted: None };
        let rungs = vec![rung("naive", Ok(8.0)), rung("shared", Err("wrong".into())), rung("register", Ok(2.0))];
        let climb = Climb {
            sizes: "N=1".into(),
            rungs,
            flops: 4e6,
            floor: crate::measure::floor::of_work(Target::h200(), crate::subject::compulsory::Compulsory::of_copy(4.3e6), 0.0, 0.0, &[]),
        };
        let text = table("gemm", &climb, &By::Prediction(Target::h200()));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("predicted by the model"), "{text}");
        assert!(lines[2].contains("0.50") && !lines[2].contains('x'), "{text}");
        assert!(lines[3].ends_with("failed  T=1: wrong"), "{text}");
        assert!(lines[4].contains("4.00x"), "{text}");
        let climb = Climb { rungs: vec![rung("naive", Ok(0.5))], ..climb };
        assert!(table("gemm", &climb, &By::Prediction(Target::h200())).contains("wrong: 200.0 % of the floor"));
    }
}
