//! Tests of lowering on tile IR built by hand.

mod alone;
mod fed;
mod pages;

use super::*;
use crate::cuda;
use girih_ir::facts::{TensorArg, TensorFacts};
use girih_ir::loc::SourceLoc;
use girih_ir::schedule::{Choice, Knob, KnobKind};
use girih_ir::tile::by_hand::Builder;
use girih_ir::tile::eval::{EvalArg, EvalOptions, eval};
use girih_ir::tile::host::HostArg;
use girih_ir::tile::{Block, Carry, Index, KnobId, Op, Size, Stmt, TileLoop, Ty, ValueId, ViewId};
use girih_ir::types::{BinaryOp, DType, Literal};
use girih_sim as sim;

const LOC: SourceLoc = SourceLoc::NONE;

fn knob(name: &str, kind: KnobKind, choices: &[i64]) -> Knob {
    Knob { name: name.into(), kind, of: None, choices: choices.iter().map(|c| Choice::Int(*c)).collect(), loc: LOC }
}

fn words(name: &str, kind: KnobKind, choices: &[&str]) -> Knob {
    Knob { name: name.into(), kind, of: None, choices: choices.iter().map(|c| Choice::Word(c.to_string())).collect(), loc: LOC }
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

/// A loop over the tiles of some axes of a view.
fn tile_loop(view: ViewId, axes: Vec<usize>, vars: Vec<ValueId>, carries: Vec<Carry>, body: Block) -> Stmt {
    Stmt::Tiles(TileLoop { view, axes, vars, span: None, strided: false, in_order: false, carries, body, loc: LOC })
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
        knob("X", KnobKind::Raster, &[1, 4]),
        words("H", KnobKind::Cache, &["Default", "Streaming"]),
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
    b.push(tile_loop(x, vec![0, 1], vars, vec![], body));
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
    println!("{}", text(&k, &Facts::packed(&k, true), &[32, 32, 1, 1, 1, 1]));
    println!("{}", text(&k, &Facts::best(&k), &[64, 64, 4, 4, 4, 1]));
}

#[test]
fn tails_have_a_text_of_their_own_where_that_saves_predicates() {
    let (add, turn) = (vector_add(), transpose());
    let small = text(&add, &Facts::best(&add), &[1024, 8, 4, 0, 1]);
    assert!(small.contains("// the tail") && small.contains("// a full tile"), "{small}");
    // Without a divisible length only a full tile has vectors.
    let vectors = text(
        &add,
        &Facts { tensors: Facts::best(&add).tensors.into_iter().map(undivided).collect(), ..Facts::best(&add) },
        &[1024, 8, 4, 0, 1],
    );
    assert!(vectors.contains("// the tail"), "{vectors}");
    for facts in [Facts::best(&turn), Facts::packed(&turn, true)] {
        let busy = text(&turn, &facts, &[64, 64, 4, 4, 4, 1]);
        assert_eq!(busy.matches("__syncthreads()").count(), 1, "{busy}");
        assert!(!busy.contains("// the tail"), "{busy}");
    }
}

fn undivided(t: Option<TensorFacts>) -> Option<TensorFacts> {
    t.map(|t| TensorFacts { lens: vec![1; t.lens.len()], ..t })
}

/// Runs a kernel of packed f32 tensors on the evaluator and, lowered, on the simulator; the last tensor is the output. What was
/// counted; nothing if the schedule is illegal or there was no block.
fn differ(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule, shapes: &[Vec<i64>]) -> Option<sim::Counters> {
    let simt = match lower(kernel, facts, schedule, Target::h200()) {
        Ok(simt) => simt,
        Err(CompileError::Schedule(_)) => return None,
        Err(e) => panic!("{e}"),
    };
    let context = || format!("{} on {shapes:?}, {facts}\n{}", schedule.short(kernel), cuda::emit(&simt));
    let (counters, right) = simulated(kernel, &simt, shapes).unwrap_or_else(|t| panic!("{t}\n{}", context()));
    assert!(right, "{}", context());
    counters
}

/// What the simulator counts of a lowered kernel, and whether its last tensor is what the evaluator makes of it.
///
/// # Errors
/// What the simulator traps on.
fn simulated(kernel: &tile::Kernel, simt: &simt::Kernel, shapes: &[Vec<i64>]) -> Result<(Option<sim::Counters>, bool), String> {
    let counts: Vec<usize> = shapes.iter().map(|s| s.iter().product::<i64>() as usize).collect();
    let data = |k: usize| -> Vec<u8> { (0..counts[k]).flat_map(|i| ((i * 7 + k * 13) as f32).to_le_bytes()).collect() };
    let last = shapes.len() - 1;
    let mut expected: Vec<Vec<u8>> = (0..=last).map(|k| if k == last { vec![0xff; counts[k] * 4] } else { data(k) }).collect();
    let mut args: Vec<EvalArg> =
        expected.iter_mut().zip(shapes).map(|(bytes, s)| EvalArg::Tensor { bytes, shape: TensorArg::packed(256, s) }).collect();
    eval(kernel, &mut args, &EvalOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let mut memory = sim::Memory::new();
    let buffers: Vec<sim::BufferId> =
        (0..=last).map(|k| if k == last { memory.alloc(counts[k] * 4) } else { memory.from_bytes(&data(k)) }).collect();
    let host: Vec<HostArg> = shapes.iter().map(|s| HostArg::Tensor(TensorArg::packed(256, s))).collect();
    let args: Vec<sim::Arg> = simt
        .params
        .iter()
        .map(|p| match &p.kind {
            simt::ParamKind::Pointer { tensor, .. } => sim::Arg::Buffer { buffer: buffers[*tensor], offset: 0 },
            simt::ParamKind::Constant { tensor, dtype, .. } => {
                sim::Arg::Constant { buffer: buffers[*tensor], offset: 0, bytes: counts[*tensor] * dtype.size() }
            }
            simt::ParamKind::Workspace { dtype, len } => {
                let bytes = vec![0; len.eval(&host, 3) as usize * dtype.size()];
                sim::Arg::Buffer { buffer: memory.from_bytes(&bytes), offset: 0 }
            }
            simt::ParamKind::Host { dtype, value } => sim::Arg::Scalar(Literal::from_i64(*dtype, value.eval(&host, 3))),
            other => panic!("{other:?}"),
        })
        .collect();
    let grid = simt.launch.grid.eval(&host, 3) as u32;
    let mut run = || sim::simulate(&sim::Program::decode(simt), grid, &args, &mut memory, &sim::Options::default());
    let counters = if grid > 0 { Some(run().map_err(|trap| trap.to_string())?.counters) } else { None };
    Ok((counters, memory.read(buffers[last], 0, counts[last] * 4) == expected[last]))
}

#[test]
fn every_schedule_of_vector_add_computes_what_eval_computes() {
    let k = vector_add();
    for n in [0i64, 1, 7, 255, 256, 257, 1008, 4096, 9973] {
        for (t, c) in [(256, 1), (256, 4), (512, 8), (1024, 8)] {
            for (v, g, s, p) in
                [(1, 0, 1, "Registers"), (4, 0, 1, "Registers"), (2, 2, 1, "Registers"), (4, 2, 2, "Registers"), (4, 1, 3, "Async")]
            {
                let mut sch = schedule(&k, &[t, c, v, g, s]);
                sch.choices[5] = Choice::Word(p.into());
                let mut all = vec![Facts::none(&k), Facts::packed(&k, true)];
                all.extend((n % 16 == 0).then(|| Facts::best(&k)));
                for f in &all {
                    let _ = differ(&k, f, &sch, &[vec![n], vec![n], vec![n]]);
                }
            }
        }
    }
}

#[test]
fn every_schedule_of_transpose_computes_what_eval_computes() {
    let k = transpose();
    for (rows, cols) in [(0i64, 5i64), (1, 1), (33, 17), (48, 80), (64, 64), (97, 31)] {
        for (r, c) in [(16, 16), (32, 16), (16, 64), (64, 32)] {
            for (cr, cc, v) in [(1, 1, 1), (2, 1, 1), (4, 2, 2), (8, 4, 4), (1, 4, 4)] {
                let sch = schedule(&k, &[r, c, cr, cc, v, if cr > 2 { 3 } else { 1 }]);
                let mut all = vec![Facts::none(&k), Facts::packed(&k, true)];
                all.extend((rows % 16 == 0 && cols % 16 == 0).then(|| Facts::best(&k)));
                for f in &all {
                    let _ = differ(&k, f, &sch, &[vec![rows, cols], vec![cols, rows]]);
                }
            }
        }
    }
}

#[test]
fn no_schedule_of_transpose_has_bank_conflicts() {
    let k = transpose();
    let mut vectors = 0;
    for (r, c) in [(32, 32), (64, 32), (64, 64), (64, 128), (128, 64)] {
        for (cr, cc, v) in [(1, 1, 1), (4, 1, 1), (2, 2, 2), (4, 2, 2), (1, 4, 4), (2, 4, 4), (4, 4, 1), (4, 4, 2), (4, 4, 4), (8, 4, 4)] {
            let sch = schedule(&k, &[r, c, cr, cc, v, 1]);
            let Some(counters) = differ(&k, &Facts::best(&k), &sch, &[vec![r, c], vec![c, r]]) else { continue };
            vectors += (v == 4) as u32;
            let conflicts = (counters.shared_store.conflicts, counters.shared_load.conflicts);
            assert_eq!(conflicts, (0, 0), "{}", sch.short(&k));
        }
    }
    assert!(vectors > 10, "transposes by vectors of 4 are legal");
}

#[test]
fn loops_have_their_plans_before_anything_is_lowered() {
    use crate::plan::{Fill, LoopPlan, Pipeline, Range};
    let k = vector_add();
    let planned = |blocks: i64, stages: i64, copy: &str| -> LoopPlan {
        let mut s = schedule(&k, &[1024, 4, 4, blocks, stages]);
        s.choices[5] = Choice::Word(copy.into());
        let plan = plan::plan(&k, &s, Target::h200(), &Default::default(), &[], &Default::default(), Default::default())
            .unwrap_or_else(|e| panic!("{e}"));
        plan.loops[&k.grid_loop().expect("a grid loop").vars[0]].clone()
    };
    let plain = |range| LoopPlan { range, pipeline: Pipeline::None };
    assert_eq!(planned(0, 3, "Async"), plain(Range::OnePerBlock), "one tile has nothing to load ahead");
    assert_eq!(planned(4, 1, "Async"), plain(Range::Persistent(4)));
    let mut loads = Vec::new();
    tile::access::visit(&k.body, &mut |s| {
        if let Stmt::Let(v, Op::Load(..)) = s {
            loads.push(*v);
        }
    });
    for (copy, fill) in [("Async", Fill::Async), ("Registers", Fill::Registers)] {
        let ahead = Pipeline::GridPrefetch { stages: 3, loads: loads.iter().map(|v| (*v, fill)).collect() };
        assert_eq!(planned(4, 3, copy), LoopPlan { range: Range::Persistent(4), pipeline: ahead });
    }
}
