//! Names after `let`, and those of patterns.

use super::hidden;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Pat, Stmt};

pub(super) fn simple_name(pat: &Pat) -> Option<(Ident, Option<syn::Type>)> {
    match pat {
        Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => Some((p.ident.clone(), None)),
        Pat::Type(t) => simple_name(&t.pat).map(|(name, _)| (name, Some((*t.ty).clone()))),
        _ => None,
    }
}

pub(super) fn assigned_name(place: &Expr) -> Option<Ident> {
    match place {
        Expr::Path(p) => p.path.get_ident().cloned(),
        _ => None,
    }
}

pub(super) fn is_nameable(init: &Expr) -> bool {
    !matches!(init, Expr::Reference(_) | Expr::Closure(_) | Expr::Lit(_))
}

/// `{ let v = E; (&Named(&v)).name("x"); v }`, inside the initialiser so that rustc still sees an unused variable.
pub(super) fn named(init: &Expr, name: &Ident, ty: Option<syn::Type>) -> TokenStream {
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

pub(super) fn name_call(name: &Ident) -> Stmt {
    let text = name.to_string();
    Stmt::Expr(Expr::Verbatim(quote!((&::girih::__private::Named(&#name)).name(#text);)), None)
}

/// The names of a `for`'s pattern by position: `""` for what has none.
pub(super) fn pattern_names(pat: &Pat) -> Option<Vec<String>> {
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
