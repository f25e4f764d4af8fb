//! Loops that add up dots and do other things in the same turn, in a random order and number.

use super::SEED;
use girih::inputs::Rng;
use girih::prelude::*;
use std::cell::RefCell;

/// Draws what a turn does.
struct Draw(RefCell<Rng>);

impl Draw {
    fn new(salt: u64) -> Draw {
        Draw(RefCell::new(Rng::new(SEED.get() * 31 + salt)))
    }

    fn below(&self, n: usize) -> usize {
        self.0.borrow_mut().below(n)
    }

    /// One time in `n`.
    fn one_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[device]
fn guarded(c: Scalar<bool>, before: Tile<i32>, then: impl FnOnce() -> Tile<i32>) -> Tile<i32> {
    if c { then() } else { before }
}

/// Integers wrap, so every order of a sum gives the same. A turn has two steps of a matrix instruction, so that turns may overlap.
/// What is rarely legal is each knob's first choice, and so a part of every run.
#[kernel(
    tile(M = [16, 32], N = [32, 16], K = 64),
    coarsen(CM of M = [1, 2, 4], CN of N = [1, 4]),
    vector(V = [16, 1, 4]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [2, 1, 3]),
    copy(P = [Mbarriers, Registers, Async, Overlap]),
    grid(G = [0, 1]),
    split(Z = [1, 2, 0]),
    slices(Y = [1, 2])
)]
pub fn random_turn(
    a: &Tensor<i8, 2>,
    b: &Tensor<i8, 2>,
    u: &Tensor<i32, 1>,
    y: &mut Tensor<i32, 2>,
    log: &mut Tensor<i32, 1>,
    s: Scalar<i32>,
) {
    let d = Draw::new(0);
    let logs = d.one_in(4);
    for (m, n) in y.tiles([M, N]) {
        // Sums alone in half of the bodies: these can be shared and walked element by element.
        let rich = SEED.get() % 2 == 1;
        let mut acc = if d.one_in(2) { zeros::<i32>([M, N]) } else { y.load((m, n)) };
        let mut other = full::<i32>([M, N], 1);
        let mut count = scalar::<i32>(0);
        for k in a.axis(1).tiles(K) {
            let (left, right) = (a.load((m, k)), b.load((k, n)));
            let at = match d.below(4) {
                0 => k.number(),
                1 => k.start(),
                2 => k.end() - s.cast::<i64>(),
                _ => k.number() * k.start(),
            };
            let at = at.cast::<i32>();
            acc = match d.below(if rich { 6 } else { 3 }) {
                0 => dot(left, right, acc),
                1 => acc + dot(left, right, zeros::<i32>([M, N])) * (at + 1),
                2 => dot(left, right, dot(left, right, acc)) - u.load(n).expand(0, M),
                3 => dot(left, right, acc * 3 + 1),
                4 => guarded(at % 3 != s, acc, || dot(left, right, acc) + count),
                _ => dot(left, right, acc.max(other)),
            };
            if d.one_in(3) {
                acc += a.load((m, k)).cast::<i32>().sum_axis(1).expand(1, N);
            }
            if d.one_in(3) {
                acc += select(u.load(n).expand(0, M) > at, u.load(n).expand(0, M), 2);
            }
            if d.one_in(4) {
                let near = k.coords().cast::<i32>().expand(1, N);
                acc += select(near % 3 == 0, right.cast::<i32>(), 0).sum_axis(0).expand(0, M);
            }
            if rich && d.one_in(2) {
                other = match d.below(3) {
                    0 => other.max(acc),
                    1 => other + acc.max_axis(1).expand(1, N),
                    _ => other * 2 + count,
                };
            }
            if rich && d.one_in(2) {
                count += if d.one_in(2) { at } else { scalar(1) };
            }
            if rich && logs {
                log.atomic_add(0, 1);
            }
        }
        if d.one_in(3) {
            for k in a.axis(1).tiles(K) {
                other = match d.below(3) {
                    0 => other + k.number().cast::<i32>(),
                    1 => dot(a.load((m, k)), b.load((k, n)), other),
                    _ => other + b.load((k, n)).cast::<i32>().max_axis(0).expand(0, M),
                };
            }
        }
        y.store((m, n), acc + other * 5 + count);
    }
}

/// Dots of two depths whose tiles the schedule chooses: what a turn adds does not depend on them.
#[kernel(
    tile(M = [16, 32], N = [32, 16], K = [32, 64], J = [32, 16, 8]),
    coarsen(CM of M = [1, 2], CN of N = [1, 4]),
    vector(V = [1, 4]),
    unit(U = [Ffma, Mma]),
    warps(W = [1, 2]),
    operands(O = [Direct, Shared, Transposed]),
    stages(S = [1, 2, 3]),
    copy(P = [Async, Registers]),
    split(Z = [1, 3]),
    slices(Y = [1, 2])
)]
pub fn random_depths(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, w: &Tensor<i8, 2>, y: &mut Tensor<i32, 2>, s: Scalar<i32>) {
    let d = Draw::new(1);
    for (m, n) in y.tiles([M, N]) {
        let (mut acc, mut sum) = (zeros::<i32>([M, N]), zeros::<i32>([M]));
        for k in a.axis(1).tiles(K) {
            let (left, right) = (a.load((m, k)), b.load((k, n)));
            acc = dot(left, right, acc);
            if d.one_in(3) {
                acc = dot(left, right, acc);
            }
            if d.one_in(3) {
                sum += left.cast::<i32>().sum_axis(1);
            }
        }
        if d.one_in(2) {
            for j in w.axis(0).tiles(J) {
                let right = w.load((j, n));
                match d.below(3) {
                    0 => acc += right.cast::<i32>().sum_axis(0).expand(0, M),
                    1 => sum += right.cast::<i32>().max_axis(1).sum() + s,
                    _ => acc += select(j.coords().expand(1, N) % 5i64 == 1i64, right.cast::<i32>(), 3).sum_axis(0).expand(0, M),
                }
            }
        }
        y.store((m, n), acc + sum.expand(1, N));
    }
}

/// Products that warp groups may make, with other things between them: of operands that both lie along the sum.
#[kernel(
    tile(M = 64, N = [32, 16], K = 32),
    coarsen(CM of M = 8, CN of N = 4),
    vector(V = [16, 4]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = 4),
    stages(S = [2, 1, 3]),
    copy(P = [Tensor, Async, Registers]),
    slices(Y = [1, 2])
)]
pub fn random_group(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, u: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>, s: Scalar<i32>) {
    let d = Draw::new(3);
    for (m, n) in y.tiles([M, N]) {
        // Sums alone in half of the bodies.
        let rich = SEED.get() % 2 == 1;
        let mut acc = if rich && d.one_in(2) { y.load((m, n)) } else { zeros::<i32>([M, N]) };
        let mut most = full::<i32>([M], 1);
        for k in a.axis(1).tiles(K) {
            let (left, right) = (a.load((m, k)), b.load((n, k)).t());
            let at = k.number().cast::<i32>();
            acc = match d.below(if rich { 5 } else { 3 }) {
                0 => dot(left, right, acc),
                1 => acc + dot(left, right, zeros::<i32>([M, N])) * (at + s),
                2 => dot(left, right, dot(left, right, acc)),
                3 => dot(left, right, acc * 3 + at),
                _ => guarded(at % 3 != s, acc, || dot(left, right, acc)),
            };
            if d.one_in(2) {
                acc += select(u.load(n).expand(0, M) > at, u.load(n).expand(0, M), 2);
            }
            if d.one_in(3) {
                acc += a.load((m, k)).cast::<i32>().sum_axis(1).expand(1, N);
            }
            if rich && d.one_in(2) {
                most = most.max(acc.max_axis(1));
            }
        }
        y.store((m, n), acc + most.expand(1, N));
    }
}

/// Elements that matrix units multiply.
pub trait Multiplied: Float {
    /// What a dot takes of numbers that it holds exactly.
    fn operand(x: Tile<Self>) -> Tile<Self> {
        x
    }
}

impl Multiplied for f16 {}
impl Multiplied for bf16 {}
impl Multiplied for f32 {
    fn operand(x: Tile<f32>) -> Tile<f32> {
        x.round_tf32()
    }
}

/// Two dots of two shapes, the second of what a random body makes of the first one's sums. All numbers are whole, or halves, and small: every
/// order of a sum gives the same.
#[kernel(
    types(T = [f16, bf16, f32]),
    tile(M = [32, 16, 64], N = [16, 32], E = [16, 32], D = [32, 8, 16]),
    coarsen(CM of M = [1, 2, 4], CD of D = [1, 4]),
    vector(V = [1, 4, 8]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2, 4]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async])
)]
pub fn random_pair<T: Multiplied>(
    q: &Tensor<i8, 2>,
    k: &Tensor<i8, 2>,
    v: &Tensor<i8, 2>,
    u: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 2>,
    s: Scalar<i32>,
) {
    let d = Draw::new(2);
    // Of few values, which all formats hold.
    let few = |x: Tile<f32>| x.round().clamp(-2.0, 2.0);
    for (m, c) in y.tiles([M, D]) {
        let mut acc = if d.one_in(3) { y.load((m, c)).round() } else { zeros::<f32>([M, D]) };
        let mut most = full::<f32>([M], -2.0);
        let mut total = zeros::<f32>([M]);
        let side = d.below(3);
        for n in k.axis(0).tiles(N) {
            let mut scores = zeros::<f32>([M, N]);
            if d.one_in(2) {
                for e in q.axis(1).tiles(E) {
                    scores = dot(T::operand(q.load((m, e)).cast()), T::operand(k.load((n, e)).cast()).t(), scores);
                }
            } else {
                for e in q.axis(1).tiles(E) {
                    let part = dot(T::operand(q.load((m, e)).cast()), T::operand(k.load((n, e)).cast()).t(), zeros::<f32>([M, N]));
                    scores += part * 2.0;
                }
            }
            let there = (n.coords() < k.len(0)).expand(0, M);
            let mut weights = select(there, few(scores / 512.0), 0.0);
            for _ in 0..d.below(4) {
                weights = match d.below(6) {
                    0 => weights.max(u.load(m).round().clamp(-2.0, 2.0).expand(1, N)),
                    1 => select(n.coords().expand(0, M) % 3i64 == 0i64, weights, -weights),
                    2 => weights.min(most.expand(1, N)),
                    3 => few(weights * 3.0 - weights.max_axis(1).expand(1, N)),
                    4 => select(m.coords().expand(1, N) > n.coords().expand(0, M), weights, 1.0),
                    _ => few(weights + s.cast::<f32>()),
                };
            }
            if d.one_in(2) {
                total += weights.sum_axis(1);
            }
            let next = most.max(weights.max_axis(1));
            let v = v.load((n, c));
            let values = (if d.one_in(2) { v } else { -v }).cast();
            let left = T::operand(select(there, weights, 0.0).cast());
            acc = match side {
                0 => dot(left, T::operand(values), acc),
                1 => acc + dot(left, T::operand(values), zeros::<f32>([M, D])),
                _ => dot(left, T::operand(values), select((next > most).expand(1, D), acc * 0.5, acc).round()),
            };
            if d.one_in(3) {
                acc += few(scores / 1024.0).sum_axis(1).expand(1, D);
            }
            most = next;
        }
        y.store((m, c), acc + total.expand(1, D) + most.expand(1, D));
    }
}
