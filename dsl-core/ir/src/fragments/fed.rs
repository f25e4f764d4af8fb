//! Sums that feed the next product: the accumulators of instructions side by side as the left operand of another one, without leaving their
//! registers.

use super::{Atom, Operand};
use crate::layout::{Layout, Source};

impl Atom {
    /// The layout of operand A or B where A is made of accumulators: each lane holds of A what it holds of `k / n` accumulators side by side.
    ///
    /// Of 16-bit operands it is the layout that the instruction has. Of tf32 a lane holds columns `2 t` and `2 t + 1` of an accumulator, and
    /// `t` and `t + 4` of A: as the order of a sum is free, the instruction's position `t` is taken for the sum's position `2 t`, and `t + 4`
    /// for `2 t + 1`, in both operands. `None` where accumulators are no operand of the instruction.
    pub fn fed(&self, operand: Operand) -> Option<Layout> {
        if self.m != 16 || !self.k.is_multiple_of(self.n) || self.dtype(Operand::A) != self.dtype(Operand::B) {
            return None;
        }
        let mut layout = self.layout(operand);
        let along_k = match operand {
            Operand::A => &mut layout.axes[1],
            Operand::B => &mut layout.axes[0],
            Operand::Accumulator => return Some(layout),
        };
        match self.per_word(Operand::A) {
            2 => {}
            // Four lanes, then two registers: they change places.
            1 => along_k.iter_mut().for_each(|d| d.place = if d.source == Source::Thread { 2 } else { 1 }),
            _ => return None,
        }
        along_k.sort_by_key(|d| d.place);
        Some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ATOMS;
    use super::*;

    #[test]
    fn lanes_hold_of_operands_what_they_hold_of_sums() {
        let mut found = Vec::new();
        for atom in ATOMS {
            let Some(a) = atom.fed(Operand::A) else { continue };
            let (b, sums) = (atom.fed(Operand::B).expect("both or none"), atom.layout(Operand::Accumulator));
            let own = [Operand::A, Operand::B].map(|o| atom.layout(o));
            found.push(atom.to_string());
            for lane in 0..32 {
                // Accumulators side by side hold the rows and columns that A does.
                let aside = (0..i64::from(atom.k / atom.n)).flat_map(|n| (0..sums.registers).map(move |r| (n, r)));
                let mut held: Vec<Vec<i64>> = aside
                    .map(|(n, r)| {
                        let at = sums.coordinates(lane, r);
                        vec![at[0], at[1] + n * i64::from(atom.n)]
                    })
                    .collect();
                let mut fed: Vec<Vec<i64>> = (0..a.registers).map(|r| a.coordinates(lane, r)).collect();
                held.sort();
                fed.sort();
                assert_eq!(held, fed, "{atom}, lane {lane}");
            }
            // Where the instruction multiplies two elements, both are of one position of the sum.
            let of_k = |layout: &Layout, own: &Layout, axis: usize| {
                let mut position = vec![-1; atom.k as usize];
                for (lane, r) in (0..32).flat_map(|lane| (0..own.registers).map(move |r| (lane, r))) {
                    let (at, is) = (own.coordinates(lane, r)[axis] as usize, layout.coordinates(lane, r)[axis]);
                    assert!(position[at] == -1 || position[at] == is, "{atom}: position {at}");
                    position[at] = is;
                }
                position
            };
            assert_eq!(of_k(&a, &own[0], 1), of_k(&b, &own[1], 0), "{atom}");
        }
        assert_eq!(found.len(), 6, "{found:?}");
        assert!(found.contains(&"m16n8k8_tf32".to_string()) && !found.contains(&"m16n8k4_tf32".to_string()), "{found:?}");
    }
}
