//! Matrix multiplication of numbers of few bits: f16, bf16, f32 rounded to tf32, and 8-bit integers, added up in f32 or i32, of operands
//! that lie along the axis of the sum or across it. One kernel; its instances are all pairs of a precision and a layout.

use super::padded_rows::copy_rows;
use super::split_planes::padded;
use super::turned_rows::turned;
use girih::challenge::{Sizes, matrix_rounding};
use girih::prelude::*;

/// What is multiplied, in which type products are added up, and what is kept of the sums.
pub trait Precision: 'static {
    /// Elements of the operands.
    type In: Num;
    /// Products are added up in these.
    type Sum: Num;
    /// Elements of the result.
    type Out: Num;
    /// What a dot takes of an operand.
    fn operand(x: Tile<Self::In>) -> Tile<Self::In> {
        x
    }
}

/// Precisions: a name, the types of operands, sums and results, and a function of operands where they are rounded.
macro_rules! precisions {
    ($($(#[$doc:meta])* $name:ident: $in:ty, $sum:ty, $out:ty $(, $round:ident)?;)*) => { $(
        $(#[$doc])*
        pub struct $name;
        impl Precision for $name {
            type In = $in;
            type Sum = $sum;
            type Out = $out;
            $(fn operand(x: Tile<$in>) -> Tile<$in> {
                x.$round()
            })?
        }
    )* };
}

precisions! {
    /// f16, whose sums are kept whole.
    F16F32: f16, f32, f32;
    /// f16, whose sums are rounded once.
    F16F16: f16, f32, f16;
    /// bf16, whose sums are kept whole.
    Bf16F32: bf16, f32, f32;
    /// bf16, whose sums are rounded once.
    Bf16Bf16: bf16, f32, bf16;
    /// f32 of which the products see 11 significant bits.
    Tf32: f32, f32, f32, round_tf32;
    /// Integers: exact.
    Int8: i8, i32, i32;
}

/// How the operands lie. N: as it is multiplied, T: the other way round.
pub trait Layout: 'static {
    /// a is `[K, M]`, not `[M, K]`.
    const A_TURNED: bool;
    /// b is `[N, K]`, not `[K, N]`.
    const B_TURNED: bool;
}

/// Layouts: a name, and which operands lie the other way round.
macro_rules! layouts {
    ($($name:ident: $a:literal, $b:literal;)*) => { $(
        #[doc = concat!("The operands' letters: ", stringify!($name), ".")]
        pub struct $name;
        impl Layout for $name {
            const A_TURNED: bool = $a;
            const B_TURNED: bool = $b;
        }
    )* };
}

layouts! {
    NN: false, false;
    NT: false, true;
    TN: true, false;
}

/// c = a · b.
#[kernel(
    types(E = [F16F32, F16F16, Bf16F32, Bf16Bf16, Tf32, Int8], L = [NN, NT, TN]),
    tile(BM = [128, 32, 64, 16, 8], BN = [128, 256, 64, 32], BK = [32, 64, 128]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [8, 16, 4, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Overlap, Mbarriers, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    cluster(N of BM = [1, 2]),
    split(Z = [1, 2, 4, 8, 0]),
    min_blocks(Q = [2, 1])
)]
pub fn lower_precision_gemm<E: Precision, L: Layout>(a: &Tensor<E::In, 2>, b: &Tensor<E::In, 2>, c: &mut Tensor<E::Out, 2>) {
    let inner = if L::A_TURNED { 0 } else { 1 };
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<E::Sum>([BM, BN]);
        for k in a.axis(inner).tiles(BK) {
            let left = if L::A_TURNED { a.load((k, m)).t() } else { a.load((m, k)) };
            let right = if L::B_TURNED { b.load((n, k)).t() } else { b.load((k, n)) };
            acc = dot(E::operand(left), E::operand(right), acc);
        }
        c.store((m, n), acc.cast());
    }
}

/// What elements of a result may be off by at a size, for operands between -1 and 1: sums in f32, and how much two operands' rounding
/// changes each product.
fn rounding(s: &Sizes, operand: f64) -> f64 {
    let (k, largest) = (s.size("K"), 1.0);
    // Independent errors of both operands, of random signs: seven standard deviations of their sum.
    matrix_rounding(k, largest) + 7.0 * k.sqrt() * 2.0 * operand * largest
}

/// The length of a row that begins at a multiple of 16 bytes whatever its elements are, as the next one does.
fn aligned(length: Scalar<i64>) -> Scalar<i64> {
    (length + 15) / 16 * 16
}

/// The program of a precision: what a caller's operands and result are called, and what is done with them.
macro_rules! solve {
    ($e:ident($a:ident, $b:ident, $c:ident) { $($body:tt)* }) => {
        /// What a caller calls.
        #[program]
        pub fn solve(
            $a: &Tensor<<$e as Precision>::In, 2>,
            $b: &Tensor<<$e as Precision>::In, 2>,
            $c: &mut Tensor<<$e as Precision>::Out, 2>,
        ) {
            $($body)*
        }
    };
}

/// The program of one instance: of operands as they are (`given`); or also (`padded`), where that is faster, of copies whose rows begin at
/// multiples of 16 bytes. Rows of an odd length do so nowhere else, and are neither copied by tensor maps nor read by warp groups. Of other
/// elements than those of 16 bits these read operands along the axis of the sum alone: `right_turned` and `both_turned` are the same of
/// copies whose axes are exchanged.
macro_rules! program_of {
    (given: $e:ident $l:ident) => {
        solve!($e(a, b, c) {
            lower_precision_gemm::<$e, $l>(a, b, c);
        });
    };
    (padded: $e:ident $l:ident) => {
        solve!($e(a, b, c) {
            if variant("operands as they are") {
                lower_precision_gemm::<$e, $l>(a, b, c);
            } else {
                let a_rows = temp([a.len(0), padded(a.len(1))]);
                let b_rows = temp([b.len(0), padded(b.len(1))]);
                let (mut a_rows, mut b_rows) = (a_rows.slice(1, 0, a.len(1)), b_rows.slice(1, 0, b.len(1)));
                copy_rows::<<$e as Precision>::In>(a, &mut a_rows);
                copy_rows::<<$e as Precision>::In>(b, &mut b_rows);
                lower_precision_gemm::<$e, $l>(&a_rows, &b_rows, c);
            }
        });
    };
    (right_turned: $e:ident $l:ident) => {
        solve!($e(a, b, c) {
            if variant("operands as they are") {
                lower_precision_gemm::<$e, $l>(a, b, c);
            } else {
                let b_rows = temp([b.len(1), aligned(b.len(0))]);
                let mut b_rows = b_rows.slice(1, 0, b.len(0));
                turned::<<$e as Precision>::In>(b, &mut b_rows);
                lower_precision_gemm::<$e, NT>(a, &b_rows, c);
            }
        });
    };
    (both_turned: $e:ident $l:ident) => {
        solve!($e(a, b, c) {
            if variant("operands as they are") {
                lower_precision_gemm::<$e, $l>(a, b, c);
            } else {
                let a_rows = temp([a.len(1), aligned(a.len(0))]);
                let b_rows = temp([b.len(1), aligned(b.len(0))]);
                let (mut a_rows, mut b_rows) = (a_rows.slice(1, 0, a.len(0)), b_rows.slice(1, 0, b.len(0)));
                turned::<<$e as Precision>::In>(a, &mut a_rows);
                turned::<<$e as Precision>::In>(b, &mut b_rows);
                lower_precision_gemm::<$e, NT>(&a_rows, &b_rows, c);
            }
        });
    };
}

/// The challenge of one instance: a module with its program. Types are C's, shapes those of the operands.
macro_rules! challenge_of {
    ($name:ident: $e:ident $l:ident $operands:ident, $in:literal, $a:literal, $b:literal, $out:literal, $inputs:expr, $relative:expr, $operand:expr) => {
        #[doc = concat!("c = a · b: ", stringify!($e), ", ", stringify!($l), ".")]
        pub mod $name {
            use super::*;

            program_of!($operands: $e $l);

            girih::challenge! {
                Challenge::new(
                    stringify!($name),
                    solve::Program::def,
                    concat!("void solve(const ", $in, "* A", $a, ", const ", $in, "* B", $b, ", ", $out, "* C[M, N], int M, int N, int K)"),
                )
                .input("A", $inputs)
                .input("B", $inputs)
                .output("C", |x, i| {
                    let (m, n, k) = (x.len("M"), x.len("N"), x.len("K"));
                    let (row, col) = (i / n, i % n);
                    let a = |l: usize| x.at("A", if $l::A_TURNED { l * m + row } else { row * k + l });
                    let b = |l: usize| x.at("B", if $l::B_TURNED { col * k + l } else { l * n + col });
                    (0..k).map(|l| a(l) * b(l)).sum()
                })
                .tolerance(0.0, $relative)
                .rounding(|s| rounding(s, $operand))
                .check_at(["M=2 N=5 K=0", "M=17 N=33 K=35", "M=130 N=64 K=32"])
                .perf_at("M=4096, N=4096, K=4096")
                .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
            }
        }
    };
}

/// The challenges of a precision: their names, what is multiplied, the C types of operands and results, what the operands hold, by how much
/// of itself a result and an operand are rounded.
macro_rules! challenges {
    ($($e:ident: $nn:ident $of_nn:ident, $nt:ident $of_nt:ident, $tn:ident $of_tn:ident, $in:literal, $out:literal, $inputs:expr, $relative:expr, $operand:expr;)*) => { $(
        challenge_of!($nn: $e NN $of_nn, $in, "[M, K]", "[K, N]", $out, $inputs, $relative, $operand);
        challenge_of!($nt: $e NT $of_nt, $in, "[M, K]", "[N, K]", $out, $inputs, $relative, $operand);
        challenge_of!($tn: $e TN $of_tn, $in, "[K, M]", "[K, N]", $out, $inputs, $relative, $operand);
    )* };
}

/// Half a unit in the last place of f16 and tf32, and of bf16, in parts of the number.
const HALF: f64 = 1.0 / 2048.0;
const BRAIN: f64 = 1.0 / 256.0;

challenges! {
    F16F32: gemm_f16_f32_nn given, gemm_f16_f32_nt given, gemm_f16_f32_tn given, "half", "float", uniform(-1.0, 1.0), 0.0, 0.0;
    F16F16: gemm_f16_nn padded, gemm_f16_nt padded, gemm_f16_tn padded, "half", "half", uniform(-1.0, 1.0), HALF, 0.0;
    Bf16F32: gemm_bf16_f32_nn given, gemm_bf16_f32_nt given, gemm_bf16_f32_tn given, "__nv_bfloat16", "float", uniform(-1.0, 1.0), 0.0, 0.0;
    Bf16Bf16: gemm_bf16_nn padded, gemm_bf16_nt padded, gemm_bf16_tn padded, "__nv_bfloat16", "__nv_bfloat16", uniform(-1.0, 1.0), BRAIN, 0.0;
    Tf32: gemm_tf32_nn right_turned, gemm_tf32_nt given, gemm_tf32_tn both_turned, "float", "float", uniform(-1.0, 1.0), 0.0, HALF;
    Int8: gemm_int8_nn right_turned, gemm_int8_nt given, gemm_int8_tn both_turned, "int8_t", "int", Distribution::Bits, 0.0, 0.0;
}
