//! Tests of lowering on tile IR built by hand.

use super::*;
use crate::cuda;
use crate::loc::SourceLoc;
use crate::schedule::{Choice, Knob};
use crate::tile::eval::tests::Builder;
use crate::tile::{Index, KnobId, Op, Size, Stmt, TileLoop, Ty};
use crate::types::{BinaryOp, DType};

const LOC: SourceLoc = SourceLoc::NONE;

fn knob(name: &str, kind: KnobKind, choices: &[i64]) -> Knob {
    Knob { name: name.into(), kind, choices: choices.iter().map(|c| Choice::Int(*c)).collect(), loc: LOC }
}

fn words(name: &str, kind: KnobKind, choices: &[&str]) -> Knob {
    Knob { name: name.into(), kind, choices: choices.iter().map(|c| Choice::Word(c.to_string())).collect(), loc: LOC }
}

fn elementwise_knobs() -> Vec<Knob> {
    vec![
        knob("T", KnobKind::Tile, &[256, 512, 1024]),
        knob("C", KnobKind::Coarsen { of: KnobId(0) }, &[1, 2, 4, 8]),
        knob("V", KnobKind::Vector, &[1, 2, 4]),
        knob("G", KnobKind::Grid, &[0, 4]),
        knob("S", KnobKind::Stages, &[1, 2, 3]),
        words("P", KnobKind::Copy, &["Registers", "Async"]),
    ]
}

fn vector_add() -> tile::Kernel {
    let mut b = Builder::new("vector_add", elementwise_knobs());
    let (x, y, z) = (b.tensor("a", DType::F32, 1, false), b.tensor("b", DType::F32, 1, false), b.tensor("c", DType::F32, 1, true));
    b.tiles(z, None, |b, t, _| {
        let (u, v) = (b.load(x, t), b.load(y, t));
        let sum = b.binary(BinaryOp::Add, u, v);
        b.store(z, t, sum);
        None
    });
    b.finish()
}

fn transpose() -> tile::Kernel {
    let knobs = vec![
        knob("R", KnobKind::Tile, &[16, 32, 64]),
        knob("C", KnobKind::Tile, &[16, 32, 64]),
        knob("CR", KnobKind::Coarsen { of: KnobId(0) }, &[1, 2, 4, 8]),
        knob("CC", KnobKind::Coarsen { of: KnobId(1) }, &[1, 2, 4]),
        knob("V", KnobKind::Vector, &[1, 2, 4]),
    ];
    let mut b = Builder::new("transpose", knobs);
    let (x, y) = (b.tensor("x", DType::F32, 2, false), b.tensor("y", DType::F32, 2, true));
    let (r, c) = (Size::knob(KnobId(0)), Size::knob(KnobId(1)));
    let vars = vec![b.value(Ty::TileIdx(r.clone())), b.value(Ty::TileIdx(c.clone()))];
    let (ri, ci) = (vars[0], vars[1]);
    let body = b.block(|b| {
        let v = b.op(Ty::Tile(DType::F32, vec![r.clone(), c.clone()]), Op::Load(x, vec![Index::Tile(ri), Index::Tile(ci)]));
        let t = b.op(Ty::Tile(DType::F32, vec![c, r]), Op::Transpose(v, vec![1, 0]));
        b.push(Stmt::Store { view: y, index: vec![Index::Tile(ci), Index::Tile(ri)], value: t, loc: LOC });
    });
    b.push(Stmt::Tiles(TileLoop { view: x, axes: vec![0, 1], vars, strided: false, carries: vec![], body, loc: LOC }));
    b.finish()
}

fn schedule(kernel: &tile::Kernel, ints: &[i64]) -> Schedule {
    let mut s = Schedule::default_of(kernel);
    for (c, i) in s.choices.iter_mut().zip(ints) {
        if !matches!(c, Choice::Word(_)) {
            *c = Choice::Int(*i);
        }
    }
    s
}

fn text(kernel: &tile::Kernel, facts: &Facts, ints: &[i64]) -> String {
    cuda::emit(&lower(kernel, facts, &schedule(kernel, ints), Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn the_naive_schedule_is_the_textbook_kernel() {
    let k = vector_add();
    let cuda = text(&k, &Facts::packed(&k, true), &[256, 1, 1, 0, 1]);
    assert!(cuda.contains("if (i < c_len)") && cuda.contains("c[i] = a[i] + b[i];"), "{cuda}");
    println!("{cuda}");
    println!("{}", text(&k, &Facts::best(&k), &[1024, 8, 4, 0, 1]));
    println!("{}", text(&k, &Facts::packed(&k, true), &[1024, 8, 4, 0, 1]));
    println!("{}", text(&k, &Facts::none(&k), &[1024, 4, 4, 4, 1]));
    println!("{}", text(&k, &Facts::best(&k), &[1024, 4, 4, 4, 3]));
    let mut s = schedule(&k, &[1024, 4, 4, 4, 3]);
    s.choices[5] = Choice::Word("Async".into());
    println!("{}", cuda::emit(&lower(&k, &Facts::best(&k), &s, Target::h200()).unwrap()));
    let k = transpose();
    println!("{}", text(&k, &Facts::packed(&k, true), &[32, 32, 1, 1, 1]));
    println!("{}", text(&k, &Facts::best(&k), &[64, 64, 4, 4, 4]));
}
