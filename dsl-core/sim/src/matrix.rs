//! Matrix instructions: products of fragments, and matrices from shared memory.
//!
//! # Numbers
//! Products of f16, bf16, tf32 and 8-bit float operands are exact, of tf32 operands the lower 13 bits are left out. Per instruction, the products of
//! an element and its accumulator are added in double precision, in the order of k, and rounded once: towards zero to f32, to nearest
//! to f16. Tensor cores truncate sums, too, but do it for each block of products and keep fewer bits in between (of 8-bit floats 13 of a fraction); the difference is
//! within [`Atom::error_bound`](girih_ir::fragments::Atom::error_bound). Subnormals are kept, sums beyond the largest number are
//! infinite, infinities and NaN go their IEEE way, every NaN comes out as 0x7fffffff (f16: 0x7fff). Integers are exact and wrap.

use super::counters;
use super::op::{ElementsOp, MatrixStep, MmaStep, Slot};
use super::shadow::Kind;
use super::step::Step;
use super::trap::TrapKind;
use super::warp::{Exec, Lanes, Starts, active_lanes, fault};
use girih_ir::fragments::{Atom, LoadMatrix, Number, Operand};
use girih_ir::layout::Layout;
use girih_ir::types::{DType, Literal, round};

/// Where the elements of a fragment lie in their matrix, row by row: place `register * 32 + lane`.
#[derive(Clone, Debug)]
pub(super) struct Places(Vec<u32>);

impl Places {
    pub(super) fn of(layout: &Layout) -> Places {
        let shape = layout.shape();
        let flat = |at: Vec<i64>| at.iter().zip(&shape).fold(0, |flat, (c, n)| flat * n + c) as u32;
        Places(
            (0..layout.registers)
                .flat_map(|r| (0..32).map(move |lane| (lane, r)))
                .map(|(lane, r)| flat(layout.coordinates(lane, r)))
                .collect(),
        )
    }

    /// The places of each register's lanes.
    pub(super) fn registers(&self) -> impl Iterator<Item = &[u32]> {
        self.0.chunks_exact(32)
    }
}

impl MmaStep {
    pub(super) fn new(atom: Atom, [d, a, b, c]: [ElementsOp; 4]) -> MmaStep {
        let places = [Operand::A, Operand::B, Operand::Accumulator].map(|o| Places::of(&atom.layout(o)));
        MmaStep { atom, d, a, b, c, places }
    }
}

impl MatrixStep {
    pub(super) fn new(load: LoadMatrix, of: ElementsOp, place: super::op::PlaceOp) -> MatrixStep {
        let addresses = load.addresses();
        let giver = |matrix: i64, row: i64| {
            let gives = |lane: &i64| addresses.coordinates(*lane, 0) == [matrix, row];
            (0..32).find(gives).expect("a lane gives the address of each row") as usize
        };
        let givers = (0..i64::from(load.count)).flat_map(|m| (0..8).map(move |row| (m, row))).map(|(m, row)| giver(m, row)).collect();
        MatrixStep { load, of, place, givers, received: Places::of(&load.received(place.dtype)) }
    }
}

impl Step<'_, '_> {
    pub(super) fn mma(&mut self, step: &MmaStep) -> Exec {
        self.whole_warp("matrix instruction")?;
        let atom = &step.atom;
        let [in_a, in_b, accumulators] = &step.places;
        let a = self.gather(&step.a, atom, Operand::A, in_a)?;
        let b = self.gather(&step.b, atom, Operand::B, in_b)?;
        let c = self.gather(&step.c, atom, Operand::Accumulator, accumulators)?;
        let d = multiply(atom, &a, &b, &c);
        let starts = self.fragment(&step.d, atom.registers(Operand::Accumulator), atom.per_word(Operand::Accumulator))?;
        self.scatter(&starts, &d, accumulators);
        if self.core.options.count {
            self.core.counters.matrix.add(atom.a, atom.multiply_adds());
        }
        Ok(())
    }

    pub(super) fn load_matrix(&mut self, step: &MatrixStep) -> Exec {
        self.whole_warp("load of matrices")?;
        let (space, dtype) = (step.place.space, step.place.dtype);
        let (size, row) = (dtype.size(), LoadMatrix::ROW_BYTES as usize);
        let starts = self.fragment(&step.of, step.load.registers(dtype), 4 / size as u32)?;
        let addresses = self.resolve(&step.place, u32::MAX, LoadMatrix::ROW_BYTES)?;
        let mut elements = Vec::with_capacity(step.givers.len() * row / size);
        for lane in &step.givers {
            let at = addresses[*lane];
            self.require_known(space, at, row, *lane)?;
            self.read_by_all(space, at, row)?;
            let bytes = self.bytes(space).0;
            elements.extend((0..row / size).map(|i| bytes.load(at as usize + i * size, size)));
        }
        self.scatter(&starts, &elements, &step.received);
        self.count_rows(step, &addresses);
        Ok(())
    }

    /// All 32 lanes must exist and be here.
    pub(super) fn whole_warp(&self, what: &str) -> Exec {
        self.together(what)?;
        if self.warp.present == u32::MAX {
            return Ok(());
        }
        let found = format!("a {what} needs 32 lanes, the last warp has {}", self.warp.present.count_ones());
        fault(TrapKind::Divergent { found }, 0)
    }

    /// The slots of a fragment, which starts with a whole word.
    pub(super) fn fragment(&self, of: &ElementsOp, count: u32, per_word: u32) -> Exec<Starts> {
        let starts = self.warp.element_slots(self.core.program, of, count)?;
        for lane in 0..32 {
            let element = starts.of(lane) - of.base;
            if !element.is_multiple_of(per_word) {
                let found = format!("the fragment starts within a word, at element {element}");
                return fault(TrapKind::Misuse { found }, lane);
            }
        }
        Ok(starts)
    }

    /// A fragment as a matrix of bit patterns, row by row.
    fn gather(&self, of: &ElementsOp, atom: &Atom, operand: Operand, places: &Places) -> Exec<Vec<u64>> {
        let starts = self.fragment(of, atom.registers(operand), atom.per_word(operand))?;
        let mut matrix = vec![0; places.0.len()];
        for (register, places) in places.registers().enumerate() {
            for (lane, place) in places.iter().enumerate() {
                let slot = starts.of(lane) + register as Slot;
                self.warp.check(self.core.program, slot, 1 << lane)?;
                matrix[*place as usize] = self.warp.reg(slot)[lane];
            }
        }
        Ok(matrix)
    }

    /// Gives the lanes their elements.
    fn scatter(&mut self, starts: &Starts, matrix: &[u64], places: &Places) {
        for (register, places) in places.registers().enumerate() {
            for (lane, place) in places.iter().enumerate() {
                let slot = starts.of(lane) + register as Slot;
                self.warp.regs[slot as usize][lane] = matrix[*place as usize];
                self.warp.mark_known(slot, lane);
            }
        }
    }

    /// Every lane reads a row; which bytes of it end up in which lane is not told apart.
    fn read_by_all(&mut self, space: girih_ir::simt::Space, at: u64, len: usize) -> Exec {
        if self.warp.uniform {
            let entry = self.entry(u32::MAX, Kind::Read);
            return self.touch(space, at, len, entry);
        }
        for lane in active_lanes(u32::MAX) {
            let entry = self.entry(1 << lane, Kind::Read);
            self.touch(space, at, len, entry)?;
        }
        Ok(())
    }

    /// One request; each matrix is a wavefront of its own, or more where its rows meet in banks.
    fn count_rows(&mut self, step: &MatrixStep, addresses: &Lanes) {
        if !self.core.options.count {
            return;
        }
        let counter = &mut self.core.counters.shared_load;
        counter.requests += 1;
        for rows in step.givers.chunks_exact(8) {
            let lanes = rows.iter().fold(0, |lanes, lane| lanes | 1 << lane);
            let (wavefronts, conflicts) = counters::wavefronts(addresses, lanes, LoadMatrix::ROW_BYTES);
            counter.wavefronts += wavefronts;
            counter.conflicts += conflicts;
        }
    }
}

/// Rows of A times columns of B: each element is folded from its start, in the order of k.
fn products<T: Copy, S>(atom: &Atom, [a, b]: [&[T]; 2], mut sums: Vec<S>, add: impl Fn(&mut S, T, T)) -> Vec<S> {
    let (n, k) = (atom.n as usize, atom.k as usize);
    for (sums, a) in sums.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
        for (a, b) in a.iter().zip(b.chunks_exact(n)) {
            sums.iter_mut().zip(b).for_each(|(sum, b)| add(sum, *a, *b));
        }
    }
    sums
}

/// `a · b + c`, all row by row.
pub(super) fn multiply(atom: &Atom, a: &[u64], b: &[u64], c: &[u64]) -> Vec<u64> {
    match atom.accumulator {
        DType::I32 => integers(atom, a, b, c),
        _ => floats(atom, a, b, c),
    }
}

fn integers(atom: &Atom, a: &[u64], b: &[u64], c: &[u64]) -> Vec<u64> {
    let values = |number: Number, matrix: &[u64]| -> Vec<i32> {
        matrix.iter().map(|bits| Literal { dtype: number.dtype(), bits: *bits }.to_i64() as i32).collect()
    };
    let (a, b) = (values(atom.a, a), values(atom.b, b));
    let start = c.iter().map(|c| *c as i32).collect();
    let sums = products(atom, [&a, &b], start, |sum, a, b| *sum = sum.wrapping_add(a * b));
    sums.into_iter().map(|sum| u64::from(sum as u32)).collect()
}

fn floats(atom: &Atom, a: &[u64], b: &[u64], c: &[u64]) -> Vec<u64> {
    let values = |number: Number, matrix: &[u64]| -> Vec<f64> { matrix.iter().map(|bits| value_of(number, *bits)).collect() };
    let (a, b) = (values(atom.a, a), values(atom.b, b));
    let start = c.iter().map(|c| Literal { dtype: atom.accumulator, bits: *c }.to_f64()).collect();
    let sums = products(atom, [&a, &b], start, |sum, a, b| *sum += a * b);
    sums.into_iter().map(|sum| rounded(atom.accumulator, sum)).collect()
}

/// An operand's value as a matrix instruction reads it.
fn value_of(number: Number, bits: u64) -> f64 {
    let bits = if number == Number::Tf32 { bits & !0x1fff } else { bits };
    Literal { dtype: number.dtype(), bits }.to_f64()
}

fn rounded(accumulator: DType, x: f64) -> u64 {
    match (accumulator, x.is_nan()) {
        (DType::F16, true) => 0x7fff,
        (DType::F16, false) => round::double(DType::F16, x),
        (_, true) => 0x7fff_ffff,
        (_, false) => {
            let nearest = x as f32;
            let beyond = nearest.is_finite() && f64::from(nearest).abs() > x.abs();
            u64::from(nearest.to_bits() - u32::from(beyond))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_truncated_to_f32_and_rounded_to_f16() {
        let f32_of = |x: f64| f32::from_bits(rounded(DType::F32, x) as u32);
        let (one, next) = (1.0f32, 1.0 + f32::EPSILON);
        assert_eq!((f32_of(1.0 + 0.9 * f64::from(f32::EPSILON)), f32_of(f64::from(next))), (one, next));
        assert_eq!(f32_of(-1.0 - 0.9 * f64::from(f32::EPSILON)), -one);
        assert_eq!((f32_of(1e39), f32_of(f64::NEG_INFINITY)), (f32::INFINITY, f32::NEG_INFINITY));
        assert_eq!((f32_of(1e-46), rounded(DType::F32, f64::NAN)), (0.0, 0x7fff_ffff));
        let half = |x: f64| half::f16::from_bits(rounded(DType::F16, x) as u16).to_f64();
        assert_eq!((half(1.0 + 0.0007), half(70000.0)), (1.0 + 2f64.powi(-10), f64::INFINITY));
    }

    #[test]
    fn tf32_operands_lose_their_lower_bits() {
        let x = 1.0f32 + 2f32.powi(-10) + 2f32.powi(-11);
        assert_eq!(value_of(Number::Tf32, u64::from(x.to_bits())), 1.0 + 2f64.powi(-10));
        assert_eq!(value_of(Number::I8, 0xff), -1.0);
        assert_eq!(value_of(Number::U8, 0xff), 255.0);
    }
}
