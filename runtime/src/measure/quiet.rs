//! A GPU on which several threads prepare, and one at a time measures while the others wait.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Who uses the GPU: any number that prepare, or one that measures. Whoever waits to measure goes before those that come to prepare.
#[derive(Default, Debug)]
pub struct Quiet(RwLock<()>);

impl Quiet {
    /// The right to use the GPU beside others, until it is dropped.
    pub fn beside_others(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to use the GPU alone, until it is dropped. The thread must hold no other.
    pub fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn nothing_is_prepared_while_one_measures() {
        let (quiet, preparing, measuring) = (Quiet::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            for _ in 0..20 {
                {
                    let _right = quiet.beside_others();
                    preparing.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_micros(200));
                    assert_eq!(measuring.load(Ordering::SeqCst), 0);
                    preparing.fetch_sub(1, Ordering::SeqCst);
                }
                let _right = quiet.alone();
                assert_eq!(measuring.fetch_add(1, Ordering::SeqCst), 0);
                std::thread::sleep(Duration::from_micros(50));
                assert_eq!(preparing.load(Ordering::SeqCst), 0);
                measuring.fetch_sub(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    }
}
