//! Integers beyond `i32`: alone they would be literals of that type, which they do not fit.

use proc_macro2::Span;
use syn::{Expr, ExprCall, Lit, LitInt, UnOp};

/// Functions of the prelude that take one value, of the element type that they are called for.
const TAKE_VALUES: [&str; 4] = ["scalar", "full", "select", "shared"];

/// Gives large literals among the arguments of such a function a type that any integer element takes.
pub fn fit(call: &mut ExprCall) {
    let Expr::Path(path) = &*call.func else { return };
    if path.path.segments.last().is_some_and(|s| TAKE_VALUES.iter().any(|name| s.ident == name)) {
        call.args.iter_mut().for_each(fit_literal);
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
