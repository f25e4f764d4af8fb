//! Challenges are checked and timed with numbers like their judge's, as written down in `judge_inputs.txt`.

use girih::challenge::challenges;
use girih::inputs::Elements;
use girih::subject::Subject;

/// Elements that are looked at: the first ones.
const SOME: usize = 20_000;
/// How many standard errors a mean or a deviation may be off.
const ERRORS: f64 = 6.0;

/// What numbers are drawn from.
struct Drawn {
    mean: f64,
    deviation: f64,
    /// The least and the largest one, where there are such.
    range: Option<(f64, f64)>,
    /// Kurtosis: the fourth power's mean by that of the deviation.
    fourth: f64,
}

fn drawn(text: &str) -> Drawn {
    let (kind, numbers) = text.split_once(' ').unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<f64> = numbers.split(' ').map(|n| n.parse().unwrap_or_else(|e| panic!("{text}: {e}"))).collect();
    // A step of 1 between integers, none between floats.
    let uniform = |low: f64, high: f64, step: f64| {
        let variance = ((high - low + step).powi(2) - step * step) / 12.0;
        Drawn { mean: (low + high) / 2.0, deviation: variance.sqrt(), range: Some((low, high)), fourth: 1.8 - step / (5.0 * variance) }
    };
    match (kind, &numbers[..]) {
        ("U", [low, high]) => uniform(*low, *high, 0.0),
        ("I", [low, high]) => uniform(*low, *high, 1.0),
        ("N", [mean, deviation]) => Drawn { mean: *mean, deviation: *deviation, range: None, fourth: 3.0 },
        // Symmetric around 0: what is kept has the second and the fourth moment of a uniform number, as often.
        ("S", [low, high, share]) => {
            Drawn { mean: 0.0, deviation: (share * (high - low).powi(2) / 12.0).sqrt(), range: Some((*low, *high)), fourth: 1.8 / share }
        }
        _ => panic!("{text}"),
    }
}

/// What of the elements is not like the distribution.
fn differences(elements: &Elements, judge: &Drawn) -> Vec<String> {
    let n = elements.numel().min(SOME);
    let numbers: Vec<f64> = (0..n).map(|i| elements.get(i)).collect();
    let mean = numbers.iter().sum::<f64>() / n as f64;
    let deviation = (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
    let mut found = Vec::new();
    let (error, root) = (judge.deviation / (n as f64).sqrt(), ((judge.fourth - 1.0) / 4.0).sqrt());
    if (mean - judge.mean).abs() > ERRORS * error {
        found.push(format!("mean {mean}, not {}", judge.mean));
    }
    let fourth = numbers.iter().map(|x| ((x - mean) / deviation).powi(4)).sum::<f64>() / n as f64;
    // Of a handful these are not normally distributed.
    if n > 1000 && (fourth - judge.fourth).abs() > 0.1 * judge.fourth {
        found.push(format!("kurtosis {fourth}, not {}", judge.fourth));
    }
    if n > 100 && (deviation - judge.deviation).abs() > ERRORS * error * root + 1e-3 * judge.deviation {
        found.push(format!("deviation {deviation}, not {}", judge.deviation));
    }
    if let Some((low, high)) = judge.range {
        // Numbers are rounded to the element type.
        let slack = 1e-3 * (high - low).min(low.abs().max(high.abs()));
        found.extend(numbers.iter().find(|x| **x < low - slack || **x > high + slack).map(|x| format!("{x} beyond {low}..{high}")));
    }
    found
}

#[test]
fn inputs_are_drawn_as_their_judge_draws_them() {
    let all = challenges();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for line in include_str!("judge_inputs.txt").lines().filter(|l| !l.starts_with('#')) {
        let (slug, inputs) = line.split_once(" | ").unwrap_or_else(|| panic!("{line}"));
        let challenge = all.iter().find(|c| c.slug == slug).unwrap_or_else(|| panic!("no challenge is called {slug}"));
        let subject = Subject::of_challenge(challenge).unwrap_or_else(|e| panic!("{e}"));
        let case = subject.call(&challenge.perf, 1).unwrap_or_else(|e| panic!("{slug}: {e}")).case();
        for input in inputs.split(", ") {
            let (name, judge) = input.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            let Some((_, elements)) = case.tensors.iter().find(|(n, _)| n == name) else {
                wrong.push(format!("{slug}: no input is called {name}"));
                continue;
            };
            compared += 1;
            wrong.extend(differences(elements, &drawn(judge)).into_iter().map(|d| format!("{slug}, {name}: {d}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 150, "{compared} inputs were compared");
}

#[test]
fn other_numbers_are_told_apart() {
    let of = |text: &str| {
        let challenge = challenges().into_iter().find(|c| c.slug == "vector_add").expect("it is there");
        let case = Subject::of_challenge(&challenge).unwrap().call(&challenge.perf, 1).unwrap().case();
        differences(&case.tensors[0].1, &drawn(text))
    };
    assert!(of("U -1000 1000").is_empty());
    for other in ["U -1000 1100", "U -900 900", "N 0 577", "I 0 1000", "S -1000 1000 0.9"] {
        assert!(!of(other).is_empty(), "{other}");
    }
}
