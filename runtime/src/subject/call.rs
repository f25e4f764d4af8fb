//! The arguments of one call on the host, and how a challenge's are made.

use super::{Subject, signature_values};
use crate::subject::challenge::{Case, Sizes};
use crate::subject::inputs::Elements;
use girih_core::lengths::Lengths;
use girih_core::program::signature::Signature;
use girih_core::program::walk::ProgramArg;
use girih_core::tile::ParamKind;
use girih_core::tile::host::HostExpr;
use girih_core::types::{DType, Literal};

/// The arguments of one call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The sizes it was made for.
    pub sizes: Sizes,
    /// One per parameter of the program.
    pub args: Vec<CallArg>,
}

impl Call {
    /// How long the program's arguments are.
    pub fn lengths(&self) -> Lengths {
        ProgramArg::lengths(&self.arguments())
    }

    /// Lengths and scalars, without the data.
    pub fn arguments(&self) -> Vec<ProgramArg> {
        let arg = |a: &CallArg| match a {
            CallArg::Tensor { data, .. } => ProgramArg::Tensor(data.lens.clone()),
            CallArg::Scalar(l) => ProgramArg::Scalar(*l),
        };
        self.args.iter().map(arg).collect()
    }

    /// The call as references read it.
    pub fn case(&self) -> Case {
        let tensors = self.args.iter().filter_map(|a| match a {
            CallArg::Tensor { name, data, .. } => Some((name.clone(), data.clone())),
            CallArg::Scalar(_) => None,
        });
        Case { sizes: self.sizes.clone(), tensors: tensors.collect() }
    }
}

/// One argument.
#[derive(Clone, Debug)]
pub enum CallArg {
    /// A packed tensor.
    Tensor {
        /// Its name in the signature (or the kernel).
        name: String,
        /// Its elements before the call; poison where nothing is read.
        data: Elements,
        /// The program's element type: the size is the same as the data's.
        dtype: DType,
        /// The program may store to it.
        mutable: bool,
        /// It holds data before the call, not poison.
        read: bool,
        /// Elements of the program's type by which the pointer may be off alignment: whole pixels, where a shape ends in a constant, and whole words,
        /// where a kernel sees words in it.
        unit: usize,
    },
    /// A scalar of the program's type.
    Scalar(Literal),
}

impl Subject {
    /// Arguments of a challenge's program: those of its signature that parameters are bound to.
    pub(super) fn challenge_call(&self, signature: &Signature, bound: &[usize], sizes: &Sizes, seed: u64) -> Result<Call, String> {
        let challenge = self.challenge.as_ref().expect("a challenge's subject has its challenge");
        let values = signature_values(&self.name, signature, sizes)?;
        let arg = |(number, (param, at)): (usize, (&girih_core::tile::Param, &usize))| {
            let there = &signature.params[*at];
            match param.kind {
                ParamKind::Scalar(dtype) => Ok(CallArg::Scalar(Literal::from_f64(dtype, sizes.size(&there.name)))),
                ParamKind::Tensor { dtype, mutable, .. } => {
                    let lens = self.lens(signature, *at, &values, sizes)?;
                    let input = challenge.inputs.iter().find(|(n, _)| *n == there.name);
                    let alignment = self.program.alignment(number).map_err(|e| e.to_string())?;
                    let data = match input {
                        Some((_, d)) => {
                            let distribution = d.at(|scalar| sizes.size(scalar));
                            Elements::random(there.dtype, &lens, &distribution, seed.wrapping_add(*at as u64))
                        }
                        None => Elements::poison(there.dtype, &lens),
                    };
                    Ok(CallArg::Tensor {
                        name: there.name.clone(),
                        data,
                        dtype,
                        mutable,
                        read: input.is_some(),
                        unit: unit(there.shape.as_deref().unwrap_or_default(), dtype.size(), alignment),
                    })
                }
            }
        };
        let args = self.program.params.iter().zip(bound).enumerate().map(arg).collect::<Result<_, String>>()?;
        Ok(Call { sizes: sizes.clone(), args })
    }
}

impl Subject {
    /// The elements of one of the program's tensors as a call has them; nothing of outputs, scalars and bare kernels.
    pub fn input(&self, param: usize, sizes: &Sizes, seed: u64) -> Option<Elements> {
        let (signature, bound) = self.bound()?;
        let at = *bound.get(param)?;
        let there = &signature.params[at];
        let (_, distribution) = self.challenge.as_ref()?.inputs.iter().find(|(n, _)| *n == there.name)?;
        let lens = self.lens(signature, at, &signature_values(&self.name, signature, sizes).ok()?, sizes).ok()?;
        let (distribution, seed) = (distribution.at(|scalar| sizes.size(scalar)), seed.wrapping_add(at as u64));
        Some(Elements::random(there.dtype, &lens, &distribution, seed))
    }
}

/// By how many elements of `size` bytes a tensor may start off alignment: the product of its shape's constant last extents (four bytes of a
/// pixel are never torn apart), so often that its address is a multiple of what the program's kernels see in it.
fn unit(shape: &[HostExpr], size: usize, alignment: usize) -> usize {
    let constant = |e: &HostExpr| match e {
        HostExpr::Const(c) => Some(*c as usize),
        _ => None,
    };
    let whole: usize = shape.iter().rev().map_while(constant).product();
    (1..=alignment).map(|k| k * whole).find(|n| (n * size).is_multiple_of(alignment)).unwrap_or(whole)
}
