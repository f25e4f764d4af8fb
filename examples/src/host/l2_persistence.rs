//! A part of the L2 cache set aside: a table that kernels read again and again, while streams of other data pass through the cache.

use super::{compare, numbers};
use girih::prelude::*;
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Stream};

/// Calls that are timed.
const CALLS: usize = 8;
/// Rounds of the table in a call. In each of them as much of each of two streams passes: of a table of 16 MiB, 48 MiB in all, more than the cache
/// keeps.
const ROUNDS: usize = 4;

/// `y[i] = x[i] + table[i]`, the table over and over again; its length is a power of two, and nothing is stored where it is 0.
#[kernel(tile(T = [1024, 256]), coarsen(C of T = [4, 1]), vector(V = [4, 1]))]
pub fn added_in_rounds(table: &Tensor<f32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let last = table.len(0) - 1;
    for t in y.tiles([T]) {
        if table.len(0) > 0 {
            y.store(t, x.load(t) + table.gather_in_bounds(t.coords() & last));
        }
    }
}

/// Both ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let entries = 1 << (elements / ROUNDS).max(1).ilog2();
    let (table, data) = (numbers(entries), numbers(elements));
    let (on_device, x) = (stream.tensor(&table, [entries])?, stream.tensor(&data, [elements])?);
    let mut y: DeviceTensor<f32, 1> = stream.zeros([elements])?;
    let mut calls = |title: &str| -> Result<Timeline, Error> {
        let mut recorder = Recorder::begin(stream)?;
        for number in 0..CALLS {
            recorder.span(stream, ("kernels", &format!("call {number}")), || added_in_rounds(stream, &on_device, &x, &mut y))?;
        }
        compare(title, &stream.read(&y)?, |i| data[i] + table[i % entries])?;
        recorder.end(title)
    };
    let shared = best_of(3, || calls("the cache is everybody's"))?;
    let aside = stream.keep_in_l2(&on_device)?;
    let kept = best_of(3, || calls(&format!("{aside} bytes of the cache are the table's")));
    stream.let_go_of_l2()?;
    Ok(vec![shared, kept?])
}

girih::technique! {
    Technique::new("l2_persistence", "A part of the L2 cache for a table that is read again and again", ways)
}
