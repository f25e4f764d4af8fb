//! Tensor maps: encoded by the driver, for one launch's tensor.

use super::check;
use crate::error::Error;
use cudarc::driver::sys;
use girih_core::simt::TensorMap;
use girih_core::tile::host::HostArg;
use girih_core::types::DType;
use std::ffi::c_void;

/// Bytes of which a map's strides are multiples.
const ALIGN: u64 = 16;

/// The map of a tensor that a launch has at this address, for the kernel called `name`.
///
/// # Errors
/// The driver does not take it: it is older than CUDA 12, or the tensor does not lie as the kernel's facts promise.
pub(super) fn encode(
    name: &str,
    map: &TensorMap,
    address: u64,
    args: &[HostArg],
    multiprocessors: i64,
) -> Result<Box<sys::CUtensorMap>, Error> {
    let axes = map.lens.len();
    let (lens, strides) = map.extents(args, multiprocessors);
    // An axis without elements has no copies that read it; a map has at least one of each.
    let lens: Vec<u64> = lens[..axes].iter().map(|n| (*n).max(1) as u64).collect();
    let size = map.dtype.size() as u64;
    let strides: Vec<u64> = strides[1..axes].iter().map(|s| ((*s).max(0) as u64 * size).max(ALIGN)).collect();
    let steps = vec![1u32; axes];
    let swizzle = match map.swizzle_bytes {
        32 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        64 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        _ => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    let mut encoded = Box::new(sys::CUtensorMap { opaque: [0; 16] });
    // SAFETY: all arrays have an element for each axis (strides one less), and the driver only reads them; it keeps the address, and reads nothing
    // there.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut *encoded,
            element(map),
            axes as u32,
            address as *mut c_void,
            lens.as_ptr(),
            strides.as_ptr(),
            map.box_lens.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    check(&format!("encoding a tensor map of `{name}` ({lens:?} elements, strides {strides:?} bytes)"), result.result())?;
    Ok(encoded)
}

/// How a map reads elements: none of them is converted, but for f32 that it rounds.
fn element(map: &TensorMap) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Type;
    match map.dtype {
        DType::F32 if map.rounds => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        DType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::BF16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::Bool | DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DType::I32 | DType::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        DType::I64 | DType::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
    }
}
