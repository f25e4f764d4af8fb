//! Matrix instructions: order, traps, and the cost of their accesses. Their results are tested beside a GPU's, in the integration tests.

use super::build::*;
use crate::{Class, MatrixWork, SharedTraffic};
use girih_ir::fragments::{ATOMS, Atom, LoadMatrix, Number, Operand};
use girih_ir::layout::SharedLayout;
use girih_ir::simt::{Barrier, Expr, Fragment, Kernel, Special, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType, Literal};

fn half() -> Atom {
    Atom::all_of(Number::F16, Number::F16, DType::F32, 80).next().expect("an atom")
}

fn fragment(var: VarId) -> Fragment {
    Fragment { var, at: int(0) }
}

/// Declares the fragments of an atom, all zero, and gives the instruction.
fn instruction(k: &mut Build, atom: Atom) -> Stmt {
    let [d, a, b] = [Operand::Accumulator, Operand::A, Operand::B].map(|operand| {
        let var = k.var("part", atom.dtype(operand), Some(atom.registers(operand)));
        let init = Some(Expr::Literal(Literal { dtype: atom.dtype(operand), bits: 0 }));
        k.push(Stmt::Declare { var, init });
        fragment(var)
    });
    Stmt::Mma { atom, d: d.clone(), a, b, c: d }
}

#[test]
fn a_warp_that_parted_multiplies_no_matrices() {
    let mut k = Build::new(64);
    let lane = k.special(Special::Lane);
    let mma = instruction(&mut k, half());
    k.push(when(less(lane, int(16)), vec![mma]));
    let t = trap(&k.done(), 1, &[]);
    assert_eq!(t.kind.name(), "divergent");
    assert!(t.to_string().contains("reach the matrix instruction"), "{t}");
}

#[test]
fn whole_warps_may_part() {
    let mut k = Build::new(64);
    let warp = k.special(Special::Warp);
    let mma = instruction(&mut k, half());
    k.push(when(less(warp, int(1)), vec![mma]));
    let c = launch(&k.done(), 3, &[]).report.counters;
    assert_eq!((c.warps(Class::Matrix), c.threads(Class::Matrix)), (3, 96));
    assert_eq!(c.matrix, MatrixWork { half: 3 * 2048, ..MatrixWork::default() });
}

#[test]
fn work_is_counted_by_format() {
    let mut k = Build::new(32);
    for atom in ATOMS {
        let mma = instruction(&mut k, atom);
        k.push(mma);
    }
    let c = launch(&k.done(), 1, &[]).report.counters;
    // Two of k 16 and two of k 8 in f16, one of k 16 in bf16; k 8 and 4 in tf32; four each of 16 × 8 × 32 and 8 × 8 × 16,
    // and four of 16 × 8 × 32 in 8-bit floats.
    assert_eq!(c.matrix, MatrixWork { half: 3 * 2048 + 2 * 1024, tf32: 1024 + 512, int8: 4 * (4096 + 1024), float8: 4 * 4096, groups: 0 });
}

#[test]
fn operands_must_be_set() {
    let mut k = Build::new(32);
    let mma = instruction(&mut k, half());
    for s in &mut k.kernel.body {
        if let Stmt::Declare { var: VarId(1), init } = s {
            *init = None;
        }
    }
    k.push(mma);
    assert_eq!(trap(&k.done(), 1, &[]).kind.name(), "uninitialised");
}

/// The first index of each lane's row in `tile`.
enum Rows<'a> {
    /// A 16 × 64 tile of f16 in this layout, 16 columns of it from here on.
    Columns(&'a SharedLayout, i32),
    /// Any index, from the lane.
    At(&'a dyn Fn(Expr) -> Expr),
}

fn xor(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::Xor, Box::new(a), Box::new(b))
}

/// One warp fills a tile of 16 × 64 f16 and loads 16 columns of it as a fragment.
fn tile(len: u32, synchronised: bool, loads: &[Rows], transposed: bool) -> Kernel {
    let mut k = Build::new(32);
    let s = k.array("tile", DType::F16, len);
    let lane = k.special(Special::Lane);
    let zero = Expr::Literal(Literal { dtype: DType::F16, bits: 0 });
    let i = k.var("i", DType::I32, None);
    let fill = store(of(DType::F16, shared(s, add(mul(Expr::Var(i), int(32)), lane.clone()))), zero);
    k.push(Stmt::For { var: i, start: int(0), end: int(len as i32 / 32), step: int(1), unroll: false, body: vec![fill] });
    if synchronised {
        k.push(Stmt::Barrier(Barrier::Warp));
    }
    let a = k.declare("a", DType::F16, Some(8));
    for rows in loads {
        let at = match rows {
            Rows::At(f) => f(lane.clone()),
            Rows::Columns(layout, first) => {
                let row = rem(lane.clone(), int(16));
                let column = add(mul(div(lane.clone(), int(16)), int(8)), int(*first));
                let swizzle = mul(rem(row.clone(), int(layout.mask as i32 + 1)), int(1 << layout.chunk));
                add(mul(row, int(layout.pitch as i32)), xor(column, swizzle))
            }
        };
        let load = LoadMatrix { count: 4, transposed };
        k.push(Stmt::LoadMatrix { load, var: a, at: int(0), place: of(DType::F16, shared(s, at)) });
    }
    k.done()
}

#[test]
fn swizzled_tiles_have_no_bank_conflicts() {
    let plain = SharedLayout::plain(64);
    let swizzled = SharedLayout { chunk: 3, mask: 7, ..plain };
    let padded = SharedLayout::plain(72);
    let cost = |layout: &SharedLayout, len, transposed| {
        let columns: Vec<Rows> = [0, 16, 32, 48].map(|c| Rows::Columns(layout, c)).into();
        launch(&tile(len, true, &columns, transposed), 1, &[]).report.counters.shared_load
    };
    for transposed in [false, true] {
        assert_eq!(cost(&swizzled, 1024, transposed), SharedTraffic { requests: 4, wavefronts: 16, conflicts: 0 });
        assert_eq!(cost(&padded, 16 * 72, transposed), SharedTraffic { requests: 4, wavefronts: 16, conflicts: 0 });
        // All rows of a matrix start in the same bank.
        assert_eq!(cost(&plain, 1024, transposed), SharedTraffic { requests: 4, wavefronts: 128, conflicts: 112 });
    }
    // The swizzle of the kernel is that of the layout.
    assert_eq!(swizzled.address(5, 16), 5 * 64 + (16 ^ 40));
}

#[test]
fn rows_of_matrices_are_checked() {
    let kind = |rows: &dyn Fn(Expr) -> Expr, len, synchronised| {
        let t = trap(&tile(len, synchronised, &[Rows::At(rows)], false), 1, &[]);
        t.kind.name()
    };
    let rows = |lane| mul(lane, int(32));
    launch(&tile(1024, true, &[Rows::At(&rows)], false), 1, &[]);
    assert_eq!(kind(&|lane| add(mul(lane, int(8)), int(4)), 1024, true), "misaligned");
    assert_eq!(kind(&|lane| mul(lane, int(40)), 1024, true), "bounds");
    assert_eq!(kind(&|_| int(0), 1024, false), "race");
}

#[test]
fn a_row_that_was_never_written_is_found() {
    let mut k = Build::new(32);
    let s = k.array("tile", DType::F16, 512);
    let lane = k.special(Special::Lane);
    let a = k.declare("a", DType::F16, Some(2));
    // One matrix: its 8 rows are read, and only those.
    let one = |first| Stmt::LoadMatrix {
        load: LoadMatrix { count: 1, transposed: false },
        var: a,
        at: int(0),
        place: of(DType::F16, shared(s, add(mul(lane.clone(), int(8)), int(first)))),
    };
    let i = k.var("i", DType::I32, None);
    let zero = Expr::Literal(Literal { dtype: DType::F16, bits: 0 });
    let fill = store(of(DType::F16, shared(s, add(mul(lane.clone(), int(2)), Expr::Var(i)))), zero);
    k.push(Stmt::For { var: i, start: int(0), end: int(2), step: int(1), unroll: false, body: vec![fill] });
    k.push(Stmt::Barrier(Barrier::Warp));
    k.push(one(0));
    let good = k.kernel.clone();
    launch(&good, 1, &[]);
    k.push(one(256));
    assert_eq!(trap(&k.done(), 1, &[]).kind.name(), "uninitialised");
}
