//! What kernels ask of their launches, where programs are exported: what no call of the signature can give is refused.

use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::program::ProgramDef;
use girih_core::program::export::export_program;
use girih_core::program::signature::Signature;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// Each row's three elements, added up.
#[kernel(tile(T = [64, 128]))]
pub fn triples(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load((t, ..3)).sum_axis(1));
    }
}

#[kernel(tile(T = [64, 128]))]
pub fn first_column(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load((t, 0)));
    }
}

#[program]
fn of_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    triples(x, y);
}

/// Rows of other lengths take another way.
#[program]
fn of_some_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    if x.len(1) == 3 {
        triples(x, y);
    } else {
        first_column(x, y);
    }
}

/// Whole rows where the caller wants that.
#[program]
fn of_rows_on_demand(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, whole: Scalar<i64>) {
    if whole != 0 {
        triples(x, y);
    } else {
        first_column(x, y);
    }
}

/// The choice has a name, and other conditions beside it.
#[program]
fn of_small_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, whole: Scalar<i64>) {
    let row = x.len(1);
    let narrow = row * 2 < 8;
    if !(whole == 0 || !narrow) {
        let half = x.len(0) / 2;
        triples(&x.slice(0, 0, half), &mut y.slice(0, 0, half));
    } else if row >= 0 {
        let rest = x.len(0) - 1;
        first_column(&x.slice(0, 1, rest), &mut y.slice(0, 1, rest));
    }
}

fn exported(def: ProgramDef, signature: &str) -> Result<String, String> {
    let program = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let signature = Signature::parse(signature).expect("a signature");
    let mut naive = |_: usize, kernel: &Kernel| Space::new(kernel, &Facts::best(kernel), Target::h200()).naive().expect("legal");
    export_program(&program, &signature, Target::h200(), &mut naive).map_err(|e| e.to_string())
}

#[test]
fn demands_that_no_call_meets_are_refused() {
    let told = exported(of_rows::Program::def(), "void solve(const float* x[N, 4], float* y[N], int N)").unwrap_err();
    assert!(told.contains("demands.rs:") && told.contains("triples asks for x.len(1) = 3, which no call of `void solve("), "{told}");
    assert!(told.contains("(4 == 3); give the tensor another extent"), "{told}");
    exported(of_rows::Program::def(), "void solve(const float* x[N, 3], float* y[N], int N)").unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn demands_that_a_call_may_meet_are_left_to_it() {
    let text =
        exported(of_rows::Program::def(), "void solve(const float* x[N, M], float* y[N], int N, int M)").unwrap_or_else(|e| panic!("{e}"));
    assert!(text.contains("// requires demands.rs:"), "{text}");
    exported(of_some_rows::Program::def(), "void solve(const float* x[N, 4], float* y[N], int N)").unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn demands_under_a_condition_are_refused_where_no_call_meets_them() {
    let signature = |row: &str| format!("void solve(const float* x[N, {row}], float* y[N], int N, long long whole)");
    let told = exported(of_rows_on_demand::Program::def(), &signature("4")).unwrap_err();
    assert!(told.contains("triples asks for x.len(1) = 3") && told.contains("or under an `if` on the length"), "{told}");
    let text = exported(of_rows_on_demand::Program::def(), &signature("3")).unwrap_or_else(|e| panic!("{e}"));
    assert!(text.contains("if (whole != 0) {") && text.contains("first_column"), "{text}");
}

#[test]
fn launches_that_no_call_comes_to_are_not_written() {
    let all =
        exported(of_some_rows::Program::def(), "void solve(const float* x[N, 4], float* y[N], int N)").unwrap_or_else(|e| panic!("{e}"));
    assert!(!all.contains("triples<<<") && !all.contains("4 ==") && all.contains("first_column<<<"), "{all}");
    let all =
        exported(of_some_rows::Program::def(), "void solve(const float* x[N, 3], float* y[N], int N)").unwrap_or_else(|e| panic!("{e}"));
    assert!(all.contains("triples<<<") && !all.contains("first_column<<<"), "{all}");
    let signature = |row: &str| format!("void solve(const float* x[N, {row}], float* y[N], int N, long long whole)");
    let wide = exported(of_small_rows::Program::def(), &signature("4")).unwrap_or_else(|e| panic!("{e}"));
    assert!(!wide.contains("triples<<<") && !wide.contains("half") && wide.contains("const long long rest = "), "{wide}");
    let narrow = exported(of_small_rows::Program::def(), &signature("3")).unwrap_or_else(|e| panic!("{e}"));
    assert!(narrow.contains("triples<<<") && narrow.contains("first_column<<<"), "{narrow}");
    assert!(
        narrow.contains("if (whole != 0) {") && narrow.contains("const long long half_2 = ") && narrow.contains("} else {"),
        "{narrow}"
    );
}
