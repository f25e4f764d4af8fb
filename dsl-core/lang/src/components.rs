//! What combinations work on: elements of one or several components. A `Tile`, a tuple of tiles and the tile form of a derived type
//! are alike here, and so are their scalar forms.

use super::carry::Carry;
use super::elem::Elem;
use super::scalar::Scalar;
use super::session::Handle;
use super::tile::Tile;
use girih_ir::types::{DType, Literal};

/// Handles of one element type's components: a `Scalar` or a `Tile`, a tuple of these, or a form of a `#[derive(TileType)]` type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element that operators combine",
    note = "combinations work on `Tile`s and `Scalar`s, tuples of these, and the forms of types with `#[derive(TileType)]`"
)]
pub trait Components: Carry + Copy {
    /// One element, as an operator sees it: scalars.
    type Element: Components<Element = Self::Element, Value = Self::Value, Tile = Self::Tile>;
    /// One element per position of a shape.
    type Tile: TileLike<Element = Self::Element, Value = Self::Value, Tile = Self::Tile>;
    /// One element's value on the host: what an identity is written as.
    type Value: Copy;
    /// The name and the element type of each component.
    #[doc(hidden)]
    fn describe(name: &str, f: &mut dyn FnMut(String, DType));
    /// From one handle per component.
    #[doc(hidden)]
    fn of_handles(handles: &mut dyn Iterator<Item = Handle>) -> Self;
    /// The constants of a value's components.
    #[doc(hidden)]
    fn literals(value: Self::Value, f: &mut dyn FnMut(Literal));
}

/// [`Components`] that are tiles of one shape.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no axes to combine along",
    note = "a `Tile`, a tuple of tiles, or the tile form of a type with `#[derive(TileType)]` has"
)]
pub trait TileLike: Components {}

impl<T: Elem> Components for Scalar<T> {
    type Element = Scalar<T>;
    type Tile = Tile<T>;
    type Value = T;
    fn describe(name: &str, f: &mut dyn FnMut(String, DType)) {
        f(name.to_string(), T::DTYPE);
    }
    fn of_handles(handles: &mut dyn Iterator<Item = Handle>) -> Self {
        Scalar::of(next(handles))
    }
    fn literals(value: T, f: &mut dyn FnMut(Literal)) {
        f(value.literal());
    }
}

impl<T: Elem> Components for Tile<T> {
    type Element = Scalar<T>;
    type Tile = Tile<T>;
    type Value = T;
    fn describe(name: &str, f: &mut dyn FnMut(String, DType)) {
        f(name.to_string(), T::DTYPE);
    }
    fn of_handles(handles: &mut dyn Iterator<Item = Handle>) -> Self {
        Tile::of(next(handles))
    }
    fn literals(value: T, f: &mut dyn FnMut(Literal)) {
        f(value.literal());
    }
}
impl<T: Elem> TileLike for Tile<T> {}

fn next(handles: &mut dyn Iterator<Item = Handle>) -> Handle {
    handles.next().expect("language: an element has a handle for each of its components")
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Components),*> Components for ($($name,)*) {
            type Element = ($($name::Element,)*);
            type Tile = ($($name::Tile,)*);
            type Value = ($($name::Value,)*);
            fn describe(name: &str, f: &mut dyn FnMut(String, DType)) {
                $($name::describe(&format!("{name}_{}", $index), f);)*
            }
            fn of_handles(handles: &mut dyn Iterator<Item = Handle>) -> Self {
                ($($name::of_handles(handles),)*)
            }
            fn literals(value: Self::Value, f: &mut dyn FnMut(Literal)) {
                $($name::literals(value.$index, f);)*
            }
        }
        impl<$($name: TileLike),*> TileLike for ($($name,)*) {}
    )*};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// The handles of all components.
pub(crate) fn handles(of: &impl Components) -> Vec<Handle> {
    let mut all = Vec::new();
    of.read_handles(&mut |h| all.push(h));
    all
}

/// As many poisoned handles as there are components.
pub(crate) fn poisoned<C: Components>() -> C {
    C::of_handles(&mut std::iter::repeat(Handle::POISON))
}
