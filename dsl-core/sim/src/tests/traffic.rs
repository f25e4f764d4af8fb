//! Counters of access patterns whose cost is known.

use super::build::*;
use super::kernels::{numbers, transpose, vector_add, vectors};
use crate::counters::{distinct, sectors, wavefronts};
use crate::{Class, GlobalTraffic, SharedTraffic};
use girih_ir::simt::Expr;

fn lanes(f: impl Fn(u64) -> u64) -> [u64; 32] {
    std::array::from_fn(|l| f(l as u64))
}

#[test]
fn sectors_of_known_patterns() {
    for (address, bytes, expected) in [
        (&(|l: u64| 4 * l) as &dyn Fn(u64) -> u64, 4, 4),
        (&|l| 4 * l + 4, 4, 5),
        (&|l| 128 * l, 4, 32),
        (&|_| 96, 4, 1),
        (&|l| l, 1, 1),
        (&|l| 16 * l, 16, 16),
        (&|l| 8 * l, 8, 8),
        (&|l| 4 * (31 - l), 4, 4),
    ] {
        assert_eq!(sectors(&lanes(address), u32::MAX, bytes), expected);
    }
    assert_eq!(sectors(&lanes(|l| 4 * l), 0b1, 4), 1);
}

#[test]
fn bank_conflicts_of_known_patterns() {
    for (what, address, bytes, expected) in [
        ("stride 1", &(|l: u64| 4 * l) as &dyn Fn(u64) -> u64, 4, (1, 0)),
        ("stride 2", &|l| 8 * l, 4, (2, 1)),
        ("stride 32", &|l| 128 * l, 4, (32, 31)),
        ("padded 33", &|l| 132 * l, 4, (1, 0)),
        ("broadcast", &|_| 64, 4, (1, 0)),
        ("bytes", &|l| l, 1, (1, 0)),
        ("float2", &|l| 8 * l, 8, (2, 0)),
        ("float4", &|l| 16 * l, 16, (4, 0)),
        ("float4 broadcast", &|_| 64, 16, (1, 0)),
        ("float4 rows of 128 bytes", &|l| 128 * l, 16, (32, 28)),
    ] {
        assert_eq!(wavefronts(&lanes(address), u32::MAX, bytes), expected, "{what}");
    }
}

#[test]
fn lanes_share_an_address_of_constant_memory() {
    assert_eq!(distinct(&lanes(|_| 64), u32::MAX), 1);
    assert_eq!(distinct(&lanes(|l| 4 * (l / 8)), u32::MAX), 4);
    assert_eq!(distinct(&lanes(|l| 4 * (l % 3)), 0b11011), 2);
}

#[test]
fn vector_add_traffic() {
    let x = numbers(128);
    let given = [Given::F32(&x), Given::F32(&x), Given::Raw(512), Given::Scalar(128)];
    let c = launch(&vector_add(), 2, &given).report.counters;
    assert_eq!(c.global_load, GlobalTraffic { requests: 8, sectors: 32, bytes: 1024 });
    assert_eq!(c.global_store, GlobalTraffic { requests: 4, sectors: 16, bytes: 512 });
    assert_eq!((c.unique_read_bytes, c.unique_written_bytes), (1024, 512));
    assert_eq!((c.warps(Class::FloatAdd), c.threads(Class::FloatAdd)), (4, 128));
    assert_eq!(c.warps(Class::Memory), 12);

    let x = numbers(128);
    let c = launch(&vectors(0), 1, &[Given::F32(&x), Given::Raw(512)]).report.counters;
    assert_eq!(c.global_load, GlobalTraffic { requests: 1, sectors: 16, bytes: 512 });
}

#[test]
fn transposes_conflict_unless_padded() {
    let x = numbers(1024);
    let shared = |pitch| launch(&transpose(pitch), 1, &[Given::F32(&x), Given::Raw(4096)]).report.counters;
    assert_eq!(shared(33).shared_load, SharedTraffic { requests: 32, wavefronts: 32, conflicts: 0 });
    assert_eq!(shared(32).shared_load, SharedTraffic { requests: 32, wavefronts: 1024, conflicts: 992 });
    assert_eq!(shared(32).shared_store.conflicts, 0);
    assert_eq!(shared(33).block_barriers, 8);
}

#[test]
fn loops_that_are_written_out_cost_their_work_alone() {
    use girih_ir::simt::{Special, Stmt};
    use girih_ir::types::DType;
    let count = |unroll: bool, inside: bool| {
        let mut k = Build::new(32);
        let (x, y) = (k.pointer("x", DType::F32, false), k.pointer("y", DType::F32, true));
        let thread = k.special(Special::Thread);
        let (i, own) = (k.var("i", DType::I32, None), k.var("own", DType::I32, None));
        let at = add(thread.clone(), mul(Expr::Var(i), int(32)));
        let body = match inside {
            // What is read in the loop is no constant.
            true => {
                let value = Expr::Cast(DType::I32, Box::new(load(global(x, at))));
                vec![Stmt::Let { var: own, value }, store(global(y, add(Expr::Var(own), mul(Expr::Var(i), int(32)))), float(1.0))]
            }
            false => vec![store(global(y, at), float(1.0))],
        };
        k.push(Stmt::For { var: i, start: int(0), end: int(4), step: int(1), unroll, body });
        let lanes: Vec<f32> = (0..128).map(|i| (i % 32) as f32).collect();
        let c = launch(&k.done(), 1, &[Given::F32(&lanes), Given::Raw(512)]).report.counters;
        [Class::Integer, Class::Control, Class::Memory].map(|class| c.warps(class))
    };
    // The end of the kernel counts as a branch.
    assert_eq!(count(true, false), [0, 1, 4]);
    // Test, step, address: 5 + 4 + 4 * 2; five tests, four jumps and the end.
    assert_eq!(count(false, false), [17, 10, 4]);
    assert_eq!(count(true, true), [4, 1, 8]);
}
