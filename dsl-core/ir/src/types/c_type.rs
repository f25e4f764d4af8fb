//! Element types as C.

use super::DType;

/// The C type of values and memory of an element type. 16-bit floats are stored as `unsigned short`, those of 8 bits
/// as `unsigned char`.
pub fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "signed char",
        DType::U8 | DType::F8E4M3 | DType::F8E5M2 => "unsigned char",
        DType::I32 => "int",
        DType::U32 => "unsigned int",
        DType::I64 => "long long",
        DType::U64 => "unsigned long long",
        DType::F16 | DType::BF16 => "unsigned short",
        DType::F32 => "float",
    }
}
