//! Vectors of more than 2^31 bytes, where a GPU has room for them; and of too many elements, which are refused.

use girih::algorithms::{Ascending, Inclusive, Keep, Sum, Value, histogram, keep_if, merge, reduce_by_key, scan, sort, sort_pairs, top_k};
use girih::prelude::*;
use girih::{Device, DeviceTensor, Stream};
use girih_core::target::Target;

/// 2.8 GB of 32 bits each, and no whole number of tiles.
const N: usize = 700_000_007;

/// x = numbers from a first one on, each so many times.
#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]), vector(V = [4, 1]))]
pub fn numbers_from(x: &mut Tensor<i32, 1>, first: Scalar<i32>, times: Scalar<i64>) {
    require(times > 0);
    for t in x.tiles([T]) {
        x.store(t, (t.coords() / times).cast::<i32>() + first);
    }
}

/// x = numbers that are mixed, no two of them alike.
#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]), vector(V = [4, 1]))]
pub fn mixed_numbers(x: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        let i = t.coords().cast::<u32>() * 0x9e37_79b1_u32;
        x.store(t, (i ^ (i >> 15)) * 0x85eb_ca6b_u32);
    }
}

/// wrong += elements of y that are not the sum of their position's element of x and of what lies before.
#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]))]
pub fn wrong_sums(x: &Tensor<i32, 1>, y: &Tensor<i32, 1>, wrong: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let expected = y.gather(t.coords() - 1).or(0) + x.load(t);
        wrong.atomic_add(0, select(y.load(t) == expected, 0, 1).sum());
    }
}

/// wrong += elements of y that are not `first` and `step` times their position.
#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]))]
pub fn wrong_steps(y: &Tensor<i32, 1>, wrong: &mut Tensor<i32, 1>, first: Scalar<i32>, step: Scalar<i32>) {
    for t in y.tiles([T]) {
        let expected = t.coords().cast::<i32>() * step + first;
        wrong.atomic_add(0, select(y.load(t) == expected, 0, 1).sum());
    }
}

/// wrong += elements that are smaller than the one before; sums += all elements, and their squares.
#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]))]
pub fn order_and_sums(x: &Tensor<u32, 1>, wrong: &mut Tensor<i32, 1>, sums: &mut Tensor<u64, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        wrong.atomic_add(0, select(v < x.gather(t.coords() - 1).or(0), 1, 0).sum());
        let wide = v.cast::<u64>();
        sums.atomic_add(0, wide.sum());
        sums.atomic_add(1, (wide * wide).sum());
    }
}

/// count += elements that are at least as large.
#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]))]
pub fn at_least(x: &Tensor<u32, 1>, least: Scalar<u32>, count: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        count.atomic_add(0, select(x.load(t) >= least, 1, 0).sum());
    }
}

/// Keeps odd numbers.
struct Odd;
#[device]
impl Keep<i32> for Odd {
    fn keep(v: Tile<i32>) -> Tile<bool> {
        (v & 1) == 1
    }
}

/// A GPU with room for some of these vectors.
fn large() -> Option<Stream> {
    match Device::cuda(0) {
        Ok(gpu) => Some(Stream::on(&gpu)),
        Err(e) => {
            println!("no vectors of more than 2^31 bytes: {e}");
            None
        }
    }
}

struct Wrong(DeviceTensor<i32, 1>);

impl Wrong {
    fn none(stream: &Stream) -> Wrong {
        Wrong(stream.zeros([1]).unwrap())
    }
    fn check(&self, stream: &Stream, what: &str) {
        assert_eq!(stream.read(&self.0).unwrap(), [0], "{what}: so many elements are wrong");
    }
}

#[test]
fn scans_and_runs_of_more_than_two_gigabytes() {
    let Some(stream) = large() else { return };
    let mut x = stream.zeros([N]).unwrap();
    mixed_numbers(&stream, &mut x).unwrap();
    let x = DeviceTensor::<i32, 1>::in_buffer(x.buffer().unwrap(), 0, [N]).unwrap();
    let mut y = stream.zeros([N]).unwrap();
    scan::<i32, Sum, Inclusive, _>(&stream, &x, &mut y).unwrap();
    let mut wrong = Wrong::none(&stream);
    wrong_sums(&stream, &x, &y, &mut wrong.0).unwrap();
    wrong.check(&stream, "scan");
    drop(x);

    let (mut keys, mut ones) = (stream.zeros([N]).unwrap(), y);
    numbers_from(&stream, &mut keys, 0, 7i64).unwrap();
    numbers_from(&stream, &mut ones, 1, N as i64).unwrap();
    let (mut of, mut sums, mut count) = (stream.zeros([N]).unwrap(), stream.zeros([N]).unwrap(), stream.zeros([1]).unwrap());
    reduce_by_key::<i32, i32, Sum, _>(&stream, &keys, &ones, &mut of, &mut sums, &mut count).unwrap();
    let runs = N.div_ceil(7);
    assert_eq!(stream.read(&count).unwrap(), [runs as i32]);
    let (of, sums) = (first(&of, runs), first(&sums, runs - 1));
    wrong_steps(&stream, &of, &mut wrong.0, 0, 1).unwrap();
    wrong_steps(&stream, &sums, &mut wrong.0, 7, 0).unwrap();
    wrong.check(&stream, "reduce_by_key");
}

/// The first elements of a vector.
fn first(of: &DeviceTensor<i32, 1>, n: usize) -> DeviceTensor<i32, 1> {
    DeviceTensor::in_buffer(of.buffer().unwrap(), 0, [n]).unwrap()
}

#[test]
fn sorts_and_selections_of_more_than_two_gigabytes() {
    let Some(stream) = large() else { return };
    let (mut x, mut sorted) = (stream.zeros([N]).unwrap(), stream.zeros([N]).unwrap());
    mixed_numbers(&stream, &mut x).unwrap();
    sort::<u32, Ascending, _>(&stream, &x, &mut sorted).unwrap();
    let (mut wrong, mut any) = (Wrong::none(&stream), stream.zeros([1]).unwrap());
    let (mut before, mut after) = (stream.zeros([2]).unwrap(), stream.zeros([2]).unwrap());
    order_and_sums(&stream, &x, &mut any, &mut before).unwrap();
    order_and_sums(&stream, &sorted, &mut wrong.0, &mut after).unwrap();
    wrong.check(&stream, "sort");
    assert_eq!(stream.read(&before).unwrap(), stream.read(&after).unwrap());

    let mut largest = stream.zeros([100]).unwrap();
    top_k::<u32, _>(&stream, &x, &mut largest).unwrap();
    let found = stream.read(&largest).unwrap();
    assert!(found.is_sorted_by(|a, b| a > b), "{found:?}");
    let mut count = stream.zeros([1]).unwrap();
    at_least(&stream, &x, found[99], &mut count).unwrap();
    assert_eq!(stream.read(&count).unwrap(), [100]);

    // Values that are the keys' positions go where the keys go: those of numbers in order are what they were.
    let (mut values, mut moved) = (stream.zeros([N]).unwrap(), stream.zeros([N]).unwrap());
    numbers_from(&stream, &mut values, 0, 1i64).unwrap();
    let mut again = x;
    sort_pairs::<u32, i32, Ascending, _>(&stream, &sorted, &values, &mut again, &mut moved).unwrap();
    wrong_steps(&stream, &moved, &mut wrong.0, 0, 1).unwrap();
    wrong.check(&stream, "sort_pairs");
}

#[test]
fn merges_and_what_is_kept_of_more_than_two_gigabytes() {
    let Some(stream) = large() else { return };
    let (half, n) = (N / 2, N / 2 * 2);
    let mut all = stream.zeros([n]).unwrap();
    numbers_from(&stream, &mut all, 0, 1i64).unwrap();
    let (mut odd, mut count) = (stream.zeros([n]).unwrap(), stream.zeros([1]).unwrap());
    keep_if::<i32, Odd, _>(&stream, &all, &mut odd, &mut count).unwrap();
    assert_eq!(stream.read(&count).unwrap(), [half as i32]);
    let (odd, mut wrong) = (first(&odd, half), Wrong::none(&stream));
    wrong_steps(&stream, &odd, &mut wrong.0, 1, 2).unwrap();
    wrong.check(&stream, "keep_if");

    let mut merged = stream.zeros([n + half]).unwrap();
    merge::<i32, Ascending, _>(&stream, &all, &odd, &mut merged).unwrap();
    // Each odd number is there twice.
    let mut sums = stream.zeros([n + half]).unwrap();
    scan::<i32, Sum, Inclusive, _>(&stream, &merged, &mut sums).unwrap();
    let (mut bins, mut last) = (stream.zeros([100]).unwrap(), stream.zeros([1]).unwrap());
    histogram::<i32, Value, _>(&stream, &merged, &mut bins).unwrap();
    assert_eq!(stream.read(&bins).unwrap(), (0..100).map(|i| 1 + i % 2).collect::<Vec<i32>>());
    let as_bits = DeviceTensor::<u32, 1>::in_buffer(merged.buffer().unwrap(), 0, [n + half]).unwrap();
    let mut totals = stream.zeros([2]).unwrap();
    order_and_sums(&stream, &as_bits, &mut last, &mut totals).unwrap();
    assert_eq!(stream.read(&last).unwrap(), [0]);
    let (n, half) = (n as u64, half as u64);
    assert_eq!(stream.read(&totals).unwrap()[0], n * (n - 1) / 2 + half * half);
}

#[test]
fn vectors_of_two_to_the_31_elements_are_refused() {
    let stream = Stream::on(&Device::sim(Target::h200()));
    // One element that is there so often.
    let one = stream.zeros::<i32, 1>([1]).unwrap();
    let x = DeviceTensor::<i32, 1>::in_buffer_strided(one.buffer().unwrap(), 0, [1 << 31], Some([0])).unwrap();
    let (mut kept, mut count) = (stream.zeros([4]).unwrap(), stream.zeros([1]).unwrap());
    let error = keep_if::<i32, Odd, _>(&stream, &x, &mut kept, &mut count).expect_err("too long").to_string();
    assert!(error.contains("2147483648"), "{error}");
}
