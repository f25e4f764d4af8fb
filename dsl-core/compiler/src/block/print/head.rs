//! The head of a page: launch, what every launch promises, layouts.

use super::{Page, digits};
use crate::block::{HostExpr, Op, ParamKind, Stmt, Tail, ViewId, visit};
use girih_ir::facts::TensorFacts;
use girih_ir::layout::Layout;
use std::collections::HashSet;

impl<'a> Page<'a> {
    pub(super) fn head(&mut self, when: &str) {
        let when = if when.is_empty() { String::new() } else { format!(" after {when}") };
        self.out.push_str(&format!("kernel {}{when}\n", self.kernel.title));
        self.launch();
        self.given();
        let layouts: Vec<String> = self
            .layouts
            .iter()
            .map(|(name, l)| {
                let text = format!("{name:<7} {}", digits(l));
                format!("{text:<49} {} of {}", plural(l.registers, "register"), plural(l.threads, "thread"))
            })
            .collect();
        layouts.iter().for_each(|l| self.line(l));
        self.out.push('\n');
        self.indent -= 1;
    }

    fn launch(&mut self) {
        let launch = &self.kernel.launch;
        let team = &self.kernel.teams[0];
        let block = match (team.threads, team.slices) {
            (threads, 1) if launch.producer.threads > 0 => {
                let warps = threads / 32;
                let producer = launch.producer;
                let registers = producer.registers.map_or(String::new(), |[own, its]| format!(", with {own} and {its} registers a thread"));
                format!("block = consumers: warps 0..{warps}, producer: warps {warps}..{}{registers}", warps + producer.threads / 32)
            }
            (threads, 1) if threads % 32 == 0 => format!("block = warps 0..{}", threads / 32),
            (threads, 1) => format!("block = {}", plural(threads, "thread")),
            (threads, slices) => format!("block = {slices} slices of {}", plural(threads, "thread")),
        };
        let mut text = format!("launch  grid {}, {block}", self.host(&launch.grid));
        if launch.cluster > 1 {
            text += &format!(", clusters of {}", plural(launch.cluster, "block"));
        }
        if launch.min_blocks > 1 {
            text += &format!(", at least {} per multiprocessor", plural(launch.min_blocks.into(), "block"));
        }
        if let Some(units) = &launch.units {
            let (atom, [down, right]) = (units.form.atom, units.along);
            text += &match units.group {
                Some(group) => format!(", {group} by {down} x {right} warp groups"),
                None => format!(", m{}n{}k{}_{} by {down} x {right} warps", atom.m, atom.n, atom.k, atom.a.name()),
            };
        }
        self.line(&text);
    }

    fn given(&mut self) {
        let mut used = HashSet::new();
        visit(&self.kernel.body, &mut |stmt| used.extend(view_of(stmt).map(|v| self.kernel.view(v).param)));
        // Tensors of which the same is known stand together.
        let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
        for (_, p) in self.kernel.params.iter().enumerate().filter(|(p, _)| used.contains(p)) {
            let ParamKind::Tensor { dtype, rank, constant, known: Some(known), .. } = &p.kind else { continue };
            let constant = constant.map_or(String::new(), |len| format!(", in constant memory with room for {len}"));
            let text = format!("{dtype}[{rank}]{}{constant}", promises(known, dtype.size() as u32));
            match lines.iter_mut().find(|(_, t)| *t == text) {
                Some((names, _)) => names.push(&p.name),
                None => lines.push((vec![&p.name], text)),
            }
        }
        let lines: Vec<String> = lines.into_iter().map(|(names, text)| format!("given   {}: {text}", names.join(", "))).collect();
        lines.iter().for_each(|l| self.line(l));
    }

    /// Collects the layouts that the page mentions: the anchor's, and those of accesses, named after their tensors.
    pub(super) fn name_layouts(&mut self) {
        let kernel = self.kernel;
        let team = &kernel.teams[0];
        if let Some(anchor) = team.anchor.as_ref().filter(|l| !l.axes.is_empty()) {
            self.layouts.push(("@own".into(), anchor));
        }
        let mut found: Vec<(String, &'a Layout)> = Vec::new();
        visit(&kernel.body, &mut |stmt| match stmt {
            Stmt::Load(_, access) => found.extend(access.layout.as_ref().map(|l| (self.tensor(access.view), l))),
            Stmt::Window(_, window) => found.extend(window.tile.layout.as_ref().map(|l| (self.tensor(window.tile.view), l))),
            Stmt::Store { to, from, rows, .. } => {
                found.extend(to.layout.as_ref().map(|l| (self.tensor(to.view), l)));
                found.extend(from.as_ref().map(|l| (format!("{}_from", self.tensor(to.view)), l)));
                found.extend(rows.as_ref().map(|r| (format!("{}_rows", self.tensor(to.view)), &r.layout)));
            }
            Stmt::Loop(l) => {
                if let Some(Tail::OneIf(layout)) = l.grid.as_ref().map(|g| &g.tail) {
                    found.push(("guard".into(), layout));
                }
            }
            // Results of other shapes than the anchor's.
            Stmt::Let(v, Op::Dot { .. }) => {
                let dealt = kernel.value(*v).form.and_then(|form| team.dealt.get(form as usize));
                let several = kernel.launch.units.as_ref().is_some_and(|units| !units.others.is_empty());
                found.extend(dealt.filter(|_| several).map(|d| ("sums".into(), &d.own)));
            }
            Stmt::Let(..) | Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Combine(_) | Stmt::OverCluster(_) | Stmt::Together(_) => {}
            Stmt::Shared { .. } | Stmt::Barrier(_) => {}
            Stmt::Meet(_) | Stmt::Copies { .. } | Stmt::Range { .. } | Stmt::While { .. } | Stmt::If { .. } | Stmt::Where { .. } => {}
            Stmt::Alone(_) | Stmt::Finish(_) => {}
        });
        for (name, layout) in found.into_iter().filter(|(_, l)| !l.axes.is_empty()) {
            if self.layouts.iter().all(|(_, l)| *l != layout) {
                let same =
                    self.layouts.iter().filter(|(n, _)| n.trim_start_matches('@').trim_end_matches(char::is_numeric) == name).count();
                let number = if same == 0 { String::new() } else { (same + 1).to_string() };
                self.layouts.push((format!("@{name}{number}"), layout));
            }
        }
    }

    fn tensor(&self, view: ViewId) -> String {
        self.kernel.params[self.kernel.view(view).param].name.clone()
    }

    /// An axis of a view in words.
    pub(super) fn axis(&self, view: ViewId, axis: usize) -> String {
        let v = self.kernel.view(view);
        match v.axes.len() {
            1 => v.text.clone(),
            2 => format!("{}.{}", v.text, ["rows", "cols"][axis]),
            _ => format!("{}.axis {axis}", v.text),
        }
    }

    /// What the host computes, in words.
    pub(super) fn host(&self, e: &HostExpr) -> String {
        e.to_words(&|leaf| match leaf {
            HostExpr::Dim(p, k) => {
                let param = &self.kernel.params[*p];
                match param.kind {
                    ParamKind::Tensor { rank: 1, .. } => format!("{}.len", param.name),
                    ParamKind::Tensor { rank: 2, .. } => format!("{}.{}", param.name, ["rows", "cols"][*k]),
                    _ => format!("{}.len({k})", param.name),
                }
            }
            HostExpr::Stride(p, k) => format!("{}.stride({k})", self.kernel.params[*p].name),
            HostExpr::Scalar(p) => self.kernel.params[*p].name.clone(),
            other => other.to_string(),
        })
    }
}

/// The view that a statement itself accesses.
fn view_of(stmt: &Stmt) -> Option<ViewId> {
    match stmt {
        Stmt::Load(_, access) | Stmt::Store { to: access, .. } => Some(access.view),
        Stmt::Window(_, window) => Some(window.tile.view),
        Stmt::Scatter { view, .. } | Stmt::Atomic { view, .. } => Some(*view),
        Stmt::Loop(l) => Some(l.view),
        Stmt::Let(..) | Stmt::Combine(_) | Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::Shared { .. } | Stmt::Barrier(_) => None,
        Stmt::Meet(_) | Stmt::Copies { .. } => None,
        Stmt::Range { .. } | Stmt::While { .. } | Stmt::If { .. } | Stmt::Where { .. } | Stmt::Alone(_) | Stmt::Finish(_) => None,
    }
}

/// What launches promise of a tensor, each word behind a comma.
fn promises(known: &TensorFacts, size: u32) -> String {
    let mut text = String::new();
    if known.align > size {
        text += &format!(", {}-byte aligned", known.align);
    }
    text += if known.packed { ", packed" } else { ", strided" };
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" x ");
    if known.lens.iter().any(|n| *n > 1) {
        text += &format!(", lengths multiples of {}", list(&known.lens));
    }
    if known.most.iter().any(|n| *n > 0) {
        let most: Vec<String> = known.most.iter().map(|n| if *n > 0 { n.to_string() } else { "any".into() }).collect();
        text += &format!(", lengths at most {}", most.join(" x "));
    }
    text
}

fn plural(n: i64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
