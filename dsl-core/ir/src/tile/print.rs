//! Text form of tile IR: complete, readable, without paths of files. A kernel's identity is a hash of it.
//!
//! ```text
//! kernel vector_add
//!   a: &f32[1], b: &f32[1], c: &mut f32[1]
//!   knob T = tile [256, 512]
//!   view a = a: f32, offset 0, axes (a.len(0) by a.stride(0))
//!   grid t in tiles of c (T) {                               // 7:5
//!     %0: f32[T] = load a (t)                                // 8:20
//! ```
//!
//! Constants, parameters, lengths and strides stand where they are used; all other values have the author's name or a number.

pub mod definitions;
mod header;
mod names;

pub use definitions::definitions;

use super::{Block, Carry, Combine, Fold, Form, Index, Kernel, Op, Operator, Stmt, Ty, ValueId};
use super::{SharedAccess, SharedKind, Update};
use crate::loc::SourceLoc;
use std::collections::HashMap;
use std::fmt::Write;

/// Whether source lines stand beside the statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Places {
    /// As comments: `// 8:20`.
    Shown,
    /// Left out: the text says what is computed and nothing else.
    Hidden,
}

/// The kernel as text, with source lines.
pub fn print(kernel: &Kernel) -> String {
    print_with(kernel, Places::Shown)
}

/// The kernel as text.
pub fn print_with(kernel: &Kernel, places: Places) -> String {
    let mut printer = Printer { kernel, places, names: HashMap::new(), taken: HashMap::new(), unnamed: 0, out: String::new(), indent: 1 };
    printer.name_all();
    printer.header();
    printer.block(&kernel.body);
    printer.out
}

struct Printer<'a> {
    kernel: &'a Kernel,
    places: Places,
    names: HashMap<ValueId, String>,
    taken: HashMap<String, usize>,
    unnamed: usize,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn block(&mut self, block: &Block) {
        block.iter().for_each(|s| self.stmt(s));
    }

    fn nested(&mut self, head: &str, loc: SourceLoc, body: &Block) {
        self.located(&format!("{head} {{"), loc);
        self.indent += 1;
        self.block(body);
        self.indent -= 1;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let(_, Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..)) => {}
            Stmt::Combine(c) => self.combine(c),
            Stmt::Let(v, op) => {
                let text = format!("{}: {} = {}", self.v(*v), self.ty(self.kernel.ty(*v)), self.op(op));
                self.located(&text, self.kernel.value(*v).loc);
                if let Op::Dot { fold: Some(fold), .. } = op {
                    self.fold(fold);
                }
            }
            Stmt::Store { view, index, value, loc } => {
                self.located(&format!("store {} ({}), {}", self.view(*view), self.index(index), self.v(*value)), *loc);
            }
            Stmt::Scatter { view, indices, value, run, loc } => {
                let what = if run.is_some() { "scatter runs" } else { "scatter" };
                self.located(&format!("{what} {} ({}), {}", self.view(*view), self.list(indices), self.v(*value)), *loc);
            }
            Stmt::Atomic { update, view, scope, order, loc } => {
                let how = format!("{scope:?} {order:?}").to_lowercase();
                let place = self.view(*view);
                self.atomic(update, &how, &place, *loc);
            }
            Stmt::Shared(access) => self.shared(access),
            Stmt::Barrier { scope, loc } => self.located(&format!("barrier {scope:?}").to_lowercase(), *loc),
            Stmt::Copies { pending: None, loc } => self.located("close group of copies", *loc),
            Stmt::Copies { pending: Some(n), loc } => self.located(&format!("await copies until {n} groups pending"), *loc),
            Stmt::Tiles(l) => {
                let vars: Vec<String> = l
                    .vars
                    .iter()
                    .zip(&l.axes)
                    .map(|(v, a)| format!("{}: {} of axis {a}", self.v(*v), self.ty(self.kernel.ty(*v))))
                    .collect();
                let grid = if self.indent == 1 { "grid" } else { "for" };
                let strided = if l.strided { " strided" } else { "" };
                let strided = if l.in_order { " in order" } else { strided };
                let span = l.span.map_or(String::new(), |s| {
                    format!(" within {}{}..{}", if s.drawn { "the tile " } else { "" }, self.v(s.first), self.v(s.end))
                });
                let head = format!("{grid} {} in {}{span}{strided}{}", vars.join(", "), self.view(l.view), self.carries(&l.carries));
                self.nested(&head, l.loc, &l.body);
                self.end(&l.carries);
            }
            Stmt::Range { var, start, end, carries, body, loc } => {
                let head = format!("for {} in {}..{}{}", self.v(*var), self.v(*start), self.v(*end), self.carries(carries));
                self.nested(&head, *loc, body);
                self.end(carries);
            }
            Stmt::While { once, carries, header, condition, body, loc } => {
                let word = if *once { "once" } else { "while" };
                self.nested(&format!("{word}{}", self.carries(carries)), *loc, header);
                self.line(&format!("}} is {} {{", self.v(*condition)));
                self.indent += 1;
                self.block(body);
                self.indent -= 1;
                self.end(carries);
            }
            Stmt::If { condition, then, otherwise, results, loc } => {
                self.nested(&format!("if {}", self.v(*condition)), *loc, then);
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.indent += 1;
                    self.block(otherwise);
                    self.indent -= 1;
                }
                self.line("}");
                for r in results {
                    let ty = self.ty(self.kernel.ty(r.result));
                    self.line(&format!("{}: {ty} = {} if so, else {}", self.v(r.result), self.v(r.then), self.v(r.otherwise)));
                }
            }
            Stmt::Where { mask, negate, body, loc } => {
                self.nested(&format!("where {}{}", if *negate { "not " } else { "" }, self.v(*mask)), *loc, body);
                self.line("}");
            }
        }
    }

    fn carries(&self, carries: &[Carry]) -> String {
        let all: Vec<String> = carries.iter().map(|c| format!("{} = {}", self.v(c.inner), self.v(c.init))).collect();
        if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
    }

    fn end(&mut self, carries: &[Carry]) {
        let all: Vec<String> = carries.iter().map(|c| format!("{} to {}", self.v(c.next), self.v(c.result))).collect();
        self.line(&if all.is_empty() { "}".to_string() } else { format!("}} next {}", all.join(", ")) });
    }

    fn op(&self, op: &Op) -> String {
        let lower = |d: &dyn std::fmt::Debug| format!("{d:?}").to_lowercase();
        match op {
            Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) => panic!("print: a leaf is printed where it is used"),
            Op::Unary(o, a) => format!("{} {}", lower(o), self.v(*a)),
            Op::Binary(o, a, b) => format!("{} {}, {}", lower(o), self.v(*a), self.v(*b)),
            Op::Ternary(o, a, b, c) => format!("{} {}", lower(o), self.list(&[*a, *b, *c])),
            Op::Compare(o, a, b) => format!("{} {}, {}", lower(o), self.v(*a), self.v(*b)),
            Op::Select(c, a, b) => format!("select {}", self.list(&[*c, *a, *b])),
            Op::Cast(a) => format!("cast {}", self.v(*a)),
            Op::Bitcast(a) => format!("bitcast {}", self.v(*a)),
            Op::Splat(a) => format!("splat {}", self.v(*a)),
            Op::Like { value, model } => format!("like {}, {}", self.v(*model), self.v(*value)),
            Op::Or { tile, absent } => format!("or {}, {}", self.v(*tile), self.v(*absent)),
            Op::Total { scan, axis } => format!("total {} axis {axis}", self.v(*scan)),
            Op::Within(a, ends) => {
                let axes: Vec<String> = ends.iter().map(|e| e.map_or("_".into(), |v| self.v(v))).collect();
                format!("within {} ({})", self.v(*a), axes.join(", "))
            }
            Op::Broadcast(a, from) => {
                let axes: Vec<String> = from.iter().map(|f| f.map_or("new".into(), |k| k.to_string())).collect();
                format!("broadcast {} axes [{}]", self.v(*a), axes.join(", "))
            }
            Op::Transpose(a, perm) => format!("transpose {} axes {perm:?}", self.v(*a)),
            Op::Pick { tile, axis, at } => format!("pick {} axis {axis} at {at}", self.v(*tile)),
            Op::Stack(all) => format!("stack {}", self.list(all)),
            Op::Coordinates(a) => format!("coordinates {}", self.v(*a)),
            Op::Start(a) => format!("start {}", self.v(*a)),
            Op::End(a) => format!("end {}", self.v(*a)),
            Op::Window { view, index, shift, boundary } => {
                let axis = |(i, s): (&ValueId, &Option<ValueId>)| match s {
                    Some(s) => format!("{} + {}", self.v(*i), self.v(*s)),
                    None => self.v(*i),
                };
                let axes: Vec<String> = index.iter().zip(shift).map(axis).collect();
                format!("window {} ({}) {}", self.view(*view), axes.join(", "), lower(boundary))
            }
            Op::Shuffle { value, kind, lane } => {
                format!("shuffle {} {} {}", format!("{kind:?}").to_lowercase(), self.v(*value), self.v(*lane))
            }
            Op::Vote(kind, mask) => format!("vote {} {}", format!("{kind:?}").to_lowercase(), self.v(*mask)),
            Op::Dot { a, b, acc, .. } => format!("dot {}", self.list(&[*a, *b, *acc])),
            Op::Near(window, offsets) => format!("near {} ({})", self.v(*window), self.list(offsets)),
            Op::Iota => "iota".into(),
            Op::Number(a) => format!("number {}", self.v(*a)),
            Op::Load(view, index) => format!("load {} ({})", self.view(*view), self.index(index)),
            Op::Gather(view, indices) => format!("gather {} ({})", self.view(*view), self.list(indices)),
            Op::GatherInside(view, indices) => format!("gather inside {} ({})", self.view(*view), self.list(indices)),
        }
    }

    /// A read-modify-write of a place that is already text.
    fn atomic(&mut self, update: &Update, how: &str, place: &str, loc: SourceLoc) {
        let result = update.result.map(|r| format!("{}: {} = ", self.v(r), self.ty(self.kernel.ty(r)))).unwrap_or_default();
        let expected = update.expected.map(|e| format!("{} -> ", self.v(e))).unwrap_or_default();
        let op = format!("{:?}", update.op).to_lowercase();
        let indices = self.list(&update.indices);
        self.located(&format!("{result}atomic {op} {how} {place} ({indices}), {expected}{}", self.v(update.value)), loc);
    }

    fn shared(&mut self, access: &SharedAccess) {
        let array = self.array(access.array);
        let text = match &access.kind {
            SharedKind::Fill(v) => format!("fill {array}, {}", self.v(*v)),
            SharedKind::Empty => format!("empty {array}"),
            SharedKind::Gather { indices, result, inside } => {
                let inside = if *inside { "inside " } else { "" };
                format!("{}: {} = gather {inside}{array} ({})", self.v(*result), self.ty(self.kernel.ty(*result)), self.list(indices))
            }
            SharedKind::Scatter { indices, value } => format!("scatter {array} ({}), {}", self.list(indices), self.v(*value)),
            SharedKind::Atomic(update) => return self.atomic(update, "shared", &array, access.loc),
            SharedKind::GatherRun { indices, result } => {
                format!("{}: {} = gather runs {array} ({})", self.v(*result), self.ty(self.kernel.ty(*result)), self.list(indices))
            }
            SharedKind::ScatterRun { indices, value } => format!("scatter runs {array} ({}), {}", self.list(indices), self.v(*value)),
            SharedKind::Copy { indices, view, from, run } => {
                format!("copy {run} of {} ({}) to {array} ({})", self.view(*view), self.list(from), self.list(indices))
            }
            SharedKind::Start(v) => format!("start {array}, {}", self.v(*v)),
            SharedKind::Take { result } => format!("{}: {} = take {array}", self.v(*result), self.ty(self.kernel.ty(*result))),
            SharedKind::Leave(v) => format!("leave {array}, {}", self.v(*v)),
        };
        self.located(&text, access.loc);
    }

    fn combine(&mut self, c: &Combine) {
        let form = match &c.form {
            Form::Reduce { axes } => format!("reduce {} {} axes {axes:?}", c.operator.word(), self.list(&c.inputs)),
            Form::Scan { axis, exclusive, reversed, over_grid } => {
                let how = [(*exclusive, " exclusive"), (*reversed, " reversed"), (*over_grid, " over the grid")];
                let how = how.iter().filter(|h| h.0).map(|h| h.1).collect::<String>();
                format!("scan {} {} axis {axis}{how}", c.operator.word(), self.list(&c.inputs))
            }
            Form::Before => format!("over the tiles before {} {}", c.operator.word(), self.list(&c.inputs)),
            Form::Grid => format!("over the grid {} {}", c.operator.word(), self.list(&c.inputs)),
        };
        let types: Vec<String> = c.results.iter().map(|r| self.ty(self.kernel.ty(*r))).collect();
        self.located(&format!("{}: {} = {form}", self.list(&c.results), types.join(", ")), c.loc);
        if let Operator::User { identity, arguments, body, results, commutative } = &c.operator {
            let identity: Vec<String> = identity.iter().map(|l| l.to_string()).collect();
            let order = if *commutative { " in any order" } else { "" };
            let head = format!("by ({}) from ({}){order}", self.list(arguments), identity.join(", "));
            self.nested(&head, SourceLoc::NONE, body);
            self.line(&format!("}} = ({})", self.list(results)));
        }
    }

    /// The author's operations of a dot.
    fn fold(&mut self, fold: &Fold) {
        let head = format!("by ({}) from ({})", self.list(&fold.arguments), fold.absent);
        let body = fold.steps.iter().map(|(v, op)| Stmt::Let(*v, op.clone())).collect();
        self.nested(&head, SourceLoc::NONE, &body);
        self.line(&format!("}} = ({})", self.v(fold.result)));
    }

    fn list(&self, values: &[ValueId]) -> String {
        values.iter().map(|v| self.v(*v)).collect::<Vec<_>>().join(", ")
    }

    fn index(&self, index: &[Index]) -> String {
        let one = |i: &Index| match i {
            Index::Tile(v) => self.v(*v),
            Index::At(v) => format!("at {}", self.v(*v)),
            Index::All(n) => format!("..{n}"),
        };
        index.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn ty(&self, ty: &Ty) -> String {
        let size = |s: &super::Size| s.display(&self.kernel.knobs);
        match ty {
            Ty::Scalar(d) => d.to_string(),
            Ty::Tile(d, shape) => format!("{d}[{}]", shape.iter().map(size).collect::<Vec<_>>().join(", ")),
            Ty::TileIdx(s) => format!("tile {}", size(s)),
            Ty::Window(d, reach) => {
                let axis = |r: &super::Reach| format!("{} - {} + {}", size(&r.size), size(&r.before), size(&r.after));
                format!("{d} window [{}]", reach.iter().map(axis).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn line(&mut self, text: &str) {
        self.located(text, SourceLoc::NONE);
    }

    fn located(&mut self, text: &str, loc: SourceLoc) {
        let line = format!("{}{text}", "  ".repeat(self.indent));
        let width = line.chars().count();
        self.out.push_str(&line);
        self.place(loc, width);
    }

    fn place(&mut self, loc: SourceLoc, width: usize) {
        if self.places == Places::Shown && loc.line > 0 {
            let _ = write!(self.out, "{}  // {}:{}", " ".repeat(64usize.saturating_sub(width)), loc.line, loc.column);
        }
        self.out.push('\n');
    }
}
