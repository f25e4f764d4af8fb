//! Left operands that are computed from what is loaded for them, element by element: weights of few bits, numbers of another format, rows
//! that are scaled. Warp groups take them from registers, to which threads bring the loaded tiles from their copies in shared memory.
//! (CUTLASS calls such products mixed-input.)

use super::chained::{Link, elementwise};
use super::dots::Dots;
use super::uses::Uses;
use girih_ir::tile::access::operations;
use girih_ir::tile::{Kernel, Op, ValueId};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A dot whose left operand is computed on its way from shared memory to registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Converted {
    pub link: Link,
    /// The loads that it is computed from: of its own shape, copied as they lie, and read by nothing else.
    pub loads: BTreeSet<ValueId>,
    /// What is computed on the way, the operand among it.
    pub steps: HashSet<ValueId>,
}

/// The dots of a kernel whose left operand may be computed so, in their order.
pub(crate) fn converted(kernel: &Kernel, dots: &Dots, uses: &[Uses]) -> Vec<Converted> {
    let ops = operations(kernel);
    let mut links: Vec<Link> = ops
        .iter()
        .filter_map(|(v, op)| if let Op::Dot { a, acc, .. } = op { Some(Link { dot: *v, operand: *a, acc: *acc }) } else { None })
        .collect();
    links.sort_unstable_by_key(|link| link.dot);
    let rights: HashSet<ValueId> = ops.values().filter_map(|op| if let Op::Dot { b, .. } = op { Some(*b) } else { None }).collect();
    let mut found: Vec<Converted> = links.into_iter().filter_map(|link| of_link(kernel, dots, &ops, link)).collect();
    loop {
        let before = found.len();
        let operands: HashSet<ValueId> = found.iter().map(|c| c.link.operand).collect();
        let taken = |load: &ValueId| dots.operands().any(|(operand, loaded)| loaded.load == *load && !operands.contains(&operand));
        let steps: HashSet<ValueId> = found.iter().flat_map(|c| c.steps.iter().copied()).collect();
        let reads = |load: ValueId| steps.iter().map(|v| elementwise(ops[v]).iter().filter(|from| **from == load).count()).sum::<usize>();
        let alone = |load: &ValueId| uses[load.0 as usize].count as usize == reads(*load);
        found.retain(|c| !rights.contains(&c.link.operand) && c.loads.iter().all(|load| !taken(load) && alone(load)));
        if found.len() == before {
            return found;
        }
    }
}

fn of_link(kernel: &Kernel, dots: &Dots, ops: &HashMap<ValueId, &Op>, link: Link) -> Option<Converted> {
    if dots.operand(link.operand).is_some_and(|loaded| loaded.chain.is_empty() || loaded.only_rounds(ops)) {
        return None;
    }
    let mut converted = Converted { link, loads: BTreeSet::new(), steps: HashSet::new() };
    let mut open = vec![link.operand];
    while let Some(v) = open.pop() {
        match ops.get(&v)? {
            Op::Load(..) if dots.is_plain(v) && kernel.ty(v).shape() == kernel.ty(link.operand).shape() => {
                converted.loads.insert(v);
            }
            Op::Splat(_) => {}
            op => {
                let from = elementwise(op);
                if from.is_empty() {
                    return None;
                }
                if converted.steps.insert(v) {
                    open.extend(from);
                }
            }
        }
    }
    (!converted.loads.is_empty()).then_some(converted)
}
