//! Snapshots of generated code: source, schedule and CUDA C together, three rungs of every kernel of the gallery; of a generic kernel three
//! of its first instance and the best one of the others.
//!
//! They are reviewed files. To accept new output: `INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo test -p girih-tests snapshots`, then read the diff.

use super::launches::best_facts;
use super::rungs::{chosen, gallery, rungs};
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::BTreeSet;
use std::path::Path;

const ACCEPT: &str = "accept new output with: INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo test -p girih-tests snapshots";

/// Source, schedule and CUDA C as one text.
pub fn page(kernel: &Kernel, schedule: &Schedule) -> String {
    let simt = lower(kernel, &best_facts(kernel), schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let (source, loc) = (kernel.source.trim_end(), kernel.loc.short());
    format!("// ---- source: {loc}\n{source}\n\n// ---- schedule\n{}\n\n// ---- CUDA C\n{}", schedule.attribute(kernel), emit(&simt))
}

fn of_a_rung(file: &str) -> bool {
    [".naive.snap", ".middle.snap", ".winner.snap"].iter().any(|end| file.ends_with(end))
}

#[test]
fn snapshots_of_every_kernel() {
    let mut names = BTreeSet::new();
    let (mut changed, mut shown) = (Vec::new(), BTreeSet::new());
    for kernel in gallery() {
        let first = shown.insert(kernel.name.clone());
        for rung in rungs(&kernel).into_iter().filter(|r| first || r.name == "winner") {
            let name = format!("{}.{}", kernel.full_name().replace(['<', '>'], "-").replace(", ", "-").trim_end_matches('-'), rung.name);
            let text = page(&kernel, &rung.schedule);
            let outcome = std::panic::catch_unwind(|| {
                insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, description => ACCEPT }, {
                    insta::assert_snapshot!(name.clone(), text);
                });
            });
            if outcome.is_err() {
                changed.push(name.clone());
            }
            assert!(names.insert(format!("{name}.snap")), "two kernels are called {}", kernel.full_name());
        }
    }
    assert!(changed.is_empty(), "generated code changed: {}\n{ACCEPT}", changed.join(", "));
    if chosen().is_some() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/snapshots");
    let files = std::fs::read_dir(folder).expect("the snapshots' folder").map(|e| e.expect("an entry").file_name().display().to_string());
    let orphans: Vec<String> = files.filter(|f| of_a_rung(f) && !names.contains(f)).collect();
    assert!(orphans.is_empty(), "snapshots of no kernel, to be deleted: {}", orphans.join(", "));
}

#[test]
fn every_rung_is_another_kernel() {
    for kernel in gallery() {
        let pages: BTreeSet<String> = rungs(&kernel).iter().map(|r| page(&kernel, &r.schedule)).collect();
        assert_eq!(pages.len(), 3, "{}", kernel.name);
    }
}

#[test]
fn lowering_and_emission_are_pure() {
    for kernel in gallery() {
        for rung in rungs(&kernel) {
            assert_eq!(page(&kernel, &rung.schedule), page(&kernel, &rung.schedule));
        }
    }
}
