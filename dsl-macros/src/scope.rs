//! Which variables of outside a piece of code changes: those that a loop or branch must carry.

use proc_macro2::TokenTree;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Ident, Local, Pat};

/// A variable that changes.
#[derive(Clone)]
pub struct Change {
    /// Its name, where it is first changed.
    pub name: Ident,
    /// Assigned through `*x = ..`.
    pub through: bool,
}

/// The variables of outside that a piece of code changes.
#[derive(Default)]
pub struct Changes {
    /// Assigned: `x = ..`, `x += ..`, `x.0 = ..`, `x[i] = ..`, `*x = ..`, `(x, y) = ..`.
    pub assigned: Vec<Change>,
    /// Perhaps changed: a method's receiver, under `&mut`, or inside a macro's tokens.
    pub touched: Vec<Change>,
    scopes: Vec<Vec<String>>,
}

/// The names that a pattern binds, in order.
pub fn bound_names(pat: &Pat) -> Vec<(Ident, bool)> {
    struct Names(Vec<(Ident, bool)>);
    impl<'a> Visit<'a> for Names {
        fn visit_pat_ident(&mut self, p: &'a syn::PatIdent) {
            // A name that starts with a capital is a constant or a variant.
            if p.by_ref.is_some() || p.subpat.is_some() || !p.ident.to_string().starts_with(char::is_uppercase) {
                self.0.push((p.ident.clone(), p.mutability.is_some()));
            }
            visit::visit_pat_ident(self, p);
        }
        fn visit_expr(&mut self, _e: &'a Expr) {}
    }
    let mut names = Names(Vec::new());
    names.visit_pat(pat);
    names.0
}

/// The variable at the root of a place: `x` in `x.0[i]` and `*x`.
pub fn root(place: &Expr) -> Option<(&Ident, bool)> {
    match place {
        Expr::Path(p) if p.qself.is_none() => p.path.get_ident().map(|i| (i, false)),
        Expr::Field(f) => root(&f.base),
        Expr::Index(i) => root(&i.expr),
        Expr::Paren(p) => root(&p.expr),
        Expr::Group(g) => root(&g.expr),
        Expr::Unary(u) if matches!(u.op, syn::UnOp::Deref(_)) => root(&u.expr).map(|(i, _)| (i, true)),
        _ => None,
    }
}

impl Changes {
    /// What `block` changes, where `inner` names are declared by its loop or branch.
    pub fn of_block(block: &Block, inner: &[&Pat]) -> Changes {
        let mut changes = Changes::default();
        changes.scopes.push(inner.iter().flat_map(|p| bound_names(p)).map(|(i, _)| i.to_string()).collect());
        changes.visit_block(block);
        changes
    }
    /// Adds what `expr` changes.
    pub fn and_expr(mut self, expr: &Expr) -> Changes {
        self.visit_expr(expr);
        self
    }
    /// Whether anything is assigned.
    pub fn assigns(&self) -> bool {
        !self.assigned.is_empty()
    }
    /// What a closure's body changes, except its parameters.
    pub fn of_closure(closure: &syn::ExprClosure) -> Changes {
        let mut changes = Changes::default();
        changes.scopes.push(closure.inputs.iter().flat_map(bound_names).map(|(i, _)| i.to_string()).collect());
        changes.visit_expr(&closure.body);
        changes
    }
    fn is_inner(&self, name: &Ident) -> bool {
        self.scopes.iter().flatten().any(|n| name == n)
    }
    fn declare(&mut self, pat: &Pat) {
        let names = bound_names(pat);
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(names.into_iter().map(|(i, _)| i.to_string()));
        }
    }
    fn assign(&mut self, place: &Expr) {
        match place {
            Expr::Tuple(t) => t.elems.iter().for_each(|e| self.assign(e)),
            Expr::Array(a) => a.elems.iter().for_each(|e| self.assign(e)),
            _ => {
                if let Some((name, through)) = root(place)
                    && !self.is_inner(name)
                    && !self.assigned.iter().any(|c| c.name == *name)
                {
                    self.assigned.push(Change { name: name.clone(), through });
                }
            }
        }
    }
    fn touch(&mut self, name: &Ident) {
        if !self.is_inner(name) && !self.touched.iter().any(|c| c.name == *name) {
            self.touched.push(Change { name: name.clone(), through: false });
        }
    }
    fn scoped(&mut self, f: impl FnOnce(&mut Self)) {
        self.scopes.push(Vec::new());
        f(self);
        self.scopes.pop();
    }
    fn touch_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(i) => self.touch(&i),
                TokenTree::Group(g) => self.touch_tokens(g.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Changes {
    fn visit_block(&mut self, block: &'a Block) {
        self.scoped(|s| visit::visit_block(s, block));
    }
    fn visit_local(&mut self, local: &'a Local) {
        visit::visit_local(self, local);
        self.declare(&local.pat);
    }
    fn visit_expr_assign(&mut self, e: &'a syn::ExprAssign) {
        visit::visit_expr_assign(self, e);
        self.assign(&e.left);
    }
    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        visit::visit_expr_binary(self, e);
        if crate::rewrite::is_assignment(&e.op) {
            self.assign(&e.left);
        }
    }
    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        if let Some((name, _)) = root(&e.receiver) {
            self.touch(name);
        }
        visit::visit_expr_method_call(self, e);
    }
    fn visit_expr_reference(&mut self, e: &'a syn::ExprReference) {
        if e.mutability.is_some()
            && let Some((name, _)) = root(&e.expr)
        {
            self.touch(name);
        }
        visit::visit_expr_reference(self, e);
    }
    fn visit_macro(&mut self, m: &'a syn::Macro) {
        self.touch_tokens(m.tokens.clone());
    }
    fn visit_expr_closure(&mut self, e: &'a syn::ExprClosure) {
        self.scoped(|s| {
            e.inputs.iter().for_each(|p| s.declare(p));
            s.visit_expr(&e.body);
        });
    }
    fn visit_expr_for_loop(&mut self, e: &'a syn::ExprForLoop) {
        self.visit_expr(&e.expr);
        self.scoped(|s| {
            s.declare(&e.pat);
            s.visit_block(&e.body);
        });
    }
    fn visit_expr_if(&mut self, e: &'a syn::ExprIf) {
        self.scoped(|s| {
            s.visit_expr(&e.cond);
            s.visit_block(&e.then_branch);
        });
        if let Some((_, otherwise)) = &e.else_branch {
            self.visit_expr(otherwise);
        }
    }
    fn visit_expr_while(&mut self, e: &'a syn::ExprWhile) {
        self.scoped(|s| visit::visit_expr_while(s, e));
    }
    fn visit_expr_let(&mut self, e: &'a syn::ExprLet) {
        self.visit_expr(&e.expr);
        self.declare(&e.pat);
    }
    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        self.scoped(|s| {
            s.declare(&arm.pat);
            if let Some((_, guard)) = &arm.guard {
                s.visit_expr(guard);
            }
            s.visit_expr(&arm.body);
        });
    }
    fn visit_item(&mut self, _item: &'a syn::Item) {}
    fn visit_pat(&mut self, _pat: &'a Pat) {}
}
