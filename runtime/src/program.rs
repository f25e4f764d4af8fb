//! Programs on a device: launches, temporaries kept between calls, memsets, copies, scalar arithmetic and control flow.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::launch::{self, Argument};
use girih_core::loc::SourceLoc;
use girih_core::program::walk::{Executor, LaunchArg, ProgramArg, Region, WalkError, walk};
use girih_core::program::{Base, Program, Temp};
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::tile::ParamKind;
use girih_core::types::Literal;
use std::sync::Arc;

/// A program on a device with its workspace, which grows as calls need it and is kept between them.
pub struct Runner {
    device: Device,
    program: Arc<Program>,
    /// One buffer per temporary, as large as the largest call so far needed.
    temps: Vec<Option<Buffer>>,
    /// A schedule per launch site where it is not to be looked up.
    pub schedules: Vec<Option<Schedule>>,
}

impl Runner {
    /// Prepares to run a program.
    pub fn new(device: &Device, program: Arc<Program>) -> Runner {
        let sites = program.sites().len();
        Runner { device: device.clone(), temps: vec![None; program.temps.len()], program, schedules: vec![None; sites] }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Bytes of the workspace.
    pub fn workspace_bytes(&self) -> usize {
        self.temps.iter().flatten().map(Buffer::bytes).sum()
    }

    /// Runs it: one argument per parameter, tensors packed. Launches are queued, so the work may not be done when the call
    /// returns; a program that reads values back waits for them.
    pub fn run(&mut self, args: &[Argument]) -> Result<(), Error> {
        let program = self.program.clone();
        let mut bases = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            bases.push(self.base(&program, i, arg)?);
        }
        let shapes: Vec<ProgramArg> = args.iter().map(shape).collect();
        let mut run = Run { runner: self, params: bases };
        walk(&program, &shapes, &mut run).map_err(|e| failure(&program, e))
    }

    /// Where a parameter's memory lies.
    fn base(&self, program: &Program, index: usize, arg: &Argument) -> Result<Memory, Error> {
        let wrong = |message: String| Error::Program { program: program.name.clone(), message, loc: program.loc };
        let param = program.params.get(index);
        let name = param.map_or("an argument too many", |p| p.name.as_str());
        match (arg, param.map(|p| &p.kind)) {
            (Argument::Scalar(_), _) => Ok(Memory { address: 0, bytes: 0, mutable: false }),
            (Argument::Dead, _) => Err(wrong(format!("`{name}` was taken out of its cudarc slice, whose borrow has ended"))),
            (Argument::Tensor { dtype, tensor, mutable }, kind) => {
                if let Some(ParamKind::Tensor { dtype: wanted, mutable: stored, .. }) = kind {
                    if wanted != dtype {
                        return Err(wrong(format!("`{name}` is a tensor of {wanted}, the argument one of {dtype}")));
                    }
                    if *stored && !mutable {
                        return Err(wrong(format!("`{name}` is stored to: it needs a mutable argument")));
                    }
                }
                if !tensor.is_packed() {
                    let (lens, strides) = (&tensor.lens, &tensor.strides);
                    return Err(wrong(format!(
                        "`{name}` must be row-major without gaps; its shape is {lens:?} and its strides are {strides:?}"
                    )));
                }
                let bytes = tensor.numel() * dtype.size() as i64;
                Ok(Memory { address: tensor.address, bytes, mutable: *mutable })
            }
        }
    }
}

/// The memory behind a base of the program's tensors.
#[derive(Clone, Copy)]
struct Memory {
    address: u64,
    bytes: i64,
    mutable: bool,
}

fn shape(arg: &Argument) -> ProgramArg {
    match arg {
        Argument::Tensor { tensor, .. } => ProgramArg::Tensor(tensor.lens.clone()),
        Argument::Scalar(l) => ProgramArg::Scalar(*l),
        Argument::Dead => ProgramArg::Scalar(Literal::bool(false)),
    }
}

fn failure(program: &Program, e: WalkError<Error>) -> Error {
    let error = |message: String, loc: SourceLoc| Error::Program { program: program.name.clone(), message, loc };
    match e {
        WalkError::Argument { param, message } => error(format!("`{param}` {message}"), program.loc),
        WalkError::Requirement { text, loc } => error(format!("a requirement does not hold: {text}"), loc),
        WalkError::Size { message, loc } => error(message, loc),
        WalkError::Executor(e) => e,
    }
}

/// One call.
struct Run<'a> {
    runner: &'a mut Runner,
    params: Vec<Memory>,
}

impl Run<'_> {
    fn memory(&self, base: Base) -> Memory {
        match base {
            Base::Param(p) => self.params[p],
            Base::Temp(t) => {
                let buffer = self.runner.temps[t].as_ref().expect("the walker provides temporaries before it uses them");
                Memory { address: buffer.address(), bytes: buffer.bytes() as i64, mutable: true }
            }
        }
    }

    /// The memory of a region, which must lie inside of its base's.
    fn inside(&self, region: &Region, loc: SourceLoc) -> Result<Memory, Error> {
        let memory = self.memory(region.base);
        let (first, end) = region.span();
        if region.numel() > 0 && (first < 0 || end > memory.bytes) {
            let message = format!("a tensor reaches bytes {first}..{end} of memory of {} bytes", memory.bytes);
            return Err(Error::Program { program: self.runner.program.name.clone(), message, loc });
        }
        Ok(memory)
    }

    /// The address of a packed region's first byte.
    fn address(&self, region: &Region) -> Result<u64, Error> {
        let memory = self.inside(region, self.runner.program.loc)?;
        Ok(memory.address.wrapping_add_signed(region.offset))
    }
}

impl Executor for Run<'_> {
    type Error = Error;

    fn temp(&mut self, index: usize, _temp: &Temp, bytes: usize) -> Result<(), Error> {
        let slot = &mut self.runner.temps[index];
        if slot.as_ref().is_none_or(|b| b.bytes() < bytes) {
            // The old one first: both together might not fit.
            *slot = None;
            *slot = Some(self.runner.device.alloc(bytes)?);
        }
        Ok(())
    }

    fn launch(&mut self, site: usize, kernel: &KernelDef, args: &[LaunchArg], loc: SourceLoc) -> Result<(), Error> {
        let argument = |arg: &LaunchArg| match arg {
            LaunchArg::Scalar(l) => Ok(Argument::Scalar(*l)),
            LaunchArg::Tensor(region) => {
                let memory = self.inside(region, loc)?;
                Ok(Argument::Tensor { dtype: region.dtype, tensor: region.tensor_arg(memory.address), mutable: memory.mutable })
            }
        };
        let args = args.iter().map(argument).collect::<Result<Vec<_>, Error>>()?;
        let schedule = self.runner.schedules.get(site).and_then(Option::as_ref);
        launch::launch(&self.runner.device, kernel, schedule, args)
    }

    fn memset(&mut self, region: &Region, value: Literal) -> Result<(), Error> {
        let address = self.address(region)?;
        let pattern = &value.bits.to_le_bytes()[..region.dtype.size()];
        self.runner.device.fill_at(address, region.bytes() as usize, pattern)
    }

    fn copy(&mut self, to: &Region, from: &Region) -> Result<(), Error> {
        let (to_address, from_address) = (self.address(to)?, self.address(from)?);
        self.runner.device.copy_at(to_address, from_address, to.bytes() as usize)
    }

    fn read_back(&mut self, from: &Region) -> Result<Literal, Error> {
        let mut bytes = [0; 8];
        self.runner.device.read_at(self.address(from)?, &mut bytes[..from.dtype.size()])?;
        Ok(Literal { dtype: from.dtype, bits: u64::from_le_bytes(bytes) })
    }
}
