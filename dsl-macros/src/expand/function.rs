//! A function and what is derived from its signature: handles for its parameters, its launch, its body on handles.

use super::allowed;
use crate::check::{By, Param};
use crate::{rewrite, source};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute as Attr, ItemFn, parse_quote};

/// A function with what is derived from its signature.
pub(super) struct Function {
    pub(super) item: ItemFn,
    params: Vec<Param>,
    pub(super) inner: Ident,
    pub(super) attrs: Vec<Attr>,
    pub(super) text: String,
    pub(super) loc: TokenStream,
}

impl Function {
    pub(super) fn new(item: ItemFn, params: Vec<Param>) -> Function {
        let (vis, sig, block) = (&item.vis, &item.sig, &item.block);
        let source::Source { text, line, column } = source::of(quote!(#vis #sig #block));
        let loc = quote!(::girih::__private::SourceLoc { file: ::core::file!(), line: #line, column: #column });
        // The place of the definition: `file!` must stand where the author's crate is compiled.
        let inner = Ident::new(&format!("__girih_{}", item.sig.ident), item.sig.ident.span().resolved_at(Span::call_site()));
        Function { attrs: item.attrs.clone(), inner, params, text, loc, item }
    }

    fn bounds(&self) -> impl Iterator<Item = TokenStream> {
        self.params.iter().map(|p| {
            let by = match p.by {
                By::Value => quote!(ByValue),
                By::Reference | By::Mutable => quote!(ByReference),
            };
            let ty = &p.ty;
            quote_spanned!(ty.span()=> <#ty as ::girih::__private::#by>)
        })
    }

    /// The IR's description of each parameter.
    pub(super) fn descriptions(&self) -> Vec<TokenStream> {
        self.params
            .iter()
            .zip(self.bounds())
            .map(|(p, bound)| {
                let name = p.name.to_string();
                let argument = match p.by {
                    By::Value => quote!(),
                    By::Reference => quote!(false),
                    By::Mutable => quote!(true),
                };
                quote!(::girih::__private::param(#name, #bound::kind(#argument)))
            })
            .collect()
    }

    /// The handles that stand for the parameters while the body runs.
    pub(super) fn symbols(&self) -> Vec<TokenStream> {
        let symbol = |(i, (p, bound)): (usize, (&Param, TokenStream))| match p.by {
            By::Value => quote!(#bound::symbol(#i)),
            By::Reference => quote!(&#bound::symbol(#i)),
            By::Mutable => quote!(&mut #bound::symbol(#i)),
        };
        self.params.iter().zip(self.bounds()).enumerate().map(symbol).collect()
    }

    /// The typed launch function: `launch` is the world's method, `def` the definition.
    pub(super) fn launch(&self, launch: &str, def: TokenStream) -> TokenStream {
        let (vis, name, attrs) = (&self.item.vis, &self.item.sig.ident, &self.attrs);
        let taken = |n: &str| self.params.iter().any(|p| p.name == n) || self.item.sig.generics.type_params().any(|p| p.ident == n);
        let world = if taken("W") { format_ident!("World__") } else { format_ident!("W") };
        let on = if taken("on") { format_ident!("on__") } else { format_ident!("on") };
        let mut generics = self.item.sig.generics.clone();
        generics.params.push(parse_quote!(#world: ::girih::__private::World));
        let (impl_generics, _, where_clause) = generics.split_for_impl();
        let args = self.params.iter().map(|p| {
            let (name, ty) = (&p.name, &p.ty);
            let on = quote_spanned!(ty.span()=> ::girih::__private::On<#world, #ty>);
            match p.by {
                By::Value => quote!(#name: #on),
                By::Reference => quote!(#name: &#on),
                By::Mutable => quote!(#name: &mut #on),
            }
        });
        let erased = self.params.iter().zip(self.bounds()).map(|(p, bound)| {
            let name = &p.name;
            match p.by {
                By::Value => quote!(#bound::pass::<#world>(#name)),
                By::Reference => quote!(#bound::read::<#world>(#name)),
                By::Mutable => quote!(#bound::write::<#world>(#name)),
            }
        });
        let launch = format_ident!("{launch}");
        quote! {
            #(#attrs)*
            #[allow(dead_code, clippy::too_many_arguments)]
            #[track_caller]
            #vis fn #name #impl_generics (#on: &#world, #(#args),*) -> #world::Done #where_clause {
                <#world as ::girih::__private::World>::#launch(#on, #def, ::std::vec![#(#erased),*])
            }
        }
    }

    /// The body as a function on handles, rewritten; empty where it has mistakes.
    pub(super) fn body(&self, knobs: TokenStream, tiles: &[Ident], launches: bool, right: bool) -> TokenStream {
        let mut sig = self.item.sig.clone();
        sig.ident = self.inner.clone();
        let mut block = (*self.item.block).clone();
        let attrs = self.attrs.iter().filter(|a| !a.path().is_ident("doc") && !a.path().is_ident("deprecated"));
        if !right {
            return quote!(#(#attrs)* #[allow(unused, non_snake_case)] #sig {});
        }
        let params = self.params.iter().map(|p| (p.name.clone(), false)).collect();
        rewrite::body(&mut block, params, tiles, launches);
        let (imports, allowed, stmts) = (rewrite::imports(), allowed(), &block.stmts);
        quote! {
            #(#attrs)*
            #[doc(hidden)]
            #allowed
            #[allow(non_snake_case)]
            #sig {
                #imports
                #knobs
                #(#stmts)*
            }
        }
    }
}
