// How many elements of two tensors differ, as girih's host compares them.
typedef unsigned long long u64;

union Double {
    u64 bits;
    double value;
};

__device__ u64 element(const void* tensor, u64 i, int size) {
    switch (size) {
    case 1: return ((const unsigned char*)tensor)[i];
    case 2: return ((const unsigned short*)tensor)[i];
    case 4: return ((const unsigned int*)tensor)[i];
    default: return ((const u64*)tensor)[i];
    }
}

// The value of a float with so many bits of exponent and mantissa.
__device__ double value_of(u64 bits, int exponent, int mantissa) {
    const u64 fraction = bits & ((1ull << mantissa) - 1);
    const int field = (int)(bits >> mantissa) & ((1 << exponent) - 1);
    const int bias = (1 << (exponent - 1)) - 1;
    // With 4 bits of exponent and 3 of fraction only the very last pattern is no number.
    const bool numbers = exponent == 4 && mantissa == 3 && fraction != 7;
    Double wide;
    if (field == 0) {
        wide.bits = (u64)(1023 + 1 - bias - mantissa) << 52;
        wide.value *= (double)fraction;
    } else {
        const u64 scale = field == (1 << exponent) - 1 && !numbers ? 2047 : field - bias + 1023;
        wide.bits = scale << 52 | fraction << (52 - mantissa);
    }
    return bits >> (exponent + mantissa) ? -wide.value : wide.value;
}

// Counts elements that differ: integers at all, floats by more than `atol + rtol * |expected|`. NaN equals NaN, an infinity only itself.
extern "C" __global__ void girih_differ(u64* differing, const void* after, const void* expected, u64 count, int size, int exponent, int mantissa,
                                        double atol, double rtol) {
    u64 mine = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (u64)blockDim.x) {
        const u64 a = element(after, i, size), b = element(expected, i, size);
        if (a == b) {
            continue;
        }
        if (exponent) {
            const double x = value_of(a, exponent, mantissa), y = value_of(b, exponent, mantissa);
            const bool finite = y - y == 0.0;
            if (x == y || (x != x && y != y) || (finite && fabs(x - y) <= atol + rtol * fabs(y))) {
                continue;
            }
        }
        ++mine;
    }
    if (mine) {
        atomicAdd(differing, mine);
    }
}
