//! What one call of a program does, with every number computed: launches, fills and copies in order, to be repeated as they are.
//! On a GPU the steps become one CUDA graph, in which only those wait for each other that touch the same memory.

use crate::device::cuda::{CudaDevice, CudaGraph, RawStream};
use crate::device::{Bound, Device};
use crate::error::Error;
use crate::launch::order::Access;

/// One step. The memory that it names must still be there when it is issued.
pub(crate) enum Step {
    /// A kernel.
    Launch(Bound),
    /// Repeats `pattern` (1, 2, 4 or 8 bytes) over `len` bytes.
    Fill {
        /// First byte.
        address: u64,
        /// Bytes.
        len: usize,
        /// Little-endian.
        pattern: Vec<u8>,
    },
    /// Copies bytes between ranges that do not overlap.
    Copy {
        /// First byte written.
        to: u64,
        /// First byte read.
        from: u64,
        /// Bytes.
        len: usize,
    },
}

impl Step {
    /// Queues the step on the device's stream.
    fn issue(&self, device: &Device) -> Result<(), Error> {
        match self {
            Step::Launch(bound) => bound.launch(),
            Step::Fill { address, len, pattern } => device.fill_at(*address, *len, pattern),
            Step::Copy { to, from, len } => device.copy_at(*to, *from, *len),
        }
    }

    /// Queues the step on a stream of the GPU's, which may be recording.
    pub(crate) fn issue_on(&self, device: &CudaDevice, stream: RawStream) -> Result<(), Error> {
        match self {
            Step::Launch(bound) => bound.launch_on(device, stream),
            Step::Fill { address, len, pattern } => device.fill_on(stream, *address, *len, pattern),
            Step::Copy { to, from, len } => device.copy_on(stream, *to, *from, *len),
        }
    }

    /// The memory that it touches.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        let of = |address: u64, len: usize, writes| Access { bytes: address..address + len as u64, writes };
        match self {
            Step::Launch(bound) => bound.accesses().to_vec(),
            Step::Fill { address, len, .. } => vec![of(*address, *len, true)],
            Step::Copy { to, from, len } => vec![of(*to, *len, true), of(*from, *len, false)],
        }
    }

    /// Has the driver load the step's kernel, if it has not yet.
    pub(crate) fn preload(&self) {
        if let Step::Launch(bound) = self {
            bound.preload();
        }
    }
}

/// The most steps that become a graph: beyond, making it and its memory cost more than it saves.
const MOST: usize = 10_000;

/// The steps of one call.
pub(crate) struct Steps {
    steps: Vec<Step>,
    graph: Option<CudaGraph>,
    /// Why there is no graph, where several steps are issued one by one.
    pub(crate) why: Option<String>,
}

impl Steps {
    /// Makes a graph of the steps, where that is possible and asked for.
    pub(crate) fn new(device: &Device, steps: Vec<Step>, graphs: bool) -> Steps {
        let one_by_one = |why: &str| (None, Some(why.to_string()));
        let (graph, why) = match device {
            _ if steps.len() < 2 => (None, None),
            _ if !graphs => one_by_one("graphs are switched off"),
            Device::Sim(_) => one_by_one("the simulator has no graphs"),
            Device::Cuda(_) if steps.len() > MOST => {
                (None, Some(format!("a call has {} steps; a graph is made of at most {MOST}", steps.len())))
            }
            Device::Cuda(cuda) => match cuda.graph(&steps) {
                Ok(graph) => (Some(graph), None),
                Err(e) => (None, Some(format!("the driver could not record one: {e}"))),
            },
        };
        Steps { steps, graph, why }
    }

    /// Launches, fills and copies.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether they are issued as a graph.
    pub(crate) fn is_graph(&self) -> bool {
        self.graph.is_some()
    }

    /// Queues all of them.
    pub(crate) fn issue(&self, device: &Device) -> Result<(), Error> {
        match (device, &self.graph) {
            (Device::Cuda(cuda), Some(graph)) => cuda.launch_graph(graph),
            _ => self.steps.iter().try_for_each(|s| s.issue(device)),
        }
    }
}
