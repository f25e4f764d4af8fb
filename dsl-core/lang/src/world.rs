//! Where a launch goes: to a stream of a device, to a simulator, or into the recording of a program.
//!
//! `#[kernel] fn vector_add(a: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>, k: Scalar<u32>)` gives the typed launch function
//!
//! ```text
//! pub fn vector_add<W: World>(on: &W, a: &On<W, Tensor<f32, 1>>, c: &mut On<W, Tensor<f32, 1>>, k: On<W, Scalar<u32>>) -> W::Done
//! ```
//!
//! `On<W, Tensor<f32, 1>>` is the world's own tensor type (`DeviceTensor<f32, 1>` on a stream), `On<W, Scalar<u32>>` its own scalar
//! (a plain `u32` on a stream). The body turns each argument into the world's type-erased [`World::Arg`], in the order of the
//! kernel's parameters, and calls [`World::launch`] once. `#[program]` functions do the same with [`World::run`].

use super::elem::Elem;
use super::scalar::Scalar;
use super::tensor::Tensor;
use girih_ir::program::ProgramDef;
use girih_ir::registry::KernelDef;
use girih_ir::tile::ParamKind;

/// A place where kernels and programs are launched.
pub trait World {
    /// What stands for a `Tensor<T, N>` of a signature: shape, strides and memory.
    type Tensor<T: Elem, const N: usize>;
    /// What stands for a `Scalar<T>` of a signature.
    type Scalar<T: Elem>;
    /// An argument without its Rust type. Element type, rank and mutability can be checked against `Kernel::params`,
    /// though typed launches always agree with them.
    type Arg<'a>;
    /// What a launch gives back: a `Result` on devices.
    type Done;

    /// A tensor that the kernel takes by `&`.
    fn read<'a, T: Elem, const N: usize>(tensor: &'a Self::Tensor<T, N>) -> Self::Arg<'a>;
    /// A tensor that the kernel takes by `&mut`.
    fn write<'a, T: Elem, const N: usize>(tensor: &'a mut Self::Tensor<T, N>) -> Self::Arg<'a>;
    /// A scalar.
    fn scalar<'a, T: Elem>(value: Self::Scalar<T>) -> Self::Arg<'a>;

    /// Launches a kernel; one argument per parameter, in order. Shapes and requirements are checked here.
    #[track_caller]
    fn launch(&self, kernel: KernelDef, args: Vec<Self::Arg<'_>>) -> Self::Done;
    /// Runs a program; one argument per parameter, in order.
    #[track_caller]
    fn run(&self, program: ProgramDef, args: Vec<Self::Arg<'_>>) -> Self::Done;
}

/// The type of an argument in a world.
pub type On<W, P> = <P as Param>::In<W>;

/// What may be a parameter of a kernel or program: [`Tensor`] (by `&` or `&mut`) and [`Scalar`] (by value).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a kernel",
    label = "no parameter type",
    note = "parameters are `&Tensor<T, N>`, `&mut Tensor<T, N>` and `Scalar<T>`"
)]
pub trait Param {
    /// The argument's type in a world.
    type In<W: World>;
}

/// Parameters taken by `&` and `&mut`.
#[diagnostic::on_unimplemented(
    message = "`&{Self}` cannot be a parameter of a kernel",
    label = "no parameter type",
    note = "parameters are `&Tensor<T, N>`, `&mut Tensor<T, N>` and `Scalar<T>`"
)]
pub trait ByReference: Param + Sized {
    /// How the IR describes the parameter.
    fn kind(mutable: bool) -> ParamKind;
    /// The handle of parameter `index` of the kernel or program that is being built.
    fn symbol(index: usize) -> Self;
    /// The argument for a `&` parameter.
    fn read<W: World>(value: &Self::In<W>) -> W::Arg<'_>;
    /// The argument for a `&mut` parameter.
    fn write<W: World>(value: &mut Self::In<W>) -> W::Arg<'_>;
}

/// Parameters taken by value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a kernel",
    label = "no parameter type",
    note = "parameters are `&Tensor<T, N>`, `&mut Tensor<T, N>` and `Scalar<T>`"
)]
pub trait ByValue: Param + Sized {
    /// How the IR describes the parameter.
    fn kind() -> ParamKind;
    /// The handle of parameter `index` of the kernel or program that is being built.
    fn symbol(index: usize) -> Self;
    /// The argument.
    fn pass<'a, W: World>(value: Self::In<W>) -> W::Arg<'a>;
}

impl<T: Elem, const N: usize> Param for Tensor<T, N> {
    type In<W: World> = W::Tensor<T, N>;
}

impl<T: Elem, const N: usize> ByReference for Tensor<T, N> {
    fn kind(mutable: bool) -> ParamKind {
        ParamKind::Tensor { dtype: T::DTYPE, rank: N, mutable }
    }
    fn symbol(index: usize) -> Self {
        Tensor::param(index)
    }
    fn read<W: World>(value: &Self::In<W>) -> W::Arg<'_> {
        W::read::<T, N>(value)
    }
    fn write<W: World>(value: &mut Self::In<W>) -> W::Arg<'_> {
        W::write::<T, N>(value)
    }
}

impl<T: Elem> Param for Scalar<T> {
    type In<W: World> = W::Scalar<T>;
}

impl<T: Elem> ByValue for Scalar<T> {
    fn kind() -> ParamKind {
        ParamKind::Scalar(T::DTYPE)
    }
    fn symbol(index: usize) -> Self {
        Scalar::param(index)
    }
    fn pass<'a, W: World>(value: Self::In<W>) -> W::Arg<'a> {
        W::scalar::<T>(value)
    }
}
