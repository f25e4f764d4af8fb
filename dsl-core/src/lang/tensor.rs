//! `Tensor<T, N>`: a strided tensor in global memory, or a view of one.

use super::elem::Elem;
use std::marker::PhantomData;

/// A tensor of `N` axes.
pub struct Tensor<T, const N: usize> {
    id: u32,
    elem: PhantomData<fn() -> T>,
}

impl<T: Elem, const N: usize> Tensor<T, N> {
    /// The handle of a tensor parameter.
    pub(crate) fn param(index: usize) -> Tensor<T, N> {
        Tensor { id: index as u32, elem: PhantomData }
    }
    /// The handle's number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}
