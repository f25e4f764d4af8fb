//! Properties over random values: layouts, host expressions, schedules' text, facts.

use girih_core::facts::{Facts, MAX_ALIGN, MAX_DIVISOR, TensorArg, TensorFacts, packed_strides};
use girih_core::layout::{Deal, Layout, SharedLayout, SharedUse, wavefronts};
use girih_core::registry::kernels;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::tile::Kernel;
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::types::{BinaryOp, Literal};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::LazyLock;

/// A deal of a tile of one or two axes: threads and vectors divide it.
#[derive(Clone, Debug)]
struct Dealt {
    shape: Vec<i64>,
    threads: Vec<i64>,
    order: Vec<usize>,
    vector: i64,
    lanes: Option<i64>,
}

impl Dealt {
    fn layout(&self) -> Layout {
        let block = self.threads.iter().product();
        let (shape, threads, order) = (&self.shape, &self.threads, &self.order);
        Layout::dealt(&Deal { shape, threads, order, vector: self.vector, lanes: self.lanes, block })
    }
}

fn dealt() -> impl Strategy<Value = Dealt> {
    let axis = || (prop_oneof![Just(1i64), Just(2), Just(3), Just(4), Just(6), Just(8)], 1i64..=6);
    let lanes = prop_oneof![Just(None), Just(Some(2)), Just(Some(8)), Just(Some(32))];
    (proptest::collection::vec(axis(), 1..=3), 0u32..=3, lanes, any::<bool>()).prop_map(|(axes, vector, lanes, turned)| {
        let mut order: Vec<usize> = (0..axes.len()).rev().collect();
        if turned {
            order.reverse();
        }
        let vector = 1i64 << vector;
        let owned = |k: usize| if k == order[0] { axes[k].1 * vector } else { axes[k].1 };
        let shape = (0..axes.len()).map(|k| axes[k].0 * owned(k)).collect();
        Dealt { shape, threads: axes.iter().map(|a| a.0).collect(), order, vector, lanes }
    })
}

/// Every element of the tile is in exactly one register of one distinct thread.
fn bijective(layout: &Layout) {
    let shape = layout.shape();
    let mut seen = HashSet::new();
    for thread in 0..layout.distinct_threads() {
        for register in 0..layout.registers {
            let at = layout.coordinates(thread, register);
            assert!(at.iter().zip(&shape).all(|(c, n)| (0..*n).contains(c)), "{at:?} lies outside of {shape:?}");
            assert!(seen.insert(at.clone()), "{at:?} is held twice");
        }
    }
    assert_eq!(seen.len() as i64, shape.iter().product::<i64>());
}

fn host_expr() -> impl Strategy<Value = HostExpr> {
    let leaf = prop_oneof![
        (-4i64..=4).prop_map(HostExpr::Const),
        (0usize..2).prop_map(|k| HostExpr::Dim(0, k)),
        (0usize..2).prop_map(|k| HostExpr::Stride(0, k)),
        Just(HostExpr::Scalar(1)),
        Just(HostExpr::Multiprocessors),
    ];
    let ops = prop_oneof![
        Just(BinaryOp::Add),
        Just(BinaryOp::Sub),
        Just(BinaryOp::Mul),
        Just(BinaryOp::Div),
        Just(BinaryOp::Rem),
        Just(BinaryOp::Min),
        Just(BinaryOp::Max)
    ];
    leaf.prop_recursive(4, 24, 2, move |inner| {
        (ops.clone(), inner.clone(), inner).prop_map(|(op, a, b)| HostExpr::Binary(op, Box::new(a), Box::new(b)))
    })
}

/// The same expression, built with folding.
fn folded(e: &HostExpr) -> HostExpr {
    match e {
        HostExpr::Binary(op, a, b) => HostExpr::binary(*op, folded(a), folded(b)),
        other => other.clone(),
    }
}

fn tensor_arg() -> impl Strategy<Value = TensorArg> {
    (proptest::collection::vec(0i64..70, 1..=3), 0u64..64, any::<bool>(), 1i64..9).prop_map(|(lens, address, packed, gap)| {
        let mut strides = packed_strides(&lens);
        if !packed {
            strides.iter_mut().for_each(|s| *s *= gap);
        }
        TensorArg { address: address * 4, lens, strides }
    })
}

/// Facts that promise no more.
fn weakened(facts: &TensorFacts, by: u32) -> TensorFacts {
    let weaker = |x: &u32| (x >> by).max(1);
    TensorFacts {
        align: (facts.align >> by).max(1),
        packed: facts.packed && by == 0,
        rows: facts.rows && by < 2,
        lens: facts.lens.iter().map(weaker).collect(),
        // A packed tensor's strides follow from its lengths, so weaker facts say what those give.
        strides: facts.strides.iter().map(weaker).collect(),
        most: facts.most.iter().map(|most| if by == 0 { *most } else { 0 }).collect(),
    }
}

proptest! {
    #[test]
    fn layouts_are_bijective(deal in dealt(), axis in 0usize..3, extent in 1i64..=4) {
        let layout = deal.layout();
        prop_assert_eq!(layout.shape(), deal.shape.clone());
        bijective(&layout);
        let perm: Vec<usize> = (0..deal.shape.len()).rev().collect();
        bijective(&layout.permuted(&perm));
        let wide = layout.with_register_axis(axis.min(deal.shape.len()), extent);
        bijective(&wide);
        prop_assert_eq!(wide.without(axis.min(deal.shape.len())).shape(), deal.shape.clone());
    }

    #[test]
    fn runs_are_contiguous(deal in dealt()) {
        let layout = deal.layout();
        let fast = deal.order[0];
        let run = layout.run(fast);
        prop_assert!(run >= deal.vector || deal.shape[fast] < deal.vector);
        for thread in 0..layout.distinct_threads() {
            for register in 0..layout.registers {
                let (start, at) = (layout.coordinates(thread, register / run * run), layout.coordinates(thread, register));
                prop_assert_eq!(at[fast] - start[fast], register % run);
            }
        }
    }

    #[test]
    fn shared_layouts_hold_every_element(rows in 1i64..40, columns in prop_oneof![Just(8i64), Just(12), Just(16), Just(32), Just(33)]) {
        let plain = Layout::dealt(&Deal { shape: &[rows, columns], threads: &[1, 1], order: &[1, 0], vector: 1, lanes: None, block: 1 });
        let side = SharedUse { layout: &plain, width: 1 };
        let shared = SharedLayout::choose(rows, columns, 4, side, side);
        let mut seen = HashSet::new();
        for row in 0..rows {
            for column in 0..columns {
                let at = shared.address(row, column);
                prop_assert!((0..shared.len(rows)).contains(&at));
                prop_assert!(seen.insert(at));
            }
        }
    }

    #[test]
    fn chosen_shared_layouts_are_no_worse_than_plain_ones(r in 2u32..=6, c in 2u32..=6, vector in 0u32..=2) {
        let (rows, columns) = (1i64 << r, 1i64 << c);
        let vector = (1i64 << vector).min(columns);
        let block = (rows * columns / vector).min(64);
        let across = block.min(columns / vector);
        let write = Layout::dealt(&Deal {
            shape: &[rows, columns], threads: &[(block / across).min(rows), across], order: &[1, 0], vector, lanes: None, block,
        });
        let down = block.min(rows);
        let read = Layout::dealt(&Deal {
            shape: &[rows, columns], threads: &[down, (block / down).min(columns)], order: &[0, 1], vector: 1, lanes: None, block,
        });
        let (write, read) = (SharedUse { layout: &write, width: vector }, SharedUse { layout: &read, width: 1 });
        let cost = |s: &SharedLayout| wavefronts(s, write, 4) + wavefronts(s, read, 4);
        let chosen = SharedLayout::choose(rows, columns, 4, write, read);
        prop_assert!(cost(&chosen) <= cost(&SharedLayout::plain(columns)));
    }

    #[test]
    fn folding_keeps_values(e in host_expr(), lens in proptest::array::uniform2(0i64..9), scalar in -5i64..5) {
        let args = [HostArg::Tensor(TensorArg::packed(0, &lens)), HostArg::Scalar(Literal::index(scalar))];
        prop_assert_eq!(folded(&e).eval(&args, 3), e.eval(&args, 3));
    }

    #[test]
    fn schedules_survive_their_text(picks in proptest::collection::vec(any::<usize>(), 16)) {
        static ALL: LazyLock<Vec<Kernel>> =
            LazyLock::new(|| kernels().iter().map(|def| (def.build)().expect("registered kernels are well formed")).collect());
        for kernel in ALL.iter() {
            let pick = |(k, at): (&girih_core::schedule::Knob, &usize)| k.choices[at % k.choices.len()].clone();
            let schedule = Schedule { choices: kernel.knobs.iter().zip(&picks).map(pick).collect() };
            let text = schedule.short(kernel);
            prop_assert_eq!(parse_schedule(kernel, &text).map_err(|e| TestCaseError::fail(e.to_string()))?, schedule.clone());
            let json = serde_json::to_string(&schedule).expect("schedules are plain data");
            prop_assert_eq!(serde_json::from_str::<Schedule>(&json).expect("what was written"), schedule);
        }
    }

    #[test]
    fn facts_hold_and_imply_weaker_ones(a in tensor_arg(), b in tensor_arg(), by in 0u32..4, noalias in any::<bool>()) {
        let facts = Facts::of_launch(&[Some(a.clone()), None, Some(b)], noalias);
        prop_assert!(facts.imply(&facts));
        let first = facts.tensors[0].as_ref().expect("a tensor");
        prop_assert_eq!(a.address % first.align as u64, 0);
        prop_assert!(first.align <= MAX_ALIGN && first.lens.iter().chain(&first.strides).all(|d| *d <= MAX_DIVISOR));
        prop_assert!(a.lens.iter().zip(&first.lens).all(|(l, d)| l % *d as i64 == 0));
        prop_assert!(a.strides.iter().zip(&first.strides).all(|(s, d)| s % *d as i64 == 0));
        prop_assert_eq!(first.packed, a.is_packed());

        let weak = Facts { tensors: facts.tensors.iter().map(|t| t.as_ref().map(|t| weakened(t, by))).collect(), ..facts.clone() };
        prop_assert!(facts.imply(&weak), "{facts} does not imply {weak}");
        let weaker = Facts { index32: false, noalias: false, ..weak.clone() };
        prop_assert!(weak.imply(&weaker) && facts.imply(&weaker), "implication is transitive");
        prop_assert_eq!(weak.imply(&facts), weak == facts);
    }
}

/// Facts of even lengths lie between those of packed tensors and the best ones.
#[test]
fn even_facts_are_weaker_than_the_best_ones() {
    let mut even_lengths = 0;
    for kernel in super::rungs::all_kernels() {
        let (even, best) = (super::launches::even_facts(&kernel), super::launches::best_facts(&kernel));
        assert!(best.imply(&even) && even.imply(&Facts::none(&kernel)), "{}: {even} and {best}", kernel.name);
        let tensors = || even.tensors.iter().flatten();
        assert!(tensors().all(|t| t.align <= 8 && t.lens.iter().all(|l| *l <= 2)), "{}: {even}", kernel.name);
        even_lengths += usize::from(tensors().any(|t| t.lens.contains(&2)) && !even.imply(&best));
    }
    assert!(even_lengths > 60, "only {even_lengths} kernels have axes that may be even");
}

/// For every kernel there are launches that have all of the best facts, lengths that the kernel fixes included.
#[test]
fn the_best_facts_can_hold() {
    for kernel in super::rungs::all_kernels() {
        let (best, found) = (Facts::best(&kernel), super::launches::best_facts(&kernel));
        assert!(found.imply(&best), "{}: {found} does not imply {best}", kernel.name);
    }
    let gray = girih_examples::rgb_to_grayscale::rgb_to_grayscale::Kernel::def();
    assert_eq!(Facts::best(&(gray.build)().unwrap()).to_string(), "16p/16x1 16p/16 i32 noalias");
}
