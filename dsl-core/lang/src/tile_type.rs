//! Element types that authors define: `#[derive(TileType)]` on a struct gives it a scalar form and a tile form, whose fields are the
//! components' scalars and tiles.

use super::components::{Components, TileLike};
use super::elem::Elem;
use super::scalar::Scalar;
use super::size::Shape;
use super::tile::{Tile, full};

/// A type of elements: an element type of tensors, or a struct of these with `#[derive(TileType)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of elements",
    note = "fields are f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32, u32, i64, u64, bool, or structs with `#[derive(TileType)]`"
)]
pub trait TileType: Copy {
    /// One element, as operators see it.
    type Scalar: Components<Element = Self::Scalar, Value = Self, Tile = Self::Tile>;
    /// One element per position of a shape.
    type Tile: TileLike<Element = Self::Scalar, Value = Self, Tile = Self::Tile>;
    /// The value as a constant.
    #[doc(hidden)]
    fn constant(self) -> Self::Scalar;
    /// A tile whose elements are all this value.
    #[doc(hidden)]
    fn constant_tile<S: Shape + Clone>(self, shape: S) -> Self::Tile;
}

impl<T: Elem> TileType for T {
    type Scalar = Scalar<T>;
    type Tile = Tile<T>;
    #[track_caller]
    fn constant(self) -> Scalar<T> {
        let loc = girih_ir::loc::SourceLoc::caller();
        Scalar::of(super::ops::literal(self.literal(), loc))
    }
    #[track_caller]
    fn constant_tile<S: Shape + Clone>(self, shape: S) -> Tile<T> {
        full(shape, self.constant())
    }
}
