//! Timelines as text: a line of marks for each lane, all ways on one scale.

use super::{Technique, Timeline};

/// Marks of the longest timeline.
const WIDTH: f64 = 64.0;

/// A technique's ways below each other, each beside the plainest one.
pub fn text(technique: &Technique, ways: &[Timeline], device: &str) -> String {
    let mut out = format!("{}: {}, on {device}\n", technique.name, technique.title);
    let longest = ways.iter().map(end).fold(0.0, f64::max);
    let plainest = ways.first().map_or(0.0, |w| w.us);
    for way in ways {
        let gain = if way.us > 0.0 && way.us != plainest { format!(", {:.2} x", plainest / way.us) } else { String::new() };
        out += &format!("\n  {}: {:.1} us{gain}\n", way.title, way.us);
        let name_width = way.lanes().iter().map(|l| l.len()).max().unwrap_or(0);
        for lane in way.lanes() {
            let busy = way.busy_us(lane);
            out += &format!("    {lane:<name_width$} |{}| {busy:.1} us\n", marks(way, lane, longest));
        }
    }
    out
}

fn end(way: &Timeline) -> f64 {
    way.spans.iter().map(|s| s.us.1).fold(0.0, f64::max)
}

/// A lane's work: neighbouring pieces have different marks.
fn marks(way: &Timeline, lane: &str, longest: f64) -> String {
    let mut line = vec![' '; WIDTH as usize];
    for (number, span) in way.spans.iter().filter(|s| s.lane == lane).enumerate() {
        let at = |us: f64| if longest > 0.0 { (us / longest * WIDTH) as usize } else { 0 };
        let (from, to) = (at(span.us.0).min(line.len() - 1), at(span.us.1).min(line.len()));
        line[from..to.max(from + 1)].fill(if number % 2 == 0 { '#' } else { '=' });
    }
    line.into_iter().collect::<String>().trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::Span;
    use super::*;

    fn way(title: &str, spans: &[(&str, f64, f64)]) -> Timeline {
        let span = |(lane, from, to): &(&str, f64, f64)| Span { lane: lane.to_string(), name: "x".into(), us: (*from, *to) };
        let us = spans.iter().map(|s| s.2).fold(0.0, f64::max);
        Timeline { title: title.into(), spans: spans.iter().map(span).collect(), us }
    }

    #[test]
    fn ways_have_one_scale() {
        let technique = Technique::new("t", "A title", |_, _| Ok(Vec::new()));
        let plain = way("plain", &[("copies", 0.0, 32.0), ("kernels", 32.0, 64.0)]);
        let beside = way("beside", &[("copies", 0.0, 16.0), ("copies", 16.0, 32.0), ("kernels", 16.0, 32.0)]);
        let shown = text(&technique, &[plain, beside], "a GPU");
        let line = |marks: &str, lane: &str, us: f64| format!("    {lane:<7} |{marks}| {us:.1} us\n");
        let expected = format!(
            "t: A title, on a GPU\n\n  plain: 64.0 us\n{}{}\n  beside: 32.0 us, 2.00 x\n{}{}",
            line(&"#".repeat(32), "copies", 32.0),
            line(&format!("{}{}", " ".repeat(32), "#".repeat(32)), "kernels", 32.0),
            line(&format!("{}{}", "#".repeat(16), "=".repeat(16)), "copies", 32.0),
            line(&format!("{}{}", " ".repeat(16), "#".repeat(16)), "kernels", 16.0),
        );
        assert_eq!(shown, expected);
    }
}
