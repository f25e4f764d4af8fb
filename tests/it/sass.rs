//! Machine code: kernels become the instructions that their schedules mean.

use super::kernels::saxpy;
use super::launches::best_facts;
use super::nvrtc::provide;
use super::rungs::rungs;
use girih::compile::{Output, compile};
use girih::nvrtc;
use girih::sass::{self, Class, Function};
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
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
    for part in ["GIRIH_NVDISASM=/nowhere/nvdisasm", "autotune doctor --fetch", sass::WHEEL] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}
