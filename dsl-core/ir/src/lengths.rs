//! Lengths: how long a launch's tensors are. Schedules are chosen by them; cubins are compiled for facts alone, never for lengths.

use crate::facts::TensorArg;
use std::fmt;

/// The length of every axis of every tensor argument, in the order of the parameters.
///
/// Its text has an argument a word: `8192x6144 6144x4096 8192x4096 -`, where `-` is a scalar and `.` a tensor without axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lengths(pub Vec<Option<Vec<i64>>>);

/// What an octave of one axis of one tensor counts. A dimension usually occurs in two tensors.
const OCTAVE: f64 = 0.5;
/// What stands for the logarithm of an empty axis's length: an octave below that of a single element.
const EMPTY: f64 = -1.0;
/// The distance of lengths that are not of the same kernel.
const INCOMPARABLE: f64 = 64.0;

impl Lengths {
    /// Those of a launch's arguments (`None` for scalars).
    pub fn of(args: &[Option<TensorArg>]) -> Lengths {
        Lengths(args.iter().map(|a| a.as_ref().map(|a| a.lens.clone())).collect())
    }

    /// Reads the text.
    ///
    /// # Errors
    /// The word that is no argument.
    pub fn parse(text: &str) -> Result<Lengths, String> {
        text.split_whitespace().map(argument).collect::<Result<_, _>>().map(Lengths)
    }

    /// The lengths that stand for these and those a little shorter ([`round_up`]): there are few of them, so that launches of ever new
    /// lengths meet what was chosen before.
    pub fn class(&self) -> Lengths {
        Lengths(self.0.iter().map(|a| a.as_ref().map(|lens| lens.iter().copied().map(round_up).collect())).collect())
    }

    /// How far other lengths are from these: half of the octaves between the lengths of each axis of each tensor, summed. 0 where they
    /// are equal.
    pub fn distance(&self, other: &Lengths) -> f64 {
        let mut sum = 0.0;
        if self.0.len() != other.0.len() {
            return INCOMPARABLE;
        }
        for (a, b) in self.0.iter().zip(&other.0) {
            match (a, b) {
                (None, None) => {}
                (Some(a), Some(b)) if a.len() == b.len() => {
                    sum += a.iter().zip(b).map(|(a, b)| (octave(*a) - octave(*b)).abs()).sum::<f64>() * OCTAVE;
                }
                _ => return INCOMPARABLE,
            }
        }
        sum
    }

    /// How far other lengths are from these in what divides them, as facts tell of packed tensors ([`crate::facts::Facts::of_launch`]): the octaves
    /// between the powers of two, up to 16, that divide each axis of each tensor, summed. 0 for lengths of another kernel, which are far in any case.
    pub fn divisor_octaves(&self, other: &Lengths) -> f64 {
        let axes = |l: &Lengths| -> Vec<i64> { l.0.iter().flatten().flatten().copied().collect() };
        let (a, b) = (axes(self), axes(other));
        let power = |len: i64| len.trailing_zeros().min(4) as f64;
        if a.len() == b.len() { a.iter().zip(&b).map(|(a, b)| (power(*a) - power(*b)).abs()).sum() } else { 0.0 }
    }

    /// The logarithms of all lengths, summed, in octaves: it orders lengths by how much there is to do.
    pub fn octaves(&self) -> f64 {
        self.0.iter().flatten().flatten().map(|len| octave(*len)).sum()
    }
}

/// The logarithm of a length to the base of 2.
fn octave(len: i64) -> f64 {
    if len > 0 { (len as f64).log2() } else { EMPTY }
}

/// A length rounded up, so that few are left and none is far above the length: to the next power of two, above 64 to the next multiple of
/// an eighth of that.
pub fn round_up(len: i64) -> i64 {
    if len < 1 {
        return len;
    }
    let power = (len as u64).next_power_of_two();
    let step = if power > 64 { power / 8 } else { power };
    (len as u64).next_multiple_of(step) as i64
}

fn argument(word: &str) -> Result<Option<Vec<i64>>, String> {
    let wrong =
        || format!("`{word}` is no argument's lengths: write 8192x6144 for a tensor, `-` for a scalar, `.` for a tensor without axes");
    match word {
        "-" => Ok(None),
        "." => Ok(Some(Vec::new())),
        _ => word.split('x').map(|len| len.parse().ok().filter(|l| *l >= 0).ok_or_else(wrong)).collect::<Result<_, _>>().map(Some),
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let word = |a: &Option<Vec<i64>>| match a {
            None => "-".to_string(),
            Some(lens) if lens.is_empty() => ".".to_string(),
            Some(lens) => lens.iter().map(i64::to_string).collect::<Vec<_>>().join("x"),
        };
        f.write_str(&self.0.iter().map(word).collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::TensorFacts;

    fn lengths(text: &str) -> Lengths {
        Lengths::parse(text).unwrap()
    }

    #[test]
    fn lengths_survive_their_text() {
        let text = "8192x6144 0 - .";
        let found = lengths(text);
        assert_eq!(found, Lengths(vec![Some(vec![8192, 6144]), Some(vec![0]), None, Some(vec![])]));
        assert_eq!(found.to_string(), text);
        assert_eq!(Lengths::of(&[Some(TensorArg::packed(0, &[2, 3])), None]), lengths("2x3 -"));
        for wrong in ["4 8x", "any", "-3"] {
            assert!(Lengths::parse(wrong).unwrap_err().contains("is no argument's lengths: write"), "{wrong}");
        }
    }

    #[test]
    fn classes_round_as_bounds_do() {
        let bound = |len: i64| {
            let mut facts = TensorFacts::of(&TensorArg::packed(0, &[len]));
            facts.bound(0, len);
            facts.most[0] as i64
        };
        for len in [1, 2, 3, 33, 64, 65, 100, 1000, 1023, 1024, 1025, 5000, 65536] {
            assert_eq!(round_up(len), bound(len), "{len}");
        }
        assert_eq!((round_up(0), round_up(100_000_000)), (0, 100_663_296));
        assert_eq!(lengths("1023x1025 0 -").class(), lengths("1024x1280 0 -"));
        let class = lengths("777x5 31").class();
        assert_eq!(class.class(), class);
    }

    #[test]
    fn odd_lengths_are_far_from_those_of_vectors() {
        let square = |n: i64| lengths(&format!("{n}x{n} -"));
        assert_eq!(square(4097).divisor_octaves(&square(4096)), 8.0);
        assert_eq!(square(4097).divisor_octaves(&square(1023)), 0.0);
        assert_eq!(square(4096).divisor_octaves(&square(48)), 0.0);
        assert_eq!(square(4).divisor_octaves(&square(0)), 4.0, "16 divides 0");
    }

    #[test]
    fn a_dimension_of_two_tensors_counts_an_octave() {
        let product = |m: i64, k: i64, n: i64| lengths(&format!("{m}x{k} {k}x{n} {m}x{n}"));
        assert_eq!(product(4096, 512, 64).distance(&product(4096, 512, 64)), 0.0);
        assert_eq!(product(4096, 512, 64).distance(&product(4096, 1024, 64)), 1.0);
        assert_eq!(product(4096, 512, 64).distance(&product(2048, 1024, 128)), 3.0);
        assert_eq!(lengths("0").distance(&lengths("1")), 0.5);
        assert_eq!(lengths("0").distance(&lengths("0")), 0.0);
        assert_eq!(lengths("8 -").distance(&lengths("8 8")), INCOMPARABLE);
        assert!(product(4096, 4096, 4096).octaves() > product(1, 65536, 4096).octaves());
    }
}
