//! What a knob is for: the loop or the tensor that `stages(S of k = ..)`, `copy(P of a = ..)` and `operands(O of b = ..)` name.

use crate::check::{By, Param};
use crate::errors::Errors;
use crate::parse::{Attribute, Knob};
use crate::scope::bound_names;
use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Block, ExprForLoop};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    /// The variable of a `for`.
    Loop,
    /// A tensor parameter.
    Tensor,
}

/// The groups whose knobs may be for one loop or tensor, with what each may name.
const GROUPS: [(&str, &[Target]); 3] =
    [("stages", &[Target::Loop]), ("copy", &[Target::Loop, Target::Tensor]), ("operands", &[Target::Tensor])];

/// What knobs of a group may name; nothing where they are for the whole kernel.
pub fn allowed(group: &str) -> &'static [Target] {
    GROUPS.iter().find(|(name, _)| *name == group).map_or(&[], |(_, targets)| targets)
}

/// Finds what knobs name among a kernel's parameters and the variables of its `for`s.
pub fn resolve(attribute: &mut Attribute, params: &[Param], body: &Block, errors: &mut Errors) {
    let tensors: Vec<Ident> = params.iter().filter(|p| p.by != By::Value).map(|p| p.name.clone()).collect();
    let mut loops = Loops(Vec::new());
    loops.visit_block(body);
    let names = |target: &Target| if *target == Target::Loop { &loops.0 } else { &tensors };
    for knob in &mut attribute.knobs {
        let Some(of) = &knob.of else { continue };
        let targets = allowed(&knob.group);
        let found: Vec<Target> = targets.iter().copied().filter(|t| names(t).contains(of)).collect();
        match found[..] {
            _ if targets.is_empty() => {}
            [target] => knob.target = Some(target),
            [] => errors.on(of, unknown(knob, of, targets, names)),
            _ => errors.on(of, format!("`{of}` names both a loop and a tensor: rename the loop's variable")),
        }
    }
}

fn unknown<'n>(knob: &Knob, of: &Ident, targets: &[Target], names: impl Fn(&Target) -> &'n Vec<Ident>) -> String {
    let kinds: Vec<&str> = targets.iter().map(|t| if *t == Target::Loop { "variable of a `for`" } else { "tensor parameter" }).collect();
    let there: Vec<String> = targets.iter().flat_map(names).map(|n| format!("`{n}`")).collect();
    let allowed = if there.is_empty() { "there is none".to_string() } else { format!("expected one of {}", there.join(", ")) };
    format!("{0}({1} of {of}): `{of}` is no {2} of this kernel; {allowed}", knob.group, knob.name, kinds.join(" and no "))
}

/// The variables of all `for`s of a body, each once.
struct Loops(Vec<Ident>);

impl<'a> Visit<'a> for Loops {
    fn visit_expr_for_loop(&mut self, l: &'a ExprForLoop) {
        for (name, _) in bound_names(&l.pat) {
            if !self.0.contains(&name) {
                self.0.push(name);
            }
        }
        visit::visit_expr_for_loop(self, l);
    }
}
