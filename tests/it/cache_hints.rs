//! Loads whose lines the caches are asked to keep, or to let go: which they are, and where there are none.

use super::kernels::kept_loads;
use super::launches::best_facts;
use girih_core::cuda::emit;
use girih_core::error::CompileError;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_examples::ladders::color_inversion::inverted_ahead;

fn text(schedule: &str, target: &Target) -> Result<String, CompileError> {
    let kernel = (kept_loads::Kernel::def().build)().expect("the kernel builds");
    let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    lower(&kernel, &best_facts(&kernel), &schedule, target).map(|simt| emit(&simt))
}

/// What the kernel writes may change between two loads, and half words have no such instruction here.
#[test]
fn words_of_what_is_only_read_are_kept() {
    let vectors = text("T=256,C=4,V=4,H=Kept", Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    assert!(vectors.contains("load_kept(reinterpret_cast<const float4*>(x + i))"), "{vectors}");
    assert_eq!(vectors.matches("load_kept(").count(), 3, "the helper, x and four half words: {vectors}");
    let single = text("T=64,C=1,V=1,H=Kept", Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    assert!(single.contains("load_kept(x + i)") && single.matches("load_kept(").count() == 2, "the helper and one load: {single}");
    let usual = text("T=256,C=4,V=4,H=Default", Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    assert!(!usual.contains("load_kept"), "{usual}");
}

/// Also of what the kernel writes: nothing moves across such a load.
#[test]
fn words_leave_nothing_in_the_l1() {
    let kernel = (inverted_ahead::Kernel::def().build)().expect("the kernel builds");
    let of = |schedule: &str| {
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        lower(&kernel, &best_facts(&kernel), &schedule, Target::find("t4").expect("T4 is known")).map(|simt| emit(&simt)).expect("legal")
    };
    let once = of("T=1024,C=4,V=4,G=8,S=2,H=Once");
    assert!(once.contains("load_once(reinterpret_cast<const uint4*>(pixels + ") && once.contains("\"memory\""), "{once}");
    assert!(!of("T=1024,C=4,V=4,G=8,S=2,H=Default").contains("load_once"));
}

#[test]
fn gpus_without_policies_of_their_cache_refuse_them() {
    let t4 = Target::find("t4").expect("T4 is known");
    let refused = text("T=256,C=4,V=4,H=Kept", t4).expect_err("sm_75 has no createpolicy").to_string();
    assert!(refused.contains("H = Kept: sm_75 has no policies of its L2 cache; use Default"), "{refused}");
}
