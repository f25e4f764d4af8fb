//! Dots: every schedule computes what `eval` computes; what the generated code does, counted; what is refused.

pub mod chained {
    //! Dots whose results the body goes on with.
    pub mod groups {
        //! Attention on warp groups.
        pub mod kernels;
        mod texts;
        mod turns;
    }
    pub mod kernels;
    pub mod pairs;
    mod texts;
}
pub mod converted_lefts {
    //! Kernels of the tests of `converted`.
    pub mod kernels;
}
pub mod folded {
    //! Dots by operations of the author's.
    pub mod kernels;
}
pub mod groups {
    //! Products by warp groups.
    pub mod kernels;
}
pub mod named {
    //! Knobs for one loop or operand.
    pub mod kernels;
}
pub mod neighbours {
    //! Products by blocks at neighbouring tiles.
    pub mod kernels;
}
pub mod sliced {
    //! Sums that slices of a block share.
    pub mod kernels;
}
pub mod spanned {
    //! Sums over some positions of their axis.
    pub mod kernels;
}
pub mod turns {
    //! Loops that do more than add up dots.
    pub mod kernels;
}
mod blocks;
mod converted;
mod flat;
mod folds;
pub mod kernels;
mod levels;
mod neighbouring;
mod numerics;
mod own_knobs;
mod planes;
mod precision;
mod rounded;
mod slices;
mod splits;
mod traffic;

use super::differential::compare;
use super::rungs::all_kernels;
use girih_core::schedule::space::Space;

/// Two dots in one loop, the second of the first one's sum: with results of one shape they are no less legal than one.
#[test]
fn two_dots_of_one_shape_go_to_matrix_units() {
    let kernel = all_kernels().into_iter().find(|k| k.name == "chained_integers").expect("a kernel");
    let schedule = girih_core::schedule::Schedule::default_of(&kernel);
    let facts = girih_core::facts::Facts::best(&kernel);
    let simt = girih_core::lower::lower(&kernel, &facts, &schedule, girih_core::target::Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    assert!(girih_core::cuda::emit(&simt).contains("mma.sync"), "{}", girih_core::cuda::emit(&simt));
}

/// Under their first schedules products go to warp groups on Hopper, and nowhere else.
#[test]
fn warp_groups_multiply_on_hopper_alone() {
    let kernels: Vec<_> = all_kernels().into_iter().filter(|k| k.path.contains("dots::groups")).collect();
    assert!(kernels.len() >= 6, "{} kernels", kernels.len());
    for kernel in &kernels {
        let schedule = girih_core::schedule::Schedule::default_of(kernel);
        let facts = girih_core::facts::Facts::best(kernel);
        let lowered =
            |target| girih_core::lower::lower(kernel, &facts, &schedule, girih_core::target::Target::find(target).expect("a GPU"));
        let simt = lowered("h200").unwrap_or_else(|e| panic!("{}: {e}", kernel.full_name()));
        assert!(girih_core::cuda::emit(&simt).contains("wgmma.mma_async"), "{}", girih_core::cuda::emit(&simt));
        let error = lowered("b200").expect_err("no wgmma on sm_100a").to_string();
        assert!(error.contains("sm_100a has no matrix instructions of warp groups: use Mma"), "{error}");
    }
}

/// Sums that begin with zeros have none in registers: the first instruction writes them. A stage is handed back behind the last product that
/// reads it.
#[test]
fn sums_of_a_turn_begin_with_their_products() {
    let kernel = all_kernels().into_iter().find(|k| k.name == "scaled_group_sums").expect("a kernel");
    let schedule = girih_core::schedule::Schedule::default_of(&kernel);
    let facts = girih_core::facts::Facts::best(&kernel);
    let simt = girih_core::lower::lower(&kernel, &facts, &schedule, girih_core::target::Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let text = girih_core::cuda::emit(&simt);
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in\n{text}"));
    assert!(!text.contains("sum[e] = 0.0f"), "{text}");
    assert!(place("kk > 0);") < place("wgmma_wait<0>(sum);"), "{text}");
    let (waited, handed_back, scaled) = (place("wgmma_wait<0>(sum);"), place("mbarrier_arrive(&stage_free"), place("= sum["));
    assert!(waited < handed_back && handed_back < scaled, "{text}");
}

/// Groups that add up what they multiplied do so while others multiply. One group alone has no turns.
#[test]
fn groups_of_a_split_product_multiply_in_turn() {
    let text = |name: &str, schedule: &str| {
        let kernel = all_kernels().into_iter().find(|k| k.name == name).expect("a kernel");
        let schedule = girih_core::schedule::parse::parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        let facts = girih_core::facts::Facts::best(&kernel);
        let target = girih_core::target::Target::h200();
        girih_core::cuda::emit(&girih_core::lower::lower(&kernel, &facts, &schedule, target).unwrap_or_else(|e| panic!("{e}")))
    };
    let with = |w: u32, bm: u32| format!("BM={bm},BN=64,BK=64,V=8,U=Wgmma,W={w},S=2,P=Tensor,G=1");
    let turns = text("promoted_halves", &with(8, 128));
    let place = |part: &str, from: usize| from + turns[from..].find(part).unwrap_or_else(|| panic!("no `{part}` in\n{turns}"));
    let begins = place("// the consumers", 0);
    let let_in = place("    pass_turn<2, 2>();", begins);
    let waits = place("    await_turn<2>();", let_in);
    let issued = place("wgmma_commit();", waits);
    let passed = place("    pass_turn<2, 2>();", issued);
    assert!(passed < place("wgmma_wait<0>", issued), "{turns}");
    place("    await_turn<2>();", passed);
    assert!(!text("promoted_halves", &with(4, 64)).contains("await_turn"), "one group has no turns");
}

/// A producer computes what its copies depend on for itself.
#[test]
fn producers_know_where_their_copies_lie() {
    let kernel = all_kernels().into_iter().find(|k| k.name == "multiply_planes_of_batch").expect("a kernel of the gallery");
    let text = "B=1,BM=128,BN=128,BK=64,TM=8,TN=8,V=8,U=Wgmma,W=8,S=3,P=Tensor,G=1";
    let schedule = girih_core::schedule::parse::parse_schedule(&kernel, text).expect("a schedule");
    let facts = girih_core::facts::Facts::best(&kernel);
    let simt = girih_core::lower::lower(&kernel, &facts, &schedule, girih_core::target::Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let text = girih_core::cuda::emit(&simt);
    let producer = &text[text.find("// the producer").expect("a producer")..];
    let place = |part: &str| producer.find(part).unwrap_or_else(|| panic!("no `{part}` in\n{producer}"));
    assert!(place(" i2 = i;") < place("copy_box(&left_0_smem"), "{producer}");
}

#[test]
fn every_schedule_of_dots_computes_what_eval_computes() {
    let chosen = super::differential::chosen();
    // One is wrong on purpose, and the evaluator says so.
    let kernels: Vec<_> = all_kernels().into_iter().filter(|k| k.path.contains("dots::") && k.name != "too_near").collect();
    assert!(kernels.len() >= 12, "{} kernels with dots", kernels.len());
    compare(&kernels.into_iter().filter(|k| chosen.iter().any(|c| c.path == k.path)).collect::<Vec<_>>());
}

/// Results are compared with the naive schedule's, which every kernel has, whatever a launch promises: also one whose every plain tile has too
/// many elements for one thread each.
#[test]
fn wide_heads_have_a_naive_schedule() {
    let kernels: Vec<_> = all_kernels().into_iter().filter(|k| k.name == "flash_attention").collect();
    assert_eq!(kernels.len(), 8);
    for kernel in &kernels {
        let space = Space::new(kernel, &girih_core::facts::Facts::none(kernel), girih_core::target::Target::h200());
        let naive = space.naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.full_name()));
        assert!(naive.choices.iter().any(|c| c.to_string() == "Ffma"), "{:?}", naive.choices);
    }
}

/// Where one element per thread makes too many threads, the naive schedule takes small tiles: 1024 threads of 16 elements each have too few
/// registers for them, and the compiler of a long text is what a search waits for.
#[test]
fn coarse_naive_schedules_take_small_tiles() {
    let kernels: Vec<_> = all_kernels().into_iter().filter(|k| k.name.starts_with("multiply_planes")).collect();
    assert!(kernels.len() >= 3);
    for kernel in &kernels {
        let space = Space::new(kernel, &girih_core::facts::Facts::none(kernel), girih_core::target::Target::h200());
        let naive = space.naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.full_name())).short(kernel);
        assert!(naive.contains("BM=64 BN=64 BK=32 TM=4 TN=4 V=1 U=Ffma"), "{}: {naive}", kernel.full_name());
    }
}
