//! What came of the searches of a program's launch sites, put together where a site was searched several times.

use super::SiteOutcome;
use crate::launch::program_schedule::Joint;

/// Each site's outcome, the schedules that were found, and the whole program's time under them in microseconds (infinite if none was timed).
pub(super) type Found = (Vec<SiteOutcome>, Joint, f64);

/// Candidates of a site in a round that looks at the best ones.
const SHORTLIST: usize = 8;

/// The best few of a site, and what it has now.
pub(super) fn shortlist(outcome: &SiteOutcome, now: &str) -> Vec<String> {
    let best = outcome.ranking.iter().map(|t| t.schedule.clone()).filter(|s| s != now);
    std::iter::once(now.to_string()).chain(best).take(SHORTLIST).collect()
}

/// A site's outcome after it was tuned again beside other schedules of the others: the latest word, with the counts of both. `whole` says that all
/// candidates were looked at again: how many are left, and why others were dropped, is its latest word, too.
pub(super) fn again(before: SiteOutcome, after: SiteOutcome, whole: bool) -> SiteOutcome {
    let (left, dropped) = if whole { (after.counts.2, after.dropped) } else { (before.counts.2, before.dropped) };
    let counts = (before.counts.0 + after.counts.0, before.counts.1, left);
    let (winner, median_us) = (after.winner.or(before.winner), after.median_us.or(before.median_us));
    // The whole ranking stays, for the next round's shortlist: the latest times first.
    let mut ranking = after.ranking;
    let former = before.ranking.into_iter().filter(|t| !ranking.iter().any(|r| r.schedule == t.schedule)).collect::<Vec<_>>();
    ranking.extend(former);
    let (won, elected) = (after.won.or(before.won), after.elected.or(before.elected));
    SiteOutcome { counts, winner, median_us, ranking, won, elected, naive_us: before.naive_us, dropped, ..after }
}

/// What was found, and then by a search that went on there.
pub(super) fn merged(before: Found, after: Found) -> Found {
    let mut later = after.0;
    let of = |former: SiteOutcome| match later.iter().position(|site| site.site == former.site) {
        Some(at) => again(former, later.swap_remove(at), true),
        None => former,
    };
    (before.0.into_iter().map(of).collect(), after.1, after.2)
}
