//! The items that define a kernel or a program, and register it.

use super::function::Function;
use crate::parse::Attribute;
use crate::schedule;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Attribute as Attr;

fn cfgs(attrs: &[Attr]) -> Vec<&Attr> {
    attrs.iter().filter(|a| a.path().is_ident("cfg")).collect()
}

pub(super) fn kernel_items(f: &Function, attribute: &Attribute, right: bool) -> TokenStream {
    let (vis, name) = (&f.item.vis, &f.item.sig.ident);
    let generics = &f.item.sig.generics;
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let types: Vec<&Ident> = generics.type_params().map(|p| &p.ident).collect();
    let turbofish = if types.is_empty() { quote!() } else { quote!(::<#(#types),*>) };
    let bare = if types.is_empty() { quote!() } else { quote!(<#(#types),*>) };
    let cfg = cfgs(&f.attrs);
    let tiles: Vec<Ident> = attribute.knobs.iter().filter(|k| k.group == "tile").map(|k| k.name.clone()).collect();
    let knobs = attribute.knobs.iter().enumerate().filter(|(_, k)| k.group == "tile").map(|(i, k)| {
        let (name, i) = (&k.name, i as u32);
        quote_spanned!(name.span()=> const #name: ::girih::__private::Size = ::girih::__private::Size::knob(#i);)
    });
    let body = f.body(quote!(#(#knobs)*), &tiles, false, right);
    let launch = f.launch("launch", quote!(#name::Kernel #turbofish::def()));
    let schedule = schedule::schedule(attribute);
    let (inner, text, loc) = (&f.inner, &f.text, &f.loc);
    let (descriptions, symbols) = (f.descriptions(), f.symbols());
    let type_names = types.iter().map(|t| t.to_string());
    let text_name = name.to_string();
    let deterministic = attribute.deterministic;
    let statics = if right { registrations(name, attribute, &types) } else { quote!() };
    quote! {
        #launch
        #body
        #(#cfg)*
        #[doc = "The kernel's schedules and its definition."]
        #[allow(non_snake_case, dead_code)]
        #vis mod #name {
            #schedule
            /// The kernel's instances.
            pub struct Kernel #bare (::core::marker::PhantomData<fn() -> (#(#types,)*)>);
        }
        #(#cfg)*
        #[allow(dead_code)]
        impl #impl_generics #name::Kernel #bare #where_clause {
            /// The definition of this instance.
            pub fn def() -> ::girih::__private::KernelDef {
                ::girih::__private::KernelDef {
                    name: #text_name,
                    module: ::core::module_path!(),
                    instance: Self::instance(),
                    loc: #loc,
                    build: Self::build,
                }
            }
            fn instance() -> &'static [(&'static str, &'static str)] {
                ::girih::__private::instance(&[#((#type_names, ::core::any::type_name::<#types>())),*])
            }
            fn build() -> ::core::result::Result<::girih::__private::Kernel, ::girih::__private::CompileError> {
                let header = ::girih::__private::Header {
                    name: #text_name,
                    module: ::core::module_path!(),
                    loc: #loc,
                    source: #text,
                    params: ::std::vec![#(#descriptions),*],
                };
                let knobs = <#name::Schedule as ::girih::__private::KernelSchedule>::knobs();
                let attribute = ::girih::__private::Attribute { knobs, deterministic: #deterministic };
                ::girih::__private::kernel(header, Self::instance(), attribute, || #inner #turbofish(#(#symbols),*))
            }
        }
        #statics
    }
}

/// One entry of the registry per combination of declared types.
fn registrations(name: &Ident, attribute: &Attribute, params: &[&Ident]) -> TokenStream {
    let mut instances: Vec<Vec<TokenStream>> = vec![Vec::new()];
    for param in params {
        let declared = attribute.types.iter().find(|(n, _)| n == *param).map(|(_, t)| t.as_slice()).unwrap_or_default();
        instances = instances
            .into_iter()
            .flat_map(|i| declared.iter().map(move |t| i.iter().cloned().chain([t.to_token_stream()]).collect()))
            .collect();
    }
    let statics = instances.iter().enumerate().map(|(i, types)| {
        let turbofish = if types.is_empty() { quote!() } else { quote!(::<#(#types),*>) };
        let entry = format_ident!("GIRIH_KERNEL_{i}");
        quote! {
            #[::girih::__private::linkme::distributed_slice(::girih::__private::KERNELS)]
            #[linkme(crate = ::girih::__private::linkme)]
            static #entry: fn() -> ::girih::__private::KernelDef = #name::Kernel #turbofish::def;
        }
    });
    quote!(const _: () = { #(#statics)* };)
}

pub(super) fn program_items(f: &Function, right: bool) -> TokenStream {
    let (vis, name) = (&f.item.vis, &f.item.sig.ident);
    let generics = &f.item.sig.generics;
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let types: Vec<&Ident> = generics.type_params().map(|p| &p.ident).collect();
    let (turbofish, bare) = if types.is_empty() { (quote!(), quote!()) } else { (quote!(::<#(#types),*>), quote!(<#(#types),*>)) };
    let cfg = cfgs(&f.attrs);
    let body = f.body(quote!(), &[], true, right);
    let launch = f.launch("run", quote!(#name::Program #turbofish::def()));
    let (inner, text, loc) = (&f.inner, &f.text, &f.loc);
    let (descriptions, symbols) = (f.descriptions(), f.symbols());
    let text_name = name.to_string();
    let type_names = types.iter().map(|t| t.to_string());
    // Whoever calls a generic program says its types.
    let registered = (right && types.is_empty()).then(|| {
        quote! {
            const _: () = {
                #[::girih::__private::linkme::distributed_slice(::girih::__private::PROGRAMS)]
                #[linkme(crate = ::girih::__private::linkme)]
                static GIRIH_PROGRAM: fn() -> ::girih::__private::ProgramDef = #name::Program::def;
            };
        }
    });
    quote! {
        #launch
        #body
        #(#cfg)*
        #[doc = "The program's definition."]
        #[allow(non_snake_case, dead_code)]
        #vis mod #name {
            /// The program's instances.
            pub struct Program #bare (::core::marker::PhantomData<fn() -> (#(#types,)*)>);
        }
        #(#cfg)*
        #[allow(dead_code)]
        impl #impl_generics #name::Program #bare #where_clause {
            /// The definition of this instance.
            pub fn def() -> ::girih::__private::ProgramDef {
                ::girih::__private::ProgramDef {
                    name: #text_name,
                    module: ::core::module_path!(),
                    instance: Self::instance(),
                    loc: #loc,
                    build: Self::build,
                }
            }
            fn instance() -> &'static [(&'static str, &'static str)] {
                ::girih::__private::instance(&[#((#type_names, ::core::any::type_name::<#types>())),*])
            }
            fn build() -> ::core::result::Result<::girih::__private::Program, ::girih::__private::CompileError> {
                let header = ::girih::__private::Header {
                    name: #text_name,
                    module: ::core::module_path!(),
                    loc: #loc,
                    source: #text,
                    params: ::std::vec![#(#descriptions),*],
                };
                ::girih::__private::program(header, Self::instance(), || #inner #turbofish(#(#symbols),*))
            }
        }
        #registered
    }
}
