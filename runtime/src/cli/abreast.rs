//! Pieces of work that several threads take from one list.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Does pieces `0..count` in up to `jobs` threads. Each thread has a state of its own, made when it starts. `told` is called by this
/// thread, with each piece's number and result as it comes; its error ends the work once the pieces in hand are done.
///
/// # Errors
/// That of `told`.
pub fn abreast<State, Done: Send>(
    count: usize,
    jobs: usize,
    start: impl Fn() -> State + Sync,
    piece: impl Fn(&mut State, usize) -> Done + Sync,
    mut told: impl FnMut(usize, Done) -> Result<(), String>,
) -> Result<(), String> {
    let (next, (send, done)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            let (send, next, start, piece) = (send.clone(), &next, &start, &piece);
            scope.spawn(move || {
                let mut state = None;
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count || send.send((at, piece(state.get_or_insert_with(start), at))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let result = done.iter().try_for_each(|(at, result)| told(at, result));
        next.store(count, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_done_once() {
        let (started, mut all) = (AtomicUsize::new(0), Vec::new());
        let start = || started.fetch_add(1, Ordering::Relaxed);
        let told = |at, square| {
            all.push((at, square));
            Ok(())
        };
        abreast(100, 4, start, |_, at| at * at, told).unwrap();
        all.sort_unstable();
        assert_eq!(all, (0..100).map(|at| (at, at * at)).collect::<Vec<_>>());
        assert!((1..=4).contains(&started.into_inner()));
    }

    #[test]
    fn an_error_ends_the_work() {
        let done = AtomicUsize::new(0);
        let piece = |(): &mut (), at| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            done.fetch_add(1, Ordering::Relaxed);
            at
        };
        let told = |at, _| if at == 0 { Err("full".to_string()) } else { Ok(()) };
        assert_eq!(abreast(10_000, 2, || (), piece, told).unwrap_err(), "full");
        assert!(done.into_inner() < 10_000);
        abreast(0, 2, || (), |(), at| at, |_, _| Err("none".into())).unwrap();
    }
}
