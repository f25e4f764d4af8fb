//! The parts of a subject's page.

use super::html::{Cell, details, escaped, table, table_with_ids};
use super::plot::{Axis, Bar, Plot, Scale, bars, timelines};
use super::roofline::roofline;
use super::{Host, SubjectReport};
use crate::explain::SitePage;
use crate::explain::knobs::{Effect, OfChoice};
use crate::explain::trials::SiteTrials;
use crate::explain::units::{counted, plain};
use crate::ladder::climb::Climbed;
use crate::ladder::text::{kind_of_times, times};
use crate::techniques::Timeline;

/// A subject from its floor to its trials.
pub fn subject(report: &SubjectReport) -> String {
    let page = &report.page;
    let target = &page.target;
    let mut out = format!("<section id=\"{}\">\n<h2>{} at {}</h2>\n", report.id("top"), escaped(&page.name), escaped(&page.sizes));
    out += &format!(
        "<p>For the {} ({}, {} multiprocessors). The floor is {:.2} us: no call is faster, by {}.</p>\n",
        escaped(target.name),
        target.arch,
        target.multiprocessors,
        page.floor.seconds * 1e6,
        page.floor.bound
    );
    out += &format!("<h3 id=\"{}\">Roofline</h3>\n{}\n", report.id("roofline"), roofline(report));
    out += &winner(report);
    for (number, site) in report.trials.iter().enumerate() {
        out += &landscape(report, number, site);
        out += &knobs(report, number, site);
    }
    if let Some(climbed) = &report.ladder {
        out += &ladder(report, climbed);
    }
    out + "</section>\n"
}

/// Techniques of the host: the timelines of their ways, and what each gains over the plainest one.
pub fn hosts(hosts: &[Host]) -> String {
    let one = |(technique, ways): &Host| {
        let plainest = ways.first().map_or(0.0, |w| w.us);
        let row = |way: &Timeline| vec![way.title.clone(), format!("{:.1}", way.us), format!("{:.2} x", plainest / way.us)];
        let (name, title) = (escaped(technique.name), escaped(technique.title));
        let drawn = timelines(&format!("timelines of {}", technique.name), ways);
        format!("<h3 id=\"host-{name}\">{title}</h3>\n{drawn}{}", table(&["way", "took us", "gain"], ways.iter().map(row)))
    };
    match hosts.is_empty() {
        true => String::new(),
        false => format!("<section id=\"host\">\n<h2>Around the kernels</h2>\n{}</section>\n", hosts.iter().map(one).collect::<String>()),
    }
}

/// The best schedule of each launch site, which leads to its trial where there is one, and each time with its source.
fn winner(report: &SubjectReport) -> String {
    let row = |site: &SitePage| -> Vec<Cell> {
        let measured = site.measured.first();
        let schedule = match trial_of(report, site) {
            Some(anchor) => Cell::Link { text: site.schedule.clone(), anchor },
            None => site.schedule.clone().into(),
        };
        let texts = [
            site.from.to_string(),
            format!("{:.2}", site.us),
            site.basis.name().to_string(),
            measured.map_or("-".into(), |m| format!("{:.2}", m.us)),
            measured.map_or("not measured".into(), |m| m.source.clone()),
        ];
        [site.site.clone().into(), schedule].into_iter().chain(texts.map(Cell::from)).collect()
    };
    let head = ["launch site", "schedule", "from", "predicted us", "basis", "measured us", "source"];
    let whole = report.page.predicted.map_or(String::new(), |p| format!("<p>A call takes {:.2} us as predicted.</p>\n", p.us));
    format!("<h3 id=\"{}\">Winner</h3>\n{}{whole}", report.id("winner"), table(&head, report.page.sites.iter().map(row)))
}

/// The anchor of the trial of a launch site's best schedule, if it is among those of the page.
fn trial_of(report: &SubjectReport, site: &SitePage) -> Option<String> {
    let alone = report.page.sites.len() == 1 && report.trials.len() == 1;
    let (number, own) = report.trials.iter().enumerate().find(|(_, trials)| alone || trials.site == site.site)?;
    let trial = own.trials.iter().position(|trial| trial.schedule == site.schedule)?;
    Some(report.trial_id(number, trial))
}

/// The trials of a launch site: by rank, and in the order in which they were made, with the best so far.
fn landscape(report: &SubjectReport, number: usize, site: &SiteTrials) -> String {
    let heading = format!("<h3 id=\"{}\">Trials of {}</h3>\n", report.id(&format!("trials{}", number + 1)), escaped(&site.site));
    let timed: Vec<(usize, f64)> = site.trials.iter().enumerate().filter_map(|(i, t)| Some((i, t.median_us?))).collect();
    let Some(device) = site.device.as_ref().filter(|_| !site.trials.is_empty()) else {
        return format!("{heading}<p>No trials are stored for this launch: <code>{}</code> makes some.</p>\n", escaped(&site.command));
    };
    let verb = if site.predicted { "predicted for" } else { "measured on" };
    let device = escaped(device.trim_start_matches("simulated "));
    let intro = format!(
        "<p>{} trials, one for each schedule, {} of them timed, {verb} {device}. The time of what was measured again is the median.</p>\n",
        site.trials.len(),
        timed.len()
    ) + &site
        .made
        .iter()
        .map(|(made, rows)| format!("<p>By {}: {}.</p>\n", escaped(made), counted(*rows as f64, "row")))
        .collect::<String>();
    let rows = site.trials.iter().enumerate().map(|(i, trial)| {
        let us = trial.median_us.map_or("-".into(), |us| format!("{us:.2}"));
        let cells = vec![format!("{}", i + 1), trial.schedule.clone(), us, trial.status.name().to_string(), trial.reason.clone()];
        (Some(report.trial_id(number, i)), cells)
    });
    let list = details("All trials", &table_with_ids(&["#", "schedule", "median us", "outcome", "why"], rows));
    if timed.is_empty() {
        return format!("{heading}{intro}{list}");
    }
    format!("{heading}{intro}{}{}{list}", by_rank(report, number, site, &timed), by_time(report, number, site, &timed))
}

fn by_rank(report: &SubjectReport, number: usize, site: &SiteTrials, timed: &[(usize, f64)]) -> String {
    let mut sorted = timed.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut plot = Plot::new(
        Axis::of("trials, the fastest first", Scale::Linear, [1.0, sorted.len() as f64].into_iter()),
        Axis::of("us", Scale::Log, sorted.iter().map(|(_, us)| *us)),
    );
    for (rank, (trial, us)) in sorted.iter().enumerate() {
        let class = if rank == 0 { "best trial" } else { "point trial" };
        plot.point(class, ((rank + 1) as f64, *us), &title(site, *trial, *us), &report.trial_id(number, *trial));
    }
    plot.svg("the landscape: all timed trials, the fastest first")
}

fn by_time(report: &SubjectReport, number: usize, site: &SiteTrials, timed: &[(usize, f64)]) -> String {
    let mut plot = Plot::new(
        Axis::of("trials in their order", Scale::Linear, [1.0, site.trials.len() as f64].into_iter()),
        Axis::of("us", Scale::Log, timed.iter().map(|(_, us)| *us)),
    );
    let mut so_far: Vec<(f64, f64)> = Vec::new();
    for (trial, us) in timed {
        let x = (trial + 1) as f64;
        let best = so_far.last().map_or(*us, |(_, best)| best.min(*us));
        so_far.extend(so_far.last().map(|(_, before)| (x, *before)));
        so_far.push((x, best));
        plot.point("point trial", (x, *us), &title(site, *trial, *us), &report.trial_id(number, *trial));
    }
    plot.line("step", &so_far);
    plot.svg("convergence: trials in their order, and the best so far")
}

fn title(site: &SiteTrials, trial: usize, us: f64) -> String {
    format!("trial {}: {us:.2} us, {}", trial + 1, site.trials[trial].schedule)
}

/// What trials say of each knob.
fn knobs(report: &SubjectReport, number: usize, site: &SiteTrials) -> String {
    let Some((names, effects)) = site.effects.as_ref().filter(|(_, effects)| !effects.knobs.is_empty()) else { return String::new() };
    let mut out = format!("<h3 id=\"{}\">Knobs of {}</h3>\n", report.id(&format!("knobs{}", number + 1)), escaped(&site.site));
    for effect in &effects.knobs {
        let name = &names[effect.knob];
        let bar = |c: &OfChoice| Bar {
            name: format!("{name}={}", c.choice),
            length: c.best_us,
            text: format!("{:.2} us at best, {}", c.best_us, counted(c.trials.len() as f64, "trial")),
            anchor: c.trials.first().map_or_else(|| report.id("top"), |trial| report.trial_id(number, *trial)),
        };
        let all: Vec<Bar> = effect.choices.iter().map(bar).collect();
        out += &bars(&format!("the best time with each choice of {name}"), &all);
        out += &format!("<p>The worst choice of {} costs {} times the time at its own best.</p>\n", escaped(name), plain(effect.cost));
        out += &by_choice(report, number, site, (name, effect));
    }
    out
}

/// The trials with each choice of a knob, the fastest first.
fn by_choice(report: &SubjectReport, number: usize, site: &SiteTrials, (name, effect): (&str, &Effect)) -> String {
    let link = |trial: &usize| {
        let us = site.trials[*trial].median_us.map_or(String::new(), |us| format!("{us:.2}"));
        format!("<a href=\"#{}\">{us}</a>", report.trial_id(number, *trial))
    };
    let choice = |c: &OfChoice| {
        let all: Vec<String> = c.trials.iter().map(link).collect();
        format!("<p>{}={}, median {:.2} us: {}</p>\n", escaped(name), escaped(&c.choice.to_string()), c.median_us, all.join(", "))
    };
    details(&format!("The trials with each choice of {name}, in us"), &effect.choices.iter().map(choice).collect::<String>())
}

/// The ladder: a bar for each rung, then its paragraph and its CUDA C.
fn ladder(report: &SubjectReport, climbed: &Climbed) -> String {
    let heading = format!("<h3 id=\"{}\">Ladder: {}</h3>\n", report.id("ladder"), escaped(climbed.ladder.title));
    let mut out = format!("{heading}<p>{}.</p>\n", kind_of_times(climbed));
    let steps: Vec<(usize, _)> = climbed.rungs.iter().enumerate().filter_map(|(i, o)| Some((i, o.step.as_ref().ok()?))).collect();
    let bar = |(i, step): &(usize, &crate::ladder::climb::Step)| Bar {
        name: format!("rung {}", i + 1),
        length: step.us(),
        text: format!("{:.2} us", step.us()),
        anchor: report.rung_id(*i),
    };
    out += &bars("the time of each rung", &steps.iter().map(bar).collect::<Vec<_>>());
    let mut before = None;
    for (number, step) in steps {
        out += &format!("<h4 id=\"{}\">{}. {}</h4>\n", report.rung_id(number), number + 1, escaped(step.title));
        out += &format!("<p><code>{}</code>: {}</p>\n", escaped(&step.schedules.join("; ")), escaped(&times(step, before)));
        out += &format!("<p>{}</p>\n", escaped(&step.paragraph));
        let source = |side: &crate::explain::difference::Side| format!("<pre><code>{}</code></pre>\n", escaped(side.source.trim_end()));
        out += &details("Its CUDA C", &step.sides.iter().map(source).collect::<String>());
        before = Some(step);
    }
    out
}
