//! The selective scan of a state-space model: 16 decaying states per channel, whose decay and input change with time.
//!
//! Exponentials are what it costs. A thread keeps the states of one channel in registers and walks through a chunk of the time axis;
//! channels are neighbours in memory, so that every access is a row. Chunks run at the same time: the first launch finds what each adds to
//! the state (its whole decay needs one exponential per state, that of the sum of its steps), the second joins what the chunks before
//! leave, walks again and writes. One step in eight has its exponentials from multiplications, which leaves the special-function unit,
//! of which they take all, an eighth less to do.

use girih::prelude::*;

/// Steps of a chunk.
const CHUNK: i64 = 256;
/// States that a thread's registers hold: the tile of all kernels below, which take at most as many.
const STATES: i64 = 16;
/// Steps that are loaded together.
const STEPS: i64 = 8;
const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// What changes with time: `[batch, step, channel or state]`.
struct Inputs<'a> {
    u: &'a Tensor<f32, 3>,
    delta: &'a Tensor<f32, 3>,
    b: &'a Tensor<f32, 3>,
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

/// One step of a channel: how long it is and what comes in.
struct Step {
    dt: Tile<f32>,
    x: Tile<f32>,
    b: Tile<f32>,
    /// For further loads.
    row: Scalar<i64>,
}

#[device]
impl Inputs<'_> {
    /// Some neighbouring steps, so that their loads are in flight together. Those past the end last no time and bring nothing in.
    fn steps(&self, at: Place, first: Scalar<i64>) -> Vec<Step> {
        let (batch, length) = (at.batch.number(), self.u.len(1));
        let mut steps = Vec::new();
        for k in 0..STEPS {
            let row = (first + k).min(length - 1);
            let (dt, x) = (self.delta.load((batch, row, at.channel)), self.u.load((batch, row, at.channel)));
            steps.push(Step { dt, x, b: self.b.load((batch, row, at.state)), row });
        }
        for k in 0..STEPS {
            let (there, step) = (first + k < length, &mut steps[k as usize]);
            step.dt = if there { step.dt } else { step.dt.like(0.0) };
            step.x = if there { step.x } else { step.x.like(0.0) };
        }
        steps
    }

    /// Groups of steps in a chunk, from a first step on.
    fn groups(&self, first: Scalar<i64>) -> Scalar<i64> {
        ((self.u.len(1) - first).min(CHUNK) + STEPS - 1) / STEPS
    }
}

/// The states after one step.
fn advance(h: Tile<f32>, decay: Tile<f32>, at: Place, step: &Step) -> Tile<f32> {
    let (n, d) = at.sizes;
    (step.dt * step.x).expand(0, n).fma(step.b.expand(1, d), decay * h)
}

/// By how much states decay in a time. The rate is in units of ln 2.
fn decay(rate: Tile<f32>, time: Tile<f32>, n: Size) -> Tile<f32> {
    (rate * time.expand(0, n)).exp2_approx()
}

/// The same from multiplications: 2^(k + f) with a polynomial for 2^f, |f| <= 1/2, wrong by less than 3e-7 of it, and k in the exponent.
fn decay_by_multiplying(rate: Tile<f32>, time: Tile<f32>, n: Size) -> Tile<f32> {
    /// Adding it rounds to an integer, which then lies in the lowest bits.
    const ROUND: f64 = 12_582_912.0;
    const POLYNOMIAL: [f64; 6] = [1.000_000_075, 0.693_147_188, 0.240_221_075, 0.055_503_571, 0.009_676_032, 0.001_339_086];
    let x = (rate * time.expand(0, n)).max(-126.0);
    let shifted = x + ROUND;
    let f = x - (shifted - ROUND);
    let power = POLYNOMIAL.iter().rev().skip(1).fold(x.like(POLYNOMIAL[5]), |sum, c| sum.fma(f, x.like(*c)));
    (power.bitcast::<i32>() + (shifted.bitcast::<i32>() << 23)).bitcast::<f32>()
}

/// What each chunk leaves of states that start at 0, and how long it is.
#[kernel(tile(N = 16, D = [32, 64, 128]), coarsen(CN of N = [16, 8]))]
pub fn chunk_states(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    times: &mut Tensor<f32, 3>,
    states: &mut Tensor<f32, 4>,
) {
    let inputs = Inputs { u, delta, b };
    let one = Size::from(1);
    for (i, c, d) in times.tiles([one, one, D]) {
        let first = c.number() * CHUNK;
        for n in a.axis(1).tiles(N) {
            let at = Place { batch: i, channel: d, state: n, sizes: (N, D) };
            let rate = a.load((d, n)).t() * LOG2_E;
            let mut h = zeros::<f32>([N, D]);
            let mut time = zeros::<f32>([D]);
            for group in 0..inputs.groups(first) {
                let steps = inputs.steps(at, first + group * STEPS);
                for (k, step) in steps.iter().enumerate() {
                    let decay = if k == 7 { decay_by_multiplying(rate, step.dt, N) } else { decay(rate, step.dt, N) };
                    h = advance(h, decay, at, step);
                    time += step.dt;
                }
            }
            times.store((i, c, d), time.expand(0, 1).expand(0, 1));
            states.store((i, c, n, d), h.expand(0, 1).expand(0, 1));
        }
    }
}

/// The outputs of all chunks, each starting from what the ones before it leave.
#[kernel(tile(N = 16, D = [32, 64, 128]), coarsen(CN of N = [16, 8]))]
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
    let inputs = Inputs { u, delta, b };
    let one = Size::from(1);
    for (i, chunk, d) in times.tiles([one, one, D]) {
        let first = chunk.number() * CHUNK;
        for n in a.axis(1).tiles(N) {
            let at = Place { batch: i, channel: d, state: n, sizes: (N, D) };
            let rate = a.load((d, n)).t() * LOG2_E;
            let mut h = zeros::<f32>([N, D]);
            // Four chunks at a time, so that their loads are in flight together.
            for group in 0..(chunk.number() + 3) / 4 {
                for k in 0..4i64 {
                    let earlier = group * 4 + k;
                    let from = earlier.min(chunk.number() - 1);
                    let left = states.load((i.number(), from, n, d));
                    let time = times.load((i.number(), from, d));
                    let joined = decay(rate, time, N) * h + left;
                    h = if earlier < chunk.number() { joined } else { h };
                }
            }
            let weight = skip.load(d);
            let batch = i.number();
            for group in 0..inputs.groups(first) {
                let row = first + group * STEPS;
                let steps = inputs.steps(at, row);
                let mixes: Vec<Tile<f32>> = steps.iter().map(|s| c.load((batch, s.row, n))).collect();
                let mut out = Vec::new();
                for (k, step) in steps.iter().enumerate() {
                    let decay = if k == 7 { decay_by_multiplying(rate, step.dt, N) } else { decay(rate, step.dt, N) };
                    h = advance(h, decay, at, step);
                    out.push(weight.fma(step.x, (h * mixes[k].expand(1, D)).sum_axis(0)));
                }
                // Steps past the end are out of range, so they are not stored.
                let eight = Size::from(STEPS as usize);
                let rows = (iota::<i64>(eight) + row).expand(0, D);
                y.scatter((batch, rows, d.coords().expand(1, eight)), stack::<f32, 8>(out.try_into().unwrap_or_else(|_| unreachable!())));
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
    let (batch, channels) = (u.len(0), u.len(2));
    let chunks = (u.len(1) + CHUNK - 1) / CHUNK;
    let mut times = temp([batch, chunks, channels]);
    let room = temp([batch, chunks, scalar(STATES), channels]);
    let mut left = room.slice(2, 0, a.len(1));
    chunk_states(u, delta, a, b, &mut times, &mut left);
    selective_chunks(u, delta, a, b, c, skip, &times, &left, y);
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
