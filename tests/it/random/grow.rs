//! How bodies grow: values made of others at random, in scopes as the language nests them.

use super::SEED;
use girih::inputs::Rng;
use girih::prelude::*;
use std::cell::{Cell, RefCell};

/// Values stay within this distance from zero.
const MOST: f32 = 9.0;

/// Whole and small.
pub fn small(v: Tile<f32>) -> Tile<f32> {
    v.round().clamp(-MOST, MOST)
}

#[device]
fn taken(c: Scalar<bool>, then: impl FnOnce() -> Tile<f32>, otherwise: impl FnOnce() -> Tile<f32>) -> Tile<f32> {
    if c { then() } else { otherwise() }
}

#[device]
fn chosen(c: Tile<bool>, then: impl FnOnce() -> Tile<f32>, otherwise: impl FnOnce() -> Tile<f32>) -> Tile<f32> {
    if c { then() } else { otherwise() }
}

#[device]
fn repeated(n: Scalar<i32>, first: Tile<f32>, turn: impl Fn(Tile<f32>, Scalar<i32>) -> Tile<f32>) -> Tile<f32> {
    let mut v = first;
    for k in 0..n {
        v = turn(v, k);
    }
    v
}

/// Doubles while everything is near.
#[device]
fn grown(first: Tile<f32>, turn: impl Fn(Tile<f32>) -> Tile<f32>) -> Tile<f32> {
    let mut v = first;
    let mut turns = scalar::<i32>(0);
    while turns < 4 && v.max_all() < MOST {
        v = turn(v);
        turns += 1;
    }
    v
}

/// Two variables that change places.
#[device]
fn swapped(n: Scalar<i32>, first: (Tile<f32>, Tile<f32>), turn: impl Fn(Tile<f32>, Tile<f32>) -> Tile<f32>) -> Tile<f32> {
    let (mut a, mut b) = first;
    for _ in 0..n {
        let next = turn(a, b);
        a = b;
        b = next;
    }
    a - b
}

#[device]
fn compared(which: usize, a: Tile<f32>, b: Tile<f32>) -> Tile<bool> {
    match which {
        0 => a > b,
        1 => a == b,
        _ => a <= b + 1.0,
    }
}

#[device]
fn holds(which: usize, s: Scalar<i32>) -> Scalar<bool> {
    match which {
        0 => s % 2 == 0,
        1 => s > 1,
        _ => s < 100,
    }
}

/// Whole numbers of other types, and back.
#[device]
fn elsewhere(which: usize, a: Tile<f32>, b: Tile<f32>) -> Tile<f32> {
    let (i, j) = (a.cast::<i32>(), b.cast::<i32>());
    match which {
        0 => (((i << 2) + j) >> 1).cast(),
        1 => (((i ^ j) & 7) | 1).cast(),
        2 => (i * 3 / select(j == 0, 2, j)).cast(),
        3 => (i * 5 % select(j == 0, 3, j)).cast(),
        4 => ((a.cast::<i64>() * 5_000_000_000i64 + b.cast::<i64>()) % 11i64).cast(),
        5 => (a.cast::<f16>() * 0.5 + b.cast::<f16>()).round().cast(),
        6 => (a.cast::<bf16>() - b.cast::<bf16>() * 2.0).cast(),
        7 => (a.cast::<i8>() * b.cast::<i8>() - 120i8).cast(),
        8 => (a.cast::<u8>() + b.abs().cast::<u8>() * 60u8).cast::<f32>() / 16.0,
        9 => (a.cast::<u64>().min(b.abs().cast::<u64>()) + (i.bitcast::<u32>() >> 30).cast::<u64>()).cast(),
        10 => (i.bitcast::<u32>().count_ones() + j.abs().bitcast::<u32>().leading_zeros()).cast::<f32>() / 4.0,
        _ => a.bitcast::<u32>().mul_hi(j.abs().bitcast::<u32>() << 3).cast::<f32>() / 2.0,
    }
}

/// What holds of all elements, or of some.
#[device]
fn agreed(which: usize, mask: Tile<bool>, v: Tile<f32>) -> Scalar<f32> {
    match which {
        0 => {
            if mask.all() {
                scalar(2.0)
            } else {
                scalar(-1.0)
            }
        }
        1 => {
            if mask.any() {
                v.max_all()
            } else {
                scalar(3.0)
            }
        }
        _ => mask.cast::<f32>().sum(),
    }
}

/// What a body is made of.
pub struct Grower<'a> {
    rng: RefCell<Rng>,
    /// Values so far that are in scope.
    known: RefCell<Vec<Tile<f32>>>,
    /// A value from memory, by number.
    leaf: &'a dyn Fn(usize) -> Tile<f32>,
    /// Values that only this shape has, made of others, by number: 14, 15 or 16.
    special: &'a dyn Fn(&Grower<'_>, usize, usize) -> Tile<f32>,
    scalar: Scalar<i32>,
    /// Sides of per-element choices around what is made.
    pub sides: Cell<usize>,
}

impl Grower<'_> {
    pub fn below(&self, n: usize) -> usize {
        self.rng.borrow_mut().below(n)
    }

    /// How deep a seed's body is: four sizes in turn.
    fn depth(&self) -> usize {
        SEED.get() as usize % 4 + 1
    }

    /// What the kernel stores. `GIRIH_RANDOM_VALUE=3` stores the third value that was made in place of the first result.
    pub fn results(&self) -> (Tile<f32>, Tile<f32>) {
        let (first, second) = (self.grow(self.depth()), self.grow(1));
        let asked = std::env::var("GIRIH_RANDOM_VALUE").ok().and_then(|n| n.parse::<usize>().ok());
        (asked.and_then(|n| self.known.borrow().get(n).copied()).unwrap_or(first), second)
    }

    /// A value made in a scope of its own, where these are known, too.
    fn inside(&self, depth: usize, given: &[Tile<f32>]) -> Tile<f32> {
        let outer = self.known.borrow().len();
        self.known.borrow_mut().extend(given);
        let v = self.grow(depth);
        self.known.borrow_mut().truncate(outer);
        v
    }

    fn mask(&self, depth: usize) -> Tile<bool> {
        let (a, b) = (self.grow(depth), self.grow(depth));
        let mask = compared(self.below(3), a, b);
        if self.below(4) == 0 { !mask } else { mask }
    }

    fn condition(&self, depth: usize) -> Scalar<bool> {
        let s = match self.below(3) {
            0 => self.grow(depth).max_all().cast::<i32>(),
            _ => self.scalar + self.below(3) as i32,
        };
        holds(self.below(3), s)
    }

    pub fn grow(&self, depth: usize) -> Tile<f32> {
        let known = self.known.borrow().clone();
        if !known.is_empty() && self.below(4) == 0 {
            return known[self.below(known.len())];
        }
        let v = if depth == 0 { small((self.leaf)(self.below(16))) } else { small(self.made(depth - 1)) };
        self.known.borrow_mut().push(v);
        v
    }

    fn made(&self, depth: usize) -> Tile<f32> {
        match self.below(17) {
            0 => self.grow(depth) + self.grow(depth),
            1 => self.grow(depth) - self.grow(depth),
            2 => self.grow(depth) * self.grow(depth),
            3 => self.grow(depth).max(self.grow(depth)),
            4 => select(self.mask(depth), self.grow(depth), self.grow(depth)),
            5 => {
                let mask = self.mask(depth);
                self.sides.set(self.sides.get() + 1);
                let v = chosen(mask, || self.inside(depth, &[]), || self.inside(depth, &[]));
                self.sides.set(self.sides.get() - 1);
                v
            }
            6 | 7 => {
                let condition = self.condition(depth);
                taken(condition, || self.inside(depth, &[]), || self.inside(depth, &[]))
            }
            8 => {
                let first = self.grow(depth);
                repeated(self.scalar, first, |v, k| small(self.inside(depth, &[v]) + v + k.cast::<f32>()))
            }
            9 => {
                let first = (self.grow(depth), self.grow(depth));
                swapped(self.scalar, first, |a, b| small(self.inside(depth, &[a, b]) - a))
            }
            10 if self.below(3) == 0 => {
                let first = self.grow(depth);
                grown(first, |v| small(self.inside(depth, &[v]) + v + 1.0))
            }
            10 => {
                let v = self.grow(depth);
                let total = if self.below(2) == 0 { v.sum() } else { v.min_all() };
                self.grow(depth) + total
            }
            11 | 12 => elsewhere(self.below(12), self.grow(depth), self.grow(depth)),
            13 => {
                let (mask, v) = (self.mask(depth), self.grow(depth));
                self.grow(depth) + agreed(self.below(3), mask, v)
            }
            n => (self.special)(self, n, depth),
        }
    }
}

pub fn grower<'a>(
    leaf: &'a dyn Fn(usize) -> Tile<f32>,
    special: &'a dyn Fn(&Grower<'_>, usize, usize) -> Tile<f32>,
    scalar: Scalar<i32>,
) -> Grower<'a> {
    Grower { rng: RefCell::new(Rng::new(SEED.get())), known: RefCell::default(), leaf, special, scalar, sides: Cell::new(0) }
}
