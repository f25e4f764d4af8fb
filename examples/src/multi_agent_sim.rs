//! Boids: each agent turns towards the mean velocity of the agents within a radius of 5.
//!
//! The plane is cut into cells of 8 by 8. A launch puts each agent in front of the list of its cell, and another one walks for each agent the
//! lists of the nine cells in which its neighbours can be. Lists begin in a table, at a place that is computed from the cell's coordinates,
//! so the plane has no ends; who shares a list with another cell's agents passes over them. (Teschner et al., "Optimized Spatial Hashing for
//! Collision Detection of Deformable Objects", 2003.)

use girih::inputs::Rng;
use girih::prelude::*;

/// How far an agent sees, squared.
const SIGHT: f32 = 25.0;
/// Part of the way from the own velocity to the neighbours' in a step.
const ALIGNMENT: f32 = 0.05;

/// Part of a cell's length that is 1: a power of two, so that a coordinate's cell is exact.
const PER_LENGTH: f32 = 1.0 / 8.0;

/// The cells of coordinates along an axis.
#[device]
fn cells(coordinates: Tile<f32>) -> Tile<i32> {
    (coordinates * PER_LENGTH).floor().cast::<i32>()
}

/// Where the lists of cells begin in a table.
#[device]
fn places(x: Tile<i32>, y: Tile<i32>, heads: &Tensor<i32, 1>) -> Tile<i64> {
    let mixed = (x.cast::<u32>() * 0x9e37_79b1u32) ^ (y.cast::<u32>() * 0x85eb_ca77u32);
    let mixed = (mixed ^ (mixed >> 15)) * 0x2c1b_3c6du32;
    let mixed = mixed ^ (mixed >> 16);
    // As often each place: the product's upper half.
    ((mixed.cast::<u64>() * heads.len(0).cast::<u64>()) >> 32).cast::<i64>()
}

/// heads = an agent of each list, links = the next one behind each agent; -1 where there is none.
#[kernel(tile(T = [64, 32, 128, 256]))]
pub fn list_agents(agents: &Tensor<f32, 2>, heads: &mut Tensor<i32, 1>, links: &mut Tensor<i32, 1>) {
    for t in links.tiles([T]) {
        let [x, y] = [0, 1].map(|c| cells(agents.load((t, c))));
        let place = places(x, y, heads);
        let next = heads.exchange(place, t.coords().cast::<i32>());
        links.store(t, next);
    }
}

/// One step of all agents: x, y, vx, vy of each.
#[kernel(tile(T = [32, 16, 64]), cache(H = [Default, Loads]))]
pub fn flock(agents: &Tensor<f32, 2>, heads: &Tensor<i32, 1>, links: &Tensor<i32, 1>, next: &mut Tensor<f32, 2>) {
    agents.same_shape(next);
    for t in next.axis(0).tiles(T) {
        let [x, y, vx, vy] = agents.load((t, ..4)).unstack();
        let [mine_x, mine_y, mine_vx, mine_vy] = [x, y, vx, vy].map(|v| v.expand(0, 9));
        let which = iota::<i32>(9).expand(1, T);
        let (cell_x, cell_y) = (cells(mine_x) + (which % 3 - 1), cells(mine_y) + (which / 3 - 1));
        let (mut sum_x, mut sum_y, mut neighbours) = (zeros::<f32>([9, T]), zeros::<f32>([9, T]), zeros::<f32>([9, T]));
        let columns = iota::<i64>(4).expand(0, T).expand(0, 9);
        let mut at = heads.gather_in_bounds(places(cell_x, cell_y, heads));
        while at >= 0 {
            let [other_x, other_y, other_vx, other_vy] = agents.gather_in_bounds((at.max(0).expand(2, 4), columns)).unstack();
            let (dx, dy) = (other_x - mine_x, other_y - mine_y);
            // The agent itself is among them, and adds nothing to the sums of differences.
            let near = cells(other_x) == cell_x && cells(other_y) == cell_y && dx * dx + dy * dy < SIGHT;
            sum_x += select(near, other_vx - mine_vx, 0.0);
            sum_y += select(near, other_vy - mine_vy, 0.0);
            neighbours += select(near, full::<f32>([9, T], 1.0), 0.0);
            at = links.gather_in_bounds(at);
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
    let n = agents.len(0);
    let (mut heads, mut links) = (temp_filled([(n * 4).min(1i64 << 31)], -1i32), temp([n]));
    list_agents(agents, &mut heads, &mut links);
    flock(agents, &heads, &links, agents_next);
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
        .flops(|s| 8.0 * s.size("N"))
}
