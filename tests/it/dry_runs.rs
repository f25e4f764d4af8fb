//! Tuning without a GPU looks at launches on what their programs really leave them, and keeps to its time.

use super::joint_tuning::Told;
use super::programs::affine;
use girih::challenge::{Challenge, Sizes};
use girih::prelude::*;
use girih::store::Store;
use girih::subject::Subject;
use girih::tune::search::{Budget, Strategy};
use girih::tune::{By, Options, Tuned, tune};
use girih_core::target::Target;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Where each element goes: the other way round.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
fn places(to: &mut Tensor<i32, 1>) {
    for t in to.tiles([T]) {
        to.store(t, (to.len(0) - 1 - t.coords()).cast::<i32>());
    }
}

/// Nothing but data says that no two elements meet.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
fn scattered(x: &Tensor<f32, 1>, to: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        y.scatter(to.load(t), x.load(t));
    }
}

#[program]
fn backwards(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut to = temp([x.len(0)]);
    places(&mut to);
    scattered(x, &to, y);
}

/// Halves what is left.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
fn halved(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let half = x.load(t) * 0.5;
        x.store(t, half);
    }
}

/// Until the first element is small, and another turn where it is not a number.
#[program]
fn shrunk(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    y.copy_from(x);
    while y.at(0) > 1.0 {
        halved(y);
    }
    if y.at(0) < -100.0 {
        affine(x, y, scalar(1.0), scalar(0.0));
    }
}

/// Every element with every other one.
#[kernel(tile(T = [32, 64], S = [32, 64]))]
fn pairs(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let own = x.load(t);
        let mut sum = own.like(0.0);
        for s in x.axis(0).tiles(S) {
            sum += (own.expand(1, S) * x.load(s).expand(0, T)).sum_axis(1);
        }
        y.store(t, sum);
    }
}

#[program]
fn all_pairs(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    pairs(x, y);
}

const SIGNATURE: &str = "void solve(const float* X[N], float* Y[N], int N)";

fn subject(challenge: Challenge) -> Subject {
    let challenge = challenge.input("X", girih::inputs::formula(|_, i| 64.0 + (i % 7) as f64)).tolerance(1e-4, 1e-4);
    Subject::of_challenge(&challenge.perf_at("N=200000")).unwrap_or_else(|e| panic!("{e}"))
}

fn predict(name: &str, subject: &Subject, budget: Budget) -> (Tuned, Told) {
    let folder = std::env::temp_dir().join(format!("girih-dry-run-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let store = Store::open(&folder.join("tune.sqlite")).expect("a temporary folder is writable");
    let by = By::Prediction(Target::h200());
    let options = Options { by, budget, strategy: Strategy::Model, limit: Duration::from_secs(10), fresh: false, only: None, among: None };
    let mut told = Told::default();
    let sizes = Sizes::parse("N=200000").expect("sizes");
    let tuned = tune(subject, &sizes, &options, &store, &AtomicBool::new(false), &mut told).unwrap_or_else(|e| panic!("{e}"));
    std::fs::remove_dir_all(folder).expect("it was made above");
    (tuned, told)
}

const FEW: Budget = Budget { time: None, trials: Some(4) };

/// On zeroed memory all elements would go to one place: a race that the kernel does not have.
#[test]
fn places_that_an_earlier_launch_computes_are_known() {
    let challenge = Challenge::new("backwards", backwards::Program::def, SIGNATURE);
    let challenge = challenge.output("Y", |x, i| x.at("X", x.len("N") - 1 - i));
    let (tuned, _) = predict("backwards", &subject(challenge.check_at(["N=1", "N=300"])), FEW);
    for site in &tuned.sites {
        assert!(site.winner.is_some() && site.dropped.is_empty(), "{site:?}");
    }
    assert_eq!(tuned.sites.len(), 2);
}

/// A loop on a value read back takes as many turns as the data say; what no call reaches is named.
#[test]
fn turns_that_data_decide_are_counted() {
    let challenge = Challenge::new("shrunk", shrunk::Program::def, SIGNATURE);
    let challenge = challenge.output("Y", |x, i| x.at("X", i) / 64.0);
    let (tuned, told) = predict("shrunk", &subject(challenge.check_at(["N=1", "N=300"])), FEW);
    assert_eq!(tuned.sites.iter().map(|s| s.site.as_str()).collect::<Vec<_>>(), ["halved"], "{:?}", told.notes);
    let notes = told.notes.join("\n");
    assert!(notes.contains("(halved 6)") && notes.contains("affine: a call at N=200000 does not launch it"), "{notes}");
    let (_, us) = tuned.program.expect("two sites are tuned as a whole");
    assert!(us > 6.0 * 0.9 * Target::h200().launch * 1e6, "{us} us for six launches");
}

/// The work grows with the square of the length: the reduced call is as small as the time asks.
#[test]
fn a_budget_is_kept_where_work_grows_faster_than_tensors() {
    let challenge = Challenge::new("all_pairs", all_pairs::Program::def, SIGNATURE);
    let challenge = challenge.output_all("Y", |x| {
        let all: Vec<f64> = (0..x.len("N")).map(|i| x.at("X", i)).collect();
        let sum: f64 = all.iter().sum();
        all.iter().map(|a| a * sum).collect()
    });
    let subject = subject(challenge.check_at(["N=1", "N=300", "N=40000"]));
    let (begun, budget) = (Instant::now(), Duration::from_secs(4));
    let (tuned, told) = predict("pairs", &subject, Budget { time: Some(budget), trials: None });
    let taken = begun.elapsed();
    // A debug build's machine is slow, and others test beside it: the tuner's own clocks keep to a twentieth.
    assert!(taken < budget + budget / 4, "{taken:?}");
    assert!(told.tried > 0 && tuned.sites[0].winner.is_some(), "{:?}", tuned.sites);
}

/// So long a turn of data that no call of it can be simulated is predicted nevertheless, and says that nothing was counted; and no time
/// lies below the floor.
#[test]
fn what_cannot_be_counted_has_a_static_estimate() {
    let challenge =
        Challenge::new("counts_down", counts_down::Program::def, SIGNATURE).output("Y", |_, _| 0.0).flops(|s| 1e6 * s.size("N"));
    let subject = subject(challenge);
    let sizes = Sizes::parse("N=200000").expect("sizes");
    let (told, _) = girih::measure::rungs::predict(&subject, &sizes, Target::h200(), None).unwrap_or_else(|e| panic!("{e}"));
    let floor = girih::tune::floor::floor_us(&subject, &sizes, Target::h200()).expect("a floor");
    // A million operations for each number, of which the kernel says nothing.
    assert!(floor > 2000.0 && told.us == floor && told.below_floor.is_some_and(|us| us < floor), "{told:?} {floor}");
    assert_eq!(told.basis, girih::tune::floor::Basis::Static);
    assert!(told.remark().is_some_and(|r| r.contains("static estimate") && r.contains("a miss")), "{told:?}");
}

/// A search of such a kernel has a winner all the same; without sizes to check at it has none, and says what to do.
#[test]
fn what_cannot_be_counted_has_a_winner() {
    let challenge = || Challenge::new("counts_down", counts_down::Program::def, SIGNATURE).output("Y", |_, _| 0.0);
    let (tuned, told) = predict("counts-down", &subject(challenge().check_at(["N=0"])), FEW);
    assert!(told.tried > 0 && tuned.sites[0].winner.is_some(), "{:?}", tuned.sites);
    let (tuned, _) = predict("counts-down-unchecked", &subject(challenge()), FEW);
    let dropped: Vec<&String> = tuned.sites[0].dropped.keys().collect();
    assert!(dropped.len() == 1 && dropped[0].contains("the challenge has to name some, as in `.check_at(["), "{dropped:?}");
}

/// As many turns as the elements say: more than the simulator would ever make, and nobody knows how many before they are over.
#[kernel(tile(T = [64, 128]))]
fn counted_down(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let own = x.load(t);
        let mut sum = own.like(0.0);
        let mut left = own.max_all();
        while left > 0.0 {
            sum += own;
            left -= 0.0001;
        }
        y.store(t, sum);
    }
}

#[program]
fn counts_down(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    counted_down(x, y);
}
