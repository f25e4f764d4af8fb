//! Dots by matrix instructions of warp groups: each group multiplies its part of the result, from operands in shared memory that their descriptors
//! say where to find, or from left operands in the registers of the sums that they are made of. (CUTLASS calls these GMMA, SS and RS.)
//!
//! Copies of operands lie in panels: rows of at most 128 bytes one below the other, swizzled, a panel behind the next one where a tile's rows are
//! longer.

use super::context::{Expanded, Expander};
use super::elements::unrolled;
use super::index::{Index, compare};
use super::mma::{Fed, Left, Product};
use super::operand::{Lies, Operand};
use super::operand_rows::Rows;
use super::window::{CopyAxis, WindowCopy};
use crate::block::Warps;
use crate::lower::refusal::Refusal;
use girih_ir::fragments::GroupAtom;
use girih_ir::layout::SharedLayout;
use girih_ir::simt::{Barrier, Expr, Fragment, LeftMatrix, Place, SharedMatrix, ShuffleKind, Stmt, VarId};
use girih_ir::types::{CompareOp, DType, Literal};

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };
/// The lane that says in which group a warp is.
const FIRST_LANE: i64 = 0;
/// The named barrier of the first group that multiplies in turn: 1 is that of all consumers.
const FIRST_TURN: u32 = 2;
/// Rows that share a pattern of chunks.
const EIGHT: i64 = 8;

/// A left operand as the instructions of a group read it.
enum GroupLeft<'o> {
    Panels(Panels<'o>),
    Fed(&'o Fed),
}

/// An operand in shared memory as the instructions of a group read it.
struct Panels<'o> {
    operand: &'o Operand,
    copy: &'o WindowCopy,
    /// Where the group begins along the axis that the result has, too.
    first: Expr,
    /// From one instruction to the next along that axis.
    step: i64,
}

impl Expander<'_> {
    /// Names the thread's warp group where matrix instructions ask for it: one lane's word, so that the compiler knows it to be the same in a warp.
    pub fn begin_groups(&mut self) {
        let Some(units) = self.kernel.launch.units.as_ref().filter(|units| units.group.is_some()) else { return };
        if units.others.iter().map(|(_, along)| along).chain([&units.along]).all(|along| *along == [1, 1]) {
            return;
        }
        let value = LOCAL.div(self.thread32(), i64::from(GroupAtom::THREADS));
        let var = self.new_var("warp_group", DType::I32, None);
        self.emit(Stmt::Declare { var, init: None });
        self.emit(Stmt::Shuffle { var, value, kind: ShuffleKind::Index, operand: LOCAL.lit(FIRST_LANE), width: 32 });
        self.group = Some(Expr::Var(var));
    }

    /// Room in shared memory for an operand that warp groups read, so many copies one after the other.
    pub fn place_panels(&mut self, rows: &Rows, name: &str, copies: i64) -> WindowCopy {
        let Rows { dtype, ref extents, fast, slow, .. } = *rows;
        let bytes = dtype.size() as i64;
        let panel = (extents[fast] * bytes).min(i64::from(SharedMatrix::ALIGN) / EIGHT) / bytes;
        let chunk = i64::from(SharedMatrix::CHUNK);
        let swizzle = SharedLayout::swizzled(panel, bytes, chunk, [EIGHT, 1]);
        let gap = if panel < extents[fast] { (extents[slow] - 1) * panel } else { 0 };
        let axis = |k: usize| CopyAxis { before: 0, extent: extents[k], pitch: if k == slow { panel } else { 1 } };
        let align = i64::from(SharedMatrix::ALIGN) / bytes;
        let stage = (extents[slow] * extents[fast] + align - 1) / align * align;
        self.comment(described(name, panel * bytes, gap > 0));
        WindowCopy {
            id: self.new_aligned(name, dtype, copies * stage, SharedMatrix::ALIGN),
            first: LOCAL.lit(0),
            stage,
            axes: (0..extents.len()).map(axis).collect(),
            fast,
            run: panel,
            gap,
            width: chunk / bytes,
            swizzle: swizzle.map(|layout| (slow, layout)),
        }
    }

    /// Adds the products of operands to their accumulators, and waits for them.
    ///
    /// # Errors
    /// Operands whose rows no instruction reads.
    pub fn group_multiply(&mut self, products: &[Product], shape: [i64; 2], warps: &Warps) -> Expanded<()> {
        self.await_turn();
        self.emit(Stmt::WgmmaFence);
        self.multiply_behind_fence(products, shape, warps)
    }

    /// The same where nothing has touched their registers since a fence.
    pub fn multiply_behind_fence(&mut self, products: &[Product], shape: [i64; 2], warps: &Warps) -> Expanded<()> {
        let atom = warps.group_of(shape).unwrap_or_else(|| panic!("wgmma: no instruction for {shape:?}"));
        let (atoms, [row, column]) = (warps.atoms(shape[0], shape[1]), self.group_begins(shape, warps));
        let [rows, columns] = warps.tile(shape);
        let depth = products[0].right.extent / i64::from(atom.k());
        let (counter, e) = self.loop_var("kk");
        let later = if depth == 1 { Expr::Literal(Literal::bool(false)) } else { compare(CompareOp::Gt, e.clone(), LOCAL.lit(0)) };
        self.open();
        for product in products {
            let left = match &product.left {
                Left::Copied(left) => GroupLeft::Panels(panels(left, row.clone(), rows)?),
                Left::Fed(fed) => GroupLeft::Fed(fed),
            };
            let right = panels(&product.right, column.clone(), columns)?;
            let accumulate = if product.from_zeros { later.clone() } else { Expr::Literal(Literal::bool(true)) };
            self.multiply_panels((product.acc, accumulate), (&left, &right), &e, (atom, atoms));
        }
        let body = self.close();
        self.emit(unrolled(counter, depth, body));
        self.emit(Stmt::WgmmaCommit);
        self.pass_turn();
        let mut sums: Vec<VarId> = products.iter().map(|p| p.acc).collect();
        sums.dedup();
        self.await_products(sums);
        Ok(())
    }

    /// Groups that multiply in turn: the last one lets the first one begin.
    pub fn begin_turns(&mut self) {
        self.only_group(|groups| groups - 1, Self::pass_turn);
    }

    /// Nobody leaves before the turn that was passed on last is taken.
    pub fn end_turns(&mut self) {
        self.only_group(|_| 0, Self::await_turn);
    }

    /// What one of the groups that multiply in turn does alone.
    fn only_group(&mut self, which: fn(u32) -> u32, does: fn(&mut Self)) {
        let (Some(groups), Some(group)) = (self.in_turn, self.group.clone()) else { return };
        self.open();
        does(self);
        let then = self.close();
        let condition = compare(CompareOp::Eq, group, LOCAL.lit(i64::from(which(groups))));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
    }

    fn await_turn(&mut self) {
        if let Some(groups) = self.in_turn {
            self.emit(Stmt::Barrier(Barrier::AwaitTurn { first: FIRST_TURN, groups }));
        }
    }

    fn pass_turn(&mut self) {
        if let Some(groups) = self.in_turn {
            self.emit(Stmt::Barrier(Barrier::PassTurn { first: FIRST_TURN, groups }));
        }
    }

    /// Waits for products: now, or where the iteration says so.
    fn await_products(&mut self, sums: Vec<VarId>) {
        match &mut self.in_flight {
            Some(later) => later.extend(sums),
            None => self.emit(Stmt::WgmmaWait { pending: 0, sums }),
        }
    }

    /// The instructions of a group at a step along the sum.
    fn multiply_panels(
        &mut self,
        (acc, accumulate): (VarId, Expr),
        (a, b): (&GroupLeft, &Panels),
        step: &Expr,
        (atom, [down, right]): (GroupAtom, [i64; 2]),
    ) {
        let k = LOCAL.mul(step.clone(), LOCAL.lit(i64::from(atom.k())));
        let ((i, row), (j, column)) = (self.counter("i", down), self.counter("j", right));
        let number = LOCAL.add(LOCAL.mul(row.clone(), LOCAL.lit(right)), column.clone());
        let d = Fragment { var: acc, at: LOCAL.mul(number, LOCAL.lit(i64::from(atom.registers()))) };
        let left = match a {
            GroupLeft::Panels(panels) => LeftMatrix::Shared(panels.matrix(&row, &k)),
            GroupLeft::Fed(fed) => LeftMatrix::Registers(fed.fragment(atom.part(), (down, &row), step)),
        };
        let multiply = Stmt::Wgmma { atom, d, a: left, b: b.matrix(&column, &k), accumulate };
        self.emit(unrolled(i, down, vec![unrolled(j, right, vec![multiply])]));
    }

    /// A counter of so many turns that are written out; of one it is 0.
    fn counter(&mut self, name: &str, turns: i64) -> (VarId, Expr) {
        let (var, e) = self.loop_var(name);
        (var, if turns == 1 { LOCAL.lit(0) } else { e })
    }

    /// The row and the column of the result at which a warp group begins: the same in all of its threads, and known to be so.
    fn group_begins(&mut self, shape: [i64; 2], warps: &Warps) -> [Expr; 2] {
        let [down, right] = warps.along_of(shape);
        if down * right == 1 {
            return [LOCAL.lit(0), LOCAL.lit(0)];
        }
        let group = self.group.clone().unwrap_or_else(|| panic!("wgmma: threads have no group"));
        [(right, down, shape[0] / down, "group_row"), (1, right, shape[1] / right, "group_col")].map(|(stride, extent, elements, name)| {
            if extent == 1 {
                return LOCAL.lit(0);
            }
            let quotient = LOCAL.div(group.clone(), stride);
            let digit = if stride == 1 { LOCAL.rem(quotient, extent) } else { quotient };
            self.declare_before(name, LOCAL.mul(digit, LOCAL.lit(elements)))
        })
    }
}

/// Whether a copy's rows are as instructions read them and tensor maps write them.
pub(super) fn check_panels(copy: &WindowCopy, dtype: DType) -> Result<(), Refusal> {
    let bytes = dtype.size() as i64;
    let count = copy.axes.iter().map(|a| a.extent).product::<i64>() / copy.axes[copy.fast].extent;
    let whole = copy.axes[copy.fast].extent % copy.run == 0 && count % EIGHT == 0;
    if matches!(copy.run * bytes, 32 | 64 | 128) && whole {
        Ok(())
    } else {
        Err(Refusal::GroupRows { bytes: copy.axes[copy.fast].extent * bytes, count })
    }
}

/// An operand's panels, if instructions can read them.
fn panels(operand: &Operand, first: Expr, step: i64) -> Result<Panels<'_>, Refusal> {
    let Lies::Shared(copy) = &operand.lies else { panic!("wgmma: {} is not in shared memory", operand.name) };
    check_panels(copy, operand.dtype)?;
    if copy.fast != operand.inner && step % copy.run != 0 {
        let bytes = copy.axes[copy.fast].extent * operand.dtype.size() as i64;
        return Err(Refusal::GroupRows { bytes, count: copy.axes[operand.inner].extent });
    }
    Ok(Panels { operand, copy, first, step })
}

impl Panels<'_> {
    /// What the instruction of this number along the result reads at position `k` along the sum.
    fn matrix(&self, number: &Expr, k: &Expr) -> SharedMatrix {
        let Panels { operand, copy, .. } = self;
        let across = copy.fast == operand.outer;
        let mut local = vec![LOCAL.lit(0); operand.rank];
        local[operand.outer] = LOCAL.add(self.first.clone(), LOCAL.mul(number.clone(), LOCAL.lit(self.step)));
        local[operand.inner] = k.clone();
        let column = copy.column(local[copy.fast].clone());
        // The first row of eight: its chunks have their own places.
        let place: Place = copy.place_in_row(operand.dtype, &local, column);
        let row_bytes = copy.run * operand.dtype.size() as i64;
        let slow = if across { operand.inner } else { operand.outer };
        SharedMatrix {
            place,
            across,
            row_bytes: row_bytes as u32,
            eight_rows: (EIGHT * row_bytes) as u32,
            next_panel: if across { (copy.axes[slow].extent * row_bytes) as u32 } else { 0 },
        }
    }
}

/// A copy in words.
fn described(name: &str, row: i64, panels: bool) -> String {
    let lines = match row {
        128 => "row".to_string(),
        shorter => format!("row / {}", 128 / shorter.max(1)),
    };
    let panels = if panels { format!(" lies in panels of {row} bytes a row, one behind the other, and") } else { String::new() };
    format!("{name}{panels} is swizzled as wgmma reads it: chunk c of 16 bytes of a row lies at chunk c ^ {lines} % {}", row / 16)
}
