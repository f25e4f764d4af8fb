//! Discrete Fourier transforms X\[k\] = Σ x\[n\] exp(-2πi kn / N) of complex numbers, a pair of floats in one 64-bit word.
//!
//! Lines of 512 and 2048 points are transformed within a block, 8 and 16 points a thread, by steps of radix 8 and 16 (Stockham's: each step
//! leaves its results in order, so that nothing is reversed). A step's factors are computed where they are used, or read from a table that the
//! block fills before its first line. Other lengths are those of [`fourier_steps`](crate::fourier_steps).

use crate::complex::{Complex, butterfly};
use girih::prelude::*;

/// Points of a thread of a line of 512, and of one of 2048.
const E: usize = 8;
const E_OF_2048: usize = 16;

/// How far apart a block keeps its lines: multiples of 16, which [`Place`] needs, of which four lie in different banks.
const APART_512: i32 = 640;
const APART_2048: i32 = 2176;

/// The radices of the steps of such lines.
const STEPS_OF_512: &[usize] = &[8, 8, 8];
const STEPS_OF_2048: &[usize] = &[16, 16, 8];

/// Where the steps of a line's transform have their factors from.
pub trait Factors {
    /// Whether the block keeps all of them in a table.
    const KEPT: bool;
}

/// Each thread computes one root of unity for a step, and the others as its powers.
pub struct Computed;
/// A table in shared memory, each of whose factors is computed by itself.
pub struct Table;

impl Factors for Computed {
    const KEPT: bool = false;
}
impl Factors for Table {
    const KEPT: bool = true;
}

/// Room for what the threads of a block tell each other: one array, through which both parts go in turn, or two.
struct Exchange {
    re: Shared<f32>,
    im: Option<Shared<f32>>,
}

/// Where a point lies in an exchange: every 16 places leave one free, so that neither steps of eight nor runs meet in a bank.
///
/// `ahead` points behind the point i, where i % 16 + ahead % 16 is below 16: a thread's places are one register and a constant each.
#[derive(Clone, Copy)]
struct Place {
    near: Tile<i32>,
    ahead: usize,
}

impl Place {
    fn of(point: Tile<i32>, ahead: usize) -> Place {
        Place { near: point + (point >> 4), ahead: ahead + ahead / 16 }
    }

    fn index(self) -> Tile<i32> {
        self.near + self.ahead as i32
    }
}

impl Exchange {
    fn new(points: usize, arrays: usize) -> Exchange {
        let array = || shared_uninit::<f32>([points + points / 16 + 1]).by_hand();
        Exchange { re: array(), im: (arrays == 2).then(array) }
    }

    /// The numbers that are put to some places, read from others.
    fn moved(&mut self, v: &[Complex], to: &[Place], from: &[Place]) -> Vec<Complex> {
        let put = |array: &mut Shared<f32>, part: fn(&Complex) -> Tile<f32>| {
            for (v, to) in v.iter().zip(to) {
                array.scatter(to.index(), part(v));
            }
        };
        let get = |array: &Shared<f32>| from.iter().map(|from| array.gather(from.index())).collect::<Vec<_>>();
        barrier();
        put(&mut self.re, |v| v.re);
        if let Some(im) = &mut self.im {
            put(im, |v| v.im);
        }
        barrier();
        let re = get(&self.re);
        let im = match &self.im {
            Some(im) => get(im),
            None => {
                barrier();
                put(&mut self.re, |v| v.im);
                barrier();
                get(&self.re)
            }
        };
        re.into_iter().zip(im).map(|(re, im)| Complex { re, im }).collect()
    }
}

/// The factors of steps of these radices, if they are kept. The step behind transforms of `done` points takes number `r done + at` for its
/// input r at the place `at`: neighbours are neighbours here, and no two steps, whose r begin at 1, ask for the same number.
#[device]
fn table<F: Factors>(threads_of_block: usize, radices: &[usize]) -> Option<Shared<u64>> {
    F::KEPT.then(|| {
        let points: usize = radices.iter().product();
        let mut table = shared_uninit::<u64>([points]).by_hand();
        for first in (0..points).step_by(threads_of_block) {
            let number = threads(threads_of_block) + first as i32;
            let mut turns = full([threads_of_block], 0.0);
            let mut done = radices[0];
            for radix in &radices[1..] {
                let all = done * radix;
                let of_step = ((number & (done as i32 - 1)) * (number >> done.ilog2() as i32)).cast::<f32>() * (1.0 / all as f32);
                if first + threads_of_block > done {
                    turns = if first >= done { of_step } else { select(number >= done as i32, of_step, turns) };
                }
                done = all;
            }
            table.scatter(number, Complex::root(turns).words());
        }
        table
    })
}

/// What a thread has of its line: the points `j + e points / each`.
struct Line {
    points: usize,
    /// How many these are.
    each: usize,
    /// Which of the line's threads this is.
    j: Tile<i32>,
    /// Where the block keeps the line.
    first: Tile<i32>,
}

impl Line {
    fn places(&self) -> Vec<Tile<i32>> {
        (0..self.each).map(|e| self.j + (e * self.points / self.each) as i32).collect()
    }

    /// Where the block keeps them.
    fn kept(&self) -> Vec<Place> {
        (0..self.each).map(|e| Place::of(self.j + self.first, e * self.points / self.each)).collect()
    }

    /// The line's transform, of which a thread gets the same points as it brings. The first meeting of its exchange is what the table needs.
    fn transformed(&self, exchange: &mut Exchange, table: &Option<Shared<u64>>, points: Vec<Complex>, radices: &[usize]) -> Vec<Complex> {
        let mut v = points;
        let mut done = 1;
        for &radix in radices {
            let groups = self.each / radix;
            let mut to = self.kept();
            for b in 0..groups {
                let j = self.j + (b * self.points / self.each) as i32;
                let at = j & (done as i32 - 1);
                let mut inputs: Vec<Complex> = (0..radix).map(|r| v[b + r * groups]).collect();
                if done > 1 {
                    let factors = match table {
                        Some(table) => kept_factors(table, at, done, radix),
                        None => Complex::root(at.cast::<f32>() * (1.0 / (done * radix) as f32)).powers(radix),
                    };
                    inputs = inputs.into_iter().enumerate().map(|(r, v)| if r == 0 { v } else { v * factors[r] }).collect();
                }
                let first = if done == 1 { self.first + j * radix as i32 } else { self.first + at + (j - at) * radix as i32 };
                for (r, output) in butterfly(&inputs).into_iter().enumerate() {
                    v[b + r * groups] = output;
                    to[b + r * groups] = Place::of(first, r * done);
                }
            }
            done *= radix;
            if done < self.points {
                v = exchange.moved(&v, &to, &self.kept());
            }
        }
        v
    }
}

/// A step's factors from their table. The first is not used.
fn kept_factors(table: &Shared<u64>, at: Tile<i32>, done: usize, radix: usize) -> Vec<Complex> {
    let kept = |r: usize| Complex::of_words(table.gather(at + (r * done) as i32));
    (0..radix).map(|r| kept(r.max(1))).collect()
}

/// The points of a matrix at some rows and columns, zero outside.
fn points_at(x: &Tensor<u64, 2>, places: &[(Tile<i32>, Tile<i32>)]) -> Vec<Complex> {
    places.iter().map(|place| Complex::of_words(x.gather(*place).or(0))).collect()
}

/// y = the columns' transforms, of 512 points, each times exp(-2πi row column / points of all): the first half of a transform of all points.
#[kernel(
    tile(C = 4),
    threads(N = 256),
    min_blocks(Q = [2, 1, 4]),
    cache(H = [Default, Stores]),
    opt_level(L = [3, 1]),
    types(F = [Computed, Table])
)]
pub fn columns_of_512<F: Factors>(x: &Tensor<u64, 2>, y: &mut Tensor<u64, 2>) {
    let table = table::<F>(256, STEPS_OF_512);
    for c in y.axis(1).tiles(C).strided() {
        let thread = threads(256);
        // Neighbours along a row are neighbours in memory.
        let line = Line { points: 512, each: E, j: thread >> 2, first: (thread & 3) * APART_512 };
        let column = (thread & 3) + c.start().cast::<i32>();
        let places = line.places();
        let at: Vec<_> = places.iter().map(|row| (*row, column)).collect();
        let v = points_at(x, &at);
        let v = line.transformed(&mut Exchange::new(4 * APART_512 as usize, 2), &table, v, STEPS_OF_512);
        let turn = 1.0 / (512.0 * y.len(1).cast::<f32>());
        // Rows 64 apart turn by equal parts more.
        let part = |row: Tile<i32>| Complex::root((row * column).cast::<f32>() * turn);
        let (first, steps) = (part(line.j), part(full([256], 64)).powers(E));
        for (e, (v, row)) in v.into_iter().zip(places).enumerate() {
            let root = if e == 0 { first } else { first * steps[e] };
            y.scatter((row, column), (v * root).words());
        }
    }
}

/// y = the rows' transforms, of 512 points, as columns: the second half of a transform of all points.
#[kernel(
    tile(R = 4),
    threads(N = 256),
    min_blocks(Q = [2, 1, 4]),
    cache(H = [Default, Stores]),
    opt_level(L = [3, 1]),
    types(F = [Computed, Table])
)]
pub fn rows_of_512<F: Factors>(x: &Tensor<u64, 2>, y: &mut Tensor<u64, 2>) {
    let table = table::<F>(256, STEPS_OF_512);
    for r in x.axis(0).tiles(R).strided() {
        let thread = threads(256);
        let line = Line { points: 512, each: E, j: thread & 63, first: (thread >> 6) * APART_512 };
        let row = (thread >> 6) + r.start().cast::<i32>();
        let at: Vec<_> = line.places().into_iter().map(|column| (row, column)).collect();
        let v = points_at(x, &at);
        let mut exchange = Exchange::new(4 * APART_512 as usize, 2);
        let v = line.transformed(&mut exchange, &table, v, STEPS_OF_512);
        // Neighbours along a row of y are points of different lines.
        let of = Line { points: 512, each: E, j: thread >> 2, first: (thread & 3) * APART_512 };
        let row = (thread & 3) + r.start().cast::<i32>();
        for (v, k) in exchange.moved(&v, &line.kept(), &of.kept()).into_iter().zip(of.places()) {
            if row.cast::<i64>() < x.len(0) {
                y.scatter((k, row), v.words());
            }
        }
    }
}

/// y = the rows' transforms, of 2048 points.
#[kernel(
    tile(R = 1),
    grid(G = [0, 8, 6, 4]),
    threads(N = 128),
    min_blocks(Q = [2, 4, 8, 6, 1]),
    cache(H = [Default, Loads, Stores]),
    opt_level(L = [3, 1]),
    types(F = [Computed, Table])
)]
pub fn rows_of_2048<F: Factors>(x: &Tensor<u64, 2>, y: &mut Tensor<u64, 2>) {
    let table = table::<F>(128, STEPS_OF_2048);
    for r in y.axis(0).tiles(R).strided() {
        let line = Line { points: 2048, each: E_OF_2048, j: threads(128), first: full([128], 0) };
        let row = r.start().cast::<i32>().splat([128]);
        let at: Vec<_> = line.places().into_iter().map(|column| (row, column)).collect();
        let v = points_at(x, &at);
        let v = line.transformed(&mut Exchange::new(2048, 2), &table, v, STEPS_OF_2048);
        for (v, column) in v.into_iter().zip(line.places()) {
            y.scatter((row, column), v.words());
        }
    }
}

/// y = the columns' transforms, of 2048 points.
#[kernel(
    tile(C = 4),
    grid(G = [0, 2]),
    threads(N = 512),
    min_blocks(Q = [2, 1]),
    cache(H = [Default, Loads, Stores]),
    opt_level(L = [3, 1]),
    types(F = [Computed, Table])
)]
pub fn columns_of_2048<F: Factors>(x: &Tensor<u64, 2>, y: &mut Tensor<u64, 2>) {
    let table = table::<F>(512, STEPS_OF_2048);
    for c in y.axis(1).tiles(C).strided() {
        let thread = threads(512);
        let line = Line { points: 2048, each: E_OF_2048, j: thread >> 2, first: (thread & 3) * APART_2048 };
        let column = (thread & 3) + c.start().cast::<i32>();
        let at: Vec<_> = line.places().into_iter().map(|row| (row, column)).collect();
        let v = points_at(x, &at);
        let v = line.transformed(&mut Exchange::new(4 * APART_2048 as usize, 1), &table, v, STEPS_OF_2048);
        for (v, row) in v.into_iter().zip(line.places()) {
            y.scatter((row, column), v.words());
        }
    }
}
