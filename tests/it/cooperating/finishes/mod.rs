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
use girih_core::simt::{self, Stmt};
use girih_core::target::Target;
use girih_core::tile::Kernel;
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

/// Blocks and threads in other orders, and totals that a launch before has left.
#[test]
fn totals_do_not_depend_on_who_comes_first() {
    for kernel in all_kernels().into_iter().filter(|k| k.path.contains("finishes::kernels")) {
        let schedule = if kernel.name == "columns" { "R=2,CR=1,CC=1,V=1,G=0,F=Atomics" } else { "T=64,C=1,V=1,G=0,F=Atomics" };
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
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
    for kernel in all_kernels().into_iter().filter(|k| k.path.contains("finishes::kernels")) {
        let schedule = if kernel.name == "columns" { "R=2,CR=1,CC=1,V=1,G=0,F=Atomics" } else { "T=64,C=1,V=1,G=2,F=Atomics" };
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        for arch in ARCHS {
            let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
            let simt = lower(&kernel, &Facts::packed(&kernel, true), &schedule, target).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            if let Err(e) = Compiled::of(simt, target).with_cubin() {
                panic!("{} for {arch}: {e}", kernel.full_name());
            }
        }
    }
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
