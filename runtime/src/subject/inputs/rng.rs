//! The generator of test data: the same numbers on every machine, and in `draw.cu` on a GPU.

/// A small fast generator (SplitMix64); good enough for test data, not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A float in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A float from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let (radius, turns) = (1.0 - self.unit(), self.unit());
        (-2.0 * logarithm(radius)).sqrt() * cosine(turns)
    }

    /// An integer in `0..end`; 0 where `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next_u64() % end as u64) as usize }
    }

    /// The indices `0..len` in random order.
    pub fn permutation(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// The natural logarithm of a normal float in (0, 1], from sums, products and quotients alone: these are the same on every machine, where
/// logarithms of libraries differ in their last place. With `value` = 2^e · m and s = (m - 1) / (m + 1), ln m = 2 (s + s³/3 + s⁵/5 + ..).
fn logarithm(value: f64) -> f64 {
    let bits = value.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for power in (0..11).rev() {
        sum = sum * square + 1.0 / (2 * power + 1) as f64;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * sum
}

/// The cosine of so many turns in [0, 1), as exact as [`logarithm`] and by as few operations: the series of cosine or sine around the nearest
/// quarter of a turn.
fn cosine(turns: f64) -> f64 {
    let quarter = (turns * 4.0 + 0.5) as i64;
    let angle = (turns * 4.0 - quarter as f64) * std::f64::consts::FRAC_PI_2;
    let square = angle * angle;
    let odd = quarter % 2;
    let mut sum = 1.0;
    for pair in (1..10).rev() {
        let last = 2 * pair + odd;
        sum = 1.0 - sum * square / (last * (last - 1)) as f64;
    }
    let series = if odd == 1 { sum * angle } else { sum };
    if matches!(quarter % 4, 1 | 2) { -series } else { series }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_cosines_are_those_of_libraries() {
        let mut rng = Rng::new(5);
        for _ in 0..100_000 {
            let x = rng.unit();
            let (ours, theirs) = (logarithm(1.0 - x), (1.0 - x).ln());
            assert!((ours - theirs).abs() <= 1e-15 * theirs.abs().max(1e-3), "ln {}: {ours} {theirs}", 1.0 - x);
            let (ours, theirs) = (cosine(x), (std::f64::consts::TAU * x).cos());
            assert!((ours - theirs).abs() <= 2e-15, "cos of {x} turns: {ours} {theirs}");
        }
        assert_eq!((logarithm(1.0), cosine(0.0), cosine(0.25), cosine(0.5), cosine(0.75)), (0.0, 1.0, 0.0, -1.0, 0.0));
        assert!((logarithm(2f64.powi(-53)) + 53.0 * std::f64::consts::LN_2).abs() < 1e-14);
    }
}
