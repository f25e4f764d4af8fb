//! The author's names for values of the host: `const long long half = N64 / 2;` where a value is used more than once.
//!
//! A value is computed where the program names it, or before the temporaries where their lengths need it; what the uses would compute by
//! themselves is the same, for expressions have no effects and a name ends where a variable of its value changes.

use super::body::Body;
use super::expr::host_type;
use super::names::Let;
use girih_ir::program::{Expr, Stmt};
use std::collections::{BTreeSet, HashSet};

/// One of the program's `Let`s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum LetId {
    /// By its number in the order of the text, where the program has it.
    There(usize),
    /// By its number in the body, before the temporaries.
    Before(usize),
}

/// Which values have a name.
pub(super) struct Lets {
    /// Values that are used at most once: they have none.
    dropped: HashSet<LetId>,
    /// `Let`s so far.
    seen: usize,
    /// Constants that were written, by name.
    written: Vec<(LetId, String)>,
}

impl Lets {
    pub fn new(dropped: HashSet<LetId>) -> Lets {
        Lets { dropped, seen: 0, written: Vec::new() }
    }

    /// The next one in the order of the text.
    pub fn next(&mut self) -> LetId {
        self.seen += 1;
        LetId::There(self.seen - 1)
    }

    /// Passes by statements that are not written.
    pub fn pass_by(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Let { .. } => self.seen += 1,
                Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| self.pass_by(b)),
                Stmt::For { body, .. } => self.pass_by(body),
                Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| self.pass_by(b)),
                Stmt::Launch { .. } | Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Set { .. } | Stmt::ReadBack { .. } => {}
            }
        }
    }

    /// Whether the next statements are none but values without names.
    pub fn write_nothing(&self, body: &[Stmt]) -> bool {
        let dropped = |(i, stmt): (usize, &Stmt)| matches!(stmt, Stmt::Let { .. }) && self.dropped.contains(&LetId::There(self.seen + i));
        body.iter().enumerate().all(dropped)
    }
}

impl Body<'_> {
    /// Declares the constant of a value, unless that is a constant or a name by itself.
    pub(super) fn declare(&mut self, id: LetId, name: &str, value: &Expr) {
        let text = self.names.expr(value);
        if self.lets.dropped.contains(&id) || text.constant.is_some() || text.is_name() {
            return;
        }
        let name = self.new_name(name);
        self.line(format!("const {} {name} = {};", host_type(self.names.dtype(value)), text.text));
        self.names.lets.push(Let { value: value.clone(), text: text.named(name.clone()), depth: self.depth });
        self.lets.written.push((id, name));
    }

    /// Declares what the lengths of temporaries are made of: these have their memory before the first statement.
    pub(super) fn lets_of_temps(&mut self) {
        let program = self.names.program;
        let lens = program.temps.iter().flat_map(|t| &t.lens);
        let needed = |value: &Expr| value.is_fixed() && lens.clone().any(|len| len.any(&|part| part == value));
        for (i, stmt) in program.body.iter().enumerate() {
            if let Stmt::Let { name, value } = stmt
                && needed(value)
            {
                self.declare(LetId::Before(i), name, value);
            }
        }
    }

    /// Variables that change: values that are made of them have no name from here on.
    pub(super) fn changed(&mut self, vars: &BTreeSet<u32>) {
        self.names.lets.retain(|l| !l.value.any(&|e| matches!(e, Expr::Var(v) if vars.contains(&v.0))));
    }

    /// Constants that the text uses at most once.
    pub(super) fn rare_lets(&self) -> Vec<LetId> {
        let code = self.out.lines().map(|line| line.split("//").next().unwrap_or_default());
        let words: Vec<&str> = code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect();
        // One of them is the declaration.
        let rare = |name: &String| words.iter().filter(|w| *w == name).count() < 3;
        self.lets.written.iter().filter(|(_, name)| rare(name)).map(|(id, _)| *id).collect()
    }
}
