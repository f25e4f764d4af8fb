//! Every type as every other one: each conversion rounds once. Against exact arithmetic, in the evaluator, the simulator, on a GPU where
//! there is one, in exported host code, and in the helpers of kernels, which g++ compiles with the instructions that they call as functions.

use super::host_code::HostProgram;
use super::launches::{Launch, Placement, Shape};
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::program::export::export_program;
use girih_core::program::signature::Signature;
use girih_core::registry::KernelDef;
use girih_core::scalar;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::types::{DType, Literal};

/// Elements of one type as all twelve.
#[kernel(tile(T = 64), types(S = [bool, i8, u8, i32, u32, i64, u64, f8e4m3, f8e5m2, f16, bf16, f32]))]
pub fn casts<S: Elem>(
    x: &Tensor<S, 1>,
    truths: &mut Tensor<bool, 1>,
    bytes: &mut Tensor<i8, 1>,
    octets: &mut Tensor<u8, 1>,
    ints: &mut Tensor<i32, 1>,
    words: &mut Tensor<u32, 1>,
    longs: &mut Tensor<i64, 1>,
    wide: &mut Tensor<u64, 1>,
    fours: &mut Tensor<f8e4m3, 1>,
    fives: &mut Tensor<f8e5m2, 1>,
    halves: &mut Tensor<f16, 1>,
    brains: &mut Tensor<bf16, 1>,
    floats: &mut Tensor<f32, 1>,
) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        truths.store(t, v.cast());
        bytes.store(t, v.cast());
        octets.store(t, v.cast());
        ints.store(t, v.cast());
        words.store(t, v.cast());
        longs.store(t, v.cast());
        wide.store(t, v.cast());
        fours.store(t, v.cast());
        fives.store(t, v.cast());
        halves.store(t, v.cast());
        brains.store(t, v.cast());
        floats.store(t, v.cast());
    }
}

fn def(from: DType) -> KernelDef {
    match from {
        DType::Bool => casts::Kernel::<bool>::def(),
        DType::I8 => casts::Kernel::<i8>::def(),
        DType::U8 => casts::Kernel::<u8>::def(),
        DType::I32 => casts::Kernel::<i32>::def(),
        DType::U32 => casts::Kernel::<u32>::def(),
        DType::I64 => casts::Kernel::<i64>::def(),
        DType::U64 => casts::Kernel::<u64>::def(),
        DType::F8E4M3 => casts::Kernel::<f8e4m3>::def(),
        DType::F8E5M2 => casts::Kernel::<f8e5m2>::def(),
        DType::F16 => casts::Kernel::<f16>::def(),
        DType::BF16 => casts::Kernel::<bf16>::def(),
        DType::F32 => casts::Kernel::<f32>::def(),
    }
}

/// A value of some type, exactly.
#[derive(Clone, Copy, Debug)]
enum Exact {
    Integer(i128),
    Float(f64),
}

fn exact(l: Literal) -> Exact {
    match l.dtype {
        DType::U64 => Exact::Integer(i128::from(l.bits)),
        d if d.is_float() => Exact::Float(l.to_f64()),
        _ => Exact::Integer(i128::from(l.to_i64())),
    }
}

/// Significant bits of a float.
fn precision(dtype: DType) -> u32 {
    match dtype {
        DType::F8E5M2 => 3,
        DType::F8E4M3 => 4,
        DType::BF16 => 8,
        DType::F16 => 11,
        _ => 24,
    }
}

/// The value that a conversion must give; `None` for NaN.
fn expected(x: Exact, to: DType) -> Option<Exact> {
    Some(match (x, to) {
        (Exact::Float(x), to) if to.is_float() => return nearest_to_float(x, to).map(Exact::Float),
        (Exact::Integer(x), to) if to.is_float() => Exact::Float(nearest_to_integer(x, to)),
        (Exact::Integer(x), DType::Bool) => Exact::Integer(i128::from(x != 0)),
        (Exact::Float(x), DType::Bool) => Exact::Integer(i128::from(x != 0.0)),
        (x, to) => {
            let bits = 8 * to.size() as u32;
            let (least, most) = if to.is_signed() { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
            Exact::Integer(match x {
                Exact::Integer(x) => least + (x - least).rem_euclid(1 << bits),
                // Rust's own conversion truncates, saturates at 128 bits, and takes NaN to 0.
                Exact::Float(x) => (x as i128).clamp(least, most),
            })
        }
    })
}

/// The largest finite number of a type into which numbers saturate.
fn saturates_at(to: DType) -> Option<f64> {
    match to {
        DType::F8E4M3 => Some(448.0),
        DType::F8E5M2 => Some(57344.0),
        _ => None,
    }
}

/// The nearest multiple of the unit in the last place, ties to the even one; from half a unit above the largest number on infinite, or that
/// number where the type saturates.
fn nearest_to_integer(x: i128, to: DType) -> f64 {
    let (size, mut unit) = (x.abs(), 1i128);
    while size >= unit << precision(to) {
        unit *= 2;
    }
    let (below, above) = (size / unit, size / unit + 1);
    let (down, up) = (size - below * unit, above * unit - size);
    let chosen = if down < up || (down == up && below % 2 == 0) { below } else { above } * unit;
    let size = if to == DType::F16 && chosen >= 65536 { f64::INFINITY } else { chosen as f64 };
    let size = size.min(saturates_at(to).unwrap_or(f64::INFINITY));
    if x < 0 { -size } else { size }
}

/// The same for what was a float of at most 24 significant bits: of the type's two numbers around it, both told in double precision.
fn nearest_to_float(x: f64, to: DType) -> Option<f64> {
    if x.is_nan() {
        return None;
    }
    if let Some(largest) = saturates_at(to).filter(|largest| x.abs() >= *largest) {
        return Some(largest.copysign(x));
    }
    if to == DType::F32 || x.is_infinite() || x == 0.0 {
        return Some(x);
    }
    let (infinity, end) = match to {
        DType::F8E4M3 => (0x7f, 480.0),
        DType::F8E5M2 => (0x7c, 65536.0),
        DType::F16 => (0x7c00, 65536.0),
        _ => (0x7f80, 2f64.powi(128)),
    };
    let value = |bits: u64| if bits == infinity { end } else { Literal { dtype: to, bits }.to_f64() };
    let size = x.abs();
    let above = (1..=infinity).find(|bits| value(*bits) > size);
    let Some(above) = above else { return Some(f64::INFINITY.copysign(x)) };
    let (low, high) = (value(above - 1), value(above));
    let down = size - low < high - size || (size - low == high - size && (above - 1) % 2 == 0);
    let chosen = if down { low } else { high };
    Some(if chosen == end { f64::INFINITY } else { chosen }.copysign(x))
}

/// Numbers of a type: all bytes; around powers of two, ties of each float and the ends of each type, one below and one above.
fn values(dtype: DType) -> Vec<Literal> {
    let of = |bits: u64| Literal { dtype, bits };
    if dtype.size() == 1 {
        return (0..if dtype == DType::Bool { 2 } else { 256 }).map(of).collect();
    }
    let mut integers: Vec<i128> = vec![0, 65519, 65520, 65521];
    for shift in 0..64 {
        integers.push(1 << shift);
        for bits in [3, 4, 8, 11, 24] {
            for tie in [(1i128 << bits) + 1, (1 << bits) + 3, (2 << bits) - 1, (2 << bits) - 3] {
                integers.push(tie << shift);
            }
        }
    }
    let around = integers.iter().flat_map(|x| [x - 1, *x, x + 1]).flat_map(|x| [x, -x]);
    if dtype.is_int() {
        let bits = 8 * dtype.size() as u32;
        let (least, most) = if dtype.is_signed() { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
        let mut all: Vec<i128> = around.chain([least, most, most - 1]).filter(|x| (least..=most).contains(x)).collect();
        all.sort_unstable();
        all.dedup();
        return all.into_iter().map(|x| of(x as u64 & if bits == 64 { u64::MAX } else { (1 << bits) - 1 })).collect();
    }
    let step = if dtype == DType::F32 { 1 } else { 7 };
    let floats = around.step_by(step).map(|x| (x as f32).to_bits());
    // Ties of all narrower types where these are normal, denormal and at their end; zeros, infinities, NaN.
    let exponents = [1u32, 20, 102, 103, 110, 111, 112, 113, 117, 118, 120, 121, 126, 127, 135, 142, 143, 190, 191, 253, 254];
    let small = [0u32, 0x1000, 0x3000, 0x8000, 0x1_8000, 0x7f_8000, 0x7f_f000, 0x7f_ffff, 0x40_0000];
    let fractions = small.into_iter().chain([0x8_0000, 0x10_0000, 0x18_0000, 0x30_0000, 0x60_0000, 0x68_0000, 0x70_0000, 0x78_0000]);
    let ties = exponents.iter().flat_map(|e| fractions.clone().map(move |f| e << 23 | f)).flat_map(|b| [b - 1, b, b + 1]);
    let special = [0, 1, 0x0000_8000, 0x0001_8000, f32::INFINITY.to_bits(), f32::NAN.to_bits()];
    let bits = floats.chain(ties.chain(special).flat_map(|b| [b, b | 1 << 31]));
    bits.map(|b| of(scalar::cast(DType::F32, dtype, b.into()))).collect()
}

fn assert_converted(x: Literal, to: DType, bits: u64) {
    let found = Literal { dtype: to, bits };
    if x.dtype == to && x.to_f64().is_infinite() {
        return assert_eq!(bits, x.bits, "{x} of {to} is another one");
    }
    let fine = match (expected(exact(x), to), exact(found)) {
        (None, Exact::Float(got)) => got.is_nan(),
        (Some(Exact::Float(want)), Exact::Float(got)) => want.to_bits() == got.to_bits(),
        (Some(Exact::Integer(want)), Exact::Integer(got)) => want == got,
        _ => false,
    };
    assert!(fine, "{x} of {} as {to} is {found}, not {:?}", x.dtype, expected(exact(x), to));
}

#[test]
fn an_integer_rounds_once() {
    let x = Literal::i32((1 << 30) + (1 << 22) + 1);
    let rounded = Literal { dtype: DType::BF16, bits: scalar::cast(DType::I32, DType::BF16, x.bits) };
    assert_eq!(rounded.to_f64(), f64::from((1 << 30) + (1 << 23)));
    assert_eq!(Literal::from_i64(DType::BF16, x.to_i64()), rounded);
}

#[test]
fn every_conversion_is_exact_or_rounds_once() {
    for from in DType::ALL {
        let values = values(from);
        for to in DType::ALL {
            values.iter().for_each(|x| assert_converted(*x, to, scalar::cast(from, to, x.bits)));
        }
    }
}

#[test]
fn kernels_convert_as_the_language_says() {
    for from in DType::ALL {
        // Whether infinities of 8 bits that are only moved saturate depends on how they are.
        let moved = |x: &Literal| !(x.dtype == DType::F8E5M2 && x.to_f64().is_infinite());
        let values: Vec<Literal> = values(from).into_iter().filter(moved).collect();
        let kernel = (def(from).build)().unwrap_or_else(|e| panic!("{e}"));
        let n = values.len() as i64;
        let shape = Shape { lens: vec![vec![n]; 13], scalars: vec![None; 13] };
        let mut launch = Launch::new(&kernel, &shape, Placement::Aligned, 1);
        launch.set(&kernel, "x", &|i| values[i].bits);
        let buffers = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
        for (p, to) in DType::ALL.into_iter().enumerate() {
            let results = launch.elements_in(&buffers, p + 1);
            for (x, bytes) in values.iter().zip(results.chunks(to.size())) {
                let mut bits = [0; 8];
                bits[..to.size()].copy_from_slice(bytes);
                assert_converted(*x, to, u64::from_le_bytes(bits));
            }
        }
        let naive = Space::new(&kernel, &launch.facts(&kernel), Target::h200()).naive().expect("legal");
        let simt = lower(&kernel, &launch.facts(&kernel), &naive, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(launch.disagreement(&kernel, &simt, u64::MAX), None, "{from}");
    }
}

/// Stand-ins for what the helpers call, and for a GPU that has no instruction for bf16.
const INSTRUCTIONS: &str = "
#include <fenv.h>
#define __device__
#define __forceinline__ inline
#define __CUDA_ARCH__ 750
static unsigned int __float_as_uint(float x) { unsigned int b; memcpy(&b, &x, 4); return b; }
static float __uint_as_float(unsigned int b) { float x; memcpy(&x, &b, 4); return x; }
template <typename T> static float cut(T x)
{
    volatile T of = x;
    fesetround(FE_TOWARDZERO);
    volatile float result = (float)of;
    fesetround(FE_TONEAREST);
    return result;
}
static float __int2float_rz(int x) { return cut(x); }
static float __uint2float_rz(unsigned int x) { return cut(x); }
static float __ll2float_rz(long long x) { return cut(x); }
static float __ull2float_rz(unsigned long long x) { return cut(x); }
static int __float2int_rz(float x) { return (int)x; }
static unsigned int __float2uint_rz(float x) { return (unsigned int)x; }
static unsigned int __float2uint_rn(float x) { return (unsigned int)lrintf(x); }
static long long __float2ll_rz(float x) { return (long long)x; }
static unsigned long long __float2ull_rz(float x) { return (unsigned long long)x; }
";

/// The functions that an emitted text defines in front of its kernel, of those whose heads have such words in them.
fn helpers(text: &str, words: &[&str]) -> String {
    let heads = |p: &str| p.lines().any(|l| l.contains("__forceinline__") && words.iter().any(|word| l.contains(word)));
    let parts = text.split("\n\n").filter(|p| heads(p));
    parts.map(|p| format!("{p}\n")).collect()
}

/// The text of the casts of a type under the naive schedule.
fn text_of_casts(from: DType) -> String {
    let kernel = (def(from).build)().unwrap_or_else(|e| panic!("{e}"));
    let naive = Space::new(&kernel, &Facts::none(&kernel), Target::h200()).naive().expect("legal");
    emit(&lower(&kernel, &Facts::none(&kernel), &naive, Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

/// Where no instruction converts 8-bit floats, kernels do it by bits.
#[test]
fn helpers_of_8_bit_floats_round_once() {
    let text = text_of_casts(DType::F32);
    for (to, name) in [(DType::F8E4M3, "float_to_e4m3"), (DType::F8E5M2, "float_to_e5m2")] {
        assert!(text.contains(&format!("= {name}(")), "{text}");
        let values = values(DType::F32);
        let list: Vec<String> = values.iter().map(|l| format!("{}u", l.bits)).collect();
        let main = format!(
            "{INSTRUCTIONS}{}\nint main()\n{{\n    for (unsigned int bits : {{{}}})\n        printf(\"%d\\n\", {name}(__uint_as_float(bits)));\n}}\n",
            helpers(&text, &[&format!(" {name}(")]),
            list.join(", ")
        );
        let Some(host) = HostProgram::build("__global__ void f()\n{\n}\n", "f", "", &main) else { return };
        let found = host.run(&[]);
        assert_eq!(found.lines().count(), values.len());
        for (x, line) in values.iter().zip(found.lines()) {
            assert_converted(*x, to, line.parse().expect("a number"));
        }
    }
    let text = text_of_casts(DType::F8E4M3);
    let main = format!(
        "{INSTRUCTIONS}{}\nint main()\n{{\n    for (int bits = 0; bits < 256; bits++)\n        printf(\"%u\\n\", __float_as_uint(e4m3_to_float(bits)));\n}}\n",
        helpers(&text, &[" e4m3_to_float("]),
    );
    let Some(host) = HostProgram::build("__global__ void f()\n{\n}\n", "f", "", &main) else { return };
    let found = host.run(&[]);
    assert_eq!(found.lines().count(), 256);
    for (x, line) in values(DType::F8E4M3).into_iter().zip(found.lines()) {
        assert_converted(x, DType::F32, line.parse().expect("a number"));
    }
}

#[test]
fn helpers_of_kernels_round_once() {
    let types = [(DType::I32, "int"), (DType::U32, "uint"), (DType::I64, "long"), (DType::U64, "ulong")];
    for (from, name) in types {
        let text = text_of_casts(from);
        let called = format!("= {name}_to_bfloat16(");
        assert!(text.contains(&called), "{text}");
        let values = values(from);
        let list: Vec<String> = values.iter().map(|l| format!("{}ull", l.bits)).collect();
        let main = format!(
            "{INSTRUCTIONS}{}\nint main()\n{{\n    for (unsigned long long bits : {{{}}})\n        printf(\"%d\\n\", {name}_to_bfloat16(bits));\n}}\n",
            helpers(&text, &["bfloat16("]),
            list.join(", ")
        );
        let Some(host) = HostProgram::build("__global__ void f()\n{\n}\n", "f", "", &main) else { return };
        let found = host.run(&[]);
        assert_eq!(found.lines().count(), values.len());
        for (x, line) in values.iter().zip(found.lines()) {
            assert_converted(*x, DType::BF16, line.parse().expect("a number"));
        }
    }
}

/// The bits of a float.
#[kernel]
fn float_bits(y: &mut Tensor<f32, 1>, at: Scalar<i64>, value: Scalar<f32>) {
    y.store_at(at, value);
}

/// An integer of 64 bits, and what of it fits narrower types, as 16-bit floats.
#[program]
fn rounded_by_the_host(y: &mut Tensor<f32, 1>, w: Scalar<i64>) {
    let (u, i, v) = (w.cast::<u64>(), w.cast::<i32>(), w.cast::<u32>());
    let numbers = [
        w.cast::<bf16>().cast::<f32>(),
        u.cast::<bf16>().cast::<f32>(),
        i.cast::<bf16>().cast::<f32>(),
        v.cast::<bf16>().cast::<f32>(),
        w.cast::<f16>().cast::<f32>(),
        u.cast::<f16>().cast::<f32>(),
        i.cast::<f32>(),
        u.cast::<f32>(),
        w.cast::<f8e4m3>().cast::<f32>(),
        w.cast::<f8e5m2>().cast::<f32>(),
    ];
    for (at, value) in numbers.into_iter().enumerate() {
        float_bits(y, scalar::<i64>(at as i64), value);
    }
}

#[test]
fn host_code_rounds_once() {
    let program = (rounded_by_the_host::Program::def().build)().unwrap_or_else(|e| panic!("{e}"));
    let signature = Signature::parse("void solve(float* y[10], long long w)").expect("a signature");
    let mut naive =
        |_: usize, kernel: &girih_core::tile::Kernel| Space::new(kernel, &Facts::best(kernel), Target::h200()).naive().expect("legal");
    let text = export_program(&program, &signature, Target::h200(), &mut naive).unwrap_or_else(|e| panic!("{e}"));
    let stand_in = "static void float_bits(float* y, long long at, float value, long long) { y[at] = value; }";
    let values = values(DType::I64);
    let list: Vec<String> = values.iter().map(|l| format!("{}ull", l.bits)).collect();
    let main = format!(
        "int main()\n{{\n    for (unsigned long long bits : {{{}}}) {{\n        float y[10];\n        unsigned int b[10];\n        solve(y, bits);\n        \
         memcpy(b, y, 40);\n        for (unsigned int x : b)\n            printf(\"%u \", x);\n        printf(\"\\n\");\n    }}\n}}\n",
        list.join(", ")
    );
    let Some(host) = HostProgram::build(&text, "float_bits", stand_in, &main) else { return };
    let found = host.run(&[]);
    assert_eq!(found.lines().count(), values.len());
    let columns = [
        (DType::I64, DType::BF16),
        (DType::U64, DType::BF16),
        (DType::I32, DType::BF16),
        (DType::U32, DType::BF16),
        (DType::I64, DType::F16),
        (DType::U64, DType::F16),
        (DType::I32, DType::F32),
        (DType::U64, DType::F32),
        (DType::I64, DType::F8E4M3),
        (DType::I64, DType::F8E5M2),
    ];
    for (x, line) in values.iter().zip(found.lines()) {
        for ((from, to), bits) in columns.into_iter().zip(line.split_whitespace()) {
            let x = Literal { dtype: from, bits: scalar::cast(DType::I64, from, x.bits) };
            let wide: u64 = bits.parse().expect("a number");
            let narrow = scalar::cast(DType::F32, to, wide);
            assert_eq!(scalar::cast(to, DType::F32, narrow), wide, "{x} as {to} has bits that the type lacks");
            assert_converted(x, to, narrow);
        }
    }
}
