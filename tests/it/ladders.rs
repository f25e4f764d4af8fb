//! The ladder of kernels that multiply tiles: named rungs, each legal and another kernel than the one before.

use super::launches::best_facts;
use super::rungs::{chosen, gallery};
use super::snapshots::{older, page};
use girih::challenge::Sizes;
use girih::measure::rungs::{Climb, climb};
use girih::subject::names::subject;
use girih::tune::By;
use girih::tune::launches::launches;
use girih::tune::predict::Prediction;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::model::Bottleneck;
use girih_core::schedule::ladder::{Ladder, Step};
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_examples::lower_precision_gemm::{F16F32, NN};
use girih_examples::{batched_matrix_multiplication, gemm, lower_precision_gemm, matrix_multiplication, relu};

const ACCEPT: &str = "accept new output with: INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo test -p girih-tests ladders";

fn ladder(kernel: &Kernel, target: &Target) -> Option<Ladder> {
    let facts = best_facts(kernel);
    Ladder::new(&Space::new(kernel, &facts, target)).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

fn built(def: girih_core::registry::KernelDef) -> Kernel {
    (def.build)().expect("a kernel of the gallery")
}

fn names(ladder: &Ladder) -> Vec<&'static str> {
    ladder.rungs.iter().map(|r| r.step.name()).collect()
}

#[test]
fn rungs_are_those_of_the_knobs() {
    let kernel = built(matrix_multiplication::matrix_multiplication::Kernel::def());
    let own = ladder(&kernel, Target::h200()).expect("it multiplies tiles");
    assert_eq!(
        names(&own),
        ["naive", "shared", "register", "vector", "transposed", "double", "pipeline", "raster", "blocks", "split", "stream"]
    );
    let kernel = built(gemm::gemm::Kernel::def());
    let own = ladder(&kernel, Target::h200()).expect("it multiplies tiles");
    let but_transposed: Vec<&str> = Step::ALL.iter().filter(|s| **s != Step::Transposed).map(|s| s.name()).collect();
    assert_eq!(names(&own), but_transposed);
    let kernel = built(relu::relu::Kernel::def());
    assert_eq!(ladder(&kernel, Target::h200()), None);
}

#[test]
fn every_rung_is_legal_and_another_kernel_than_the_one_before() {
    let mut ladders = 0;
    for kernel in gallery() {
        let Some(ladder) = ladder(&kernel, Target::h200()) else { continue };
        ladders += 1;
        let facts = best_facts(&kernel);
        let space = Space::new(&kernel, &facts, Target::h200());
        let mut before = String::new();
        for rung in &ladder.rungs {
            assert_eq!(space.check(&rung.schedule), Ok(()), "{} {}", kernel.name, rung.step);
            let simt =
                lower(&kernel, &facts, &rung.schedule, Target::h200()).unwrap_or_else(|e| panic!("{} {}: {e}", kernel.name, rung.step));
            // All but the line that shows the schedule, which always differs.
            let text: String = emit(&simt).lines().filter(|l| !l.starts_with("// schedule:")).collect();
            assert_ne!(text, before, "{} {}", kernel.name, rung.step);
            before = text;
        }
        for step in Step::ALL {
            assert_eq!(ladder.rung(step).is_ok(), ladder.rungs.iter().any(|r| r.step == step), "{} {step}", kernel.name);
            assert!(ladder.rungs.iter().any(|r| r.step <= step && r.schedule == *ladder.up_to(step)), "{} {step}", kernel.name);
        }
    }
    assert!(chosen().is_some() || ladders >= 5, "{ladders} kernels have ladders");
}

#[test]
fn rungs_change_what_they_speak_of() {
    let kernel = built(gemm::gemm::Kernel::def());
    let ladder = ladder(&kernel, Target::h200()).expect("it multiplies tiles");
    let of = |step, kind| ladder.rung(step).expect("a rung").of_kind(&kernel, kind).expect("a knob").to_string();
    assert_eq!([Step::Naive, Step::Shared].map(|s| of(s, KnobKind::Operands)), ["Direct", "Shared"]);
    assert_eq!([Step::Register, Step::Vector].map(|s| of(s, KnobKind::Vector)), ["1", "8"]);
    assert_eq!([Step::Vector, Step::Double, Step::Pipeline].map(|s| of(s, KnobKind::Stages)), ["1", "2", "4"]);
    assert_eq!([Step::Double, Step::Pipeline].map(|s| of(s, KnobKind::Copy)), ["Registers", "Async"]);
    assert_eq!([Step::Pipeline, Step::Raster].map(|s| of(s, KnobKind::Raster)), ["1", "8"]);
    assert_eq!([Step::Raster, Step::Blocks, Step::Mma].map(|s| of(s, KnobKind::MinBlocks)), ["1", "2", "2"]);
    assert_eq!([Step::Raster, Step::Mma].map(|s| of(s, KnobKind::Unit)), ["Ffma", "Mma"]);
    assert_eq!([Step::Mma, Step::Split, Step::Stream].map(|s| of(s, KnobKind::Split)), ["1", "2", "0"]);
}

#[test]
fn transposing_is_for_copies_by_registers() {
    let kernel = built(matrix_multiplication::matrix_multiplication::Kernel::def());
    let ladder = ladder(&kernel, Target::h200()).expect("it multiplies tiles");
    let of = |step| ladder.rung(step).expect("a rung").of_kind(&kernel, KnobKind::Operands).expect("a knob").to_string();
    let steps = [Step::Vector, Step::Transposed, Step::Double, Step::Pipeline, Step::Stream];
    assert_eq!(steps.map(of), ["Shared", "Transposed", "Transposed", "Shared", "Shared"]);
}

#[test]
fn missing_rungs_say_why_and_what_there_is() {
    let kernel = built(matrix_multiplication::matrix_multiplication::Kernel::def());
    let own = ladder(&kernel, Target::h200()).expect("it multiplies tiles");
    let text = own.rung(Step::Mma).expect_err("it has no matrix instructions").to_string();
    assert_eq!(
        text,
        "matrix_multiplication has no rung `mma`: it has no knob unit; it has naive, shared, register, vector, transposed, double, pipeline, \
         raster, blocks, split, stream"
    );
    let old = ladder(&kernel, Target::find("sm_75").expect("Turing is known")).expect("it multiplies tiles");
    let text = old.rung(Step::Pipeline).expect_err("Turing copies nothing asynchronously").to_string();
    assert!(text.contains("no rung `pipeline`") && text.contains("cp.async"), "{text}");
    assert!(old.rung(Step::Raster).is_ok(), "a missing rung does not end the ladder");
}

#[test]
fn ladders_are_what_they_are() {
    let mut changed = Vec::new();
    let learned = built(matrix_multiplication::matrix_multiplication::Kernel::def());
    let units = built(gemm::gemm::Kernel::def());
    let of_units = [Step::Mma, Step::Overlap, Step::Wgmma, Step::Tensor];
    let pages = Step::ALL.iter().map(|s| (if of_units.contains(s) { &units } else { &learned }, *s));
    let mut names = Vec::new();
    for (kernel, step) in pages {
        let ladder = ladder(kernel, Target::h200()).expect("it multiplies tiles");
        let text = page(kernel, ladder.rung(step).unwrap_or_else(|e| panic!("{e}")));
        let at = Step::ALL.iter().position(|s| *s == step).expect("one of all") + 1;
        let name = format!("{}.ladder-{at}-{step}", kernel.name);
        names.push(format!("{name}.snap"));
        let outcome = std::panic::catch_unwind(|| {
            insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, description => ACCEPT }, {
                insta::assert_snapshot!(name.clone(), text);
            });
        });
        if outcome.is_err() {
            changed.push(name);
        }
    }
    assert!(changed.is_empty(), "generated code changed: {}\n{ACCEPT}", changed.join(", "));
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("it/snapshots");
    let files = std::fs::read_dir(folder).expect("the snapshots' folder").map(|e| e.expect("an entry").file_name().display().to_string());
    let orphans: Vec<String> = files.filter(|f| f.contains(".ladder-") && !names.contains(f)).collect();
    assert!(orphans.is_empty(), "snapshots of no rung, to be deleted: {}", orphans.join(", "));
}

fn climbed(name: &str, sizes: &str) -> Climb {
    let subject = subject(name).expect("a challenge of the gallery");
    let sizes = subject.perf_sizes(&Sizes::parse(sizes).expect("sizes")).expect("sizes of the challenge");
    climb(&subject, &sizes, &By::Prediction(Target::h200()), None, 1).expect("rungs with times")
}

#[test]
fn rungs_are_timed_in_order() {
    let names = |c: &Climb| c.rungs.iter().map(|r| r.name).collect::<Vec<_>>();
    let product = climbed("matrix_multiplication", "M=64 N=64 K=64");
    assert_eq!(
        names(&product),
        ["naive", "shared", "register", "vector", "transposed", "double", "pipeline", "raster", "blocks", "split", "stream", "best"]
    );
    assert!(product.rungs.iter().all(|r| r.us.as_ref().is_ok_and(|us| *us > 0.0)), "{product:?}");
    assert_eq!(product.flops, 2.0 * 64.0 * 64.0 * 64.0);
    let plain = climbed("relu", "N=1024");
    assert!(plain.rungs.len() >= 2 && plain.rungs[0].name == "naive", "{plain:?}");
    assert!(plain.rungs.iter().all(|r| ["naive", "default", "best"].contains(&r.name)), "{plain:?}");
}

/// Microseconds that the model gives a challenge of one kernel under a schedule.
fn predicted(name: &str, kernel: &Kernel, schedule: &Schedule, sizes: &str) -> f64 {
    let subject = subject(name).expect("a challenge of the gallery");
    let sizes = Sizes::parse(sizes).expect("sizes");
    let call = subject.call(&sizes, 1).expect("a call");
    let launch = &launches(&subject.program, &call, 0).expect("launches")[0];
    let prediction = Prediction::new(&subject, &sizes, (kernel, launch), Target::h200(), vec![schedule.clone()]);
    prediction.site_us(schedule).expect("a time").0
}

/// Many blocks for few long sums; but for many short ones what they leave each other costs more than they gain.
#[test]
fn predictions_know_what_sharing_sums_gains_and_costs() {
    let kernel = built(matrix_multiplication::matrix_multiplication::Kernel::def());
    let at = kernel.knobs.iter().position(|k| k.kind == KnobKind::Split).expect("it can share sums");
    let with_parts = |parts: i64, sizes: &str| {
        let mut schedule = Schedule::default_of(&kernel);
        schedule.choices[at] = Choice::Int(parts);
        predicted("matrix_multiplication", &kernel, &schedule, sizes)
    };
    let long = [1, 8, 0].map(|parts| with_parts(parts, "M=256 N=16384 K=256"));
    assert!(long[1] < 0.3 * long[0] && long[2] < long[1], "{long:?}");
    let short = [1, 8].map(|parts| with_parts(parts, "M=4096 N=64 K=4096"));
    assert!(short[1] > 1.2 * short[0], "{short:?}");
}

/// Vectors of four positions are two stores that each fill every sector in halves: 108 µs on an H200, where pairs take 99.
#[test]
fn predictions_know_what_half_filled_sectors_cost() {
    let kernel = built(girih_examples::interleave::interleave_pairs::Kernel::def());
    let [pairs, fours] = [2, 4].map(|lanes| {
        let text = format!("T=1024 C=4 V={lanes} G=0 H=Default");
        let schedule = parse_schedule(&kernel, &text).expect("a schedule");
        predicted("interleave", &kernel, &schedule, "N=25000000")
    });
    assert!((1.08..1.2).contains(&(fours / pairs)), "{fours} and {pairs}");
}

/// What blocks leave is taken up by the last of them, or by a launch more.
#[test]
fn predictions_know_what_a_second_launch_costs() {
    let kernel = built(girih_examples::reduction::reduction::Kernel::def());
    let at = kernel.knobs.iter().position(|k| k.kind == KnobKind::Finish).expect("blocks finish in several ways");
    let [last, second] = ["LastBlock", "SecondLaunch"].map(|word| {
        let mut schedule = Schedule::default_of(&kernel);
        schedule.choices[at] = Choice::Word(word.into());
        predicted("reduction", &kernel, &schedule, "N=4194304")
    });
    let launch = Target::h200().launch * 1e6;
    // The last block's own part comes behind the others' end, as a launch does.
    assert!((last + 0.8 * launch..last + 3.0 * launch).contains(&second), "{last} and {second}, a launch takes {launch}");
}

/// On older GPUs, too, the best schedules for matrix units keep them busy, or the shared memory that feeds them.
#[test]
fn large_products_are_bound_by_the_tensor_pipe_or_by_what_feeds_it() {
    let mut kernel = built(lower_precision_gemm::lower_precision_gemm::Kernel::<F16F32, NN>::def());
    // What only Hopper has is no candidate here.
    let newer = ["Wgmma", "Tensor"].map(|word| Choice::Word(word.into()));
    kernel.knobs.iter_mut().for_each(|knob| knob.choices.retain(|c| !newer.contains(c)));
    let kernel = kernel;
    let subject = subject("gemm_f16_f32_nn").expect("a challenge of the gallery");
    let sizes = Sizes::parse("M=4096 N=4096 K=4096").expect("sizes");
    let launch = &launches(&subject.program, &subject.call(&sizes, 1).expect("a call"), 0).expect("launches")[0];
    for target in [older("t4"), older("a100")] {
        // Sums that blocks share are written and read once more.
        let matrix = |s: &Schedule| s.short(&kernel).contains("U=Mma") && s.short(&kernel).contains("Z=1");
        let space = Space::new(&kernel, &launch.facts, target);
        let rungs = Ladder::new(&space).expect("legal schedules").expect("it multiplies tiles").rungs;
        let drawn = space.sample(160, 1).into_iter().chain(rungs.into_iter().map(|rung| rung.schedule));
        let candidates: Vec<Schedule> = drawn.filter(matrix).collect();
        let prediction = Prediction::new(&subject, &sizes, (&kernel, launch), target, candidates.clone());
        let timed = candidates.iter().map(|s| (prediction.rough_us(s), s));
        let (_, best) = timed.min_by(|(a, _), (b, _)| a.total_cmp(b)).expect("a candidate");
        let bound = prediction.bottleneck(best);
        assert!(
            matches!(bound, Some(Bottleneck::Tensor | Bottleneck::Shared)),
            "{}: {bound:?} bounds {}",
            target.name,
            best.short(&kernel)
        );
    }
}

#[test]
fn products_are_predicted_near_what_their_units_can_do() {
    let climb = climbed("matrix_multiplication", "");
    let tflops = |name: &str| {
        let rung = climb.rungs.iter().find(|r| r.name == name).expect("a rung");
        climb.flops / rung.us.as_ref().expect("a time") / 1e6
    };
    // The H200's multiply-adds end at about 60 TFLOP/s; a thread that reads two numbers for each is far from that.
    assert!((40.0..62.0).contains(&tflops("pipeline")), "{climb:?}");
    assert!(tflops("naive") < 8.0, "{climb:?}");
    assert!(tflops("register") < tflops("double") && tflops("shared") < tflops("register"), "{climb:?}");
}

#[test]
fn predictions_of_products_grow_with_their_operations() {
    let kernel = built(batched_matrix_multiplication::batched_matrix_multiplication::Kernel::def());
    let ladder = ladder(&kernel, Target::h200()).expect("it multiplies tiles");
    let naive = |sizes: &str| predicted("batched_matrix_multiplication", &kernel, &ladder.rungs[0].schedule, sizes);
    // The tensors grow four times, the operations eight times.
    let ratio = naive("BATCH=8 M=512 N=512 K=512") / naive("BATCH=8 M=256 N=256 K=256");
    assert!((6.0..10.0).contains(&ratio), "{ratio}");
}
