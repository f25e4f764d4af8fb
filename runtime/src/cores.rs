//! Numbered work on all cores.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::Scope;

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

/// Begins the work for each item on so many threads of a scope, in order, and goes on.
pub fn begin<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) + Send + Sync + 'scope,
) {
    let threads = threads.min(items.len());
    let (items, work) = (Arc::new(Mutex::new(VecDeque::from(items))), Arc::new(work));
    for _ in 0..threads {
        let (items, work) = (items.clone(), work.clone());
        let next = move || items.lock().expect("no panic while taking").pop_front();
        scope.spawn(move || {
            while let Some(item) = next() {
                work(item);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_begun_goes_on_in_order() {
        for threads in [1, 3] {
            let (done, gate) = (Mutex::new(Vec::new()), Mutex::new(()));
            let held = gate.lock().unwrap();
            std::thread::scope(|scope| {
                begin(scope, threads, (0..10).collect(), |i| {
                    let _open = gate.lock().unwrap();
                    done.lock().unwrap().push(i);
                });
                assert!(done.lock().unwrap().is_empty(), "whoever begins it goes on");
                drop(held);
            });
            let mut done = done.into_inner().unwrap();
            if threads > 1 {
                done.sort();
            }
            assert_eq!(done, (0..10).collect::<Vec<_>>());
        }
    }

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
