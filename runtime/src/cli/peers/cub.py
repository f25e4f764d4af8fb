"""CUB's way of doing some challenges, for `autotune bench`: NVIDIA's own reductions, scans, sorts and selections, compiled by nvcc where there is
one.

The compiled library is kept in the folder for temporary files, under a name that its text decides.
"""

import ctypes
import hashlib
import pathlib
import shutil
import subprocess
import tempfile
from typing import Callable, NamedTuple, Optional

import torch

CUB_TEXT = r"""
#include <cub/cub.cuh>
#include <cuda_fp16.h>
#include <thrust/iterator/counting_iterator.h>
#if __has_include(<cub/device/device_topk.cuh>)
#include <cub/device/device_topk.cuh>
#endif

using cuda::std::plus;
using Index = thrust::counting_iterator<int>;

struct Same {
    int wanted;
    __host__ __device__ int operator()(int x) const { return x == wanted; }
};

struct Times {
    float factor;
    __host__ __device__ float operator()(float x) const { return x * factor; }
};

template <class T>
struct Products {
    const T *a, *b;
    __device__ float operator()(int i) const { return float(a[i]) * float(b[i]); }
};

struct Squares {
    const float *a, *b;
    float factor;
    __device__ float operator()(int i) const { return (a[i] - b[i]) * (a[i] - b[i]) * factor; }
};

struct Positive {
    __host__ __device__ bool operator()(float x) const { return x > 0; }
};

// Two neighbours have the same key where the second one has no flag.
struct GoesOn {
    __host__ __device__ bool operator()(int, int flag) const { return flag == 0; }
};

// The number of kept elements goes behind the last one.
static cudaError_t compact(void* temp, size_t& bytes, const float* in, float* out, int n, cudaStream_t stream)
{
    if (temp)
        cudaMemsetAsync(out, 0, sizeof(float) * n, stream);
    return cub::DeviceSelect::If(temp, bytes, in, out, (int*)(out + n), n, Positive{}, stream);
}

// The k largest, in descending order, at the front.
static cudaError_t largest(void* temp, size_t& bytes, const float* in, float* out, int n, int k, cudaStream_t stream)
{
#if __has_include(<cub/device/device_topk.cuh>)
    namespace execution = cuda::execution;
    auto in_any_order = cuda::std::execution::env{
        cuda::stream_ref{stream}, execution::require(execution::determinism::not_guaranteed, execution::output_ordering::unsorted)};
    size_t all = temp ? bytes : 0, some = all;
    cudaError_t failed = cub::DeviceTopK::MaxKeys(temp, all, in, out + k, n, k, in_any_order);
    if (failed == cudaSuccess)
        failed = cub::DeviceRadixSort::SortKeysDescending(temp, some, out + k, out, k, 0, 32, stream);
    if (!temp)
        bytes = all > some ? all : some;
    return failed;
#else
    return cub::DeviceRadixSort::SortKeysDescending(temp, bytes, in, out, n, 0, 32, stream);
#endif
}

#define CUB_PEER(NAME, A, B, OUT, CALL) \
    extern "C" int NAME(void* temp, size_t* size, const A* a, int n, const B* b, int m, OUT* out, double extra, cudaStream_t stream) \
    { \
        size_t& bytes = *size; \
        return CALL; \
    }

CUB_PEER(sum_f32, float, void, float, cub::DeviceReduce::Sum(temp, bytes, a, out, n, stream))
CUB_PEER(sum_i32, int, void, int, cub::DeviceReduce::Sum(temp, bytes, a, out, n, stream))
CUB_PEER(count_i32, int, void, int, cub::DeviceReduce::TransformReduce(temp, bytes, a, out, n, plus<>{}, Same{int(extra)}, 0, stream))
CUB_PEER(scaled_f32, float, void, float, cub::DeviceReduce::TransformReduce(temp, bytes, a, out, n, plus<>{}, Times{float(extra)}, 0.0f, stream))
CUB_PEER(dot_f32, float, float, float,
    cub::DeviceReduce::TransformReduce(temp, bytes, Index(0), out, n, plus<>{}, Products<float>{a, b}, 0.0f, stream))
CUB_PEER(dot_f16, __half, __half, __half,
    cub::DeviceReduce::TransformReduce(temp, bytes, Index(0), out, n, plus<>{}, Products<__half>{a, b}, 0.0f, stream))
CUB_PEER(squares_f32, float, float, float,
    cub::DeviceReduce::TransformReduce(temp, bytes, Index(0), out, n, plus<>{}, Squares{a, b, float(1.0 / n)}, 0.0f, stream))
CUB_PEER(scan_f32, float, void, float, cub::DeviceScan::InclusiveSum(temp, bytes, a, out, n, stream))
CUB_PEER(segments_f32, float, int, float, cub::DeviceScan::ExclusiveSumByKey(temp, bytes, b, a, out, n, GoesOn{}, stream))
CUB_PEER(histogram_i32, int, void, int, cub::DeviceHistogram::HistogramEven(temp, bytes, a, out, int(extra) + 1, 0, int(extra), n, stream))
CUB_PEER(sort_f32, float, void, float, cub::DeviceRadixSort::SortKeys(temp, bytes, a, out, n, 0, 32, stream))
CUB_PEER(sort_u32, unsigned, void, unsigned, cub::DeviceRadixSort::SortKeys(temp, bytes, a, out, n, 0, 32, stream))
CUB_PEER(largest_f32, float, void, float, largest(temp, bytes, a, out, n, int(extra), stream))
CUB_PEER(compact_f32, float, void, float, compact(temp, bytes, a, out, n, stream))
#if __has_include(<cub/device/device_merge.cuh>)
CUB_PEER(merge_f32, float, float, float, cub::DeviceMerge::MergeKeys(temp, bytes, a, n, b, m, out, cuda::std::less<>{}, stream))
#endif
"""


class Peer(NamedTuple):
    """How CUB does a challenge. What takes `a` gets the arguments of PyTorch's version."""

    # The function of CUB_TEXT.
    function: str
    dtype: torch.dtype
    # Elements that it writes; what the challenge wants comes first.
    length: Callable = lambda a: 1
    # The one number that it takes.
    extra: Callable = lambda a: 0
    # How many of the arguments are its vectors.
    vectors: int = 1
    # The largest error that is none; nothing for sums, whose errors grow with them.
    error: Optional[float] = None
    # PyTorch's result as the function gives it.
    wanted: Callable = lambda result: result


def all_of_first(a):
    return a[0].numel()


def as_unsigned(x):
    """Sorted integers in the order of their bits."""
    return torch.cat([x[x >= 0], x[x < 0]])


COUNT = Peer("count_i32", torch.int32, extra=lambda a: a[1])
HISTOGRAM = Peer("histogram_i32", torch.int32, lambda a: int(a[1]), lambda a: a[1])

# By challenge.
CUB_PEERS = {
    "reduction": Peer("sum_f32", torch.float32),
    "subarray_sum": Peer("sum_i32", torch.int32),
    "count_array_element": COUNT,
    "count_2d_array_element": COUNT,
    "count_3d_array_element": COUNT,
    "monte_carlo_integration": Peer("scaled_f32", torch.float32, extra=lambda a: (a[2] - a[1]) / a[0].numel()),
    "dot_product": Peer("dot_f32", torch.float32, vectors=2),
    "fp16_dot_product": Peer("dot_f16", torch.float16, vectors=2),
    "mean_squared_error": Peer("squares_f32", torch.float32, vectors=2),
    "prefix_sum": Peer("scan_f32", torch.float32, all_of_first),
    "segmented_prefix_sum": Peer("segments_f32", torch.float32, all_of_first, vectors=2, error=1e-3),
    "histogramming": HISTOGRAM,
    "histogramming_one_bin": HISTOGRAM,
    "sorting": Peer("sort_f32", torch.float32, all_of_first, error=0.0),
    "radix_sort": Peer("sort_u32", torch.int32, all_of_first, error=0.0, wanted=as_unsigned),
    # Where CUB has no selection it sorts all.
    "top_k_selection": Peer("largest_f32", torch.float32, lambda a: max(a[0].numel(), 2 * a[1]), lambda a: a[1], error=0.0),
    "stream_compaction": Peer("compact_f32", torch.float32, lambda a: a[0].numel() + 1, error=0.0),
    "parallel_merge": Peer("merge_f32", torch.float32, lambda a: a[0].numel() + a[1].numel(), vectors=2, error=0.0),
}


def cub_library():
    """The compiled functions; nothing where there is no nvcc."""
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        return None
    major, minor = torch.cuda.get_device_capability()
    name = hashlib.sha256(f"{CUB_TEXT} {major}.{minor} {nvcc}".encode()).hexdigest()[:16]
    library = pathlib.Path(tempfile.gettempdir()) / f"girih-cub-{name}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory() as folder:
            source, made = pathlib.Path(folder) / "cub.cu", pathlib.Path(folder) / "cub.so"
            source.write_text(CUB_TEXT)
            flags = ["-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", f"-arch=sm_{major}{minor}"]
            subprocess.run([nvcc, *flags, "-o", made, source], check=True, capture_output=True, text=True)
            # Complete or not there.
            shutil.copy(made, f"{library}.{name}.part")
            pathlib.Path(f"{library}.{name}.part").replace(library)
    return ctypes.CDLL(str(library))


def cub_work(name, arguments, operation):
    """What does the challenge once by CUB; nothing where CUB has no such operation or there is no nvcc.

    Raises where nvcc fails or the result is not PyTorch's.
    """
    peer = CUB_PEERS.get(name)
    library = cub_library() if peer else None
    call = getattr(library, peer.function, None) if library else None
    if call is None:
        return None
    call.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int, ctypes.c_void_p] * 2 + [ctypes.c_double, ctypes.c_void_p]
    vectors = [v.contiguous() for v in arguments[: peer.vectors]]
    result = torch.zeros(peer.length(arguments), device="cuda", dtype=peer.dtype)
    size = ctypes.c_size_t(0)

    def work(temporary=None):
        stream = torch.cuda.current_stream().cuda_stream
        at = None if temporary is None else temporary.data_ptr()
        given = [part for v in vectors for part in (v.data_ptr(), v.numel())] + [None, 0] * (2 - len(vectors))
        failed = call(at, ctypes.addressof(size), *given, result.data_ptr(), float(peer.extra(arguments)), stream)
        if failed:
            raise RuntimeError(f"CUB: CUDA error {failed}")

    work()
    temporary = torch.empty(max(size.value, 1), device="cuda", dtype=torch.uint8)
    work(temporary)
    wanted = peer.wanted(operation(*arguments)).double().reshape(-1)
    error = (result[: wanted.numel()].double() - wanted).abs().max().item()
    of_sums = 1e-4 * wanted.abs().max().item() + 1e-3 * vectors[0].numel() ** 0.5
    if error > (of_sums if peer.error is None else peer.error):
        raise RuntimeError(f"CUB's result is off by {error}")
    return lambda: work(temporary)
