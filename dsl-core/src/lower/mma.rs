//! Dots by matrix instructions: warps share the result, and each multiplies fragments that it loads from shared memory.

use super::context::{Lowered, Lowering};
use super::convert::{exclusive_or, swizzled};
use super::elements::unrolled;
use super::index::Index;
use super::operand::{Lies, Operand};
use super::plan::{gcd, illegal};
use super::window::WindowCopy;
use crate::fragments::{Atom, LoadMatrix, Number, Operand as Role};
use crate::layout::{Digit, Layout, SharedLayout, Source};
use crate::schedule::{Choice, KnobKind, Schedule, ScheduleError};
use crate::simt::{Expr, Fragment, Place, Stmt, VarId};
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
    /// Steps of the instruction along the tile of a sum; `None` where they are not written out.
    pub steps: Option<i64>,
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
        Some(along) if count <= 32 => {
            let products = inner * rows * columns / (along[0] * along[1] * atom.k as i64 * atom.m as i64 * atom.n as i64);
            let steps = (products <= WRITTEN_OUT).then_some(inner / atom.k as i64);
            Ok(Some(Warps { atom, along, leading: anchor.len() - 2, steps }))
        }
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
            Some((n, d, k)) if n == number && d == accumulator => Some((n, d, gcd(k, inner))),
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
    copy: &'o WindowCopy,
    role: Role,
    /// Atoms along the axis that the result has, too, and the elements from one to the next.
    atoms: i64,
    step: i64,
    way: Way,
    lane: Lane,
}

/// How fragments are loaded.
enum Way {
    /// By `ldmatrix`, the matrices of so many atoms together.
    Matrices { load: LoadMatrix, atoms: i64 },
    /// Element by element, where no `ldmatrix` does it.
    Elements,
}

/// Which rows and columns of a fragment a lane reads.
struct Reach {
    /// By its number: digits (stride, extent, step).
    digits: [Vec<(i64, i64, i64)>; 2],
    /// By its register: how many, and steps.
    steps: [Vec<(i64, i64)>; 2],
}

/// The first element that a lane reads: where it lies in the copy, and how the swizzle moves those after it.
struct Lane {
    row: Expr,
    column: Expr,
    swizzle: Moves,
}

/// How a lane's column moves with the swizzle.
enum Moves {
    /// Not at all: there is no swizzle.
    Not,
    /// The lane's column has the swizzle in it, and steps share no bit with it: they are exclusive-ored with it.
    Steps,
    /// All rows that the lane reads are swizzled by this.
    Always(Expr),
    /// By each row.
    ByRow(SharedLayout),
}

impl Lowering<'_> {
    /// Adds the products of two operands in shared memory to an accumulator.
    pub fn matrix_multiply(&mut self, acc: VarId, left: &Operand, right: &Operand, shape: [i64; 2], warps: &Warps) -> Lowered<()> {
        let atom = warps.atom;
        let [down, across] = warps.atoms(shape[0], shape[1]);
        let warp = LOCAL.div(self.thread32(), 32);
        let part = |cx: &mut Self, stride: i64, extent: i64, rows: i64, name: &str| {
            if extent == 1 {
                return LOCAL.lit(0);
            }
            let quotient = LOCAL.div(warp.clone(), stride);
            let digit = if stride == 1 { LOCAL.rem(quotient, extent) } else { quotient };
            cx.declare_before(name, LOCAL.mul(digit, LOCAL.lit(rows)))
        };
        let [warps_down, warps_right] = warps.along;
        let row = part(self, warps_right, warps_down, shape[0] / warps_down, "warp_row");
        let column = part(self, 1, warps_right, shape[1] / warps_right, "warp_col");
        let a = self.side(left, Role::A, atom, down, row);
        let b = self.side(right, Role::B, atom, across, column);
        let depth = left.extent / atom.k as i64;
        let (counter, e) = self.loop_var("kk");
        self.open();
        let k = LOCAL.mul(e, LOCAL.lit(atom.k as i64));
        let (x, y) = (self.matrices_of(&a, atom, &k)?, self.matrices_of(&b, atom, &k)?);
        let own = |role| atom.registers(role) as i64;
        let ((i, at_i), (j, at_j)) = (self.loop_var("i"), self.loop_var("j"));
        let fragment = |var, at: &Expr, step: i64| Fragment { var, at: LOCAL.mul(at.clone(), LOCAL.lit(step)) };
        self.open();
        let column = if down > 1 && across > 1 { self.back_and_forth(&at_i, at_j, across) } else { at_j };
        let sum = LOCAL.add(LOCAL.mul(at_i.clone(), LOCAL.lit(across)), column.clone());
        let d = fragment(acc, &sum, own(Role::Accumulator));
        self.emit(Stmt::Mma { atom, d: d.clone(), a: fragment(x, &at_i, own(Role::A)), b: fragment(y, &column, own(Role::B)), c: d });
        let multiply = self.close();
        self.emit(unrolled(i, down, vec![unrolled(j, across, multiply)]));
        let body = self.close();
        let (start, end, step) = (LOCAL.lit(0), LOCAL.lit(depth), LOCAL.lit(1));
        self.emit(Stmt::For { var: counter, start, end, step, unroll: depth * down * across <= WRITTEN_OUT, body });
        Ok(())
    }

    /// How a warp reads its `atoms` of an operand, which begin at `first` along the axis that the result has, too.
    fn side<'o>(&mut self, operand: &'o Operand, role: Role, atom: Atom, atoms: i64, first: Expr) -> Side<'o> {
        let Lies::Shared(copy) = &operand.lies else { panic!("mma: an operand in global memory") };
        let step = if role == Role::A { atom.m } else { atom.n } as i64;
        // Of A, rows are the outer axis; of B, columns are.
        let contiguous = usize::from((copy.fast == operand.inner) == (role == Role::A));
        let same = operand.dtype == atom.dtype(role);
        let (way, together, reach) = match atom.matrices(role, contiguous).filter(|_| same) {
            Some((transposed, origins)) => {
                // Two fragments of two words make four matrices.
                let together = if origins.len() == 2 && atoms % 2 == 0 { 2 } else { 1 };
                let mut matrices: Vec<[i64; 2]> = Vec::new();
                for n in 0..together {
                    let shift = if role == Role::A { [n * step, 0] } else { [0, n * step] };
                    matrices.extend(origins.iter().map(|o| [o[0] + shift[0], o[1] + shift[1]]));
                }
                let load = LoadMatrix { count: matrices.len() as u32, transposed };
                let digits = address_digits(role, load, &matrices);
                (Way::Matrices { load, atoms: together }, together, Reach { digits, steps: [vec![], vec![]] })
            }
            None => {
                let axes = atom.layout(role).axes;
                let of = |source| move |d: &&Digit| d.source == source;
                let lanes = |k: usize| axes[k].iter().filter(of(Source::Thread)).map(|d| (d.stride, d.extent, d.place)).collect();
                let steps = |k: usize| axes[k].iter().filter(of(Source::Register)).map(|d| (d.extent, d.place)).collect();
                (Way::Elements, 1, Reach { digits: [lanes(0), lanes(1)], steps: [steps(0), steps(1)] })
            }
        };
        let lane = self.lane(operand, copy, role, first, &reach, [step * together, atom.k as i64, atoms * step]);
        Side { operand, copy, role, atoms, step, way, lane }
    }

    /// Where a lane begins to read. `outer`, `inner`: elements from one turn of a loop to the next along the operand's axes; `part`: elements
    /// of the warp.
    fn lane(
        &mut self,
        operand: &Operand,
        copy: &WindowCopy,
        role: Role,
        first: Expr,
        Reach { digits, steps }: &Reach,
        [outer, inner, part]: [i64; 3],
    ) -> Lane {
        let thread = self.thread32();
        let along_k = usize::from(role == Role::A);
        let by_outer = copy.fast == operand.inner;
        // Rows and columns of the copy: the fragment's axis, and the step from one atom to the next.
        let ((row_axis, row_step), (column_axis, column_step)) =
            if by_outer { ((1 - along_k, outer), (along_k, inner)) } else { ((along_k, inner), (1 - along_k, outer)) };
        let position = |axis: usize| {
            let own = positions(&thread, &digits[axis]);
            if axis == along_k { own } else { LOCAL.add(first.clone(), own) }
        };
        let (row, column) = (position(row_axis), position(column_axis));
        let name = |what: &str| format!("{}_lane_{what}", operand.name);
        let row = self.declare_before(&name("row"), row);
        let Some((_, swizzle)) = copy.swizzle else {
            return Lane { row, column: self.declare_before(&name("col"), column), swizzle: Moves::Not };
        };
        // Rows that the lane reads are swizzled alike where steps are whole periods, or stay within the rows that are.
        let alike = 1 << swizzle.shift;
        let short = steps[row_axis].iter().filter(|(_, step)| step % swizzle.period() != 0);
        let within: i64 = short.map(|(extent, step)| (extent - 1) * step).sum();
        let begins = digits[row_axis].iter().all(|(_, _, step)| step % alike == 0);
        if row_step % swizzle.period() != 0 || within >= if begins && row_axis == along_k { alike } else { 1 } {
            return Lane { row, column: self.declare_before(&name("col"), column), swizzle: Moves::ByRow(swizzle) };
        }
        let least = steps[column_axis].iter().fold(column_step, |all, (_, step)| gcd(all, *step));
        let lanes: i64 = digits[column_axis].iter().map(|(_, extent, step)| (extent - 1) * step).sum();
        let apart = least > lanes;
        if apart && (by_outer || (part as u64).is_power_of_two()) {
            let column = swizzled(&swizzle, &row, column);
            return Lane { row, column: self.declare_before(&name("col"), column), swizzle: Moves::Steps };
        }
        let column = self.declare_before(&name("col"), column);
        let flip = swizzled(&swizzle, &row, LOCAL.lit(0));
        Lane { row, column, swizzle: Moves::Always(self.declare_before(&name("swizzle"), flip)) }
    }

    /// Loads a warp's fragments of an operand at position `k` of the sum's axis, atom after atom.
    fn matrices_of(&mut self, side: &Side, atom: Atom, k: &Expr) -> Lowered<VarId> {
        let operand = side.operand;
        let len = side.atoms * atom.registers(side.role) as i64;
        let var = self.new_var(&format!("{}_frag", operand.name), operand.dtype, Some(len as u32));
        self.emit(Stmt::Declare { var, init: None });
        match side.way {
            Way::Matrices { load, atoms } => self.load_matrices(side, atom, k, var, load, atoms),
            Way::Elements => self.load_fragment_elements(side, atom, k, var),
        }
        let taken = atom.dtype(side.role);
        if operand.dtype == taken && operand.chain.is_empty() {
            return Ok(var);
        }
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

    /// The place so far from the first that the lane reads, along the operand's outer axis and along `k`.
    fn lane_place(&self, side: &Side, outer: Expr, k: Expr) -> Place {
        let Side { operand, copy, lane, .. } = side;
        let (down, right) = if copy.fast == operand.inner { (outer, k) } else { (k, outer) };
        let row = LOCAL.add(lane.row.clone(), down);
        let along = |right: Expr| LOCAL.add(lane.column.clone(), right);
        let column = match &lane.swizzle {
            Moves::Not => along(right),
            Moves::Steps => exclusive_or(lane.column.clone(), right),
            Moves::Always(flip) => exclusive_or(along(right), flip.clone()),
            Moves::ByRow(swizzle) => swizzled(swizzle, &row, along(right)),
        };
        let mut local = vec![LOCAL.lit(0); operand.rank];
        local[if copy.fast == operand.inner { operand.outer } else { operand.inner }] = row;
        copy.place_in_row(operand.dtype, &local, column)
    }

    /// By `ldmatrix`: as many matrices at once as the fragments of one or two atoms have.
    fn load_matrices(&mut self, side: &Side, atom: Atom, k: &Expr, var: VarId, load: LoadMatrix, atoms: i64) {
        let (counter, e) = self.loop_var("i");
        let place = self.lane_place(side, LOCAL.mul(e.clone(), LOCAL.lit(side.step * atoms)), k.clone());
        let at = LOCAL.mul(e, LOCAL.lit(atom.registers(side.role) as i64 * atoms));
        self.emit(unrolled(counter, side.atoms / atoms, vec![Stmt::LoadMatrix { load, var, at, place }]));
    }

    /// Element by element, where no `ldmatrix` does it.
    fn load_fragment_elements(&mut self, side: &Side, atom: Atom, k: &Expr, var: VarId) {
        let layout = atom.layout(side.role);
        let (counter, e) = self.loop_var("i");
        let mut loops = Vec::new();
        let along_k = usize::from(side.role == Role::A);
        let mut steps = [LOCAL.mul(e.clone(), LOCAL.lit(side.step)), k.clone()];
        let mut at = LOCAL.mul(e, LOCAL.lit(layout.registers));
        for (axis, digits) in layout.axes.iter().enumerate() {
            let step = &mut steps[usize::from(axis == along_k)];
            for d in digits.iter().filter(|d| d.source == Source::Register) {
                let (counter, e) = self.loop_var("r");
                loops.push((counter, d.extent));
                at = LOCAL.add(at, LOCAL.mul(e.clone(), LOCAL.lit(d.stride)));
                *step = LOCAL.add(step.clone(), LOCAL.mul(e, LOCAL.lit(d.place)));
            }
        }
        let [outer, k] = steps;
        let place = self.lane_place(side, outer, k);
        let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
        let mut turn = vec![Stmt::Assign { var, index: Some(at), value }];
        for (counter, extent) in loops.into_iter().rev() {
            turn = vec![unrolled(counter, extent, turn)];
        }
        self.emit(unrolled(counter, side.atoms, turn));
    }
}

/// Which rows and columns of fragments a lane gives `ldmatrix` the addresses of: digits of the lane (stride, extent, step). A lane gives the
/// address of row `lane % 8` of matrix `lane / 8`, whose origin is linear in the bits of its number. The rows of a matrix in memory lie along
/// the axis that is not contiguous.
fn address_digits(role: Role, load: LoadMatrix, matrices: &[[i64; 2]]) -> [Vec<(i64, i64, i64)>; 2] {
    debug_assert!([1, 2, 4].contains(&load.count), "mma: {} matrices at once", load.count);
    debug_assert!(matrices[0] == [0, 0], "mma: the first matrix is not the first of the fragment");
    let along_rows = usize::from(load.transposed == (role == Role::A));
    [0, 1].map(|axis| {
        let mut digits = vec![(1, 8, i64::from(axis == along_rows))];
        digits.extend((0..load.count.trailing_zeros()).map(|bit| (8 << bit, 2, matrices[1 << bit][axis])));
        digits
    })
}

/// `Σ (thread / stride % extent) · step` of digits (stride, extent, step), with those that continue one another made one.
fn positions(thread: &Expr, digits: &[(i64, i64, i64)]) -> Expr {
    let mut merged: Vec<(i64, i64, i64)> = Vec::new();
    for (stride, extent, step) in digits.iter().copied().filter(|d| d.2 != 0) {
        match merged.last_mut() {
            Some((s, e, p)) if stride == *s * *e && step == *p * *e => *e *= extent,
            _ => merged.push((stride, extent, step)),
        }
    }
    merged.into_iter().fold(LOCAL.lit(0), |sum, (stride, extent, step)| {
        let digit = LOCAL.rem(LOCAL.div(thread.clone(), stride), extent);
        LOCAL.add(sum, LOCAL.mul(digit, LOCAL.lit(step)))
    })
}
