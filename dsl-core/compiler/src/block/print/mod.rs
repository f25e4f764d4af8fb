//! A kernel of block IR as a page for people.
//!
//! ```text
//! kernel vector_add
//!   launch  grid (c.len + 1023) / 1024, block = warps 0..8
//!   given   c: f32[1], 16-byte aligned, packed, lengths multiples of 16
//!   @own    [r4 t256]                                 4 registers of 256 threads
//!
//!   grid t in tiles of c [1024], one per block, one `if` per thread by @own {
//!     %0  = load a[t]                                : f32[1024] @own
//!     sum = add %0, %1                               : f32[1024]
//!     store c[t] = sum                               @own
//!   }
//! ```
//!
//! A layout is the digits of each axis, the least significant first, each in units of the product of those before it: `r4` is `register % 4`,
//! `t8/4` is `thread / 4 % 8`.

mod head;
mod loops;
mod ops;

use super::{
    Access, Alone, Block, Carry, Cut, Cuts, Finish, FinishWay, Index, Kernel, Meet, Op, Reading, Stmt, Tail, Told, Ty, ValueId, Window,
    visit,
};
use girih_ir::layout::{Layout, Source};
use girih_ir::types::Scope;
use std::collections::HashMap;
use std::fmt;

/// Where types begin.
const TYPES: usize = 52;

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&print(self, ""))
    }
}

/// The page; `when` says behind which pass.
pub(crate) fn print(kernel: &Kernel, when: &str) -> String {
    let mut leaves = HashMap::new();
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Let(v, Op::Literal(l)) = stmt {
            leaves.insert(*v, l.to_string());
        } else if let Stmt::Let(v, Op::Param(p)) = stmt {
            leaves.insert(*v, kernel.params[*p].name.clone());
        }
    });
    let mut page = Page { kernel, names: names(kernel), leaves, layouts: vec![], out: String::new(), indent: 1 };
    page.name_layouts();
    page.head(when);
    page.block(&kernel.body);
    page.out
}

/// A name for every value: the author's, or a number; a name that stands for several values gets a number behind it.
fn names(kernel: &Kernel) -> Vec<String> {
    let mut taken: HashMap<&str, usize> = HashMap::new();
    let name = |(number, value): (usize, &'_ super::Value)| match &value.name {
        None => format!("%{number}"),
        Some(name) => name.clone(),
    };
    let plain: Vec<String> = kernel.values.iter().enumerate().map(name).collect();
    let mut out = Vec::new();
    for name in &plain {
        let before = taken.entry(name).or_insert(0);
        *before += 1;
        out.push(if *before == 1 { name.clone() } else { format!("{name}.{before}") });
    }
    out
}

struct Page<'a> {
    kernel: &'a Kernel,
    names: Vec<String>,
    /// Constants and parameters, which stand where they are used.
    leaves: HashMap<ValueId, String>,
    /// Layouts that the page mentions, with their names.
    layouts: Vec<(String, &'a Layout)>,
    out: String,
    indent: usize,
}

impl<'a> Page<'a> {
    fn line(&mut self, text: &str) {
        self.out.push_str(&"  ".repeat(self.indent));
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A line with a type behind it.
    fn typed(&mut self, text: &str, ty: &str) {
        self.beside(text, &format!(": {ty}"));
    }

    /// A line with something where types stand.
    fn beside(&mut self, text: &str, what: &str) {
        let width = self.indent * 2 + text.chars().count();
        let gap = " ".repeat(TYPES.saturating_sub(width).max(1));
        self.line(format!("{text}{gap}{what}").trim_end());
    }

    fn nested(&mut self, head: &str, body: &Block, tail: &str) {
        self.line(&format!("{head} {{"));
        self.block(body);
        self.line(tail);
    }

    fn block(&mut self, body: &Block) {
        self.indent += 1;
        body.iter().for_each(|stmt| self.stmt(stmt));
        self.indent -= 1;
    }

    fn name(&self, value: ValueId) -> String {
        self.names[value.0 as usize].clone()
    }

    fn list(&self, values: &[ValueId]) -> String {
        values.iter().map(|v| self.name(*v)).collect::<Vec<_>>().join(", ")
    }

    /// A scalar where it is used: what the host computes of the arguments is written out.
    fn scalar(&self, value: ValueId) -> String {
        match (&self.kernel.value(value).host, self.leaves.get(&value)) {
            (Some(host), _) => self.host(host),
            (None, Some(leaf)) => leaf.clone(),
            (None, None) => self.name(value),
        }
    }

    fn ty(&self, value: ValueId) -> String {
        let extents = |shape: &[i64]| shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        match self.kernel.ty(value) {
            Ty::Scalar(dtype) => dtype.to_string(),
            Ty::Tile(dtype, shape) => format!("{dtype}[{}]", extents(shape)),
            Ty::TileIndex(size) => format!("tile of {size}"),
            Ty::Window(dtype, reach) => {
                let axis = |r: &super::Reach| format!("{} - {} + {}", r.size, r.before, r.after);
                format!("{dtype} window [{}]", reach.iter().map(axis).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn view(&self, view: super::ViewId) -> &str {
        &self.kernel.view(view).text
    }

    fn place(&self, access: &Access) -> String {
        let index: Vec<String> = access.index.iter().map(|i| self.index(i)).collect();
        format!("{}[{}]", self.view(access.view), index.join(", "))
    }

    fn index(&self, index: &Index) -> String {
        match index {
            Index::Tile(v) => self.name(*v),
            Index::At(v) => format!("at {}", self.scalar(*v)),
            Index::All(n) => format!("..{n}"),
        }
    }

    fn layout_name(&self, layout: &Layout) -> String {
        let found = self.layouts.iter().find(|(_, l)| *l == layout);
        found.map_or_else(|| digits(layout), |(name, _)| name.clone())
    }

    /// The layout of a tile's access, behind its type.
    fn dealt(&self, access: &Access) -> String {
        access.layout.as_ref().filter(|l| !l.axes.is_empty()).map_or(String::new(), |l| format!(" {}", self.layout_name(l)))
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let(v, _) if self.kernel.value(*v).host.is_some() || self.leaves.contains_key(v) => {}
            Stmt::Let(v, op) => {
                let fed = if self.kernel.is_fed(*v) { ", the left from registers" } else { "" };
                let text = format!("{} = {}{}{fed}", self.name(*v), self.op(op), self.wide(self.kernel.gathers.get(v)));
                let own = if matches!(op, Op::Dot { .. }) { self.own(*v) } else { String::new() };
                self.typed(&text, &format!("{}{own}", self.ty(*v)));
                if let Op::Dot { fold: Some(fold), .. } = op {
                    self.fold(fold);
                }
            }
            Stmt::Load(v, access) => {
                let role = if self.kernel.dots.is_load(*v) { "operand" } else { "load" };
                let text = format!("{} = {role} {}{}", self.name(*v), self.place(access), self.wide(access.cuts.as_ref()));
                self.typed(&text, &format!("{}{}{}", self.ty(*v), self.dealt(access), reading(&access.read)));
            }
            Stmt::Window(v, window) => {
                let wide = self.wide(window.tile.cuts.as_ref());
                let text = format!("{} = window {}{wide}{}", self.name(*v), self.window(window), self.read_wide(*v, window));
                self.typed(&text, &format!("{}{}{}", self.ty(*v), self.dealt(&window.tile), reading(&window.tile.read)));
            }
            Stmt::Store { to, value, from, rows, by_first } => {
                let from = from.as_ref().map_or(String::new(), |l| format!(", from {}", self.layout_name(l)));
                let by = if *by_first { ", by the first block" } else { "" };
                let text = format!("store {} = {}{from}{}{by}", self.place(to), self.scalar(*value), self.wide(to.cuts.as_ref()));
                self.beside(&text, &format!(" {}", self.dealt(to)));
                if let Some(rows) = rows {
                    let name = self.layout_name(&rows.layout);
                    self.line(&format!("  by way of shared memory, if that has room: from {name}{}", self.wide(Some(&rows.cuts))));
                }
            }
            Stmt::Scatter { view, indices, value, run, width } => {
                let wide = if run.is_some() || *width > 1 { format!(", {width} wide") } else { String::new() };
                let run = run.map_or_else(Default::default, |n| format!(" runs of {n}"));
                self.line(&format!("scatter{run} {}[{}] = {}{wide}", self.view(*view), self.list(indices), self.name(*value)));
            }
            Stmt::Atomic { update, view, .. } => self.atomic(update, &format!("{}[{}]", self.view(*view), self.list(&update.indices))),
            Stmt::Combine(c) => self.combine(c),
            Stmt::OverCluster(c) => {
                self.line("over the cluster {");
                self.indent += 1;
                self.combine(c);
                self.indent -= 1;
                self.line("}");
            }
            Stmt::Together(all) => {
                self.line("meet once for {");
                self.indent += 1;
                all.iter().for_each(|c| self.combine(c));
                self.indent -= 1;
                self.line("}");
            }
            Stmt::Shared { array, kind, cuts, .. } => self.shared(*array, kind, cuts),
            Stmt::Barrier(scope) => self.line(match scope {
                Scope::Warp => "barrier warp, by hand",
                Scope::Device => "barrier grid",
                Scope::Block | Scope::Cluster | Scope::System => "barrier block, by hand",
            }),
            Stmt::Copies { pending } => self.line(&pending.map_or("commit copies".into(), |n| format!("await copies but the last {n}"))),
            Stmt::Meet(meet) => self.meet(meet),
            Stmt::Loop(l) => self.tile_loop(l),
            Stmt::Range { var, start, end, carries, body } => {
                let head = format!("for {} in {}..{}{}", self.name(*var), self.scalar(*start), self.scalar(*end), self.carries(carries));
                self.nested(&head, body, &self.next(carries));
            }
            Stmt::While { once, carries, header, condition, body } => {
                let [word, when] = if *once { ["perhaps", "if"] } else { ["repeat", "while"] };
                let head = format!("{word}{}", self.carries(carries));
                self.nested(&head, header, &format!("}} {when} {} {{", self.name(*condition)));
                self.block(body);
                self.line(&self.next(carries));
            }
            Stmt::If { condition, then, otherwise, results } => self.branch(*condition, then, otherwise, results),
            Stmt::Where { mask, negate, body } => {
                let head = if *negate { "where not" } else { "where" };
                self.nested(&format!("{head} {}", self.name(*mask)), body, "}");
            }
            Stmt::Alone(alone) => self.alone(alone),
            Stmt::Finish(finish) => self.finish(finish),
        }
    }

    /// How wide the reads of a window are that is not copied.
    fn read_wide(&self, value: ValueId, window: &Window) -> String {
        let groups = self.kernel.window_groups.groups.iter().filter(|g| g.window == value && !window.tile.read.shared);
        groups.map(|g| g.width).max().map_or(String::new(), |width| format!(", read {width} wide"))
    }

    /// How wide the instructions of an access are: in the texts that its kernel has.
    fn wide(&self, cuts: Option<&Cuts>) -> String {
        let Some(Cuts { full, checked }) = cuts else { return String::new() };
        let one = |cut: &Cut| {
            let reversed = if cut.reversed { ", back to front" } else { "" };
            format!("{} wide{reversed}{}", cut.width, if cut.beyond { ", in whole vectors" } else { "" })
        };
        match self.kernel.grid().map(|grid| &grid.tail) {
            Some(Tail::None | Tail::OneIf(_)) => format!(", {}", one(full)),
            Some(Tail::TwoTexts | Tail::Open) if full != checked => format!(", {}, {} in the tail", one(full), one(checked)),
            Some(Tail::TwoTexts | Tail::Open | Tail::Predicates | Tail::OneText) | None => format!(", {}", one(checked)),
        }
    }

    fn meet(&mut self, meet: &Meet) {
        let what = match meet {
            Meet::Loop => "what the loop does meets what was done before it".to_string(),
            Meet::Shared => "a shared array that was touched before is touched".to_string(),
            Meet::Memory(_) => "another thread may have been there".to_string(),
            Meet::Replaced => "the last copies may still be read".to_string(),
            Meet::Copied { asynchronous: true } => "the copies have landed, and all see them".to_string(),
            Meet::Copied { asynchronous: false } => "all see the copies".to_string(),
            Meet::SamePlace { earlier, .. } => format!("unless it lies as at {} before", plural(earlier.len(), "access", "accesses")),
        };
        self.beside("barrier", &format!("// {what}"));
    }

    /// The layout that a value has by its shape.
    fn own(&self, value: ValueId) -> String {
        let form = self.kernel.value(value).form;
        let dealt = form.and_then(|form| self.kernel.teams[0].dealt.get(form as usize));
        dealt.map_or(String::new(), |dealt| format!(" {}", self.layout_name(&dealt.own)))
    }

    fn window(&self, window: &Window) -> String {
        let shifts: Vec<String> = window.shift.iter().map(|s| s.map_or(String::new(), |s| format!(" + {}", self.scalar(s)))).collect();
        let index: Vec<String> = window.tile.index.iter().zip(shifts).map(|(i, s)| format!("{}{s}", self.index(i))).collect();
        let outside = format!("{:?}", window.boundary).to_lowercase();
        format!("{}[{}], outside {outside}", self.view(window.tile.view), index.join(", "))
    }

    fn branch(&mut self, condition: ValueId, then: &Block, otherwise: &Block, results: &[super::Branch]) {
        let side = |page: &Self, of: fn(&super::Branch) -> ValueId| page.list(&results.iter().map(of).collect::<Vec<_>>());
        let out = side(self, |r| r.result);
        let head = if out.is_empty() { String::new() } else { format!("{out} = ") };
        let gives = |text: String| if text.is_empty() { text } else { format!(" gives {text}") };
        let (first, second) = (gives(side(self, |r| r.then)), gives(side(self, |r| r.otherwise)));
        let between = format!("}}{first} else {{");
        self.nested(&format!("{head}if {}", self.scalar(condition)), then, &between);
        self.block(otherwise);
        self.line(&format!("}}{second}"));
    }

    /// What some threads do for the block, and how the others come to know of it.
    fn alone(&mut self, alone: &Alone) {
        let one = self.kernel.alone.get(alone.team).is_some_and(|team| team.threads == 1);
        let who = if one { "thread 0" } else { "warp 0" };
        let again: Vec<ValueId> = alone.again.iter().filter_map(|s| if let Stmt::Let(v, _) = s { Some(*v) } else { None }).collect();
        let again = if again.is_empty() { String::new() } else { format!(", which makes {} again", self.list(&again)) };
        let told = match alone.told {
            Told::Block => "through shared memory, barrier block",
            Told::Warp => "by shuffles",
        };
        let gives = if alone.gives.is_empty() { String::new() } else { format!(" gives {}", self.list(&alone.gives)) };
        self.nested(&format!("by {who} alone{again}"), &alone.body, &format!("}}{gives} {told}"));
    }

    fn carries(&self, carries: &[Carry]) -> String {
        let one = |c: &Carry| format!("{} from {}", self.name(c.inner), self.scalar(c.init));
        let all: Vec<String> = carries.iter().map(one).collect();
        if all.is_empty() { String::new() } else { format!(", carry {}", all.join(", ")) }
    }

    /// The end of a loop: what goes on to the next iteration, and what comes out.
    fn next(&self, carries: &[Carry]) -> String {
        let one = |c: &Carry| format!("{} <- {}", self.name(c.inner), self.scalar(c.next));
        let out = carries.iter().map(|c| self.name(c.result)).collect::<Vec<_>>().join(", ");
        let all: Vec<String> = carries.iter().map(one).collect();
        if all.is_empty() { "}".into() } else { format!("}} next {} gives {out}", all.join(", ")) }
    }

    fn finish(&mut self, finish: &Finish) {
        finish.before.iter().for_each(|stmt| self.stmt(stmt));
        finish.combines.iter().for_each(|c| self.combine(c));
        let head = match &finish.way {
            FinishWay::SingleBlock => "then",
            FinishWay::LastBlock { words: true, .. } => "last block, the one of the highest number, which waits for the others' words",
            FinishWay::LastBlock { passed_on: true, .. } => "last block by ticket, with what others have written",
            FinishWay::LastBlock { .. } => "last block by ticket",
            FinishWay::Atomics { .. } => "last block by ticket, behind totals",
            FinishWay::SecondLaunch { again } => {
                self.nested("second launch computes again", again, "}");
                "second launch"
            }
        };
        self.nested(head, &finish.after, "}");
    }
}

/// The digits of a layout's axes.
fn digits(layout: &Layout) -> String {
    let digit = |d: &girih_ir::layout::Digit| {
        let source = if d.source == Source::Register { 'r' } else { 't' };
        if d.stride == 1 { format!("{source}{}", d.extent) } else { format!("{source}{}/{}", d.extent, d.stride) }
    };
    let axis = |digits: &Vec<girih_ir::layout::Digit>| {
        if digits.is_empty() { "1".to_string() } else { digits.iter().map(digit).collect::<Vec<_>>().join(" ") }
    };
    format!("[{}]", layout.axes.iter().map(axis).collect::<Vec<_>>().join(", "))
}

fn plural(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// How a place is read.
fn reading(read: &Reading) -> String {
    if !read.shared {
        return String::new();
    }
    let by = if read.asynchronous { "cp.async" } else { "registers" };
    format!(", to shared memory by {by}{}", if read.transposed { ", transposed" } else { "" })
}
