//! Tensor maps of an exported file: encoded by the driver's function, which the runtime library finds, so that plain `nvcc` builds the file; kept
//! between calls with the same tensors.

use super::body::Body;
use super::helpers::Helper;
use girih_ir::program::{Arg, TensorView};
use girih_ir::simt::TensorMap;
use girih_ir::types::DType;

impl Body<'_> {
    /// A map as the argument of a launch of a kernel, whose kept map has the name `owner` in it.
    pub(super) fn tensor_map(&mut self, owner: &str, param: &str, map: &TensorMap, args: &[Arg]) -> String {
        let Arg::Tensor(view) = &args[map.tensor] else { panic!("export: argument {} of {owner} is no tensor", map.tensor) };
        self.helpers.insert(Helper::TensorMaps);
        self.headers.insert("cuda.h");
        let kept = self.kept_map(owner, param);
        let memory = self.memory_of(view, map.dtype);
        let listed = |numbers: Vec<String>| format!("{{{}}}", numbers.join(", "));
        let host = |e| self.names.launch(e, args).text;
        let lens = listed(map.lens.iter().map(host).collect());
        let strides = listed(std::iter::once("1".to_string()).chain(map.strides.iter().map(host)).collect());
        let boxes = listed(map.box_lens.iter().map(u32::to_string).collect());
        let (element, size) = (element(map), map.dtype.size());
        format!("tensor_map({kept}, {memory}, {element}, {size}, {lens}, {strides}, {boxes}, {})", swizzle(map.swizzle_bytes))
    }

    fn memory_of(&self, view: &TensorView, dtype: DType) -> String {
        self.names.pointer(view, dtype, true)
    }
}

fn element(map: &TensorMap) -> &'static str {
    match map.dtype {
        DType::F32 if map.rounds => "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
        DType::F16 => "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
        DType::BF16 => "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
        DType::F32 => "CU_TENSOR_MAP_DATA_TYPE_FLOAT32",
        DType::Bool | DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => "CU_TENSOR_MAP_DATA_TYPE_UINT8",
        DType::I32 | DType::U32 => "CU_TENSOR_MAP_DATA_TYPE_UINT32",
        DType::I64 | DType::U64 => "CU_TENSOR_MAP_DATA_TYPE_UINT64",
    }
}

fn swizzle(bytes: u32) -> &'static str {
    match bytes {
        32 => "CU_TENSOR_MAP_SWIZZLE_32B",
        64 => "CU_TENSOR_MAP_SWIZZLE_64B",
        128 => "CU_TENSOR_MAP_SWIZZLE_128B",
        _ => "CU_TENSOR_MAP_SWIZZLE_NONE",
    }
}

/// The host function.
pub(super) const TENSOR_MAPS: &str = "// A tensor map, and what it was encoded of.
struct KeptMap {
    const void* memory;
    long long lens[5], strides[5];
    TensorMap map;
};

// Encodes a map by the driver's function, which the runtime library finds, unless it is the same as in the last call.
template <int axes>
static const TensorMap& tensor_map(KeptMap& kept, const void* memory, CUtensorMapDataType type, long long size, const long long (&lens)[axes],
    const long long (&strides)[axes], const cuuint32_t (&box)[axes], CUtensorMapSwizzle swizzle)
{
    bool same = kept.memory == memory && memory != nullptr;
    for (int i = 0; i < axes; i++) same = same && kept.lens[i] == lens[i] && kept.strides[i] == strides[i];
    if (same) return kept.map;
    typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
        const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static void* encode = nullptr;
    if (encode == nullptr) {
        cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
        cudaGetDriverEntryPointByVersion(\"cuTensorMapEncodeTiled\", &encode, 12000, cudaEnableDefault, &found);
#else
        cudaGetDriverEntryPoint(\"cuTensorMapEncodeTiled\", &encode, cudaEnableDefault, &found);
#endif
    }
    // An axis without elements is never read; strides are in bytes, without that of the first axis.
    cuuint64_t dims[axes], pitches[axes];
    cuuint32_t steps[axes];
    for (int i = 0; i < axes; i++) {
        kept.lens[i] = lens[i];
        kept.strides[i] = strides[i];
        dims[i] = lens[i] > 0 ? lens[i] : 1;
        pitches[i] = strides[i] * size > 16 ? strides[i] * size : 16;
        steps[i] = 1;
    }
    kept.memory = memory;
    CUtensorMap map;
    ((Encode)encode)(&map, type, axes, (void*)memory, dims, pitches + 1, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    for (int i = 0; i < 16; i++) kept.map.word[i] = map.opaque[i];
    return kept.map;
}
";
