//! Sizes at which a kernel without a challenge is checked: unusual lengths of every axis, on launches of bounded effort.

use crate::subject::bare_kernel::{axis_size, numel};
use crate::subject::challenge::Sizes;
use crate::subject::cost_estimate::{effort, tile_sizes};
use crate::subject::inputs::Rng;
use crate::subject::requirements::{Axis, broken, host_args, meet_requirements, set};
use girih_core::tile::access::dim_classes;
use girih_core::tile::{Kernel, ParamKind};
use girih_core::types::DType;

/// Elements that a launch may make (see [`effort`]): more take too long to evaluate and to simulate.
const MOST_EFFORT: i64 = 1 << 20;
/// Elements of one tensor, likewise.
const MOST_ELEMENTS: i64 = 1 << 16;

/// Sizes for a check, and what could not be checked.
pub(crate) struct Drawn {
    /// Sizes that meet the kernel's requirements.
    pub sizes: Vec<Sizes>,
    /// Unusual lengths of an axis (none, one, a prime, ..) that the kernel's requirements exclude, or that are too much work.
    pub left_out: usize,
    /// Why the last sizes that were left out were, where a requirement is the reason.
    pub reason: Option<String>,
}

/// Sizes that meet the kernel's requirements. Each axis (or class of axes that must be alike) is in turn empty, of one element, even, a
/// prime, and one element shorter and longer than a tile, among axes of a few elements; then some mixtures. Of lengths that are too much
/// work for one launch a smaller one of the same kind is taken. Scalars are drawn, too: views may be bounded by them.
pub(crate) fn random_sizes(kernel: &Kernel, seed: u64) -> Drawn {
    let mut rng = Rng::new(seed);
    let mut found: Vec<Sizes> = Vec::new();
    let (mut left_out, mut reason) = (0, None);
    let mut classes: Vec<Vec<Axis>> = Vec::new();
    let alike = dim_classes(kernel);
    for axis in axes(kernel) {
        let same = |a: &Axis| alike.contains_key(a) && alike.get(a) == alike.get(&axis);
        match classes.iter_mut().find(|c| same(&c[0])) {
            Some(class) => class.push(axis),
            None => classes.push(vec![axis]),
        }
    }
    for class in &classes {
        for kind in kinds(kernel) {
            let tries = kind.iter().flat_map(|len| (0..12).map(move |attempt| (*len, attempt)));
            let mut why = None;
            let sizes = tries.into_iter().find_map(|(len, attempt)| {
                around(kernel, class, len, attempt, &mut rng).map_err(|broken| why = broken.or(why.take())).ok()
            });
            match sizes {
                Some(sizes) if !found.contains(&sizes) => found.push(sizes),
                Some(_) => {}
                None => (left_out, reason) = (left_out + 1, why.or(reason)),
            }
        }
    }
    let all: Vec<i64> = kinds(kernel).into_iter().flatten().collect();
    let before = found.len();
    for attempt in 0..100 {
        let mut sizes = scalars(kernel, &mut rng);
        let shared: Vec<i64> = (0..8).map(|_| all[rng.below(all.len())]).collect();
        for (p, k) in axes(kernel) {
            // Mostly tensors of one shape, sometimes all different.
            let len = if attempt % 3 < 2 { shared[k] } else { all[rng.below(all.len())] };
            set(kernel, &mut sizes, (p, k), len);
        }
        meet_requirements(kernel, &mut sizes, &[]);
        if possible(kernel, &sizes).is_ok() && !found.contains(&sizes) {
            found.push(sizes);
        }
        if found.len() == before + 4 {
            break;
        }
    }
    Drawn { sizes: found, left_out, reason }
}

/// Small values for the scalar parameters: loops count by integers, and views begin there; of floats any power stays finite.
fn scalars(kernel: &Kernel, rng: &mut Rng) -> Sizes {
    let mut value = |d: DType| match d {
        DType::Bool => rng.below(2) as f64,
        d if d.is_float() => (1 + rng.below(3)) as f64 / 4.0,
        _ => (1 + rng.below(3)) as f64,
    };
    let drawn = |p: &girih_core::tile::Param| match p.kind {
        ParamKind::Scalar(d) => Some((p.name.clone(), value(d))),
        ParamKind::Tensor { .. } => None,
    };
    Sizes(kernel.params.iter().filter_map(drawn).collect())
}

/// Kinds of lengths, each with the lengths that show it, best first.
fn kinds(kernel: &Kernel) -> Vec<Vec<i64>> {
    let mut tiles: Vec<i64> = tile_sizes(kernel).into_iter().filter(|t| *t > 1).collect();
    if tiles.is_empty() {
        tiles = vec![32, 256];
    }
    // A few tiles, so that blocks after the first one and the last one occur.
    let several: Vec<i64> = tiles.iter().rev().map(|t| 2 * t + t / 2 + 1).chain([7, 3]).collect();
    let near = |by: i64| tiles.iter().rev().map(|t| t + by).collect::<Vec<i64>>();
    vec![vec![0], vec![1], vec![2], vec![1031, 257, 97, 31, 7], near(-1), near(0), near(1), several]
}

/// Sizes with `len` along the axes of a class, a few elements along the others; else the requirement that they would break, if that is why.
fn around(kernel: &Kernel, class: &[Axis], len: i64, attempt: usize, rng: &mut Rng) -> Result<Sizes, Option<String>> {
    const FEW: [i64; 6] = [1, 3, 5, 8, 19, 33];
    let mut sizes = scalars(kernel, rng);
    let shared: Vec<i64> = (0..8).map(|_| FEW[rng.below(FEW.len())]).collect();
    for (p, k) in axes(kernel) {
        let few = match attempt % 3 {
            0 | 1 => shared[k],
            _ => FEW[rng.below(FEW.len())],
        };
        set(kernel, &mut sizes, (p, k), few);
    }
    class.iter().for_each(|axis| set(kernel, &mut sizes, *axis, len));
    let asked = sizes.clone();
    meet_requirements(kernel, &mut sizes, class);
    if class.iter().any(|(p, k)| axis_size(&sizes, &kernel.params[*p].name, *k) != Some(len)) {
        return Err(broken(kernel, &asked));
    }
    possible(kernel, &sizes).map(|()| sizes)
}

/// The axes of all tensors.
fn axes(kernel: &Kernel) -> Vec<Axis> {
    let rank = |kind| if let ParamKind::Tensor { rank, .. } = kind { rank } else { 0 };
    kernel.params.iter().enumerate().flat_map(|(p, param)| (0..rank(param.kind)).map(move |k| (p, k))).collect()
}

/// Little enough work, and what the kernel asks for; else the requirement that is broken, if that is why not.
fn possible(kernel: &Kernel, sizes: &Sizes) -> Result<(), Option<String>> {
    let small = kernel.params.iter().all(|p| numel(p, sizes) <= MOST_ELEMENTS);
    if !small || effort(kernel, &host_args(kernel, sizes)) > MOST_EFFORT {
        return Err(None);
    }
    broken(kernel, sizes).map_or(Ok(()), |why| Err(Some(why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih::prelude::*;

    /// Rows of few and of many elements, scaled by a vector.
    #[kernel(tile(R = [1, 8, 64], C = [32, 1024]))]
    pub fn scaled_rows(x: &Tensor<f32, 2>, by: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>) {
        for (r, c) in y.tiles([R, C]) {
            y.store((r, c), x.load((r, c)) * by.load(r).expand(1, C));
        }
    }

    /// Products of all pairs, which is a lot of work.
    #[kernel(tile(R = [32, 64], C = [32, 64]))]
    pub fn products(x: &Tensor<f32, 2>, y: &Tensor<f32, 2>, z: &mut Tensor<f32, 2>) {
        for (r, c) in z.tiles([R, C]) {
            let mut acc = zeros::<f32>([R, C]);
            for k in x.axis(1).tiles(1) {
                acc += x.load((r, k.number())).expand(1, C) * y.load((c, k.number())).expand(0, R);
            }
            z.store((r, c), acc);
        }
    }

    fn built(def: girih_core::registry::KernelDef) -> Kernel {
        (def.build)().expect("a kernel of these tests")
    }

    /// The lengths that an axis has over all sizes.
    fn lengths(sizes: &[Sizes], axis: &str) -> Vec<i64> {
        sizes.iter().map(|s| s.0[axis] as i64).collect()
    }

    #[test]
    fn every_axis_has_unusual_lengths() {
        let kernel = built(scaled_rows::Kernel::def());
        for seed in 0..4 {
            let sizes = random_sizes(&kernel, seed).sizes;
            for axis in ["x.0", "x.1"] {
                let found = lengths(&sizes, axis);
                let tiles = if axis == "x.0" { [8, 64] } else { [32, 1024] };
                let near = |by: i64| tiles.map(|t| t + by).to_vec();
                for kind in [vec![0], vec![1], vec![2], vec![1031, 257, 97, 31, 7], near(-1), near(1)] {
                    assert!(kind.iter().any(|len| found.contains(len)), "{axis} is none of {kind:?}, but {found:?}");
                }
            }
            assert!(sizes.iter().all(|s| s.0["by.0"] == s.0["x.0"] && s.0["y.1"] == s.0["x.1"]));
        }
    }

    #[test]
    fn launches_are_of_bounded_effort() {
        for kernel in [built(scaled_rows::Kernel::def()), built(products::Kernel::def())] {
            let sizes = random_sizes(&kernel, 1).sizes;
            assert!(sizes.len() >= 16, "{} has {} sizes", kernel.name, sizes.len());
            for s in &sizes {
                let effort = effort(&kernel, &host_args(&kernel, s));
                assert!(effort <= MOST_EFFORT, "{} elements for {} at {s}", effort, kernel.name);
            }
        }
        let kernel = built(products::Kernel::def());
        let at = |len: f64| {
            let all = ["x.0", "x.1", "y.0", "y.1", "z.0", "z.1"];
            effort(&kernel, &host_args(&kernel, &Sizes(all.map(|a| (a.to_string(), len)).into())))
        };
        // As many tiles along each axis of the result, and turns inside.
        assert!(at(128.0) > 7 * at(64.0), "{} and {}", at(128.0), at(64.0));
        assert!(at(1031.0) > MOST_EFFORT);
    }
}
