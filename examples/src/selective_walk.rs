//! The selective scan of a state-space model in one walk along time, with one exponential per step and state.
//!
//! A warp keeps 16 channels of up to 16 states, a thread two channels of four: what it reads serves several of them. The warps of a block
//! share out time, eight steps each in turn. What a step does to a state, its decay and what comes in, needs no state, so every warp works
//! it out ahead, and waits for the states only to run them through its eight steps; they go on to the next warp at once (a chain). Outputs
//! are added up behind that. Inputs arrive by asynchronous copies, a few turns ahead, each warp's own: no barrier of the block stands in
//! the loop.

use girih::prelude::*;

/// Steps that a warp walks before the next one takes over.
const WALK: usize = 8;
/// Threads of a block: eight warps.
const THREADS: usize = 256;
/// Steps of a turn of all warps.
const TURN: u32 = (THREADS / 32 * WALK) as u32;
/// Elements of a row that a warp reads: its states, or its channels.
const ROW: usize = 16;
/// Turns whose inputs are on their way or there; a power of two.
const STAGES: usize = 4;
/// The last stage.
const LAST: i32 = STAGES as i32 - 1;
const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// What a thread does.
#[derive(Clone, Copy)]
struct Lane {
    /// Which of its warp it is.
    lane: Tile<i32>,
    warp: Tile<i32>,
    /// Which pair of the block's channels it keeps.
    pair: Tile<i32>,
    /// Which four states.
    quad: Tile<i32>,
}

#[device]
impl Lane {
    /// Lanes that differ in their lowest bit alone have the same states, those that differ in the next one the same channels: two such
    /// neighbours share a read of shared memory, which takes half the wavefronts.
    fn new() -> Lane {
        let lane = lanes(THREADS);
        let pair = (lane & 1) | ((lane >> 1) & 2) | ((lane >> 2) & 4);
        Lane { lane, warp: warps(THREADS), pair, quad: ((lane >> 1) & 1) | ((lane >> 2) & 2) }
    }

    /// Adds up over a channel's lanes: of the eight steps' outputs this lane gets the two from [`Lane::first_step`] on. Each exchange halves
    /// what is left to add.
    fn added_up(self, outputs: Vec<Tile<f32>>) -> Vec<Tile<f32>> {
        let mut left = outputs;
        for (bit, distance) in [(1, 2), (2, 8)] {
            let upper = ((self.quad & bit) != 0).expand(0, 2);
            let (low, high) = left.split_at(left.len() / 2);
            let halves = low.iter().zip(high);
            left = halves.map(|(l, h)| select(upper, *h, *l) + select(upper, *l, *h).shuffle_xor(distance)).collect();
        }
        left
    }

    /// The first of the two steps whose outputs this lane stores.
    fn first_step(self) -> Tile<i32> {
        (self.quad & 1) * 4 + (self.quad & 2)
    }
}

/// What a step does to the states of two channels: their decay, and what comes in.
type Step = (Tile<f32>, Tile<f32>);

/// A block's inputs: of each tensor the rows of every warp's steps, in several stages.
struct Inputs {
    delta: Shared<f32>,
    u: Shared<f32>,
    b: Shared<f32>,
    c: Shared<f32>,
}

/// Room for the rows of a tensor.
fn rows() -> Shared<f32> {
    shared_uninit::<f32>([STAGES * THREADS / 32 * WALK * ROW]).by_hand()
}

/// Where a warp's rows of a stage begin.
fn first_of(lane: Lane, stage: Scalar<i32>) -> Tile<i32> {
    (lane.warp + stage * (THREADS / 32) as i32) * (WALK * ROW) as i32
}

/// This thread's four states at a step.
fn quad(rows: &Shared<f32>, lane: Lane, stage: Scalar<i32>, step: usize) -> Tile<f32> {
    rows.gather_run(4, first_of(lane, stage) + lane.quad * 4 + (step * ROW) as i32)
}

/// This thread's two channels at a step.
fn pair(rows: &Shared<f32>, lane: Lane, stage: Scalar<i32>, step: Tile<i32>) -> Tile<f32> {
    rows.gather_run(2, first_of(lane, stage) + lane.pair * 2 + step * ROW as i32)
}

impl Inputs {
    /// What the eight steps of this warp do. The rate is in units of ln 2.
    fn steps(&self, lane: Lane, stage: Scalar<i32>, rate: Tile<f32>) -> [Step; WALK] {
        std::array::from_fn(|k| {
            let step = full([THREADS], k as i32);
            let time = pair(&self.delta, lane, stage, step);
            let inflow = time * pair(&self.u, lane, stage, step);
            ((rate * time.expand(1, 4)).exp2_approx(), inflow.expand(1, 4) * quad(&self.b, lane, stage, k).expand(0, 2))
        })
    }
}

/// The outputs of up to 16 states.
#[kernel(tile(D = 16), threads(N = 256), min_blocks(Q = [1, 2]), opt_level(O = [3, 2]))]
pub fn selective_walk(
    u: &Tensor<f32, 3>,
    delta: &Tensor<f32, 3>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 3>,
    c: &Tensor<f32, 3>,
    skip: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 3>,
) {
    u.same_shape(delta);
    u.same_shape(y);
    let (b, c) = (b.slice(0, 0, y.len(0)), c.slice(0, 0, y.len(0)));
    let one = Size::from(1);
    for (i, d) in y.axes([0, 2]).tiles([one, D]) {
        let lane = Lane::new();
        let (batch, column) = (i.number(), d.start().cast::<u32>());
        let (delta_rows, u_rows) = (rows(), rows());
        let (b_rows, c_rows) = (rows(), rows());
        let mut inputs = Inputs { delta: delta_rows, u: u_rows, b: b_rows, c: c_rows };
        // Each lane copies a quarter of a row of its warp's steps.
        let own_row = (lane.warp * WALK as i32 + (lane.lane >> 2)).cast::<u32>();
        let own_part = ((lane.lane & 3) * 4).cast::<u32>();
        let own_channel = own_part + column;
        let fetch = |inputs: &mut Inputs, turn: Scalar<u32>, stage: Scalar<i32>| {
            let to = first_of(lane, stage) + lane.lane * 4;
            let row = own_row + turn * TURN;
            inputs.b.copy_run(4, to, &b, (batch, row, own_part));
            inputs.c.copy_run(4, to, &c, (batch, row, own_part));
            inputs.delta.copy_run(4, to, delta, (batch, row, own_channel));
            inputs.u.copy_run(4, to, u, (batch, row, own_channel));
            close_copies();
        };
        for g in 0..STAGES - 1 {
            fetch(&mut inputs, scalar(g as u32), scalar(g as i32));
        }
        let mut states = chain(zeros::<f32>([Size::from(2), Size::from(4), Size::from(THREADS)]));
        let channel = ((lane.pair * 2).cast::<u32>() + column).expand(0, 2) + iota::<u32>(2).expand(1, THREADS);
        let state = (lane.quad * 4).expand(0, 4) + iota::<i32>(4).expand(1, THREADS);
        let rate = a.gather((channel.expand(1, 4), state.expand(0, 2))).or(0.0) * LOG2_E;
        let weight = skip.gather(channel).or(0.0);
        await_copies(STAGES as u32 - 2);
        warp_barrier();
        let mut stage = scalar(0i32);
        let mut steps = inputs.steps(lane, stage, rate);
        for turn in 0..((u.len(1) + (TURN as i64 - 1)) / TURN as i64).cast::<u32>() {
            // All lanes are done with the stage before.
            warp_barrier();
            fetch(&mut inputs, turn + STAGES as u32 - 1, (stage + LAST) & LAST);
            let mut h = states.take();
            let mut walked = Vec::new();
            for (decay, inflow) in steps {
                h = decay.fma(h, inflow);
                walked.push(h);
            }
            states.leave(h);
            let mix = |(k, h): (usize, Tile<f32>)| (h * quad(&inputs.c, lane, stage, k).expand(0, 2)).sum_axis(1);
            let outputs: Vec<Tile<f32>> = walked.into_iter().enumerate().map(mix).collect();
            await_copies(STAGES as u32 - 2);
            warp_barrier();
            let next = (stage + 1) & LAST;
            steps = inputs.steps(lane, next, rate);
            for (k, sum) in lane.added_up(outputs).into_iter().enumerate() {
                let step = lane.first_step() + k as i32;
                let out = weight.fma(pair(&inputs.u, lane, stage, step), sum);
                let row = (lane.warp * WALK as i32 + step).cast::<u32>() + turn * TURN;
                y.scatter((batch, row.expand(0, 2), channel), out);
            }
            stage = next;
        }
        // Those behind the last step bring zeros that nobody reads.
        await_copies(0);
    }
}
