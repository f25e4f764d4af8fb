//! What a body and a signature may not contain, each mistake at the author's token.

use crate::errors::Errors;
use crate::rewrite::has_let;
use crate::scope::Changes;
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Expr, FnArg, Ident, Pat, ReturnType, Signature, Type};

/// Functions of the prelude: a kernel of the same name would hide them in its own body.
const TAKEN: [&str; 15] = [
    "along",
    "zeros",
    "full",
    "stack",
    "select",
    "dot",
    "dot_with",
    "mixed_dot",
    "require",
    "scalar",
    "temp",
    "temp_filled",
    "variant",
    "kernel",
    "program",
];

/// A parameter of a kernel or program.
#[derive(Clone)]
pub struct Param {
    /// Its name.
    pub name: Ident,
    /// Its type without the reference.
    pub ty: Type,
    /// How it is taken.
    pub by: By,
}

/// How a parameter is taken.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    /// `&T`.
    Reference,
    /// `&mut T`.
    Mutable,
    /// `T`.
    Value,
}

/// Checks a signature and gives its parameters. `what` is `kernel` or `program`.
pub fn signature(sig: &Signature, what: &str, errors: &mut Errors) -> Vec<Param> {
    if let ReturnType::Type(_, ty) = &sig.output {
        errors.on(ty, format!("a {what} returns nothing: write results to a `&mut Tensor` parameter"));
    }
    for (token, word) in [
        (sig.constness.map(|t| t.to_token_stream()), "const"),
        (sig.asyncness.map(|t| t.to_token_stream()), "async"),
        (sig.unsafety.map(|t| t.to_token_stream()), "unsafe"),
        (sig.abi.as_ref().map(|t| t.to_token_stream()), "extern"),
    ] {
        if let Some(token) = token {
            errors.on(token, format!("a {what} is a plain function: remove `{word}`"));
        }
    }
    if TAKEN.contains(&sig.ident.to_string().as_str()) {
        errors.on(&sig.ident, format!("`{}` is a name of girih's prelude, which the {what} would hide: choose another name", sig.ident));
    }
    for param in sig.generics.const_params() {
        errors.on(param, format!("a {what} has a fixed rank: take the flat view, or write one {what} per rank"));
    }
    let mut params = Vec::new();
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(r) => errors.on(r, format!("a {what} is a free function: it has no `self`")),
            FnArg::Typed(t) => match &*t.pat {
                Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                    if let Some(mutability) = p.mutability {
                        errors.on(mutability, format!("a {what} parameter is a plain name: copy it with `let mut {0} = {0};`", p.ident));
                    }
                    let (ty, by) = match &*t.ty {
                        Type::Reference(r) if r.mutability.is_some() => ((*r.elem).clone(), By::Mutable),
                        Type::Reference(r) => ((*r.elem).clone(), By::Reference),
                        ty => (ty.clone(), By::Value),
                    };
                    if let Some(instead) = instead_of(&ty, by) {
                        let found = t.ty.to_token_stream().to_string().replace("& ", "&");
                        errors.on(&t.ty, format!("`{found}` cannot be a parameter of a {what}: write `{instead}`"));
                    }
                    params.push(Param { name: p.ident.clone(), ty, by });
                }
                pat => errors.on(pat, format!("a {what} parameter is a plain name: take it apart in the body")),
            },
        }
    }
    params
}

/// What to write instead of a type of the host, which would be refused in many places.
fn instead_of(ty: &Type, by: By) -> Option<String> {
    let reference = if by == By::Mutable { "&mut " } else { "&" };
    let tensor = |elem: &Type| format!("{reference}Tensor<{}, 1>", elem.to_token_stream());
    match ty {
        Type::Slice(s) => Some(tensor(&s.elem)),
        Type::Array(a) => Some(tensor(&a.elem)),
        Type::Path(p) => match p.path.get_ident()?.to_string().as_str() {
            "usize" | "isize" => Some("Scalar<i64>".to_string()),
            "f64" => Some("Scalar<f32>".to_string()),
            name @ ("f32" | "f16" | "bf16" | "f8e4m3" | "f8e5m2" | "i8" | "u8" | "i32" | "u32" | "i64" | "u64" | "bool") => {
                Some(format!("Scalar<{name}>"))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Checks a body.
pub fn body(block: &syn::Block, errors: &mut Errors) {
    Checker { errors, closures: 0, recorded: 0 }.visit_block(block);
}

struct Checker<'a> {
    errors: &'a mut Errors,
    closures: usize,
    /// `if`s, loops and right sides of `&&` and `||` around here, within the innermost closure: they may be recorded, and then all of
    /// their text runs while the kernel is built.
    recorded: usize,
}

impl Checker<'_> {
    fn label(&mut self, label: &Option<syn::Label>) {
        if let Some(label) = label {
            self.errors.on(&label.name, "labels have no meaning on the GPU: a loop cannot be left early");
        }
    }
    /// `return` and `?`: fine in a closure, which Rust calls, unless something that may be recorded would be left unfinished.
    fn leaves(&mut self, token: impl ToTokens, word: &str, outside: &str) {
        if self.closures == 0 {
            self.errors.on(token, format!("`{word}` cannot leave a kernel early: {outside}"));
        } else if self.recorded > 0 {
            self.errors.on(
                token,
                format!(
                    "`{word}` cannot leave a closure from within an `if` or a loop, which may run on the GPU: give the value at the \
                     closure's end, as in `if c {{ a }} else {{ b }}`"
                ),
            );
        }
    }
    fn recorded(&mut self, visit: impl FnOnce(&mut Self)) {
        self.recorded += 1;
        visit(self);
        self.recorded -= 1;
    }
}

impl<'a> Visit<'a> for Checker<'_> {
    fn visit_expr_break(&mut self, e: &'a syn::ExprBreak) {
        self.errors.on(e, "`break` cannot leave a loop, which may run on the GPU: put the condition into a `while`");
    }
    fn visit_expr_continue(&mut self, e: &'a syn::ExprContinue) {
        self.errors.on(
            e,
            "`continue` cannot skip the rest of a turn, for the loop or an `if` in it may run on the GPU: put the rest of the body under an \
             `if`, or leave the turn out of a loop of the host, as in `for d in [-1, 1]`",
        );
    }
    fn visit_expr_return(&mut self, e: &'a syn::ExprReturn) {
        self.leaves(e.return_token, "return", "put the rest under an `if`");
        visit::visit_expr_return(self, e);
    }
    fn visit_expr_try(&mut self, e: &'a syn::ExprTry) {
        self.leaves(e.question_token, "?", "handle the other case with `match`");
        visit::visit_expr_try(self, e);
    }
    fn visit_expr_await(&mut self, e: &'a syn::ExprAwait) {
        self.errors.on(e.await_token, "nothing can be awaited on the GPU");
    }
    fn visit_expr_loop(&mut self, e: &'a syn::ExprLoop) {
        self.label(&e.label);
        self.errors.on(e.loop_token, "`loop` has no condition the GPU could test: use `while`");
        self.visit_block(&e.body);
    }
    fn visit_expr_block(&mut self, e: &'a syn::ExprBlock) {
        self.label(&e.label);
        visit::visit_expr_block(self, e);
    }
    fn visit_expr_while(&mut self, e: &'a syn::ExprWhile) {
        self.label(&e.label);
        self.recorded(|s| visit::visit_expr_while(s, e));
    }
    fn visit_expr_if(&mut self, e: &'a syn::ExprIf) {
        // What is matched against a pattern belongs to the host.
        if has_let(&e.cond) {
            return visit::visit_expr_if(self, e);
        }
        self.visit_expr(&e.cond);
        self.recorded(|s| {
            s.visit_block(&e.then_branch);
            if let Some((_, otherwise)) = &e.else_branch {
                s.visit_expr(otherwise);
            }
        });
    }
    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        self.visit_expr(&e.left);
        match e.op {
            syn::BinOp::And(_) | syn::BinOp::Or(_) => self.recorded(|s| s.visit_expr(&e.right)),
            _ => self.visit_expr(&e.right),
        }
    }
    fn visit_expr_for_loop(&mut self, e: &'a syn::ExprForLoop) {
        self.label(&e.label);
        if let Expr::Range(r) = &*e.expr
            && (r.start.is_none() || r.end.is_none())
        {
            self.errors.on(r, "a `for` needs both ends of its range");
        }
        self.visit_expr(&e.expr);
        self.recorded(|s| s.visit_block(&e.body));
    }
    fn visit_expr_closure(&mut self, c: &'a syn::ExprClosure) {
        for change in Changes::of_closure(c).assigned {
            let name = change.name;
            self.errors.on(
                &name,
                format!(
                    "a closure cannot assign `{name}`, which is declared outside of it: a loop that calls the closure could not see the \
                     change. Return the new value instead"
                ),
            );
        }
        self.closures += 1;
        let outside = std::mem::take(&mut self.recorded);
        visit::visit_expr_closure(self, c);
        self.recorded = outside;
        self.closures -= 1;
    }
    fn visit_local(&mut self, local: &'a syn::Local) {
        if let Some(init) = &local.init
            && let Expr::Reference(r) = &*init.expr
            && r.mutability.is_some()
            && let Some((name, _)) = crate::scope::root(&r.expr)
        {
            let message =
                format!("`&mut {name}` cannot be kept in a variable: a loop could not see that `{name}` changes. Use `{name}` itself");
            self.errors.on(r, message);
        }
        visit::visit_local(self, local);
    }
    fn visit_item(&mut self, _item: &'a syn::Item) {}
}
