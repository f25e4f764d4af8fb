//! Warps that hand values on, asynchronous copies by hand, and runs of neighbours.

pub mod kernels;

use super::language::{ir, mistakes_in, says};
use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use super::snapshots::page;
use girih::prelude::*;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::access::classify;

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn launch_of(kernel: &Kernel, lens: Vec<Vec<i64>>) -> Launch {
    let mut shape = shapes(kernel, &[16], 1, 0).pop().expect("a shape");
    shape.lens = lens;
    Launch::new(kernel, &shape, Placement::Aligned, 5)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

#[test]
fn chains_go_from_warp_to_warp_in_order() {
    let kernel = built(kernels::decaying_sums::Kernel::def());
    let launch = launch_of(&kernel, vec![vec![2, 11, 30]; 2]);
    let x = floats(&launch.elements_of(0));
    let mut expected = vec![0.0f32; x.len()];
    for i in 0..x.len() {
        let (row, before) = (i / 30 % 11, i.wrapping_sub(30));
        expected[i] = if row == 0 { 0.0 } else { expected[before] } * 0.5 + x[i];
    }
    let after = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(floats(&launch.elements_in(&after, 1)), expected);
    for schedule in ["W=2", "W=4"] {
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let after = launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
        assert_eq!(floats(&launch.elements_in(&after.buffers(&launch), 1)), expected, "{}", schedule.short(&kernel));
    }
}

#[test]
fn every_wait_of_a_chain_and_of_copies_is_needed() {
    for (def, lens) in [
        (kernels::decaying_sums::Kernel::def(), vec![vec![2, 11, 30]; 2]),
        (kernels::hashes::Kernel::def(), vec![vec![2, 9], vec![2, 32, 2]]),
        (kernels::sums_ahead::Kernel::def(), vec![vec![2, 3, 300], vec![2, 3]]),
        (kernels::turned_runs::Kernel::<f32>::def(), vec![vec![3, 130]; 2]),
    ] {
        let kernel = built(def);
        let launch = launch_of(&kernel, lens);
        let expected = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let schedule = Schedule::default_of(&kernel);
        let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let after = launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{}: {t}", kernel.name));
        assert_eq!(launch.difference(&kernel, &after, &expected), None, "{}", kernel.name);
        let (mut waits, mut missed) = (0, Vec::new());
        for mutant in mutants(&simt).into_iter().filter(|m| matches!(m.removed, Removed::Wait | Removed::Barrier)) {
            waits += 1;
            let caught = match launch.simulate(&mutant.kernel, 1 << 20) {
                Err(_) => true,
                Ok(after) => launch.difference(&kernel, &after, &expected).is_some(),
            };
            if !caught {
                missed.push(format!("{mutant:?}").chars().take(200).collect::<String>());
            }
        }
        // The last wait is for copies that bring nothing.
        let allowed = usize::from(kernel.name == "sums_ahead");
        assert!(waits > 0 && missed.len() <= allowed, "{}: {missed:#?}", kernel.name);
    }
}

#[test]
fn chains_and_runs_read_like_cuda() {
    for (def, schedule) in [
        (kernels::decaying_sums::Kernel::def(), "W=4"),
        (kernels::turned_runs::Kernel::<f32>::def(), "W=2,C=64"),
        (kernels::sums_ahead::Kernel::def(), "W=4"),
    ] {
        let kernel = built(def);
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("threads.{}", kernel.name), page(&kernel, &schedule));
        });
    }
    says(&ir(kernels::hashes::Kernel::def()), &["start kept, start", "h: u64[2, 32*W] = take kept", "leave kept, next"]);
    says(
        &ir(kernels::sums_ahead::Kernel::def()),
        &["empty parts", "copy 4 of x.slice(0, 0, ..) (", ") to parts (", "close group of copies", "await copies until 1 groups pending"],
    );
    says(&ir(kernels::turned_runs::Kernel::<f32>::def()), &["= gather runs brought (", "scatter runs turned (", "scatter runs y ("]);
}

#[test]
fn runs_are_one_access_where_the_facts_allow_it() {
    let kernel = built(kernels::turned_runs::Kernel::<f32>::def());
    let text = |facts: &girih_core::facts::Facts| {
        let simt = lower(&kernel, facts, &Schedule::default_of(&kernel), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        girih_core::cuda::emit(&simt)
    };
    says(&text(&best_facts(&kernel)), &["copy_async<8>(brought", "float2*>(turned", "*reinterpret_cast<float2*>(y + "]);
    let none = text(&girih_core::facts::Facts::none(&kernel));
    says(&none, &["copy_async<4>(brought", "float2*>(turned"]);
    assert!(!none.contains("copy_async<8>") && !none.contains("float2*>(y"), "{none}");
}

#[test]
fn older_gpus_copy_through_registers_and_have_no_chains() {
    let target = Target::find("sm_75").expect("a T4");
    let kernel = built(kernels::turned_runs::Kernel::<f32>::def());
    let simt = lower(&kernel, &best_facts(&kernel), &Schedule::default_of(&kernel), target).unwrap_or_else(|e| panic!("{e}"));
    assert!(!girih_core::cuda::emit(&simt).contains("cp.async"));
    let launch = launch_of(&kernel, vec![vec![3, 130]; 2]);
    let expected = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
    let after = launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
    assert_eq!(launch.difference(&kernel, &after, &expected), None);
    let kernel = built(kernels::decaying_sums::Kernel::def());
    let error = lower(&kernel, &best_facts(&kernel), &Schedule::default_of(&kernel), target).unwrap_err().to_string();
    says(&error, &["an older GPU", "a chain of warps needs mbarriers: sm_80 or newer"]);
}

/// Reads what a copy may not have brought yet.
#[kernel(tile(T = 64))]
fn read_early(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared_uninit::<f32>([2 * T]).by_hand();
        own.copy_run(2, threads(T) * 2, x, threads(T).cast::<i64>() * 2 + t.start());
        close_copies();
        barrier();
        y.store(t, own.gather(threads(T)));
        await_copies(0);
    }
}

/// Reads what nobody has written.
#[kernel(tile(T = 64))]
fn read_nothing(y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let own = shared_uninit::<f32>([T]);
        y.store(t, own.load(..));
    }
}

/// Runs that begin anywhere.
#[kernel(tile(T = 64))]
fn read_across(y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let own = shared::<f32>([4 * T], 1.0);
        y.store(t, own.gather_run(4, threads(T) * 2).sum_axis(0));
    }
}

/// Copies of a row that there is not.
#[kernel(tile(T = 64))]
fn copied_outside(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared_uninit::<f32>([T]).by_hand();
        own.copy_run(1, threads(T), x, (x.len(0), threads(T)));
        close_copies();
        await_copies(0);
        y.store(t, own.load(..));
    }
}

#[test]
fn the_evaluator_knows_what_has_arrived_and_where_runs_lie() {
    let cases: [(KernelDef, Vec<Vec<i64>>, &str); 4] = [
        (read_early::Kernel::def(), vec![vec![64]; 2], "element 0 of own is accessed before its copy has arrived; close the group"),
        (read_nothing::Kernel::def(), vec![vec![64]], "element 0 of own is read, and nothing was written to it"),
        (read_across::Kernel::def(), vec![vec![64]], "a run of 4 elements begins at 2 along the last axis of own, which is no multiple"),
        (copied_outside::Kernel::def(), vec![vec![3, 64], vec![64]], "x is accessed at 3 along axis 0, which has 3 elements"),
    ];
    for (def, lens, expected) in cases {
        let kernel = built(def);
        let error = launch_of(&kernel, lens).evaluate(&kernel).expect_err(expected);
        says(&error, &[expected]);
    }
}

#[device]
fn wrong_chains(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let _ = chain(zeros::<f32>([20]));
        let (left, mut other) = (v.sum_axis(0), chain(v));
        let taken = other.take();
        other.leave(left);
        y.store((i, j), taken);
        let _ = if v > 0.0 { other.take() } else { v };
    }
}

#[device]
fn wrong_runs(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let mut own = shared::<f32>([64], 0.0);
        let _ = own.gather_run(3, threads(32));
        let _ = own.gather_run(8, threads(32));
        let _ = own.gather_run(4, scalar(0i32));
        own.copy_run(4, threads(32), x, (0, threads(32)));
        own.scatter_run(2, threads(32), zeros::<f32>([4, 32]));
        own.copy_run(4, threads(32), x, (0, threads(64)));
        y.store((i, j), v);
    }
}

#[test]
fn misused_chains_and_runs_are_explained() {
    says(
        &mistakes_in(include_str!("chains.rs"), wrong_chains),
        &[
            "a chain of [20]: a warp is 32 elements along the last axis, which has 20",
            "a chain of [M, N] is left [N]",
            "a chain cannot depend on a per-element condition",
        ],
    );
    says(
        &mistakes_in(include_str!("chains.rs"), wrong_runs),
        &[
            "a run of 3 elements of f32",
            "one access moves 1, 2, 4, .. elements and at most 16 bytes: 4 of f32",
            "a run of 8 elements of f32",
            "a run at one position",
            "a copy on its way to `own`, whose accesses the compiler orders",
            "write `.by_hand()` behind the array",
            "runs of 2 elements at positions of [32] are [4, 32]",
            "copies from positions of [64] to positions of [32]",
        ],
    );
}

/// Chains of which one is never left, one never taken, and one has a store between the two.
#[kernel(tile(T = 64))]
fn broken_chains(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        let (lost, mut found, mut slow) = (chain(v), chain(v), chain(v));
        let _ = lost.take();
        found.leave(v);
        let taken = slow.take();
        y.store(t, taken);
        slow.leave(taken);
    }
}

#[test]
fn chains_are_taken_and_left_together() {
    let errors = classify(&built(broken_chains::Kernel::def())).expect_err("three mistakes");
    says(
        &errors.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("\n"),
        &[
            "`lost` is taken here and never left in the same block of statements: the next warp waits for it",
            "`found` is left here and was not taken before in the same block of statements",
            "between taking and leaving `slow`, warps do more than compute values",
            "read before, write behind: in between, one warp works after the other",
        ],
    );
}
