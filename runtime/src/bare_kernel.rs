//! Bare kernels as subjects: a program of one launch, sizes by axis, and random sizes that meet the kernel's requirements.

use crate::challenge::Sizes;
use crate::inputs::{Distribution, HostTensor, Rng};
use crate::subject::{Call, CallArg};
use girih_core::facts::TensorArg;
use girih_core::loc::SourceLoc;
use girih_core::program::{Arg, Base, Expr, Program, Stmt, TensorView};
use girih_core::registry::KernelDef;
use girih_core::tile::access::shape_requirements;
use girih_core::tile::host::{HostArg, HostExpr, work};
use girih_core::tile::{Kernel, Param, ParamKind, Requirement, RequirementKind};
use girih_core::types::{BinaryOp, Literal};

/// Elements that a launch may visit at random sizes: a long filter on a long tensor takes too long to evaluate.
const MOST_WORK: i64 = 1 << 17;

/// A program that launches the kernel once with all its parameters.
pub(crate) fn single_launch(def: &KernelDef, kernel: &Kernel) -> Program {
    let dim = |p, k| Expr::Dim(p, k);
    let arg = |(i, p): (usize, &Param)| match p.kind {
        ParamKind::Scalar(_) => Arg::Scalar(Expr::Param(i)),
        ParamKind::Tensor { dtype, rank, .. } => {
            let product = |from: usize| {
                let one = Expr::Literal(Literal::index(1));
                (from..rank).fold(one, |e, k| Expr::Binary(BinaryOp::Mul, Box::new(e), Box::new(dim(i, k))))
            };
            Arg::Tensor(TensorView {
                base: Base::Param(i),
                dtype,
                offset: Expr::Literal(Literal::index(0)),
                lens: (0..rank).map(|k| dim(i, k)).collect(),
                strides: (0..rank).map(|k| product(k + 1)).collect(),
                packed: true,
            })
        }
    };
    let args = kernel.params.iter().enumerate().map(arg).collect();
    Program {
        name: kernel.name.clone(),
        path: kernel.path.clone(),
        loc: kernel.loc,
        source: String::new(),
        params: kernel.params.clone(),
        temps: Vec::new(),
        scalars: Vec::new(),
        variants: Vec::new(),
        requirements: Vec::new(),
        body: vec![Stmt::Launch { site: 0, kernel: *def, args, loc: SourceLoc::NONE }],
    }
}

/// The length of axis `k` of parameter `name`, by the most specific size that is given.
fn axis_size(sizes: &Sizes, name: &str, k: usize) -> Option<i64> {
    let given = sizes.0.get(&format!("{name}.{k}")).or_else(|| sizes.0.get(name)).or_else(|| sizes.0.get("N"));
    given.map(|v| *v as i64)
}

/// Arguments for sizes, with data drawn by `seed`.
///
/// # Errors
/// A length that no size gives.
pub(crate) fn kernel_call(kernel: &Kernel, sizes: &Sizes, seed: u64) -> Result<Call, String> {
    let mut args = Vec::new();
    for (i, p) in kernel.params.iter().enumerate() {
        args.push(match p.kind {
            ParamKind::Scalar(dtype) => {
                let bits = Distribution::Integers(1, 3).draw(dtype, &mut Rng::new(seed.wrapping_add(i as u64)));
                CallArg::Scalar(sizes.0.get(&p.name).map_or(Literal { dtype, bits }, |v| Literal::from_f64(dtype, *v)))
            }
            ParamKind::Tensor { dtype, rank, mutable } => {
                let len = |k| axis_size(sizes, &p.name, k).filter(|l| *l >= 0);
                let lens: Option<Vec<i64>> = (0..rank).map(len).collect();
                let lens =
                    lens.ok_or_else(|| format!("`{}` of kernel `{}` has no length at {sizes}: give N, {0} or {0}.0", p.name, kernel.name))?;
                // Mutable tensors may be read, too, so they hold data and not poison.
                let data = HostTensor::random(dtype, &lens, &Distribution::default_of(dtype), seed.wrapping_add(i as u64));
                CallArg::Tensor { name: p.name.clone(), data, dtype, mutable, read: true, unit: 1 }
            }
        });
    }
    Ok(Call { sizes: sizes.clone(), args })
}

/// Random sizes of every axis that meet the kernel's requirements.
pub(crate) fn random_sizes(kernel: &Kernel, seed: u64) -> Vec<Sizes> {
    const LENGTHS: [i64; 10] = [0, 1, 2, 7, 31, 64, 97, 256, 517, 1031];
    let mut rng = Rng::new(seed);
    let mut found: Vec<Sizes> = Vec::new();
    for attempt in 0..400 {
        let shared: Vec<i64> = (0..8).map(|_| LENGTHS[rng.below(LENGTHS.len())]).collect();
        let mut sizes = Sizes::default();
        for p in &kernel.params {
            let ParamKind::Tensor { rank, .. } = p.kind else { continue };
            for k in 0..rank {
                // Mostly tensors of one shape, sometimes all axes alike, sometimes all different.
                let len = match attempt % 4 {
                    0 | 1 => shared[k],
                    2 => shared[0],
                    _ => LENGTHS[rng.below(LENGTHS.len())],
                };
                sizes.0.insert(format!("{}.{k}", p.name), len as f64);
            }
        }
        meet_requirements(kernel, &mut sizes);
        let small = kernel.params.iter().all(|p| numel(p, &sizes) <= 1 << 17);
        let small = small && work(kernel, &host_args(kernel, &sizes)) <= MOST_WORK;
        if small && requirements_hold(kernel, &sizes) && !found.contains(&sizes) {
            found.push(sizes);
        }
        if found.len() == 8 {
            break;
        }
    }
    found
}

/// Elements of a parameter at sizes; 0 for scalars.
pub(crate) fn numel(p: &Param, sizes: &Sizes) -> i64 {
    match p.kind {
        ParamKind::Tensor { rank, .. } => (0..rank).map(|k| axis_size(sizes, &p.name, k).unwrap_or(0)).product(),
        ParamKind::Scalar(_) => 0,
    }
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

/// Changes lengths so that equalities hold; twice, for equalities that build on each other. One length at a time, as equalities are
/// linear in it: `x.len(0) - y.len(0) == y.len(0)` is met by another `x.len(0)`.
fn meet_requirements(kernel: &Kernel, sizes: &mut Sizes) {
    for _ in 0..2 {
        for r in requirements(kernel) {
            let RequirementKind::Equal(a, b) = r.kind else { continue };
            let (Some(a), Some(b)) = (HostExpr::of_value(kernel, a), HostExpr::of_value(kernel, b)) else { continue };
            let difference = |sizes: &Sizes| {
                let args = host_args(kernel, sizes);
                a.eval(&args, 1) - b.eval(&args, 1)
            };
            if difference(sizes) == 0 {
                continue;
            }
            let mut dims = Vec::new();
            mentioned(&a, &mut dims);
            mentioned(&b, &mut dims);
            for (p, k) in dims {
                let name = format!("{}.{k}", kernel.params[p].name);
                let with = |len: i64| {
                    let mut changed = sizes.clone();
                    changed.0.insert(name.clone(), len as f64);
                    changed
                };
                let (at_zero, at_one) = (difference(&with(0)), difference(&with(1)));
                let len = (-at_zero).checked_div(at_one - at_zero).unwrap_or(-1);
                if len >= 0 && difference(&with(len)) == 0 {
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
