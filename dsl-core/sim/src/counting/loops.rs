//! Which turns of a loop are run, and how many each stands for.

/// Loops of no more turns are run whole: their predicates may differ at every turn.
pub(super) const WHOLE: u64 = 24;
/// The same where a turn takes much.
pub(super) const FEW: u64 = FIRST + LAST + 2;
/// Turns at the beginning that are run: what begins a pipeline, and one behind it.
const FIRST: u64 = 2;
/// Turns at the end that are run: where a pipeline has nothing more to load.
const LAST: u64 = 3;

/// A loop that is being run.
pub(super) struct Turns {
    /// Its number in the program.
    pub number: usize,
    /// Turns that it takes, as far as known.
    turns: u64,
    /// A loop of no more turns is run whole.
    whole: u64,
    /// The turn that is run now.
    pub at: u64,
    /// Turns that one outside of the loop stands for.
    pub outer: f64,
    /// When the turn began.
    pub began: f64,
}

impl Turns {
    /// A loop of so many turns that begins; of no more than `whole` turns each is run.
    pub fn begin(number: usize, turns: u64, whole: u64, outer: f64, now: f64) -> Turns {
        Turns { number, turns, whole, at: 0, outer, began: now }
    }

    /// The two turns in the middle that are run, at equal distances from the ends: work that grows by the turn is theirs on average.
    fn middle(&self) -> [u64; 2] {
        let inner = self.turns - FIRST - LAST;
        [FIRST + inner / 4, FIRST + inner - 1 - inner / 4]
    }

    /// How many turns the one that is run now stands for.
    pub fn weight(&self) -> f64 {
        let whole = self.turns <= self.whole || !self.middle().contains(&self.at);
        if whole { 1.0 } else { (self.turns - FIRST - LAST) as f64 / 2.0 }
    }

    /// Goes to the turn that is run next; how many are left out before it.
    pub fn next(&mut self) -> u64 {
        let following = self.at + 1;
        self.at = match following {
            _ if self.turns <= self.whole || following < FIRST => following,
            _ => {
                let [a, b] = self.middle();
                [a, b, self.turns - LAST].into_iter().find(|t| *t >= following).unwrap_or(following)
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
        for (turns, whole) in [1, 2, 7, 8, 24, 25, 26, 100, 12345].into_iter().flat_map(|n| [(n, WHOLE), (n, FEW)]) {
            let mut t = Turns::begin(0, turns, whole, 1.0, 0.0);
            let (mut sum, mut growing, mut run) = (0.0, 0.0, 0);
            while !t.is_over() {
                sum += t.weight();
                growing += t.weight() * t.at as f64;
                run += 1;
                t.next();
            }
            assert_eq!(sum, turns as f64);
            assert_eq!(growing, (turns * (turns - 1) / 2) as f64);
            assert!(run <= whole, "{run} of {turns}");
        }
    }
}
