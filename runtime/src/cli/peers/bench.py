"""Times PyTorch's way of doing a challenge, eager and compiled, and CUB's where it has one (cub.py), for `autotune bench`.

One JSON request a line on stdin, one JSON reply a line on stdout:
  {"setup": {"name": "relu", "sizes": {"N": 1000}, "compile": true}}  ->  {"peers": ["eager", "compiled"]} or {"error": "..."}
  {"copy": 1048576}                                  ->  {"peers": ["copy"]}      copy_ of a tensor of so many bytes
  {"sum": 1048576}                                   ->  {"peers": ["sum"]}       the plainest sum of so many bytes of floats
  {"turn": "eager"}                                  ->  {"us": [12.3, 12.2]}
  {"result": {"inputs": [{"path": "a", "dtype": "float32"}], "output": "c", "dtype": "float32"}}  ->  {"peer": "eager"}
      what the operation set up last gives for these inputs, written to a file; elements are row-major, as in memory
A turn of a short work: once without measuring (the process on the other side had the GPU since the last turn), then several samples; of
a longer one: a single sample. Every sample: 256 MiB written to flush the L2, then CUDA events around the work. The GPU is kept busy in
front of them, so that Python queues everything before the first event: what is measured is the GPU's work, not Python's.
"""

import ctypes
import json
import sys

import torch
from peers.cub import cub_work

FLUSH_BYTES = 256 << 20
FLUSH_BYTE = 0x5A
# As on the other side: longer works need no run ahead.
WARM_BELOW_US = 100.0
SAMPLES_OF_A_TURN = 8
# About 0.5 ms: longer than Python needs to queue the work of a compiled function.
BUSY_CYCLES = 1_000_000


def collect():
    """The peers of all files, by challenge."""
    found = {}
    for module in [m for name, m in sys.modules.items() if name.startswith("peers.")]:
        for challenge, peer in getattr(module, "PEERS", {}).items():
            if challenge in found:
                raise ValueError(f"{module.__name__} has a second PyTorch version of {challenge}")
            found[challenge] = peer
    return found


# name -> (arguments for sizes, the operation).
PEERS = collect()

# What a plain CUDA C programmer writes first: 16-byte loads, shuffles, one atomic per block.
PLAIN_SUM = """
extern "C" __global__ void __launch_bounds__(512) plain_sum(const float4* __restrict__ x, float* total, int vectors)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * 512 + threadIdx.x; i < vectors; i += gridDim.x * 512) {
        const float4 v = x[i];
        sum += v.x + v.y + v.z + v.w;
    }
    __shared__ float parts[16];
    for (int k = 16; k > 0; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < 16 ? parts[threadIdx.x] : 0.0f;
        for (int k = 8; k > 0; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
}
"""


class Timer:
    def __init__(self):
        self.flush = torch.empty(FLUSH_BYTES, device="cuda", dtype=torch.uint8)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.start = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)
        self.works, self.last = {}, {}
        self.operation, self.arguments = None, []

    def flush_l2(self):
        # The driver's own fill, as our side's timer does it: what a kernel of PyTorch's leaves in the L2 makes 1 % of difference.
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        to, length = ctypes.c_ulonglong(self.flush.data_ptr()), ctypes.c_size_t(FLUSH_BYTES)
        status = self.driver.cuMemsetD8Async(to, ctypes.c_ubyte(FLUSH_BYTE), length, stream)
        if status != 0:
            raise RuntimeError(f"cuMemsetD8Async: CUresult {status}")

    def sample(self, work):
        torch.cuda._sleep(BUSY_CYCLES)
        self.flush_l2()
        self.start.record()
        work()
        self.end.record()
        torch.cuda.synchronize()
        return self.start.elapsed_time(self.end) * 1000.0

    def turn(self, peer):
        work = self.works[peer]
        short = self.last.get(peer, float("inf")) < WARM_BELOW_US
        if short:
            work()
        samples = [self.sample(work) for _ in range(SAMPLES_OF_A_TURN if short else 1)]
        self.last[peer] = samples[-1]
        return samples

    def setup(self, name, sizes, compile):
        self.works, self.last, self.operation = {}, {}, None
        if name not in PEERS:
            return {"error": f"no PyTorch version of {name} is written down"}
        make, operation = PEERS[name]
        whole = {k: int(v) if float(v).is_integer() and k not in ("lo", "hi") else float(v) for k, v in sizes.items()}
        arguments = make(whole)
        self.operation, self.arguments = operation, arguments
        self.works["eager"] = lambda: operation(*arguments)
        errors = []
        try:
            if compile:
                compiled = torch.compile(operation, dynamic=False)
                compiled(*arguments)
                self.works["compiled"] = lambda: compiled(*arguments)
        except Exception as e:  # no C compiler or Triton: eager alone is still a peer
            errors.append(f"torch.compile: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")
        try:
            cub = cub_work(name, arguments, operation)
            if cub is not None:
                self.works["CUB"] = cub
        except Exception as e:  # likewise
            errors.append(f"CUB: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")
        for work in self.works.values():
            for _ in range(5):
                work()
        torch.cuda.synchronize()
        return {"peers": list(self.works), "errors": errors}

    def result(self, inputs, output, dtype):
        if self.operation is None:
            return {"error": "nothing was set up"}
        arguments = list(self.arguments)
        tensors = [i for i, a in enumerate(arguments) if torch.is_tensor(a)]
        if len(tensors) != len(inputs):
            return {"error": f"PyTorch's version takes {len(tensors)} tensors, not {len(inputs)}"}
        for i, given in zip(tensors, inputs):
            with open(given["path"], "rb") as file:
                flat = torch.frombuffer(bytearray(file.read()), dtype=getattr(torch, given["dtype"]))
            if flat.numel() != arguments[i].numel():
                return {"error": f"tensor {i} has {flat.numel()} elements, PyTorch's version wants {arguments[i].numel()}"}
            arguments[i] = flat.cuda().to(arguments[i].dtype).reshape(arguments[i].shape)
        found = self.operation(*arguments).to(getattr(torch, dtype)).contiguous().cpu()
        with open(output, "wb") as file:
            # NumPy, which knows no bf16, need not be there.
            file.write(ctypes.string_at(found.data_ptr(), found.numel() * found.element_size()))
        return {"peer": "eager"}

    def copy(self, size):
        source = torch.empty(size // 4, device="cuda", dtype=torch.float32).uniform_(-1, 1)
        target = torch.empty_like(source)
        self.works["copy"] = lambda: target.copy_(source)
        for _ in range(5):
            self.works["copy"]()
        torch.cuda.synchronize()
        return {"peers": ["copy"], "errors": []}

    def sum(self, size):
        source = torch.empty(size // 4, device="cuda", dtype=torch.float32).uniform_(-1, 1)
        total = torch.zeros(1, device="cuda", dtype=torch.float32)
        kernel = torch.cuda._compile_kernel(PLAIN_SUM, "plain_sum")
        vectors = size // 16
        most = 4 * torch.cuda.get_device_properties(0).multi_processor_count
        blocks = max(1, min((vectors + 511) // 512, most))

        def work():
            total.zero_()
            kernel((blocks, 1, 1), (512, 1, 1), (source, total, vectors))

        self.works["sum"] = work
        for _ in range(5):
            work()
        torch.cuda.synchronize()
        expected = source.double().sum().item()
        if abs(total.item() - expected) > 1e-3 * source.numel() ** 0.5 + 1.0:
            return {"error": f"the plain sum is {total.item()}, not {expected}"}
        return {"peers": ["sum"], "errors": []}


def main():
    timer = Timer()
    print(json.dumps({"ready": torch.__version__, "device": torch.cuda.get_device_name()}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "setup" in request:
                reply = timer.setup(**request["setup"])
            elif "copy" in request:
                reply = timer.copy(request["copy"])
            elif "result" in request:
                reply = timer.result(**request["result"])
            elif "sum" in request:
                reply = timer.sum(request["sum"])
            else:
                reply = {"us": timer.turn(request["turn"])}
        except Exception as e:
            reply = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(reply), flush=True)


main()
