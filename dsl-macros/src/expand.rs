//! What an annotated function becomes.

mod definitions;
mod function;

use definitions::{kernel_items, program_items};
use function::Function;

use crate::check;
use crate::errors::Errors;
use crate::parse::{self, Attribute};
use crate::{launches, rewrite, targets};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute as Attr, ImplItem, Item, ItemFn, parse_quote};

/// `#[kernel(..)]`.
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut attribute = parse::attribute(attribute, &mut errors);
    let function = match syn::parse2::<ItemFn>(item) {
        Ok(f) => f,
        Err(e) => {
            errors.at(e.span(), format!("`#[kernel]` belongs on a function: {e}"));
            return errors.to_tokens();
        }
    };
    let params = check::signature(&function.sig, "kernel", &mut errors);
    check_types(&function, &attribute, &mut errors);
    targets::resolve(&mut attribute, &params, &function.block, &mut errors);
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
