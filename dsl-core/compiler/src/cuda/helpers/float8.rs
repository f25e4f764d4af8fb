//! Texts of helpers that convert 8-bit floats: by instructions from sm_89 on, before by bits.

pub(super) const E4M3_TO_FLOAT: &str = "\
// f8e4m3 is stored as unsigned char.
__device__ __forceinline__ float e4m3_to_float(unsigned char x)
{
#if __CUDA_ARCH__ >= 890
    float result;
    asm(\"{ .reg .b32 pair; .reg .b16 low, high; cvt.rn.f16x2.e4m3x2 pair, %1; mov.b32 {low, high}, pair; cvt.f32.f16 %0, low; }\"
        : \"=f\"(result)
        : \"h\"((unsigned short)x));
    return result;
#else
    // Exponent and fraction as those of a float, which are 2^120 times as large, subnormal numbers too.
    const unsigned int fields = x & 0x7fu, sign = (unsigned int)(x & 0x80u) << 24;
    const float size = fields == 0x7fu ? __uint_as_float(0x7fffffffu) : __uint_as_float(fields << 20) * __uint_as_float(0x7b800000u);
    return __uint_as_float(__float_as_uint(size) | sign);
#endif
}
";

pub(super) const E5M2_TO_FLOAT: &str = "\
// f8e5m2 is the upper half of an f16, stored as unsigned char.
__device__ __forceinline__ float e5m2_to_float(unsigned char x)
{
    float result;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(result) : \"h\"((unsigned short)(x << 8)));
    return result;
}
";

pub(super) const FLOAT_TO_E4M3: &str = "\
// Rounds to the nearest f8e4m3, ties to even, and saturates to 448; NaN stays NaN.
__device__ __forceinline__ unsigned char float_to_e4m3(float x)
{
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(pair) : \"f\"(0.0f), \"f\"(x));
    return (unsigned char)pair;
#else
    const float size = fminf(fabsf(x), 448.0f);
    const unsigned int bits = __float_as_uint(size), sign = __float_as_uint(x) >> 24 & 0x80u;
    // Below 2^-6 numbers are multiples of 2^-9.
    const unsigned int fields = size < 0.015625f ? __float2uint_rn(size * 512.0f) : ((bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20) - 960u;
    return (unsigned char)(sign | (x != x ? 0x7fu : fields));
#endif
}
";

pub(super) const FLOAT_TO_E5M2: &str = "\
// Rounds to the nearest f8e5m2, ties to even, and saturates to 57344; NaN stays NaN.
__device__ __forceinline__ unsigned char float_to_e5m2(float x)
{
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm(\"cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;\" : \"=h\"(pair) : \"f\"(0.0f), \"f\"(x));
    return (unsigned char)pair;
#else
    const float size = fminf(fabsf(x), 57344.0f);
    const unsigned int bits = __float_as_uint(size), sign = __float_as_uint(x) >> 24 & 0x80u;
    // Below 2^-14 numbers are multiples of 2^-16.
    const unsigned int fields = size < 6.1035156e-5f ? __float2uint_rn(size * 65536.0f) : ((bits + 0xfffffu + (bits >> 21 & 1u)) >> 21) - 448u;
    return (unsigned char)(sign | (x != x ? 0x7fu : fields));
#endif
}
";
