//! Which matrix instruction a schedule asks for, and which tiles of results the warps of a block have.

use super::legality::{Broken, Rule};
use super::results::{self, Extents, Shape};
use super::{gcd, illegal};
use girih_ir::fragments::{Atom, Form, GroupAtom, Number, Operand as Role};
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::schedule::words::{DotUnit, OperandPath, Words};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::target::Target;
use girih_ir::tile::access::operations;
use girih_ir::tile::{Index, Kernel, KnobId, Op, ParamKind, ValueId};
use girih_ir::types::{DType, UnaryOp};
use std::collections::HashMap;

/// Multiply-adds by matrix instructions of a warp that are written out; a longer sum is a loop.
pub(crate) const WRITTEN_OUT: i64 = 256;

/// How dots read their left and right operands, what they add up in, and the positions along the tile of a sum.
pub(super) type Multiplied = ([Number; 2], DType, i64);

/// How the warps of a block share the results of dots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Warps {
    /// The instruction, or what each warp does of that of its group, and how the dots use it.
    pub form: Form,
    /// The instruction of groups of four warps for the anchor, if dots become that.
    pub group: Option<GroupAtom>,
    /// Warps, or groups of them, along the rows and the columns of the anchor's last two axes.
    pub along: [i64; 2],
    /// Results of other extents, and the same along their rows and columns.
    pub others: Vec<(Extents, [i64; 2])>,
    /// Axes of the anchor before those.
    pub leading: usize,
    /// Steps of the instruction along the tile of a sum; `None` where those of some result are not written out.
    pub steps: Option<i64>,
}

/// The matrix instruction of the `unit` that dots have and how its warps share the anchor; `None` for fused multiply-adds.
pub(crate) fn warps(
    kernel: &Kernel,
    schedule: &Schedule,
    target: &Target,
    anchor: &[i64],
    knobs: &[i64],
    unit: Option<DotUnit>,
) -> Result<Option<Warps>, ScheduleError> {
    let (Some(id), Some(word)) = (DotUnit::knob(kernel), unit) else { return Ok(None) };
    let refuse = |broken: Broken| Err(illegal(kernel, &[id], word.to_string(), broken));
    match word {
        DotUnit::Ffma => return Ok(None),
        DotUnit::Mma => {}
        DotUnit::Wgmma if !target.has_group_atoms() => return refuse(Rule::UnitGroupTarget.with(&[&target.arch])),
        DotUnit::Wgmma => {}
    }
    check_operands(kernel, schedule, id, word)?;
    if let Some(dot) = folds(kernel) {
        return refuse(Rule::UnitFold.with(&[&kernel.value(dot).loc.line]));
    }
    let size = |s: &girih_ir::tile::Size| s.value(|k| knobs[k.0 as usize]);
    let ops = operations(kernel);
    let Some((both, accumulator, inner)) = numbers(kernel, &ops, &size) else {
        return refuse(Rule::UnitNumbers.into());
    };
    let [left, right] = both;
    let Some(atom) = Atom::all_of(left, right, accumulator, target.capability).find(|a| inner % a.k as i64 == 0) else {
        let least = Atom::all_of(left, right, accumulator, target.capability).last();
        return refuse(match least {
            Some(a) => Rule::UnitDepth.with(&[&a.k, &inner]),
            None => Rule::UnitTarget.with(&[&left.name(), &target.arch]),
        });
    };
    let count = schedule.int_of_kind(kernel, KnobKind::Warps, 4);
    let [.., rows, columns] = anchor[..] else { return refuse(Rule::UnitAxes.into()) };
    let shapes = results::shapes(kernel, &ops, &size);
    if shapes.iter().all(|s| s.extents != [rows, columns]) {
        let first = shapes.first().map(|s| s.first);
        return refuse(first.map_or(Rule::UnitAxes.into(), |dot| results::other_result(Rule::UnitResult, kernel, dot, anchor)));
    }
    if word == DotUnit::Wgmma {
        return super::warp_groups::groups(kernel, schedule, id, ((both, accumulator, inner), anchor, &shapes)).map(Some);
    }
    match results::share(atom, wants_pairs(kernel, &ops), count, &shapes) {
        Ok((form, along)) if count <= 32 => {
            let products =
                |(s, along): (&Shape, &[i64; 2])| inner * s.extents[0] * s.extents[1] / (along[0] * along[1] * atom.multiply_adds() as i64);
            let most = shapes.iter().zip(&along).map(products).max();
            let steps = most.filter(|n| *n <= WRITTEN_OUT).map(|_| inner / atom.k as i64);
            let (own, others) = results::of_anchor([rows, columns], &shapes, along);
            Ok(Some(Warps { form, group: None, along: own, others, leading: anchor.len() - 2, steps }))
        }
        shared => {
            let [rows, columns] = shared.err().unwrap_or([rows, columns]);
            let ids: Vec<KnobId> = (0..kernel.knobs.len())
                .filter(|k| kernel.knobs[*k].kind == KnobKind::Warps)
                .map(|k| KnobId(k as u32))
                .chain([id])
                .collect();
            let (m, n) = (atom.m, atom.n);
            let piece = if m == n { format!("{m} x {n}") } else { format!("{m} x {n}, or of {n} x {m}") };
            let rule = Rule::UnitWarps.with(&[&count, &rows, &columns, &piece]);
            Err(illegal(kernel, &ids, format!("{count} / {word}"), rule))
        }
    }
}

/// The first dot by operations of the author's.
fn folds(kernel: &Kernel) -> Option<ValueId> {
    let dots = operations(kernel).into_iter().filter(|(_, op)| matches!(op, Op::Dot { fold: Some(_), .. }));
    dots.map(|(v, _)| v).min()
}

/// Whether a schedule asks for matrix instructions.
pub(crate) fn asked_for(kernel: &Kernel, schedule: &Schedule) -> bool {
    DotUnit::of(kernel, schedule).is_some_and(|unit| unit != DotUnit::Ffma)
}

/// Matrix units read all their operands from copies that lie as the tensors do.
fn check_operands(kernel: &Kernel, schedule: &Schedule, unit: KnobId, word: DotUnit) -> Result<(), ScheduleError> {
    for id in kernel.knobs_of(KnobKind::Operands) {
        let how = match OperandPath::chosen(schedule, id) {
            Some(OperandPath::Direct) => "from shared memory",
            Some(OperandPath::Transposed) => "as they lie",
            Some(OperandPath::Shared) | None => continue,
        };
        let (knobs, found) = match &kernel.knob(id).of {
            None => (vec![unit], word.to_string()),
            Some(_) => (vec![unit, id], format!("{word} / {}", schedule.choices[id.0 as usize])),
        };
        return Err(illegal(kernel, &knobs, found, Rule::UnitOperands.with(&[&how])));
    }
    Ok(())
}

/// The knob that chooses the unit of dots.
pub(crate) fn unit(kernel: &Kernel) -> KnobId {
    DotUnit::knob(kernel).unwrap_or_else(|| panic!("mma: {} has no knob for the unit", kernel.path))
}

/// How the dots of a kernel read their left and right operands, what they add up in, and the greatest common divisor of their sums' extents;
/// `None` where no instruction does that.
fn numbers(kernel: &Kernel, ops: &HashMap<ValueId, &Op>, size: &dyn Fn(&girih_ir::tile::Size) -> i64) -> Option<Multiplied> {
    let mut found: Option<Multiplied> = None;
    for op in ops.values() {
        let Op::Dot { a, b, acc, fold: None } = op else { continue };
        let both = formats(kernel, ops, [*a, *b])?;
        let (accumulator, inner) = (kernel.ty(*acc).dtype()?, size(&kernel.ty(*a).shape()?[1]));
        found = match found {
            Some((n, d, k)) if n == both && d == accumulator => Some((n, d, gcd(k, inner))),
            None => Some((both, accumulator, inner)),
            Some(_) => return None,
        };
    }
    found
}

/// Whether the dots' right operands are read in pairs if they are the instruction's left ones: elements of 32 bits in rows that lie across the
/// axis of the sum, which `ldmatrix` cannot transpose, beside left operands that it loads as they lie. Tensors are taken to be packed.
fn wants_pairs(kernel: &Kernel, ops: &HashMap<ValueId, &Op>) -> bool {
    let along_sum = |operand: ValueId, axis: usize| contiguous(kernel, ops, operand).map(|fast| fast == axis);
    ops.values().all(|op| match op {
        Op::Dot { a, b, .. } => {
            number(kernel, ops, *b) == Some(Number::Tf32) && along_sum(*a, 1) == Some(true) && along_sum(*b, 0) == Some(false)
        }
        _ => true,
    })
}

/// The axis along which an operand that is loaded lies in a packed tensor.
pub(super) fn contiguous(kernel: &Kernel, ops: &HashMap<ValueId, &Op>, value: ValueId) -> Option<usize> {
    match ops.get(&value)? {
        Op::Load(view, index) => {
            let view = kernel.view(*view);
            let ParamKind::Tensor { rank, .. } = kernel.params[view.param].kind else { return None };
            let is_fast = |k: usize| matches!(ops.get(&view.axes[k].stride), Some(Op::Stride(_, axis)) if axis + 1 == rank);
            let tiles = (0..index.len()).filter(|k| matches!(index[*k], Index::Tile(_)));
            tiles.enumerate().find(|(_, k)| is_fast(*k)).map(|(n, _)| n)
        }
        Op::Transpose(from, _) => Some(1 - contiguous(kernel, ops, *from)?),
        Op::Unary(_, from) | Op::Cast(from) | Op::Binary(_, from, _) => contiguous(kernel, ops, *from),
        _ => None,
    }
}

/// The formats in which matrix instructions could multiply what a kernel's dots multiply, without losing anything: one for each dot whose
/// operands are both of such a format (of 8-bit floats the left one's, since both have one rate).
pub fn dot_numbers(kernel: &Kernel) -> Vec<Number> {
    let ops = operations(kernel);
    let format = |op: &&Op| match op {
        Op::Dot { a, b, fold: None, .. } => formats(kernel, &ops, [*a, *b]).map(|[left, _]| left),
        _ => None,
    };
    ops.values().filter_map(format).collect()
}

/// How a matrix instruction reads the operands of a dot: both alike, but for 8-bit floats, of which there are two formats.
fn formats(kernel: &Kernel, ops: &HashMap<ValueId, &Op>, operands: [ValueId; 2]) -> Option<[Number; 2]> {
    let [left, right] = operands.map(|operand| number(kernel, ops, operand));
    let both = [left?, right?];
    (both[0] == both[1] || both.iter().all(|n| n.is_float8())).then_some(both)
}

/// How a matrix instruction reads a value without losing anything.
fn number(kernel: &Kernel, ops: &HashMap<ValueId, &Op>, value: ValueId) -> Option<Number> {
    match kernel.ty(value).dtype()? {
        DType::F16 => Some(Number::F16),
        DType::BF16 => Some(Number::BF16),
        DType::F8E4M3 => Some(Number::F8E4M3),
        DType::F8E5M2 => Some(Number::F8E5M2),
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
        let lanes = match self.group {
            Some(_) => [8 * i64::from(GroupAtom::WARPS), 4],
            None if self.form.is_swapped() => [4, 8],
            None => [8, 4],
        };
        shape.extend([0, 1].map(|axis| self.along[axis] * lanes[axis]));
        shape
    }

    /// Threads that multiply together: those of a warp, or of a group.
    pub fn threads(&self) -> i64 {
        self.group.map_or(32, |_| i64::from(GroupAtom::THREADS))
    }

    /// The instruction of warp groups for a result.
    pub fn group_of(&self, extents: Extents) -> Option<GroupAtom> {
        let own = self.group?;
        GroupAtom::widest(own.a, own.b, own.accumulator, extents[1] / self.along_of(extents)[1])
    }

    /// Rows and columns of a result that one instruction makes.
    pub fn tile(&self, extents: Extents) -> Extents {
        self.group_of(extents).map_or(self.form.tile(), |group| [i64::from(GroupAtom::M), i64::from(group.n)])
    }

    /// The accumulators' layout of a result, or of the anchor: atoms side by side in a warp or group, these side by side in the block.
    pub fn layout(&self, shape: &[i64]) -> Layout {
        let [before @ .., rows, columns] = shape else { panic!("mma: a result of one axis") };
        let (rows, columns) = (*rows, *columns);
        let [down, right] = self.along_of([rows, columns]);
        let atom = self.group_of([rows, columns]).map_or_else(|| self.form.layout(Role::Accumulator), |group| group.accumulators());
        let ([m, n], own, threads) = (self.tile([rows, columns]), atom.registers, self.threads());
        let [atoms_down, atoms_right] = self.atoms(rows, columns);
        let digit = |source, stride, extent, place| Digit { source, stride, extent, place };
        let mut axes = atom.axes;
        axes[1].push(digit(Source::Register, own, atoms_right, n));
        axes[1].push(digit(Source::Thread, threads, right, columns / right));
        axes[0].push(digit(Source::Register, own * atoms_right, atoms_down, m));
        axes[0].push(digit(Source::Thread, threads * right, down, rows / down));
        axes.iter_mut().for_each(|digits| digits.retain(|d| d.extent > 1));
        let mut all = vec![Vec::new(); before.len()];
        all.extend(axes);
        Layout { axes: all, threads: threads * down * right, registers: own * atoms_right * atoms_down }
    }

    /// Atoms of a warp or group along the rows and the columns.
    pub fn atoms(&self, rows: i64, columns: i64) -> [i64; 2] {
        let ([m, n], [down, right]) = (self.tile([rows, columns]), self.along_of([rows, columns]));
        [rows / down / m, columns / right / n]
    }
}
