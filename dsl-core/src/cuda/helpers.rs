//! The `__device__` functions and types that emitted kernels may use. Only those used are printed.

use super::matrix;
use crate::fragments::{ATOMS, Atom, LoadMatrix};
use std::borrow::Cow;

/// A helper. The order is the order in the file: later ones may call earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Helper {
    Vector32,
    TensorMap,
    HalfToFloat,
    FloatToHalf,
    Bfloat16ToFloat,
    FloatToBfloat16,
    NanMin,
    NanMax,
    TanhApprox,
    ExpApprox,
    Exp2Approx,
    RoundTf32,
    Moved,
    AbsWrap,
    DivInt,
    DivLong,
    DivUint,
    DivUlong,
    RemInt,
    RemLong,
    RemUint,
    RemUlong,
    FloatToChar,
    FloatToUchar,
    FloatToLong,
    FloatToUlong,
    AtomicFloatMin,
    AtomicFloatMax,
    AtomicFloatMinSystem,
    AtomicFloatMaxSystem,
    CopyAsync,
    Mbarrier,
    AsyncArrive,
    BulkCopy,
    SliceBarrier,
    GridBarrier,
    Words,
    LoadPair,
    LoadMatrix(LoadMatrix),
    Mma(Atom),
}

impl Helper {
    /// All but those of matrix instructions.
    const PLAIN: [Helper; 38] = [
        Helper::Vector32,
        Helper::TensorMap,
        Helper::HalfToFloat,
        Helper::FloatToHalf,
        Helper::Bfloat16ToFloat,
        Helper::FloatToBfloat16,
        Helper::NanMin,
        Helper::NanMax,
        Helper::TanhApprox,
        Helper::ExpApprox,
        Helper::Exp2Approx,
        Helper::RoundTf32,
        Helper::Moved,
        Helper::AbsWrap,
        Helper::DivInt,
        Helper::DivLong,
        Helper::DivUint,
        Helper::DivUlong,
        Helper::RemInt,
        Helper::RemLong,
        Helper::RemUint,
        Helper::RemUlong,
        Helper::FloatToChar,
        Helper::FloatToUchar,
        Helper::FloatToLong,
        Helper::FloatToUlong,
        Helper::AtomicFloatMin,
        Helper::AtomicFloatMax,
        Helper::AtomicFloatMinSystem,
        Helper::AtomicFloatMaxSystem,
        Helper::CopyAsync,
        Helper::Mbarrier,
        Helper::AsyncArrive,
        Helper::BulkCopy,
        Helper::SliceBarrier,
        Helper::GridBarrier,
        Helper::Words,
        Helper::LoadPair,
    ];

    /// The names that helpers define, used or not.
    pub fn all_names() -> impl Iterator<Item = String> {
        let plain = Helper::PLAIN.into_iter().flat_map(|h| h.names().iter().map(|n| n.to_string()));
        let loads = [1, 2, 4].into_iter().flat_map(|count| [false, true].map(|transposed| LoadMatrix { count, transposed }));
        plain.chain(loads.map(matrix::load_name)).chain(ATOMS.into_iter().map(matrix::mma_name))
    }

    /// The names that the helper defines; those of matrix instructions are made by [`matrix`].
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Helper::Vector32 => &["Vector32"],
            Helper::TensorMap => &["TensorMap"],
            Helper::HalfToFloat => &["half_to_float"],
            Helper::FloatToHalf => &["float_to_half"],
            Helper::Bfloat16ToFloat => &["bfloat16_to_float"],
            Helper::FloatToBfloat16 => &["float_to_bfloat16"],
            Helper::NanMin => &["nan_min"],
            Helper::NanMax => &["nan_max"],
            Helper::TanhApprox => &["tanh_approx"],
            Helper::ExpApprox => &["exp_approx"],
            Helper::Exp2Approx => &["exp2_approx"],
            Helper::RoundTf32 => &["round_tf32"],
            Helper::Moved => &["moved"],
            Helper::AbsWrap => &["abs_wrap"],
            Helper::DivInt | Helper::DivLong | Helper::DivUint | Helper::DivUlong => &["divide"],
            Helper::RemInt | Helper::RemLong | Helper::RemUint | Helper::RemUlong => &["modulo"],
            Helper::FloatToChar => &["float_to_char"],
            Helper::FloatToUchar => &["float_to_uchar"],
            Helper::FloatToLong => &["float_to_long"],
            Helper::FloatToUlong => &["float_to_ulong"],
            Helper::AtomicFloatMin => &["atomic_min"],
            Helper::AtomicFloatMax => &["atomic_max"],
            Helper::AtomicFloatMinSystem => &["atomic_min_system"],
            Helper::AtomicFloatMaxSystem => &["atomic_max_system"],
            Helper::CopyAsync => &["copy_async", "copy_async_commit", "copy_async_wait"],
            Helper::AsyncArrive => &["copy_async_arrive"],
            Helper::Mbarrier => &["mbarrier_init", "mbarrier_arrive", "mbarrier_arrive_expect", "mbarrier_wait"],
            Helper::BulkCopy => &["copy_bulk"],
            Helper::SliceBarrier => &["sync_slice"],
            Helper::GridBarrier => &["grid_barrier"],
            Helper::Words => &["store_relaxed", "load_relaxed", "wait_nonzero"],
            Helper::LoadPair => &["load_pair"],
            Helper::LoadMatrix(_) | Helper::Mma(_) => &[],
        }
    }

    /// Helpers that its text calls.
    pub fn needs(self) -> &'static [Helper] {
        match self {
            Helper::AtomicFloatMin | Helper::AtomicFloatMinSystem => &[Helper::NanMin],
            Helper::AtomicFloatMax | Helper::AtomicFloatMaxSystem => &[Helper::NanMax],
            _ => &[],
        }
    }

    /// Its CUDA C.
    pub fn text(self) -> Cow<'static, str> {
        let text = match self {
            Helper::LoadMatrix(load) => return matrix::load_text(load).into(),
            Helper::Mma(atom) => return matrix::mma_text(atom).into(),
            Helper::Vector32 => VECTOR_32,
            Helper::TensorMap => TENSOR_MAP,
            Helper::HalfToFloat => HALF_TO_FLOAT,
            Helper::FloatToHalf => FLOAT_TO_HALF,
            Helper::Bfloat16ToFloat => BFLOAT16_TO_FLOAT,
            Helper::FloatToBfloat16 => FLOAT_TO_BFLOAT16,
            Helper::NanMin => NAN_MIN,
            Helper::NanMax => NAN_MAX,
            Helper::TanhApprox => TANH_APPROX,
            Helper::ExpApprox => EXP_APPROX,
            Helper::Exp2Approx => EXP2_APPROX,
            Helper::RoundTf32 => ROUND_TF32,
            Helper::Moved => MOVED,
            Helper::AbsWrap => ABS_WRAP,
            Helper::DivInt => DIV_INT,
            Helper::DivLong => DIV_LONG,
            Helper::DivUint => DIV_UINT,
            Helper::DivUlong => DIV_ULONG,
            Helper::RemInt => REM_INT,
            Helper::RemLong => REM_LONG,
            Helper::RemUint => REM_UINT,
            Helper::RemUlong => REM_ULONG,
            Helper::FloatToChar => FLOAT_TO_CHAR,
            Helper::FloatToUchar => FLOAT_TO_UCHAR,
            Helper::FloatToLong => FLOAT_TO_LONG,
            Helper::FloatToUlong => FLOAT_TO_ULONG,
            Helper::AtomicFloatMin => ATOMIC_FLOAT_MIN,
            Helper::AtomicFloatMax => ATOMIC_FLOAT_MAX,
            Helper::AtomicFloatMinSystem => ATOMIC_FLOAT_MIN_SYSTEM,
            Helper::AtomicFloatMaxSystem => ATOMIC_FLOAT_MAX_SYSTEM,
            Helper::CopyAsync => COPY_ASYNC,
            Helper::Mbarrier => MBARRIER,
            Helper::AsyncArrive => ASYNC_ARRIVE,
            Helper::BulkCopy => BULK_COPY,
            Helper::SliceBarrier => SLICE_BARRIER,
            Helper::GridBarrier => GRID_BARRIER,
            Helper::Words => WORDS,
            Helper::LoadPair => matrix::LOAD_PAIR,
        };
        text.into()
    }
}

const VECTOR_32: &str = "\
// 32 bytes at once: one instruction from sm_100 on, two before.
struct __align__(32) Vector32 { unsigned int word[8]; };
";

const TENSOR_MAP: &str = "\
// A tensor map, encoded by the host.
struct __align__(128) TensorMap { unsigned long long word[16]; };
";

const HALF_TO_FLOAT: &str = "\
// f16 is stored as unsigned short.
__device__ __forceinline__ float half_to_float(unsigned short x)
{
    float result;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(result) : \"h\"(x));
    return result;
}
";

const FLOAT_TO_HALF: &str = "\
// Rounds to the nearest f16, ties to even.
__device__ __forceinline__ unsigned short float_to_half(float x)
{
    unsigned short result;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(result) : \"f\"(x));
    return result;
}
";

const BFLOAT16_TO_FLOAT: &str = "\
// bf16 is the upper half of a float, stored as unsigned short.
__device__ __forceinline__ float bfloat16_to_float(unsigned short x)
{
    return __uint_as_float((unsigned int)x << 16);
}
";

const FLOAT_TO_BFLOAT16: &str = "\
// Rounds to the nearest bf16, ties to even.
__device__ __forceinline__ unsigned short float_to_bfloat16(float x)
{
#if __CUDA_ARCH__ >= 800
    unsigned short result;
    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(result) : \"f\"(x));
    return result;
#else
    const unsigned int bits = __float_as_uint(x);
    return (unsigned short)(x != x ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
";

const NAN_MIN: &str = "\
// The smaller one; NaN if either is (fminf would drop it).
__device__ __forceinline__ float nan_min(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(result) : \"f\"(a), \"f\"(b));
    return result;
#else
    return a != a || b != b ? a + b : fminf(a, b);
#endif
}
";

const NAN_MAX: &str = "\
// The larger one; NaN if either is (fmaxf would drop it).
__device__ __forceinline__ float nan_max(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(result) : \"f\"(a), \"f\"(b));
    return result;
#else
    return a != a || b != b ? a + b : fmaxf(a, b);
#endif
}
";

const TANH_APPROX: &str = "\
// The hardware's tanh, about 2^-11 relative.
__device__ __forceinline__ float tanh_approx(float x)
{
    float result;
    asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(result) : \"f\"(x));
    return result;
}
";

const EXP_APPROX: &str = "\
// e^x by the fast unit; what would be denormal is 0.
__device__ __forceinline__ float exp_approx(float x)
{
    float result;
    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(result) : \"f\"(x * 1.442695f));
    return result;
}
";

const EXP2_APPROX: &str = "\
// 2^x by one instruction; what would be denormal is 0.
__device__ __forceinline__ float exp2_approx(float x)
{
    float result;
    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(result) : \"f\"(x));
    return result;
}
";

const ROUND_TF32: &str = "\
// The nearest number with 10 bits of fraction, ties to even.
__device__ __forceinline__ float round_tf32(float x)
{
#if __CUDA_ARCH__ >= 900
    unsigned int result;
    asm(\"cvt.rn.tf32.f32 %0, %1;\" : \"=r\"(result) : \"f\"(x));
    return __uint_as_float(result);
#else
    const unsigned int bits = __float_as_uint(x);
    return isfinite(x) ? __uint_as_float((bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u) : x;
#endif
}
";

const MOVED: &str = "\
// x in a register of its own: what becomes of it does not decide which register x is in.
__device__ __forceinline__ float moved(float x) { return __uint_as_float(__byte_perm(__float_as_uint(x), 0, 0x3210)); }
";

const ABS_WRAP: &str = "\
// |x|; the most negative number stays.
__device__ __forceinline__ int abs_wrap(int x) { return (int)(x < 0 ? 0u - (unsigned int)x : (unsigned int)x); }
__device__ __forceinline__ long long abs_wrap(long long x)
{
    return (long long)(x < 0 ? 0ull - (unsigned long long)x : (unsigned long long)x);
}
";

const DIV_INT: &str = "\
// a / b; all ones for b = 0, wraps for b = -1.
__device__ __forceinline__ int divide(int a, int b) { return b == 0 ? -1 : b == -1 ? (int)(0u - (unsigned int)a) : a / b; }
";

const DIV_LONG: &str = "\
// a / b; all ones for b = 0, wraps for b = -1.
__device__ __forceinline__ long long divide(long long a, long long b)
{
    return b == 0 ? -1 : b == -1 ? (long long)(0ull - (unsigned long long)a) : a / b;
}
";

const DIV_UINT: &str = "\
// a / b; all ones for b = 0.
__device__ __forceinline__ unsigned int divide(unsigned int a, unsigned int b) { return b == 0u ? 0xffffffffu : a / b; }
";

const DIV_ULONG: &str = "\
// a / b; all ones for b = 0.
__device__ __forceinline__ unsigned long long divide(unsigned long long a, unsigned long long b)
{
    return b == 0ull ? 0xffffffffffffffffull : a / b;
}
";

const REM_INT: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ int modulo(int a, int b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
";

const REM_LONG: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ long long modulo(long long a, long long b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
";

const REM_UINT: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ unsigned int modulo(unsigned int a, unsigned int b) { return b == 0u ? a : a % b; }
";

const REM_ULONG: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ unsigned long long modulo(unsigned long long a, unsigned long long b)
{
    return b == 0ull ? a : a % b;
}
";

const FLOAT_TO_CHAR: &str = "\
// Truncates and saturates; NaN becomes 0.
__device__ __forceinline__ signed char float_to_char(float x) { return (signed char)max(min(__float2int_rz(x), 127), -128); }
";

const FLOAT_TO_UCHAR: &str = "\
// Truncates and saturates; NaN becomes 0.
__device__ __forceinline__ unsigned char float_to_uchar(float x) { return (unsigned char)min(__float2uint_rz(x), 255u); }
";

const FLOAT_TO_LONG: &str = "\
// Truncates and saturates; NaN becomes 0 (the instruction gives the most negative number).
__device__ __forceinline__ long long float_to_long(float x) { return x != x ? 0 : __float2ll_rz(x); }
";

const FLOAT_TO_ULONG: &str = "\
// Truncates and saturates; NaN becomes 0 (the instruction gives 2^63).
__device__ __forceinline__ unsigned long long float_to_ulong(float x) { return x != x ? 0 : __float2ull_rz(x); }
";

/// The text of an atomic that floats have none of.
macro_rules! atomic_float {
    ($what:literal, $name:literal, $choice:literal, $swap:literal) => {
        concat!(
            "// There is no atomic ",
            $what,
            " of floats: compare and swap until nobody came between.\n__device__ __forceinline__ float ",
            $name,
            "(float* address, float value)
{
    unsigned int* bits = reinterpret_cast<unsigned int*>(address);
    unsigned int old = *reinterpret_cast<volatile unsigned int*>(bits), seen;
    do {
        seen = old;
        old = ",
            $swap,
            "(bits, seen, __float_as_uint(",
            $choice,
            "(__uint_as_float(seen), value)));
    } while (old != seen);
    return __uint_as_float(old);
}
"
        )
    };
}

const ATOMIC_FLOAT_MIN: &str = atomic_float!("minimum", "atomic_min", "nan_min", "atomicCAS");
const ATOMIC_FLOAT_MAX: &str = atomic_float!("maximum", "atomic_max", "nan_max", "atomicCAS");
const ATOMIC_FLOAT_MIN_SYSTEM: &str = atomic_float!("minimum", "atomic_min_system", "nan_min", "atomicCAS_system");
const ATOMIC_FLOAT_MAX_SYSTEM: &str = atomic_float!("maximum", "atomic_max_system", "nan_max", "atomicCAS_system");

const COPY_ASYNC: &str = "\
// Starts a copy of Bytes bytes from global memory to a place in a shared array; writes zeros where there is nothing to read.
template <int Bytes, typename T> __device__ __forceinline__ void copy_async(T* array, int at, const void* global, bool present = true)
{
    const unsigned int to = (unsigned int)__cvta_generic_to_shared(array) + at * (int)sizeof(T);
    const int size = present ? Bytes : 0;
    if constexpr (Bytes == 16) {
        asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"(to), \"l\"(global), \"r\"(size) : \"memory\");
    } else {
        asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" ::\"r\"(to), \"l\"(global), \"n\"(Bytes), \"r\"(size) : \"memory\");
    }
}
// Closes this thread's group of copies.
__device__ __forceinline__ void copy_async_commit() { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }
// Waits until at most Pending of this thread's newest groups are in flight.
template <int Pending> __device__ __forceinline__ void copy_async_wait()
{
    asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(Pending) : \"memory\");
}
";

const SLICE_BARRIER: &str = "\
// The threads of one slice of the block meet: as many neighbours, at a barrier of their own.
template <int Threads> __device__ __forceinline__ void sync_slice()
{
    asm volatile(\"bar.sync %0, %1;\" ::\"r\"(1 + threadIdx.x / Threads), \"n\"(Threads) : \"memory\");
}
";

const MBARRIER: &str = "\
// Makes a barrier of a word in shared memory: a phase ends when so many have arrived.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, unsigned int count)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"mbarrier.init.shared.b64 [%0], %1;\" ::\"r\"(at), \"r\"(count) : \"memory\");
#if __CUDA_ARCH__ >= 900
    asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");
#endif
}
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }\" ::\"r\"(at) : \"memory\");
}
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void mbarrier_arrive_expect(unsigned long long* barrier, unsigned int bytes)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" ::\"r\"(at), \"r\"(bytes) : \"memory\");
}
#endif
// Waits until the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned int parity)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    unsigned int done;
    do {
        asm volatile(
#if __CUDA_ARCH__ >= 900
            \"{ .reg .pred complete; mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2; selp.u32 %0, 1, 0, complete; }\"
#else
            \"{ .reg .pred complete; mbarrier.test_wait.parity.shared.b64 complete, [%1], %2; selp.u32 %0, 1, 0, complete; }\"
#endif
            : \"=r\"(done)
            : \"r\"(at), \"r\"(parity)
            : \"memory\");
    } while (!done);
}
";

const ASYNC_ARRIVE: &str = "\
// Arrives at a barrier for this thread when all copies that it has started have landed.
__device__ __forceinline__ void copy_async_arrive(unsigned long long* barrier)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\" ::\"r\"(at) : \"memory\");
}
";

const BULK_COPY: &str = "\
// Starts a bulk copy from global to shared memory that completes on an mbarrier.
__device__ __forceinline__ void copy_bulk(void* shared, const void* global, unsigned int bytes, unsigned long long* barrier)
{
    const unsigned int to = (unsigned int)__cvta_generic_to_shared(shared);
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\" ::\"r\"(to),
        \"l\"(global), \"r\"(bytes), \"r\"(at)
        : \"memory\");
}
";

const GRID_BARRIER: &str = "\
// All blocks of a cooperative launch meet. The upper bit of the counter flips once per meeting, so it needs no reset.
__device__ __forceinline__ void grid_barrier(unsigned int* counter)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned int step = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        unsigned int old, now;
        asm volatile(\"fence.acq_rel.gpu; atom.add.release.gpu.global.u32 %0, [%1], %2;\" : \"=r\"(old) : \"l\"(counter), \"r\"(step) : \"memory\");
        do {
            asm volatile(\"ld.acquire.gpu.global.u32 %0, [%1];\" : \"=r\"(now) : \"l\"(counter) : \"memory\");
        } while (!((old ^ now) & 0x80000000u));
    }
    __syncthreads();
}
";

const WORDS: &str = "\
// Stores a word for another block. What belongs together lies in one word, so nothing else has to be put in order.
__device__ __forceinline__ void store_relaxed(unsigned long long* word, unsigned long long value)
{
    asm volatile(\"st.relaxed.gpu.global.u64 [%0], %1;\" ::\"l\"(word), \"l\"(value) : \"memory\");
}
// Loads a word that another block stores.
__device__ __forceinline__ unsigned long long load_relaxed(const unsigned long long* word)
{
    unsigned long long found;
    asm volatile(\"ld.relaxed.gpu.global.u64 %0, [%1];\" : \"=l\"(found) : \"l\"(word) : \"memory\");
    return found;
}
// Waits until another block has stored a word that is not zero, unless such a one was found already.
__device__ __forceinline__ unsigned long long wait_nonzero(const unsigned long long* word, unsigned long long found)
{
    while (found == 0) {
        found = load_relaxed(word);
    }
    return found;
}
";
