//! Bare kernels as subjects: a program of one launch, and sizes by axis.

use crate::subject::challenge::Sizes;
use crate::subject::inputs::{Distribution, Elements};
use crate::subject::requirements::{host_args, usual_scalar};
use crate::subject::{Call, CallArg};
use girih_core::loc::SourceLoc;
use girih_core::program::{Arg, Base, Expr, Program, Stmt, TensorView};
use girih_core::registry::KernelDef;
use girih_core::tile::host::demanded_values;
use girih_core::tile::{Kernel, Param, ParamKind, Requirement, RequirementKind};
use girih_core::types::{BinaryOp, DType, Literal};

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
pub(crate) fn axis_size(sizes: &Sizes, name: &str, k: usize) -> Option<i64> {
    let given = sizes.0.get(&format!("{name}.{k}")).or_else(|| sizes.0.get(name)).or_else(|| sizes.0.get("N"));
    given.map(|v| *v as i64)
}

/// Integers that the kernel demands at these sizes, or as everywhere; floats of which products of any number stay finite.
fn distribution(kernel: &Kernel, sizes: &Sizes, param: usize, dtype: DType) -> Distribution {
    match demanded_values(kernel, param, &host_args(kernel, sizes)) {
        // No number is allowed: such a tensor must be empty.
        Some((first, end)) => Distribution::Integers(first, (end - 1).max(first)),
        None if dtype.is_float() => Distribution::Uniform(-1.0, 1.0),
        None => Distribution::default_of(dtype),
    }
}

/// Arguments for sizes, with data drawn by `seed`.
///
/// # Errors
/// A length that no size gives.
pub(crate) fn kernel_call(kernel: &Kernel, sizes: &Sizes, seed: u64) -> Result<Call, String> {
    let mut args = Vec::new();
    for (i, p) in kernel.params.iter().enumerate() {
        args.push(match p.kind {
            ParamKind::Scalar(dtype) => CallArg::Scalar(sizes.0.get(&p.name).map_or(usual_scalar(dtype), |v| Literal::from_f64(dtype, *v))),
            ParamKind::Tensor { dtype, rank, mutable } => {
                let len = |k| axis_size(sizes, &p.name, k).filter(|l| *l >= 0);
                let lens: Option<Vec<i64>> = (0..rank).map(len).collect();
                let lens =
                    lens.ok_or_else(|| format!("`{}` of kernel `{}` has no length at {sizes}: give N, {0} or {0}.0", p.name, kernel.name))?;
                // Mutable tensors may be read, too, so they hold data and not poison.
                let data = Elements::random(dtype, &lens, &distribution(kernel, sizes, i, dtype), seed.wrapping_add(i as u64));
                CallArg::Tensor { name: p.name.clone(), data, dtype, mutable, read: true, unit: unit(kernel, i, dtype) }
            }
        });
    }
    Ok(Call { sizes: sizes.clone(), args })
}

/// Whether sizes give every length of a kernel's tensors.
pub(crate) fn lengths_given(kernel: &Kernel, sizes: &Sizes) -> bool {
    kernel.params.iter().all(|p| match p.kind {
        ParamKind::Tensor { rank, .. } => (0..rank).all(|k| axis_size(sizes, &p.name, k).is_some()),
        ParamKind::Scalar(_) => true,
    })
}

/// Elements by which a tensor may start behind an aligned address: as many as the widest element has that the kernel views it as.
fn unit(kernel: &Kernel, param: usize, dtype: DType) -> usize {
    let bytes = |r: &Requirement| match r.kind {
        RequirementKind::Aligned(p, bytes) if p == param => bytes,
        _ => 1,
    };
    kernel.requirements.iter().map(bytes).max().unwrap_or(1).div_ceil(dtype.size())
}

/// Elements of a parameter at sizes; 0 for scalars.
pub(crate) fn numel(p: &Param, sizes: &Sizes) -> i64 {
    match p.kind {
        ParamKind::Tensor { rank, .. } => (0..rank).map(|k| axis_size(sizes, &p.name, k).unwrap_or(0)).product(),
        ParamKind::Scalar(_) => 0,
    }
}
