//! Blocks that draw their work from a counter until nothing is left.

use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::target::Target;

/// Each block draws tiles of x from a counter, and stores their squares.
#[kernel(tile(B = 1, T = 256), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn drawn_squares(x: &Tensor<i32, 1>, workers: &Tensor<i32, 1>, drawn: &mut Tensor<u32, 1>, y: &mut Tensor<i32, 1>) {
    for _w in workers.tiles([B]) {
        let mut n = drawn.fetch_add_at(0, 1).cast::<i64>();
        while n * 256 < x.len(0) {
            for t in y.axis(0).tiles(T).only(n) {
                let v = x.load(t);
                y.store(t, v * v);
            }
            n = drawn.fetch_add_at(0, 1).cast::<i64>();
        }
    }
}

#[test]
fn blocks_draw_tiles_until_nothing_is_left() {
    let stream = Stream::on(&Device::sim(Target::h200()));
    let workers = stream.zeros([5]).unwrap();
    for n in [0usize, 1, 255, 256, 257, 5000] {
        let values: Vec<i32> = (0..n as i32).collect();
        let x = stream.tensor(&values, [n]).unwrap();
        let (mut drawn, mut y) = (stream.zeros([1]).unwrap(), stream.zeros([n]).unwrap());
        drawn_squares(&stream, &x, &workers, &mut drawn, &mut y).unwrap();
        let expected: Vec<i32> = values.iter().map(|v| v * v).collect();
        assert_eq!(stream.read(&y).unwrap(), expected, "{n}");
        assert_eq!(stream.read(&drawn).unwrap(), [n.div_ceil(256) as u32 + 5], "{n}");
    }
}
