//! The attributes of girih: `#[kernel(..)]`, `#[device]`, `#[program]` and `#[derive(TileType)]`.
//!
//! They parse, check and rewrite what Rust cannot overload, and emit what belongs to a kernel: its typed launch function, its
//! `Schedule`, its definition and its registration. Types are rustc's work, meaning is `girih_core::lang`'s.

mod check;
mod errors;
mod expand;
mod launches;
mod literals;
mod parse;
mod rewrite;
mod schedule;
mod scope;
mod source;
mod targets;
mod tile_type;

use proc_macro::TokenStream;

/// Makes a kernel of a function on tiles: see the project's LANGUAGE page.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::kernel(attribute.into(), item.into()).into()
}

/// Lets a helper function (or all functions of an `impl`) use `for`, `while`, `if` and comparisons on tiles and scalars.
#[proc_macro_attribute]
pub fn device(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::device(attribute.into(), item.into()).into()
}

/// Gives a struct of element types (`struct MaxSum { max: f32, sum: f32 }`) its scalar form `MaxSumScalar` and its tile form `MaxSumTile`.
#[proc_macro_derive(TileType)]
pub fn tile_type(item: TokenStream) -> TokenStream {
    tile_type::derive(item.into()).into()
}

/// Makes a program of a function that launches kernels: its host side, recorded as data.
#[proc_macro_attribute]
pub fn program(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::program(attribute.into(), item.into()).into()
}
