//! What a warp reads of an operand in shared memory: which rows and columns of fragments its lanes begin at, how the swizzle moves them, and
//! the reads themselves.

use super::context::Expander;
use super::convert::{exclusive_or, swizzled};
use super::elements::unrolled;
use super::index::Index;
use super::operand::{Lies, Operand};
use super::window::WindowCopy;
use crate::block::gcd;
use girih_ir::fragments::{Form, LoadMatrix, Operand as Role};
use girih_ir::layout::{Digit, SharedLayout, Source};
use girih_ir::simt::{Expr, Place, Stmt, VarId};
use girih_ir::types::DType;

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// A warp's part of an operand.
pub(crate) struct Side<'o> {
    operand: &'o Operand,
    copy: &'o WindowCopy,
    pub role: Role,
    /// Atoms along the axis that the result has, too, and the elements from one to the next.
    pub atoms: i64,
    step: i64,
    way: Way,
    lane: Lane,
}

impl Side<'_> {
    /// Elements of a lane's fragments.
    pub fn registers(&self, form: Form) -> i64 {
        self.atoms * form.registers(self.role) as i64
    }

    /// Whether its fragments are those of another operand, too, before anything is done to them.
    pub fn reads(&self, operand: &Operand, role: Role) -> bool {
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

impl Expander<'_> {
    /// How a warp reads its `atoms` of an operand, which begin at `first` along the axis that the result has, too.
    pub fn side<'o>(&mut self, operand: &'o Operand, role: Role, form: Form, atoms: i64, first: Expr) -> Side<'o> {
        let Lies::Shared(copy) = &operand.lies else { panic!("mma: an operand in global memory") };
        let step = form.tile()[usize::from(role == Role::B)];
        // Of A, rows are the outer axis; of B, columns are.
        let contiguous = usize::from((copy.fast == operand.inner) == (role == Role::A));
        let same = operand.dtype == form.dtype(role);
        let (way, together, reach) = match form.matrices_read(role, contiguous, operand.beside_sums).filter(|_| same) {
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
                let axes = form.read(role, operand.beside_sums).axes;
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
    pub fn read_side(&mut self, side: &Side, form: Form, k: &Expr) -> VarId {
        let operand = side.operand;
        let len = side.registers(form);
        let var = self.new_var(&format!("{}_frag", operand.name), operand.dtype, Some(len as u32));
        self.emit(Stmt::Declare { var, init: None });
        match side.way {
            Way::Matrices { load, atoms } => self.load_matrices(side, form, k, var, load, atoms),
            Way::Elements { width } => self.load_fragment_elements(side, form, k, var, width),
        }
        var
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
        let layout = form.read(side.role, side.operand.beside_sums);
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
