//! The text of one kernel as it grows: lines, indentation, names.

use super::helpers::Helper;
use super::names::Namer;
use super::wrap::Data;
use girih_ir::simt::visit::{inner_blocks, received};
use girih_ir::simt::{Kernel, ParamKind, Space, Stmt, VarId};
use girih_ir::types::DType;
use std::collections::BTreeSet;

const INDENT: &str = "    ";
/// Lines beyond this are broken where that is easy to read.
const LONG: usize = 120;

/// Writes one kernel.
pub(super) struct Writer<'a> {
    pub kernel: &'a Kernel,
    pub data: Data,
    /// Names of the parameters.
    pub params: Vec<String>,
    /// Names of the shared arrays.
    pub shared: Vec<String>,
    /// Alignment in bytes of each array variable that vector accesses touch, else 0.
    pub var_align: Vec<u32>,
    /// Variables that a statement of their own declares; others are declared by the shuffle or atomic that sets them.
    pub declared: Vec<bool>,
    /// Statements that set a variable.
    sets: Vec<u32>,
    /// The end of the unrolled loop that a variable counts, if it does.
    pub below: Vec<Option<i64>>,
    /// Variables that change after their declaration.
    pub mutable: Vec<bool>,
    /// There are matrix instructions.
    pub has_matrix_units: bool,
    pub namer: Namer,
    vars: Vec<Option<String>>,
    helpers: &'a mut BTreeSet<Helper>,
    out: String,
    indent: usize,
}

impl<'a> Writer<'a> {
    pub fn new(kernel: &'a Kernel, helpers: &'a mut BTreeSet<Helper>) -> Writer<'a> {
        let mut namer = Namer::new(Helper::all_names());
        namer.name(&kernel.name);
        let params = kernel.params.iter().map(|p| namer.name(&p.name)).collect();
        let shared = kernel.shared.iter().map(|s| namer.name(&s.name)).collect();
        let mut writer = Writer {
            kernel,
            data: Data::of(kernel),
            params,
            shared,
            var_align: vec![0; kernel.vars.len()],
            declared: vec![false; kernel.vars.len()],
            below: vec![None; kernel.vars.len()],
            sets: vec![0; kernel.vars.len()],
            mutable: vec![false; kernel.vars.len()],
            has_matrix_units: false,
            namer,
            vars: vec![None; kernel.vars.len()],
            helpers,
            out: String::new(),
            indent: 1,
        };
        count_sets(&kernel.body, &mut writer.sets);
        writer.survey(&kernel.body);
        writer
    }

    /// A variable that only ever receives from one statement, such as a shuffle or an atomic, is declared there.
    pub fn declared_by_next(&self, stmt: &Stmt, next: Option<&Stmt>) -> bool {
        let receives = match next {
            Some(Stmt::Atomic { predicate: Some(_), .. }) | None => return false,
            Some(next) => given(next),
        };
        let Some(receives) = receives else { return false };
        matches!(stmt, Stmt::Declare { var, init: None } if *var == receives) && self.sets[receives.0 as usize] == 1
    }

    /// Notes alignment and declarations before anything is written.
    fn survey(&mut self, body: &[Stmt]) {
        for (i, stmt) in body.iter().enumerate() {
            if self.declared_by_next(stmt, body.get(i + 1)) {
                continue;
            }
            match stmt {
                Stmt::Let { var, .. } => self.declared[var.0 as usize] = true,
                Stmt::Declare { var, .. } => {
                    self.declared[var.0 as usize] = true;
                    self.mutable[var.0 as usize] = true;
                }
                Stmt::Assign { var, .. } => self.mutable[var.0 as usize] = true,
                Stmt::LoadVector { var, place, lanes, .. } | Stmt::StoreVector { var, place, lanes, .. } => {
                    let bytes = lanes * place.dtype.size() as u32;
                    let align = &mut self.var_align[var.0 as usize];
                    *align = (*align).max(bytes);
                }
                Stmt::Mma { d, a, b, c, .. } => {
                    self.has_matrix_units = true;
                    [d, a, b, c].into_iter().for_each(|f| self.align_words(f.var));
                }
                Stmt::LoadMatrix { var, .. } => self.align_words(*var),
                Stmt::Wgmma { d, a, .. } => [d].into_iter().chain(a.fragment()).for_each(|f| self.align_words(f.var)),
                Stmt::If { then, otherwise, .. } => {
                    self.survey(then);
                    self.survey(otherwise);
                }
                Stmt::For { var, body, .. } => {
                    self.mutable[var.0 as usize] = true;
                    self.survey(body);
                }
                Stmt::While { header, body, .. } => {
                    self.survey(header);
                    self.survey(body);
                }
                Stmt::Shuffle { .. }
                | Stmt::Vote { .. }
                | Stmt::WarpReduce { .. }
                | Stmt::LoadRelaxed { .. }
                | Stmt::Atomic { .. }
                | Stmt::LoadFromBlock { .. } => {
                    received(stmt).into_iter().for_each(|var| self.mutable[var.0 as usize] = true);
                }
                Stmt::Store { .. } | Stmt::StoreRelaxed { .. } | Stmt::Comment(_) => {}
                Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => {}
                Stmt::AsyncArrive { .. }
                | Stmt::MbarrierInit { .. }
                | Stmt::MbarrierArrive { .. }
                | Stmt::MbarrierArriveAt { .. }
                | Stmt::MbarrierWait { .. } => {}
                Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } => {}
                Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => {}
            }
        }
    }

    /// Matrix instructions take arrays by words of 32 bits.
    fn align_words(&mut self, var: VarId) {
        let align = &mut self.var_align[var.0 as usize];
        *align = (*align).max(4);
    }

    /// The name and element type of an access's memory.
    pub fn memory(&self, space: Space) -> (String, DType) {
        match space {
            Space::Global(p) => match &self.kernel.params[p].kind {
                ParamKind::Pointer { dtype, .. } | ParamKind::Workspace { dtype, .. } => (self.params[p].clone(), *dtype),
                _ => panic!("emit: parameter {p} is no pointer; the verifier lets none pass"),
            },
            Space::Constant(p) => match &self.kernel.params[p].kind {
                ParamKind::Constant { dtype, .. } => (self.params[p].clone(), *dtype),
                _ => panic!("emit: parameter {p} is no array in constant memory; the verifier lets none pass"),
            },
            Space::Shared(id) => (self.shared[id.0 as usize].clone(), self.kernel.shared[id.0 as usize].dtype),
        }
    }

    /// Prints a helper before the kernels.
    pub fn uses(&mut self, helper: Helper) {
        self.helpers.insert(helper);
        self.helpers.extend(helper.needs());
    }

    /// Gives a variable its name, in the innermost scope.
    pub fn declare(&mut self, var: VarId) -> String {
        let name = self.namer.name(&self.kernel.var(var).name);
        self.vars[var.0 as usize] = Some(name.clone());
        name
    }

    /// The name of a declared variable.
    pub fn var_name(&mut self, var: VarId) -> String {
        match &self.vars[var.0 as usize] {
            Some(name) => name.clone(),
            None => panic!("emit: `{}` is used before its declaration; the verifier lets none pass", self.kernel.var(var).name),
        }
    }

    /// Writes a line at the current indentation; a long assignment is broken after its `=`.
    pub fn line(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.out.extend(std::iter::repeat_n(INDENT, self.indent));
        match text.split_once(" = ") {
            Some((target, value))
                if self.indent * INDENT.len() + text.len() > LONG && !text.starts_with("//") && !text.starts_with("for") =>
            {
                self.out.push_str(target);
                self.out.push_str(" =\n");
                self.out.extend(std::iter::repeat_n(INDENT, self.indent + 1));
                self.out.push_str(value);
            }
            _ => self.out.push_str(text),
        }
        self.out.push('\n');
    }

    /// An empty line, unless a block or the text just began, or one is there already.
    pub fn gap(&mut self) {
        let text = self.out.trim_end_matches(' ');
        if !(text.is_empty() || text.ends_with("{\n") || text.ends_with("\n\n") || ends_with_comment(text)) {
            self.out.push('\n');
        }
    }

    /// Writes `head {`, the body in a scope of its own, and leaves the closing to the caller.
    pub fn open(&mut self, head: &str) {
        self.line(format!("{head} {{"));
        self.indent += 1;
        self.namer.open();
    }

    /// Ends a block with `}` and what follows it.
    pub fn close(&mut self, tail: &str) {
        self.namer.close();
        self.indent -= 1;
        self.line(format!("}}{tail}"));
    }

    /// Ends a block and opens the next on the same line: `} else {`. The head is written outside of both scopes.
    pub fn close_and_open(&mut self, head: impl FnOnce(&mut Self) -> String) {
        self.namer.close();
        let head = head(self);
        self.indent -= 1;
        self.line(format!("}} {head} {{"));
        self.indent += 1;
        self.namer.open();
    }

    pub fn finish(self) -> String {
        self.out
    }
}

fn ends_with_comment(text: &str) -> bool {
    text.lines().last().is_some_and(|l| l.trim_start().starts_with("//"))
}

/// The variable that a statement sets to what one call gives.
fn given(stmt: &Stmt) -> Option<VarId> {
    let by_lanes = matches!(stmt, Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. });
    let by_call = by_lanes || matches!(stmt, Stmt::LoadRelaxed { .. } | Stmt::Atomic { .. } | Stmt::LoadFromBlock { .. });
    if by_call { received(stmt) } else { None }
}

/// Counts the statements that set each variable.
fn count_sets(body: &[Stmt], sets: &mut [u32]) {
    for stmt in body {
        if let Stmt::Assign { var, .. } = stmt {
            sets[var.0 as usize] += 1;
        }
        given(stmt).into_iter().for_each(|var| sets[var.0 as usize] += 1);
        inner_blocks(stmt).into_iter().for_each(|b| count_sets(b, sets));
    }
}
