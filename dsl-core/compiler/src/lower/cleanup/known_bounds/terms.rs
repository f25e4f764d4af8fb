//! Integers of a kernel as sums of products of what is not known of them.

use super::super::lets::{Lets, digest};
use super::polynomial::{Atom, Polynomial};
use crate::block::HostExpr;
use crate::block::range::{Range, binary, host, of_type};
use crate::cuda::wrap::Data;
use crate::lower::expand::range::{Known, Launch};
use girih_ir::simt::{Expr, Kernel, ParamKind, VarId};
use girih_ir::types::{BinaryOp, DType};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What an unknown integer is; equal ones are one atom.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    /// What an expression is wherever it can be read.
    Value(Expr),
    /// What only the host knows.
    Host(HostExpr),
    /// Of two sums, the first of which is not below 0 and the second one above 0.
    Quotient(Polynomial, Polynomial),
    Remainder(Polynomial, Polynomial),
    Min(Polynomial, Polynomial),
    Max(Polynomial, Polynomial),
}

impl Kind {
    /// A number that equal kinds have in common.
    fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Kind::Value(e) => digest(e).hash(&mut hasher),
            Kind::Host(e) => e.hash(&mut hasher),
            Kind::Quotient(x, y) | Kind::Remainder(x, y) | Kind::Min(x, y) | Kind::Max(x, y) => (x, y).hash(&mut hasher),
        }
        hasher.finish()
    }
}

/// The integers of a kernel.
pub(super) struct Terms<'k> {
    pub kernel: &'k Kernel,
    pub lets: &'k Lets,
    /// What variables that are set once are made of.
    pub made: &'k HashMap<VarId, Expr>,
    pub ranges: &'k HashMap<VarId, Range>,
    pub launch: &'k Launch,
    pub data: &'k Data,
    atoms: Vec<(Kind, Range)>,
    /// Atoms by a number that equal ones have in common.
    alike: HashMap<u64, Vec<Atom>>,
    of_vars: HashMap<VarId, Option<Polynomial>>,
}

impl<'k> Terms<'k> {
    pub fn new(
        (kernel, launch): (&'k Kernel, &'k Launch),
        (lets, made): (&'k Lets, &'k HashMap<VarId, Expr>),
        (ranges, data): (&'k HashMap<VarId, Range>, &'k Data),
    ) -> Terms<'k> {
        Terms { kernel, lets, made, ranges, launch, data, atoms: Vec::new(), alike: HashMap::new(), of_vars: HashMap::new() }
    }

    pub fn kind(&self, atom: Atom) -> &Kind {
        &self.atoms[atom as usize].0
    }

    /// Between which numbers an atom lies.
    pub fn range(&self, atom: Atom) -> Range {
        self.atoms[atom as usize].1
    }

    pub fn interval(&self, sum: &Polynomial) -> Option<(i128, i128)> {
        sum.interval(&|atom| self.range(atom))
    }

    /// A block that asks is one: of a grid that is a product, no factor is 0.
    pub fn has_blocks(&mut self) {
        let grid = self.kernel.launch.grid.clone();
        if let Some(blocks) = self.of_host(&grid) {
            self.is_not_0(&blocks);
        }
    }

    fn is_not_0(&mut self, sum: &Polynomial) {
        let mut terms = sum.terms();
        let (Some((product, _)), None) = (terms.next(), terms.next()) else { return };
        if product.iter().any(|atom| self.range(*atom).0 < 0) {
            return;
        }
        for atom in product.iter().copied() {
            let (kind, range) = &mut self.atoms[atom as usize];
            range.0 = range.0.max(1);
            if let Kind::Min(x, y) = kind.clone() {
                [x, y].iter().for_each(|side| self.is_not_0(side));
            }
        }
    }

    fn atom(&mut self, kind: Kind, range: Range) -> Polynomial {
        let alike = self.alike.entry(kind.number()).or_default();
        let known = alike.iter().copied().find(|atom| self.atoms[*atom as usize].0 == kind);
        Polynomial::atom(known.unwrap_or_else(|| {
            self.atoms.push((kind, range));
            alike.push(self.atoms.len() as Atom - 1);
            self.atoms.len() as Atom - 1
        }))
    }

    /// An integer of at most 64 bits that is the same wherever it can be read.
    pub fn of(&mut self, e: &Expr) -> Option<Polynomial> {
        let dtype = self.kernel.dtype(e);
        if !matches!(dtype, DType::I32 | DType::I64 | DType::U32) {
            return None;
        }
        let found = match e {
            Expr::Literal(l) => Some(Polynomial::constant(i128::from(l.to_i64()))),
            Expr::Var(v) => return self.of_var(*v),
            Expr::Param(p) => match &self.kernel.params[*p].kind {
                ParamKind::Host { value, .. } => {
                    let value = value.clone();
                    self.of_host(&value)
                }
                _ => None,
            },
            Expr::Cast(_, a) => self.of(a).filter(|sum| self.fits(sum, dtype)),
            Expr::Binary(op, a, b) => {
                let (x, y) = (self.of(a)?, self.of(b)?);
                self.applied(*op, &x, &y).filter(|sum| self.fits(sum, dtype) || self.never_wraps(e))
            }
            _ => None,
        };
        found.or_else(|| self.unknown(e))
    }

    fn of_var(&mut self, var: VarId) -> Option<Polynomial> {
        if let Some(known) = self.of_vars.get(&var) {
            return known.clone();
        }
        // What a variable is made of is no longer than what it stands for.
        let found = match self.made.get(&var) {
            Some(value) => self.of(value),
            None => None,
        };
        let found = found.or_else(|| self.unknown(&Expr::Var(var)));
        self.of_vars.insert(var, found.clone());
        found
    }

    /// An expression of which no more is known than between which numbers it lies.
    fn unknown(&mut self, e: &Expr) -> Option<Polynomial> {
        if !self.lets.stays(e) {
            return None;
        }
        let (vars, params) = (&self.kernel.vars, &self.kernel.params);
        let range = Known { vars, params, ranges: self.ranges, launch: self.launch }.range(e)?;
        Some(self.atom(Kind::Value(e.clone()), range))
    }

    /// A number that the host computes, in 64 bits: of lengths, whose products count elements or tiles.
    pub fn of_host(&mut self, value: &HostExpr) -> Option<Polynomial> {
        let found = match value {
            HostExpr::Const(c) => Some(Polynomial::constant(i128::from(*c))),
            HostExpr::Binary(op, a, b) => {
                let (x, y) = (self.of_host(a)?, self.of_host(b)?);
                let exact = of_lengths(value);
                self.applied(*op, &x, &y).filter(|sum| exact || self.fits(sum, DType::I64))
            }
            HostExpr::Dim(..) | HostExpr::Stride(..) | HostExpr::Scalar(_) | HostExpr::Multiprocessors | HostExpr::Wrap(..) => None,
        };
        Some(found.unwrap_or_else(|| {
            let range = self.host_range(value);
            self.atom(Kind::Host(value.clone()), range)
        }))
    }

    /// What the facts say of a number that is a parameter, too.
    fn host_range(&self, value: &HostExpr) -> Range {
        let given = self.kernel.params.iter().zip(&self.launch.given);
        let known = given.into_iter().find_map(|(param, range)| match &param.kind {
            ParamKind::Host { value: own, .. } if own == value => *range,
            _ => None,
        });
        known.unwrap_or_else(|| host(value))
    }

    fn applied(&mut self, op: BinaryOp, x: &Polynomial, y: &Polynomial) -> Option<Polynomial> {
        match op {
            BinaryOp::Add => x.plus(y, 1),
            BinaryOp::Sub => x.plus(y, -1),
            BinaryOp::Mul => x.times(y),
            BinaryOp::Shl => y.value().filter(|by| (0..31).contains(by)).and_then(|by| x.times(&Polynomial::constant(1 << by))),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::Min | BinaryOp::Max => self.made_of(op, x, y),
            _ => None,
        }
    }

    fn made_of(&mut self, op: BinaryOp, x: &Polynomial, y: &Polynomial) -> Option<Polynomial> {
        let narrow = |(least, most): (i128, i128)| Some((i64::try_from(least).ok()?, i64::try_from(most).ok()?));
        let (a, b) = (self.interval(x).and_then(narrow), self.interval(y).and_then(narrow));
        let range = a.zip(b).and_then(|(a, b)| binary(op, a, b));
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem);
        let signs = || Some(self.interval(x)?.0 >= 0 && self.interval(y)?.0 > 0);
        if divides && signs() != Some(true) {
            return None;
        }
        let (x, y) = (x.clone(), y.clone());
        let (kind, whole) = match op {
            BinaryOp::Div => (Kind::Quotient(x, y), (0, i64::MAX)),
            BinaryOp::Rem => (Kind::Remainder(x, y), (0, i64::MAX)),
            BinaryOp::Min => (Kind::Min(x, y), (i64::MIN, i64::MAX)),
            _ => (Kind::Max(x, y), (i64::MIN, i64::MAX)),
        };
        Some(self.atom(kind, range.unwrap_or(whole)))
    }

    fn fits(&self, sum: &Polynomial, dtype: DType) -> bool {
        let whole = of_type(dtype).map(|(least, most)| (i128::from(least), i128::from(most)));
        whole.zip(self.interval(sum)).is_some_and(|(whole, own)| whole.0 <= own.0 && own.1 <= whole.1)
    }

    /// Whether this is arithmetic on indices, which do not overflow.
    fn never_wraps(&self, e: &Expr) -> bool {
        matches!(self.kernel.dtype(e), DType::I32 | DType::I64) && !self.data.must_wrap(self.kernel, e)
    }
}

/// Whether an expression is made of lengths and constants alone.
fn of_lengths(value: &HostExpr) -> bool {
    match value {
        HostExpr::Const(_) | HostExpr::Dim(..) | HostExpr::Multiprocessors => true,
        HostExpr::Binary(_, a, b) => of_lengths(a) && of_lengths(b),
        HostExpr::Stride(..) | HostExpr::Scalar(_) | HostExpr::Wrap(..) => false,
    }
}
