//! Elements of results that are not as expected, and the walk that finds the first few of them.

use crate::cores::in_parts;
use crate::subject::challenge::Sizes;
use std::fmt;

/// Differing elements that are told of: enough to see a pattern.
const TOLD: usize = 4;

/// An element that is not as expected.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The tensor's name.
    pub tensor: String,
    /// The element's place along each axis.
    pub index: Vec<i64>,
    /// What was found there.
    pub found: f64,
    /// What is expected there.
    pub expected: f64,
    /// By how much it may be off; 0 where results are exact.
    pub allowed: f64,
}

impl Difference {
    /// Element `i` (row-major) of a tensor with these lengths.
    pub(crate) fn new(name: &str, lens: &[i64], i: usize, (found, expected): (f64, f64), allowed: f64) -> Difference {
        let mut index = Vec::new();
        let mut rest = i as i64;
        for len in lens.iter().rev() {
            index.push(rest % len);
            rest /= len;
        }
        index.reverse();
        Difference { tensor: name.into(), index, found, expected, allowed }
    }

    /// By how much it is off.
    pub fn error(&self) -> f64 {
        (self.found - self.expected).abs()
    }

    /// `off by 1.0e-3, 2.0e-5 allowed`
    pub fn beside_tolerance(&self) -> String {
        match self.allowed {
            0.0 => format!("off by {:.1e}, must be equal", self.error()),
            allowed => format!("off by {:.1e}, {allowed:.1e} allowed", self.error()),
        }
    }
}

/// `` `y[3, 5]` is 1.5, expected 2.5 ``
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let index: Vec<String> = self.index.iter().map(i64::to_string).collect();
        write!(f, "`{}[{}]` is {:?}, expected {:?}", self.tensor, index.join(", "), self.found, self.expected)
    }
}

/// Why the tensors after a call are not as expected.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Mismatch {
    /// Elements of one tensor: the first few, at least one.
    Elements(Vec<Difference>),
    /// Something else, in words.
    Other(String),
}

impl Mismatch {
    /// One sentence: the first difference, or what else it is.
    pub fn sentence(&self, sizes: &Sizes) -> String {
        match self {
            Mismatch::Elements(found) => format!("{}, at {sizes}", found[0]),
            Mismatch::Other(what) => what.clone(),
        }
    }
}

impl From<String> for Mismatch {
    fn from(what: String) -> Mismatch {
        Mismatch::Other(what)
    }
}

/// Asks for the differences at every number below `count`, or at about `samples` of them; the first few are the error.
pub(crate) fn each_or_sampled(
    count: usize,
    samples: Option<usize>,
    check: impl Fn(usize, &mut Vec<Difference>) + Sync,
) -> Result<(), Mismatch> {
    let sampled = samples.filter(|samples| samples + 128 < count).map(|samples| {
        let mut rng = crate::subject::inputs::Rng::new(count as u64);
        // The ends are where tails go wrong; of rows, whose references cost much, few are sampled.
        let ends = samples.clamp(2, 64);
        let drawn: Vec<usize> = (0..samples).map(|_| rng.below(count)).collect();
        (0..ends).chain(count - ends..count).chain(drawn).collect::<Vec<usize>>()
    });
    let mut found = match sampled {
        Some(places) => of_parts(places.len(), |i, found| check(places[i], found)),
        None if count < 1 << 16 => first_few(0..count, &check),
        None => of_parts(count, check),
    };
    found.truncate(TOLD);
    if found.is_empty() { Ok(()) } else { Err(Mismatch::Elements(found)) }
}

/// Every number below `count`, on all cores: the first few differences of each part.
fn of_parts(count: usize, check: impl Fn(usize, &mut Vec<Difference>) + Sync) -> Vec<Difference> {
    in_parts(count, |range| first_few(range, &check)).into_iter().flatten().collect()
}

fn first_few(numbers: std::ops::Range<usize>, check: &impl Fn(usize, &mut Vec<Difference>)) -> Vec<Difference> {
    let mut found = Vec::new();
    for number in numbers {
        check(number, &mut found);
        if found.len() >= TOLD {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_differences_are_told() {
        let lens = [100_000, 2];
        let check = |i: usize, found: &mut Vec<Difference>| {
            if i >= 7 {
                found.push(Difference::new("y", &lens, i, (1.0, 2.5), 0.5));
            }
        };
        for count in [100, 200_000] {
            let Err(Mismatch::Elements(found)) = each_or_sampled(count, None, check) else { panic!("there are differences") };
            let places: Vec<&[i64]> = found.iter().map(|d| d.index.as_slice()).collect();
            assert_eq!(places, [[3, 1], [4, 0], [4, 1], [5, 0]]);
        }
        assert_eq!(each_or_sampled(7, None, check), Ok(()));
        let one = Difference::new("y", &lens, 7, (1.0, 2.5), 0.5);
        assert_eq!(format!("{one}: {}", one.beside_tolerance()), "`y[3, 1]` is 1.0, expected 2.5: off by 1.5e0, 5.0e-1 allowed");
        assert_eq!(Difference { allowed: 0.0, ..one }.beside_tolerance(), "off by 1.5e0, must be equal");
    }
}
