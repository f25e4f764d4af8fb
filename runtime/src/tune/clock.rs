//! The time of a program's budget, shared by the searches of its launch sites.

use super::protocol::PATIENCE_MS;
use super::search::Budget;
use std::time::{Duration, Instant};

/// When a program's tuning shall end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Option<Instant>);

impl Clock {
    /// Starts with a whole budget, but for the time that the look at the winners' machine code takes at its end.
    pub fn start(budget: &Budget) -> Clock {
        Clock(budget.time.map(|t| Instant::now() + t - LOOK.min(t / 4)))
    }

    /// What the next one of so many searches may spend: an equal share of what is left, so that what one leaves goes to the others.
    pub fn share(&self, budget: &Budget, searches: usize) -> Budget {
        Budget { time: self.0.map(|end| share(end, Instant::now(), searches)), ..*budget }
    }

    /// When the last answer is waited for: a twentieth behind the budget's end. A budget of nothing asks for one trial of each choice, however
    /// long that takes.
    pub fn end(&self, budget: &Budget) -> Option<Instant> {
        self.0.zip(budget.time).filter(|(_, time)| !time.is_zero()).map(|(end, time)| end + time / 20)
    }

    /// Until when a choice of variants may take for its set-up, if so many are to be tuned yet, it included: half of what is left, so that one
    /// whose naive schedule is long in the compiler leaves time for the others.
    pub fn ready_by(&self, budget: &Budget, ways: usize) -> Option<Instant> {
        let end = self.end(budget)?;
        Some(if ways > 1 { Instant::now() + share(end, Instant::now(), 2) } else { end })
    }

    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// What NVIDIA's disassembler takes, about, most of it to start, and the end of the program.
const LOOK: Duration = Duration::from_millis(900);

/// Milliseconds from the beginning of a worker's set-up that references and the evaluator have before the first trial of a search with this
/// budget.
pub(super) fn patience_ms(budget: &Budget) -> u64 {
    budget.time.filter(|t| !t.is_zero()).map_or(PATIENCE_MS, |t| (t.as_millis() as u64 / 16).clamp(50, 1_000))
}

/// Time of a search that is kept for what comes behind its trials: the final comparison, and the one at large tensors, for which a worker starts.
pub(super) fn reserve(time: Duration) -> Duration {
    (time / 12 + Duration::from_millis(400)).min(time / 4)
}

fn share(end: Instant, now: Instant, searches: usize) -> Duration {
    end.saturating_duration_since(now) / searches.max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_share_a_programs_time() {
        let (start, budget) = (Instant::now(), Duration::from_secs(60));
        let mut now = start;
        // The second one ends early, and a final comparison takes a second longer than its share.
        for (left, taken) in [(4, None), (3, Some(Duration::from_secs(3))), (2, None), (1, None)] {
            let share = share(start + budget, now, left);
            now += taken.unwrap_or(share + Duration::from_secs(1));
        }
        assert!(now <= start + budget + Duration::from_secs(1), "{:?} of {budget:?}", now - start);
        assert!(now >= start + budget);
        assert_eq!(share(start, start + budget, 3), Duration::ZERO);
    }

    #[test]
    fn answers_are_waited_for_a_little_longer_than_the_budget() {
        let budget = |ms| Budget { time: Some(Duration::from_millis(ms)), trials: None };
        let start = Instant::now();
        let end = Clock::start(&budget(9000)).end(&budget(9000)).expect("a budget has an end") - start;
        assert!(end >= Duration::from_millis(8540) && end < Duration::from_millis(8600), "time is left for machine code: {end:?}");
        // A quarter of a short budget is kept for it.
        let short = Clock::start(&budget(3300)).end(&budget(3300)).expect("a budget has an end") - start;
        assert!(short >= Duration::from_millis(2635) && short < Duration::from_millis(2700), "{short:?}");
        assert_eq!(Clock::start(&budget(0)).end(&budget(0)), None);
        assert_eq!([0, 100, 9000, 600_000].map(|ms| patience_ms(&budget(ms))), [60_000, 50, 562, 1000]);
    }

    #[test]
    fn a_slow_set_up_leaves_time_for_the_other_choices() {
        let budget = Budget { time: Some(Duration::from_secs(8)), trials: None };
        let (start, clock) = (Instant::now(), Clock::start(&budget));
        let left = |ways| (clock.ready_by(&budget, ways).expect("a budget has an end") - start).as_secs_f64();
        assert!((3.65..3.8).contains(&left(2)) && (7.4..7.6).contains(&left(1)), "{} {}", left(2), left(1));
        let unlimited = Budget { time: None, trials: None };
        assert_eq!(Clock::start(&unlimited).ready_by(&unlimited, 3), None);
    }

    #[test]
    fn without_a_budget_nothing_ends() {
        let unlimited = Budget { time: None, trials: Some(3) };
        let clock = Clock::start(&unlimited);
        assert!(!clock.is_over() && clock.share(&unlimited, 5).time.is_none());
        assert!(Clock::start(&Budget { time: Some(Duration::ZERO), trials: None }).is_over());
    }
}
