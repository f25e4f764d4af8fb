//! The final comparison: a race of the fastest, in which each stage samples those that are left in turn, more of each than the stage before,
//! and lets half of them go on. Finalists are compared round by round: what disturbs a round disturbs all that run in it. Ties are called ties, and go to
//! the simpler schedule.

use super::{Candidates, Measure, fastest, interval, median};

/// Candidates that take part at most, and how much slower than the fastest they may be.
const STARTERS: usize = 8;
const SLACK: f64 = 1.05;
/// Samples of each candidate in the first stage, and of each that reaches the last one in all.
const FIRST_ROUNDS: usize = 5;
const ROUNDS: usize = 31;
/// Finalists this close are equals; the simpler one wins. So are those that the rounds cannot tell apart, unless they are farther apart than the second.
const TIE: f64 = 1.001;
const BLURRED: f64 = 1.005;

/// A candidate with the samples that it has so far.
struct Runner {
    candidate: usize,
    samples: Vec<f64>,
}

impl Runner {
    fn us(&self) -> f64 {
        median(&self.samples).unwrap_or(f64::INFINITY)
    }

    /// Whether it is as fast as another one, as far as can be told by the ratios of their times in each round.
    fn is_equal(&self, other: &Runner) -> bool {
        if self.samples.len() != other.samples.len() {
            return self.us() <= other.us() * TIE;
        }
        let ratios: Vec<f64> = self.samples.iter().zip(&other.samples).map(|(own, other)| own / other).collect();
        let slower = median(&ratios).unwrap_or(f64::INFINITY);
        slower <= TIE || slower <= BLURRED && interval(&ratios).is_some_and(|(least, _)| least <= 1.0)
    }
}

/// The winner with its time, and those that are its equals.
type Elected = (Option<(usize, f64)>, Vec<usize>);

/// Elects one of the candidates that may win, given with the times of their trials; with its time in the race, if there was one.
pub fn elect(mut times: Vec<(usize, f64)>, candidates: &dyn Candidates, measure: &mut dyn Measure) -> Elected {
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some((_, first)) = times.first() else { return (None, Vec::new()) };
    let limit = first * SLACK;
    let starters = times.iter().take(STARTERS).filter(|(_, t)| *t <= limit);
    let mut left: Vec<Runner> = starters.map(|(candidate, _)| Runner { candidate: *candidate, samples: Vec::new() }).collect();
    if left.len() < 2 {
        return (times.first().copied(), Vec::new());
    }
    let mut rounds = FIRST_ROUNDS;
    loop {
        let numbers: Vec<usize> = left.iter().map(|r| r.candidate).collect();
        let taken = left[0].samples.len();
        let last = left.len() <= 2 || taken + rounds >= ROUNDS;
        let samples = measure.interleaved(&numbers, if last { ROUNDS.saturating_sub(taken).max(1) } else { rounds });
        let failed = samples.is_empty();
        for (runner, more) in left.iter_mut().zip(samples) {
            runner.samples.extend(more);
        }
        left.retain(|r| r.samples.len() > taken);
        // Without a comparison (it failed, or a model has nothing to measure) the times of the trials decide, without ties.
        if failed || left.is_empty() {
            return (fastest(&times), Vec::new());
        }
        if last {
            break;
        }
        halve(&mut left);
        rounds *= 2;
    }
    let Some(first) = left.iter().min_by(|a, b| a.us().total_cmp(&b.us())) else { return (None, Vec::new()) };
    let times: Vec<(usize, f64)> = left.iter().filter(|r| r.is_equal(first)).map(|r| (r.candidate, r.us())).collect();
    let best = times.iter().copied().min_by_key(|(c, _)| candidates.complexity(*c));
    let equals = times.into_iter().map(|(c, _)| c).filter(|c| best.is_none_or(|(best, _)| best != *c)).collect();
    (best, equals)
}

/// Keeps the faster half, two at least, and who is as fast as the slowest of these.
fn halve(left: &mut Vec<Runner>) {
    left.sort_by(|a, b| a.us().total_cmp(&b.us()));
    let kept = left.len().div_ceil(2).max(2);
    let limit = left[kept - 1].us() * TIE;
    left.retain(|r| r.us() <= limit);
}
