//! The largest sum of a window of fixed length: exact, in integers.
//!
//! The first window's sum, plus the largest rise on the way from it: moving the window by one adds the element that enters less the one
//! that leaves. "How far it moves, and how high it gets on the way" is an associative pair, so each chunk is reduced by itself, and one
//! block joins the chunks in order. No prefix sum is ever stored.

use girih::prelude::*;

/// A way of the window: by how much the sum changes in all, and the most that it rises, at least 0.
fn then(first: (Scalar<i32>, Scalar<i32>), second: (Scalar<i32>, Scalar<i32>)) -> (Scalar<i32>, Scalar<i32>) {
    (first.0 + second.0, first.1.max(first.0 + second.1))
}

/// For each chunk of positions: its part of the first window, how far the sum moves, and the most that it rises.
#[kernel(tile(T = 2048), coarsen(C of T = [2, 4, 8, 16]), vector(V = [1, 2, 4]))]
pub fn chunk_rises(
    x: &Tensor<i32, 1>,
    first: &mut Tensor<i32, 1>,
    change: &mut Tensor<i32, 1>,
    rise: &mut Tensor<i32, 1>,
    window: Scalar<i32>,
) {
    let length = window.cast::<i64>();
    for t in x.tiles([T]) {
        let here = x.load(t);
        // Past the end nothing enters: the step is absent.
        let step = x.gather(t.coords() + length) - here;
        let (moved, risen) = (step, step.max(0)).reduce_all((0, 0), then);
        let zero = here.like(0);
        first.scatter(t.number(), select(t.coords() < length, here, zero).sum());
        change.scatter(t.number(), moved);
        rise.scatter(t.number(), risen);
    }
}

/// A way that is none: it rises less than any other.
const NO_WAY: (i32, i32) = (0, i32::MIN / 2);

/// The chunks one after the other, in one block.
#[kernel(tile(O = 1, S = [32, 128, 256]), coarsen(C of S = [1, 2]))]
pub fn join_rises(first: &Tensor<i32, 1>, change: &Tensor<i32, 1>, rise: &Tensor<i32, 1>, out: &mut Tensor<i32, 1>) {
    for o in out.tiles([O]) {
        let mut start = zeros::<i32>([S]);
        let mut way = (scalar(0i32), scalar(0i32));
        for s in first.axis(0).tiles(S) {
            start += first.load(s);
            way = then(way, (change.load(s), rise.load(s)).reduce_all(NO_WAY, then));
        }
        out.store(o, (start.sum() + way.1).splat([O]));
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<i32, 1>, output: &mut Tensor<i32, 1>, window_size: Scalar<i32>) {
    let chunks = (x.len(0) + 2047) / 2048;
    let (mut first, mut change, mut rise) = (temp([chunks]), temp([chunks]), temp([chunks]));
    chunk_rises(x, &mut first, &mut change, &mut rise, window_size);
    join_rises(&first, &change, &rise, output);
}

girih::challenge! {
    Challenge::new(
        "max_subarray_sum",
        solve::Program::def,
        "void solve(const int* input[N], int* output[1], int N, int window_size)",
    )
    .input("input", integers(-10, 10))
    .output("output", |x, _| {
        let (n, window) = (x.len("N"), x.len("window_size"));
        let mut sum: f64 = (0..window).map(|i| x.at("input", i)).sum();
        let mut best = sum;
        for i in window..n {
            sum += x.at("input", i) - x.at("input", i - window);
            best = best.max(sum);
        }
        best
    })
    .check_at([
        "N=1 window_size=1",
        "N=31 window_size=31",
        "N=257 window_size=1",
        "N=2047 window_size=1000",
        "N=2048 window_size=2",
        "N=6151 window_size=2049",
        "N=4099 window_size=4098",
    ])
    .perf_at("N=50_000, window_size=25_000")
    .int_ops(|s| 3.0 * s.size("N"))
}
