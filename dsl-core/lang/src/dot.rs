//! Dots of tiles.

use super::elem::Num;
use super::ops;
use super::session::{self, Handle};
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Op, Size, Ty, ValueId};
use girih_ir::types::{DType, UnaryOp};

/// `acc + a · b` for `[M, K] · [K, N]` into `[M, N]`, added up in `acc`'s type: f32 for floats, i32 for `i8`, `u8` and `i32`, u32 for
/// `u32`. Products of 16-bit floats and 8-bit integers are exact; those of f32 are fused with the addition. The order of the additions is
/// the schedule's. Absent elements of the operands count as zero.
///
/// # Errors
/// Shapes or element types that don't fit are reported with the line of the call.
#[track_caller]
pub fn dot<T: Num, A: Num>(a: Tile<T>, b: Tile<T>, acc: Tile<A>) -> Tile<A> {
    let loc = SourceLoc::caller();
    Tile::of(
        session::with(|s| {
            let k = s.kernel("`dot`", loc)?;
            let mut operands = Vec::new();
            for h in [a.handle(), b.handle(), acc.handle()] {
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
            let allowed = T::DTYPE.dot_accumulators();
            if !allowed.contains(&A::DTYPE) {
                k.error(wrong_types(T::DTYPE, A::DTYPE, loc));
                return None;
            }
            let v = k.emit(Op::Dot { a, b, acc }, Ty::Tile(A::DTYPE, z), loc);
            Some(k.handle(v))
        })
        .unwrap_or(Handle::POISON),
    )
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
