//! Expressions: variables are visible, operands agree, operations are defined on them, indices and places are legal.

use super::{Check, State, Verifier};
use crate::scalar;
use crate::simt::{Expr, ParamKind, Place, Space, Var, VarId, print};
use crate::types::DType;
use std::fmt;

impl Verifier<'_> {
    pub(super) fn var(&self, var: VarId) -> Check<&Var> {
        match self.kernel.vars.get(var.0 as usize) {
            Some(v) => Ok(v),
            None => self.fail(format!("variable %{} does not exist", var.0)),
        }
    }

    fn used(&self, var: VarId) -> Check {
        self.var(var)?;
        let state = self.state[var.0 as usize];
        let visible = matches!(state, State::Fixed | State::Mutable);
        self.require(visible, || format!("{} is used where it is not declared", print::name(self.kernel, var)))
    }

    pub(super) fn target(&self, var: VarId) -> Check {
        self.used(var)?;
        let mutable = self.state[var.0 as usize] == State::Mutable;
        self.require(mutable, || format!("{} never changes after its Let", print::name(self.kernel, var)))
    }

    pub(super) fn scalar_target(&self, var: VarId, dtype: DType) -> Check {
        self.target(var)?;
        self.require(self.var(var)?.len.is_none(), || "the result is a scalar variable".to_string())?;
        self.same(dtype, self.var(var)?.dtype)
    }

    pub(super) fn same(&self, found: DType, expected: DType) -> Check {
        self.require(found == expected, || format!("types differ: {found} where {expected} is expected"))
    }

    pub(super) fn boolean(&self, e: &Expr) -> Check {
        let dtype = self.expr(e)?;
        self.same(dtype, DType::Bool)
    }

    pub(super) fn predicate(&self, e: &Option<Expr>) -> Check {
        e.as_ref().map_or(Ok(()), |e| self.boolean(e))
    }

    pub(super) fn index(&self, e: &Expr) -> Check {
        let dtype = self.expr(e)?;
        let legal = matches!(dtype, DType::I32 | DType::U32 | DType::I64);
        self.require(legal, || format!("an index is i32, u32 or i64, not {dtype}"))
    }

    pub(super) fn element(&self, var: VarId, index: &Expr, count: u32) -> Check {
        self.used(var)?;
        let Some(len) = self.var(var)?.len else {
            return self.fail(format!("{} is no array", print::name(self.kernel, var)));
        };
        self.index(index)?;
        if let Expr::Literal(l) = index {
            let first = l.to_i64();
            let inside = first >= 0 && first + count as i64 <= len as i64;
            self.require(inside, || format!("elements {first}..+{count} lie outside of an array of {len}"))?;
        }
        Ok(())
    }

    pub(super) fn place(&self, place: &Place, store: bool) -> Check {
        self.index(&place.index)?;
        match place.space {
            Space::Shared(s) => self.require((s.0 as usize) < self.kernel.shared.len(), || format!("shared array #{} does not exist", s.0)),
            Space::Constant(p) => match self.kernel.params.get(p).map(|p| &p.kind) {
                Some(ParamKind::Constant { .. }) => {
                    self.require(!store, || format!("parameter {p} lies in constant memory, which is read only"))
                }
                _ => self.fail(format!("parameter {p} is no array in constant memory")),
            },
            Space::Global(p) => match self.kernel.params.get(p).map(|p| &p.kind) {
                Some(ParamKind::Pointer { writable, .. }) => self.require(*writable || !store, || format!("parameter {p} is not writable")),
                Some(ParamKind::Workspace { .. }) => Ok(()),
                Some(_) => self.fail(format!("parameter {p} is no pointer")),
                None => self.fail(format!("parameter {p} does not exist")),
            },
        }
    }

    /// The type of an expression, after checking it.
    pub(super) fn expr(&self, e: &Expr) -> Check<DType> {
        match e {
            Expr::Literal(l) => Ok(l.dtype),
            Expr::Var(v) => {
                self.used(*v)?;
                self.require(self.var(*v)?.len.is_none(), || format!("array {} is used whole", print::name(self.kernel, *v)))?;
                Ok(self.var(*v)?.dtype)
            }
            Expr::Element(v, i) => {
                self.element(*v, i, 1)?;
                Ok(self.var(*v)?.dtype)
            }
            Expr::Param(p) => match self.kernel.params.get(*p).map(|p| &p.kind) {
                Some(ParamKind::Scalar { dtype, .. } | ParamKind::Host { dtype, .. }) => Ok(*dtype),
                _ => self.fail(format!("parameter {p} is no value")),
            },
            Expr::Special(s) => self.fail(format!("{s:?} stands only as the whole initialiser of a Let")),
            Expr::Unary(op, a) => {
                let d = self.expr(a)?;
                self.defined(scalar::unary_fn(*op, d).is_some(), op, d)
            }
            Expr::Binary(op, a, b) => {
                let d = self.pair(a, b)?;
                self.defined(scalar::binary_fn(*op, d).is_some(), op, d)
            }
            Expr::Ternary(op, a, b, c) => {
                let d = self.pair(a, b)?;
                let last = self.expr(c)?;
                self.same(last, d)?;
                self.defined(scalar::ternary_fn(*op, d).is_some(), op, d)
            }
            Expr::Compare(op, a, b) => {
                let d = self.pair(a, b)?;
                self.defined(scalar::compare_fn(*op, d).is_some(), op, d)?;
                Ok(DType::Bool)
            }
            Expr::Select(c, a, b) => {
                self.boolean(c)?;
                self.pair(a, b)
            }
            Expr::Cast(d, a) => self.expr(a).map(|_| *d),
            Expr::Bitcast(d, a) => {
                let from = self.expr(a)?;
                self.require(from.size() == d.size(), || format!("a bitcast from {from} to {d} changes the size"))?;
                Ok(*d)
            }
            Expr::Load { place, predicate, .. } => {
                self.place(place, false)?;
                predicate.as_ref().map_or(Ok(()), |p| self.boolean(p))?;
                Ok(place.dtype)
            }
        }
    }

    fn pair(&self, a: &Expr, b: &Expr) -> Check<DType> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        self.same(b, a)?;
        Ok(a)
    }

    pub(super) fn defined(&self, holds: bool, op: &dyn fmt::Debug, dtype: DType) -> Check<DType> {
        self.require(holds, || format!("{op:?} is not defined on {dtype}"))?;
        Ok(dtype)
    }
}
