//! Texts of helpers that compute: conversions, extrema that keep NaN, approximations, division that never traps.

pub(super) const HALF_TO_FLOAT: &str = "\
// f16 is stored as unsigned short.
__device__ __forceinline__ float half_to_float(unsigned short x)
{
    float result;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(result) : \"h\"(x));
    return result;
}
";

pub(super) const FLOAT_TO_HALF: &str = "\
// Rounds to the nearest f16, ties to even.
__device__ __forceinline__ unsigned short float_to_half(float x)
{
    unsigned short result;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(result) : \"f\"(x));
    return result;
}
";

pub(super) const BFLOAT16_TO_FLOAT: &str = "\
// bf16 is the upper half of a float, stored as unsigned short.
__device__ __forceinline__ float bfloat16_to_float(unsigned short x)
{
    return __uint_as_float((unsigned int)x << 16);
}
";

pub(super) const FLOAT_TO_BFLOAT16: &str = "\
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

pub(super) const INT_TO_BFLOAT16: &str = "\
// The nearest bf16, ties to even. The float in between is cut, and odd where something is lost, so it is a tie where x is one only.
__device__ __forceinline__ unsigned short int_to_bfloat16(int x)
{
    const float cut = __int2float_rz(x);
    return float_to_bfloat16(__uint_as_float(__float_as_uint(cut) | (__float2int_rz(cut) != x ? 1u : 0u)));
}
";

pub(super) const UINT_TO_BFLOAT16: &str = "\
// The nearest bf16, ties to even. The float in between is cut, and odd where something is lost, so it is a tie where x is one only.
__device__ __forceinline__ unsigned short uint_to_bfloat16(unsigned int x)
{
    const float cut = __uint2float_rz(x);
    return float_to_bfloat16(__uint_as_float(__float_as_uint(cut) | (__float2uint_rz(cut) != x ? 1u : 0u)));
}
";

pub(super) const LONG_TO_BFLOAT16: &str = "\
// The nearest bf16, ties to even. The float in between is cut, and odd where something is lost, so it is a tie where x is one only.
__device__ __forceinline__ unsigned short long_to_bfloat16(long long x)
{
    const float cut = __ll2float_rz(x);
    return float_to_bfloat16(__uint_as_float(__float_as_uint(cut) | (__float2ll_rz(cut) != x ? 1u : 0u)));
}
";

pub(super) const ULONG_TO_BFLOAT16: &str = "\
// The nearest bf16, ties to even. The float in between is cut, and odd where something is lost, so it is a tie where x is one only.
__device__ __forceinline__ unsigned short ulong_to_bfloat16(unsigned long long x)
{
    const float cut = __ull2float_rz(x);
    return float_to_bfloat16(__uint_as_float(__float_as_uint(cut) | (__float2ull_rz(cut) != x ? 1u : 0u)));
}
";

pub(super) const NAN_MIN: &str = "\
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

pub(super) const NAN_MAX: &str = "\
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

pub(super) const TANH_APPROX: &str = "\
// The hardware's tanh, about 2^-11 relative.
__device__ __forceinline__ float tanh_approx(float x)
{
    float result;
    asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(result) : \"f\"(x));
    return result;
}
";

pub(super) const EXP_APPROX: &str = "\
// e^x by the fast unit; what would be denormal is 0.
__device__ __forceinline__ float exp_approx(float x)
{
    float result;
    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(result) : \"f\"(x * 1.442695f));
    return result;
}
";

pub(super) const EXP2_APPROX: &str = "\
// 2^x by one instruction; what would be denormal is 0.
__device__ __forceinline__ float exp2_approx(float x)
{
    float result;
    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(result) : \"f\"(x));
    return result;
}
";

pub(super) const ROUND_TF32: &str = "\
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

pub(super) const MOVED: &str = "\
// x in a register of its own: what becomes of it does not decide which register x is in.
__device__ __forceinline__ float moved(float x) { return __uint_as_float(__byte_perm(__float_as_uint(x), 0, 0x3210)); }
";

pub(super) const ABS_WRAP: &str = "\
// |x|; the most negative number stays.
__device__ __forceinline__ int abs_wrap(int x) { return (int)(x < 0 ? 0u - (unsigned int)x : (unsigned int)x); }
__device__ __forceinline__ long long abs_wrap(long long x)
{
    return (long long)(x < 0 ? 0ull - (unsigned long long)x : (unsigned long long)x);
}
";

pub(super) const DIV_INT: &str = "\
// a / b; all ones for b = 0, wraps for b = -1.
__device__ __forceinline__ int divide(int a, int b) { return b == 0 ? -1 : b == -1 ? (int)(0u - (unsigned int)a) : a / b; }
";

pub(super) const DIV_LONG: &str = "\
// a / b; all ones for b = 0, wraps for b = -1.
__device__ __forceinline__ long long divide(long long a, long long b)
{
    return b == 0 ? -1 : b == -1 ? (long long)(0ull - (unsigned long long)a) : a / b;
}
";

pub(super) const DIV_UINT: &str = "\
// a / b; all ones for b = 0.
__device__ __forceinline__ unsigned int divide(unsigned int a, unsigned int b) { return b == 0u ? 0xffffffffu : a / b; }
";

pub(super) const DIV_ULONG: &str = "\
// a / b; all ones for b = 0.
__device__ __forceinline__ unsigned long long divide(unsigned long long a, unsigned long long b)
{
    return b == 0ull ? 0xffffffffffffffffull : a / b;
}
";

pub(super) const REM_INT: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ int modulo(int a, int b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
";

pub(super) const REM_LONG: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ long long modulo(long long a, long long b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
";

pub(super) const REM_UINT: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ unsigned int modulo(unsigned int a, unsigned int b) { return b == 0u ? a : a % b; }
";

pub(super) const REM_ULONG: &str = "\
// a % b; a for b = 0.
__device__ __forceinline__ unsigned long long modulo(unsigned long long a, unsigned long long b)
{
    return b == 0ull ? a : a % b;
}
";

pub(super) const FLOAT_TO_CHAR: &str = "\
// Truncates and saturates; NaN becomes 0.
__device__ __forceinline__ signed char float_to_char(float x) { return (signed char)max(min(__float2int_rz(x), 127), -128); }
";

pub(super) const FLOAT_TO_UCHAR: &str = "\
// Truncates and saturates; NaN becomes 0.
__device__ __forceinline__ unsigned char float_to_uchar(float x) { return (unsigned char)min(__float2uint_rz(x), 255u); }
";

pub(super) const FLOAT_TO_LONG: &str = "\
// Truncates and saturates; NaN becomes 0 (the instruction gives the most negative number).
__device__ __forceinline__ long long float_to_long(float x) { return x != x ? 0 : __float2ll_rz(x); }
";

pub(super) const FLOAT_TO_ULONG: &str = "\
// Truncates and saturates; NaN becomes 0 (the instruction gives 2^63).
__device__ __forceinline__ unsigned long long float_to_ulong(float x) { return x != x ? 0 : __float2ull_rz(x); }
";
