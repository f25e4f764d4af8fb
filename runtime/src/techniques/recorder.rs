//! Timelines by events: two around each piece of work, and one in front of all.

use super::{Span, Timeline};
use crate::error::Error;
use crate::launch::event::Event;
use crate::launch::stream::Stream;

/// Records what is queued.
pub struct Recorder {
    origin: Event,
    marks: Vec<(String, String, Event, Event)>,
}

impl Recorder {
    /// Begins now, when nothing is at work on the stream.
    ///
    /// # Errors
    /// What was queued before has failed.
    pub fn begin(stream: &Stream) -> Result<Recorder, Error> {
        stream.synchronize()?;
        Ok(Recorder { origin: stream.record()?, marks: Vec::new() })
    }

    /// The beginning: other streams wait for it.
    pub fn origin(&self) -> &Event {
        &self.origin
    }

    /// Queues a piece of work on a stream.
    ///
    /// # Errors
    /// Those of the work.
    pub fn span(&mut self, stream: &Stream, (lane, name): (&str, &str), work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let start = stream.record()?;
        work()?;
        self.marks.push((lane.to_string(), name.to_string(), start, stream.record()?));
        Ok(())
    }

    /// Waits for all of it, and gives its times.
    ///
    /// # Errors
    /// Some of it has failed.
    pub fn end(self, title: &str) -> Result<Timeline, Error> {
        let origin = self.origin;
        let span = |(lane, name, start, end): (String, String, Event, Event)| {
            Ok::<Span, Error>(Span { lane, name, us: (start.us_since(&origin)?, end.us_since(&origin)?) })
        };
        let spans: Vec<Span> = self.marks.into_iter().map(span).collect::<Result<_, _>>()?;
        let first = spans.iter().map(|s| s.us.0).fold(f64::INFINITY, f64::min);
        let last = spans.iter().map(|s| s.us.1).fold(0.0, f64::max);
        Ok(Timeline { title: title.to_string(), us: (last - first).max(0.0), spans })
    }
}

/// The timeline of the least time among so many runs of a way, the first of which warms up.
///
/// # Errors
/// Those of the runs.
pub fn best_of(runs: usize, mut run: impl FnMut() -> Result<Timeline, Error>) -> Result<Timeline, Error> {
    let mut best = run()?;
    for again in 0..runs {
        let next = run()?;
        if again == 0 || next.us < best.us {
            best = next;
        }
    }
    Ok(best)
}
