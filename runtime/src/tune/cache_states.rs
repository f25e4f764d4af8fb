//! Times of a warm L2 beside those of a cold one: the worker is told which, and neither stands for the other.

use super::by_shell::{DEVICE, copying, folder, options, store};
use super::search::Budget;
use super::{By, Progress, tune};
use crate::launch::schedule_lookup;
use crate::measure::timing::L2;
use crate::store::{Store, Trial, winners};
use crate::subject::challenge::Sizes;
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::target::Target;
use std::sync::atomic::AtomicBool;

/// The same.
#[kernel(tile(T = [128, 256]))]
pub fn passed(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
pub fn passes(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    passed(x, y);
}

struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _site: &str, _candidates: usize, _known: usize) {}
    fn tried(&mut self, _trial: &Trial) {}
    fn note(&mut self, _text: &str) {}
}

/// The winner where tiles of 256 take 1 µs with a warm L2, and 3 with a cold one; others take 2.
fn winner(l2: L2, store: &Store) -> String {
    let script = r#"read setup; case $setup in *'"l2":"warm"'*) wide=1.0;; *) wide=3.0;; esac; echo '"ready"'; while read line; do case $line in
        *interleaved*) echo '{"interleaved":{"samples_us":[]}}';;
        *'"T=256"'*) echo "{\"measured\":{\"samples_us\":[$wide]}}";; *) echo '{"measured":{"samples_us":[2.0]}}';; esac; done"#;
    let mut options = options(script.into(), |_, _, _, _| {}, Budget { time: None, trials: None });
    if let By::Measurement(workers) = &mut options.by {
        workers.l2 = l2;
    }
    let sizes = Sizes::parse("N=100000000").expect("a size");
    let tuned = tune(&copying(passes::Program::def), &sizes, &options, store, &AtomicBool::new(false), &mut Silent);
    tuned.unwrap_or_else(|e| panic!("{e}")).sites[0].winner.clone().expect("something is right").0
}

#[test]
fn times_of_a_warm_cache_are_kept_apart() {
    let folder = folder("warm");
    let store = store(&folder);
    assert_eq!([winner(L2::Warm, &store), winner(L2::Cold, &store), winner(L2::Warm, &store)], ["T=256", "T=128", "T=256"]);
    let elected = store.elected().unwrap_or_else(|e| panic!("{e}"));
    let of = |device: &str| elected.iter().find(|e| e.key.device == device).map(|e| (e.schedule.as_str(), e.median_us));
    assert_eq!((of(DEVICE), of("a shell, warm L2")), (Some(("T=128", 2.0)), Some(("T=256", 1.0))));
    // A launch takes what a cold one elects, and no winner of a warm one is committed.
    let kernel = (passed::Kernel::def().build)().expect("it builds");
    let known = schedule_lookup::of_kernel(&kernel, &Facts::best(&kernel), None, Target::h200(), Some((&store, DEVICE)));
    assert_eq!(known.iter().map(|(s, _)| s.short(&kernel)).collect::<Vec<_>>()[0], "T=128");
    let elected: Vec<_> = elected.into_iter().map(|e| (e, String::new())).collect();
    let lines = winners::file_text(&elected, &[]);
    assert!(lines.contains("T=128") && !lines.contains("T=256"), "{lines}");
    std::fs::remove_dir_all(folder).expect("its own folder");
}
