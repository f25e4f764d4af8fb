//! The simulator as a device: host memory with addresses of its own.

use crate::compile::Compiled;
use crate::error::Error;
use crate::launch::Kernels;
use girih_core::bug::contained;
use girih_core::sim::{self, BufferId, Memory, Options, Report, TrapKind};
use girih_core::simt::{self, ParamKind};
use girih_core::target::Target;
use girih_core::tile::host::HostArg;
use girih_core::types::{DType, Literal};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// First address: far from 0, so that a small number is never mistaken for a pointer.
const FIRST: u64 = 1 << 32;
/// Between two buffers, so that an address just beyond the end of one lies in none.
const GAP: u64 = 256;

/// The simulator with the limits of a target.
pub struct SimDevice {
    target: Target,
    options: Options,
    kernels: Kernels,
    state: Mutex<State>,
}

/// A kernel ready to be simulated.
#[derive(Clone)]
pub struct SimLoaded {
    /// One for each launch of the kernel, in order; the first one owns its memory.
    programs: Vec<Arc<sim::Program>>,
}

/// One launch that was simulated while launches were recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchReport {
    /// The kernel's function in the CUDA C.
    pub function: String,
    /// Blocks.
    pub grid: u32,
    /// Threads per block.
    pub block: u32,
    /// The schedule as its attribute.
    pub schedule: String,
    /// What the launch did.
    pub report: Report,
}

#[derive(Default)]
struct State {
    memory: Memory,
    /// Buffers by address, with their length.
    live: BTreeMap<u64, (BufferId, usize)>,
    next: u64,
    last: Option<Report>,
    /// Launches since recording began; nothing is recorded without.
    recorded: Option<Vec<LaunchReport>>,
    workspaces: Vec<Workspace>,
}

/// Memory that a kernel owns as one of its parameters.
struct Workspace {
    /// While the kernel is loaded, no other has its address.
    kernel: Weak<sim::Program>,
    param: usize,
    /// Exactly as long as the last launch asked for, so that every access beyond is a trap.
    buffer: BufferId,
    /// What longer launches left behind it.
    beyond: Vec<u8>,
}

impl State {
    /// The buffer that holds `len` bytes at an address, and the offset there.
    fn find(&self, address: u64, len: usize) -> Result<(BufferId, usize), Error> {
        let found = self.live.range(..=address).next_back();
        match found {
            Some((start, (buffer, size))) if (address - start) as usize + len <= *size => Ok((*buffer, (address - start) as usize)),
            _ => Err(Error::Buffer(format!("{len} bytes at {address:#x} lie in no buffer of the simulator"))),
        }
    }

    /// The memory that a kernel owns as its parameter, `len` bytes long.
    fn workspace(&mut self, kernel: &Arc<sim::Program>, param: usize, len: usize) -> BufferId {
        let State { memory, workspaces, .. } = self;
        workspaces.retain(|w| {
            let alive = w.kernel.strong_count() > 0;
            if !alive {
                memory.free(w.buffer);
            }
            alive
        });
        let found = workspaces.iter().position(|w| w.param == param && w.kernel.as_ptr() == Arc::as_ptr(kernel));
        let at = found.unwrap_or_else(|| {
            let (kernel, buffer) = (Arc::downgrade(kernel), memory.alloc(0));
            workspaces.push(Workspace { kernel, param, buffer, beyond: Vec::new() });
            workspaces.len() - 1
        });
        let Workspace { buffer, beyond, .. } = &mut workspaces[at];
        let (buffer, before) = (*buffer, memory.len(*buffer));
        if len <= before {
            let cut = memory.read(buffer, len, before - len).to_vec();
            beyond.splice(0..0, cut);
            memory.resize(buffer, len);
        } else if len - before <= beyond.len() {
            memory.resize(buffer, len);
            let back: Vec<u8> = beyond.drain(..len - before).collect();
            memory.write(buffer, before, &back);
        } else {
            memory.resize(buffer, len);
            memory.fill(buffer, 0, len, 0);
            beyond.clear();
        }
        buffer
    }

    /// Forgets what a kernel that trapped left in its memory.
    fn drop_workspaces(&mut self, kernel: &Arc<sim::Program>) {
        let State { memory, workspaces, .. } = self;
        workspaces.retain(|w| {
            let other = w.kernel.as_ptr() != Arc::as_ptr(kernel);
            if !other {
                memory.free(w.buffer);
            }
            other
        });
    }
}

impl SimDevice {
    pub(crate) fn new(target: &Target) -> SimDevice {
        let options = Options { count: true, ..Options::default() };
        SimDevice { target: target.clone(), options, kernels: Kernels::default(), state: Mutex::default() }
    }
    /// The same with other limits of the run: seed, fuel, whether to count.
    pub fn with_options(target: &Target, options: Options) -> SimDevice {
        SimDevice { options, ..SimDevice::new(target) }
    }
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Counters of the last launch, and its number of steps.
    pub fn last_report(&self) -> Option<Report> {
        self.state().last.clone()
    }

    /// From now on every launch is kept for [`SimDevice::recorded`]; what was kept before is dropped.
    pub fn record(&self) {
        self.state().recorded = Some(Vec::new());
    }

    /// The launches since [`SimDevice::record`], in order; launches of no blocks are none.
    pub fn recorded(&self) -> Vec<LaunchReport> {
        self.state().recorded.clone().unwrap_or_default()
    }

    /// Marks bytes as never written: a kernel that reads them before it writes them traps.
    pub fn forget(&self, address: u64, len: usize) -> Result<(), Error> {
        let mut state = self.state();
        let (buffer, offset) = state.find(address, len)?;
        state.memory.forget(buffer, offset, len);
        Ok(())
    }

    pub(crate) fn alloc(&self, bytes: usize) -> Result<u64, Error> {
        let mut state = self.state();
        let address = state.next.max(FIRST);
        state.next = (address + bytes as u64 + GAP).next_multiple_of(256);
        let buffer = state.memory.alloc(bytes);
        state.live.insert(address, (buffer, bytes));
        Ok(address)
    }

    pub(crate) fn release(&self, address: u64) {
        let mut state = self.state();
        if let Some((buffer, _)) = state.live.remove(&address) {
            state.memory.free(buffer);
        }
    }

    pub(crate) fn write_at(&self, address: u64, data: &[u8]) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        let (buffer, offset) = state.find(address, data.len())?;
        state.memory.write(buffer, offset, data);
        Ok(())
    }

    pub(crate) fn read_at(&self, address: u64, data: &mut [u8]) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        let state = self.state();
        let (buffer, offset) = state.find(address, data.len())?;
        data.copy_from_slice(state.memory.read(buffer, offset, data.len()));
        Ok(())
    }

    pub(crate) fn fill_at(&self, address: u64, len: usize, pattern: &[u8]) -> Result<(), Error> {
        self.write_at(address, &pattern.repeat(len / pattern.len()))
    }

    pub(crate) fn copy_at(&self, to: u64, from: u64, len: usize) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let mut state = self.state();
        let ((from, from_offset), (to, to_offset)) = (state.find(from, len)?, state.find(to, len)?);
        state.memory.copy(from, from_offset, to, to_offset, len);
        Ok(())
    }

    pub(crate) fn load(&self, compiled: &Compiled) -> Result<SimLoaded, Error> {
        let decode = || compiled.simt.launches().map(|launch| Arc::new(sim::Program::decode(launch))).collect();
        Ok(SimLoaded { programs: contained(decode).map_err(|panic| panicked(&compiled.simt, &panic))? })
    }

    pub(crate) fn launch(&self, kernel: &simt::Kernel, code: &SimLoaded, args: &[HostArg]) -> Result<(), Error> {
        let multiprocessors = self.target.multiprocessors as i64;
        if kernel.launch.grid.eval(args, multiprocessors) <= 0 {
            return Ok(());
        }
        let mut state = self.state();
        let owner = &code.programs[0];
        let workspaces: Vec<(usize, BufferId)> =
            kernel.workspaces(args, multiprocessors).into_iter().map(|(p, len)| (p, state.workspace(owner, p, len))).collect();
        let owned = |name: &str| {
            let at = kernel.workspace_named(name)?;
            workspaces.iter().find(|(p, _)| *p == at).map(|(_, buffer)| *buffer)
        };
        for (launch, program) in kernel.launches().zip(&code.programs) {
            let (grid, arguments) = self.arguments(&state, launch, args, &owned)?;
            let result = contained(|| sim::simulate(program, grid, &arguments, &mut state.memory, &self.options)).map_err(|panic| {
                state.drop_workspaces(owner);
                panicked(launch, &panic)
            })?;
            let report = result.map_err(|trap| {
                state.drop_workspaces(owner);
                let kernel = launch.name.clone();
                match trap.kind {
                    TrapKind::FuelExhausted { fuel } => Error::Unfinished { kernel, steps: fuel },
                    _ => Error::Trap { kernel, message: trap.to_string() },
                }
            })?;
            if let Some(recorded) = &mut state.recorded {
                recorded.push(LaunchReport {
                    function: girih_core::cuda::function_name(launch),
                    grid,
                    block: launch.launch.block,
                    schedule: launch.provenance.schedule.clone(),
                    report: report.clone(),
                });
            }
            state.last = Some(report);
        }
        Ok(())
    }

    /// The blocks of a launch and its arguments; `owned` gives the memory that its kernel owns by a name.
    fn arguments(
        &self,
        state: &State,
        launch: &simt::Kernel,
        args: &[HostArg],
        owned: &dyn Fn(&str) -> Option<BufferId>,
    ) -> Result<(u32, Vec<sim::Arg>), Error> {
        let multiprocessors = self.target.multiprocessors as i64;
        let wrong = |message: String| Error::Launch { kernel: launch.name.clone(), message, loc: launch.provenance.loc };
        let grid = launch.launch.grid.eval(args, multiprocessors);
        let Some(grid) = i32::try_from(grid).ok().map(|g| g as u32) else {
            return Err(wrong(format!("the grid has {grid} blocks; a launch has at most {}", i32::MAX)));
        };
        if launch.launch.cooperative {
            let each = self.target.resident_blocks(launch.launch.block, launch.shared_bytes());
            super::check_resident(launch, grid, i64::from(each) * multiprocessors)?;
        }
        let copies = launch.constant_copies(args);
        let argument = |param: &simt::Param| -> Result<sim::Arg, Error> {
            let tensor = |index: usize| match args.get(index) {
                Some(HostArg::Tensor(t)) => pointer(state, t.address),
                _ => Err(wrong(format!("parameter `{}` needs a tensor", param.name))),
            };
            match &param.kind {
                ParamKind::Pointer { tensor: t, .. } => tensor(*t),
                ParamKind::Workspace { .. } => {
                    let found = owned(&param.name);
                    let buffer = found.unwrap_or_else(|| panic!("simulator: {} of {} has no memory", param.name, launch.name));
                    Ok(sim::Arg::Buffer { buffer, offset: 0 })
                }
                ParamKind::Constant { .. } => {
                    let found = copies.iter().find(|c| std::ptr::eq(&launch.params[c.param], param));
                    let copy = found.ok_or_else(|| wrong(format!("parameter `{}` needs a tensor", param.name)))?;
                    launch.check_room(copy).map_err(wrong)?;
                    let sim::Arg::Buffer { buffer, offset } = tensor(copy.tensor)? else {
                        return Err(wrong("a copy to constant memory needs a tensor".into()));
                    };
                    Ok(sim::Arg::Constant { buffer, offset, bytes: copy.bytes })
                }
                ParamKind::TensorMap { map } => {
                    let sim::Arg::Buffer { buffer, offset } = tensor(map.tensor)? else {
                        return Err(wrong("a tensor map needs a tensor".into()));
                    };
                    let (lens, strides) = map.extents(args, multiprocessors);
                    Ok(sim::Arg::Map { buffer, offset, lens, strides })
                }
                ParamKind::Scalar { scalar, .. } => match args.get(*scalar) {
                    Some(HostArg::Scalar(l)) => Ok(sim::Arg::Scalar(*l)),
                    _ => Err(wrong(format!("parameter `{}` needs a scalar", param.name))),
                },
                ParamKind::Host { dtype, value } => {
                    let value = value.eval(args, multiprocessors);
                    if *dtype == DType::I32 && i32::try_from(value).is_err() {
                        return Err(wrong(format!(
                            "parameter `{}` cannot take {value}: the kernel was compiled for 32-bit indices",
                            param.name
                        )));
                    }
                    Ok(sim::Arg::Scalar(Literal::from_i64(*dtype, value)))
                }
            }
        };
        Ok((grid, launch.params.iter().map(argument).collect::<Result<_, _>>()?))
    }
}

/// A pointer argument. An empty tensor may point just beyond its buffer; nothing reads there.
fn pointer(state: &State, address: u64) -> Result<sim::Arg, Error> {
    let (buffer, offset) = state.find(address, 0)?;
    Ok(sim::Arg::Buffer { buffer, offset: offset as u64 })
}

/// A fault of the simulator: it costs the launch, and nothing else.
fn panicked(kernel: &simt::Kernel, panic: &str) -> Error {
    Error::Trap { kernel: kernel.name.clone(), message: format!("a fault of girih, not of the kernel: the simulator panicked: {panic}") }
}
