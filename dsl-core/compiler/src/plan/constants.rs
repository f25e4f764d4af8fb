//! Tensors in constant memory (`constant = On`): which may lie there, and for which of them launches promise that there is room.

use super::legality::{Broken, Rule};
use super::{ReadPlan, illegal};
use crate::analyses::uses::{loaded_tensor, written_params};
use girih_ir::facts::{Facts, TensorFacts};
use girih_ir::schedule::words::{ConstantPath, Words};
use girih_ir::schedule::{Schedule, ScheduleError};
use girih_ir::simt::CONSTANT_BYTES;
use girih_ir::tile::access::{constant_params, visit};
use girih_ir::tile::{Index, Kernel, KnobId, Op, ParamKind, Stmt, Ty, ValueId};
use std::collections::{BTreeMap, HashMap};

/// Bytes at a multiple of which arrays begin.
const ALIGN: i64 = 16;

/// The tensors (parameters) that lie in constant memory, each with the elements that there is room for. One for which launches promise none is
/// read where it is, as without the knob.
///
/// # Errors
/// The schedule puts a tensor there that may not lie there.
pub(crate) fn constants(kernel: &Kernel, schedule: &Schedule, facts: &Facts) -> Result<BTreeMap<usize, u32>, ScheduleError> {
    let (mut found, mut left) = (BTreeMap::new(), i64::from(CONSTANT_BYTES));
    for (id, param) in constant_params(kernel) {
        if ConstantPath::chosen(schedule, id) != Some(ConstantPath::On) {
            continue;
        }
        check(kernel, id, param)?;
        let (ParamKind::Tensor { dtype, .. }, Some(known)) = (kernel.params[param].kind, &facts.tensors[param]) else { continue };
        let Some(elements) = most_elements(known).filter(|_| facts.noalias) else { continue };
        let bytes = elements.saturating_mul(dtype.size() as i64).saturating_add(ALIGN - 1) / ALIGN * ALIGN;
        if bytes <= left {
            left -= bytes;
            found.insert(param, elements as u32);
        }
    }
    Ok(found)
}

/// The elements that a tensor without gaps surely has no more than.
fn most_elements(known: &TensorFacts) -> Option<i64> {
    let bounded = known.packed && known.most.len() == known.lens.len() && known.most.iter().all(|most| *most > 0);
    bounded.then(|| known.most.iter().fold(1i64, |product, most| product.saturating_mul(i64::from(*most))))
}

/// All threads of a block read the tensor at one index, and nobody stores to it.
fn check(kernel: &Kernel, id: KnobId, param: usize) -> Result<(), ScheduleError> {
    let name = &kernel.params[param].name;
    let refuse = |broken: Broken| Err(illegal(kernel, &[id], ConstantPath::On.to_string(), broken));
    if written_params(kernel)[param] {
        return refuse(Rule::ConstantStored.with(&[name]));
    }
    let mut lines = Vec::new();
    visit(&kernel.body, &mut |stmt| lines.extend(spread(kernel, stmt, param)));
    lines.first().map_or(Ok(()), |line| refuse(Rule::ConstantRead.with(&[name, line])))
}

/// The line of a statement by which threads read different elements of a tensor.
fn spread(kernel: &Kernel, stmt: &Stmt, param: usize) -> Option<u32> {
    let line = |v: &ValueId| kernel.value(*v).loc.line;
    match stmt {
        Stmt::Let(v, Op::Near(window, _)) => (windowed(kernel, *window) == Some(param) && !is_scalar(kernel, *v)).then(|| line(v)),
        Stmt::Let(_, Op::Window { .. }) => None,
        Stmt::Let(v, Op::Load(_, index)) => {
            let one = index.iter().all(|at| matches!(at, Index::At(_)));
            (loaded_tensor(kernel, stmt) == Some(param) && !one).then(|| line(v))
        }
        Stmt::Let(v, _) => (loaded_tensor(kernel, stmt) == Some(param)).then(|| line(v)),
        Stmt::Shared(access) => access.kind.view().filter(|view| kernel.view(*view).param == param).map(|_| access.loc.line),
        _ => None,
    }
}

fn is_scalar(kernel: &Kernel, v: ValueId) -> bool {
    matches!(kernel.ty(v), Ty::Scalar(_))
}

/// The tensor that a window is of.
fn windowed(kernel: &Kernel, window: ValueId) -> Option<usize> {
    let mut found = None;
    visit(&kernel.body, &mut |stmt| {
        if matches!(stmt, Stmt::Let(v, Op::Window { .. }) if *v == window) {
            found = loaded_tensor(kernel, stmt);
        }
    });
    found
}

/// Windows of such tensors are read where they are.
pub(super) fn read_in_place(kernel: &Kernel, constants: &BTreeMap<usize, u32>, reads: &mut HashMap<ValueId, ReadPlan>) {
    visit(&kernel.body, &mut |stmt| {
        let (Stmt::Let(v, _), Some(param)) = (stmt, loaded_tensor(kernel, stmt)) else { return };
        if constants.contains_key(&param)
            && let Some(read) = reads.get_mut(v)
        {
            read.shared = false;
        }
    });
}
