//! Predictions at the perf sizes, under the committed schedules, beside the times of `docs/performance/h200-exports.md`.

use super::nvrtc::provide;
use girih::challenge::Sizes;
use girih::measure::rungs::predict;
use girih::subject::names;
use girih_core::target::Target;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Challenges of which one is predicted, where none is asked for by name (`GIRIH_TEST_CHALLENGE=softmax,gemm`, `=all`).
const EVERY: usize = 3;
/// Challenges that are predicted only where they are asked for: each takes a core many seconds, for what its launches leave each other.
const SLOW: [&str; 5] = ["casual_attention", "multi_head_attention", "softmax_attention_backward", "stream_compaction", "swiglu_mlp_block"];
/// Challenges whose times are known to lie further from what is predicted; `docs/performance/h200-predictions.md` says by how much.
const FAR: [&str; 4] = ["attention_with_sinks", "attn_w_linear_bias", "multi_agent_sim", "sorting"];
/// How far a prediction may be from its time, as a ratio.
const NEAR: f64 = 1.5;

/// Microseconds of each challenge as this process launches it, as they were measured on an H200.
fn measured() -> Vec<(String, f64)> {
    // Links the gallery in.
    use girih_examples as _;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance/h200-exports.md");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let us = cells.get(2)?.parse().ok()?;
        // Other tables of the page are of versions of a file.
        let ["", name, _, _, _, keeps @ ("yes" | "no"), ""] = cells[..] else { return None };
        assert_eq!(keeps, "yes", "{name} is exported slower than it may be");
        Some((name.to_string(), us))
    };
    text.lines().filter_map(row).collect()
}

fn predicted_us(name: &str) -> Result<f64, String> {
    let subject = names::subject(name)?;
    let sizes = subject.perf_sizes(&Sizes::default())?;
    predict(&subject, &sizes, Target::h200(), None).map(|(predicted, _)| predicted.us)
}

/// Groups, and microseconds of a call with them under the committed schedules: few blocks have much to do each, or many little.
const GROUPS: [(u32, f64); 6] = [(1, 239.10), (2, 128.26), (8, 60.88), (32, 46.70), (128, 65.09), (512, 221.25)];

#[test]
fn group_norms_are_predicted_by_the_number_of_their_groups() {
    provide();
    let subject = names::subject("group_normalization").unwrap_or_else(|e| panic!("{e}"));
    let predicted = GROUPS.map(|(groups, measured)| {
        let asked = Sizes::parse(&format!("G={groups}")).expect("sizes");
        let sizes = subject.perf_sizes(&asked).unwrap_or_else(|e| panic!("{e}"));
        let (found, _) = predict(&subject, &sizes, Target::h200(), None).unwrap_or_else(|e| panic!("{groups} groups: {e}"));
        (groups, found.us, found.us / measured)
    });
    let far: Vec<_> = predicted.iter().filter(|(_, _, ratio)| ratio.max(1.0 / ratio) > 1.7).collect();
    assert!(far.is_empty(), "{predicted:?}");
    // The order is right.
    let order = |of: fn(&(u32, f64, f64)) -> f64| {
        let mut all = predicted.to_vec();
        all.sort_by(|a, b| of(a).total_cmp(&of(b)));
        all.iter().map(|(groups, ..)| *groups).collect::<Vec<_>>()
    };
    let (by_model, by_time) = (order(|p| p.1), order(|p| p.1 / p.2));
    let misplaced = by_model.iter().zip(&by_time).filter(|(a, b)| a != b).count();
    assert!(misplaced <= 3, "predicted {by_model:?}, measured {by_time:?}");
}

#[test]
fn predictions_are_near_what_was_measured_of_challenges() {
    provide();
    let all = measured();
    let mut gallery: Vec<&str> = girih::challenge::challenges().iter().map(|c| c.slug).collect();
    // What another one's program does again has no row of its own.
    gallery.retain(|slug| all.iter().any(|(name, _)| name == slug));
    assert!(all.len() >= 136 && all.len() == gallery.len(), "the page has {} rows for {} challenges", all.len(), gallery.len());
    let asked = std::env::var("GIRIH_TEST_CHALLENGE").ok();
    let every = if asked.is_some() { 1 } else { EVERY };
    let is_asked_for = |name: &str| asked.as_ref().is_none_or(|names| names == "all" || names.split(',').any(|n| n == name));
    let is_left_out = |name: &str| asked.is_none() && SLOW.contains(&name);
    let some = all.iter().filter(|(name, _)| is_asked_for(name)).step_by(every);
    let chosen: Vec<&(String, f64)> = some.filter(|(name, _)| !is_left_out(name)).collect();
    assert!(asked.is_some() || chosen.len() >= 40, "{} challenges", chosen.len());
    let (next, ratios) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((name, us)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = std::time::Instant::now();
            let ratio = predicted_us(name).unwrap_or_else(|e| panic!("{name}: {e}")) / us;
            println!("{name:<44} predicted / measured {ratio:.2}, in {:.1?}", begun.elapsed());
            ratios.lock().expect("no panic in between").push((name, ratio));
        }
    };
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let ratios = ratios.into_inner().expect("no panic in between");
    assert_eq!(ratios.len(), chosen.len());
    let far: Vec<_> = ratios.iter().filter(|(_, ratio)| ratio.max(1.0 / ratio) > NEAR).collect();
    println!("{} of {} are predicted within {NEAR} times their time", ratios.len() - far.len(), ratios.len());
    let unknown: Vec<_> = far.iter().filter(|(name, _)| !FAR.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
