//! Tensors in constant memory (`constant = On`): what is read there, when there is no room, and what host and simulator make of it.

use super::host_code::HostProgram;
use super::launches::{Launch, Placement, Shape};
use super::nvrtc::{ARCHS, provide};
use girih::__private::ConstantPath;
use girih::challenge::Sizes;
use girih::compile::nvrtc;
use girih::ladder::ladder;
use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::{lower, page};
use girih_core::program::export::{Chosen, export_program};
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt::{self, ParamKind};
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// Warp instructions of a launch at most.
const FUEL: u64 = 1 << 24;

/// Two tables of different types, one of two axes.
#[kernel(tile(T = [64, 96]), constant(M of w = [Off, On], N of shift = [Off, On]))]
pub fn weighted(x: &Tensor<f32, 1>, w: &Tensor<f32, 2>, shift: &Tensor<f16, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut acc = zeros::<f32>([T]);
        for m in 0..w.len(0) {
            for n in 0..w.len(1) {
                acc += x.gather(t.coords() + m * 2 + n) * w.at((m, n));
            }
            acc += shift.at(m).cast::<f32>();
        }
        y.store(t, acc);
    }
}

/// Taps in tiles, read one by one.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), halo(H = [Shared, Direct]), constant(M of w = [Off, On]))]
pub fn windowed(x: &Tensor<f32, 1>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut acc = zeros([T]);
        for k in w.tiles([16]) {
            let taps = w.window(k, [(0, 0)], Boundary::Zero);
            let near = x.window(t + k.start(), [(0, 15)], Boundary::Zero);
            let groups = ((w.len(0) - k.start() + 3) / 4).min(4).cast::<i32>();
            for g in 0..groups {
                for j in 0..4 {
                    acc += taps.get(g * 4 + j) * near.at(g * 4 + j);
                }
            }
        }
        y.store(t, acc);
    }
}

/// A factor before the combination over the grid, and another one behind it.
#[kernel(tile(T = [64]), grid(G = [0, 1]), finish(F = [LastBlock, SecondLaunch]), constant(M of w = [Off, On]))]
pub fn scaled_total(x: &Tensor<f32, 1>, w: &Tensor<f32, 1>, total: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t) * w.at(0);
    }
    let all = acc.sum().sum_grid();
    total.store_at(0, all * w.at(1));
}

/// A kernel, schedules, and the lengths of all tensors of each launch.
type Cases = (KernelDef, &'static [&'static str], &'static [&'static [&'static [i64]]]);

fn build(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn lowered(kernel: &Kernel, facts: &Facts, schedule: &str) -> simt::Kernel {
    let schedule = parse_schedule(kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    lower(kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
}

/// A packed launch of a kernel of four tensors at most.
fn launch(kernel: &Kernel, lens: &[&[i64]]) -> Launch {
    let shape = Shape { lens: lens.iter().map(|l| l.to_vec()).collect(), scalars: vec![None; lens.len()] };
    Launch::new(kernel, &shape, Placement::Aligned, 11)
}

/// The room of each array in constant memory, of all launches of a kernel.
fn rooms(simt: &simt::Kernel) -> Vec<(String, u32)> {
    let room = |p: &simt::Param| match p.kind {
        ParamKind::Constant { len, .. } => Some((p.name.clone(), len)),
        _ => None,
    };
    simt.launches().flat_map(|l| l.params.iter().filter_map(room)).collect()
}

fn on(simt: &simt::Kernel) -> Vec<String> {
    rooms(simt).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn tables_in_constant_memory_compute_what_eval_computes() {
    let all: [Cases; 3] = [
        (
            weighted::Kernel::def(),
            &["T=64,M=Off,N=Off", "T=96,M=On,N=Off", "T=64,M=Off,N=On", "T=96,M=On,N=On"],
            &[
                &[&[300], &[3, 5], &[3], &[290]],
                &[&[97], &[1, 1], &[1], &[97]],
                &[&[64], &[2, 7], &[4], &[64]],
                &[&[5], &[0, 3], &[0], &[3]],
                &[&[5], &[2, 2], &[2], &[0]],
            ],
        ),
        (
            windowed::Kernel::def(),
            &["T=64,C=1,V=1,H=Shared,M=Off", "T=64,C=1,V=1,H=Shared,M=On", "T=128,C=4,V=4,H=Shared,M=On", "T=128,C=4,V=1,H=Direct,M=On"],
            &[&[&[300], &[17], &[284]], &[&[97], &[1], &[97]], &[&[64], &[33], &[32]], &[&[64], &[16], &[49]]],
        ),
        (
            scaled_total::Kernel::def(),
            &["T=64,G=0,F=LastBlock,M=On", "T=64,G=1,F=SecondLaunch,M=On", "T=64,G=0,F=SecondLaunch,M=Off"],
            &[&[&[300], &[2], &[1]], &[&[1], &[3], &[1]]],
        ),
    ];
    for (def, schedules, shapes) in all {
        let kernel = build(def);
        for (schedule, lens) in schedules.iter().flat_map(|s| shapes.iter().map(move |l| (s, l))) {
            let launch = launch(&kernel, lens);
            let simt = lowered(&kernel, &launch.facts(&kernel), schedule);
            let empty = lens.iter().take(3).any(|l| l.contains(&0)) && kernel.name == "weighted";
            assert_eq!(on(&simt).is_empty(), !schedule.contains("=On") || empty && lens[1].contains(&0), "{schedule} {lens:?}");
            assert_eq!(launch.disagreement(&kernel, &simt, FUEL), None, "{} {schedule} {lens:?}\n{}", kernel.name, emit(&simt));
        }
    }
}

#[test]
fn each_warp_reads_a_constant_once_and_no_sector_of_it() {
    let kernel = build(weighted::Kernel::def());
    let launch = launch(&kernel, &[&[300], &[3, 5], &[3], &[256]]);
    let counted = |schedule| launch.counters(&lowered(&kernel, &launch.facts(&kernel), schedule)).unwrap_or_else(|t| panic!("{t}"));
    let (off, on) = (counted("T=64,M=Off,N=Off"), counted("T=64,M=On,N=On"));
    // Eight warps, 15 weights and 3 shifts, all lanes at one address.
    assert_eq!((on.constant_load.requests, on.constant_load.addresses), (8 * 18, 8 * 18));
    assert_eq!(off.constant_load.requests, 0);
    assert_eq!(off.global_load.requests - on.global_load.requests, 8 * 18);
}

#[test]
fn what_has_no_room_is_read_where_it_is() {
    let kernel = build(weighted::Kernel::def());
    let with = |lens: &[&[i64]], change: &dyn Fn(&mut Facts)| {
        let mut facts = launch(&kernel, lens).facts(&kernel);
        change(&mut facts);
        rooms(&lowered(&kernel, &facts, "T=64,M=On,N=On"))
    };
    let room = |name: &str, len| (name.to_string(), len);
    let keep: &dyn Fn(&mut Facts) = &|_| ();
    // Lengths are rounded up, so that one kernel serves several of them.
    assert_eq!(with(&[&[300], &[3, 5], &[3], &[256]], keep), [room("w", 32), room("shift", 4)]);
    assert_eq!(with(&[&[300], &[100, 100], &[100], &[256]], keep), [room("w", 112 * 112), room("shift", 112)]);
    assert_eq!(with(&[&[300], &[128, 128], &[128], &[256]], keep), [room("w", 128 * 128)]);
    assert_eq!(with(&[&[300], &[129, 128], &[129], &[256]], keep), [room("shift", 160)]);
    assert_eq!(with(&[&[300], &[3, 5], &[3], &[256]], &|f| f.noalias = false), []);
    assert_eq!(with(&[&[300], &[3, 5], &[3], &[256]], &|f| f.tensors[1].as_mut().expect("a tensor").packed = false), [room("shift", 4)]);
    assert_eq!(with(&[&[300], &[3, 5], &[3], &[256]], &|f| f.tensors[2].as_mut().expect("a tensor").most.clear()), [room("w", 32)]);
    // What exports count on where they know no lengths.
    let schedule = parse_schedule(&kernel, "T=64,M=On,N=On").unwrap_or_else(|e| panic!("{e}"));
    let fitting = Facts::best(&kernel).fitting(&kernel, &schedule);
    assert_eq!(rooms(&lowered(&kernel, &fitting, "T=64,M=On,N=On")), [room("w", 64 * 64), room("shift", 16384)]);
}

/// A copy that is left out, or that brings more than there is room for.
#[test]
fn wrong_copies_are_trapped() {
    let kernel = build(weighted::Kernel::def());
    let launch = launch(&kernel, &[&[300], &[3, 5], &[3], &[256]]);
    let simt = lowered(&kernel, &launch.facts(&kernel), "T=64,M=On,N=On");
    let changed = |change: &dyn Fn(&mut u32, &mut usize)| {
        let mut wrong = simt.clone();
        for param in &mut wrong.params {
            if let ParamKind::Constant { len, tensor, .. } = &mut param.kind {
                change(len, tensor);
            }
        }
        launch.disagreement(&kernel, &wrong, FUEL).unwrap_or_default()
    };
    assert_eq!(changed(&|_, _| ()), "");
    let small = changed(&|len, _| *len = 2);
    assert!(small.contains("out of bounds") || small.contains("lies outside"), "{small}");
    // Another tensor is copied in the place of the table: the shorter one leaves elements that nobody wrote.
    let other = changed(&|len, tensor| (*len, *tensor) = (32, 2));
    assert!(other.contains("w["), "{other}");
}

#[test]
fn pages_say_what_lies_in_constant_memory() {
    let kernel = build(weighted::Kernel::def());
    let facts = launch(&kernel, &[&[300], &[3, 5], &[3], &[256]]).facts(&kernel);
    let schedule = parse_schedule(&kernel, "T=64,M=On,N=Off").unwrap_or_else(|e| panic!("{e}"));
    let text = page(&kernel, &facts, &schedule, Target::h200(), None).expect("legal").expect("the last pass");
    assert!(text.contains("given   w: f32[2]") && text.contains("in constant memory with room for 32\n"), "{text}");
    assert_eq!(text.matches("constant memory").count(), 1, "{text}");
}

#[test]
fn every_architecture_has_constant_memory() {
    provide();
    let kernel = build(weighted::Kernel::def());
    let facts = launch(&kernel, &[&[300], &[3, 5], &[3], &[256]]).facts(&kernel);
    let text = emit(&lowered(&kernel, &facts, "T=64,M=On,N=On"));
    assert_eq!(text.matches("__constant__ __align__(16) unsigned char constant_memory[136];").count(), 1, "{text}");
    assert!(text.contains("const float* const w = reinterpret_cast<const float*>(constant_memory);    // at most 32 elements"), "{text}");
    assert!(text.contains("reinterpret_cast<const unsigned short*>(constant_memory + 128);    // at most 4 elements"), "{text}");
    assert!(!text.contains("__restrict__ w"), "{text}");
    let total = build(scaled_total::Kernel::def());
    let facts = launch(&total, &[&[300], &[2], &[1]]).facts(&total);
    let two = emit(&lowered(&total, &facts, "T=64,G=0,F=SecondLaunch,M=On"));
    assert_eq!(two.matches("__constant__").count(), 1, "{two}");
    for arch in ARCHS {
        for text in [&text, &two] {
            nvrtc::compile(text, arch, &[], "constants", "tests").unwrap_or_else(|e| panic!("{arch}: {e}\n{text}"));
        }
    }
}

/// What the host code launches: the kernel that has the taps in constant memory has no argument for them.
const STAND_INS: &str = "
static unsigned char constant_memory[65536];
static void cudaMemcpyToSymbolAsync(unsigned char* to, const void* from, size_t bytes, size_t at, cudaMemcpyKind) { memcpy(to + at, from, bytes); }
static void direct(const float* x, const float* w, float* y, long long n, long long taps, long long)
{
    printf(\"%s\\n\", w == (const float*)constant_memory ? \"constant\" : \"global\");
    for (long long i = 0; i < n; ++i) { y[i] = 0; for (long long j = 0; j < taps; ++j) y[i] += x[i + j] * w[j]; }
}
static void direct(const float* x, float* y, long long n, long long taps, long long len)
{
    direct(x, (const float*)constant_memory, y, n, taps, len);
}
";

const CONVOLVED: &str = "
int main(int, char** v)
{
    const int taps = atoi(v[1]), outputs = 5, n = outputs + taps - 1;
    float *x = (float*)malloc(4 * n), *w = (float*)malloc(4 * taps), y[outputs];
    for (int i = 0; i < n; ++i) x[i] = (float)(i % 7);
    for (int round = 1; round <= 2; ++round) {
        for (int j = 0; j < taps; ++j) w[j] = (float)(round * (j % 3));
        solve(x, w, y, n, taps);
        for (int i = 0; i < outputs; ++i) printf(\"%d\\n\", (int)y[i]);
    }
}
";

#[test]
fn exports_fill_constant_memory_where_there_is_room() {
    let ladder = ladder("convolution_1d").unwrap_or_else(|e| panic!("{e}"));
    let at = ladder.rung_at(&ladder.rungs[1], &Sizes::default(), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let mut choose = |site: usize, _: &Kernel| Chosen::from(at.way[site].0.clone());
    let signature = at.subject.signature().expect("a challenge has a signature");
    let text = export_program(&at.subject.program, signature, Target::h200(), &mut choose).unwrap_or_else(|e| panic!("{e}"));
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("exported_taps_in_constant_memory", text);
    });
    let Some(host) = HostProgram::build(&text, "direct", STAND_INS, CONVOLVED) else { return };
    for (taps, from) in [(1, "constant"), (2047, "constant"), (16384, "constant"), (16385, "global"), (20000, "global")] {
        let round = |round: usize| {
            let output = |i: usize| (0..taps).map(|j| (i + j) % 7 * (round * (j % 3))).sum::<usize>().to_string();
            std::iter::once(from.to_string()).chain((0..5).map(output)).collect::<Vec<_>>()
        };
        let found: Vec<String> = host.run(&[taps.to_string()]).lines().map(str::to_string).collect();
        assert_eq!(found, [round(1), round(2)].concat(), "{taps} taps\n{text}");
    }
}

/// On every device, and on two streams of it that take turns: each launch reads the table that it was given.
#[test]
fn each_launch_reads_its_own_table() {
    for device in [Some(Device::sim(Target::h200())), Device::cuda(0).ok()].into_iter().flatten() {
        let first = Stream::on(&device);
        let beside = first.beside().unwrap_or_else(|e| panic!("{e}"));
        let streams = [first, beside];
        let x: Vec<f32> = (0..300).map(|i| (i % 11) as f32).collect();
        for round in 0..3 {
            for (s, stream) in streams.iter().enumerate() {
                let w = [(round + s) as f32, 2.0, -1.0];
                let y = run(stream, &x, &w).unwrap_or_else(|e| panic!("{e}"));
                let expected: Vec<f32> = (0..200).map(|i| x[i] * w[0] + x[i + 1] * w[1] + x[i + 2] * w[2]).collect();
                assert_eq!(y, expected, "round {round} on stream {s} of {device:?}");
            }
        }
    }
}

/// One row of three weights without shifts.
fn run(stream: &Stream, x: &[f32], w: &[f32; 3]) -> Result<Vec<f32>, girih::Error> {
    let (x, w) = (stream.tensor(x, [x.len()])?, stream.tensor(w, [1, 3])?);
    let shift = stream.zeros::<f16, 1>([1])?;
    let mut y = stream.zeros([200])?;
    let schedule = weighted::Schedule { m: ConstantPath::On, n: ConstantPath::On, ..Default::default() };
    weighted(&stream.with(schedule), &x, &w, &shift, &mut y)?;
    stream.read(&y)
}
