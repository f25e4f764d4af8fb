//! A wait that some threads run for the block is written out as its page says, and a page that lets them do more is found.

use super::pages::{broken, code, page_of, written};
use super::*;
use crate::block::{self, Told};
use girih_ir::tile::{Carry, Update};
use girih_ir::types::{AtomicOp, CompareOp, MemoryOrder, Scope};

/// `y = x` and the first of `words`, once that is not 0.
fn waiting() -> tile::Kernel {
    let mut b = Builder::new("waiting", vec![knob("T", KnobKind::Tile, &[32, 64])]);
    let (x, y) = (b.tensor("x", DType::F32, 1, false), b.tensor("y", DType::F32, 1, true));
    let words = b.tensor("words", DType::I32, 1, true);
    let (zero, first) = (b.literal(Literal::i32(0)), b.literal(Literal::from_i64(DType::I64, 0)));
    b.tiles(y, None, |b, t, _| {
        let v = b.load(x, t);
        let [inner, next, result] = [(); 3].map(|()| b.value(Ty::Scalar(DType::I32)));
        let mut condition = inner;
        let header = b.block(|b| condition = b.op(Ty::Scalar(DType::Bool), Op::Compare(CompareOp::Eq, inner, zero)));
        let update = Update { op: AtomicOp::Load, indices: vec![first], value: zero, expected: None, result: Some(next) };
        let body = vec![Stmt::Atomic { update, view: words, scope: Scope::Device, order: MemoryOrder::Acquire, loc: LOC }];
        b.push(Stmt::While { once: false, carries: vec![Carry { init: zero, inner, next, result }], header, condition, body, loc: LOC });
        let word = b.op(Ty::Scalar(DType::F32), Op::Cast(result));
        let word = b.op(Builder::tile_ty(DType::F32), Op::Splat(word));
        let sum = b.binary(BinaryOp::Add, v, word);
        b.store(y, t, sum);
        None
    });
    b.finish()
}

/// What some threads do for the block.
fn alone(page: &mut block::Kernel) -> &mut block::Alone {
    let mut found = None;
    for stmt in &mut page.body {
        if let block::Stmt::Loop(l) = stmt {
            found = l.body.iter_mut().find_map(|s| if let block::Stmt::Alone(alone) = s { Some(alone) } else { None });
        }
    }
    found.expect("a wait that some threads run")
}

/// The tile that is loaded before.
fn loaded(page: &mut block::Kernel) -> block::ValueId {
    let mut found = None;
    block::visit(&page.body, &mut |stmt| {
        if let block::Stmt::Load(v, _) = stmt {
            found = Some(*v);
        }
    });
    found.expect("a load")
}

#[test]
fn the_block_is_told_as_the_page_says() {
    let k = waiting();
    let one_warp = schedule(&k, &[32]);
    let mut page = page_of(&k, &one_warp);
    assert_eq!(alone(&mut page).told, Told::Warp);
    let by_shuffles = code(&written(&k, &one_warp, &page));
    assert!(by_shuffles.contains("__shfl_sync") && !by_shuffles.contains("__shared__"), "{by_shuffles}");
    alone(&mut page).told = Told::Block;
    let through_shared = code(&written(&k, &one_warp, &page));
    assert!(!through_shared.contains("__shfl_sync"), "{through_shared}");
    // One in the text for full tiles, one in that for the tail.
    assert_eq!(through_shared.matches("__syncthreads").count(), 2, "{through_shared}");
    assert_eq!(alone(&mut page_of(&k, &schedule(&k, &[64]))).told, Told::Block);
}

#[test]
fn whoever_waits_for_a_block_only_looks() {
    let k = waiting();
    let page = page_of(&k, &schedule(&k, &[64]));
    assert_eq!(broken(&page), None);
    type Damage = fn(&mut block::Kernel);
    let damages: [(Damage, &str); 5] = [
        (|p| alone(p).team = 7, "there is no team 7"),
        (|p| alone(p).body.push(block::Stmt::Barrier(Scope::Block)), "do more than to look"),
        (|p| alone(p).gives[0] = loaded(p), "is no scalar"),
        (|p| alone(p).again.push(block::Stmt::Barrier(Scope::Block)), "what is made again is no operation"),
        (|p| alone(p).body.clear(), "is read before it is made"),
    ];
    for (damage, says) in damages {
        let mut page = page.clone();
        damage(&mut page);
        let said = broken(&page).unwrap_or_else(|| panic!("nobody says `{says}` of\n{page}"));
        assert!(said.contains(says), "`{says}` is not what is said:\n{said}");
    }
}
