//! Rewrites what Rust cannot overload: `for`, `while`, `if`, comparisons, `&&` and `||`, and names after `let`.
//!
//! Spans: a call that records a place is one identifier with the author's span, so that `#[track_caller]` sees the author's line;
//! bookkeeping has the macro's span, so that editors don't list it.

use crate::launches::launch;
use crate::literals;
use crate::scope::{self, Change, Changes};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, ExprForLoop, ExprIf, ExprWhile, Ident, Pat, Stmt};

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

    fn for_loop(&mut self, mut e: ExprForLoop) -> TokenStream {
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
    fn header(&mut self, expr: &mut Expr) -> TokenStream {
        // What is behind a range in parentheses: `.rev()`, `.step_by(2)`.
        if let Expr::MethodCall(call) = expr
            && let Expr::Paren(inside) = &mut *call.receiver
            && matches!(*inside.expr, Expr::Range(_))
        {
            *inside.expr = Expr::Verbatim(self.header(&mut inside.expr));
            call.args.iter_mut().for_each(|a| self.visit_expr_mut(a));
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
    fn body(&mut self, block: &mut Block) {
        let outside = std::mem::replace(&mut self.wanted, false);
        self.visit_block_mut(block);
        self.wanted = outside;
    }

    fn while_loop(&mut self, mut e: ExprWhile) -> TokenStream {
        let span = e.while_token.span;
        let changes = Changes::of_block(&e.body, &[]).and_expr(&e.cond);
        let state = hidden("state", span);
        let carries = self.carries(&changes, &state);
        self.visit_expr_mut(&mut e.cond);
        self.body(&mut e.body);
        let (cond, body) = (&e.cond, &e.body);
        let start = quote_spanned!(span=> __girih_while());
        let test = quote_spanned!(span=> test(#cond));
        quote_spanned! {span=>
            {
                let mut #state = #start;
                #carries
                #state.header();
                #state.#test;
                #body
                #carries
                #state.end();
            }
        }
    }

    fn branch(&mut self, mut e: ExprIf) -> TokenStream {
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

impl Rewriter<'_> {
    /// The condition of an `if let`: its `let`s and the `&&` between them stay.
    fn let_chain(&mut self, cond: &mut Expr) {
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

fn hidden(name: &str, span: Span) -> Ident {
    format_ident!("__girih_{name}", span = Span::mixed_site().located_at(span))
}

/// The expression as an operand of `&`.
fn grouped(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Path(_) | Expr::Lit(_) | Expr::Call(_) | Expr::MethodCall(_) | Expr::Paren(_) | Expr::Field(_) => expr.to_token_stream(),
        _ => quote!((#expr)),
    }
}

fn some(value: TokenStream, span: Span) -> TokenStream {
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
fn wrap_verbatim(otherwise: &mut Expr) {
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

fn simple_name(pat: &Pat) -> Option<(Ident, Option<syn::Type>)> {
    match pat {
        Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => Some((p.ident.clone(), None)),
        Pat::Type(t) => simple_name(&t.pat).map(|(name, _)| (name, Some((*t.ty).clone()))),
        _ => None,
    }
}

fn assigned_name(place: &Expr) -> Option<Ident> {
    match place {
        Expr::Path(p) => p.path.get_ident().cloned(),
        _ => None,
    }
}

fn is_nameable(init: &Expr) -> bool {
    !matches!(init, Expr::Reference(_) | Expr::Closure(_) | Expr::Lit(_))
}

/// `{ let v = E; (&Named(&v)).name("x"); v }`, inside the initialiser so that rustc still sees an unused variable.
fn named(init: &Expr, name: &Ident, ty: Option<syn::Type>) -> TokenStream {
    let value = hidden("value", name.span());
    let text = name.to_string();
    let ty = ty.map(|t| quote!(: #t));
    quote_spanned! {init.span()=>
        {
            let #value #ty = #init;
            (&::girih::__private::Named(&#value)).name(#text);
            #value
        }
    }
}

fn name_call(name: &Ident) -> Stmt {
    let text = name.to_string();
    Stmt::Expr(Expr::Verbatim(quote!((&::girih::__private::Named(&#name)).name(#text);)), None)
}

/// The names of a `for`'s pattern by position: `""` for what has none.
fn pattern_names(pat: &Pat) -> Option<Vec<String>> {
    let one = |p: &Pat| match p {
        Pat::Ident(i) => i.ident.to_string().trim_start_matches('_').to_string(),
        _ => String::new(),
    };
    match pat {
        Pat::Ident(_) | Pat::Wild(_) => Some(vec![one(pat)]),
        Pat::Tuple(t) => Some(t.elems.iter().map(one).collect()),
        _ => None,
    }
}
