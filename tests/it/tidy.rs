//! Rules of the source tree that no compiler checks: headers, sizes, words, and which layer may name which.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a file may have.
const MOST_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// Every Rust file of the workspace with its text, by path from the root.
pub fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut pending: Vec<PathBuf> = ["dsl-core", "dsl-macros", "runtime", "examples", "tests"].iter().map(|d| root().join(d)).collect();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("a folder's entry").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|n| n != "target") {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                files.push((name, text));
            }
        }
    }
    files.sort();
    assert!(files.len() > 50, "the source tree was not found at {}", root().display());
    files
}

/// `FILE:LINE: text` of each line of code (comments don't count) in a file under one of `folders` that contains one of `words`.
fn code_with(folders: &[&str], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in sources() {
        if !folders.iter().any(|f| name.starts_with(f)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if words.iter().any(|w| code.contains(w)) {
                found.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

fn none(found: Vec<String>, rule: &str) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

#[test]
fn every_file_says_what_it_is() {
    let bare = sources().into_iter().filter(|(name, text)| !text.starts_with("//!") && !name.starts_with("tests/it/ui/"));
    none(bare.map(|(name, _)| name).collect(), "the first line of a file is `//!` and says what the file holds");
}

#[test]
fn files_stay_small() {
    let long = sources().into_iter().map(|(name, text)| (name, text.lines().count())).filter(|(_, lines)| *lines > MOST_LINES);
    none(long.map(|(name, lines)| format!("{name}: {lines} lines")).collect(), "a file has at most 600 lines: split it");
}

#[test]
fn nothing_is_left_undone() {
    // Put together here so that this file does not hold the words.
    let words = ["to", "unimple", "d", "#[ig", "FIX", "X"];
    let ends = ["do!(", "mented!(", "bg!(", "nore", "ME", "XX"];
    let words: Vec<String> = words.iter().zip(ends).map(|(a, b)| format!("{a}{b}")).collect();
    let mut found = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().enumerate().filter(|(_, line)| words.iter().any(|w| line.contains(w.as_str())));
        found.extend(lines.map(|(number, line)| format!("{name}:{}: {}", number + 1, line.trim())));
    }
    none(found, "no unfinished code, no ignored test, no note to oneself");
}

#[test]
fn only_one_module_names_the_driver() {
    let found = code_with(&["dsl-core/", "dsl-macros/", "runtime/", "examples/"], &["cudarc::"]);
    let elsewhere = found.into_iter().filter(|l| !l.starts_with("runtime/src/device/cuda/"));
    none(elsewhere.collect(), "only runtime/src/device/cuda names cudarc");
    let found = code_with(&["dsl-core/", "dsl-macros/", "runtime/", "examples/"], &["nvml_wrapper::"]);
    let elsewhere = found.into_iter().filter(|l| !l.starts_with("runtime/src/device/nvml.rs"));
    none(elsewhere.collect(), "only runtime/src/device/nvml.rs names nvml-wrapper");
}

/// How long trials take, and how long they may, is told by a clock that nobody sets.
#[test]
fn the_tuner_knows_no_clock_that_jumps() {
    let found =
        code_with(&["runtime/src/tune/", "runtime/src/measure/", "runtime/src/child.rs", "runtime/src/cli/tune.rs"], &["SystemTime"]);
    none(found.into_iter().filter(|l| !l.contains("tests.rs:")).collect(), "the tuner and what measures use Instant");
}

#[test]
fn the_compiler_does_no_io() {
    let words = ["std::fs", "std::env", "std::time", "std::net", "std::process", "std::io"];
    none(code_with(&["dsl-core/"], &words), "dsl-core reads no file, environment or clock");
}

#[test]
fn emitter_and_simulator_know_simt_ir_only() {
    let found = code_with(&["dsl-core/compiler/src/cuda/", "dsl-core/sim/"], &["Schedule", "tile::", "crate::lower", "Facts"]);
    // Host expressions of the launch record are part of SIMT IR; tests may lower kernels.
    let beyond = found.into_iter().filter(|l| !l.contains("tile::host") && !l.split(':').next().is_some_and(|f| f.contains("tests")));
    none(beyond.collect(), "emitter and simulator take SIMT IR and nothing else");
}

/// The arms of the `match` that a line opens: the lines indented by one step more.
fn arms<'t>(lines: &[&'t str], at: usize) -> Vec<&'t str> {
    let indent = |l: &str| l.len() - l.trim_start().len();
    let own = indent(lines[at]);
    let inside = lines[at + 1..].iter().take_while(|l| l.trim().is_empty() || indent(l) > own);
    inside.filter(|l| indent(l) == own + 4).map(|l| l.trim_start().trim_start_matches("| ")).collect()
}

#[test]
fn matches_over_statements_list_their_variants() {
    // A new statement must be thought of everywhere: nothing takes it for one that is not there.
    let folders = ["dsl-core/ir/src/simt/", "dsl-core/compiler/src/cuda/", "dsl-core/compiler/src/lower/", "dsl-core/compiler/src/block/"];
    let mut found = Vec::new();
    for (name, text) in sources().into_iter().filter(|(name, _)| folders.iter().any(|f| name.starts_with(f))) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, l)| l.contains("match ") && l.ends_with('{')) {
            let arms = arms(&lines, at);
            let statements = arms.iter().any(|a| ["Stmt::", "block::Stmt::", "tile::Stmt::"].iter().any(|s| a.starts_with(s)));
            let all = |a: &&str| a.starts_with("_ ") || a.split(" =>").next().is_some_and(|p| p.chars().all(|c| c.is_lowercase()));
            if statements && arms.iter().filter(|a| a.contains("=>")).any(all) {
                found.push(format!("{name}:{}", at + 1));
            }
        }
    }
    none(found, "a match over statements lists their variants");
}

#[test]
fn cleanup_infers_no_plan() {
    let found =
        code_with(&["dsl-core/compiler/src/lower/cleanup/"], &["Schedule", "schedule::", "Plan", "plan::", "Facts", "tile::", "Target"]);
    none(found, "lower/cleanup tidies SIMT IR up and knows nothing of what it came from");
}

#[test]
fn what_is_written_out_stands_on_the_page() {
    // expand/ sees block IR and nothing that it was made of.
    let words = ["girih_ir::tile", "crate::plan", "crate::analyses", "super::passes", "lower::passes", "Facts", "ir::target", "Schedule"];
    let found = code_with(&["dsl-core/compiler/src/lower/expand/"], &words);
    none(found, "lower/expand sees block IR alone: neither tile IR nor facts, plan, schedule or target");
}

#[test]
fn a_pass_knows_no_other_pass_and_nobody_who_writes_out() {
    let names = |folder: &str| -> Vec<String> {
        let files = sources().into_iter().filter_map(|(name, _)| name.strip_prefix(folder).map(str::to_string));
        files.filter(|name| !name.contains('/') && name != "mod.rs").map(|name| name.trim_end_matches(".rs").to_string()).collect()
    };
    let folder = "dsl-core/compiler/src/lower/passes/";
    let passes = names(folder);
    assert!(passes.len() > 4, "{passes:?}");
    for pass in &passes {
        let others: Vec<String> = passes.iter().filter(|other| *other != pass).map(|other| format!("{other}::")).collect();
        let words: Vec<&str> = others.iter().map(String::as_str).chain(["lower::expand", "super::expand"]).collect();
        none(code_with(&[&format!("{folder}{pass}.rs")], &words), "a pass imports no other pass, nor expand");
    }
    let found = code_with(&["dsl-core/compiler/src/block/", "dsl-core/compiler/src/analyses/"], &["crate::lower"]);
    none(found.into_iter().filter(|l| !l.contains("tests")).collect(), "block IR and analyses know nothing of lowering");
}

#[test]
fn the_schedule_is_read_in_plan_alone() {
    let words = ["&Schedule", "schedule.", "KnobKind", "Choice::", ".choices"];
    let found = code_with(&["dsl-core/compiler/src/lower/", "dsl-core/compiler/src/cuda/"], &words);
    // The entry names it in a kernel's header and in what it says of bugs.
    let beyond =
        found.into_iter().filter(|l| !["mod.rs", "tests"].iter().any(|f| l.starts_with(&format!("dsl-core/compiler/src/lower/{f}"))));
    none(beyond.collect(), "lowering reads the plan: what the schedule says is read in compiler/src/plan/");
    // Words of knobs are types, which ir/src/schedule/words.rs reads.
    let found = code_with(&["dsl-core/compiler/src/plan/"], &["Choice::Word"]);
    let beyond =
        found.into_iter().filter(|l| !["rules.rs", "tests.rs"].iter().any(|f| l.starts_with(&format!("dsl-core/compiler/src/plan/{f}"))));
    none(beyond.collect(), "words of knobs are read by their types; rules.rs says which are none");
}

#[test]
fn the_tuner_never_sees_ir() {
    none(code_with(&["runtime/src/tune/search"], &["simt", "tile::Op", "tile::Stmt"]), "the search sees spaces, schedules and durations");
}
