//! Inputs that a GPU draws: the text that does it, compiled for the host, draws the bits that the host draws.

use crate::host_code::HostProgram;
use girih::inputs::on_gpu::{DRAW, words};
use girih::inputs::{Distribution, HostTensor, below, formula, integers, normal, sparse, uniform};
use girih_core::target::TARGETS;
use girih_core::types::DType;

/// One thread of one block, whose arguments are words of the command line.
const HOST: &str = "
int main(int, char** words) {
    u64 at[12];
    for (int i = 0; i < 12; ++i) at[i] = strtoull(words[i + 1], 0, 10);
    const u64 bytes = at[0] * at[3];
    unsigned char* to = (unsigned char*)malloc(bytes);
    const auto real = [&](int i) { Double d; d.bits = at[i]; return d.value; };
    girih_draw(to, at[0], at[1], at[2], at[3], at[4], at[5], at[6], real(7), real(8), real(9), at[10], at[11]);
    for (u64 i = 0; i < bytes; ++i) printf(\"%02x\", to[i]);
}";

fn host_program() -> Option<HostProgram> {
    let before = "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#define __device__ static\n#define __global__\n\
                  struct Place { unsigned x; };\nstatic const Place blockIdx = {0}, threadIdx = {0}, blockDim = {1}, gridDim = {1};\n";
    HostProgram::of(format!("{before}{}{HOST}", DRAW.source), &["-ffp-contract=off", "-fsanitize=undefined", "-fno-sanitize-recover"])
}

#[test]
fn a_gpu_draws_what_the_host_draws() {
    let Some(program) = host_program() else { return };
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
fn the_text_that_draws_compiles_for_all_targets() {
    for target in TARGETS {
        girih::compile::cubin_of_text(&DRAW, target.arch).unwrap_or_else(|e| panic!("{}: {e}", target.name));
    }
}
