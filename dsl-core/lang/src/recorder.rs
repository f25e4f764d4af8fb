//! Records a program: expressions that the host computes, tensors with their windows, and statements.

use super::session::Handle;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program::{Base, Expr, Program, Requirement, ScalarVar, Stmt, Temp, TensorView};
use girih_ir::scalar;
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal, UnaryOp};

/// A program's recording.
pub(crate) struct ProgramBuilder {
    /// The recording's stamp, which handles carry.
    pub(crate) build: u32,
    /// What is being recorded; its body is filled in at the end.
    pub(crate) program: Program,
    /// Mistakes so far.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Tensors and views, by the number of their handle.
    pub(crate) views: Vec<ProgramTensor>,
    /// The handles of the parameters.
    pub(crate) params: Vec<Handle>,
    /// Number of launches so far.
    pub(crate) sites: usize,
    /// Arguments of a program that is called by this one, until its body takes them.
    pub(crate) inline: Option<Vec<Handle>>,
    exprs: Vec<Known>,
    regions: Vec<(u32, Vec<Stmt>)>,
    /// When the open regions are reached, but the body's own, which always is.
    reached: Vec<Reached>,
    region_open: Vec<bool>,
}

/// When the statements of a region are run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Reached {
    /// Where this holds, which the program's parameters decide.
    Where(Expr),
    /// That depends on loops or on values read back.
    Perhaps,
}

impl Reached {
    /// Where the condition holds.
    pub(crate) fn when(condition: Expr) -> Reached {
        if is_fixed(&condition) { Reached::Where(condition) } else { Reached::Perhaps }
    }
}

/// A tensor of a program.
#[derive(Clone)]
pub(crate) struct ProgramTensor {
    /// Its memory.
    pub(crate) view: TensorView,
    /// May be written.
    pub(crate) mutable: bool,
    /// How the author wrote it.
    pub(crate) text: String,
}

struct Known {
    expr: Expr,
    dtype: DType,
    home: u32,
    loc: SourceLoc,
}

impl ProgramBuilder {
    /// A recording of a program whose header is `program`.
    pub(crate) fn new(program: Program, build: u32) -> ProgramBuilder {
        ProgramBuilder {
            build,
            program,
            diagnostics: Vec::new(),
            views: Vec::new(),
            params: Vec::new(),
            sites: 0,
            inline: None,
            exprs: Vec::new(),
            regions: vec![(0, Vec::new())],
            reached: Vec::new(),
            region_open: vec![true],
        }
    }

    /// The program, or the mistakes.
    pub(crate) fn finish(mut self) -> Result<Program, Vec<Diagnostic>> {
        if !self.diagnostics.is_empty() {
            return Err(self.diagnostics);
        }
        assert!(self.regions.len() == 1, "language: a region is still open at the end of {}", self.program.name);
        self.program.body = self.regions.remove(0).1;
        Ok(self.program)
    }

    /// Records a mistake; poison.
    pub(crate) fn error(&mut self, diagnostic: Diagnostic) -> Handle {
        if !self.diagnostics.iter().any(|d| d.loc == diagnostic.loc && d.message == diagnostic.message) {
            self.diagnostics.push(diagnostic);
        }
        Handle::POISON
    }

    /// The handle of a parameter: of the program, or of the one that it calls at the moment.
    pub(crate) fn argument(&self, index: usize) -> Handle {
        self.inline.as_ref().unwrap_or(&self.params)[index]
    }

    /// The handle of an expression.
    pub(crate) fn expr(&mut self, expr: Expr, dtype: DType, loc: SourceLoc) -> Handle {
        let home = self.regions.last().map_or(0, |r| r.0);
        self.exprs.push(Known { expr, dtype, home, loc });
        Handle::new(self.exprs.len() as u32 - 1, self.build)
    }

    /// The handle of an expression that is usable in the region `depth` levels out.
    pub(crate) fn expr_outside(&mut self, expr: Expr, dtype: DType, depth: usize, loc: SourceLoc) -> Handle {
        let home = self.regions[self.regions.len() - 1 - depth].0;
        self.exprs.push(Known { expr, dtype, home, loc });
        Handle::new(self.exprs.len() as u32 - 1, self.build)
    }

    /// The expression of a handle; `None` for poison. One whose loop or branch has ended is a mistake.
    pub(crate) fn read(&mut self, handle: Handle, loc: SourceLoc) -> Option<(Expr, DType)> {
        let known = &self.exprs[handle.get(self.build)? as usize];
        if self.region_open[known.home as usize] || is_fixed(&known.expr) {
            return Some((known.expr.clone(), known.dtype));
        }
        let made = known.loc;
        self.error(
            Diagnostic::new(loc, "this value is used outside of the loop or branch in which it was made")
                .note("made here", made)
                .help("assign it to a variable that is declared before the loop or branch: such a variable is carried out"),
        );
        None
    }

    /// The number of the innermost region.
    pub(crate) fn region(&self) -> u32 {
        self.regions.last().map_or(0, |r| r.0)
    }

    /// As [`ProgramBuilder::read`] for the result of a branch whose region `own` has just been closed.
    pub(crate) fn read_of(&mut self, handle: Handle, own: u32, loc: SourceLoc) -> Option<(Expr, DType)> {
        let known = &self.exprs[handle.get(self.build)? as usize];
        if known.home == own { Some((known.expr.clone(), known.dtype)) } else { self.read(handle, loc) }
    }

    /// The element type of a handle.
    pub(crate) fn dtype(&self, handle: Handle) -> Option<DType> {
        handle.get(self.build).map(|id| self.exprs[id as usize].dtype)
    }

    /// `op a`.
    pub(crate) fn unary(&mut self, op: UnaryOp, a: Handle, loc: SourceLoc) -> Handle {
        let Some((a, d)) = self.read(a, loc) else { return Handle::POISON };
        self.expr(Expr::Unary(op, Box::new(a)), d, loc)
    }

    /// `a op b`.
    pub(crate) fn binary(&mut self, op: BinaryOp, a: Handle, b: Handle, loc: SourceLoc) -> Handle {
        let (Some((a, d)), Some((b, _))) = (self.read(a, loc), self.read(b, loc)) else { return Handle::POISON };
        self.expr(binary(op, a, b), d, loc)
    }

    /// `a op b`, bool.
    pub(crate) fn compare(&mut self, op: CompareOp, a: Handle, b: Handle, loc: SourceLoc) -> Handle {
        let (Some((a, _)), Some((b, _))) = (self.read(a, loc), self.read(b, loc)) else { return Handle::POISON };
        self.expr(Expr::Compare(op, Box::new(a), Box::new(b)), DType::Bool, loc)
    }

    /// `condition ? a : b`.
    pub(crate) fn select(&mut self, c: Handle, a: Handle, b: Handle, loc: SourceLoc) -> Handle {
        let (Some((c, _)), Some((a, d)), Some((b, _))) = (self.read(c, loc), self.read(a, loc), self.read(b, loc)) else {
            return Handle::POISON;
        };
        self.expr(Expr::Select(Box::new(c), Box::new(a), Box::new(b)), d, loc)
    }

    /// Conversion.
    pub(crate) fn cast(&mut self, to: DType, a: Handle, loc: SourceLoc) -> Handle {
        let Some((a, d)) = self.read(a, loc) else { return Handle::POISON };
        let expr = match a {
            a if d == to => a,
            Expr::Literal(l) => Expr::Literal(Literal { dtype: to, bits: scalar::cast(d, to, l.bits) }),
            a => Expr::Cast(to, Box::new(a)),
        };
        self.expr(expr, to, loc)
    }

    /// A new scalar variable.
    pub(crate) fn var(&mut self, dtype: DType, name: &str) -> ScalarVar {
        self.program.scalars.push((dtype, name.to_string()));
        ScalarVar(self.program.scalars.len() as u32 - 1)
    }

    /// Opens a region.
    pub(crate) fn open(&mut self, reached: Reached) {
        self.reached.push(reached);
        let id = self.region_open.len() as u32;
        self.region_open.push(true);
        self.regions.push((id, Vec::new()));
    }

    /// Closes the innermost region.
    pub(crate) fn close(&mut self) -> Vec<Stmt> {
        let (id, stmts) = self.regions.pop().expect("language: a region is closed that was opened");
        self.region_open[id as usize] = false;
        self.reached.pop();
        stmts
    }

    /// Appends a statement.
    pub(crate) fn push(&mut self, stmt: Stmt) {
        self.regions.last_mut().expect("language: the body's own region is open").1.push(stmt);
    }

    /// Appends a statement to the region around the innermost one.
    pub(crate) fn push_outside(&mut self, stmt: Stmt) {
        let outer = self.regions.len() - 2;
        self.regions[outer].1.push(stmt);
    }

    /// Adds a tensor or view.
    pub(crate) fn tensor(&mut self, tensor: ProgramTensor) -> Handle {
        self.views.push(tensor);
        Handle::new(self.views.len() as u32 - 1, self.build)
    }

    /// The tensor of a handle.
    pub(crate) fn view(&self, handle: Handle) -> Option<&ProgramTensor> {
        handle.get(self.build).map(|id| &self.views[id as usize])
    }

    /// Adds something that a call must satisfy, unless constants already do. Loops' values are refused.
    pub(crate) fn require(&mut self, (op, a, b): (CompareOp, Expr, Expr), rule: &'static str, loc: SourceLoc) {
        if let (Expr::Literal(x), Expr::Literal(y)) = (&a, &b)
            && x.dtype == y.dtype
            && scalar::compare_fn(op, x.dtype).is_some_and(|f| f(x.bits, y.bits))
        {
            return;
        }
        if a == b && matches!(op, CompareOp::Le | CompareOp::Ge | CompareOp::Eq) {
            return;
        }
        if !is_fixed(&a) || !is_fixed(&b) {
            let message = "the bounds of this view depend on a loop or on a value read back";
            self.error(Diagnostic::new(loc, message).help("compute them from the program's parameters alone"));
            return;
        }
        self.push_requirement(Expr::Compare(op, Box::new(a), Box::new(b)), rule, loc);
    }

    /// Adds what the author demands of a call.
    pub(crate) fn demand(&mut self, holds: Handle, loc: SourceLoc) {
        let Some((holds, _)) = self.read(holds, loc) else { return };
        match &holds {
            Expr::Literal(l) if l.bits != 0 => {}
            Expr::Literal(_) => {
                self.error(Diagnostic::new(loc, "a demand that no call meets").help("correct the condition"));
            }
            _ if !is_fixed(&holds) => {
                let message = "a demand on what depends on a loop or on a value read back";
                self.error(Diagnostic::new(loc, message).help("compute it from the program's parameters alone"));
            }
            _ => self.push_requirement(holds, "what the program demands", loc),
        }
    }

    fn push_requirement(&mut self, holds: Expr, rule: &'static str, loc: SourceLoc) {
        // What stands on one side of an `if` must hold only where that side runs.
        let yes = || Box::new(Expr::Literal(Literal::bool(true)));
        let holds = self.reached.iter().rev().fold(holds, |holds, reached| match reached {
            Reached::Where(condition) => Expr::Select(Box::new(condition.clone()), Box::new(holds), yes()),
            Reached::Perhaps => holds,
        });
        if !self.program.requirements.iter().any(|known| known.holds == holds) {
            self.program.requirements.push(Requirement { holds, rule, loc });
        }
    }

    /// Whether a call decides if the statement at hand is run: then a requirement of it can be checked before the call.
    pub(crate) fn decided(&self) -> bool {
        self.reached.iter().all(|r| *r != Reached::Perhaps)
    }

    /// Gives a temporary the author's name, where `tensor` is the whole of it and it has none.
    pub(crate) fn name_temp(&mut self, tensor: Handle, name: &str) {
        let Some(id) = tensor.get(self.build) else { return };
        let view = &mut self.views[id as usize];
        if let Base::Temp(t) = view.view.base
            && view.text == self.program.temps[t].name
            && view.text == format!("temp{t}")
        {
            let same = self.program.temps.iter().filter(|other| other.name.split('_').next() == Some(name)).count();
            let name = if same == 0 { name.to_string() } else { format!("{name}_{}", same + 1) };
            view.text = name.clone();
            self.program.temps[t].name = name;
        }
    }

    /// Remembers the author's name for a scalar that is computed.
    pub(crate) fn name_scalar(&mut self, scalar: Handle, name: &str) {
        let Some(known) = scalar.get(self.build).map(|id| &self.exprs[id as usize]) else { return };
        let leaf = matches!(known.expr, Expr::Literal(_) | Expr::Param(_) | Expr::Dim(..) | Expr::Var(_) | Expr::Variant(_));
        if !leaf && (self.region_open[known.home as usize] || is_fixed(&known.expr)) {
            let value = known.expr.clone();
            self.push(Stmt::Let { name: name.to_string(), value });
        }
    }

    /// Adds a temporary and gives its tensor.
    pub(crate) fn temp(&mut self, temp: Temp) -> usize {
        self.program.temps.push(temp);
        self.program.temps.len() - 1
    }
}

/// Depends on nothing but the program's parameters.
pub(crate) fn is_fixed(expr: &Expr) -> bool {
    expr.is_fixed()
}

/// An i64 constant.
pub(crate) fn index(value: i64) -> Expr {
    Expr::Literal(Literal::index(value))
}

/// `a op b`, folded where both are constants or one is neutral.
pub(crate) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let is = |e: &Expr, value| matches!(e, Expr::Literal(l) if l.dtype.is_int() && l.to_i64() == value);
    match (op, &a, &b) {
        (_, Expr::Literal(x), Expr::Literal(y)) if x.dtype == y.dtype && x.dtype.is_int() => match scalar::binary_fn(op, x.dtype) {
            Some(f) => Expr::Literal(Literal { dtype: x.dtype, bits: f(x.bits, y.bits) }),
            None => Expr::Binary(op, Box::new(a), Box::new(b)),
        },
        (BinaryOp::Add | BinaryOp::Sub, _, y) if is(y, 0) => a,
        (BinaryOp::Mul | BinaryOp::Div, _, y) if is(y, 1) => a,
        (BinaryOp::Add, x, _) if is(x, 0) => b,
        (BinaryOp::Mul, x, _) if is(x, 1) || is(x, 0) && is_fixed(&b) => {
            if is(x, 1) {
                b
            } else {
                a
            }
        }
        (BinaryOp::Mul, _, y) if is(y, 0) => b,
        _ => Expr::Binary(op, Box::new(a), Box::new(b)),
    }
}
