//! The cubin cache across processes: this binary runs itself, with a cache folder of its own.

use super::cuda_text::conversions;
use super::nvrtc::provide;
use girih::compile::nvrtc;
use girih::prelude::*;
use girih::{Compiled, Device, Stream};
use girih_core::target::Target;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the processes that the test starts.
const CHILD: &str = "GIRIH_TEST_CHILD";

/// Compiles one kernel and says how.
fn child() {
    let start = std::time::Instant::now();
    let compiled = Compiled::of(conversions(), Target::h200()).with_cubin().unwrap_or_else(|e| panic!("{e}"));
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let resources = compiled.resources.expect("a cubin has resources");
    let size = compiled.cubin.expect("a cubin was asked for").len();
    println!("compiled: loaded {} bytes {size} registers {} in {milliseconds:.2} ms", nvrtc::is_loaded(), resources.registers);
}

/// A kernel to launch.
#[kernel(tile(T = [256, 512]), vector(V = [4, 1]))]
fn increment(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t) + 1.0);
    }
}

/// Launches a kernel for the first time in this process, on a context that is there, and says how long that took.
fn launching_child() {
    let stream = Stream::on(&Device::cuda(0).expect("the parent has seen a GPU"));
    let mut x = stream.tensor(&[1.0f32; 1000], [1000]).expect("room for a tensor");
    stream.synchronize().expect("a context");
    let start = std::time::Instant::now();
    increment(&stream, &mut x).expect("a launch");
    stream.synchronize().expect("a result");
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    println!("compiled: loaded {} in {milliseconds:.2} ms", nvrtc::is_loaded());
}

/// Compiles two kernels, and keeps what comes of them nowhere.
fn keeping_nothing() {
    for target in ["h200", "a100"] {
        let target = Target::find(target).expect("it is listed");
        let compiled = Compiled::of(conversions(), target).with_cubin().unwrap_or_else(|e| panic!("{e}"));
        println!("compiled: {} bytes", compiled.cubin.expect("a cubin was asked for").len());
    }
}

/// What a test's child says in a process of its own.
fn child_of(test: &str, cache: &Path) -> String {
    let (text, _) = output_of(test, cache);
    text.split("compiled: ").nth(1).expect("the child's line").lines().next().expect("a line").to_string()
}

/// What a test's child leaves on its standard output and its standard error.
fn output_of(test: &str, cache: &Path) -> (String, String) {
    let executable = std::env::current_exe().expect("this test's binary");
    let output = Command::new(executable)
        .args(["--exact", &format!("cubin_cache::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .env("GIRIH_CACHE", cache)
        .env("GIRIH_NVRTC", nvrtc::identity().expect("provided").path)
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{told}");
    println!("{text}");
    (text, told)
}

/// What [`child`] says but for how long it took.
fn run(cache: &Path) -> String {
    let line = child_of("a_cached_cubin_needs_no_nvrtc", cache);
    line.split(" in ").next().expect("the line's first part").to_string()
}

/// The only entry of a cache.
fn entry(cache: &Path) -> PathBuf {
    let only = |folder: &Path| std::fs::read_dir(folder).expect("a folder").next().expect("one entry").expect("an entry").path();
    only(&only(&cache.join("cubin")))
}

#[test]
fn a_cached_cubin_needs_no_nvrtc() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    provide();
    let cache = std::env::temp_dir().join(format!("girih-test-cubins-{}", std::process::id()));
    let first = run(&cache);
    assert!(first.starts_with("loaded true"), "{first}");
    let cached = first.replace("loaded true", "loaded false");
    assert_eq!(run(&cache), cached);

    let path = entry(&cache);
    let whole = std::fs::read(&path).expect("the entry");
    for damaged in [&whole[..whole.len() / 2], &[], b"something else"] {
        std::fs::write(&path, damaged).expect("the cache can be written");
        assert_eq!(run(&cache), first);
        assert_eq!(std::fs::read(&path).expect("the entry"), whole);
    }

    // Two processes at once, from an empty cache.
    std::fs::remove_file(&path).expect("the entry");
    std::thread::scope(|s| {
        let both = [s.spawn(|| run(&cache)), s.spawn(|| run(&cache))];
        both.into_iter().for_each(|p| assert!(p.join().expect("no panic").ends_with(&first["loaded true".len()..])));
    });
    assert_eq!(std::fs::read(&path).expect("the entry"), whole);
    std::fs::remove_dir_all(cache).expect("the test's own folder");
}

#[test]
fn a_cache_that_cannot_be_written_is_told_of_once() {
    if std::env::var_os(CHILD).is_some() {
        return keeping_nothing();
    }
    provide();
    // No folder can be made where a file lies, whoever asks for it.
    let file = std::env::temp_dir().join(format!("girih-test-no-cache-{}", std::process::id()));
    std::fs::write(&file, "a file").expect("the test's own file");
    let (text, told) = output_of("a_cache_that_cannot_be_written_is_told_of_once", &file.join("cache"));
    assert_eq!(text.matches("compiled: ").count(), 2, "{text}");
    assert_eq!(told.matches("what is compiled is not kept").count(), 1, "{told}");
    assert!(told.contains(&file.display().to_string()) && told.contains("set GIRIH_CACHE"), "{told}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "a file");
    std::fs::remove_file(file).expect("the test's own file");
}

#[test]
fn a_second_process_launches_within_20_ms() {
    if std::env::var_os(CHILD).is_some() {
        return launching_child();
    }
    if Device::cuda(0).is_err() {
        return println!("skipped: no GPU");
    }
    provide();
    let cache = std::env::temp_dir().join(format!("girih-test-launches-{}", std::process::id()));
    let first = child_of("a_second_process_launches_within_20_ms", &cache);
    assert!(first.starts_with("loaded true"), "{first}");
    // The fastest of a few: others use the machine, too.
    let milliseconds = |line: String| {
        let rest = line.strip_prefix("loaded false in ").unwrap_or_else(|| panic!("{line}"));
        rest.strip_suffix(" ms").and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let again = (0..5).map(|_| milliseconds(child_of("a_second_process_launches_within_20_ms", &cache)));
    let fastest = again.fold(f64::INFINITY, f64::min);
    println!("a cached kernel is launched {fastest} ms after it was asked for");
    assert!(fastest < 20.0, "{fastest} ms");
    std::fs::remove_dir_all(cache).expect("the test's own folder");
}
