//! The instructions that a kernel was meant to become, counted from its SIMT IR: how often each statement is written out.
//!
//! Only what the compiler may neither leave out nor replace is expected: matrix instructions, loads of matrices, asynchronous copies, and
//! multiply-adds into sums that a thread keeps; of 16-byte accesses to global memory at least one, since equal loads are made once.

use super::{Function, Instruction};
use girih_core::simt::{Expr, Kernel, Space, Stmt, VarId};
use girih_core::types::{CompareOp, DType, TernaryOp};
use std::collections::BTreeMap;
use std::fmt;

/// A kind of instruction that SIMT IR asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `HMMA`, `IMMA`: a matrix instruction of a warp.
    Matrix,
    /// `HGMMA`, `IGMMA`: a matrix instruction of a warp group.
    GroupMatrix,
    /// `LDSM`: matrices from shared memory.
    LoadMatrix,
    /// `LDGSTS`, with the bits that a lane copies.
    AsyncCopy(u32),
    /// `FFMA`, into a sum that the thread keeps.
    MultiplyAdd,
    /// `LDG`, of 16 bytes per lane.
    WideLoad,
    /// `STG`, of 16 bytes per lane.
    WideStore,
}

impl Kind {
    /// How many of these an instruction is: a pair of multiply-adds counts twice.
    fn count(self, i: &Instruction) -> u64 {
        let is = match self {
            Kind::Matrix => i.opcode.ends_with("MMA") && !i.opcode.ends_with("GMMA"),
            Kind::GroupMatrix => i.opcode.ends_with("GMMA"),
            Kind::LoadMatrix => i.opcode == "LDSM",
            Kind::AsyncCopy(bits) => i.opcode == "LDGSTS" && i.bits() == bits,
            Kind::MultiplyAdd if i.opcode == "FFMA2" => return 2,
            Kind::MultiplyAdd => i.opcode == "FFMA",
            Kind::WideLoad => i.opcode == "LDG" && i.bits() >= 128,
            Kind::WideStore => i.opcode == "STG" && i.bits() >= 128,
        };
        is as u64
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Kind::Matrix => f.write_str("MMA"),
            Kind::GroupMatrix => f.write_str("GMMA"),
            Kind::LoadMatrix => f.write_str("LDSM"),
            Kind::AsyncCopy(bits) => write!(f, "LDGSTS.{bits}"),
            Kind::MultiplyAdd => f.write_str("FFMA"),
            Kind::WideLoad => f.write_str("LDG.128"),
            Kind::WideStore => f.write_str("STG.128"),
        }
    }
}

/// Instructions of one kind: how many were meant, at least, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// What they do.
    pub kind: Kind,
    /// As SIMT IR has them, unrolled loops written out.
    pub meant: u64,
    /// In the machine code.
    pub found: u64,
}

/// What a kernel's SIMT IR asks for, by kind.
pub fn expected(kernel: &Kernel) -> BTreeMap<Kind, u64> {
    let mut counts = BTreeMap::new();
    count(kernel, &kernel.body, 1, &mut Vec::new(), &mut counts);
    for kind in [Kind::WideLoad, Kind::WideStore] {
        counts.entry(kind).and_modify(|n| *n = 1);
    }
    counts
}

/// The kinds that a kernel asks for with what a function has of them.
pub fn compare(kernel: &Kernel, function: &Function) -> Vec<Count> {
    let found = |kind: Kind| function.instructions().map(|i| kind.count(i)).sum();
    expected(kernel).into_iter().map(|(kind, meant)| Count { kind, meant, found: found(kind) }).collect()
}

/// `unrolled`: the counters of the loops around that are written out, and their turns.
fn count(kernel: &Kernel, body: &[Stmt], times: u64, unrolled: &mut Vec<(VarId, u64)>, counts: &mut BTreeMap<Kind, u64>) {
    for stmt in body {
        match stmt {
            Stmt::For { var, start, end, step, unroll, body } => {
                let turns = if *unroll { turns(start, end, step) } else { 1 };
                unrolled.push((*var, turns));
                count(kernel, body, times * turns, unrolled, counts);
                unrolled.pop();
            }
            Stmt::If { condition, then, otherwise } => {
                let once = turns_of(condition, unrolled);
                count(kernel, then, times / once, unrolled, counts);
                count(kernel, otherwise, times - if once > 1 { times / once } else { 0 }, unrolled, counts);
            }
            Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| count(kernel, b, times, unrolled, counts)),
            other => {
                if let Some(kind) = kind(kernel, other) {
                    *counts.entry(kind).or_default() += times;
                }
            }
        }
    }
}

/// In one of how many turns a condition holds: in one of a written out loop's, where its counter is compared with a number.
fn turns_of(condition: &Expr, unrolled: &[(VarId, u64)]) -> u64 {
    let Expr::Compare(CompareOp::Eq, counter, number) = condition else { return 1 };
    match (&**counter, &**number) {
        (Expr::Var(var), Expr::Literal(_)) => unrolled.iter().find(|(v, _)| v == var).map_or(1, |(_, turns)| (*turns).max(1)),
        _ => 1,
    }
}

fn kind(kernel: &Kernel, stmt: &Stmt) -> Option<Kind> {
    match stmt {
        Stmt::Mma { .. } => Some(Kind::Matrix),
        Stmt::Wgmma { .. } => Some(Kind::GroupMatrix),
        Stmt::LoadMatrix { .. } => Some(Kind::LoadMatrix),
        Stmt::AsyncCopy { bytes, .. } => Some(Kind::AsyncCopy(8 * bytes)),
        Stmt::LoadVector { place, lanes, .. } if wide(place.space, place.dtype, *lanes) => Some(Kind::WideLoad),
        Stmt::StoreVector { place, lanes, .. } if wide(place.space, place.dtype, *lanes) => Some(Kind::WideStore),
        Stmt::Assign { var, value: Expr::Ternary(TernaryOp::Fma, _, _, sum), .. } => {
            (kernel.var(*var).dtype == DType::F32 && is(sum, *var)).then_some(Kind::MultiplyAdd)
        }
        _ => None,
    }
}

fn wide(space: Space, dtype: DType, lanes: u32) -> bool {
    matches!(space, Space::Global(_)) && dtype.size() as u32 * lanes == 16
}

/// Whether an expression reads the variable, or an element of it.
fn is(expr: &Expr, var: VarId) -> bool {
    matches!(expr, Expr::Var(v) | Expr::Element(v, _) if *v == var)
}

/// Turns of a loop between literals; at least one is written out of any other.
fn turns(start: &Expr, end: &Expr, step: &Expr) -> u64 {
    let number = |e: &Expr| match e {
        Expr::Literal(l) => Some(l.to_i64()),
        _ => None,
    };
    match (number(start), number(end), number(step)) {
        (Some(start), Some(end), Some(step)) if step > 0 => (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::sass::parse;
    use girih_core::fragments::{Atom, LoadMatrix, Number};
    use girih_core::loc::SourceLoc;
    use girih_core::simt::{CacheHint, Fragment, LaunchRecord, Place, Provenance, SharedId, Var};
    use girih_core::tile::host::HostExpr;
    use girih_core::types::Literal;

    fn int(i: i64) -> Expr {
        Expr::Literal(Literal::from_i64(DType::I32, i))
    }

    /// A kernel of these statements, whose variables are an array of f32 and a counter.
    fn kernel(body: Vec<Stmt>) -> Kernel {
        let loc = SourceLoc { file: "test", line: 1, column: 1 };
        let text = String::new;
        Kernel {
            name: "test".into(),
            params: Vec::new(),
            vars: vec![
                Var { name: "acc".into(), dtype: DType::F32, len: Some(64) },
                Var { name: "i".into(), dtype: DType::I32, len: None },
            ],
            shared: Vec::new(),
            body,
            launch: LaunchRecord::new(HostExpr::Const(1), 32),
            provenance: Provenance { signature: text(), loc, schedule: text(), facts: text(), launch: text() },
            alike: Default::default(),
            next: None,
        }
    }

    fn repeated(times: i64, unroll: bool, body: Vec<Stmt>) -> Stmt {
        Stmt::For { var: VarId(1), start: int(0), end: int(times), step: int(1), unroll, body }
    }

    fn place(space: Space) -> Place {
        Place { space, dtype: DType::F32, index: int(0) }
    }

    fn mma() -> Stmt {
        let atom = Atom::all_of(Number::F16, Number::F16, DType::F32, 80).next().expect("an atom");
        let part = || Fragment { var: VarId(0), at: int(0) };
        Stmt::Mma { atom, d: part(), a: part(), b: part(), c: part() }
    }

    #[test]
    fn statements_count_as_often_as_they_are_written_out() {
        let load = Stmt::LoadMatrix {
            load: LoadMatrix { count: 4, transposed: false },
            var: VarId(0),
            at: int(0),
            place: place(Space::Shared(SharedId(0))),
        };
        let copy =
            |bytes| Stmt::AsyncCopy { shared: place(Space::Shared(SharedId(0))), global: place(Space::Global(0)), bytes, predicate: None };
        let wide = |lanes| Stmt::LoadVector {
            var: VarId(0),
            at: int(0),
            place: place(Space::Global(0)),
            lanes,
            predicate: None,
            cache: CacheHint::Default,
        };
        let sum = Expr::Element(VarId(0), Box::new(int(3)));
        let fma = |sum: Expr| Stmt::Assign {
            var: VarId(0),
            index: Some(int(3)),
            value: Expr::Ternary(TernaryOp::Fma, Box::new(sum.clone()), Box::new(sum.clone()), Box::new(sum)),
        };
        let turn = vec![repeated(2, true, vec![load, repeated(3, true, vec![mma()])]), copy(16), copy(4)];
        let one = Expr::Literal(Literal::from_f64(DType::F32, 1.0));
        let third = Expr::Compare(CompareOp::Eq, Box::new(Expr::Var(VarId(1))), Box::new(int(2)));
        let all = kernel(vec![
            // A loop on the GPU is there once, however often it turns.
            repeated(100, false, turn),
            Stmt::If { condition: int(1), then: vec![copy(16)], otherwise: vec![fma(sum.clone()), fma(one)] },
            // In one of the four turns that are written out.
            repeated(4, true, vec![Stmt::If { condition: third, then: vec![copy(8)], otherwise: vec![copy(8), copy(8)] }]),
            wide(4),
            wide(4),
            wide(2),
        ]);
        let wanted = [
            (Kind::Matrix, 6),
            (Kind::LoadMatrix, 2),
            (Kind::AsyncCopy(32), 1),
            (Kind::AsyncCopy(64), 7),
            (Kind::AsyncCopy(128), 2),
            (Kind::MultiplyAdd, 1),
            (Kind::WideLoad, 1),
        ];
        assert_eq!(expected(&all).into_iter().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn listings_are_compared_with_what_was_meant() {
        let text = "
\t.section\t.text.test,\"ax\",@progbits
test:
.text.test:
        /*0000*/                   LDSM.16.M88.4 R8, [R2] ;
        /*0010*/                   HMMA.16816.F32 R4, R8, R2, R4 ;
        /*0020*/                   HMMA.16816.F32 R4, R8, R2, R4 ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR6][R2.64] ;
        /*0040*/                   FFMA2 R4, R8, R2, R4 ;
        /*0050*/                   STG.E.128 desc[UR6][R2.64], R4 ;
        /*0060*/                   EXIT ;
";
        let function = parse(text).expect("a listing").functions.remove(0);
        let three = compare(&kernel(vec![repeated(3, true, vec![mma()])]), &function);
        assert_eq!(three, [Count { kind: Kind::Matrix, meant: 3, found: 2 }]);
        let found = |kind: Kind| function.instructions().map(|i| kind.count(i)).sum::<u64>();
        let kinds = [Kind::LoadMatrix, Kind::AsyncCopy(128), Kind::AsyncCopy(64), Kind::MultiplyAdd, Kind::WideLoad, Kind::WideStore];
        assert_eq!(kinds.map(found), [1, 1, 0, 2, 0, 1]);
    }
}
