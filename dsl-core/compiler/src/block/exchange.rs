//! How four lanes, or two, get from one layout of a tile to another by exchanging elements.

use super::Kernel;
use girih_ir::layout::{Digit, Layout, Source};

/// How lanes exchange registers between two layouts.
pub(crate) struct Exchange {
    /// Pairs of lanes and of registers that change roles.
    pub swaps: Vec<Swap>,
    /// Digits of the register index that stay: extent, and stride before and after.
    pub kept: Vec<(i64, i64, i64)>,
}

/// Two lanes that are `lanes` apart, and two registers that are `before` apart: one of a lane's two elements changes hands, and the two
/// that it then has are `after` apart.
#[derive(Clone, Copy)]
pub(crate) struct Swap {
    pub lanes: i64,
    pub before: i64,
    pub after: i64,
}

/// How lanes exchange elements to get from one layout to the other, if pairs of lanes of a warp can, or each within its registers.
pub(crate) fn exchange(from: &Layout, to: &Layout) -> Option<Exchange> {
    let (mut kept, mut given, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for (a, b) in from.axes.iter().zip(&to.axes) {
        for (d, e) in common_digits(a, b)? {
            // Digits of several values go bit by bit.
            let bits = || (0..d.extent.trailing_zeros()).map(|bit| (d.stride << bit, e.stride << bit));
            match (d.source, e.source) {
                (Source::Thread, Source::Thread) if d.stride == e.stride => {}
                (Source::Register, Source::Register) => kept.push((d.extent, d.stride, e.stride)),
                (Source::Thread, Source::Register) if (d.extent as u64).is_power_of_two() => taken.extend(bits()),
                (Source::Register, Source::Thread) if (d.extent as u64).is_power_of_two() => given.extend(bits()),
                _ => return None,
            }
        }
    }
    let swap = |(lanes, after): (i64, i64)| {
        let (before, _) = given.iter().find(|(_, lane)| *lane == lanes)?;
        (lanes < 32).then_some(Swap { lanes, before: *before, after })
    };
    let swaps: Vec<Swap> = taken.iter().copied().map(swap).collect::<Option<_>>()?;
    (swaps.len() == given.len() && from != to).then_some(Exchange { swaps, kept })
}

/// The digits of two axes of the same extent, cut where either ends.
fn common_digits(a: &[Digit], b: &[Digit]) -> Option<Vec<(Digit, Digit)>> {
    let cuts: Vec<i64> = a.iter().chain(b).map(|d| d.place).collect();
    let cut = |digits: &[Digit]| -> Option<Vec<Digit>> {
        let mut all = Vec::new();
        for d in digits {
            let mut places: Vec<i64> = cuts.iter().copied().filter(|p| d.place <= *p && *p < d.place * d.extent).collect();
            places.sort_unstable();
            places.dedup();
            for (k, place) in places.iter().enumerate() {
                let end = places.get(k + 1).copied().unwrap_or(d.place * d.extent);
                if place % d.place != 0 || end % place != 0 {
                    return None;
                }
                all.push(Digit { stride: d.stride * (place / d.place), extent: end / place, place: *place, ..*d });
            }
        }
        all.sort_by_key(|d| d.place);
        Some(all)
    };
    let (a, b) = (cut(a)?, cut(b)?);
    let same = a.len() == b.len() && a.iter().zip(&b).all(|(d, e)| (d.place, d.extent) == (e.place, e.extent));
    same.then(|| a.into_iter().zip(b).collect())
}

/// Elements of a vector of which a thread chooses its own, rather than to get it by way of shared memory.
const FEW: i64 = 8;

/// The digits of a thread's index, (stride, extent, place), that tell which element of a short vector is its own, where every thread has all of
/// them. (The way back is no use: that all warps have the same elements is told by none, so what their lanes show each other is not uniform.)
pub(crate) fn chosen(from: &Layout, to: &Layout) -> Option<Vec<(i64, i64, i64)>> {
    let ([before], [after]) = (&from.axes[..], &to.axes[..]) else { return None };
    let count = from.shape()[0];
    if !(2..=FEW).contains(&count) || !(count as u64).is_power_of_two() || from.threads != to.threads || to.registers != 1 {
        return None;
    }
    let all = matches!(before[..], [d] if d.source == Source::Register && d.stride == 1 && d.place == 1 && d.extent == count);
    let of_threads = after.iter().all(|d| d.source == Source::Thread && (d.stride as u64).is_power_of_two());
    (all && of_threads).then(|| after.iter().map(|d| (d.stride, d.extent, d.place)).collect())
}

impl Kernel {
    /// Whether lanes can exchange elements between two layouts.
    pub fn can_exchange(&self, from: &Layout, to: &Layout) -> bool {
        self.launch.units.is_some() && from.threads == to.threads && exchange(from, to).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::layouts::with_runs;
    use girih_ir::fragments::{ATOMS, Operand};

    /// The accumulators of `atoms` instructions side by side, in every one of two warps.
    fn accumulators(atom: girih_ir::fragments::Atom, atoms: i64) -> Layout {
        let mut layout = atom.layout(Operand::Accumulator);
        let own = layout.registers;
        let digit = |source, stride, extent, place| Digit { source, stride, extent, place };
        layout.axes[1].push(digit(Source::Register, own, atoms, 8));
        layout.axes[1].push(digit(Source::Thread, 32, 2, 8 * atoms));
        Layout { threads: 64, registers: own * atoms, ..layout }
    }

    #[test]
    fn runs_hold_every_element_once_and_exchanges_lead_to_them() {
        let mut found = 0;
        for atom in ATOMS {
            for (atoms, run) in [(2, 4), (4, 8), (6, 4), (12, 8), (8, 16), (2, 8), (3, 4), (4, 16)] {
                let from = accumulators(atom, atoms);
                let Some(to) = with_runs(&from, 1, run) else {
                    assert!(atoms * 8 % (4 * run) != 0, "{atom}: runs of {run} from {atoms} atoms");
                    continue;
                };
                found += 1;
                assert_eq!((to.run(1), to.shape(), to.registers), (run, from.shape(), from.registers));
                // By the exchange's own account, each lane ends up with the elements that the layout says.
                let Exchange { swaps, kept } = exchange(&from, &to).expect("an exchange");
                for thread in 0..64 {
                    for register in 0..to.registers {
                        let (mut lane, mut old) = (thread, 0);
                        for s in &swaps {
                            let (own, bit) = (thread / s.lanes % 2, register / s.after % 2);
                            lane += (bit - own) * s.lanes;
                            old += own * s.before;
                        }
                        old += kept.iter().map(|(extent, before, after)| register / after % extent * before).sum::<i64>();
                        assert_eq!(to.coordinates(thread, register), from.coordinates(lane, old), "{atom}, {atoms} atoms, runs of {run}");
                    }
                }
            }
        }
        assert!(found > 40, "{found}");
    }

    /// A vector of so many elements in 128 threads: in their registers, or so many lanes apart.
    fn vector(count: i64, lanes: Option<i64>) -> Layout {
        let digit = match lanes {
            None => Digit { source: Source::Register, stride: 1, extent: count, place: 1 },
            Some(stride) => Digit { source: Source::Thread, stride, extent: count, place: 1 },
        };
        Layout { axes: vec![vec![digit]], threads: 128, registers: lanes.map_or(count, |_| 1) }
    }

    #[test]
    fn of_short_vectors_each_thread_chooses_its_own() {
        for (count, apart) in [(8, 1), (8, 4), (4, 8), (2, 16), (4, 32)] {
            let (all, own) = (vector(count, None), vector(count, Some(apart)));
            let digits = chosen(&all, &own).unwrap_or_else(|| panic!("{count} elements are chosen"));
            for thread in 0..128 {
                let number: i64 = digits.iter().map(|(stride, extent, place)| thread / stride % extent * place).sum();
                assert_eq!(own.coordinates(thread, 0), [number]);
            }
            assert!(chosen(&own, &all).is_none(), "a thread has one element");
        }
    }

    #[test]
    fn long_vectors_and_odd_ones_meet() {
        let none = |from: &Layout, to: &Layout| assert!(chosen(from, to).is_none(), "{from:?} to {to:?}");
        none(&vector(16, None), &vector(16, Some(1)));
        none(&vector(6, None), &vector(6, Some(1)));
        none(&vector(8, Some(1)), &vector(8, Some(4)));
        none(&vector(4, None), &vector(4, Some(3)));
        let two_axes = |l: Layout| Layout { axes: vec![l.axes[0].clone(), vec![]], ..l };
        none(&two_axes(vector(8, None)), &two_axes(vector(8, Some(1))));
    }
}
