//! Kernels without a challenge that are wrong at some lengths only: the check of a kernel finds each of them.

use super::programs::affine;
use super::rungs::in_gallery;
use girih::challenge::{Challenge, Reference};
use girih::check::{On, Options, Part, check, check_parts};
use girih::prelude::*;
use girih::subject::Subject;
use girih::{Device, Error, Stream};
use girih_core::registry::KernelDef;
use girih_core::schedule::illegal_first_choices;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_examples as _;

/// Reads past the last column where there is an odd number of them.
#[kernel(tile(R = [1, 4], C = [32, 64]))]
pub fn odd_columns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let mut v = x.load((r, c));
        for k in 0..(x.len(1) + 1) / 2 {
            v = v + x.load((r, k * 2 + 1)).expand(1, C);
        }
        y.store((r, c), v);
    }
}

/// Reads before the first element where there is none.
#[kernel(tile(T = [32, 128]))]
pub fn no_elements(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let last = x.len(0) - 1;
    for t in y.tiles([T]) {
        y.store(t, x.at(last.min(last + t.start())).splat([T]));
    }
}

/// Reads a second row, which one row does not have.
#[kernel(tile(C = [32, 64]))]
pub fn one_row(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for c in y.tiles([C]) {
        y.store(c, x.load(((c.start() + 1).min(1), c)));
    }
}

/// Reads past the end where there is a second tile.
#[kernel(tile(R = 64, C = 8))]
pub fn above_a_tile(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let row = (r.start() / 64).min(1) * x.len(0);
        y.store((r, c), x.load((row, c)).expand(0, R));
    }
}

#[test]
fn wrong_kernels_are_found() {
    let defs: [KernelDef; 4] =
        [odd_columns::Kernel::def(), no_elements::Kernel::def(), one_row::Kernel::def(), above_a_tile::Kernel::def()];
    let subjects: Vec<Subject> = defs.iter().map(|d| Subject::of_kernel(d).unwrap_or_else(|e| panic!("{}: {e}", d.name))).collect();
    for seed in 0..3 {
        let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed };
        for report in check(&subjects, &options, &()) {
            assert!(!report.failures.is_empty(), "{} passes at {} sizes", report.name, report.sizes);
            assert!(report.runs > 0, "{} runs at no size at all: {:#?}", report.name, report.failures);
        }
    }
}

/// Rows of as many elements as their neighbours say: random neighbours say nothing that makes sense.
#[kernel(tile(R = [1, 4]))]
pub fn sums_between(starts: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let row = r.start();
        let mut sum = zeros::<f32>([R]);
        for i in starts.at(row)..starts.at(row) + 1 {
            sum = sum + x.at(i).splat([R]);
        }
        y.store(r, sum);
    }
}

#[test]
fn inputs_that_nobody_described_are_told_of() {
    let subject = Subject::of_kernel(&sums_between::Kernel::def()).expect("it is built");
    let report = check(&[subject], &Options { on: On::Simulator(Target::h200().clone()), schedules: 1, seed: 1 }, &()).remove(0);
    let told: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    let told = told.join("\n");
    assert!(told.contains("must lie inside") && told.contains("gets random integers (0 to 1000, any byte)"), "{told}");
    assert!(told.contains("check it in a challenge, whose `.input(..)` says what they are"), "{told}");
}

/// Looks at the element behind each tile, which the last tile has not.
#[kernel(tile(T = 32))]
pub fn behind_the_tile(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t) + x.at(t.start() + 32));
    }
}

/// Its first choice wants more threads than its tile has elements, under every other knob.
#[kernel(tile(B = 32), threads(N = [128, 32]))]
pub fn first_choice_is_illegal(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([B]) {
        y.store(t, x.load(t) + 1.0);
    }
}

/// A coordinate outside of its tensor is told of before anything is launched, where it lies inside of the memory, too.
#[test]
fn coordinates_outside_are_found() {
    let subject = Subject::of_kernel(&behind_the_tile::Kernel::def()).unwrap();
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed: 1 };
    let report = check(&[subject], &options, &()).remove(0);
    let message = &report.failures[0].message;
    assert!(message.contains("x is accessed at 32 along axis 0, which has "), "{message}");
    assert!(message.contains("guard it (`if i < x.len(0)`)"), "{message}");
}

/// Two scatters that meet: each stores where the other has.
#[kernel(tile(T = [32, 64]))]
pub fn meeting_scatters(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.scatter(t.coords(), x.load(t));
        y.scatter(t.coords() + 1, x.load(t));
    }
}

/// Several scatters to a tensor are one assertion that nothing meets.
#[test]
fn scatters_that_meet_are_found() {
    let subject = Subject::of_kernel(&meeting_scatters::Kernel::def()).unwrap();
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed: 1 };
    let report = check(&[subject], &options, &()).remove(0);
    assert!(report.failures[0].message.contains("of y is scattered to twice"), "{:#?}", report.failures);
}

/// First choices that no GPU has a schedule of are told where the kernel is taken up and where it is launched.
#[test]
fn first_choices_that_do_not_fit_each_other_are_told() {
    let Err(told) = Subject::of_kernel(&first_choice_is_illegal::Kernel::def()) else { panic!("it is a subject") };
    let launched = {
        let stream = girih::Stream::on(&girih::Device::sim(Target::h200()));
        let (x, mut y) = (stream.zeros::<f32, 1>([40]).unwrap(), stream.zeros::<f32, 1>([40]).unwrap());
        first_choice_is_illegal(&stream, &x, &mut y).unwrap_err().to_string()
    };
    for text in [told, launched] {
        assert!(
            text.contains("the first choices of the knobs of first_choice_is_illegal, B=32 N=128, are no schedule on any GPU: "),
            "{text}"
        );
        assert!(text.contains("wrong.rs:") && text.contains("help: put `N=32` first: "), "{text}");
        assert!(text.contains("B=32 N=32 is legal"), "{text}");
    }
}

/// The gallery's first choices are schedules, those for matrix units on the GPUs that have them.
#[test]
fn first_choices_of_the_gallery_are_schedules() {
    let gallery = girih_core::registry::kernels().into_iter().filter(|def| in_gallery(def.module));
    let wrong: Vec<String> = gallery.filter_map(|def| illegal_first_choices(&(def.build)().ok()?).map(|d| d.to_string())).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Stores what each tile adds up to.
#[kernel(tile(T = [32, 64, 128], C = [8, 16]))]
pub fn sums_of_tiles(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (t, c) in y.tiles([T, C]) {
        y.store((t, c), x.load((t, c)).sum_axis(0).expand(0, T));
    }
}

/// A result that the author's tiles decide is no fault of the compiler; the message names the tile, once.
#[test]
fn results_that_depend_on_a_tile_are_told_as_such() {
    let subject = Subject::of_kernel(&sums_of_tiles::Kernel::def()).unwrap();
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 6, seed: 1 };
    let report = check(&[subject], &options, &()).remove(0);
    assert_eq!(report.failures.len(), 1, "{:#?}", report.failures);
    let failure = &report.failures[0].message;
    assert!(failure.starts_with("the result depends on the tile `T` of sums_of_tiles"), "{failure}");
    assert!(failure.contains("eval itself leaves other elements than with T=32: `y[") && failure.contains("`tile(T = "), "{failure}");
    assert!(!failure.contains("differs from eval"), "{failure}");
}

/// Views that are bounded by scalars and lengths, and one that needs an aligned address.
#[kernel(tile(T = [32, 64]), vector(V = [1, 2]))]
pub fn inner_part(x: &Tensor<f32, 1>, bytes: &Tensor<u8, 1>, y: &mut Tensor<f32, 1>, from: Scalar<i64>, step: Scalar<i32>) {
    let (front, mut inside) = (x.slice(0, from, x.len(0) - from - 1), y.slice(0, 1, y.len(0) - 1));
    let words = bytes.reinterpret::<u32>();
    let some = front.strided(0, step.cast::<i64>());
    for t in inside.tiles([T]) {
        inside.store(t, some.gather(t.coords()) + words.load(t).cast::<f32>());
    }
}

/// Lengths and places that a kernel refuses are not drawn for its check; what it can never be launched with is said.
#[test]
fn checks_launch_what_kernels_accept() {
    let subject = Subject::of_kernel(&inner_part::Kernel::def()).unwrap();
    for seed in 0..5 {
        let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed };
        let report = check(std::slice::from_ref(&subject), &options, &()).remove(0);
        assert_eq!(report.failures, []);
        assert!(report.runs >= 20 && report.left_out > 0, "{} runs, {} left out", report.runs, report.left_out);
    }
    let refused = subject.perf_sizes(&girih::challenge::Sizes::parse("N=1001").unwrap()).unwrap_err();
    assert!(refused.contains("bytes.len(0) = 1001 must be a multiple of 4"), "{refused}");
    assert!(refused.contains("help: give lengths that meet this requirement, as in --size bytes.0="), "{refused}");
}

/// What panics while it is checked is one failure; the others are checked all the same.
#[test]
fn a_panic_is_a_failure_of_its_own() {
    let relu = girih::challenge::challenges().into_iter().find(|c| c.slug == "relu").expect("relu is in the gallery");
    let mut panicking = relu.clone();
    panicking.outputs = vec![(relu.outputs[0].0, girih::challenge::Reference::Each(|_, _| panic!("no reference")))];
    let subjects = [Subject::of_challenge(&panicking).unwrap(), Subject::of_challenge(&relu).unwrap()];
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 1, seed: 1 };
    let reports = check(&subjects, &options, &());
    assert!(reports[0].failures.iter().any(|f| f.message.ends_with("panicked: no reference")), "{:#?}", reports[0].failures);
    assert!(reports[1].failures.is_empty() && reports[1].runs > 0);
}

/// At the perf size, the default and the winner are compared with samples of the references; the naive schedule is not run there.
#[test]
fn perf_sizes_are_checked_beside_the_references() {
    let mut relu = girih::challenge::challenges().into_iter().find(|c| c.slug == "relu").expect("relu is in the gallery");
    relu.perf = girih::challenge::Sizes::parse("N=100003").unwrap();
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 3, seed: 1 };
    let report = |challenge: &Challenge, at_perf_size| {
        let subject = Subject::of_challenge(challenge).unwrap();
        check_parts(&[Part { subject, sizes: None, misaligned: false, at_perf_size, way: None }], &options, &()).remove(0)
    };
    let (without, with) = (report(&relu, false), report(&relu, true));
    assert_eq!((with.sizes, with.runs, with.failures.len()), (without.sizes + 1, without.runs + 2, 0));
    relu.outputs = vec![(relu.outputs[0].0, Reference::Each(|x, i| if x.len("N") == 100_003 { 0.0 } else { x.at("input", i).max(0.0) }))];
    assert_eq!(report(&relu, false).failures, []);
    let wrong = report(&relu, true).failures;
    assert!(wrong[0].message.starts_with("at N=100003: differs from the reference"), "{}", wrong[0].message);
}

/// Shapes that only a solver's program guarantees are requirements of its kernels, too.
#[test]
fn solvers_refuse_shapes_that_do_not_fit() {
    use girih_examples::ordinary_least_squares::normal_equations;
    use girih_examples::positive_definite::solution_column;
    let stream = Stream::on(&Device::sim(Target::h200()));
    let two = |a, b| stream.zeros::<f32, 2>([a, b]).expect("the simulator has memory");
    let one = |n| stream.zeros::<f32, 1>([n]).expect("the simulator has memory");
    let refused = |outcome: Result<(), Error>| {
        let error = outcome.expect_err("the shapes do not fit");
        assert!(matches!(error, Error::Launch { .. }), "{error}");
    };
    let equations = |x, z, rows| normal_equations(&stream, &x, &z, &one(rows), &mut two(rows, rows + 1), 0.0);
    refused(equations(two(7, 5), two(6, 6), 5));
    refused(equations(two(7, 4), two(7, 6), 5));
    refused(equations(two(7, 5), two(7, 5), 5));
    equations(two(7, 5), two(7, 6), 5).expect("the shapes fit");
    refused(solution_column(&stream, &two(5, 5), &mut one(5)));
    solution_column(&stream, &two(5, 6), &mut one(5)).expect("the shapes fit");
}

#[program]
pub fn doubled(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    affine(x, y, scalar(2.0), scalar(0.0));
}

/// A challenge of `doubled`; the reference names a tensor that is not there.
fn of_doubled(signature: &'static str) -> Challenge {
    let challenge = Challenge::new("doubled", doubled::Program::def, signature);
    challenge.input("A", girih::inputs::uniform(-1.0, 1.0)).output("B", |x, i| 2.0 * x.at("Q", i))
}

const TO_B: &str = "void solve(const float* A[N], float* B[N], int N)";

/// What an export would refuse, a check refuses, too; and so are sizes of other names.
#[test]
fn challenges_that_cannot_be_called_are_no_subjects() {
    let refused = |challenge: Challenge| Subject::of_challenge(&challenge).err().expect("it is refused");
    let constant = refused(of_doubled("void solve(float* A[N], const float* B[N], int N)"));
    assert_eq!(constant, "program doubled stores to y, but `const float* B` is const");
    let unknown = refused(of_doubled(TO_B).check_at(["M=5"]));
    let signature = "void solve(const float* A, float* B, int N)";
    assert_eq!(unknown, format!("challenge doubled: `.check_at` gives `M`, which is no scalar of `{signature}`; it has N"));
    let lacking = Subject::of_challenge(&of_doubled(TO_B).check_at(["N=5"])).unwrap_or_else(|e| panic!("{e}"));
    let error = lacking.perf_sizes(&Default::default()).unwrap_err();
    assert!(error.starts_with("doubled has no perf size that says `N`: ") && error.contains("`.perf_at(\"N=1000000\")`"), "{error}");
    assert!(lacking.perf_sizes(&girih::challenge::Sizes::parse("N=7").unwrap()).is_ok());
}

/// A reference that asks for another tensor is a failure that names those there are, and no panic.
#[test]
fn references_that_name_what_is_not_there_are_told() {
    let subject = Subject::of_challenge(&of_doubled(TO_B).check_at(["N=5", "N=70000"])).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 1, seed: 1 };
    let report = check(&[subject], &options, &()).remove(0);
    let what = "challenge doubled: a reference names the tensor `Q`, which the signature does not have; there is `A`, `B`";
    assert!(report.failures.iter().all(|f| f.message.contains(what)) && report.failures.len() == 2, "{:#?}", report.failures);
    assert!(!report.failures[0].message.contains("panicked"), "{:#?}", report.failures);
}

/// A reference that is right below the fifth element.
fn half_wrong() -> Challenge {
    let signature = "void solve(const float* A[N], float* B[N], int N)";
    Challenge::new("half_wrong", doubled::Program::def, signature)
        .input("A", girih::inputs::uniform(1.0, 2.0))
        .output("B", |x, i| 2.0 * x.at("A", i) + if i < 5 { 0.0 } else { 1.0 })
        .tolerance(0.25, 0.0)
        .check_at(["N=3", "N=70"])
        .perf_at("N=100")
}

/// A failure has the first elements that differ, each beside its tolerance, and what makes its run again.
#[test]
fn failures_name_elements_and_their_run() {
    let subject = Subject::of_challenge(&half_wrong()).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 3, seed: 1 };
    let report = check(std::slice::from_ref(&subject), &options, &()).remove(0);
    let [failure] = &report.failures[..] else { panic!("{:#?}", report.failures) };
    assert_eq!(failure.message, "at N=70: eval differs from the reference");
    let places: Vec<(&str, &[i64])> = failure.elements.iter().map(|d| (d.tensor.as_str(), d.index.as_slice())).collect();
    assert_eq!(places, [5, 6, 7, 8].map(|i| ("B", [i])).each_ref().map(|(name, i)| (*name, i.as_slice())));
    let first = &failure.elements[0];
    assert_eq!((first.allowed, first.error()), (0.25, 1.0), "{first}");
    let run = failure.run.as_ref().expect("it was run");
    assert_eq!(run.arguments(), ["check", "half_wrong", "--seed", "1001", "--size", "N=70", "--misaligned"]);
    // The same data at the same places, and nothing else.
    let part = Part { subject, sizes: Some(run.sizes.clone()), misaligned: run.misaligned, at_perf_size: false, way: None };
    let again = check_parts(&[part], &Options { seed: run.seed, ..options }, &()).remove(0);
    assert_eq!((&again.failures, again.sizes), (&report.failures, 1));
}

/// A run of one size and one schedule is one run, and a schedule that is asked for has to be legal.
#[test]
fn one_run_can_be_checked() {
    let subject = girih::subject::names::subject("relu").expect("a challenge of the gallery");
    let kernel = (subject.program.sites()[0].build)().expect("it builds");
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 20, seed: 1 };
    let run = |misaligned: bool, schedule: &str| {
        let sizes = girih::challenge::Sizes::parse("N=100").ok();
        let way = Some(vec![parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"))]);
        check_parts(&[Part { subject: subject.clone(), sizes, misaligned, at_perf_size: false, way }], &options, &()).remove(0)
    };
    for misaligned in [false, true] {
        let report = run(misaligned, "");
        assert_eq!((report.runs, report.sizes, report.schedules), (1, 1, 1), "{report:?}");
        assert_eq!(report.failures, []);
    }
    let illegal = run(false, "C=7");
    let [failure] = &illegal.failures[..] else { panic!("{illegal:#?}") };
    assert!(failure.message.starts_with("at N=100: ") && failure.message.contains('7'), "{failure}");
}
