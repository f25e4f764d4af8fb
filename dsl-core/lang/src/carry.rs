//! Variables that change in loops and branches: what makes values of SSA form out of plain Rust variables.

use super::elem::Elem;
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::tensor::Tensor;
use super::tile::{Tile, TileIdx};
use super::window::Window;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;

/// A variable that may change inside a loop or branch that runs on the GPU.
#[diagnostic::on_unimplemented(
    message = "a variable of type `{Self}` cannot change inside a loop or branch that runs on the GPU",
    label = "changes here",
    note = "the body runs once, while the kernel is built: use `scalar(..)`, a `Tile`, or a tuple or array of these"
)]
pub trait Carry {
    /// Shows each handle in the variable, in a fixed order.
    #[doc(hidden)]
    fn handles(&mut self, f: &mut dyn FnMut(&mut Handle));
    /// As [`Carry::handles`], for reading.
    #[doc(hidden)]
    fn read_handles(&self, f: &mut dyn FnMut(Handle));
}

macro_rules! single {
    ($($self_:ident),*) => {$(
        impl<T: Elem> Carry for $self_<T> {
            fn handles(&mut self, f: &mut dyn FnMut(&mut Handle)) {
                f(self.handle_mut());
            }
            fn read_handles(&self, f: &mut dyn FnMut(Handle)) {
                f(self.handle());
            }
        }
    )*};
}
single!(Tile, Scalar);

impl Carry for TileIdx {
    fn handles(&mut self, f: &mut dyn FnMut(&mut Handle)) {
        f(&mut self.0);
    }
    fn read_handles(&self, f: &mut dyn FnMut(Handle)) {
        f(self.0);
    }
}

impl Carry for () {
    fn handles(&mut self, _f: &mut dyn FnMut(&mut Handle)) {}
    fn read_handles(&self, _f: &mut dyn FnMut(Handle)) {}
}

impl<C: Carry, const N: usize> Carry for [C; N] {
    fn handles(&mut self, f: &mut dyn FnMut(&mut Handle)) {
        self.iter_mut().for_each(|c| c.handles(f));
    }
    fn read_handles(&self, f: &mut dyn FnMut(Handle)) {
        self.iter().for_each(|c| c.read_handles(f));
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Carry),*> Carry for ($($name,)*) {
            fn handles(&mut self, f: &mut dyn FnMut(&mut Handle)) {
                $(self.$index.handles(f);)*
            }
            fn read_handles(&self, f: &mut dyn FnMut(Handle)) {
                $(self.$index.read_handles(f);)*
            }
        }
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

/// A variable that a loop carries if its type can be: it is only called or borrowed mutably in the body, and the macro does not
/// know types. `(&mut Soft(&mut x)).soft(f)` finds [`SoftCarry`] for [`Carry`] types and [`SoftIgnore`] for all others.
pub struct Soft<'a, C>(pub &'a mut C);

/// Whatever carries variables: loops and branches.
pub trait Carrier {
    /// Carries a variable.
    fn carry<C: Carry>(&mut self, name: &str, variable: &mut C);
    /// Sees to it that a variable names the same tensor throughout; the host's own loops and branches need not care.
    fn keep(&mut self, _name: &str, _tensor: &mut Handle) {}
}

/// The tensors that variables name in a recorded loop or branch, whose body is recorded once: there they cannot be exchanged.
#[derive(Default)]
pub(crate) struct Kept(Vec<(String, Handle)>);

impl Kept {
    /// The variable as it is before the body, or after it.
    pub(crate) fn visit(&mut self, name: &str, tensor: &mut Handle, loc: SourceLoc) {
        let Some((_, first)) = self.0.iter().find(|(n, _)| n == name) else { return self.0.push((name.to_string(), *tensor)) };
        if first == tensor {
            return;
        }
        *tensor = *first;
        let message = format!("`{name}` is another tensor after this loop or branch than before it, which is recorded once");
        let help = "exchange tensors outside of it, or write both turns: `for _ in 0..n / 2 { step(&a, &mut b); step(&b, &mut a); }`, \
                    and one more under `if n % 2 == 1`";
        session::with(|s| s.error(Diagnostic::new(loc, message).help(help)));
    }
}

impl<T: Elem, const N: usize> Soft<'_, Tensor<T, N>> {
    /// Found before the traits' methods: a tensor is kept, not carried.
    pub fn soft(&mut self, carrier: &mut impl Carrier, name: &str) {
        carrier.keep(name, self.0.handle_mut());
    }
}

/// Found for variables of [`Carry`] types.
pub trait SoftCarry {
    /// Carries the variable.
    fn soft(&mut self, carrier: &mut impl Carrier, name: &str);
}
impl<C: Carry> SoftCarry for Soft<'_, C> {
    fn soft(&mut self, carrier: &mut impl Carrier, name: &str) {
        carrier.carry(name, self.0);
    }
}

/// Found for all other variables.
pub trait SoftIgnore {
    /// Does nothing.
    fn soft(&mut self, carrier: &mut impl Carrier, name: &str);
}
impl<C> SoftIgnore for &mut Soft<'_, C> {
    fn soft(&mut self, _carrier: &mut impl Carrier, _name: &str) {}
}

/// A value that gets the author's name if its type can: `(&Named(&v)).name("x")` finds [`NameIt`] or [`NameNothing`].
pub struct Named<'a, V>(pub &'a V);

/// Found for handles.
pub trait NameIt {
    /// Gives the name.
    fn name(&self, name: &str);
}
impl<V: Carry> NameIt for Named<'_, V> {
    fn name(&self, name: &str) {
        let mut all = Vec::new();
        self.0.read_handles(&mut |h| all.push(h));
        session::with(|s| {
            for (i, h) in all.iter().enumerate() {
                let name = if all.len() == 1 { name.to_string() } else { format!("{name}_{i}") };
                match s {
                    Session::Kernel(k) => k.name(*h, &name),
                    Session::Program(p) => p.name_scalar(*h, &name),
                }
            }
        });
    }
}

impl<T, const N: usize> NameIt for Named<'_, Window<T, N>> {
    fn name(&self, name: &str) {
        session::with(|s| {
            if let Session::Kernel(k) = s {
                k.name(self.0.handle(), name);
            }
        });
    }
}

impl<T: Elem, const N: usize> NameIt for Named<'_, Tensor<T, N>> {
    fn name(&self, name: &str) {
        session::with(|s| {
            if let Session::Program(p) = s {
                p.name_temp(self.0.handle(), name);
            }
        });
    }
}

/// Found for everything else.
pub trait NameNothing {
    /// Does nothing.
    fn name(&self, name: &str);
}
impl<V> NameNothing for &Named<'_, V> {
    fn name(&self, _name: &str) {}
}
