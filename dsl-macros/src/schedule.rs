//! The `Schedule` struct of a kernel: one field per knob.

use crate::parse::{Attribute, Choice, Knob};
use crate::targets::Target;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

/// The field of a knob: its name in lower case.
fn field(knob: &Knob) -> Ident {
    let lower = knob.name.to_string().to_lowercase();
    syn::parse_str::<Ident>(&lower).unwrap_or_else(|_| Ident::new_raw(&lower, knob.name.span()))
}

/// The struct and its impls, for the kernel's own module.
pub fn schedule(attribute: &Attribute) -> TokenStream {
    let knobs = &attribute.knobs;
    let fields: Vec<Ident> = knobs.iter().map(field).collect();
    let types: Vec<TokenStream> = knobs.iter().map(field_type).collect();
    let docs: Vec<String> = knobs.iter().map(doc).collect();
    let defaults = knobs.iter().map(|k| value(k, &k.choices[0]));
    let names: Vec<String> = knobs.iter().map(|k| k.name.to_string()).collect();
    let indices = 0..knobs.len();
    let table = knobs.iter().map(|k| table_entry(attribute, k));
    let beside = beside_knobs(attribute);
    quote! {
        /// One choice of the kernel's knobs. The default is the first value of each.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Schedule {
            #(#[doc = #docs] pub #fields: #types,)*
        }
        impl ::core::default::Default for Schedule {
            fn default() -> Self {
                Schedule { #(#fields: #defaults,)* }
            }
        }
        impl ::girih::__private::KernelSchedule for Schedule {
            const KERNEL: &'static str = ::core::module_path!();
            fn knobs() -> ::std::vec::Vec<::girih::__private::Knob> {
                ::std::vec![#(#table),*]
            }
            fn choices(&self) -> ::std::vec::Vec<::girih::__private::Choice> {
                ::std::vec![#(::girih::__private::KnobValue::choice(&self.#fields)),*]
            }
            fn from_choices(choices: &[::girih::__private::Choice]) -> ::core::result::Result<Self, ::std::string::String> {
                let _ = choices;
                ::core::result::Result::Ok(Schedule { #(#fields: ::girih::__private::field(choices, #indices, #names)?,)* })
            }
        }
        /// The attribute that pins this schedule, to be pasted over the kernel's own.
        impl ::core::fmt::Display for Schedule {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::girih::__private::display(self, #beside, f)
            }
        }
        impl ::girih::__private::serde::Serialize for Schedule {
            fn serialize<S: ::girih::__private::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                ::girih::__private::serialize(self, serializer)
            }
        }
        impl<'de> ::girih::__private::serde::Deserialize<'de> for Schedule {
            fn deserialize<D: ::girih::__private::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                ::girih::__private::deserialize(deserializer)
            }
        }
    }
}

fn field_type(knob: &Knob) -> TokenStream {
    match knob.group.as_str() {
        "copy" => quote!(::girih::__private::CopyPath),
        "unit" => quote!(::girih::__private::DotUnit),
        "rows" => quote!(::girih::__private::RowPath),
        "order" => quote!(::girih::__private::TileOrder),
        "turns" => quote!(::girih::__private::GroupTurns),
        "halo" => quote!(::girih::__private::HaloPath),
        "operands" => quote!(::girih::__private::OperandPath),
        "constant" => quote!(::girih::__private::ConstantPath),
        "finish" => quote!(::girih::__private::FinishPath),
        "cache" => quote!(::girih::__private::CacheHint),
        _ => quote!(i64),
    }
}

fn value(knob: &Knob, choice: &Choice) -> TokenStream {
    match choice {
        Choice::Int(i) => quote!(#i),
        Choice::Word(w) => {
            let (ty, word) = (field_type(knob), format_ident!("{w}"));
            quote!(#ty::#word)
        }
    }
}

fn doc(knob: &Knob) -> String {
    let values: Vec<String> = knob
        .choices
        .iter()
        .map(|c| match c {
            Choice::Int(i) => i.to_string(),
            Choice::Word(w) => w.clone(),
        })
        .collect();
    let of = knob.of.as_ref().map(|o| format!(" of `{o}`")).unwrap_or_default();
    format!("`{}`: {}{of}, one of {}.", knob.name, knob.group, values.join(", "))
}

fn table_entry(attribute: &Attribute, knob: &Knob) -> TokenStream {
    let name = knob.name.to_string();
    let kind = match (knob.group.as_str(), knob.of.as_ref().and_then(|o| attribute.tile(o))) {
        ("coarsen", of) => {
            let of = of.unwrap_or(0) as u32;
            quote!(Coarsen { of: ::girih::__private::KnobId(#of) })
        }
        ("cluster", of) => {
            let of = of.unwrap_or(0) as u32;
            quote!(Cluster { of: ::girih::__private::KnobId(#of) })
        }
        (group, _) => variant(group).into_token_stream(),
    };
    let choices = knob.choices.iter().map(|c| match c {
        Choice::Int(i) => quote!(::girih::__private::int(#i)),
        Choice::Word(w) => quote!(::girih::__private::word(#w)),
    });
    let line = knob.name.span().start().line as u32;
    let column = knob.name.span().start().column as u32 + 1;
    let entry = quote! {
        ::girih::__private::knob(
            #name,
            ::girih::__private::KnobKind::#kind,
            ::std::vec![#(#choices),*],
            ::girih::__private::SourceLoc { file: ::core::file!(), line: #line, column: #column },
        )
    };
    let of = knob.of.as_ref().map(|of| of.to_string());
    match knob.target {
        None => entry,
        Some(Target::Loop) => quote!(::girih::__private::of_loop(#of, #entry)),
        Some(Target::Tensor) => quote!(::girih::__private::of_tensor(#of, #entry)),
    }
}

/// The variant of `KnobKind` for a group: `MinBlocks` for `min_blocks`.
fn variant(group: &str) -> Ident {
    let mut name = String::new();
    for word in group.split('_') {
        name.push_str(&word[..1].to_ascii_uppercase());
        name.push_str(&word[1..]);
    }
    format_ident!("{name}")
}

/// What the attribute says beside its knobs: `deterministic, types(T = [f32, f16])`.
fn beside_knobs(attribute: &Attribute) -> String {
    let one = |(name, types): &(Ident, Vec<syn::Type>)| {
        let types: Vec<String> = types.iter().map(|t| quote!(#t).to_string().replace(' ', "")).collect();
        format!("{name} = [{}]", types.join(", "))
    };
    let types = attribute.types.iter().map(one).collect::<Vec<_>>().join(", ");
    let demand = attribute.deterministic.then(|| "deterministic".to_string());
    let types = (!types.is_empty()).then(|| format!("types({types})"));
    demand.into_iter().chain(types).collect::<Vec<_>>().join(", ")
}
