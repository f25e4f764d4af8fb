//! Warp groups that take turns.

use super::build::*;
use girih_ir::simt::{Barrier, Kernel, Special, Stmt};
use girih_ir::types::DType;

const PASS: Stmt = Stmt::Barrier(Barrier::PassTurn { first: 2, groups: 2 });
const AWAIT: Stmt = Stmt::Barrier(Barrier::AwaitTurn { first: 2, groups: 2 });

/// Two groups count three turns each. The last group does `begin` before them, the first one `end` behind them.
fn counted(begin: Vec<Stmt>, end: Vec<Stmt>) -> Kernel {
    let mut k = Build::new(256);
    let y = k.pointer("y", DType::F32, true);
    let thread = k.special(Special::Thread);
    let mut is = |group: i32| equal(div(k.special(Special::Thread), int(128)), int(group));
    let (last, first) = (is(1), is(0));
    k.push(when(last, begin));
    k.push(store(global(y, thread.clone()), float(0.0)));
    let count = store(global(y, thread.clone()), add(load(global(y, thread)), float(1.0)));
    (0..3).for_each(|_| [AWAIT, count.clone(), PASS].into_iter().for_each(|s| k.push(s)));
    k.push(when(first, end));
    k.done()
}

#[test]
fn groups_take_turns() {
    let k = counted(vec![PASS], vec![AWAIT]);
    for seed in 0..8 {
        let run = launch_seeded(&k, 1, &[Given::Raw(1024)], seed).unwrap_or_else(|t| panic!("{t}"));
        assert_eq!(run.f32(0), [3.0; 256]);
    }
}

#[test]
fn somebody_begins() {
    let t = trap(&counted(vec![], vec![]), 1, &[Given::Raw(1024)]);
    assert_eq!(t.kind.name(), "deadlock", "{t}");
}

#[test]
fn a_turn_is_passed_on_once() {
    let t = trap(&counted(vec![PASS, PASS], vec![]), 1, &[Given::Raw(1024)]);
    assert_eq!(t.kind.name(), "misuse", "{t}");
}
