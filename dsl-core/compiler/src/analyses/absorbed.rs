//! What lies between loads and dots. Operations on single elements that keep zeros are done to the elements of fragments, so that a dot reads
//! the tile as it was copied; several operands may come from one load, such as the parts that a number is split into.

use super::dots::Loaded;
use super::uses::Uses;
use girih_ir::tile::{Kernel, Op, ValueId};
use girih_ir::types::{BinaryOp, UnaryOp};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What leads from a load to an operand.
struct Path {
    loaded: Loaded,
    /// The load, the values between, and the operand.
    members: Vec<ValueId>,
    /// Operations that may still be done on the way: they are written out at every element.
    left: usize,
}

/// Operations between a load and a dot that are written out at every element of a fragment.
const WRITTEN_OUT: usize = 32;

/// The dots of a kernel and the operations that lead to them.
pub(crate) struct Paths<'a> {
    pub kernel: &'a Kernel,
    pub ops: &'a HashMap<ValueId, &'a Op>,
    pub uses: &'a [Uses],
    /// Operands of dots: how many dots take them.
    pub by_dots: &'a HashMap<ValueId, u32>,
    /// Values that exist under a condition.
    pub sided: &'a HashSet<ValueId>,
    /// Loads that may be copied as they lie.
    pub plain: &'a dyn Fn(&ValueId) -> bool,
}

impl Paths<'_> {
    /// The operands that are read from a load's copy, and the values that are nowhere but in fragments.
    pub fn find(&self) -> (BTreeMap<ValueId, Loaded>, HashSet<ValueId>) {
        let mut paths: BTreeMap<ValueId, Path> = self.by_dots.keys().filter_map(|v| Some((*v, self.path(*v)?))).collect();
        loop {
            let before = paths.len();
            let inside = self.uses_inside(&paths);
            let alone = |v: &ValueId| self.uses[v.0 as usize].count == inside.get(v).copied().unwrap_or(0);
            paths.retain(|_, p| p.members.iter().all(alone));
            if paths.len() == before {
                break;
            }
        }
        let loads: HashSet<ValueId> = paths.values().map(|p| p.loaded.load).collect();
        let absorbed = paths.values().flat_map(|p| p.members.iter().copied()).filter(|v| !loads.contains(v)).collect();
        (paths.into_iter().map(|(v, p)| (v, p.loaded)).collect(), absorbed)
    }

    /// How often dots and the values on paths use a value.
    fn uses_inside(&self, paths: &BTreeMap<ValueId, Path>) -> HashMap<ValueId, u32> {
        let mut inside: HashMap<ValueId, u32> = HashMap::new();
        paths.keys().for_each(|v| *inside.entry(*v).or_default() += self.by_dots[v]);
        let members: HashSet<ValueId> = paths.values().flat_map(|p| p.members.iter().copied()).collect();
        for member in members {
            let from = self.ops.get(&member).and_then(|op| sources(op)).unwrap_or_default();
            from.into_iter().for_each(|v| *inside.entry(v).or_default() += 1);
        }
        inside
    }

    fn path(&self, operand: ValueId) -> Option<Path> {
        let mut path = Path { loaded: Loaded { load: operand, transposed: false, chain: vec![] }, members: vec![], left: WRITTEN_OUT };
        (path.loaded.load, path.loaded.transposed) = self.walk(operand, &mut path)?;
        Some(path)
    }

    /// The load that a value comes from, and whether with its axes exchanged. Operations are noted after their operands.
    fn walk(&self, value: ValueId, path: &mut Path) -> Option<(ValueId, bool)> {
        path.left = path.left.checked_sub(1)?;
        let op = *self.ops.get(&value)?;
        let found = match op {
            Op::Load(..) => (self.plain)(&value).then_some((value, false))?,
            _ if self.sided.contains(&value) => return None,
            Op::Transpose(from, perm) if perm == &[1, 0] => {
                let (load, transposed) = self.walk(*from, path)?;
                (load, !transposed)
            }
            _ => {
                let from = sources(op)?;
                // Numbers that registers hold in a wider type would have to be rounded between two operations.
                let dtype = self.kernel.ty(value).dtype()?;
                if from.len() > 1 && dtype != dtype.compute() {
                    return None;
                }
                let first = self.walk(from[0], path)?;
                for v in &from[1..] {
                    if self.walk(*v, path)? != first {
                        return None;
                    }
                }
                if !path.loaded.chain.contains(&value) {
                    path.loaded.chain.push(value);
                }
                first
            }
        };
        if !path.members.contains(&value) {
            path.members.push(value);
        }
        Some(found)
    }
}

/// The operands of an operation that makes zero of zeros, so that it may be done to what was copied with zeros around.
fn sources(op: &Op) -> Option<Vec<ValueId>> {
    match op {
        Op::Cast(a) | Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::RoundTf32, a) => Some(vec![*a]),
        Op::Transpose(a, _) => Some(vec![*a]),
        Op::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => Some(vec![*a, *b]),
        _ => None,
    }
}
