//! `--sweep`: the shapes of a file; for `bench` what they come to, beside peers on a GPU, as the model has it without one.

use super::print_json;
use crate::measure::bench::Row;
use crate::measure::rungs;
use crate::measure::sweep::{Entry, Summary, parse, summary};
use crate::store::Store;
use crate::subject::Subject;
use crate::subject::names;
use crate::tune::floor::Predicted;
use girih_core::target::Target;
use serde_json::json;
use std::path::Path;

/// A group with what its rates come to.
pub type Summaries = Vec<(String, Summary)>;

/// The shapes of a file, those of the names if some are given.
///
/// # Errors
/// A file that can't be read, a line that is no shape, or no shape of these names.
pub fn read(file: &Path, names: &[String]) -> Result<Vec<Entry>, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("{shown}: {e}"))?;
    let mut entries = parse(&text).map_err(|e| format!("{shown}, {e}"))?;
    if let Some(unknown) = names.iter().find(|n| !entries.iter().any(|e| e.name == **n)) {
        let mut known: Vec<&str> = entries.iter().map(|e| e.name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        return Err(format!("{shown} has no shape of {unknown}; it has some of {}", known.join(", ")));
    }
    entries.retain(|e| names.is_empty() || names.contains(&e.name));
    if entries.is_empty() { Err(format!("{shown} has no shape")) } else { Ok(entries) }
}

/// Our speed in parts of the best peer's, by group; shapes without a peer are left out.
pub fn beside_peers(rows: &[(String, Row)]) -> Summaries {
    let rate = |row: &Row| row.best_peer().map(|peer| (format!("{} {}", row.name, row.sizes), peer / row.median_us));
    by_group(rows.iter().filter_map(|(group, row)| Some((group.clone(), rate(row)?))))
}

fn by_group(rates: impl Iterator<Item = (String, (String, f64))>) -> Summaries {
    let mut groups: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    for (group, rate) in rates {
        match groups.iter_mut().find(|(g, _)| *g == group) {
            Some((_, rates)) => rates.push(rate),
            None => groups.push((group, vec![rate])),
        }
    }
    groups.into_iter().filter_map(|(group, rates)| Some((group, summary(&rates)?))).collect()
}

/// Prints a line for each group.
pub fn print(summaries: &Summaries, json: bool) {
    for (group, s) in summaries {
        if json {
            print_json(&json!({
                "group": group, "shapes": s.count, "mean_of_best_peer": s.mean, "worst_of_best_peer": s.worst, "worst": s.worst_name,
            }));
        } else {
            println!("{}", line(group, s));
        }
    }
}

fn line(group: &str, s: &Summary) -> String {
    format!(
        "{group}: {:.3} of the best peer's speed in the geometric mean of {} shapes, {:.3} at worst ({})",
        s.mean, s.count, s.worst, s.worst_name
    )
}

/// The same lines for a log.
pub fn markdown(summaries: &Summaries) -> String {
    summaries.iter().map(|(group, s)| format!("\n{}\n", line(group, s))).collect()
}

/// Prints what the model says of each shape under the best schedule known, and each group's mean rate. Nothing is compared: peers need a GPU.
///
/// # Errors
/// Shapes that have no prediction, with why on stderr.
pub fn predict(entries: &[Entry], target: &'static Target, store: Option<&Store>, json: bool) -> Result<(), String> {
    eprintln!("note: predicted for {} by the model; nothing is measured, so nothing stands beside cuBLAS", target.name);
    let (mut rates, mut failures) = (Vec::new(), 0);
    for entry in entries {
        match predicted(entry, target, store) {
            Ok((sizes, predicted, flops, schedules)) => {
                let (us, remark) = (predicted.us, predicted.remark());
                let rate = flops / us * 1e-6;
                if json {
                    print_json(&json!({
                        "group": entry.group, "name": entry.name, "sizes": sizes, "device": format!("simulated {}", target.name),
                        "predicted": true, "us": us, "tflop_per_s": rate, "schedules": schedules,
                        "basis": predicted.basis.name(), "below_floor_us": predicted.below_floor,
                    }));
                } else {
                    let schedules = schedules.join("; ");
                    println!("{:<28} {sizes:<32} {us:>10.2} us {rate:>8.2} TFLOP/s  [{schedules}]", entry.name);
                    remark.iter().for_each(|r| println!("  {r}"));
                }
                rates.push((entry.group.clone(), (format!("{} {sizes}", entry.name), rate)));
            }
            Err(e) => {
                eprintln!("{} at {}: {e}", entry.name, entry.sizes);
                failures += 1;
            }
        }
    }
    for (group, s) in by_group(rates.into_iter()) {
        if json {
            print_json(&json!({ "group": group, "predicted": true, "shapes": s.count, "mean_tflop_per_s": s.mean }));
        } else {
            println!("{group}: {:.2} TFLOP/s predicted in the geometric mean of {} shapes", s.mean, s.count);
        }
    }
    if failures == 0 { Ok(()) } else { Err(format!("{failures} of {} shapes have no prediction", entries.len())) }
}

/// Sizes, time, operations and schedules.
type Told = (String, Predicted, f64, Vec<String>);

fn predicted(entry: &Entry, target: &'static Target, store: Option<&Store>) -> Result<Told, String> {
    let subject: Subject = names::subject(&entry.name)?;
    let sizes = subject.perf_sizes(&entry.sizes)?;
    let (predicted, schedules) = rungs::predict(&subject, &sizes, target, store)?;
    let flops = subject.challenge.as_ref().map_or(0.0, |c| (c.flops)(&sizes));
    Ok((sizes.to_string(), predicted, flops, schedules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_their_order_and_their_own_means() {
        let rate = |group: &str, name: &str, rate: f64| (group.to_string(), (name.to_string(), rate));
        let found = by_group([rate("mma", "a", 0.25), rate("ffma", "b", 1.0), rate("mma", "c", 1.0)].into_iter());
        assert_eq!(found.iter().map(|(g, s)| (g.as_str(), s.mean, s.count)).collect::<Vec<_>>(), [("mma", 0.5, 2), ("ffma", 1.0, 1)]);
        assert_eq!(
            markdown(&found).lines().nth(1),
            Some("mma: 0.500 of the best peer's speed in the geometric mean of 2 shapes, 0.250 at worst (a)")
        );
    }
}
