//! Bodies of so many links, each of which uses the one before several times.

use girih::prelude::*;
use std::cell::Cell;

thread_local! {
    /// How many links the kernels below get.
    pub static LINKS: Cell<usize> = const { Cell::new(1) };
}

/// Gathers at positions that the ones before give.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn gathers_min(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared::<i32>([T], 0);
        own.store(.., x.load(t));
        let mut at = x.load(t);
        for _ in 0..LINKS.get() {
            let v = own.gather(at.min(255));
            at = select(v > at, v, at + 1);
        }
        y.store(t, at);
    }
}

/// The same, clamped.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn gathers_clamp(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared::<i32>([T], 0);
        own.store(.., x.load(t));
        let mut at = x.load(t);
        for _ in 0..LINKS.get() {
            let v = own.gather(at.clamp(0, 255));
            at = select(v > at, v, at + 1);
        }
        y.store(t, at);
    }
}

/// Gathers of a tensor, at positions that nobody bounds.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn gathers_of_tensors(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let mut at = x.load(t);
        for k in 0..LINKS.get() {
            let v = x.gather(at + k as i32);
            at = select(v > at, v - 1, select(v == at, at, v + at));
        }
        y.store(t, at);
    }
}

/// Sums of gathers, each partial one looked at.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn sums_of_gathers(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, z: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let (first, mut sum) = (x.load(t), x.load(t));
        for k in 0..LINKS.get() {
            sum += x.gather(first * 2 + k as i32);
            z.atomic_add(first, sum);
        }
        y.store(t, sum);
    }
}

/// No memory at all: values used more than once.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn values(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let (mut a, mut b) = (x.load(t), x.load(t) + 1);
        for _ in 0..LINKS.get() {
            let c = a <= b;
            (a, b) = (select(c, b + 1, a), select(c, a, b + 1));
        }
        y.store(t, a);
    }
}

/// Choices among values of which some are absent, never the same.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn selects(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let first = x.load(t);
        let (mut a, mut b) = (x.gather(first), x.gather(first + 1));
        for k in 0..LINKS.get() {
            let c = a + k as i32 > b;
            (a, b) = (select(c, x.gather(first + k as i32), b), select(c, a, first));
        }
        y.store(t, a + b);
    }
}

/// Choices per element, of loads on their sides.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn sides(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let mut a = x.load(t);
        for k in 0..LINKS.get() {
            a = if a > k as i32 { x.gather(a) + a } else { x.load(t) - a };
        }
        y.store(t, a);
    }
}

/// Branches on scalars, whose sides are absent at different places.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn branches(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, s: Scalar<i32>) {
    for t in y.tiles([T]) {
        let mut a = x.load(t);
        for k in 0..LINKS.get() {
            a = if s > k as i32 { x.gather(a) + a } else { a.max(x.gather(a - 1)) };
        }
        y.store(t, a);
    }
}

/// Reads of a window, at places that depend on a scalar, and choices among them.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn windows(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let near = x.window(t, [(2, 2)], Boundary::Zero);
        let mut a = x.load(t);
        for k in 0..LINKS.get() {
            let v = near.at(k as i64 % 5 - 2);
            a = select(v > a, v - a, a * v + a);
        }
        y.store(t, a);
    }
}

/// Values carried through loops, one loop behind the other.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn carries(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, s: Scalar<i32>) {
    for t in y.tiles([T]) {
        let mut a = x.load(t);
        for _ in 0..LINKS.get() {
            let b = x.gather(a);
            for k in 0..s {
                a = select(b > a, b + k, a + a);
            }
        }
        y.store(t, a);
    }
}

/// Numbers of the host's, each made of the one before twice.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn numbers(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, s: Scalar<i64>) {
    let mut n = s;
    for _ in 0..LINKS.get() {
        n = n * n + n;
    }
    for t in y.tiles([T]) {
        y.store(t, x.load(t) + n.cast::<i32>());
    }
}

/// Scalars that the GPU computes, each made of the one before several times.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn scalars(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, s: Scalar<i32>) {
    for t in y.tiles([T]) {
        let mut n = s + x.at(0);
        for k in 0..LINKS.get() {
            n = select(n > k as i32, n * n + n, n - 1);
        }
        y.store(t, x.load(t) + n);
    }
}

/// Rows that are spread over a tile, each made of the one before several times.
#[kernel(tile(R = [64, 16], T = [64, 32]), coarsen(CR of R = [1, 4], C of T = [1, 4]), vector(V = [1, 4]))]
pub fn spread(u: &Tensor<i32, 1>, x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    for (r, t) in y.tiles([R, T]) {
        let (mut row, mut sum) = (u.load(r), x.load((r, t)));
        for _ in 0..LINKS.get() {
            row = select(row > 1, row * row, row + 1);
            sum += row.expand(1, T);
        }
        y.store((r, t), sum + row.expand(1, T));
    }
}

/// Old values of updates, which decide about the next ones.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn updates(x: &Tensor<i32, 1>, z: &mut Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let mut at = x.load(t);
        for _ in 0..LINKS.get() {
            let old = z.fetch_add(at, at + 1);
            at = select(old > at, old, at + 1);
        }
        y.store(t, at);
    }
}

/// All of the above.
pub fn all() -> Vec<girih_core::registry::KernelDef> {
    let defs = girih_core::registry::kernels().into_iter().filter(|d| d.module.ends_with("random::links"));
    let all: Vec<_> = defs.collect();
    assert!(all.len() >= 14, "{} kernels of links", all.len());
    all
}
