//! Two texts side by side: lines that both have beside each other, what changed between them, and where lines were left out.

use similar::{DiffOp, TextDiff};

/// What stands between the columns of a line that both have, and of one that differs.
const SAME: &str = " | ";
const OTHER: &str = " * ";
/// The least columns of a text.
const LEAST: usize = 20;

/// Two texts in columns of a line of `width` characters, with so many lines around each change; empty where they are the same. Longer lines are
/// folded.
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
    let (a, b) = (folded(a, column), folded(b, column));
    let row = |at: usize| {
        let of = |rows: &[String]| rows.get(at).cloned().unwrap_or_default();
        format!("{}\n", format!("{:<column$}{between}{}", of(&a), of(&b)).trim_end())
    };
    (0..a.len().max(b.len())).map(row).collect()
}

/// A line in as many rows as it takes, the further ones indented as far as the first and a little more.
fn folded(line: &str, column: usize) -> Vec<String> {
    let indent = line.chars().take_while(|c| *c == ' ').count().min(column / 2) + 2;
    let (mut rows, mut row) = (Vec::new(), String::new());
    for c in line.chars() {
        if row.chars().count() == column {
            rows.push(std::mem::replace(&mut row, " ".repeat(indent)));
        }
        row.push(c);
    }
    rows.push(row);
    rows
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
                     * seven and more than
                     *   a column holds
";
        assert_eq!(beside(a, b, 43, 1), wanted);
        assert_eq!(beside(a, a, 43, 1), "");
    }
}
