//! Collects the mistakes of a function, so that all of them are reported in one go.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The mistakes found so far.
#[derive(Default)]
pub struct Errors {
    all: Vec<syn::Error>,
}

impl Errors {
    /// A mistake at a span.
    pub fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.all.push(syn::Error::new(span, message));
    }
    /// A mistake at the author's tokens.
    pub fn on(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.all.push(syn::Error::new_spanned(tokens, message));
    }
    /// What syn found.
    pub fn push(&mut self, error: syn::Error) {
        self.all.push(error);
    }
    /// None so far.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// One `compile_error!` per mistake.
    pub fn to_tokens(&self) -> TokenStream {
        self.all.iter().map(syn::Error::to_compile_error).collect()
    }
}
