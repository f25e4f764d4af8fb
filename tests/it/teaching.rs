//! Declared ladders: every rung is legal and right, none is predicted to be worse than the one before unless that is said, and the guide's
//! pages are what `autotune ladder` finds. `GIRIH_UPDATE_DOCS=1 cargo test -p girih-tests teaching` writes the pages anew.

use girih::challenge::Sizes;
use girih::check::{On, Options as CheckOptions, check_ways};
use girih::explain::gather::Options;
use girih::ladder::climb::{Climbed, climb};
use girih::ladder::verdict::{Compared, Times, Verdict};
use girih::ladder::{Ladder, ladder, ladders, page, text};
use girih_core::target::Target;
use girih_examples as _;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Times that differ by less are the same.
const SAME: f64 = 1.02;
/// What the pages are for.
const SHOWN: &str = "an H200";

/// Without NVRTC, whose registers follow its version.
fn options() -> Options<'static> {
    Options { target: Target::h200(), store: None, here: None, cubins: false, attempts: false, only: None }
}

fn climbed(ladder: &Ladder) -> Climbed {
    climb(ladder, &Sizes::default(), &options(), None).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_technique_has_a_ladder() {
    let names: Vec<&str> = ladders().iter().map(|l| l.name).collect();
    let wanted = [
        "attention",
        "color_inversion",
        "convolution_1d",
        "convolution_2d",
        "count",
        "gemm",
        "histogram",
        "matrix_multiplication",
        "reduction",
        "reverse_array",
        "scan",
        "softmax",
        "transpose",
        "vector_add",
    ];
    assert_eq!(names, wanted);
    assert!(ladders().iter().all(|l| l.rungs.len() >= 4), "a ladder has a way to go");
    let error = ladder("sorting").expect_err("there is none");
    assert!(error.starts_with("there is no ladder `sorting`; there are attention, color_inversion"), "{error}");
}

#[test]
fn rungs_are_legal_and_none_is_worse_without_a_word() {
    let mut wrong = Vec::new();
    for ladder in ladders() {
        let climbed = climbed(&ladder);
        let illegal = climbed.rungs.iter().filter_map(|o| Some(format!("{}: {}: {}", ladder.name, o.title, o.step.as_ref().err()?)));
        wrong.extend(illegal);
        let steps: Vec<_> = climbed.steps().collect();
        for pair in steps.windows(2) {
            let (before, step) = (pair[0], pair[1]);
            let worse = step.us() > before.us() * SAME;
            if worse != step.slower.is_some() {
                let said = if worse { "and nothing says why" } else { "though it is said to be slower" };
                wrong.push(format!("{}: {}: {:.2} us behind {:.2} us, {said}", ladder.name, step.title, step.us(), before.us()));
            }
            assert!(step.paragraph.contains("us instead of") && step.paragraph.contains("What bounded that"), "{}", step.paragraph);
        }
        let (first, best) = (steps[0].us(), steps.iter().map(|s| s.us()).fold(f64::INFINITY, f64::min));
        if best * 1.05 > first {
            wrong.push(format!("{}: the best rung takes {best:.2} us, the lowest {first:.2} us", ladder.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Evaluator, simulator and reference, at every size that the challenge is checked at.
#[test]
fn rungs_are_right() {
    let options = CheckOptions { on: On::Simulator(Target::h200().clone()), schedules: 0, seed: 1 };
    let mut wrong = Vec::new();
    for ladder in ladders() {
        for rung in &ladder.rungs {
            let at =
                ladder.rung_at(rung, &Sizes::default(), Target::h200()).unwrap_or_else(|e| panic!("{}: {}: {e}", ladder.name, rung.title));
            let way = at.way.into_iter().map(|(schedule, _)| schedule).collect();
            let report = check_ways(&at.subject, vec![way], &options);
            let failures = report.failures.iter().map(|f| format!("{}: {}: {}", ladder.name, rung.title, f.message));
            wrong.extend(failures);
            if report.runs < report.sizes / 2 || report.runs == 0 {
                wrong.push(format!(
                    "{}: {}: {} runs at {} sizes: {:?}",
                    ladder.name, rung.title, report.runs, report.sizes, report.rejected
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rungs_that_are_none_here_say_why() {
    let turing = Target::find("t4").expect("Turing is known");
    let gemm = ladder("gemm").expect("it is declared");
    let climbed = climb(&gemm, &Sizes::default(), &Options { target: turing, ..options() }, None).expect("some rungs are legal");
    let text = text::text(&climbed, turing.name, false);
    assert!(text.contains("no such rung here: ") && text.contains("cp.async"), "{text}");
    assert!(climbed.steps().count() >= 3, "{text}");
}

#[test]
fn a_rung_that_sets_what_is_not_launched_says_so() {
    let idle =
        Ladder::new("idle", "Nothing of it runs", "softmax_attention").rung("One launch", "chunks of keys=no; attention: BM=64,BN=32");
    let error = idle.rung_at(&idle.rungs[0], &Sizes::default(), Target::h200()).err().expect("planes are the first way");
    assert!(error.contains("a rung sets `attention`") && error.contains("does not launch") && error.contains("parts_of_planes"), "{error}");
}

#[test]
fn a_ladder_reads_like_this() {
    let climbed = climbed(&ladder("transpose").expect("it is declared"));
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("ladder.transpose", text::text(&climbed, SHOWN, false));
    });
}

/// What a log has measured of rungs: microseconds by the titles of ladder and rung.
fn measured(log: &str) -> HashMap<(String, String), f64> {
    let (mut ladder, mut found) = (String::new(), HashMap::new());
    for row in log.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [of, rung, us, ..] = cells[..] else { continue };
        let (Some((_, title)), Ok(us)) = (rung.split_once(". "), us.parse()) else { continue };
        if !of.is_empty() {
            ladder = of.split(", ").next().unwrap_or(of).to_string();
        }
        let title = title.split(" (by `autotune tune`").next().unwrap_or(title);
        found.insert((ladder.clone(), title.to_string()), us);
    }
    found
}

/// Rungs about whose times the model is wrong, or which are slower on the GPU alone, and nothing says why; and those of which that is said
/// though nothing was measured that asks for it.
fn without_a_word(climbed: &Climbed, of: page::Logged) -> Vec<String> {
    let (title, mut before, mut all) = (climbed.ladder.title, None, Vec::new());
    for step in climbed.steps() {
        let Some(us) = of(title, step.title) else { continue };
        let now = Times { measured: us, predicted: step.us() };
        let compared = Compared { now, before };
        let asks = compared.verdict() == Verdict::Wrong || compared.is_slower() && step.slower.is_none();
        if asks != step.found.is_some() {
            let said =
                if asks { "and nothing says what the model does not know" } else { "and something is said to be unknown to the model" };
            all.push(format!("{title}: {}: {compared:?}, {said}", step.title));
        }
        before = Some(now);
    }
    all
}

#[test]
fn the_guides_pages_are_what_ladders_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").join("docs");
    let folder: PathBuf = docs.join("guide");
    let log = std::fs::read_to_string(docs.join("performance/h200-ladders.md")).expect("a log of ladders");
    let measured = measured(&log);
    // A ladder's own title may have a comma.
    let of = |ladder: &str, rung: &str| {
        let ladder = ladder.split(", ").next().unwrap_or(ladder);
        measured.get(&(ladder.to_string(), rung.to_string())).copied()
    };
    let logged: (&str, page::Logged) = ("../performance/h200-ladders.md", &of);
    let all: Vec<Climbed> = ladders().iter().map(climbed).collect();
    let missing: Vec<String> =
        all.iter().flat_map(|c| c.steps().filter(|s| of(c.ladder.title, s.title).is_none()).map(|s| s.title.to_string())).collect();
    assert!(missing.is_empty(), "rungs that no log has measured: {missing:?}");
    let wordless: Vec<String> = all.iter().flat_map(|climbed| without_a_word(climbed, &of)).collect();
    assert!(wordless.is_empty(), "{}", wordless.join("\n"));
    let mut pages: Vec<(String, String)> = all.iter().map(|c| (format!("{}.md", c.ladder.name), page::page(c, SHOWN, logged))).collect();
    pages.push(("README.md".into(), page::index(&all, SHOWN, logged)));
    let mut stale = Vec::new();
    for (name, text) in &pages {
        let path = folder.join(name);
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        if there != *text && std::env::var_os("GIRIH_UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(&folder).expect("docs/ can be written");
            std::fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        } else if there != *text {
            stale.push(name.as_str());
        }
    }
    let known = std::fs::read_dir(&folder).expect("docs/guide").map(|e| e.expect("an entry").file_name().display().to_string());
    let orphans: Vec<String> = known.filter(|name| !pages.iter().any(|(page, _)| page == name)).collect();
    assert!(orphans.is_empty(), "pages of no ladder, to be deleted: {}", orphans.join(", "));
    assert!(
        stale.is_empty(),
        "pages are not what ladders say now: {}\nGIRIH_UPDATE_DOCS=1 cargo test -p girih-tests teaching",
        stale.join(", ")
    );
}
