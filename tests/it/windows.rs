//! Windows: what is refused, what the evaluator says, and what a thread's reads of shared memory cost.

use super::kernels::{differences, smoothed, star};
use super::language::{mistakes_in, says};
use super::launches::{Launch, Placement, Shape, best_facts};
use girih::prelude::*;
use girih_core::error::CompileError;
use girih_core::facts::{Facts, TensorArg};
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::access::classify;
use girih_core::tile::eval::{EvalArg, EvalOptions, eval};

/// An offset that only the launch knows.
#[kernel(tile(T = [64, 128]), halo(H = [Shared, Direct]))]
pub fn computed_offset(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Scalar<i32>) {
    for t in y.tiles([T]) {
        y.store(t, x.window(t, [(3, 3)], Boundary::Zero).at(by));
    }
}

/// A sweep in place: neighbours belong to other blocks.
#[kernel(tile(T = [64, 128]))]
pub fn in_place(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let w = x.window(t, [(1, 1)], Boundary::Zero);
        x.store(t, w.at(-1) + w.at(1));
    }
}

/// A constant offset beyond a constant halo, a valid window that reaches back, a halo of less than nothing.
#[device]
fn wrong_windows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in y.tiles([m, n]) {
        let _ = x.window((i, j), [(1, 1), (0, 0)], Boundary::Zero).at((2, 0));
        let _ = x.window((i, j), [(1, 0), (0, 0)], Boundary::Valid);
        let _ = x.window((i, j), [(0, 0), (-1, 0)], Boundary::Zero);
    }
}

fn build(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn refusal(def: KernelDef) -> String {
    match classify(&build(def)) {
        Ok(_) => panic!("it was accepted"),
        Err(diagnostics) => CompileError::Kernel(diagnostics).to_string(),
    }
}

#[test]
fn mistakes_with_windows_are_rejected() {
    let text = mistakes_in(include_str!("windows.rs"), wrong_windows);
    says(&text, &["1 elements back and 1 on is read at 2", "reaches forward only", "a halo of -1 elements"]);
    assert_eq!(text.matches("error:").count(), 3, "{text}");
    let text = refusal(in_place::Kernel::def());
    assert!(text.contains("another block may already have stored"), "{text}");
}

/// Evaluates a kernel of f32 vectors.
fn run(kernel: &Kernel, x: &[f32], n: usize, scalar: Option<i32>) -> Result<Vec<f32>, String> {
    let mut input: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut output = vec![0u8; 4 * n];
    let shape = |n: usize| TensorArg::packed(0, &[n as i64]);
    let mut args =
        vec![EvalArg::Tensor { bytes: &mut input, shape: shape(x.len()) }, EvalArg::Tensor { bytes: &mut output, shape: shape(n) }];
    args.extend(scalar.map(|s| EvalArg::Scalar(girih_core::types::Literal::i32(s))));
    eval(kernel, &mut args, &EvalOptions::default()).map_err(|e| e.to_string())?;
    Ok(output.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

#[test]
fn clamped_windows_repeat_the_ends() {
    let kernel = build(smoothed::Kernel::def());
    for n in [1usize, 2, 3, 63, 64, 65, 200] {
        let x: Vec<f32> = (0..n).map(|i| (i * i % 17) as f32).collect();
        let at = |i: i64| x[i.clamp(0, n as i64 - 1) as usize];
        let expected: Vec<f32> =
            (0..n as i64).map(|i| at(i - 2) + at(i - 1) * 2.0 + at(i) * 4.0 + at(i + 2) * 8.0 + at(i + 3) * 16.0).collect();
        assert_eq!(run(&kernel, &x, n, None).unwrap(), expected, "{n}");
    }
}

#[test]
fn offsets_beyond_the_halo_are_reported() {
    let kernel = build(computed_offset::Kernel::def());
    let x: Vec<f32> = (0..70).map(|i| i as f32).collect();
    let moved = run(&kernel, &x, 70, Some(-3)).unwrap();
    assert_eq!((moved[0], moved[3], moved[69]), (0.0, 0.0, 66.0));
    let e = run(&kernel, &x, 70, Some(4)).unwrap_err();
    assert!(e.contains("reaches 3 elements before and 3 after") && e.contains("read at 4"), "{e}");
}

#[test]
fn valid_windows_ask_for_longer_tensors() {
    let kernel = build(differences::Kernel::def());
    let text = kernel.to_string();
    assert!(text.contains("require") && text.contains("<="), "{text}");
    let shape = |n: i64| TensorArg::packed(0, &[n]);
    let (mut x, mut y) = (vec![0u8; 2 * 65], vec![0u8; 2 * 64]);
    let mut args = [EvalArg::Tensor { bytes: &mut x, shape: shape(65) }, EvalArg::Tensor { bytes: &mut y, shape: shape(64) }];
    let e = eval(&kernel, &mut args, &EvalOptions::default()).unwrap_err().to_string();
    assert!(e.contains("y.len(0) + 2 = 66 is more than x.len(0) = 65"), "{e}");
}

/// Reads of shared memory in loops that run on the GPU: elements per access, and how often unrolled loops repeat it.
fn shared_reads(block: &[simt::Stmt], times: Option<i64>, found: &mut Vec<(u32, i64)>) {
    let shared = |place: &simt::Place| matches!(place.space, simt::Space::Shared(_));
    for stmt in block {
        match stmt {
            simt::Stmt::LoadVector { place, lanes, .. } if shared(place) => found.extend(times.map(|n| (*lanes, n))),
            simt::Stmt::Assign { value: simt::Expr::Load { place, .. }, .. } if shared(place) => found.extend(times.map(|n| (1, n))),
            simt::Stmt::For { end: simt::Expr::Literal(l), body, unroll: true, .. } => {
                shared_reads(body, times.map(|n| n * l.to_i64()), found);
            }
            simt::Stmt::For { body, .. } => shared_reads(body, Some(times.unwrap_or(1)), found),
            simt::Stmt::If { then, otherwise, .. } => {
                shared_reads(then, times, found);
                shared_reads(otherwise, times, found);
            }
            _ => {}
        }
    }
}

/// A kernel of the gallery under a schedule, for the most that a launch can promise.
fn lowered(name: &str, schedule: &str) -> simt::Kernel {
    let kernel = super::rungs::gallery().into_iter().find(|k| k.name == name).expect("a kernel of the gallery");
    let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    let facts: Facts = best_facts(&kernel);
    lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn convolutions_read_what_they_keep_once() {
    // 16 outputs and 16 taps: 31 neighbours and 16 taps in 8 + 4 wide reads for 256 multiply-adds.
    let mut reads = Vec::new();
    shared_reads(&lowered("convolution_1d", "T=2048,C=16,V=4,P=Registers").body, None, &mut reads);
    reads.sort();
    assert_eq!(reads, [(4, 4), (4, 8)]);
    // Two rows of 16 outputs, 16 taps: 2 * 8 + 4 reads for 512 multiply-adds.
    let mut reads = Vec::new();
    shared_reads(&lowered("convolution_2d", "R=16,C=128,CR=2,CC=16,V=4,P=Registers").body, None, &mut reads);
    reads.sort();
    assert_eq!(reads, [(4, 4), (4, 16)]);
}

#[test]
fn windows_have_no_bank_conflicts() {
    for schedule in ["R=16,C=128,CR=2,CC=16,V=4,P=Registers", "R=8,C=64,CR=1,CC=8,V=4,P=Registers", "R=8,C=128,CR=4,CC=4,V=1,P=Async"] {
        let kernel = build(girih_examples::convolution_2d::convolution_2d::Kernel::def());
        let simt = lowered("convolution_2d", schedule);
        let shape = Shape { lens: vec![vec![64, 272], vec![16, 16], vec![48, 256]], scalars: vec![None; 3] };
        let counters = Launch::new(&kernel, &shape, Placement::Aligned, 1).counters(&simt).unwrap_or_else(|e| panic!("{e}"));
        assert!(counters.shared_load.requests > 1000, "{schedule}: {:?}", counters.shared_load);
        assert_eq!(counters.shared_load.conflicts, 0, "{schedule}: {:?}", counters.shared_load);
    }
}

#[test]
fn the_halo_knob_decides_where_windows_are_read() {
    let kernel = build(star::Kernel::def());
    let facts = best_facts(&kernel);
    let of = |h: &str| {
        let schedule = parse_schedule(&kernel, &format!("R=8,C=32,CR=1,CC=4,V=4,H={h},P=Registers,G=0")).unwrap_or_else(|e| panic!("{e}"));
        lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
    };
    assert!(of("Direct").shared.is_empty());
    assert_eq!(of("Shared").shared.len(), 1);
}

/// Statements of some kind, wherever they stand.
fn count(block: &[simt::Stmt], of: fn(&simt::Stmt) -> bool) -> usize {
    let inside = |s: &simt::Stmt| match s {
        simt::Stmt::For { body, .. } => count(body, of),
        simt::Stmt::If { then, otherwise, .. } => count(then, of) + count(otherwise, of),
        _ => 0,
    };
    block.iter().map(|s| usize::from(of(s)) + inside(s)).sum()
}

#[test]
fn windows_are_copied_ahead_of_their_turn() {
    let of = |stages: u32| lowered("convolution_1d", &format!("T=512,C=4,V=4,P=Async,S={stages}"));
    let (single, ring) = (of(1), of(3));
    // One barrier a turn instead of two, three copies of each window, and a wait that leaves the next turn's copies in flight.
    let barriers = |k: &simt::Kernel| count(&k.body, |s| matches!(s, simt::Stmt::Barrier(_)));
    assert_eq!((barriers(&single), barriers(&ring)), (barriers(&ring) + 1, barriers(&ring)));
    let near = |k: &simt::Kernel| k.shared.iter().find(|s| s.name.contains("near")).map(|s| s.len).expect("the inputs' copy");
    assert!((3 * near(&single)..3 * near(&single) + 16).contains(&near(&ring)), "{} and {}", near(&single), near(&ring));
    assert_eq!(count(&ring.body, |s| matches!(s, simt::Stmt::AsyncWait { pending: 1 })), 1);
    // Those of the first turns are started by one loop.
    assert_eq!(count(&ring.body, |s| matches!(s, simt::Stmt::AsyncCommit)), 2);
    // A filter that fits one chunk has no turns to copy ahead of.
    let kernel = build(girih_examples::convolution_1d::convolution_1d::Kernel::def());
    let schedule = parse_schedule(&kernel, "T=512,C=4,V=4,P=Async,S=3").unwrap_or_else(|e| panic!("{e}"));
    let facts = best_facts(&kernel).fitting(&kernel, &schedule);
    let fits = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(count(&fits.body, |s| matches!(s, simt::Stmt::AsyncWait { pending: 1 })), 0);
}
