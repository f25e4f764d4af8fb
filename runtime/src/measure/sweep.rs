//! Sweeps: many shapes of one operation, kept in a file, and what came out as two numbers: how fast they are beside a peer on average, and
//! at worst.
//!
//! ```text
//! # Products in f32.
//! [ffma]
//! matrix_multiplication M=4096 N=4096 K=4096
//! batched_matrix_multiplication BATCH=32 M=256 N=256 K=256   # small ones
//! ```
//! A line names a challenge and its sizes; what it leaves out is as at the challenge's perf size. Averages are those of a group.

use crate::subject::challenge::Sizes;
use nom::branch::alt;
use nom::bytes::complete::{take_till1, take_while1};
use nom::character::complete::{char, space0};
use nom::combinator::{all_consuming, map, opt, rest};
use nom::sequence::{delimited, pair, preceded, terminated};
use nom::{IResult, Parser};

/// One shape.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The group: `ffma`.
    pub group: String,
    /// The challenge or kernel.
    pub name: String,
    /// Its sizes.
    pub sizes: Sizes,
}

/// A line's content.
enum Line<'a> {
    Group(&'a str),
    Shape(&'a str, &'a str),
    Nothing,
}

/// Reads a sweep's text.
///
/// # Errors
/// The first line that is none of group, shape, comment and nothing, or a shape before the first group.
pub fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let (mut entries, mut group) = (Vec::new(), None);
    for (number, text) in text.lines().enumerate() {
        let at = |e: String| format!("line {}: {e}", number + 1);
        let (_, line) = all_consuming(line).parse(text.trim()).map_err(|_| {
            at(format!("`{}` is no shape: write a group, as in [ffma], or a name and sizes, as in gemm M=64 N=64 K=64", text.trim()))
        })?;
        match (line, &group) {
            (Line::Nothing, _) => {}
            (Line::Group(name), _) => group = Some(name.to_string()),
            (Line::Shape(..), None) => return Err(at("a shape stands before the first group: write one, as in [ffma]".into())),
            (Line::Shape(name, sizes), Some(group)) => {
                entries.push(Entry { group: group.clone(), name: name.to_string(), sizes: Sizes::parse(sizes).map_err(at)? });
            }
        }
    }
    Ok(entries)
}

fn line(text: &str) -> IResult<&str, Line<'_>> {
    let name = |c: char| c.is_ascii_alphanumeric() || "_:<>,".contains(c);
    let group = map(delimited(char('['), take_while1(name), char(']')), Line::Group);
    let sizes = opt(take_till1(|c: char| c == '#'));
    let shape = map(pair(terminated(take_while1(name), space0), sizes), |(n, s): (_, Option<&str>)| Line::Shape(n, s.unwrap_or("")));
    let content = map(opt(alt((group, shape))), |l| l.unwrap_or(Line::Nothing));
    terminated(content, (space0, opt(preceded(char('#'), rest)))).parse(text)
}

/// A group's result: speeds in parts of a peer's, or any other rates.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// How many went into it.
    pub count: usize,
    /// The geometric mean.
    pub mean: f64,
    /// The lowest.
    pub worst: f64,
    /// Which one that was.
    pub worst_name: String,
}

/// The mean and the worst of some rates with their names; `None` without any.
pub fn summary(rates: &[(String, f64)]) -> Option<Summary> {
    let (worst_name, worst) = rates.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.clone();
    let mean = (rates.iter().map(|(_, r)| r.ln()).sum::<f64>() / rates.len() as f64).exp();
    Some(Summary { count: rates.len(), mean, worst, worst_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_read() {
        let text = "# all\n\n[ffma]  # units\nproduct M=4 N=2_000 # one\n a::b<f32,NT>\n[mma]\nproduct M=1, N=2\n";
        let found: Vec<(String, String, String)> =
            parse(text).unwrap().into_iter().map(|e| (e.group, e.name, e.sizes.to_string())).collect();
        let wanted = [("ffma", "product", "M=4 N=2000"), ("ffma", "a::b<f32,NT>", ""), ("mma", "product", "M=1 N=2")];
        assert_eq!(found, wanted.map(|(g, n, s)| (g.to_string(), n.to_string(), s.to_string())));
    }

    #[test]
    fn other_lines_are_errors() {
        let error = |text| parse(text).unwrap_err();
        assert_eq!(error("product M=1"), "line 1: a shape stands before the first group: write one, as in [ffma]");
        assert!(error("[a]\n= 3").starts_with("line 2: `= 3` is no shape: write a group"), "{}", error("[a]\n= 3"));
        assert_eq!(error("[a]\nproduct M"), "line 2: `M` is no size: write NAME=NUMBER, as in N=1000");
    }

    #[test]
    fn summaries_have_the_geometric_mean_and_the_worst() {
        let rates = [("a".to_string(), 0.5), ("b".to_string(), 2.0), ("c".to_string(), 1.0)];
        let found = summary(&rates).unwrap();
        assert!((found.mean - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!((found.worst, found.worst_name.as_str(), found.count), (0.5, "a", 3));
        assert_eq!(summary(&[]), None);
    }
}
