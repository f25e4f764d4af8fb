//! Dots by matrix instructions: warps share the result, and each multiplies fragments that it loads from shared memory.

use super::context::{Lowered, Lowering};
use super::convert::{exclusive_or, swizzled};
use super::elements::unrolled;
use super::index::Index;
use super::matrix_units::{WRITTEN_OUT, Warps};
use super::operand::{Lies, Operand};
use super::plan::gcd;
use super::window::WindowCopy;
use crate::fragments::{Form, LoadMatrix, Operand as Role};
use crate::layout::{Digit, SharedLayout, Source};
use crate::simt::{Expr, Fragment, Place, Stmt, VarId};
use crate::tile::ValueId;
use crate::types::DType;

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };
/// A dot of operands in shared memory, and the array that its products are added to.
pub(crate) struct Product {
    pub acc: VarId,
    pub left: Operand,
    pub right: Operand,
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

impl Side<'_> {
    /// Whether its fragments are those of another operand, too, before anything is done to them.
    fn reads(&self, (operand, role): (&Operand, Role)) -> bool {
        let source = |o: &Operand| o.load.unwrap_or(o.value);
        self.role == role && source(self.operand) == source(operand)
    }
}

/// How fragments are loaded.
enum Way {
    /// By `ldmatrix`, the matrices of so many atoms together.
    Matrices { load: LoadMatrix, atoms: i64 },
    /// Element by element, or so many neighbours at once, where no `ldmatrix` does it.
    Elements { width: i64 },
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
    /// Adds the products of operands in shared memory to their accumulators, those of all dots at each step along the sum: what was copied
    /// from one load is read once.
    pub fn matrix_multiply(&mut self, products: &[Product], shape: [i64; 2], warps: &Warps) -> Lowered<()> {
        let form = warps.form;
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
        let mut sides: Vec<Side> = Vec::new();
        for operand in products.iter().flat_map(|p| [(&p.left, Role::A), (&p.right, Role::B)]) {
            if sides.iter().all(|s| !s.reads(operand)) {
                let (operand, role) = operand;
                let (atoms, first) = if role == Role::A { (down, row.clone()) } else { (across, column.clone()) };
                sides.push(self.side(operand, role, form, atoms, first));
            }
        }
        let depth = products[0].left.extent / form.atom.k as i64;
        let (counter, e) = self.loop_var("kk");
        self.open();
        let k = LOCAL.mul(e, LOCAL.lit(form.atom.k as i64));
        let read: Vec<VarId> = sides.iter().map(|side| self.read_side(side, form, &k)).collect();
        let mut taken: Vec<((ValueId, Role), VarId)> = Vec::new();
        for operand in products.iter().flat_map(|p| [(&p.left, Role::A), (&p.right, Role::B)]) {
            if let Some(at) = sides.iter().position(|s| s.reads(operand))
                && taken.iter().all(|(key, _)| *key != (operand.0.value, operand.1))
            {
                let var = self.taken_fragment(operand.0, &sides[at], form, read[at], products.len() > 1);
                taken.push(((operand.0.value, operand.1), var));
            }
        }
        let fragment = |operand: &Operand, role| {
            let found = taken.iter().find(|(key, _)| *key == (operand.value, role));
            found.unwrap_or_else(|| panic!("mma: {} was not read", operand.name)).1
        };
        for p in products {
            self.products_of(p.acc, [fragment(&p.left, Role::A), fragment(&p.right, Role::B)], form, [down, across]);
        }
        let body = self.close();
        let (start, end, step) = (LOCAL.lit(0), LOCAL.lit(depth), LOCAL.lit(1));
        self.emit(Stmt::For { var: counter, start, end, step, unroll: depth * down * across <= WRITTEN_OUT, body });
        Ok(())
    }

    /// All products of a step's fragments: each of the instruction's A with every one of its B, in every other turn backwards.
    fn products_of(&mut self, acc: VarId, [x, y]: [VarId; 2], form: Form, [down, across]: [i64; 2]) {
        let ((i, at_i), (j, at_j)) = (self.loop_var("i"), self.loop_var("j"));
        let own = |role| i64::from(form.registers(role));
        let fragment = |var, at: &Expr, step: i64| Fragment { var, at: LOCAL.mul(at.clone(), LOCAL.lit(step)) };
        self.open();
        let both = down > 1 && across > 1;
        let (row, column) = match form.swapped {
            true => (if both { self.back_and_forth(&at_j, at_i, down) } else { at_i }, at_j),
            false => (at_i.clone(), if both { self.back_and_forth(&at_i, at_j, across) } else { at_j }),
        };
        let sum = LOCAL.add(LOCAL.mul(row.clone(), LOCAL.lit(across)), column.clone());
        let d = fragment(acc, &sum, own(Role::Accumulator));
        let (left, right) = (fragment(x, &row, own(Role::A)), fragment(y, &column, own(Role::B)));
        let (a, b) = if form.swapped { (right, left) } else { (left, right) };
        self.emit(Stmt::Mma { atom: form.atom, d: d.clone(), a, b, c: d });
        let multiply = self.close();
        self.emit(match form.swapped {
            true => unrolled(j, across, vec![unrolled(i, down, multiply)]),
            false => unrolled(i, down, vec![unrolled(j, across, multiply)]),
        });
    }

    /// How a warp reads its `atoms` of an operand, which begin at `first` along the axis that the result has, too.
    fn side<'o>(&mut self, operand: &'o Operand, role: Role, form: Form, atoms: i64, first: Expr) -> Side<'o> {
        let Lies::Shared(copy) = &operand.lies else { panic!("mma: an operand in global memory") };
        let step = form.tile()[usize::from(role == Role::B)];
        // Of A, rows are the outer axis; of B, columns are.
        let contiguous = usize::from((copy.fast == operand.inner) == (role == Role::A));
        let same = operand.dtype == form.dtype(role);
        let (way, together, reach) = match form.matrices(role, contiguous).filter(|_| same) {
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
                let axes = form.layout(role).axes;
                let outer = usize::from(role == Role::B);
                // Neighbours in a row of the copy are one read.
                let width = if copy.fast == operand.outer { run(&axes[outer]) } else { 1 };
                let of = |source| move |d: &&Digit| d.source == source;
                let lanes = |k: usize| axes[k].iter().filter(of(Source::Thread)).map(|d| (d.stride, d.extent, d.place)).collect();
                let steps = |k: usize| {
                    let all = axes[k].iter().filter(of(Source::Register)).filter(|d| width == 1 || k != outer || d.place >= width);
                    all.map(|d| (d.extent, d.place)).collect()
                };
                (Way::Elements { width }, 1, Reach { digits: [lanes(0), lanes(1)], steps: [steps(0), steps(1)] })
            }
        };
        let lane = self.lane(operand, copy, role, first, &reach, [step * together, form.atom.k as i64, atoms * step]);
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
    fn read_side(&mut self, side: &Side, form: Form, k: &Expr) -> VarId {
        let operand = side.operand;
        let len = side.atoms * form.registers(side.role) as i64;
        let var = self.new_var(&format!("{}_frag", operand.name), operand.dtype, Some(len as u32));
        self.emit(Stmt::Declare { var, init: None });
        match side.way {
            Way::Matrices { load, atoms } => self.load_matrices(side, form, k, var, load, atoms),
            Way::Elements { width } => self.load_fragment_elements(side, form, k, var, width),
        }
        var
    }

    /// The fragments of an operand as the instruction takes them, of what was read. Where several may be made of it, they have the author's names
    /// if there are any.
    fn taken_fragment(&mut self, operand: &Operand, side: &Side, form: Form, read: VarId, several: bool) -> VarId {
        let taken = form.dtype(side.role);
        if operand.dtype == taken && operand.chain.is_empty() {
            return read;
        }
        let len = side.atoms * form.registers(side.role) as i64;
        let name = match &self.kernel.value(operand.value).name {
            Some(name) if several => format!("{name}_frag"),
            _ => format!("{}_frag_{}", operand.name, taken),
        };
        let converted = self.new_var(&name, taken, Some(len as u32));
        self.emit(Stmt::Declare { var: converted, init: None });
        let (counter, e) = self.loop_var("e");
        let value = self.taken_element(operand, Expr::Element(read, Box::new(e.clone())));
        let value = self.to_storage(taken, value);
        self.emit(unrolled(counter, len, vec![Stmt::Assign { var: converted, index: Some(e), value }]));
        converted
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
    fn load_matrices(&mut self, side: &Side, form: Form, k: &Expr, var: VarId, load: LoadMatrix, atoms: i64) {
        let (counter, e) = self.loop_var("i");
        let place = self.lane_place(side, LOCAL.mul(e.clone(), LOCAL.lit(side.step * atoms)), k.clone());
        let at = LOCAL.mul(e, LOCAL.lit(form.registers(side.role) as i64 * atoms));
        self.emit(unrolled(counter, side.atoms / atoms, vec![Stmt::LoadMatrix { load, var, at, place }]));
    }

    /// `width` neighbours at a time, where no `ldmatrix` does it.
    fn load_fragment_elements(&mut self, side: &Side, form: Form, k: &Expr, var: VarId, width: i64) {
        let layout = form.layout(side.role);
        let (counter, e) = self.loop_var("i");
        let mut loops = Vec::new();
        let along_k = usize::from(side.role == Role::A);
        let mut steps = [LOCAL.mul(e.clone(), LOCAL.lit(side.step)), k.clone()];
        let mut at = LOCAL.mul(e, LOCAL.lit(layout.registers));
        for (axis, digits) in layout.axes.iter().enumerate() {
            let step = &mut steps[usize::from(axis == along_k)];
            let at_once = |d: &Digit| width > 1 && axis != along_k && d.place < width;
            for d in digits.iter().filter(|d| d.source == Source::Register && !at_once(d)) {
                let (counter, e) = self.loop_var("r");
                loops.push((counter, d.extent));
                at = LOCAL.add(at, LOCAL.mul(e.clone(), LOCAL.lit(d.stride)));
                *step = LOCAL.add(step.clone(), LOCAL.mul(e, LOCAL.lit(d.place)));
            }
        }
        let [outer, k] = steps;
        let place = self.lane_place(side, outer, k);
        let mut turn = vec![if width > 1 {
            Stmt::LoadVector { var, at, place, lanes: width as u32, predicate: None, cache: Default::default() }
        } else {
            let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
            Stmt::Assign { var, index: Some(at), value }
        }];
        for (counter, extent) in loops.into_iter().rev() {
            turn = vec![unrolled(counter, extent, turn)];
        }
        self.emit(unrolled(counter, side.atoms, turn));
    }
}

/// How many neighbours along an axis lie in neighbouring registers.
fn run(digits: &[Digit]) -> i64 {
    digits.first().filter(|d| d.source == Source::Register && d.stride == 1 && d.place == 1).map_or(1, |d| d.extent)
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
