//! Whether arguments are what the kernel takes, and fulfil what it requires.

use crate::tile::eval::{EvalError, EvalRef};
use crate::tile::host::{HostArg, HostExpr};
use crate::tile::{Kernel, ParamKind, RequirementKind, ValueId};
use crate::types::Literal;
use std::ops::Range;

pub(super) fn check_args(kernel: &Kernel, args: &[EvalRef]) -> Result<(), EvalError> {
    let error = |param: &str, message: String| Err(EvalError::Argument { param: param.to_string(), message });
    if kernel.params.len() != args.len() {
        return error("list", format!("{} takes {} arguments, found {}", kernel.name, kernel.params.len(), args.len()));
    }
    for (param, arg) in kernel.params.iter().zip(args) {
        let message = match (&param.kind, arg) {
            (ParamKind::Tensor { rank, .. }, EvalRef::Tensor { shape, .. }) if shape.lens.len() != *rank => {
                format!("takes a tensor with {rank} axes, found {}", shape.lens.len())
            }
            (ParamKind::Tensor { .. }, EvalRef::Scalar(_)) => "takes a tensor, found a scalar".to_string(),
            (ParamKind::Scalar(d), EvalRef::Scalar(l)) if l.dtype != *d => format!("takes {d}, found {}", l.dtype),
            (ParamKind::Scalar(_), EvalRef::Tensor { .. }) => "takes a scalar, found a tensor".to_string(),
            _ => continue,
        };
        return error(&param.name, message);
    }
    Ok(())
}

pub(super) fn check_requirements(kernel: &Kernel, args: &[EvalRef], buffers: &[&mut [u8]]) -> Result<(), EvalError> {
    let host: Vec<HostArg> = args
        .iter()
        .map(|a| match a {
            EvalRef::Tensor { shape, .. } => HostArg::Tensor(shape.clone()),
            EvalRef::Scalar(l) => HostArg::Scalar(*l),
        })
        .collect();
    let host_of =
        |v: ValueId| HostExpr::of_value(kernel, v).unwrap_or_else(|| panic!("eval: requirement on %{}, which the host can't compute", v.0));
    let value = |v: ValueId| host_of(v).eval(&host, 1);
    let text = |v: ValueId| match host_of(v) {
        HostExpr::Const(c) => c.to_string(),
        e => format!("{} = {}", e.named(kernel), value(v)),
    };
    for requirement in &kernel.requirements {
        let message = match requirement.kind {
            RequirementKind::Packed(p) => match &host[p] {
                HostArg::Tensor(t) if !t.is_packed() => {
                    format!("{} must be packed, found shape {:?} with strides {:?}", kernel.params[p].name, t.lens, t.strides)
                }
                _ => continue,
            },
            RequirementKind::AtMost(a, b) if value(a) > value(b) => format!("{} is more than {}", text(a), text(b)),
            RequirementKind::Equal(a, b) if value(a) != value(b) => format!("{} is not {}", text(a), text(b)),
            RequirementKind::Divisible(a, n) if value(a) % n != 0 => format!("{} is not divisible by {n}", text(a)),
            // Buffers lie at multiples of every alignment, so the offset decides.
            RequirementKind::Aligned(p, bytes) => match &args[p] {
                EvalRef::Tensor { offset, .. } if offset % bytes != 0 => {
                    let name = &kernel.params[p].name;
                    format!(
                        "{name} must start at a multiple of {bytes} bytes, as it is viewed as wider elements; it starts at byte {offset}"
                    )
                }
                _ => continue,
            },
            RequirementKind::Values(p, a, b) => match outside(kernel, p, &args[p], value(a)..value(b), buffers) {
                Some((element, found)) => {
                    format!("element {element} of {} is {found}, not in {}..{}", kernel.params[p].name, text(a), text(b))
                }
                None => continue,
            },
            RequirementKind::AtMost(..) | RequirementKind::Equal(..) | RequirementKind::Divisible(..) => continue,
        };
        return Err(EvalError::Requirement { message, loc: requirement.loc });
    }
    Ok(())
}

/// The first element of a tensor, in row-major order, that is none of these numbers, and what it is.
fn outside(kernel: &Kernel, param: usize, arg: &EvalRef, numbers: Range<i64>, buffers: &[&mut [u8]]) -> Option<(i64, i64)> {
    let (ParamKind::Tensor { dtype, .. }, EvalRef::Tensor { buffer, offset, shape }) = (&kernel.params[param].kind, arg) else {
        return None;
    };
    (0..shape.numel()).find_map(|element| {
        let (mut left, mut at) = (element, 0);
        for (len, stride) in shape.lens.iter().zip(&shape.strides).rev() {
            at += left % len * stride;
            left /= len;
        }
        let first = *offset as i64 + at * dtype.size() as i64;
        let mut bits = [0; 8];
        bits[..dtype.size()].copy_from_slice(buffers[*buffer].get(first as usize..)?.get(..dtype.size())?);
        let found = Literal { dtype: *dtype, bits: u64::from_le_bytes(bits) }.to_i64();
        (!numbers.contains(&found)).then_some((element, found))
    })
}
