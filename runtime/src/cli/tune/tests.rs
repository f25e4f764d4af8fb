//! What a tuning tells.

use super::*;
use crate::store::Status;
use girih_core::target::Target;

#[test]
fn times_are_read() {
    assert_eq!(parse_time("30s"), Ok(Duration::from_secs(30)));
    assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
    assert!(parse_time("5 days").is_err());
}

fn trial(schedule: &str, us: f64) -> Trial {
    let (status, reason, samples_us, median_us) = (Status::Measured, String::new(), vec![us], Some(us));
    Trial { schedule: schedule.into(), status, reason, median_us, samples_us, registers: None, flaw: None, code: None }
}

#[test]
fn what_was_timed_is_told_where_nothing_is_elected() {
    let mut untold = SiteOutcome::of("same".into(), "copies::same".into());
    (untold.missed, untold.naive_us, untold.counts) = (true, Some(9.0), (2, 0, 5));
    untold.ranking = vec![trial("T=2", 7.5), trial("T=1", 9.0)];
    let by = By::Prediction(Target::h200());
    let lines = told(&untold, &by);
    assert_eq!(lines[..2], ["copies::same: 2 trials, 0 known, 5 untried", "nothing is elected; the fastest that were timed:"]);
    assert!(lines[2].starts_with("     T=2 ") && lines[3].ends_with(" 9.00 us") && lines.len() == 4, "{lines:?}");
    assert_eq!(as_json(&untold, &Sizes::default(), &by)["missed"], true);
    let mut elected = untold.clone();
    (elected.winner, elected.median_us) = (Some(("T=2".into(), "#[kernel(tile(T = 2))]".into())), Some(7.5));
    let lines = told(&elected, &by);
    assert_eq!(lines[1], "best T=2: predicted 7.50 us, 1.20 x the naive schedule's speed");
    assert!(lines[3].starts_with("     T=1 ") && lines.len() == 4, "the best is told once: {lines:?}");
    let mut equal = elected.clone();
    equal.equals = vec!["T=4 C=2".into(), "T=8 C=2".into()];
    assert_eq!(told(&equal, &by)[2], "as fast, as far as can be told, and not simpler: T=4 C=2, and 1 more");
    assert_eq!(as_json(&equal, &Sizes::default(), &by)["equals"][1], "T=8 C=2");
    let nothing = SiteOutcome::of("same".into(), "copies::same".into());
    assert_eq!(told(&nothing, &by)[1..], ["no candidate was right and timed"]);
}
