//! What ptxas is asked for (`opt_level`): where it is said, what changes for it, what is refused.

use super::super::launches::best_facts;
use super::super::nvrtc::provide;
use super::super::rungs::all_kernels;
use girih::Compiled;
use girih::subject::Subject;
use girih_core::cuda::emit;
use girih_core::lower::{check, lower};
use girih_core::program::export::export_program;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

const FLAG: &str = "--ptxas-options=-O1";
const TILES: &str = "BM=64 BN=64 BK=16 TM=8 TN=8 V=4 O=Shared S=2 P=Async X=8 Z=1 Q=1";

fn product() -> Kernel {
    all_kernels().into_iter().find(|k| k.name == "matrix_multiplication").expect("the gallery has a product")
}

fn at_level(kernel: &Kernel, level: i64) -> Schedule {
    parse_schedule(kernel, &format!("{TILES} L={level}")).unwrap_or_else(|e| panic!("{e}"))
}

/// The text says how to build it, sums leave their registers behind the loop, and the compiler is told; at ptxas's own level nothing of it.
#[test]
fn a_kernel_says_what_ptxas_is_asked_for() {
    let kernel = product();
    let of = |level| {
        let simt = lower(&kernel, &best_facts(&kernel), &at_level(&kernel, level), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        (emit(&simt), Compiled::of(simt, Target::h200()).flags())
    };
    let ((usual, none), (less, flags)) = (of(3), of(1));
    assert!(!usual.contains("ptxas") && !usual.contains("moved(") && none.is_empty(), "{usual}");
    assert!(less.contains(&format!("// build:    {FLAG}\n")) && less.contains("acc[e] = moved(acc[e]);"), "{less}");
    assert_eq!(flags, [FLAG]);
}

/// The flag reaches ptxas: the same text, another cubin of its own, and nothing in local memory.
#[test]
fn the_level_reaches_ptxas() {
    provide();
    let kernel = product();
    let simt = lower(&kernel, &best_facts(&kernel), &at_level(&kernel, 1), Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let mut usual = Compiled::of(simt.clone(), Target::h200());
    usual.simt = std::sync::Arc::new({
        let mut simt = simt.clone();
        simt.launch.opt_level = girih_core::simt::OPT_LEVEL;
        simt
    });
    let cubin = |c: Compiled| c.with_cubin().unwrap_or_else(|e| panic!("{e}"));
    let (less, usual) = (cubin(Compiled::of(simt, Target::h200())), cubin(usual));
    assert_eq!(less.source, usual.source);
    assert_ne!(less.cubin, usual.cubin);
    assert_eq!(less.resources.map(|r| (r.spill_store_bytes, r.spill_load_bytes)), Some((0, 0)));
}

#[test]
fn levels_that_ptxas_does_not_know_are_refused() {
    let kernel = product();
    let refused =
        |level| check(&kernel, &best_facts(&kernel), &at_level(&kernel, level), Target::h200()).expect_err("no such level").to_string();
    assert_eq!(refused(0), "illegal schedule: L = 0: must be positive");
    assert_eq!(refused(4), "illegal schedule: L = 4: ptxas knows 1 to 3");
}

/// One file is built in one way: its first lines say which.
#[test]
fn an_exported_file_says_what_ptxas_is_asked_for() {
    let challenge = girih::challenge::challenges().into_iter().find(|c| c.slug == "matrix_multiplication").expect("a challenge");
    let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"));
    let signature = subject.signature().expect("challenges have one");
    for (level, line) in [(3, "// build: nvcc -O3 -arch=sm_90a\n".to_string()), (1, format!("// build: nvcc -O3 -arch=sm_90a {FLAG}\n"))] {
        let mut choose = |_: usize, kernel: &Kernel| at_level(kernel, level);
        let text = export_program(&subject.program, signature, Target::h200(), &mut choose).unwrap_or_else(|e| panic!("{e}"));
        assert!(text.contains(&line), "{}", text.lines().take(4).collect::<Vec<_>>().join("\n"));
    }
}
