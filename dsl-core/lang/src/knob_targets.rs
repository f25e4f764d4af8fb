//! Whether the kernel has what its knobs are for: the loop of `stages(S of k = ..)`, the tensor of `operands(O of a = ..)`.

use girih_ir::error::Diagnostic;
use girih_ir::schedule::{Knob, KnobKind, Of};
use girih_ir::tile::access::{operands, operations, visit};
use girih_ir::tile::{Kernel, Op, Stmt, ValueId};
use std::collections::HashSet;

/// What is wrong with the knobs that name a loop or a tensor.
pub(crate) fn check(kernel: &Kernel) -> Vec<Diagnostic> {
    kernel.knobs.iter().filter_map(|knob| fault(kernel, knob, knob.of.as_ref()?)).collect()
}

fn fault(kernel: &Kernel, knob: &Knob, of: &Of) -> Option<Diagnostic> {
    let (what, there) = match of {
        Of::Loop(_) => ("loop over tiles", loops(kernel)),
        Of::Tensor(_) if knob.kind == KnobKind::Operands => ("operand of a dot", multiplied(kernel)),
        Of::Tensor(_) if knob.kind == KnobKind::Halo => ("tensor of which the kernel reads windows", tensors(kernel, true)),
        Of::Tensor(_) if knob.kind == KnobKind::Constant => ("tensor that the kernel loads", tensors(kernel, false)),
        Of::Tensor(_) => ("tensor of which the kernel loads tiles or windows", tensors(kernel, false)),
    };
    if there.iter().any(|name| name == of.name()) {
        return None;
    }
    let names = there.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    let allowed = if there.is_empty() { "there is none here".to_string() } else { format!("expected one of {names}") };
    let group = knob.kind.group();
    let message = format!("{group}({} of {name}): `{name}` is no {what}; {allowed}", knob.name, name = of.name());
    let help = match knob.kind {
        KnobKind::Constant => "name one of these".to_string(),
        _ => format!("name one of these, or write `{group}({} = ..)`, which is for all", knob.name),
    };
    Some(Diagnostic::new(knob.loc, message).help(help).note("of this kernel", kernel.loc))
}

/// The author's variables of the loops over tiles.
fn loops(kernel: &Kernel) -> Vec<String> {
    let mut names = Vec::new();
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Tiles(l) = stmt {
            names.extend(l.vars.iter().filter_map(|v| kernel.value(*v).name.clone()));
        }
    });
    once(names)
}

/// The tensors of which windows, or also tiles, are loaded.
fn tensors(kernel: &Kernel, windows: bool) -> Vec<String> {
    let mut names = Vec::new();
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Let(_, op @ (Op::Load(view, _) | Op::Window { view, .. })) = stmt
            && (!windows || matches!(op, Op::Window { .. }))
        {
            names.push(kernel.params[kernel.view(*view).param].name.clone());
        }
    });
    once(names)
}

/// The tensors of which tiles are loaded that dots multiply, as they are or behind other operations.
fn multiplied(kernel: &Kernel) -> Vec<String> {
    let made = operations(kernel);
    let mut pending: Vec<ValueId> =
        made.values().filter_map(|op| if let Op::Dot { a, b, .. } = op { Some([*a, *b]) } else { None }).flatten().collect();
    let mut seen = HashSet::new();
    while let Some(value) = pending.pop() {
        if seen.insert(value) {
            pending.extend(made.get(&value).into_iter().flat_map(|op| operands(op)));
        }
    }
    let mut names = Vec::new();
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Let(value, Op::Load(view, _)) = stmt
            && seen.contains(value)
        {
            names.push(kernel.params[kernel.view(*view).param].name.clone());
        }
    });
    once(names)
}

/// Each name once, in the order of the text.
fn once(names: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
