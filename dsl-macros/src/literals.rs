//! Literals that are arguments of functions which make values. Integers beyond `i32` would be literals of that type, which they do not
//! fit; literals with a type say which elements are made.

use proc_macro2::Span;
use syn::{Expr, ExprCall, Ident, Lit, LitInt, UnOp};

/// Functions of the prelude that take one value, of the element type that they are called for.
const TAKE_VALUES: [&str; 4] = ["scalar", "full", "select", "shared"];

/// Gives large literals among the arguments of such a function a type that any integer element takes.
pub fn fit(call: &mut ExprCall) {
    let Expr::Path(path) = &*call.func else { return };
    if path.path.segments.last().is_some_and(|s| TAKE_VALUES.iter().any(|name| s.ident == name)) {
        call.args.iter_mut().for_each(fit_literal);
        type_by_suffix(call);
    }
}

/// `scalar(0i32)` becomes `scalar::<i32>(0i32)`: by itself an `i32` stands for a number of any integer type.
fn type_by_suffix(call: &mut ExprCall) {
    let Some(suffix) = call.args.last().and_then(suffix).filter(|s| s == "i32" || s == "f32") else { return };
    if let Expr::Path(path) = &mut *call.func
        && let Some(last) = path.path.segments.last_mut()
        && last.ident != "select"
        && last.arguments.is_none()
    {
        let ty = Ident::new(&suffix, Span::mixed_site().located_at(last.ident.span()));
        last.arguments = syn::PathArguments::AngleBracketed(syn::parse_quote!(::<#ty>));
    }
}

/// The type that is written behind a literal.
fn suffix(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(l) => match &l.lit {
            Lit::Int(int) => Some(int.suffix().to_string()),
            Lit::Float(float) => Some(float.suffix().to_string()),
            _ => None,
        },
        Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => suffix(&u.expr),
        Expr::Paren(p) => suffix(&p.expr),
        _ => None,
    }
}

fn fit_literal(expr: &mut Expr) {
    match expr {
        Expr::Lit(l) => {
            if let Lit::Int(int) = &mut l.lit
                && int.suffix().is_empty()
                && int.base10_parse::<u128>().is_ok_and(|v| v > i32::MAX as u128 && v <= u64::MAX as u128)
            {
                let (literal, span) = (with_suffix(int, "u64"), int.span());
                *expr = Expr::Verbatim(quote::quote_spanned!(span=> ::girih::__private::Integer(#literal)));
            }
        }
        // Only one integer type holds these.
        Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => {
            if let Expr::Lit(l) = &mut *u.expr
                && let Lit::Int(int) = &mut l.lit
                && int.suffix().is_empty()
                && int.base10_parse::<u128>().is_ok_and(|v| v > 1 << 31 && v <= 1 << 63)
            {
                *int = with_suffix(int, "i64");
            }
        }
        Expr::Paren(p) => fit_literal(&mut p.expr),
        _ => {}
    }
}

/// At the author's place, but not as the author's text: lints of literals would read the one and see the other.
fn with_suffix(int: &LitInt, suffix: &str) -> LitInt {
    LitInt::new(&format!("{int}{suffix}"), Span::mixed_site().located_at(int.span()))
}
