//! Whether two strided views have a byte in common.
//!
//! The bytes of a view are `start + Σ stride·i + e` for indices `i` of its axes and `e` of its elements' bytes. Two views share a byte where
//! the difference of two such sums is that of their starts. With an index of the second view counted from its end, every term of the
//! difference is a number from 0 to some bound, times a stride that is not negative: is there a way to make a number of these?
//! The terms are tried from the largest stride on; what the smaller ones can make at most, and the greatest divisor that they have in
//! common, leave few multiples of each. Views of tensors nest, and take a handful of steps; the problem as such is a subset sum, so the
//! search is bounded, and says what it does not know. NumPy's `shares_memory` solves the same problem
//! (<https://numpy.org/doc/stable/reference/generated/numpy.shares_memory.html>).
//!
//! The host code of exported files has the same search (`program/export/may_share.cpp`), so it refuses what a launch refuses.

/// How many multiples of strides are tried, at most.
pub const MOST_STEPS: u32 = 100_000;

/// A view in memory, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strided {
    /// Where its first element begins.
    pub start: i128,
    /// Bytes of an element.
    pub width: i64,
    /// Length and stride of each axis.
    pub axes: Vec<(i64, i64)>,
}

/// What two views have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// No byte.
    Nothing,
    /// Some byte.
    Bytes,
    /// The search was given up: they may.
    Unknown,
}

impl Strided {
    /// A view whose strides count elements.
    pub fn of_elements(start: i128, width: usize, lens: &[i64], strides: &[i64]) -> Strided {
        let width = width as i64;
        Strided { start, width, axes: lens.iter().zip(strides).map(|(l, s)| (*l, s.saturating_mul(width))).collect() }
    }

    /// Its first byte and the one behind its last; both the same where it has no elements.
    pub fn range(&self) -> (i128, i128) {
        if self.axes.iter().any(|(len, _)| *len <= 0) {
            return (self.start, self.start);
        }
        let reach = |sign: i64| -> i128 {
            let ends = self.axes.iter().map(|(len, stride)| i128::from(len - 1) * i128::from(*stride));
            ends.filter(|e| e.signum() == i128::from(sign)).sum()
        };
        (self.start + reach(-1), self.start + reach(1) + i128::from(self.width))
    }

    /// Whether the view has every byte of its range, each once: axes from the smallest stride on begin where those before end.
    pub fn is_contiguous(&self) -> bool {
        let mut axes: Vec<(i64, i64)> = self.axes.iter().filter(|(len, _)| *len != 1).map(|(len, stride)| (stride.abs(), *len)).collect();
        axes.sort_unstable();
        let mut end = self.width;
        axes.into_iter().all(|(stride, len)| {
            let begins = stride == end;
            end = end.saturating_mul(len);
            begins
        })
    }

    /// What it has in common with another view.
    pub fn sharing(&self, other: &Strided) -> Sharing {
        let ((first, end), (other_first, other_end)) = (self.range(), other.range());
        if end <= other_first || other_end <= first || first == end || other_first == other_end {
            return Sharing::Nothing;
        }
        // A byte of `self` from its first one on, less a byte of `other` from its last one back, is this.
        let target = other_end - 1 - first;
        let mut terms: Vec<(i128, i128)> = vec![(1, i128::from(self.width) - 1), (1, i128::from(other.width) - 1)];
        for (len, stride) in self.axes.iter().chain(&other.axes) {
            terms.push((i128::from(*stride).abs(), i128::from(*len) - 1));
        }
        terms.retain(|(stride, most)| *stride > 0 && *most > 0);
        terms.sort_unstable_by_key(|(stride, _)| std::cmp::Reverse(*stride));
        let mut merged: Vec<(i128, i128)> = Vec::new();
        for (stride, most) in terms {
            match merged.last_mut() {
                Some(last) if last.0 == stride => last.1 += most,
                _ => merged.push((stride, most)),
            }
        }
        Search::of(&merged).from(0, target, &mut MOST_STEPS.clone())
    }
}

/// Terms from the largest stride on, with what those behind each can make.
struct Search {
    /// Stride, and how often it may be taken.
    terms: Vec<(i128, i128)>,
    /// The sum of all terms from one on, each taken as often as it may be.
    most: Vec<i128>,
    /// The greatest common divisor of the strides from one on; 0 behind the last.
    divisor: Vec<i128>,
}

impl Search {
    fn of(terms: &[(i128, i128)]) -> Search {
        let (mut most, mut divisor) = (vec![0; terms.len() + 1], vec![0; terms.len() + 1]);
        for (i, (stride, times)) in terms.iter().enumerate().rev() {
            most[i] = most[i + 1] + stride * times;
            divisor[i] = gcd(*stride, divisor[i + 1]);
        }
        Search { terms: terms.to_vec(), most, divisor }
    }

    /// Whether the terms from `at` on make `rest`.
    fn from(&self, at: usize, rest: i128, steps: &mut u32) -> Sharing {
        if rest < 0 || rest > self.most[at] || (self.divisor[at] != 0 && rest % self.divisor[at] != 0) {
            return Sharing::Nothing;
        }
        let Some((stride, times)) = self.terms.get(at) else { return Sharing::Bytes };
        let fewest = ((rest - self.most[at + 1]).max(0) + stride - 1) / stride;
        for count in fewest..=(rest / stride).min(*times) {
            if *steps == 0 {
                return Sharing::Unknown;
            }
            *steps -= 1;
            match self.from(at + 1, rest - count * stride, steps) {
                Sharing::Nothing => {}
                found => return found,
            }
        }
        Sharing::Nothing
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn bytes(view: &Strided) -> HashSet<i128> {
        let starts = view.axes.iter().fold(vec![view.start], |all, (len, stride)| {
            all.iter().flat_map(|at| (0..*len).map(move |i| at + i128::from(i) * i128::from(*stride))).collect()
        });
        starts.iter().flat_map(|at| (0..view.width).map(move |e| at + i128::from(e))).collect()
    }

    /// A stream of small numbers (Knuth's MMIX generator).
    fn numbers(mut state: u64) -> impl FnMut(u64) -> i64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as i64 % below as i64
        }
    }

    #[test]
    fn random_views_share_what_their_bytes_share() {
        let mut draw = numbers(5);
        let (mut disjoint, mut shared) = (0, 0);
        for case in 0..20_000 {
            let mut view = || {
                let axes = (0..draw(4)).map(|_| (draw(5), if draw(3) == 0 { 4 * draw(8) } else { draw(24) - 4 })).collect();
                Strided { start: i128::from(draw(60)), width: [1, 2, 4, 8][draw(4) as usize], axes }
            };
            let (a, b) = (view(), view());
            let expected = if bytes(&a).is_disjoint(&bytes(&b)) { Sharing::Nothing } else { Sharing::Bytes };
            assert_eq!(a.sharing(&b), expected, "case {case}: {a:?} and {b:?}");
            assert_eq!(b.sharing(&a), expected, "case {case}: {b:?} and {a:?}");
            *if expected == Sharing::Nothing { &mut disjoint } else { &mut shared } += 1;
        }
        assert!(disjoint > 3000 && shared > 3000, "{disjoint} and {shared}");
    }

    #[test]
    fn contiguous_views_are_their_ranges() {
        let mut draw = numbers(9);
        let mut contiguous = 0;
        for _ in 0..5000 {
            let axes = (0..1 + draw(3)).map(|_| (1 + draw(3), draw(7) - 2)).collect();
            let view = Strided { start: 0, width: 1 + draw(2), axes };
            let (first, end) = view.range();
            let all = bytes(&view);
            assert_eq!((all.iter().min(), all.iter().max()), (Some(&first), Some(&(end - 1))), "{view:?}");
            let elements = view.axes.iter().fold(view.width, |n, (len, _)| n * len);
            assert_eq!(view.is_contiguous(), all.len() as i128 == end - first && all.len() as i64 == elements, "{view:?}");
            contiguous += usize::from(view.is_contiguous());
        }
        assert!(contiguous > 100, "{contiguous}");
    }

    #[test]
    fn large_views_take_few_steps() {
        let of = |start: i128, lens: &[i64], strides: &[i64]| Strided::of_elements(start, 4, lens, strides);
        let n = 1 << 20;
        // Halves of rows, odd and even elements, one column beside all others, layers of a box.
        let pairs = [
            (of(0, &[n, 512], &[1024, 1]), of(2048, &[n, 512], &[1024, 1])),
            (of(0, &[n], &[2]), of(4, &[n], &[2])),
            (of(0, &[n, 1], &[100, 1]), of(4, &[n, 99], &[100, 1])),
            (of(0, &[64, 3, 1000], &[6000, 2000, 1]), of(4000, &[64, 3, 1000], &[6000, 2000, 1])),
        ];
        for (a, b) in pairs {
            assert_eq!((a.sharing(&b), a.sharing(&a)), (Sharing::Nothing, Sharing::Bytes), "{a:?}");
            let moved = Strided { start: b.start + 4, ..b.clone() };
            assert_eq!(a.sharing(&moved), Sharing::Bytes, "{moved:?}");
        }
    }

    #[test]
    fn what_takes_too_long_is_unknown() {
        let strides = [999_983, 999_979, 999_961, 999_959, 999_953];
        let a = Strided { start: 0, width: 1, axes: strides.iter().map(|s| (1000, *s)).collect() };
        let b = Strided { start: 1_234_567_891, width: 1, axes: vec![] };
        assert_ne!(a.sharing(&b), Sharing::Nothing);
    }
}
