//! Dots by matrix instructions: warps share the result, and each multiplies the fragments that it reads (`fragment_reads`).

use super::context::Expander;
use super::elements::unrolled;
use super::fragment_prefetch::{Conversion, LoweredSteps};
use super::fragment_reads::Side;
use super::index::Index;
use super::operand::Operand;
use crate::block::ValueId;
use crate::block::{WRITTEN_OUT, Warps};
use girih_ir::fragments::{Atom, Form, Operand as Role, Order};
use girih_ir::simt::{Expr, Fragment, Stmt, VarId};
use girih_ir::types::DType;
use std::collections::HashMap;

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// A dot, and the array that its products are added to.
pub(crate) struct Product {
    pub acc: VarId,
    pub left: Left,
    pub right: Operand,
    /// The array has no numbers yet: the first products are written, not added.
    pub from_zeros: bool,
}

/// A left operand.
#[derive(Clone)]
pub(crate) enum Left {
    /// In shared memory.
    Copied(Box<Operand>),
    /// In registers.
    Fed(Fed),
}

/// A left operand in the registers of the sums that it is made of: a warp's rows, the columns of each one behind the other, as fragments.
#[derive(Clone)]
pub(crate) struct Fed {
    pub var: VarId,
    /// Elements of a lane.
    pub registers: i64,
}

/// A warp's fragments of an operand at a step along the sum: where they begin, and elements from one to the next.
#[derive(Clone)]
struct Taken {
    var: VarId,
    first: Expr,
    step: i64,
}

impl Product {
    /// The operands that are read from shared memory.
    fn operands(&self) -> impl Iterator<Item = (&Operand, Role)> {
        let left = if let Left::Copied(left) = &self.left { Some((&**left, Role::A)) } else { None };
        left.into_iter().chain([(&self.right, Role::B)])
    }
}

impl Fed {
    /// The fragment of a row of instructions, of so many, at a step along the sum.
    pub fn fragment(&self, atom: Atom, (down, row): (i64, &Expr), step: &Expr) -> Fragment {
        let Taken { var, first, step } = self.taken(Form { atom, order: Order::Plain }, down, step);
        Fragment { var, at: LOCAL.add(LOCAL.mul(row.clone(), LOCAL.lit(step)), first) }
    }

    /// Its fragments at step `number` along the sum; a warp has so many of them down its rows.
    fn taken(&self, form: Form, down: i64, number: &Expr) -> Taken {
        let first = LOCAL.mul(number.clone(), LOCAL.lit(i64::from(form.registers(Role::A))));
        Taken { var: self.var, first, step: self.registers / down }
    }
}

impl Expander<'_> {
    /// Adds the products of operands to their accumulators, those of all dots at each step along the sum: what was copied
    /// from one load is read once.
    pub fn matrix_multiply(&mut self, products: &[Product], shape: [i64; 2], warps: &Warps) {
        let form = warps.form;
        let atoms = warps.atoms(shape[0], shape[1]);
        let first = self.warp_begins(shape, warps);
        let mut sides: Vec<Side> = Vec::new();
        for (operand, role) in products.iter().flat_map(Product::operands) {
            if sides.iter().all(|s| !s.reads(operand, role)) {
                let axis = usize::from(role == Role::B);
                sides.push(self.side(operand, role, form, atoms[axis], first[axis].clone()));
            }
        }
        let depth = products[0].right.extent / form.atom.k as i64;
        let (counter, e) = self.loop_var("kk");
        self.open();
        let k = LOCAL.mul(e.clone(), LOCAL.lit(form.atom.k as i64));
        let read: Vec<VarId> = sides.iter().map(|side| self.read_side(side, form, &k)).collect();
        let loads = self.mark();
        let (taken, conversions) = self.fragments_of(products, &sides, form, &read);
        let converts = self.mark() - loads;
        for p in products {
            let of = |operand: &Operand, role| {
                let step = i64::from(form.registers(role));
                Taken { var: taken[&(operand.value, role)], first: LOCAL.lit(0), step }
            };
            let left = match &p.left {
                Left::Copied(left) => of(left, Role::A),
                Left::Fed(fed) => fed.taken(form, atoms[0], &e),
            };
            self.products_of(p.acc, [left, of(&p.right, Role::B)], form, atoms);
        }
        let body = self.close();
        let (start, end, step) = (LOCAL.lit(0), LOCAL.lit(depth), LOCAL.lit(1));
        let unroll = depth * atoms[0] * atoms[1] <= WRITTEN_OUT;
        if unroll && depth % 2 == 0 {
            let fragments = read.iter().zip(&sides).map(|(var, side)| (*var, side.registers(form))).collect();
            self.steps = Some(LoweredSteps { depth: self.blocks.len(), at: self.mark(), fragments, loads, conversions, converts });
        }
        self.emit(Stmt::For { var: counter, start, end, step, unroll, body });
    }

    /// The row and the column of the result at which a warp begins.
    fn warp_begins(&mut self, shape: [i64; 2], warps: &Warps) -> [Expr; 2] {
        let warp = LOCAL.div(self.thread32(), 32);
        let [down, right] = warps.along_of(shape);
        [(right, down, shape[0] / down, "warp_row"), (1, right, shape[1] / right, "warp_col")].map(|(stride, extent, elements, name)| {
            if extent == 1 {
                return LOCAL.lit(0);
            }
            let quotient = LOCAL.div(warp.clone(), stride);
            let digit = if stride == 1 { LOCAL.rem(quotient, extent) } else { quotient };
            self.declare_before(name, LOCAL.mul(digit, LOCAL.lit(elements)))
        })
    }

    /// Makes of what was read what the instruction takes, of each operand once; and how.
    fn fragments_of(
        &mut self,
        products: &[Product],
        sides: &[Side],
        form: Form,
        read: &[VarId],
    ) -> (HashMap<(ValueId, Role), VarId>, Vec<Conversion>) {
        let (mut taken, mut conversions) = (HashMap::new(), Vec::new());
        for (operand, role) in products.iter().flat_map(Product::operands) {
            let at = sides.iter().position(|s| s.reads(operand, role));
            let at = at.unwrap_or_else(|| panic!("mma: {} is not read", operand.name));
            let make = || match self.taken_fragment(operand, &sides[at], form, read[at], products.len() > 1) {
                Some(conversion) => {
                    let written = conversion.written;
                    conversions.push(conversion);
                    written
                }
                None => read[at],
            };
            taken.entry((operand.value, role)).or_insert_with(make);
        }
        (taken, conversions)
    }

    /// All products of a step's fragments: each of the instruction's A with every one of its B, in every other turn backwards.
    fn products_of(&mut self, acc: VarId, [x, y]: [Taken; 2], form: Form, [down, across]: [i64; 2]) {
        let ((i, at_i), (j, at_j)) = (self.loop_var("i"), self.loop_var("j"));
        let fragment = |taken: Taken, at: &Expr| {
            let at = LOCAL.add(LOCAL.mul(at.clone(), LOCAL.lit(taken.step)), taken.first);
            Fragment { var: taken.var, at }
        };
        self.open();
        let both = down > 1 && across > 1;
        let (row, column) = match form.is_swapped() {
            true => (if both { self.back_and_forth(&at_j, at_i, down) } else { at_i }, at_j),
            false => (at_i.clone(), if both { self.back_and_forth(&at_i, at_j, across) } else { at_j }),
        };
        let sum = LOCAL.add(LOCAL.mul(row.clone(), LOCAL.lit(across)), column.clone());
        let sums = Taken { var: acc, first: LOCAL.lit(0), step: i64::from(form.registers(Role::Accumulator)) };
        let (d, left, right) = (fragment(sums, &sum), fragment(x, &row), fragment(y, &column));
        let (a, b) = if form.is_swapped() { (right, left) } else { (left, right) };
        self.emit(Stmt::Mma { atom: form.atom, d: d.clone(), a, b, c: d });
        let multiply = self.close();
        self.emit(match form.is_swapped() {
            true => unrolled(j, across, vec![unrolled(i, down, multiply)]),
            false => unrolled(i, down, vec![unrolled(j, across, multiply)]),
        });
    }

    /// Converts the fragments of an operand to what the instruction takes; `None` where they are that. Where several may be made of what was
    /// read, they have the author's names if there are any.
    fn taken_fragment(&mut self, operand: &Operand, side: &Side, form: Form, read: VarId, several: bool) -> Option<Conversion> {
        let taken = form.dtype(side.role);
        if operand.dtype == taken && operand.chain.is_empty() {
            return None;
        }
        let len = side.registers(form);
        let name = match &self.kernel.value(operand.value).name {
            Some(name) if several => format!("{name}_frag"),
            _ => format!("{}_frag_{}", operand.name, taken),
        };
        let converted = self.new_var(&name, taken, Some(len as u32));
        self.emit(Stmt::Declare { var: converted, init: None });
        let (counter, e) = self.loop_var("e");
        let value = self.taken_element(operand, Expr::Element(read, Box::new(e.clone())));
        let value = self.to_storage(taken, value);
        let stmt = Stmt::Assign { var: converted, index: Some(e), value: value.clone() };
        self.emit(unrolled(counter, len, vec![stmt]));
        Some(Conversion { fragment: read, written: converted, len, element: counter, value })
    }
}
