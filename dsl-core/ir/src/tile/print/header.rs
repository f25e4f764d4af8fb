//! What stands before the statements: parameters, knobs, requirements, views and shared arrays.

use super::Printer;
use crate::schedule::KnobKind;
use crate::tile::{ParamKind, RequirementKind, SharedId, Ty, ViewId};
use std::fmt::Write;

impl Printer<'_> {
    pub(super) fn header(&mut self) {
        let k = self.kernel;
        let _ = write!(self.out, "kernel {}", k.full_name());
        self.place(k.loc, 0);
        let params: Vec<String> = k
            .params
            .iter()
            .map(|p| match p.kind {
                ParamKind::Tensor { dtype, rank, mutable } => format!("{}: &{}{dtype}[{rank}]", p.name, if mutable { "mut " } else { "" }),
                ParamKind::Scalar(d) => format!("{}: {d}", p.name),
            })
            .collect();
        self.line(&params.join(", "));
        for knob in &k.knobs {
            let choices: Vec<String> = knob.choices.iter().map(|c| c.to_string()).collect();
            let of = match (knob.kind, &knob.of) {
                (KnobKind::Coarsen { of } | KnobKind::Cluster { of }, _) => format!(" of {}", k.knob(of).name),
                (_, Some(of)) => format!(" of {}", of.name()),
                (_, None) => String::new(),
            };
            self.line(&format!("knob {} = {}{of} [{}]", knob.name, knob.kind.group(), choices.join(", ")));
        }
        if k.deterministic {
            self.line("deterministic");
        }
        for r in &k.requirements {
            let text = match &r.kind {
                RequirementKind::Packed(p) => format!("{} is packed", k.params[*p].name),
                RequirementKind::AtMost(a, b) => format!("{} <= {}", self.v(*a), self.v(*b)),
                RequirementKind::Equal(a, b) => format!("{} == {}", self.v(*a), self.v(*b)),
                RequirementKind::Divisible(a, by) => format!("{} % {by} == 0", self.v(*a)),
                RequirementKind::Aligned(p, bytes) => format!("{} is aligned to {bytes} bytes", k.params[*p].name),
                RequirementKind::Values(p, a, b) => format!("{} holds {}..{}", k.params[*p].name, self.v(*a), self.v(*b)),
            };
            self.located(&format!("require {text}"), r.loc);
        }
        for (i, view) in k.views.iter().enumerate() {
            let axes: Vec<String> = view.axes.iter().map(|a| format!("{} by {}", self.v(a.len), self.v(a.stride))).collect();
            let parts: Vec<String> =
                view.parts.iter().map(|(s, upper)| format!(", {} of split {s}", if *upper { "end" } else { "start" })).collect();
            let repeats = if view.injective { "" } else { ", repeats" };
            let head = format!("view {} = {}: {}", self.view(ViewId(i as u32)), k.params[view.param].name, view.dtype);
            let text = format!("{head}, offset {}, axes ({}){}{repeats}", self.v(view.offset), axes.join("; "), parts.concat());
            self.located(&text, view.loc);
        }
        for (i, array) in k.shared.iter().enumerate() {
            let ty = self.ty(&Ty::Tile(array.dtype, array.shape.clone()));
            let by_hand = if array.by_hand { ", by hand" } else { "" };
            self.located(&format!("shared {}: {ty}{by_hand}", self.array(SharedId(i as u32))), array.loc);
        }
    }
}
