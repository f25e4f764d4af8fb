//! Decoding: a kernel's structured body becomes flat code over register slots, once per kernel.
//!
//! Slots hold 32 lanes of 64 bits. The first ones are the kernel's variables (arrays element by element), then constants, parameters
//! and temporaries. Control flow keeps a stack of masks; see the machine for what each operation does with it.

use super::counters::Class;
use super::op::{AccessOp, AtomicStep, BulkStep, CopyStep, ElementsOp, MatrixStep, MmaStep, Op, PlaceOp, ShuffleStep, Slot};
use super::unrolled::{Unrolled, is_written_out};
use crate::scalar;
use crate::simt::{Expr, Kernel, ParamKind, Place, Stmt, VarId};
use crate::types::{BinaryOp, DType, UnaryOp};
use std::collections::HashMap;

/// A kernel, decoded for [`simulate`](super::simulate). Decode once, run often.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) kernel: Kernel,
    pub(super) code: Vec<Op>,
    pub(super) class: Vec<Class>,
    /// Statement of each operation, numbered in the order of the text.
    statement: Vec<u32>,
    pub(super) slots: usize,
    /// The first slots, those of variables, whose lanes are tracked as set or not.
    pub(super) tracked: usize,
    pub(super) constants: Vec<(Slot, u64)>,
    pub(super) scalars: Vec<(Slot, usize)>,
    /// Byte offset and length of each shared array.
    pub(super) shared: Vec<(u64, u64)>,
    pub(super) shared_bytes: usize,
    /// Places in shared memory where an mbarrier could be: slots in clocks for copies that land with a phase of theirs.
    pub(super) mbarriers: usize,
    /// First slot of each variable.
    bases: Vec<Slot>,
}

impl Program {
    /// Decodes a well-formed kernel. Panics on malformed IR, as [`crate::simt::verify`] would.
    pub fn decode(kernel: &Kernel) -> Program {
        let mut decoder = Decoder::new(kernel);
        decoder.block(&kernel.body);
        decoder.push(Op::End, Class::Control);
        let (offsets, bytes) = kernel.shared_offsets();
        let shared =
            kernel.shared.iter().zip(&offsets).map(|(a, at)| (*at as u64, a.len as u64 * a.dtype.size() as u64)).collect::<Vec<_>>();
        let words: usize = kernel.shared.iter().filter(|a| a.dtype == DType::U64).map(|a| a.len as usize).sum();
        let mbarriers = if decoder.lands { words.min(1024) } else { 0 };
        Program {
            kernel: kernel.clone(),
            code: decoder.code,
            class: decoder.class,
            statement: decoder.statement,
            slots: decoder.next as usize,
            tracked: decoder.tracked as usize,
            constants: decoder.constants.into_iter().map(|(bits, slot)| (slot, bits)).collect(),
            scalars: decoder.scalars.into_iter().map(|(p, slot)| (slot, p)).collect(),
            shared,
            shared_bytes: bytes as usize,
            mbarriers,
            bases: decoder.bases,
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The text of an operation's statement, and the comment nearest above it.
    pub(super) fn statement(&self, pc: u32) -> (String, Option<String>) {
        let mut wanted = self.statement[pc as usize];
        let mut comment = None;
        let text = find(&self.kernel, &self.kernel.body, &mut wanted, &mut comment);
        (text.unwrap_or_default(), comment)
    }

    /// The variable of a slot as messages name it: `acc%3[5]`.
    pub(super) fn slot_name(&self, slot: Slot) -> String {
        let v = self.bases.partition_point(|b| *b <= slot) - 1;
        let name = crate::simt::print::name(&self.kernel, VarId(v as u32));
        if self.kernel.vars[v].len.is_some() { format!("{name}[{}]", slot - self.bases[v]) } else { name }
    }
}

fn find(kernel: &Kernel, stmts: &[Stmt], wanted: &mut u32, comment: &mut Option<String>) -> Option<String> {
    for s in stmts {
        if *wanted == 0 {
            return Some(crate::simt::print::statement(kernel, s));
        }
        *wanted -= 1;
        if let Stmt::Comment(text) = s {
            *comment = Some(text.clone());
        }
        for body in bodies(s) {
            if let Some(text) = find(kernel, body, wanted, comment) {
                return Some(text);
            }
        }
    }
    None
}

pub(super) fn bodies(stmt: &Stmt) -> [&[Stmt]; 2] {
    match stmt {
        Stmt::If { then, otherwise, .. } => [then, otherwise],
        Stmt::For { body, .. } => [body, &[]],
        Stmt::While { header, body, .. } => [header, body],
        _ => [&[], &[]],
    }
}

struct Decoder<'a> {
    kernel: &'a Kernel,
    code: Vec<Op>,
    class: Vec<Class>,
    statement: Vec<u32>,
    /// Number of the next statement, and of the current one.
    statements: u32,
    current: u32,
    bases: Vec<Slot>,
    tracked: u32,
    /// Variables that may be unset where they are read.
    unset: Vec<bool>,
    next: Slot,
    free: Vec<Slot>,
    used: Vec<Slot>,
    constants: HashMap<u64, Slot>,
    scalars: HashMap<usize, Slot>,
    lands: bool,
    unrolled: Unrolled,
    /// What is evaluated now vanishes in compiled code.
    folds: bool,
}

impl<'a> Decoder<'a> {
    fn new(kernel: &'a Kernel) -> Decoder<'a> {
        let mut next = 0;
        let mut bases = Vec::new();
        for v in &kernel.vars {
            bases.push(next);
            next += v.len.unwrap_or(1);
        }
        let mut unset = vec![false; kernel.vars.len()];
        mark_unset(&kernel.body, &mut unset);
        Decoder {
            kernel,
            code: Vec::new(),
            class: Vec::new(),
            statement: Vec::new(),
            statements: 0,
            current: 0,
            bases,
            tracked: next,
            unset,
            next,
            free: Vec::new(),
            used: Vec::new(),
            constants: HashMap::new(),
            scalars: HashMap::new(),
            lands: false,
            unrolled: Unrolled::default(),
            folds: false,
        }
    }

    fn push(&mut self, op: Op, class: Class) -> usize {
        self.code.push(op);
        self.class.push(class);
        self.statement.push(self.current);
        self.code.len() - 1
    }

    fn here(&self) -> u32 {
        self.code.len() as u32
    }

    /// A slot that stays.
    fn fresh(&mut self) -> Slot {
        self.next += 1;
        self.next - 1
    }

    /// A slot until the end of the statement.
    fn temporary(&mut self) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| self.fresh());
        self.used.push(slot);
        slot
    }

    fn constant(&mut self, bits: u64) -> Slot {
        if let Some(slot) = self.constants.get(&bits) {
            return *slot;
        }
        let slot = self.fresh();
        self.constants.insert(bits, slot);
        slot
    }

    fn base(&self, var: VarId) -> Slot {
        self.bases[var.0 as usize]
    }

    fn len(&self, var: VarId) -> u32 {
        self.kernel.var(var).len.unwrap_or(1)
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            let outer = self.current;
            self.current = self.statements;
            self.statements += 1;
            self.stmt(s);
            self.free.append(&mut self.used);
            self.current = outer;
        }
    }

    /// Evaluates an expression; into `dst` if given.
    fn value_into(&mut self, e: &Expr, dst: Option<Slot>) -> Slot {
        let outer = self.folds;
        self.folds |= self.unrolled.folds(e, self.kernel);
        let slot = self.evaluated(e, dst);
        self.folds = outer;
        slot
    }

    fn evaluated(&mut self, e: &Expr, dst: Option<Slot>) -> Slot {
        let k = self.kernel;
        match e {
            Expr::Literal(l) => {
                let slot = self.constant(l.bits);
                self.moved(slot, dst)
            }
            Expr::Var(v) => {
                let slot = self.base(*v);
                if self.unset[v.0 as usize] {
                    self.push(Op::Check { slot }, Class::Move);
                }
                self.moved(slot, dst)
            }
            Expr::Element(v, index) => self.element(*v, index, dst),
            Expr::Param(p) => {
                let slot = match self.scalars.get(p) {
                    Some(slot) => *slot,
                    None => {
                        let slot = self.fresh();
                        self.scalars.insert(*p, slot);
                        slot
                    }
                };
                self.moved(slot, dst)
            }
            Expr::Special(special) => self.pure(dst, Class::Move, |dst| Op::Special { dst, special: *special }),
            Expr::Unary(op, a) => {
                let d = k.dtype(a);
                let f = scalar::unary_fn(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let a = self.value(a);
                self.pure(dst, unary_class(*op, d), |dst| Op::Unary { f, dst, a })
            }
            Expr::Binary(op, a, b) => {
                let d = k.dtype(a);
                let f = scalar::binary_fn(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let (a, b) = (self.value(a), self.value(b));
                self.pure(dst, binary_class(*op, d), |dst| Op::Binary { f, dst, a, b })
            }
            Expr::Ternary(op, a, b, c) => {
                let d = k.dtype(a);
                let f = scalar::ternary_fn(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let (a, b, c) = (self.value(a), self.value(b), self.value(c));
                let class = if d.is_float() { Class::Fma } else { Class::Integer };
                self.pure(dst, class, |dst| Op::Ternary { f, dst, a, b, c })
            }
            Expr::Compare(op, a, b) => {
                let d = k.dtype(a);
                let f = scalar::compare_fn(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let (a, b) = (self.value(a), self.value(b));
                let class = if d.is_float() { Class::FloatAdd } else { Class::Integer };
                self.pure(dst, class, |dst| Op::Compare { f, dst, a, b })
            }
            Expr::Select(c, a, b) => {
                let (c, a, b) = (self.value(c), self.value(a), self.value(b));
                self.pure(dst, Class::Integer, |dst| Op::Select { dst, c, a, b })
            }
            Expr::Cast(to, a) => {
                let from = k.dtype(a);
                let a = self.value(a);
                if from == *to {
                    return self.moved(a, dst);
                }
                self.pure(dst, Class::Convert, |dst| Op::Cast { from, to: *to, dst, a })
            }
            Expr::Bitcast(to, a) => {
                let from = k.dtype(a);
                let a = self.value(a);
                self.pure(dst, Class::Move, |dst| Op::Bitcast { from, to: *to, dst, a })
            }
            Expr::Load { place, predicate, .. } => {
                let access = self.access(place, predicate.as_deref(), 1);
                self.pure(dst, Class::Memory, |dst| Op::Load { dst, access })
            }
        }
    }

    fn value(&mut self, e: &Expr) -> Slot {
        self.value_into(e, None)
    }

    fn pure(&mut self, dst: Option<Slot>, class: Class, op: impl FnOnce(Slot) -> Op) -> Slot {
        let dst = dst.unwrap_or_else(|| self.temporary());
        let class = if self.folds { Class::Move } else { class };
        self.push(op(dst), class);
        dst
    }

    fn moved(&mut self, slot: Slot, dst: Option<Slot>) -> Slot {
        let Some(dst) = dst else { return slot };
        self.push(Op::Move { dst, a: slot }, Class::Move);
        dst
    }

    fn element(&mut self, var: VarId, index: &Expr, dst: Option<Slot>) -> Slot {
        if let Expr::Literal(l) = index
            && (0..self.len(var) as i64).contains(&l.to_i64())
        {
            let slot = self.base(var) + l.to_i64() as u32;
            if self.unset[var.0 as usize] {
                self.push(Op::Check { slot }, Class::Move);
            }
            return self.moved(slot, dst);
        }
        let of = self.elements(var, index);
        self.pure(dst, Class::Move, |dst| Op::Element { dst, of })
    }

    fn elements(&mut self, var: VarId, at: &Expr) -> ElementsOp {
        ElementsOp { base: self.base(var), len: self.len(var), at_type: self.kernel.dtype(at), at: self.value(at) }
    }

    fn place(&mut self, place: &Place) -> PlaceOp {
        PlaceOp { space: place.space, dtype: place.dtype, index_type: self.kernel.dtype(&place.index), index: self.value(&place.index) }
    }

    fn access(&mut self, place: &Place, predicate: Option<&Expr>, lanes: u32) -> AccessOp {
        let place = self.place(place);
        AccessOp { place, predicate: predicate.map(|p| self.value(p)), lanes }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { var, value } => {
                let dst = self.base(*var);
                self.value_into(value, Some(dst));
                self.unrolled.define(*var, value, self.kernel);
            }
            Stmt::Declare { var, init } => {
                let (base, len) = (self.base(*var), self.len(*var));
                match init {
                    None => self.push(Op::Forget { base, len }, Class::Move),
                    Some(e) => {
                        let a = self.value(e);
                        self.push(Op::Fill { base, len, a }, Class::Move)
                    }
                };
            }
            Stmt::Assign { var, index: None, value } => {
                let a = self.value(value);
                let dst = self.base(*var);
                self.push(Op::Move { dst, a }, Class::Move);
            }
            Stmt::Assign { var, index: Some(index), value } => {
                let a = self.value(value);
                if let Expr::Literal(l) = index
                    && (0..self.len(*var) as i64).contains(&l.to_i64())
                {
                    let dst = self.base(*var) + l.to_i64() as u32;
                    self.push(Op::Move { dst, a }, Class::Move);
                    return;
                }
                let of = self.elements(*var, index);
                self.push(Op::SetElement { of, a }, Class::Move);
            }
            Stmt::LoadVector { var, at, place, lanes, predicate, .. } => {
                let of = self.elements(*var, at);
                let access = self.access(place, predicate.as_ref(), *lanes);
                self.push(Op::LoadVector { of, access }, Class::Memory);
            }
            Stmt::StoreVector { place, var, at, lanes, predicate, .. } => {
                let of = self.elements(*var, at);
                let access = self.access(place, predicate.as_ref(), *lanes);
                self.push(Op::StoreVector { of, access }, Class::Memory);
            }
            Stmt::Store { place, value, predicate, .. } => {
                let value = self.value(value);
                let access = self.access(place, predicate.as_ref(), 1);
                self.push(Op::Store { access, value }, Class::Memory);
            }
            Stmt::Atomic { result, op, place, value, expected, predicate, scope, order } => {
                let value = self.value(value);
                let expected = expected.as_ref().map(|e| self.value(e));
                let access = self.access(place, predicate.as_ref(), 1);
                let result = result.map(|r| self.base(r));
                let step = AtomicStep { access, op: *op, value, expected, result, scope: *scope, order: *order };
                self.push(Op::Atomic(Box::new(step)), Class::Atomic);
            }
            Stmt::StoreRelaxed { place, value, predicate } => {
                let value = self.value(value);
                let access = self.access(place, predicate.as_ref(), 1);
                self.push(Op::StoreRelaxed { access, value }, Class::Memory);
            }
            Stmt::LoadRelaxed { var, place, wait, predicate } => {
                let access = self.access(place, predicate.as_ref(), 1);
                self.push(Op::LoadRelaxed { dst: self.base(*var), access, wait: *wait }, Class::Memory);
            }
            Stmt::If { condition, then, otherwise } => self.choice(condition, then, otherwise),
            Stmt::For { var, start, end, step, unroll, body } => {
                let bounds = [start, end, step];
                if is_written_out(*unroll, bounds) {
                    self.unrolled.enter(*var, body);
                    self.counted(*var, bounds, body, [Class::Move; 2]);
                    self.unrolled.leave();
                } else {
                    self.counted(*var, bounds, body, [Class::Integer, Class::Control]);
                }
            }
            Stmt::While { header, condition, body } => {
                self.push(Op::Loop, Class::Control);
                let top = self.here();
                self.block(header);
                let condition = self.value(condition);
                let test = self.push(Op::LoopTest { condition, end: 0 }, Class::Control);
                self.block(body);
                self.close(test, top, Class::Control);
            }
            Stmt::Comment(_) => {}
            other => self.synchronisation(other),
        }
    }

    fn choice(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        let condition = self.value(condition);
        let head = self.push(Op::If { condition, otherwise: 0 }, Class::Control);
        self.free.append(&mut self.used);
        self.block(then);
        let middle = self.push(Op::Else { end: 0 }, Class::Move);
        let target = self.here();
        self.code[head] = Op::If { condition, otherwise: target };
        self.block(otherwise);
        let end = self.push(Op::EndIf, Class::Move) as u32;
        self.code[middle] = Op::Else { end };
    }

    /// A loop over numbers, whose arithmetic and branches are of these classes.
    fn counted(&mut self, var: VarId, [start, end, step]: [&Expr; 3], body: &[Stmt], [arithmetic, branch]: [Class; 2]) {
        let dtype = self.kernel.var(var).dtype;
        let counter = self.base(var);
        // Bounds are evaluated once; a variable among them may change inside of the loop.
        let fixed = [end, step].map(|e| match e {
            Expr::Literal(l) => self.constant(l.bits),
            _ => {
                let slot = self.fresh();
                self.value_into(e, Some(slot))
            }
        });
        self.value_into(start, Some(counter));
        if !matches!(step, Expr::Literal(_)) {
            self.push(Op::StepCheck { step: fixed[1], dtype }, Class::Move);
        }
        let condition = self.fresh();
        let sum = self.fresh();
        let less = scalar::compare_fn(crate::types::CompareOp::Lt, dtype).expect("a loop counts integers");
        let add = scalar::binary_fn(BinaryOp::Add, dtype).expect("a loop counts integers");
        self.push(Op::Loop, Class::Move);
        let top = self.push(Op::Compare { f: less, dst: condition, a: counter, b: fixed[0] }, arithmetic) as u32;
        let test = self.push(Op::LoopTest { condition, end: 0 }, branch);
        self.free.append(&mut self.used);
        self.block(body);
        self.push(Op::Binary { f: add, dst: sum, a: counter, b: fixed[1] }, arithmetic);
        self.push(Op::Move { dst: counter, a: sum }, Class::Move);
        self.close(test, top, branch);
    }

    /// Jumps back to the top and lets the loop's test leave to what follows.
    fn close(&mut self, test: usize, top: u32, branch: Class) {
        self.push(Op::Jump { to: top }, branch);
        let after = self.here();
        if let Op::LoopTest { end, .. } = &mut self.code[test] {
            *end = after;
        }
    }

    fn synchronisation(&mut self, stmt: &Stmt) {
        let (op, class) = match stmt {
            Stmt::Barrier(b) => (Op::Barrier(*b), Class::Barrier),
            Stmt::Fence { scope, order } => (Op::Fence { scope: *scope, order: *order }, Class::Barrier),
            Stmt::AsyncCopy { shared, global, bytes, predicate } => {
                let (shared, global) = (self.place(shared), self.place(global));
                let predicate = predicate.as_ref().map(|p| self.value(p));
                (Op::AsyncCopy(Box::new(CopyStep { shared, global, bytes: *bytes, predicate })), Class::Memory)
            }
            Stmt::AsyncCommit => (Op::AsyncCommit, Class::Barrier),
            Stmt::AsyncWait { pending } => (Op::AsyncWait { pending: *pending }, Class::Barrier),
            Stmt::AsyncArrive { barrier } => {
                self.lands = true;
                (Op::AsyncArrive { barrier: self.place(barrier) }, Class::Barrier)
            }
            Stmt::MbarrierInit { barrier, count } => (Op::MbarrierInit { barrier: self.place(barrier), count: *count }, Class::Barrier),
            Stmt::MbarrierArrive { barrier, expect } => {
                let expect = expect.as_ref().map(|e| self.value(e));
                (Op::MbarrierArrive { barrier: self.place(barrier), expect }, Class::Barrier)
            }
            Stmt::MbarrierWait { barrier, parity } => {
                let parity = self.value(parity);
                (Op::MbarrierWait { barrier: self.place(barrier), parity }, Class::Barrier)
            }
            Stmt::BulkCopy { shared, global, bytes, barrier } => {
                self.lands = true;
                let bytes = self.value(bytes);
                let (shared, global, barrier) = (self.place(shared), self.place(global), self.place(barrier));
                (Op::BulkCopy(Box::new(BulkStep { shared, global, bytes, barrier })), Class::Memory)
            }
            Stmt::Mma { atom, d, a, b, c } => {
                let fragments = [d, a, b, c].map(|f| self.elements(f.var, &f.at));
                (Op::Mma(Box::new(MmaStep::new(*atom, fragments))), Class::Matrix)
            }
            Stmt::LoadMatrix { load, var, at, place } => {
                let (of, place) = (self.elements(*var, at), self.place(place));
                (Op::LoadMatrix(Box::new(MatrixStep::new(*load, of, place))), Class::Memory)
            }
            Stmt::Vote { var, kind, value } => {
                let value = self.value(value);
                (Op::Vote { dst: self.base(*var), kind: *kind, value }, Class::Shuffle)
            }
            Stmt::Shuffle { var, value, kind, operand, width } => {
                let (value, operand) = (self.value(value), self.value(operand));
                let step = ShuffleStep { dst: self.base(*var), value, kind: *kind, operand, width: *width };
                (Op::Shuffle(Box::new(step)), Class::Shuffle)
            }
            other => panic!("simulator: statement is not decoded: {other:?}"),
        };
        self.push(op, class);
    }
}

fn mark_unset(stmts: &[Stmt], unset: &mut [bool]) {
    for s in stmts {
        if let Stmt::Declare { var, init: None } = s {
            unset[var.0 as usize] = true;
        }
        for body in bodies(s) {
            mark_unset(body, unset);
        }
    }
}

fn unary_class(op: UnaryOp, dtype: DType) -> Class {
    match op {
        UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs | UnaryOp::Popcount | UnaryOp::LeadingZeros if dtype.is_float() => Class::FloatAdd,
        UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs | UnaryOp::Popcount | UnaryOp::LeadingZeros | UnaryOp::Moved => Class::Integer,
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc | UnaryOp::RoundTf32 => Class::Convert,
        _ => Class::SpecialFunction,
    }
}

fn binary_class(op: BinaryOp, dtype: DType) -> Class {
    match op {
        _ if !dtype.is_float() => Class::Integer,
        BinaryOp::Mul => Class::FloatMul,
        BinaryOp::Div | BinaryOp::DivApprox | BinaryOp::Rem | BinaryOp::Pow => Class::SpecialFunction,
        _ => Class::FloatAdd,
    }
}

/// The parameter is a pointer of this element type.
pub(super) fn pointer(kind: &ParamKind) -> Option<(DType, bool, u32)> {
    match kind {
        ParamKind::Pointer { dtype, writable, align, .. } => Some((*dtype, *writable, *align)),
        ParamKind::Workspace { dtype, .. } => Some((*dtype, true, 256)),
        _ => None,
    }
}
