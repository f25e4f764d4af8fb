//! Authors' names that mean something in C++, CUDA or the headers that exported files and their users include: the texts have others.

use super::host_code::{HostProgram, host_code};
use super::nvrtc::{ARCHS, provide};
use girih::compile::nvrtc;
use girih::prelude::*;
use girih_core::cuda::emit_kernels;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::program::export::{compile_sites, export, export_program};
use girih_core::program::signature::Signature;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::HashSet;

/// y = a · x.
#[kernel(tile(T = 256), vector = 4)]
pub fn renamed(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, a: Scalar<f32>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t) * a);
    }
}

/// What is computed by the host has its macros' names, too.
#[program]
#[allow(non_snake_case)]
fn renamed_twice(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, a: Scalar<f32>) {
    let mut NULL = temp([x.len(0)]);
    let stdin = a * 2.0;
    renamed(x, &mut NULL, stdin);
    renamed(&NULL, y, stdin);
}

const MACROS: &str = include_str!("../../dsl-core/compiler/src/cuda/macros.txt");
const KEYWORDS: &str = include_str!("../../dsl-core/compiler/src/cuda/keywords.txt");
/// Functions that exported host code defines, a kernel of the export, and names that the text declares.
const OWN: &str = "is_aligned workspace fill renamed memory blocks to_integer round_f16 cudaMemset cudaStream_t __device__ _Complex";

fn words() -> Vec<&'static str> {
    MACROS.split_whitespace().chain(KEYWORDS.split_whitespace()).chain(OWN.split_whitespace()).collect()
}

fn naive(kernel: &Kernel) -> girih_core::schedule::Schedule {
    Space::new(kernel, &Facts::best(kernel), Target::h200()).naive().expect("legal")
}

/// The words of a text outside of comments.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|l| l.split("//").next().unwrap_or(l)).filter(|l| !l.starts_with('#'));
    code.flat_map(|l| l.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
}

#[test]
fn the_macros_of_the_compiler_here_are_known() {
    let includes = "#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <algorithm>\n";
    for standard in ["c++17", "gnu++17"] {
        let Some(text) = defined(standard, includes) else { return };
        let defined = text.lines().filter_map(|l| l.strip_prefix("#define ")?.split([' ', '(']).next());
        let known = words();
        let unknown: Vec<&str> = defined.filter(|name| !name.starts_with('_') && !known.contains(name)).collect();
        // A later library may define some more: the list wants them, too.
        assert!(unknown.len() < 8, "{unknown:?}");
        assert!(["NULL", "NAN", "INFINITY", "EOF"].iter().all(|name| text.contains(&format!("#define {name} "))));
    }
}

/// What g++ says that it and these headers define; `None` without g++.
fn defined(standard: &str, includes: &str) -> Option<String> {
    let folder = std::env::temp_dir().join(format!("girih-macros-{}-{standard}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("includes.cpp");
    std::fs::write(&file, includes).expect("written");
    let out = std::process::Command::new("g++").args(["-dM", "-E", &format!("-std={standard}")]).arg(&file).output();
    std::fs::remove_dir_all(&folder).expect("removed");
    out.ok().map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
}

#[test]
fn kernels_have_no_parameter_and_no_value_that_is_a_macro_or_a_keyword() {
    let kernel = (renamed::Kernel::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let (schedule, facts) = (naive(&kernel), Facts::none(&kernel));
    let words = words();
    let macros: HashSet<&str> = MACROS.split_whitespace().collect();
    let mut kernels = Vec::new();
    for (i, names) in words.chunks(3).enumerate() {
        let mut named = kernel.clone();
        for (param, name) in named.params.iter_mut().zip(names) {
            param.name = name.to_string();
        }
        // Values that authors name keep that name in the text.
        for (value, name) in named.values.iter_mut().zip(names.iter().cycle()) {
            value.name = Some(name.to_string());
        }
        let mut simt = lower(&named, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{names:?}: {e}"));
        simt.name = format!("kernel_{i}");
        let text = emit_kernels(std::slice::from_ref(&simt));
        let body = text.split_once("__launch_bounds__").expect("a kernel").1;
        let declared = |name: &str| tokens(body).any(|t| t == name);
        assert!(!names.iter().any(|n| macros.contains(n) && declared(n)), "{names:?}\n{text}");
        kernels.push(simt);
    }
    provide();
    for (at, arch) in ARCHS.into_iter().enumerate() {
        let some: Vec<_> = kernels.iter().skip(at).step_by(ARCHS.len()).cloned().collect();
        let source = emit_kernels(&some);
        nvrtc::compile(&source, arch, &[], "names", "tests").unwrap_or_else(|e| panic!("{e}"));
    }
    // These are defined where NVRTC compiles, so they are tried on their own.
    let mut named = kernel.clone();
    for (param, name) in named.params.iter_mut().zip(["NULL", "INFINITY", "assert"]) {
        param.name = name.to_string();
    }
    let simt = lower(&named, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    nvrtc::compile(&emit_kernels(&[simt]), "sm_90a", &[], "names", "tests").unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn exports_have_no_name_that_is_a_macro_or_a_keyword() {
    let program = (renamed_twice::Program::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let mut all = String::from("__global__ void nothing()\n{\n}\n");
    let words = words();
    let macros: HashSet<&str> = MACROS.split_whitespace().collect();
    let plain = Signature::parse("void solve(const float* x[N], float* y[N], int N, float a)").expect("a signature");
    let mut choose = |_: usize, kernel: &Kernel| naive(kernel);
    let sites = compile_sites(&program, &plain, Target::h200(), &mut choose).unwrap_or_else(|e| panic!("{e}"));
    for (i, names) in words.chunks(4).enumerate() {
        let name = |at: usize| names.get(at).map_or(format!("free_{at}"), |n| n.to_string());
        let signature = format!(
            "void solve_{i}(const float* {}[{}], float* {}[{}], int {}, float {})",
            name(0),
            name(2),
            name(1),
            name(2),
            name(2),
            name(3)
        );
        let signature = Signature::parse(&signature).unwrap_or_else(|e| panic!("{e}"));
        let text = export(&program, &signature, &sites, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(tokens(&text).find(|t| macros.contains(t)), None, "{text}");
        all += &format!("namespace n{i} {{\n{}}}\n", host_code(&text, "renamed"));
    }
    let stand_in = "template <typename... Args> static void renamed(Args...) {}";
    let Some(host) = HostProgram::build(&all, "renamed", stand_in, "int main() { printf(\"built\"); }\n") else { return };
    assert_eq!(host.run(&[]), "built");
}

#[test]
fn names_that_hide_nothing_stay() {
    let program = (renamed_twice::Program::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let signature = Signature::parse("void solve(const float* gamma[N], float* NULL[N], int N, float beta)").expect("a signature");
    let text = export_program(&program, &signature, Target::h200(), &mut |_, kernel| naive(kernel)).unwrap_or_else(|e| panic!("{e}"));
    assert!(text.contains("extern \"C\" void solve(const float* gamma, float* NULL_2, int N, float beta)"), "{text}");
}
