//! Tests of plans of kernels that are built by hand.

use super::*;
use girih_ir::loc::SourceLoc;
use girih_ir::schedule::parse::parse_schedule;
use girih_ir::schedule::{Choice, Knob, Of};
use girih_ir::tile::by_hand::Builder;
use girih_ir::tile::{Boundary, Reach, Size, Ty};
use girih_ir::types::{BinaryOp, DType, Literal};

/// `c[t] = a[t] + b[t]`, whose tensors are copied each in its own way, with stages of the loop's own.
fn kernel() -> Kernel {
    let int = |name: &str, kind, of, n| Knob { name: name.into(), kind, of, choices: vec![Choice::Int(n)], loc: SourceLoc::NONE };
    let copy = |name: &str, of| {
        let choices = vec![Choice::Word("Registers".into())];
        Knob { name: name.into(), kind: KnobKind::Copy, of, choices, loc: SourceLoc::NONE }
    };
    let knobs = vec![
        int("T", KnobKind::Tile, None, 256),
        int("G", KnobKind::Grid, None, 1),
        int("S", KnobKind::Stages, None, 1),
        int("R", KnobKind::Stages, Some(Of::Loop("t".into())), 1),
        copy("P", None),
        copy("Q", Some(Of::Tensor("b".into()))),
    ];
    let mut builder = Builder::new("add", knobs);
    let [a, b] = ["a", "b"].map(|name| builder.tensor(name, DType::F32, 1, false));
    let c = builder.tensor("c", DType::F32, 1, true);
    builder.tiles(c, None, |k, t, _| {
        k.kernel.values[t.0 as usize].name = Some("t".into());
        let (u, v) = (k.load(a, t), k.load(b, t));
        let sum = k.binary(BinaryOp::Add, u, v);
        k.store(c, t, sum);
        None
    });
    builder.finish()
}

fn planned(settings: &str) -> Result<Plan, ScheduleError> {
    let kernel = kernel();
    let schedule = parse_schedule(&kernel, settings).expect("a schedule");
    plan(&kernel, &schedule, Target::h200(), &HashSet::new(), &[], &HashSet::new(), Default::default())
}

/// The stages of the grid's loop, and how its loads wait.
fn waiting(settings: &str) -> Option<(i64, Vec<Fill>)> {
    let (kernel, plan) = (kernel(), planned(settings).expect("legal"));
    match &plan.loops[&kernel.grid_loop().expect("a grid").vars[0]].pipeline {
        Pipeline::GridPrefetch { stages, loads } => Some((*stages, loads.iter().map(|(_, fill)| *fill).collect())),
        _ => None,
    }
}

#[test]
fn a_loop_has_stages_of_its_own_and_a_tensor_copies_of_its_own() {
    assert_eq!(waiting("S=4"), None);
    assert_eq!(waiting("R=3,Q=Async"), Some((3, vec![Fill::Registers, Fill::Async])));
    assert_eq!(waiting("R=2,P=Async"), Some((2, vec![Fill::Async, Fill::Registers])));
}

#[test]
fn the_rule_names_the_knob_that_breaks_it() {
    let error = planned("R=2,Q=Bulk").expect_err("no kernel can be lowered with it");
    assert_eq!((error.knob.as_str(), error.found.as_str()), ("Q", "Bulk"));
    let error = planned("R=1000000").expect_err("too far ahead");
    assert_eq!(error.knob, "R");
}

/// `c[t] = a[t + 1] + b[t + 1]`, by way of windows, those of `b` read as a knob of its own says.
fn windows() -> Kernel {
    let knob = |name: &str, kind, of, choice| Knob { name: name.into(), kind, of, choices: vec![choice], loc: SourceLoc::NONE };
    let knobs = vec![
        knob("T", KnobKind::Tile, None, Choice::Int(256)),
        knob("H", KnobKind::Halo, None, Choice::Word("Shared".into())),
        knob("D", KnobKind::Halo, Some(Of::Tensor("b".into())), Choice::Word("Shared".into())),
    ];
    let mut builder = Builder::new("shifted", knobs);
    let [a, b] = ["a", "b"].map(|name| builder.tensor(name, DType::F32, 1, false));
    let c = builder.tensor("c", DType::F32, 1, true);
    let one = builder.literal(Literal::from_i64(DType::I64, 1));
    builder.tiles(c, None, |k, t, _| {
        let reach = Reach { size: Builder::size(), before: Size::constant(0), after: Size::constant(1) };
        let [u, v] = [a, b].map(|view| {
            let op = Op::Window { view, index: vec![t], shift: vec![None], boundary: Boundary::Zero };
            let window = k.op(Ty::Window(DType::F32, vec![reach.clone()]), op);
            k.op(Builder::tile_ty(DType::F32), Op::Near(window, vec![one]))
        });
        let sum = k.binary(BinaryOp::Add, u, v);
        k.store(c, t, sum);
        None
    });
    builder.finish()
}

#[test]
fn windows_of_a_tensor_are_read_as_its_knob_says() {
    let kernel = windows();
    let shared = |settings: &str| {
        let schedule = parse_schedule(&kernel, settings).expect("a schedule");
        let plan = plan(&kernel, &schedule, Target::h200(), &HashSet::new(), &[], &HashSet::new(), Default::default()).expect("legal");
        let mut reads: Vec<(ValueId, bool)> = plan.reads.iter().map(|(v, read)| (*v, read.shared)).collect();
        reads.sort_unstable();
        reads.into_iter().map(|(_, shared)| shared).collect::<Vec<_>>()
    };
    assert_eq!(shared("H=Shared"), [true, true]);
    assert_eq!(shared("D=Direct"), [true, false]);
    assert_eq!(shared("H=Direct"), [false, true]);
    assert_eq!(shared("H=Direct,D=Direct"), [false, false]);
}
