//! Chunks of an axis in a program: another order of elements without a kernel of its own, and what a call that leaves a rest is told.

use super::programs::blend;
use girih::challenge::{Case, Challenge};
use girih::check::{On, Options, check};
use girih::launch::Argument;
use girih::launch::program::Runner;
use girih::prelude::*;
use girih::subject::Subject;
use girih::{Buffer, Device};
use girih_core::program::export::export_program;
use girih_core::target::Target;
use girih_core::types::{DType, Literal};
use std::sync::Arc;

/// Every row of `len` elements becomes a column: rows are chunks of `x`, columns those of `y`, turned.
#[program]
pub fn interleave(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, len: Scalar<i32>) {
    let rows = x.chunked(0, len);
    blend(&rows, &rows, &mut y.chunked(0, rows.len(0)).permuted([1, 0]));
}

fn interleaved(x: &Case, i: usize) -> f64 {
    let len = x.scalar("len") as usize;
    let rows = x.len("N") / len;
    x.at("X", i % rows * len + i / rows)
}

fn subject() -> Subject {
    let challenge = Challenge::new("interleave", interleave::Program::def, "void solve(const float* X[N], float* Y[N], int N, int len)")
        .input("X", girih::inputs::uniform(-4.0, 4.0))
        .output("Y", interleaved)
        .check_at(["N=1 len=1", "N=96 len=3", "N=96 len=96", "N=96 len=1", "N=4097 len=17"]);
    Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn chunks_turn_rows_into_columns() {
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 6, seed: 1 };
    let report = check(&[subject()], &options, &()).remove(0);
    assert!(report.failures.is_empty() && report.runs >= 20, "{} runs: {:#?}", report.runs, report.failures);
}

#[test]
fn chunks_are_exported() {
    let subject = subject();
    let signature = subject.signature().expect("a challenge has a signature");
    let mut naive = |_: usize, kernel: &girih_core::tile::Kernel| super::programs::naive(kernel);
    let text = export_program(&subject.program, signature, Target::h200(), &mut naive).unwrap_or_else(|e| panic!("{e}"));
    let (_, solve) = text.split_once("extern \"C\" void solve").expect("solve is exported");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("exported_interleave", format!("void solve{solve}"));
    });
    if let Ok(folder) = std::env::var("GIRIH_TEST_EXPORTS") {
        std::fs::write(format!("{folder}/interleave.cu"), &text).expect("the folder can be written");
    }
}

#[test]
fn chunks_that_leave_a_rest_are_refused() {
    let device = Device::sim(Target::h200());
    let mut runner = Runner::new(&device, Arc::new((interleave::Program::def().build)().expect("it builds")));
    let (x, y) = (device.alloc(400).unwrap(), device.alloc(400).unwrap());
    let mut refusal = |len: i32| {
        let tensor = |b: &Buffer, mutable| Argument::packed(b, 0, DType::F32, &[100], mutable);
        let args = [tensor(&x, false), tensor(&y, true), Argument::Scalar(Literal::i32(len))];
        runner.run(&args).expect_err("it is refused").to_string()
    };
    let rest = refusal(7);
    assert!(rest.contains("chunks cover their axis, with no elements left over: found 2 == 0"), "{rest}");
    assert!(rest.contains("program_chunks.rs:19"), "{rest}");
    let empty = refusal(0);
    assert!(empty.contains("a chunk has 1 element or more (write `.max(1)` where its length may be 0): found 1 <= 0"), "{empty}");
}
