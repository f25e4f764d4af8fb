//! Algorithms within programs of an author's, under sampled schedules of their launches: evaluator, simulator and references agree.

use girih::algorithms::{Ascending, Descending, Greatest, Inclusive, Positive, Sum, Value};
use girih::algorithms::{histogram, keep_flagged, keep_if, merge, merge_pairs, reduce_by_key, scan, sort, sort_pairs, top_k};
use girih::challenge::{Case, Challenge};
use girih::check::{On, Options, check};
use girih::inputs::formula;
use girih::prelude::*;
use girih::subject::Subject;
use girih_core::target::Target;

/// Sizes about the tiles.
const SIZES: [&str; 5] = ["N=0", "N=1", "N=4096", "N=4099", "N=9001"];

/// Sizes of two vectors about the tile of what they merge to.
const BOTH_SIZES: [&str; 4] = ["M=0 N=0", "M=1 N=0", "M=3839 N=2", "M=4000 N=5001"];

/// Numbers of which some are equal, and neighbours often are.
fn mixed(_: &[i64], i: usize) -> f64 {
    (super::mixed(i / 3) % 500) as f64 - 250.0
}

fn rising(lens: &[i64], i: usize) -> f64 {
    (i / 2) as f64 - lens[0] as f64 / 3.0
}

fn column(case: &Case, name: &str) -> Vec<f64> {
    (0..case.len("N")).map(|i| case.at(name, i)).collect()
}

#[program]
fn wide_keys_fall(x: &Tensor<i64, 1>, y: &mut Tensor<i64, 1>) {
    sort::<i64, Descending>(x, y);
}

#[program]
fn numbered_keys(x: &Tensor<i32, 1>, v: &Tensor<f32, 1>, y: &mut Tensor<i32, 1>, w: &mut Tensor<f32, 1>) {
    sort_pairs::<i32, f32, Ascending>(x, v, y, w);
}

#[program]
fn narrow_keys(x: &Tensor<i8, 1>, y: &mut Tensor<i8, 1>) {
    sort::<i8, Ascending>(x, y);
}

#[program]
fn most_so_far(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    scan::<i32, Greatest, Inclusive>(x, y);
}

#[program]
fn wide_sums_so_far(x: &Tensor<i64, 1>, y: &mut Tensor<i64, 1>) {
    scan::<i64, Sum, Inclusive>(x, y);
}

#[program]
fn sums_of_runs(x: &Tensor<i32, 1>, v: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, w: &mut Tensor<i32, 1>, count: &mut Tensor<i32, 1>) {
    y.fill(0);
    w.fill(0);
    reduce_by_key::<i32, i32, Sum>(x, v, y, w, count);
}

#[program]
fn above_zero(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, count: &mut Tensor<i32, 1>) {
    y.fill(0);
    keep_if::<i32, Positive>(x, y, count);
}

#[program]
fn with_a_flag(x: &Tensor<i32, 1>, flags: &Tensor<bool, 1>, y: &mut Tensor<i32, 1>, count: &mut Tensor<i32, 1>) {
    y.fill(0);
    keep_flagged::<i32>(x, flags, y, count);
}

#[program]
fn both_in_order(a: &Tensor<i32, 1>, b: &Tensor<i32, 1>, c: &mut Tensor<i32, 1>) {
    merge::<i32, Ascending>(a, b, c);
}

#[program]
fn both_fall(
    a: &Tensor<f32, 1>,
    v: &Tensor<i32, 1>,
    b: &Tensor<f32, 1>,
    w: &Tensor<i32, 1>,
    c: &mut Tensor<f32, 1>,
    moved: &mut Tensor<i32, 1>,
) {
    merge_pairs::<f32, i32, Descending>(a, v, b, w, c, moved);
}

#[program]
fn how_often(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    histogram::<i32, Value>(x, y);
}

#[program]
fn largest(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    top_k::<i32>(x, y);
}

fn sorted(mut all: Vec<f64>) -> Vec<f64> {
    all.sort_by(f64::total_cmp);
    all
}

fn sorted_places(case: &Case) -> Vec<usize> {
    let x = column(case, "x");
    let mut places: Vec<usize> = (0..x.len()).collect();
    places.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
    places
}

fn runs(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let (mut keys, mut sums): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for (key, value) in column(case, "x").into_iter().zip(column(case, "v")) {
        match keys.last() == Some(&key) {
            true => *sums.last_mut().expect("a sum of each run") += value,
            false => {
                keys.push(key);
                sums.push(value);
            }
        }
    }
    (keys, sums)
}

fn padded(case: &Case, mut all: Vec<f64>) -> Vec<f64> {
    all.resize(case.len("N"), 0.0);
    all
}

fn kept(case: &Case) -> Vec<f64> {
    column(case, "x").into_iter().filter(|v| *v > 0.0).collect()
}

fn right(challenge: Challenge) {
    let slug = challenge.slug;
    let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{slug}: {e}"));
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 3, seed: 5 };
    let report = check(&[subject], &options, &()).remove(0);
    assert!(report.failures.is_empty() && report.runs > 0, "{slug}: {report:#?}");
}

#[test]
fn sorts_are_right_under_every_schedule() {
    let sort = Challenge::new("wide_keys_fall", wide_keys_fall::Program::def, "void f(const long long* x[N], long long* y[N], int N)");
    right(sort.input("x", formula(mixed)).output_all("y", |c| sorted(column(c, "x")).into_iter().rev().collect()).check_at(SIZES));
    let signature = "void f(const int* x[N], const float* v[N], int* y[N], float* w[N], int N)";
    let pairs = Challenge::new("numbered_keys", numbered_keys::Program::def, signature).input("x", formula(mixed));
    let pairs = pairs.input("v", formula(|_, i| i as f64)).output_all("y", |c| sorted(column(c, "x")));
    right(pairs.output_all("w", |c| sorted_places(c).into_iter().map(|i| i as f64).collect()).check_at(SIZES));
    let narrow = Challenge::new("narrow_keys", narrow_keys::Program::def, "void f(const signed char* x[N], signed char* y[N], int N)");
    let narrow = narrow.input("x", formula(|l, i| (mixed(l, i) / 2.0).trunc()));
    right(narrow.output_all("y", |c| sorted(column(c, "x"))).check_at(SIZES));
}

#[test]
fn scans_and_runs_are_right_under_every_schedule() {
    let scan = Challenge::new("most_so_far", most_so_far::Program::def, "void f(const int* x[N], int* y[N], int N)");
    let most = |c: &Case| {
        let mut most = f64::NEG_INFINITY;
        column(c, "x")
            .into_iter()
            .map(|v| {
                most = most.max(v);
                most
            })
            .collect()
    };
    right(scan.input("x", formula(mixed)).output_all("y", most).check_at(SIZES));
    let scan = Challenge::new("wide_sums_so_far", wide_sums_so_far::Program::def, "void f(const long long* x[N], long long* y[N], int N)");
    let sums = |c: &Case| {
        let mut sum = 0.0;
        column(c, "x")
            .into_iter()
            .map(|v| {
                sum += v;
                sum
            })
            .collect()
    };
    right(scan.input("x", formula(mixed)).output_all("y", sums).check_at(SIZES));
    let signature = "void f(const int* x[N], const int* v[N], int* y[N], int* w[N], int* count[1], int N)";
    let of_runs = Challenge::new("sums_of_runs", sums_of_runs::Program::def, signature).input("x", formula(mixed));
    let of_runs = of_runs.input("v", formula(|_, i| (i % 17) as f64)).output_all("y", |c| padded(c, runs(c).0));
    right(of_runs.output_all("w", |c| padded(c, runs(c).1)).output_all("count", |c| vec![runs(c).0.len() as f64]).check_at(SIZES));
}

#[test]
fn what_is_kept_is_right_under_every_schedule() {
    let keep = Challenge::new("above_zero", above_zero::Program::def, "void f(const int* x[N], int* y[N], int* count[1], int N)");
    let keep = keep.input("x", formula(mixed)).output_all("y", |c| padded(c, kept(c)));
    right(keep.output_all("count", |c| vec![kept(c).len() as f64]).check_at(SIZES));
    let signature = "void f(const int* x[N], const bool* flags[N], int* y[N], int* count[1], int N)";
    let flagged = Challenge::new("with_a_flag", with_a_flag::Program::def, signature).input("x", formula(mixed));
    let flagged = flagged.input("flags", formula(|l, i| (mixed(l, i) > 0.0) as u8 as f64)).output_all("y", |c| padded(c, kept(c)));
    right(flagged.output_all("count", |c| vec![kept(c).len() as f64]).check_at(SIZES));
}

#[test]
fn merges_and_selections_are_right_under_every_schedule() {
    let merge = Challenge::new(
        "both_in_order",
        both_in_order::Program::def,
        "void f(const int* a[M], const int* b[N], int* c[M + N], int M, int N)",
    );
    let merge = merge.input("a", formula(rising)).input("b", formula(rising));
    let both = |c: &Case| sorted((0..c.len("M")).map(|i| c.at("a", i)).chain((0..c.len("N")).map(|i| c.at("b", i))).collect());
    right(merge.output_all("c", both).check_at(BOTH_SIZES));
    let top =
        Challenge::new("largest", largest::Program::def, "void f(const int* x[N], int* y[k], int N, int k)").input("x", formula(mixed));
    let first = |c: &Case| sorted(column(c, "x")).into_iter().rev().take(c.len("k")).collect();
    right(top.output_all("y", first).check_at(["N=1 k=1", "N=9001 k=100", "N=5000 k=1500"]));
}

/// The keys of both vectors as they fall, and where each was among all.
fn falling(case: &Case) -> Vec<(f64, f64)> {
    let of = |name: &str, n: usize| (0..n).map(|i| case.at(name, i)).collect::<Vec<f64>>();
    let all = [of("a", case.len("M")), of("b", case.len("N"))].concat();
    let mut numbered: Vec<(f64, f64)> = all.into_iter().enumerate().map(|(i, key)| (key, i as f64)).collect();
    numbered.sort_by(|a, b| b.0.total_cmp(&a.0));
    numbered
}

#[test]
fn merges_of_pairs_are_right_under_every_schedule() {
    let signature =
        "void f(const float* a[M], const int* v[M], const float* b[N], const int* w[N], float* c[M + N], int* moved[M + N], int M, int N)";
    let pairs = Challenge::new("both_fall", both_fall::Program::def, signature);
    let pairs = pairs.input("a", formula(|l, i| -rising(l, i))).input("b", formula(|l, i| -rising(l, i)));
    let pairs = pairs.input("v", formula(|_, i| i as f64)).input("w", formula(|_, i| i as f64));
    let pairs = pairs.output_all("c", |c| falling(c).into_iter().map(|(key, _)| key).collect());
    // Values are places in their own vector.
    let places = |c: &Case| {
        let m = c.len("M") as f64;
        falling(c).into_iter().map(|(_, i)| if i < m { i } else { i - m }).collect()
    };
    right(pairs.output_all("moved", places).check_at(BOTH_SIZES));
}

#[test]
fn histograms_are_right_under_every_schedule() {
    let counts = Challenge::new("how_often", how_often::Program::def, "void f(const int* x[N], int* y[B], int N, int B)");
    let counts = counts.input("x", formula(mixed));
    let expected = |c: &Case| {
        let mut bins = vec![0.0; c.len("B")];
        for v in column(c, "x").into_iter().filter(|v| *v >= 0.0 && *v < c.len("B") as f64) {
            bins[v as usize] += 1.0;
        }
        bins
    };
    // Up to 256 bins, up to 8192, and more.
    right(counts.output_all("y", expected).check_at(["N=0 B=1", "N=1 B=256", "N=8193 B=100", "N=9001 B=257", "N=4099 B=8193"]));
}
