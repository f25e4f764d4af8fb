//! Element types that authors define, in kernels: pairs, complex numbers, a prime field; against plain Rust.

use super::evaluator::{Given, floats, ints, kernel, noise};
use super::language::{has, ir};
use super::launches::{Launch, Placement, Shape, best_facts};
use super::nvrtc;
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// A maximum with the sum of exponentials relative to it.
#[derive(Clone, Copy, Debug, PartialEq, TileType)]
pub struct MaxSum {
    pub max: f32,
    pub sum: f32,
}

impl MaxSum {
    const IDENTITY: MaxSum = MaxSum { max: f32::NEG_INFINITY, sum: 0.0 };
}

#[device]
fn join(a: MaxSumScalar, b: MaxSumScalar) -> MaxSumScalar {
    let max = a.max.max(b.max);
    let part = |of: MaxSumScalar| if of.max == f32::NEG_INFINITY { scalar(0.0) } else { of.sum * (of.max - max).exp() };
    MaxSumScalar { max, sum: part(a) + part(b) }
}

#[kernel(tile(R = [4], C = [64]), coarsen(CC of C = [1, 2]))]
pub fn online_softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut stats = MaxSum::IDENTITY.tile([R]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let tile = MaxSumTile { max: v, sum: v.like(1.0) };
            stats = stats.zip(tile.commutative().reduce_axis(1, MaxSum::IDENTITY, join), join);
        }
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            y.store((r, c), (v - stats.max.expand(1, C)).exp() / stats.sum.expand(1, C));
        }
    }
}

/// A complex number.
#[derive(Clone, Copy, Debug, PartialEq, TileType)]
pub struct Complex {
    pub re: f32,
    pub im: f32,
}

impl std::ops::Mul for ComplexScalar {
    type Output = ComplexScalar;
    fn mul(self, b: ComplexScalar) -> ComplexScalar {
        ComplexScalar { re: self.re * b.re - self.im * b.im, im: self.re * b.im + self.im * b.re }
    }
}

/// The product of each row, of numbers whose components lie along the last axis.
#[kernel(tile(R = [4], C = [32]))]
pub fn complex_products(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut all = Complex { re: 1.0, im: 0.0 }.tile([R, C]);
        for c in x.axis(1).tiles(C) {
            let [re, im] = x.load((r, c, ..2)).unstack();
            all *= ComplexTile { re, im };
        }
        let product = all.reduce_axis(1, Complex { re: 1.0, im: 0.0 }, |a, b| a * b);
        y.store((r, ..2), stack([product.re, product.im]));
    }
}

/// p = 2³¹ − 2²⁴ + 1.
const P: u32 = 0x7f00_0001;

/// An element of the KoalaBear field in Montgomery form: `v` stands for v / 2³² modulo p.
#[derive(Clone, Copy, Debug, PartialEq, TileType)]
pub struct KoalaBear {
    pub v: u32,
}

impl KoalaBear {
    const ZERO: KoalaBear = KoalaBear { v: 0 };
    /// 2³² modulo p.
    const ONE: KoalaBear = KoalaBear { v: ((1u64 << 32) % P as u64) as u32 };
}

#[device]
impl std::ops::Add for KoalaBearScalar {
    type Output = KoalaBearScalar;
    fn add(self, b: KoalaBearScalar) -> KoalaBearScalar {
        let sum = self.v + b.v;
        KoalaBearScalar { v: if sum >= P { sum - P } else { sum } }
    }
}

#[device]
impl std::ops::Mul for KoalaBearScalar {
    type Output = KoalaBearScalar;
    /// Montgomery's reduction of the product: −p⁻¹ modulo 2³² is p − 2, because p is 1 modulo 2²⁴.
    fn mul(self, b: KoalaBearScalar) -> KoalaBearScalar {
        let product = self.v.cast::<u64>() * b.v.cast::<u64>();
        let factor = product.cast::<u32>() * MINUS_INVERSE;
        let sum = product + factor.cast::<u64>() * P as u64;
        let high = (sum >> 32).cast::<u32>();
        KoalaBearScalar { v: if high >= P { high - P } else { high } }
    }
}

/// −p⁻¹ modulo 2³², by Newton's iteration.
const MINUS_INVERSE: u32 = {
    let (mut inverse, mut i) = (1u32, 0);
    while i < 5 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(P.wrapping_mul(inverse)));
        i += 1;
    }
    inverse.wrapping_neg()
};

/// The sum and the product of each column of a matrix over the field.
#[kernel(tile(R = [16], C = [32]), coarsen(CR of R = [1, 2]))]
pub fn field_columns(x: &Tensor<u32, 2>, sums: &mut Tensor<u32, 1>, products: &mut Tensor<u32, 1>) {
    for c in x.axis(1).tiles(C) {
        let (mut sum, mut product) = (KoalaBear::ZERO.tile([R, C]), KoalaBear::ONE.tile([R, C]));
        for r in x.axis(0).tiles(R) {
            let v = KoalaBearTile { v: x.load((r, c)) };
            sum += v;
            product *= v;
        }
        sums.store(c, sum.commutative().reduce_axis(0, KoalaBear::ZERO, |a, b| a + b).v);
        products.store(c, product.commutative().reduce_axis(0, KoalaBear::ONE, |a, b| a * b).v);
    }
}

/// A sum since the last mark, and whether there is one.
#[derive(Clone, Copy, Debug, PartialEq, TileType)]
pub struct Marked {
    pub marked: bool,
    pub sum: i32,
}

impl Marked {
    const NONE: Marked = Marked { marked: false, sum: 0 };
}

#[device]
fn after_mark(a: MarkedScalar, b: MarkedScalar) -> MarkedScalar {
    MarkedScalar { marked: a.marked || b.marked, sum: if b.marked { b.sum } else { a.sum + b.sum } }
}

/// What each row adds up to from its last multiple of seven on, and whether it has one.
#[kernel(tile(R = [4], C = [64]), coarsen(CC of C = [1, 2]))]
pub fn sums_after_marks(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut all = Marked::NONE.scalar().splat([R]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let tile = MarkedTile { marked: v % 7 == 0, sum: v };
            all = all.zip(tile.reduce_axis(1, Marked::NONE, after_mark), after_mark);
        }
        y.store((r, ..2), stack([select(all.marked, 1, 0), all.sum]));
    }
}

#[test]
fn components_may_be_conditions() {
    let (rows, cols) = (5, 101);
    let x: Vec<i32> = (0..(rows * cols) as u32).map(|i| (i.wrapping_mul(2654435761) >> 20) as i32 + 1 - (i as i32 / 101 % 2)).collect();
    let given = [Given::I(x.clone(), vec![rows as i64, cols as i64]), Given::I(vec![-1; rows * 2], vec![rows as i64, 2])];
    let after = ints(&kernel(sums_after_marks::Kernel::def(), &given)[1]);
    for (got, row) in after.chunks(2).zip(x.chunks(cols)) {
        let last = row.iter().rposition(|v| v % 7 == 0);
        let sum: i32 = row[last.unwrap_or(0)..].iter().sum();
        assert_eq!(got, [last.is_some() as i32, sum]);
    }
    lowers(sums_after_marks::Kernel::def(), &[&[5, 101], &[5, 2]], |i| (i as u32).wrapping_mul(2654435761) >> 8);
}

#[test]
fn derived_types_are_reduced_carried_and_zipped() {
    let text = ir(online_softmax::Kernel::def());
    has(&text, &["by (a_max, a_sum, b_max, b_sum) from (-inf, 0.0) in any order {"]);
    let (rows, cols) = (5, 101);
    let x: Vec<f32> = noise(rows * cols).iter().map(|v| v * 30.0).collect();
    let lens = vec![rows as i64, cols as i64];
    let after = kernel(online_softmax::Kernel::def(), &[Given::F(x.clone(), lens.clone()), Given::F(vec![9.0; x.len()], lens)]);
    for (got, row) in floats(&after[1]).chunks(cols).zip(x.chunks(cols)) {
        let max = row.iter().fold(f64::NEG_INFINITY, |m, v| m.max(*v as f64));
        let sum: f64 = row.iter().map(|v| (*v as f64 - max).exp()).sum();
        for (got, v) in got.iter().zip(row) {
            let want = (*v as f64 - max).exp() / sum;
            assert!((*got as f64 - want).abs() <= 1e-5 * want, "{got} {want}");
        }
    }
}

#[test]
fn operators_on_scalar_forms_work_on_tiles() {
    let (rows, cols) = (3, 75);
    let x = noise(rows * cols * 2);
    let given = [Given::F(x.clone(), vec![rows as i64, cols as i64, 2]), Given::F(vec![9.0; rows * 2], vec![rows as i64, 2])];
    let after = floats(&kernel(complex_products::Kernel::def(), &given)[1]);
    for (got, row) in after.chunks(2).zip(x.chunks(cols * 2)) {
        let product = |(re, im): (f64, f64), z: &[f32]| {
            let (a, b) = (z[0] as f64, z[1] as f64);
            (re * a - im * b, re * b + im * a)
        };
        let (re, im) = row.chunks(2).fold((1.0, 0.0), product);
        let size = re.hypot(im);
        assert!((got[0] as f64 - re).hypot(got[1] as f64 - im) <= 1e-4 * size, "{got:?} {re} {im}");
    }
}

#[test]
fn a_prime_field_is_ordinary_rust() {
    let (rows, cols) = (37, 41);
    let values: Vec<u32> = (0..(rows * cols) as u32).map(|i| i.wrapping_mul(2654435761) % (P - 1) + 1).collect();
    let montgomery = |v: u32| ((v as u64) << 32) as u128 % P as u128;
    let x: Vec<i32> = values.iter().map(|v| montgomery(*v) as i32).collect();
    let lens = vec![rows as i64, cols as i64];
    let given = [Given::I(x, lens), Given::i(vec![-1; cols]), Given::i(vec![-1; cols])];
    let after = kernel(field_columns::Kernel::def(), &given);
    let (sums, products) = (ints(&after[1]), ints(&after[2]));
    for c in 0..cols {
        let column = || (0..rows).map(|r| values[r * cols + c] as u64);
        let sum = column().sum::<u64>() % P as u64;
        let product = column().fold(1, |a, b| a * b % P as u64);
        assert_eq!((sums[c] as u128, products[c] as u128), (montgomery(sum as u32), montgomery(product as u32)), "column {c}");
    }
}

/// Warp instructions after which a launch of these sizes is taken for endless.
const FUEL: u64 = 20_000_000;

/// Some schedules of a kernel on one shape, its first tensor filled with these words, under no facts and under all where they hold: the
/// simulator leaves what the evaluator leaves.
pub fn lowers(def: KernelDef, lens: &[&[i64]], words: impl Fn(usize) -> u32) -> Kernel {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let shape = Shape { lens: lens.iter().map(|l| l.to_vec()).collect(), scalars: vec![None; lens.len()] };
    let input = kernel.params[0].name.clone();
    for (facts, placement) in [(Facts::none(&kernel), Placement::Strided), (best_facts(&kernel), Placement::Aligned)] {
        let mut launch = Launch::new(&kernel, &shape, placement, 1);
        launch.set(&kernel, &input, &|i| u64::from(words(i)));
        if !launch.facts(&kernel).imply(&facts) {
            continue;
        }
        for schedule in Space::new(&kernel, &facts, Target::h200()).sample(16, 1) {
            let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            let wrong = launch.disagreement(&kernel, &simt, FUEL);
            assert!(wrong.is_none(), "{} {} with {facts}: {}", kernel.name, schedule.short(&kernel), wrong.unwrap_or_default());
        }
    }
    kernel
}

#[test]
fn derived_types_are_lowered_and_compiled() {
    let unit = |i: usize| (((i as u32).wrapping_mul(2654435761) >> 8) as f32 / (1 << 24) as f32).clamp(0.0, 1.0);
    let rows: &[i64] = &[16, 112];
    // Moduli near one: products of a hundred keep their size.
    let near_one = |i: usize| if i.is_multiple_of(2) { 0.6 + 0.8 * unit(i) } else { unit(i) - 0.5 };
    let kernels = [
        lowers(online_softmax::Kernel::def(), &[rows, rows], |i| (unit(i) * 30.0).to_bits()),
        lowers(complex_products::Kernel::def(), &[&[16, 48, 2], &[16, 2]], |i| near_one(i).to_bits()),
        lowers(field_columns::Kernel::def(), &[&[48, 80], &[80], &[80]], |i| (i as u32).wrapping_mul(2654435761) % P),
    ];
    nvrtc::accepts(&kernels);
}
