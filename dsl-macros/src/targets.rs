//! What a knob is for: the loop or the tensor that `stages(S of k = ..)`, `copy(P of a = ..)`, `operands(O of b = ..)`,
//! `halo(H of x = ..)` and `constant(M of w = ..)` name.

use crate::check::{By, Param};
use crate::errors::Errors;
use crate::parse::{Attribute, Knob};
use crate::scope::bound_names;
use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprCall, ExprForLoop};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    /// The variable of a `for`.
    Loop,
    /// A tensor parameter.
    Tensor,
}

/// The groups whose knobs may be for one loop or tensor, with what each may name.
const GROUPS: [(&str, &[Target]); 5] = [
    ("stages", &[Target::Loop]),
    ("copy", &[Target::Loop, Target::Tensor]),
    ("operands", &[Target::Tensor]),
    ("halo", &[Target::Tensor]),
    ("constant", &[Target::Tensor]),
];

/// What knobs of a group may name; nothing where they are for the whole kernel.
pub fn allowed(group: &str) -> &'static [Target] {
    GROUPS.iter().find(|(name, _)| *name == group).map_or(&[], |(_, targets)| targets)
}

/// Finds what knobs name among a kernel's parameters and the variables of its `for`s. Where the body hands variables to functions, a name that
/// is not among them is that of a loop in one of these: whether there is one is found when the kernel is built.
pub fn resolve(attribute: &mut Attribute, params: &[Param], body: &Block, errors: &mut Errors) {
    let tensors: Vec<Ident> = params.iter().filter(|p| p.by != By::Value).map(|p| p.name.clone()).collect();
    let mut loops = Loops::default();
    loops.visit_block(body);
    let names = |target: &Target| if *target == Target::Loop { &loops.vars } else { &tensors };
    for knob in &mut attribute.knobs {
        let Some(of) = &knob.of else { continue };
        let targets = allowed(&knob.group);
        let found: Vec<Target> = targets.iter().copied().filter(|t| names(t).contains(of)).collect();
        match found[..] {
            _ if targets.is_empty() => {}
            [target] => knob.target = Some(target),
            [] if targets.contains(&Target::Loop) && loops.calls => knob.target = Some(Target::Loop),
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

/// The loops of a body, and of functions that it calls.
#[derive(Default)]
struct Loops {
    /// The variables of all `for`s, each once.
    vars: Vec<Ident>,
    /// A function is called with a variable, which it may have loops over.
    calls: bool,
}

impl<'a> Visit<'a> for Loops {
    fn visit_expr_for_loop(&mut self, l: &'a ExprForLoop) {
        for (name, _) in bound_names(&l.pat) {
            if !self.vars.contains(&name) {
                self.vars.push(name);
            }
        }
        visit::visit_expr_for_loop(self, l);
    }

    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        let is_variable = |arg: &Expr| match arg {
            Expr::Path(_) => true,
            Expr::Reference(to) => matches!(*to.expr, Expr::Path(_)),
            _ => false,
        };
        self.calls |= call.args.iter().any(is_variable);
        visit::visit_expr_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::format_ident;
    use syn::parse_quote;

    /// Whether `stages(S of k)` names something that may be there.
    fn names_a_loop(body: &Block) -> bool {
        let (name, of) = (format_ident!("S"), Some(format_ident!("k")));
        let knob = Knob { name, group: "stages".into(), of, target: None, choices: vec![] };
        let mut attribute = Attribute { knobs: vec![knob], types: vec![], deterministic: false };
        resolve(&mut attribute, &[], body, &mut Errors::default());
        attribute.knobs[0].target == Some(Target::Loop)
    }

    #[test]
    fn loops_of_functions_that_are_called_can_be_named() {
        assert!(names_a_loop(&parse_quote!({ for k in x.tiles([T]) {} })));
        assert!(names_a_loop(&parse_quote!({
            let acc = product(x, &y, m);
        })));
        assert!(!names_a_loop(&parse_quote!({
            for t in x.tiles([T]) {
                let v = zeros([T]);
            }
        })));
    }
}
