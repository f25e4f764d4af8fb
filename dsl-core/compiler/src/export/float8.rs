//! 8-bit floats on the host, which computes them in float: rounded, as the bits that kernels keep, and back.

use girih_ir::types::DType;

/// The name of a format in the functions below.
pub(super) fn format(dtype: DType) -> &'static str {
    match dtype {
        DType::F8E4M3 => "e4m3",
        DType::F8E5M2 => "e5m2",
        other => panic!("export: {other} is no float of 8 bits"),
    }
}

/// Functions that the text may call.
pub(super) const FUNCTIONS: [(&str, &str); 6] = [
    (
        "round_e4m3",
        "// To 4 significant bits, fewer below 2^-6; ties to even; at most 448.
static float round_e4m3(float x)
{
    if (x != x || fabsf(x) >= 448.0f)
        return x != x ? x : copysignf(448.0f, x);
    int exponent;
    frexpf(x, &exponent);
    const float unit = ldexpf(1.0f, (exponent < -5 ? -5 : exponent) - 4);
    return copysignf(rintf(x / unit) * unit, x);
}
",
    ),
    (
        "round_e5m2",
        "// To 3 significant bits, fewer below 2^-14; ties to even; at most 57344.
static float round_e5m2(float x)
{
    if (x != x || fabsf(x) >= 57344.0f)
        return x != x ? x : copysignf(57344.0f, x);
    int exponent;
    frexpf(x, &exponent);
    const float unit = ldexpf(1.0f, (exponent < -13 ? -13 : exponent) - 3);
    return copysignf(rintf(x / unit) * unit, x);
}
",
    ),
    (
        "bits_of_e4m3",
        "// The nearest e4m3, ties to even; at most 448.
static unsigned char bits_of_e4m3(float x)
{
    const float size = x != x ? x : fabsf(x) < 448.0f ? fabsf(x) : 448.0f;
    int exponent;
    frexpf(size, &exponent);
    exponent = size < 0.015625f || exponent < -5 ? -5 : exponent;
    const int fields = x != x ? 0x7f : (exponent + 5) * 8 + (int)rintf(ldexpf(size, 4 - exponent));
    return (unsigned char)(fields | (__builtin_signbit(x) ? 0x80 : 0));
}
",
    ),
    (
        "bits_of_e5m2",
        "// The nearest e5m2, ties to even; at most 57344.
static unsigned char bits_of_e5m2(float x)
{
    const float size = x != x ? x : fabsf(x) < 57344.0f ? fabsf(x) : 57344.0f;
    int exponent;
    frexpf(size, &exponent);
    exponent = size < 6.1035156e-5f || exponent < -13 ? -13 : exponent;
    const int fields = x != x ? 0x7f : (exponent + 13) * 4 + (int)rintf(ldexpf(size, 3 - exponent));
    return (unsigned char)(fields | (__builtin_signbit(x) ? 0x80 : 0));
}
",
    ),
    (
        "e4m3_of_bits",
        "static float e4m3_of_bits(unsigned char bits)
{
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float size = exponent == 15 && fraction == 7 ? __builtin_nanf(\"\") : ldexpf(fraction + (exponent ? 8 : 0), (exponent ? exponent : 1) - 10);
    return bits & 0x80 ? -size : size;
}
",
    ),
    (
        "e5m2_of_bits",
        "static float e5m2_of_bits(unsigned char bits)
{
    const int exponent = bits >> 2 & 31, fraction = bits & 3;
    const float beyond = fraction ? __builtin_nanf(\"\") : __builtin_inff();
    const float size = exponent == 31 ? beyond : ldexpf(fraction + (exponent ? 4 : 0), (exponent ? exponent : 1) - 17);
    return bits & 0x80 ? -size : size;
}
",
    ),
];
