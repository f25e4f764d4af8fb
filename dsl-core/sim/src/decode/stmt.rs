//! Decoding of statements: choices and loops become jumps and masks, what waits or orders becomes one operation each.

use super::{Counted, Decoder, SHORT};
use crate::counters::Class;
use crate::group::{LeftOp, MatrixOp, WgmmaStep};
use crate::op::{AtomicStep, BulkStep, CopyStep, MatrixStep, MmaStep, Op, ShuffleStep, TensorStep};
use crate::unrolled::{is_written_out, written_turns};
use girih_ir::scalar;
use girih_ir::simt::{Expr, LeftMatrix, Space, Stmt, VarId};
use girih_ir::types::BinaryOp;

impl Decoder<'_> {
    pub(super) fn stmt(&mut self, stmt: &Stmt) {
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
            Stmt::LoadFromBlock { var, place, block } => {
                let block = self.value(block);
                let place = self.place(place);
                self.push(Op::LoadFromBlock { dst: self.base(*var), place, block }, Class::Memory);
            }
            Stmt::If { condition, then, otherwise } => self.choice(condition, then, otherwise),
            Stmt::For { var, start, end, step, unroll, body } => {
                let bounds = [start, end, step];
                if is_written_out(*unroll, bounds) {
                    let outside = self.copies;
                    self.copies *= written_turns(bounds);
                    self.unrolled.enter(*var, body);
                    self.counted(*var, bounds, body, [Class::Move; 2]);
                    self.unrolled.leave();
                    self.copies = outside;
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
            // Nobody runs out of registers here.
            Stmt::Comment(_) | Stmt::SetRegisters { .. } => {}
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
        let less = scalar::compare_lanes(girih_ir::types::CompareOp::Lt, dtype).expect("a loop counts integers");
        let add = scalar::binary_lanes(BinaryOp::Add, dtype).expect("a loop counts integers");
        self.push(Op::Loop, Class::Move);
        let top = self.push(Op::Compare { f: less, dst: condition, a: counter, b: fixed[0] }, arithmetic) as u32;
        let test = self.push(Op::LoopTest { condition, end: 0 }, branch);
        self.free.append(&mut self.used);
        let (inner, length) = (self.loops.len(), self.length);
        self.block(body);
        let grouped = self.loads_alone(top as usize + 2, inner) && (self.length - length) / self.copies <= SHORT;
        self.push(Op::Binary { f: add, dst: sum, a: counter, b: fixed[1] }, arithmetic);
        self.push(Op::Move { dst: counter, a: sum }, Class::Move);
        self.close(test, top, branch);
        let (jump, [bound, step], written_out) = (self.here() - 1, fixed, branch == Class::Move);
        let grouped = grouped && !written_out;
        self.loops.push(Counted { head: top - 1, test: test as u32, jump, counter, bound, step, dtype, written_out, grouped });
    }

    /// Whether the code from a place on loads from global memory, computes, and does nothing else; its own loops, from this one on, are
    /// written out.
    fn loads_alone(&self, from: usize, loops: usize) -> bool {
        let code = &self.code[from..];
        let written_out = self.loops[loops..].iter().filter(|l| l.written_out).count();
        let global = |op: &Op| match op {
            Op::Load { access, .. } | Op::LoadVector { access, .. } => matches!(access.place.space, Space::Global(_)),
            _ => false,
        };
        let allowed = |op: &Op| {
            let own = matches!(op, Op::Element { .. } | Op::SetElement { .. } | Op::Fill { .. } | Op::Load { .. } | Op::LoadVector { .. });
            own || op.is_plain() || matches!(op, Op::Loop | Op::LoopTest { .. } | Op::Jump { .. })
        };
        let begun = code.iter().filter(|op| matches!(op, Op::Loop)).count();
        begun == written_out && code.iter().all(allowed) && code.iter().any(global)
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
            Stmt::MbarrierArriveAt { barrier, block } => {
                let block = self.value(block);
                (Op::MbarrierArriveAt { barrier: self.place(barrier), block }, Class::Barrier)
            }
            Stmt::MbarrierWait { barrier, parity, scope } => {
                let parity = self.value(parity);
                (Op::MbarrierWait { barrier: self.place(barrier), parity, scope: *scope }, Class::Barrier)
            }
            Stmt::BulkCopy { shared, global, bytes, barrier } => {
                self.lands = true;
                let bytes = self.value(bytes);
                let (shared, global, barrier) = (self.place(shared), self.place(global), self.place(barrier));
                (Op::BulkCopy(Box::new(BulkStep { shared, global, bytes, barrier })), Class::Memory)
            }
            Stmt::TensorCopy { shared, map, at, barrier, to_all } => {
                self.lands = true;
                let at = at.iter().map(|e| self.value(e)).collect();
                let (shared, barrier) = (self.place(shared), self.place(barrier));
                (Op::TensorCopy(Box::new(TensorStep { shared, map: *map, at, barrier, to_all: *to_all })), Class::Memory)
            }
            Stmt::Mma { atom, d, a, b, c } => {
                let fragments = [d, a, b, c].map(|f| self.elements(f.var, &f.at));
                (Op::Mma(Box::new(MmaStep::new(*atom, fragments))), Class::Matrix)
            }
            Stmt::LoadMatrix { load, var, at, place } => {
                let (of, place) = (self.elements(*var, at), self.place(place));
                (Op::LoadMatrix(Box::new(MatrixStep::new(*load, of, place))), Class::Memory)
            }
            Stmt::Wgmma { atom, d, a, b, accumulate } => {
                let left = match a {
                    LeftMatrix::Shared(a) => LeftOp::Shared(MatrixOp::new(self.place(&a.place), a)),
                    LeftMatrix::Registers(a) => LeftOp::Registers(self.elements(a.var, &a.at)),
                };
                let right = MatrixOp::new(self.place(&b.place), b);
                let (d, accumulate) = (self.elements(d.var, &d.at), self.value(accumulate));
                (Op::Wgmma(Box::new(WgmmaStep::new(*atom, d, (left, right), accumulate))), Class::Matrix)
            }
            Stmt::WgmmaFence => (Op::WgmmaFence, Class::Barrier),
            Stmt::WgmmaCommit => (Op::WgmmaCommit, Class::Barrier),
            Stmt::WgmmaWait { pending, sums } => {
                let sums = sums.iter().map(|var| (self.base(*var), self.len(*var))).collect();
                (Op::WgmmaWait { pending: *pending, sums }, Class::Barrier)
            }
            Stmt::ProxyFence => (Op::ProxyFence, Class::Barrier),
            Stmt::Vote { var, kind, value } => {
                let value = self.value(value);
                (Op::Vote { dst: self.base(*var), kind: *kind, value }, Class::Shuffle)
            }
            Stmt::WarpReduce { var, op, value } => {
                let of = self.kernel.dtype(value);
                let combine = scalar::binary_fn(*op, of).unwrap_or_else(|| panic!("simulator: {op:?} of {of}"));
                (Op::WarpReduce { dst: self.base(*var), combine, value: self.value(value) }, Class::Shuffle)
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
