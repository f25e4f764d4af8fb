//! What a GPU does for checks and searches: texts that draw inputs and compare results, compiled for the host, do what the host does.

use crate::host_code::HostProgram;
use girih::challenge::near;
use girih::inputs::on_gpu::{DRAW, words};
use girih::inputs::{Distribution, HostTensor, Rng, below, formula, integers, normal, sparse, uniform};
use girih::subject::differ_on_gpu::{DIFFER, Tolerance, words as words_of_differ};
use girih_core::target::TARGETS;
use girih_core::types::{DType, Literal};

/// One thread of one block, whose arguments are words of the command line.
const DRAWN: &str = "
int main(int, char** words) {
    u64 at[12];
    for (int i = 0; i < 12; ++i) at[i] = strtoull(words[i + 1], 0, 10);
    const u64 bytes = at[0] * at[3];
    unsigned char* to = (unsigned char*)malloc(bytes);
    const auto real = [&](int i) { Double d; d.bits = at[i]; return d.value; };
    girih_draw(to, at[0], at[1], at[2], at[3], at[4], at[5], at[6], real(7), real(8), real(9), at[10], at[11]);
    for (u64 i = 0; i < bytes; ++i) printf(\"%02x\", to[i]);
}";

/// The same with two lists of elements as bits behind the words. Says of each element alone whether it differs.
const COMPARED: &str = "
static void atomicAdd(u64* to, u64 more) { *to += more; }
int main(int, char** words) {
    u64 at[6];
    for (int i = 0; i < 6; ++i) at[i] = strtoull(words[i + 1], 0, 10);
    const auto real = [&](int i) { Double d; d.bits = at[i]; return d.value; };
    for (u64 i = 0; i < at[0]; ++i) {
        const u64 one = strtoull(words[7 + i], 0, 10), other = strtoull(words[7 + at[0] + i], 0, 10);
        u64 differing = 0;
        girih_differ(&differing, &one, &other, 1, at[1], at[2], at[3], real(4), real(5));
        printf(\"%d\", (int)differing);
    }
}";

fn host_program(text: &str, main: &str) -> Option<HostProgram> {
    let before = "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#define __device__ static\n#define __global__\n\
                  struct Place { unsigned x; };\nstatic const Place blockIdx = {0}, threadIdx = {0}, blockDim = {1}, gridDim = {1};\n";
    // The function's declaration comes before the kernel, its definition with `main`.
    let declared = "static void atomicAdd(unsigned long long*, unsigned long long);\n";
    let text = format!("{before}{}{text}{main}", if main.contains("atomicAdd") { declared } else { "" });
    HostProgram::of(text, &["-ffp-contract=off", "-fsanitize=undefined", "-fno-sanitize-recover"])
}

#[test]
fn a_gpu_draws_what_the_host_draws() {
    let Some(program) = host_program(DRAW.source, DRAWN) else { return };
    let drawn = |dtype: DType, count: usize, distribution: &Distribution, seed: u64| {
        let words = words(dtype, count, distribution, seed)?;
        Some(program.run(&words.map(|w| w.to_string())))
    };
    let distributions = [
        uniform(-8.0, 8.0),
        uniform(-1e-7, 1e-7),
        uniform(-1e-41, 1e-40),
        integers(-1, 1),
        integers(0, 1000),
        integers(i64::MIN / 2, i64::MAX / 2),
        Distribution::Bits,
        normal(0.0, 1.0),
        normal(3.0, 1e5),
        normal(0.0, 1e39),
        sparse(-1.0, 2.0, 0.35),
    ];
    let mut left_to_the_host = Vec::new();
    for dtype in DType::ALL {
        for (number, distribution) in distributions.iter().enumerate() {
            let host = HostTensor::random(dtype, &[700], distribution, 5);
            let host: String = host.bytes.iter().map(|b| format!("{b:02x}")).collect();
            match drawn(dtype, 700, distribution, 5) {
                Some(ours) => assert!(ours == host, "{dtype} {distribution:?}"),
                None => left_to_the_host.push((dtype, number)),
            }
        }
    }
    // Floats that are integers, and floats of any bits.
    let floats = |d: DType| d.is_float();
    let expected = |(d, number): &(DType, usize)| if floats(*d) { matches!(number, 5 | 6) } else { !matches!(number, 3..=6) };
    assert!(left_to_the_host.iter().all(expected), "{left_to_the_host:?}");
    assert!(drawn(DType::F32, 7, &formula(|_, i| i as f64), 1).is_none() && drawn(DType::I32, 7, &below("N"), 1).is_none());
    // Behind the first chunk.
    let (count, distribution) = ((1 << 18) + 100, normal(0.0, 1.0));
    let host = HostTensor::random(DType::F32, &[count as i64], &distribution, 9);
    let last: String = host.bytes[4 << 18..].iter().map(|b| format!("{b:02x}")).collect();
    assert!(drawn(DType::F32, count, &distribution, 9).expect("it draws these").ends_with(&last));
}

#[test]
fn a_gpu_compares_as_the_host_does() {
    let Some(program) = host_program(DIFFER.source, COMPARED) else { return };
    let mut rng = Rng::new(3);
    for dtype in DType::ALL {
        let mask = u64::MAX >> (64 - 8 * dtype.size());
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-8, 1.0].map(|v| Literal::from_f64(dtype, v).bits);
        // All pairs of what is special, elements beside their neighbours, any bits.
        let mut pairs: Vec<(u64, u64)> = special.iter().flat_map(|a| special.map(|b| (*a, b))).collect();
        for _ in 0..150 {
            let (any, other) = (rng.next_u64() & mask, rng.next_u64() & mask);
            pairs.extend([(any, (any + rng.next_u64() % 5) & mask), (any, other), (any, any)]);
        }
        for allowed in [(0.0, 0.0), (1e-3, 1e-5), (1e-7, 1e-2)].map(|(absolute, relative)| Tolerance { absolute, relative }) {
            let words = words_of_differ(dtype, pairs.len(), allowed).into_iter();
            let words = words.chain(pairs.iter().map(|p| p.0)).chain(pairs.iter().map(|p| p.1)).map(|w| w.to_string());
            let told = program.run(&words.collect::<Vec<_>>());
            let differ = |(a, b): &(u64, u64)| {
                let [x, y] = [*a, *b].map(|bits| Literal { dtype, bits }.to_f64());
                a != b && !(dtype.is_float() && near(x, y, allowed.absolute, allowed.relative))
            };
            let expected: String = pairs.iter().map(|p| if differ(p) { '1' } else { '0' }).collect();
            assert_eq!(told, expected, "{dtype} {allowed:?}: {pairs:x?}");
        }
    }
}

#[test]
fn texts_compile_for_all_targets() {
    for (target, text) in TARGETS.iter().flat_map(|t| [(t, &DRAW), (t, &DIFFER)]) {
        girih::compile::cubin_of_text(text, target.arch).unwrap_or_else(|e| panic!("{}: {e}", target.name));
    }
}
