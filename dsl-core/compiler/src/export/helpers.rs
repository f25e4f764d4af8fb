//! Host functions of an exported file.

use girih_ir::aliasing::MOST_STEPS;
use std::borrow::Cow;

/// Host functions that are printed only if used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Helper {
    Aligned,
    Multiprocessors,
    Workspace,
    Fill,
    SameType,
    Cooperative,
    Dependent,
    OwnedMemory,
    AlignedMemory,
    TensorMaps,
    MayShare,
}

impl Helper {
    /// Names that kernels can't have.
    pub const NAMES: [&'static str; 16] = [
        "is_aligned",
        "multiprocessor_count",
        "workspace",
        "fill",
        "fill_elements",
        "launch_cooperative",
        "launch_dependent",
        "same_type",
        "owned_memory",
        "OwnedMemory",
        "aligned_memory",
        "KeptMap",
        "tensor_map",
        "StridedView",
        "SharedByte",
        "may_share",
    ];

    /// Axes that a view in `may_share.cpp` may have.
    pub const MOST_AXES: usize = 8;

    pub fn text(self) -> Cow<'static, str> {
        let text = match self {
            Helper::MayShare => {
                let text = include_str!("may_share.cpp").replace("MOST_AXES", &Helper::MOST_AXES.to_string());
                return text.replace("MOST_STEPS", &MOST_STEPS.to_string()).into();
            }
            Helper::TensorMaps => super::tensor_maps::TENSOR_MAPS,
            Helper::Aligned => {
                "static bool is_aligned(const void* pointer, size_t bytes)\n{\n    return (size_t)pointer % bytes == 0;\n}\n"
            }
            Helper::Multiprocessors => {
                "static long long multiprocessor_count()
{
    int device = 0, count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}
"
            }
            Helper::Workspace => {
                "// Memory for temporaries: kept between calls, grown on demand.
static char* workspace(size_t bytes)
{
    static char* memory = nullptr;
    static size_t capacity = 0;
    if (bytes > capacity) {
        cudaFree(memory);
        cudaMalloc(&memory, bytes);
        capacity = bytes;
    }
    return memory;
}
"
            }
            Helper::OwnedMemory => {
                "// Memory of a kernel's own: zero at first and kept between calls, since every launch leaves it as the next one needs it;
// grown on demand, and zero again then.
struct OwnedMemory {
    char* memory;
    size_t capacity;
};

static void* owned_memory(OwnedMemory& of, size_t bytes)
{
    if (bytes > of.capacity) {
        cudaFree(of.memory);
        cudaMalloc(&of.memory, bytes);
        cudaMemset(of.memory, 0, bytes);
        of.capacity = bytes;
    }
    return of.memory;
}
"
            }
            Helper::AlignedMemory => {
                "// Memory that is read as wider elements than its own: itself, or a copy where it is not aligned for them.
static void* aligned_memory(OwnedMemory& copy, const void* memory, size_t bytes, size_t alignment)
{
    if (is_aligned(memory, alignment))
        return (void*)memory;
    void* const aligned = owned_memory(copy, bytes);
    cudaMemcpyAsync(aligned, memory, bytes, cudaMemcpyDeviceToDevice);
    return aligned;
}
"
            }
            Helper::Fill => {
                "template <typename T> __global__ void fill_elements(T* to, long long count, T value)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = value;
}

template <typename T> static void fill(T* to, long long count, T value)
{
    const long long blocks = (count + 1023) / 1024;
    if (blocks > 0)
        fill_elements<T><<<(unsigned int)(blocks < 65536 ? blocks : 65536), 256>>>(to, count, value);
}
"
            }
            Helper::SameType => "template <typename T> struct same_type { typedef T type; };\n",
            Helper::Dependent => {
                "// The kernel may begin before the launch in front of it has ended, and waits for that by itself.
template <typename... Params>
static void launch_dependent(void (*kernel)(Params...), unsigned int blocks, unsigned int threads, size_t shared, typename same_type<Params>::type... params)
{
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, params...);
}
"
            }
            Helper::Cooperative => {
                "// All blocks are resident at once, so they may wait for each other.
template <typename... Params>
static void launch_cooperative(void (*kernel)(Params...), unsigned int blocks, unsigned int threads, size_t shared, typename same_type<Params>::type... params)
{
    void* pointers[] = {(void*)&params...};
    cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(threads), pointers, shared, 0);
}
"
            }
        };
        text.into()
    }
}
