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
        Clock(budget.time.map(|t| Instant::now() + t - look(t)))
    }

    /// What a search may spend that has such a part of what is left: what one leaves goes to the next ones.
    pub fn share(&self, budget: &Budget, part: f64) -> Budget {
        Budget { time: self.0.map(|end| share(end, Instant::now(), part)), ..*budget }
    }

    /// The clock of one of several searches, which has such a part of what is left.
    pub fn part(&self, part: f64) -> Clock {
        let now = Instant::now();
        Clock(self.0.map(|end| now + share(end, now, part)))
    }

    /// What is left of a limit.
    pub fn left(&self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// When the last answer is waited for: a twentieth behind the budget's end. A budget of nothing asks for one trial of each choice, however
    /// long that takes.
    pub fn end(&self, budget: &Budget) -> Option<Instant> {
        self.0.zip(budget.time).filter(|(_, time)| !time.is_zero()).map(|(end, time)| end + time / 20)
    }

    /// When everything is over, the look at machine code included: a twentieth behind the budget's end.
    pub fn end_of_all(&self, budget: &Budget) -> Option<Instant> {
        Some(self.end(budget)? + budget.time.map_or(Duration::ZERO, look))
    }

    /// Until when a choice of variants may take for its set-up: half of what is left where it `leaves` time to others, so that one whose naive
    /// schedule is long in the compiler is not the only one.
    pub fn ready_by(&self, budget: &Budget, leaves: bool) -> Option<Instant> {
        let end = self.end(budget)?;
        Some(if leaves { Instant::now() + share(end, Instant::now(), 0.5) } else { end })
    }

    /// How long answers are waited for yet.
    pub fn time_for_answers(&self, budget: &Budget) -> Option<Duration> {
        Some(self.end(budget)?.saturating_duration_since(Instant::now()))
    }

    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// What NVIDIA's disassembler takes, about, most of it to start, and the end of the program.
const LOOK: Duration = Duration::from_millis(900);

/// What is kept of a budget for that.
fn look(time: Duration) -> Duration {
    LOOK.min(time / 4)
}

/// Milliseconds from the beginning of a worker's set-up that references and the evaluator have before the first trial of a search with this
/// budget.
pub(super) fn patience_ms(budget: &Budget) -> u64 {
    budget.time.filter(|t| !t.is_zero()).map_or(PATIENCE_MS, |t| (t.as_millis() as u64 / 16).clamp(50, 1_000))
}

/// Time of a search that is kept for what comes behind its trials: the final comparison, and the one at large tensors, for which a worker starts.
pub(super) fn reserve(time: Duration) -> Duration {
    (time / 12 + Duration::from_millis(400)).min(time / 4)
}

fn share(end: Instant, now: Instant, part: f64) -> Duration {
    end.saturating_duration_since(now).mul_f64(part.clamp(0.0, 1.0))
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
            let share = share(start + budget, now, 1.0 / f64::from(left));
            now += taken.unwrap_or(share + Duration::from_secs(1));
        }
        assert!(now <= start + budget + Duration::from_secs(1), "{:?} of {budget:?}", now - start);
        assert!(now >= start + budget);
        assert_eq!(share(start, start + budget, 1.0 / 3.0), Duration::ZERO);
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
        let all = Clock::start(&budget(3300)).end_of_all(&budget(3300)).expect("a budget has an end") - start;
        assert!(all >= Duration::from_millis(3460) && all < Duration::from_millis(3530), "with the look: {all:?}");
        assert_eq!(Clock::start(&budget(0)).end(&budget(0)), None);
        assert_eq!([0, 100, 9000, 600_000].map(|ms| patience_ms(&budget(ms))), [60_000, 50, 562, 1000]);
    }

    #[test]
    fn a_slow_set_up_leaves_time_for_the_other_choices() {
        let budget = Budget { time: Some(Duration::from_secs(8)), trials: None };
        let (start, clock) = (Instant::now(), Clock::start(&budget));
        let left = |others| (clock.ready_by(&budget, others).expect("a budget has an end") - start).as_secs_f64();
        assert!((3.65..3.8).contains(&left(true)) && (7.4..7.6).contains(&left(false)), "{} {}", left(true), left(false));
        let unlimited = Budget { time: None, trials: None };
        assert_eq!(Clock::start(&unlimited).ready_by(&unlimited, true), None);
    }

    #[test]
    fn without_a_budget_nothing_ends() {
        let unlimited = Budget { time: None, trials: Some(3) };
        let clock = Clock::start(&unlimited);
        assert!(!clock.is_over() && clock.share(&unlimited, 0.2).time.is_none());
        assert!(Clock::start(&Budget { time: Some(Duration::ZERO), trials: None }).is_over());
    }
}
