//! Variants of a program: choices that the author leaves to the tuner, fixed before anything runs or is exported.

use super::walk::{ProgramArg, eval_expr};
use super::{Arg, Base, Expr, Program, Stmt, TensorView};
use crate::types::{BinaryOp, Literal, UnaryOp};

/// What becomes of an expression.
type Decide<'d> = &'d dyn Fn(&Expr) -> Expr;

impl Program {
    /// Where none was chosen: what stands first in the source.
    pub fn default_variants(&self) -> Vec<bool> {
        vec![true; self.variants.len()]
    }

    /// The program with its variants chosen: one `bool` per variant. Sides that are not chosen are gone, with the temporaries that only they
    /// use, and the launch sites that are left are numbered from 0 in their former order.
    pub fn with_variants(&self, chosen: &[bool]) -> Program {
        assert_eq!(chosen.len(), self.variants.len(), "program {}: one choice per variant", self.path);
        if chosen.is_empty() {
            return self.clone();
        }
        let mut program = self.with(&|e| expr(e, chosen));
        program.variants.clear();
        program
    }

    /// What is left of a program whose variants are chosen where it is called with these arguments, in the order of its parameters: of the
    /// choices that they decide the other sides are gone, as in [`Program::with_variants`].
    pub fn called_with(&self, args: &[ProgramArg]) -> Program {
        let leaf = |e: &Expr| match e {
            Expr::Param(p) => args[*p].scalar(),
            Expr::Dim(p, k) => args[*p].len(*k),
            other => panic!("program {}: {other:?} is no argument", self.path),
        };
        self.with(&|e| if e.is_fixed() { Expr::Literal(eval_expr(e, &leaf)) } else { e.clone() })
    }

    /// The program with conditions as a function makes them, without the sides that are never taken.
    fn with(&self, of: Decide) -> Program {
        let mut program = self.clone();
        program.body = block(&self.body, of);
        program.requirements.iter_mut().for_each(|r| r.holds = of(&r.holds));
        program.requirements.retain(|r| truth(&r.holds) != Some(true));
        let mut left: Vec<usize> = Vec::new();
        leaves(&mut program.body, &mut |s| {
            if let Stmt::Launch { site, .. } = s {
                left.push(*site);
            }
        });
        left.sort_unstable();
        leaves(&mut program.body, &mut |s| {
            if let Stmt::Launch { site, .. } = s {
                *site = left.binary_search(site).expect("program: the site was found just now");
            }
        });
        program.drop_unused_temps();
        program
    }

    /// Temporaries of sides that are not chosen take no memory.
    fn drop_unused_temps(&mut self) {
        let mut used = vec![false; self.temps.len()];
        leaves(&mut self.body, &mut |s| bases(s, &mut |t| used[*t] = true));
        leaves(&mut self.body, &mut |s| bases(s, &mut |t| *t = used[..*t].iter().filter(|u| **u).count()));
        let mut kept = used.into_iter();
        self.temps.retain(|_| kept.next() == Some(true));
    }

    /// A name for each launch site, unique in the program: the kernel's, numbered from the second on.
    pub fn site_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for kernel in self.sites() {
            let taken = |n: &String| names.contains(n);
            let numbered = (2..).map(|i| format!("{}_{i}", kernel.name));
            let name = std::iter::once(kernel.name.to_string()).chain(numbered).find(|n| !taken(n));
            names.push(name.expect("program: there are enough numbers"));
        }
        names
    }
}

fn block(body: &[Stmt], of: Decide) -> Vec<Stmt> {
    let mut out = Vec::new();
    for stmt in body {
        match stmt {
            Stmt::If { condition, then, otherwise } => {
                let condition = of(condition);
                match truth(&condition) {
                    Some(true) => out.extend(block(then, of)),
                    Some(false) => out.extend(block(otherwise, of)),
                    None => out.push(Stmt::If { condition, then: block(then, of), otherwise: block(otherwise, of) }),
                }
            }
            Stmt::For { var, start, end, body } => {
                out.push(Stmt::For { var: *var, start: of(start), end: of(end), body: block(body, of) });
            }
            Stmt::While { header, condition, body } => {
                let (header, condition) = (block(header, of), of(condition));
                out.push(Stmt::While { header, condition, body: block(body, of) });
            }
            Stmt::Set { var, value } => out.push(Stmt::Set { var: *var, value: of(value) }),
            Stmt::Let { name, value } => out.push(Stmt::Let { name: name.clone(), value: of(value) }),
            Stmt::Launch { .. } | Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::ReadBack { .. } => out.push(stmt.clone()),
        }
    }
    out
}

/// Visits every statement that has no body.
fn leaves(body: &mut [Stmt], visit: &mut dyn FnMut(&mut Stmt)) {
    for stmt in body {
        match stmt {
            Stmt::If { then, otherwise, .. } => {
                leaves(then, visit);
                leaves(otherwise, visit);
            }
            Stmt::For { body, .. } => leaves(body, visit),
            Stmt::While { header, body, .. } => {
                leaves(header, visit);
                leaves(body, visit);
            }
            leaf => visit(leaf),
        }
    }
}

/// Visits the temporaries that a statement names.
fn bases(stmt: &mut Stmt, visit: &mut dyn FnMut(&mut usize)) {
    let mut view = |v: &mut TensorView| {
        if let Base::Temp(t) = &mut v.base {
            visit(t);
        }
    };
    match stmt {
        Stmt::Launch { args, .. } => args.iter_mut().for_each(|a| {
            if let Arg::Tensor(v) = a {
                view(v);
            }
        }),
        Stmt::Memset { tensor, .. } => view(tensor),
        Stmt::Copy { to, from, .. } => {
            view(to);
            view(from);
        }
        Stmt::ReadBack { from, .. } => view(from),
        Stmt::Set { .. } | Stmt::Let { .. } | Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } => {}
    }
}

fn truth(e: &Expr) -> Option<bool> {
    match e {
        Expr::Literal(l) => Some(l.bits != 0),
        _ => None,
    }
}

fn yes_or_no(value: bool) -> Expr {
    Expr::Literal(Literal::bool(value))
}

/// The expression with variants as constants, and what follows from them computed.
fn expr(e: &Expr, chosen: &[bool]) -> Expr {
    let of = |e: &Expr| expr(e, chosen);
    match e {
        Expr::Variant(v) => yes_or_no(chosen[*v]),
        Expr::Literal(_) | Expr::Param(_) | Expr::Dim(..) | Expr::Var(_) => e.clone(),
        Expr::Unary(UnaryOp::Not, a) => match of(a) {
            Expr::Literal(l) if l.dtype == crate::types::DType::Bool => yes_or_no(l.bits == 0),
            a => Expr::Unary(UnaryOp::Not, Box::new(a)),
        },
        Expr::Unary(op, a) => Expr::Unary(*op, Box::new(of(a))),
        Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
            let (a, b) = (of(a), of(b));
            // Neutral on one side, decisive on the other.
            let neutral = *op == BinaryOp::And;
            let logical = |e: &Expr| matches!(e, Expr::Literal(l) if l.dtype == crate::types::DType::Bool);
            match (logical(&a), logical(&b)) {
                (true, _) if truth(&a) == Some(neutral) => b,
                (true, _) => yes_or_no(!neutral),
                (_, true) if truth(&b) == Some(neutral) => a,
                (_, true) => yes_or_no(!neutral),
                _ => Expr::Binary(*op, Box::new(a), Box::new(b)),
            }
        }
        Expr::Binary(op, a, b) => Expr::Binary(*op, Box::new(of(a)), Box::new(of(b))),
        Expr::Compare(op, a, b) => Expr::Compare(*op, Box::new(of(a)), Box::new(of(b))),
        Expr::Select(c, a, b) => match (of(c), of(a), of(b)) {
            (Expr::Literal(c), a, b) => {
                if c.bits != 0 {
                    a
                } else {
                    b
                }
            }
            (c, a, b) => Expr::Select(Box::new(c), Box::new(a), Box::new(b)),
        },
        Expr::Cast(to, a) => Expr::Cast(*to, Box::new(of(a))),
    }
}
