//! A panic of the compiler costs one schedule, and is reported with the command that shows it again, by exports as well; shapes that it
//! cannot lower are refused.

use super::joint_tuning::Told;
use girih::challenge::Sizes;
use girih::check::{On, Options, check};
use girih::compile;
use girih::compile::Output;
use girih::prelude::*;
use girih::store::Store;
use girih::subject::Subject;
use girih::tune::search::{Budget, Strategy};
use girih::tune::{self, By};
use girih_core::error::CompileError;
use girih_core::facts::{Facts, TensorArg};
use girih_core::lower::{self, lower};
use girih_core::program;
use girih_core::program::export::{Chosen, Version, compile_sites, export};
use girih_core::program::signature::Signature;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::{Combine, Kernel, Operator, Stmt};
use girih_core::types::Literal;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Any kernel.
#[kernel(tile(T = [32, 64]), coarsen(C of T = [1, 2]))]
pub fn copied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

/// The same, in an order that no builder makes: the store stands before the load, over which lowering panics.
fn disordered() -> Result<Kernel, CompileError> {
    let mut kernel = (copied::Kernel::def().build)()?;
    for stmt in &mut kernel.body {
        if let Stmt::Tiles(l) = stmt {
            l.body.reverse();
        }
    }
    Ok(kernel)
}

fn disordered_def() -> KernelDef {
    KernelDef { build: disordered, ..copied::Kernel::def() }
}

/// Each element times the product of its tile.
#[kernel(tile(T = [16, 1]))]
pub fn multiplied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        y.store(t, v * v.reduce_all(1.0, |a, b| a * b));
    }
}

#[program]
fn products(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    multiplied(x, y);
}

/// The same with an identity of the same bits and a type that no builder gives it. Lowering panics where elements may be absent, as none is in tiles of one.
fn mistyped() -> Result<Kernel, CompileError> {
    let mut kernel = (multiplied::Kernel::def().build)()?;
    for stmt in &mut kernel.body {
        let Stmt::Tiles(l) = stmt else { continue };
        for stmt in &mut l.body {
            if let Stmt::Combine(Combine { operator: Operator::User { identity, .. }, .. }) = stmt {
                *identity = vec![Literal::i32(f32::to_bits(1.0) as i32)];
            }
        }
    }
    Ok(kernel)
}

fn mistyped_def() -> KernelDef {
    KernelDef { build: mistyped, ..multiplied::Kernel::def() }
}

/// Attention's own shapes: one dot has [BM, BN], the other the block's [BM, BD].
#[kernel(tile(BM = [32, 64], BN = [16, 32], BD = 32), unit(U = [Mma, Ffma, Wgmma]), warps(W = [1, 4]))]
pub fn two_shapes(q: &Tensor<f16, 2>, k: &Tensor<f16, 2>, v: &Tensor<f16, 2>, out: &mut Tensor<f32, 2>) {
    for (m, d) in out.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        for n in k.axis(0).tiles(BN) {
            let mut scores = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BD) {
                scores = dot(q.load((m, e)), k.load((n, e)).t(), scores);
            }
            acc = dot(scores.cast::<f16>(), v.load((n, d)), acc);
        }
        out.store((m, d), acc);
    }
}

#[test]
fn a_panic_is_an_error_with_the_command_that_shows_it() {
    let kernel = disordered().expect("it is built");
    let schedule = Schedule::default_of(&kernel);
    for (facts, word) in [(Facts::best(&kernel), "best"), (Facts::none(&kernel), "none"), (super::launches::even_facts(&kernel), "best")] {
        let error = lower(&kernel, &facts, &schedule, Target::h200()).expect_err("it panics");
        let CompileError::Bug(bug) = &error else { panic!("{error}") };
        assert!(bug.message.contains("is read before it is made"), "{bug}");
        let path = copied::Kernel::def().path();
        assert_eq!(bug.replay, format!("autotune show '{path}' --set T=32,C=1 --arch sm_90a --facts {word}"));
        assert!(error.to_string().contains("a fault of girih, not of the kernel"), "{error}");
    }
    let refused = lower::check(&kernel, &Facts::best(&kernel), &schedule, Target::h200()).expect_err("it cannot be used");
    assert!(refused.rule.contains("a fault of girih"), "{refused}");
    assert!(compile(&kernel, &Facts::best(&kernel), &schedule, Target::h200(), Output::Source).is_err());
}

#[test]
fn spaces_pass_over_what_the_compiler_panics_over() {
    let kernel = disordered().expect("it is built");
    let space = Space::new(&kernel, &Facts::best(&kernel), Target::h200());
    assert_eq!((space.enumerate().len(), space.estimate(100).0), (0, 0));
    assert!(space.naive().is_err_and(|e| e.to_string().contains("a fault of girih")));
}

#[test]
fn a_check_goes_on_behind_a_panic() {
    let subjects = [disordered_def(), copied::Kernel::def()].map(|d| Subject::of_kernel(&d).unwrap_or_else(|e| panic!("{e}")));
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed: 1 };
    let reports = check(&subjects, &options, &());
    let told: Vec<String> = reports[0].failures.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|t| t.contains("a fault of girih") && t.contains("autotune show")), "{told:?}");
    assert!(reports[1].failures.is_empty() && reports[1].runs > 0, "{:?}", reports[1].failures.len());
}

/// Half of the schedules make the compiler panic: those of tiles whose elements may be absent.
#[test]
fn a_search_goes_on_behind_a_panic() {
    let tuned = |def: &KernelDef, sizes: &str| {
        let subject = Subject::of_kernel(def).unwrap_or_else(|e| panic!("{e}"));
        let folder = std::env::temp_dir().join(format!("girih-bugs-{}-{}", def.name, std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let store = Store::open(&folder.join("tune.sqlite")).expect("a temporary folder is writable");
        let (by, budget) = (By::Prediction(Target::h200()), Budget { time: None, trials: Some(4) });
        let limit = Duration::from_secs(10);
        let options = tune::Options { by, budget, strategy: Strategy::Model, limit, fresh: false, only: None, among: None };
        let sizes = Sizes::parse(sizes).expect("sizes");
        let found = tune::tune(&subject, &sizes, &options, &store, &AtomicBool::new(false), &mut Told::default());
        std::fs::remove_dir_all(folder).expect("it was made above");
        found
    };
    let outcome = tuned(&mistyped_def(), "x.0=1000, y.0=1000").unwrap_or_else(|e| panic!("{e}"));
    let site = &outcome.sites[0];
    assert!(site.winner.as_ref().is_some_and(|(schedule, _)| schedule == "T=1"), "{site:?}");
    let none = tuned(&disordered_def(), "x.0=1000, y.0=1000").map(|t| t.sites[0].clone());
    let told = format!("{none:?}");
    assert!(told.contains("a fault of girih") && told.contains("autotune show"), "{told}");
}

#[test]
fn an_export_names_the_versions_that_a_panic_has_made_naive() {
    let mut program = (products::Program::def().build)().unwrap_or_else(|e| panic!("{e}"));
    for stmt in &mut program.body {
        if let program::Stmt::Launch { kernel, .. } = stmt {
            kernel.build = mistyped;
        }
    }
    let signature = Signature::parse("void solve(const float* x[N], float* y[N], int N)").expect("a signature");
    let default = &mut |_: usize, kernel: &Kernel| Schedule::default_of(kernel);
    let sites = compile_sites(&program, &signature, Target::h200(), default).unwrap_or_else(|e| panic!("{e}"));
    let told: Vec<(String, String)> = sites[0].versions.iter().filter_map(|v| Some((v.name(), v.excuse()?))).collect();
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["multiplied_any_size", "multiplied_64bit"], "{:?}", sites[0].versions.len());
    let text = export(&program, &signature, &sites, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let replay = format!("autotune show '{}' --set T=16 --arch sm_90a --facts packed", multiplied::Kernel::def().path());
    for (name, excuse) in &told {
        assert_eq!(*excuse, format!("has the naive schedule because of a compiler bug, which `{replay}` shows"));
        assert!(text.contains(&format!("\n// {name} {excuse}\n")), "{text}");
    }
    // What has its own schedule is not excused.
    assert_eq!(text.matches("because of a compiler bug").count(), told.len(), "{text}");
    assert!(sites[0].versions.len() > told.len() && sites[0].versions[0].bug.is_none());

    // A size that is tuned for and not compiled has no version of its own: one that asks for less serves it.
    let tuned = |n: i64| Facts::of_launch(&[Some(TensorArg::packed(0, &[n])), Some(TensorArg::packed(0, &[n]))], true);
    let at = &mut |_: usize, kernel: &Kernel| Chosen { schedule: Schedule::default_of(kernel), tuned: vec![tuned(1000), tuned(1024)] };
    let sites = compile_sites(&program, &signature, Target::h200(), at).unwrap_or_else(|e| panic!("{e}"));
    let of_tuned: Vec<&Version> = sites[0].versions.iter().filter(|v| v.stands_in.is_some()).collect();
    assert_eq!(of_tuned.len(), 1, "{:?}", sites[0].versions.len());
    assert!(tuned(1000).imply(&of_tuned[0].facts) && of_tuned[0].name() == "multiplied_any_size", "{}", of_tuned[0].name());
    assert!(sites[0].versions[0].bug.is_none() && tuned(1024).imply(&sites[0].versions[0].facts));
}

#[test]
fn results_of_two_shapes_are_legal_on_every_unit() {
    let kernel = (two_shapes::Kernel::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let space = Space::new(&kernel, &Facts::best(&kernel), Target::h200());
    let schedule = |unit: &str, bn: u32| {
        let bm = if unit == "Ffma" { 32 } else { 64 };
        let text = format!("BM={bm},BN={bn},BD=32,U={unit},W=4");
        girih_core::schedule::parse::parse_schedule(&kernel, &text).unwrap_or_else(|e| panic!("{e}"))
    };
    // Of one shape in numbers they are of one.
    for (unit, bn) in [("Mma", 16), ("Mma", 32), ("Ffma", 16), ("Wgmma", 16), ("Wgmma", 32)] {
        space.check(&schedule(unit, bn)).unwrap_or_else(|e| panic!("{unit}, {bn}: {e}"));
    }
}
