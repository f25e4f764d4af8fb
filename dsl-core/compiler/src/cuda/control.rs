//! Choices and loops as CUDA C.

use super::literal::c_type;
use super::writer::Writer;
use girih_ir::simt::{Expr, Stmt, VarId};

impl Writer<'_> {
    pub fn if_(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        let condition = self.expr(condition);
        self.open(&format!("if ({condition})"));
        self.body(then);
        self.otherwise(otherwise);
    }

    pub fn otherwise(&mut self, otherwise: &[Stmt]) {
        match otherwise {
            [] => self.close(""),
            [Stmt::If { condition, then, otherwise }] => {
                self.close_and_open(|this| format!("else if ({})", this.expr(condition)));
                self.body(then);
                self.otherwise(otherwise);
            }
            _ => {
                self.close_and_open(|_| "else".into());
                self.body(otherwise);
                self.close("");
            }
        }
    }

    pub fn for_(&mut self, var: VarId, [start, end, step]: [&Expr; 3], unroll: bool, body: &[Stmt]) {
        let ty = c_type(self.kernel.var(var).dtype);
        let literal_end = if let Expr::Literal(l) = end { Some(l.to_i64()) } else { None };
        let start = self.value(start);
        let hint = self.kernel.var(var).name.clone();
        // C evaluates the bound and the step at every turn, the IR once.
        let end = self.fixed(end, ty, &format!("{hint}_end"));
        let step = match step {
            Expr::Literal(l) if l.to_i64() == 1 => None,
            step => Some(self.fixed(step, ty, &format!("{hint}_step"))),
        };
        if unroll {
            self.line("#pragma unroll");
            self.below[var.0 as usize] = literal_end;
        }
        self.namer.open();
        let name = self.declare(var);
        let next = match step {
            None => format!("++{name}"),
            Some(step) => format!("{name} += {step}"),
        };
        self.open(&format!("for ({ty} {name} = {start}; {name} < {end}; {next})"));
        self.body(body);
        self.close("");
        self.namer.close();
    }

    /// The text of a value that must not change while a loop runs: a constant of its own if it could.
    fn fixed(&mut self, value: &Expr, ty: &str, hint: &str) -> String {
        let text = match value {
            Expr::Literal(_) => self.index(value),
            _ => self.text(self.unwidened(value)).at_least(super::expr::Prec::Shift),
        };
        if self.is_fixed(value) {
            return text;
        }
        let name = self.namer.name(hint);
        self.line(format!("const {ty} {name} = {text};"));
        name
    }

    fn is_fixed(&self, value: &Expr) -> bool {
        match value {
            Expr::Literal(_) | Expr::Param(_) | Expr::Special(_) => true,
            Expr::Var(v) => !self.mutable[v.0 as usize],
            Expr::Element(..) | Expr::Load { .. } => false,
            Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.is_fixed(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => self.is_fixed(a) && self.is_fixed(b),
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => self.is_fixed(a) && self.is_fixed(b) && self.is_fixed(c),
        }
    }

    pub fn while_(&mut self, header: &[Stmt], condition: &Expr, body: &[Stmt]) {
        if header.is_empty() {
            let condition = self.expr(condition);
            self.open(&format!("while ({condition})"));
        } else {
            self.open("while (true)");
            self.body(header);
            let condition = self.text(condition).at_least(super::expr::Prec::Unary);
            self.line(format!("if (!{condition}) break;"));
        }
        self.body(body);
        self.close("");
    }
}
