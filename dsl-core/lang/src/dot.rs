//! Dots of tiles.

use super::builder::KernelBuilder;
use super::elem::{Factor, Num};
use super::ops;
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Fold, Op, Size, Stmt, Ty, ValueId};
use girih_ir::types::{DType, UnaryOp};

/// `acc + a · b` for `[M, K] · [K, N]` into `[M, N]`, added up in `acc`'s type: f32 for floats, i32 for `i8`, `u8` and `i32`, u32 for
/// `u32`. Products of narrower floats and 8-bit integers are exact; those of f32 are fused with the addition. The order of the additions is
/// the schedule's. Absent elements of the operands count as zero.
///
/// # Errors
/// Shapes or element types that don't fit are reported with the line of the call.
#[track_caller]
pub fn dot<T: Num, A: Num>(a: Tile<T>, b: Tile<T>, acc: Tile<A>) -> Tile<A> {
    product([a.handle(), b.handle(), acc.handle()], (T::DTYPE, A::DTYPE), SourceLoc::caller())
}

/// The same of operands that need not have one type: 8-bit floats may be of either format.
#[track_caller]
pub fn mixed_dot<T: Factor<U>, U: Num, A: Num>(a: Tile<T>, b: Tile<U>, acc: Tile<A>) -> Tile<A> {
    product([a.handle(), b.handle(), acc.handle()], (T::DTYPE, A::DTYPE), SourceLoc::caller())
}

fn product<A: Num>(handles: [Handle; 3], (of, sum): (DType, DType), loc: SourceLoc) -> Tile<A> {
    let recorded = session::with(|s| {
        let k = s.kernel("`dot`", loc)?;
        if !of.dot_accumulators().contains(&sum) {
            k.error(wrong_types(of, sum, loc));
            return None;
        }
        record(k, handles, sum, None, loc)
    });
    Tile::of(recorded.unwrap_or(Handle::POISON))
}

/// A dot with another pair of operations: for `[M, K]` and `[K, N]` each element of `acc`, `[M, N]`, becomes
/// `step(sum, a, b)` for the elements of its row of `a` and its column of `b`, one pair after the other in ascending order.
/// Absent elements of the operands count as `absent`.
///
/// ```ignore
/// paths = dot_with(to.load((m, k)), from.load((k, n)), paths, f32::INFINITY, |path, to, from| path.min(to + from));
/// ```
///
/// # Errors
/// Shapes that don't fit, and steps that do more than arithmetic, are reported with the line of the call.
#[track_caller]
pub fn dot_with<T: Num, A: Num>(
    a: Tile<T>,
    b: Tile<T>,
    acc: Tile<A>,
    absent: T,
    step: impl FnOnce(Scalar<A>, Scalar<T>, Scalar<T>) -> Scalar<A>,
) -> Tile<A> {
    let loc = SourceLoc::caller();
    let fold = trace(absent, step, loc);
    let recorded = fold.and_then(|fold| {
        session::with(|s| {
            let k = s.kernel(WITH, loc)?;
            record(k, [a.handle(), b.handle(), acc.handle()], A::DTYPE, Some(Box::new(fold)), loc)
        })
    });
    Tile::of(recorded.unwrap_or(Handle::POISON))
}

const WITH: &str = "`dot_with`";

/// Records a dot into a tile of this type.
fn record(k: &mut KernelBuilder, handles: [Handle; 3], sum: DType, fold: Option<Box<Fold>>, loc: SourceLoc) -> Option<Handle> {
    let mut operands = Vec::new();
    for h in handles {
        operands.push(k.operand(h, loc)?);
    }
    let [a, b, acc] = operands[..] else { return None };
    let shape = |v: ValueId| k.kernel.ty(v).shape().map(<[Size]>::to_vec);
    let [x, y, z] = [shape(a)?, shape(b)?, shape(acc)?];
    let fits = x.len() == 2 && y.len() == 2 && z.len() == 2 && x[1] == y[0] && z[0] == x[0] && z[1] == y[1];
    if !fits {
        let [x, y, z] = [&x, &y, &z].map(|s| k.shape_text(s));
        let message = format!("dot of {x} and {y} into {z}: expected [M, K], [K, N] into [M, N]");
        k.error(Diagnostic::new(loc, message).help("transpose an operand with `.t()`, or swap the tile indices of its load"));
        return None;
    }
    let v = k.emit(Op::Dot { a, b, acc, fold }, Ty::Tile(sum, z), loc);
    Some(k.handle(v))
}

/// Runs the author's step once, on scalars that stand for a sum and a pair of elements.
fn trace<T: Num, A: Num>(absent: T, step: impl FnOnce(Scalar<A>, Scalar<T>, Scalar<T>) -> Scalar<A>, loc: SourceLoc) -> Option<Fold> {
    let (arguments, [sum, x, y]) = session::with(|s| {
        let k = s.kernel(WITH, loc)?;
        k.open(false);
        let named = [("sum", A::DTYPE), ("a", T::DTYPE), ("b", T::DTYPE)];
        let arguments = named.map(|(name, dtype)| k.new_value(Ty::Scalar(dtype), Some(name.into()), loc, 0));
        Some((arguments, arguments.map(|v| k.handle(v))))
    })?;
    let next = step(Scalar::of(sum), Scalar::of(x), Scalar::of(y)).handle();
    session::with(|s| {
        let Session::Kernel(k) = s else { return None };
        let result = k.operand(next, loc);
        let mut steps = Vec::new();
        for stmt in k.close() {
            match stmt {
                Stmt::Let(v, op) if Fold::takes(&op) => steps.push((v, op)),
                other => {
                    let at = if let Stmt::Let(v, _) = other { k.kernel.value(v).loc } else { loc };
                    let message = "a step of `dot_with` that does more than arithmetic on three numbers";
                    let help = "choose by `select`; what else it needs, make before the dot, as scalars";
                    k.error(Diagnostic::new(at, message).help(help));
                    return None;
                }
            }
        }
        Some(Fold { absent: absent.literal(), arguments, steps, result: result? })
    })
}

impl Tile<f32> {
    /// Rounded to the 11 significant bits that matrix instructions read of an f32 (tf32), ties to even: what a `dot` of such tiles
    /// computes is exact in the products, on any unit.
    #[track_caller]
    pub fn round_tf32(self) -> Tile<f32> {
        Tile::of(ops::unary(UnaryOp::RoundTf32, self.handle(), SourceLoc::caller()))
    }
}

fn wrong_types(operands: DType, accumulator: DType, loc: SourceLoc) -> Diagnostic {
    let message = format!("dot of {operands} tiles into a tile of {accumulator}");
    match operands.dot_accumulators() {
        [] => Diagnostic::new(loc, message).help(format!("{operands} tiles have no dot: cast the operands, to i32 for instance")),
        [one, ..] => Diagnostic::new(loc, message).help(format!("products of {operands} are added up in {one}: `zeros::<{one}>(..)`")),
    }
}
