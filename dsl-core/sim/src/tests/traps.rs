//! Every kind of trap, by a kernel that is right but for one thing.

use super::build::*;
use super::kernels::{
    arriving, bulk, double_buffer, last_block, numbers, reduction, shared_with_neighbours, transpose, vector_add, vectors,
};
use crate::{Trap, TrapKind};
use girih_ir::simt::{Barrier, CacheHint, Expr, Kernel, ShuffleKind, Special, Stmt, VoteKind};
use girih_ir::types::{AtomicOp, BinaryOp, DType, MemoryOrder, Scope};

/// Removes the statement of that number (in text order) among those that `wanted` picks.
fn without(kernel: &Kernel, number: usize, wanted: fn(&Stmt) -> bool) -> Kernel {
    fn walk(stmts: &mut Vec<Stmt>, left: &mut usize, wanted: fn(&Stmt) -> bool) -> bool {
        let mut i = 0;
        while i < stmts.len() {
            if wanted(&stmts[i]) {
                if *left == 0 {
                    stmts.remove(i);
                    return true;
                }
                *left -= 1;
            }
            let found = match &mut stmts[i] {
                Stmt::If { then, otherwise, .. } => walk(then, left, wanted) || walk(otherwise, left, wanted),
                Stmt::For { body, .. } => walk(body, left, wanted),
                Stmt::While { header, body, .. } => walk(header, left, wanted) || walk(body, left, wanted),
                _ => false,
            };
            if found {
                return true;
            }
            i += 1;
        }
        false
    }
    let mut k = kernel.clone();
    let mut left = number;
    assert!(walk(&mut k.body, &mut left, wanted), "nothing to remove");
    k
}

fn is_barrier(s: &Stmt) -> bool {
    matches!(s, Stmt::Barrier(_))
}

fn expect(name: &str, trap: &Trap) {
    assert_eq!(trap.kind.name(), name, "{trap}");
}

#[test]
fn missing_barriers() {
    let x = numbers(1024);
    let io = [Given::F32(&x), Given::Raw(4096)];
    race(&without(&transpose(33), 0, is_barrier), 1, &io);
    // The last barrier orders nothing: the threads behind it read what they wrote themselves.
    for n in 0..3 {
        race(&without(&reduction(), n, is_barrier), 4, &[Given::F32(&x), Given::F32(&[0.0])]);
    }
    let io = [Given::F32(&x[..256]), Given::Raw(1024)];
    race(&without(&double_buffer(), 0, is_barrier), 1, &io);
    let t = race(&without(&double_buffer(), 1, is_barrier), 1, &io);
    expect("race", &t);
    assert!(t.to_string().contains("stage[") && t.thread.is_some(), "{t}");
    // Without the first barrier a thread may wait for an mbarrier that is not there yet.
    for n in 0..2 {
        race(&without(&bulk(), n, is_barrier), 1, &[Given::F32(&x[..192]), Given::Raw(768)]);
    }
}

#[test]
fn missing_barriers_of_clusters() {
    for seed in 0..16 {
        let found = |n: usize| {
            let mutant = without(&shared_with_neighbours(4), n, is_barrier);
            launch_seeded(&mutant, 8, &[Given::Raw(32)], seed).map(|_| ()).expect_err("a trap")
        };
        // Nothing orders the write before the read, whichever comes first.
        let t = found(0);
        assert!(matches!(t.kind.name(), "race" | "uninitialised" | "ended"), "{t}");
        // A block ends while another one may still read what it has left, whichever comes first.
        let t = found(1);
        assert!(t.kind.name() == "ended" && t.to_string().contains("load left"), "{t}");
    }
}

#[test]
fn a_cluster_has_so_many_blocks() {
    let mut k = shared_with_neighbours(2);
    for stmt in &mut k.body {
        if let Stmt::LoadFromBlock { block, .. } = stmt {
            *block = int(2);
        }
    }
    let t = trap(&k, 2, &[Given::Raw(8)]);
    assert!(t.to_string().contains("a cluster of 2 blocks has no block 2"), "{t}");
}

#[test]
fn missing_waits() {
    let x = numbers(256);
    let io = [Given::F32(&x), Given::Raw(1024)];
    let t = trap(&without(&double_buffer(), 0, |s| matches!(s, Stmt::AsyncWait { .. })), 1, &io);
    expect("race", &t);
    assert!(t.to_string().contains("asynchronous write"), "{t}");
    expect("race", &trap(&without(&double_buffer(), 1, |s| matches!(s, Stmt::AsyncCommit)), 1, &io));
    let io = [Given::F32(&x[..192]), Given::Raw(768)];
    race(&without(&bulk(), 0, |s| matches!(s, Stmt::MbarrierWait { .. })), 1, &io);
    expect("deadlock", &trap(&without(&bulk(), 0, |s| matches!(s, Stmt::BulkCopy { .. })), 1, &io));
    expect("deadlock", &trap(&without(&bulk(), 0, |s| matches!(s, Stmt::MbarrierArrive { .. })), 1, &io));
}

#[test]
fn arrivals_of_copies_speak_of_copies_only() {
    let x = numbers(64);
    let io = [Given::F32(&x), Given::Raw(256)];
    let t = race(&without(&arriving(), 0, |s| matches!(s, Stmt::MbarrierWait { .. })), 1, &io);
    assert!(t.to_string().contains("stage["), "{t}");
    expect("deadlock", &trap(&without(&arriving(), 0, |s| matches!(s, Stmt::AsyncArrive { .. })), 1, &io));
    // A store is no copy: its reader has to wait for a release.
    let mut stored = arriving();
    for stmt in &mut stored.body {
        if let Stmt::AsyncCopy { shared, global, .. } = stmt.clone() {
            *stmt = store(shared, load(global));
        }
    }
    race(&stored, 1, &io);
}

#[test]
fn missing_predicate() {
    let mut k = vector_add();
    let Some(Stmt::Store { predicate, .. }) = k.body.last_mut() else { panic!("the kernel ends with a store") };
    *predicate = None;
    let x = numbers(65);
    let t = trap(&k, 2, &[Given::F32(&x), Given::F32(&x), Given::Raw(260), Given::Scalar(65)]);
    expect("bounds", &t);
    assert!(matches!(&t.kind, TrapKind::OutOfBounds { memory, element: 65, .. } if memory == "c"), "{t}");
    assert_eq!((t.block, t.thread), (Some(1), Some(1)));
}

#[test]
fn uninitialised_reads() {
    let x = numbers(64);
    let io = [Given::F32(&x), Given::Raw(256), Given::Raw(256), Given::Scalar(64)];
    let t = trap(&vector_add(), 1, &io);
    assert!(matches!(&t.kind, TrapKind::Uninitialised { what } if what.starts_with("b[")), "{t}");

    let t = trap(&without(&transpose(33), 0, |s| matches!(s, Stmt::For { .. })), 1, &[Given::F32(&numbers(1024)), Given::Raw(4096)]);
    assert!(t.to_string().contains("uninitialised: tile["), "{t}");

    let t = trap(&without(&vectors(0), 0, |s| matches!(s, Stmt::LoadVector { .. })), 1, &[Given::F32(&numbers(128)), Given::Raw(512)]);
    assert!(t.to_string().contains("uninitialised: v%1[0]"), "{t}");

    let mut k = Build::new(32);
    let out = k.pointer("out", DType::F32, true);
    let thread = k.special(Special::Thread);
    let v = k.declare("v", DType::F32, None);
    k.push(when(less(thread.clone(), int(5)), vec![Stmt::Assign { var: v, index: None, value: float(1.0) }]));
    k.push(store(global(out, thread), Expr::Var(v)));
    let t = trap(&k.done(), 1, &[Given::Raw(128)]);
    expect("uninitialised", &t);
    assert_eq!(t.thread, Some(5));
}

/// Two arrays on the same bytes: what one holds is gone when the other is written.
#[test]
fn a_byte_belongs_to_the_array_it_was_written_as() {
    let exchange = |again: bool| {
        let mut k = Build::new(32);
        let out = k.pointer("out", DType::F32, true);
        let (first, second) = (k.array("first", DType::F32, 32), k.array("second", DType::F32, 32));
        k.kernel.shared[second as usize].at = Some(64);
        let thread = k.special(Special::Thread);
        k.push(store(shared(first, thread.clone()), float(1.0)));
        k.push(Stmt::Barrier(Barrier::Block));
        k.push(store(shared(second, thread.clone()), float(2.0)));
        k.push(Stmt::Barrier(Barrier::Block));
        k.push(store(global(out, thread.clone()), load(shared(if again { first } else { second }, thread))));
        k.done()
    };
    launch(&exchange(false), 1, &[Given::Raw(128)]);
    let t = trap(&exchange(true), 1, &[Given::Raw(128)]);
    assert!(t.to_string().contains("uninitialised: first[16], where `second` was written since"), "{t}");
    assert_eq!(t.thread, Some(16));
}

#[test]
fn misaligned_vectors() {
    let x = numbers(129);
    expect("misaligned", &trap(&vectors(1), 1, &[Given::F32(&x), Given::Raw(516)]));
}

#[test]
fn divergent_barriers_and_shuffles() {
    let mut k = Build::new(64);
    let thread = k.special(Special::Thread);
    k.push(when(less(thread.clone(), int(40)), vec![Stmt::Barrier(Barrier::Block)]));
    expect("divergent", &trap(&k.kernel, 1, &[]));
    // Whole warps, but not the same barrier.
    let other = Stmt::If {
        condition: less(thread.clone(), int(32)),
        then: vec![Stmt::Barrier(Barrier::Block)],
        otherwise: vec![Stmt::Barrier(Barrier::Block)],
    };
    *k.kernel.body.last_mut().expect("a body") = other;
    expect("divergent", &trap(&k.kernel, 1, &[]));
    // One warp finishes while the other waits.
    *k.kernel.body.last_mut().expect("a body") = when(less(thread.clone(), int(32)), vec![Stmt::Barrier(Barrier::Block)]);
    expect("divergent", &trap(&k.kernel, 1, &[]));

    let v = k.var("v", DType::I32, None);
    let shuffle = Stmt::Shuffle { var: v, value: thread.clone(), kind: ShuffleKind::Xor, operand: int(1), width: 32 };
    *k.kernel.body.last_mut().expect("a body") = Stmt::Declare { var: v, init: None };
    let lanes = thread.clone();
    k.push(when(less(thread, int(3)), vec![shuffle.clone()]));
    expect("divergent", &trap(&k.kernel, 1, &[]));
    let any = k.var("any", DType::Bool, None);
    let vote = Stmt::Vote { var: any, kind: VoteKind::Any, value: less(lanes.clone(), int(1)) };
    *k.kernel.body.last_mut().expect("a body") = when(less(lanes.clone(), int(3)), vec![Stmt::Declare { var: any, init: None }, vote]);
    expect("divergent", &trap(&k.kernel, 1, &[]));
    let sum = k.var("sum", DType::I32, None);
    let reduce = Stmt::WarpReduce { var: sum, op: BinaryOp::Add, value: lanes.clone() };
    *k.kernel.body.last_mut().expect("a body") = when(less(lanes, int(3)), vec![Stmt::Declare { var: sum, init: None }, reduce]);
    expect("divergent", &trap(&k.kernel, 1, &[]));
    *k.kernel.body.last_mut().expect("a body") = shuffle;
    k.kernel.launch.block = 63;
    expect("inactive lane", &trap(&k.kernel, 1, &[]));
}

#[test]
fn deadlock_between_named_barriers() {
    let mut k = Build::new(64);
    let warp = k.special(Special::Warp);
    let at = |id| Stmt::Barrier(Barrier::Named { id, threads: 64 });
    k.push(Stmt::If { condition: equal(warp, int(0)), then: vec![at(1)], otherwise: vec![at(2)] });
    let t = trap(&k.done(), 1, &[]);
    let TrapKind::Deadlock { waiting } = &t.kind else { panic!("{t}") };
    assert_eq!(waiting.len(), 2, "{t}");
}

#[test]
fn endless_loops_run_out_of_fuel() {
    let mut k = Build::new(32);
    let n = k.var("n", DType::I32, None);
    k.push(Stmt::Declare { var: n, init: Some(int(0)) });
    let body = vec![Stmt::Assign { var: n, index: None, value: add(Expr::Var(n), int(1)) }];
    k.push(Stmt::While { header: vec![], condition: less(int(-1), int(0)), body });
    expect("fuel", &trap(&k.done(), 1, &[]));
}

#[test]
fn a_warp_may_get_no_fuel_at_all() {
    let mut k = Build::new(32);
    k.special(Special::Lane);
    let options = crate::Options { fuel: 0, ..Default::default() };
    let run = crate::simulate(&crate::Program::decode(&k.done()), 1, &[], &mut crate::Memory::new(), &options);
    assert!(matches!(run.expect_err("no fuel").kind, TrapKind::FuelExhausted { fuel: 0 }));
}

#[test]
fn races_within_a_warp() {
    // Neighbours exchange through shared memory; a warp barrier orders it, nothing else does.
    let mut k = Build::new(32);
    let y = k.pointer("y", DType::F32, true);
    let s = k.array("s", DType::F32, 32);
    let lane = k.special(Special::Lane);
    k.push(store(shared(s, lane.clone()), float(1.0)));
    k.push(Stmt::Barrier(Barrier::Warp));
    k.push(store(global(y, lane.clone()), load(shared(s, rem(add(lane.clone(), int(1)), int(32))))));
    let k = k.done();
    launch(&k, 1, &[Given::Raw(128)]);
    expect("race", &trap(&without(&k, 0, is_barrier), 1, &[Given::Raw(128)]));

    let mut k = Build::new(32);
    let y = k.pointer("y", DType::U8, true);
    let lane = k.special(Special::Lane);
    let byte = |x: Expr| Expr::Cast(DType::U8, Box::new(x));
    k.push(store(of(DType::U8, global(y, lane.clone())), byte(lane.clone())));
    launch(&k.kernel, 1, &[Given::Raw(32)]);
    *k.kernel.body.last_mut().expect("a body") = store(of(DType::U8, global(y, div(lane.clone(), int(2)))), byte(lane));
    let t = trap(&k.done(), 1, &[Given::Raw(32)]);
    assert!(t.to_string().contains("race on y[0]: this write and a write by block 0 thread 0"), "{t}");
}

#[test]
fn races_between_blocks() {
    let mut k = Build::new(32);
    let y = k.pointer("y", DType::F32, true);
    let (thread, block) = (k.special(Special::Thread), k.special(Special::Block));
    let n = k.bind("n", int(32));
    let step = k.bind("step", mul(block.clone(), n));
    k.push(store(global(y, add(step.clone(), thread.clone())), float(1.0)));
    let mut k = k.done();
    launch(&k, 4, &[Given::Raw(512)]);
    // The next block's first element is overwritten.
    let over = add(add(step, thread.clone()), rem(add(thread, int(1)), int(2)));
    *k.body.last_mut().expect("a body") = store(global(y, over), float(1.0));
    expect("race", &trap(&k, 4, &[Given::Raw(516)]));
    let relaxed = last_block(MemoryOrder::Relaxed);
    expect("race", &trap(&relaxed, 6, &[Given::Raw(24), Given::I32(&[0]), Given::Raw(4)]));
    // Release alone is not enough: who reads must acquire.
    expect("race", &trap(&last_block(MemoryOrder::Release), 6, &[Given::Raw(24), Given::I32(&[0]), Given::Raw(4)]));
}

#[test]
fn atomics_among_too_few() {
    let mut k = last_block(MemoryOrder::AcquireRelease);
    let Some(Stmt::If { then, .. }) = k.body.last_mut() else { panic!("the kernel's last statement is an if") };
    let Stmt::Atomic { scope, .. } = &mut then[2] else { panic!("the third statement is an atomic") };
    *scope = Scope::Block;
    expect("race", &trap(&k, 6, &[Given::Raw(24), Given::I32(&[0]), Given::Raw(4)]));
}

#[test]
fn lost_updates() {
    let count = |atomic: bool| {
        let mut k = Build::new(64);
        let y = k.pointer("y", DType::I32, true);
        let place = of(DType::I32, global(y, int(0)));
        if atomic {
            k.push(Stmt::Atomic {
                result: None,
                op: AtomicOp::Add,
                place,
                value: int(1),
                expected: None,
                predicate: None,
                scope: Scope::Device,
                order: MemoryOrder::Relaxed,
            });
        } else {
            k.push(store(place.clone(), add(load(place), int(1))));
        }
        k.done()
    };
    assert_eq!(launch(&count(true), 3, &[Given::I32(&[0])]).i32(0), [192]);
    expect("race", &trap(&count(false), 3, &[Given::I32(&[0])]));
}

#[test]
fn elements_outside_of_an_array() {
    let mut k = Build::new(32);
    let thread = k.special(Special::Thread);
    let a = k.var("a", DType::I32, Some(4));
    k.push(Stmt::Declare { var: a, init: Some(int(0)) });
    k.push(Stmt::Assign { var: a, index: Some(thread), value: int(1) });
    let t = trap(&k.done(), 1, &[]);
    assert_eq!(t.thread, Some(4), "{t}");
    expect("element", &t);
}

#[test]
fn traps_say_where() {
    let mut k = Build::new(32);
    let x = k.pointer("x", DType::F32, true);
    let thread = k.special(Special::Thread);
    k.push(Stmt::Comment("store past the end".into()));
    let (predicate, cache) = (None, CacheHint::Default);
    k.push(Stmt::Store { place: global(x, add(thread, int(1))), value: float(0.0), predicate, cache });
    let t = trap(&k.done(), 1, &[Given::Raw(128)]);
    let text = t.to_string();
    assert!(text.contains("out of bounds: 4 bytes at element 32 of x, which has 128 bytes"), "{text}");
    assert!(text.contains("at block 0 thread 31") && text.contains("below `// store past the end`"), "{text}");
}
