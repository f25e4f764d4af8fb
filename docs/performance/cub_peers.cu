// CUB's times of what the gallery's scans, selections and sorts do, at their sizes: medians in microseconds of 21 samples, 256 MiB written before
// each. nvcc -O3 -std=c++17 -arch=sm_90 cub_peers.cu -o cub_peers && ./cub_peers
#include <algorithm>
#include <cstdio>
#include <cub/cub.cuh>
#include <functional>
#include <vector>

struct Positive {
    __host__ __device__ bool operator()(float x) const { return x > 0; }
};

__global__ void draw(unsigned* to, size_t n, int kind)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned x = (unsigned)i * 2654435761u ^ 0x9e3779b9u;
        x = (x ^ (x >> 16)) * 0x7feb352du;
        x = (x ^ (x >> 15)) * 0x846ca68bu;
        x ^= x >> 16;
        to[i] = kind == 1 ? __float_as_uint((float)x * 4.656612873e-10f - 1.0f) : kind == 2 ? (unsigned)(i / 256) : x;
    }
}

static void* memory(size_t bytes)
{
    void* at = nullptr;
    if (cudaMalloc(&at, bytes) != cudaSuccess) {
        std::fprintf(stderr, "no memory\n");
        std::exit(1);
    }
    return at;
}

static void* drawn(size_t n, int kind)
{
    void* at = memory(4 * n);
    draw<<<1024, 256>>>((unsigned*)at, n, kind);
    return at;
}

using Call = std::function<cudaError_t(void*, size_t&)>;

static void timed(const char* name, Call call)
{
    static void* const flush = memory(256 << 20);
    size_t bytes = 0;
    call(nullptr, bytes);
    void* temporary = memory(bytes + 1);
    cudaEvent_t first, last;
    cudaEventCreate(&first);
    cudaEventCreate(&last);
    std::vector<float> all;
    for (int sample = 0; sample < 24; sample++) {
        cudaMemsetAsync(flush, sample, 256 << 20);
        cudaEventRecord(first);
        call(temporary, bytes);
        cudaEventRecord(last);
        cudaEventSynchronize(last);
        float ms = 0;
        cudaEventElapsedTime(&ms, first, last);
        if (sample >= 3)
            all.push_back(1000 * ms);
    }
    std::sort(all.begin(), all.end());
    std::printf("| %s | %.2f | %s |\n", name, all[all.size() / 2], cudaGetErrorString(cudaGetLastError()));
    cudaFree(temporary);
}

int main()
{
    const int many = 1 << 28, some = 50000000;
    float* x = (float*)drawn(many, 1);
    float* y = (float*)memory(4ul * many);
    unsigned* keys = (unsigned*)drawn(some, 0);
    unsigned* sorted = (unsigned*)memory(4ul * some);
    unsigned* segments = (unsigned*)drawn(some, 2);
    int* count = (int*)memory(4);
    timed("copy of 1 GiB", [&](void* t, size_t& b) { b = 1; return t ? cudaMemcpyAsync(y, x, 4ul * many, cudaMemcpyDeviceToDevice) : cudaSuccess; });
    timed("scan of 250000 f32", [&](void* t, size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, x, y, 250000); });
    timed("scan of 50000000 f32", [&](void* t, size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, x, y, some); });
    timed("scan of 2^28 f32", [&](void* t, size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, x, y, many); });
    timed("scan by key, 50000000 f32", [&](void* t, size_t& b) { return cub::DeviceScan::ExclusiveSumByKey(t, b, segments, x, y, some); });
    timed("select of 50000000 f32", [&](void* t, size_t& b) { return cub::DeviceSelect::If(t, b, x, y, count, some, Positive{}); });
    timed("sort of 50000000 u32", [&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, keys, sorted, some); });
    timed("sort of 1000000 f32", [&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, x, y, 1000000); });
    timed("descending sort of 50000000 f32", [&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeysDescending(t, b, x, y, some); });
    return 0;
}
