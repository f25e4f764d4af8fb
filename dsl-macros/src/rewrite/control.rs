//! Loops and branches: what they carry, their headers and their bodies.

use super::names::pattern_names;
use super::{Rewriter, hidden};
use crate::scope::{self, Change, Changes};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Block, Expr, ExprForLoop, ExprIf, ExprWhile, Ident, Stmt};

impl Rewriter<'_> {
    /// One line per variable that `carrier` carries.
    fn carries(&self, changes: &Changes, carrier: &Ident) -> TokenStream {
        let hard = changes.assigned.iter().filter(|c| self.local(&c.name).is_some()).map(|Change { name, through }| {
            let text = name.to_string();
            let place = if *through { quote_spanned!(name.span()=> &mut *#name) } else { quote_spanned!(name.span()=> &mut #name) };
            quote!(#carrier.carry(#text, #place);)
        });
        let assigned = |c: &&Change| !changes.assigned.iter().any(|a| a.name == c.name);
        let soft = changes.touched.iter().filter(|c| self.local(&c.name) == Some(true)).filter(assigned).map(|Change { name, .. }| {
            let text = name.to_string();
            quote!((&mut ::girih::__private::Soft(&mut #name)).soft(&mut #carrier, #text);)
        });
        hard.chain(soft).collect()
    }

    pub(super) fn for_loop(&mut self, mut e: ExprForLoop) -> TokenStream {
        let span = e.for_token.span;
        let changes = Changes::of_block(&e.body, &[&e.pat]);
        let state = hidden("state", span);
        let turn = hidden("turn", span);
        let carries = self.carries(&changes, &state);
        let over = self.header(&mut e.expr);
        self.scoped(|s| {
            s.declare(&e.pat);
            s.body(&mut e.body);
        });
        let names: Vec<String> = scope::bound_names(&e.pat).into_iter().map(|(i, _)| i.to_string()).collect();
        let names = pattern_names(&e.pat).unwrap_or(names);
        let (pat, body) = (&e.pat, &e.body);
        let start = quote_spanned!(span=> __girih_start(#over, &[#(#names),*]));
        quote_spanned! {span=>
            {
                let mut #state = #start;
                while let ::core::option::Option::Some(#turn) = { #carries #state.next() } {
                    let #pat = #turn;
                    #body
                }
            }
        }
    }

    /// What a `for` goes over: ranges become calls, unless they go from no variable to a literal: then they belong to the
    /// host, and its inference may have to find their type.
    pub(super) fn header(&mut self, expr: &mut Expr) -> TokenStream {
        // What is behind a range in parentheses: `.rev()`, `.step_by(2)`.
        if let Expr::MethodCall(call) = expr
            && let Expr::Paren(inside) = &mut *call.receiver
            && matches!(*inside.expr, Expr::Range(_))
        {
            *inside.expr = Expr::Verbatim(self.header(&mut inside.expr));
            call.args.iter_mut().for_each(|a| self.visit_expr_mut(a));
            return call.to_token_stream();
        }
        // The positions of `x.axis(0).tiles(T).within(0..end)`.
        if let Expr::MethodCall(call) = expr
            && call.method == "within"
        {
            self.visit_expr_mut(&mut call.receiver);
            call.args.iter_mut().for_each(|a| *a = Expr::Verbatim(self.header(a)));
            return call.to_token_stream();
        }
        if let Expr::Range(r) = expr
            && let (Some(start), Some(end)) = (&mut r.start, &mut r.end)
            && (!matches!(**end, Expr::Lit(_)) || matches!(**start, Expr::Path(_)))
        {
            self.visit_expr_mut(start);
            self.visit_expr_mut(end);
            return match r.limits {
                syn::RangeLimits::HalfOpen(dots) => quote_spanned!(dots.spans[0]=> __girih_range(#start, #end)),
                syn::RangeLimits::Closed(dots) => quote_spanned!(dots.spans[0]=> __girih_range_inclusive(#start, #end)),
            };
        }
        self.visit_expr_mut(expr);
        expr.to_token_stream()
    }

    /// The body of a loop, which is no value.
    pub(super) fn body(&mut self, block: &mut Block) {
        let outside = std::mem::replace(&mut self.wanted, false);
        self.visit_block_mut(block);
        self.wanted = outside;
    }

    pub(super) fn while_loop(&mut self, mut e: ExprWhile) -> TokenStream {
        let span = e.while_token.span;
        let changes = Changes::of_block(&e.body, &[]).and_expr(&e.cond);
        let state = hidden("state", span);
        let carries = self.carries(&changes, &state);
        let assigns = Changes::default().and_expr(&e.cond).assigns();
        let assigns = if assigns { quote_spanned!(span=> #state.assigns();) } else { TokenStream::new() };
        self.visit_expr_mut(&mut e.cond);
        self.body(&mut e.body);
        let (cond, body) = (&e.cond, &e.body);
        let start = quote_spanned!(span=> __girih_while());
        let test = quote_spanned!(span=> test(#cond));
        quote_spanned! {span=>
            {
                let mut #state = #start;
                #carries
                #assigns
                #state.header();
                #state.#test;
                #body
                #carries
                #state.end();
            }
        }
    }

    pub(super) fn branch(&mut self, mut e: ExprIf) -> TokenStream {
        let span = e.if_token.span;
        let mut changes = Changes::of_block(&e.then_branch, &[]);
        if let Some((_, otherwise)) = &e.else_branch {
            changes = changes.and_expr(otherwise);
        }
        let state = hidden("state", span);
        let carries = self.carries(&changes, &state);
        let literals = e.else_branch.as_ref().is_some_and(|(_, o)| is_literal_block(&e.then_branch) && is_literal(o));
        self.visit_expr_mut(&mut e.cond);
        self.visit_block_mut(&mut e.then_branch);
        let cond = &e.cond;
        let start = quote_spanned!(span=> __girih_branch(#cond));
        let then = &e.then_branch;
        let Some((_, mut otherwise)) = e.else_branch else {
            return quote_spanned! {span=>
                {
                    let mut #state = #start;
                    #carries
                    if #state.then() #then
                    #carries
                    #state.otherwise();
                    #carries
                    #state.finish();
                }
            };
        };
        self.visit_expr_mut(&mut otherwise);
        // Their types may be wrong, so they have the author's spans.
        let a = Ident::new("__girih_then", then.span());
        let b = Ident::new("__girih_otherwise", otherwise.span());
        let join = if literals { quote_spanned!(span=> join_literals(#a, #b)) } else { quote_spanned!(span=> join(#a, #b)) };
        let then_value = some(then.to_token_stream(), then.span());
        let otherwise_value = some(otherwise.to_token_stream(), otherwise.span());
        quote_spanned! {span=>
            {
                let mut #state = #start;
                #carries
                let #a = if #state.then() { #then_value } else { ::core::option::Option::None };
                #carries
                let #b = if #state.otherwise() { #otherwise_value } else { ::core::option::Option::None };
                #carries
                #state.#join
            }
        }
    }

    /// The condition of an `if let`: its `let`s and the `&&` between them stay.
    pub(super) fn let_chain(&mut self, cond: &mut Expr) {
        match cond {
            Expr::Binary(b) if matches!(b.op, BinOp::And(_)) => {
                self.let_chain(&mut b.left);
                self.let_chain(&mut b.right);
            }
            Expr::Let(l) => {
                self.visit_expr_mut(&mut l.expr);
                self.declare(&l.pat);
            }
            other => self.visit_expr_mut(other),
        }
    }
}

/// The expression as an operand of `&`.
pub(super) fn grouped(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Path(_) | Expr::Lit(_) | Expr::Call(_) | Expr::MethodCall(_) | Expr::Paren(_) | Expr::Field(_) => expr.to_token_stream(),
        _ => quote!((#expr)),
    }
}

pub(super) fn some(value: TokenStream, span: Span) -> TokenStream {
    quote_spanned!(span=> ::core::option::Option::Some(#value))
}

/// The condition of an `if let` or `while let`.
pub fn has_let(cond: &Expr) -> bool {
    match cond {
        Expr::Let(_) => true,
        Expr::Binary(b) if matches!(b.op, BinOp::And(_)) => has_let(&b.left) || has_let(&b.right),
        _ => false,
    }
}

/// The `else` of an `if let` must be a block.
pub(super) fn wrap_verbatim(otherwise: &mut Expr) {
    if let Expr::Verbatim(tokens) = otherwise {
        *otherwise = Expr::Verbatim(quote!({ #tokens }));
    }
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) => true,
        Expr::Unary(u) => matches!(u.op, syn::UnOp::Neg(_)) && is_literal(&u.expr),
        Expr::Block(b) => b.label.is_none() && is_literal_block(&b.block),
        _ => false,
    }
}

fn is_literal_block(block: &Block) -> bool {
    matches!(block.stmts.as_slice(), [Stmt::Expr(e, None)] if is_literal(e))
}
