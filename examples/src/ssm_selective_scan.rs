//! The selective scan of a state-space model: 16 decaying states per channel, whose decay and input change with time.
//!
//! Exponentials are what it costs. A thread keeps the states of one channel in registers and walks through a chunk of the time axis;
//! channels are neighbours in memory, so that every access is a row. Chunks run at the same time: the first launch finds what each adds to
//! the state (its whole decay needs one exponential per state, that of the sum of its steps), the second joins what the chunks before
//! leave, walks again and writes.
//! A length that is no multiple of a chunk takes one walk from the first step to the last.

use girih::prelude::*;

/// Steps of a chunk.
const CHUNK: i64 = 256;
/// States that a thread's registers hold: the tile of all kernels below, which take at most as many.
const STATES: i64 = 16;
/// Steps that are loaded together.
const STEPS: i64 = 8;
const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// What changes with time: `[batch, chunk, step, channel or state]`.
struct Inputs {
    u: Tensor<f32, 4>,
    delta: Tensor<f32, 4>,
    b: Tensor<f32, 4>,
    /// Chunks are multiples of [`STEPS`].
    whole: bool,
}

/// Where a block is.
#[derive(Clone, Copy)]
struct Place {
    batch: TileIdx,
    chunk: TileIdx,
    channel: TileIdx,
    state: TileIdx,
    /// Tile sizes: states, channels.
    sizes: (Size, Size),
}

/// One step of a channel: how long it is and what comes in.
struct Step {
    dt: Tile<f32>,
    x: Tile<f32>,
    /// Which step of the chunk; past the end for steps that are not there.
    row: Scalar<i64>,
    /// The same, for loads: within the chunk.
    inside: Scalar<i64>,
}

#[device]
impl Inputs {
    /// Some neighbouring steps. Those past the end last no time and bring nothing in.
    fn steps(&self, at: Place, t: TileIdx) -> Vec<Step> {
        let index = (at.batch.number(), at.chunk.number(), t, at.channel);
        let (mut dt, mut x) = (self.delta.load(index), self.u.load(index));
        if !self.whole {
            let there = (t.coords() < self.u.len(2)).expand(1, at.sizes.1);
            dt = select(there, dt, 0.0);
            x = select(there, x, 0.0);
        }
        let step = |k: i64| {
            let row = t.number() * STEPS + k;
            let inside = if self.whole { row } else { row.min(self.u.len(2) - 1) };
            Step { dt: dt.pick(0, k as usize), x: x.pick(0, k as usize), row, inside }
        };
        (0..STEPS).map(step).collect()
    }

    /// The states after one step.
    fn advance(&self, h: Tile<f32>, rate: Tile<f32>, at: Place, step: &Step) -> Tile<f32> {
        let (n, d) = at.sizes;
        let b = self.b.load((at.batch.number(), at.chunk.number(), step.inside, at.state));
        decayed(h, rate, step.dt, n) + (step.dt * step.x).expand(0, n) * b.expand(1, d)
    }
}

/// States after a time. The rate is in units of ln 2.
fn decayed(h: Tile<f32>, rate: Tile<f32>, time: Tile<f32>, n: Size) -> Tile<f32> {
    (rate * time.expand(0, n)).exp2_approx() * h
}

/// What each chunk leaves of states that start at 0, and how long it is.
#[kernel(tile(N = 16, D = [32, 64, 128]), coarsen(CN of N = [16, 8, 4, 1]))]
pub fn chunk_states(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    times: &mut Tensor<f32, 3>,
    states: &mut Tensor<f32, 4>,
) {
    let inputs = Inputs { u: u.chunked(1, CHUNK), delta: delta.chunked(1, CHUNK), b: b.chunked(1, CHUNK), whole: true };
    let one = Size::from(1);
    for (i, c, d) in times.tiles([one, one, D]) {
        for n in a.axis(1).tiles(N) {
            let at = Place { batch: i, chunk: c, channel: d, state: n, sizes: (N, D) };
            let rate = LOG2_E * a.load((d, n)).t();
            let mut h = zeros::<f32>([N, D]);
            let mut time = zeros::<f32>([D]);
            for t in inputs.u.axis(2).tiles(STEPS) {
                for step in inputs.steps(at, t) {
                    h = inputs.advance(h, rate, at, &step);
                    time += step.dt;
                }
            }
            times.store((i, c, d), time.expand(0, 1).expand(0, 1));
            states.store((i, c, n, d), h.expand(0, 1).expand(0, 1));
        }
    }
}

/// The outputs of all chunks, each starting from what the ones before it leave.
#[kernel(tile(N = 16, D = [32, 64, 128]), coarsen(CN of N = [16, 8, 4, 1]))]
pub fn scan_chunks(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    c: &Tensor<f32, 3>,
    skip: &Tensor<f32, 1>,
    times: &Tensor<f32, 3>,
    states: &Tensor<f32, 4>,
    y: &mut Tensor<f32, 3>,
) {
    let inputs = Inputs { u: u.chunked(1, CHUNK), delta: delta.chunked(1, CHUNK), b: b.chunked(1, CHUNK), whole: true };
    let (outgoing, mut y) = (c.chunked(1, CHUNK), y.chunked(1, CHUNK));
    let one = Size::from(1);
    for (i, chunk, d) in times.tiles([one, one, D]) {
        for n in a.axis(1).tiles(N) {
            let at = Place { batch: i, chunk, channel: d, state: n, sizes: (N, D) };
            let rate = LOG2_E * a.load((d, n)).t();
            let mut h = zeros::<f32>([N, D]);
            // Four chunks at a time, so that their loads are in flight together.
            for group in 0..(chunk.number() + 3) / 4 {
                for k in 0..4i64 {
                    let earlier = group * 4 + k;
                    let from = earlier.min(chunk.number() - 1);
                    let left = states.load((i.number(), from, n, d));
                    let time = times.load((i.number(), from, d));
                    let joined = decayed(h, rate, time, N) + left;
                    h = if earlier < chunk.number() { joined } else { h };
                }
            }
            for t in inputs.u.axis(2).tiles(STEPS) {
                for step in inputs.steps(at, t) {
                    h = inputs.advance(h, rate, at, &step);
                    let mix = outgoing.load((i.number(), chunk.number(), step.inside, n)).expand(1, D);
                    let before = skip.load(d) * step.x;
                    y.store((i, chunk, step.row, d), (before + (h * mix).sum_axis(0)).expand(0, 1).expand(0, 1));
                }
            }
        }
    }
}

/// The outputs in one walk. `times` has one element per sequence and channel: the time that the walk took.
#[kernel(tile(N = 16, D = [32, 64, 128]), coarsen(CN of N = [16, 8, 4, 1]))]
pub fn scan_in_order(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    c: &Tensor<f32, 3>,
    skip: &Tensor<f32, 1>,
    times: &mut Tensor<f32, 3>,
    y: &mut Tensor<f32, 3>,
) {
    let length = u.len(1);
    let inputs = Inputs { u: u.chunked(1, length), delta: delta.chunked(1, length), b: b.chunked(1, length), whole: false };
    let (outgoing, mut y) = (c.chunked(1, length), y.chunked(1, length));
    let one = Size::from(1);
    for (i, chunk, d) in times.tiles([one, one, D]) {
        for n in a.axis(1).tiles(N) {
            let at = Place { batch: i, chunk, channel: d, state: n, sizes: (N, D) };
            let rate = LOG2_E * a.load((d, n)).t();
            let mut h = zeros::<f32>([N, D]);
            let mut time = zeros::<f32>([D]);
            for t in inputs.u.axis(2).tiles(STEPS) {
                for step in inputs.steps(at, t) {
                    h = inputs.advance(h, rate, at, &step);
                    time += step.dt;
                    let mix = outgoing.load((i.number(), chunk.number(), step.inside, n)).expand(1, D);
                    let before = skip.load(d) * step.x;
                    y.store((i, chunk, step.row, d), (before + (h * mix).sum_axis(0)).expand(0, 1).expand(0, 1));
                }
            }
            times.store((i, chunk, d), time.expand(0, 1).expand(0, 1));
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    c: &Tensor<f32, 3>,
    skip: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 3>,
) {
    scan_states(u, delta, &a.slice(1, 0, a.len(1).min(STATES)), b, c, skip, y);
    if a.len(1) > STATES {
        // What further states add.
        let nothing = temp_filled([u.len(2)], 0.0f32);
        let mut more = temp([u.len(0), u.len(1), u.len(2)]);
        for group in 1..(a.len(1) + STATES - 1) / STATES {
            let (first, count) = (group * STATES, (a.len(1) - group * STATES).min(STATES));
            let (a, b, c) = (a.slice(1, first, count), b.slice(2, first, count), c.slice(2, first, count));
            scan_states(u, delta, &a, &b, &c, &nothing, &mut more);
            add_to(&more, y);
        }
    }
}

/// y += x.
#[kernel(tile(R = [1, 2, 4], D = [32, 64, 128, 256]), vector(V = [1, 2, 4]))]
pub fn add_to(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    let one = Size::from(1);
    for (i, r, d) in y.tiles([one, R, D]) {
        y.store((i, r, d), y.load((i, r, d)) + x.load((i, r, d)));
    }
}

/// The outputs of up to 16 states.
#[program]
pub fn scan_states(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    c: &Tensor<f32, 3>,
    skip: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 3>,
) {
    let (batch, length, channels) = (u.len(0), u.len(1), u.len(2));
    // One chunk at least: the walk in order keeps a time, too.
    let chunks = (length / CHUNK).max(1);
    let mut times = temp([batch, chunks, channels]);
    if length % CHUNK == 0 {
        let mut left = temp([batch, chunks, scalar(STATES), channels]);
        chunk_states(u, delta, a, b, &mut times, &mut left);
        scan_chunks(u, delta, a, b, c, skip, &times, &left, y);
    } else {
        scan_in_order(u, delta, a, b, c, skip, &mut times.slice(1, 0, 1), y);
    }
}

girih::challenge! {
    Challenge::new(
        "ssm_selective_scan",
        solve::Program::def,
        "void solve(const float* u[batch, seq_len, d_model], const float* delta[batch, seq_len, d_model], const float* A[d_model, d_state], \
         const float* B[batch, seq_len, d_state], const float* C[batch, seq_len, d_state], const float* skip[d_model], \
         float* y[batch, seq_len, d_model], int batch, int seq_len, int d_model, int d_state)",
    )
    .input("u", normal(0.0, 1.0))
    .input("delta", uniform(0.01, 1.01))
    .input("A", uniform(-1.01, -0.01))
    .input("B", normal(0.0, 1.0))
    .input("C", normal(0.0, 1.0))
    .input("skip", uniform(0.0, 1.0))
    .output_all("y", expected)
    .tolerance(1e-3, 1e-3)
    .check_at([
        "batch=1 seq_len=1 d_model=1 d_state=1",
        "batch=2 seq_len=13 d_model=5 d_state=3",
        "batch=1 seq_len=33 d_model=33 d_state=16",
        "batch=1 seq_len=67 d_model=8 d_state=17",
        "batch=1 seq_len=256 d_model=7 d_state=4",
        "batch=1 seq_len=1536 d_model=3 d_state=16",
    ])
    .perf_at("batch=4, seq_len=4096, d_model=512, d_state=16")
    .flops(|s| 7.0 * s.size("batch") * s.size("seq_len") * s.size("d_model") * s.size("d_state"))
}

fn expected(x: &girih::challenge::Case) -> Vec<f64> {
    let (batch, length, channels, states) = (x.len("batch"), x.len("seq_len"), x.len("d_model"), x.len("d_state"));
    let mut y = vec![0.0; batch * length * channels];
    for (i, d) in (0..batch).flat_map(|i| (0..channels).map(move |d| (i, d))) {
        let mut h = vec![0.0; states];
        for row in i * length..(i + 1) * length {
            let (u, delta) = (x.at("u", row * channels + d), x.at("delta", row * channels + d));
            let mut sum = x.at("skip", d) * u;
            for (n, h) in h.iter_mut().enumerate() {
                *h = (delta * x.at("A", d * states + n)).exp() * *h + delta * x.at("B", row * states + n) * u;
                sum += x.at("C", row * states + n) * *h;
            }
            y[row * channels + d] = sum;
        }
    }
    y
}
