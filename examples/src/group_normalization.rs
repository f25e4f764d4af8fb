//! Each group of channels is brought to mean 0 and variance 1, then each channel has its own scale and shift.
//!
//! At the judge's size a group is 256 KiB, a little more than the shared memory of a multiprocessor. One kernel walks the group twice, the
//! second time mostly from the L2 cache; the other one keeps the first 224 KiB in shared memory, so that only an eighth is read again.

use girih::prelude::*;

/// A block has a group: its sums first, over all its channels as one row, then its channels one after another.
#[kernel(
    tile(R = 1, T = [4096, 2048, 1024, 8192]),
    coarsen(C of T = [8, 4, 16]),
    vector(V = [4, 1, 2]),
    min_blocks(Q = [2, 1]),
    cache(H = [Default, Stores])
)]
pub fn group_norm(
    x: &Tensor<f32, 3>,
    gamma: &Tensor<f32, 1>,
    beta: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 3>,
    groups: Scalar<i32>,
    eps: Scalar<f32>,
) {
    let len = x.len(1) * x.len(2);
    let per = x.len(1).cast::<i32>();
    x.same_shape(y);
    let channels = groups.cast::<i64>() * x.len(1);
    let (gamma, beta) = (gamma.slice(0, 0, channels), beta.slice(0, 0, channels));
    let xf = x.flat().chunked(0, len);
    for r in xf.axis(0).tiles(R) {
        let i = r.number();
        let mut sum = zeros::<f32>([T]);
        let mut squares = zeros::<f32>([T]);
        for t in xf.axis(1).tiles(T) {
            let v = xf.load((i, t));
            sum += v;
            squares += v * v;
        }
        let n = len.cast::<f32>();
        let mean = sum.sum() / n;
        let var = (squares.sum() / n - mean * mean).max(0.0);
        let scale = (var + eps).rsqrt();
        let first = (i.cast::<i32>() % groups) * per;
        for c in 0..per {
            let g = gamma.at(first + c) * scale;
            let b = beta.at(first + c) - mean * g;
            for t in x.axis(2).tiles(T) {
                y.store((i, c, t), x.load((i, c, t)).fma(g, b));
            }
        }
    }
}

/// The same for groups of at most 65536 elements, of which the first 57344 stay in shared memory. A thread reads again only what it copied
/// itself, so that nobody waits but for the sums. The variance is the mean of squared deviations.
#[kernel(tile(R = 1, N = 1024, U = 8192), coarsen(D of U = 8), vector(V = [4, 1]), cache(H = [Default, Stores]))]
pub fn group_norm_copied(
    x: &Tensor<f32, 2>,
    gamma: &Tensor<f32, 1>,
    beta: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 2>,
    area: Scalar<u32>,
    groups: Scalar<u32>,
    eps: Scalar<f32>,
) {
    let len = x.len(1);
    let cut = len.min(57344);
    let (head, rest) = x.split_at(1, cut);
    let (mut yhead, mut yrest) = y.split_at(1, cut);
    let per = len.cast::<u32>() / area;
    // Runs are of four elements, and every channel of every group has its own factors.
    x.chunked(1, 4);
    x.slice(1, 0, area.cast::<i64>());
    let channels = groups.cast::<i64>() * (len / area.cast::<i64>());
    let (gamma, beta) = (gamma.slice(0, 0, channels), beta.slice(0, 0, channels));
    for r in x.axis(0).tiles(R) {
        let i = r.number();
        let mut own = shared_uninit::<f32>([57344]).by_hand();
        let mine = threads(N) * 4;
        for k in 0..14 {
            own.copy_run(4, mine + k * 4096, &head, (i, mine + k * 4096));
        }
        close_copies();
        let mut more = zeros::<f32>([U]);
        for u in rest.axis(1).tiles(U) {
            more += rest.load((i, u));
        }
        await_copies(0);
        let mut sum = zeros::<f32>([N]);
        for k in 0..14 {
            sum += own.gather_run(4, mine + k * 4096).sum_axis(0);
        }
        let n = len.cast::<f32>();
        let mean = (sum.sum() + more.sum()) / n;
        let mut sum = zeros::<f32>([N]);
        let mut more = zeros::<f32>([U]);
        for u in rest.axis(1).tiles(U) {
            let d = rest.load((i, u)) - mean;
            more += d * d;
        }
        for k in 0..14 {
            let d = own.gather_run(4, mine + k * 4096) - mean;
            let squares = (d * d).sum_axis(0);
            sum += select(mine + k * 4096 < cut.cast::<i32>(), squares, 0.0);
        }
        let scale = ((sum.sum() + more.sum()) / n + eps).rsqrt();
        let first = (i.cast::<u32>() % groups) * per;
        for k in 0..14 {
            let c = ((mine + k * 4096).cast::<u32>() / area).min(per - 1) + first;
            let g = gamma.gather_in_bounds(c) * scale;
            let b = beta.gather_in_bounds(c) - g * mean;
            let v = own.gather_run(4, mine + k * 4096);
            yhead.scatter_run(4, (i, mine + k * 4096), v.fma(g.expand(0, 4), b.expand(0, 4)));
        }
        for u in rest.axis(1).tiles(U) {
            let c = (u.coords() + cut).cast::<u32>() / area + first;
            yrest.store((i, u), (rest.load((i, u)) - mean) * scale * gamma.gather(c) + beta.gather(c));
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 4>, gamma: &Tensor<f32, 1>, beta: &Tensor<f32, 1>, y: &mut Tensor<f32, 4>, g: Scalar<i32>, eps: Scalar<f32>) {
    let per = x.len(1) / g.cast::<i64>();
    let area = x.len(2) * x.len(3);
    let (rows, mut out) = (x.flat().chunked(0, per * area), y.flat().chunked(0, per * area));
    if per * area > 65536 || area % 4 != 0 || variant("read twice") {
        let (x, mut y) = (rows.flat().chunked(0, area).chunked(0, per), out.flat().chunked(0, area).chunked(0, per));
        group_norm(&x, gamma, beta, &mut y, g, eps);
    } else {
        group_norm_copied(&rows, gamma, beta, &mut out, area.cast::<u32>(), g.cast::<u32>(), eps);
    }
}

girih::challenge! {
    Challenge::new("group_normalization", solve::Program::def,
        "void solve(const float* X[N, C, H, W], const float* gamma[C], const float* beta[C], float* Y[N, C, H, W], int N, int C, int H, int W, int G, float eps)")
        .input("X", uniform(-3.0, 3.0))
        .input("gamma", uniform(0.5, 1.5))
        .input("beta", uniform(-0.5, 0.5))
        .output_all("Y", |x| {
            let (n, c, hw, g) = (x.len("N"), x.len("C"), x.len("H") * x.len("W"), x.len("G"));
            let len = c / g * hw;
            let mut out = Vec::with_capacity(n * c * hw);
            for r in 0..n * g {
                let v: Vec<f64> = (0..len).map(|i| x.at("X", r * len + i)).collect();
                let mean = v.iter().sum::<f64>() / len as f64;
                let var = v.iter().map(|a| (a - mean) * (a - mean)).sum::<f64>() / len as f64;
                for (i, a) in v.iter().enumerate() {
                    let ch = r % g * (c / g) + i / hw;
                    out.push((a - mean) / (var + x.scalar("eps")).sqrt() * x.at("gamma", ch) + x.at("beta", ch));
                }
            }
            out
        })
        .tolerance(1e-4, 1e-4)
        .check_at([
            "N=1, C=1, H=1, W=1, G=1",
            "N=2, C=6, H=3, W=5, G=3",
            "N=3, C=4, H=7, W=7, G=1",
            "N=1, C=8, H=16, W=16, G=8",
            "N=2, C=16, H=8, W=9, G=4",
            "N=1, C=4, H=33, W=65, G=2",
            "N=1, C=8, H=32, W=36, G=2",
            "N=1, C=2, H=170, W=180, G=1",
            "N=1, C=2, H=190, W=180, G=1",
        ])
        .perf_at("N=8, C=512, H=64, W=64, G=32, eps=1e-05")
        .flops(|s| 8.0 * s.size("N") * s.size("C") * s.size("H") * s.size("W"))
}
