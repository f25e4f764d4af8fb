//! Blocks that share a multiprocessor (`min_blocks`): what launch bounds say, what is refused, and that nothing spills for it.

use super::super::launches::best_facts;
use super::super::nvrtc::provide;
use super::super::rungs::{all_kernels, chosen, gallery};
use girih::Compiled;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::model::most_registers;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::target::Target;
use girih_core::tile::Kernel;

fn at(kernel: &Kernel) -> Option<usize> {
    kernel.knobs.iter().position(|k| k.kind == KnobKind::MinBlocks)
}

fn named(name: &str) -> Kernel {
    all_kernels().into_iter().find(|k| k.name == name).unwrap_or_else(|| panic!("no kernel {name}"))
}

fn with_blocks(kernel: &Kernel, settings: &str, blocks: i64) -> Schedule {
    let mut schedule = parse_schedule(kernel, settings).unwrap_or_else(|e| panic!("{e}"));
    schedule.choices[at(kernel).expect("a knob")] = Choice::Int(blocks);
    schedule
}

/// The knob is the launch bounds' second argument, and nothing else in the code; so two of its values are two candidates.
#[test]
fn launch_bounds_say_how_many_blocks_are_to_fit() {
    let kernel = named("matrix_multiplication");
    let facts = best_facts(&kernel);
    let of = |blocks| {
        let simt = lower(&kernel, &facts, &with_blocks(&kernel, "", blocks), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(i64::from(simt.launch.min_blocks), blocks);
        emit(&simt)
    };
    let (one, two) = (of(1), of(2));
    assert!(one.contains("__launch_bounds__(256, 1)") && one.contains("min_blocks(Q = 1)"), "{one}");
    assert!(two.contains("__launch_bounds__(256, 2)") && two.contains("min_blocks(Q = 2)"), "{two}");
    assert_eq!(one.replace("(256, 1)", "(256, 2)").replace("(Q = 1)", "(Q = 2)"), two);
    let space = Space::new(&kernel, &facts, Target::h200());
    for blocks in [1, 2] {
        let schedule = with_blocks(&kernel, "", blocks);
        assert!(space.is_candidate(&schedule), "{blocks}");
        assert_eq!(space.canonical(&schedule), schedule);
    }
}

/// As many blocks as fit have equal shares: at least those that registers are kept low for.
#[test]
fn equal_shares_are_for_all_blocks_that_fit() {
    let kernel = named("matrix_multiplication");
    let grid = |blocks| {
        let schedule = with_blocks(&kernel, "Z=0", blocks);
        let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        simt.launch.grid.to_words(&|_| "n".to_string())
    };
    assert!(!grid(1).contains("n * 2") && grid(2).contains("min(n * 2, "), "{} {}", grid(1), grid(2));
}

#[test]
fn more_blocks_than_fit_are_refused() {
    let kernel = named("matrix_multiplication");
    let refused = |settings: &str, blocks: i64, arch: &str| {
        let target = Target::find(arch).expect("a target");
        let schedule = with_blocks(&kernel, settings, blocks);
        lower(&kernel, &Facts::none(&kernel), &schedule, target).expect_err("they don't fit").to_string()
    };
    let text = refused("", 9, "sm_90a");
    assert!(text.contains("Q = 9: as many blocks have 2304 threads; a multiprocessor of sm_90a holds at most 2048"), "{text}");
    let text = refused("P=Registers S=1", 5, "sm_75");
    assert!(text.contains("Q = 5: as many blocks have 1280 threads; a multiprocessor of sm_75 holds at most 1024"), "{text}");
    let text = refused("", 5, "sm_90a");
    let rule = "as many blocks take 250880 bytes of shared memory, 50176 each; a multiprocessor of sm_90a has 233472, room for 4";
    assert!(text.contains(&format!("Q = 5: {rule}")), "{text}");
    let text = refused("BM=16 BN=16 TM=8 TN=8", 33, "sm_90a");
    assert!(text.contains("Q = 33: a multiprocessor of sm_90a holds at most 32 blocks"), "{text}");
    let text = refused("", 0, "sm_90a");
    assert!(text.contains("Q = 0: must be positive"), "{text}");
}

/// Gallery kernels that know the knob keep to the registers that their default leaves, without local memory. Two blocks are the default of
/// all but those that would keep values in local memory then. (Roles of attentions on warp groups share a block's registers among themselves:
/// `cubins_of_attention_on_warp_groups_are_what_was_meant`.)
#[test]
fn defaults_leave_room_for_their_blocks_without_spills() {
    provide();
    let (mut failures, mut compiled) = (Vec::new(), 0);
    let roles = ["flash_attention", "attention_of_planes", "parts_of_planes", "gradients_of_keys", "gradients_of_queries"];
    for kernel in gallery().into_iter().filter(|k| at(k).is_some() && !roles.contains(&k.name.as_str())) {
        let asked = Schedule::default_of(&kernel).int_of_kind(&kernel, KnobKind::MinBlocks, 1);
        let alone = [
            "scaled_groups",
            "packed_groups",
            "segmented_prefix_sum::scan_in_order",
            "reduce_runs",
            "selective_walk",
            "split_matrix_multiplication",
            "split_batched_multiplication",
        ];
        let alone = alone.iter().any(|name| kernel.path.ends_with(name));
        // keep_above streams, and was tuned to four.
        let several = if kernel.name == "keep_above" { 4 } else { 2 };
        assert_eq!(asked, if alone { 1 } else { several }, "{}", kernel.name);
        let simt = lower(&kernel, &best_facts(&kernel), &Schedule::default_of(&kernel), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let most = most_registers(simt.launch.block, simt.launch.min_blocks);
        let found = Compiled::of(simt, Target::h200()).with_cubin().unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let found = found.resources.expect("a cubin has resources");
        compiled += 1;
        if found.registers > most || found.spill_store_bytes > 0 || found.stack > 0 {
            failures.push(format!("{}: {found:?}, at most {most} registers", kernel.full_name()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(chosen().is_some() || compiled >= 20, "{compiled} kernels");
}
