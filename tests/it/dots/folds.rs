//! Dots by operations of the author's: what they compute, and where nothing has to be done for what is absent.

use super::super::evaluator::{Given, floats, ints, kernel, noise, try_kernel};
use super::super::language::{mistakes_in, says};
use super::super::launches::best_facts;
use super::super::rungs::all_kernels;
use super::folded::kernels::{last_beside_odd, shortest, squared_distances, too_near};
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::eval::EvalOptions;

const SHAPE: [usize; 3] = [19, 23, 37];

fn matrix(data: Vec<f32>, rows: usize) -> Given {
    let columns = data.len() / rows;
    Given::F(data, vec![rows as i64, columns as i64])
}

/// What becomes of a sum by all pairs of a row and a column.
fn folded<S: Copy, T: Copy>(sums: &[S], [a, b]: [&[T]; 2], step: impl Fn(S, T, T) -> S) -> Vec<S> {
    let [_, n, inner] = SHAPE;
    let element = |i: usize| (0..inner).fold(sums[i], |sum, k| step(sum, a[i / n * inner + k], b[k * n + i % n]));
    (0..sums.len()).map(element).collect()
}

#[test]
fn steps_are_taken_pair_by_pair() {
    let [m, n, inner] = SHAPE;
    let (a, b, there) = (noise(m * inner), noise(inner * n), vec![0.0; m * n]);
    let found = kernel(shortest::Kernel::<f32>::def(), &[matrix(a.clone(), m), matrix(b.clone(), inner), matrix(there.clone(), m)]);
    assert_eq!(floats(&found[2]), folded(&there, [&a, &b], |path, to, from| path.min(to + from)));

    let whole = |x: &[f32]| x.iter().map(|x| (x * 100.0) as i32).collect::<Vec<i32>>();
    let (a, b, zeros) = (whole(&a), whole(&b), vec![0; m * n]);
    let given = |v: &[i32], rows: usize| Given::I(v.to_vec(), vec![rows as i64, (v.len() / rows) as i64]);
    let found = kernel(last_beside_odd::Kernel::def(), &[given(&a, m), given(&b, inner), given(&zeros, m)]);
    assert_eq!(ints(&found[2]), folded(&zeros, [&a, &b], |last, a, b| if a & 1 == 1 { b } else { last }));
}

#[test]
fn steps_read_what_they_have_computed_again() {
    let [m, n, inner] = SHAPE;
    let (x, y) = (noise(m * inner), noise(n * inner));
    let found = kernel(squared_distances::Kernel::<f32>::def(), &[matrix(x.clone(), m), matrix(y.clone(), n), matrix(vec![0.0; m * n], m)]);
    let turned: Vec<f32> = (0..inner * n).map(|i| y[i % n * inner + i / n]).collect();
    assert_eq!(floats(&found[2]), folded(&vec![0.0; m * n], [&x, &turned], |sum, x, y| sum + (x - y) * (x - y)));
}

/// A number that changes a sum is told: tiles of other sizes would have other sums.
#[test]
fn numbers_for_what_is_absent_change_nothing() {
    let half = |rows: i64, columns: i64| Given::F(vec![0.0; (rows * columns / 2) as usize], vec![rows, columns]);
    let error = try_kernel(too_near::Kernel::def(), &[half(4, 6), half(6, 8), half(4, 8)], &EvalOptions::default());
    let error = error.expect_err("paths become shorter").to_string();
    says(&error, &["the step of this dot changes what it has of elements that are absent: 0 becomes -inf"]);
}

fn text(name: &str, facts: impl Fn(&girih_core::tile::Kernel) -> Facts, settings: &str) -> Result<String, String> {
    let kernel = all_kernels().into_iter().find(|k| k.full_name() == name).unwrap_or_else(|| panic!("no kernel {name}"));
    let schedule = if settings.is_empty() { Schedule::default_of(&kernel) } else { parse_schedule(&kernel, settings).expect("a schedule") };
    lower(&kernel, &facts(&kernel), &schedule, Target::h200()).map(|simt| emit(&simt)).map_err(|e| e.to_string())
}

/// Where the tile divides the sum's axis nothing is compared with its end; rows and columns behind the end of the result are never looked at.
#[test]
fn nothing_stands_for_what_is_never_absent() {
    let infinity = "__int_as_float(0x7f800000)";
    let whole = text("shortest<f32>", best_facts, "BK=16").expect("a text");
    assert!(!whole.contains(infinity) && whole.contains("nan_min("), "{whole}");
    let ends = text("shortest<f32>", Facts::none, "BK=16").expect("a text");
    assert!(ends.contains(infinity), "{ends}");
    let zeros = text("squared_distances<f32>", Facts::none, "").expect("a text");
    assert!(!zeros.contains("_frag[i * 4] = "), "{zeros}");
}

#[test]
fn other_units_and_other_blocks_have_no_such_steps() {
    let refused = |name: &str, settings: &str| text(name, Facts::none, settings).expect_err("a refusal");
    let unit = refused("widest", "U=Mma");
    says(&unit, &["U = Mma: multiplies and adds, and the dot of line", "has operations of its own: use Ffma"]);
    let parts = refused("widest", "Z=2");
    says(&parts, &["Z = 2: the loop carries `widest`, to which it does more than add f32 or 32-bit integers; only 1 is allowed"]);
}

#[device]
fn looks_elsewhere(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let far = dot_with(v, v.t(), zeros::<f32>([m, m]), 0.0, |sum, a, b| sum + a * b * x.at((0, 0)));
        y.store((i, j), v + far.sum());
    }
}

#[test]
fn steps_are_arithmetic() {
    let text = mistakes_in(include_str!("folds.rs"), looks_elsewhere);
    says(
        &text,
        &["a step of `dot_with` that does more than arithmetic on three numbers", "x.at((0, 0))", "make before the dot, as scalars"],
    );
}
