//! `Scalar<T>`: one value, the same for the whole block; in a program, a value that the host computes.

use super::build;
use super::elem::Elem;
use super::operand::{Operand, ScalarRhs};
use super::session::{self, Handle, Session};
use girih_ir::loc::SourceLoc;
use std::marker::PhantomData;

/// One value of type `T`.
pub struct Scalar<T> {
    handle: Handle,
    elem: PhantomData<fn() -> T>,
}

impl<T> Clone for Scalar<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Scalar<T> {}

impl<T: Elem> Scalar<T> {
    pub(crate) fn of(handle: Handle) -> Scalar<T> {
        Scalar { handle, elem: PhantomData }
    }
    /// The handle of a scalar parameter.
    pub(crate) fn param(index: usize) -> Scalar<T> {
        Scalar::of(build::scalar_param(index, T::DTYPE))
    }
    pub(crate) fn handle(self) -> Handle {
        self.handle
    }
    pub(crate) fn handle_mut(&mut self) -> &mut Handle {
        &mut self.handle
    }

    /// In a program: the scalar is computed and kept in a variable here, so that later statements don't compute it again.
    /// In a kernel it changes nothing.
    #[track_caller]
    pub fn keep(self) -> Scalar<T> {
        let loc = SourceLoc::caller();
        Scalar::of(session::with(|s| match s {
            Session::Kernel(_) => self.handle,
            Session::Program(p) => {
                let Some((value, dtype)) = p.read(self.handle, loc) else { return Handle::POISON };
                let var = p.var(dtype, "kept");
                p.push(girih_ir::program::Stmt::Set { var, value });
                p.expr(girih_ir::program::Expr::Var(var), dtype, loc)
            }
        }))
    }
}

/// A scalar that may change in loops: `let mut i = scalar(0);`. Its element type follows from its use.
#[track_caller]
pub fn scalar<T: Elem>(value: impl Operand<T> + ScalarRhs) -> Scalar<T> {
    Scalar::of(value.operand(SourceLoc::caller()))
}
