//! Reductions: combining the elements of a tile along axes, in order.

use super::elem::{Elem, Num};
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::tile::Tile;
use crate::error::Diagnostic;
use crate::loc::SourceLoc;
use crate::tile::{Combine, Form, Operator, Stmt, Ty};

/// Reduces along axes; they vanish. The result is a scalar when none is left.
pub(crate) fn reduce_axes(operator: Operator, tile: Handle, axes: &[usize], loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(k) = s.kernel("a reduction", loc) else { return Handle::POISON };
        let Some(v) = k.operand(tile, loc) else { return Handle::POISON };
        let Ty::Tile(dtype, shape) = k.kernel.ty(v).clone() else { panic!("language: a reduction of a scalar") };
        if let Some(axis) = axes.iter().find(|a| **a >= shape.len()) {
            let message = format!("no axis {axis} in {}", k.shape_text(&shape));
            k.error(Diagnostic::new(loc, message).help(format!("axes are 0 to {}", shape.len() - 1)));
            return Handle::POISON;
        }
        let rest: Vec<_> = shape.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, s)| s.clone()).collect();
        let ty = if rest.is_empty() { Ty::Scalar(dtype) } else { Ty::Tile(dtype, rest) };
        let result = k.new_value(ty, None, loc, 0);
        let form = Form::Reduce { axes: axes.to_vec() };
        k.push(Stmt::Combine(Combine { operator, form, inputs: vec![v], results: vec![result], loc }));
        k.handle(result)
    })
}

fn all_axes(tile: Handle) -> Vec<usize> {
    session::with(|s| match s {
        Session::Kernel(k) => tile.value(k.build).and_then(|v| k.kernel.ty(v).shape().map(<[_]>::len)).map_or(vec![], |n| (0..n).collect()),
        Session::Program(_) => vec![],
    })
}

/// A reduction along one axis must leave another: of a tile of one axis the result is a scalar, which `whole` gives.
fn along(operator: Operator, tile: Handle, axis: usize, whole: &str, loc: SourceLoc) -> Handle {
    if all_axes(tile).len() == 1 {
        let message = "this reduction leaves no axis of the tile";
        return session::with(|s| s.error(Diagnostic::new(loc, message).help(format!("use {whole}, which gives a `Scalar`"))));
    }
    reduce_axes(operator, tile, &[axis], loc)
}

macro_rules! reductions {
    ($($whole:ident $axis:ident $op:ident, $what:literal;)*) => {
        impl<T: Num> Tile<T> {$(
            #[doc = concat!("The ", $what, " of all elements.")]
            #[track_caller]
            pub fn $whole(self) -> Scalar<T> {
                let axes = all_axes(self.handle());
                Scalar::of(reduce_axes(Operator::$op, self.handle(), &axes, SourceLoc::caller()))
            }
            #[doc = concat!("The ", $what, " along one axis, which vanishes.")]
            #[track_caller]
            pub fn $axis(self, axis: usize) -> Tile<T> {
                Tile::of(along(Operator::$op, self.handle(), axis, concat!("`.", stringify!($whole), "()`"), SourceLoc::caller()))
            }
        )*}
    };
}

reductions! {
    sum sum_axis Sum, "sum";
    product product_axis Product, "product";
    min_all min_axis Min, "smallest";
    max_all max_axis Max, "largest";
}

impl Tile<bool> {
    /// Whether all elements are true.
    #[track_caller]
    pub fn all(self) -> Scalar<bool> {
        let axes = all_axes(self.handle());
        Scalar::of(reduce_axes(Operator::All, self.handle(), &axes, SourceLoc::caller()))
    }
    /// Whether any element is true.
    #[track_caller]
    pub fn any(self) -> Scalar<bool> {
        let axes = all_axes(self.handle());
        Scalar::of(reduce_axes(Operator::Any, self.handle(), &axes, SourceLoc::caller()))
    }
}

impl<T: Elem> Tile<T> {
    /// Combines the elements along `axis` with an associative operator; the order of operands is kept.
    /// `identity` is its neutral element.
    #[track_caller]
    pub fn reduce(self, axis: usize, identity: T, operator: impl FnOnce(Scalar<T>, Scalar<T>) -> Scalar<T>) -> Tile<T> {
        let loc = SourceLoc::caller();
        let operator = trace(identity, operator, loc);
        Tile::of(operator.map_or(Handle::POISON, |o| along(o, self.handle(), axis, "`.reduce_all(..)`", loc)))
    }
    /// Combines all elements with an associative operator, in row-major order.
    #[track_caller]
    pub fn reduce_all(self, identity: T, operator: impl FnOnce(Scalar<T>, Scalar<T>) -> Scalar<T>) -> Scalar<T> {
        let loc = SourceLoc::caller();
        let axes = all_axes(self.handle());
        let operator = trace(identity, operator, loc);
        Scalar::of(operator.map_or(Handle::POISON, |o| reduce_axes(o, self.handle(), &axes, loc)))
    }
}

/// Runs the author's operator once on scalars that stand for its operands.
fn trace<T: Elem>(identity: T, f: impl FnOnce(Scalar<T>, Scalar<T>) -> Scalar<T>, loc: SourceLoc) -> Option<Operator> {
    let arguments = session::with(|s| {
        let k = s.kernel("a reduction", loc)?;
        k.open(false);
        let ty = Ty::Scalar(T::DTYPE);
        Some([k.new_value(ty.clone(), Some("a".into()), loc, 0), k.new_value(ty, Some("b".into()), loc, 0)])
    })?;
    let handles = session::with(|s| match s {
        Session::Kernel(k) => arguments.map(|v| k.handle(v)),
        Session::Program(_) => [Handle::POISON; 2],
    });
    let result = f(Scalar::of(handles[0]), Scalar::of(handles[1]));
    session::with(|s| {
        let k = s.kernel("a reduction", loc)?;
        let result = k.operand(result.handle(), loc);
        let body = k.close();
        Some(Operator::User {
            identity: vec![identity.literal()],
            arguments: arguments.to_vec(),
            body,
            results: vec![result?],
            commutative: false,
        })
    })
}
