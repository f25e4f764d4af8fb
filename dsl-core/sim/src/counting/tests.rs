//! What is counted beside what the simulator does.

use super::latency::WORD;
use super::{Contents, Count, CountArg, Fuel, Slice, Uncounted};
use crate::tests::build::*;
use crate::{Class, Program};
use girih_ir::simt::{Barrier, Expr, Kernel, Place, ShuffleKind, Special, Stmt};
use girih_ir::types::{AtomicOp, BinaryOp, DType, Literal, MemoryOrder, Scope};

fn count(program: &Program, grid: u32, args: &[CountArg], contents: &dyn Contents, fuel: u64) -> Result<Count, Uncounted> {
    super::count((program, &Slice::of(program)), grid, args, contents, fuel.into())
}

/// Numbers of a counted launch and of a simulated one.
fn both(kernel: &Kernel, grid: u32, given: &[Given]) -> [Vec<f64>; 2] {
    let c = launch(kernel, grid, given).report.counters;
    let args: Vec<CountArg> = given
        .iter()
        .map(|g| match g {
            Given::F32(x) => CountArg::Pointer { offset: 0, bytes: 4 * x.len() as u64 },
            Given::I32(x) => CountArg::Pointer { offset: 0, bytes: 4 * x.len() as u64 },
            Given::Raw(n) => CountArg::Pointer { offset: 0, bytes: *n as u64 },
            Given::Scalar(x) => CountArg::Scalar(Literal::i32(*x)),
        })
        .collect();
    let own = count(&Program::decode(kernel), grid, &args, &(), 10_000_000).expect("a small launch");
    let [read, written] = own.unique_bytes();
    let counted = vec![
        own.instructions(),
        own.global_load().sectors,
        own.global_store().sectors,
        own.global_store().bytes,
        own.shared()[0].requests,
        own.shared()[0].wavefronts,
        own.shared()[0].conflicts,
        own.block_barriers(),
        read,
        written,
    ];
    let simulated = [
        c.instructions(),
        c.global_load.sectors,
        c.global_store.sectors,
        c.global_store.bytes,
        c.shared_load.requests,
        c.shared_load.wavefronts,
        c.shared_load.conflicts,
        c.block_barriers,
        c.unique_read_bytes,
        c.unique_written_bytes,
    ];
    [counted, simulated.map(|n| n as f64).to_vec()]
}

fn near([counted, simulated]: [Vec<f64>; 2], within: f64) {
    for (a, b) in counted.iter().zip(&simulated) {
        assert!((a - b).abs() <= within * b.max(1.0), "{counted:?} {simulated:?}");
    }
}

/// A block for each row, which its threads walk; the end of the row is no multiple of theirs.
fn rows(unroll: bool) -> Kernel {
    let mut k = Build::new(64);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let n = k.scalar("n", DType::I32);
    let (block, thread) = (k.special(Special::Block), k.special(Special::Thread));
    let i = k.var("i", DType::I32, None);
    let at = add(mul(block, n.clone()), Expr::Var(i));
    let body = vec![store(global(y, at.clone()), load(global(x, at)))];
    k.push(Stmt::For { var: i, start: thread, end: n, step: int(64), unroll, body });
    k.done()
}

#[test]
fn rows_are_counted_from_some_of_their_turns() {
    for n in [104, 1000, 2056] {
        let data = vec![1.0; 30 * n];
        let given = [Given::F32(&data), Given::Raw(120 * n), Given::Scalar(n as i32)];
        near(both(&rows(false), 30, &given), 0.005);
    }
}

/// Each block goes as far as its own place: work grows along the grid.
#[test]
fn what_grows_along_the_grid_is_added_up() {
    let mut k = Build::new(32);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let (block, thread) = (k.special(Special::Block), k.special(Special::Thread));
    let j = k.var("j", DType::I32, None);
    let at = add(mul(Expr::Var(j), int(32)), thread.clone());
    let own = add(mul(block.clone(), int(32)), thread);
    let body = vec![store(global(y, own), load(global(x, at)))];
    k.push(Stmt::For { var: j, start: int(0), end: add(block, int(1)), step: int(1), unroll: false, body });
    let data = vec![1.0; 60 * 32];
    near(both(&k.done(), 60, &[Given::F32(&data), Given::Raw(60 * 128)]), 0.02);
}

/// Tiles of a matrix whose ends are no whole tiles: the grid is taken apart into rows and columns.
#[test]
fn ends_of_rows_of_tiles_are_kinds_of_their_own() {
    let mut k = Build::new(32);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let (n, across) = (k.scalar("n", DType::I32), k.scalar("across", DType::I32));
    let (block, thread) = (k.special(Special::Block), k.special(Special::Thread));
    let column = add(mul(rem(block.clone(), across.clone()), int(32)), thread);
    let column = k.bind("column", column);
    let row = k.bind("row", div(block, across));
    let at = add(mul(row, n.clone()), column.clone());
    k.push(when(less(column, n), vec![store(global(y, at.clone()), load(global(x, at)))]));
    let (rows, columns) = (40, 200);
    let data = vec![1.0; rows * columns];
    let given = [Given::F32(&data), Given::Raw(4 * rows * columns), Given::Scalar(columns as i32), Given::Scalar(7)];
    near(both(&k.done(), 7 * rows as u32, &given), 0.005);
}

/// Blocks that take their tiles from the last one on, 16 rows of tiles together, of which each goes as far as its place in its row.
#[test]
fn an_order_that_falls_is_taken_apart_too() {
    let mut k = Build::new(32);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let (tiles, group) = (k.scalar("tiles", DType::I32), k.scalar("group", DType::I32));
    let (block, thread) = (k.special(Special::Block), k.special(Special::Thread));
    let last = k.bind("last", add(mul(block, int(-1)), add(tiles, int(-1))));
    let in_group = k.bind("in_group", rem(last.clone(), group));
    let place = k.bind("place", div(in_group, int(16)));
    let j = k.var("j", DType::I32, None);
    let at = add(mul(Expr::Var(j), int(32)), thread.clone());
    let body = vec![store(global(y, add(mul(last, int(32)), thread)), load(global(x, at)))];
    k.push(Stmt::For { var: j, start: int(0), end: add(place, int(1)), step: int(1), unroll: false, body });
    let data = vec![1.0; 32 * 32];
    let given = [Given::F32(&data), Given::Raw(1024 * 128), Given::Scalar(1024), Given::Scalar(512)];
    near(both(&k.done(), 1024, &given), 0.02);
}

/// Queries of which each sees the keys before it, and chunks of keys: blocks of the one see more the later they come, of the other the sooner.
#[test]
fn what_two_axes_decide_together_is_run_in_pairs() {
    let mut k = Build::new(32);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let chunks = k.scalar("chunks", DType::I32);
    let (block, thread) = (k.special(Special::Block), k.special(Special::Thread));
    let chunk = k.bind("chunk", rem(block.clone(), chunks.clone()));
    let query = k.bind("query", div(block.clone(), chunks));
    let j = k.var("j", DType::I32, None);
    let at = add(mul(Expr::Var(j), int(32)), thread.clone());
    let body = vec![store(global(y, add(mul(block, int(32)), thread)), load(global(x, at)))];
    let turns = vec![Stmt::For { var: j, start: int(0), end: int(50), step: int(1), unroll: false, body }];
    k.push(when(less(mul(chunk, int(4)), query), turns));
    let data = vec![1.0; 50 * 32];
    let given = [Given::F32(&data), Given::Raw(400 * 128), Given::Scalar(10)];
    near(both(&k.done(), 400, &given).map(|numbers| numbers[..4].to_vec()), 0.05);
}

/// What decides where is stored is read from memory: without it everything goes to one place, and the count says so.
#[test]
fn places_that_data_decide_are_told_of() {
    let mut k = Build::new(32);
    let (x, y) = (k.pointer("x", DType::I32, false), k.pointer("y", DType::F32, true));
    let thread = k.special(Special::Thread);
    let at = k.bind("at", load(of(DType::I32, global(x, thread))));
    k.push(store(global(y, at), float(1.0)));
    let program = Program::decode(&k.done());
    assert_eq!(Slice::of(&program).contents(), [x]);
    let args = [CountArg::Pointer { offset: 0, bytes: 128 }, CountArg::Pointer { offset: 0, bytes: 128 }];
    let unknown = count(&program, 1, &args, &(), 1000).expect("a small launch");
    assert!(unknown.guessed && unknown.global_store().sectors == 1.0, "{unknown:?}");
    struct Apart;
    impl Contents for Apart {
        fn load(&self, _: usize, at: u64, _: usize) -> Option<u64> {
            Some(at / 4 * 8)
        }
    }
    let known = count(&program, 1, &args, &Apart, 1000).expect("a small launch");
    assert!(!known.guessed && known.global_store().sectors == 32.0, "{known:?}");
    assert_eq!(count(&program, 1, &args, &Apart, 3), Err(Uncounted::TooMuch));
    assert!(Slice::of(&Program::decode(&rows(false))).contents().is_empty());
}

/// A load that the next one waits for takes longer than two beside each other; a turn begins behind the one before.
#[test]
fn chains_are_as_long_as_what_waits_for_each_other() {
    let chain = |dependent: bool, turns: i32| {
        let mut k = Build::new(32);
        let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
        let thread = k.special(Special::Thread);
        let (i, sum) = (k.var("i", DType::I32, None), k.var("sum", DType::F32, None));
        k.push(Stmt::Declare { var: sum, init: Some(float(0.0)) });
        let at = add(mul(Expr::Var(i), int(32)), thread.clone());
        let other = add(at.clone(), int(4096));
        let both = Expr::Binary(BinaryOp::Add, Box::new(load(global(x, at))), Box::new(load(global(x, other))));
        let value = Expr::Binary(BinaryOp::Add, Box::new(Expr::Var(sum)), Box::new(both));
        let mut body = vec![Stmt::Assign { var: sum, index: None, value }];
        if dependent {
            body.push(Stmt::Barrier(Barrier::Block));
        }
        k.push(Stmt::For { var: i, start: int(0), end: int(turns), step: int(1), unroll: false, body });
        k.push(store(global(y, thread), Expr::Var(sum)));
        let args = [CountArg::Pointer { offset: 0, bytes: 1 << 20 }, CountArg::Pointer { offset: 0, bytes: 128 }];
        count(&Program::decode(&k.done()), 1, &args, &(), 100_000).expect("a small launch").chain()
    };
    let [one, ten, hundred] = [1, 10, 100].map(|turns| chain(true, turns));
    assert!((800.0..1200.0).contains(&one), "{one}");
    assert!((9.0..10.5).contains(&(ten / one)) && (9.0..10.5).contains(&(hundred / ten)), "{one} {ten} {hundred}");
    // Compilers write out four turns at a time where these load and compute alone.
    for (turns, waiting) in [(10, ten), (100, hundred)] {
        let beside = chain(false, turns);
        assert!((3.0..4.5).contains(&(waiting / beside)), "{turns} turns: {waiting} {beside}");
    }
}

/// A loop that is written out and fills an array that decides where threads go is run whole, however long it is.
#[test]
fn arrays_that_are_needed_are_filled() {
    let mut k = Build::new(32);
    let y = k.pointer("y", DType::F32, true);
    let thread = k.special(Special::Thread);
    let a = k.declare("a", DType::I32, Some(64));
    let (i, j) = (k.var("i", DType::I32, None), k.var("j", DType::I32, None));
    let loops = |var, body| Stmt::For { var, start: int(0), end: int(64), step: int(1), unroll: true, body: vec![body] };
    k.push(loops(i, Stmt::Assign { var: a, index: Some(Expr::Var(i)), value: int(1) }));
    let zeros = k.var("zeros", DType::I32, None);
    k.push(Stmt::Declare { var: zeros, init: Some(int(0)) });
    // From the last one on: turns that are run look at what others set.
    let one = Expr::Element(a, Box::new(add(int(63), mul(int(-1), Expr::Var(j)))));
    k.push(loops(j, Stmt::Assign { var: zeros, index: None, value: add(Expr::Var(zeros), add(int(1), mul(int(-1), one))) }));
    k.push(when(less(int(0), Expr::Var(zeros)), vec![store(global(y, thread), float(1.0))]));
    let none = count(&Program::decode(&k.done()), 1, &[CountArg::Pointer { offset: 0, bytes: 128 }], &(), 100_000).expect("a small launch");
    assert_eq!(none.global_store().sectors, 0.0);
}

/// Blocks that meet all others wait for a word to go round; one block in eight that turns a hundred times is what the grid waits for.
#[test]
fn what_few_blocks_do_and_what_all_wait_for_is_told() {
    let run = |body: &dyn Fn(&mut Build, Expr, Expr)| {
        let mut k = Build::new(32);
        let y = k.pointer("y", DType::F32, true);
        let (block, thread) = (k.special(Special::Block), k.special(Special::Thread));
        k.workspace("meetings");
        k.kernel.launch.cooperative = true;
        body(&mut k, block.clone(), thread.clone());
        k.push(store(global(y, add(mul(block, int(32)), thread)), float(0.0)));
        let args = [CountArg::Pointer { offset: 0, bytes: 1 << 20 }, CountArg::Pointer { offset: 0, bytes: 4 }];
        count(&Program::decode(&k.done()), 64, &args, &(), 1_000_000).expect("a small launch")
    };
    let alone = run(&|_, _, _| {});
    let met = run(&|k, _, _| k.push(Stmt::Barrier(Barrier::Grid { counter: 1 })));
    let waits = (met.chain() - alone.chain()) / 64.0;
    assert!((1700.0..1900.0).contains(&waits), "{waits}");
    let few = run(&|k, block, thread| {
        let i = k.var("i", DType::I32, None);
        let body = vec![store(global(0, thread), float(1.0)), Stmt::Barrier(Barrier::Block)];
        let turns = vec![Stmt::For { var: i, start: int(0), end: int(100), step: int(1), unroll: false, body }];
        k.push(when(equal(rem(block, int(8)), int(0)), turns));
    });
    assert!(few.longest > 6.0 * few.chain() / 64.0 && few.longest > 2000.0, "{} {}", few.longest, few.chain());
}

/// What a block has touched before comes from its L1, what a block before it has, from the L2: no request, and a shorter chain.
#[test]
fn what_was_touched_before_is_near() {
    let twice = |apart: i32| {
        let mut k = Build::new(32);
        let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
        let (thread, block) = (k.special(Special::Thread), k.special(Special::Block));
        let first = k.bind("first", load(global(x, thread.clone())));
        // Takes the first one, so that it comes behind it.
        let far = Expr::Select(Box::new(less(first.clone(), float(0.5))), Box::new(int(apart)), Box::new(int(apart)));
        let second = k.bind("second", load(global(x, add(thread.clone(), far))));
        k.push(store(global(y, add(mul(block, int(32)), thread)), add(first, second)));
        let args = [CountArg::Pointer { offset: 0, bytes: 1 << 20 }, CountArg::Pointer { offset: 0, bytes: 1 << 20 }];
        count(&Program::decode(&k.done()), 2, &args, &(), 100_000).expect("a small launch")
    };
    let (same, other) = (twice(0), twice(4096));
    assert_eq!((same.lines(), other.lines()), (6.0, 6.0));
    // Two blocks, which load one or two lines and store one.
    assert_eq!((same.passed_on(), other.passed_on()), ([4.0, 16.0], [6.0, 24.0]));
    // The second block finds both lines in the L2.
    let waits = other.chain() - same.chain();
    assert!((900.0..1000.0).contains(&waits), "{waits}: 760 and 210 clocks");
}

/// All blocks walk the same rows, and the last one nothing else: it is no longer than the others, though it is the first that is looked at.
#[test]
fn the_last_block_finds_what_others_have_read() {
    let mut k = Build::new(32);
    let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
    let (thread, block) = (k.special(Special::Thread), k.special(Special::Block));
    let (i, sum) = (k.var("i", DType::I32, None), k.var("sum", DType::F32, None));
    k.push(Stmt::Declare { var: sum, init: Some(float(0.0)) });
    let value = add(Expr::Var(sum), load(global(x, add(mul(Expr::Var(i), int(32)), thread.clone()))));
    let body = vec![Stmt::Assign { var: sum, index: None, value }, Stmt::Barrier(Barrier::Block)];
    k.push(Stmt::For { var: i, start: int(0), end: int(100), step: int(1), unroll: false, body });
    k.push(store(global(y, add(mul(block, int(32)), thread)), Expr::Var(sum)));
    let args = [CountArg::Pointer { offset: 0, bytes: 1 << 20 }, CountArg::Pointer { offset: 0, bytes: 1 << 20 }];
    let count = count(&Program::decode(&k.done()), 1000, &args, &(), 1_000_000).expect("a small launch");
    assert!(count.behind < 0.1 * count.chain() / 1000.0, "{} behind chains of {}", count.behind, count.chain() / 1000.0);
}

/// A product that a sum takes is one operation with it, one that anything else takes is not.
#[test]
fn products_and_sums_are_one_operation() {
    let operations = |sum: bool| {
        let mut k = Build::new(32);
        let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
        let thread = k.special(Special::Thread);
        let a = k.bind("a", load(global(x, thread.clone())));
        let product = mul(a.clone(), a.clone());
        let value = if sum { add(a, product) } else { mul(a, product) };
        k.push(store(global(y, thread), value));
        let args = [CountArg::Pointer { offset: 0, bytes: 128 }; 2];
        let c = count(&Program::decode(&k.done()), 1, &args, &(), 1000).expect("a small launch");
        [Class::Fma, Class::FloatMul, Class::FloatAdd].map(|class| c.warps(class))
    };
    assert_eq!((operations(true), operations(false)), ([1.0, 0.0, 0.0], [0.0, 2.0, 0.0]));
}

/// A loop that is written out is so many copies of its body.
#[test]
fn loops_that_are_written_out_make_the_code_longer() {
    let length = |turns: i32, unroll: bool| {
        let mut k = Build::new(32);
        let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
        let thread = k.special(Special::Thread);
        let i = k.var("i", DType::I32, None);
        let at = add(mul(Expr::Var(i), int(32)), thread);
        let body = vec![store(global(y, at.clone()), load(global(x, at)))];
        k.push(Stmt::For { var: i, start: int(0), end: int(turns), step: int(1), unroll, body });
        Program::decode(&k.done()).length()
    };
    let copy = length(2, true) - length(1, true);
    assert!(copy >= 2.0 && length(9, true) - length(8, true) == copy, "{copy}");
    assert_eq!(length(8, false), length(1, false));
}

/// The barrier of a stage of four.
fn stage_barrier(full: u32, turn: Expr) -> Place {
    of(DType::U64, shared(full, rem(turn, int(4))))
}

/// Each warp copies for itself, so many turns ahead: a wait is for the copies of its own stage, and no warp waits for another one.
#[test]
fn copies_are_waited_for_by_stage() {
    let chain = |threads: u32, ahead: i32| {
        let mut k = Build::new(threads);
        let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
        let (s, full) = (k.array("stage", DType::F32, 4 * threads), k.array("full", DType::U64, 4));
        let thread = k.special(Special::Thread);
        let slot = |turn: Expr| add(mul(rem(turn, int(4)), int(threads as i32)), thread.clone());
        let copy = |turn: Expr| {
            let from = add(mul(turn.clone(), int(threads as i32)), thread.clone());
            let copy = Stmt::AsyncCopy { shared: shared(s, slot(turn.clone())), global: global(x, from), bytes: 4, predicate: None };
            [copy, Stmt::AsyncArrive { barrier: stage_barrier(full, turn) }]
        };
        (0..ahead).flat_map(|turn| copy(int(turn))).for_each(|stmt| k.push(stmt));
        let i = k.var("i", DType::I32, None);
        let mut body = copy(add(Expr::Var(i), int(ahead))).to_vec();
        body.push(Stmt::MbarrierWait { barrier: stage_barrier(full, Expr::Var(i)), parity: int(0), scope: Scope::Block });
        body.push(store(global(y, thread.clone()), load(shared(s, slot(Expr::Var(i))))));
        k.push(Stmt::For { var: i, start: int(0), end: int(40), step: int(1), unroll: false, body });
        let args = [CountArg::Pointer { offset: 0, bytes: 1 << 20 }, CountArg::Pointer { offset: 0, bytes: 1 << 20 }];
        count(&Program::decode(&k.done()), 1, &args, &(), 100_000).expect("a small launch").chain()
    };
    let [at_once, ahead] = [0, 3].map(|ahead| chain(32, ahead));
    assert!((40.0 * 800.0..42.0 * 900.0).contains(&at_once), "{at_once}: each turn waits for memory");
    // One turn in four waits; those that stand for others may be it.
    assert!((2.0..4.5).contains(&(at_once / ahead)), "{at_once} {ahead}: four copies are in flight");
    let four_warps = chain(128, 3);
    assert!((0.9..1.3).contains(&(four_warps / ahead)), "{four_warps} {ahead}");
}

/// One warp brings what another one waits for: both go on at the same time.
#[test]
fn who_copies_for_others_is_beside_them() {
    let chain = |waits: bool| {
        let mut k = Build::new(64);
        let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
        let (s, full) = (k.array("stage", DType::F32, 4 * 32), k.array("full", DType::U64, 4));
        let thread = k.special(Special::Thread);
        let (i, j) = (k.var("i", DType::I32, None), k.var("j", DType::I32, None));
        let to = shared(s, mul(rem(Expr::Var(i), int(4)), int(32)));
        let copies = vec![
            Stmt::MbarrierArrive { barrier: stage_barrier(full, Expr::Var(i)), expect: Some(int(128)) },
            Stmt::BulkCopy {
                shared: to,
                global: global(x, mul(Expr::Var(i), int(32))),
                bytes: int(128),
                barrier: stage_barrier(full, Expr::Var(i)),
            },
        ];
        let all = |var, body| Stmt::For { var, start: int(0), end: int(40), step: int(1), unroll: false, body };
        k.push(when(equal(thread.clone(), int(0)), vec![all(i, copies)]));
        // The other warp's own load takes as long as a copy.
        let own = store(global(y, thread.clone()), load(global(x, add(mul(Expr::Var(j), int(64)), add(int(1 << 16), thread.clone())))));
        let mut body = vec![own];
        if waits {
            body.insert(0, Stmt::MbarrierWait { barrier: stage_barrier(full, Expr::Var(j)), parity: int(0), scope: Scope::Block });
        }
        body.push(Stmt::Fence { scope: Scope::Device, order: MemoryOrder::AcquireRelease });
        k.push(when(less(int(31), thread), vec![all(j, body)]));
        let args = [CountArg::Pointer { offset: 0, bytes: 1 << 20 }, CountArg::Pointer { offset: 0, bytes: 1 << 20 }];
        count(&Program::decode(&k.done()), 1, &args, &(), 100_000).expect("a small launch").chain()
    };
    let (alone, beside) = (chain(false), chain(true));
    assert!(beside >= alone && beside < alone + 1500.0, "{beside} and {alone}: the first copy is waited for");
}

/// Barriers of the block, those of some of its warps, and waits for copies are told apart.
#[test]
fn each_kind_of_barrier_is_counted() {
    let mut k = Build::new(64);
    let full = k.array("full", DType::U64, 4);
    let i = k.var("i", DType::I32, None);
    k.push(Stmt::Barrier(Barrier::Block));
    let body = vec![
        Stmt::Barrier(Barrier::Named { id: 1, threads: 64 }),
        Stmt::MbarrierWait { barrier: stage_barrier(full, Expr::Var(i)), parity: int(0), scope: Scope::Block },
        Stmt::MbarrierWait { barrier: stage_barrier(full, Expr::Var(i)), parity: int(0), scope: Scope::Block },
    ];
    k.push(Stmt::For { var: i, start: int(0), end: int(10), step: int(1), unroll: false, body });
    let c = count(&Program::decode(&k.done()), 3, &[], &(), 100_000).expect("a small launch");
    // Three blocks of two warps.
    assert_eq!((c.block_barriers(), c.named_barriers(), c.phase_waits()), (6.0, 60.0, 120.0));
}

/// Blocks take their tiles by numbers that they draw from a tensor: one by one each block has its own, and where many threads of a warp draw, each
/// block is run as if it came first, and that they touch the same says nothing.
#[test]
fn blocks_that_draw_their_numbers_touch_tiles_of_their_own() {
    for (drawing, each_first) in [(1, false), (2, true)] {
        let c = drawn_by(drawing);
        assert_eq!(c.each_first, each_first);
        assert_eq!([0, 1].map(|p| c.unique(p)), [[12_800.0, 0.0], [0.0, 12_800.0]]);
    }
}

/// Of 100 blocks of a warp, each copies 32 elements: those whose number its first threads, so many, have drawn.
fn drawn_by(threads: i32) -> Count {
    let bytes = 100 * 128;
    let mut k = Build::new(32);
    let (x, y, tickets) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true), k.pointer("tickets", DType::I32, true));
    let thread = k.special(Special::Thread);
    let mine = k.declare("mine", DType::I32, None);
    k.push(Stmt::Atomic {
        result: Some(mine),
        op: AtomicOp::Add,
        place: of(DType::I32, global(tickets, int(0))),
        value: int(1),
        expected: None,
        predicate: Some(less(thread.clone(), int(threads))),
        scope: Scope::Device,
        order: MemoryOrder::Relaxed,
    });
    let first = k.declare("first", DType::I32, None);
    k.push(Stmt::Shuffle { var: first, value: Expr::Var(mine), kind: ShuffleKind::Index, operand: int(0), width: 32 });
    let at = k.bind("at", add(mul(Expr::Var(first), int(32)), thread));
    k.push(store(global(y, at.clone()), load(global(x, at))));
    let args = [bytes, bytes, 4].map(|bytes| CountArg::Pointer { offset: 0, bytes });
    count(&Program::decode(&k.done()), 100, &args, &(), 100_000).expect("a small launch")
}

/// A block leaves a word, and asks for that of the block before it until it is there: it is, as the launch leaves it.
#[test]
fn a_word_that_is_waited_for_has_arrived() {
    let mut k = Build::new(32);
    let states = k.pointer("states", DType::I32, true);
    let block = k.special(Special::Block);
    let word = k.declare("word", DType::I32, None);
    k.push(Stmt::Assign { var: word, index: None, value: int(0) });
    let atomic = |result, op, index: Expr| Stmt::Atomic {
        result,
        op,
        place: of(DType::I32, global(states, index)),
        value: int(1),
        expected: None,
        predicate: None,
        scope: Scope::Device,
        order: MemoryOrder::Relaxed,
    };
    k.push(atomic(None, AtomicOp::Exchange, block.clone()));
    let before = Expr::Binary(BinaryOp::Sub, Box::new(block), Box::new(int(1)));
    let body = vec![atomic(Some(word), AtomicOp::Load, before)];
    k.push(Stmt::While { header: vec![], condition: less(Expr::Var(word), int(1)), body });
    let program = Program::decode(&k.done());
    assert_eq!(Slice::of(&program).words(), [states]);
    struct Left;
    impl Contents for Left {
        fn load(&self, _: usize, _: u64, _: usize) -> Option<u64> {
            Some(0)
        }
        fn left(&self, _: usize, _: u64, _: usize) -> Option<u64> {
            Some(1)
        }
    }
    let args = [CountArg::Pointer { offset: 0, bytes: 4000 }];
    let c = count(&program, 1000, &args, &Left, 100_000).expect("a small launch");
    // One word is left, one is asked for.
    assert_eq!((c.global_atomic().requests, c.asks_words, c.guessed), (2000.0, true, false));
    // Each block waits for it as long as a word takes from one to another.
    assert!(c.chain() >= 1000.0 * WORD && c.chain() < 1000.0 * 3.0 * WORD, "{} clocks", c.chain());
    assert_eq!(count(&program, 1000, &args, &(), 100_000), Err(Uncounted::TooMuch));
}

/// Loops in loops in loops, of which even few turns are more than there is fuel for.
#[test]
fn few_turns_of_deep_loops_stand_for_all() {
    let mut k = Build::new(32);
    let y = k.pointer("y", DType::F32, true);
    let thread = k.special(Special::Thread);
    let turns = 40;
    let mut body = vec![store(global(y, thread), float(1.0))];
    for name in ["i", "j", "l", "m", "n"] {
        let var = k.var(name, DType::I32, None);
        body = vec![Stmt::For { var, start: int(0), end: int(turns), step: int(1), unroll: false, body }];
    }
    k.push(body.remove(0));
    let program = Program::decode(&k.done());
    let args = [CountArg::Pointer { offset: 0, bytes: 128 }];
    let run = |fuel| count(&program, 4, &args, &(), fuel).map(|c| c.instructions());
    let (all, few) = (run(100_000_000).expect("much fuel"), run(40_000).expect("little fuel"));
    assert!((0.99..1.01).contains(&(few / all)), "{few} {all}");
    assert_eq!(run(1000), Err(Uncounted::TooMuch));
    // A count that is late is given up, whatever is left.
    let late = Fuel { operations: 100_000_000, is_late: Some(&|| true) };
    assert_eq!(super::count((&program, &Slice::of(&program)), 4, &args, &(), late).map(|c| c.instructions()), Err(Uncounted::TooMuch));
}
