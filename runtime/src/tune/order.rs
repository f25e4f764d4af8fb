//! In which order a site's candidates are tried: what is known for the launch, what did best for its neighbours, and then as the strategy says.

use super::model_ranking;
use super::pool::Pool;
use super::predict::Prediction;
use super::site::Site;
use crate::launch::{other_kernels, schedule_lookup};
use crate::store::winners;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;

impl Site<'_> {
    /// What did best for neighbours of the launch, the nearest first: other lengths, other promises, the next architecture; where nothing is known
    /// of the kernel, for other instances of it and kernels of its kind.
    pub(super) fn seeds(&self, space: &Space) -> Vec<Schedule> {
        if !self.options.strategy.asks_the_model() {
            return Vec::new();
        }
        let (device, lengths) = (self.options.by.device_name(), Some(&self.launch.lengths));
        let store = Some((self.store, device.as_str()));
        let near = schedule_lookup::near(self.kernel, &self.launch.facts, lengths, self.target, store);
        let seeds = schedule_lookup::seeds(near, space);
        if !seeds.is_empty() {
            return seeds;
        }
        let others = other_kernels::schedules(self.kernel, &self.launch.lengths, self.target, &winners::all());
        schedule_lookup::seeds(others.into_iter().map(|schedule| (schedule, f64::INFINITY)).collect(), space)
    }

    /// The order of trials. What is known so far comes first: whatever the budget, the result is no worse than before. Where it is `late` there
    /// will be none, and the model is not asked.
    pub(super) fn order(&self, pool: &Pool, prediction: &Prediction, first: Vec<Schedule>, late: bool) -> Vec<usize> {
        // The order matters only where the budget may leave candidates untried.
        let limited = !late && (self.budget.time.is_some() || self.budget.trials.is_some_and(|n| n < pool.len()));
        let forecasts = match self.options.strategy {
            strategy if strategy.asks_the_model() && limited => model_ranking::forecast(prediction, pool, self.ordering()),
            _ => Vec::new(),
        };
        let mut head: Vec<usize> = Vec::new();
        for candidate in first.iter().filter_map(|s| pool.place(s)) {
            if !head.contains(&candidate) {
                head.push(candidate);
            }
        }
        let rest = self.options.strategy.order(pool.len(), &forecasts);
        let rest: Vec<usize> = rest.into_iter().filter(|c| !head.contains(c) && pool.is_dealt(*c)).collect();
        [head, rest].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_shell::{copying, folder, options, store};
    use super::super::search::Budget;
    use super::super::{By, Options, Progress, tune};
    use crate::launch::schedule_lookup::predicted_device;
    use crate::store::{Elected, Trial, TrialKey, winners};
    use crate::subject::challenge::Sizes;
    use girih::prelude::*;
    use girih_core::facts::{Facts, TensorArg};
    use girih_core::lengths::Lengths;
    use girih_core::target::Target;
    use girih_core::tile::access::bounded_axes;
    use std::sync::atomic::AtomicBool;

    /// The same.
    #[kernel(tile(T = [256, 512, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
    pub fn kept(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([T]) {
            y.store(t, x.load(t));
        }
    }

    #[program]
    pub fn keeps(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        kept(x, y);
    }

    struct Told(Vec<String>);

    impl Progress for Told {
        fn begin(&mut self, _site: &str, _candidates: usize, _known: usize) {}
        fn tried(&mut self, trial: &Trial) {
            self.0.push(trial.schedule.clone());
        }
        fn note(&mut self, _text: &str) {}
    }

    /// What was elected for the copy of so many elements.
    fn elected(n: i64, schedule: &str) -> Elected {
        let kernel = (kept::Kernel::def().build)().expect("it is right");
        let args = [n, n].map(|n| Some(TensorArg::packed(0, &[n])));
        let facts = Facts::of_launch(&args, true).bounded(&bounded_axes(&kernel), &args);
        let key = TrialKey {
            kernel: winners::kernel_path(&kernel),
            identity: kernel.identity(),
            facts: facts.to_string(),
            lengths: Some(Lengths::of(&args)),
            sizes: format!("N={n}"),
            device: predicted_device(Target::h200()),
            arch: "sm_90a".into(),
        };
        Elected { key, schedule: schedule.into(), median_us: 1.0 }
    }

    #[test]
    fn what_did_best_for_neighbours_is_tried_first() {
        let folder = folder("seeds");
        let store = store(&folder);
        // The plainest schedules, which the model likes least; the nearest launch comes first.
        for (n, schedule) in [(1 << 14, "T=256 C=1 V=1"), (1 << 19, "T=512 C=1 V=1"), (1 << 17, "T=512 C=2 V=1")] {
            store.elect(&elected(n, schedule)).unwrap_or_else(|e| panic!("{e}"));
        }
        // Predictions are made in their order, whatever is compiled.
        let options = options(String::new(), |_, _, _, _| {}, Budget { time: None, trials: Some(4) });
        let options = Options { by: By::Prediction(Target::h200()), ..options };
        let mut told = Told(Vec::new());
        let sizes = Sizes::parse("N=1048576").expect("a size");
        tune(&copying(keeps::Program::def), &sizes, &options, &store, &AtomicBool::new(false), &mut told).expect("prediction needs no GPU");
        let places = ["T=512 C=1 V=1", "T=512 C=2 V=1", "T=256 C=1 V=1"].map(|seed| told.0.iter().position(|tried| tried == seed));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{:?}", told.0);
        std::fs::remove_dir_all(folder).expect("its own folder");
    }
}
