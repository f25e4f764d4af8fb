//! The floor of a subject: the least time that a GPU's memory and its fastest units allow for the work that the subject has to do.
//!
//! Bytes move at the rate that reads, writes or a mixture of them reaches ([`Target::memory_seconds`]). Operations count at the rate of the fastest unit that may do them in their precision:
//! products of 16-bit floats, of tf32 and of 8-bit integers at the tensor cores' dense peak, where the architecture has that format;
//! everything else at that of multiply-adds, or of integer operations. A program that has several kinds of products gets the fastest. Who
//! counts nothing but floating-point operations of a program that multiplies integers means those, too.
//! So nothing ends below the floor, but for what stores leave in the L2: a time that does says that the floor or the measurement is wrong.

use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::compulsory::Compulsory;
use girih_core::fragments::Number;
use girih_core::lower::dot_numbers;
use girih_core::target::Target;
use std::fmt;

/// What the floor's time is spent on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The compulsory bytes, at the memory's rate for so many reads and writes.
    Memory,
    /// Floating-point multiply-adds.
    MultiplyAdds,
    /// 32-bit integer operations.
    Integers,
    /// Products on tensor cores, of this format.
    Matrix(Number),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Bound::Memory => f.write_str("the memory's bandwidth"),
            Bound::MultiplyAdds => f.write_str("the rate of multiply-adds"),
            Bound::Integers => f.write_str("the rate of integer operations"),
            Bound::Matrix(number) => write!(f, "the tensor cores' rate for {}", number.name()),
        }
    }
}

/// One kind of work that a subject has to do: its time at the best is the amount ÷ the rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// Bytes, or operations.
    pub amount: f64,
    /// Of them per second.
    pub rate: f64,
    /// Whose rate it is.
    pub bound: Bound,
}

impl Part {
    /// Seconds at that rate.
    pub fn seconds(&self) -> f64 {
        self.amount / self.rate
    }
}

/// The least time of a subject at some sizes, and what it is spent on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Floor {
    /// Seconds.
    pub seconds: f64,
    /// What takes them.
    pub bound: Bound,
    /// Seconds that the memory may still be at work for when the subject has ended: stores that the L2 holds.
    pub behind: f64,
    /// Its bytes, its floating-point operations and its integer operations: the slowest of them is the floor.
    pub parts: [Part; 3],
}

impl Floor {
    /// The roofs of a roofline: what has to move, and the arithmetic that takes the longest; nothing where none is known.
    pub fn roofs(&self) -> (Option<&Part>, Option<&Part>) {
        let some = || self.parts.iter().filter(|part| part.amount > 0.0);
        let memory = some().find(|part| part.bound == Bound::Memory);
        let arithmetic = some().filter(|part| part.bound != Bound::Memory);
        (memory, arithmetic.max_by(|a, b| a.seconds().total_cmp(&b.seconds())))
    }

    /// Why a measured time cannot be: it is below the floor. Nothing where it is not.
    pub fn contradicts(&self, us: f64) -> Option<String> {
        let share = self.seconds * 1e6 / us;
        ((self.seconds - self.behind) * 1e6 > us).then(|| {
            format!(
                "{:.1} % of the floor: no time is below it, so the floor ({:.2} us at {}) or the measurement is wrong",
                100.0 * share,
                self.seconds * 1e6,
                self.bound
            )
        })
    }
}

/// Multiply-adds of a format per second on all tensor cores of a GPU; 0 where these do not know it.
fn matrix_rate(target: &Target, number: Number) -> f64 {
    let per_clock = match number {
        Number::F16 => target.matrix.half,
        Number::BF16 if target.capability >= 80 => target.matrix.half,
        Number::BF16 => 0,
        Number::Tf32 => target.matrix.tf32,
        Number::I8 | Number::U8 => target.matrix.int8,
        Number::F8E4M3 | Number::F8E5M2 => target.matrix.float8,
    };
    f64::from(per_clock) * clocks(target)
}

/// Clocks per second of all multiprocessors, at the highest rate.
fn clocks(target: &Target) -> f64 {
    f64::from(target.multiprocessors) * target.boost
}

/// The fastest way to do operations: on the plain unit, which does so many per second, or as products of one of these formats.
fn fastest(target: &Target, plain: (f64, Bound), products: impl Iterator<Item = Number>) -> (f64, Bound) {
    let on_tensor_cores = products.map(|number| (2.0 * matrix_rate(target, number), Bound::Matrix(number)));
    on_tensor_cores.chain([plain]).max_by(|a, b| a.0.total_cmp(&b.0)).expect("the plain unit")
}

/// Integer operations that a multiprocessor starts in a clock, on all units.
const INTEGERS_PER_CLOCK: f64 = 128.0;

/// The least time for these bytes and so many operations, some of them products of these formats.
pub fn of_work(target: &Target, bytes: Compulsory, flops: f64, int_ops: f64, products: &[Number]) -> Floor {
    let is_integer = |n: &Number| matches!(n, Number::I8 | Number::U8);
    let floats = products.iter().copied().filter(|n| int_ops == 0.0 || !is_integer(n));
    let integers = products.iter().copied().filter(is_integer);
    // A multiply-add is two operations. Integer additions and multiplications have units of their own, of 64 lanes each; a multiprocessor
    // starts four warps' instructions per clock.
    let (flop_rate, float_unit) = fastest(target, (2.0 * f64::from(target.ffma_per_clock) * clocks(target), Bound::MultiplyAdds), floats);
    let (int_rate, integer_unit) = fastest(target, (INTEGERS_PER_CLOCK * clocks(target), Bound::Integers), integers);
    let part = |amount: f64, (rate, bound): (f64, Bound)| Part { amount, rate, bound };
    let moved = target.memory_seconds(bytes.read, bytes.written);
    let memory_rate = if moved > 0.0 { bytes.total() / moved } else { target.bandwidth };
    let parts =
        [part(bytes.total(), (memory_rate, Bound::Memory)), part(flops, (flop_rate, float_unit)), part(int_ops, (int_rate, integer_unit))];
    let slowest = parts.into_iter().reduce(|a, b| if b.seconds() > a.seconds() { b } else { a }).expect("three parts");
    Floor { seconds: slowest.seconds(), bound: slowest.bound, behind: 0.0, parts }
}

/// The least time that a subject can take at some sizes, where it has to move these bytes. Of a program all variants count. The L2 may keep
/// what is stored, all of it at worst.
pub fn floor(subject: &Subject, sizes: &Sizes, bytes: Compulsory, target: &Target) -> Floor {
    let (flops, int_ops) = subject.challenge.as_ref().map_or((0.0, 0.0), |c| ((c.flops)(sizes), (c.int_ops)(sizes)));
    let kernels = subject.source.sites().into_iter().filter_map(|def| (def.build)().ok());
    let products: Vec<Number> = kernels.flat_map(|kernel| dot_numbers(&kernel)).collect();
    let floor = of_work(target, bytes, flops, int_ops, &products);
    let behind = if floor.bound == Bound::Memory { target.l2 as f64 / target.bandwidth } else { 0.0 };
    Floor { behind, ..floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(bytes: f64) -> Compulsory {
        Compulsory::of_copy(bytes)
    }

    /// What reads alone, fills, copies and sums of two tensors reached on an H200, TB/s.
    #[test]
    fn no_mixture_of_reads_and_writes_was_faster_than_its_floor() {
        for (read, written, reached) in [(1.0, 0.0, 4.483), (0.0, 1.0, 4.668), (1.0, 1.0, 4.303), (2.0, 1.0, 4.352)] {
            let floor = of_work(Target::h200(), Compulsory { read: read * 1e9, written: written * 1e9 }, 0.0, 0.0, &[]);
            let rate = floor.parts[0].rate * 1e-12;
            assert!(
                rate > reached - 0.01 && rate < 1.01 * reached,
                "{read} read, {written} written: {rate} TB/s by the floor, {reached} measured"
            );
        }
    }

    #[test]
    fn floors_follow_the_tighter_bound() {
        let h200 = Target::h200();
        let copy = of_work(h200, copied(200e6), 25e6, 0.0, &[]);
        assert!((copy.seconds * 1e6 - 46.51).abs() < 0.01 && copy.bound == Bound::Memory, "{copy:?}");
        let hash = of_work(h200, copied(40e6), 0.0, 0.6e9, &[]);
        assert!((hash.seconds * 1e6 - 17.9).abs() < 0.1 && hash.bound == Bound::Integers, "{hash:?}");
    }

    #[test]
    fn products_count_at_the_rate_of_their_format() {
        let work = |name: &str, products: &[Number]| of_work(Target::find(name).expect("a target"), copied(0.0), 2e12, 0.0, products);
        // 2 TFLOP: an H200 does 66.9 of them per second by multiply-adds, 1070 in f16, 535 in tf32.
        let us = |floor: Floor| (floor.seconds * 1e6).round();
        assert_eq!((us(work("h200", &[])), us(work("h200", &[Number::F16])), us(work("h200", &[Number::Tf32]))), (29892.0, 1868.0, 3736.0));
        assert_eq!(work("h200", &[Number::Tf32, Number::BF16]).bound, Bound::Matrix(Number::BF16));
        // Turing's tensor cores know neither bf16 nor tf32.
        for number in [Number::BF16, Number::Tf32] {
            assert_eq!(work("t4", &[number]).bound, Bound::MultiplyAdds);
        }
        let integers = of_work(Target::h200(), copied(0.0), 0.0, 2e12, &[Number::I8]);
        assert_eq!((us(integers), integers.bound), (934.0, Bound::Matrix(Number::I8)));
        // Where integer operations are counted, products of integers say nothing of floats; else they are what was counted.
        assert_eq!(of_work(Target::h200(), copied(0.0), 2e12, 1.0, &[Number::I8]).bound, Bound::MultiplyAdds);
        let floats = work("h200", &[Number::I8]);
        assert_eq!((floats.seconds, floats.bound), (integers.seconds, integers.bound));
    }

    /// Dense peaks of the data sheets in TFLOP/s or TOP/s: f16, bf16, tf32, int8; nothing where tensor cores do not know the format.
    const SHEETS: [(&str, [Option<f64>; 4]); 6] = [
        ("t4", [Some(65.0), None, None, Some(130.0)]),
        ("a100", [Some(312.0), Some(312.0), Some(156.0), Some(624.0)]),
        ("h100", [Some(989.0), Some(989.0), Some(495.0), Some(1979.0)]),
        ("h200", [Some(989.0), Some(989.0), Some(495.0), Some(1979.0)]),
        ("b200", [Some(2250.0), Some(2250.0), Some(1125.0), Some(4500.0)]),
        ("rtx5090", [Some(209.5), Some(209.5), Some(104.8), Some(838.0)]),
    ];

    /// No time is below the floor: it has the peak at the highest clock, which data sheets stay a little below.
    #[test]
    fn every_format_counts_at_its_peak_on_every_gpu() {
        assert_eq!(SHEETS.map(|(name, _)| name), girih_core::target::TARGETS.map(|t| t.name));
        for (name, sheet) in SHEETS {
            let target = Target::find(name).expect("a target");
            let formats = [(Number::F16, 0), (Number::BF16, 1), (Number::Tf32, 2), (Number::I8, 3), (Number::U8, 3)];
            for (number, peak) in formats.map(|(number, at)| (number, sheet[at])) {
                let integer = matches!(number, Number::I8 | Number::U8);
                let (flops, int_ops) = if integer { (0.0, 1e12) } else { (1e12, 0.0) };
                let floor = of_work(target, copied(0.0), flops, int_ops, &[number]);
                let Some(peak) = peak else {
                    assert_eq!(floor, of_work(target, copied(0.0), flops, int_ops, &[]), "{name} {number:?}");
                    continue;
                };
                let share = 1.0 / floor.seconds / peak;
                assert!((0.995..1.09).contains(&share), "{name} {number:?}: {share} of the sheet");
                // Tf32 is no faster than f32 on some.
                let plain = of_work(target, copied(0.0), flops, int_ops, &[]).seconds;
                assert!(floor.bound == Bound::Matrix(number) || floor.seconds == plain, "{name} {number:?}: {floor:?}");
            }
        }
    }

    /// Architectures of which no GPU is known have the formats that those before them had.
    #[test]
    fn relatives_know_what_their_generation_does() {
        for target in &girih_core::target::RELATIVES {
            let plain = of_work(target, copied(0.0), 1e12, 0.0, &[]);
            let seconds = |number: Number| of_work(target, copied(0.0), 1e12, 0.0, &[number]).seconds;
            assert_eq!(seconds(Number::F16), seconds(Number::BF16), "{}", target.arch);
            assert!(seconds(Number::F16) < seconds(Number::Tf32) && seconds(Number::Tf32) <= plain.seconds, "{}", target.arch);
            assert_eq!(of_work(target, copied(0.0), 0.0, 1e12, &[Number::I8]).bound, Bound::Matrix(Number::I8), "{}", target.arch);
        }
    }

    #[test]
    fn times_below_the_floor_are_told() {
        let floor = of_work(Target::h200(), copied(4.3e6), 0.0, 0.0, &[]);
        assert_eq!(floor.contradicts(1.1), None);
        let told = floor.contradicts(0.5).expect("half of the floor");
        assert!(told.starts_with("200.0 % of the floor") && told.contains("1.00 us at the memory's bandwidth"), "{told}");
        // The last stores may be in the L2.
        let floor = Floor { behind: 0.2e-6, ..floor };
        assert!(floor.contradicts(0.79).is_some() && floor.contradicts(0.81).is_none());
    }
}
