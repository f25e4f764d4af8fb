//! Vector addition, the smallest whole kernel: two loads, one addition, one store.
//!
//! Nothing but bandwidth matters: enough bytes in flight, 16-byte accesses, and hints that nobody reads the data again.

use girih::prelude::*;

/// c = a + b.
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 4]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async])
)]
pub fn vector_add(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    for t in c.tiles([T]) {
        c.store(t, a.load(t) + b.load(t));
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    vector_add(a, b, c);
}

girih::challenge! {
    Challenge::new("vector_add", solve::Program::def, "void solve(const float* A[N], const float* B[N], float* C[N], int N)")
        .input("A", uniform(-1000.0, 1000.0))
        .input("B", uniform(-1000.0, 1000.0))
        .output("C", |x, i| x.at("A", i) + x.at("B", i))
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=31", "N=257", "N=1024", "N=4099"])
        .perf_at("N=25_000_000")
        .flops(|s| s.size("N"))
}

girih::ladder! {
    Ladder::new("vector_add", "Vector addition", "vector_add")
        .rung("One thread, one element, in blocks of 1024", "T=1024")
        .rung("Smaller blocks", "T=256")
        .rung("Four elements a thread", "T=1024,C=4")
        .rung("In one access of 16 bytes", "T=1024,C=4,V=4")
        .rung("Eight elements a thread: more bytes on their way", "T=1024,C=8,V=4")
        .rung_of(
            crate::ladders::vector_add::solve::Program::def,
            "The last, shorter tile in a launch of its own: no other thread asks where the vector ends",
            "T=1024,C=8,V=4",
        )
        .slower("A comparison a thread costs nothing beside the traffic of its eight elements; a second launch costs what the first one's end does not hide.")
}
