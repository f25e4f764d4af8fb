//! Host code of exported files as a program of its own: compiled by g++, with functions in the place of launches and of CUDA.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory of the host instead of the GPU's.
const CUDA: &str = "
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice };
template <typename T> static void cudaMalloc(T** memory, size_t bytes) { *memory = (T*)aligned_alloc(256, (bytes + 255) / 256 * 256); }
static void cudaFree(void* memory) { free(memory); }
static void cudaMemset(void* to, int value, size_t bytes) { memset(to, value, bytes); }
static void cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind) { if (bytes) memcpy(to, from, bytes); }
";

/// A compiled program, removed with its folder when dropped.
pub struct HostProgram {
    folder: PathBuf,
    text: String,
}

impl HostProgram {
    /// The host code of an exported text with `main`; every launch calls `function`, which `stand_in` defines. `None` without g++.
    pub fn build(text: &str, function: &str, stand_in: &str, main: &str) -> Option<HostProgram> {
        let text = format!("{}\n{CUDA}{stand_in}\n{}{main}", INCLUDES, host_code(text, function));
        HostProgram::of(text, &["-fsanitize=undefined", "-fno-sanitize-recover"])
    }

    /// A whole program. `None` without g++.
    pub fn of(text: String, flags: &[&str]) -> Option<HostProgram> {
        if Command::new("g++").arg("--version").output().is_err() {
            println!("no g++: the text is not compiled");
            return None;
        }
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("girih-host-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let source = folder.join("host.cpp");
        std::fs::write(&source, &text).expect("written");
        let built = Command::new("g++").args(["-O2", "-w"]).args(flags).arg("-o").arg(folder.join("host")).arg(&source).output();
        let built = built.expect("g++ runs");
        assert!(built.status.success(), "{}\n{text}", String::from_utf8_lossy(&built.stderr));
        Some(HostProgram { folder, text })
    }

    /// What it prints.
    pub fn run(&self, args: &[String]) -> String {
        let run = Command::new(self.folder.join("host")).args(args).output().expect("it runs");
        assert!(run.status.success(), "{args:?}: {}\n{}", String::from_utf8_lossy(&run.stderr), self.text);
        String::from_utf8_lossy(&run.stdout).into_owned()
    }
}

impl Drop for HostProgram {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).expect("removed");
    }
}

const INCLUDES: &str = "#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
using std::max;
using std::min;";

/// What stands behind the kernels, with calls of `function` as launches.
pub fn host_code(text: &str, function: &str) -> String {
    let kernels = text.rfind("__global__").expect("a kernel");
    let mut host = text[kernels + text[kernels..].find("\n}\n").expect("its end") + 3..].to_string();
    while let (Some(from), Some(to)) = (host.find("<<<"), host.find(">>>(")) {
        let name = host[..from].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + 1);
        host.replace_range(name..to + 4, &format!("{function}("));
    }
    // Launches that may begin early go by a function of the file.
    if let Some(from) = host.find("// The kernel may begin before") {
        let end = from + host[from..].find("\n}\n").expect("its end") + 3;
        host.replace_range(from..end, "");
    }
    while let Some(from) = host.find("launch_dependent(") {
        let first = from + "launch_dependent(".len();
        let end = behind_arguments(&host[first..], 4);
        host.replace_range(from..first + end, &format!("{function}("));
    }
    host
}

/// Where, behind so many arguments of a call and the comma after them, the rest of its text begins.
fn behind_arguments(text: &str, count: usize) -> usize {
    let (mut depth, mut left) = (0, count);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            ',' if depth == 0 => left -= 1,
            _ => {}
        }
        if left == 0 {
            return at + 1;
        }
    }
    panic!("no {count} arguments in {text}")
}
