//! A page is what is written out: whoever changes its data finds that in the CUDA and in what the simulator counts. And a page that breaks a rule is
//! found.

use super::*;
use crate::block::{self, Handover, Meet, Pipeline, Tail, verify};
use girih_ir::tile::{Carry, SharedAccess, SharedArray, SharedId, SharedKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Each tile of `a`, which stays, times those of `b` beside it, added up: tiles M, N, stages S.
fn kept() -> tile::Kernel {
    let knobs = vec![
        knob("M", KnobKind::Tile, &[16, 32]),
        knob("N", KnobKind::Tile, &[16]),
        knob("S", KnobKind::Stages, &[1, 2, 3]),
        words("P", KnobKind::Copy, &["Registers", "Async"]),
    ];
    let mut b = Builder::new("kept", knobs);
    let [x, y, z] = [("a", false), ("b", false), ("c", true)].map(|(name, written)| b.tensor(name, DType::F32, 2, written));
    let [bm, bn] = [0, 1].map(|k| Size::knob(KnobId(k)));
    let [m, n, k] = [&bm, &bn, &bn].map(|size| b.value(Ty::TileIdx(size.clone())));
    let tile = |rows: &Size| Ty::Tile(DType::F32, vec![rows.clone(), bn.clone()]);
    let zero = b.literal(Literal::f32(0.0));
    let body = b.block(|b| {
        let left = b.op(tile(&bm), Op::Load(x, vec![Index::Tile(m), Index::Tile(n)]));
        let init = b.op(tile(&bm), Op::Splat(zero));
        let [inner, result] = [(); 2].map(|()| b.value(tile(&bm)));
        let mut next = inner;
        let turn = b.block(|b| {
            let right = b.op(tile(&bn), Op::Load(y, vec![Index::Tile(n), Index::Tile(k)]));
            next = b.op(tile(&bm), Op::Dot { a: left, b: right, acc: inner, fold: None });
        });
        let carries = vec![Carry { init, inner, next, result }];
        b.push(tile_loop(y, vec![1], vec![k], carries, turn));
        b.push(Stmt::Store { view: z, index: vec![Index::Tile(m), Index::Tile(n)], value: result, loc: LOC });
    });
    b.push(tile_loop(z, vec![0, 1], vec![m, n], vec![], body));
    b.finish()
}

/// `c = a · b` in f32: tiles BM, BN, BK, stages S.
fn product() -> tile::Kernel {
    let knobs = vec![
        knob("BM", KnobKind::Tile, &[16, 32]),
        knob("BN", KnobKind::Tile, &[16, 32]),
        knob("BK", KnobKind::Tile, &[8, 16]),
        knob("S", KnobKind::Stages, &[1, 2, 3, 4]),
        words("P", KnobKind::Copy, &["Registers", "Async"]),
    ];
    let mut b = Builder::new("product", knobs);
    let [x, y, z] = [("a", false), ("b", false), ("c", true)].map(|(name, written)| b.tensor(name, DType::F32, 2, written));
    let [bm, bn, bk] = [0, 1, 2].map(|k| Size::knob(KnobId(k)));
    let [m, n, k] = [&bm, &bn, &bk].map(|size| b.value(Ty::TileIdx(size.clone())));
    let tile = |rows: &Size, columns: &Size| Ty::Tile(DType::F32, vec![rows.clone(), columns.clone()]);
    let zero = b.literal(Literal::f32(0.0));
    let body = b.block(|b| {
        let init = b.op(tile(&bm, &bn), Op::Splat(zero));
        let [inner, result] = [(); 2].map(|()| b.value(tile(&bm, &bn)));
        let mut next = inner;
        let turn = b.block(|b| {
            let left = b.op(tile(&bm, &bk), Op::Load(x, vec![Index::Tile(m), Index::Tile(k)]));
            let right = b.op(tile(&bk, &bn), Op::Load(y, vec![Index::Tile(k), Index::Tile(n)]));
            next = b.op(tile(&bm, &bn), Op::Dot { a: left, b: right, acc: inner, fold: None });
        });
        let carries = vec![Carry { init, inner, next, result }];
        b.push(tile_loop(x, vec![1], vec![k], carries, turn));
        b.push(Stmt::Store { view: z, index: vec![Index::Tile(m), Index::Tile(n)], value: result, loc: LOC });
    });
    b.push(tile_loop(z, vec![0, 1], vec![m, n], vec![], body));
    b.finish()
}

/// Each tile of `y` is that of `x` from back to front, by way of a shared array.
fn mirrored() -> tile::Kernel {
    let mut b = Builder::new("mirrored", vec![knob("T", KnobKind::Tile, &[64])]);
    let (x, y) = (b.tensor("x", DType::F32, 1, false), b.tensor("y", DType::F32, 1, true));
    let (size, array) = (Size::knob(KnobId(0)), SharedId(0));
    let positions = Ty::Tile(DType::I32, vec![size.clone()]);
    let last = b.literal(Literal::i32(63));
    b.tiles(y, None, |b, t, _| {
        let v = b.load(x, t);
        let forth = b.op(positions.clone(), Op::Iota);
        let last = b.op(positions.clone(), Op::Splat(last));
        let back = b.op(positions.clone(), Op::Binary(BinaryOp::Sub, last, forth));
        let result = b.value(Ty::Tile(DType::F32, vec![size.clone()]));
        let write = SharedKind::Scatter { indices: vec![forth], value: v };
        let read = SharedKind::Gather { indices: vec![back], result, inside: false };
        for (number, kind) in [(0, SharedKind::Empty), (1, write), (2, read)] {
            b.push(Stmt::Shared(SharedAccess { number, array, kind, loc: LOC }));
        }
        b.store(y, t, result);
        None
    });
    let mut kernel = b.finish();
    kernel.shared.push(SharedArray { name: Some("row".into()), dtype: DType::F32, shape: vec![size], by_hand: false, loc: LOC });
    kernel
}

/// The schedule with these numbers, and this word where it takes words.
fn chosen(kernel: &tile::Kernel, ints: &[i64], word: &str) -> Schedule {
    let mut s = schedule(kernel, ints);
    s.choices.iter_mut().filter(|c| matches!(c, Choice::Word(_))).for_each(|c| *c = Choice::Word(word.into()));
    s
}

pub(super) fn page_of(kernel: &tile::Kernel, schedule: &Schedule) -> block::Kernel {
    let facts = Facts::best(kernel);
    let paged = Paged::new(kernel, &facts, schedule, Target::h200(), &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
    paged.page(&facts, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// What a page becomes.
pub(super) fn written(kernel: &tile::Kernel, schedule: &Schedule, page: &block::Kernel) -> simt::Kernel {
    let facts = Facts::best(kernel);
    let paged = Paged::new(kernel, &facts, schedule, Target::h200(), &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
    let out = expand::expand(page, paged.launch(page, Target::h200()), provenance(kernel, &facts, schedule.attribute(kernel)));
    tidy(kernel, out.unwrap_or_else(|e| panic!("{e:?}")), Target::h200(), &mut |_, _| {})
}

/// The code without the lines that name the schedule.
pub(super) fn code(kernel: &simt::Kernel) -> String {
    let text = cuda::emit(kernel);
    text.lines().filter(|l| !l.starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// What the simulator counts of the code of a page, which computes what the evaluator computes.
fn counted(kernel: &tile::Kernel, simt: &simt::Kernel, shapes: &[Vec<i64>]) -> sim::Counters {
    let (counters, right) = simulated(kernel, simt, shapes).unwrap_or_else(|trap| panic!("{trap}\n{}", cuda::emit(simt)));
    assert!(right, "{}", cuda::emit(simt));
    counters.expect("some block runs")
}

/// The first loop of a page that has a pipeline.
fn pipeline(page: &mut block::Kernel) -> &mut Pipeline {
    fn find(body: &mut [block::Stmt]) -> Option<&mut Pipeline> {
        let loops = body.iter_mut().filter_map(|stmt| if let block::Stmt::Loop(l) = stmt { Some(l) } else { None });
        loops.into_iter().find_map(|l| if l.plan.pipeline == Pipeline::None { find(&mut l.body) } else { Some(&mut l.plan.pipeline) })
    }
    find(&mut page.body).expect("a loop with a pipeline")
}

fn grid(page: &mut block::Kernel) -> &mut block::Loop {
    let grid = page.body.iter_mut().find_map(|s| if let block::Stmt::Loop(l) = s { Some(l) } else { None });
    grid.expect("a grid loop")
}

#[test]
fn a_ring_has_the_stages_of_the_page() {
    let k = product();
    let stages = |n: i64| chosen(&k, &[32, 32, 16, n], "Async");
    let of_schedule = |n: i64| code(&lower(&k, &Facts::best(&k), &stages(n), Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    let mut page = page_of(&k, &stages(3));
    assert_eq!(code(&written(&k, &stages(3), &page)), of_schedule(3));
    let Pipeline::Multistage { ring, .. } = pipeline(&mut page) else { panic!("no ring in\n{page}") };
    ring.stages = 4;
    let four = written(&k, &stages(3), &page);
    assert_eq!(code(&four), of_schedule(4), "the page says 4 stages");
    let bytes = |k: &simt::Kernel| k.shared_bytes();
    let three = lower(&k, &Facts::best(&k), &stages(3), Target::h200()).expect("a legal schedule");
    assert_eq!(bytes(&four) * 3, bytes(&three) * 4);
    // As many copies, and a ring that is filled one iteration earlier.
    let shapes = [vec![32, 128], vec![128, 32], vec![32, 32]];
    let (three, four) = (counted(&k, &three, &shapes), counted(&k, &four, &shapes));
    assert_eq!(three.global_async, four.global_async);
    assert_ne!(three.instructions(), four.instructions());
}

#[test]
fn loads_run_as_far_ahead_as_the_page_says() {
    let k = vector_add();
    let stages = |n: i64| chosen(&k, &[1024, 4, 4, 4, n], "Async");
    let of_schedule = |n: i64| code(&lower(&k, &Facts::best(&k), &stages(n), Target::h200()).unwrap_or_else(|e| panic!("{e}")));
    let mut page = page_of(&k, &stages(2));
    let Pipeline::GridPrefetch { stages: distance, .. } = pipeline(&mut page) else { panic!("no prefetch in\n{page}") };
    *distance = 3;
    let ahead = written(&k, &stages(2), &page);
    assert_eq!(code(&ahead), of_schedule(3));
    *pipeline(&mut page) = Pipeline::None;
    let in_turn = written(&k, &stages(2), &page);
    assert_eq!(code(&in_turn), of_schedule(1));
    let shapes = [vec![8192], vec![8192], vec![8192]];
    let (ahead, in_turn) = (counted(&k, &ahead, &shapes), counted(&k, &in_turn, &shapes));
    assert!(ahead.global_async.requests > 0 && ahead.global_load.requests == 0, "{ahead:?}");
    assert!(in_turn.global_async.requests == 0 && in_turn.global_load.requests > 0, "{in_turn:?}");
}

#[test]
fn accesses_are_as_wide_as_the_page_says() {
    let k = vector_add();
    let (four, one) = (chosen(&k, &[1024, 4, 4, 0, 1], "Registers"), chosen(&k, &[1024, 4, 1, 0, 1], "Registers"));
    let (mut page, narrow) = (page_of(&k, &four), page_of(&k, &one));
    let layout = narrow.teams[0].anchor.clone();
    let of_four = written(&k, &four, &page);
    let wide = code(&of_four);
    assert_eq!(wide.matches("float4").count(), 6, "{wide}");
    let mut halved = page.clone();
    for stmt in &mut grid(&mut halved).body {
        if let block::Stmt::Load(_, block::Access { cuts: Some(cuts), .. }) = stmt {
            cuts.full.width = 2;
        }
    }
    let half = code(&written(&k, &four, &halved));
    assert_eq!((half.matches("float2").count(), half.matches("float4").count()), (4, 2), "loads alone are narrower\n{half}");
    for stmt in &mut grid(&mut page).body {
        if let block::Stmt::Load(_, access) | block::Stmt::Store { to: access, .. } = stmt {
            access.layout.clone_from(&layout);
            access.cuts = Some(block::Cuts::of_width(1));
        }
    }
    grid(&mut page).grid.as_mut().expect("a grid loop").tail = narrow.grid().expect("a grid loop").tail.clone();
    page.teams[0] = narrow.teams[0].clone();
    let of_one = written(&k, &four, &page);
    assert_eq!(code(&of_one), code(&written(&k, &one, &narrow)));
    let shapes = [vec![4096], vec![4096], vec![4096]];
    let (of_four, of_one) = (counted(&k, &of_four, &shapes), counted(&k, &of_one, &shapes));
    assert_eq!(of_four.global_load.requests * 4, of_one.global_load.requests);
    assert_eq!(of_four.global_load.sectors, of_one.global_load.sectors);
}

#[test]
fn tails_are_checked_as_the_page_says() {
    let k = vector_add();
    let s = chosen(&k, &[1024, 8, 4, 0, 1], "Registers");
    let mut page = page_of(&k, &s);
    assert!(code(&written(&k, &s, &page)).contains("// a full tile"), "{page}");
    grid(&mut page).grid.as_mut().expect("a grid loop").tail = Tail::Predicates;
    let text = code(&written(&k, &s, &page));
    assert!(!text.contains("// a full tile") && !text.contains("// the tail"), "{text}");
    counted(&k, &written(&k, &s, &page), &[vec![4000], vec![4000], vec![4000]]);
}

#[test]
fn one_text_does_where_threads_meet_between_loads_and_stores_of_one_width() {
    let k = mirrored();
    let s = schedule(&k, &[64]);
    let mut page = page_of(&k, &s);
    assert_eq!(page.grid().map(|grid| &grid.tail), Some(&Tail::OneText), "{page}");
    assert!(code(&written(&k, &s, &page)).contains("full tiles and the tail alike"));
    grid(&mut page).grid.as_mut().expect("a grid loop").tail = Tail::TwoTexts;
    let text = code(&written(&k, &s, &page));
    assert!(text.contains("// a full tile") && text.contains("// the tail"), "{text}");
    // Nobody meets in a sum of two tiles, which gets two texts.
    let k = vector_add();
    let s = chosen(&k, &[1024, 8, 4, 0, 1], "Registers");
    assert_eq!(page_of(&k, &s).grid().map(|grid| grid.tail.clone()), Some(Tail::TwoTexts));
}

#[test]
fn threads_meet_where_the_page_says() {
    let k = mirrored();
    let s = schedule(&k, &[64]);
    let mut page = page_of(&k, &s);
    let barriers = |page: &block::Kernel| code(&written(&k, &s, page)).matches("__syncthreads()").count();
    assert_eq!(barriers(&page), 1, "{page}");
    let shapes = [vec![128], vec![128]];
    // Two blocks of two warps.
    assert_eq!(counted(&k, &written(&k, &s, &page), &shapes).block_barriers, 4);
    let body = &mut grid(&mut page).body;
    let meetings = body.len();
    body.retain(|stmt| !matches!(stmt, block::Stmt::Meet(Meet::Shared)));
    assert!(body.len() < meetings);
    assert_eq!(barriers(&page), 0, "{page}");
    let raced = simulated(&k, &written(&k, &s, &page), &shapes).expect_err("nobody waits for what others write");
    assert!(raced.contains("is read before it is written"), "{raced}");
}

#[test]
fn copies_meet_where_the_page_says() {
    let k = product();
    let s = chosen(&k, &[32, 32, 16, 1], "Async");
    let page = page_of(&k, &s);
    let shapes = [vec![32, 64], vec![64, 32], vec![32, 32]];
    let meets = |page: &block::Kernel| {
        let mut found = (0, 0);
        block::visit(&page.body, &mut |stmt| {
            found.0 += usize::from(matches!(stmt, block::Stmt::Meet(Meet::Replaced)));
            found.1 += usize::from(matches!(stmt, block::Stmt::Meet(Meet::Copied { asynchronous: true })));
        });
        found
    };
    // Both operands are waited for at once.
    assert_eq!(meets(&page), (1, 1), "{page}");
    let simt = written(&k, &s, &page);
    assert_eq!(code(&simt).matches("copy_async_wait<0>()").count(), 1);
    let warps = simt.launch.block as u64 / 32;
    assert_eq!(counted(&k, &simt, &shapes).block_barriers, 4 * 2 * warps, "two barriers in each of four iterations");
    let without = |gone: fn(&Meet) -> bool| {
        let mut page = page.clone();
        let inner = grid(&mut page).body.iter_mut().find_map(|s| if let block::Stmt::Loop(l) = s { Some(l) } else { None });
        inner.expect("a loop of the sum").body.retain(|s| !matches!(s, block::Stmt::Meet(m) if gone(m)));
        simulated(&k, &written(&k, &s, &page), &shapes)
    };
    assert!(without(|m| matches!(m, Meet::Copied { .. })).is_err(), "nobody waits for the copies");
    assert!(without(|m| matches!(m, Meet::Replaced)).is_err(), "copies land where others still read");
}

/// A ring waits for what was started before its own copies; without one, somebody else has to.
#[test]
fn copies_before_a_ring_are_waited_for_in_it() {
    let k = kept();
    let shapes = [vec![32, 64], vec![64, 96], vec![32, 64]];
    let waits = |page: &block::Kernel| {
        let mut found = 0;
        block::visit(&page.body, &mut |stmt| found += usize::from(matches!(stmt, block::Stmt::Meet(Meet::Copied { .. }))));
        found
    };
    for (stages, before) in [(1, 2), (2, 0), (3, 0)] {
        let s = chosen(&k, &[32, 16, stages], "Async");
        let page = page_of(&k, &s);
        assert_eq!(waits(&page), before, "{page}");
        // Who reads what is on its way is told so.
        counted(&k, &written(&k, &s, &page), &shapes);
    }
}

#[test]
fn pages_can_be_printed_behind_every_pass() {
    let k = product();
    let s = chosen(&k, &[32, 32, 16, 3], "Async");
    let shown = |after| page(&k, &Facts::best(&k), &s, Target::h200(), after).unwrap_or_else(|e| panic!("{e}"));
    let all: Vec<String> = passes().into_iter().map(|pass| shown(Some(pass)).unwrap_or_else(|| panic!("{pass} prints nothing"))).collect();
    let at = |name: &str| passes().iter().position(|pass| *pass == name).unwrap_or_else(|| panic!("no {name}"));
    let (first, last) = (at("lower_tiles"), at("join_tails"));
    let pages = all.iter().zip(passes()).take(last + 1).skip(first);
    assert!(pages.into_iter().all(|(text, pass)| text.starts_with(&format!("kernel product after {pass}\n"))));
    let dealt = at("assign_layouts");
    assert!(all[first..dealt].iter().all(|text| !text.contains("@own")) && all[dealt].contains("@own"), "{}", all[first]);
    assert_eq!(shown(None).as_ref(), Some(&all[last]), "behind all passes over the page, if none is named");
    // Tile IR in front of the page, SIMT IR behind it, where each barrier stands until it is taken out.
    assert!(all[..first].iter().all(|text| text.contains("dot") && !text.contains("@own")), "{}", all[0]);
    let barriers = |name: &str| all[at(name)].matches("barrier").count();
    assert!(barriers("expand") > 0 && barriers("expand") >= barriers("remove_barriers"), "{}", all[at("expand")]);
    assert_ne!(all[at("expand")], all[at("simplify")]);
    assert_eq!(shown(Some("fold_laundry")), None);
}

/// What the verifier says of a page, if anything.
pub(super) fn broken(page: &block::Kernel) -> Option<String> {
    let checked = catch_unwind(AssertUnwindSafe(|| verify::verify(page, "a test", verify::Decided::Tails)));
    checked.err().map(|e| e.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn a_page_that_breaks_a_rule_is_found() {
    let k = product();
    let page = page_of(&k, &chosen(&k, &[32, 32, 16, 3], "Async"));
    assert_eq!(broken(&page), None);
    type Damage = fn(&mut block::Kernel);
    fn inner(page: &mut block::Kernel) -> &mut block::Loop {
        let found = grid(page).body.iter_mut().find_map(|s| if let block::Stmt::Loop(l) = s { Some(l) } else { None });
        found.expect("the loop along the sum")
    }
    fn ring(page: &mut block::Kernel) -> &mut block::RingPlan {
        let Pipeline::Multistage { ring, .. } = &mut inner(page).plan.pipeline else { panic!("no ring") };
        ring
    }
    fn stored(page: &mut block::Kernel) -> &mut Option<block::Cuts> {
        let found = grid(page).body.iter_mut().find_map(|s| if let block::Stmt::Store { to, .. } = s { Some(&mut to.cuts) } else { None });
        found.expect("a store")
    }
    fn constant(page: &mut block::Kernel) {
        let stored = page.params.iter_mut().find_map(|p| match &mut p.kind {
            block::ParamKind::Tensor { written: true, constant, .. } => Some(constant),
            _ => None,
        });
        *stored.expect("a tensor that is stored to") = Some(16);
    }
    let damages: [(Damage, &str); 26] = [
        (constant, "lies in constant memory, and is stored to"),
        (|p| drop(grid(p).body.remove(0)), "is read before it is made"),
        (
            |p| {
                let first = grid(p).body[0].clone();
                grid(p).body.insert(0, first);
            },
            "is made twice",
        ),
        (|p| ring(p).stages = 1, "a ring of 1 stages"),
        (|p| ring(p).handover = Handover::Mbarriers, "mbarriers hand stages over"),
        (|p| ring(p).handover = Handover::Registers, "registers fill other than two stages"),
        (
            |p| {
                ring(p).stages = 2;
                ring(p).handover = Handover::Registers;
            },
            "registers fill a ring that has an asynchronous copy",
        ),
        (|p| drop(inner(p).body.remove(0)), "is not opened in the loop"),
        (|p| inner(p).sizes[0] = 8, "counts tiles of another extent"),
        (|p| inner(p).vars.push(block::ValueId(0)), "as many tile indices, axes and extents"),
        (|p| inner(p).plan.range = block::Range::OnePerBlock, "is no range of this loop"),
        (|p| inner(p).plan.range = block::Range::Cluster(2), "is shared by 2 blocks of clusters of 1"),
        (
            |p| {
                let stored =
                    grid(p).body.iter_mut().find_map(|s| if let block::Stmt::Store { by_first, .. } = s { Some(by_first) } else { None });
                *stored.expect("a store") = true;
            },
            "the first block of no cluster",
        ),
        (
            |p| {
                let c = block::Combine {
                    operator: block::Operator::Sum,
                    form: block::Form::Reduce { axes: vec![] },
                    inputs: vec![],
                    results: vec![],
                    loc: LOC,
                };
                grid(p).body.push(block::Stmt::OverCluster(c));
            },
            "blocks that are no cluster reduce together",
        ),
        (
            |p| {
                let (carried, results) = (inner(p).carries[0].inner, vec![block::ValueId(0)]);
                let (operator, form) = (block::Operator::Sum, block::Form::Reduce { axes: vec![1] });
                let turn = block::Combine { operator, form, inputs: vec![], results, loc: LOC };
                p.late_sums.push(block::late_sums::LateSum { turn, carried, lanes: vec![(1, 4)] });
            },
            "never meet",
        ),
        (|p| grid(p).grid.as_mut().expect("a grid").tail = Tail::Open, "nobody has decided the tail"),
        (|p| grid(p).grid.as_mut().expect("a grid").shared = Some(block::ValueId(0)), "the loop that is shared is not there"),
        (|p| p.teams[0].threads += 32, "a layout deals to"),
        (
            |p| {
                let block::Stmt::Load(_, access) = &mut inner(p).body[0] else { panic!("no load") };
                access.layout = None;
            },
            "has no layout",
        ),
        (
            |p| {
                let block::Stmt::Load(_, access) = &mut inner(p).body[0] else { panic!("no load") };
                access.index.pop();
            },
            "axes, not",
        ),
        (|p| p.dots = page_of(&vector_add(), &chosen(&vector_add(), &[1024, 4, 4, 0, 1], "Registers")).dots, "has a copy in shared memory"),
        (
            |p| {
                inner(p).carries[0].next = block::ValueId(0);
            },
            "changes its type",
        ),
        (|p| *stored(p) = None, "nobody knows how wide"),
        (|p| *stored(p) = Some(block::Cuts::of_width(8)), "32 bytes of c at once"),
        (|p| stored(p).as_mut().expect("cuts").checked.width = 3, "neighbours in 3 elements at once"),
        (|p| stored(p).as_mut().expect("cuts").checked.run *= 64, "registers"),
    ];
    for (damage, says) in damages {
        let mut page = page.clone();
        damage(&mut page);
        let said = broken(&page).unwrap_or_else(|| panic!("nobody says `{says}` of\n{page}"));
        assert!(said.contains(says) && said.starts_with("a test: "), "`{says}` is not what is said:\n{said}");
    }
}
