//! A report: one page for each subject of what is known of it, as HTML that needs nothing else. Its floor and roof, its winner, all of its
//! trials and what they say of the knobs, its ladder; every number with where it comes from.

mod html;
mod plot;
mod roofline;
mod sections;

use crate::device::Device;
use crate::explain::Page;
use crate::explain::gather::{Options, page};
use crate::explain::trials::{SiteTrials, recorded, trials};
use crate::ladder::climb::{Climbed, climb};
use crate::ladder::ladders;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::techniques::{Technique, Timeline};
use crate::tune::recording::Recording;
use girih_core::schedule::Schedule;

/// Rounds in which each rung of a ladder is timed once.
const ROUNDS: usize = 20;

/// All that a report has of one subject.
pub struct SubjectReport {
    /// The subject under its best schedule, explained.
    pub page: Page,
    /// The trials of each launch site.
    pub trials: Vec<SiteTrials>,
    /// Its ladder, if it has one.
    pub ladder: Option<Climbed>,
    /// Its place among the subjects of the report, for anchors.
    pub number: usize,
}

/// Where a report was made: names and values.
pub type Environment = Vec<(String, String)>;

impl SubjectReport {
    /// Gathers a subject under a schedule for each launch site; trials are those of the store, or of a recording where there is one, and the rungs of
    /// its ladder are timed where there is a GPU.
    ///
    /// # Errors
    /// As [`page`].
    pub fn gather(
        number: usize,
        subject: &Subject,
        sizes: &Sizes,
        way: &[(Schedule, &'static str)],
        options: &Options,
        recordings: &[Recording],
        gpu: Option<&Device>,
    ) -> Result<SubjectReport, String> {
        let recording = recordings.iter().find(|r| r.name == subject.name && r.sizes == sizes.to_string());
        let trials = match recording {
            Some(recording) => recorded(subject, recording),
            None => trials(subject, sizes, way, options)?,
        };
        let own = ladders().into_iter().find(|ladder| ladder.challenge == subject.name);
        let ladder = own.map(|ladder| climb(&ladder, sizes, options, gpu.map(|gpu| (gpu, ROUNDS)))).transpose()?;
        Ok(SubjectReport { page: page(subject, sizes, way, options)?, trials, ladder, number })
    }

    /// The page's anchor of a part.
    fn id(&self, part: &str) -> String {
        format!("s{}-{part}", self.number + 1)
    }

    fn rung_id(&self, rung: usize) -> String {
        self.id(&format!("rung{}", rung + 1))
    }

    fn trial_id(&self, site: usize, trial: usize) -> String {
        self.id(&format!("t{}-{}", site + 1, trial + 1))
    }

    /// Microseconds of a call under the best schedule known: measured ones where there are some.
    fn best_us(&self) -> Option<f64> {
        let measured = self.page.sites.iter().find_map(|site| site.measured.first()).map(|m| m.us);
        measured.or(self.page.predicted.map(|p| p.us))
    }
}

/// A technique of the host with its ways of doing the work.
pub type Host = (Technique, Vec<Timeline>);

/// The whole report.
pub fn html(reports: &[SubjectReport], hosts: &[Host], environment: &Environment) -> String {
    let mut body = html::contents(reports);
    body += &html::table(&["", ""], environment.iter().map(|(name, value)| vec![name.clone(), value.clone()]));
    body += &reports.iter().map(sections::subject).collect::<String>();
    body += &sections::hosts(hosts);
    html::document("girih report", &body)
}
