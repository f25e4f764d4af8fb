//! Dots by matrix instructions: warps share the result, and each multiplies fragments that it loads from shared memory.

use super::context::{Lowered, Lowering};
use super::elements::unrolled;
use super::index::Index;
use super::operand::{Lies, Operand};
use super::plan::illegal;
use crate::fragments::{Atom, LoadMatrix, Number, Operand as Role};
use crate::layout::{Digit, Layout, Source};
use crate::schedule::{Choice, KnobKind, Schedule, ScheduleError};
use crate::simt::{Expr, Fragment, Stmt, VarId};
use crate::target::Target;
use crate::tile::access::visit;
use crate::tile::{Kernel, KnobId, Op, Stmt as TileStmt, ValueId};
use crate::types::{DType, UnaryOp};
use std::collections::HashMap;

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };
/// Multiply-adds by matrix instructions of a warp that are written out; a longer sum is a loop.
const WRITTEN_OUT: i64 = 256;

/// How the warps of a block share the result of a dot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Warps {
    /// The instruction.
    pub atom: Atom,
    /// Warps along the rows and the columns of the anchor's last two axes.
    pub along: [i64; 2],
    /// Axes of the anchor before those.
    pub leading: usize,
}

/// The matrix instruction that a schedule asks for and how its warps share the anchor; `None` for fused multiply-adds.
pub(crate) fn warps(
    kernel: &Kernel,
    schedule: &Schedule,
    target: &Target,
    anchor: &[i64],
    knobs: &[i64],
) -> Result<Option<Warps>, ScheduleError> {
    let Some(at) = kernel.knobs.iter().position(|k| k.kind == KnobKind::Unit) else { return Ok(None) };
    let unit = [KnobId(at as u32)];
    let word = match &schedule.choices[at] {
        Choice::Word(w) if w != "Ffma" => w.clone(),
        _ => return Ok(None),
    };
    let refuse = |rule: String| Err(illegal(kernel, &unit, word.clone(), rule));
    if word == "Wgmma" {
        return refuse("is not there yet: use Mma or Ffma".into());
    }
    if super::dots::are_direct(kernel, schedule) {
        return refuse("reads its operands from shared memory: operands must be Shared".into());
    }
    let size = |s: &crate::tile::Size| s.value(|k| knobs[k.0 as usize]);
    let Some((numbers, accumulator, inner)) = numbers(kernel, &size) else {
        return refuse("multiplies f16, bf16, 8-bit integers, or f32 rounded by `.round_tf32()`; all dots of a kernel alike".into());
    };
    let Some(atom) = Atom::all_of(numbers, numbers, accumulator, target.capability).find(|a| inner % a.k as i64 == 0) else {
        let least = Atom::all_of(numbers, numbers, accumulator, target.capability).last();
        return refuse(match least {
            Some(a) => format!("takes {} elements of the sum's axis at a time, which must divide its tile of {inner}", a.k),
            None => format!("has no instruction for {} on {}", numbers.name(), target.arch),
        });
    };
    let count = schedule.int_of_kind(kernel, KnobKind::Warps, 4);
    let [.., rows, columns] = anchor[..] else { return refuse("needs a result of two axes".into()) };
    let fits = |along: &[i64; 2]| rows % (along[0] * atom.m as i64) == 0 && columns % (along[1] * atom.n as i64) == 0;
    let splits = (0..=10).map(|e| 1i64 << e).filter(|r| count % r == 0).map(|r| [r, count / r]);
    // The fewest elements of both operands per warp.
    match splits.filter(fits).min_by_key(|a| (rows / a[0] + columns / a[1], a[0])) {
        Some(along) if count <= 32 => Ok(Some(Warps { atom, along, leading: anchor.len() - 2 })),
        _ => {
            let ids: Vec<KnobId> = (0..kernel.knobs.len())
                .filter(|k| kernel.knobs[*k].kind == KnobKind::Warps)
                .map(|k| KnobId(k as u32))
                .chain(unit)
                .collect();
            let rule = format!("{count} warps cannot share a tile of {rows} x {columns} in pieces of {} x {}", atom.m, atom.n);
            Err(illegal(kernel, &ids, format!("{count} / {word}"), rule))
        }
    }
}

/// How the dots of a kernel read their operands, what they add up in, and the greatest common divisor of their sums' extents; `None` where
/// no instruction does that.
fn numbers(kernel: &Kernel, size: &dyn Fn(&crate::tile::Size) -> i64) -> Option<(Number, DType, i64)> {
    let mut ops: HashMap<ValueId, &Op> = HashMap::new();
    visit(&kernel.body, &mut |s| {
        if let TileStmt::Let(v, op) = s {
            ops.insert(*v, op);
        }
    });
    let mut found: Option<(Number, DType, i64)> = None;
    for op in ops.values() {
        let Op::Dot { a, b, acc } = op else { continue };
        let number = number(kernel, &ops, *a).filter(|n| number(kernel, &ops, *b) == Some(*n))?;
        let (accumulator, inner) = (kernel.ty(*acc).dtype()?, size(&kernel.ty(*a).shape()?[1]));
        found = match found {
            Some((n, d, k)) if n == number && d == accumulator => Some((n, d, super::plan::gcd(k, inner))),
            None => Some((number, accumulator, inner)),
            Some(_) => return None,
        };
    }
    found
}

/// How a matrix instruction reads a value without losing anything.
fn number(kernel: &Kernel, ops: &HashMap<ValueId, &Op>, value: ValueId) -> Option<Number> {
    match kernel.ty(value).dtype()? {
        DType::F16 => Some(Number::F16),
        DType::BF16 => Some(Number::BF16),
        DType::I8 => Some(Number::I8),
        DType::U8 => Some(Number::U8),
        DType::F32 => match ops.get(&value)? {
            Op::Unary(UnaryOp::RoundTf32, _) => Some(Number::Tf32),
            Op::Transpose(from, _) => number(kernel, ops, *from),
            _ => None,
        },
        _ => None,
    }
}

impl Warps {
    /// Threads along each axis of the anchor, as far as a product of threads says it.
    pub fn thread_shape(&self) -> Vec<i64> {
        let mut shape = vec![1; self.leading];
        shape.extend([self.along[0] * 8, self.along[1] * 4]);
        shape
    }

    /// The accumulators' layout: atoms side by side in a warp, warps side by side in the block.
    pub fn layout(&self, anchor: &[i64]) -> Layout {
        let [.., rows, columns] = anchor[..] else { panic!("mma: an anchor of one axis") };
        let [down, right] = self.along;
        let atom = self.atom.layout(Role::Accumulator);
        let own = atom.registers;
        let [atoms_down, atoms_right] = self.atoms(rows, columns);
        let digit = |source, stride, extent, place| Digit { source, stride, extent, place };
        let mut axes = atom.axes;
        axes[1].push(digit(Source::Register, own, atoms_right, self.atom.n as i64));
        axes[1].push(digit(Source::Thread, 32, right, columns / right));
        axes[0].push(digit(Source::Register, own * atoms_right, atoms_down, self.atom.m as i64));
        axes[0].push(digit(Source::Thread, 32 * right, down, rows / down));
        axes.iter_mut().for_each(|digits| digits.retain(|d| d.extent > 1));
        let mut all = vec![Vec::new(); self.leading];
        all.extend(axes);
        Layout { axes: all, threads: 32 * down * right, registers: own * atoms_right * atoms_down }
    }

    /// Atoms of a warp along the rows and the columns.
    fn atoms(&self, rows: i64, columns: i64) -> [i64; 2] {
        [rows / self.along[0] / self.atom.m as i64, columns / self.along[1] / self.atom.n as i64]
    }
}

/// A warp's part of an operand.
struct Side<'o> {
    operand: &'o Operand,
    role: Role,
    /// Atoms along the axis that the result has, too, and the elements from one to the next.
    atoms: i64,
    step: i64,
    /// The warp's first position along that axis.
    first: Expr,
}

impl Lowering<'_> {
    /// Adds the products of two operands in shared memory to an accumulator.
    pub fn matrix_multiply(&mut self, acc: VarId, left: &Operand, right: &Operand, shape: [i64; 2], warps: &Warps) -> Lowered<()> {
        let atom = warps.atom;
        let [down, across] = warps.atoms(shape[0], shape[1]);
        let warp = LOCAL.div(self.local_thread(), 32);
        let part = |cx: &mut Self, stride: i64, extent: i64, rows: i64, name: &str| {
            if extent == 1 {
                return LOCAL.lit(0);
            }
            let quotient = LOCAL.div(warp.clone(), stride);
            let digit = if stride == 1 { LOCAL.rem(quotient, extent) } else { quotient };
            cx.declare_let(name, DType::I32, LOCAL.mul(digit, LOCAL.lit(rows)))
        };
        let [warps_down, warps_right] = warps.along;
        let row = part(self, warps_right, warps_down, shape[0] / warps_down, "warp_row");
        let column = part(self, 1, warps_right, shape[1] / warps_right, "warp_col");
        let a = Side { operand: left, role: Role::A, atoms: down, step: atom.m as i64, first: row };
        let b = Side { operand: right, role: Role::B, atoms: across, step: atom.n as i64, first: column };
        let depth = left.extent / atom.k as i64;
        let (counter, e) = self.loop_var("kk");
        self.open();
        let k = LOCAL.mul(e, LOCAL.lit(atom.k as i64));
        let (x, y) = (self.matrices_of(&a, atom, &k)?, self.matrices_of(&b, atom, &k)?);
        let own = |role| atom.registers(role) as i64;
        let ((i, at_i), (j, at_j)) = (self.loop_var("i"), self.loop_var("j"));
        let fragment = |var, at: &Expr, step: i64| Fragment { var, at: LOCAL.mul(at.clone(), LOCAL.lit(step)) };
        let sum = LOCAL.add(LOCAL.mul(at_i.clone(), LOCAL.lit(across)), at_j.clone());
        let d = fragment(acc, &sum, own(Role::Accumulator));
        let multiply = Stmt::Mma { atom, d: d.clone(), a: fragment(x, &at_i, own(Role::A)), b: fragment(y, &at_j, own(Role::B)), c: d };
        self.emit(unrolled(i, down, vec![unrolled(j, across, vec![multiply])]));
        let body = self.close();
        let (start, end, step) = (LOCAL.lit(0), LOCAL.lit(depth), LOCAL.lit(1));
        self.emit(Stmt::For { var: counter, start, end, step, unroll: depth * down * across <= WRITTEN_OUT, body });
        Ok(())
    }

    /// Loads a warp's fragments of an operand at position `k` of the sum's axis, atom after atom.
    fn matrices_of(&mut self, side: &Side, atom: Atom, k: &Expr) -> Lowered<VarId> {
        let operand = side.operand;
        let len = side.atoms * atom.registers(side.role) as i64;
        let var = self.new_var(&format!("{}_frag", operand.name), operand.dtype, Some(len as u32));
        self.emit(Stmt::Declare { var, init: None });
        let Lies::Shared(copy) = &operand.lies else { panic!("mma: an operand in global memory") };
        // Of A, rows are the outer axis; of B, columns are.
        let contiguous = usize::from((copy.fast == operand.inner) == (side.role == Role::A));
        let same = operand.dtype == atom.dtype(side.role);
        match atom.matrices(side.role, contiguous).filter(|_| same) {
            Some((transposed, origins)) => self.load_matrices(side, atom, k, var, transposed, &origins),
            None => self.load_fragment_elements(side, atom, k, var),
        }
        if same && operand.chain.is_empty() {
            return Ok(var);
        }
        let taken = atom.dtype(side.role);
        let name = format!("{}_frag_{}", operand.name, taken);
        let converted = self.new_var(&name, taken, Some(len as u32));
        self.emit(Stmt::Declare { var: converted, init: None });
        let (counter, e) = self.loop_var("e");
        let read = Expr::Element(var, Box::new(e.clone()));
        let value = self.taken_element(operand, read);
        let value = self.to_storage(taken, value);
        self.emit(unrolled(counter, len, vec![Stmt::Assign { var: converted, index: Some(e), value }]));
        Ok(converted)
    }

    /// Row and column of a fragment become the operand's outer and inner position.
    fn fragment_place(&self, side: &Side, row: Expr, column: Expr, outer: Expr, k: &Expr) -> crate::simt::Place {
        let operand = side.operand;
        let Lies::Shared(copy) = &operand.lies else { panic!("mma: an operand in global memory") };
        let (along_outer, along_k) = if side.role == Role::A { (row, column) } else { (column, row) };
        let mut local = vec![LOCAL.lit(0); operand.rank];
        local[operand.outer] = LOCAL.add(LOCAL.add(side.first.clone(), outer), along_outer);
        local[operand.inner] = LOCAL.add(k.clone(), along_k);
        copy.place(operand.dtype, &local)
    }

    /// By `ldmatrix`: as many matrices at once as the fragments of one or two atoms have.
    fn load_matrices(&mut self, side: &Side, atom: Atom, k: &Expr, var: VarId, transposed: bool, origins: &[[i64; 2]]) {
        let words = origins.len() as i64;
        // Two fragments of two words make four matrices.
        let together = if words == 2 && side.atoms % 2 == 0 { 2 } else { 1 };
        let mut matrices: Vec<[i64; 2]> = Vec::new();
        for n in 0..together {
            let shift = if side.role == Role::A { [n * side.step, 0] } else { [0, n * side.step] };
            matrices.extend(origins.iter().map(|o| [o[0] + shift[0], o[1] + shift[1]]));
        }
        let count = matrices.len() as i64;
        debug_assert!([1, 2, 4].contains(&count), "mma: {count} matrices at once");
        // A lane gives the address of row `lane % 8` of matrix `lane / 8`, whose origin is linear in the bits of its number. The rows of a
        // matrix in memory lie along the axis that is not contiguous.
        let thread = self.local_thread();
        let along_rows = usize::from(transposed == (side.role == Role::A));
        let coordinate = |axis: usize| {
            let mut digits = vec![(1, 8, i64::from(axis == along_rows))];
            for bit in 0..count.trailing_zeros() {
                digits.push((8 << bit, 2, matrices[1 << bit][axis] - matrices[0][axis]));
            }
            positions(&thread, &digits, matrices[0][axis])
        };
        let (row, column) = (coordinate(0), coordinate(1));
        let (counter, e) = self.loop_var("i");
        let outer = LOCAL.mul(e.clone(), LOCAL.lit(side.step * together));
        let place = self.fragment_place(side, row, column, outer, k);
        let at = LOCAL.mul(e, LOCAL.lit(atom.registers(side.role) as i64 * together));
        let load = LoadMatrix { count: count as u32, transposed };
        self.emit(unrolled(counter, side.atoms / together, vec![Stmt::LoadMatrix { load, var, at, place }]));
    }

    /// Element by element, where no `ldmatrix` does it.
    fn load_fragment_elements(&mut self, side: &Side, atom: Atom, k: &Expr, var: VarId) {
        let layout = atom.layout(side.role);
        let thread = self.local_thread();
        let (counter, e) = self.loop_var("i");
        let outer = LOCAL.mul(e.clone(), LOCAL.lit(side.step));
        let mut loops = Vec::new();
        let (mut at, mut position) = (LOCAL.mul(e, LOCAL.lit(layout.registers)), [LOCAL.lit(0), LOCAL.lit(0)]);
        for (axis, digits) in layout.axes.iter().enumerate() {
            for d in digits {
                let digit = match d.source {
                    Source::Thread => LOCAL.rem(LOCAL.div(thread.clone(), d.stride), d.extent),
                    Source::Register => {
                        let (counter, e) = self.loop_var("r");
                        loops.push((counter, d.extent));
                        at = LOCAL.add(at, LOCAL.mul(e.clone(), LOCAL.lit(d.stride)));
                        e
                    }
                };
                position[axis] = LOCAL.add(position[axis].clone(), LOCAL.mul(digit, LOCAL.lit(d.place)));
            }
        }
        let [row, column] = position;
        let place = self.fragment_place(side, row, column, outer, k);
        let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
        let mut turn = vec![Stmt::Assign { var, index: Some(at), value }];
        for (counter, extent) in loops.into_iter().rev() {
            turn = vec![unrolled(counter, extent, turn)];
        }
        self.emit(unrolled(counter, side.atoms, turn));
    }
}

/// `first + Σ (thread / stride % extent) · step` of digits (stride, extent, step), with those that continue one another made one.
fn positions(thread: &Expr, digits: &[(i64, i64, i64)], first: i64) -> Expr {
    let mut merged: Vec<(i64, i64, i64)> = Vec::new();
    for (stride, extent, step) in digits.iter().copied().filter(|d| d.2 != 0) {
        match merged.last_mut() {
            Some((s, e, p)) if stride == *s * *e && step == *p * *e => *e *= extent,
            _ => merged.push((stride, extent, step)),
        }
    }
    merged.into_iter().fold(LOCAL.lit(first), |sum, (stride, extent, step)| {
        let digit = LOCAL.rem(LOCAL.div(thread.clone(), stride), extent);
        LOCAL.add(sum, LOCAL.mul(digit, LOCAL.lit(step)))
    })
}
