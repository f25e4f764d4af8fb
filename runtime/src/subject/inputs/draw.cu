// Random elements as girih's host draws them, bit for bit. Compiled without contraction of products and sums.
typedef unsigned long long u64;
typedef long long i64;

// Elements of which each has the numbers of one generator.
#define CHUNK 262144ull

enum Kind { UNIFORM, INTEGERS, BITS, NORMAL, SPARSE };

// Number `n` of the generator of a seed (SplitMix64).
__device__ u64 number(u64 seed, u64 n) {
    const u64 golden = 0x9e3779b97f4a7c15ull;
    u64 z = (seed ^ golden) + (n + 1) * golden;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// A number as a float in [0, 1).
__device__ double unit(u64 number) {
    return (double)(number >> 11) / 9007199254740992.0;
}

union Double {
    double value;
    u64 bits;
};

// The natural logarithm of a normal float in (0, 1], as the host computes it.
__device__ double logarithm(double value) {
    Double m;
    m.value = value;
    i64 exponent = (i64)(m.bits >> 52) - 1023;
    m.bits = (m.bits & ((1ull << 52) - 1)) | 1023ull << 52;
    if (m.value > 1.41421356237309504880) {
        m.value *= 0.5;
        exponent += 1;
    }
    const double s = (m.value - 1.0) / (m.value + 1.0);
    const double square = s * s;
    double sum = 0.0;
    for (int power = 10; power >= 0; --power) {
        sum = sum * square + 1.0 / (double)(2 * power + 1);
    }
    return (double)exponent * 0.693147180559945309417 + 2.0 * s * sum;
}

// The cosine of so many turns in [0, 1), as the host computes it.
__device__ double cosine(double turns) {
    const i64 quarter = (i64)(turns * 4.0 + 0.5);
    const double angle = (turns * 4.0 - (double)quarter) * 1.57079632679489661923;
    const double square = angle * angle;
    const i64 odd = quarter % 2;
    double sum = 1.0;
    for (int pair = 9; pair >= 1; --pair) {
        const i64 last = 2 * pair + odd;
        sum = 1.0 - sum * square / (double)(last * (last - 1));
    }
    const double series = odd == 1 ? sum * angle : sum;
    return quarter % 4 == 1 || quarter % 4 == 2 ? -series : series;
}

// The bits of the float with so many bits of exponent and mantissa that is nearest to a value: ties go to even, what is too large is infinite, or
// the largest number of 8 bits.
__device__ u64 nearest(double value, int exponent, int mantissa) {
    Double wide;
    wide.value = value;
    const u64 sign = wide.bits >> 63 << (exponent + mantissa);
    const u64 fraction = wide.bits & ((1ull << 52) - 1);
    const int scale = (int)(wide.bits >> 52 & 2047) - 1023 + (1 << (exponent - 1)) - 1;
    const u64 significand = scale >= 1 ? (u64)scale << 52 | fraction : 1ull << 52 | fraction;
    const int dropped = 52 - mantissa + (scale >= 1 ? 0 : 1 - scale);
    if (dropped > 62) {
        return sign;
    }
    const u64 rounded = (significand + (1ull << (dropped - 1)) - 1 + (significand >> dropped & 1)) >> dropped;
    const u64 infinity = ((1ull << exponent) - 1) << mantissa;
    const u64 beyond = exponent + mantissa > 7 ? infinity : mantissa == 3 ? 0x7e : 0x7b;
    return sign | (rounded < beyond ? rounded : beyond);
}

// Draws elements 0 to `count` of `size` bytes: floats of so many bits of exponent and mantissa, else integers, of which a boolean keeps whether they are 0.
extern "C" __global__ void girih_draw(void* to, u64 count, u64 seed, int kind, int size, int exponent, int mantissa, int boolean,
                                      double low, double high, double density, i64 first, u64 span) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (u64)blockDim.x) {
        const u64 own = seed ^ (i / CHUNK << 32);
        const u64 at = kind == NORMAL || kind == SPARSE ? i % CHUNK * 2 : i % CHUNK;
        const u64 one = number(own, at);
        u64 bits = one;
        if (kind == INTEGERS) {
            const i64 whole = first + (i64)(one % span);
            bits = exponent ? nearest((double)whole, exponent, mantissa) : boolean ? whole != 0 : whole;
        } else if (kind == BITS) {
            bits = boolean ? one & 1 : one;
        } else {
            double value;
            if (kind == NORMAL) {
                const double radius = 1.0 - unit(one);
                value = low + high * (sqrt(-2.0 * logarithm(radius)) * cosine(unit(number(own, at + 1))));
            } else {
                value = low + (high - low) * unit(one);
                if (kind == SPARSE && unit(number(own, at + 1)) >= density) {
                    value = 0.0;
                }
            }
            bits = nearest(value, exponent, mantissa);
        }
        switch (size) {
        case 1: ((unsigned char*)to)[i] = (unsigned char)bits; break;
        case 2: ((unsigned short*)to)[i] = (unsigned short)bits; break;
        case 4: ((unsigned int*)to)[i] = (unsigned int)bits; break;
        default: ((u64*)to)[i] = bits;
        }
    }
}
