//! NVRTC accepts every rung of every kernel on every architecture, with the fewest and with the most facts. Needs no GPU.
//!
//! It compiles what the snapshots show: with the most facts the highest rung for every architecture and every other one for two
//! of them, without facts each rung for one, in turns: each rung meets each architecture on many kernels. What is illegal is listed with
//! the most facts for every architecture. `GIRIH_TEST_KERNEL=a,b` compiles everything of these kernels. What was compiled before comes from
//! the cubin cache.
//!
//! Where NVRTC is missing it is fetched as NVIDIA's wheel into girih's cache, with python3 and pip.

use super::launches::{best_facts, facts_for};
use super::rungs::{chosen, gallery, rungs};
use girih::Compiled;
use girih::compile::nvrtc;
use girih_core::error::CompileError;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::{RELATIVES, Target};
use girih_core::tile::Kernel;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

pub const ARCHS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"];

/// A kernel for one architecture.
struct Unit {
    what: String,
    arch: &'static str,
    /// The winner where it was measured, as best it can be.
    tuned: bool,
    compiled: Compiled,
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
    for (number, kernel) in gallery().into_iter().enumerate() {
        let rungs = rungs(&kernel);
        for (r, rung) in rungs.iter().enumerate() {
            let tiers = [(Facts::none(&kernel), "no facts"), (facts_for(&kernel, &rung.schedule), "best facts")];
            for (a, arch) in ARCHS.into_iter().enumerate() {
                let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
                for (facts, promised) in &tiers {
                    let what = format!("{} {} {arch}, {promised}", kernel.full_name(), rung.name);
                    let best = *promised == "best facts";
                    let tuned = best && rung.name == "winner" && arch == Target::h200().arch;
                    let compiled = chosen().is_some() || compiled(number, r, r + 1 == rungs.len(), a, best);
                    if !compiled && !best {
                        continue;
                    }
                    match lower(&kernel, facts, &rung.schedule, target) {
                        Ok(_) if !compiled => {}
                        Ok(simt) => units.push(Unit { what, arch, tuned, compiled: Compiled::of(simt, target) }),
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

/// Whether the kernel of this number is compiled in this rung for this architecture.
fn compiled(number: usize, rung: usize, highest: bool, arch: usize, best: bool) -> bool {
    let turn = (number + 2 * rung + arch) % ARCHS.len();
    if best { highest || turn < 2 } else { turn == 4 }
}

/// Kernels of tests are accepted, too: the schedule of their first choices, on the oldest architecture and on the H200's.
pub fn accepts(kernels: &[Kernel]) {
    accepts_on(kernels, &["sm_75", "sm_90a"]);
}

#[test]
fn nvrtc_accepts_kernels_for_every_relative() {
    let names = ["vector_add", "gemm", "reduction"];
    let kernels: Vec<Kernel> = gallery().into_iter().filter(|k| names.contains(&k.name.as_str())).collect();
    accepts_on(&kernels, &RELATIVES.each_ref().map(|t| t.arch));
}

fn accepts_on(kernels: &[Kernel], archs: &[&'static str]) {
    provide();
    let mut units = Vec::new();
    for kernel in kernels {
        for arch in archs.iter().copied() {
            let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
            let facts = best_facts(kernel);
            let space = Space::new(kernel, &facts, target);
            let default = space.canonical(&Schedule::default_of(kernel));
            let schedule = if space.check(&default).is_ok() { default } else { space.naive().unwrap_or_else(|e| panic!("{e}")) };
            let simt = lower(kernel, &facts, &schedule, target).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            let what = format!("{} {} {arch}", kernel.full_name(), schedule.short(kernel));
            units.push(Unit { what, arch, tuned: false, compiled: Compiled::of(simt, target) });
        }
    }
    let failures = compile_all(&units);
    assert!(failures.is_empty(), "{} of {} kernels failed:\n{}", failures.len(), units.len(), failures.join("\n\n"));
}

/// Compiles on all cores, through the cubin cache; errors and surprising warnings.
fn compile_all(units: &[Unit]) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.lock().expect("no panic while reporting").extend(failure(unit));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    failures.into_inner().expect("no panic while reporting")
}

fn failure(unit: &Unit) -> Option<String> {
    let what = &unit.what;
    let compiled = match unit.compiled.clone().with_cubin() {
        Err(e) => return Some(format!("{what}: {e}")),
        Ok(compiled) => compiled,
    };
    let resources = compiled.resources.expect("a cubin has resources");
    if compiled.arch != unit.arch {
        Some(format!("{what}: compiled for {}", compiled.arch))
    } else if compiled.cubin.is_none_or(|c| c.is_empty()) {
        Some(format!("{what}: no machine code"))
    } else if !compiled.warnings.is_empty() {
        Some(format!("{what}: {}", compiled.warnings))
    } else {
        // Elsewhere registers may not suffice: 64-bit indices, 1024 threads, another architecture's winner.
        let local = unit.tuned && (resources.spill_store_bytes > 0 || resources.stack > 0);
        local.then(|| format!("{what}: keeps values in local memory: {resources:?}"))
    }
}
