//! What a check tells while it runs: sizes as they are done, reports in their order, and what it waits for.

use super::report::Report;
use std::sync::Mutex;
use std::time::Duration;

/// Who is told what a check does. Nothing is told to `()`.
pub trait Progress: Sync {
    /// A size of a subject has been checked.
    fn size(&self, _subject: &str) {}

    /// All of a subject has been checked, and of all subjects before it.
    fn report(&self, _report: &Report) {}

    /// A kernel under a schedule is still being compiled, after so long.
    fn compiling(&self, _kernel: &str, _schedule: &str, _elapsed: Duration) {}
}

impl Progress for () {}

/// Reports of subjects, filled in any order and told of in theirs.
pub(super) struct Reports<'a> {
    progress: &'a dyn Progress,
    state: Mutex<State>,
}

struct State {
    reports: Vec<Report>,
    /// Sizes of each subject that are not checked yet.
    left: Vec<usize>,
    /// How many reports have been told of.
    told: usize,
}

impl<'a> Reports<'a> {
    /// Empty reports, and for each the number of sizes that will be added.
    pub fn new(empty: impl Iterator<Item = (Report, usize)>, progress: &'a dyn Progress) -> Reports<'a> {
        let (reports, left) = empty.unzip();
        let mut state = State { reports, left, told: 0 };
        state.tell(progress);
        Reports { progress, state: Mutex::new(state) }
    }

    /// Adds what came out for one size of a subject.
    pub fn add(&self, subject: usize, part: Report) {
        let mut state = self.state.lock().expect("nobody panics while adding");
        state.reports[subject].merge(part);
        state.left[subject] -= 1;
        self.progress.size(&state.reports[subject].name);
        state.tell(self.progress);
    }

    /// All of them.
    pub fn into_all(self) -> Vec<Report> {
        self.state.into_inner().expect("nobody panics while adding").reports
    }
}

impl State {
    fn tell(&mut self, progress: &dyn Progress) {
        while self.left.get(self.told) == Some(&0) {
            progress.report(&self.reports[self.told]);
            self.told += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Progress for Told {
        fn report(&self, report: &Report) {
            self.0.lock().expect("one thread").push(format!("{} {}", report.name, report.runs));
        }
    }

    #[test]
    fn reports_are_told_of_in_their_order_and_complete() {
        let named = |name: &str| Report { name: name.into(), ..Report::default() };
        let told = Told::default();
        let reports = Reports::new([(named("broken"), 0), (named("a"), 2), (named("b"), 1), (named("c"), 1)].into_iter(), &told);
        let so_far = || told.0.lock().expect("one thread").join(", ");
        assert_eq!(so_far(), "broken 0", "nothing is run of it");
        let run = || Report { runs: 1, ..Report::default() };
        reports.add(2, run());
        reports.add(1, run());
        assert_eq!(so_far(), "broken 0", "`b` waits for `a`, of which one size is missing");
        reports.add(1, run());
        assert_eq!(so_far(), "broken 0, a 2, b 1");
        reports.add(3, run());
        assert_eq!(so_far(), "broken 0, a 2, b 1, c 1");
        assert_eq!(reports.into_all().len(), 4);
    }
}
