//! Windows of two and three axes at the ends of their tensors: every boundary through lowering and simulator, and against plain Rust.

use super::differential::compare;
use super::elements::lowers;
use super::evaluator::{Given, floats, kernel, noise};
use girih::prelude::*;
use girih_core::registry::KernelDef;

/// The neighbours below and to the right of each element, inside of a larger plane.
#[kernel(
    tile(R = [4, 8], C = [16, 32]),
    coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]),
    vector(V = [1, 4]),
    halo(H = [Shared, Direct]),
    copy(P = [Registers, Async])
)]
pub fn valid_plane(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let w = x.window((r, c), [(0, 2), (0, 3)], Boundary::Valid);
        y.store((r, c), w.at((0, 0)) + 2.0 * w.at((2, 1)) + 4.0 * w.at((1, 3)));
    }
}

/// The same in three axes.
#[kernel(
    tile(D = [1, 2], R = [2, 4], C = [8, 16]),
    coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]),
    vector(V = [1, 4]),
    halo(H = [Shared, Direct])
)]
pub fn valid_space(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    for (d, r, c) in y.tiles([D, R, C]) {
        let w = x.window((d, r, c), [(0, 1), (0, 2), (0, 3)], Boundary::Valid);
        y.store((d, r, c), w.at((0, 0, 0)) + 2.0 * w.at((1, 2, 1)) + 4.0 * w.at((0, 1, 3)));
    }
}

/// Neighbours on all sides, of which those outside repeat the nearest element.
#[kernel(
    tile(D = [1, 2], R = [2, 4], C = 16),
    coarsen(CR of R = [1, 2], CC of C = [1, 4]),
    vector(V = [1, 4]),
    halo(H = [Shared, Direct])
)]
pub fn clamped_space(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    for (d, r, c) in y.tiles([D, R, C]) {
        let w = x.window((d, r, c), [(1, 1), (2, 1), (1, 3)], Boundary::Clamp);
        y.store((d, r, c), w.at((-1, 1, 3)) + 2.0 * w.at((1, -2, 0)) + 4.0 * w.at((0, 0, -1)));
    }
}

/// Neighbours on all sides, of which those outside are zero.
#[kernel(
    tile(D = [1, 2], R = [2, 4], C = 16),
    coarsen(CR of R = [1, 2], CC of C = [1, 4]),
    vector(V = [1, 4]),
    halo(H = [Shared, Direct])
)]
pub fn zero_space(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    for (d, r, c) in y.tiles([D, R, C]) {
        let w = x.window((d, r, c), [(1, 1), (2, 1), (1, 3)], Boundary::Zero);
        y.store((d, r, c), w.at((-1, 1, 3)) + 2.0 * w.at((1, -2, 0)) + 4.0 * w.at((0, 0, -1)));
    }
}

#[test]
fn windows_of_many_axes_compute_what_eval_computes() {
    let defs = [valid_plane::Kernel::def(), clamped_space::Kernel::def(), zero_space::Kernel::def()];
    compare(&defs.map(|d| (d.build)().unwrap_or_else(|e| panic!("{e}"))));
    // An input that is longer along each of three axes and all whose lengths are multiples of 16, and a ragged one.
    let unit = |i: usize| ((i * 37 % 101) as f32).to_bits();
    for lens in [[[32, 32, 32], [16, 16, 16]], [[4, 7, 22], [3, 5, 19]]] {
        lowers(valid_space::Kernel::def(), &[&lens[0], &lens[1]], unit);
    }
}

/// A kernel on a box `[d, r, c]` of input against three neighbours, which `outside` finds where they lie beyond an axis of a length.
fn check(def: KernelDef, input: [usize; 3], output: [usize; 3], offsets: [[i64; 3]; 3], outside: fn(i64, i64) -> Option<i64>) {
    let [numel, out] = [input, output].map(|l| l.iter().product::<usize>());
    let x = noise(numel);
    // A plane has no first axis.
    let lens = |l: [usize; 3]| l.iter().skip(usize::from(def.name.ends_with("plane"))).map(|n| *n as i64).collect::<Vec<_>>();
    let given = [Given::F(x.clone(), lens(input)), Given::F(vec![f32::NAN; out], lens(output))];
    let found = floats(&kernel(def, &given)[1]);
    let at = |place: [i64; 3]| {
        let axis = |k: usize| outside(place[k], input[k] as i64);
        let (d, r, c) = (axis(0)?, axis(1)?, axis(2)?);
        Some(x[((d as usize * input[1]) + r as usize) * input[2] + c as usize])
    };
    for (i, found) in found.into_iter().enumerate() {
        let place = [i / output[2] / output[1], i / output[2] % output[1], i % output[2]];
        let near = offsets.map(|o| at(std::array::from_fn(|k| place[k] as i64 + o[k])).unwrap_or(0.0));
        let expected = near[0] + 2.0 * near[1] + 4.0 * near[2];
        assert_eq!(found, expected, "{} of {input:?} at {place:?}", def.name);
    }
}

#[test]
fn boundaries_are_those_of_plain_rust() {
    let around = [[-1, 1, 3], [1, -2, 0], [0, 0, -1]];
    let inside = |i: i64, len: i64| (0..len).contains(&i).then_some(i);
    let nearest = |i: i64, len: i64| Some(i.clamp(0, len - 1));
    for lens in [[1, 1, 1], [3, 5, 19], [2, 2, 33]] {
        check(clamped_space::Kernel::def(), lens, lens, around, nearest);
        check(zero_space::Kernel::def(), lens, lens, around, inside);
        let [d, r, c] = lens;
        check(valid_space::Kernel::def(), [d + 1, r + 2, c + 3], lens, [[0, 0, 0], [1, 2, 1], [0, 1, 3]], inside);
        check(valid_plane::Kernel::def(), [1, r + 2, c + 3], [1, r, c], [[0, 0, 0], [0, 2, 1], [0, 1, 3]], inside);
    }
}
