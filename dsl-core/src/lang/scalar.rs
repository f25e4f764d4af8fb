//! `Scalar<T>`: one value, the same for the whole block; on the host side of a program, a value that the host computes.

use super::elem::Elem;
use std::marker::PhantomData;

/// One value of type `T`.
#[derive(Clone, Copy)]
pub struct Scalar<T> {
    id: u32,
    elem: PhantomData<fn() -> T>,
}

impl<T: Elem> Scalar<T> {
    /// The handle of a scalar parameter.
    pub(crate) fn param(index: usize) -> Scalar<T> {
        Scalar { id: index as u32, elem: PhantomData }
    }
    /// The handle's number.
    pub(crate) fn id(self) -> u32 {
        self.id
    }
}
