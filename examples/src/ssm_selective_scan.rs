//! The selective scan of a state-space model: 16 decaying states per channel, whose decay and input change with time.
//!
//! A thread keeps the states of one channel in registers and walks through a chunk of the time axis; channels are neighbours in memory, so
//! that every access is a row, and what all channels share of a chunk is brought to shared memory first. Chunks run at the same time: the
//! first launch finds what each adds to the state (its whole decay needs one exponential per state, that of the sum of its steps), the
//! second joins what the chunks before leave, walks again and writes. The next steps are loaded while these are walked.

use crate::selective_walk::selective_walk;
use girih::prelude::*;

/// Steps of a chunk.
const CHUNK: i64 = 128;
/// States that a thread's registers hold: the tile of all kernels below, which take at most as many.
const STATES: i64 = 16;
/// Steps that are loaded together.
const STEPS: usize = 4;
const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// What changes with time: `[batch, step, channel or state]`.
struct Inputs<'a> {
    u: &'a Tensor<f32, 3>,
    delta: &'a Tensor<f32, 3>,
}

/// Where a block is.
#[derive(Clone, Copy)]
struct Place {
    batch: TileIdx,
    channel: TileIdx,
    state: TileIdx,
    /// Tile sizes: states, channels.
    sizes: (Size, Size),
}

/// Some neighbouring steps of a channel: how long each is, and what comes in.
type Steps = [(Tile<f32>, Tile<f32>); STEPS];

#[device]
impl Inputs<'_> {
    /// Steps from a row on, loaded together; those past the end are the last one again.
    fn steps(&self, at: Place, first: Scalar<i64>) -> Steps {
        let (batch, last) = (at.batch.number(), self.u.len(1) - 1);
        std::array::from_fn(|k| {
            let row = (first + k as i64).min(last);
            (self.delta.load((batch, row, at.channel)), self.u.load((batch, row, at.channel)))
        })
    }

    /// How long a step is: past the end no time. Asked where it is used, so that nothing waits for steps that were loaded ahead.
    fn duration(&self, row: Scalar<i64>, dt: Tile<f32>) -> Tile<f32> {
        if row < self.u.len(1) { dt } else { dt.like(0.0) }
    }

    /// Groups of steps in a chunk, from a first step on.
    fn groups(&self, first: Scalar<i64>) -> Scalar<i64> {
        ((self.u.len(1) - first).min(CHUNK) + STEPS as i64 - 1) / STEPS as i64
    }
}

/// A chunk's rows of a tensor that all channels share, in shared memory: `[step, state]`.
fn rows_of_chunk(x: &Tensor<f32, 3>, at: Place, first: Scalar<i64>) -> Shared<f32> {
    let (steps, states) = (Size::from(CHUNK as usize), at.sizes.0);
    let mut rows = shared_uninit::<f32>([steps, states]);
    let (step, state) = ((iota::<i64>(steps) + first).expand(1, states), at.state.coords().expand(0, steps));
    // Every element is stored, and no store waits for a load of its own.
    rows.store((.., ..), x.gather((at.batch.number(), step, state)).or(0.0));
    rows
}

/// The states after one step.
fn advance(h: Tile<f32>, decay: Tile<f32>, at: Place, x: Tile<f32>, b: Tile<f32>) -> Tile<f32> {
    let (n, d) = at.sizes;
    x.expand(0, n).fma(b.expand(1, d), decay * h)
}

/// By how much states decay in a time. The rate is in units of ln 2.
fn decay(rate: Tile<f32>, time: Tile<f32>, n: Size) -> Tile<f32> {
    (rate * time.expand(0, n)).exp2_approx()
}

/// What each chunk leaves of states that start at 0, and how long it is.
#[kernel(tile(N = 16, D = [128, 32, 64, 256]), coarsen(CN of N = [16, 8]), min_blocks(Q = [2, 1, 3, 4, 5, 6]), cache(H = [Default, Loads]))]
pub fn chunk_states(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    times: &mut Tensor<f32, 3>,
    states: &mut Tensor<f32, 4>,
) {
    u.same_shape(delta);
    let inputs = Inputs { u, delta };
    let one = Size::from(1);
    for (i, c, d) in times.tiles([one, one, D]) {
        let first = c.number() * CHUNK;
        for n in a.axis(1).tiles(N) {
            let at = Place { batch: i, channel: d, state: n, sizes: (N, D) };
            let rate = a.load((d, n)).t() * LOG2_E;
            let mut h = rate.like(0.0);
            let mut time = zeros::<f32>([D]);
            let inflow = rows_of_chunk(b, at, first);
            let mut steps = inputs.steps(at, first);
            for group in 0..inputs.groups(first) {
                let next = inputs.steps(at, first + (group + 1) * STEPS as i64);
                for (k, (dt, x)) in steps.into_iter().enumerate() {
                    let k = group * STEPS as i64 + k as i64;
                    let dt = inputs.duration(first + k, dt);
                    h = advance(h, decay(rate, dt, N), at, dt * x, inflow.load((k, ..)));
                    time += dt;
                }
                steps = next;
            }
            times.store((i, c, d), time.expand(0, 1).expand(0, 1));
            states.store((i, c, n, d), h.expand(0, 1).expand(0, 1));
        }
    }
}

/// The outputs of all chunks, each starting from what the ones before it leave.
#[kernel(tile(N = 16, D = [128, 32, 64, 256]), coarsen(CN of N = [16, 8]), min_blocks(Q = [2, 1, 3, 4, 5, 6]), cache(H = [Default, Loads]))]
pub fn selective_chunks(
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
    u.same_shape(delta);
    u.same_shape(y);
    let inputs = Inputs { u, delta };
    let one = Size::from(1);
    for (i, chunk, d) in times.tiles([one, one, D]) {
        let first = chunk.number() * CHUNK;
        for n in a.axis(1).tiles(N) {
            let at = Place { batch: i, channel: d, state: n, sizes: (N, D) };
            let rate = a.load((d, n)).t() * LOG2_E;
            let mut h = rate.like(0.0);
            for earlier in 0..chunk.number() {
                let (left, time) = (states.load((i.number(), earlier, n, d)), times.load((i.number(), earlier, d)));
                h = decay(rate, time, N) * h + left;
            }
            let weight = skip.load(d);
            let batch = i.number();
            let (inflow, mix) = (rows_of_chunk(b, at, first), rows_of_chunk(c, at, first));
            let mut steps = inputs.steps(at, first);
            for group in 0..inputs.groups(first) {
                let row = group * STEPS as i64;
                let next = inputs.steps(at, first + row + STEPS as i64);
                let mut out = Vec::new();
                for (k, (dt, x)) in steps.into_iter().enumerate() {
                    let k = row + k as i64;
                    let dt = inputs.duration(first + k, dt);
                    h = advance(h, decay(rate, dt, N), at, dt * x, inflow.load((k, ..)));
                    out.push(weight.fma(x, (h * mix.load((k, ..)).expand(1, D)).sum_axis(0)));
                }
                // Steps past the end are out of range, so they are not stored.
                let count = Size::from(STEPS);
                let rows = (iota::<i64>(count) + first + row).expand(0, D);
                y.scatter(
                    (batch, rows, d.coords().expand(1, count)),
                    stack::<f32, STEPS>(out.try_into().unwrap_or_else(|_| unreachable!())),
                );
                steps = next;
            }
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
    let first = a.len(1).min(STATES);
    scan_states(u, delta, &a.slice(1, 0, first), &b.slice(2, 0, first), &c.slice(2, 0, first), skip, y);
    if a.len(1) > STATES {
        // What further states add.
        let mut nothing = temp([u.len(2)]);
        nothing.fill(0.0f32);
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
    // One walk counts its steps in 32 bits, and needs asynchronous copies.
    if u.len(1) >= 1i64 << 30 || variant("two walks") {
        let (batch, channels) = (u.len(0), u.len(2));
        let chunks = (u.len(1) + CHUNK - 1) / CHUNK;
        let mut times = temp([batch, chunks, channels]);
        let room = temp([batch, chunks, scalar(STATES), channels]);
        let mut left = room.slice(2, 0, a.len(1));
        chunk_states(u, delta, a, b, &mut times, &mut left);
        selective_chunks(u, delta, a, b, c, skip, &times, &left, y);
    } else {
        selective_walk(u, delta, a, b, c, skip, y);
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
        "batch=1 seq_len=17 d_model=33 d_state=16",
        "batch=1 seq_len=9 d_model=8 d_state=17",
        "batch=1 seq_len=523 d_model=2 d_state=5",
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
