//! Two texts side by side: lines that both have beside each other, what changed between them, and where lines were left out.

use similar::{DiffOp, TextDiff};

/// What stands between the columns of a line that both have, and of one that differs.
const SAME: &str = " | ";
const OTHER: &str = " * ";
/// The least columns of a text.
const LEAST: usize = 20;

/// Two texts in columns of a line of `width` characters, with so many lines around each change; empty where they are the same. Longer lines are
/// cut off.
pub fn beside(a: &str, b: &str, width: usize, around: usize) -> String {
    let column = (width.saturating_sub(SAME.len()) / 2).max(LEAST);
    let diff = TextDiff::from_lines(a, b);
    let (old, new): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    let mut text = String::new();
    for (number, group) in diff.grouped_ops(around).into_iter().enumerate() {
        if number > 0 {
            text += &line("..", "..", column, SAME);
        }
        for op in group {
            let (left, right) = (op.old_range(), op.new_range());
            let between = if matches!(op, DiffOp::Equal { .. }) { SAME } else { OTHER };
            for at in 0..left.len().max(right.len()) {
                let of = |lines: &[&str], range: &std::ops::Range<usize>| {
                    if at < range.len() { lines.get(range.start + at).map_or(String::new(), |l| l.to_string()) } else { String::new() }
                };
                text += &line(&of(&old, &left), &of(&new, &right), column, between);
            }
        }
    }
    text
}

fn line(a: &str, b: &str, column: usize, between: &str) -> String {
    let line = format!("{:<column$}{between}{}", cut(a, column), cut(b, column));
    format!("{}\n", line.trim_end())
}

/// The beginning of a line that fits a column.
fn cut(line: &str, column: usize) -> String {
    match line.chars().count() > column {
        true => line.chars().take(column - 1).chain(['…']).collect(),
        false => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_stand_beside_each_other() {
        let a = "one\ntwo\nthree\nfour\nfive\nsix\n";
        let b = "one\nzwei\nthree\nfour\nfive\nsix\nseven and more than a column holds\n";
        let wanted = "\
one                  | one
two                  * zwei
three                | three
..                   | ..
six                  | six
                     * seven and more than…
";
        assert_eq!(beside(a, b, 43, 1), wanted);
        assert_eq!(beside(a, a, 43, 1), "");
    }
}
