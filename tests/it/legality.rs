//! Rules that schedules obey: each is broken by a schedule, whose error names it, and SCHEDULE.md tells all of them (`docs`).

mod broken;

use super::launches::best_facts;
use girih_core::error::CompileError;
use girih_core::lower::lower;
use girih_core::registry;
use girih_core::schedule::legality::Rule;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, Schedule, ScheduleError};
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// The linked kernel of a name, types included.
fn kernel(name: &str) -> Result<Kernel, String> {
    // Links the gallery in.
    use girih_examples as _;
    let short = name.split('<').next();
    let alike = registry::kernels().into_iter().filter(|d| Some(d.name) == short);
    for def in alike {
        let kernel = (def.build)().map_err(|e| format!("{}: {e}", def.path()))?;
        if kernel.full_name() == name {
            return Ok(kernel);
        }
    }
    Err(format!("no kernel is called {name}"))
}

/// The schedule of a text as `--set` reads it, except that any word and any number will do.
fn schedule(kernel: &Kernel, text: &str) -> Schedule {
    let mut schedule = Schedule::default_of(kernel);
    for setting in text.split_whitespace() {
        let (name, choice) = setting.split_once('=').unwrap_or_else(|| panic!("{setting}"));
        let at = kernel.knobs.iter().position(|k| k.name == name).unwrap_or_else(|| panic!("{} has no {name}", kernel.name));
        schedule.choices[at] = choice.parse().map_or_else(|_| Choice::Word(choice.into()), Choice::Int);
    }
    schedule
}

/// A kernel, a schedule and an architecture under which the schedule breaks the rule.
fn breaks(rule: Rule) -> (&'static str, &'static str, &'static str) {
    let on_h200 = |kernel, schedule| (kernel, schedule, "sm_90a");
    match rule {
        Rule::Number => on_h200("vector_add", "C=Async"),
        Rule::Word => on_h200("vector_add", "P=3"),
        Rule::Positive => on_h200("vector_add", "C=0"),
        Rule::ChainTarget => ("decaying_sums", "W=2", "sm_75"),
        Rule::TileLength => on_h200("vector_add", "T=131072"),
        Rule::TilePinned => on_h200("one_result", "O=2"),
        Rule::BlockThreads => on_h200("vector_add", "T=2048 C=1"),
        Rule::BlockShared => on_h200("matrix_multiplication", "BM=256 BN=256 BK=64 TM=16 TN=16 S=4 P=Async Q=1"),
        Rule::Lanes => on_h200("exchanged", "T=48"),
        Rule::ChainLanes => on_h200("chained_tiles", "C=2"),
        Rule::CoarsenDivides => on_h200("vector_add", "T=256 C=3"),
        Rule::ThreadsDivide => on_h200("by_threads", "N=96"),
        Rule::VectorPower => on_h200("vector_add", "V=3"),
        Rule::VectorDivides => on_h200("vector_add", "C=2 V=4"),
        Rule::VectorBytes => on_h200("vector_add", "T=1024 C=32 V=32"),
        Rule::GridMeets => on_h200("meeting_tiles", "G=1"),
        Rule::TilesInOrder => on_h200("ordered_tiles", "G=1"),
        Rule::TilesAsTheyCome => on_h200("ordered_tiles", "X=4"),
        Rule::ChainOnce => on_h200("chained_tiles", "G=1"),
        Rule::StagesAhead => on_h200("vector_add", "T=65536 C=64 G=4 S=4096"),
        Rule::CopyTarget => ("vector_add", "G=4 S=2 P=Async", "sm_75"),
        Rule::CopyNotYet => on_h200("vector_add", "G=4 S=2 P=Bulk"),
        Rule::OverlapUnit => on_h200("gemm", "U=Ffma O=Shared S=2 P=Overlap"),
        Rule::OverlapDots => on_h200("two_sums", "U=Mma S=2 P=Overlap"),
        Rule::OverlapStages => on_h200("gemm", "BM=64 BN=64 BK=32 U=Mma W=4 O=Shared S=1 P=Overlap"),
        Rule::OverlapSteps => on_h200("gemm", "BM=64 BN=64 BK=16 U=Mma W=4 O=Shared S=2 P=Overlap"),
        Rule::MbarriersSlices => on_h200("sliced_integers<i8>", "BK=64 U=Mma W=2 S=2 P=Mbarriers Y=2"),
        Rule::MbarriersBytes => on_h200("gemm", "BM=64 BN=64 BK=32 V=1 U=Mma W=4 O=Shared S=2 P=Mbarriers"),
        Rule::RingCopies => on_h200("unit_operands_apart", "PA=Overlap PB=Async"),
        Rule::MbarriersPipeline => on_h200("product_rows<f16>", "BK=32 V=4 U=Mma W=2 S=2 P=Mbarriers"),
        Rule::HaloReach => on_h200("far_neighbours", "T=32"),
        Rule::CopiesPower => on_h200("histogram_256<i32, Value>", "K=3"),
        Rule::CacheTarget => ("kept_loads", "H=Kept", "sm_75"),
        Rule::ConstantRead => on_h200("tiles_of_a_table", "M=On"),
        Rule::ConstantStored => on_h200("tiles_of_a_table", "N=On"),
        Rule::OperandsTile => on_h200("matrix_multiplication", "BM=32 BN=32 BK=12 TM=1 TN=1 V=1 O=Direct S=1 P=Registers"),
        Rule::UnitOperands => on_h200("gemm", "U=Mma O=Direct"),
        Rule::TensorUnit => on_h200("gemm", "BM=64 BN=64 BK=32 U=Mma W=4 O=Shared S=3 P=Tensor"),
        Rule::TensorLoop => on_h200("gemm", "BM=64 BN=64 BK=32 U=Wgmma W=4 O=Shared S=3 P=Tensor Z=2"),
        Rule::UnitGroupTarget => ("gemm", "U=Wgmma", "sm_100a"),
        Rule::UnitGroups => on_h200("gemm", "BM=32 U=Wgmma W=4 O=Shared"),
        Rule::UnitGroupChain => on_h200("converted_group_product", "U=Wgmma"),
        Rule::UnitGroupRounded => on_h200("lower_precision_gemm<Tf32, NT>", "U=Wgmma P=Async"),
        Rule::UnitGroupAcross => on_h200("lower_precision_gemm<Int8, NN>", "BK=64 U=Wgmma"),
        Rule::UnitGroupRows => on_h200("gemm", "BM=64 BN=32 BK=48 U=Wgmma W=4 O=Shared P=Async"),
        Rule::UnitNumbers => on_h200("unrounded", "U=Mma"),
        Rule::UnitFold => on_h200("too_near", "U=Mma"),
        Rule::UnitTarget => ("lower_precision_gemm<Tf32, NN>", "U=Mma", "sm_75"),
        Rule::UnitDepth => on_h200("gemm", "BK=12 U=Mma O=Shared"),
        Rule::UnitAxes => on_h200("narrow_product", "U=Mma"),
        Rule::UnitResult => on_h200("rows_of_products", "U=Mma"),
        Rule::UnitWarps => on_h200("gemm", "BM=64 BN=64 BK=32 U=Mma W=3 O=Shared"),
        Rule::SumDots => on_h200("no_dots", "Z=2"),
        Rule::SumLoop => on_h200("two_sums", "M=32 N=32 U=Ffma Z=2"),
        Rule::SumGrid => on_h200("summed_tiles", "Z=2"),
        Rule::SumStores => on_h200("stored_before", "Z=2"),
        Rule::SumTurns => on_h200("split_band", "Z=2"),
        Rule::SumCarries => on_h200("watched_product", "Z=2"),
        Rule::SumSoFar => on_h200("watched_elements", "Z=2"),
        Rule::SumMore => on_h200("short_product", "Z=2"),
        Rule::SumBranches => on_h200("guarded_sum", "Z=2"),
        Rule::SlicesAlone => on_h200("sliced_product<f32>", "Z=2 Y=2"),
        Rule::SlicesRest => on_h200("totalled_tiles", "Y=2"),
        Rule::SlicesWarps => on_h200("sliced_product<f32>", "BM=8 BN=16 TM=2 TN=4 Y=2"),
        Rule::SlicesThreads => on_h200("sliced_product<f32>", "BM=32 BN=32 TM=2 TN=2 V=2 Y=8"),
        Rule::SlicesBarriers => on_h200("sliced_product<f32>", "BM=16 BN=32 TM=2 TN=4 Y=16"),
        Rule::SlicesRegisters => on_h200("sliced_product<f32>", "BM=16 BN=32 TM=2 TN=4 Y=3"),
        Rule::ClusterTarget => ("clustered_sums", "X=2", "sm_80"),
        Rule::ClusterSize => on_h200("clustered_sums", "X=3"),
        Rule::ClusterPinned => on_h200("pinned_columns", "X=2"),
        Rule::ClusterGrid => on_h200("dealt_rows", "G=1 X=2"),
        Rule::ClusterCopies => on_h200("neighbouring_rows", "U=Wgmma P=Async X=2"),
        Rule::ClusterLoops => on_h200("other_tiles", "X=2"),
        Rule::ClusterCarries => on_h200("counted_turns", "X=2"),
        Rule::ClusterReductions => on_h200("sums_of_turns", "X=2"),
        Rule::ClusterNumbers => on_h200("wide_numbers", "X=2"),
        Rule::ClusterStores => on_h200("stored_by_turns", "X=2"),
        Rule::ClusterMemory => on_h200("rows_in_place", "X=2"),
        Rule::ClusterRest => on_h200("totals_of_rows", "X=2"),
        Rule::AtomicsOperator => on_h200("last_odd", "F=Atomics"),
        Rule::AtomicsOrder => on_h200("demanded<f32>", "F=Atomics"),
        Rule::SecondLaunchArrays => on_h200("own_array", "F=SecondLaunch"),
        Rule::SecondLaunchValues => on_h200("own_share", "F=SecondLaunch"),
        Rule::BlocksResident => on_h200("matrix_multiplication", "BM=16 BN=16 TM=8 TN=8 Q=33"),
        Rule::BlocksThreads => on_h200("matrix_multiplication", "Q=9"),
        Rule::BlocksShared => on_h200("matrix_multiplication", "Q=5"),
        Rule::OptLevel => on_h200("matrix_multiplication", "L=4"),
    }
}

fn refusal(rule: Rule) -> Result<ScheduleError, String> {
    let (name, text, arch) = breaks(rule);
    let kernel = kernel(name)?;
    let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
    match lower(&kernel, &best_facts(&kernel), &schedule(&kernel, text), target) {
        Err(CompileError::Schedule(error)) => Ok(error),
        Err(other) => Err(other.to_string()),
        Ok(_) => Err(format!("{name} may have {text}")),
    }
}

#[test]
fn every_rule_is_broken_by_a_schedule() {
    let (mut told, mut wrong) = (Vec::new(), Vec::new());
    for &rule in Rule::ALL {
        match refusal(rule) {
            Ok(error) if Rule::of(error.id) == Some(rule) => told.push(format!("{rule:?}: {error}")),
            Ok(error) => wrong.push(format!("{rule:?}: another rule is broken ({}): {error}", error.id)),
            Err(why) => wrong.push(format!("{rule:?}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("illegal_by_rule", told.join("\n"));
    });
}

#[test]
fn blocks_that_begin_in_the_order_of_the_tiles_have_one_way_through_them() {
    let kernel = kernel("ordered_tiles").expect("it is linked");
    let space = Space::new(&kernel, &best_facts(&kernel), Target::h200());
    let refused = |text| space.check(&schedule(&kernel, text)).err().map(|e| (e.id, e.knob, e.found));
    assert_eq!(refused("D=Falling"), Some(("TilesAsTheyCome", "D".into(), "Falling".into())));
    assert_eq!(refused("D=Falling X=4"), Some(("TilesAsTheyCome", "X".into(), "4".into())));
    let listed: Vec<String> = space.enumerate().iter().map(|s| s.short(&kernel)).collect();
    assert_eq!(listed, ["T=64 G=0 X=1 D=Rising", "T=96 G=0 X=1 D=Rising"]);
}
