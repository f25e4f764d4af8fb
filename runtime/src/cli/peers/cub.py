"""CUB's way of doing some challenges, for `autotune bench`: NVIDIA's own reductions, scans and histograms, compiled by nvcc where there is one.

The compiled library is kept in the folder for temporary files, under a name that its text decides.
"""

import ctypes
import hashlib
import pathlib
import shutil
import subprocess
import tempfile

import torch

CUB_TEXT = r"""
#include <cub/cub.cuh>

struct Same {
    int wanted;
    __host__ __device__ int operator()(int x) const { return x == wanted; }
};

#define CUB_PEER(NAME, IN, OUT, CALL) \
    extern "C" int NAME(void* temp, size_t* bytes, const IN* in, OUT* out, int n, int extra, cudaStream_t stream) { return CALL; }

CUB_PEER(sum_f32, float, float, cub::DeviceReduce::Sum(temp, *bytes, in, out, n, stream))
CUB_PEER(sum_i32, int, int, cub::DeviceReduce::Sum(temp, *bytes, in, out, n, stream))
CUB_PEER(count_i32, int, int, cub::DeviceReduce::TransformReduce(temp, *bytes, in, out, n, cuda::std::plus<>{}, Same{extra}, 0, stream))
CUB_PEER(scan_f32, float, float, cub::DeviceScan::InclusiveSum(temp, *bytes, in, out, n, stream))
CUB_PEER(histogram_i32, int, int, cub::DeviceHistogram::HistogramEven(temp, *bytes, in, out, extra + 1, 0, extra, n, stream))
"""

# By challenge: the function, the result's type, its length, and the one number that the function takes.
CUB_PEERS = {
    "reduction": ("sum_f32", torch.float32, lambda a: 1, lambda a: 0),
    "subarray_sum": ("sum_i32", torch.int32, lambda a: 1, lambda a: 0),
    "count_array_element": ("count_i32", torch.int32, lambda a: 1, lambda a: int(a[1])),
    "count_2d_array_element": ("count_i32", torch.int32, lambda a: 1, lambda a: int(a[1])),
    "count_3d_array_element": ("count_i32", torch.int32, lambda a: 1, lambda a: int(a[1])),
    "prefix_sum": ("scan_f32", torch.float32, lambda a: a[0].numel(), lambda a: 0),
    "histogramming": ("histogram_i32", torch.int32, lambda a: int(a[1]), lambda a: int(a[1])),
    "histogramming_one_bin": ("histogram_i32", torch.int32, lambda a: int(a[1]), lambda a: int(a[1])),
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
    if name not in CUB_PEERS:
        return None
    library = cub_library()
    if library is None:
        return None
    function, dtype, length, extra = CUB_PEERS[name]
    call = getattr(library, function)
    call.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int] * 2 + [ctypes.c_void_p]
    source = arguments[0].contiguous()
    result = torch.zeros(length(arguments), device="cuda", dtype=dtype)
    size = ctypes.c_size_t(0)

    def work(temporary=None):
        stream = torch.cuda.current_stream().cuda_stream
        at = None if temporary is None else temporary.data_ptr()
        failed = call(at, ctypes.addressof(size), source.data_ptr(), result.data_ptr(), source.numel(), extra(arguments), stream)
        if failed:
            raise RuntimeError(f"CUB: CUDA error {failed}")

    work()
    temporary = torch.empty(max(size.value, 1), device="cuda", dtype=torch.uint8)
    work(temporary)
    wanted = operation(*arguments).double().reshape(-1)
    error = (result.double() - wanted).abs().max().item()
    if error > 1e-4 * wanted.abs().max().item() + 1e-3 * source.numel() ** 0.5:
        raise RuntimeError(f"CUB's result is off by {error}")
    return lambda: work(temporary)
