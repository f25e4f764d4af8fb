//! Shares of a search: `2/4` is the second of four machines, or GPUs. Each tries its own part; their stores are merged behind that.

use girih_core::scalar::fnv1a64;
use girih_core::schedule::mix;
use std::fmt;
use std::str::FromStr;

/// One share of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// From 1 on.
    number: usize,
    of: usize,
}

impl Shard {
    /// Whether one of several things in a fixed order belongs to this share: they are dealt in turn.
    pub fn takes(self, place: usize) -> bool {
        place % self.of + 1 == self.number
    }

    /// Whether a schedule belongs to it, whoever lists it and in which order.
    pub fn holds(self, schedule: &str) -> bool {
        // Texts that differ in a character have hashes that lie near each other.
        self.takes((mix(fnv1a64(schedule.as_bytes())) >> 32) as usize)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = |why: &str| format!("`{text}` is no share: {why}; write 1/4 to 4/4 for four of them");
        let (number, of) = text.split_once('/').ok_or_else(|| wrong("it has no `/`"))?;
        let read = |part: &str| part.trim().parse::<usize>().map_err(|_| wrong(&format!("`{part}` is no whole number")));
        match (read(number)?, read(of)?) {
            (_, 0) => Err(wrong("nothing has 0 shares")),
            (0, _) => Err(wrong("shares are counted from 1 on")),
            (number, of) if number > of => Err(wrong(&format!("there is no share {number} of {of}"))),
            (number, of) => Ok(Shard { number, of }),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_or_refused_with_the_reason() {
        assert_eq!("2/4".parse::<Shard>().map(|s| s.to_string()), Ok("2/4".into()));
        let error = |text: &str| text.parse::<Shard>().unwrap_err();
        assert_eq!(error("0/4"), "`0/4` is no share: shares are counted from 1 on; write 1/4 to 4/4 for four of them");
        assert!(error("5/4").contains("there is no share 5 of 4") && error("x/4").contains("`x` is no whole number"));
        assert!(error("3").contains("no `/`") && error("1/0").contains("0 shares"));
    }

    #[test]
    fn every_schedule_has_one_share_and_shares_are_about_as_large() {
        let shards: Vec<Shard> = (1..=4).map(|n| format!("{n}/4").parse().unwrap()).collect();
        let mut counts = [0; 4];
        for schedule in (0..1000).map(|i| format!("T={} C={} V={}", 1 << (i % 10), i % 7, i)) {
            let holders: Vec<usize> = (0..4).filter(|s| shards[*s].holds(&schedule)).collect();
            assert_eq!(holders.len(), 1, "{schedule}");
            counts[holders[0]] += 1;
        }
        assert!(counts.iter().all(|n| (180..320).contains(n)), "{counts:?}");
        assert_eq!((0..8).filter(|place| shards[1].takes(*place)).collect::<Vec<_>>(), [1, 5]);
    }
}
