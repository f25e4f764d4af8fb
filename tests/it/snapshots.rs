//! Snapshots of generated code: source, schedule and CUDA C together, three rungs of every kernel of the gallery; of a generic kernel three
//! of its first instance and the best one of the others.
//!
//! They are reviewed files. To accept new output: `INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo test -p girih-tests snapshots`, then read the diff.

use super::launches::facts_for;
use super::rungs::{chosen, gallery, rungs};
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::BTreeSet;
use std::path::Path;

const ACCEPT: &str = "accept new output with: INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo test -p girih-tests snapshots";

/// Source, schedule and CUDA C as one text.
pub fn page(kernel: &Kernel, schedule: &Schedule) -> String {
    page_for(kernel, schedule, Target::h200())
}

fn page_for(kernel: &Kernel, schedule: &Schedule, target: &Target) -> String {
    let simt = lower(kernel, &facts_for(kernel, schedule), schedule, target).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let (source, loc) = (kernel.source.trim_end(), kernel.loc.short());
    format!("// ---- source: {loc}\n{source}\n\n// ---- schedule\n{}\n\n// ---- CUDA C\n{}", schedule.attribute(kernel), emit(&simt))
}

/// A GPU that lacks something that newer ones have.
pub fn older(name: &str) -> &'static Target {
    Target::find(name).unwrap_or_else(|| panic!("no target {name}"))
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

/// Products as GPUs without asynchronous copies (sm_75), and with them (sm_80), multiply them, on each unit.
#[test]
fn products_for_older_architectures() {
    let on_sm_75 = "S=2,P=Registers";
    let pages = [
        ("matrix_multiplication", "BM=64,BN=64,BK=8,TM=4,TN=4,V=4,O=Shared,X=8,Z=1,Y=1,Q=1,L=3", "S=3,P=Async"),
        ("gemm", "BM=64,BN=128,BK=32,TM=8,TN=8,V=8,U=Mma,W=4,O=Shared,X=8,Z=1,Y=1,Q=1", "S=4,P=Async"),
        ("lower_precision_gemm<Int8, NT>", "BM=128,BN=128,BK=64,TM=8,TN=8,V=8,U=Mma,W=4,X=8,Z=1,Q=1,G=0", "S=3,P=Async"),
        ("lower_precision_gemm<Tf32, NN>", "BM=128,BN=128,BK=32,TM=8,TN=8,V=8,U=Mma,W=8,X=8,Z=1,Q=1,G=0", "S=2,P=Overlap"),
    ];
    let all: Vec<Kernel> = gallery();
    for (name, schedule, on_sm_80) in pages {
        let Some(kernel) = all.iter().find(|k| k.full_name() == name) else { continue };
        for (target, copies) in [(older("t4"), on_sm_75), (older("a100"), on_sm_80)] {
            if name.contains("Tf32") && target.arch == "sm_75" {
                continue;
            }
            let schedule = parse_schedule(kernel, &format!("{schedule},{copies}")).unwrap_or_else(|e| panic!("{name}: {e}"));
            let text = page_for(kernel, &schedule, target);
            let shown = name.replace(['<', '>'], "-").replace(", ", "-");
            insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, description => ACCEPT }, {
                insta::assert_snapshot!(format!("{}.{}", shown.trim_end_matches('-'), target.arch), text);
            });
        }
    }
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
