//! Texts of helpers that touch memory or wait: wide accesses, atomics of floats, asynchronous copies, barriers, words between
//! blocks.

pub(super) const VECTOR_32: &str = "\
// 32 bytes at once: one instruction from sm_100 on, two before.
struct __align__(32) Vector32 { unsigned int word[8]; };
";

pub(super) const TENSOR_MAP: &str = "\
// A tensor map, encoded by the host.
struct __align__(128) TensorMap { unsigned long long word[16]; };
";

/// The text of an atomic that floats have none of.
macro_rules! atomic_float {
    ($what:literal, $name:literal, $choice:literal, $swap:literal) => {
        concat!(
            "// There is no atomic ",
            $what,
            " of floats: compare and swap until nobody came between.\n__device__ __forceinline__ float ",
            $name,
            "(float* address, float value)
{
    unsigned int* bits = reinterpret_cast<unsigned int*>(address);
    unsigned int old = *reinterpret_cast<volatile unsigned int*>(bits), seen;
    do {
        seen = old;
        old = ",
            $swap,
            "(bits, seen, __float_as_uint(",
            $choice,
            "(__uint_as_float(seen), value)));
    } while (old != seen);
    return __uint_as_float(old);
}
"
        )
    };
}

pub(super) const ATOMIC_FLOAT_MIN: &str = atomic_float!("minimum", "atomic_min", "nan_min", "atomicCAS");
pub(super) const ATOMIC_FLOAT_MAX: &str = atomic_float!("maximum", "atomic_max", "nan_max", "atomicCAS");
pub(super) const ATOMIC_FLOAT_MIN_SYSTEM: &str = atomic_float!("minimum", "atomic_min_system", "nan_min", "atomicCAS_system");
pub(super) const ATOMIC_FLOAT_MAX_SYSTEM: &str = atomic_float!("maximum", "atomic_max_system", "nan_max", "atomicCAS_system");

pub(super) const COPY_ASYNC: &str = "\
// Starts a copy of Bytes bytes from global memory to a place in a shared array; writes zeros where there is nothing to read.
template <int Bytes, typename T> __device__ __forceinline__ void copy_async(T* array, int at, const void* global, bool present = true)
{
    const unsigned int to = (unsigned int)__cvta_generic_to_shared(array) + at * (int)sizeof(T);
    const int size = present ? Bytes : 0;
    if constexpr (Bytes == 16) {
        asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"(to), \"l\"(global), \"r\"(size) : \"memory\");
    } else {
        asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" ::\"r\"(to), \"l\"(global), \"n\"(Bytes), \"r\"(size) : \"memory\");
    }
}
// Closes this thread's group of copies.
__device__ __forceinline__ void copy_async_commit() { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }
// Waits until at most Pending of this thread's newest groups are in flight.
template <int Pending> __device__ __forceinline__ void copy_async_wait()
{
    asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(Pending) : \"memory\");
}
";

pub(super) const MATCH_LANES: &str = "\
// Which lanes of the warp have the same lowest Bits bits: a ballot for each bit, and those who voted otherwise are taken out.
template <int Bits> __device__ __forceinline__ unsigned int match_lanes(unsigned int x)
{
    unsigned int same = 0xffffffffu;
    #pragma unroll
    for (int k = 0; k < Bits; ++k) {
        asm volatile(
            \"{ .reg .pred set; .reg .b32 bit, votes;\\n\\t\"
            \"and.b32 bit, %1, %2; setp.ne.u32 set, bit, 0;\\n\\t\"
            \"vote.sync.ballot.b32 votes, set, 0xffffffff; @!set not.b32 votes, votes;\\n\\t\"
            \"and.b32 %0, %0, votes; }\"
            : \"+r\"(same) : \"r\"(x), \"r\"(1u << k));
    }
    return same;
}
";

pub(super) const SLICE_BARRIER: &str = "\
// The threads of one slice of the block meet: as many neighbours, at a barrier of their own.
template <int Threads> __device__ __forceinline__ void sync_slice()
{
    asm volatile(\"bar.sync %0, %1;\" ::\"r\"(1 + threadIdx.x / Threads), \"n\"(Threads) : \"memory\");
}
";

pub(super) const CLUSTER_BARRIER: &str = "\
// All threads of the blocks of a cluster meet.
__device__ __forceinline__ void sync_cluster()
{
    asm volatile(\"barrier.cluster.arrive.release;\" ::: \"memory\");
    asm volatile(\"barrier.cluster.wait.acquire;\" ::: \"memory\");
}
";

pub(super) const LOAD_FROM_BLOCK: &str = "\
// Reads an element of 32 bits of the same shared array of another block of the cluster.
template <typename T> __device__ __forceinline__ T load_from_block(const T* array, int at, unsigned int block)
{
    const unsigned int own = (unsigned int)__cvta_generic_to_shared(array) + at * (int)sizeof(T);
    unsigned int there, bits;
    asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(there) : \"r\"(own), \"r\"(block));
    asm volatile(\"ld.shared::cluster.u32 %0, [%1];\" : \"=r\"(bits) : \"r\"(there) : \"memory\");
    return reinterpret_cast<const T&>(bits);
}
";

pub(super) const TURNS: &str = "\
// Warp groups take turns: each waits until the one before it has passed the turn on.
template <int First> __device__ __forceinline__ void await_turn()
{
    asm volatile(\"bar.sync %0, 256;\" ::\"r\"(First + threadIdx.x / 128) : \"memory\");
}
template <int First, int Groups> __device__ __forceinline__ void pass_turn()
{
    asm volatile(\"bar.arrive %0, 256;\" ::\"r\"(First + (threadIdx.x / 128 + 1) % Groups) : \"memory\");
}
";

pub(super) const MBARRIER_EXPECT: &str = "\
// Arrives at a barrier of words in shared memory, and says how many bytes of copies will complete its phase.
__device__ __forceinline__ void mbarrier_arrive_expect(unsigned long long* barrier, unsigned int bytes)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" ::\"r\"(at), \"r\"(bytes) : \"memory\");
}
";

pub(super) const MBARRIER: &str = "\
// Makes a barrier of a word in shared memory: a phase ends when so many have arrived.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, unsigned int count)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"mbarrier.init.shared.b64 [%0], %1;\" ::\"r\"(at), \"r\"(count) : \"memory\");
#if __CUDA_ARCH__ >= 900
    asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");
#endif
}
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }\" ::\"r\"(at) : \"memory\");
}
// Waits until the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned int parity)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    unsigned int done;
    do {
        asm volatile(
#if __CUDA_ARCH__ >= 900
            \"{ .reg .pred complete; mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2; selp.u32 %0, 1, 0, complete; }\"
#else
            \"{ .reg .pred complete; mbarrier.test_wait.parity.shared.b64 complete, [%1], %2; selp.u32 %0, 1, 0, complete; }\"
#endif
            : \"=r\"(done)
            : \"r\"(at), \"r\"(parity)
            : \"memory\");
    } while (!done);
}
";

pub(super) const MBARRIER_CLUSTER: &str = "\
// Arrives at the same barrier of a block of the cluster: what this thread did before is done for who waits for it there.
__device__ __forceinline__ void mbarrier_arrive_at(unsigned long long* barrier, unsigned int block)
{
    const unsigned int own = (unsigned int)__cvta_generic_to_shared(barrier);
    unsigned int there;
    asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(there) : \"r\"(own), \"r\"(block));
    asm volatile(\"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\" ::\"r\"(there) : \"memory\");
}
// Waits until the phase of this parity has completed, and what blocks of the cluster did before they arrived is done.
__device__ __forceinline__ void mbarrier_wait_cluster(unsigned long long* barrier, unsigned int parity)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    unsigned int done;
    do {
        asm volatile(
            \"{ .reg .pred complete; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2; selp.u32 %0, 1, 0, complete; }\"
            : \"=r\"(done)
            : \"r\"(at), \"r\"(parity)
            : \"memory\");
    } while (!done);
}
";

pub(super) const ASYNC_ARRIVE: &str = "\
// Arrives at a barrier for this thread when all copies that it has started have landed.
__device__ __forceinline__ void copy_async_arrive(unsigned long long* barrier)
{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\" ::\"r\"(at) : \"memory\");
}
";

pub(super) const BULK_COPY: &str = "\
// Starts a bulk copy from global to shared memory that completes on an mbarrier.
__device__ __forceinline__ void copy_bulk(void* shared, const void* global, unsigned int bytes, unsigned long long* barrier)
{
    const unsigned int to = (unsigned int)__cvta_generic_to_shared(shared);
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\" ::\"r\"(to),
        \"l\"(global), \"r\"(bytes), \"r\"(at)
        : \"memory\");
}
";

pub(super) const GRID_BARRIER: &str = "\
// All blocks of a cooperative launch meet. The upper bit of the counter flips once per meeting, so it needs no reset.
__device__ __forceinline__ void grid_barrier(unsigned int* counter)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned int step = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        unsigned int old, now;
        asm volatile(\"fence.acq_rel.gpu; atom.add.release.gpu.global.u32 %0, [%1], %2;\" : \"=r\"(old) : \"l\"(counter), \"r\"(step) : \"memory\");
        do {
            asm volatile(\"ld.acquire.gpu.global.u32 %0, [%1];\" : \"=r\"(now) : \"l\"(counter) : \"memory\");
        } while (!((old ^ now) & 0x80000000u));
    }
    __syncthreads();
}
";

pub(super) const WORDS: &str = "\
// Stores a word for another block. What belongs together lies in one word, so nothing else has to be put in order.
__device__ __forceinline__ void store_relaxed(unsigned long long* word, unsigned long long value)
{
    asm volatile(\"st.relaxed.gpu.global.u64 [%0], %1;\" ::\"l\"(word), \"l\"(value) : \"memory\");
}
// Loads a word that another block stores.
__device__ __forceinline__ unsigned long long load_relaxed(const unsigned long long* word)
{
    unsigned long long found;
    asm volatile(\"ld.relaxed.gpu.global.u64 %0, [%1];\" : \"=l\"(found) : \"l\"(word) : \"memory\");
    return found;
}
// Waits until another block has stored a word that is not zero, unless such a one was found already.
__device__ __forceinline__ unsigned long long wait_nonzero(const unsigned long long* word, unsigned long long found)
{
    while (found == 0) {
        found = load_relaxed(word);
    }
    return found;
}
";

/// A load of what other blocks store, of 32 and of 64 bits, with its order and scope.
macro_rules! fetch {
    ($comment:literal, $name:literal, $order:literal) => {
        concat!(
            $comment,
            "\n__device__ __forceinline__ unsigned int ",
            $name,
            "(const unsigned int* at)\n{\n    unsigned int found;\n    asm volatile(\"ld.",
            $order,
            ".global.u32 %0, [%1];\" : \"=r\"(found) : \"l\"(at) : \"memory\");\n    return found;\n}\n",
            "__device__ __forceinline__ unsigned long long ",
            $name,
            "(const unsigned long long* at)\n{\n    unsigned long long found;\n    asm volatile(\"ld.",
            $order,
            ".global.u64 %0, [%1];\" : \"=l\"(found) : \"l\"(at) : \"memory\");\n    return found;\n}\n"
        )
    };
}

pub(super) const FETCH_RELAXED: &str = fetch!("// Loads what other blocks store.", "fetch_relaxed", "relaxed.gpu");
pub(super) const FETCH_RELAXED_SYSTEM: &str =
    fetch!("// Loads what others store, the host among them.", "fetch_relaxed_system", "relaxed.sys");
pub(super) const FETCH_ACQUIRE: &str =
    fetch!("// Loads what other blocks store. What they did before they released it is done.", "fetch_acquire", "acquire.gpu");
pub(super) const FETCH_ACQUIRE_SYSTEM: &str =
    fetch!("// Loads what others store. What they did before they released it is done.", "fetch_acquire_system", "acquire.sys");

pub(super) const LOAD_KEPT: &str = "\
// Loads a word, or 2 or 4 of them, whose lines the caches are asked to keep the longest. What lies there does not change.
template <typename T> __device__ __forceinline__ T load_kept(const T* at)
{
    unsigned long long policy;
    asm(\"createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\" : \"=l\"(policy));
    __align__(16) unsigned int words[4];
    if (sizeof(T) == 16) {
        asm(\"ld.global.L1::evict_last.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;\"
            : \"=r\"(words[0]), \"=r\"(words[1]), \"=r\"(words[2]), \"=r\"(words[3]) : \"l\"(at), \"l\"(policy));
    } else if (sizeof(T) == 8) {
        asm(\"ld.global.L1::evict_last.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;\" : \"=r\"(words[0]), \"=r\"(words[1]) : \"l\"(at), \"l\"(policy));
    } else {
        asm(\"ld.global.L1::evict_last.L2::cache_hint.b32 %0, [%1], %2;\" : \"=r\"(words[0]) : \"l\"(at), \"l\"(policy));
    }
    return *reinterpret_cast<const T*>(words);
}
";

pub(super) const LOAD_ONCE: &str = "\
// Loads a word, or 2 or 4 of them, and leaves nothing in the L1. What lies there may be stored to before and behind.
template <typename T> __device__ __forceinline__ T load_once(const T* at)
{
    __align__(16) unsigned int words[4];
    if (sizeof(T) == 16) {
        asm volatile(\"ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\"
                     : \"=r\"(words[0]), \"=r\"(words[1]), \"=r\"(words[2]), \"=r\"(words[3]) : \"l\"(at) : \"memory\");
    } else if (sizeof(T) == 8) {
        asm volatile(\"ld.global.L1::no_allocate.L2::128B.v2.b32 {%0, %1}, [%2];\" : \"=r\"(words[0]), \"=r\"(words[1]) : \"l\"(at) : \"memory\");
    } else {
        asm volatile(\"ld.global.L1::no_allocate.L2::128B.b32 %0, [%1];\" : \"=r\"(words[0]) : \"l\"(at) : \"memory\");
    }
    return *reinterpret_cast<const T*>(words);
}
";
