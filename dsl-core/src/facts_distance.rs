//! How near the facts of two launches are to each other: a schedule that was tuned for one serves a launch of the nearest others.

use super::facts::MAX_BOUND;

/// What an octave of an axis's bound counts, and what one of an alignment or a divisor does.
const BOUND: f64 = 1.0;
const DIVISOR: f64 = 0.25;
/// What a different kind of argument counts: packed or not, 32- or 64-bit indices, aliasing.
const KIND: f64 = 8.0;

/// The distance of two key texts of facts ([`crate::facts::Facts`] displays as one), in octaves of the lengths that blocks walk: 0 where
/// they are equal. Alignments and divisors count a quarter of that.
pub fn distance(a: &str, b: &str) -> f64 {
    let (mut a, mut b) = (a.split(' '), b.split(' '));
    let mut sum = 0.0;
    loop {
        match (a.next(), b.next()) {
            (None, None) => return sum,
            (Some(a), Some(b)) => sum += argument(a, b),
            _ => sum += KIND,
        }
    }
}

/// The distance of two arguments: `16p/16x16<0x4096`, `-` for a scalar, or a word.
fn argument(a: &str, b: &str) -> f64 {
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
    BOUND * walked + DIVISOR * divisors + kind
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
    use super::distance;

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
}
