//! The roofline: how much arithmetic a byte gets, and how fast that may be at best; and where the subject and its rungs are below it.

use super::SubjectReport;
use super::plot::{Axis, Plot, Scale};
use crate::explain::units::{flop, plain};
use crate::measure::floor::Part;

/// A point below the roof.
struct Point {
    class: &'static str,
    us: f64,
    title: String,
    anchor: String,
}

/// The plot with a sentence below it; for a subject that computes nothing a sentence alone.
pub fn roofline(report: &SubjectReport) -> String {
    match report.page.floor.roofs() {
        (Some(memory), Some(arithmetic)) => drawn(report, memory, arithmetic),
        (Some(memory), None) => {
            let rate = memory.rate * 1e-12;
            format!("<p>It moves bytes and computes nothing: its roof is the memory's bandwidth, {} TB/s.</p>", plain(rate))
        }
        _ => "<p>Neither bytes nor operations of it are known, so it has no roof.</p>".to_string(),
    }
}

fn drawn(report: &SubjectReport, memory: &Part, arithmetic: &Part) -> String {
    let intensity = arithmetic.amount / memory.amount;
    let ridge = arithmetic.rate / memory.rate;
    let points = points(report);
    let rate = |us: f64| arithmetic.amount / us * 1e6;
    let (low, high) = (intensity.min(ridge) / 4.0, intensity.max(ridge) * 4.0);
    let rates = points.iter().map(|p| rate(p.us)).chain([low * memory.rate, arithmetic.rate]);
    let mut plot = Plot::new(
        Axis::of("operations per byte that has to move", Scale::Log, [low, high].into_iter()),
        Axis::of("10¹² operations per second", Scale::Log, rates.map(|r| r * 1e-12)),
    );
    let roof = |x: f64| (x * memory.rate).min(arithmetic.rate) * 1e-12;
    plot.line("roof", &[low, ridge, high].map(|x| (x, roof(x))));
    for point in &points {
        plot.point(point.class, (intensity, rate(point.us) * 1e-12), &point.title, &point.anchor);
    }
    let side = if intensity < ridge { "bandwidth" } else { "arithmetic" };
    format!(
        "{}<p>{} operations for each byte; from {} on the roof is {}/s, {}. So {side} is its roof.</p>",
        plot.svg("roofline"),
        plain(intensity),
        plain(ridge),
        flop(arithmetic.rate),
        arithmetic.bound
    )
}

/// The rungs of the ladder, and the subject under its best schedule.
fn points(report: &SubjectReport) -> Vec<Point> {
    let mut all = Vec::new();
    if let Some(climbed) = &report.ladder {
        for (number, outcome) in climbed.rungs.iter().enumerate() {
            let Ok(step) = &outcome.step else { continue };
            let title = format!("rung {}: {}, {:.2} us", number + 1, step.title, step.us());
            all.push(Point { class: "point rung", us: step.us(), title, anchor: report.rung_id(number) });
        }
    }
    if let Some(us) = report.best_us() {
        all.push(Point { class: "best", us, title: format!("the best schedule known: {us:.2} us"), anchor: report.id("winner") });
    }
    all
}
