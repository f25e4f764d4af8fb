//! Causal attention to the last keys and to the first ones, the sinks: two passes over keys that have nothing in common.

use super::attention::{Place, Recent, State, Steps, nothing_seen, reference, scale_of, walk};
use super::products::{Fma, Product, Split};
use girih::prelude::*;

/// The state behind the sinks and the last `window` keys of some queries.
#[device]
fn attend<P: Product>(
    (q, k, v): (&Tensor<f32, 3>, &Tensor<f32, 3>, &Tensor<f32, 3>),
    at: Place,
    steps: Steps,
    sinks: Scalar<i64>,
    window: Scalar<i64>,
) -> State {
    let scale = scale_of(q);
    let (mut most, mut total, mut acc) = nothing_seen(steps);
    for pass in 0..scalar::<i32>(2) {
        let near = (at.queries.start() - window + 1).max(sinks);
        // Of the sinks a query sees all that are not behind it.
        let (first, end) = (select(pass == 0, scalar(0), near), select(pass == 0, sinks, at.queries.end()));
        let width = select(pass == 0, k.len(0), window);
        (most, total, acc) = walk::<Recent, P>((q, k, v), at, steps, first..end, width, scale, (most, total, acc));
    }
    (most, total, acc)
}

/// out = softmax(q · kᵀ / √d) · v over the keys that each query sees; tensors are `[rows, heads, d]`.
#[kernel(
    tile(BM = [64, 32, 16], BN = [32, 64, 16], BE = [32, 64, 128, 16], BD = [128, 64, 32]),
    coarsen(TM of BM = [4, 8, 2], TD of BD = [8, 4, 2]),
    vector(V = [4, 1]),
    operands(O = [Shared, Transposed]),
    stages(S = [2, 1]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1, 3])
)]
pub fn attend_to_sinks(
    q: &Tensor<f32, 3>,
    k: &Tensor<f32, 3>,
    v: &Tensor<f32, 3>,
    out: &mut Tensor<f32, 3>,
    sinks: Scalar<i64>,
    window: Scalar<i64>,
) {
    let [q, k, v] = [q, k, v].map(|x| x.slice(1, 0, out.len(1)));
    for (h, queries, columns) in out.axes([1, 0, 2]).tiles([Size::from(1), BM, BD]) {
        let at = Place { queries, columns, head: h.number(), of_keys: h.number() };
        let steps = Steps { queries: BM, keys: BN, inner: BE, columns: BD };
        let (_, total, acc) = attend::<Fma>((&q, &k, &v), at, steps, sinks, window);
        out.store((queries, at.head, columns), acc * (1.0 / total).expand(1, BD));
    }
}

/// The same on matrix units, where all products have one shape: as many keys a turn as the result has columns.
#[kernel(
    tile(BM = [32, 64, 16], T = [64, 128, 32], BE = [32, 64, 16]),
    coarsen(TM of BM = [4, 2, 8], TN of T = [4, 2, 8]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8, 2]),
    stages(S = [1, 2]),
    copy(C = [Registers, Async]),
    min_blocks(Q = [2, 1])
)]
pub fn attend_to_sinks_units(
    q: &Tensor<f32, 3>,
    k: &Tensor<f32, 3>,
    v: &Tensor<f32, 3>,
    out: &mut Tensor<f32, 3>,
    sinks: Scalar<i64>,
    window: Scalar<i64>,
) {
    let [q, k, v] = [q, k, v].map(|x| x.slice(1, 0, out.len(1)));
    for (h, queries, columns) in out.axes([1, 0, 2]).tiles([Size::from(1), BM, T]) {
        let at = Place { queries, columns, head: h.number(), of_keys: h.number() };
        let steps = Steps { queries: BM, keys: T, inner: BE, columns: T };
        let (_, total, acc) = attend::<Split>((&q, &k, &v), at, steps, sinks, window);
        out.store((queries, at.head, columns), acc * (1.0 / total).expand(1, T));
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    q: &Tensor<f32, 2>,
    k: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    output: &mut Tensor<f32, 2>,
    num_sinks: Scalar<i32>,
    window_size: Scalar<i32>,
) {
    let width = q.len(1);
    let (q, k, v) = (q.chunked(1, width), k.chunked(1, width), v.chunked(1, width));
    let mut output = output.chunked(1, width);
    if variant("matrix units") {
        attend_to_sinks_units(&q, &k, &v, &mut output, num_sinks.cast(), window_size.cast());
    } else {
        attend_to_sinks(&q, &k, &v, &mut output, num_sinks.cast(), window_size.cast());
    }
}

girih::challenge! {
    Challenge::new(
        "attention_with_sinks",
        solve::Program::def,
        "void solve(const float* Q[M, d], const float* K[M, d], const float* V[M, d], float* output[M, d], \
         int M, int d, int num_sinks, int window_size)",
    )
    .input("Q", uniform(-1.0, 1.0))
    .input("K", uniform(-1.0, 1.0))
    .input("V", uniform(-1.0, 1.0))
    .output_rows("output", |x, i| {
        let (d, sinks, window) = (x.len("d"), x.len("num_sinks"), x.len("window_size"));
        let product = |j: usize| (0..d).map(|e| x.at("Q", i * d + e) * x.at("K", j * d + e)).sum::<f64>();
        let keys = (0..=i).filter(|j| *j < sinks || j + window > i);
        reference(keys, |j| product(j) / (d as f64).sqrt(), d, |j, e| x.at("V", j * d + e))
    })
    .tolerance(1e-5, 1e-5)
    .check_at([
        "M=0, d=8, num_sinks=1, window_size=3",
        "M=1, d=1, num_sinks=4, window_size=1",
        "M=37, d=16, num_sinks=0, window_size=5",
        "M=65, d=20, num_sinks=40, window_size=9",
        "M=40, d=33, num_sinks=2, window_size=100",
        "M=70, d=32, num_sinks=3, window_size=16",
    ])
    .perf_at("M=5000, d=128, num_sinks=4, window_size=1024")
    .flops(|s| {
        let (rows, window) = (s.size("M"), s.size("window_size").min(s.size("M")));
        let recent = rows * window - window * (window - 1.0) / 2.0;
        let sinks = s.size("num_sinks") * (rows - window - s.size("num_sinks") / 2.0).max(0.0);
        4.0 * s.size("d") * (recent + sinks)
    })
}
