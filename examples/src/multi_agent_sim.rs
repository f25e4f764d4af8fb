//! Boids: each agent turns towards the mean velocity of the agents within a radius of 5.
//!
//! All pairs are looked at: a block has a few agents, and its warps share out the others, 32 at a time, from shared memory. Neighbours are
//! rare, so the loop over pairs only notes them, one bit each; their velocities are read behind it.

use girih::inputs::Rng;
use girih::prelude::*;

/// How far an agent sees, squared.
const SIGHT: f32 = 25.0;
/// Part of the way from the own velocity to the neighbours' in a step.
const ALIGNMENT: f32 = 0.05;

/// One step of all agents: x, y, vx, vy of each.
#[kernel(tile(P = [8, 4, 16, 32], T = [32, 64]), coarsen(C of T = [1, 2]), cache(H = [Default, Loads]))]
pub fn flock(agents: &Tensor<f32, 2>, next: &mut Tensor<f32, 2>) {
    let count = agents.len(0).cast::<i32>();
    for t in next.axis(0).tiles(T) {
        let [x, y, vx, vy] = agents.load((t, ..4)).unstack();
        let [mine_x, mine_y, mine_vx, mine_vy] = [x, y, vx, vy].map(|v| v.expand(0, P));
        let part = (iota::<i32>(P) * 32).expand(1, T);
        let (mut xs, mut ys) = (shared::<f32>([32 * P], 0.0), shared::<f32>([32 * P], 0.0));
        let (mut sum_x, mut sum_y, mut neighbours) = (zeros::<f32>([P, T]), zeros::<f32>([P, T]), zeros::<f32>([P, T]));
        for k in agents.axis(0).tiles(32 * P) {
            xs.store(.., agents.load((k, 0)));
            ys.store(.., agents.load((k, 1)));
            let mut near = zeros::<u32>([P, T]);
            for other in 0..32 {
                let (dx, dy) = (xs.gather(part + other) - mine_x, ys.gather(part + other) - mine_y);
                near |= select(dx * dx + dy * dy < SIGHT, full::<u32>([P, T], 1u32 << other), 0);
            }
            let first = part + k.start().cast::<i32>();
            let left = (count - first).clamp(0, 32).cast::<u32>();
            near = near & select(left == 32, full::<u32>([P, T], u32::MAX), (full::<u32>([P, T], 1) << left) - 1);
            while near != 0 {
                // The agent itself is among them, and adds nothing to the sums of differences.
                let at = first + (31 - near.leading_zeros().cast::<i32>());
                sum_x += agents.gather_in_bounds((at, 2)) - mine_vx;
                sum_y += agents.gather_in_bounds((at, 3)) - mine_vy;
                neighbours += 1.0;
                near = near ^ (full::<u32>([P, T], 0x8000_0000) >> near.leading_zeros());
            }
        }
        let others = (neighbours.sum_axis(0) - 1.0).max(1.0);
        let turned = |v: Tile<f32>, sum: Tile<f32>| v + sum.sum_axis(0) / others * ALIGNMENT;
        let (vx, vy) = (turned(vx, sum_x), turned(vy, sum_y));
        next.store((t, ..4), stack([x + vx, y + vy, vx, vy]));
    }
}

/// What the judge calls.
#[program]
pub fn solve(agents: &Tensor<f32, 2>, agents_next: &mut Tensor<f32, 2>) {
    flock(agents, agents_next);
}

/// Positions and velocities as the judge draws them; few agents are drawn nearer to each other, about two within sight of each.
fn drawn(lens: &[i64], i: usize) -> f64 {
    let range = if i % 4 < 2 && lens[0] < 10_000 { 3.0 * (lens[0] as f64).sqrt() } else { 1000.0 };
    (2.0 * Rng::new(i as u64).unit() - 1.0) * range
}

girih::challenge! {
    Challenge::new("multi_agent_sim", solve::Program::def, "void solve(const float* agents[N, 4], float* agents_next[N, 4], int N)")
        .input("agents", formula(drawn))
        .output_rows("agents_next", |x, i| {
            let [px, py, vx, vy] = [0, 1, 2, 3].map(|c| x.at("agents", 4 * i + c));
            let sees = |&j: &usize| j != i && (x.at("agents", 4 * j) - px).powi(2) + (x.at("agents", 4 * j + 1) - py).powi(2) < 25.0;
            let seen: Vec<usize> = (0..x.len("N")).filter(sees).collect();
            let mean = |c, own| if seen.is_empty() { own } else { seen.iter().map(|j| x.at("agents", 4 * j + c)).sum::<f64>() / seen.len() as f64 };
            let (vx, vy) = (vx + 0.05 * (mean(2, vx) - vx), vy + 0.05 * (mean(3, vy) - vy));
            vec![px + vx, py + vy, vx, vy]
        })
        .tolerance(1e-5, 1e-5)
        // Three roundings of numbers of up to 1000: what comes out near 0 keeps them.
        .rounding(|_| 3.0 * 1000.0 * 2f64.powi(-24))
        .check_at(["N=0", "N=1", "N=2", "N=33", "N=260"])
        .perf_at("N=10_000")
        .flops(|s| 8.0 * s.size("N").powi(2))
}
