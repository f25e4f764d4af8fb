//! The messages that rustc prints for mistakes in kernels: one file of mistakes per topic, its messages beside it.

#[test]
fn messages() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("it/ui/*.rs");
}
