//! Machine code: kernels become the instructions that their schedules mean.

use super::kernels::saxpy;
use super::launches::best_facts;
use super::nvrtc::provide;
use super::rungs::rungs;
use girih::compile::nvrtc;
use girih::compile::sass::{self, Class, Function};
use girih::compile::{Compiled, Output, compile};
use girih::measure::acceptance::calls_with_stack;
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::path::Path;
use std::process::Command;
use std::sync::Once;

/// Fetches the disassembler if there is none.
fn provide_disassembler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if sass::find().is_err() {
            sass::fetch().unwrap_or_else(|e| panic!("{e}"));
        }
    });
}

/// The code of a kernel with its best facts.
fn code(kernel: &Kernel, schedule: &Schedule, arch: &str) -> Function {
    let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
    let compiled = compile(kernel, &best_facts(kernel), schedule, target, Output::Cubin).unwrap_or_else(|e| panic!("{e}"));
    let mut listing = compiled.sass().unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    assert_eq!(listing.functions.len(), 1, "{listing}");
    listing.functions.remove(0)
}

fn counted(def: KernelDef, schedule: &str, arch: &str, class: Class) -> usize {
    let kernel = (def.build)().expect("a kernel builds");
    let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    let function = code(&kernel, &schedule, arch);
    assert_eq!(function.local_accesses(), 0, "{}: {}", kernel.name, function.summary());
    function.counts().get(&class).copied().unwrap_or(0)
}

#[test]
fn schedules_become_the_instructions_that_they_mean() {
    provide();
    provide_disassembler();
    let add = girih_examples::vector_add::vector_add::Kernel::def();
    let saxpy = saxpy::Kernel::def();
    for arch in ["sm_75", "sm_90a"] {
        // Two loads and a store per vector, of full tiles and of the tail alike or not.
        let with = |v: u32| format!("T=1024,C=4,V={v}");
        assert!(counted(add, &with(4), arch, Class::GlobalLoad(128)) >= 2, "{arch}");
        assert!(counted(add, &with(4), arch, Class::GlobalStore(128)) >= 1, "{arch}");
        assert!(counted(add, &with(2), arch, Class::GlobalLoad(64)) >= 4, "{arch}");
        assert_eq!(counted(add, &with(1), arch, Class::GlobalLoad(128)), 0, "{arch}");
        assert!(counted(add, &with(1), arch, Class::GlobalLoad(32)) >= 8, "{arch}");
        assert!(counted(saxpy, "T=256,C=1,V=1,S=1,P=Registers,G=0,H=Default", arch, Class::FloatMultiplyAdd) >= 1, "{arch}");
    }
    let copied = |p: &str| counted(saxpy, &format!("T=256,C=4,V=4,S=2,P={p},G=1,H=Default"), "sm_90a", Class::AsyncCopy(128));
    assert!(copied("Async") >= 2 && copied("Registers") == 0);
}

/// A launch that may begin while the one in front of it runs reads and writes nothing before it has waited: not even what is `const` and
/// `__restrict__`, which a compiler takes for constant.
#[test]
fn a_dependent_launch_touches_no_memory_before_it_has_waited() {
    use girih_examples::{color_inversion, gemm, matrix_multiplication, reduction, softmax, vector_add};
    provide();
    provide_disassembler();
    let kernels = [
        vector_add::vector_add::Kernel::def(),
        color_inversion::color_inversion::Kernel::def(),
        reduction::reduction::Kernel::def(),
        softmax::softmax_normalise::Kernel::def(),
        matrix_multiplication::matrix_multiplication::Kernel::def(),
        gemm::gemm::Kernel::def(),
    ];
    for (def, arch) in kernels.into_iter().flat_map(|def| [(def, "sm_90a"), (def, "sm_100a")]) {
        let kernel = (def.build)().expect("a kernel builds");
        let target = Target::find(arch).expect("a target");
        let schedule = Schedule::default_of(&kernel);
        let mut simt = lower(&kernel, &best_facts(&kernel), &schedule, target).unwrap_or_else(|e| panic!("{e}"));
        simt.each_launch(&mut |launch| launch.launch.dependent = true);
        let compiled = Compiled::of(simt, target).with_cubin().unwrap_or_else(|e| panic!("{e}"));
        for function in compiled.sass().unwrap_or_else(|e| panic!("{e}")).functions {
            let waits = function.instructions().position(|i| i.opcode == "ACQBULK");
            let accesses = |i: &sass::Instruction| {
                matches!(i.class(), Class::GlobalLoad(_) | Class::GlobalStore(_) | Class::AsyncCopy(_) | Class::Atomic) || i.opcode == "LD"
            };
            let first = function.instructions().position(accesses).expect("a kernel accesses memory");
            assert!(waits.is_some_and(|at| at < first), "{} for {arch}: waits at {waits:?}, accesses memory at {first}", kernel.name);
        }
    }
}

/// Schedules of kernels whose cubins must be what was meant, with the architectures they are for.
fn accepted_schedules() -> Vec<(KernelDef, &'static str)> {
    use girih_examples::lower_precision_gemm::{Bf16F32, F16F16, Int8, NN, NT, TN, Tf32, lower_precision_gemm};
    use girih_examples::{gemm, matrix_multiplication};
    const MMA: &str = "BM=64,BN=64,BK=32,TM=8,TN=8,V=8,U=Mma,W=4,S=3,P=Async,X=8";
    use crate::dots::chained::pairs::{Brain, Half, HalfAlong, Rounded, RoundedAlong, attention_of_pairs};
    const PAIRS: &str = "BM=64,BN=32,BE=64,BD=64,TM=4,TD=4,V=8,U=Mma,W=4,S=2,C=Async";
    const PAIRS_PLAIN: &str = "BM=64,BN=64,BE=32,BD=32,TM=4,TD=4,V=8,U=Mma,W=4,S=2,C=Registers";
    const PLAIN: &str = "BM=64,BN=64,BK=32,TM=8,TN=8,V=8,U=Mma,W=4,S=2,P=Registers,X=1";
    vec![
        (gemm::gemm::Kernel::def(), "BM=128,BN=128,BK=32,TM=8,TN=8,V=8,U=Mma,W=8,O=Shared,S=3,P=Async,X=8,Z=1"),
        (gemm::gemm::Kernel::def(), "BM=64,BN=64,BK=32,TM=8,TN=8,V=8,U=Mma,W=4,O=Shared,S=1,P=Registers,X=1,Z=1"),
        (matrix_multiplication::matrix_multiplication::Kernel::def(), "BM=128,BN=128,BK=16,TM=8,TN=8,V=4,O=Shared,S=3,P=Async,X=8,Z=1"),
        (
            matrix_multiplication::matrix_multiplication::Kernel::def(),
            "BM=128,BN=128,BK=16,TM=8,TN=8,V=4,O=Shared,S=2,P=Registers,X=1,Z=1,Q=1",
        ),
        (lower_precision_gemm::Kernel::<F16F16, TN>::def(), PLAIN),
        (lower_precision_gemm::Kernel::<Bf16F32, NT>::def(), MMA),
        (lower_precision_gemm::Kernel::<Tf32, NT>::def(), MMA),
        (lower_precision_gemm::Kernel::<Int8, NT>::def(), MMA),
        (lower_precision_gemm::Kernel::<Int8, NN>::def(), PLAIN),
        (attention_of_pairs::Kernel::<Half>::def(), PAIRS),
        (attention_of_pairs::Kernel::<Half>::def(), PAIRS_PLAIN),
        (attention_of_pairs::Kernel::<HalfAlong>::def(), PAIRS_PLAIN),
        (attention_of_pairs::Kernel::<Brain>::def(), PAIRS),
        (attention_of_pairs::Kernel::<Rounded>::def(), PAIRS),
        (attention_of_pairs::Kernel::<RoundedAlong>::def(), PAIRS_PLAIN),
    ]
}

#[test]
fn cubins_of_dots_are_what_was_meant() {
    provide();
    provide_disassembler();
    let (mut accepted, mut failures) = (0, Vec::new());
    for (def, schedule) in accepted_schedules() {
        let kernel = (def.build)().expect("a kernel builds");
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        for arch in ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"] {
            let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
            let Ok(simt) = lower(&kernel, &best_facts(&kernel), &schedule, target) else { continue };
            let verdict = Compiled::of(simt, target).acceptance().unwrap_or_else(|e| panic!("{e}"));
            assert!(verdict.instructions.as_ref().is_ok_and(|c| !c.is_empty()), "{}: {verdict}", kernel.full_name());
            match verdict.accepted() {
                true => accepted += 1,
                false => failures.push(format!("{} {} for {arch}: {verdict}", kernel.full_name(), schedule.short(&kernel))),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // Turing has neither asynchronous copies nor bf16 and tf32.
    assert!(accepted >= 60, "{accepted} cubins were looked at");
}

/// Attentions on warp groups, whose turns overlap or do not: nothing spills, and each product has its instructions.
#[test]
fn cubins_of_attention_on_warp_groups_are_what_was_meant() {
    use girih_examples::attention::AllKeys;
    use girih_examples::attention_planes::{Of64, Of128, attention_of_planes, parts_of_planes};
    use girih_examples::flash_attention::{All, Brain128, Causal, Half64, Half128, flash_attention};
    use girih_examples::flash_attention_backward::{gradients_of_keys, gradients_of_queries};
    provide();
    provide_disassembler();
    const TURNS: [&str; 4] = ["BM=128,BN=64,W=8,R=3", "BM=128,BN=64,W=8,R=2", "BM=64,BN=64,W=4,R=3", "BM=128,BN=128,W=8,R=2"];
    let kernels = [
        flash_attention::Kernel::<Half64, All>::def(),
        flash_attention::Kernel::<Half128, All>::def(),
        flash_attention::Kernel::<Half128, Causal>::def(),
        flash_attention::Kernel::<Brain128, Causal>::def(),
    ];
    let planes = [
        attention_of_planes::Kernel::<Of64, AllKeys>::def(),
        attention_of_planes::Kernel::<Of128, girih_examples::attention::Causal>::def(),
        parts_of_planes::Kernel::<Of128, AllKeys>::def(),
    ];
    let backward = [
        gradients_of_keys::Kernel::<Half64, All>::def(),
        gradients_of_keys::Kernel::<Brain128, Causal>::def(),
        gradients_of_queries::Kernel::<Brain128, All>::def(),
    ];
    let mut failures = Vec::new();
    let flash = kernels.iter().flat_map(|def| TURNS.map(|turns| (def, turns.to_string())));
    let planes = planes.iter().map(|def| (def, "BM=128,BN=64,W=8,R=2".to_string()));
    let backward = backward.iter().map(|def| (def, "BM=64,BN=64,W=4,R=2".to_string()));
    for (def, turns) in flash.chain(planes).chain(backward) {
        let kernel = (def.build)().expect("a kernel builds");
        let coarse = if kernel.name == "gradients_of_keys" { "TN=8" } else { "TM=8" };
        let schedule = parse_schedule(&kernel, &format!("{coarse},V=8,U=Wgmma,C=Tensor,G=0,Q=1,{turns}")).unwrap_or_else(|e| panic!("{e}"));
        let facts = best_facts(&kernel).fitting(&kernel, &schedule);
        let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}, {turns}: {e}", kernel.full_name()));
        let verdict = Compiled::of(simt, Target::h200()).acceptance().unwrap_or_else(|e| panic!("{e}"));
        if !verdict.accepted() {
            failures.push(format!("{} {turns}: {verdict}", kernel.full_name()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A cubin of another schedule has none of the instructions that were meant.
#[test]
fn cubins_that_lack_what_was_meant_are_not_accepted() {
    provide();
    provide_disassembler();
    let kernel = (girih_examples::gemm::gemm::Kernel::def().build)().expect("a kernel builds");
    let compiled = |schedule: &str| {
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        let target = Target::h200();
        compile(&kernel, &best_facts(&kernel), &schedule, target, Output::Cubin).unwrap_or_else(|e| panic!("{e}"))
    };
    let meant = compiled("BM=64,BN=64,BK=32,TM=8,TN=8,V=8,U=Mma,W=4,O=Shared,S=3,P=Async,X=1,Z=1");
    let other = compiled("BM=64,BN=64,BK=32,TM=8,TN=8,V=8,U=Ffma,W=8,O=Shared,S=1,P=Registers,X=1,Z=1");
    let mixed = Compiled { cubin: other.cubin.clone(), resources: other.resources, ..meant.clone() };
    let verdict = mixed.acceptance().unwrap_or_else(|e| panic!("{e}"));
    let flaws = verdict.flaws();
    for missing in ["0 MMA where ", "0 LDSM where ", "0 LDGSTS.128 where "] {
        assert!(flaws.iter().any(|f| f.starts_with(missing)), "{verdict}");
    }
    assert!(meant.acceptance().is_ok_and(|v| v.accepted()) && other.acceptance().is_ok_and(|v| v.accepted()));
}

/// What the disassembler shows of local memory is what ptxas says, which `nvrtc_accepts_every_rung_everywhere` holds to be nothing.
#[test]
fn local_memory_is_what_ptxas_reports() {
    provide();
    provide_disassembler();
    let indexed = "extern \"C\" __global__ void indexed(float* x, int n) {
        float kept[64];
        for (int i = 0; i < 64; ++i) kept[i] = 0.0f;
        for (int i = 0; i < n; ++i) kept[(int)x[i] & 63] += 1.0f;
        for (int i = 0; i < 64; ++i) x[i * n] = kept[i];
    }";
    let cubin = nvrtc::compile(indexed, "sm_90a", &[], "indexed", "tests").unwrap_or_else(|e| panic!("{e}"));
    let listing = sass::disassemble(&cubin.code).unwrap_or_else(|e| panic!("{e}"));
    assert!(cubin.resources[0].1.stack >= 256, "{:?}", cubin.resources);
    assert!(listing.functions[0].local_accesses() > 16, "{}", listing.functions[0].summary());
    let transpose = girih_examples::matrix_transpose::matrix_transpose::Kernel::def();
    let kernel = (transpose.build)().expect("a kernel builds");
    let function = code(&kernel, &rungs(&kernel)[2].schedule, "sm_90a");
    let count = |of: fn(&Class) -> bool| function.instructions().filter(|i| of(&i.class())).count();
    assert_eq!(function.local_accesses(), 0);
    assert!(
        count(|c| matches!(c, Class::SharedStore(_))) > 0 && count(|c| matches!(c, Class::SharedLoad(_))) > 0,
        "{}",
        function.summary()
    );
    assert!(count(|c| *c == Class::Barrier) > 0, "{}", function.summary());
}

/// This binary runs itself where nothing is installed.
#[test]
fn a_machine_without_the_disassembler_says_where_it_looked() {
    const CHILD: &str = "GIRIH_TEST_SASS_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let error = sass::disassemble(&[]).expect_err("there is no disassembler");
        println!("said: {error}");
        provide();
        let kernel = (saxpy::Kernel::def().build)().expect("a kernel builds");
        let compiled = compile(&kernel, &best_facts(&kernel), &Schedule::default_of(&kernel), Target::h200(), Output::Cubin);
        println!("verdict: {}", compiled.unwrap_or_else(|e| panic!("{e}")).acceptance().unwrap_or_else(|e| panic!("{e}")));
        return;
    }
    let said = |variable: &str, value: &Path| {
        let own = std::env::current_exe().expect("this test's binary");
        let mut child = Command::new(own);
        child.args(["--exact", "sass::a_machine_without_the_disassembler_says_where_it_looked", "--nocapture"]);
        let output = child.env(CHILD, "1").env(variable, value).output().expect("the child starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = said("GIRIH_NVDISASM", Path::new("/nowhere/nvdisasm"));
    let verdict =
        "verdict: accepted: nothing spilled; only registers and memory were checked: NVIDIA's disassembler (nvdisasm) was not found\n";
    for part in ["GIRIH_NVDISASM=/nowhere/nvdisasm", "autotune doctor --fetch", sass::WHEEL, verdict] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// Of large arguments.
#[kernel(tile(T = 64))]
fn waves(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        y.store(t, select(v > 0.0, v.sin(), -v));
    }
}

/// The stack of CUDA's own functions is told from one that a schedule could spare.
#[test]
fn functions_with_a_stack_of_their_own_are_known() {
    let calls = |def: KernelDef| {
        let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
        let facts = Facts::best(&kernel);
        let naive = Space::new(&kernel, &facts, Target::h200()).naive().expect("legal");
        calls_with_stack(&lower(&kernel, &facts, &naive, Target::h200()).expect("legal"))
    };
    assert!(calls(waves::Kernel::def()) && !calls(saxpy::Kernel::def()));
}
