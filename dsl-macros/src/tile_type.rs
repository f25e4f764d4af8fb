//! `#[derive(TileType)]`: the scalar form and the tile form of a struct.

use crate::errors::Errors;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Field, Fields, Type, Visibility};

/// The derive.
pub fn derive(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(e) => return e.to_compile_error(),
    };
    let fields = fields(&input, &mut errors);
    if !errors.is_empty() {
        return errors.to_tokens();
    }
    let of = Of { name: &input.ident, vis: &input.vis, fields };
    let (scalar, tile) = (of.form("Scalar"), of.form("Tile"));
    let (type_impl, lifted) = (of.type_impl(), of.lifted());
    quote!(#scalar #tile #type_impl #lifted)
}

fn fields(input: &DeriveInput, errors: &mut Errors) -> Vec<Field> {
    if let Some(param) = input.generics.params.first() {
        errors.on(param, "a type of elements has no parameters: write one struct per element type");
    }
    match &input.data {
        Data::Struct(s) => match &s.fields {
            Fields::Named(f) if !f.named.is_empty() => {
                f.named.iter().for_each(|field| check_type(&field.ty, errors));
                return f.named.iter().cloned().collect();
            }
            _ => errors.on(&input.ident, "a type of elements has named fields, at least one: `struct MaxSum { max: f32, sum: f32 }`"),
        },
        Data::Enum(_) | Data::Union(_) => {
            errors.on(&input.ident, "`#[derive(TileType)]` belongs on a struct: elements have a fixed set of components")
        }
    }
    Vec::new()
}

/// Types that no field can have are refused here: what the derive makes of them would be refused line by line.
fn check_type(ty: &Type, errors: &mut Errors) {
    const NONE: [&str; 10] = ["f64", "i16", "u16", "i128", "u128", "isize", "usize", "char", "str", "String"];
    let usable = match ty {
        Type::Path(p) => !p.path.get_ident().is_some_and(|i| NONE.contains(&i.to_string().as_str())),
        _ => false,
    };
    if !usable {
        errors
            .on(ty, "a field is f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32, u32, i64, u64, bool, or a struct with `#[derive(TileType)]`");
    }
}

struct Of<'a> {
    name: &'a Ident,
    vis: &'a Visibility,
    fields: Vec<Field>,
}

impl Of<'_> {
    fn named(&self, form: &str) -> Ident {
        format_ident!("{}{form}", self.name, span = self.name.span())
    }

    fn names(&self) -> Vec<&Ident> {
        self.fields.iter().filter_map(|f| f.ident.as_ref()).collect()
    }

    fn types(&self) -> Vec<&Type> {
        self.fields.iter().map(|f| &f.ty).collect()
    }

    /// The struct of one form with what combinations, loops and branches need of it. `form` is `Scalar` or `Tile`.
    fn form(&self, form: &str) -> TokenStream {
        let (name, vis, form_name, assoc) = (self.name, self.vis, self.named(form), format_ident!("{form}"));
        let (names, types) = (self.names(), self.types());
        let (scalar, tile) = (self.named("Scalar"), self.named("Tile"));
        let declared = self.fields.iter().map(|f| {
            let (vis, name, ty) = (&f.vis, &f.ident, &f.ty);
            let doc = format!("The component `{}`.", name.as_ref().map(Ident::to_string).unwrap_or_default());
            quote!(#[doc = #doc] #vis #name: <#ty as ::girih::__private::TileType>::#assoc)
        });
        let doc = if form == "Tile" {
            format!("[`{name}`]s in tiles: one element per position of a shape.")
        } else {
            format!("One [`{name}`] on the GPU, as operators see it.")
        };
        let texts: Vec<String> = names.iter().map(|n| n.to_string()).collect();
        let tile_like = (form == "Tile").then(|| quote!(impl ::girih::__private::TileLike for #form_name {}));
        quote! {
            #[doc = #doc]
            #[derive(Clone, Copy)]
            #[allow(dead_code)]
            #vis struct #form_name { #(#declared,)* }
            impl ::girih::__private::Carry for #form_name {
                fn handles(&mut self, f: &mut dyn FnMut(&mut ::girih::__private::Handle)) {
                    #(::girih::__private::Carry::handles(&mut self.#names, f);)*
                }
                fn read_handles(&self, f: &mut dyn FnMut(::girih::__private::Handle)) {
                    #(::girih::__private::Carry::read_handles(&self.#names, f);)*
                }
            }
            impl ::girih::__private::Components for #form_name {
                type Element = #scalar;
                type Tile = #tile;
                type Value = #name;
                fn describe(name: &str, f: &mut dyn FnMut(::std::string::String, ::girih::__private::DType)) {
                    #(<<#types as ::girih::__private::TileType>::#assoc as ::girih::__private::Components>::describe(
                        &::std::format!("{name}_{}", #texts), f,
                    );)*
                }
                fn of_handles(handles: &mut dyn ::core::iter::Iterator<Item = ::girih::__private::Handle>) -> Self {
                    #form_name { #(#names: ::girih::__private::Components::of_handles(handles),)* }
                }
                fn literals(value: #name, f: &mut dyn FnMut(::girih::__private::Literal)) {
                    #(<<#types as ::girih::__private::TileType>::#assoc as ::girih::__private::Components>::literals(value.#names, f);)*
                }
            }
            #tile_like
            impl ::girih::__private::Join<#form_name> for #form_name {
                type Output = #form_name;
                fn join(
                    self,
                    other: #form_name,
                    loc: ::girih::__private::SourceLoc,
                    f: &mut dyn FnMut(::girih::__private::Handle, ::girih::__private::Handle) -> ::girih::__private::Handle,
                ) -> #form_name {
                    #form_name { #(#names: ::girih::__private::Join::join(self.#names, other.#names, loc, f),)* }
                }
            }
        }
    }

    /// The type itself, and its constants.
    fn type_impl(&self) -> TokenStream {
        let (name, vis, names, types) = (self.name, self.vis, self.names(), self.types());
        let (scalar, tile) = (self.named("Scalar"), self.named("Tile"));
        quote! {
            impl ::girih::__private::TileType for #name {
                type Scalar = #scalar;
                type Tile = #tile;
                #[track_caller]
                fn constant(self) -> #scalar {
                    #scalar { #(#names: <#types as ::girih::__private::TileType>::constant(self.#names),)* }
                }
                #[track_caller]
                fn constant_tile<S: ::girih::__private::Shape + ::core::clone::Clone>(self, shape: S) -> #tile {
                    #tile { #(#names: <#types as ::girih::__private::TileType>::constant_tile(self.#names, ::core::clone::Clone::clone(&shape)),)* }
                }
            }
            #[allow(dead_code)]
            impl #name {
                /// The value as a constant of a kernel.
                #[track_caller]
                #vis fn scalar(self) -> #scalar {
                    ::girih::__private::TileType::constant(self)
                }
                /// A tile whose elements are all this value.
                #[track_caller]
                #vis fn tile(self, shape: impl ::girih::__private::Shape + ::core::clone::Clone) -> #tile {
                    ::girih::__private::TileType::constant_tile(self, shape)
                }
            }
            #[allow(dead_code)]
            impl #scalar {
                /// A tile whose elements are all this one.
                #[track_caller]
                #vis fn splat(self, shape: impl ::girih::__private::Shape + ::core::clone::Clone) -> #tile {
                    #tile { #(#names: self.#names.splat(::core::clone::Clone::clone(&shape)),)* }
                }
            }
        }
    }

    /// The operators that the author writes on the scalar form, on the tile form.
    fn lifted(&self) -> TokenStream {
        let (scalar, tile) = (self.named("Scalar"), self.named("Tile"));
        let binary = [("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Div", "div")].map(|(operator, method)| {
            let (operator, method) = (format_ident!("{operator}"), format_ident!("{method}"));
            let (assign, assign_method) = (format_ident!("{operator}Assign"), format_ident!("{method}_assign"));
            quote! {
                impl ::core::ops::#operator for #tile where for<'a> #scalar: ::core::ops::#operator<Output = #scalar> {
                    type Output = #tile;
                    #[track_caller]
                    fn #method(self, other: #tile) -> #tile {
                        ::girih::__private::Elementwise::zip(self, other, |a, b| ::core::ops::#operator::#method(a, b))
                    }
                }
                impl ::core::ops::#assign for #tile where for<'a> #scalar: ::core::ops::#operator<Output = #scalar> {
                    #[track_caller]
                    fn #assign_method(&mut self, other: #tile) {
                        *self = ::core::ops::#operator::#method(*self, other);
                    }
                }
                impl ::core::ops::#assign for #scalar where for<'a> #scalar: ::core::ops::#operator<Output = #scalar> {
                    #[track_caller]
                    fn #assign_method(&mut self, other: #scalar) {
                        *self = ::core::ops::#operator::#method(*self, other);
                    }
                }
            }
        });
        quote! {
            #(#binary)*
            impl ::core::ops::Neg for #tile where for<'a> #scalar: ::core::ops::Neg<Output = #scalar> {
                type Output = #tile;
                #[track_caller]
                fn neg(self) -> #tile {
                    ::girih::__private::Elementwise::map(self, |a| ::core::ops::Neg::neg(a))
                }
            }
        }
    }
}
