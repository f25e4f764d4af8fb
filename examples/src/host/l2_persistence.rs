//! A part of the L2 cache set aside: a table that kernels look up again and again, while streams of other data pass through the cache.

use super::{compare, numbers};
use girih::prelude::*;
use girih::techniques::Timeline;
use girih::techniques::recorder::{Recorder, best_of};
use girih::{DeviceTensor, Error, Stream};

/// Calls that are timed.
const CALLS: usize = 8;
/// Elements of the tables for each of the streams: 16 MiB beside 64 MiB of positions.
const SHARE: usize = 4;

/// `y[i] = table[position[i]]`, 0 where the table is shorter.
#[kernel(tile(T = [1024, 256]), coarsen(C of T = [4, 1]), vector(V = [4, 1]))]
pub fn looked_up(table: &Tensor<f32, 1>, position: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, table.gather(position.load(t)).or(0.0));
    }
}

/// Both ways.
///
/// # Errors
/// A way that is wrong, or anything that fails.
pub fn ways(stream: &Stream, elements: usize) -> Result<Vec<Timeline>, Error> {
    let entries = (elements / SHARE).max(1);
    let table = numbers(entries);
    // Positions without an order: the next one is far away.
    let positions: Vec<i32> = (0..elements as u64).map(|i| ((i * 0x9E37_79B1) % entries as u64) as i32).collect();
    let (on_device, position) = (stream.tensor(&table, [entries])?, stream.tensor(&positions, [elements])?);
    let mut y: DeviceTensor<f32, 1> = stream.zeros([elements])?;
    let mut calls = |title: &str| -> Result<Timeline, Error> {
        let mut recorder = Recorder::begin(stream)?;
        for number in 0..CALLS {
            recorder.span(stream, ("kernels", &format!("call {number}")), || looked_up(stream, &on_device, &position, &mut y))?;
        }
        compare(title, &stream.read(&y)?, |i| table[positions[i] as usize])?;
        recorder.end(title)
    };
    let shared = best_of(3, || calls("the cache is everybody's"))?;
    let aside = stream.keep_in_l2(&on_device)?;
    let kept = best_of(3, || calls(&format!("{aside} bytes of the cache are the table's")));
    stream.let_go_of_l2()?;
    Ok(vec![shared, kept?])
}

girih::technique! {
    Technique::new("l2_persistence", "A part of the L2 cache for a table that is looked up again and again", ways)
}
