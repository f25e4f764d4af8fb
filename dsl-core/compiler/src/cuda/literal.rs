//! Types and literals as CUDA C.

pub(crate) use girih_ir::types::c_type;
use girih_ir::types::{DType, Literal};

/// A literal of exactly its type.
pub(crate) fn typed(literal: Literal) -> String {
    let bits = literal.bits;
    match literal.dtype {
        DType::Bool => (bits != 0).to_string(),
        DType::I8 | DType::U8 => literal.to_i64().to_string(),
        DType::I32 if literal.to_i64() == i32::MIN as i64 => "(-2147483647 - 1)".into(),
        DType::I32 => literal.to_i64().to_string(),
        DType::U32 => format!("{}u", bits as u32),
        DType::I64 if literal.to_i64() == i64::MIN => "(-9223372036854775807ll - 1)".into(),
        DType::I64 => format!("{}ll", literal.to_i64()),
        DType::U64 => format!("{bits}ull"),
        DType::F8E4M3 | DType::F8E5M2 => format!("0x{bits:02x}"),
        DType::F16 | DType::BF16 => format!("0x{bits:04x}"),
        DType::F32 => float(f32::from_bits(bits as u32)),
    }
}

/// A literal beside an operand of its type: a 64-bit one that fits an int needs no suffix.
pub(super) fn beside(literal: Literal) -> String {
    match literal.dtype {
        DType::I64 if i32::try_from(literal.to_i64()).is_ok_and(|v| v != i32::MIN) => literal.to_i64().to_string(),
        _ => typed(literal),
    }
}

/// An unsigned literal as bits, where it is more than a digit.
pub(super) fn bit_mask(literal: Literal) -> Option<String> {
    match literal.dtype {
        DType::U32 if literal.bits > 9 => Some(format!("0x{:x}u", literal.bits)),
        DType::U64 if literal.bits > 9 => Some(format!("0x{:x}ull", literal.bits)),
        _ => None,
    }
}

fn float(value: f32) -> String {
    if value.is_finite() { format!("{value:?}f") } else { format!("__int_as_float(0x{:08x})", value.to_bits()) }
}

/// The zero of a type.
pub(super) fn zero(dtype: DType) -> String {
    beside(Literal { dtype, bits: 0 })
}

/// The type of one access of `bytes` bytes to elements of a type: `float4` for floats, else the unsigned type of that size.
pub(super) fn vector_type(dtype: DType, bytes: u32) -> &'static str {
    match (dtype, bytes) {
        (_, 1) => "unsigned char",
        (_, 2) => "unsigned short",
        (DType::F32, 4) => "float",
        (DType::F32, 8) => "float2",
        (DType::F32, 16) => "float4",
        (DType::I32, 8) => "int2",
        (DType::I32, 16) => "int4",
        (_, 4) => "unsigned int",
        (_, 8) => "uint2",
        (_, 16) => "uint4",
        (_, 32) => "Vector32",
        _ => panic!("emit: no access of {bytes} bytes; the verifier lets none pass"),
    }
}

/// The zero of a vector type.
pub(super) fn vector_zero(dtype: DType, bytes: u32) -> String {
    let name = vector_type(dtype, bytes);
    match name {
        "float2" => "make_float2(0.0f, 0.0f)".into(),
        "float4" => "make_float4(0.0f, 0.0f, 0.0f, 0.0f)".into(),
        "int2" => "make_int2(0, 0)".into(),
        "int4" => "make_int4(0, 0, 0, 0)".into(),
        "uint2" => "make_uint2(0u, 0u)".into(),
        "uint4" => "make_uint4(0u, 0u, 0u, 0u)".into(),
        "Vector32" => "Vector32{}".into(),
        "float" => "0.0f".into(),
        _ => format!("({name})0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_back_as_themselves() {
        assert_eq!(typed(Literal::f32(0.01)), "0.01f");
        assert_eq!(typed(Literal::f32(-1.0)), "-1.0f");
        assert_eq!(typed(Literal::f32(1e-30)), "1e-30f");
        assert_eq!(typed(Literal::f32(f32::INFINITY)), "__int_as_float(0x7f800000)");
        assert_eq!(typed(Literal::i32(i32::MIN)), "(-2147483647 - 1)");
        assert_eq!(typed(Literal::index(5)), "5ll");
        assert_eq!(beside(Literal::index(5)), "5");
        assert_eq!(beside(Literal::index(1 << 40)), "1099511627776ll");
        assert_eq!(typed(Literal::u32(u32::MAX)), "4294967295u");
        assert_eq!(typed(Literal::from_f64(DType::F16, 1.0)), "0x3c00");
    }
}
