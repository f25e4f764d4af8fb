//! Where a search over a program's launch sites stands: what a round looks at, and which part of the time each site has.

use super::SiteOutcome;
use super::demands::Demands;
use super::dry_run::DryRuns;
use super::launches::Launch;
use super::outlook::Outlook;
use girih_core::tile::Kernel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The launch sites of a program whose variants are chosen.
pub(super) struct Sites {
    /// By site.
    pub kernels: Vec<Kernel>,
    /// By site.
    pub names: Vec<String>,
    /// The first launch of each site that a call reaches.
    pub launches: Vec<Launch>,
    /// What the model gave sites under schedules, in microseconds: each search asks for all the others.
    pub predicted: RefCell<HashMap<(usize, String), f64>>,
    /// Reduced calls, which the sites share.
    pub dry_runs: Arc<DryRuns>,
    /// What trials launch.
    pub demands: Demands,
    /// By site, whether its first schedule is what the author listed first: nobody has measured it.
    pub of_author: Vec<bool>,
}

/// Behind so many rounds what was not tried has its turn, whether or not the best ones are settled.
pub(super) const ROUNDS: usize = 4;
/// Part of the time of a program with several sites that is kept for the rounds behind the first.
const LATER: f64 = 0.25;

/// What a round over the sites looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Round {
    /// All candidates of each.
    First,
    /// The best of each site again, where another one has a new schedule.
    Best,
    /// What was not tried yet.
    Rest,
}

/// Where a search stands.
pub(super) struct Stand<'s> {
    pub sites: &'s Sites,
    /// Those that are tuned, the one that takes longest first.
    pub tuned: Vec<&'s Launch>,
    pub schedules: Vec<String>,
    pub outcomes: Vec<Option<SiteOutcome>>,
    /// What stood beside a site when it was tuned: where nothing else has changed, neither would it.
    pub beside: Vec<Option<Vec<String>>>,
    /// The time of the whole program in microseconds; infinite where none was timed yet.
    pub us: f64,
    pub outlook: Outlook,
}

impl Stand<'_> {
    /// The schedules of all sites but one.
    pub fn beside(&self, site: usize) -> Vec<String> {
        let mut others = self.schedules.clone();
        others[site].clear();
        others
    }

    /// Whether a site has candidates that were not tried.
    pub fn is_open(&self, i: usize) -> bool {
        self.outcomes[i].as_ref().is_some_and(|outcome| outcome.counts.2 > 0)
    }

    /// Trials of all sites so far.
    pub fn trials(&self) -> usize {
        self.outcomes.iter().flatten().map(|outcome| outcome.counts.0).sum()
    }

    /// Which part of the time that is left the search of a site has, in a round that comes to others behind it.
    pub fn part(&self, round: Round, i: usize) -> f64 {
        let sites = self.tuned.len();
        let worth =
            |which: &dyn Fn(usize) -> bool| (0..sites).filter(|j| which(*j)).map(|j| self.outlook.worth(self.tuned[j].site)).sum::<f64>();
        let own = worth(&|j| j == i);
        match round {
            Round::First if sites == 1 => 1.0,
            Round::First => own / (worth(&|j| j >= i) + LATER * worth(&|_| true)),
            Round::Best => 1.0 / (sites - i) as f64,
            Round::Rest => own / worth(&|j| j >= i && self.is_open(j)),
        }
    }
}
