//! What an annotated function becomes.

use crate::check::{self, By, Param};
use crate::errors::Errors;
use crate::parse::{self, Attribute};
use crate::{launches, rewrite, schedule, source};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute as Attr, ImplItem, Item, ItemFn, parse_quote};

/// `#[kernel(..)]`.
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let attribute = parse::attribute(attribute, &mut errors);
    let function = match syn::parse2::<ItemFn>(item) {
        Ok(f) => f,
        Err(e) => {
            errors.at(e.span(), format!("`#[kernel]` belongs on a function: {e}"));
            return errors.to_tokens();
        }
    };
    let params = check::signature(&function.sig, "kernel", &mut errors);
    check_types(&function, &attribute, &mut errors);
    let usable = errors.is_empty();
    check::body(&function.block, &mut errors);
    let errors_found = errors.to_tokens();
    if !usable {
        return errors_found;
    }
    let function = Function::new(function, params);
    let definition = kernel_items(&function, &attribute, errors.is_empty());
    quote!(#errors_found #definition)
}

/// `#[program]`.
pub fn program(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    no_arguments(attribute, "program", &mut errors);
    let function = match syn::parse2::<ItemFn>(item) {
        Ok(f) => f,
        Err(e) => {
            errors.at(e.span(), format!("`#[program]` belongs on a function: {e}"));
            return errors.to_tokens();
        }
    };
    let params = check::signature(&function.sig, "program", &mut errors);
    let usable = errors.is_empty();
    check::body(&function.block, &mut errors);
    launches::check(&function.block, &params, &mut errors);
    let errors_found = errors.to_tokens();
    if !usable {
        return errors_found;
    }
    let function = Function::new(function, params);
    let definition = program_items(&function, errors.is_empty());
    quote!(#errors_found #definition)
}

/// `#[device]`.
pub fn device(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    no_arguments(attribute, "device", &mut errors);
    // A method alone parses as a function, but for its receiver, which syn accepts too.
    let mut item = match syn::parse2::<Item>(item) {
        Ok(item) => item,
        Err(e) => {
            errors.push(e);
            return errors.to_tokens();
        }
    };
    match &mut item {
        Item::Fn(f) => device_function(&f.sig.clone(), &mut f.block, &mut f.attrs, &mut errors),
        Item::Impl(i) => {
            for item in &mut i.items {
                if let ImplItem::Fn(f) = item {
                    device_function(&f.sig.clone(), &mut f.block, &mut f.attrs, &mut errors);
                }
            }
        }
        other => errors.on(other, "`#[device]` belongs on a function or an `impl`"),
    }
    let errors = errors.to_tokens();
    quote!(#errors #item)
}

fn device_function(sig: &syn::Signature, block: &mut syn::Block, attrs: &mut Vec<Attr>, errors: &mut Errors) {
    let before = errors.to_tokens().is_empty();
    check::body(block, errors);
    if before && !errors.is_empty() {
        return;
    }
    let params = sig
        .inputs
        .iter()
        .filter_map(|i| match i {
            syn::FnArg::Typed(t) => Some(crate::scope::bound_names(&t.pat)),
            syn::FnArg::Receiver(_) => None,
        })
        .flatten()
        .collect();
    rewrite::body(block, params, &[], false);
    let imports: syn::ItemUse = syn::parse2(rewrite::imports()).expect("the imports parse");
    block.stmts.insert(0, syn::Stmt::Item(Item::Use(imports)));
    attrs.push(allowed());
}

fn no_arguments(attribute: TokenStream, name: &str, errors: &mut Errors) {
    if !attribute.is_empty() {
        errors.on(attribute, format!("`#[{name}]` takes no arguments"));
    }
}

fn check_types(function: &ItemFn, attribute: &Attribute, errors: &mut Errors) {
    let params: Vec<&Ident> = function.sig.generics.type_params().map(|p| &p.ident).collect();
    for param in &params {
        match attribute.types.iter().find(|(name, _)| name == *param) {
            None => errors.on(param, format!("list the types to register for `{param}`: types({param} = [f32, f16])")),
            Some((_, types)) if types.is_empty() => {
                errors.on(param, format!("`{param}` has no type to register: types({param} = [f32, f16])"))
            }
            Some(_) => {}
        }
        if let Some(knob) = attribute.knobs.iter().find(|k| k.name == **param) {
            errors.on(&knob.name, format!("`{param}` names a knob and a type parameter: rename one of them"));
        }
    }
    for (name, _) in &attribute.types {
        if !params.contains(&name) {
            errors.on(name, format!("this kernel has no type parameter `{name}`"));
        }
    }
}

/// Lints that rewritten code would set off.
fn allowed() -> Attr {
    parse_quote! {
        #[allow(
            unused_braces, unused_parens, unused_assignments, clippy::unit_arg, clippy::let_unit_value, clippy::blocks_in_conditions,
            clippy::let_and_return, clippy::needless_borrow, clippy::toplevel_ref_arg, clippy::assign_op_pattern, clippy::too_many_arguments
        )]
    }
}

/// A function with what is derived from its signature.
struct Function {
    item: ItemFn,
    params: Vec<Param>,
    inner: Ident,
    attrs: Vec<Attr>,
    text: String,
    loc: TokenStream,
}

impl Function {
    fn new(item: ItemFn, params: Vec<Param>) -> Function {
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
    fn descriptions(&self) -> Vec<TokenStream> {
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
    fn symbols(&self) -> Vec<TokenStream> {
        let symbol = |(i, (p, bound)): (usize, (&Param, TokenStream))| match p.by {
            By::Value => quote!(#bound::symbol(#i)),
            By::Reference => quote!(&#bound::symbol(#i)),
            By::Mutable => quote!(&mut #bound::symbol(#i)),
        };
        self.params.iter().zip(self.bounds()).enumerate().map(symbol).collect()
    }

    /// The typed launch function: `launch` is the world's method, `def` the definition.
    fn launch(&self, launch: &str, def: TokenStream) -> TokenStream {
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
    fn body(&self, knobs: TokenStream, tiles: &[Ident], launches: bool, right: bool) -> TokenStream {
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

fn cfgs(attrs: &[Attr]) -> Vec<&Attr> {
    attrs.iter().filter(|a| a.path().is_ident("cfg")).collect()
}

fn kernel_items(f: &Function, attribute: &Attribute, right: bool) -> TokenStream {
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

fn program_items(f: &Function, right: bool) -> TokenStream {
    let (vis, name) = (&f.item.vis, &f.item.sig.ident);
    let cfg = cfgs(&f.attrs);
    let body = f.body(quote!(), &[], true, right);
    let launch = f.launch("run", quote!(#name::Program::def()));
    let (inner, text, loc) = (&f.inner, &f.text, &f.loc);
    let (descriptions, symbols) = (f.descriptions(), f.symbols());
    let text_name = name.to_string();
    let registered = right.then(|| {
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
            /// The program.
            pub struct Program;
        }
        #(#cfg)*
        #[allow(dead_code)]
        impl #name::Program {
            /// The definition.
            pub fn def() -> ::girih::__private::ProgramDef {
                ::girih::__private::ProgramDef {
                    name: #text_name,
                    module: ::core::module_path!(),
                    loc: #loc,
                    build: Self::build,
                }
            }
            fn build() -> ::core::result::Result<::girih::__private::Program, ::girih::__private::CompileError> {
                let header = ::girih::__private::Header {
                    name: #text_name,
                    module: ::core::module_path!(),
                    loc: #loc,
                    source: #text,
                    params: ::std::vec![#(#descriptions),*],
                };
                ::girih::__private::program(header, || #inner(#(#symbols),*))
            }
        }
        #registered
    }
}
