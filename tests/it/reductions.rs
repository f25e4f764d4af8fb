//! Reductions of numbers that are trouble: NaN, infinities, zeros of both signs, equal elements, orders that lose digits. Lanes, warps, blocks
//! and the grid; every sum stays within the bound of its own tree, which is far below that of a plain loop.

use super::launches::best_facts;
use girih::__private::FinishPath;
use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_examples::softmax::{softmax_chunks, softmax_join, softmax_normalise, softmax_statistics};

/// Sum, least and largest element of each row.
#[kernel(
    tile(R = [1, 2, 8], C = [16, 32, 128, 512]),
    coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4])
)]
pub fn of_rows(x: &Tensor<f32, 2>, sum: &mut Tensor<f32, 1>, least: &mut Tensor<f32, 1>, most: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut total = zeros::<f32>([R, C]);
        let (mut low, mut high) = (full([R, C], f32::INFINITY), full([R, C], f32::NEG_INFINITY));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            total += v;
            low = low.min(v);
            high = high.max(v);
        }
        sum.store(r, total.sum_axis(1));
        least.store(r, low.min_axis(1));
        most.store(r, high.max_axis(1));
    }
}

/// The same of all elements, over the grid.
#[kernel(tile(T = [64, 256, 1024]), coarsen(C of T = [1, 2, 4, 8]), vector(V = [1, 2, 4]), grid(G = [1, 2]), finish(F = [LastBlock, Atomics, SecondLaunch]))]
pub fn of_all(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let mut total = zeros::<f32>([T]);
    let (mut low, mut high) = (full([T], f32::INFINITY), full([T], f32::NEG_INFINITY));
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        total += v;
        low = low.min(v);
        high = high.max(v);
    }
    let (total, low, high) = (total.sum().sum_grid(), low.min_all().min_grid(), high.max_all().max_grid());
    out.store_at(0, total);
    out.store_at(1, low);
    out.store_at(2, high);
}

/// The sum of a matrix, whose tiles are parts of one row; a block for each tile, or blocks that walk.
#[kernel(tile(R = [1, 2], T = [64, 256]), vector(V = [1, 4]), grid(G = [0, 1]))]
pub fn of_matrix(x: &Tensor<f32, 2>, out: &mut Tensor<f32, 1>) {
    let mut total = zeros::<f32>([R, T]);
    for (r, t) in x.tiles([R, T]).strided() {
        total += x.load((r, t)).exp();
    }
    out.store_at(0, total.sum().sum_grid());
}

/// What rows of whole numbers come to: sums that wrap, extremes, and bits.
#[kernel(tile(R = [1, 2], C = [16, 32, 128, 2048]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]))]
pub fn of_whole_numbers(
    x: &Tensor<i32, 2>,
    sum: &mut Tensor<i32, 1>,
    least: &mut Tensor<i32, 1>,
    most: &mut Tensor<i32, 1>,
    both: &mut Tensor<u32, 1>,
    either: &mut Tensor<u32, 1>,
    odd: &mut Tensor<u32, 1>,
) {
    for r in x.axis(0).tiles(R) {
        let (mut total, mut low, mut high) = (zeros::<i32>([R, C]), full([R, C], i32::MAX), full([R, C], i32::MIN));
        let (mut all, mut any, mut parity) = (full([R, C], u32::MAX), zeros::<u32>([R, C]), zeros::<u32>([R, C]));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let bits = v.bitcast::<u32>();
            total += v;
            low = low.min(v);
            high = high.max(v);
            all = all & bits;
            any = any | bits;
            parity = parity ^ bits;
        }
        sum.store(r, total.sum_axis(1));
        least.store(r, low.min_axis(1));
        most.store(r, high.max_axis(1));
        both.store(r, all.reduce_axis(1, u32::MAX, |a, b| a & b));
        either.store(r, any.reduce_axis(1, 0u32, |a, b| a | b));
        odd.store(r, parity.commutative().reduce_axis(1, 0u32, |a, b| b ^ a));
    }
}

/// The sum of what is found at computed positions, and 1 for each that is found.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2]), grid(G = [1]))]
pub fn of_found(x: &Tensor<f32, 1>, at: &Tensor<i32, 1>, out: &mut Tensor<f32, 1>) {
    let mut total = zeros::<f32>([T]);
    for t in at.tiles([T]).strided() {
        total += x.gather(at.load(t)) + 1.0;
    }
    out.store_at(0, total.sum().sum_grid());
}

/// The simulator, and the first GPU where there is one.
fn streams() -> Vec<Stream> {
    let mut all = vec![Stream::on(&Device::sim(Target::h200()))];
    all.extend(Device::cuda(0).ok().map(|gpu| Stream::on(&gpu)));
    all
}

/// Sequences of `n` elements with their names.
fn troubles(n: usize) -> Vec<(&'static str, Vec<f32>)> {
    let noise = |i: usize| ((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 24) as f32 - 0.5;
    let plain = || (0..n).map(noise).collect::<Vec<f32>>();
    let with = |at: &[(usize, f32)]| {
        let mut x = plain();
        at.iter().for_each(|(i, v)| x[*i] = *v);
        x
    };
    let (last, mid) = (n - 1, n / 2);
    let mut sorted = plain();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let descending = sorted.iter().rev().copied().collect();
    let powers = |i: usize| 2f32.powi(i as i32 % 24) * if i.is_multiple_of(3) { -1.0 } else { 1.0 };
    vec![
        ("noise", plain()),
        ("NaN first", with(&[(0, f32::NAN)])),
        ("NaN in the middle", with(&[(mid, f32::NAN)])),
        ("NaN last", with(&[(last, f32::NAN)])),
        ("NaN among infinities", with(&[(0, f32::INFINITY), (last, f32::NEG_INFINITY), (mid, f32::NAN)])),
        ("+inf", with(&[(mid, f32::INFINITY)])),
        ("-inf", with(&[(last, f32::NEG_INFINITY)])),
        ("both infinities", with(&[(0, f32::INFINITY), (last, f32::NEG_INFINITY)])),
        ("+0 after -0", (0..n).map(|i| if i == last { 0.0 } else { -0.0 }).collect()),
        ("-0 after +0", (0..n).map(|i| if i == last { -0.0 } else { 0.0 }).collect()),
        ("all -0", vec![-0.0; n]),
        ("all equal", vec![0.1; n]),
        ("ones", vec![1.0; n]),
        ("smallest first", sorted),
        ("largest first", descending),
        ("one large, many small", (0..n).map(|i| if i == 0 { 1.6777216e7 } else { 1.0 }).collect()),
        ("cancelling", (0..n).map(|i| if i.is_multiple_of(2) { 1e8 + i as f32 } else { -1e8 }).collect()),
        ("powers of two", (0..n).map(powers).collect()),
        ("subnormal", (0..n).map(|i| f32::from_bits(1 + i as u32 % 7)).collect()),
    ]
}

/// The extremes as the language defines them: NaN goes through, -0 lies below +0.
fn extreme(x: &[f32], above: bool) -> f32 {
    let key = |v: &f32| if above { *v } else { -*v };
    match x.iter().find(|v| v.is_nan()) {
        Some(nan) => *nan,
        None => x.iter().copied().max_by(|a, b| key(a).total_cmp(&key(b))).expect("some elements"),
    }
}

fn same(got: f32, want: f32) -> bool {
    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
}

/// What is wrong with a sum whose terms went through at most `depth` additions: each of them errs by half an eps of its result. So many of
/// them (`flushing`) were atomics, which take subnormal numbers for zeros.
fn wrong_sum(x: &[f32], got: f32, depth: usize, flushing: usize) -> Option<String> {
    let plain: f32 = x.iter().sum();
    if !plain.is_finite() {
        return (!same(got, plain)).then(|| format!("{got}, not {plain}"));
    }
    let exact: f64 = x.iter().map(|v| f64::from(*v)).sum();
    let sizes: f64 = x.iter().map(|v| f64::from(v.abs())).sum();
    let unit = f64::from(f32::EPSILON) / 2.0;
    let bound = depth as f64 * unit / (1.0 - depth as f64 * unit) * sizes + 2.0 * flushing as f64 * f64::from(f32::MIN_POSITIVE);
    ((f64::from(got) - exact).abs() > bound).then(|| format!("{got}, not {exact}: further off than {bound:e} for {depth} additions"))
}

/// Additions on the way of a term through lanes and warps: a tree over the lanes, then one warp after the other.
fn block_depth(threads: usize) -> usize {
    threads.min(32).next_power_of_two().ilog2() as usize + threads.div_ceil(32)
}

#[test]
fn rows_of_trouble() {
    let schedule = |r, c, cr, cc, v| of_rows::Schedule { r, c, cr, cc, v };
    // A thread's own row, a few lanes, a warp, a warp beside others, warps together.
    let schedules = [
        schedule(2, 16, 1, 4, 1),
        schedule(8, 32, 2, 2, 2),
        schedule(1, 32, 1, 1, 1),
        schedule(8, 128, 1, 4, 4),
        schedule(2, 512, 1, 4, 4),
        schedule(1, 512, 1, 1, 1),
    ];
    for (stream, n) in streams().into_iter().flat_map(|s| [1, 31, 257, 1000].map(|n| (s.clone(), n))) {
        let rows = troubles(n);
        let x = stream.tensor(&rows.iter().flat_map(|r| r.1.clone()).collect::<Vec<f32>>(), [rows.len(), n]).unwrap();
        for schedule in &schedules {
            let mut out: [_; 3] = std::array::from_fn(|_| stream.zeros([rows.len()]).unwrap());
            let [sum, least, most] = &mut out;
            of_rows(&stream.with(schedule.clone()), &x, sum, least, most).unwrap();
            let [sum, least, most] = out.map(|t| stream.read(&t).unwrap());
            let (tile, own) = (schedule.c as usize, schedule.cc as usize);
            let depth = n.div_ceil(tile) + own + block_depth(tile / own);
            for (r, (name, row)) in rows.iter().enumerate() {
                let what = format!("{name}, {n} elements, {schedule}");
                assert_eq!(wrong_sum(row, sum[r], depth, 0), None, "{what}");
                assert!(same(least[r], extreme(row, false)), "{what}: the least is {}", least[r]);
                assert!(same(most[r], extreme(row, true)), "{what}: the largest is {}", most[r]);
            }
        }
    }
}

#[test]
fn a_grid_of_trouble() {
    let schedules = [FinishPath::LastBlock, FinishPath::Atomics, FinishPath::SecondLaunch].into_iter().flat_map(|f| {
        let schedule = |t, c, v, g| of_all::Schedule { t, c, v, g, f };
        [schedule(64, 1, 1, 1), schedule(256, 4, 4, 2), schedule(1024, 8, 4, 1), schedule(1024, 1, 1, 1)]
    });
    let schedules: Vec<_> = schedules.collect();
    for (stream, n) in streams().into_iter().flat_map(|s| [1, 257, 4099].map(|n| (s.clone(), n))) {
        for ((name, x), schedule) in troubles(n).iter().flat_map(|x| schedules.iter().map(move |s| (x, s))) {
            let input = stream.tensor(x, [n]).unwrap();
            let mut out = stream.zeros([3]).unwrap();
            of_all(&stream.with(schedule.clone()), &input, &mut out).unwrap();
            let got = stream.read(&out).unwrap();
            let (tile, own) = (schedule.t as usize, schedule.c as usize);
            let (tiles, block) = (n.div_ceil(tile), block_depth(tile / own));
            // A GPU of at least one multiprocessor: each block has at most all tiles, or there are at most as many blocks.
            let depth = tiles + own + block + tiles.div_ceil(tile / own) + block;
            let what = format!("{name}, {n} elements, {schedule}");
            let flushing = if schedule.f == FinishPath::Atomics { tiles } else { 0 };
            assert_eq!(wrong_sum(x, got[0], depth, flushing), None, "{what}");
            assert!(same(got[1], extreme(x, false)), "{what}: the least is {}", got[1]);
            assert!(same(got[2], extreme(x, true)), "{what}: the largest is {}", got[2]);
        }
    }
}

/// By one instruction per warp, by shuffles where the GPU has no such instruction, and over fewer lanes.
#[test]
fn rows_of_whole_numbers() {
    let schedule = |r, c, cr, cc| of_whole_numbers::Schedule { r, c, cr, cc };
    let schedules = [schedule(1, 32, 1, 1), schedule(2, 16, 1, 1), schedule(2, 128, 2, 4), schedule(1, 2048, 1, 2), schedule(2, 128, 1, 1)];
    let turing = Device::sim(Target::find("sm_75").expect("Turing is known"));
    for (stream, n) in streams().into_iter().chain([Stream::on(&turing)]).flat_map(|s| [1, 31, 300].map(|n| (s.clone(), n))) {
        let number = |i: usize| (i as u32 + 1).wrapping_mul(0x9e37_79b9) as i32;
        let rows: Vec<Vec<i32>> = (0..3).map(|r| (0..n).map(|i| number(r * n + i) | (r as i32)).collect()).collect();
        let x = stream.tensor(&rows.concat(), [rows.len(), n]).unwrap();
        for schedule in &schedules {
            let [mut sum, mut least, mut most] = std::array::from_fn(|_| stream.zeros([rows.len()]).unwrap());
            let [mut both, mut either, mut odd] = std::array::from_fn(|_| stream.zeros([rows.len()]).unwrap());
            let stream = stream.with(schedule.clone());
            of_whole_numbers(&stream, &x, &mut sum, &mut least, &mut most, &mut both, &mut either, &mut odd).unwrap();
            let signed = [sum, least, most].map(|t| stream.read(&t).unwrap());
            let bits: [Vec<u32>; 3] = [both, either, odd].map(|t| stream.read(&t).unwrap());
            for (r, row) in rows.iter().enumerate() {
                let folded = |start, f: fn(i32, i32) -> i32| row.iter().copied().fold(start, f);
                let want = [folded(0, i32::wrapping_add), folded(i32::MAX, i32::min), folded(i32::MIN, i32::max)];
                assert_eq!([0, 1, 2].map(|k| signed[k][r]), want, "{n} elements, {schedule}");
                let want = [folded(-1, |a, b| a & b), folded(0, |a, b| a | b), folded(0, |a, b| a ^ b)];
                assert_eq!([0, 1, 2].map(|k| bits[k][r] as i32), want, "{n} elements, {schedule}");
            }
        }
    }
}

#[test]
fn one_instruction_combines_whole_numbers_of_a_warp() {
    let kernel = (of_whole_numbers::Kernel::def().build)().expect("it builds");
    let text = |schedule: &str, arch: &str| {
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        let target = Target::find(arch).expect("it is known");
        emit(&lower(&kernel, &best_facts(&kernel), &schedule, target).unwrap_or_else(|e| panic!("{e}")))
    };
    let ampere = text("R=1,C=32,CR=1,CC=1", "sm_80");
    for call in ["add", "min", "max", "and", "or", "xor"] {
        assert_eq!(ampere.matches(&format!("__reduce_{call}_sync(0xffffffffu, ")).count(), 1, "{call}: {ampere}");
    }
    assert!(!ampere.contains("__shfl"), "{ampere}");
    // Turing has no such instruction, half a warp has no mask for it, and floats are added up in an order of their own.
    for other in [text("R=1,C=32,CR=1,CC=1", "sm_75"), text("R=2,C=16,CR=1,CC=1", "sm_80")] {
        assert!(other.contains("__shfl_xor_sync") && !other.contains("__reduce"), "{other}");
    }
    let floats = (of_rows::Kernel::def().build)().expect("it builds");
    let schedule = parse_schedule(&floats, "R=1,C=32,CR=1,CC=1,V=1").unwrap_or_else(|e| panic!("{e}"));
    let floats = emit(&lower(&floats, &best_facts(&floats), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    assert!(floats.contains("__shfl_xor_sync") && !floats.contains("__reduce"), "{floats}");
}

#[test]
fn bounds_of_trees_are_sharp_enough() {
    // What a plain loop gives is no sum within a tree's bound.
    let x = &troubles(4099)[15];
    assert_eq!(x.0, "one large, many small");
    let plain: f32 = x.1.iter().sum();
    assert!(wrong_sum(&x.1, plain, 30, 0).is_some(), "{plain}");
}

#[test]
fn empty_tensors_give_the_identity() {
    for stream in streams() {
        let (x, mut out) = (stream.tensor::<f32, 1>(&[], [0]).unwrap(), stream.zeros([3]).unwrap());
        of_all(&stream, &x, &mut out).unwrap();
        assert_eq!(stream.read(&out).unwrap(), [0.0, f32::INFINITY, f32::NEG_INFINITY]);
    }
}

/// A block runs where there are no tiles, and reads nothing: neither rows nor columns that are not there.
#[test]
fn matrices_without_rows_or_columns_have_no_tiles() {
    let schedules = [1, 2].into_iter().flat_map(|r| [64, 256].map(|t| (r, t))).flat_map(|rt| [0, 1].map(|g| (rt, g)));
    for ((r, t), g) in schedules {
        let schedule = of_matrix::Schedule { r, t, v: 1, g };
        for (stream, [rows, columns]) in
            streams().into_iter().flat_map(|s| [[0, 0], [0, 257], [0, 64], [3, 0], [3, 257], [4, 512]].map(|n| (s.clone(), n)))
        {
            let x = stream.tensor(&vec![0.0f32; rows * columns], [rows, columns]).unwrap();
            let mut out = stream.zeros([1]).unwrap();
            of_matrix(&stream.with(schedule.clone()), &x, &mut out).unwrap_or_else(|e| panic!("{rows} x {columns}, {schedule}: {e}"));
            assert_eq!(stream.read(&out).unwrap(), [(rows * columns) as f32], "{rows} x {columns}, {schedule}");
        }
    }
}

#[test]
fn what_is_not_found_adds_nothing() {
    for stream in streams() {
        for n in [1usize, 63, 64, 300] {
            let at: Vec<i32> = (0..n as i32).map(|i| if i % 3 == 0 { -1 - i } else { i % 7 }).collect();
            let (x, mut out) = (stream.tensor(&[1.0f32, 2.0, 4.0, 8.0, 16.0], [5]).unwrap(), stream.zeros([1]).unwrap());
            of_found(&stream, &x, &stream.tensor(&at, [n]).unwrap(), &mut out).unwrap();
            let found = at.iter().filter(|i| (0..5).contains(*i));
            let want = found.fold(0.0, |sum, i| sum + (1 << i) as f32 + 1.0);
            assert_eq!(stream.read(&out).unwrap(), [want], "{n} positions on {}", stream.device().name());
        }
    }
}

#[test]
fn softmaxes_of_trouble() {
    let n = 5000;
    let noise = |i: usize| (i * 7919 % 1000) as f32 / 50.0 - 10.0;
    let with = |at: &[(usize, f32)]| {
        let mut x: Vec<f32> = (0..n).map(noise).collect();
        at.iter().for_each(|(i, v)| x[*i] = *v);
        x
    };
    let some = [
        ("all equal", vec![3.25; n]),
        ("large", (0..n).map(|i| noise(i) * 1e37).collect()),
        ("far below", with(&[(17, f32::NEG_INFINITY), (4999, f32::NEG_INFINITY)])),
        ("one chunk of nothing", (0..n).map(|i| if i < 4096 { f32::NEG_INFINITY } else { noise(i) }).collect()),
        ("one above all", with(&[(4200, 1000.0)])),
        ("NaN", with(&[(4321, f32::NAN)])),
        ("+inf", with(&[(1, f32::INFINITY)])),
        ("nothing", vec![f32::NEG_INFINITY; n]),
    ];
    for (stream, (name, x)) in streams().into_iter().flat_map(|s| some.iter().map(move |x| (s.clone(), x))) {
        let largest = x.iter().copied().fold(f64::NEG_INFINITY, |a, b| if f64::from(b) > a { f64::from(b) } else { a });
        let sum: f64 = x.iter().map(|v| (f64::from(*v) - largest).exp()).sum();
        let input = stream.tensor(x, [n]).unwrap();
        let (mut y, mut z) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap());
        let mut statistics = stream.zeros([2]).unwrap();
        softmax_statistics(&stream, &input, &mut statistics).unwrap();
        softmax_normalise(&stream, &input, &statistics, &mut y).unwrap();
        let (mut chunks, mut sums) = (stream.zeros([2]).unwrap(), stream.zeros([2]).unwrap());
        softmax_chunks(&stream, &input, &mut chunks, &mut sums).unwrap();
        softmax_join(&stream, &input, &chunks, &sums, &mut z).unwrap();
        for got in [stream.read(&y).unwrap(), stream.read(&z).unwrap()] {
            for (i, got) in got.iter().map(|v| f64::from(*v)).enumerate() {
                let want = (f64::from(x[i]) - largest).exp() / sum;
                let fine = got.is_nan() && want.is_nan() || (got - want).abs() <= 1e-5 * want + 1e-12;
                assert!(fine, "{name}: element {i} is {got}, not {want}");
            }
        }
    }
}
