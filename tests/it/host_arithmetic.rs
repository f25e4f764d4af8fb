//! Arithmetic of exported host code: what a C++ compiler makes of it is what the evaluator computes.

use crate::host_code::HostProgram;
use girih::prelude::*;
use girih_core::facts::{Facts, TensorArg};
use girih_core::program::Program;
use girih_core::program::eval::eval_program;
use girih_core::program::export::export_program;
use girih_core::program::signature::Signature;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::eval::{EvalArg, EvalOptions};
use girih_core::types::Literal;

/// y[at] = n.
#[kernel]
fn number(y: &mut Tensor<i64, 1>, at: Scalar<i64>, n: Scalar<i64>) {
    y.store_at(at, n);
}

/// Numbers at the edges of what C defines.
#[program]
fn edges(y: &mut Tensor<i64, 1>, a: Scalar<i32>, b: Scalar<i32>, u: Scalar<u32>, w: Scalar<i64>) {
    let (wide, f, n) = (b.cast::<i64>(), a.cast::<f32>(), y.len(0));
    let nan = f * 0.0 / (f * -0.0);
    let numbers = [
        (a / b).cast::<i64>(),
        (a % b).cast::<i64>(),
        (a << b).cast::<i64>(),
        (a >> b).cast::<i64>(),
        (a * b + a).cast::<i64>(),
        (a - b).cast::<i64>(),
        (-a).cast::<i64>(),
        a.abs().cast::<i64>(),
        (u - 1).cast::<i64>(),
        (u * 3 / b.cast::<u32>()).cast::<i64>(),
        (f * 1e30).cast::<i32>().cast::<i64>(),
        (f * 1e30).cast::<i64>(),
        (f * -0.5).cast::<u8>().cast::<i64>(),
        nan.cast::<i64>(),
        (nan.min(3.0).max(1.0) * 5.0).cast::<i64>(),
        (f / 2.0).min(3.0).cast::<i64>(),
        a.cast::<u32>().cast::<i64>(),
        a.cast::<i8>().cast::<i64>(),
        (a.cast::<i8>() * b.cast::<i8>()).cast::<i64>(),
        (!a.cast::<u8>()).cast::<i64>(),
        a.leading_zeros().cast::<i64>(),
        a.cast::<i8>().count_ones().cast::<i64>(),
        scalar::<i64>(1) << n,
        (scalar::<i64>(1) << (64 - n)) * 4,
        scalar::<i64>(-1) >> wide,
        w / wide,
        w % wide,
        w * 6364136223846793005i64 + 1442695040888963407i64,
        (w << 3) - wide,
        w.min(wide).max(3),
        -w,
        (n + 63) / 64 * 64 - n * n,
        // 16-bit floats round after each operation, to even, also where they are denormal, and become infinite.
        (((f / 3.0).cast::<f16>() * 1.7).cast::<f32>() * 1048576.0).cast::<i64>(),
        ((f * 1e-6).cast::<f16>().cast::<f32>() * 1e9).cast::<i64>(),
        (f.cast::<f16>() * 200.0 + 1.0).cast::<i64>(),
        (((f / 3.0).cast::<f16>().sqrt() - 0.1).cast::<f32>() * 1048576.0).cast::<i64>(),
        (((f / 7.0).cast::<bf16>() / 3.0 + 0.01).cast::<f32>() * 1048576.0).cast::<i64>(),
        ((f + 0.3).cast::<bf16>().min((f / 1.1).cast::<bf16>()).cast::<f32>() * 1048576.0).cast::<i64>(),
    ];
    for (i, n) in numbers.into_iter().enumerate() {
        number(y, scalar::<i64>(i as i64), n);
    }
}

const SIGNATURE: &str = "void solve(long long* y[N], int N, int a, int b, unsigned int u, long long w)";

fn program() -> Program {
    (edges::Program::def().build)().unwrap_or_else(|e| panic!("{e}"))
}

fn exported(program: &Program) -> String {
    let mut naive =
        |_: usize, kernel: &girih_core::tile::Kernel| Space::new(kernel, &Facts::best(kernel), Target::h200()).naive().expect("legal");
    let signature = Signature::parse(SIGNATURE).expect("a signature");
    export_program(program, &signature, Target::h200(), &mut naive).unwrap_or_else(|e| panic!("{e}"))
}

/// What a launch of `number` does.
const NUMBER: &str = "static void number(long long* y, long long at, long long n, long long) { y[at] = n; }";

#[test]
fn host_code_computes_what_the_evaluator_computes() {
    let program = program();
    let text = exported(&program);
    assert!(text.contains("(N64 + 63) / 64 * 64 - N64 * N64"), "lengths and constants need no help\n{text}");
    let main = "int main(int, char** v)\n{\n    long long y[40] = {};\n    solve(y, 40, (int)atoll(v[1]), (int)atoll(v[2]), (unsigned int)atoll(v[3]), atoll(v[4]));\n    for (long long n : y)\n        printf(\"%lld\\n\", n);\n}\n";
    let Some(host) = HostProgram::build(&text, "number", NUMBER, main) else { return };
    for (a, b, u, w) in [
        (7, 2, 0, 5),
        (-7, 2, 5, -5),
        (-300, 33, 1, i64::MAX),
        (i32::MAX, 3, 4_000_000_000, 1 << 40),
        (1, -1, 0, i64::MIN),
        (i32::MIN, -1, u32::MAX, i64::MIN),
        (100, 0, 9, -9),
        (0, 70, 2, 0),
    ] {
        let expected = evaluated(&program, 40, (a, b, u, w));
        let found: Vec<i64> =
            host.run(&[a.to_string(), b.to_string(), u.to_string(), w.to_string()]).lines().map(|l| l.parse().expect("a number")).collect();
        assert_eq!(found, expected, "{a} {b} {u} {w}\n{text}");
    }
}

/// Numbers that are carried from turn to turn and grow beyond their type.
#[program]
fn carried(y: &mut Tensor<i64, 1>, a: Scalar<i32>, b: Scalar<i32>, u: Scalar<u32>, w: Scalar<i64>) {
    let (mut last, mut left, mut turns) = (scalar::<i32>(0), a, scalar::<i64>(0));
    let (mut one, mut two) = (w, w);
    while turns < 20 {
        last = last * 10 + left % 10;
        left = left + b + u.cast::<i32>();
        let next = one + two;
        one = two;
        two = next;
        turns += 1;
    }
    for (i, n) in [last.cast::<i64>(), left.cast::<i64>(), one, two, turns].into_iter().enumerate() {
        number(y, scalar::<i64>(i as i64), n);
    }
}

#[test]
fn carried_numbers_wrap() {
    let program = (carried::Program::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let text = exported(&program);
    assert!(text.contains("next_turns = turns + 1;"), "what is counted by ones needs no help\n{text}");
    let main = "int main(int, char** v)\n{\n    long long y[5] = {};\n    solve(y, 5, (int)atoll(v[1]), (int)atoll(v[2]), (unsigned int)atoll(v[3]), atoll(v[4]));\n    for (long long n : y)\n        printf(\"%lld\\n\", n);\n}\n";
    let Some(host) = HostProgram::build(&text, "number", NUMBER, main) else { return };
    for (a, b, u, w) in [(7, 2, 0, 5), (i32::MAX, i32::MAX, 7, i64::MAX), (i32::MIN, -1, u32::MAX, 1 << 60)] {
        let found = host.run(&[a.to_string(), b.to_string(), u.to_string(), w.to_string()]);
        let found: Vec<i64> = found.lines().map(|l| l.parse().expect("a number")).collect();
        assert_eq!(found, evaluated(&program, 5, (a, b, u, w)), "{a} {b} {u} {w}\n{text}");
    }
}

/// What the evaluator leaves in `y`.
fn evaluated(program: &Program, len: usize, (a, b, u, w): (i32, i32, u32, i64)) -> Vec<i64> {
    let mut bytes = vec![0; len * 8];
    let mut args = [
        EvalArg::Tensor { bytes: &mut bytes, shape: TensorArg::packed(0, &[len as i64]) },
        EvalArg::Scalar(Literal::i32(a)),
        EvalArg::Scalar(Literal::i32(b)),
        EvalArg::Scalar(Literal::u32(u)),
        EvalArg::Scalar(Literal::index(w)),
    ];
    eval_program(program, &mut args, &EvalOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    bytes.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().expect("eight bytes"))).collect()
}
