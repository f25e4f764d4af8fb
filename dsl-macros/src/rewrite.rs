//! Rewrites what Rust cannot overload: `for`, `while`, `if`, comparisons, `&&` and `||`, and names after `let`.
//!
//! Spans: a call that records a place is one identifier with the author's span, so that `#[track_caller]` sees the author's line;
//! bookkeeping has the macro's span, so that editors don't list it.

mod control;
mod names;

pub use control::has_let;
use control::{grouped, some, wrap_verbatim};
use names::{assigned_name, is_nameable, name_call, named, simple_name};

use crate::launches::launch;
use crate::literals;
use crate::scope;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, Ident, Pat, Stmt};

/// Compound assignment.
pub fn is_assignment(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// The names that a rewritten body calls, to be placed at its top.
pub fn imports() -> TokenStream {
    quote! {
        #[allow(unused_imports)]
        use ::girih::__private::{
            NameIt as _, NameNothing as _, SoftCarry as _, SoftIgnore as _, branch as __girih_branch, eq as __girih_eq, ge as __girih_ge,
            gt as __girih_gt, le as __girih_le, logic as __girih_logic, lt as __girih_lt, ne as __girih_ne, needs as __girih_needs,
            range as __girih_range, range_inclusive as __girih_range_inclusive, start as __girih_start, while_loop as __girih_while,
        };
    }
}

/// Rewrites a body. `params` are the function's parameters, `knobs` the names of tile knobs.
pub fn body(block: &mut Block, params: Vec<(Ident, bool)>, knobs: &[Ident], launches: bool) {
    let mut rewriter = Rewriter { scopes: vec![params], knobs, launches, wanted: false };
    rewriter.visit_block_mut(block);
}

struct Rewriter<'a> {
    /// The variables in scope, with whether they are `mut`.
    scopes: Vec<Vec<(Ident, bool)>>,
    knobs: &'a [Ident],
    /// Calls that stand as statements are launches of a program.
    launches: bool,
    /// The block that is rewritten next is a value: what stands at its end without a semicolon is no statement.
    wanted: bool,
}

impl Rewriter<'_> {
    fn scoped(&mut self, f: impl FnOnce(&mut Self)) {
        self.scopes.push(Vec::new());
        f(self);
        self.scopes.pop();
    }
    fn declare(&mut self, pat: &Pat) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(scope::bound_names(pat));
        }
    }
    fn local(&self, name: &Ident) -> Option<bool> {
        self.scopes.iter().rev().flat_map(|s| s.iter().rev()).find(|(n, _)| n == name).map(|(_, m)| *m)
    }

    fn binary(&mut self, e: &mut syn::ExprBinary) -> Option<TokenStream> {
        let span = e.op.span();
        let name = match e.op {
            BinOp::Lt(_) => "lt",
            BinOp::Le(_) => "le",
            BinOp::Gt(_) => "gt",
            BinOp::Ge(_) => "ge",
            BinOp::Eq(_) => "eq",
            BinOp::Ne(_) => "ne",
            BinOp::And(_) | BinOp::Or(_) => "logic",
            _ => return None,
        };
        let function = Ident::new(&format!("__girih_{name}"), span);
        self.visit_expr_mut(&mut e.left);
        self.visit_expr_mut(&mut e.right);
        let (left, right) = (&e.left, &e.right);
        if name != "logic" {
            let (left, right) = (grouped(left), grouped(right));
            let (left, right) = (quote_spanned!(e.left.span()=> &#left), quote_spanned!(e.right.span()=> &#right));
            return Some(quote_spanned!(span=> #function(#left, #right)));
        }
        let or = matches!(e.op, BinOp::Or(_));
        let (l, needs) = (hidden("left", span), hidden("needs_right", span));
        let value = some(right.to_token_stream(), e.right.span());
        Some(quote_spanned! {span=>
            {
                let #l = #left;
                let #needs = __girih_needs(&#l, #or);
                #function(#l, if #needs { #value } else { ::core::option::Option::None }, #or)
            }
        })
    }

    /// `last`: the statement's value is the block's, and is wanted.
    fn statement(&mut self, mut stmt: Stmt, last: bool, out: &mut Vec<Stmt>) {
        match &mut stmt {
            Stmt::Local(local) => {
                let mutable_names = scope::bound_names(&local.pat);
                self.wanted = true;
                self.visit_local_mut(local);
                self.declare(&local.pat);
                match (simple_name(&local.pat), &mut local.init) {
                    (Some((name, ty)), Some(init)) if init.diverge.is_none() => {
                        if is_nameable(&init.expr) && !name.to_string().starts_with('_') {
                            *init.expr = Expr::Verbatim(named(&init.expr, &name, ty));
                        }
                        out.push(stmt);
                    }
                    (None, Some(_)) => {
                        out.push(stmt);
                        let names = mutable_names.iter().filter(|(n, _)| !n.to_string().starts_with('_'));
                        out.extend(names.map(|(n, _)| name_call(n)));
                    }
                    _ => out.push(stmt),
                }
            }
            Stmt::Expr(expr, semi) => {
                let value = last && semi.is_none();
                if self.launches && !value {
                    launch(expr);
                }
                // The sides of an `if` and the bodies of loops that are statements consist of such.
                let of_statements = matches!(expr, Expr::If(_) | Expr::Match(_) | Expr::Block(_) | Expr::ForLoop(_) | Expr::While(_));
                self.wanted = value || !of_statements;
                let assigned = match (&*expr, semi.is_some()) {
                    (Expr::Assign(a), true) => assigned_name(&a.left),
                    (Expr::Binary(b), true) if is_assignment(&b.op) => assigned_name(&b.left),
                    _ => None,
                };
                self.visit_expr_mut(expr);
                out.push(stmt);
                if let Some(name) = assigned.filter(|n| self.local(n).is_some()) {
                    out.push(name_call(&name));
                }
            }
            Stmt::Item(_) | Stmt::Macro(_) => out.push(stmt),
        }
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let wanted = self.wanted;
        self.scoped(|s| {
            let mut stmts = Vec::new();
            let all = std::mem::take(&mut block.stmts);
            let end = all.len().saturating_sub(1);
            for (i, stmt) in all.into_iter().enumerate() {
                s.statement(stmt, wanted && i == end, &mut stmts);
            }
            block.stmts = stmts;
        });
        self.wanted = wanted;
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::ForLoop(e) => *expr = Expr::Verbatim(self.for_loop(e.clone())),
            Expr::While(e) if !has_let(&e.cond) => *expr = Expr::Verbatim(self.while_loop(e.clone())),
            Expr::While(e) => self.scoped(|s| {
                s.let_chain(&mut e.cond);
                s.body(&mut e.body);
            }),
            Expr::If(e) if !has_let(&e.cond) => *expr = Expr::Verbatim(self.branch(e.clone())),
            Expr::If(e) => {
                self.scoped(|s| {
                    s.let_chain(&mut e.cond);
                    s.visit_block_mut(&mut e.then_branch);
                });
                if let Some((_, otherwise)) = &mut e.else_branch {
                    self.visit_expr_mut(otherwise);
                    wrap_verbatim(otherwise);
                }
            }
            Expr::Binary(e) => match self.binary(e) {
                Some(tokens) => *expr = Expr::Verbatim(tokens),
                None => visit_mut::visit_expr_mut(self, expr),
            },
            Expr::Closure(c) => self.scoped(|s| {
                c.inputs.iter().for_each(|p| s.declare(p));
                let outside = std::mem::replace(&mut s.wanted, true);
                s.visit_expr_mut(&mut c.body);
                s.wanted = outside;
            }),
            // A demand on elements: `ids.within(0..end)`.
            Expr::MethodCall(call) if call.method == "within" => *expr = Expr::Verbatim(self.header(expr)),
            Expr::Call(c) => {
                literals::fit(c);
                visit_mut::visit_expr_mut(self, expr);
            }
            Expr::Array(a) => {
                let knob = a.elems.iter().any(|e| matches!(e, Expr::Path(p) if self.knobs.iter().any(|k| p.path.is_ident(k))));
                for e in &mut a.elems {
                    match e {
                        Expr::Lit(l) if knob && matches!(l.lit, syn::Lit::Int(_)) => {
                            *e = Expr::Verbatim(quote_spanned!(l.span()=> ::girih::__private::Size::from(#l)));
                        }
                        e => self.visit_expr_mut(e),
                    }
                }
            }
            Expr::Repeat(r) => self.visit_expr_mut(&mut r.expr),
            Expr::Const(_) => {}
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        self.scoped(|s| {
            s.declare(&arm.pat);
            if let Some((_, guard)) = &mut arm.guard {
                s.visit_expr_mut(guard);
            }
            s.visit_expr_mut(&mut arm.body);
        });
        if arm.comma.is_none() && matches!(*arm.body, Expr::Verbatim(_)) {
            arm.comma = Some(Default::default());
        }
    }

    fn visit_item_mut(&mut self, _item: &mut syn::Item) {}
    fn visit_type_mut(&mut self, _ty: &mut syn::Type) {}
    fn visit_pat_mut(&mut self, _pat: &mut Pat) {}
}

fn hidden(name: &str, span: Span) -> Ident {
    format_ident!("__girih_{name}", span = Span::mixed_site().located_at(span))
}
