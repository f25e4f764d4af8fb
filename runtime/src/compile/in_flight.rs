//! Texts that are being compiled: who asks for one that another thread of this process compiles waits for it, as others wait for other processes
//! (`cache::making`).

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, MutexGuard};

/// What is being made, by keys.
pub(super) struct InFlight<K> {
    keys: Mutex<Option<HashSet<K>>>,
    done: Condvar,
}

/// One that this thread makes, until it goes out of scope.
pub(super) struct Making<'a, K: Eq + Hash + Copy> {
    all: &'a InFlight<K>,
    key: K,
}

impl<K: Eq + Hash + Copy> InFlight<K> {
    /// Nothing is.
    pub const fn new() -> InFlight<K> {
        InFlight { keys: Mutex::new(None), done: Condvar::new() }
    }

    /// What `find` finds, or else what `make` makes. At any time one thread makes what a key stands for; others wait, and look for it then.
    pub fn found_or_made<T, E>(&self, key: K, find: impl Fn() -> Option<T>, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(found) = find() {
            return Ok(found);
        }
        let _making = self.begin(key);
        // Whoever was waited for has left it, unless that failed.
        find().map_or_else(make, Ok)
    }

    fn begin(&self, key: K) -> Making<'_, K> {
        let mut keys = self.lock();
        while !keys.get_or_insert_default().insert(key) {
            keys = self.done.wait(keys).unwrap_or_else(|e| e.into_inner());
        }
        Making { all: self, key }
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashSet<K>>> {
        self.keys.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<K: Eq + Hash + Copy> Drop for Making<'_, K> {
    fn drop(&mut self) {
        self.all.lock().get_or_insert_default().remove(&self.key);
        self.all.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_being_made_is_made_once() {
        let (all, made, there) = (InFlight::new(), AtomicUsize::new(0), Mutex::new(None));
        let ask = || {
            let make = || {
                made.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
                *there.lock().unwrap() = Some(7);
                Ok::<i32, ()>(7)
            };
            all.found_or_made(1u64, || *there.lock().unwrap(), make)
        };
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            asked.into_iter().for_each(|a| assert_eq!(a.join().unwrap(), Ok(7)));
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn others_do_not_wait_and_failures_are_tried_again() {
        let all = InFlight::new();
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| {
                all.found_or_made(
                    1u64,
                    || None::<i32>,
                    || {
                        std::thread::sleep(Duration::from_millis(300));
                        Err("first")
                    },
                )
            });
            std::thread::sleep(Duration::from_millis(50));
            let start = Instant::now();
            assert_eq!(all.found_or_made(2, || None, || Ok::<i32, &str>(2)), Ok(2));
            assert!(start.elapsed() < Duration::from_millis(150), "another key: {:?}", start.elapsed());
            assert_eq!(all.found_or_made(1, || None, || Ok::<i32, &str>(1)), Ok(1));
            assert!(start.elapsed() > Duration::from_millis(150), "the same key: {:?}", start.elapsed());
            assert_eq!(slow.join().unwrap(), Err("first"));
        });
    }
}
