//! Decoding: a kernel's structured body becomes flat code over register slots, once per kernel.
//!
//! Slots hold 32 lanes of 64 bits. The first ones are the kernel's variables (arrays element by element), then constants, parameters
//! and temporaries. Control flow keeps a stack of masks; see the machine for what each operation does with it.

mod expr;
mod stmt;

use super::counters::Class;
use super::op::{Op, Slot};
use super::unrolled::Unrolled;
use girih_ir::simt::{Kernel, ParamKind, Stmt, VarId};
use girih_ir::types::DType;
use std::collections::HashMap;

/// A kernel, decoded for [`simulate`](super::simulate). Decode once, run often.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) kernel: Kernel,
    pub(super) code: Vec<Op>,
    pub(super) class: Vec<Class>,
    length: f64,
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
    /// Loops over numbers.
    pub(super) loops: Vec<Counted>,
    /// Operations that divide integers.
    pub(super) divisions: Vec<u32>,
}

/// A loop over numbers in the flat code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// Where it begins: the counter has its first value.
    pub(super) head: u32,
    /// Where lanes leave it.
    pub(super) test: u32,
    /// Where a turn ends: the counter has its next value.
    pub(super) jump: u32,
    pub(super) counter: Slot,
    pub(super) bound: Slot,
    pub(super) step: Slot,
    pub(super) dtype: DType,
    /// Compilers write its turns out one after the other.
    pub(super) written_out: bool,
    /// Compilers write out [`GROUP`] of its turns at a time, whose loads are issued together.
    pub(super) grouped: bool,
}

/// Turns that nvcc and NVRTC write out at a time where a loop's number of turns is known at run time alone.
pub(super) const GROUP: u64 = 4;
/// Instructions of the longest turn of which they do.
const SHORT: f64 = 24.0;

impl Program {
    /// Decodes a well-formed kernel. Panics on malformed IR, as [`girih_ir::simt::verify`] would.
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
            length: decoder.length,
            statement: decoder.statement,
            slots: decoder.next as usize,
            tracked: decoder.tracked as usize,
            constants: decoder.constants.into_iter().map(|(bits, slot)| (slot, bits)).collect(),
            scalars: decoder.scalars.into_iter().map(|(p, slot)| (slot, p)).collect(),
            shared,
            shared_bytes: bytes as usize,
            mbarriers,
            bases: decoder.bases,
            loops: decoder.loops,
            divisions: decoder.divisions,
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Operations that compiled code has, about: moves vanish, loops that are written out are so many copies of their bodies.
    pub fn length(&self) -> f64 {
        self.length
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
        let name = girih_ir::simt::print::name(&self.kernel, VarId(v as u32));
        if self.kernel.vars[v].len.is_some() { format!("{name}[{}]", slot - self.bases[v]) } else { name }
    }
}

fn find(kernel: &Kernel, stmts: &[Stmt], wanted: &mut u32, comment: &mut Option<String>) -> Option<String> {
    for s in stmts {
        if *wanted == 0 {
            return Some(girih_ir::simt::print::statement(kernel, s));
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
    length: f64,
    /// Copies of what is decoded, in loops that are written out.
    copies: f64,
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
    loops: Vec<Counted>,
    divisions: Vec<u32>,
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
            length: 0.0,
            copies: 1.0,
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
            loops: Vec::new(),
            divisions: Vec::new(),
        }
    }

    fn push(&mut self, op: Op, class: Class) -> usize {
        self.code.push(op);
        self.length += if class == Class::Move { 0.0 } else { self.copies };
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

/// The parameter is a pointer of this element type.
pub(super) fn pointer(kind: &ParamKind) -> Option<(DType, bool, u32)> {
    match kind {
        ParamKind::Pointer { dtype, writable, align, .. } => Some((*dtype, *writable, *align)),
        ParamKind::Workspace { dtype, .. } => Some((*dtype, true, 256)),
        ParamKind::Constant { dtype, .. } => Some((*dtype, false, 16)),
        ParamKind::Scalar { .. } | ParamKind::Host { .. } | ParamKind::TensorMap { .. } => None,
    }
}
