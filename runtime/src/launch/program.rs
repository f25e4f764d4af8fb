//! Programs on a device: launches, temporaries kept between calls, memsets, copies, scalar arithmetic and control flow.

use crate::device::Device;
use crate::device::buffer::Buffer;
use crate::error::Error;
use crate::launch::steps::{Step, Steps};
use crate::launch::{self, Argument};
use girih_core::loc::SourceLoc;
use girih_core::program::walk::{Executor, LaunchArg, ProgramArg, Region, WalkError, walk};
use girih_core::program::{Base, Program, Temp};
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::tile::ParamKind;
use girih_core::types::Literal;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// A program on a device with its workspace, which grows as calls need it and is kept between them.
///
/// A program that reads nothing back does the same steps whenever it is called with the same arguments. They are computed at the
/// first such call and repeated at the next ones: on a GPU as one CUDA graph, where there are several.
pub struct Runner {
    device: Device,
    program: Arc<Program>,
    /// One buffer per temporary, as large as the largest call so far needed.
    temps: Vec<Option<Buffer>>,
    /// A schedule per launch site where it is not to be looked up.
    pub schedules: Vec<Option<Schedule>>,
    /// Calls of several steps become CUDA graphs, where they can. On, unless the environment says `GIRIH_GRAPHS=0`.
    pub graphs: bool,
    reads_back: bool,
    /// Calls with their steps, the latest first.
    known: VecDeque<(Key, Steps)>,
    /// Calls in a row whose steps were not known.
    misses: usize,
    /// The last call that was not kept.
    passed: Option<Key>,
    last: Way,
}

/// What a call's steps depend on.
#[derive(Clone, PartialEq)]
struct Key {
    args: Vec<Argument>,
    schedules: Vec<Option<Schedule>>,
    graphs: bool,
}

/// How a call ran.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// Not at all yet, or without a step: there was nothing to do.
    #[default]
    Nothing,
    /// One launch, fill or copy.
    OneStep,
    /// So many steps as one CUDA graph.
    Graph(usize),
    /// So many steps, one by one.
    OneByOne {
        /// Launches, fills and copies; 0 where their number is not known.
        steps: usize,
        /// Why they are no graph.
        why: String,
    },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Way::Nothing => f.write_str("nothing to do"),
            Way::OneStep => f.write_str("one launch"),
            Way::Graph(steps) => write!(f, "{steps} steps as one CUDA graph"),
            Way::OneByOne { steps: 0, why } => write!(f, "step by step, no graph: {why}"),
            Way::OneByOne { steps, why } => write!(f, "{steps} steps one by one, no graph: {why}"),
        }
    }
}

/// Calls whose steps are kept.
const KNOWN: usize = 8;

/// Who looks on while a program runs step by step, and may end it.
pub trait Witness {
    /// A launch is about to be made: its arguments as the walker and as the device have them.
    fn launching(&mut self, site: usize, regions: &[LaunchArg], args: &[Argument]) -> Result<(), Error>;
    /// A value was read back.
    fn read(&mut self, value: Literal) -> Result<(), Error>;
}

impl Runner {
    /// Prepares to run a program.
    pub fn new(device: &Device, program: Arc<Program>) -> Runner {
        let (sites, temps) = (program.sites().len(), program.temps.len());
        Runner {
            device: device.clone(),
            temps: vec![None; temps],
            schedules: vec![None; sites],
            graphs: std::env::var_os("GIRIH_GRAPHS").is_none_or(|v| v != "0"),
            reads_back: program.reads_back(),
            known: VecDeque::new(),
            misses: 0,
            passed: None,
            last: Way::default(),
            program,
        }
    }

    /// How the last call ran.
    pub fn way(&self) -> &Way {
        &self.last
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
        if self.reads_back {
            self.last = Way::OneByOne { steps: 0, why: "the program reads values back".into() };
            return self.walk(args, Then::Issue).map(|_| ());
        }
        let same = |k: &Key| k.args == args && k.schedules == self.schedules && k.graphs == self.graphs;
        let found = self.known.iter().position(|(key, _)| same(key)).and_then(|i| self.known.remove(i));
        self.misses = if found.is_some() { 0 } else { self.misses + 1 };
        let call = match found {
            Some(call) => call,
            None => {
                let key = Key { args: args.to_vec(), schedules: self.schedules.clone(), graphs: self.graphs };
                // Where no call is like one before, keeping steps is wasted work; a call that comes twice shows that this is over.
                if self.misses > KNOWN && self.passed.as_ref() != Some(&key) {
                    self.passed = Some(key);
                    self.last = Way::OneByOne { steps: 0, why: "every call has other arguments".into() };
                    return self.walk(args, Then::Issue).map(|_| ());
                }
                let steps = self.walk(args, Then::Keep(Vec::new()))?;
                (key, Steps::new(&self.device, steps, self.graphs))
            }
        };
        let (steps, done) = (call.1.len(), call.1.issue(&self.device));
        self.last = match &call.1.why {
            Some(why) => Way::OneByOne { steps, why: why.clone() },
            None if call.1.is_graph() => Way::Graph(steps),
            None if steps == 0 => Way::Nothing,
            None => Way::OneStep,
        };
        self.known.truncate(KNOWN - 1);
        self.known.push_front(call);
        done
    }

    /// Runs it once, step by step, before a witness.
    pub fn run_before(&mut self, args: &[Argument], witness: &mut dyn Witness) -> Result<(), Error> {
        self.walk(args, Then::Tell(witness)).map(|_| ())
    }

    /// Walks the program once, issuing its steps or keeping them.
    fn walk<'a>(&'a mut self, args: &[Argument], then: Then<'a>) -> Result<Vec<Step>, Error> {
        let program = self.program.clone();
        let mut bases = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            bases.push(self.base(&program, i, arg)?);
        }
        let shapes: Vec<ProgramArg> = args.iter().map(shape).collect();
        let mut run = Run { runner: self, params: bases, then };
        walk(&program, &shapes, &mut run).map_err(|e| failure(&program, e))?;
        match run.then {
            Then::Issue | Then::Tell(_) => Ok(Vec::new()),
            Then::Keep(steps) => Ok(steps),
        }
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
    then: Then<'a>,
}

/// What happens to a step.
enum Then<'a> {
    Issue,
    /// It is issued after the witness was told.
    Tell(&'a mut dyn Witness),
    Keep(Vec<Step>),
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
            // The old one first: both together might not fit. Steps that are kept name the old one.
            self.runner.known.clear();
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
        let regions = args;
        let args = args.iter().map(argument).collect::<Result<Vec<_>, Error>>()?;
        if let Then::Tell(witness) = &mut self.then {
            witness.launching(site, regions, &args)?;
        }
        let schedule = self.runner.schedules.get(site).and_then(Option::as_ref);
        let device = &self.runner.device;
        let Then::Keep(steps) = &mut self.then else { return launch::launch(device, kernel, schedule, args) };
        let prepared = launch::prepare(device, kernel, schedule, &args)?;
        let bound = device.bind(&prepared.loaded, &launch::host_args(&args))?;
        if !bound.is_empty() {
            steps.push(Step::Launch(bound));
        }
        Ok(())
    }

    fn memset(&mut self, region: &Region, value: Literal) -> Result<(), Error> {
        let address = self.address(region)?;
        let (len, pattern) = (region.bytes() as usize, &value.bits.to_le_bytes()[..region.dtype.size()]);
        match &mut self.then {
            Then::Issue | Then::Tell(_) => self.runner.device.fill_at(address, len, pattern),
            Then::Keep(steps) => {
                steps.push(Step::Fill { address, len, pattern: pattern.to_vec() });
                Ok(())
            }
        }
    }

    fn copy(&mut self, to: &Region, from: &Region) -> Result<(), Error> {
        let (to_address, from_address) = (self.address(to)?, self.address(from)?);
        let (to, from, len) = (to_address, from_address, to.bytes() as usize);
        match &mut self.then {
            Then::Issue | Then::Tell(_) => self.runner.device.copy_at(to, from, len),
            Then::Keep(steps) => {
                steps.push(Step::Copy { to, from, len });
                Ok(())
            }
        }
    }

    fn read_back(&mut self, from: &Region) -> Result<Literal, Error> {
        let mut bytes = [0; 8];
        self.runner.device.read_at(self.address(from)?, &mut bytes[..from.dtype.size()])?;
        let value = Literal { dtype: from.dtype, bits: u64::from_le_bytes(bytes) };
        if let Then::Tell(witness) = &mut self.then {
            witness.read(value)?;
        }
        Ok(value)
    }
}
