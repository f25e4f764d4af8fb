//! Reports: pages of HTML that are well formed, need nothing else, and have a point for each trial that leads to its line.
//! `GIRIH_KEEP_REPORT=report.html` keeps the page, for a look in a browser (`.ci/browser.mjs`).

use girih::challenge::Sizes;
use girih::explain::gather::Options;
use girih::report::{SubjectReport, html};
use girih::store::provenance::Provenance;
use girih::store::{Status, Store, Trial, TrialKey};
use girih::subject::names;
use girih::tune::launches::AtPerf;
use girih::tune::recording::{Recording, parse};
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_examples as _;
use std::collections::HashSet;
use std::io::Read;

fn recordings() -> Vec<Recording> {
    let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/recordings/h200.txt.gz")).expect("recordings");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a text");
    parse(&text).expect("recordings")
}

fn report(number: usize, name: &str, recordings: &[Recording]) -> SubjectReport {
    let subject = names::subject(name).expect("a challenge");
    let sizes = subject.perf_sizes(&Sizes::default()).expect("its own");
    let options = Options { target: Target::h200(), store: None, here: None, cubins: false, attempts: false, only: None };
    let kernels = subject.program.sites().into_iter().map(|def| (def.build)().expect("a kernel"));
    let way: Vec<(Schedule, &'static str)> = kernels.map(|kernel| (Schedule::default_of(&kernel), "default")).collect();
    SubjectReport::gather(number, &subject, &sizes, &way, &options, recordings, None).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Checks that every element ends, and in its order; returns all ids, and all anchors that are asked for.
fn walked(page: &str) -> (HashSet<String>, Vec<String>) {
    let (mut open, mut ids, mut anchors) = (Vec::new(), HashSet::new(), Vec::new());
    let mut rest = page.split_once("<!doctype html>").expect("a document").1;
    while let Some((text, tail)) = rest.split_once('<') {
        assert!(!text.contains('>') || open.last() == Some(&"style"), "a bare `>` in {text:?}");
        let (tag, behind) = tail.split_once('>').unwrap_or_else(|| panic!("`<` begins no tag: {}", &tail[..tail.len().min(60)]));
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "ends of elements, near {}", &behind[..behind.len().min(60)]);
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of {tag}");
        if let Some(id) = tag.split_once(" id=\"").and_then(|(_, id)| id.split('"').next()) {
            assert!(ids.insert(id.to_string()), "two elements are called {id}");
        }
        if let Some(to) = tag.split_once("href=\"").and_then(|(_, to)| to.split('"').next()) {
            anchors.push(to.strip_prefix('#').unwrap_or_else(|| panic!("{to} leads out of the page")).to_string());
        }
        if !tag.ends_with('/') && !["meta", "br"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} do not end");
    (ids, anchors)
}

#[test]
fn a_report_has_a_point_for_each_trial() {
    let all = recordings();
    let reports: Vec<SubjectReport> = ["vector_add", "softmax", "gemm"].iter().enumerate().map(|(i, name)| report(i, name, &all)).collect();
    let page = html(&reports, &[], &vec![("girih".into(), "<of a test>".into())]);
    if let Some(file) = std::env::var_os("GIRIH_KEEP_REPORT") {
        std::fs::write(&file, &page).expect("the page is kept");
    }
    let (ids, anchors) = walked(&page);
    let lost: Vec<&String> = anchors.iter().filter(|to| !ids.contains(*to)).collect();
    assert!(lost.is_empty(), "links without an end: {lost:?}");
    let trials: usize = reports.iter().flat_map(|r| &r.trials).map(|site| site.trials.len()).sum();
    assert!(trials > 100, "{trials} trials are recorded");
    // Once by rank, and once in their order.
    assert_eq!(page.matches(" trial\" cx=").count(), 2 * trials);
    // And once for each knob in the list of its choice, whose bar leads to the fastest one.
    let choices =
        reports.iter().flat_map(|r| &r.trials).filter_map(|s| s.effects.as_ref()).flat_map(|(_, e)| &e.knobs).flat_map(|k| &k.choices);
    let of_knobs: usize = choices.map(|c| 1 + c.trials.len()).sum();
    assert!(of_knobs > trials, "several knobs were varied");
    assert_eq!(
        anchors.iter().filter(|to| to.contains("-t")).count() - anchors.iter().filter(|to| to.ends_with("-top")).count(),
        2 * trials + of_knobs
    );
    let rungs: usize = reports.iter().filter_map(|r| r.ladder.as_ref()).map(|l| l.steps().count()).sum();
    assert_eq!(page.matches("<h4 id=").count(), rungs);
    assert_eq!(page.matches("class=\"point rung\"").count(), rungs);
    for what in ["prefers-color-scheme: dark", "width=device-width", "&lt;of a test&gt;", "aria-label=\"roofline\""] {
        assert!(page.contains(what), "{what}");
    }
    for what in ["http:", "https:", "<script", "url(", "@import", "=\"NaN", "=\"inf", ",NaN"] {
        assert!(!page.contains(what), "the page has {what}");
    }
}

/// A recording has some schedules twice: each is one trial, of the median time.
#[test]
fn schedules_that_were_measured_again_are_one_trial() {
    let own = recordings().into_iter().find(|r| r.name == "vector_add").expect("it is recorded");
    let mut again = own.clone();
    let slower = again.timed.iter().map(|timed| {
        let mut slower = timed.clone();
        slower.us += 2.0;
        slower
    });
    again.timed = again.timed.iter().cloned().chain(slower.collect::<Vec<_>>()).collect();
    let [once, twice] = [own, again].map(|r| report(0, "vector_add", &[r]).trials.remove(0));
    assert_eq!(once.trials.len(), twice.trials.len());
    let (first, same) = (&once.trials[0], &twice.trials[0]);
    let [us, both] = [first, same].map(|t| t.median_us.expect("a time"));
    assert!((both - us - 1.0).abs() < 1e-9 && same.reason.starts_with("median of "), "{us} {both} {}", same.reason);
    let counts = |site: &girih::explain::trials::SiteTrials| {
        let (_, effects) = site.effects.as_ref().expect("one launch");
        effects.knobs.iter().flat_map(|k| &k.choices).map(|c| c.trials.len()).sum::<usize>()
    };
    assert_eq!(counts(&once), counts(&twice));
}

/// The page's skeleton: what follows what.
#[test]
fn a_report_is_built_like_this() {
    let page = html(&[report(0, "vector_add", &recordings())], &[], &vec![("girih".into(), "of a test".into())]);
    let lines =
        page.lines().filter(|l| l.starts_with("<h") || l.starts_with("<section") || l.starts_with("<details") || l.contains("<nav>"));
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("report.skeleton", lines.collect::<Vec<_>>().join("\n"));
    });
}

#[test]
fn a_subject_without_trials_says_how_to_make_some() {
    let page = html(&[report(0, "vector_add", &[])], &[], &Vec::new());
    walked(&page);
    assert!(
        page.contains("No trials are stored for this launch: <code>autotune tune vector_add --target h200 --budget 60s</code>"),
        "{page}"
    );
}

/// Trials of a store with where they were made: those that failed say why, and the winner leads to its own.
#[test]
fn trials_of_a_store_say_where_they_were_made() {
    let folder = std::env::temp_dir().join(format!("girih-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
    let here = |driver: &str| Provenance { driver: driver.into(), nvrtc: "13.0".into(), clocks: String::new() };
    let store = |driver| Store::open(&folder.join("tune.sqlite")).unwrap_or_else(|e| panic!("{e}")).making(here(driver));
    let subject = names::subject("vector_add").expect("a challenge");
    let (sizes, at_perf, target) = (subject.perf_sizes(&Sizes::default()).expect("its own"), AtPerf::of(&subject), Target::h200());
    let kernel = (subject.program.sites()[0].build)().expect("a kernel");
    let facts = at_perf.facts_of_site(0).expect("it is launched");
    let key = TrialKey {
        kernel: subject.program.sites()[0].path(),
        identity: kernel.identity(),
        facts: facts.to_string(),
        lengths: at_perf.of_site(0).cloned(),
        sizes: sizes.to_string(),
        device: "NVIDIA H200".into(),
        arch: target.arch.into(),
    };
    let default = Schedule::default_of(&kernel);
    let other = Space::new(&kernel, facts, target).naive().expect("it has one");
    let trial = |schedule: &Schedule, status: Status, reason: &str, us: Option<f64>| Trial {
        schedule: schedule.short(&kernel),
        status,
        reason: reason.into(),
        median_us: us,
        samples_us: us.into_iter().collect(),
        registers: Some(16),
        flaw: None,
        code: girih::tune::code(&kernel, facts, schedule, target),
    };
    let record = |driver, trial: &Trial| store(driver).record(&key, trial).unwrap_or_else(|e| panic!("{e}"));
    record("550.1", &trial(&default, Status::Measured, "", Some(77.25)));
    record("570.2", &trial(&other, Status::Crashed, "an <illegal> address", None));
    let store = store("570.2");
    let options = Options { target, store: Some(&store), here: None, cubins: false, attempts: false, only: None };
    let way = [(default.clone(), "tuned here")];
    let found = SubjectReport::gather(0, &subject, &sizes, &way, &options, &[], None).unwrap_or_else(|e| panic!("{e}"));
    let page = html(&[found], &[], &Vec::new());
    let (ids, anchors) = walked(&page);
    assert!(anchors.iter().all(|to| ids.contains(to)), "links without an end");
    let row = |number: usize, schedule: &Schedule, rest: &str| {
        let text = format!("<tr id=\"s1-t1-{number}\"><td class=\"number\">{number}</td><td>{}</td>{rest}", schedule.short(&kernel));
        assert!(page.contains(&text), "no {text} in {page}");
    };
    row(1, &default, "<td class=\"number\">77.25</td><td>measured</td><td></td>");
    row(2, &other, "<td class=\"number\">-</td><td>crashed</td><td>an &lt;illegal&gt; address</td>");
    for what in ["driver 550.1, NVRTC 13.0: 1 row.", "driver 570.2, NVRTC 13.0: 1 row.", "a trial on NVIDIA H200"] {
        assert!(page.contains(what), "{what}");
    }
    let winner = &page[page.find(">Winner</h3>").expect("a winner")..page.find(">Trials of").expect("trials")];
    assert!(winner.contains(&format!("<a href=\"#s1-t1-1\">{}</a>", default.short(&kernel))), "{winner}");
    std::fs::remove_dir_all(folder).expect("its own folder");
}
