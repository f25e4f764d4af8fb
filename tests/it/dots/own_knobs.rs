//! Knobs for one loop or operand: which choice counts where, and what is refused.

use super::super::launches::best_facts;
use super::super::rungs::all_kernels;
use girih_core::cuda::emit;
use girih_core::lower::{check, lower};
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

fn kernel(name: &str) -> Kernel {
    all_kernels().into_iter().find(|k| k.name == name).unwrap_or_else(|| panic!("no kernel {name}"))
}

fn schedule(kernel: &Kernel, text: &str) -> Schedule {
    parse_schedule(kernel, text).unwrap_or_else(|e| panic!("{e}"))
}

fn text(name: &str, settings: &str) -> String {
    let kernel = kernel(name);
    let simt = lower(&kernel, &best_facts(&kernel), &schedule(&kernel, settings), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    emit(&simt)
}

#[track_caller]
fn refused(name: &str, settings: &str, message: &str) {
    let kernel = kernel(name);
    let error = check(&kernel, &best_facts(&kernel), &schedule(&kernel, settings), Target::h200()).expect_err("a refusal").to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn each_loop_has_its_own_stages_and_copies() {
    let both = text("sums_apart", "S=2,P=Registers,SL=4,PL=Async,O=Shared,OE=Shared");
    assert!(
        both.contains("store it to the other buffer") && both.contains("prologue: start the copies of the first 3 of 4 stages"),
        "{both}"
    );
    let first = text("sums_apart", "S=3,P=Async,SL=1,PL=Registers,O=Shared,OE=Shared");
    assert!(first.contains("of the first 2 of 3 stages") && !first.contains("other buffer"), "{first}");
}

#[test]
fn each_operand_is_read_and_copied_in_its_own_way() {
    let apart = text("operands_apart", "OA=Shared,OB=Direct,PA=Async");
    assert!(apart.contains("copy_async<16>(a_smem") && !apart.contains("b_smem"), "{apart}");
    let ring = text("operands_apart", "OA=Shared,OB=Shared,PA=Async,PB=Registers,S=3");
    assert!(ring.contains("copy_async<16>(a_smem") && ring.contains("b_smem") && !ring.contains("(b_smem, "), "{ring}");
    let both = text("operands_apart", "OA=Direct,OB=Direct");
    assert!(!both.contains("__shared__"), "{both}");
}

#[test]
fn the_attribute_says_what_knobs_are_for() {
    let kernel = kernel("operands_apart");
    let pinned = Schedule::default_of(&kernel).attribute(&kernel);
    let parts = ["operands(OA of a = Shared, OB of b = Direct)", "stages(S of k = 3)", "copy(PA of a = Async, PB of b = Registers)"];
    assert!(parts.iter().all(|part| pinned.contains(part)), "{pinned}");
    assert!(kernel.to_string().contains("knob PA = copy of a [Async, Registers]"), "{kernel}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    refused("unit_operands_apart", "PA=Overlap,PB=Async", "PA / PB = Overlap / Async: the copies of one loop share a ring");
    refused("unit_operands_apart", "PA=Registers,PB=Mbarriers", "PB / PA = Mbarriers / Registers: the copies of one loop share a ring");
    refused("unit_operands_apart", "PB=Overlap,S=1", "PB = Overlap: needs a ring: stages must be at least 2");
    refused("two_unit_sums", "P=Overlap", "P = Overlap: overlaps the turns of one dot");
}
