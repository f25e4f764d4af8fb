//! The attribute's grammar: `#[kernel(tile(T = [256, 512]), coarsen(C of T = [1, 2]), vector = [1, 4], types(F = [f32, f16]))]`. Knobs of some
//! groups may be for one loop or tensor: `stages(S of k = [1, 2])`.

use crate::errors::Errors;
use crate::targets::{self, Target};
use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, LitInt, Token, Type, bracketed, parenthesized};

/// The groups of knobs, with the words that their values may be (none: numbers) and the smallest number.
const GROUPS: [(&str, &[&str], i64); 24] = [
    ("tile", &[], 1),
    ("coarsen", &[], 1),
    ("vector", &[], 1),
    ("stages", &[], 1),
    ("copy", &["Registers", "Async", "Overlap", "Mbarriers", "Bulk", "Tensor"], 0),
    ("grid", &[], 0),
    ("threads", &[], 1),
    ("warps", &[], 1),
    ("raster", &[], 1),
    ("order", &["Rising", "Falling"], 0),
    ("turns", &["Free", "InTurn"], 0),
    ("split", &[], 0),
    ("slices", &[], 1),
    ("cluster", &[], 1),
    ("min_blocks", &[], 1),
    ("opt_level", &[], 1),
    ("copies", &[], 1),
    ("rows", &["Direct", "Shared"], 0),
    ("halo", &["Shared", "Direct"], 0),
    ("operands", &["Direct", "Shared", "Transposed"], 0),
    ("constant", &["Off", "On"], 0),
    ("finish", &["LastBlock", "Atomics", "SecondLaunch"], 0),
    ("unit", &["Ffma", "Mma", "Wgmma"], 0),
    ("cache", &["Default", "Streaming", "Stores", "Loads", "Kept", "Once"], 0),
];

/// A value of a knob.
#[derive(Clone)]
pub enum Choice {
    /// A number.
    Int(i64),
    /// A word of the group.
    Word(String),
}

/// One knob.
pub struct Knob {
    /// The author's name, or the group's.
    pub name: Ident,
    /// The group.
    pub group: String,
    /// The tile knob that a coarsen knob divides, or that a cluster knob multiplies, or the loop or tensor that a knob is for.
    pub of: Option<Ident>,
    /// Which of both.
    pub target: Option<Target>,
    /// The values, the default first.
    pub choices: Vec<Choice>,
}

/// The attribute's arguments.
#[derive(Default)]
pub struct Attribute {
    /// The knobs in the author's order.
    pub knobs: Vec<Knob>,
    /// The types to register, per type parameter.
    pub types: Vec<(Ident, Vec<Type>)>,
    /// Results must not depend on the order in which blocks come.
    pub deterministic: bool,
}

impl Attribute {
    /// The index of the tile knob of a name.
    pub fn tile(&self, name: &Ident) -> Option<usize> {
        self.knobs.iter().position(|k| k.group == "tile" && k.name == *name)
    }
}

struct Group {
    name: Ident,
    entries: Vec<Entry>,
    /// A word alone.
    alone: bool,
}

/// The demand on results.
const DETERMINISTIC: &str = "deterministic";

struct Entry {
    name: Ident,
    of: Option<Ident>,
    values: Values,
}

enum Values {
    Choices(Vec<(Choice, Span)>),
    Types(Vec<Type>),
}

impl Parse for Group {
    fn parse(input: ParseStream) -> syn::Result<Group> {
        let name: Ident = input.parse()?;
        if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            let values = Values::Choices(choices(input)?);
            return Ok(Group { entries: vec![Entry { name: name.clone(), of: None, values }], name, alone: false });
        }
        if input.is_empty() || input.peek(Token![,]) {
            return Ok(Group { name, entries: vec![], alone: true });
        }
        let inside;
        parenthesized!(inside in input);
        let types = name == "types";
        let entries = Punctuated::<Entry, Token![,]>::parse_terminated_with(&inside, if types { typed_entry } else { knob_entry })?;
        Ok(Group { name, entries: entries.into_iter().collect(), alone: false })
    }
}

fn knob_entry(input: ParseStream) -> syn::Result<Entry> {
    entry(input, false)
}

fn typed_entry(input: ParseStream) -> syn::Result<Entry> {
    entry(input, true)
}

fn entry(input: ParseStream, types: bool) -> syn::Result<Entry> {
    let name: Ident = input.parse()?;
    let mut of = None;
    if input.peek(Ident) {
        let word: Ident = input.parse()?;
        if word != "of" {
            return Err(syn::Error::new(word.span(), "expected `of` or `=`: `coarsen(C of T = [1, 2])`"));
        }
        of = Some(input.parse()?);
    }
    input.parse::<Token![=]>()?;
    if !types {
        return Ok(Entry { name, of, values: Values::Choices(choices(input)?) });
    }
    let values = if input.peek(syn::token::Bracket) {
        let list;
        bracketed!(list in input);
        Punctuated::<Type, Token![,]>::parse_terminated(&list)?.into_iter().collect()
    } else {
        vec![input.parse()?]
    };
    Ok(Entry { name, of, values: Values::Types(values) })
}

fn choices(input: ParseStream) -> syn::Result<Vec<(Choice, Span)>> {
    if !input.peek(syn::token::Bracket) {
        return Ok(vec![choice(input)?]);
    }
    let list;
    bracketed!(list in input);
    Ok(Punctuated::<_, Token![,]>::parse_terminated_with(&list, choice)?.into_iter().collect())
}

fn choice(input: ParseStream) -> syn::Result<(Choice, Span)> {
    if input.peek(Ident) {
        let word: Ident = input.parse()?;
        return Ok((Choice::Word(word.to_string()), word.span()));
    }
    let number: LitInt =
        input.parse().map_err(|e| syn::Error::new(e.span(), "expected a number or a word, or a list of these in `[..]`"))?;
    Ok((Choice::Int(number.base10_parse()?), number.span()))
}

/// Parses the arguments of `#[kernel(..)]`. Mistakes are collected; what is right is kept.
pub fn attribute(tokens: proc_macro2::TokenStream, errors: &mut Errors) -> Attribute {
    let groups = match syn::parse::Parser::parse2(Punctuated::<Group, Token![,]>::parse_terminated, tokens) {
        Ok(groups) => groups,
        Err(error) => {
            errors.push(error);
            return Attribute::default();
        }
    };
    let mut attribute = Attribute::default();
    for group in groups {
        if group.name == DETERMINISTIC {
            demand(&group, &mut attribute, errors);
            continue;
        }
        let known = GROUPS.iter().find(|(name, ..)| group.name == name);
        if known.is_none() && group.name != "types" {
            let names: Vec<&str> = GROUPS.iter().map(|g| g.0).chain(["types", DETERMINISTIC]).collect();
            errors.on(&group.name, format!("unknown knob group `{}`; expected one of {}", group.name, names.join(", ")));
            continue;
        }
        if group.alone {
            errors.on(&group.name, format!("`{0}` has no values to try: write `{0}(..)`, or leave it out", group.name));
        }
        for entry in group.entries {
            match (entry.values, known) {
                (Values::Types(types), _) => attribute.types.push((entry.name, types)),
                (Values::Choices(values), Some(known)) => {
                    let choices = check_choices(&entry.name, known, values, errors);
                    attribute.knobs.push(Knob { name: entry.name, group: group.name.to_string(), of: entry.of, target: None, choices });
                }
                (Values::Choices(_), None) => errors.on(&entry.name, "write `types(T = [f32, f16])`"),
            }
        }
    }
    check_knobs(&attribute, errors);
    attribute
}

/// `deterministic`, which stands alone and once.
fn demand(group: &Group, attribute: &mut Attribute, errors: &mut Errors) {
    if !group.alone {
        errors.on(&group.name, "`deterministic` is a demand, no knob: it stands alone, without values");
    }
    if std::mem::replace(&mut attribute.deterministic, true) {
        errors.on(&group.name, "`deterministic` is demanded twice");
    }
}

fn check_choices(
    name: &Ident,
    (group, words, least): &(&str, &[&str], i64),
    values: Vec<(Choice, Span)>,
    errors: &mut Errors,
) -> Vec<Choice> {
    if values.is_empty() {
        errors.on(name, format!("knob `{name}` has no value to try"));
    }
    let mut seen = Vec::new();
    for (value, span) in &values {
        let text = match value {
            Choice::Int(i) => i.to_string(),
            Choice::Word(w) => w.clone(),
        };
        match value {
            Choice::Int(i) if words.is_empty() && i < least => errors.at(*span, format!("{group} is at least {least}, found {i}")),
            Choice::Int(i) if ["vector", "copies", "cluster"].contains(group) && i.count_ones() != 1 => {
                errors.at(*span, format!("{group} is a power of two, found {i}"));
            }
            Choice::Word(w) if words.is_empty() => errors.at(*span, format!("{group} takes numbers, found `{w}`")),
            Choice::Int(_) if !words.is_empty() => errors.at(*span, format!("{group} takes one of {}, found {text}", words.join(", "))),
            Choice::Word(w) if !words.contains(&w.as_str()) && !words.is_empty() => {
                errors.at(*span, format!("{group} takes one of {}, found `{w}`", words.join(", ")))
            }
            Choice::Int(_) | Choice::Word(_) => {}
        }
        if seen.contains(&text) {
            errors.at(*span, format!("knob `{name}` lists {text} twice"));
        }
        seen.push(text);
    }
    values.into_iter().map(|(choice, _)| choice).collect()
}

fn check_knobs(attribute: &Attribute, errors: &mut Errors) {
    for (i, knob) in attribute.knobs.iter().enumerate() {
        let name = &knob.name;
        let before = &attribute.knobs[..i];
        if let Some(other) = before.iter().find(|k| k.name.to_string().eq_ignore_ascii_case(&name.to_string())) {
            let text = if other.name == *name {
                format!("knob `{name}` is declared twice")
            } else {
                format!("knobs `{}` and `{name}` give one field of `Schedule`", other.name)
            };
            errors.on(name, format!("{text}: names of knobs are unique in a kernel, whatever their case"));
        }
        if attribute.types.iter().any(|(t, _)| t == name) {
            errors.on(name, format!("`{name}` names a knob and a type parameter: rename one of them"));
        }
        let several = knob.group == "tile" || knob.group == "coarsen";
        let once = knob.group == "cluster";
        if !several && before.iter().any(|k| k.group == knob.group && (once || k.of == knob.of)) {
            errors.on(name, one_knob(knob));
        }
        match (&knob.of, knob.group == "coarsen") {
            (Some(of), _) if knob.group == "cluster" && attribute.tile(of).is_none() => {
                errors.on(of, format!("cluster({name} of {of}) has no tile({of} = ..) of which blocks take several"));
            }
            (None, _) if knob.group == "cluster" => {
                errors.on(name, format!("say of which tile blocks take several: `cluster({name} of C = [1, 2, 4, 8])`"));
            }
            (Some(_), _) if knob.group == "cluster" => {}
            (Some(of), true) if attribute.tile(of).is_none() => {
                errors.on(of, format!("coarsen({name} of {of}) has no tile({of} = ..) to divide"));
            }
            (Some(of), true) if before.iter().any(|k| k.group == knob.group && k.of.as_ref() == Some(of)) => {
                errors.on(of, format!("tile `{of}` is coarsened twice"));
            }
            (None, false) if knob.group == "constant" => {
                errors.on(name, format!("say which tensor it is for: `constant({name} of w = [Off, On])`"));
            }
            (None, true) => errors.on(name, format!("say which tile it divides: `coarsen({name} of T = [1, 2, 4])`")),
            (Some(of), false) if targets::allowed(&knob.group).is_empty() => {
                errors.on(
                    of,
                    format!(
                        "`of` belongs to coarsen, cluster, stages, copy, operands, halo and constant: {} is for the whole kernel",
                        knob.group
                    ),
                );
            }
            (Some(_), _) | (None, false) => {}
        }
    }
}

/// What is wrong with a second knob of a group that is for the same.
fn one_knob(knob: &Knob) -> String {
    let group = &knob.group;
    match &knob.of {
        Some(_) if group == "cluster" => format!("a kernel has one {group} knob"),
        Some(of) => format!("`{of}` has a {group} knob already"),
        None if targets::allowed(group).is_empty() => format!("a kernel has one {group} knob"),
        None => format!("a kernel has one {group} knob for all: say what another one is for, as in `{group}({} of k = ..)`", knob.name),
    }
}
