//! Words that blocks leave for the last block of the grid.

use super::build::*;
use crate::Trap;
use girih_ir::simt::{Barrier, Expr, Kernel, Special, Stmt};
use girih_ir::types::{DType, Literal};

const WORDS: usize = 0;
const BESIDE: usize = 1;
const OUT: usize = 2;
/// More than a warp has lanes.
const GRID: u32 = 40;

/// What is wrong with a kernel of [`passed`].
#[derive(Clone, Copy, PartialEq, Debug)]
enum Wrong {
    Nothing,
    /// The last block leaves its words as they are.
    NotEmptied,
    /// The first blocks leave nothing.
    NotStored,
    /// Every thread of a block stores its word.
    StoredByAll,
    /// Block 0 takes the words.
    FirstWaits,
    /// A word is left by an ordinary store.
    PlainStore,
    /// Words are read without waiting.
    PlainLoad,
    /// Words are emptied by an ordinary store.
    PlainZero,
    /// The last block reads what another one stored beside its word.
    Beside,
}

fn long(value: i64) -> Expr {
    Expr::Literal(Literal::from_i64(DType::U64, value))
}

/// Each block leaves its number plus one in a word, and the last one stores to `out` what it takes.
fn passed(wrong: Wrong) -> Kernel {
    let mut k = Build::new(64);
    k.pointer("words", DType::U64, true);
    k.pointer("beside", DType::F32, true);
    k.pointer("out", DType::I32, true);
    let (thread, block, grid) = (k.special(Special::Thread), k.special(Special::Block), k.special(Special::GridDim));
    let word = |index| of(DType::U64, global(WORDS, index));
    let value = Expr::Cast(DType::U64, Box::new(add(block.clone(), int(1))));
    let first = equal(thread.clone(), int(0));
    k.push(store_when(global(BESIDE, block.clone()), float(1.0), first.clone()));
    let chosen = match wrong {
        Wrong::StoredByAll => None,
        Wrong::NotStored => Some(less(mul(thread.clone(), int(100)), add(block.clone(), int(-3)))),
        _ => Some(first.clone()),
    };
    k.push(match wrong {
        Wrong::PlainStore => store_when(word(block.clone()), value, first),
        _ => Stmt::StoreRelaxed { place: word(block.clone()), value, predicate: chosen },
    });
    let (i, part) = (k.var("i", DType::I32, None), k.var("part", DType::U64, None));
    let at = || word(Expr::Var(i));
    let mut body = vec![Stmt::Declare { var: part, init: Some(long(0)) }];
    body.push(match wrong {
        Wrong::PlainLoad => Stmt::Assign { var: part, index: None, value: load(at()) },
        _ => Stmt::LoadRelaxed { var: part, place: at(), wait: true, predicate: None },
    });
    match wrong {
        Wrong::NotEmptied => {}
        Wrong::PlainZero => body.push(store(at(), long(0))),
        _ => body.push(Stmt::StoreRelaxed { place: at(), value: long(0), predicate: None }),
    }
    let taken = Expr::Cast(DType::I32, Box::new(Expr::Var(part)));
    let beside = Expr::Cast(DType::I32, Box::new(load(global(BESIDE, Expr::Var(i)))));
    let taken = if wrong == Wrong::Beside { mul(taken, beside) } else { taken };
    body.push(store(of(DType::I32, global(OUT, Expr::Var(i))), taken));
    let last = if wrong == Wrong::FirstWaits { int(0) } else { add(grid.clone(), int(-1)) };
    let all = Stmt::For { var: i, start: thread, end: grid, step: int(64), unroll: false, body };
    k.push(when(equal(block, last), vec![Stmt::Barrier(Barrier::Block), all]));
    k.done()
}

fn given() -> [Given<'static>; 3] {
    [Given::I32(&[0; 2 * GRID as usize]), Given::Raw(4 * GRID as usize), Given::Raw(4 * GRID as usize)]
}

fn trapped(wrong: Wrong) -> Trap {
    trap(&passed(wrong), GRID, &given())
}

#[test]
fn the_last_block_waits_for_words() {
    for seed in 0..8 {
        let run = launch_seeded(&passed(Wrong::Nothing), GRID, &given(), seed).unwrap_or_else(|t| panic!("{t}"));
        assert_eq!(run.i32(OUT), (1..=GRID as i32).collect::<Vec<_>>());
        assert!(run.i32(WORDS).iter().all(|w| *w == 0), "words are as the next launch needs them");
    }
}

#[test]
fn words_order_nothing_but_themselves() {
    for wrong in [Wrong::PlainStore, Wrong::PlainLoad, Wrong::PlainZero, Wrong::Beside] {
        let trap = trapped(wrong);
        assert_eq!(trap.kind.name(), "race", "{wrong:?}: {trap}");
    }
}

#[test]
fn waits_and_words_keep_their_rules() {
    for (wrong, says) in [
        (Wrong::NotEmptied, "words[0] is not zero when the launch ends: the next one would not wait for it"),
        (Wrong::NotStored, "deadlock: block 39 warp 0 waits at `part%4 = wait nonzero(part%4) words[i%3];`"),
        (Wrong::StoredByAll, "is stored again before anybody has taken it"),
        (Wrong::FirstWaits, "a block waits for another one: only the last of the grid may"),
    ] {
        let trap = trapped(wrong).to_string();
        assert!(trap.contains(says), "{wrong:?}: {trap}");
    }
}
