//! A user's own crate outside of the workspace: a few lines of Cargo.toml, a kernel, a one-line `main`, the same `autotune`.

use super::texts::{helps, texts};
use crate::nvrtc::provide;
use girih::compile::nvrtc;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// Where cargo builds: this test's own binary lies in `TARGET/PROFILE/deps`.
pub(super) fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    own.ancestors().nth(3).expect("TARGET/PROFILE/deps/TEST").to_path_buf()
}

/// What a user may have got wrong: a kernel with a knob of another name, and a result that follows a tile, in a program of several launches.
const WRONG: &str = r#"
mod other {
    use girih::prelude::*;

    #[kernel(tile(R = 256))]
    pub fn copied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([R]) {
            y.store(t, x.load(t));
        }
    }

    #[program]
    pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        copied(x, y);
    }

    girih::challenge! {
        Challenge::new("other", solve::Program::def, "void solve(const float* X[N], float* Y[N], int N)")
            .output("Y", |x, i| x.at("X", i))
            .check_at(["N=1"])
            .perf_at("N=100")
    }
}

mod wrong {
    use girih::prelude::*;

    #[kernel(tile(T = [32, 64]))]
    pub fn sums(x: &Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
        for t in z.tiles([T]) {
            z.store(t, x.load(t).sum().splat([T]));
        }
    }

    #[program]
    pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
        if variant("it's scaled") {
            crate::saxpy(scalar(2.0), x, y);
        } else {
            crate::saxpy(scalar(1.0), x, y);
            crate::saxpy(scalar(1.0), x, y);
        }
        sums(y, z);
    }

    girih::challenge! {
        Challenge::new("wrong", solve::Program::def, "void solve(const float* X[N], float* Y[N], float* Z[N], int N)")
            .input("X", uniform(1.0, 2.0))
            .input("Y", uniform(1.0, 2.0))
            .output("Y", |x, i| 2.0 * x.at("X", i) + x.at("Y", i))
            .output("Z", |x, i| {
                let tile = i / 32 * 32..((i / 32 + 1) * 32).min(x.len("N"));
                tile.map(|i| 2.0 * x.at("X", i) + x.at("Y", i)).sum()
            })
            .tolerance(1e-4, 1e-5)
            .check_at(["N=1", "N=40", "N=100"])
            .perf_at("N=100")
    }
}
"#;

/// Builds a copy of the crate elsewhere. The workspace's lock file and profile make cargo reuse what it has built already; girih itself,
/// which is no member of the crate's workspace, is built anew, without optimisation.
fn build() -> PathBuf {
    let (from, to) = (root().join("tests/user_crate"), target().join("user_crate"));
    std::fs::create_dir_all(to.join("src")).expect("the target folder is writable");
    let manifest = std::fs::read_to_string(from.join("Cargo.toml")).expect("the crate's manifest");
    let runtime = root().join("runtime").display().to_string();
    std::fs::write(to.join("Cargo.toml"), manifest.replace("../../runtime", &runtime) + "\n[workspace]\n").expect("writable");
    std::fs::copy(from.join("src/winners.txt"), to.join("src/winners.txt")).expect("a file of the crate");
    let main = std::fs::read_to_string(from.join("src/main.rs")).expect("a file of the crate");
    std::fs::write(to.join("src/main.rs"), main + WRONG).expect("writable");
    std::fs::copy(root().join("Cargo.lock"), to.join("Cargo.lock")).expect("the workspace has a lock file");
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let profile = workspace.split_once("\n[profile").map_or(String::new(), |(_, p)| format!("[profile{p}"));
    std::fs::write(to.join("profile.toml"), profile).expect("writable");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet", "--config", "profile.toml"]);
    for package in ["girih", "girih-compiler", "girih-core", "girih-ir", "girih-lang", "girih-sim", "saxpy"] {
        cargo.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=0"));
    }
    cargo.arg("--target-dir").arg(target());
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
    output_of(program, &cache(), args)
}

/// The cache folder of the crate's program.
fn cache() -> PathBuf {
    target().join("user_crate_cache")
}

pub(super) fn output_of(program: &Path, cache: &Path, args: &[&str]) -> Output {
    with_cache(Command::new(program).args(args), cache).output().expect("the crate's program starts")
}

/// A command that finds NVRTC, and a store of its own.
fn with_cache<'c>(command: &'c mut Command, cache: &Path) -> &'c mut Command {
    let nvrtc = nvrtc::identity().expect("provided").path;
    command.env("GIRIH_CACHE", cache).env("GIRIH_NVRTC", nvrtc)
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
    texts(&saxpy);
    helps(&saxpy);
    // No cubin of this architecture is cached: NVRTC is asked, in a process of its own, and has no time.
    let hasty = "tune saxpy --size N=4096 --trials 2 --device sim --target rtx5090 --fresh --compile-limit 0s";
    let given_up = run(&saxpy, &hasty.split(' ').collect::<Vec<_>>());
    assert!(given_up.contains("dropped 2: rejected: NVRTC was given up on kernel `saxpy`"), "{given_up}");
    let shown = run(&saxpy, &["show", "saxpy", "--set", "T=1024,C=4,V=4", "--ir", "cuda"]);
    assert!(shown.contains("extern \"C\" __global__ void") && shown.contains("float4"), "{shown}");
    let checked = run(&saxpy, &["check", "saxpy", "--device", "sim", "--schedules", "3"]);
    assert!(checked.contains("saxpy"), "{checked}");
    checks_again(&saxpy);
    explains(&saxpy);
    exports_the_others(&saxpy);
    let counted = run(&saxpy, &["run", "saxpy", "--device", "sim", "--set", "T=1024,C=4,V=4", "--size", "N=4096", "--counters", "--json"]);
    // 4096 elements of 4 bytes in tiles of 1024, 4 elements an access: 32 accesses of a warp to 16 sectors each, for each of x and y.
    for part in ["\"kernel\":\"saxpy\"", "\"grid\":4,", "\"block\":256,", "\"load\":{\"bytes\":32768,\"requests\":64,\"sectors\":1024,"] {
        assert!(counted.contains(part), "no {part} in {counted}");
    }
    tunes(&saxpy);
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

/// What `tune` prints, and prints again where the store has all trials; a site of a program is tuned alone.
fn tunes(saxpy: &Path) {
    let text = |words: &str| masked(&run(saxpy, &words.split(' ').collect::<Vec<_>>()));
    let first = text("tune saxpy --size N=4096 --trials 3 --device sim --target a100 --fresh");
    let again = text("tune saxpy --size N=4096 --trials 0 --device sim --target a100");
    let site = text("tune wrong.sums --size N=4096 --trials 2 --device sim --target a100 --fresh");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("tune", format!("{first}\n{again}\n{site}"));
    });
    let error = refused(saxpy, &["tune", "saxpy", "--target", "a100", "--device", "cuda"]);
    assert!(error.contains("--target predicts for a GPU that need not be here; --device cuda measures on the one that is"), "{error}");
}

/// The text with a mark for each number that has a point, for times are the model's, and for what was looked at in machine code, which only
/// some machines can read.
pub(super) fn masked(text: &str) -> String {
    let mask = |word: &str| {
        let number = word.trim_matches(|c: char| !c.is_ascii_digit());
        let is_date = number.len() == 10 && number.split('-').count() == 3;
        let is_number = number.contains('.') && number.parse::<f64>().is_ok();
        if is_number || is_date { word.replace(number, "#") } else { word.to_string() }
    };
    let known = |line: &str| line.split_once("accepted: ").map_or(line.to_string(), |(front, _)| format!("{front}accepted: .."));
    text.lines().map(|line| known(line).split(' ').map(mask).collect::<Vec<_>>().join(" ") + "\n").collect()
}

/// What `check` finds wrong it finds again by the command that it prints, at that size and under that schedule alone.
fn checks_again(saxpy: &Path) {
    let one = run(saxpy, &["check", "saxpy", "--size", "N=100", "--set", "T=256,C=1,V=1", "--misaligned"]);
    assert!(one.contains("1 sizes x 1 schedules: 1 runs"), "{one}");
    let error = refused(saxpy, &["check", "saxpy", "--size", "M=100"]);
    assert!(error.contains("has no size `M`; it has N, a, x, x.0"), "{error}");
    let error = refused(saxpy, &["check", "saxpy", "--size", "N=100", "--set", "T=256,D=1"]);
    assert!(error.contains("D") && error.contains("allowed: T, C, V"), "{error}");
    for (set, expected) in [
        ("it's scaled=yes; saxpy_2: T=512", "wrong (it's scaled=yes) has no launch site `saxpy_2`; it has saxpy, sums"),
        ("scaled=yes; saxpy: T=512", "wrong has no variant `scaled`; it has it's scaled"),
        ("sums: T=32,V=2", "sums: line 1, column 6: "),
    ] {
        let error = refused(saxpy, &["check", "wrong", "--set", set]);
        assert!(error.contains(expected), "{error}");
    }
    let shown = |name: &str, set: &str| run(saxpy, &["show", name, "--set", set, "--json"]);
    let two = shown("wrong", "it's scaled=no; saxpy_2: T=256");
    let at_256: Vec<&str> = two.lines().filter(|l| l.contains("\"schedule\":\"T=256")).collect();
    assert!(two.lines().count() == 3 && at_256.len() == 1 && at_256[0].contains("\"site\":\"saxpy_2\""), "{two}");
    assert!(!shown("wrong", "it's scaled=yes").contains("saxpy_2"));
    let error = refused(saxpy, &["show", "wrong.saxpy_2", "--set", "it's scaled=yes"]);
    assert!(error.contains("wrong (it's scaled=yes) has no launch site `saxpy_2`; it has saxpy, sums"), "{error}");
    let pinned = run(saxpy, &["check", "wrong", "--set", "it's scaled=no; sums: T=32"]);
    assert!(pinned.contains("wrong (it's scaled=no)") && pinned.contains("3 sizes x 1 schedules: 3 runs"), "{pinned}");

    let all = output(saxpy, &["check", "wrong", "--schedules", "8", "--target", "a100"]);
    let text = String::from_utf8_lossy(&all.stdout).into_owned();
    let replays: Vec<&str> = text.lines().map(str::trim).filter(|l| l.contains(" check wrong ")).collect();
    assert_eq!((all.status.code(), replays.len()), (Some(1), 2), "one for each side of the variant:\n{text}");
    for replay in replays {
        assert!(replay.ends_with("--device sim --target a100") && replay.contains("--set 'it'\\''s scaled="), "{replay}");
        let again = with_cache(Command::new("sh").args(["-c", replay]), &cache()).output().expect("there is a shell");
        let again = String::from_utf8_lossy(&again.stdout).into_owned();
        assert!(again.contains("1 sizes x 1 schedules: 1 runs"), "{replay}\n{again}");
        for line in ["the result depends on the tile `T` of sums", replay] {
            assert!(again.contains(line), "no {line} in {again}");
        }
        let json = with_cache(Command::new("sh").args(["-c", &format!("{replay} --json")]), &cache()).output().expect("there is a shell");
        let json = String::from_utf8_lossy(&json.stdout).into_owned();
        for part in ["\"ok\":false", "\"size\":{\"N\":", "\"seed\":", "\"schedule\":\"it's scaled=", "\"elements\":[", "\"replay\":\""] {
            assert!(json.contains(part), "no {part} in {json}");
        }
    }
}

/// Schedules are explained and compared; what is none is refused with what there is.
fn explains(saxpy: &Path) {
    let target = ["--target", "h200"];
    let command = |words: &str, rest: &[&str]| words.split(' ').chain(target).chain(rest.iter().copied()).map(str::to_string).collect();
    let text = |words: &str, rest: &[&str]| {
        let words: Vec<String> = command(words, rest);
        run(saxpy, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let error = |words: &str, rest: &[&str]| {
        let words: Vec<String> = command(words, rest);
        refused(saxpy, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    // A size that nothing here is tuned for: the store outlives the test. x and y are read, y is written.
    let page = text("explain saxpy --size N=999_424 --set T=256,C=1,V=1", &[]);
    for part in ["12 MB at 4.36 TB/s", "3904 blocks of 256 threads", "registers per thread, nothing spilled", "accepted: nothing spilled"] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    assert!(page.contains("none are stored for this launch; `autotune tune saxpy::saxpy --size N=999424 --target h200"), "{page}");
    let json = text("explain wrong.sums --no-compile --json", &[]);
    for part in ["\"site\":\"sums\"", "\"bound_by\":\"launch\"", "\"machine_code\":null", "\"tried\":0"] {
        assert!(json.lines().count() == 1 && json.contains(part), "no {part} in {json}");
    }
    // What was tuned by prediction is read back.
    text("tune saxpy --size N=8192 --trials 8 --device sim --fresh", &[]);
    let page = text("explain saxpy --size N=8192 --no-attempts", &[]);
    assert!(page.contains(" predicted for h200, ") && page.contains("the fastest: ") && page.contains("  knob T  "), "{page}");

    let differs = text("diff saxpy --size N=1000000 --a T=256,C=1,V=1 --b T=256,C=4,V=4", &[]);
    for part in ["left:  saxpy T=256 C=1 V=1", "right: saxpy T=256 C=4 V=4", "float4", "instructions of warps", "the same: "] {
        assert!(differs.contains(part), "no {part} in {differs}");
    }
    let same = text("diff saxpy --size N=4096 --a default --b T=256,C=1,V=1 --no-compile", &[]);
    assert!(same.contains("saxpy: the CUDA C is the same"), "{same}");

    let unknown = error("explain saxpi --size N=4096", &[]);
    assert!(unknown.contains("there is no challenge or kernel `saxpi`; did you mean saxpy::saxpy?"), "{unknown}");
    let sizeless = error("explain saxpy", &[]);
    assert!(sizeless.contains("it has no size of its own: give one, as in --size N=1000000"), "{sizeless}");
    let knob = error("explain saxpy --size N=4096 --set T=256,D=1", &[]);
    assert!(knob.contains("D=1") && knob.contains("allowed: T, C, V"), "{knob}");
    let illegal = error("explain saxpy --size N=4096 --set T=256,C=1,V=4", &[]);
    assert!(illegal.contains("illegal schedule: V = 4"), "{illegal}");
    let huge = error("diff saxpy --size N=4096 --a T=256 --b T=8192,C=1,V=1", &[]);
    assert!(huge.contains("--b T=8192,C=1,V=1: ") && huge.contains("at most 1024"), "{huge}");
    let sites = error("diff wrong --b default", &["--a", "it's scaled=no; sums: T=32,V=2"]);
    assert!(sites.contains("--a it's scaled=no; sums: T=32,V=2: sums: line 1, column 6: ") && sites.contains("allowed: T"), "{sites}");
    let both = error("diff wrong --b default --a V=2", &[]);
    assert!(both.contains("--a V=2: sums: line 1, column 1: "), "{both}");
}

/// What can't be exported keeps nothing from it that comes behind it, and is named in the end.
fn exports_the_others(saxpy: &Path) {
    let folder = target().join("user_crate/exported");
    drop(std::fs::remove_dir_all(&folder));
    let folder_text = folder.to_str().expect("a path in UTF-8");
    let all = output(saxpy, &["export", "--all", "--set", "T=256", "--out", folder_text, "--arch", "sm_80"]);
    let (out, err) = (String::from_utf8_lossy(&all.stdout), String::from_utf8_lossy(&all.stderr));
    assert_eq!(all.status.code(), Some(1), "{out}{err}");
    let mut files: Vec<_> = std::fs::read_dir(&folder).expect("it was made").map(|f| f.expect("a file").file_name()).collect();
    files.sort();
    assert_eq!(files, ["wrong.cu"], "{out}{err}");
    assert!(out.contains("wrong.cu for sm_80: "), "{out}");
    assert!(err.contains("not written for sm_80: other: ") && err.contains("copied has no knob T"), "{err}");
    assert!(err.trim_end().ends_with("error: 1 of 2 were not written: other"), "{err}");
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
