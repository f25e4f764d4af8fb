//! Numbered work on all cores.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;

/// Cores of this machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Does `0..count` in as many parts as there are cores; what comes of each part, in order. A panic in a part is one here.
pub fn in_parts<T: Send>(count: usize, part: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let threads = cores();
    let (part, share) = (&part, count.div_ceil(threads));
    std::thread::scope(|scope| {
        let range = |t: usize| (t * share).min(count)..((t + 1) * share).min(count);
        let parts: Vec<_> = (0..threads).map(|t| scope.spawn(move || part(range(t)))).collect();
        parts.into_iter().map(|p| p.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// What `one` gives for each number below `count`, in order. References whose rows do not need one another are made with it.
pub fn each_of<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    in_parts(count, |range| range.map(&one).collect::<Vec<T>>()).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_and_in_order() {
        for count in [0, 1, 2, 3, 100, 1009] {
            assert_eq!(each_of(count, |i| i), (0..count).collect::<Vec<_>>());
            assert_eq!(in_parts(count, |range| range.len()).iter().sum::<usize>(), count);
        }
    }

    #[test]
    fn panics_come_through() {
        assert!(std::panic::catch_unwind(|| each_of(10, |i| assert!(i != 7))).is_err());
    }
}
