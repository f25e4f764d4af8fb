//! What a site's search elects, beside other tuners that use the same store.

use super::site::Site;
use super::streaming_choice::Streaming;
use super::{Progress, SiteOutcome, launches};
use crate::store::{Elected, TrialKey};

impl Site<'_> {
    /// What is elected at a site stands for its sizes, whatever ran beside it.
    pub(super) fn elected_key(&self, key: &TrialKey) -> TrialKey {
        TrialKey { sizes: self.sizes.to_string(), ..key.clone() }
    }

    /// Elects the winner, if there is one and no other tuner has elected a faster one since `before` was read.
    pub(super) fn elect(
        &self,
        key: &TrialKey,
        found: &SiteOutcome,
        before: Option<&(String, f64)>,
        progress: &mut dyn Progress,
    ) -> Result<Option<Elected>, String> {
        let (Some((schedule, _)), Some(median_us)) = (&found.winner, found.median_us) else { return Ok(None) };
        let elected = Elected { key: self.elected_key(key), schedule: schedule.clone(), median_us };
        match self.store.elect_since(&elected, before).map_err(|e| e.to_string())? {
            None => Ok(Some(elected)),
            Some((faster, us)) => {
                let site = &self.program.names[self.launch.site];
                progress.note(&format!("{site}: another tuner has elected {faster} meanwhile, {us:.2} us, which stays"));
                Ok(None)
            }
        }
    }

    /// Elects a schedule for large tensors, unless a faster one is known there.
    pub(super) fn elect_streaming(&self, key: &TrialKey, streaming: &Streaming) -> Result<(), String> {
        let launches = launches::at(self.subject, &streaming.sizes)?;
        let Some(launch) = launches.into_iter().find(|l| l.site == self.launch.site) else { return Ok(()) };
        let (facts, sizes) = (launch.facts.to_string(), streaming.sizes.to_string());
        let key = TrialKey { facts, lengths: Some(launch.lengths), sizes, ..key.clone() };
        if self.store.elected_for(&key).map_err(|e| e.to_string())?.is_some_and(|(_, us)| us <= streaming.median_us) {
            return Ok(());
        }
        let elected = Elected { key, schedule: streaming.schedule.clone(), median_us: streaming.median_us };
        self.store.elect(&elected).map_err(|e| e.to_string())
    }
}
