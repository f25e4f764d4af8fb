//! Which calls in a program are launches: those that stand as statements, but for what belongs to Rust or to girih.

use crate::check::{By, Param};
use crate::errors::Errors;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprCall, Path, PathArguments, parse_quote};

/// Functions of the prelude: they launch nothing.
const OF_PRELUDE: [&str; 16] = [
    "along",
    "dot",
    "dot_with",
    "full",
    "iota",
    "lanes",
    "mixed_dot",
    "require",
    "scalar",
    "select",
    "shared",
    "stack",
    "temp",
    "temp_filled",
    "variant",
    "zeros",
];

/// Crates and modules of Rust's own: what they have is called as it is.
const OF_RUST: [&str; 4] = ["std", "core", "alloc", "mem"];

/// A launch of a program gets the plan as its first argument, and its type behind the types that the author gives.
pub fn launch(expr: &mut Expr) {
    if let Expr::Call(call) = expr
        && let Expr::Path(path) = &mut *call.func
        && !is_plain(&path.path)
    {
        let plan = quote_spanned!(path.span()=> &::girih::__private::Plan);
        if let Some(PathArguments::AngleBracketed(types)) = path.path.segments.last_mut().map(|s| &mut s.arguments) {
            types.args.push(parse_quote!(_));
        }
        call.args.insert(0, Expr::Verbatim(plan));
    }
}

fn is_plain(path: &Path) -> bool {
    let (Some(first), Some(last)) = (path.segments.first(), path.segments.last()) else { return true };
    let of_rust = path.segments.len() > 1 && OF_RUST.iter().any(|name| first.ident == name);
    // `Some(..)`, `Box::new(..)`: kernels and programs are functions of modules, and modules have small letters.
    let typed = path.segments.iter().any(|s| s.ident.to_string().starts_with(char::is_uppercase));
    of_rust || typed || OF_PRELUDE.iter().any(|name| last.ident == name)
}

/// Finds calls of Rust's own that would exchange a program's parameters: no loop or branch could see it.
pub fn check(block: &Block, params: &[Param], errors: &mut Errors) {
    Exchanges { params, errors }.visit_block(block);
}

struct Exchanges<'a> {
    params: &'a [Param],
    errors: &'a mut Errors,
}

impl<'a> Visit<'a> for Exchanges<'_> {
    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        let of_rust = matches!(&*call.func, Expr::Path(p) if is_plain(&p.path));
        for arg in call.args.iter().filter(|_| of_rust) {
            let named = |p: &&Param| p.by == By::Mutable && matches!(arg, Expr::Path(a) if a.path.is_ident(&p.name));
            if let Some(Param { name, .. }) = self.params.iter().find(named) {
                let message = format!(
                    "the parameter `{name}` names one tensor throughout a program: exchange temporaries (`std::mem::swap(&mut a, &mut b)`), \
                     and copy to `{name}` what it shall hold"
                );
                self.errors.on(arg, message);
            }
        }
        visit::visit_expr_call(self, call);
    }
}
