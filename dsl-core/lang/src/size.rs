//! `Size`: a number of elements that is known once the schedule is: a constant, a knob, or a sum or product of these.
//!
//! A size has no comparison and no conversion to an integer: a body cannot depend on a schedule.

use super::session::{self, Session};
use girih_ir::tile;
use girih_ir::tile::KnobId;

/// A size: the value of a tile knob, a constant, or arithmetic on them.
#[derive(Clone, Copy)]
pub struct Size(Repr);

#[derive(Clone, Copy)]
enum Repr {
    Constant(i64),
    Knob(u32),
    Computed { index: u32, build: u32 },
}

impl Size {
    /// The value of the kernel's knob number `index`. The attribute writes this; authors name the knob.
    #[doc(hidden)]
    pub const fn knob(index: u32) -> Size {
        Size(Repr::Knob(index))
    }
    /// As the IR has it.
    pub(crate) fn to_ir(self) -> tile::Size {
        match self.0 {
            Repr::Constant(c) => tile::Size::constant(c),
            Repr::Knob(k) => tile::Size::knob(KnobId(k)),
            Repr::Computed { index, build } => session::with(|s| match s {
                Session::Kernel(k) if k.build == build => k.sizes[index as usize].clone(),
                _ => panic!("a size was kept from another kernel's build: compute it anew in this one"),
            }),
        }
    }
    fn of_ir(size: tile::Size) -> Size {
        if let Some(c) = size.as_constant() {
            return Size(Repr::Constant(c));
        }
        if let Some(k) = size.as_knob() {
            return Size(Repr::Knob(k.0));
        }
        session::with(|s| match s {
            Session::Kernel(k) => {
                k.sizes.push(size);
                Size(Repr::Computed { index: k.sizes.len() as u32 - 1, build: k.build })
            }
            Session::Program(_) => panic!("sizes of knobs exist only in kernels"),
        })
    }
}

macro_rules! sizes {
    ($($int:ty),*) => {$(
        impl From<$int> for Size {
            fn from(value: $int) -> Size {
                Size(Repr::Constant(value as i64))
            }
        }
    )*};
}
sizes!(i32, i64, u32, usize);

impl<R: Into<Size>> std::ops::Add<R> for Size {
    type Output = Size;
    fn add(self, other: R) -> Size {
        Size::of_ir(self.to_ir().plus(&other.into().to_ir()))
    }
}
impl<R: Into<Size>> std::ops::Sub<R> for Size {
    type Output = Size;
    fn sub(self, other: R) -> Size {
        Size::of_ir(self.to_ir().plus(&other.into().to_ir().times(&tile::Size::constant(-1))))
    }
}
impl<R: Into<Size>> std::ops::Mul<R> for Size {
    type Output = Size;
    fn mul(self, other: R) -> Size {
        Size::of_ir(self.to_ir().times(&other.into().to_ir()))
    }
}
impl std::ops::Mul<Size> for i32 {
    type Output = Size;
    fn mul(self, other: Size) -> Size {
        other * self
    }
}
impl std::ops::Add<Size> for i32 {
    type Output = Size;
    fn add(self, other: Size) -> Size {
        other + self
    }
}

/// The size of tiles along one axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the size of tiles along one axis",
    label = "not one size",
    note = "one axis takes one size, without brackets: `.tiles(S)`"
)]
pub trait OneSize {
    /// The size.
    fn one(self) -> Size;
}
#[diagnostic::do_not_recommend]
impl<S: Into<Size>> OneSize for S {
    fn one(self) -> Size {
        self.into()
    }
}

/// The extents of a tile: an array of sizes.
#[diagnostic::on_unimplemented(message = "`{Self}` is no shape", note = "write an array of sizes: `[T]`, `[BM, BN]`, `[R, 3]`")]
pub trait Shape {
    /// As the IR has it.
    fn to_ir(self) -> Vec<tile::Size>;
}

impl<S: Into<Size>, const N: usize> Shape for [S; N] {
    fn to_ir(self) -> Vec<tile::Size> {
        self.into_iter().map(|s| s.into().to_ir()).collect()
    }
}
