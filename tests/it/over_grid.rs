//! Scans on top of all tiles before, and what those before come to: the compiler's own look-back.

use super::language::{mistakes_in, says};
use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Mutant, Removed, mutants};
use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// y = the sums of all elements up to each.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2, 8, 16]), vector(V = [1, 2]))]
pub fn sums_over_grid(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]).in_order() {
        y.store(t, x.load(t).scan_sum(along(0).over_grid()));
    }
}

/// y = the last odd element before each, or 0: an operator whose operands do not change places.
#[kernel(tile(T = [32, 256]), coarsen(C of T = [1, 2, 8]))]
pub fn last_odd_over_grid(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]).in_order() {
        let odd = |a: Scalar<i32>, b: Scalar<i32>| select(b & 1 == 1, b, a);
        let v = x.load(t);
        y.store(t, (v * (v & 1)).scan(along(0).exclusive().over_grid(), 0, odd));
    }
}

/// y[i] = a[i] * y[i - 1] + x[i], of integers: elements of two components. `all` = the composition of all.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn recurrence_over_grid(a: &Tensor<i32, 1>, x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, all: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]).in_order() {
        let then = |f: (Scalar<i32>, Scalar<i32>), g: (Scalar<i32>, Scalar<i32>)| (f.0 * g.0, g.0 * f.1 + g.1);
        let (f, v) = (a.load(t), x.load(t)).scan(along(0).over_grid(), (1, 0), then);
        y.store(t, v);
        if t.end() >= y.len(0) {
            all.scatter(0, f.total());
            all.scatter(1, v.total());
        }
    }
}

/// y = the sums of all elements up to each, in 64 bits.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 4]))]
pub fn wide_sums_over_grid(x: &Tensor<i32, 1>, y: &mut Tensor<i64, 1>) {
    for t in y.tiles([T]).in_order() {
        y.store(t, (x.load(t).cast::<i64>() * 1_000_000_007).scan_sum(along(0).over_grid()));
    }
}

/// Each row of y = the largest elements of x's up to each.
#[kernel(tile(T = [32, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn most_of_rows_over_grid(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, t) in y.tiles([1, T]).in_order() {
        y.store((r, t), x.load((r, t)).scan_max(along(1).over_grid()));
    }
}

/// kept = the elements that are odd, in their order; count = how many there are.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 8]))]
pub fn odd_over_grid(x: &Tensor<i32, 1>, kept: &mut Tensor<i32, 1>, count: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]).in_order() {
        let v = x.load(t);
        let odd = v & 1 == 1;
        let own = odd.cast::<i32>().scan_sum(along(0).exclusive());
        let before = own.total().prefix_sum_grid();
        if odd {
            kept.scatter(own + before, v);
        }
        if t.end() >= x.len(0) {
            count.scatter(0, before + own.total());
        }
    }
}

/// Each tile's element of `least` = the least element of the tiles before it, that of `at` its place: a pair of 32 and of 64 bits.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2, 4]))]
pub fn least_before(x: &Tensor<f32, 1>, least: &mut Tensor<f32, 1>, at: &mut Tensor<i64, 1>) {
    for t in x.tiles([T]).in_order() {
        let less = |a: (Scalar<f32>, Scalar<i64>), b: (Scalar<f32>, Scalar<i64>)| {
            let second = b.0 < a.0;
            (select(second, b.0, a.0), select(second, b.1, a.1))
        };
        let own = (x.load(t), t.coords()).reduce_all((f32::INFINITY, -1), less);
        let before = own.prefix_grid((f32::INFINITY, -1), less);
        least.scatter(t.number(), before.0);
        at.scatter(t.number(), before.1);
    }
}

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn launch(kernel: &Kernel, lens: Vec<Vec<i64>>) -> Launch {
    let mut shape = shapes(kernel, &[64], 1, 0).pop().expect("a shape");
    shape.lens = lens;
    Launch::new(kernel, &shape, Placement::Aligned, 7)
}

/// The lengths of each tensor of a kernel at a length.
fn lens(kernel: &Kernel, n: i64) -> Vec<Vec<i64>> {
    let one = || vec![n];
    match kernel.name.as_str() {
        "sums_over_grid" | "last_odd_over_grid" | "wide_sums_over_grid" => vec![one(), one()],
        "recurrence_over_grid" => vec![one(), one(), one(), vec![2]],
        "most_of_rows_over_grid" => vec![vec![3, n], vec![3, n]],
        "odd_over_grid" => vec![one(), one(), vec![1]],
        "least_before" => vec![one(), vec![(n + 63) / 64], vec![(n + 63) / 64]],
        other => panic!("{other}"),
    }
}

fn all() -> [Kernel; 7] {
    [
        built(sums_over_grid::Kernel::def()),
        built(last_odd_over_grid::Kernel::def()),
        built(recurrence_over_grid::Kernel::def()),
        built(wide_sums_over_grid::Kernel::def()),
        built(most_of_rows_over_grid::Kernel::def()),
        built(odd_over_grid::Kernel::def()),
        built(least_before::Kernel::def()),
    ]
}

#[test]
fn every_schedule_of_a_scan_over_the_grid_computes_what_eval_computes() {
    for kernel in all() {
        let schedules = Space::new(&kernel, &best_facts(&kernel), Target::h200()).sample(6, 3);
        assert!(schedules.len() >= 3, "{} schedules of {}", schedules.len(), kernel.name);
        for (schedule, len) in schedules.iter().flat_map(|s| [1, 63, 64, 65, 257, 777, 5000, 17001].map(|len| (s, len))) {
            let (launch, what) = (launch(&kernel, lens(&kernel, len)), format!("{} {} of {len}", kernel.name, schedule.short(&kernel)));
            let evaluated = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{what}: {e}"));
            for (facts, seed) in [(launch.facts(&kernel), 0), (launch.facts(&kernel), 1), (Facts::none(&kernel), 2)] {
                let simt = lower(&kernel, &facts, schedule, Target::h200()).unwrap_or_else(|e| panic!("{what}: {e}"));
                let after = launch.simulate_in_order(&simt, seed).unwrap_or_else(|t| panic!("{what}: {t}"));
                assert_eq!(launch.difference(&kernel, &after, &evaluated), None, "{what}");
            }
        }
    }
}

fn elements(n: usize) -> Vec<i32> {
    (0..n as i32).map(|i| (i.wrapping_mul(0x9e37_79b1_u32 as i32) >> 9) % 1000).collect()
}

/// The evaluator and the simulator, beside folds. Launches follow each other at changing lengths, each with the words of those before it in its
/// memory.
#[test]
fn scans_over_the_grid_are_folds() {
    let stream = Stream::on(&Device::sim(Target::h200()));
    for n in [1000usize, 256, 1, 3000, 0, 64, 3000, 2999, 65] {
        let values = elements(n);
        let x = stream.tensor(&values, [n]).unwrap();
        let (mut y, mut odd) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap());
        let (mut wide, mut kept, mut count) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap(), stream.tensor(&[0], [1]).unwrap());
        sums_over_grid(&stream, &x, &mut y).unwrap();
        last_odd_over_grid(&stream, &x, &mut odd).unwrap();
        wide_sums_over_grid(&stream, &x, &mut wide).unwrap();
        odd_over_grid(&stream, &x, &mut kept, &mut count).unwrap();
        let (mut sum, mut wide_sum, mut last) = (0i32, 0i64, 0);
        let (mut sums, mut wides, mut lasts) = (vec![], vec![], vec![]);
        for v in &values {
            sum = sum.wrapping_add(*v);
            wide_sum = wide_sum.wrapping_add(i64::from(*v) * 1_000_000_007);
            sums.push(sum);
            wides.push(wide_sum);
            lasts.push(last);
            last = if v & 1 == 1 { *v } else { last };
        }
        assert_eq!(stream.read(&y).unwrap(), sums, "{n}");
        assert_eq!(stream.read(&wide).unwrap(), wides, "{n}");
        assert_eq!(stream.read(&odd).unwrap(), lasts, "{n}");
        let mut expected: Vec<i32> = values.iter().copied().filter(|v| v & 1 == 1).collect();
        assert_eq!(stream.read(&count).unwrap(), [expected.len() as i32], "{n}");
        expected.resize(n, 0);
        assert_eq!(stream.read(&kept).unwrap(), expected, "{n}");
    }
}

fn lowered(kernel: &Kernel, schedule: &str) -> simt::Kernel {
    let schedule = parse_schedule(kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    lower(kernel, &best_facts(kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn one_warp_looks_back_by_relaxed_loads() {
    let text = emit(&lowered(&built(sums_over_grid::Kernel::def()), "T=256,C=2,V=2"));
    assert!(text.contains("if (thread < 32)") && text.contains("ld.relaxed.gpu.global.u64"), "{text}");
    assert!(!text.contains("acquire") && !text.contains("__threadfence"), "{text}");
    // The ticket, the parts of the warps, and what was found.
    assert_eq!(text.matches("__syncthreads();").count(), 3, "{text}");
    // Full tiles and the last one share their words.
    assert_eq!(text.matches("unsigned long long* tile_words").count(), 1, "{text}");
}

/// Guards that spare work alone: all threads of a block may look back, and lanes may say the same together; who finds what a tile alone comes to
/// looks further, so that nobody needs the word of what all up to it come to.
fn spares_work(m: &Mutant) -> bool {
    let has = |texts: &[&str]| texts.iter().any(|text| m.place.contains(text));
    match m.removed {
        Removed::Condition => has(&["if thread%0 < 32", "if (thread%0 == 0) & (tile_taken%"]),
        Removed::AtomicPredicate => has(&["when thread%0 == 0"]),
        Removed::Update => has(&["| 1u32) << 32u64)"]),
        _ => false,
    }
}

#[test]
fn each_step_of_looking_back_is_needed() {
    for (kernel, schedule) in [(built(sums_over_grid::Kernel::def()), "T=64,C=1,V=1"), (built(least_before::Kernel::def()), "T=64,C=1")] {
        let launch = launch(&kernel, lens(&kernel, 3000));
        let simt = lowered(&kernel, schedule);
        let steps = |m: &&Mutant| ["tiles are taken", "look back", "nearest tile"].iter().any(|place| m.place.contains(place));
        let of_use = |m: &&Mutant| steps(m) && !spares_work(m);
        let all = mutants(&simt);
        let missed: Vec<String> = all
            .iter()
            .filter(of_use)
            .filter(|m| launch.disagreement(&kernel, &m.kernel, 5_000_000).is_none())
            .map(|m| format!("{:?} {}", m.removed, m.place))
            .collect();
        assert!(missed.is_empty(), "{} {missed:#?}", kernel.name);
        // What the tile comes to, and the ticket for the next launch.
        let updates = all.iter().filter(of_use).filter(|m| m.removed == Removed::Update).count();
        assert!(updates >= 2, "{updates} of {}", kernel.name);
    }
}

#[device]
fn scans_in_no_order(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, _m: Size, n: Size) {
    for (r, t) in y.tiles([Size::from(1), n]) {
        y.store((r, t), x.load((r, t)).scan_sum(along(1).over_grid()));
    }
}

#[device]
fn scans_from_the_end(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, _m: Size, n: Size) {
    for (r, t) in y.tiles([Size::from(1), n]).in_order() {
        y.store((r, t), x.load((r, t)).scan_sum(along(1).reversed().over_grid()));
    }
}

#[device]
fn scans_several_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (r, t) in y.tiles([m, n]).in_order() {
        y.store((r, t), x.load((r, t)).scan_sum(along(1).over_grid()));
    }
}

#[device]
fn looks_back_for_some(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, _m: Size, n: Size) {
    for (r, t) in y.tiles([Size::from(1), n]).in_order() {
        let v = x.load((r, t));
        let mut before = scalar(0.0f32);
        if v.sum() > 0.0 {
            before = v.sum().prefix_sum_grid();
        }
        y.store((r, t), v + before);
    }
}

#[device]
fn draws_a_tile_of_any_size(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for r in y.axis(0).tiles(m) {
        for t in y.axis(1).tiles(n).only(3) {
            y.store((r, t), x.load((r, t)));
        }
    }
}

#[test]
fn tiles_that_cannot_look_back_are_told_so() {
    let source = include_str!("over_grid.rs");
    for (found, parts) in [
        (mistakes_in(source, scans_in_no_order), ["tiles cannot look back at those before them", "say `.in_order()`"]),
        (mistakes_in(source, scans_from_the_end), ["from the last element on", "scan a reversed view"]),
        (mistakes_in(source, scans_several_rows), ["over the grid along axis 1 of", "one element along each axis but the last one"]),
        (mistakes_in(source, looks_back_for_some), ["tiles cannot look back at those before them", "in no loop or branch inside of it"]),
        (mistakes_in(source, draws_a_tile_of_any_size), ["depends on the schedule", "give the knob one choice"]),
    ] {
        says(&found, &parts);
    }
}
