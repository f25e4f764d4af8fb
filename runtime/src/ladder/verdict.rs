//! What a GPU's times of a rung say of the model's.

/// By how much a step's measured and predicted ratios differ at most where the model is right about it.
const ALIKE: f64 = 1.8;
/// By how much two rungs differ at least where one is faster: runs of one kernel differ by about a percent.
const NOISE: f64 = 0.015;
/// From which ratio on a rung is slower than the one before.
const SLOWER: f64 = 0.98;

/// Microseconds of a rung.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// On a GPU.
    pub measured: f64,
    /// As the model has it.
    pub predicted: f64,
}

impl Times {
    /// By which factor the model is off.
    fn off(self) -> f64 {
        apart(self.measured, self.predicted)
    }
}

/// A rung's times beside those of the rung before, if there is one that was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// The rung's.
    pub now: Times,
    /// Those of the rung before.
    pub before: Option<Times>,
}

/// What becomes of the model's reasons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// They explain what was measured.
    Right,
    /// The model is wrong about this rung.
    Wrong,
    /// The model is wrong about the step, and further off about the rung before.
    WrongBefore,
}

impl Compared {
    /// How many times as fast as the rung before it is.
    pub fn faster(&self) -> Option<f64> {
        self.before.map(|before| before.measured / self.now.measured)
    }

    /// As the model has it.
    pub fn expected(&self) -> Option<f64> {
        self.before.map(|before| before.predicted / self.now.predicted)
    }

    /// Whether it is slower than the rung before.
    pub fn is_slower(&self) -> bool {
        self.faster().is_some_and(|faster| faster < SLOWER)
    }

    /// Whether a step, or the time of a rung that has none before it, is another one than the model has.
    pub fn verdict(&self) -> Verdict {
        let Some(((before, faster), expected)) = self.before.zip(self.faster()).zip(self.expected()) else {
            return if self.now.off() > ALIKE { Verdict::Wrong } else { Verdict::Right };
        };
        let other_way = (faster - 1.0) * (expected - 1.0) < 0.0 && (faster - 1.0).abs() > NOISE && (expected - 1.0).abs() > NOISE;
        match apart(faster, expected) > ALIKE || other_way {
            false => Verdict::Right,
            true if before.off() > self.now.off() => Verdict::WrongBefore,
            true => Verdict::Wrong,
        }
    }
}

fn apart(a: f64, b: f64) -> f64 {
    (a / b).max(b / a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(now: (f64, f64), before: Option<(f64, f64)>) -> Compared {
        let times = |(measured, predicted)| Times { measured, predicted };
        Compared { now: times(now), before: before.map(times) }
    }

    #[test]
    fn a_model_is_wrong_where_it_has_another_step() {
        let of = |faster: f64, expected: f64| of((10.0, 10.0 * faster / expected), Some((10.0 * faster, 10.0 * faster))).verdict();
        assert_eq!([of(2.0, 1.9), of(1.0, 1.001), of(0.99, 1.04), of(0.5, 0.6), of(0.93, 0.99)], [Verdict::Right; 5]);
        assert_eq!([of(14.3, 0.64), of(1.2, 0.64), of(204.0, 2.5), of(0.93, 1.04)], [Verdict::Wrong; 4]);
    }

    #[test]
    fn the_rung_that_is_further_off_is_blamed() {
        assert_eq!(of((34.5, 23.8), Some((485.0, 13.5))).verdict(), Verdict::WrongBefore);
        assert_eq!(of((485.0, 13.5), Some((34.5, 23.8))).verdict(), Verdict::Wrong);
    }

    #[test]
    fn a_lowest_rung_has_its_time_alone() {
        let of = |us: f64, predicted: f64| of((us, predicted), None).verdict();
        assert_eq!([of(484.0, 13.5), of(13.5, 484.0), of(94.6, 55.8)], [Verdict::Wrong, Verdict::Wrong, Verdict::Right]);
    }

    #[test]
    fn runs_of_one_kernel_differ_by_a_percent() {
        assert!(of((10.3, 10.0), Some((10.0, 10.0))).is_slower() && !of((10.1, 10.0), Some((10.0, 10.0))).is_slower());
        assert!(!of((10.3, 10.0), None).is_slower());
    }
}
