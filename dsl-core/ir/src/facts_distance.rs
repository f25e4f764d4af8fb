//! How near two launches are to each other: a schedule that was tuned for one serves the nearest others.

use super::facts::MAX_BOUND;
use super::lengths::Lengths;
use std::cmp::Ordering;

/// What an octave of an axis's bound counts, and what one of an alignment or a divisor does.
const BOUND: f64 = 1.0;
const DIVISOR: f64 = 0.25;
/// What a different kind of argument counts: packed or not, 32- or 64-bit indices, aliasing.
const KIND: f64 = 8.0;
/// How far lengths are that nobody wrote down: somewhat more than an octave of each dimension of a product.
const UNKNOWN: f64 = 4.0;

/// What schedules are tuned and chosen for: facts as their key text, and lengths where they are known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Occasion<'a> {
    /// The key text of [`crate::facts::Facts`], or a word that stands for facts.
    pub facts: &'a str,
    /// Of a launch's, or a program's, arguments.
    pub lengths: Option<&'a Lengths>,
}

impl Occasion<'_> {
    /// The distance of what a schedule was tuned for from this, in octaves: 0 for the very same.
    ///
    /// Where both lengths are known, all their octaves count (half in each tensor) and bounds, which say less, don't. A word that stands for facts
    /// promises what divides the lengths. A launch that is not
    /// aligned so takes what was tuned unaligned up to about two octaves away in each dimension before it takes what was tuned aligned at
    /// the very lengths.
    pub fn distance(&self, tuned: &Occasion) -> f64 {
        match (self.lengths, tuned.lengths) {
            (Some(own), Some(other)) if self.facts == tuned.facts && !self.facts.contains('/') => {
                DIVISOR * own.divisor_octaves(other) + own.distance(other)
            }
            (Some(own), Some(other)) => promises(self.facts, tuned.facts) + own.distance(other),
            (Some(_), None) => distance(self.facts, tuned.facts) + UNKNOWN,
            // Who asks neither for lengths nor for bounds means any: how long what was tuned is doesn't make it further.
            (None, Some(_)) if !self.facts.contains('<') => promises(self.facts, tuned.facts),
            (None, _) => distance(self.facts, tuned.facts),
        }
    }

    /// Which of two schedules is to be considered first: the nearer one; where lengths are not asked for, of equally near ones that of
    /// the longer tensors.
    pub fn order(&self, a: &Occasion, b: &Occasion) -> Ordering {
        let octaves = |o: &Occasion| if self.lengths.is_none() { o.lengths.map_or(0.0, Lengths::octaves) } else { 0.0 };
        self.distance(a).total_cmp(&self.distance(b)).then(octaves(b).total_cmp(&octaves(a)))
    }
}

/// The distance of two key texts of facts, in octaves of the lengths that blocks walk: 0 where they are equal. Alignments and divisors
/// count a quarter of that.
fn distance(a: &str, b: &str) -> f64 {
    of_arguments(a, b, BOUND)
}

/// The same without the bounds of lengths.
fn promises(a: &str, b: &str) -> f64 {
    of_arguments(a, b, 0.0)
}

fn of_arguments(a: &str, b: &str, bound: f64) -> f64 {
    let (mut a, mut b) = (a.split(' '), b.split(' '));
    let mut sum = 0.0;
    loop {
        match (a.next(), b.next()) {
            (None, None) => return sum,
            (Some(a), Some(b)) => sum += argument(a, b, bound),
            _ => sum += KIND,
        }
    }
}

/// The distance of two arguments: `16p/16x16<0x4096`, `-` for a scalar, or a word. An octave of a bound counts `bound`.
fn argument(a: &str, b: &str, bound: f64) -> f64 {
    if a == b {
        return 0.0;
    }
    let ((a, a_most), (b, b_most)) = (bounds(a), bounds(b));
    let axes = a_most.len().max(b_most.len());
    let most = |all: &[f64], k: usize| all.get(k).copied().filter(|m| *m > 0.0).unwrap_or(2.0 * MAX_BOUND as f64);
    let walked: f64 = (0..axes).map(|k| (most(&a_most, k) / most(&b_most, k)).log2().abs()).sum();
    let (x, y) = (numbers(a), numbers(b));
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let kind = if words(a) == words(b) && x.len() == y.len() { 0.0 } else { KIND };
    let divisors: f64 = x.iter().zip(&y).map(|(x, y)| (x.max(1.0) / y.max(1.0)).log2().abs()).sum();
    bound * walked + DIVISOR * divisors + kind
}

/// An argument without its bounds, and those.
fn bounds(argument: &str) -> (&str, Vec<f64>) {
    argument.split_once('<').map_or((argument, Vec::new()), |(rest, most)| (rest, numbers(most)))
}

fn numbers(text: &str) -> Vec<f64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_by_octaves() {
        let facts = |most: &str| format!("16p/16x16<0x{most} 16p/16x16 16p/16x16 i32 noalias");
        assert_eq!(distance(&facts("4096"), &facts("4096")), 0.0);
        assert_eq!(distance(&facts("4096"), &facts("512")), 3.0);
        assert!(distance(&facts("4096"), &facts("6144")) < distance(&facts("4096"), &facts("2048")));
        // Beyond the bounds that facts know.
        let long = "16p/16x16 16p/16x16 16p/16x16 i32 noalias";
        assert!(distance(long, &facts("6144")) < distance(long, &facts("512")));
    }

    #[test]
    fn what_kind_of_argument_it_is_counts_most() {
        let (odd, other) = ("4p/1x1<0x2048 4p/1x1 4p/1x1 i32 noalias", "16s/16x16@16x1<0x2048 16p/16x16 16p/16x16 i64");
        let even = "16p/16x16<0x2048 16p/16x16 16p/16x16 i32 noalias";
        assert!(distance(even, odd) < distance(even, other));
        assert!(distance(even, odd) < distance("16p/16x16<0x1 16p/16x16 16p/16x16 i32 noalias", odd));
        assert!(distance("16p/16 - i32", "16p/16 16p/16 - i32") > 0.0);
    }

    /// A product of an M x K and a K x N matrix of f32 as a launch without a schedule meets it.
    fn product(m: i64, k: i64, n: i64) -> (String, Lengths) {
        use crate::facts::{Facts, TensorArg};
        let args = [[m, k], [k, n], [m, n]].map(|lens| Some(TensorArg::packed(0, &lens)));
        (Facts::of_launch(&args, true).bounded(&[(0, 1)], &args).to_string(), Lengths::of(&args))
    }

    #[test]
    fn without_lengths_and_bounds_the_longest_tensors_come_first() {
        let (square, long) = (product(8192, 8192, 8192), product(128, 65536, 128));
        let asked = Occasion { facts: "16p/16x16 16p/16x16 16p/16x16 i32 noalias", lengths: None };
        let [square, long] = [&square, &long].map(|(facts, lengths)| Occasion { facts, lengths: Some(lengths) });
        assert_eq!(asked.order(&square, &long), Ordering::Less);
        let bounded = Occasion { facts: long.facts, lengths: None };
        assert_eq!(bounded.order(&square, &long), Ordering::Greater, "bounds that are asked for count");
    }

    #[test]
    fn programs_of_odd_lengths_take_what_was_tuned_for_odd_ones() {
        let lengths = |n: i64| Lengths::parse(&format!("{n}x{n} {n}x{n} {n}x{n}")).unwrap();
        let [odd, even, other] = [4097, 4096, 2047].map(lengths);
        let of = |lengths| Occasion { facts: "program", lengths: Some(lengths) };
        assert_eq!(of(&odd).order(&of(&other), &of(&even)), Ordering::Less);
        assert_eq!(of(&even).distance(&of(&even)), 0.0);
        let near = lengths(2048);
        assert_eq!(of(&even).order(&of(&near), &of(&odd)), Ordering::Less);
    }

    fn elementwise(n: i64) -> (String, Lengths) {
        use crate::facts::{Facts, TensorArg};
        let args = [n, n].map(|n| Some(TensorArg::packed(0, &[n])));
        (Facts::of_launch(&args, true).to_string(), Lengths::of(&args))
    }

    /// The place of the one of `tuned` that a launch takes first.
    fn taken(asked: &(String, Lengths), tuned: &[(String, Option<Lengths>)]) -> usize {
        let asked = Occasion { facts: &asked.0, lengths: Some(&asked.1) };
        let at = |i: &usize| Occasion { facts: &tuned[*i].0, lengths: tuned[*i].1.as_ref() };
        (0..tuned.len()).min_by(|a, b| asked.order(&at(a), &at(b))).unwrap()
    }

    fn known<const N: usize>(tuned: [(String, Lengths); N]) -> Vec<(String, Option<Lengths>)> {
        tuned.into_iter().map(|(facts, lengths)| (facts, Some(lengths))).collect()
    }

    #[test]
    fn skinny_products_and_long_sums_are_not_square_ones() {
        let tuned = known([product(4096, 4096, 4096), product(1, 4096, 4096), product(128, 65536, 128), product(512, 512, 512)]);
        assert_eq!(taken(&product(4096, 4096, 4096), &tuned), 0);
        assert_eq!(taken(&product(8192, 6144, 4096), &tuned), 0);
        assert_eq!(taken(&product(1, 4096, 4096), &tuned), 1);
        assert_eq!(taken(&product(16, 8192, 8192), &tuned), 1);
        assert_eq!(taken(&product(128, 32768, 256), &tuned), 2);
        assert_eq!(taken(&product(256, 512, 1024), &tuned), 3);
        // Facts know nothing of the rows.
        assert_eq!(product(16, 4096, 4096).0, product(4096, 4096, 4096).0);
    }

    #[test]
    fn alignment_yields_to_two_octaves_of_each_dimension() {
        let asked = product(4095, 4095, 4095);
        let aligned = product(4096, 4096, 4096);
        for (odd, first) in [(2047, 1), (1535, 1), (1023, 0), (511, 0)] {
            let tuned = known([aligned.clone(), product(odd, odd, odd)]);
            assert_eq!(taken(&asked, &tuned), first, "{odd}");
        }
        let tuned = known([elementwise(1 << 20), elementwise((1 << 18) + 1)]);
        assert_eq!(taken(&elementwise((1 << 20) - 1), &tuned), 1);
        let tuned = known([elementwise(1 << 20), elementwise((1 << 12) + 1)]);
        assert_eq!(taken(&elementwise((1 << 20) - 1), &tuned), 0);
    }

    #[test]
    fn elementwise_launches_of_one_kind_are_told_apart() {
        let tuned = known([elementwise(25_600), elementwise(1 << 27)]);
        assert_eq!(tuned[0].0, tuned[1].0);
        for (n, first) in [(16_000, 0), (64, 0), (1_000_000, 0), (1 << 22, 1), (1 << 28, 1)] {
            assert_eq!(taken(&elementwise(n), &tuned), first, "{n}");
        }
    }

    #[test]
    fn unknown_lengths_are_neither_near_nor_far() {
        let unknown = |m, k, n| (product(m, k, n).0, None);
        let known = |m, k, n| (product(m, k, n).0, Some(product(m, k, n).1));
        let asked = product(4096, 4096, 4096);
        assert_eq!(taken(&asked, &[unknown(4096, 4096, 4096), known(2048, 4096, 2048)]), 1);
        assert_eq!(taken(&asked, &[unknown(4096, 4096, 4096), known(16, 4096, 16)]), 0);
        // Unknown ones are told apart by what facts know.
        assert_eq!(taken(&asked, &[unknown(512, 512, 512), unknown(4096, 4096, 4096)]), 1);
    }

    #[test]
    fn without_lengths_the_longest_of_the_nearest_facts_come_first() {
        let all = [product(1024, 2048, 16), product(4096, 2048, 512), product(16, 2048, 16)];
        let tuned = all.each_ref().map(|(facts, lengths)| Occasion { facts, lengths: Some(lengths) });
        let unknown = Occasion { lengths: None, ..tuned[0] };
        assert!(tuned.iter().all(|t| t.facts == unknown.facts));
        let mut found = [tuned[0], unknown, tuned[1], tuned[2]];
        found.sort_by(|a, b| unknown.order(a, b));
        assert_eq!(found, [tuned[1], tuned[0], tuned[2], unknown]);
        let far = product(8192, 256, 8192);
        let far = Occasion { facts: &far.0, lengths: Some(&far.1) };
        assert_eq!(unknown.order(&far, &unknown), Ordering::Greater);
    }
}
