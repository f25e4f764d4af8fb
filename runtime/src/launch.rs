//! Launches: arguments checked, facts computed, a schedule chosen, the kernel compiled once and launched.

use crate::buffer::Buffer;
use crate::compile::Compiled;
use crate::device::{Device, Loaded};
use crate::error::Error;
use girih_core::facts::{Facts, TensorArg};
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::tile;
use girih_core::tile::host::HostArg;
use girih_core::types::{DType, Literal};
use std::sync::Arc;

/// Where launches without an explicit schedule get theirs: the tuner's store and the committed winners implement it.
pub trait ScheduleSource: Send + Sync {
    /// The best known schedule for a kernel on a device (its name and target) under these facts. It need not be legal: the
    /// launch proves that again and goes on to the next source if it is not.
    fn schedule(&self, kernel: &tile::Kernel, facts: &Facts, device: &Device) -> Option<Schedule>;
}

/// Adds a source that launches ask, in the order of addition, before they fall back to the default schedule.
pub fn add_schedule_source(_source: Arc<dyn ScheduleSource>) {
    todo!()
}

/// An argument of a launch with its memory's extent known.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A tensor: first element, lengths and strides in elements.
    Tensor {
        /// Element type.
        dtype: DType,
        /// Address, lengths, strides.
        tensor: TensorArg,
        /// The caller gave it by `&mut`.
        mutable: bool,
    },
    /// A scalar of the parameter's type.
    Scalar(Literal),
}

impl Argument {
    /// A packed tensor at byte `offset` of a buffer.
    pub fn packed(buffer: &Buffer, offset: usize, dtype: DType, lens: &[i64], mutable: bool) -> Argument {
        Argument::Tensor { dtype, tensor: TensorArg::packed(buffer.address() + offset as u64, lens), mutable }
    }
}

/// A kernel with everything that a launch needs of it, ready for some arguments.
#[derive(Clone)]
pub struct Prepared {
    /// The tile kernel.
    pub kernel: Arc<tile::Kernel>,
    /// The facts it was compiled for.
    pub facts: Facts,
    /// The schedule it was compiled under.
    pub schedule: Schedule,
    /// What was compiled.
    pub compiled: Arc<Compiled>,
    /// What is launched.
    pub loaded: Loaded,
}

/// Checks the arguments, chooses a schedule (the explicit one, else a source's, else the default), compiles and loads what is not in
/// memory yet, and queues the launch.
pub fn launch(_device: &Device, _def: &KernelDef, _schedule: Option<&Schedule>, _args: &[Argument]) -> Result<(), Error> {
    todo!()
}

/// As [`launch`] without launching: for tuners and tests that launch the same kernel many times with [`Device::launch`].
pub fn prepare(
    _device: &Device,
    _def: &KernelDef,
    _schedule: Option<&Schedule>,
    _args: &[Argument],
) -> Result<(Prepared, Vec<HostArg>), Error> {
    todo!()
}
