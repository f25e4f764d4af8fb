//! How combinations over the grid end (`finish`): what each word makes of them, what is refused, and what `deterministic` demands.

pub mod kernels;

use super::super::launches::{Launch, Placement, best_facts, shapes};
use super::super::nvrtc::{ARCHS, provide};
use super::super::rungs::all_kernels;
use super::super::snapshots::page;
use girih::Compiled;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::simt::{self, Stmt};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::host::HostExpr;
use girih_core::types::{AtomicOp, DType};

fn instance(name: &str) -> Kernel {
    let found = all_kernels().into_iter().find(|k| k.path.contains("finishes::kernels") && k.full_name() == name);
    found.unwrap_or_else(|| panic!("no kernel {name}"))
}

fn under(kernel: &Kernel, schedule: &str) -> Result<simt::Kernel, String> {
    let schedule = parse_schedule(kernel, schedule).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    lower(kernel, &best_facts(kernel), &schedule, Target::h200()).map_err(|e| e.to_string())
}

#[test]
fn blocks_finish_as_the_schedule_says() {
    for (name, schedule) in [
        ("sum_of<i32>", "T=256,C=4,V=4,G=2,F=LastBlock"),
        ("sum_of<i32>", "T=256,C=4,V=4,G=2,F=Atomics"),
        ("sum_of<f32>", "T=256,C=4,V=4,G=2,F=Atomics"),
        ("ends_of<f32>", "T=256,C=4,V=4,G=2,F=Atomics"),
        ("columns", "R=2,CR=1,CC=1,V=1,G=0,F=Atomics"),
        ("sum_of<f32>", "T=256,C=4,V=4,G=2,F=SecondLaunch"),
        ("distance", "T=64,C=1,V=1,G=2,F=SecondLaunch"),
        ("columns", "R=2,CR=1,CC=1,V=1,G=2,F=SecondLaunch"),
    ] {
        let kernel = instance(name);
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{name}: {e}"));
        let word = schedule.choices.last().expect("the knob is the last one").to_string();
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("finish.{}.{word}", name.replace(['<', '>'], "-").trim_end_matches('-')), page(&kernel, &schedule));
        });
    }
}

/// The atomics on global memory, and what they are done to.
fn atomics(block: &[Stmt], found: &mut Vec<(AtomicOp, DType)>) {
    for stmt in block {
        match stmt {
            Stmt::Atomic { op, place, .. } => found.push((*op, place.dtype)),
            Stmt::If { then, otherwise, .. } => {
                atomics(then, found);
                atomics(otherwise, found);
            }
            Stmt::For { body, .. } => atomics(body, found),
            _ => {}
        }
    }
}

#[test]
fn small_sums_are_counted_in_their_own_word() {
    use AtomicOp::{Add, Max};
    for (name, expected) in [
        ("sum_of<i8>", vec![(Add, DType::U64)]),
        ("sum_of<u32>", vec![(Add, DType::U64)]),
        ("sum_of<i64>", vec![(Add, DType::U64), (Add, DType::U32)]),
        ("sum_of<f16>", vec![(Add, DType::F32), (Add, DType::U32)]),
        ("ends_of<f32>", vec![(Max, DType::U32), (Max, DType::U32), (Add, DType::U32)]),
        ("ends_of<i64>", vec![(Max, DType::U64), (Max, DType::U64), (Add, DType::U32)]),
        // What all blocks have read is overwritten: a word orders nothing but itself.
        ("grown", vec![(Add, DType::U32), (Add, DType::U32)]),
    ] {
        let simt = under(&instance(name), "T=64,C=1,V=1,G=0,F=Atomics").unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut found = Vec::new();
        atomics(&simt.body, &mut found);
        assert_eq!(found, expected, "{name}");
    }
}

/// Each kernel under the words that its `finish` lists besides LastBlock, in small tiles.
fn finishing(dealt: i64) -> Vec<(Kernel, Schedule)> {
    let mut all = Vec::new();
    for kernel in all_kernels().into_iter().filter(|k| k.path.contains("finishes::kernels")) {
        let naive = girih_core::schedule::space::Space::new(&kernel, &Facts::none(&kernel), Target::h200()).naive();
        let mut schedule = naive.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let grid = kernel.knobs.iter().position(|k| k.kind == KnobKind::Grid).expect("all of them have one");
        schedule.choices[grid] = Choice::Int(dealt);
        let finish = kernel.knobs.iter().position(|k| k.kind == KnobKind::Finish).expect("all of them have one");
        for word in kernel.knobs[finish].choices.iter().filter(|c| c.to_string() != "LastBlock") {
            schedule.choices[finish] = word.clone();
            all.push((kernel.clone(), schedule.clone()));
        }
    }
    all
}

/// Blocks and threads in other orders, and what a launch before has left.
#[test]
fn totals_do_not_depend_on_who_comes_first() {
    for (kernel, schedule) in finishing(1) {
        let simt = lower(&kernel, &Facts::none(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        for shape in shapes(&kernel, &[1, 200, 333], 2, 5) {
            let launch = Launch::new(&kernel, &shape, Placement::Shifted, 9);
            let expected = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
            for seed in 0..8 {
                let after = launch.simulate_in_order(&simt, seed).unwrap_or_else(|trap| panic!("{}: {trap}", kernel.full_name()));
                assert_eq!(launch.difference(&kernel, &after, &expected), None, "{} in order {seed}", kernel.full_name());
            }
        }
    }
}

#[test]
fn nvrtc_accepts_totals_everywhere() {
    provide();
    for (kernel, schedule) in finishing(2) {
        for arch in ARCHS {
            let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
            let simt = lower(&kernel, &Facts::packed(&kernel, true), &schedule, target).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            if let Err(e) = Compiled::of(simt, target).with_cubin() {
                panic!("{} for {arch}: {e}", kernel.full_name());
            }
        }
    }
}

/// A launch behind another takes what it uses, shares the other's memory, and waits for nothing else.
#[test]
fn a_second_launch_begins_where_all_blocks_have_ended() {
    let names = |k: &simt::Kernel| k.params.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    let simt = under(&instance("sum_of<f32>"), "T=256,C=4,V=4,G=2,F=SecondLaunch").unwrap_or_else(|e| panic!("{e}"));
    let next = simt.next.as_deref().expect("there is a second launch");
    assert_eq!((simt.name.as_str(), next.name.as_str()), ("sum_of", "sum_of_finish"));
    assert_eq!(names(&simt), ["x", "sum", "tiles", "x_len", "block_parts"]);
    assert_eq!(names(next), ["sum", "block_parts", "parts"]);
    assert_eq!((&next.launch.grid, next.launch.block), (&HostExpr::Const(1), simt.launch.block));
    // Parts, and no counter.
    let owned = simt.params.iter().filter(|p| matches!(p.kind, simt::ParamKind::Workspace { .. }));
    assert_eq!(owned.count(), 1);
    let mut found = Vec::new();
    atomics(&simt.body, &mut found);
    assert_eq!(found, []);
    // A kernel of one launch is what it was.
    let simt = under(&instance("sum_of<f32>"), "T=256,C=4,V=4,G=2,F=LastBlock").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(simt.launches().count(), 1);
}

/// Combinations that memory has no atomics for, and such as follow the order in which blocks come.
mod refused {
    use girih::prelude::*;

    #[kernel(tile(T = [64]), finish(F = [LastBlock, Atomics]))]
    pub fn product(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
        let mut acc = full::<i32>([T], 1);
        for t in x.tiles([T]).strided() {
            acc = acc * x.load(t);
        }
        let all = acc.product().product_grid();
        y.store_at(0, all);
    }

    #[kernel(tile(T = [64]), finish(F = [LastBlock, Atomics]))]
    pub fn last_odd(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
        let mut last = scalar(0);
        for t in x.tiles([T]).strided() {
            let own = x.load(t).reduce_all(0, |a, b| if b & 1 == 1 { b } else { a });
            last = if own & 1 == 1 { own } else { last };
        }
        let odd = last.reduce_grid(0, |a, b| if b & 1 == 1 { b } else { a });
        y.store_at(0, odd);
    }

    /// What a launch of its own does not have: a sum of this block's, and one that nobody combines.
    #[kernel(tile(T = [64]), finish(F = [LastBlock, SecondLaunch]))]
    pub fn own_share(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
        let mut acc = zeros::<i32>([T]);
        for t in x.tiles([T]).strided() {
            acc += x.load(t);
        }
        let own = acc.sum();
        let all = own.sum_grid();
        y.store_at(0, all - own);
    }

    #[kernel(tile(T = [64]), finish(F = [LastBlock, SecondLaunch]))]
    pub fn own_array(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
        let mut seen = shared::<i32>([8], 0);
        let mut acc = zeros::<i32>([T]);
        for t in x.tiles([T]).strided() {
            let v = x.load(t);
            seen.atomic_add(v & 7, v.like(1));
            acc += v;
        }
        let all = acc.sum().sum_grid();
        y.store_at(0, all + seen.at(3));
    }

    /// What all blocks may have changed since the kernel read it.
    #[kernel(tile(T = [64]), finish(F = [LastBlock, SecondLaunch]))]
    pub fn read_before(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
        let before = y.at(0);
        let mut acc = zeros::<i32>([T]);
        for t in x.tiles([T]).strided() {
            acc += x.load(t);
        }
        y.store_at(0, acc.sum().sum_grid() + before);
    }

    #[kernel(deterministic, tile(T = [64]), finish(F = [LastBlock, Atomics]), types(N = [f32, f16, i32, i64]))]
    pub fn demanded<N: Num>(x: &Tensor<N, 1>, y: &mut Tensor<N, 1>) {
        let mut acc = zeros::<N>([T]);
        for t in x.tiles([T]).strided() {
            acc += x.load(t);
        }
        let total = acc.sum().sum_grid();
        y.store_at(0, total);
    }

    #[kernel(deterministic, tile(T = [64]), finish(F = [LastBlock, Atomics]))]
    pub fn demanded_least(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        let mut acc = full::<f32>([T], f32::INFINITY);
        for t in x.tiles([T]).strided() {
            acc = acc.min(x.load(t));
        }
        y.store_at(0, acc.min_all().min_grid());
    }
}

fn of(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{}: {e}", def.name))
}

#[test]
fn what_memory_cannot_combine_is_refused() {
    let rule = |def: KernelDef| under(&of(def), "F=Atomics").expect_err("it is illegal");
    assert_eq!(
        rule(refused::product::Kernel::def()),
        "illegal schedule: F = Atomics: `all` is combined by a product; sums, minima and maxima of numbers are, others take LastBlock"
    );
    assert_eq!(
        rule(refused::last_odd::Kernel::def()),
        "illegal schedule: F = Atomics: `odd` is combined by an operator of the author's; sums, minima and maxima of numbers are, others take \
         LastBlock"
    );
}

#[test]
fn what_each_block_has_of_its_own_is_no_second_launch() {
    let rule = |def: KernelDef| under(&of(def), "F=SecondLaunch").expect_err("it is illegal");
    let illegal = "illegal schedule: F = SecondLaunch:";
    let way_out = "and what follows the combination uses it; use LastBlock, or combine it, too";
    assert_eq!(rule(refused::own_share::Kernel::def()), format!("{illegal} `own` is each block's own, {way_out}"));
    assert_eq!(
        rule(refused::own_array::Kernel::def()),
        format!("{illegal} the shared array `seen` is each block's own, and what follows the combination reads it; use LastBlock")
    );
    assert_eq!(rule(refused::read_before::Kernel::def()), format!("{illegal} `before` is each block's own, {way_out}"));
}

#[test]
fn a_demand_for_one_result_leaves_what_has_no_order() {
    let demanded = |n: &str| {
        let all = girih_core::registry::kernels().into_iter().filter(|d| d.name == "demanded");
        let def = all.into_iter().find(|d| d.instance.iter().any(|(_, t)| *t == n)).unwrap_or_else(|| panic!("no instance {n}"));
        under(&of(def), "F=Atomics").map(|_| ())
    };
    let rule = "illegal schedule: F = Atomics: `total` is a sum of floats, which would follow the order in which blocks come; `deterministic` \
                demands LastBlock";
    assert_eq!(demanded("f32"), Err(rule.to_string()));
    assert_eq!(demanded("f16"), Err(rule.to_string()));
    assert_eq!((demanded("i32"), demanded("i64")), (Ok(()), Ok(())));
    assert!(under(&of(refused::demanded_least::Kernel::def()), "F=Atomics").is_ok());
    let pinned = refused::demanded_least::Schedule::default().to_string();
    assert_eq!(pinned, "#[kernel(tile(T = 64), finish(F = LastBlock), deterministic)]");
    let text = girih_core::tile::print::print(&of(refused::demanded_least::Kernel::def()));
    assert!(text.contains("\n  deterministic\n"), "{text}");
}
