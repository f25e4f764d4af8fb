//! Which signed arithmetic needs to be printed as unsigned.
//!
//! Signed overflow is undefined in C, but the numeric contract says that integers wrap. Arithmetic of the compiler's own indices
//! (thread and block numbers, host-computed parameters, loop counters) never overflows and is printed as it is; arithmetic on the
//! author's data is done on unsigned numbers. Data are what comes from memory, other lanes, scalar parameters (and what the host
//! computes of them in 64 bits), narrowing and float casts and bitcasts, or what is computed from data, unless it is cut to an axis; so are
//! products by large constants, as random numbers use them.

use girih_ir::simt::visit::inner_blocks;
use girih_ir::simt::{Expr, Fragment, Kernel, ParamKind, Stmt};
use girih_ir::tile::host::HostExpr;
use girih_ir::types::{BinaryOp, DType, TernaryOp, UnaryOp};

/// Constants above this are no tile size or vector width.
const LARGE: i64 = 65535;

/// The variables that hold data.
pub(crate) struct Data {
    vars: Vec<bool>,
    /// Variables of 64 bits that hold a number of 32 and never change.
    widened: Vec<bool>,
    /// What is narrowed from 64 to 32 bits is data.
    narrowed: bool,
}

impl Data {
    /// Finds them by following assignments until nothing changes.
    pub fn of(kernel: &Kernel) -> Data {
        Data::found(kernel, true)
    }

    /// Those that hold data also where nothing becomes data by being narrowed to 32 bits.
    pub fn but_for_narrowing(kernel: &Kernel) -> Data {
        Data::found(kernel, false)
    }

    fn found(kernel: &Kernel, narrowed: bool) -> Data {
        let none = vec![false; kernel.vars.len()];
        let mut data = Data { vars: none.clone(), widened: none, narrowed };
        data.mark_widened(kernel, &kernel.body);
        let mut declared = vec![false; kernel.vars.len()];
        mark_declared(&kernel.body, &mut declared);
        while data.visit(kernel, &kernel.body, &declared) {}
        data
    }

    fn mark_widened(&mut self, kernel: &Kernel, body: &[Stmt]) {
        for stmt in body {
            if let Stmt::Let { var, value } = stmt {
                self.widened[var.0 as usize] = is_widened(kernel, value);
            }
            inner_blocks(stmt).into_iter().for_each(|b| self.mark_widened(kernel, b));
        }
    }

    fn visit(&mut self, kernel: &Kernel, body: &[Stmt], declared: &[bool]) -> bool {
        let mut changed = false;
        for stmt in body {
            match stmt {
                Stmt::Let { var, value } | Stmt::Declare { var, init: Some(value) } => {
                    changed |= self.set(var.0, self.is_data(kernel, value));
                }
                Stmt::Assign { var, value, .. } => {
                    let grows = multiplies_variable(value, declared);
                    changed |= self.set(var.0, grows || self.is_data(kernel, value));
                }
                Stmt::LoadVector { var, .. }
                | Stmt::LoadMatrix { var, .. }
                | Stmt::Mma { d: Fragment { var, .. }, .. }
                | Stmt::Wgmma { d: Fragment { var, .. }, .. }
                | Stmt::LoadRelaxed { var, .. }
                | Stmt::LoadFromBlock { var, .. }
                | Stmt::Shuffle { var, .. }
                | Stmt::Vote { var, .. }
                | Stmt::WarpReduce { var, .. } => changed |= self.set(var.0, true),
                Stmt::Atomic { result: Some(var), .. } => changed |= self.set(var.0, true),
                Stmt::If { then, otherwise, .. } => {
                    changed |= self.visit(kernel, then, declared);
                    changed |= self.visit(kernel, otherwise, declared);
                }
                Stmt::For { var, start, step, body, .. } => {
                    let counts_data = self.is_data(kernel, start) || self.is_data(kernel, step);
                    changed |= self.set(var.0, counts_data);
                    changed |= self.visit(kernel, body, declared);
                }
                Stmt::While { header, body, .. } => {
                    changed |= self.visit(kernel, header, declared);
                    changed |= self.visit(kernel, body, declared);
                }
                Stmt::Declare { init: None, .. } | Stmt::Atomic { result: None, .. } => {}
                Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::StoreRelaxed { .. } | Stmt::Comment(_) => {}
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
        changed
    }

    fn set(&mut self, var: u32, value: bool) -> bool {
        let slot = &mut self.vars[var as usize];
        let changed = value && !*slot;
        *slot |= value;
        changed
    }

    /// The expression holds data.
    fn is_data(&self, kernel: &Kernel, expr: &Expr) -> bool {
        match expr {
            Expr::Literal(_) | Expr::Special(_) => false,
            Expr::Var(v) | Expr::Element(v, _) => self.vars[v.0 as usize],
            Expr::Param(p) => match &kernel.params[*p].kind {
                ParamKind::Scalar { .. } => true,
                ParamKind::Host { dtype: DType::I64, value } => is_anything(value),
                _ => false,
            },
            Expr::Unary(_, a) => self.is_data(kernel, a),
            Expr::Cast(_, a) if is_cut(kernel, a) => false,
            Expr::Binary(..) if is_cut(kernel, expr) => false,
            Expr::Binary(op, a, b) => {
                (*op == BinaryOp::Mul && (is_large(a) || is_large(b))) || self.is_data(kernel, a) || self.is_data(kernel, b)
            }
            Expr::Ternary(_, a, b, c) => [a, b, c].into_iter().any(|e| self.is_data(kernel, e)),
            Expr::Compare(..) => false,
            Expr::Select(_, a, b) => self.is_data(kernel, a) || self.is_data(kernel, b),
            Expr::Cast(to, a) => {
                let from = kernel.dtype(a);
                let from_wide = (*to, from) == (DType::I32, DType::I64);
                let narrows = to.size() < from.size() && (self.narrowed || !from_wide);
                from.is_float() || narrows || self.is_data(kernel, a)
            }
            Expr::Bitcast(..) | Expr::Load { .. } => true,
        }
    }

    /// A 64-bit sum or difference of two numbers that 32 bits hold, or a product of signed ones: 64 bits hold it.
    fn of_widened(&self, kernel: &Kernel, expr: &Expr) -> bool {
        let Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) = expr else { return false };
        let narrow = |e: &Expr| match e {
            Expr::Var(v) => self.widened[v.0 as usize],
            Expr::Literal(l) => l.dtype == DType::I64 && i32::try_from(l.to_i64()).is_ok(),
            e => is_widened(kernel, e) || *op != BinaryOp::Mul && matches!(e, Expr::Cast(DType::I64, a) if kernel.dtype(a) == DType::U32),
        };
        narrow(a) && narrow(b)
    }

    /// The expression is signed arithmetic that may overflow.
    pub fn must_wrap(&self, kernel: &Kernel, expr: &Expr) -> bool {
        let arithmetic = matches!(
            expr,
            Expr::Unary(UnaryOp::Neg, _)
                | Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl, ..)
                | Expr::Ternary(TernaryOp::Fma, ..)
        );
        let dtype = kernel.dtype(expr);
        arithmetic && matches!(dtype, DType::I32 | DType::I64) && !self.of_widened(kernel, expr) && self.is_data(kernel, expr)
    }

    /// The expression may be any number: a divisor may be 0 or −1.
    pub fn may_be_anything(&self, kernel: &Kernel, expr: &Expr) -> bool {
        match expr {
            Expr::Literal(l) => l.to_i64() == 0 || (l.dtype.is_signed() && l.to_i64() == -1),
            Expr::Param(p) => match &kernel.params[*p].kind {
                ParamKind::Host { value, .. } if is_anything(value) => true,
                ParamKind::Scalar { range: Some((least, most)), .. } => *least <= 0 && *most >= -1,
                _ => self.is_data(kernel, expr),
            },
            Expr::Cast(to, a) if to.size() >= kernel.dtype(a).size() && !kernel.dtype(a).is_float() => self.may_be_anything(kernel, a),
            _ => self.is_data(kernel, expr),
        }
    }
}

/// The host computes it from scalar parameters: it may be any number.
fn is_anything(value: &HostExpr) -> bool {
    match value {
        HostExpr::Scalar(_) => true,
        HostExpr::Binary(_, a, b) => is_anything(a) || is_anything(b),
        HostExpr::Wrap(_, e) => is_anything(e),
        HostExpr::Const(_) | HostExpr::Dim(..) | HostExpr::Stride(..) | HostExpr::Multiprocessors => false,
    }
}

/// 64 bits that hold a signed number of 32.
fn is_widened(kernel: &Kernel, expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(DType::I64, a) if matches!(kernel.dtype(a), DType::I8 | DType::U8 | DType::I32))
}

/// Cut to lie between 0 and the length of an axis: as good as a length, whatever was cut.
pub(crate) fn is_cut(kernel: &Kernel, expr: &Expr) -> bool {
    let Expr::Binary(BinaryOp::Min, a, b) = expr else { return false };
    let from_zero =
        matches!(&**a, Expr::Binary(BinaryOp::Max, _, low) if matches!(&**low, Expr::Literal(l) if l.dtype.is_int() && l.bits == 0));
    let len = if let Expr::Cast(_, inner) = &**b { inner } else { b };
    let is_length = |p: usize| matches!(&kernel.params[p].kind, ParamKind::Host { value: HostExpr::Dim(..), .. });
    from_zero && matches!(&**len, Expr::Param(p) if is_length(*p))
}

fn is_large(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(l) if !l.dtype.is_float() && l.to_i64().unsigned_abs() > LARGE as u64)
}

fn mark_declared(body: &[Stmt], declared: &mut [bool]) {
    for stmt in body {
        if let Stmt::Declare { var, .. } = stmt {
            declared[var.0 as usize] = true;
        }
        inner_blocks(stmt).into_iter().for_each(|b| mark_declared(b, declared));
    }
}

/// A product or shift of a variable that changes: over the turns of a loop it may grow beyond all bounds.
fn multiplies_variable(expr: &Expr, declared: &[bool]) -> bool {
    let changes = |e: &Expr| matches!(e, Expr::Var(v) | Expr::Element(v, _) if declared[v.0 as usize]);
    match expr {
        Expr::Binary(BinaryOp::Mul | BinaryOp::Shl, a, b) => changes(a) || changes(b),
        Expr::Binary(_, a, b) => multiplies_variable(a, declared) || multiplies_variable(b, declared),
        Expr::Unary(_, a) => multiplies_variable(a, declared),
        _ => false,
    }
}
