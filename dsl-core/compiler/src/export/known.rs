//! What of a launch is known before it happens: the facts that versions of its kernel may ask for.

use girih_ir::facts::{Facts, MAX_DIVISOR, TensorFacts, power_within};
use girih_ir::program::signature::Signature;
use girih_ir::program::{Arg, Expr, TensorView};
use girih_ir::tile::access::dim_constants;
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, Kernel};

/// What is known of the arguments of a launch before it happens: from the program's text and the signature's constant extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// One entry per parameter of the kernel, `None` for scalars.
    pub tensors: Vec<Option<KnownTensor>>,
    /// No tensor that the kernel may store to lies in the memory of another argument.
    pub noalias: bool,
}

/// What is known of a tensor argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownTensor {
    /// Row-major without gaps.
    pub packed: bool,
    /// Lengths that are constants.
    pub lens: Vec<Option<i64>>,
    /// Strides that are constants.
    pub strides: Vec<Option<i64>>,
}

impl KnownTensor {
    /// Elements of a row are neighbours.
    fn has_rows(&self) -> bool {
        self.packed || self.strides.last().is_none_or(|s| *s == Some(1))
    }
}

impl Known {
    /// Packed tensors in memory of their own, of any lengths that the kernel does not fix.
    pub fn packed(kernel: &Kernel) -> Known {
        let constants = dim_constants(kernel);
        let lens = |p, rank| (0..rank).map(|k| constants.get(&(p, k)).copied()).collect();
        let tensors = kernel
            .params
            .iter()
            .enumerate()
            .map(|(p, param)| match param.kind {
                tile::ParamKind::Tensor { rank, .. } => Some(KnownTensor { packed: true, lens: lens(p, rank), strides: vec![None; rank] }),
                tile::ParamKind::Scalar(_) => None,
            })
            .collect();
        Known { tensors, noalias: true }
    }

    /// What the text of a launch says. `binding` gives the signature's parameter for each parameter of the program.
    pub fn of_launch(signature: &Signature, binding: &[usize], kernel: &Kernel, args: &[Arg]) -> Known {
        let constant = |e: &Expr| match e {
            Expr::Literal(l) => Some(l.to_i64()),
            Expr::Dim(p, k) => match signature.params[binding[*p]].shape.as_ref()?.get(*k)? {
                HostExpr::Const(c) => Some(*c),
                _ => None,
            },
            _ => None,
        };
        let views: Vec<_> = args.iter().map(|a| if let Arg::Tensor(v) = a { Some(v) } else { None }).collect();
        let fixed = dim_constants(kernel);
        let len = |p: usize, k: usize, e: &Expr| constant(e).or(fixed.get(&(p, k)).copied());
        let known = |p: usize, v: &TensorView| KnownTensor {
            packed: v.packed,
            lens: v.lens.iter().enumerate().map(|(k, e)| len(p, k, e)).collect(),
            strides: v.strides.iter().map(constant).collect(),
        };
        let tensors = views.iter().enumerate().map(|(p, v)| v.map(|v| known(p, v))).collect();
        let mutable = |i: usize| matches!(kernel.params[i].kind, tile::ParamKind::Tensor { mutable: true, .. });
        let bases: Vec<_> = views.iter().map(|v| v.map(|v| v.base)).collect();
        let alone = |i: usize| bases.iter().enumerate().all(|(j, b)| i == j || b.is_none() || *b != bases[i]);
        let noalias = (0..args.len()).filter(|i| bases[*i].is_some() && mutable(*i)).all(alone);
        Known { tensors, noalias }
    }

    /// What of a launch's facts the host code can test.
    pub(super) fn promised(&self, facts: &Facts) -> Facts {
        let mut facts = facts.clone();
        facts.noalias &= self.noalias;
        for (tensor, known) in facts.tensors.iter_mut().zip(&self.tensors) {
            if let (Some(tensor), Some(known)) = (tensor, known) {
                tensor.packed &= known.packed;
                tensor.rows &= known.has_rows();
            }
        }
        facts
    }

    /// Facts with the given promises where they can hold at all: what is known caps them.
    pub(super) fn facts(&self, kernel: &Kernel, align: u32, divisor: u32, index32: bool) -> Facts {
        let tensors = kernel
            .params
            .iter()
            .zip(&self.tensors)
            .map(|(param, known)| match (param.kind, known) {
                (tile::ParamKind::Tensor { dtype, .. }, Some(known)) => {
                    // A constant length is as divisible as it is, whatever is asked for.
                    let power = |n: i64| power_within(n as u64, MAX_DIVISOR);
                    let lens = known.lens.iter().map(|l| l.map_or(divisor, power)).collect();
                    // Those of packed tensors follow from their lengths.
                    let stride = |s: &Option<i64>| if known.packed { 1 } else { s.map_or(divisor, power) };
                    let strides = known.strides.iter().map(stride).collect();
                    Some(TensorFacts {
                        align: align.max(dtype.size() as u32),
                        packed: known.packed,
                        rows: known.has_rows(),
                        lens,
                        strides,
                        most: vec![],
                    })
                }
                _ => None,
            })
            .collect();
        Facts { tensors, index32, noalias: self.noalias }
    }
}
