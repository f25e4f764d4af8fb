//! Runs programs with the reference evaluator on host memory.

use super::walk::{Executor, LaunchArg, ProgramArg, Region, WalkError, walk};
use super::{Base, Program, Temp};
use crate::error::CompileError;
use crate::facts::TensorArg;
use crate::loc::SourceLoc;
use crate::registry::KernelDef;
use crate::schedule::Schedule;
use crate::tile::Kernel;
use crate::tile::eval::{EvalArg, EvalError, EvalOptions, EvalRef, eval_in};
use crate::types::Literal;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Why a program could not be evaluated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProgramEvalError {
    /// A kernel could not be built.
    #[error(transparent)]
    Build(#[from] CompileError),
    /// A kernel could not be evaluated.
    #[error("in {kernel}{}: {error}", launched(*loc))]
    Kernel {
        /// The kernel.
        kernel: String,
        /// The launch.
        loc: SourceLoc,
        /// What happened.
        error: Box<EvalError>,
    },
    /// A tensor reaches outside of its base's memory.
    #[error("a tensor reaches bytes {start}..{end} of memory of {len} bytes")]
    OutOfBounds {
        /// First byte.
        start: i64,
        /// One past the last byte.
        end: i64,
        /// Bytes there are.
        len: usize,
    },
    /// The tensors of an argument list are not packed, too small, or the walker found another mistake.
    #[error("{0}")]
    Program(String),
}

/// Where a program launches a kernel; a kernel by itself is launched nowhere.
fn launched(loc: SourceLoc) -> String {
    if loc == SourceLoc::NONE { String::new() } else { format!(", launched at {loc}") }
}

/// Runs a program on packed host tensors that share no memory. `options.schedule` is ignored: kernels take their smallest tiles.
///
/// # Errors
/// Arguments that don't fit, requirements that don't hold, and what the kernels report.
pub fn eval_program(program: &Program, args: &mut [EvalArg], options: &EvalOptions) -> Result<(), ProgramEvalError> {
    eval_program_under(program, &[], args, options)
}

/// As [`eval_program`], with the tiles of a schedule for each launch site.
///
/// # Errors
/// As [`eval_program`].
pub fn eval_program_under(
    program: &Program,
    schedules: &[Schedule],
    args: &mut [EvalArg],
    options: &EvalOptions,
) -> Result<(), ProgramEvalError> {
    let mut values = Vec::new();
    let mut params: Vec<Option<&mut [u8]>> = Vec::new();
    for (arg, param) in args.iter_mut().zip(&program.params) {
        match arg {
            EvalArg::Scalar(l) => {
                values.push(ProgramArg::Scalar(*l));
                params.push(None);
            }
            EvalArg::Tensor { bytes, shape } => {
                if !shape.is_packed() {
                    return Err(ProgramEvalError::Program(format!("argument {}: a program takes packed tensors", param.name)));
                }
                values.push(ProgramArg::Tensor(shape.lens.clone()));
                params.push(Some(bytes));
            }
        }
    }
    let mut host = Host { params, temps: Vec::new(), kernels: HashMap::new(), schedules, options: options.clone() };
    walk(program, &values, &mut host).map_err(|e| match e {
        WalkError::Executor(e) => e,
        other => ProgramEvalError::Program(other.to_string()),
    })
}

/// Host memory: the caller's buffers and the temporaries.
struct Host<'a> {
    params: Vec<Option<&'a mut [u8]>>,
    temps: Vec<Vec<u8>>,
    kernels: HashMap<usize, Kernel>,
    /// By launch site; none for the smallest tiles.
    schedules: &'a [Schedule],
    options: EvalOptions,
}

impl Host<'_> {
    fn memory(&mut self, base: Base) -> &mut [u8] {
        match base {
            Base::Param(p) => self.params[p].as_deref_mut().unwrap_or_else(|| panic!("program: parameter {p} is no tensor")),
            Base::Temp(t) => &mut self.temps[t],
        }
    }

    /// The bytes that a region reaches; none of a region without elements, wherever it would begin.
    fn bytes(&mut self, region: &Region) -> Result<&mut [u8], ProgramEvalError> {
        if region.numel() == 0 {
            return Ok(&mut []);
        }
        let (start, end) = region.span();
        let memory = self.memory(region.base);
        if start < 0 || end > memory.len() as i64 {
            return Err(ProgramEvalError::OutOfBounds { start, end, len: memory.len() });
        }
        Ok(&mut memory[start as usize..end as usize])
    }
}

impl Executor for Host<'_> {
    type Error = ProgramEvalError;

    fn temp(&mut self, index: usize, _temp: &Temp, bytes: usize) -> Result<(), ProgramEvalError> {
        assert_eq!(index, self.temps.len(), "program: temporaries come in order");
        // Poison: NaN as a float, far out of range as an index.
        self.temps.push(vec![0xff; bytes]);
        Ok(())
    }

    fn launch(&mut self, site: usize, def: &KernelDef, args: &[LaunchArg], loc: SourceLoc) -> Result<(), ProgramEvalError> {
        if let Entry::Vacant(entry) = self.kernels.entry(site) {
            entry.insert((def.build)()?);
        }
        for arg in args {
            if let LaunchArg::Tensor(region) = arg {
                self.bytes(region)?;
            }
        }
        let params = self.params.len();
        let refs: Vec<EvalRef> = args
            .iter()
            .map(|a| match a {
                LaunchArg::Scalar(l) => EvalRef::Scalar(*l),
                LaunchArg::Tensor(r) => EvalRef::Tensor {
                    buffer: match r.base {
                        Base::Param(p) => p,
                        Base::Temp(t) => params + t,
                    },
                    offset: if r.numel() == 0 { 0 } else { r.offset as usize },
                    shape: TensorArg { address: 0, lens: r.lens.clone(), strides: r.strides.clone() },
                },
            })
            .collect();
        let own = self.params.iter_mut().map(|p| p.as_deref_mut().unwrap_or_default());
        let mut buffers: Vec<&mut [u8]> = own.chain(self.temps.iter_mut().map(|t| t.as_mut_slice())).collect();
        let kernel = &self.kernels[&site];
        let options = EvalOptions { schedule: self.schedules.get(site).cloned(), ..self.options.clone() };
        eval_in(kernel, &mut buffers, &refs, &options).map_err(|error| ProgramEvalError::Kernel {
            kernel: kernel.full_name(),
            loc,
            error: Box::new(error),
        })
    }

    fn memset(&mut self, region: &Region, value: Literal) -> Result<(), ProgramEvalError> {
        let size = region.dtype.size();
        for element in self.bytes(region)?.chunks_exact_mut(size) {
            element.copy_from_slice(&value.bits.to_le_bytes()[..size]);
        }
        Ok(())
    }

    fn copy(&mut self, to: &Region, from: &Region) -> Result<(), ProgramEvalError> {
        let data = self.bytes(from)?.to_vec();
        self.bytes(to)?.copy_from_slice(&data);
        Ok(())
    }

    fn read_back(&mut self, from: &Region) -> Result<Literal, ProgramEvalError> {
        let mut bits = [0u8; 8];
        let bytes = self.bytes(from)?;
        bits[..bytes.len()].copy_from_slice(bytes);
        Ok(Literal { dtype: from.dtype, bits: u64::from_le_bytes(bits) })
    }
}
