//! Which steps of a call wait for which: those that touch the same bytes, one of them writing. All others may run at the same time.

use std::collections::HashSet;
use std::ops::Range;

/// Bytes of device memory that a step reads or writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub bytes: Range<u64>,
    pub writes: bool,
}

impl Access {
    /// The two must keep their order.
    fn clashes(&self, other: &Access) -> bool {
        (self.writes || other.writes) && self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end
    }

    fn covers(&self, other: &Access) -> bool {
        self.bytes.start <= other.bytes.start && other.bytes.end <= self.bytes.end
    }
}

/// For each step, given by its accesses, the earlier ones that it waits for itself; what those wait for in turn is left out.
pub(crate) fn waits_for(steps: impl IntoIterator<Item = Vec<Access>>) -> Vec<Vec<usize>> {
    // Accesses that a later step may clash with, and whose they are.
    let mut open: Vec<(usize, Access)> = Vec::new();
    let mut all: Vec<Vec<usize>> = Vec::new();
    for (step, mut accesses) in steps.into_iter().enumerate() {
        accesses.retain(|a| !a.bytes.is_empty());
        let clashing = open.iter().filter(|(_, o)| accesses.iter().any(|a| a.clashes(o)));
        let waits: HashSet<usize> = clashing.map(|(earlier, _)| *earlier).collect();
        // Whoever clashes with these later clashes with this step, too, which has waited for them.
        open.retain(|(earlier, o)| !accesses.iter().any(|a| a.covers(o) && (a.writes || (!o.writes && waits.contains(earlier)))));
        open.extend(accesses.into_iter().map(|a| (step, a)));
        let over: HashSet<usize> = waits.iter().flat_map(|earlier| all[*earlier].iter().copied()).collect();
        let mut direct: Vec<usize> = waits.difference(&over).copied().collect();
        direct.sort_unstable();
        all.push(direct);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that reads and writes bytes from one number to another.
    fn step(reads: &[(u64, u64)], writes: &[(u64, u64)]) -> Vec<Access> {
        let of = |ranges: &[(u64, u64)], writes| ranges.iter().map(|(a, b)| Access { bytes: *a..*b, writes }).collect::<Vec<_>>();
        [of(reads, false), of(writes, true)].concat()
    }

    #[test]
    fn readers_run_together_and_writers_alone() {
        let (x, y, z) = ((0, 100), (100, 200), (200, 300));
        let order = waits_for([step(&[x], &[y]), step(&[x], &[z]), step(&[y, z], &[x]), step(&[x], &[y]), step(&[y], &[z])]);
        // The last one writes what the third one read, for which the fourth one has waited.
        assert_eq!(order, [vec![], vec![], vec![0, 1], vec![2], vec![3]]);
    }

    #[test]
    fn parts_of_a_tensor_are_told_apart() {
        let order = waits_for([
            step(&[], &[(0, 50)]),
            step(&[], &[(50, 100)]),
            step(&[(40, 60)], &[]),
            step(&[], &[(0, 10)]),
            step(&[], &[(45, 55)]),
            step(&[], &[(7, 7)]),
        ]);
        assert_eq!(order, [vec![], vec![], vec![0, 1], vec![0], vec![2], vec![]]);
    }

    /// Against the definition: two steps that clash are ordered through some chain, and every wait is for an earlier step.
    #[test]
    fn every_clash_is_ordered() {
        let mut rng = crate::subject::inputs::Rng::new(7);
        let mut random = |below| rng.below(below) as u64;
        for _ in 0..300 {
            let mut access = |writes| {
                let start = random(12);
                Access { bytes: start..start + random(5), writes }
            };
            let steps: Vec<Vec<Access>> = (0..12).map(|_| vec![access(false), access(false), access(true)]).collect();
            let order = waits_for(steps.clone());
            let mut reaches = vec![HashSet::new(); steps.len()];
            for k in 0..steps.len() {
                for j in &order[k] {
                    assert!(*j < k);
                    let through = reaches[*j].clone();
                    reaches[k].insert(*j);
                    reaches[k].extend(through);
                }
                for j in 0..k {
                    let real = |a: &&Access| !a.bytes.is_empty();
                    let clash = steps[k].iter().filter(real).any(|a| steps[j].iter().filter(real).any(|b| a.clashes(b)));
                    assert!(!clash || reaches[k].contains(&j), "{k} must wait for {j}: {steps:?} {order:?}");
                }
            }
        }
    }
}
