//! What the model expects of a program's launch sites before they are tuned: how its time is shared among their searches.

use super::predict::Prediction;
use super::rounds::Sites;
use crate::cores;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What the search of the shortest launch site is worth, beside that of the longest.
const LEAST: f64 = 0.1;

/// Microseconds of the launch sites that a call reaches, under the schedules that they begin with, as far as they are known.
#[derive(Default, PartialEq, Debug)]
pub(super) struct Outlook(BTreeMap<usize, f64>);

impl Outlook {
    /// Of a program whose launch sites are given with the schedules that they begin with. It takes no longer than `limit`, about, and lacks those for
    /// which that does not suffice.
    pub fn of(subject: &Subject, sizes: &Sizes, (sites, first): (&Sites, &[Schedule]), target: &Target, limit: Duration) -> Outlook {
        let (end, Sites { kernels, launches, .. }) = (Instant::now() + limit, sites);
        let us = |i: usize| {
            let launch = &launches[i];
            let prediction = Prediction::new(subject, sizes, (&kernels[launch.site], launch), target, first.to_vec()).rehearsing(false);
            let us = (Instant::now() < end)
                .then(|| prediction.rough_us_within(&first[launch.site], (limit.as_secs_f64(), Some(end))))
                .flatten()?;
            Some((launch.site, us * launch.count as f64)).filter(|(_, us)| us.is_finite() && *us > 0.0)
        };
        Outlook(cores::each_of(launches.len(), us).into_iter().flatten().collect())
    }

    /// What the search of a launch site is worth: 1 for the one that takes longest, less for others, as they take less, but not next to nothing. One of
    /// which nothing is known may be the longest.
    pub fn worth(&self, site: usize) -> f64 {
        let most = self.0.values().copied().fold(0.0, f64::max);
        self.0.get(&site).map_or(1.0, |us| (us / most).max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_launches_are_worth_long_searches() {
        let outlook = Outlook([(0, 5.0), (1, 190.0), (4, 47.5)].into());
        assert_eq!([0, 1, 4, 5].map(|site| outlook.worth(site)), [0.1, 1.0, 0.25, 1.0]);
        assert_eq!(Outlook::default().worth(3), 1.0);
    }
}
