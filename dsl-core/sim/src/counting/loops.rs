//! Which turns of a loop are run, and how many each stands for.

/// Which turns of a long loop are run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    /// Loops of no more turns are run whole.
    pub whole: u64,
    /// Turns at the beginning that are run: what begins a pipeline, and one behind it.
    first: u64,
    /// Turns at the end that are run: where a pipeline has nothing more to load.
    last: u64,
    /// Turns between them that are run, one or two.
    middle: u64,
}

impl Sample {
    /// Of loops that are run whole if they are short: their predicates may differ at every turn.
    pub const SHORT: Sample = Sample { whole: 24, ..Sample::FEW };
    /// Of loops of which a turn takes much.
    pub const FEW: Sample = Sample { whole: 7, first: 2, last: 3, middle: 2 };
    /// Of loops in loops of which even few turns take too much.
    pub const LEAST: Sample = Sample { whole: 3, first: 1, last: 1, middle: 1 };
    /// No turn is left out.
    pub const WHOLE: Sample = Sample { whole: u64::MAX, ..Sample::FEW };
}

/// A loop that is being run.
pub(super) struct Turns {
    /// Its number in the program.
    pub number: usize,
    /// Turns that it takes, as far as known.
    turns: u64,
    /// Which of them are run.
    sample: Sample,
    /// The turn that is run now.
    pub at: u64,
    /// Turns that one outside of the loop stands for.
    pub outer: f64,
    /// When the turn began.
    pub began: f64,
}

impl Turns {
    /// A loop of so many turns that begins.
    pub fn begin(number: usize, turns: u64, sample: Sample, outer: f64, now: f64) -> Turns {
        Turns { number, turns, sample, at: 0, outer, began: now }
    }

    /// Turns between the first and the last ones.
    fn inner(&self) -> u64 {
        self.turns - self.sample.first - self.sample.last
    }

    /// The two turns in the middle that are run, at equal distances from the ends, or the one: work that grows by the turn is theirs on average.
    fn middle(&self) -> [u64; 2] {
        let (first, inner) = (self.sample.first, self.inner());
        let off = if self.sample.middle == 1 { (inner - 1) / 2 } else { inner / 4 };
        [first + off, first + if self.sample.middle == 1 { off } else { inner - 1 - off }]
    }

    /// How many turns the one that is run now stands for.
    pub fn weight(&self) -> f64 {
        let itself = self.turns <= self.sample.whole || !self.middle().contains(&self.at);
        if itself { 1.0 } else { self.inner() as f64 / self.sample.middle as f64 }
    }

    /// Goes to the turn that is run next; how many are left out before it.
    pub fn next(&mut self) -> u64 {
        let following = self.at + 1;
        self.at = match following {
            _ if self.turns <= self.sample.whole || following < self.sample.first => following,
            _ => {
                let [a, b] = self.middle();
                [a, b, self.turns - self.sample.last].into_iter().find(|t| *t >= following).unwrap_or(following)
            }
        };
        self.at - following
    }

    /// Whether the turns that were known of are over.
    pub fn is_over(&self) -> bool {
        self.at >= self.turns
    }

    /// So many more turns, for lanes that stay longer.
    pub fn go_on(&mut self, turns: u64) {
        (self.turns, self.at) = (turns, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_stand_for_all() {
        let all = [1, 2, 3, 4, 7, 8, 24, 25, 26, 100, 12345];
        for (turns, sample) in all.into_iter().flat_map(|n| [Sample::SHORT, Sample::FEW, Sample::LEAST].map(|s| (n, s))) {
            let mut t = Turns::begin(0, turns, sample, 1.0, 0.0);
            let (mut sum, mut growing, mut run) = (0.0, 0.0, 0);
            while !t.is_over() {
                sum += t.weight();
                growing += t.weight() * t.at as f64;
                run += 1;
                t.next();
            }
            assert_eq!(sum, turns as f64);
            // One turn in the middle is half a turn off where there are two.
            let off = if sample == Sample::LEAST { turns as f64 / 2.0 } else { 0.0 };
            let exact = (turns * turns.saturating_sub(1) / 2) as f64;
            assert!((growing - exact).abs() <= off, "{growing} {exact}");
            assert!(run <= sample.whole, "{run} of {turns}");
        }
    }
}
