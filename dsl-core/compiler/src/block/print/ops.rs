//! Operations and combinations on a page.

use super::Page;
use crate::block::{Block, Combine, Cuts, Fold, Form, Op, Operator, SharedId, SharedKind, Stmt, Update};

impl Page<'_> {
    pub(super) fn op(&self, op: &Op) -> String {
        let lower = |d: &dyn std::fmt::Debug| format!("{d:?}").to_lowercase();
        let list = |values: &[crate::block::ValueId]| values.iter().map(|v| self.scalar(*v)).collect::<Vec<_>>().join(", ");
        match op {
            Op::Literal(l) => l.to_string(),
            Op::Param(p) => self.kernel.params[*p].name.clone(),
            Op::Dim(p, k) => format!("{}.len({k})", self.kernel.params[*p].name),
            Op::Stride(p, k) => format!("{}.stride({k})", self.kernel.params[*p].name),
            Op::Unary(o, a) => format!("{} {}", lower(o), list(&[*a])),
            Op::Binary(o, a, b) => format!("{} {}", lower(o), list(&[*a, *b])),
            Op::Ternary(o, a, b, c) => format!("{} {}", lower(o), list(&[*a, *b, *c])),
            Op::Compare(o, a, b) => format!("{} {}", lower(o), list(&[*a, *b])),
            Op::Select(c, a, b) => format!("select {}", list(&[*c, *a, *b])),
            Op::Cast(a) => format!("cast {}", list(&[*a])),
            Op::Bitcast(a) => format!("bitcast {}", list(&[*a])),
            Op::Splat(a) => format!("splat {}", list(&[*a])),
            Op::Like { value, model } => format!("splat {} like {}", list(&[*value]), self.name(*model)),
            Op::Or { tile, absent } => format!("{} or {}", self.name(*tile), self.scalar(*absent)),
            Op::Total { scan, axis } => format!("total of {} along axis {axis}", self.name(*scan)),
            Op::Within(a, ends) => {
                let axes: Vec<String> = ends.iter().map(|e| e.map_or("_".into(), |v| self.name(v))).collect();
                format!("{} within [{}]", self.name(*a), axes.join(", "))
            }
            Op::Broadcast(a, from) => {
                let axes: Vec<String> = from.iter().map(|f| f.map_or("new".into(), |k| k.to_string())).collect();
                format!("broadcast {} to axes [{}]", self.name(*a), axes.join(", "))
            }
            Op::Transpose(a, perm) => format!("transpose {} {perm:?}", self.name(*a)),
            Op::Pick { tile, axis, at } => format!("pick {} axis {axis} at {at}", self.name(*tile)),
            Op::Stack(all) => format!("stack {}", self.list(all)),
            Op::Coordinates(a) => format!("coordinates {}", self.name(*a)),
            Op::Start(a) => format!("start {}", self.name(*a)),
            Op::End(a) => format!("end {}", self.name(*a)),
            Op::Number(a) => format!("number {}", self.name(*a)),
            Op::Iota => "iota".into(),
            Op::Shuffle { value, kind, lane } => format!("shuffle {} {}, {}", lower(kind), self.name(*value), self.scalar(*lane)),
            Op::Vote(kind, mask) => format!("vote {} {}", lower(kind), self.name(*mask)),
            Op::Dot { a, b, acc, fold: None } => format!("{} + {} . {}", self.name(*acc), self.name(*a), self.name(*b)),
            Op::Dot { a, b, acc, fold: Some(_) } => format!("{} with {} . {}", self.name(*acc), self.name(*a), self.name(*b)),
            Op::Near(window, offsets) => format!("{} at [{}]", self.name(*window), list(offsets)),
            Op::Gather(view, indices) => format!("gather {}[{}]", self.view(*view), list(indices)),
            Op::GatherInside(view, indices) => format!("gather inside {}[{}]", self.view(*view), list(indices)),
            Op::Load(..) | Op::Window { .. } => panic!("block: a load or a window is a statement of its own"),
        }
    }

    pub(super) fn combine(&mut self, c: &Combine) {
        let operator = c.operator.word();
        let inputs: Vec<String> = c.inputs.iter().map(|v| self.scalar(*v)).collect();
        let text = match &c.form {
            Form::Reduce { axes } => {
                let late = if self.kernel.is_late(c) { ", lanes meet behind the loop" } else { "" };
                format!("combine {operator} {} over axes {axes:?}{late}", inputs.join(", "))
            }
            Form::Scan { axis, exclusive, reversed, over_grid } => {
                let how = [(*exclusive, " exclusive"), (*reversed, " reversed"), (*over_grid, " on top of the tiles before")];
                let how = how.iter().filter(|h| h.0).map(|h| h.1).collect::<String>();
                format!("scan {operator} {} along axis {axis}{how}", inputs.join(", "))
            }
            Form::Before => format!("combine {operator} {} over the tiles before", inputs.join(", ")),
            Form::Grid => format!("combine {operator} {} over blocks", inputs.join(", ")),
        };
        let types: Vec<String> = c.results.iter().map(|r| self.ty(*r)).collect();
        self.typed(&format!("{} = {text}", self.list(&c.results)), &types.join(", "));
        if let Operator::User { identity, arguments, body, results, commutative } = &c.operator {
            let identity: Vec<String> = identity.iter().map(|l| l.to_string()).collect();
            let order = if *commutative { " in any order" } else { "" };
            let head = format!("by ({}) from ({}){order}", self.list(arguments), identity.join(", "));
            self.nested(&head, body, &format!("}} = ({})", self.list(results)));
        }
    }

    /// The author's operations of a dot.
    pub(super) fn fold(&mut self, fold: &Fold) {
        let head = format!("by ({}) from ({})", self.list(&fold.arguments), fold.absent);
        let body: Block = fold.steps.iter().map(|(v, op)| Stmt::Let(*v, op.clone())).collect();
        self.nested(&head, &body, &format!("}} = {}", self.scalar(fold.result)));
    }

    /// A read-modify-write of a place.
    pub(super) fn atomic(&mut self, update: &Update, place: &str) {
        let expected = update.expected.map_or(String::new(), |e| format!("{} -> ", self.scalar(e)));
        let text = format!("atomic {} {place}, {expected}{}", format!("{:?}", update.op).to_lowercase(), self.scalar(update.value));
        match update.result {
            Some(r) => self.typed(&format!("{} = {text}", self.name(r)), &self.ty(r)),
            None => self.line(&text),
        }
    }

    pub(super) fn shared(&mut self, id: SharedId, kind: &SharedKind, cuts: &Cuts) {
        let wide = if *cuts == Cuts::of_width(1) { String::new() } else { self.wide(Some(cuts)) };
        let array = self.kernel.shared_array(id).name.clone().unwrap_or_else(|| format!("shared{}", id.0));
        let text = match kind {
            SharedKind::Fill(v) => format!("fill {array} = {}", self.scalar(*v)),
            SharedKind::Empty => format!("empty {array}"),
            SharedKind::Gather { indices, result, inside } => {
                let inside = if *inside { "inside " } else { "" };
                return self
                    .typed(&format!("{} = get {inside}{array}[{}]{wide}", self.name(*result), self.list(indices)), &self.ty(*result));
            }
            SharedKind::Scatter { indices, value } => format!("put {array}[{}] = {}{wide}", self.list(indices), self.name(*value)),
            SharedKind::Atomic(update) => return self.atomic(update, &format!("{array}[{}]", self.list(&update.indices))),
            SharedKind::GatherRun { indices, result } => {
                return self.typed(&format!("{} = get runs {array}[{}]", self.name(*result), self.list(indices)), &self.ty(*result));
            }
            SharedKind::ScatterRun { indices, value } => format!("put runs {array}[{}] = {}", self.list(indices), self.name(*value)),
            SharedKind::Copy { indices, view, from, run } => {
                format!(
                    "copy {array}[{}] <- {run} of {}[{}], {} wide",
                    self.list(indices),
                    self.view(*view),
                    self.list(from),
                    cuts.checked.width
                )
            }
            SharedKind::Start(v) => format!("start {array} with {}", self.name(*v)),
            SharedKind::Take { result } => return self.typed(&format!("{} = take {array}", self.name(*result)), &self.ty(*result)),
            SharedKind::Leave(v) => format!("leave {array} = {}", self.name(*v)),
        };
        self.line(&text);
    }
}
