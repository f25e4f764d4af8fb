//! The time of a program's budget, shared by the searches of its launch sites.

use super::search::Budget;
use std::time::{Duration, Instant};

/// When a program's tuning shall end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Option<Instant>);

impl Clock {
    /// Starts with the whole of a budget.
    pub fn start(budget: &Budget) -> Clock {
        Clock(budget.time.map(|t| Instant::now() + t))
    }

    /// What the next one of so many searches may spend: an equal share of what is left, so that what one leaves goes to the others.
    pub fn share(&self, budget: &Budget, searches: usize) -> Budget {
        Budget { time: self.0.map(|end| share(end, Instant::now(), searches)), ..*budget }
    }

    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
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
    fn without_a_budget_nothing_ends() {
        let unlimited = Budget { time: None, trials: Some(3) };
        let clock = Clock::start(&unlimited);
        assert!(!clock.is_over() && clock.share(&unlimited, 5).time.is_none());
        assert!(Clock::start(&Budget { time: Some(Duration::ZERO), trials: None }).is_over());
    }
}
