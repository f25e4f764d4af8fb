//! Compiling and evaluating take time in proportion to the body, however its values depend on each other.

use super::launches::{Launch, Placement, Shape};
use super::random::links::{self, LINKS};
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_settings;
use girih_core::target::Target;
use girih_core::tile::{Kernel, ParamKind};
use std::time::{Duration, Instant};

/// One and four elements a thread, one by one and together.
const SCHEDULES: [&str; 3] = ["C=1,V=1", "C=4,V=1", "C=4,V=4"];
/// Longer than any body takes whose values are looked at a few times each.
const PATIENCE: Duration = Duration::from_secs(1);

/// The kernel with so many links.
fn of(def: &KernelDef, n: usize) -> Kernel {
    LINKS.set(n);
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn schedule(kernel: &Kernel, set: &str) -> Schedule {
    let set = if kernel.knobs.iter().any(|k| k.name == "R") { format!("{set},R=16,T=32") } else { set.to_string() };
    parse_settings(kernel, &set, &Schedule::default_of(kernel)).unwrap_or_else(|e| panic!("{e}"))
}

/// The CUDA C of so many links.
fn compiled(def: &KernelDef, n: usize, set: &str) -> String {
    let start = Instant::now();
    let kernel = of(def, n);
    let simt =
        lower(&kernel, &Facts::none(&kernel), &schedule(&kernel, set), Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let text = emit(&simt);
    let took = start.elapsed();
    assert!(took < PATIENCE, "{} {set} with {n} links took {took:?}", kernel.name);
    text
}

#[test]
fn code_grows_with_the_body() {
    for def in links::all() {
        for set in SCHEDULES {
            let [half, whole] = [32, 64].map(|n| compiled(&def, n, set).len());
            assert!(whole * 10 <= half * 22, "{} {set}: {half} bytes for 32 links, {whole} for 64", def.path());
        }
    }
}

/// What grows with the square of the body takes sixteen times as long for four times as many links.
#[test]
fn time_grows_with_the_body() {
    // Of a machine that does other things beside, the shortest of some times is the body's own.
    let shortest = |def: &KernelDef, n: usize| {
        let time = || {
            let start = Instant::now();
            compiled(def, n, "C=4,V=4");
            start.elapsed()
        };
        (0..3).map(|_| time()).min().expect("three times")
    };
    let times: Vec<(String, [Duration; 2])> = links::all().iter().map(|def| (def.path(), [64, 256].map(|n| shortest(def, n)))).collect();
    let longer: Vec<_> = times.iter().filter(|(_, [quarter, whole])| *whole > 8 * *quarter).collect();
    assert!(longer.is_empty(), "for 64 links and for 256: {longer:#?} of {times:#?}");
}

#[test]
fn evaluating_and_simulating_take_a_turn_for_each_link() {
    for def in links::all() {
        let kernel = of(&def, 64);
        let start = Instant::now();
        let schedule = schedule(&kernel, "C=4,V=4");
        let simt = lower(&kernel, &Facts::none(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let (mut lens, mut scalars) = (Vec::new(), Vec::new());
        for param in &kernel.params {
            let rank = if let ParamKind::Tensor { rank, .. } = param.kind { rank } else { 0 };
            lens.push(vec![37; rank]);
            scalars.push(if let ParamKind::Scalar(dtype) = param.kind {
                Some(girih_core::types::Literal::from_i64(dtype, 3))
            } else {
                None
            });
        }
        let launch = Launch::new(&kernel, &Shape { lens, scalars }, Placement::Shifted, 1);
        launch.evaluate_under(&kernel, Some(schedule)).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        if let Err(trap) = launch.simulate(&simt, 1 << 24) {
            panic!("{}: {trap}", kernel.name)
        }
        let took = start.elapsed();
        assert!(took < 5 * PATIENCE, "{} took {took:?}", kernel.name);
    }
}
