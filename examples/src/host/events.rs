//! Events: two streams that work on rounds of two kernels, the second of which needs what the first has left.
//!
//! A host that waits for one stream before it queues on the other leaves the device idle on each round's way. An event is a point of a stream's work:
//! another stream waits for it, and the host goes on queueing; then a round's second kernel runs beside the next round's first.

use super::{after_steps, compare, numbers, steps_of_each};
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Event, Stream};

/// Elements for each step of each of them: of many elements a kernel takes some tens of microseconds.
const EACH: i64 = 8;
/// Rounds, each of two kernels.
const ROUNDS: usize = 8;
/// Rounds whose results between the kernels are there at a time.
const BETWEEN: usize = 2;
/// Elements at most: few enough that two kernels run beside each other.
const MOST: usize = 1 << 16;

/// The three ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let data = numbers(elements.min(MOST));
    let second = stream.beside()?;
    let one = best_of(3, || rounds([stream, stream], Order::OneStream, &data))?;
    let host = best_of(3, || rounds([stream, &second], Order::Host, &data))?;
    let events = best_of(3, || rounds([stream, &second], Order::Events, &data))?;
    Ok(vec![one, host, events])
}

/// What has a round's second kernel begin behind its first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    OneStream,
    Host,
    Events,
}

impl Order {
    fn title(self) -> &'static str {
        match self {
            Order::OneStream => "one stream",
            Order::Host => "two streams, the host waits for one and then for the other",
            Order::Events => "two streams that wait for each other's events",
        }
    }

    /// Work that is queued on `to` from here on begins behind what is queued on `from`.
    fn behind(self, from: &Stream, to: &Stream) -> Result<(), Error> {
        match self {
            Order::OneStream => Ok(()),
            Order::Host => from.synchronize(),
            Order::Events => to.wait(&from.record()?),
        }
    }
}

fn rounds([first, second]: [&Stream; 2], order: Order, data: &[f32]) -> Result<Timeline, Error> {
    let (x, steps) = (first.tensor(data, [data.len()])?, data.len() as i64 / EACH);
    let zeros = |_| -> Result<DeviceTensor<f32, 1>, Error> { first.zeros([data.len()]) };
    let mut between = (0..BETWEEN).map(zeros).collect::<Result<Vec<_>, _>>()?;
    let mut results = (0..ROUNDS).map(zeros).collect::<Result<Vec<_>, _>>()?;
    // Whoever comes first waits for the compiler.
    steps_of_each(first, &x, 1, &mut results[0])?;
    first.synchronize()?;
    let mut recorder = Recorder::begin(first)?;
    second.wait(recorder.origin())?;
    let mut read: Vec<Event> = Vec::new();
    for (round, result) in results.iter_mut().enumerate() {
        let (name, own) = (format!("round {round}"), &mut between[round % BETWEEN]);
        // Its memory is free again once an earlier round's second kernel has read it.
        if order == Order::Events && round >= BETWEEN {
            first.wait(&read[round - BETWEEN])?;
        }
        recorder.span(first, ("first kernels", &name), || steps_of_each(first, &x, steps, own))?;
        order.behind(first, second)?;
        recorder.span(second, ("second kernels", &name), || steps_of_each(second, own, steps, result))?;
        match order {
            Order::Events => read.push(second.record()?),
            _ => order.behind(second, first)?,
        }
    }
    first.wait(&second.record()?)?;
    for result in &results {
        compare(order.title(), &first.read(result)?, |i| after_steps(data[i], 2 * steps))?;
    }
    recorder.end(order.title())
}

girih::technique! {
    Technique::new("events", "Kernels that need each other's results, on streams that wait for events", ways)
}
