//! Tiles that are taken in order, and look-back over them.

use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use girih::algorithms::look_back;
use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// Elements of a tile.
const TILE: i64 = 256;

/// y = the sums of all elements up to each.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2, 8, 16]), vector(V = [1, 2]))]
pub fn sums_so_far(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, states: &mut Tensor<u64, 1>) {
    for t in y.tiles([T]).in_order() {
        let sums = x.load(t).scan_sum(0);
        let before = look_back(states, t.number(), sums.total(), 0, |a, b| a + b);
        y.store(t, sums + before);
    }
}

/// y = the last odd element up to each, or 0: an operator whose operands do not change places.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2, 8]))]
pub fn last_odd_so_far(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, states: &mut Tensor<u64, 1>) {
    for t in y.tiles([T]).in_order() {
        let odd = |a: Scalar<i32>, b: Scalar<i32>| select(b & 1 == 1, b, a);
        let v = x.load(t);
        let last = (v * (v & 1)).scan(0, 0, odd);
        let before = look_back(states, t.number(), last.total(), 0, odd);
        y.store(t, select(last & 1 == 1, last, before));
    }
}

/// y = the largest element up to each.
#[kernel(tile(T = 256), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn most_so_far_in_order(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, states: &mut Tensor<u64, 1>) {
    for t in y.tiles([T]).in_order() {
        let most = x.load(t).scan_max(0);
        let before = look_back(states, t.number(), most.total(), f32::NEG_INFINITY, |a, b| a.max(b));
        y.store(t, most.max(before));
    }
}

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn all() -> [Kernel; 3] {
    [built(sums_so_far::Kernel::def()), built(last_odd_so_far::Kernel::def()), built(most_so_far_in_order::Kernel::def())]
}

/// A launch over so many elements, whose words begin at zero.
fn launch(kernel: &Kernel, len: i64) -> Launch {
    let mut shape = shapes(kernel, &[64], 1, 0).pop().expect("a shape");
    shape.lens = vec![vec![len], vec![len], vec![(len + TILE - 1) / TILE]];
    let mut launch = Launch::new(kernel, &shape, Placement::Aligned, 7);
    launch.zero(kernel, "states");
    launch
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// What the elements come to one by one, as bits.
fn folded(kernel: &Kernel, x: &[i32]) -> Vec<i32> {
    let of_bits = |bits: i32| f32::from_bits(bits as u32);
    let mut so_far = if kernel.name == "most_so_far_in_order" { f32::NEG_INFINITY.to_bits() as i32 } else { 0 };
    let next = |a: i32, b: i32| match kernel.name.as_str() {
        "sums_so_far" => a.wrapping_add(b),
        "last_odd_so_far" if b & 1 == 1 => b,
        "last_odd_so_far" => a,
        _ if of_bits(a) > of_bits(b) => a,
        _ => b,
    };
    let step = |b: &i32| {
        so_far = next(so_far, *b);
        so_far
    };
    x.iter().map(step).collect()
}

#[test]
fn every_schedule_of_look_back_computes_what_eval_computes() {
    for kernel in all() {
        let schedules = Space::new(&kernel, &best_facts(&kernel), Target::h200()).sample(6, 3);
        assert!(schedules.len() >= 3, "{} schedules of {}", schedules.len(), kernel.name);
        for (schedule, len) in schedules.iter().flat_map(|s| [1, 255, 256, 257, 777, 9000, 17001].map(|len| (s, len))) {
            let (launch, what) = (launch(&kernel, len), format!("{} {} of {len}", kernel.name, schedule.short(&kernel)));
            let folds = folded(&kernel, &numbers(&launch.elements_of(0)));
            let evaluated = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(numbers(&launch.elements_in(&evaluated, 1)), folds, "{what}");
            let simt = lower(&kernel, &launch.facts(&kernel), schedule, Target::h200()).unwrap_or_else(|e| panic!("{what}: {e}"));
            for seed in 0..3 {
                let after = launch.simulate_in_order(&simt, seed).unwrap_or_else(|t| panic!("{what}: {t}"));
                assert_eq!(numbers(&after.elements_of(&launch, 1)), folds, "{what}");
            }
        }
    }
}

#[test]
fn tiles_in_order_are_loaded_as_tiles() {
    let kernel = built(most_so_far_in_order::Kernel::def());
    let schedule = parse_schedule(&kernel, "T=256,C=4,V=4").unwrap_or_else(|e| panic!("{e}"));
    let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let text = emit(&simt);
    assert!(text.contains("float4") && text.contains("atomicAdd(&tickets[0], 1") && text.contains("atomicExch(&tickets[0], 0"), "{text}");
    // Words order nothing but themselves: nobody releases or acquires.
    assert!(!text.contains("acquire") && !text.contains("__threadfence"), "{text}");
    assert!(text.contains("// one warp waits for the block"), "{text}");
}

#[test]
fn launches_in_a_row_find_the_first_ticket() {
    let stream = Stream::on(&Device::sim(Target::h200()));
    for n in [1000usize, 256, 1, 3000] {
        let values: Vec<i32> = (0..n as i32).collect();
        let x = stream.tensor(&values, [n]).unwrap();
        let (mut y, mut states) = (stream.zeros([n]).unwrap(), stream.zeros([n.div_ceil(256)]).unwrap());
        sums_so_far(&stream, &x, &mut y, &mut states).unwrap();
        let expected: Vec<i32> = (0..n as i32).map(|i| i * (i + 1) / 2).collect();
        assert_eq!(stream.read(&y).unwrap(), expected, "{n}");
    }
}

#[test]
fn each_step_of_taking_a_tile_is_needed() {
    let kernel = built(sums_so_far::Kernel::def());
    let schedule = parse_schedule(&kernel, "T=256,C=2,V=1").unwrap_or_else(|e| panic!("{e}"));
    let launch = launch(&kernel, 3000);
    let simt = lower(&kernel, &launch.facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let missed: Vec<String> = mutants(&simt)
        .into_iter()
        .filter(|m| {
            matches!(m.removed, Removed::Barrier | Removed::AtomicPredicate | Removed::Condition) && m.place.contains("tiles are taken")
        })
        .filter(|m| launch.disagreement(&kernel, &m.kernel, 5_000_000).is_none())
        .map(|m| format!("{:?} {}", m.removed, m.place))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
