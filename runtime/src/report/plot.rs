//! Plots as inline SVG: axes with round ticks, points that lead to what they stand for, lines and bars.

use super::html::escaped;
use crate::explain::units::plain;
use crate::techniques::Timeline;
use std::fmt::Write;

/// The drawing's size, and the room that the axes' texts take.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// The width of a letter on a phone, where texts are large (`style.css`), about: bars leave room for that.
const LETTER: f64 = 13.0;
/// Letters of running text that a plot has room for, on a phone too.
const LINE: usize = 60;

/// How numbers lie along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    Linear,
    /// For positive numbers.
    Log,
}

/// An axis of a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    label: String,
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis that has room for all of some numbers.
    pub fn of(label: &str, scale: Scale, numbers: impl Iterator<Item = f64>) -> Axis {
        let usable = numbers.filter(|x| x.is_finite() && (scale == Scale::Linear || *x > 0.0));
        let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 10.0) };
        // One number, or equal ones, lie in the middle.
        let (low, high) = match scale {
            Scale::Log => (low / 1.15, high * 1.15),
            Scale::Linear => (low - 0.05 * (high - low).max(1.0), high + 0.05 * (high - low).max(1.0)),
        };
        Axis { label: label.to_string(), scale, low, high }
    }

    /// The share of the axis in front of a number.
    fn share(&self, x: f64) -> f64 {
        match self.scale {
            Scale::Linear => (x - self.low) / (self.high - self.low),
            Scale::Log => (x / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// Round numbers inside of the axis.
    fn ticks(&self) -> Vec<f64> {
        let step = 10f64.powf(((self.high - self.low).max(1e-12) / 5.0).log10().floor());
        let linear = |by: f64| (0..=60).map(|i| ((self.low / by).ceil() + f64::from(i)) * by).take_while(|x| *x <= self.high).collect();
        let evenly = || [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| linear(step * m)).find(|t: &Vec<f64>| t.len() <= 7).unwrap_or_default();
        if self.scale == Scale::Linear {
            return evenly();
        }
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let parts: &[f64] = if (self.high / self.low).log10() > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = decades.flat_map(|d| parts.iter().map(move |p| p * 10f64.powi(d)));
        let inside: Vec<f64> = all.filter(|x| (self.low..=self.high).contains(x)).collect();
        // An axis within one decade may have none of these.
        if inside.len() < 2 { evenly() } else { inside }
    }
}

/// A plot that is being drawn.
pub struct Plot {
    x: Axis,
    y: Axis,
    body: String,
}

impl Plot {
    /// A plot with its axes.
    pub fn new(x: Axis, y: Axis) -> Plot {
        let mut plot = Plot { x, y, body: String::new() };
        plot.axes();
        plot
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM))
    }

    fn draw(&mut self, element: String) {
        writeln!(self.body, "{element}").expect("a String takes all text");
    }

    fn axes(&mut self) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in self.x.ticks() {
            let (x, _) = self.at(tick, self.y.low);
            self.draw(format!(r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom}"/>"#));
            self.draw(format!(r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#, bottom + 16.0, plain(tick)));
        }
        for tick in self.y.ticks() {
            let (_, y) = self.at(self.x.low, tick);
            self.draw(format!(r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>"#));
            self.draw(format!(r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#, LEFT - 6.0, y + 4.0, plain(tick)));
        }
        self.draw(format!(r#"<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>"#));
        self.draw(format!(r#"<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{bottom}"/>"#));
        let (x, y) = (escaped(&self.x.label), escaped(&self.y.label));
        self.draw(format!(r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{x}</text>"#, (LEFT + right) / 2.0, HEIGHT - 8.0));
        let middle = (TOP + bottom) / 2.0;
        self.draw(format!(r#"<text x="20" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 20 {middle:.1})">{y}</text>"#));
    }

    /// A point with what a pointer reads of it, and the anchor that it leads to.
    pub fn point(&mut self, class: &str, (x, y): (f64, f64), title: &str, anchor: &str) {
        let (cx, cy) = self.at(x, y);
        let title = escaped(title);
        self.draw(format!(
            r##"<a href="#{anchor}"><circle class="{class}" cx="{cx:.1}" cy="{cy:.1}" r="3.5"><title>{title}</title></circle></a>"##
        ));
    }

    /// A line through points.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let all: Vec<String> = points.iter().map(|(x, y)| self.at(*x, *y)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.draw(format!(r#"<polyline class="{class}" points="{}"/>"#, all.join(" ")));
    }

    /// The drawing, with what it shows for those who do not see it.
    pub fn svg(self, label: &str) -> String {
        format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">{}</svg>"#, escaped(label), self.body) + "\n"
    }
}

/// A bar with its name, a text behind it, and the anchor of what it stands for.
pub struct Bar {
    pub name: String,
    pub length: f64,
    pub text: String,
    pub anchor: String,
}

/// Bars below each other, which lead to what they stand for.
pub fn bars(label: &str, all: &[Bar]) -> String {
    const ROW: f64 = 24.0;
    let room = |text: fn(&Bar) -> &str| all.iter().map(|bar| text(bar).chars().count()).max().unwrap_or(0) as f64 * LETTER + 20.0;
    let (names, texts) = (room(|bar| &bar.name), room(|bar| &bar.text));
    let longest = all.iter().map(|bar| bar.length).fold(0.0, f64::max);
    let mut body = String::new();
    for (row, Bar { name, length, text, anchor }) in all.iter().enumerate() {
        let (y, width) = (row as f64 * ROW, if longest > 0.0 { length / longest * (WIDTH - names - texts).max(0.0) } else { 0.0 });
        write!(body, r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#, names - 6.0, y + 16.0, escaped(name)).expect("text");
        write!(body, r##"<a href="#{anchor}"><rect class="bar" x="{names:.1}" y="{:.1}" width="{width:.1}" height="14"/>"##, y + 5.0)
            .expect("text");
        write!(body, r#"<text x="{:.1}" y="{:.1}">{}</text></a>"#, names + width + 6.0, y + 16.0, escaped(text)).expect("text");
    }
    let height = all.len() as f64 * ROW + 4.0;
    format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">{body}</svg>"#, escaped(label)) + "\n"
}

/// Timelines below each other on one scale: a row for each lane, a bar for each piece of work.
pub fn timelines(label: &str, ways: &[Timeline]) -> String {
    const ROW: f64 = 22.0;
    let lanes = ways.iter().flat_map(Timeline::lanes).map(|lane| lane.chars().count()).max().unwrap_or(0);
    let names = lanes as f64 * LETTER + 20.0;
    let longest = ways.iter().flat_map(|w| &w.spans).map(|s| s.us.1).fold(1e-9, f64::max);
    let at = |us: f64| names + us / longest * (WIDTH - names - RIGHT);
    let (mut body, mut y) = (String::new(), 0.0);
    for way in ways {
        let (title, took) = (format!("{}:", way.title), format!("{:.1} us", way.us));
        let one = format!("{title} {took}");
        let lines = if one.chars().count() > LINE { vec![title, took] } else { vec![one] };
        for line in lines {
            write!(body, r#"<text x="0" y="{:.1}">{}</text>"#, y + 16.0, escaped(&line)).expect("text");
            y += ROW;
        }
        for lane in way.lanes() {
            write!(body, r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#, names - 6.0, y + 15.0, escaped(lane)).expect("text");
            for (number, span) in way.spans.iter().filter(|s| s.lane == lane).enumerate() {
                let (class, (from, to)) = (if number % 2 == 0 { "bar" } else { "bar other" }, span.us);
                let title = format!("{}: {from:.1} to {to:.1} us", escaped(&span.name));
                write!(
                    body,
                    r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{:.1}" height="14"><title>{title}</title></rect>"#,
                    at(from),
                    y + 4.0,
                    (at(to) - at(from)).max(0.5)
                )
                .expect("text");
            }
            y += ROW;
        }
    }
    format!(r#"<svg viewBox="0 0 {WIDTH} {y}" role="img" aria-label="{}">{body}</svg>"#, escaped(label)) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_few_round_ticks() {
        let ticks = |scale, numbers: &[f64]| Axis::of("", scale, numbers.iter().copied()).ticks();
        assert_eq!(ticks(Scale::Linear, &[0.0, 100.0]), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(Scale::Log, &[9.0, 900.0]), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        for numbers in [&[7.0][..], &[70.1, 70.2], &[], &[1e-3, 1e6], &[3.0, 3.0]] {
            for scale in [Scale::Linear, Scale::Log] {
                let found = ticks(scale, numbers);
                assert!((1..=12).contains(&found.len()), "{scale:?} {numbers:?}: {found:?}");
            }
        }
    }

    #[test]
    fn points_lie_inside_and_larger_numbers_lie_higher() {
        let axis = |numbers: [f64; 2]| Axis::of("us", Scale::Log, numbers.into_iter());
        let plot = Plot::new(axis([1.0, 10.0]), axis([1.0, 100.0]));
        let (low, high) = (plot.at(1.0, 1.0), plot.at(10.0, 100.0));
        assert!(low.0 > LEFT && high.0 < WIDTH - RIGHT && low.1 < HEIGHT - BOTTOM && high.1 > TOP && high.1 < low.1, "{low:?} {high:?}");
    }
}
