//! Programs with loops, temporaries, views and arithmetic of the host: the evaluator, the simulator and a plain reference agree at every
//! size and schedule, and the same programs are exported whole.

use girih::challenge::{Case, Challenge};
use girih::check::{On, Options, check};
use girih::launch::Argument;
use girih::launch::program::{Runner, Way};
use girih::prelude::*;
use girih::subject::Subject;
use girih::{Buffer, Device};
use girih_core::facts::Facts;
use girih_core::program::export::export_program;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::types::{DType, Literal};

#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector = [1, 4], types(F = [f32, f16]))]
pub fn affine<F: Float>(x: &Tensor<F, 1>, y: &mut Tensor<F, 1>, a: Scalar<F>, b: Scalar<F>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t) * a + b);
    }
}

#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector = [1, 4])]
pub fn halve(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t) * 0.5);
    }
}

#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector = [1, 2], types(A = [f32, f16], B = [f32, f16]))]
pub fn convert<A: Float, B: Float>(x: &Tensor<A, 1>, y: &mut Tensor<B, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t).cast());
    }
}

/// `y = (x + each element's right neighbour) / 2`, the last column kept.
#[kernel(tile(R = [1, 8], C = [32, 64]), coarsen(CC of C = [1, 4]), vector = [1, 2])]
pub fn blend(x: &Tensor<f32, 2>, right: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        y.store((r, c), (x.load((r, c)) + right.load((r, c))) * 0.5);
    }
}

/// Rounds of blending, through two temporaries that exchange their parts by copies.
#[program]
pub fn diffuse(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, rounds: Scalar<i32>) {
    let mut now = temp([x.len(0), x.len(1)]);
    let mut next = temp_filled([x.len(0), x.len(1)], -1.0f32);
    now.copy_from(x);
    next.copy_from(x);
    let inner = x.len(1) - 1;
    for _ in 0..rounds {
        blend(&now.slice(1, 0, inner), &now.slice(1, 1, inner), &mut next.slice(1, 0, inner));
        now.copy_from(&next);
    }
    y.copy_from(&now);
}

/// Halves until the first element is small, then adds the number of rounds: a value read back decides, a counter goes to a kernel.
#[program]
pub fn settle(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, limit: Scalar<f32>) {
    let mut work = temp([x.len(0)]);
    work.copy_from(x);
    let mut rounds = scalar::<i32>(0);
    if x.len(0) > 0 {
        while work.at(0).abs() > limit {
            halve(&mut work);
            rounds += 1;
        }
    }
    affine(&work, y, scalar(1.0), rounds.cast());
}

/// Functions of the host on numbers and lengths.
#[program]
pub fn weigh(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, steps: Scalar<i32>, rate: Scalar<f32>) {
    let decay = (rate * steps.cast::<f32>()).exp().max(0.125);
    let norm = 1.0 / (x.len(0).cast::<f32>() + 1.0).sqrt();
    let signed = if steps % 2 == 0 { norm } else { -norm };
    affine(x, y, decay, (signed + rate.tanh()).clamp(-0.5, f32::INFINITY));
}

/// Instances of generic kernels, chosen by the types of temporaries; a 16-bit scalar, and one that is read back.
#[program]
pub fn halves(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Scalar<f32>) {
    let mut half = temp::<f16, 1>([x.len(0)]);
    let mut scaled = temp([x.len(0)]);
    convert(x, &mut half);
    affine(&half, &mut scaled, by.cast::<f16>(), scalar::<f32>(0.5).cast());
    convert(&scaled, y);
    if x.len(0) > 0 {
        let first = scaled.at(0);
        affine(&scaled.slice(0, 0, 1), &mut half.slice(0, 0, 1), first, first);
        convert(&half.slice(0, 0, 1), &mut y.slice(0, 0, 1));
    }
}

/// Windows of parameters and of temporaries: rows in a loop, halves, every second element, another order of axes, all as one axis.
#[program]
pub fn windows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, turned: &mut Tensor<f32, 2>) {
    let (rows, cols) = (x.len(0), x.len(1));
    let mut copy = temp([rows, cols]);
    for r in 0..rows {
        affine(&x.slice(0, r, 1).flat(), &mut copy.slice(0, r, 1).flat(), scalar(1.0), r.cast());
    }
    let (upper, lower) = copy.split_at(0, rows / 2);
    y.fill(0.0);
    affine(&upper.flat(), &mut y.slice(0, 0, rows / 2).flat(), scalar(2.0), scalar(0.0));
    affine(&lower.flat(), &mut y.slice(0, rows / 2, rows - rows / 2).flat(), scalar(-1.0), scalar(0.0));
    blend(&copy.permuted([1, 0]), &x.permuted([1, 0]), turned);
    affine(&copy.flat().strided(0, 2), &mut y.flat().strided(0, 2), scalar(1.0), scalar(100.0));
}

fn blended(x: &Case, i: usize) -> f64 {
    let (n, rounds) = (x.len("N"), x.scalar("rounds") as usize);
    let mut row: Vec<f64> = (0..n).map(|c| x.at("X", i / n * n + c)).collect();
    for _ in 0..rounds {
        for c in 0..n - 1 {
            row[c] = (row[c] + row[c + 1]) * 0.5;
        }
    }
    row[i % n]
}

fn settled(x: &Case, i: usize) -> f64 {
    let (mut first, mut scale, mut rounds) = (x.at("X", 0).abs(), 1.0, 0.0);
    while first > x.scalar("limit") {
        first *= 0.5;
        scale *= 0.5;
        rounds += 1.0;
    }
    x.at("X", i) * scale + rounds
}

fn weighed(x: &Case, i: usize) -> f64 {
    let (steps, rate) = (x.scalar("steps"), x.scalar("rate"));
    let norm = 1.0 / (x.scalar("N") + 1.0).sqrt();
    let signed = if steps as i64 % 2 == 0 { norm } else { -norm };
    x.at("X", i) * (rate * steps).exp().max(0.125) + (signed + rate.tanh()).max(-0.5)
}

fn halved(x: &Case, i: usize) -> f64 {
    let once = |v: f64| v * x.scalar("by") + 0.5;
    let first = once(x.at("X", 0));
    if i == 0 { first * first + first } else { once(x.at("X", i)) }
}

fn row_shifted(x: &Case, r: usize, c: usize) -> f64 {
    x.at("X", r * x.len("N") + c) + r as f64
}

fn windowed(x: &Case, i: usize) -> f64 {
    let (r, c) = (i / x.len("N"), i % x.len("N"));
    let copy = row_shifted(x, r, c);
    match i % 2 {
        0 => copy + 100.0,
        _ if r < x.len("M") / 2 => copy * 2.0,
        _ => -copy,
    }
}

fn turned(x: &Case, i: usize) -> f64 {
    let (c, r) = (i / x.len("M"), i % x.len("M"));
    (row_shifted(x, r, c) + x.at("X", r * x.len("N") + c)) * 0.5
}

/// The programs with their references. They are in no registry: the gallery's commands don't know them.
fn subjects() -> Vec<Subject> {
    let data = girih::inputs::uniform(-4.0, 4.0);
    let challenges = [
        Challenge::new("diffuse", diffuse::Program::def, "void solve(const float* X[M, N], float* Y[M, N], int M, int N, int rounds)")
            .input("X", data.clone())
            .output("Y", blended)
            .check_at(["M=0 N=9 rounds=1", "M=1 N=1 rounds=3", "M=3 N=64 rounds=0", "M=5 N=67 rounds=4", "M=2 N=128 rounds=1"]),
        Challenge::new("settle", settle::Program::def, "void solve(const float* X[N], float* Y[N], int N, float limit)")
            .input("X", data.clone())
            .output("Y", settled)
            .check_at(["N=0 limit=1", "N=1 limit=0.01", "N=300 limit=100", "N=257 limit=0.3"]),
        Challenge::new("weigh", weigh::Program::def, "void solve(const float* X[N], float* Y[N], int N, int steps, float rate)")
            .input("X", data.clone())
            .output("Y", weighed)
            .check_at(["N=0 steps=1 rate=1", "N=8 steps=3 rate=-0.5", "N=300 steps=20 rate=-2", "N=256 steps=2 rate=0.25"]),
        Challenge::new("halves", halves::Program::def, "void solve(const float* X[N], float* Y[N], int N, float by)")
            .input("X", data.clone())
            .output("Y", halved)
            .tolerance(0.02, 0.01)
            .check_at(["N=0 by=1", "N=1 by=0.5", "N=300 by=-2", "N=256 by=0.25"]),
        Challenge::new("windows", windows::Program::def, "void solve(const float* X[M, N], float* Y[M, N], float* T[N, M], int M, int N)")
            .input("X", data)
            .output("Y", windowed)
            .output("T", turned)
            .check_at(["M=1 N=1", "M=2 N=64", "M=5 N=33", "M=8 N=40"]),
    ];
    let exact = |c: Challenge| if c.rtol > 0.0 { c } else { c.tolerance(1e-5, 1e-5) };
    challenges.into_iter().map(|c| Subject::of_challenge(&exact(c)).unwrap_or_else(|e| panic!("{e}"))).collect()
}

#[test]
fn programs_compute_what_their_references_say() {
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 6, seed: 1 };
    for report in check(&subjects(), &options, &()) {
        assert!(report.failures.is_empty(), "{}: {:#?}", report.name, report.failures);
        assert!(report.runs >= 4 * report.schedules.min(2), "{}: {} runs", report.name, report.runs);
    }
}

/// Words that a program or its kernel sees in bytes begin at whole words, however far off alignment a check puts the bytes.
#[test]
fn words_in_bytes_are_never_torn_apart() {
    use super::typed_launches::{flip_in_kernel, flip_in_program};
    let flipped = |x: &Case, i: usize| 255.0 - x.at("bytes", i);
    for program in [flip_in_kernel::Program::def as fn() -> _, flip_in_program::Program::def] {
        let challenge = Challenge::new("flip", program, "void solve(unsigned char* bytes[N], int N)")
            .input("bytes", girih::inputs::integers(0, 255))
            .output("bytes", flipped)
            .check_at(["N=0", "N=4", "N=400", "N=4004"]);
        let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"));
        let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 3, seed: 1 };
        let report = check(&[subject], &options, &()).remove(0);
        assert_eq!((report.failures, report.runs >= 8), (vec![], true));
    }
}

/// A kernel's first schedule.
pub fn naive(kernel: &girih_core::tile::Kernel) -> girih_core::schedule::Schedule {
    Space::new(kernel, &Facts::best(kernel), Target::h200()).naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

#[test]
fn programs_are_exported_whole() {
    for subject in subjects() {
        let signature = subject.signature().expect("a challenge has a signature");
        let target = Target::h200();
        let mut naive = |_: usize, kernel: &girih_core::tile::Kernel| naive(kernel);
        let text = export_program(&subject.program, signature, target, &mut naive).unwrap_or_else(|e| panic!("{}: {e}", subject.name));
        let (_, solve) = text.split_once("extern \"C\" void solve").expect("solve is exported");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("exported_{}", subject.name), format!("void solve{solve}"));
        });
        if let Ok(folder) = std::env::var("GIRIH_TEST_EXPORTS") {
            std::fs::write(format!("{folder}/{}.cu", subject.name), &text).expect("the folder can be written");
        }
    }
}

/// A runner's calls on one device, beside each other: the same steps again, other scalars, other memory, temporaries that grow.
fn call_again_and_again(device: &Device, graphs: bool) -> Vec<Way> {
    let program = std::sync::Arc::new((diffuse::Program::def().build)().expect("it builds"));
    let mut runner = Runner::new(device, program);
    runner.graphs = graphs;
    let mut ways = Vec::new();
    let data: Vec<f32> = (0..4 * 96).map(|i| (i * 7 % 23) as f32).collect();
    let memory: Vec<(Buffer, Buffer)> = (0..2).map(|_| (device.alloc(1536).unwrap(), device.alloc(1536).unwrap())).collect();
    for (rows, cols, rounds, at) in
        [(2, 64, 3, 0), (2, 64, 3, 0), (2, 64, 1, 0), (2, 64, 3, 1), (2, 64, 3, 0), (4, 96, 2, 1), (2, 64, 3, 0)]
    {
        let (x, y) = &memory[at];
        let count = rows * cols;
        device.upload(x, 0, &girih::launch::tensor::to_bytes(&data[..count])).unwrap();
        device.fill(y, 0, 1536, &[0xff]).unwrap();
        let lens = [rows as i64, cols as i64];
        let args = [
            Argument::packed(x, 0, DType::F32, &lens, false),
            Argument::packed(y, 0, DType::F32, &lens, true),
            Argument::Scalar(Literal::i32(rounds)),
        ];
        runner.run(&args).unwrap_or_else(|e| panic!("{e}"));
        let mut bytes = vec![0; count * 4];
        device.download(y, 0, &mut bytes).unwrap();
        let mut wanted = data[..count].to_vec();
        for _ in 0..rounds {
            for row in wanted.chunks_mut(cols) {
                (0..cols - 1).for_each(|c| row[c] = (row[c] + row[c + 1]) * 0.5);
            }
        }
        assert_eq!(girih::launch::tensor::from_bytes::<f32>(&bytes), wanted, "{rows} x {cols}, {rounds} rounds on {}", device.name());
        ways.push(runner.way().clone());
    }
    ways
}

/// Filling, two copies, rounds of a launch and a copy, a copy.
const STEPS: [usize; 7] = [10, 10, 6, 10, 10, 8, 10];

#[test]
fn calls_are_repeated_step_by_step() {
    let one_by_one = |ways: Vec<Way>, reason: &str| {
        for (way, wanted) in ways.iter().zip(STEPS) {
            let Way::OneByOne { steps, why } = way else { panic!("{way}") };
            assert_eq!((*steps, why.as_str()), (wanted, reason));
        }
    };
    let simulator = Device::sim(Target::h200());
    one_by_one(call_again_and_again(&simulator, true), "the simulator has no graphs");
    one_by_one(call_again_and_again(&simulator, false), "graphs are switched off");
}

/// On a GPU the same calls are graphs, recorded at the first call and launched again at the next.
#[test]
fn calls_are_graphs_on_a_gpu() {
    let Ok(gpu) = Device::cuda(0) else { return println!("skipped: no GPU") };
    super::nvrtc::provide();
    assert_eq!(call_again_and_again(&gpu, true), STEPS.map(Way::Graph));
    assert!(call_again_and_again(&gpu, false).iter().all(|w| matches!(w, Way::OneByOne { .. })));
    // Work that others queue on the stream in the meantime is no part of a graph, and waits for its turn.
    let program = std::sync::Arc::new((diffuse::Program::def().build)().expect("it builds"));
    let mut runner = Runner::new(&gpu, program);
    let (x, y) = (gpu.alloc(512).unwrap(), gpu.alloc(512).unwrap());
    gpu.fill(&x, 0, 512, &1.0f32.to_le_bytes()).unwrap();
    let args = |rounds| {
        let tensor = |b: &Buffer, mutable| Argument::packed(b, 0, DType::F32, &[2, 64], mutable);
        [tensor(&x, false), tensor(&y, true), Argument::Scalar(Literal::i32(rounds))]
    };
    for rounds in [0, 5, 0, 5] {
        runner.run(&args(rounds)).unwrap();
        gpu.copy(&x, 0, &y, 0, 512).unwrap();
    }
    let mut bytes = vec![0; 512];
    gpu.download(&x, 0, &mut bytes).unwrap();
    assert_eq!(girih::launch::tensor::from_bytes::<f32>(&bytes), [1.0; 128]);
}

#[test]
fn calls_that_never_come_again_are_not_kept() {
    let simulator = Device::sim(Target::h200());
    let mut runner = Runner::new(&simulator, std::sync::Arc::new((weigh::Program::def().build)().expect("it builds")));
    let (x, y) = (simulator.alloc(400).unwrap(), simulator.alloc(400).unwrap());
    simulator.fill(&x, 0, 400, &[0]).unwrap();
    let mut way = |steps: i32| {
        let tensor = |b: &Buffer, mutable| Argument::packed(b, 0, DType::F32, &[100], mutable);
        runner
            .run(&[tensor(&x, false), tensor(&y, true), Argument::Scalar(Literal::i32(steps)), Argument::Scalar(Literal::f32(0.5))])
            .unwrap();
        runner.way().clone()
    };
    let ways: Vec<Way> = (0..12).map(&mut way).collect();
    assert!(ways[..8].iter().all(|w| *w == Way::OneStep), "{ways:?}");
    assert!(ways[8..].iter().all(|w| matches!(w, Way::OneByOne { why, .. } if why == "every call has other arguments")), "{ways:?}");
    // One that comes twice in a row is kept again.
    assert_eq!((way(11), way(11)), (Way::OneStep, Way::OneStep));
}
