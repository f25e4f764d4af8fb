//! Dots that go on with the sums of others: what the page says of it is what is written out, and what cannot be is found.

use super::pages::{code, page_of, written};
use super::*;
use crate::block::verify;
use girih_ir::tile::{Carry, ValueId};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `y = (x · w) · v` in f16, the first product in tiles of BN columns: results of [BM, BN] and [BM, BD].
fn chain() -> tile::Kernel {
    let knobs = vec![
        knob("BM", KnobKind::Tile, &[32]),
        knob("BN", KnobKind::Tile, &[16]),
        knob("BD", KnobKind::Tile, &[32]),
        words("U", KnobKind::Unit, &["Mma"]),
        knob("W", KnobKind::Warps, &[2, 4]),
    ];
    let mut b = Builder::new("chain", knobs);
    let tensor = |b: &mut Builder, name, dtype, written| b.tensor(name, dtype, 2, written);
    let [x, w, v] = ["x", "w", "v"].map(|name| tensor(&mut b, name, DType::F16, false));
    let y = tensor(&mut b, "y", DType::F32, true);
    let [bm, bn, bd] = [0, 1, 2].map(|k| Size::knob(KnobId(k)));
    let [m, d, n, e] = [&bm, &bd, &bn, &bn].map(|size| b.value(Ty::TileIdx(size.clone())));
    let tile = |dtype, rows: &Size, columns: &Size| Ty::Tile(dtype, vec![rows.clone(), columns.clone()]);
    let zero = b.literal(Literal::f32(0.0));
    let at = |row, column| vec![Index::Tile(row), Index::Tile(column)];
    let walk = |view, axis, var, carry: Carry, body| {
        let carries = vec![carry];
        tile_loop(view, vec![axis], vec![var], carries, body)
    };
    let body = b.block(|b| {
        let init = b.op(tile(DType::F32, &bm, &bd), Op::Splat(zero));
        let [inner, result] = [(); 2].map(|()| b.value(tile(DType::F32, &bm, &bd)));
        let mut next = inner;
        let turn = b.block(|b| {
            let none = b.op(tile(DType::F32, &bm, &bn), Op::Splat(zero));
            let [sum, total] = [(); 2].map(|()| b.value(tile(DType::F32, &bm, &bn)));
            let mut added: ValueId = sum;
            let inside = b.block(|b| {
                let left = b.op(tile(DType::F16, &bm, &bn), Op::Load(x, at(m, e)));
                let right = b.op(tile(DType::F16, &bn, &bn), Op::Load(w, at(e, n)));
                added = b.op(tile(DType::F32, &bm, &bn), Op::Dot { a: left, b: right, acc: sum, fold: None });
            });
            b.push(walk(x, 1, e, Carry { init: none, inner: sum, next: added, result: total }, inside));
            let left = b.op(tile(DType::F16, &bm, &bn), Op::Cast(total));
            let right = b.op(tile(DType::F16, &bn, &bd), Op::Load(v, at(n, d)));
            next = b.op(tile(DType::F32, &bm, &bd), Op::Dot { a: left, b: right, acc: inner, fold: None });
        });
        b.push(walk(v, 0, n, Carry { init, inner, next, result }, turn));
        b.push(Stmt::Store { view: y, index: at(m, d), value: result, loc: LOC });
    });
    let grid = TileLoop {
        view: y,
        axes: vec![0, 1],
        vars: vec![m, d],
        span: None,
        strided: false,
        in_order: false,
        carries: vec![],
        body,
        loc: LOC,
    };
    b.push(Stmt::Tiles(grid));
    b.finish()
}

/// A schedule with so many warps.
fn by_warps(kernel: &tile::Kernel, warps: i64) -> Schedule {
    let mut schedule = schedule(kernel, &[32, 16, 32]);
    schedule.choices[3] = Choice::Word("Mma".into());
    schedule.choices[4] = Choice::Int(warps);
    schedule
}

#[test]
fn sums_stay_in_registers_where_the_page_says_so() {
    let kernel = chain();
    let schedule = by_warps(&kernel, 2);
    let mut page = page_of(&kernel, &schedule);
    assert_eq!(page.fed.len(), 1);
    let fed = written(&kernel, &schedule, &page);
    assert!(!code(&fed).contains("operand_smem"), "{}", code(&fed));
    page.fed.clear();
    let stored = written(&kernel, &schedule, &page);
    assert!(code(&stored).contains("operand_smem"), "{}", code(&stored));
}

#[test]
fn sums_that_no_warp_has_whole_are_found() {
    let kernel = chain();
    let page = page_of(&kernel, &by_warps(&kernel, 2));
    let mut split = page_of(&kernel, &by_warps(&kernel, 4));
    assert!(split.fed.is_empty(), "32 rows are two warps' rows");
    split.fed = page.fed;
    let found = catch_unwind(AssertUnwindSafe(|| verify::verify(&split, "test", verify::Decided::Tails)));
    let text = *found.expect_err("a rule is broken").downcast::<String>().expect("a text");
    assert!(text.contains("cannot stay in the registers of sums"), "{text}");
}
