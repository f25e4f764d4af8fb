//! The gallery by the evaluator: every challenge's program against its plain-Rust reference, at all its sizes.

use girih::challenge::{Sizes, challenges};
use girih::check::{On, Options, check, evaluate};
use girih::measure::rungs;
use girih::measure::sweep;
use girih::subject::Subject;
use girih::subject::names;
use girih_core::target::Target;
use girih_examples as _;

#[test]
fn every_program_computes_what_its_reference_says() {
    let mut wrong = Vec::new();
    for challenge in challenges() {
        let subject = match Subject::of_challenge(&challenge) {
            Ok(subject) => subject,
            Err(e) => {
                wrong.push(e);
                continue;
            }
        };
        for (number, sizes) in subject.check_sizes(1).iter().enumerate() {
            let result = subject.call(sizes, number as u64).and_then(|call| subject.verify(&call, &evaluate(&subject, &call)?, None));
            wrong.extend(result.err().map(|e| format!("{} at {sizes}: {e}", challenge.slug)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_sweep_has_shapes_of_both_units() {
    let entries = sweep::parse(include_str!("../../examples/sweep.txt")).unwrap_or_else(|e| panic!("{e}"));
    for unit in ["ffma", "mma"] {
        assert_eq!(entries.iter().filter(|e| e.group == unit).count(), 20, "{unit}");
    }
    let flops = |e: &sweep::Entry| {
        let subject = names::subject(&e.name).unwrap_or_else(|e| panic!("{e}"));
        let sizes = subject.perf_sizes(&e.sizes).unwrap_or_else(|e| panic!("{e}"));
        (subject.challenge.expect("shapes are of challenges").flops)(&sizes)
    };
    let all: Vec<f64> = entries.iter().map(flops).collect();
    // Both units do the same work, shape by shape.
    assert_eq!(all[..20], all[20..]);
}

#[test]
fn shapes_are_predicted_without_a_gpu() {
    let subject = names::subject("gemm_f16_nn").unwrap_or_else(|e| panic!("{e}"));
    let us = |sizes: &str| {
        let sizes = subject.perf_sizes(&Sizes::parse(sizes).expect("sizes")).expect("sizes of the challenge");
        let (predicted, schedules) = rungs::predict(&subject, &sizes, Target::h200(), None).unwrap_or_else(|e| panic!("{e}"));
        // Odd lengths may have their operands copied first.
        assert!(schedules.last().is_some_and(|s| s.contains("BM=")), "{schedules:?}");
        predicted.us
    };
    let (small, odd, large) = (us("M=256 N=256 K=256"), us("M=255 N=255 K=255"), us("M=1024 N=1024 K=1024"));
    assert!(0.0 < small && small < large && odd > 0.0, "{small} {odd} {large}");
}

/// Products are as near to their references as sums in f32 can be; what multiplies nothing reports no error.
#[test]
fn checks_report_errors_of_products() {
    let error = |name: &str| {
        let subject = names::subject(name).unwrap_or_else(|e| panic!("{e}"));
        let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 2, seed: 1 };
        let report = check(&[subject], &options, &()).remove(0);
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        report.deviation
    };
    let [plain, half, exact] = ["gemm_f16_f32_nn", "gemm_f16_nn", "gemm_int8_nn"].map(|n| error(n).expect("an error"));
    assert!(plain.frobenius() > 0.0 && plain.frobenius() < 1e-6, "{plain}");
    // Rounded once more, to 11 bits.
    assert!(half.frobenius() > 1e-5 && half.frobenius() < 5e-4, "{half}");
    assert_eq!((exact.maximal(), exact.frobenius()), (0.0, 0.0));
    assert_eq!(error("relu"), None);
}

#[test]
fn sizes_are_values_of_their_types() {
    let asked = |name: &str, sizes: &str| {
        let subject = names::subject(name).unwrap_or_else(|e| panic!("{e}"));
        subject.perf_sizes(&Sizes::parse(sizes).unwrap_or_else(|e| panic!("{e}"))).map(|_| ())
    };
    assert_eq!(asked("value_clipping", "N=100,lo=-0.25"), Ok(()));
    for wrong in ["N=1.5", "N=3000000000", "N=inf"] {
        let error = asked("value_clipping", wrong).expect_err("no int");
        assert!(error.contains(&format!("value_clipping: {wrong} is no value of type i32: give a whole number")), "{error}");
    }
}

/// Reads the files of peers with a torch of straw and prints their challenges, one a line.
const NAMES_OF_PEERS: &str = r#"
import pathlib, sys, types
from unittest.mock import MagicMock
for name in ("torch", "torch.nn", "torch.nn.functional"):
    sys.modules[name] = MagicMock()
files = sorted(pathlib.Path(sys.argv[1]).glob("*.py"), key=lambda p: (p.stem != "inputs", p.stem))
for file in files:
    if file.stem != "bench":
        module = sys.modules["peers." + file.stem] = types.ModuleType("peers." + file.stem)
        exec(compile(file.read_text(), str(file), "exec"), module.__dict__)
        print(*getattr(module, "PEERS", {}), sep="\n")
"#;

#[test]
fn every_challenge_has_one_version_of_pytorchs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/src/cli/peers");
    let output = std::process::Command::new("python3").args(["-c", NAMES_OF_PEERS, folder]).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("text");
    let mut peers: Vec<&str> = names.lines().filter(|l| !l.is_empty()).collect();
    let mut ours: Vec<&str> = challenges().iter().map(|c| c.slug).collect();
    peers.sort_unstable();
    ours.sort_unstable();
    assert!(peers.windows(2).all(|w| w[0] != w[1]), "two of one name: {peers:?}");
    let missing: Vec<&&str> = ours.iter().filter(|name| !peers.contains(name)).collect();
    assert!(missing.is_empty(), "no PyTorch version of {missing:?}");
}
