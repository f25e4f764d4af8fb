//! Gathers whose positions step by one along a thread's registers are vectors, and stores to such positions, where facts say that the elements
//! are all there or all not.

use super::differential::compare;
use super::launches::best_facts;
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;

/// x, so many fours further on.
#[kernel(tile(T = [256, 128]), coarsen(C of T = [4, 8, 1]), vector(V = [4, 2, 1]))]
pub fn further_on(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Scalar<i32>) {
    for t in y.tiles([T]) {
        y.store(t, x.gather(t.coords() + (by * 4).cast::<i64>()).or(-1.0));
    }
}

/// x, one element further on: no vector is aligned.
#[kernel(tile(T = 128), coarsen(C of T = [4, 1]), vector(V = [4, 1]))]
pub fn one_further(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.gather(t.coords() + 1).or(-1.0));
    }
}

/// Rows of a table by number, as an embedding reads them; there are rows of other tables, too.
#[kernel(tile(R = [4, 2], C = [64, 32]), coarsen(CC of C = [4, 8, 1]), vector(V = [4, 1]))]
pub fn rows_by_number(ids: &Tensor<i32, 1>, table: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let row = ids.load(r).expand(1, C);
        y.store((r, c), table.gather((row.cast::<i64>(), c.coords().expand(0, R))));
    }
}

/// Each thread's four neighbours, by positions in the block that the author counts.
#[kernel(tile(T = 64))]
pub fn fours(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let thread = threads(T);
        let mut sum = zeros::<f32>([T]);
        for k in 0..((x.len(0) + 255) / 256).cast::<i32>() {
            let at = iota::<i32>(4).expand(1, T) + ((thread + k * 64) * 4).expand(0, 4);
            sum += x.gather(at).or(0.0).sum_axis(0);
        }
        y.store(t, sum);
    }
}

/// Neighbours that surely lie inside, in any order of the tiles.
#[kernel(tile(T = 128), coarsen(C of T = [4, 1]), vector(V = [4, 1]))]
pub fn mirrored_chunks(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let last = y.len(0) / 128 - 1;
    for t in y.tiles([T]) {
        let from = (last - t.number()).max(0) * 128;
        let inside = (iota::<i64>(T) + from).min(x.len(0) - 1);
        y.store(t, x.gather(inside));
    }
}

/// Rows by way of shared memory, whose end keeps what it was filled with.
#[kernel(tile(R = 1, U = [128, 64]), coarsen(C of U = [4, 1]), vector(V = [4, 1]), grid(G = [0, 1]))]
pub fn by_way_of_shared(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in y.axis(0).tiles(R) {
        let mut kept = shared::<f32>([512], 0.5);
        for u in x.axis(1).tiles(U) {
            kept.store(u, x.load((r.number(), u)) * 2.0);
        }
        for u in y.axis(1).tiles(U) {
            y.store((r.number(), u), kept.gather(u.coords()).or(0.25) + 1.0);
        }
    }
}

/// The same through two rows of the array, and one element further on, where no vector is aligned.
#[kernel(tile(U = [128, 64]), coarsen(C of U = [4, 1]), vector(V = [4, 1]))]
pub fn two_rows_of_shared(x: &Tensor<f16, 1>, y: &mut Tensor<f16, 1>) {
    x.same_shape(y);
    for u in y.tiles([U]) {
        let v = x.load(u).cast::<f32>();
        let mut kept = shared::<f32>([2, 136], 0.0);
        let at = iota::<i32>(U);
        kept.scatter((at.like(0), at), v);
        kept.scatter((at.like(1), at + 1), -v);
        y.store(u, (kept.gather((at.like(1), at + 1)) + kept.gather((at.like(0), at)) * 3.0).cast());
    }
}

/// A table that is read in rounds, whose length is a power of two.
#[kernel(tile(T = 128), coarsen(C of T = [4, 1]), vector(V = [4, 1]))]
pub fn in_rounds(table: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let last = table.len(0) - 1;
    for t in y.tiles([T]) {
        y.store(t, table.gather(t.coords() & last).or(-1.0));
    }
}

/// Vectors of four floats that a text loads.
fn vectors(text: &str) -> usize {
    text.matches("reinterpret_cast<const float4*>(").count() - text.matches("reinterpret_cast<const float4*>(&").count()
}

fn text(def: KernelDef, schedule: &str, facts: fn(&girih_core::tile::Kernel) -> Facts) -> String {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    emit(&lower(&kernel, &facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn neighbours_are_gathered_by_vectors() {
    let loads = |def, schedule: &str| vectors(&text(def, schedule, best_facts));
    assert_eq!(loads(further_on::Kernel::def(), "C=4,V=4"), 1);
    assert!(loads(rows_by_number::Kernel::def(), "CC=4,V=4") > 0);
    assert!(loads(fours::Kernel::def(), "T=64") > 0);
    // A schedule without vectors, positions that are not aligned, and such as stop stepping.
    assert_eq!(loads(further_on::Kernel::def(), "C=4,V=1"), 0);
    assert_eq!(loads(one_further::Kernel::def(), "C=4,V=4"), 0);
    assert_eq!(loads(mirrored_chunks::Kernel::def(), "C=4,V=4"), 0);
}

#[test]
fn one_comparison_tells_whether_a_position_lies_inside() {
    let narrow = text(super::kernels::gathered::Kernel::def(), "T=64,C=1", best_facts);
    let wide = text(super::kernels::gathered::Kernel::def(), "T=64,C=1", Facts::none);
    assert!(narrow.contains(" < (unsigned int)x_len") && !narrow.contains(">= 0"), "{narrow}");
    assert!(wide.contains("(unsigned int)") || wide.contains("(unsigned long long)"), "{wide}");
    assert!(!wide.contains(">= 0"), "{wide}");
}

#[test]
fn a_vector_is_compared_once() {
    let text = text(further_on::Kernel::def(), "C=4,V=4", best_facts);
    assert_eq!(text.matches("< (unsigned long long)x_len").count(), 1, "{text}");
}

#[test]
fn without_facts_elements_are_gathered_one_by_one() {
    for def in [further_on::Kernel::def(), rows_by_number::Kernel::def(), fours::Kernel::def()] {
        let text = text(def, "", Facts::none);
        assert_eq!(vectors(&text), 0, "{text}");
    }
}

/// Vectors of four floats that a text stores to the shared array `kept`, and that it reads from there.
fn vectors_of_kept(text: &str) -> [usize; 2] {
    let of = |kind: &str| {
        text.matches(&format!("reinterpret_cast<{kind}*>(kept")).count()
            + text.matches(&format!("reinterpret_cast<{kind}*>(&kept[")).count()
    };
    [of("float4"), of("const float4")]
}

#[test]
fn neighbours_in_shared_memory_are_vectors() {
    let of = |def, schedule: &str| vectors_of_kept(&text(def, schedule, best_facts));
    // The array is filled and stored to, and read.
    assert_eq!(of(by_way_of_shared::Kernel::def(), "U=128,C=4,V=4,G=0"), [2, 1]);
    assert_eq!(of(by_way_of_shared::Kernel::def(), "U=128,C=1,V=1,G=0"), [1, 0], "filled alone");
    assert_eq!(of(two_rows_of_shared::Kernel::def(), "U=128,C=4,V=4"), [2, 1], "one row of two");
    // Where nothing is known of lengths, rows may end within a vector; those of the block don't.
    let unknown = vectors_of_kept(&text(by_way_of_shared::Kernel::def(), "U=128,C=4,V=4,G=0", Facts::none));
    assert_eq!(unknown, [1, 1]);
}

#[test]
fn a_mask_of_low_bits_keeps_neighbours() {
    let loads = |facts| vectors(&text(in_rounds::Kernel::def(), "C=4,V=4", facts));
    assert_eq!((loads(best_facts), loads(Facts::none)), (1, 0));
}

/// A row of few elements that lie at a computed position is one access of the thread that has the position.
#[test]
fn short_rows_are_gathered_by_vectors() {
    let rows = |facts| {
        let text = text(girih_examples::multi_agent_sim::flock::Kernel::def(), "T=32", facts);
        text.matches("*reinterpret_cast<const float4*>(agents + (int)").count()
    };
    assert_eq!((rows(best_facts), rows(Facts::none)), (1, 0));
}

#[test]
fn neighbours_are_scattered_by_vectors() {
    let stores = |facts| {
        let text = text(girih_examples::int8_kv_cache_attention::attend_bytes::Kernel::def(), "", facts);
        text.matches("*reinterpret_cast<float4*>(parts").count()
    };
    assert!(stores(best_facts) > 0);
    assert_eq!(stores(Facts::none), 0, "rows may begin anywhere");
}

#[test]
fn gathered_vectors_are_what_eval_says() {
    let all = [
        by_way_of_shared::Kernel::def(),
        two_rows_of_shared::Kernel::def(),
        in_rounds::Kernel::def(),
        further_on::Kernel::def(),
        one_further::Kernel::def(),
        rows_by_number::Kernel::def(),
        fours::Kernel::def(),
        mirrored_chunks::Kernel::def(),
    ];
    compare(&all.map(|def| (def.build)().unwrap_or_else(|e| panic!("{e}"))));
}
