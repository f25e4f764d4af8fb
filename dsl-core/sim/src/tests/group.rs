//! Matrix instructions of warp groups: what they multiply, and what may go wrong until somebody waits for them.

use super::build::*;
use crate::Trap;
use girih_ir::fragments::{GroupAtom, Number, Operand};
use girih_ir::simt::{Barrier, Expr, Fragment, Kernel, LeftMatrix, SharedMatrix, Special, Stmt, Var, VarId};
use girih_ir::types::{DType, Literal};

/// The operands' matrices: which way they lie, and bytes of a row.
#[derive(Clone, Copy)]
struct Way {
    across: bool,
    row_bytes: u32,
}

const ALONG: Way = Way { across: false, row_bytes: 32 };

fn atom() -> GroupAtom {
    GroupAtom { n: 64, a: Number::F16, b: Number::F16, accumulator: DType::F32 }
}

/// Bytes of an operand of 64 positions along the result and 16 along the sum.
fn bytes(way: Way) -> u32 {
    let rows = if way.across { 16 * (128 / way.row_bytes) } else { 64 };
    rows * way.row_bytes
}

fn matrix(array: u32, way: Way) -> SharedMatrix {
    let next_panel = if way.across { 16 * way.row_bytes } else { 0 };
    let Way { across, row_bytes } = way;
    SharedMatrix { place: of(DType::F16, shared(array, int(0))), across, row_bytes, eight_rows: 8 * row_bytes, next_panel }
}

/// The operand as it lies in shared memory: panels of rows, chunk `c` of row `r` at the place of `c ^ r`, whose rows count in lines of 128 bytes.
fn image(way: Way, value: impl Fn(usize, usize) -> f32) -> Vec<i32> {
    let (row, across) = (way.row_bytes as usize / 2, way.across);
    let mut halves = vec![0u16; bytes(way) as usize / 2];
    for outer in 0..64 {
        for k in 0..16 {
            let (line, column) = if across { (k, outer) } else { (outer, k) };
            let (panel, column) = (column / row, column % row);
            let line = panel * 16 + line;
            let chunk = (column / 8) ^ (line * row / 64 % (row / 8));
            halves[line * row + chunk * 8 + column % 8] = half::f16::from_f32(value(outer, k)).to_bits();
        }
    }
    halves.chunks_exact(2).map(|w| (u32::from(w[0]) | u32::from(w[1]) << 16) as i32).collect()
}

/// Four warps copy both operands to shared memory, multiply, and store what each thread has.
fn product([a, b]: [Way; 2]) -> Kernel {
    let mut k = Build::new(128);
    let (x, y, out) = (k.pointer("x", DType::I32, false), k.pointer("y", DType::I32, false), k.pointer("out", DType::F32, true));
    let thread = k.special(Special::Thread);
    let arrays = [("a", a), ("b", b)].map(|(name, way)| {
        let array = k.array(name, DType::F16, bytes(way) / 2);
        k.kernel.shared[array as usize].align = SharedMatrix::ALIGN;
        array
    });
    for (param, array, way) in [(x, arrays[0], a), (y, arrays[1], b)] {
        let i = k.var("i", DType::I32, None);
        let word = load(of(DType::I32, global(param, Expr::Var(i))));
        let copy = store(of(DType::I32, shared(array, Expr::Var(i))), word);
        k.push(Stmt::For {
            var: i,
            start: thread.clone(),
            end: int(bytes(way) as i32 / 4),
            step: int(128),
            unroll: false,
            body: vec![copy],
        });
    }
    let acc = k.var("acc", DType::F32, Some(32));
    k.push(Stmt::Declare { var: acc, init: Some(Expr::Literal(Literal::f32(1.0))) });
    k.push(Stmt::ProxyFence);
    k.push(Stmt::Barrier(Barrier::Block));
    k.push(Stmt::WgmmaFence);
    let accumulate = Expr::Literal(Literal::bool(true));
    k.push(Stmt::Wgmma {
        atom: atom(),
        d: Fragment { var: acc, at: int(0) },
        a: LeftMatrix::Shared(matrix(arrays[0], a)),
        b: matrix(arrays[1], b),
        accumulate,
    });
    k.push(Stmt::WgmmaCommit);
    k.push(Stmt::WgmmaWait { pending: 0, sums: vec![acc] });
    let e = k.var("e", DType::I32, None);
    let to = global(out, add(mul(thread, int(32)), Expr::Var(e)));
    let body = vec![store(to, Expr::Element(acc, Box::new(Expr::Var(e))))];
    k.push(Stmt::For { var: e, start: int(0), end: int(32), step: int(1), unroll: false, body });
    k.done()
}

fn a(m: usize, k: usize) -> f32 {
    (m as f32 - 30.0) * 0.25 + k as f32
}

fn b(n: usize, k: usize) -> f32 {
    (n * 3 % 17) as f32 - k as f32 * 0.5
}

#[test]
fn warp_groups_multiply_what_descriptors_say() {
    let ways = [ALONG, Way { across: true, row_bytes: 128 }, Way { across: false, row_bytes: 64 }, Way { across: false, row_bytes: 128 }];
    for (left, right) in ways.into_iter().flat_map(|l| ways.map(|r| (l, r))) {
        let kernel = product([left, right]);
        let (x, y) = (image(left, a), image(right, b));
        let run = launch(&kernel, 1, &[Given::I32(&x), Given::I32(&y), Given::Raw(128 * 32 * 4)]);
        let (out, layout) = (run.f32(2), atom().accumulators());
        for (i, got) in out.iter().enumerate() {
            let at = layout.coordinates(i as i64 / 32, i as i64 % 32);
            let want: f32 = 1.0 + (0..16).map(|k| a(at[0] as usize, k) * b(at[1] as usize, k)).sum::<f32>();
            assert!((got - want).abs() < 1e-2, "{at:?}: {got}, {want}");
        }
        let c = run.report.counters.matrix;
        assert_eq!((c.half, c.groups), (64 * 64 * 16, 64 * 64 * 16));
    }
}

fn trapped(kernel: &Kernel) -> Trap {
    let (x, y) = (image(ALONG, a), image(ALONG, b));
    trap(kernel, 1, &[Given::I32(&x), Given::I32(&y), Given::Raw(128 * 32 * 4)])
}

/// The product without its first statement of some kind.
fn lacking(is: impl Fn(&Stmt) -> bool) -> Kernel {
    let mut kernel = product([ALONG; 2]);
    let at = kernel.body.iter().position(is).expect("such a statement");
    kernel.body.remove(at);
    kernel
}

#[test]
fn each_step_of_a_product_is_needed() {
    let race = |t: Trap| assert_eq!(t.kind.name(), "race", "{t}");
    race(trapped(&lacking(|s| matches!(s, Stmt::ProxyFence))));
    // Of other warps' words none may be there yet.
    let apart = trapped(&lacking(|s| matches!(s, Stmt::Barrier(_))));
    assert!(["race", "uninitialised"].contains(&apart.kind.name()), "{apart}");
    let t = trapped(&lacking(|s| matches!(s, Stmt::WgmmaFence)));
    assert!(t.to_string().contains("no wgmma fence"), "{t}");
    let waits = |s: &Stmt| matches!(s, Stmt::WgmmaWait { .. });
    assert_eq!(trapped(&lacking(waits)).kind.name(), "uninitialised");
    assert_eq!(trapped(&lacking(|s| matches!(s, Stmt::WgmmaCommit))).kind.name(), "uninitialised");
    // A wait that does not name the sum says nothing of it.
    let mut unnamed = product([ALONG; 2]);
    for stmt in &mut unnamed.body {
        if let Stmt::WgmmaWait { sums, .. } = stmt {
            sums.clear();
        }
    }
    assert_eq!(trapped(&unnamed).kind.name(), "uninitialised");
}

#[test]
fn what_is_multiplied_stays_until_it_was_waited_for() {
    let mut kernel = product([ALONG; 2]);
    let at = kernel.body.iter().position(|s| matches!(s, Stmt::WgmmaWait { .. })).expect("a wait");
    let zero = Expr::Literal(Literal { dtype: DType::F16, bits: 0 });
    kernel.body.insert(at, when(equal(thread_of(&kernel), int(5)), vec![store(of(DType::F16, shared(0, int(0))), zero)]));
    let t = trapped(&kernel);
    assert_eq!(t.kind.name(), "race", "{t}");
    assert!(t.to_string().contains("asynchronous read"), "{t}");
    // A sum that is set while it is in flight.
    let mut kernel = product([ALONG; 2]);
    let acc = kernel.vars.iter().position(|v| v.name == "acc").map(|v| VarId(v as u32)).expect("acc");
    kernel.body.insert(at, Stmt::Assign { var: acc, index: Some(int(3)), value: float(0.0) });
    assert!(trapped(&kernel).to_string().contains("was written while it was an accumulator in flight"));
}

/// The product whose left operand is in registers: each thread loads its part from a tensor, in their order.
fn fed_product(b: Way) -> Kernel {
    let mut kernel = product([ALONG, b]);
    let at = kernel.body.iter().position(|s| matches!(s, Stmt::WgmmaFence)).expect("a fence");
    let left = VarId(kernel.vars.len() as u32);
    kernel.vars.extend([("left", DType::F16, Some(8)), ("r", DType::I32, None)].map(|(name, dtype, len)| Var {
        name: name.into(),
        dtype,
        len,
    }));
    let r = VarId(left.0 + 1);
    let value = load(of(DType::F16, global(0, add(mul(thread_of(&kernel), int(8)), Expr::Var(r)))));
    let body = vec![Stmt::Assign { var: left, index: Some(Expr::Var(r)), value }];
    let (start, end, step) = (int(0), int(8), int(1));
    let fill = [Stmt::Declare { var: left, init: None }, Stmt::For { var: r, start, end, step, unroll: true, body }];
    kernel.body.splice(at..at, fill);
    for stmt in &mut kernel.body {
        if let Stmt::Wgmma { a, .. } = stmt {
            *a = LeftMatrix::Registers(Fragment { var: left, at: int(0) });
        }
    }
    kernel
}

/// Each thread's part of the left operand, one thread behind the other, in words.
fn left_parts() -> Vec<i32> {
    let layout = atom().part().layout(Operand::A);
    let part = |thread: i64, r: i64| {
        let at = layout.coordinates(thread % 32, r);
        half::f16::from_f32(a((16 * (thread / 32) + at[0]) as usize, at[1] as usize)).to_bits()
    };
    let halves: Vec<u16> = (0..128).flat_map(|thread| (0..8).map(move |r| part(thread, r))).collect();
    halves.chunks_exact(2).map(|w| (u32::from(w[0]) | u32::from(w[1]) << 16) as i32).collect()
}

#[test]
fn left_operands_in_registers_are_multiplied() {
    for way in [ALONG, Way { across: true, row_bytes: 128 }, Way { across: false, row_bytes: 64 }] {
        let (x, y) = (left_parts(), image(way, b));
        let run = launch(&fed_product(way), 1, &[Given::I32(&x), Given::I32(&y), Given::Raw(128 * 32 * 4)]);
        let (out, layout) = (run.f32(2), atom().accumulators());
        for (i, got) in out.iter().enumerate() {
            let at = layout.coordinates(i as i64 / 32, i as i64 % 32);
            let want: f32 = 1.0 + (0..16).map(|k| a(at[0] as usize, k) * b(at[1] as usize, k)).sum::<f32>();
            assert!((got - want).abs() < 1e-2, "{at:?}: {got}, {want}");
        }
    }
}

#[test]
fn left_operands_in_registers_stay_until_they_were_waited_for() {
    let (x, y) = (left_parts(), image(ALONG, b));
    let trapped = |kernel: &Kernel| trap(kernel, 1, &[Given::I32(&x), Given::I32(&y), Given::Raw(128 * 32 * 4)]).to_string();
    let changed = |is: &dyn Fn(&Stmt) -> bool, put: Option<Stmt>| {
        let mut kernel = fed_product(ALONG);
        let at = kernel.body.iter().position(is).expect("such a statement");
        match put {
            Some(stmt) => kernel.body.insert(at, stmt),
            None => drop(kernel.body.remove(at)),
        }
        trapped(&kernel)
    };
    let kernel = fed_product(ALONG);
    let var = |name: &str| VarId(kernel.vars.iter().position(|v| v.name == name).expect("a variable") as u32);
    let (left, r) = (var("left"), var("r"));
    let waits = |s: &Stmt| matches!(s, Stmt::WgmmaWait { .. });
    // Who sets it, or looks at it, while it is in flight.
    let set = Stmt::Assign { var: left, index: Some(int(3)), value: Expr::Literal(Literal { dtype: DType::F16, bits: 0 }) };
    let told = changed(&waits, Some(set));
    assert!(told.contains("was written while it was a left operand in flight"), "{told}");
    let look = Stmt::Assign { var: r, index: None, value: Expr::Cast(DType::I32, Box::new(Expr::Element(left, Box::new(int(3))))) };
    assert!(changed(&waits, Some(look)).contains("uninitialised"), "it may be looked at behind the wait alone");
    // Set behind the fence of the sums.
    let told = changed(&|s| matches!(s, Stmt::WgmmaFence), None);
    assert!(told.contains("no wgmma fence stands behind the last access to"), "{told}");
    // Nobody waits.
    assert!(changed(&waits, None).contains("uninitialised"), "sums are there behind the wait");
}

fn thread_of(kernel: &Kernel) -> Expr {
    let var = kernel.vars.iter().position(|v| v.name == "special").expect("the thread");
    Expr::Var(VarId(var as u32))
}
