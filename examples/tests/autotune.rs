//! The gallery's `autotune` starts. Cargo builds it for this test, as everything else of the tests is built: `.ci/run` takes it from there.

use std::process::Command;

#[test]
fn the_gallery_is_listed() {
    let list = Command::new(env!("CARGO_BIN_EXE_autotune")).arg("list").output().expect("the binary starts");
    let text = String::from_utf8_lossy(&list.stdout);
    assert!(list.status.success() && text.contains("vector_add") && text.contains("gemm"), "{text}");
}
