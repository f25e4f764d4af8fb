//! A user's own crate outside of the workspace: a few lines of Cargo.toml, a kernel, a one-line `main`, the same `autotune`.

use crate::nvrtc::provide;
use girih::nvrtc;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// Where cargo builds: this test's own binary lies in `TARGET/PROFILE/deps`.
fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    own.ancestors().nth(3).expect("TARGET/PROFILE/deps/TEST").to_path_buf()
}

/// Builds a copy of the crate elsewhere. The workspace's lock file and profile make cargo reuse what it has built already.
fn build() -> PathBuf {
    let (from, to) = (root().join("tests/user_crate"), target().join("user_crate"));
    std::fs::create_dir_all(to.join("src")).expect("the target folder is writable");
    let manifest = std::fs::read_to_string(from.join("Cargo.toml")).expect("the crate's manifest");
    let runtime = root().join("runtime").display().to_string();
    std::fs::write(to.join("Cargo.toml"), manifest.replace("../../runtime", &runtime) + "\n[workspace]\n").expect("writable");
    for file in ["src/main.rs", "src/winners.txt"] {
        std::fs::copy(from.join(file), to.join(file)).expect("a file of the crate");
    }
    std::fs::copy(root().join("Cargo.lock"), to.join("Cargo.lock")).expect("the workspace has a lock file");
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let profile = workspace.split_once("\n[profile").map_or(String::new(), |(_, p)| format!("[profile{p}"));
    std::fs::write(to.join("profile.toml"), profile).expect("writable");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet", "--config", "profile.toml", "--target-dir"]).arg(target());
    let built = cargo.current_dir(&to).output().expect("cargo starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target().join("debug/saxpy")
}

fn run(program: &Path, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = output(program, args);
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{args:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

/// What it says when it refuses.
fn refused(program: &Path, args: &[&str]) -> String {
    let output = output(program, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn output(program: &Path, args: &[&str]) -> Output {
    let cache = target().join("user_crate_cache");
    let nvrtc = nvrtc::identity().expect("provided").path;
    let mut command = Command::new(program);
    command.args(args).env("GIRIH_CACHE", cache).env("GIRIH_NVRTC", nvrtc);
    command.output().expect("the crate's program starts")
}

#[test]
fn a_crate_of_its_own_has_autotune() {
    provide();
    let saxpy = build();
    let list = run(&saxpy, &["list"]);
    assert!(list.contains("saxpy") && !list.contains("vector_add"), "{list}");
    assert!(list.contains("kernels (schedules listed)"), "{list}");
    let list = run(&saxpy, &["list", "--legal"]);
    assert!(list.contains("legal on an h200 / listed") && list.contains(" / 27 "), "{list}");
    // What is compiled in is kept where the store knows nothing newer.
    let winners = run(&saxpy, &["winners"]);
    assert!(winners.contains("sm_90a | saxpy::saxpy | - 16p/16 16p/16 i32 noalias | any | T=512 C=4 V=4 | 10.00"), "{winners}");
    let other = run(&saxpy, &["show", "saxpy", "--arch", "sm_89", "--ir", "cuda", "--json"]);
    assert!(other.contains("\"arch\":\"sm_89\""), "{other}");
    refuses(&saxpy);
    let shown = run(&saxpy, &["show", "saxpy", "--set", "T=1024,C=4,V=4", "--ir", "cuda"]);
    assert!(shown.contains("extern \"C\" __global__ void") && shown.contains("float4"), "{shown}");
    let checked = run(&saxpy, &["check", "saxpy", "--device", "sim", "--schedules", "3"]);
    assert!(checked.contains("saxpy"), "{checked}");
    let counted = run(&saxpy, &["run", "saxpy", "--device", "sim", "--set", "T=1024,C=4,V=4", "--size", "N=4096", "--counters", "--json"]);
    // 4096 elements of 4 bytes in tiles of 1024, 4 elements an access: 32 accesses of a warp to 16 sectors each, for each of x and y.
    for part in ["\"kernel\":\"saxpy\"", "\"grid\":4,", "\"block\":256,", "\"load\":{\"bytes\":32768,\"requests\":64,\"sectors\":1024,"] {
        assert!(counted.contains(part), "no {part} in {counted}");
    }
    let sweep = target().join("user_crate/sweep.txt");
    std::fs::write(&sweep, "[short]\nsaxpy N=4096\n[long]\nsaxpy N=1000000\n").expect("writable");
    let sweep = sweep.to_str().expect("a path in UTF-8");
    let tuned = run(&saxpy, &["tune", "--sweep", sweep, "saxpy", "--trials", "2", "--device", "sim", "--fresh", "--json"]);
    let lines: Vec<&str> = tuned.lines().collect();
    assert_eq!(lines.len(), 2, "one for each shape: {tuned}");
    for (line, sizes) in lines.iter().zip(["\"sizes\":{\"N\":4096", "\"sizes\":{\"N\":1000000"]) {
        for part in [sizes, "\"kernel\":\"saxpy::saxpy\"", "\"tried\":2,", "\"predicted\":true", "\"schedule\":\"T="] {
            assert!(line.contains(part), "no {part} in {line}");
        }
    }
}

/// Sizes and architectures that are none are refused, with why.
fn refuses(saxpy: &Path) {
    let error = refused(saxpy, &["show", "saxpy", "--arch", "sm_70"]);
    assert!(error.contains("unknown target or architecture `sm_70`; known are t4 (sm_75)") && error.contains("sm_86"), "{error}");
    let size = |size: &str| refused(saxpy, &["run", "saxpy", "--device", "sim", "--size", size]);
    let error = size("N=1.5");
    assert!(error.contains("saxpy: N=1.5 is no value of type i64: give a whole number that it can hold"), "{error}");
    if cfg!(target_os = "linux") {
        let error = size("N=1e12");
        assert!(error.contains("needs about 44703.5 GiB of memory on the simulator, and "), "{error}");
    }
    // A scalar that is a float may be any number.
    let half = run(saxpy, &["run", "saxpy", "--device", "sim", "--size", "N=100,a=0.5"]);
    assert!(half.contains("equal to the evaluator"), "{half}");
}
