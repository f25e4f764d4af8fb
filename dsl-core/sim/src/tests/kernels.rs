//! Correct kernels: their results, for many seeds. The traps' tests mutate them.

use super::build::*;
use girih_ir::simt::{Barrier, CacheHint, Expr, Kernel, Place, ShuffleKind, Special, Stmt, VoteKind};
use girih_ir::types::{AtomicOp, BinaryOp, DType, Literal, MemoryOrder, Scope};

pub fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7 % 31) as f32 - 11.0).collect()
}

/// `c[i] = a[i] + b[i]` for i < n.
pub fn vector_add() -> Kernel {
    let mut k = Build::new(64);
    let (a, b, c) = (k.pointer("a", DType::F32, false), k.pointer("b", DType::F32, false), k.pointer("c", DType::F32, true));
    let n = k.scalar("n", DType::I32);
    let (thread, block) = (k.special(Special::Thread), k.special(Special::Block));
    let i = k.bind("i", add(mul(block, int(64)), thread));
    let inside = k.bind("inside", less(i.clone(), n));
    let sum = add(load_when(global(a, i.clone()), inside.clone()), load_when(global(b, i.clone()), inside.clone()));
    k.push(store_when(global(c, i), sum, inside));
    k.done()
}

/// A 32 × 32 tile through shared memory of the given pitch, by 32 × 8 threads.
pub fn transpose(pitch: i32) -> Kernel {
    let mut k = Build::new(256);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let tile = k.array("tile", DType::F32, 32 * pitch as u32);
    let thread = k.special(Special::Thread);
    let col = k.bind("col", rem(thread.clone(), int(32)));
    let row = k.bind("row", div(thread, int(32)));
    let i = k.var("i", DType::I32, None);
    let at = add(row.clone(), mul(Expr::Var(i), int(8)));
    let fill =
        store(shared(tile, add(mul(at.clone(), int(pitch)), col.clone())), load(global(x, add(mul(at.clone(), int(32)), col.clone()))));
    let four = |var, body| Stmt::For { var, start: int(0), end: int(4), step: int(1), unroll: true, body };
    k.push(four(i, vec![fill]));
    k.push(Stmt::Barrier(Barrier::Block));
    let j = k.var("j", DType::I32, None);
    let at = add(row, mul(Expr::Var(j), int(8)));
    let drain = store(global(y, add(mul(at.clone(), int(32)), col.clone())), load(shared(tile, add(mul(col, int(pitch)), at))));
    k.push(four(j, vec![drain]));
    k.done()
}

/// Sum of 256 numbers per block: a tree in shared memory, then shuffles, then an atomic.
pub fn reduction() -> Kernel {
    let mut k = Build::new(256);
    let (x, out) = (k.pointer("x", DType::F32, false), k.pointer("out", DType::F32, true));
    let s = k.array("partial", DType::F32, 256);
    let (thread, block) = (k.special(Special::Thread), k.special(Special::Block));
    k.push(store(shared(s, thread.clone()), load(global(x, add(mul(block, int(256)), thread.clone())))));
    k.push(Stmt::Barrier(Barrier::Block));
    for half in [128, 64, 32] {
        let sum = add(load(shared(s, thread.clone())), load(shared(s, add(thread.clone(), int(half)))));
        k.push(when(less(thread.clone(), int(half)), vec![store(shared(s, thread.clone()), sum)]));
        k.push(Stmt::Barrier(Barrier::Block));
    }
    let (v, other) = (k.var("v", DType::F32, None), k.var("other", DType::F32, None));
    let mut tail = vec![Stmt::Declare { var: v, init: Some(load(shared(s, thread.clone()))) }, Stmt::Declare { var: other, init: None }];
    for distance in [16, 8, 4, 2, 1] {
        let (value, kind, operand) = (Expr::Var(v), ShuffleKind::Xor, int(distance));
        tail.push(Stmt::Shuffle { var: other, value, kind, operand, width: 32 });
        tail.push(Stmt::Assign { var: v, index: None, value: add(Expr::Var(v), Expr::Var(other)) });
    }
    tail.push(Stmt::Atomic {
        result: None,
        op: AtomicOp::Add,
        place: global(out, int(0)),
        value: Expr::Var(v),
        expected: None,
        predicate: Some(equal(thread.clone(), int(0))),
        scope: Scope::Device,
        order: MemoryOrder::Relaxed,
    });
    k.push(when(less(thread, int(32)), tail));
    k.done()
}

/// Four chunks of 64 numbers through two shared buffers filled by cp.async; every thread reads its neighbour's element.
pub fn double_buffer() -> Kernel {
    let mut k = Build::new(64);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let s = k.array("stage", DType::F32, 128);
    let thread = k.special(Special::Thread);
    let neighbour = k.bind("neighbour", rem(add(thread.clone(), int(1)), int(64)));
    let copy = |chunk: Expr| Stmt::AsyncCopy {
        shared: shared(s, add(mul(rem(chunk.clone(), int(2)), int(64)), thread.clone())),
        global: global(x, add(mul(chunk, int(64)), thread.clone())),
        bytes: 4,
        predicate: None,
    };
    k.push(copy(int(0)));
    k.push(Stmt::AsyncCommit);
    let i = k.var("i", DType::I32, None);
    let next = add(Expr::Var(i), int(1));
    let here = add(mul(rem(Expr::Var(i), int(2)), int(64)), neighbour.clone());
    let body = vec![
        when(less(next.clone(), int(4)), vec![copy(next)]),
        Stmt::AsyncCommit,
        Stmt::AsyncWait { pending: 1 },
        Stmt::Barrier(Barrier::Block),
        store(global(y, add(mul(Expr::Var(i), int(64)), neighbour)), load(shared(s, here))),
        Stmt::Barrier(Barrier::Block),
    ];
    k.push(Stmt::For { var: i, start: int(0), end: int(4), step: int(1), unroll: false, body });
    k.done()
}

fn mbarrier(array: u32) -> Place {
    of(DType::U64, shared(array, int(0)))
}

/// Three chunks of 64 numbers by bulk copies that complete on an mbarrier; reversed within the chunk.
pub fn bulk() -> Kernel {
    let mut k = Build::new(64);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let (s, full) = (k.array("stage", DType::F32, 64), k.array("full", DType::U64, 1));
    let thread = k.special(Special::Thread);
    let first = k.bind("first", equal(thread.clone(), int(0)));
    k.push(when(first.clone(), vec![Stmt::MbarrierInit { barrier: mbarrier(full), count: 1 }]));
    k.push(Stmt::Barrier(Barrier::Block));
    let i = k.var("i", DType::I32, None);
    let chunk = mul(Expr::Var(i), int(64));
    let start = vec![
        Stmt::MbarrierArrive { barrier: mbarrier(full), expect: Some(int(256)) },
        Stmt::BulkCopy { shared: shared(s, int(0)), global: global(x, chunk.clone()), bytes: int(256), barrier: mbarrier(full) },
    ];
    let reversed = add(int(63), mul(thread.clone(), int(-1)));
    let body = vec![
        when(first, start),
        Stmt::MbarrierWait { barrier: mbarrier(full), parity: rem(Expr::Var(i), int(2)), scope: Scope::Block },
        store(global(y, add(chunk, thread)), load(shared(s, reversed))),
        Stmt::Barrier(Barrier::Block),
    ];
    k.push(Stmt::For { var: i, start: int(0), end: int(3), step: int(1), unroll: false, body });
    k.done()
}

/// Numbers that each thread copies asynchronously and the next thread reads behind an mbarrier, at which the copies arrive.
pub fn arriving() -> Kernel {
    let mut k = Build::new(64);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let (s, full) = (k.array("stage", DType::F32, 64), k.array("full", DType::U64, 1));
    let thread = k.special(Special::Thread);
    k.push(when(equal(thread.clone(), int(0)), vec![Stmt::MbarrierInit { barrier: mbarrier(full), count: 64 }]));
    k.push(Stmt::Barrier(Barrier::Block));
    k.push(Stmt::AsyncCopy { shared: shared(s, thread.clone()), global: global(x, thread.clone()), bytes: 4, predicate: None });
    k.push(Stmt::AsyncArrive { barrier: mbarrier(full) });
    k.push(Stmt::MbarrierWait { barrier: mbarrier(full), parity: int(0), scope: Scope::Block });
    k.push(store(global(y, thread.clone()), load(shared(s, rem(add(thread, int(1)), int(64))))));
    k.done()
}

/// Blocks write a number each; the last one to take a ticket adds them up, thread 0 alone.
pub fn last_block(order: MemoryOrder) -> Kernel {
    let mut k = Build::new(32);
    let (parts, ticket) = (k.pointer("parts", DType::F32, true), k.pointer("ticket", DType::I32, true));
    let out = k.pointer("out", DType::F32, true);
    let (thread, block, grid) = (k.special(Special::Thread), k.special(Special::Block), k.special(Special::GridDim));
    let (mine, i, sum) = (k.var("mine", DType::I32, None), k.var("i", DType::I32, None), k.var("sum", DType::F32, None));
    let take = Stmt::Atomic {
        result: Some(mine),
        op: AtomicOp::Add,
        place: of(DType::I32, global(ticket, int(0))),
        value: int(1),
        expected: None,
        predicate: None,
        scope: Scope::Device,
        order,
    };
    let total = vec![
        Stmt::Declare { var: sum, init: Some(float(0.0)) },
        Stmt::For {
            var: i,
            start: int(0),
            end: grid.clone(),
            step: int(1),
            unroll: false,
            body: vec![Stmt::Assign { var: sum, index: None, value: add(Expr::Var(sum), load(global(parts, Expr::Var(i)))) }],
        },
        store(global(out, int(0)), Expr::Var(sum)),
    ];
    let body = vec![
        store(global(parts, block.clone()), Expr::Cast(DType::F32, Box::new(block))),
        Stmt::Declare { var: mine, init: None },
        take,
        when(equal(add(Expr::Var(mine), int(1)), grid), total),
    ];
    k.push(when(equal(thread, int(0)), body));
    k.done()
}

/// Each thread copies four neighbouring floats.
pub fn vectors(shift: i32) -> Kernel {
    let mut k = Build::new(32);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let thread = k.special(Special::Thread);
    let v = k.declare("v", DType::F32, Some(4));
    let index = k.bind("index", add(mul(thread, int(4)), int(shift)));
    let (predicate, cache) = (None, CacheHint::Default);
    k.push(Stmt::LoadVector { var: v, at: int(0), place: global(x, index.clone()), lanes: 4, predicate: predicate.clone(), cache });
    k.push(Stmt::StoreVector { place: global(y, index), var: v, at: int(0), lanes: 4, predicate, cache });
    k.done()
}

#[test]
fn vector_add_at_awkward_sizes() {
    let k = vector_add();
    for n in [0usize, 1, 31, 64, 65, 200] {
        let (a, b) = (numbers(n), numbers(n));
        let given = [Given::F32(&a), Given::F32(&b), Given::Raw(4 * n), Given::Scalar(n as i32)];
        let run = launch(&k, n.div_ceil(64) as u32, &given);
        assert_eq!(run.f32(2), a.iter().map(|x| x + x).collect::<Vec<_>>());
    }
}

#[test]
fn results_do_not_depend_on_the_seed() {
    let x = numbers(1024);
    let transposed: Vec<f32> = (0..1024).map(|i| x[i % 32 * 32 + i / 32]).collect();
    let reversed: Vec<f32> = (0..192).map(|i| x[i / 64 * 64 + 63 - i % 64]).collect();
    for seed in 0..16 {
        let run = |k: &Kernel, grid, given: &[Given]| launch_seeded(k, grid, given, seed).unwrap_or_else(|t| panic!("{t}"));
        let given = [Given::F32(&x), Given::Raw(4096)];
        assert_eq!(run(&transpose(33), 1, &given).f32(1), transposed);
        assert_eq!(run(&double_buffer(), 1, &[Given::F32(&x[..256]), Given::Raw(1024)]).f32(1), x[..256]);
        assert_eq!(run(&bulk(), 1, &[Given::F32(&x[..192]), Given::Raw(768)]).f32(1), reversed);
        let turned: Vec<f32> = (0..64).map(|i| x[(i + 1) % 64]).collect();
        assert_eq!(run(&arriving(), 1, &[Given::F32(&x[..64]), Given::Raw(256)]).f32(1), turned);
        let sum = run(&reduction(), 4, &[Given::F32(&x), Given::F32(&[0.0])]).f32(1)[0];
        assert_eq!(sum, x.iter().sum::<f32>());
        let total = run(&last_block(MemoryOrder::AcquireRelease), 9, &[Given::Raw(36), Given::I32(&[0]), Given::Raw(4)]);
        assert_eq!((total.f32(2)[0], total.i32(1)[0]), (36.0, 9));
    }
}

#[test]
fn atomic_sums_in_memory_take_subnormal_numbers_for_zeros() {
    let sum = |x: f32, start: f32| {
        let mut all = [0.0; 256];
        all[7] = x;
        launch(&reduction(), 1, &[Given::F32(&all), Given::F32(&[start])]).f32(1)[0].to_bits()
    };
    assert_eq!(sum(1e-40, 0.0), 0);
    assert_eq!(sum(1e-37, 1e-40), 1e-37f32.to_bits());
    // Of two normal numbers, too, where the sum is none.
    assert_eq!(sum(-2e-38, 1.5e-38), (-0.0f32).to_bits());
}

#[test]
fn fences_order_relaxed_atomics() {
    let mut k = last_block(MemoryOrder::Relaxed);
    let fence = |order| Stmt::Fence { scope: Scope::Device, order };
    let Some(Stmt::If { then, .. }) = k.body.last_mut() else { panic!("the kernel's last statement is an if") };
    then.insert(3, fence(MemoryOrder::Acquire));
    then.insert(2, fence(MemoryOrder::Release));
    for seed in 0..8 {
        let run = launch_seeded(&k, 5, &[Given::Raw(20), Given::I32(&[0]), Given::Raw(4)], seed).unwrap_or_else(|t| panic!("{t}"));
        assert_eq!(run.f32(2)[0], 10.0);
    }
}

#[test]
fn loops_and_branches_diverge_and_meet() {
    // Collatz steps of thread + 1, a While with divergent trip counts around an If.
    let mut k = Build::new(64);
    let out = k.pointer("out", DType::I32, true);
    let thread = k.special(Special::Thread);
    let (n, steps) = (k.var("n", DType::I32, None), k.var("steps", DType::I32, None));
    k.push(Stmt::Declare { var: n, init: Some(add(thread.clone(), int(1))) });
    k.push(Stmt::Declare { var: steps, init: Some(int(0)) });
    let set = |var, value| Stmt::Assign { var, index: None, value };
    let even = k.var("even", DType::Bool, None);
    let header = vec![Stmt::Let { var: even, value: equal(rem(Expr::Var(n), int(2)), int(0)) }];
    let body = vec![
        Stmt::If {
            condition: Expr::Var(even),
            then: vec![set(n, div(Expr::Var(n), int(2)))],
            otherwise: vec![set(n, add(mul(Expr::Var(n), int(3)), int(1)))],
        },
        set(steps, add(Expr::Var(steps), int(1))),
    ];
    k.push(Stmt::While { header, condition: less(int(1), Expr::Var(n)), body });
    k.push(store(of(DType::I32, global(out, thread)), Expr::Var(steps)));
    let run = launch(&k.done(), 1, &[Given::Raw(256)]);
    let collatz = |mut n: u32| {
        let mut steps = 0;
        while n > 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    };
    assert_eq!(run.i32(0), (1..=64).map(collatz).collect::<Vec<i32>>());
}

#[test]
fn arrays_are_indexed_per_lane() {
    let mut k = Build::new(32);
    let out = k.pointer("out", DType::I32, true);
    let thread = k.special(Special::Thread);
    let a = k.var("a", DType::I32, Some(4));
    k.push(Stmt::Declare { var: a, init: Some(int(0)) });
    let element = rem(thread.clone(), int(4));
    k.push(Stmt::Assign { var: a, index: Some(element.clone()), value: thread.clone() });
    k.push(store(of(DType::I32, global(out, thread.clone())), Expr::Element(a, Box::new(rem(add(thread, int(1)), int(4))))));
    k.push(store(of(DType::I32, global(out, int(0))), Expr::Literal(Literal::i32(7))));
    // All threads store the last word: that is a race, and the only one.
    let t = trap(&k.kernel, 1, &[Given::Raw(128)]);
    assert_eq!(t.kind.name(), "race", "{t}");
    k.kernel.body.pop();
    let run = launch(&k.done(), 1, &[Given::Raw(128)]);
    assert_eq!(run.i32(0), vec![0; 32]);
}

#[test]
fn shuffles_pick_lanes() {
    let pick = |kind, operand: i32, width| {
        let mut k = Build::new(32);
        let out = k.pointer("out", DType::I32, true);
        let thread = k.special(Special::Thread);
        let v = k.declare("v", DType::I32, None);
        k.push(Stmt::Shuffle { var: v, value: thread.clone(), kind, operand: int(operand), width });
        k.push(store(of(DType::I32, global(out, thread)), Expr::Var(v)));
        launch(&k.done(), 1, &[Given::Raw(128)]).i32(0)
    };
    assert_eq!(pick(ShuffleKind::Xor, 1, 32)[..4], [1, 0, 3, 2]);
    assert_eq!(pick(ShuffleKind::Down, 2, 8)[..9], [2, 3, 4, 5, 6, 7, 6, 7, 10]);
    assert_eq!(pick(ShuffleKind::Up, 1, 4)[..6], [0, 0, 1, 2, 4, 4]);
    assert_eq!(pick(ShuffleKind::Index, 3, 16)[15..18], [3, 19, 19]);
}

#[test]
fn integers_of_one_warp_are_combined() {
    // The second warp has 16 lanes.
    let combined = |op, dtype: DType, first: i32| {
        let mut k = Build::new(48);
        let out = k.pointer("out", dtype, true);
        let thread = k.special(Special::Thread);
        let value = Expr::Cast(dtype, Box::new(add(thread.clone(), int(first))));
        let v = k.declare("v", dtype, None);
        k.push(Stmt::WarpReduce { var: v, op, value });
        k.push(store(of(dtype, global(out, thread)), Expr::Var(v)));
        let all = launch(&k.done(), 1, &[Given::Raw(192)]).i32(0);
        assert!(all[..32].iter().all(|v| *v == all[0]) && all[32..].iter().all(|v| *v == all[32]), "{all:?}");
        (all[0], all[32])
    };
    assert_eq!(combined(BinaryOp::Add, DType::I32, 0), (31 * 16, 8 * (32 + 47)));
    assert_eq!(combined(BinaryOp::Add, DType::I32, i32::MAX - 47).0, (0..32).fold(0i32, |sum, l| sum.wrapping_add(i32::MAX - 47 + l)));
    assert_eq!(combined(BinaryOp::Min, DType::I32, -5), (-5, 27));
    assert_eq!(combined(BinaryOp::Max, DType::I32, -40), (-9, 7));
    assert_eq!(combined(BinaryOp::Min, DType::U32, -5), (0, 27));
    assert_eq!(combined(BinaryOp::Max, DType::U32, -5), (-1, 42));
    assert_eq!(combined(BinaryOp::And, DType::I32, 32), (32, 64));
    assert_eq!(combined(BinaryOp::Or, DType::U32, 0), (31, 47));
    assert_eq!(combined(BinaryOp::Xor, DType::I32, 1), ((1..33).fold(0, |x, l| x ^ l), (33..49).fold(0, |x, l| x ^ l)));
}

#[test]
fn votes_are_those_of_one_warp() {
    // The second warp has 16 lanes.
    let vote = |kind, limit: i32| {
        let mut k = Build::new(48);
        let out = k.pointer("out", DType::U32, true);
        let thread = k.special(Special::Thread);
        let v = k.declare("v", if kind == VoteKind::Ballot { DType::U32 } else { DType::Bool }, None);
        k.push(Stmt::Vote { var: v, kind, value: less(thread.clone(), int(limit)) });
        k.push(store(of(DType::U32, global(out, thread)), Expr::Cast(DType::U32, Box::new(Expr::Var(v)))));
        let all = launch(&k.done(), 1, &[Given::Raw(192)]).i32(0);
        assert!(all[..32].iter().all(|v| *v == all[0]) && all[32..].iter().all(|v| *v == all[32]), "{all:?}");
        (all[0], all[32])
    };
    assert_eq!(vote(VoteKind::Ballot, 35), (-1, 7));
    assert_eq!(vote(VoteKind::Ballot, 3), (7, 0));
    assert_eq!(vote(VoteKind::Any, 33), (1, 1));
    assert_eq!(vote(VoteKind::Any, 32), (1, 0));
    assert_eq!(vote(VoteKind::All, 48), (1, 1));
    assert_eq!(vote(VoteKind::All, 47), (1, 0));
}

#[test]
fn lanes_of_one_warp_are_matched_by_their_lowest_bits() {
    let matched = |bits: u32| {
        let mut k = Build::new(48);
        let out = k.pointer("out", DType::U32, true);
        let thread = k.special(Special::Thread);
        let v = k.declare("v", DType::U32, None);
        k.push(Stmt::Vote { var: v, kind: VoteKind::Match(bits), value: thread.clone() });
        k.push(store(of(DType::U32, global(out, thread)), Expr::Var(v)));
        launch(&k.done(), 1, &[Given::Raw(192)]).i32(0)
    };
    for bits in [1, 3, 5, 32] {
        let key = |thread: i64| thread & ((1 << bits) - 1);
        let expected = (0..48).map(|t| {
            let warp = if t < 32 { 0..32 } else { 32..48 };
            warp.filter(|l| key(*l) == key(t)).fold(0u32, |all, l| all | 1 << (l % 32)) as i32
        });
        assert_eq!(matched(bits), expected.collect::<Vec<_>>(), "{bits} bits");
    }
}

/// Every block writes a number, all meet, every block reads its neighbour's.
pub fn neighbours(barrier: Barrier) -> Kernel {
    let mut k = Build::new(64);
    let (parts, out) = (k.pointer("parts", DType::I32, true), k.pointer("out", DType::I32, true));
    let (thread, block, grid) = (k.special(Special::Thread), k.special(Special::Block), k.special(Special::GridDim));
    let at = |p, i| of(DType::I32, global(p, i));
    let first = k.bind("first", equal(thread, int(0)));
    k.push(store_when(at(parts, block.clone()), block.clone(), first.clone()));
    if matches!(barrier, Barrier::Grid { .. }) {
        k.workspace("meetings");
    }
    k.push(Stmt::Barrier(barrier));
    let next = load_when(at(parts, rem(add(block.clone(), int(1)), grid)), first.clone());
    k.push(store_when(at(out, block), next, first));
    k.kernel.launch.cooperative = matches!(barrier, Barrier::Grid { .. });
    k.kernel.launch.cluster = if barrier == Barrier::Cluster { 2 } else { 1 };
    k.done()
}

/// Every block leaves a number in its shared memory, and reads that of its neighbour in the cluster.
pub fn shared_with_neighbours(blocks: u32) -> Kernel {
    let mut k = Build::new(64);
    let out = k.pointer("out", DType::I32, true);
    let left = k.array("left", DType::I32, 1);
    let (thread, block) = (k.special(Special::Thread), k.special(Special::Block));
    let of = |index| Place { space: shared(left, int(0)).space, dtype: DType::I32, index };
    let first = k.bind("first", equal(thread, int(0)));
    let number = k.bind("number", rem(block.clone(), int(blocks as i32)));
    let next = k.bind("next", rem(add(number, int(1)), int(blocks as i32)));
    k.push(store_when(of(int(0)), block.clone(), first.clone()));
    k.push(Stmt::Barrier(Barrier::Cluster));
    let found = k.var("found", DType::I32, None);
    k.push(Stmt::Declare { var: found, init: None });
    k.push(Stmt::LoadFromBlock { var: found, place: of(int(0)), block: next });
    k.push(Stmt::Barrier(Barrier::Cluster));
    let to = Place { dtype: DType::I32, ..global(out, block) };
    k.push(store_when(to, Expr::Var(found), first));
    k.kernel.launch.cluster = blocks;
    k.done()
}

#[test]
fn blocks_of_a_cluster_read_one_another() {
    for seed in 0..8 {
        let run = |blocks: u32, grid: u32| launch_seeded(&shared_with_neighbours(blocks), grid, &[Given::Raw(4 * grid as usize)], seed);
        assert_eq!(run(2, 4).unwrap_or_else(|t| panic!("{t}")).i32(0), [1, 0, 3, 2]);
        assert_eq!(run(4, 4).unwrap_or_else(|t| panic!("{t}")).i32(0), [1, 2, 3, 0]);
        let t = run(4, 6).map(|_| ()).expect_err("a grid of one cluster and a half");
        assert!(t.to_string().contains("a grid of 6 blocks is not made of clusters of 4"), "{t}");
    }
}

#[test]
fn blocks_meet() {
    for seed in 0..8 {
        let run = |k: &Kernel, grid: u32| {
            let bytes = 4 * grid as usize;
            let given = [Given::Raw(bytes), Given::Raw(bytes), Given::Raw(4)];
            launch_seeded(k, grid, &given[..k.params.len()], seed).map(|r| r.i32(1))
        };
        assert_eq!(run(&neighbours(Barrier::Grid { counter: 2 }), 5).unwrap_or_else(|t| panic!("{t}")), [1, 2, 3, 4, 0]);
        assert_eq!(run(&neighbours(Barrier::Cluster), 2).unwrap_or_else(|t| panic!("{t}")), [1, 0]);
        // Clusters of two don't order all four blocks, and block barriers order none.
        for (barrier, grid) in [(Barrier::Cluster, 4), (Barrier::Block, 2)] {
            let t = run(&neighbours(barrier), grid).expect_err("a trap");
            assert!(matches!(t.kind.name(), "race" | "uninitialised"), "{t}");
        }
    }
}

#[test]
fn named_barriers_order_the_warps_that_meet() {
    // Warp 0 fills a buffer for warp 1; warps 2 and 3 pass by.
    let mut k = Build::new(128);
    let y = k.pointer("y", DType::F32, true);
    let s = k.array("s", DType::F32, 32);
    let (lane, warp) = (k.special(Special::Lane), k.special(Special::Warp));
    let meet = Stmt::Barrier(Barrier::Named { id: 1, threads: 64 });
    let fill = vec![store(shared(s, lane.clone()), float(2.0)), meet.clone()];
    let reversed = add(int(31), mul(lane.clone(), int(-1)));
    let drain = vec![meet, store(global(y, lane), load(shared(s, reversed)))];
    k.push(when(equal(warp.clone(), int(0)), fill));
    k.push(when(equal(warp, int(1)), drain));
    let k = k.done();
    for seed in 0..8 {
        let run = launch_seeded(&k, 1, &[Given::Raw(128)], seed).unwrap_or_else(|t| panic!("{t}"));
        assert_eq!(run.f32(0), [2.0; 32]);
    }
}
