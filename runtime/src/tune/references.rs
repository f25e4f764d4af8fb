//! What references and evaluator say of a worker's calls, asked for on threads of their own: both may take longer than a whole search, and the
//! first trial does not wait for them. What comes late is heard before the next trial.

use crate::check::evaluate;
use crate::subject::challenge::Reference;
use crate::subject::inputs::{Elements, HostTensor};
use crate::subject::{Call, Subject};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Elements of each output at the tuned size that are compared with the reference: few at first, so that something is known soon.
const SAMPLED: [usize; 3] = [16, 512, 20_000];

/// A small call that the evaluator has made.
pub(super) struct Evaluated {
    pub call: Call,
    /// Elements that its tensors lie off alignment.
    pub misalign: usize,
    pub expected: Vec<Option<HostTensor>>,
}

/// What is said of the calls.
enum Word {
    /// Of a small one: what it leaves.
    Small(Evaluated),
    /// Of the tuned one: so many elements of each output are right.
    Right(usize),
    Wrong(String),
}

/// What is asked for and has not come yet.
pub(super) struct References {
    words: Receiver<Word>,
    /// Where there is something else to ask for: nobody knows else whether everything was said.
    sender: Option<Sender<Word>>,
    small_left: usize,
    /// Elements of each output at the tuned size that were found right.
    right: usize,
}

impl References {
    /// Asks for the small calls, the smallest first.
    pub fn ask(subject: &Subject, mut small: Vec<(Call, usize)>) -> References {
        let (send, words) = channel();
        small.sort_by_key(|(call, _)| subject.compulsory_bytes(call).total() as u64);
        let small_left = small.len();
        let (own, sender) = (subject.clone(), send.clone());
        std::thread::spawn(move || evaluated(&own, small, &sender));
        References { words, sender: Some(send), small_left, right: 0 }
    }

    /// Asks for a comparison of what the naive schedule left of the tuned call. Nothing is asked for behind it.
    pub fn compare(&mut self, subject: &Subject, (tuned, left): (&Arc<Call>, &Arc<Vec<Option<Elements>>>)) {
        let Some(send) = self.sender.take() else { return };
        let (own, tuned, left) = (subject.clone(), tuned.clone(), left.clone());
        std::thread::spawn(move || compared(&own, &tuned, &left, &send));
    }

    /// The next small call that is evaluated; `None` where everything was said, or nothing comes in so much time.
    ///
    /// # Errors
    /// The naive schedule or the evaluator differs from the reference.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Evaluated>, String> {
        let end = std::time::Instant::now() + patience;
        loop {
            // Nobody is left to say anything, or it takes too long.
            let Ok(word) = self.words.recv_timeout(end.saturating_duration_since(std::time::Instant::now())) else { return Ok(None) };
            match word {
                Word::Right(samples) => self.right = samples,
                Word::Wrong(why) => return Err(why),
                Word::Small(call) => {
                    self.small_left -= 1;
                    return Ok(Some(call));
                }
            }
        }
    }

    /// What is not known yet, in words.
    pub fn note(&self, name: &str) -> Option<String> {
        let mut late = Vec::new();
        if self.small_left > 0 {
            late.push(format!("the evaluator is at work on {} small sizes", self.small_left));
        }
        match self.right {
            0 => late.push("the reference is at work on the tuned size, where trials are compared with the naive schedule".into()),
            n if n < SAMPLED[2] => late.push(format!("about {n} elements of each output were compared with the reference so far")),
            _ => {}
        }
        (!late.is_empty()).then(|| format!("{name}: trials begin while {}", late.join("; ")))
    }
}

fn evaluated(subject: &Subject, calls: Vec<(Call, usize)>, words: &Sender<Word>) {
    for (call, misalign) in calls {
        let checked = evaluate(subject, &call).and_then(|expected| {
            let right = subject.verify(&call, &expected, None);
            right.map(|()| expected).map_err(|e| format!("the evaluator differs from the reference: {e}"))
        });
        let word = match checked {
            Ok(expected) => Word::Small(Evaluated { call, misalign, expected }),
            Err(why) => Word::Wrong(why),
        };
        if words.send(word).is_err() {
            return;
        }
    }
}

fn compared(subject: &Subject, call: &Call, left: &[Option<Elements>], words: &Sender<Word>) {
    let outputs = subject.challenge.as_ref().map_or(&[][..], |c| &c.outputs);
    // A reference of all elements at once costs the same for a few.
    let at_once = outputs.iter().any(|(_, r)| matches!(r, Reference::All(_)));
    for samples in SAMPLED.into_iter().skip(if at_once { 2 } else { 0 }) {
        let right = subject.verify(call, left, Some(samples));
        let word = right.map_or_else(|e| Word::Wrong(format!("the naive schedule is wrong: {e}")), |()| Word::Right(samples));
        if words.send(word).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::challenge::{Challenge, Sizes};
    use crate::subject::inputs::uniform;
    use girih::prelude::*;
    use std::time::Instant;

    /// The same.
    #[kernel(tile(T = 32))]
    pub fn same(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([T]) {
            y.store(t, x.load(t));
        }
    }

    #[program]
    pub fn copies(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        same(x, y);
    }

    fn subject(reference: fn(&crate::subject::challenge::Case, usize) -> f64) -> Subject {
        let challenge = Challenge::new("copies", copies::Program::def, "void solve(const float* X[N], float* Y[N], int N)")
            .input("X", uniform(0.0, 1.0))
            .output("Y", reference)
            .check_at(["N=7"])
            .perf_at("N=100000");
        Subject::of_challenge(&challenge).expect("it is right")
    }

    fn asked(subject: &Subject) -> References {
        let call = |n: &str| subject.call(&Sizes::parse(n).unwrap(), 1).unwrap();
        let (small, tuned) = (call("N=7"), call("N=100000"));
        let CallArg::Tensor { data, .. } = &tuned.args[0] else { panic!("a tensor") };
        let left = vec![None, Some(data.clone())];
        let mut references = References::ask(subject, vec![(small, 0)]);
        references.compare(subject, (&Arc::new(tuned), &Arc::new(left)));
        references
    }

    use crate::subject::CallArg;

    #[test]
    fn slow_references_keep_nobody_waiting() {
        let slow = subject(|x, i| {
            std::thread::sleep(Duration::from_millis(50));
            x.at("X", i)
        });
        let start = Instant::now();
        let mut references = asked(&slow);
        while references.next(Duration::from_millis(100)).unwrap().is_some() {}
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        let note = references.note("copies").expect("there was no time for 20000 elements");
        assert!(note.starts_with("copies: trials begin while "), "{note}");
    }

    #[test]
    fn what_is_wrong_is_heard() {
        let right = subject(|x, i| x.at("X", i));
        let mut references = asked(&right);
        let small = references.next(Duration::from_secs(30)).unwrap().expect("it is evaluated");
        assert_eq!((small.misalign, small.expected.len()), (0, 2));
        assert!(references.next(Duration::from_secs(30)).unwrap().is_none(), "everything was said");
        assert_eq!(references.note("copies"), None);
        let wrong = subject(|x, i| x.at("X", i) + 1.0);
        let mut references = asked(&wrong);
        let why = std::iter::from_fn(|| Some(references.next(Duration::from_secs(30)))).find_map(Result::err).unwrap();
        assert!(why.contains("differs from the reference") || why.starts_with("the naive schedule is wrong"), "{why}");
    }
}
