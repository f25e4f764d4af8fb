//! The least that a version asks for: facts are given up, tensor by tensor and axis by axis, while the code stays the same.

use super::versions::code;
use girih_ir::facts::{Facts, TensorFacts};
use girih_ir::simt;

/// The weakest facts under which `lower` gives the same code as under `facts`: what `least` promises, and of the rest no more than changes
/// the code. A bound of a length that does is that of `least`, or else its own.
pub(super) fn weakest(mut facts: Facts, least: &Facts, lower: impl Fn(&Facts) -> Option<simt::Kernel>) -> Facts {
    let Some(wanted) = lower(&facts).map(|k| code(&k)) else { return facts };
    let same = |facts: &Facts| lower(facts).is_some_and(|k| code(&k) == wanted);
    let all = |least: &TensorFacts| TensorFacts { most: vec![], ..least.clone() };
    let without = Facts { tensors: least.tensors.iter().map(|t| t.as_ref().map(all)).collect(), ..facts.clone() };
    if facts == without || same(&without) {
        return without;
    }
    for t in 0..facts.tensors.len() {
        let (Some(own), Some(least)) = (facts.tensors[t].clone(), &least.tensors[t]) else { continue };
        if own == all(least) || attempt(&mut facts, &same, |f| *tensor(f, t) = all(least)) {
            continue;
        }
        for axis in (0..own.most.len()).filter(|axis| own.most[*axis] > 0) {
            let longest = least.most.get(axis).copied().unwrap_or(0).max(own.most[axis]);
            if !attempt(&mut facts, &same, |f| unbounded(tensor(f, t), axis)) {
                attempt(&mut facts, &same, |f| tensor(f, t).most[axis] = longest);
            }
        }
        for axis in 0..least.lens.len() {
            reduce(&mut facts, least.lens[axis], &same, |f| &mut tensor(f, t).lens[axis]);
        }
        for axis in 0..least.strides.len() {
            reduce(&mut facts, least.strides[axis], &same, |f| &mut tensor(f, t).strides[axis]);
        }
        reduce(&mut facts, least.align, &same, |f| &mut tensor(f, t).align);
    }
    facts
}

fn tensor(facts: &mut Facts, t: usize) -> &mut TensorFacts {
    facts.tensors[t].as_mut().expect("a tensor has facts")
}

/// Changes the facts if the code stays the same.
fn attempt(facts: &mut Facts, same: &dyn Fn(&Facts) -> bool, change: impl Fn(&mut Facts)) -> bool {
    let mut changed = facts.clone();
    change(&mut changed);
    let works = same(&changed);
    if works {
        *facts = changed;
    }
    works
}

/// Takes an axis's bound away.
fn unbounded(tensor: &mut TensorFacts, axis: usize) {
    tensor.most[axis] = 0;
    if tensor.most.iter().all(|most| *most == 0) {
        tensor.most.clear();
    }
}

/// Lowers a promise down to `least` while the code stays the same.
fn reduce(facts: &mut Facts, least: u32, same: &dyn Fn(&Facts) -> bool, field: impl Fn(&mut Facts) -> &mut u32) {
    if *field(facts) <= least || attempt(facts, same, |f| *field(f) = least) {
        return;
    }
    while *field(facts) / 2 > least && attempt(facts, same, |f| *field(f) /= 2) {}
}
