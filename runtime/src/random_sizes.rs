//! Sizes at which a kernel without a challenge is checked: unusual lengths of every axis, on launches of bounded effort.

use crate::bare_kernel::{axis_size, numel};
use crate::challenge::Sizes;
use crate::effort::{effort, tile_sizes};
use crate::inputs::Rng;
use girih_core::facts::TensorArg;
use girih_core::tile::access::{dim_classes, shape_requirements};
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::tile::{Kernel, ParamKind, Requirement, RequirementKind};
use girih_core::types::Literal;

/// Elements that a launch may make (see [`effort`]): more take too long to evaluate and to simulate.
const MOST_EFFORT: i64 = 1 << 20;
/// Elements of one tensor, likewise.
const MOST_ELEMENTS: i64 = 1 << 16;

/// An axis of a tensor parameter.
type Axis = (usize, usize);

/// Sizes that meet the kernel's requirements. Each axis (or class of axes that must be alike) is in turn empty, of one element, even, a
/// prime, and one element shorter and longer than a tile, among axes of a few elements; then some mixtures. Of lengths that are too much
/// work for one launch a smaller one of the same kind is taken.
pub(crate) fn random_sizes(kernel: &Kernel, seed: u64) -> Vec<Sizes> {
    let mut rng = Rng::new(seed);
    let mut found: Vec<Sizes> = Vec::new();
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
            let sizes = kind.iter().find_map(|len| (0..12).find_map(|attempt| around(kernel, class, *len, attempt, &mut rng)));
            found.extend(sizes.filter(|s| !found.contains(s)));
        }
    }
    let all: Vec<i64> = kinds(kernel).into_iter().flatten().collect();
    let before = found.len();
    for attempt in 0..100 {
        let mut sizes = Sizes::default();
        let shared: Vec<i64> = (0..8).map(|_| all[rng.below(all.len())]).collect();
        for (p, k) in axes(kernel) {
            // Mostly tensors of one shape, sometimes all different.
            let len = if attempt % 3 < 2 { shared[k] } else { all[rng.below(all.len())] };
            set(kernel, &mut sizes, (p, k), len);
        }
        meet_requirements(kernel, &mut sizes, &[]);
        if possible(kernel, &sizes) && !found.contains(&sizes) {
            found.push(sizes);
        }
        if found.len() == before + 4 {
            break;
        }
    }
    found
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

/// Sizes with `len` along the axes of a class, a few elements along the others.
fn around(kernel: &Kernel, class: &[Axis], len: i64, attempt: usize, rng: &mut Rng) -> Option<Sizes> {
    const FEW: [i64; 6] = [1, 3, 5, 8, 19, 33];
    let mut sizes = Sizes::default();
    let shared: Vec<i64> = (0..8).map(|_| FEW[rng.below(FEW.len())]).collect();
    for (p, k) in axes(kernel) {
        let few = match attempt % 3 {
            0 | 1 => shared[k],
            _ => FEW[rng.below(FEW.len())],
        };
        set(kernel, &mut sizes, (p, k), few);
    }
    class.iter().for_each(|axis| set(kernel, &mut sizes, *axis, len));
    meet_requirements(kernel, &mut sizes, class);
    let kept = class.iter().all(|(p, k)| axis_size(&sizes, &kernel.params[*p].name, *k) == Some(len));
    (kept && possible(kernel, &sizes)).then_some(sizes)
}

/// The axes of all tensors.
fn axes(kernel: &Kernel) -> Vec<Axis> {
    let rank = |kind| if let ParamKind::Tensor { rank, .. } = kind { rank } else { 0 };
    kernel.params.iter().enumerate().flat_map(|(p, param)| (0..rank(param.kind)).map(move |k| (p, k))).collect()
}

fn set(kernel: &Kernel, sizes: &mut Sizes, (p, k): Axis, len: i64) {
    sizes.0.insert(format!("{}.{k}", kernel.params[p].name), len as f64);
}

/// Little enough work, and what the kernel asks for.
fn possible(kernel: &Kernel, sizes: &Sizes) -> bool {
    let small = kernel.params.iter().all(|p| numel(p, sizes) <= MOST_ELEMENTS);
    small && effort(kernel, &host_args(kernel, sizes)) <= MOST_EFFORT && requirements_hold(kernel, sizes)
}

fn host_args(kernel: &Kernel, sizes: &Sizes) -> Vec<HostArg> {
    let arg = |p: &girih_core::tile::Param| match p.kind {
        ParamKind::Tensor { rank, .. } => {
            let lens: Vec<i64> = (0..rank).map(|k| axis_size(sizes, &p.name, k).unwrap_or(0)).collect();
            HostArg::Tensor(TensorArg::packed(0, &lens))
        }
        ParamKind::Scalar(d) => HostArg::Scalar(Literal::from_i64(d, 2)),
    };
    kernel.params.iter().map(arg).collect()
}

/// What a launch must satisfy: what the author asked for, and that tensors which are walked together have one shape.
fn requirements(kernel: &Kernel) -> Vec<Requirement> {
    kernel.requirements.iter().cloned().chain(shape_requirements(kernel)).collect()
}

/// Changes lengths so that requirements hold, those of the axes `kept` last; three times, for requirements that build on each other. One
/// length at a time, as equalities are linear in it: `x.len(0) - y.len(0) == y.len(0)` is met by another `x.len(0)`.
fn meet_requirements(kernel: &Kernel, sizes: &mut Sizes, kept: &[Axis]) {
    for _ in 0..3 {
        for r in requirements(kernel) {
            let (RequirementKind::Equal(a, b) | RequirementKind::AtMost(a, b)) = r.kind else { continue };
            let (Some(a), Some(b)) = (HostExpr::of_value(kernel, a), HostExpr::of_value(kernel, b)) else { continue };
            let difference = |sizes: &Sizes| {
                let args = host_args(kernel, sizes);
                a.eval(&args, 1) - b.eval(&args, 1)
            };
            let holds = |d: i64| if matches!(r.kind, RequirementKind::Equal(..)) { d == 0 } else { d <= 0 };
            if holds(difference(sizes)) {
                continue;
            }
            let mut dims = Vec::new();
            mentioned(&a, &mut dims);
            mentioned(&b, &mut dims);
            dims.sort_by_key(|d| kept.contains(d));
            for axis in dims {
                let with = |len: i64| {
                    let mut changed = sizes.clone();
                    set(kernel, &mut changed, axis, len);
                    changed
                };
                let (at_zero, at_one) = (difference(&with(0)), difference(&with(1)));
                let len = (-at_zero).checked_div(at_one - at_zero).unwrap_or(-1);
                if len >= 0 && holds(difference(&with(len))) {
                    *sizes = with(len);
                    break;
                }
            }
        }
    }
}

/// The lengths that an expression depends on.
fn mentioned(e: &HostExpr, dims: &mut Vec<(usize, usize)>) {
    match e {
        HostExpr::Dim(p, k) => dims.push((*p, *k)),
        HostExpr::Binary(_, a, b) => {
            mentioned(a, dims);
            mentioned(b, dims);
        }
        HostExpr::Wrap(_, e) => mentioned(e, dims),
        HostExpr::Const(_) | HostExpr::Stride(..) | HostExpr::Scalar(_) | HostExpr::Multiprocessors => {}
    }
}

fn requirements_hold(kernel: &Kernel, sizes: &Sizes) -> bool {
    let args = host_args(kernel, sizes);
    let value = |v| HostExpr::of_value(kernel, v).map(|e| e.eval(&args, 1));
    requirements(kernel).iter().all(|r| match r.kind {
        // Buffers of their own are packed and aligned.
        RequirementKind::Packed(_) | RequirementKind::Aligned(..) => true,
        RequirementKind::AtMost(a, b) => value(a) <= value(b),
        RequirementKind::Equal(a, b) => value(a) == value(b),
        RequirementKind::Divisible(a, by) => value(a).is_none_or(|a| a % by == 0),
    })
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
            let sizes = random_sizes(&kernel, seed);
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
            let sizes = random_sizes(&kernel, 1);
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
