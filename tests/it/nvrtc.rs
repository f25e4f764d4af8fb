//! NVRTC accepts every rung of every kernel on every architecture, with the fewest and with the most facts. Needs no GPU.
//!
//! Where NVRTC is missing it is fetched as NVIDIA's wheel into girih's cache, with python3 and pip.

use super::launches::best_facts;
use super::rungs::{chosen, gallery, rungs};
use girih::nvrtc;
use girih_core::cuda::{emit, function_name};
use girih_core::error::CompileError;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::target::Target;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

const ARCHS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"];

/// CUDA C for one architecture.
struct Unit {
    what: String,
    name: String,
    arch: &'static str,
    source: String,
}

/// Fetches NVRTC if there is none. Every test that needs it calls this first.
pub fn provide() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if nvrtc::identity().is_err() {
            nvrtc::fetch().unwrap_or_else(|e| panic!("{e}"));
            nvrtc::identity().unwrap_or_else(|e| panic!("{e}"));
        }
    });
}

#[test]
fn nvrtc_accepts_every_rung_everywhere() {
    provide();
    let (mut units, mut illegal) = (Vec::new(), Vec::new());
    for kernel in gallery() {
        for rung in rungs(&kernel, Target::h200()) {
            for arch in ARCHS {
                let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
                for (facts, promised) in [(Facts::none(&kernel), "no facts"), (best_facts(&kernel), "best facts")] {
                    let what = format!("{} {} {arch}, {promised}", kernel.name, rung.name);
                    match lower(&kernel, &facts, &rung.schedule, target) {
                        Ok(simt) => units.push(Unit { what, name: function_name(&simt), arch, source: emit(&simt) }),
                        Err(CompileError::Schedule(e)) => illegal.push(format!("{what}: {e}")),
                        Err(e) => panic!("{what}: {e}"),
                    }
                }
            }
        }
    }
    let failures = compile_all(&units);
    assert!(failures.is_empty(), "{} of {} kernels failed:\n{}", failures.len(), units.len(), failures.join("\n\n"));
    if chosen().is_some() {
        return;
    }
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("illegal_by_architecture", illegal.join("\n"));
    });
}

/// Compiles on two threads; errors and surprising warnings.
fn compile_all(units: &[Unit]) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            let failure = match nvrtc::compile(&unit.source, unit.arch, &[], &unit.name, &unit.what) {
                Err(e) => Some(format!("{}: {e}", unit.what)),
                Ok(cubin) if cubin.code.is_empty() => Some(format!("{}: no machine code", unit.what)),
                Ok(cubin) if cubin.log.contains("warning") => Some(format!("{}: {}", unit.what, cubin.log)),
                Ok(cubin) => {
                    let spills = cubin.resources.iter().any(|(_, r)| r.spill_store_bytes > 0);
                    spills.then(|| format!("{}: spills registers\n{}", unit.what, cubin.log))
                }
            };
            failures.lock().expect("no panic while reporting").extend(failure);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    failures.into_inner().expect("no panic while reporting")
}
