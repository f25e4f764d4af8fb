//! Streams: the world in which typed launches run on a device.

use crate::device::Device;
use crate::device::cuda::{self, Borrowed, BorrowedMut, CudaDevice, CudaStream, DevicePtr, DevicePtrMut};
use crate::error::Error;
use crate::launch::event::Event;
use crate::launch::runners::Runners;
use crate::launch::shared_memory::{Kind, Shared};
use crate::launch::tensor::DeviceTensor;
use crate::launch::{self, Argument};
use girih_core::lang::elem::Elem;
use girih_core::lang::schedule::KernelSchedule;
use girih_core::lang::world::World;
use girih_core::program::ProgramDef;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A queue of launches on a device, with an explicit schedule or without.
///
/// Clones share the device's memory of compiled kernels and the programs' workspaces: keep one and launch often.
///
/// ```no_run
/// # use girih::cuda::cudarc::driver::{CudaSlice, CudaStream};
/// # use std::sync::Arc;
/// use girih::prelude::*;
///
/// /// y = a·x + y
/// #[kernel(tile(T = [256, 512, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
/// pub fn saxpy(a: Scalar<f32>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
///     for t in y.tiles([T]) {
///         y.store(t, a * x.load(t) + y.load(t));
///     }
/// }
///
/// # fn launch(cuda_stream: Arc<CudaStream>, x_slice: CudaSlice<f32>, mut y_slice: CudaSlice<f32>, n: usize) -> Result<(), girih::Error> {
/// let stream = girih::Stream::new(cuda_stream)?;
/// let x = stream.borrow(&x_slice, [n])?;
/// let mut y = stream.borrow_mut(&mut y_slice, [n])?;
/// saxpy(&stream, 2.0, &x, &mut y)?;
/// saxpy(&stream.with(saxpy::Schedule { t: 1024, c: 4, v: 4 }), 2.0, &x, &mut y)?;
/// # Ok(())
/// # }
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct Stream {
    device: Device,
    schedule: Option<Explicit>,
    graphs: Option<bool>,
    runners: Arc<Mutex<HashMap<RunnerOf, Runners>>>,
}

/// An instance of a program: its path, and where the names of its types lie.
type RunnerOf = (String, usize);

/// A schedule for one kernel.
#[derive(Clone)]
struct Explicit {
    /// `crate::module::name`, without instance.
    kernel: &'static str,
    schedule: Schedule,
}

impl Stream {
    /// A stream of an existing cudarc program.
    pub fn new(stream: Arc<CudaStream>) -> Result<Stream, Error> {
        Ok(Stream::on(&Device::Cuda(Arc::new(CudaDevice::on_stream(stream)?))))
    }
    /// The stream of a device.
    pub fn on(device: &Device) -> Stream {
        Stream { device: device.clone(), schedule: None, graphs: None, runners: Arc::default() }
    }
    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// The same stream, launching one kernel under exactly this schedule: `matmul(&stream.with(matmul::Schedule { bm: 64, .. }), ..)`.
    /// A schedule that is illegal for the arguments is an error; programs look their schedules up as usual.
    pub fn with<S: KernelSchedule>(&self, schedule: S) -> Stream {
        let explicit = Explicit { kernel: S::KERNEL, schedule: schedule.to_schedule() };
        Stream { schedule: Some(explicit), ..self.clone() }
    }
    /// The same stream, on which programs of several steps that read nothing back run as CUDA graphs (the default) or launch by launch.
    pub fn with_graphs(&self, graphs: bool) -> Stream {
        Stream { graphs: Some(graphs), ..self.clone() }
    }
    /// Another stream of the same device: what is queued there runs beside this one's work. Compiled kernels are shared.
    ///
    /// On the simulator work is done when a call returns, on whatever stream.
    pub fn beside(&self) -> Result<Stream, Error> {
        let device = match &self.device {
            Device::Cuda(d) => Device::Cuda(Arc::new(d.beside()?)),
            Device::Sim(d) => Device::Sim(d.clone()),
        };
        Ok(self.on_other(&device))
    }
    /// What is said of this stream, on another device.
    fn on_other(&self, device: &Device) -> Stream {
        Stream { graphs: self.graphs, schedule: self.schedule.clone(), ..Stream::on(device) }
    }
    /// Marks the end of what is queued so far: other streams may wait for it, and it has a time.
    pub fn record(&self) -> Result<Event, Error> {
        Event::record(&self.device)
    }
    /// Has what is queued from here on begin behind an event, of whatever stream of the device.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        event.hold(&self.device)
    }
    /// So many zeros in page-locked (pinned) memory of the host: copies from and to it are queued and run beside kernels, and kernels may use it
    /// where it lies ([`Shared::tensor`], mapped memory), by way of the bus.
    pub fn pinned<T: Elem>(&self, len: usize) -> Result<Shared<T>, Error> {
        Shared::new(&self.device, Kind::Pinned, len)
    }
    /// So many zeros in managed (unified) memory, whose pages move to whoever touches them; [`Stream::prefetch`] moves them ahead.
    pub fn managed<T: Elem>(&self, len: usize) -> Result<Shared<T>, Error> {
        Shared::new(&self.device, Kind::Managed, len)
    }
    /// Queues a copy of the host's elements to those from number `at` on of a packed tensor.
    ///
    /// # Errors
    /// One of them has fewer elements.
    pub fn copy_in<T: Elem, const N: usize>(
        &self,
        from: &Shared<T>,
        range: Range<usize>,
        to: &mut DeviceTensor<T, N>,
        at: usize,
    ) -> Result<(), Error> {
        let (target, _) = to.span(at..at + range.len())?;
        let (source, bytes) = from.span(range)?;
        self.copy_any(target, source, bytes)
    }
    /// Queues a copy of a packed tensor's elements to the host's from number `at` on.
    ///
    /// # Errors
    /// One of them has fewer elements.
    pub fn copy_out<T: Elem, const N: usize>(
        &self,
        from: &DeviceTensor<T, N>,
        range: Range<usize>,
        to: &mut Shared<T>,
        at: usize,
    ) -> Result<(), Error> {
        let (target, _) = to.span(at..at + range.len())?;
        let (source, bytes) = from.span(range)?;
        self.copy_any(target, source, bytes)
    }
    /// Queues a move of managed pages to the device, ahead of the kernels that touch them.
    ///
    /// # Errors
    /// It is not managed memory.
    pub fn prefetch<T: Elem>(&self, shared: &Shared<T>) -> Result<(), Error> {
        if !shared.is_managed() {
            return Err(Error::Buffer("only pages of managed memory move: page-locked memory stays where it is".into()));
        }
        let (address, bytes) = shared.span(0..shared.len())?;
        match &self.device {
            Device::Cuda(d) => d.prefetch(address, bytes),
            Device::Sim(_) => Ok(()),
        }
    }
    /// Sets a part of the L2 cache aside for a tensor that this stream's kernels read again and again; the bytes set aside, 0 on the simulator.
    /// [`Stream::let_go_of_l2`] gives it back.
    ///
    /// # Errors
    /// The tensor is not packed; the driver has no such limit (sm_75).
    pub fn keep_in_l2<T: Elem, const N: usize>(&self, tensor: &DeviceTensor<T, N>) -> Result<usize, Error> {
        let (address, bytes) = tensor.span(0..tensor.lens().iter().product::<i64>() as usize)?;
        match &self.device {
            Device::Cuda(d) => d.keep_in_l2(address, bytes),
            Device::Sim(_) => Ok(0),
        }
    }
    /// The L2 cache is nobody's again.
    pub fn let_go_of_l2(&self) -> Result<(), Error> {
        match &self.device {
            Device::Cuda(d) => d.keep_in_l2(0, 0).map(drop),
            Device::Sim(_) => Ok(()),
        }
    }
    /// The same stream, whose kernels prefer so many percent of the memory that a multiprocessor's L1 cache and shared memory have together as
    /// shared memory (the carve-out): 0 leaves the cache as much as can be. It is a hint: the driver gives at least what a block needs, in the
    /// sizes that the architecture has, and chooses by itself where nothing is said. Kernels are loaded for this stream by themselves, so keep
    /// it and launch often. Nothing changes on the simulator.
    ///
    /// # Errors
    /// More than 100.
    pub fn with_carve_out(&self, percent: u8) -> Result<Stream, Error> {
        if percent > 100 {
            return Err(Error::CarveOut(percent));
        }
        let device = match &self.device {
            Device::Cuda(d) => Device::Cuda(Arc::new(d.with_carve_out(percent))),
            Device::Sim(d) => Device::Sim(d.clone()),
        };
        Ok(self.on_other(&device))
    }
    /// Waits for all queued work; errors of kernels show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device.synchronize()
    }
    /// A packed tensor of zeros on the stream's device.
    pub fn zeros<T: Elem, const N: usize>(&self, lens: [usize; N]) -> Result<DeviceTensor<T, N>, Error> {
        DeviceTensor::zeros(&self.device, lens)
    }
    /// A packed tensor with these elements on the stream's device.
    pub fn tensor<T: Elem, const N: usize>(&self, data: &[T], lens: [usize; N]) -> Result<DeviceTensor<T, N>, Error> {
        DeviceTensor::from_slice(&self.device, data, lens)
    }
    /// A tensor's elements, after all queued work.
    pub fn read<T: Elem, const N: usize>(&self, tensor: &DeviceTensor<T, N>) -> Result<Vec<T>, Error> {
        tensor.to_vec(&self.device)
    }
    /// A cudarc slice or view as a packed tensor that kernels read.
    pub fn borrow<'a, T: Elem, const N: usize>(
        &'a self,
        slice: &'a impl DevicePtr<T>,
        lens: [usize; N],
    ) -> Result<Borrowed<'a, T, N>, Error> {
        cuda::borrow(self.cuda()?.stream(), slice, lens, None)
    }
    /// A cudarc slice or mutable view as a packed tensor that kernels may write.
    pub fn borrow_mut<'a, T: Elem, const N: usize>(
        &'a self,
        slice: &'a mut impl DevicePtrMut<T>,
        lens: [usize; N],
    ) -> Result<BorrowedMut<'a, T, N>, Error> {
        cuda::borrow_mut(self.cuda()?.stream(), slice, lens, None)
    }
    /// As [`Stream::borrow`], with strides in elements.
    pub fn borrow_strided<'a, T: Elem, const N: usize>(
        &'a self,
        slice: &'a impl DevicePtr<T>,
        lens: [usize; N],
        strides: [i64; N],
    ) -> Result<Borrowed<'a, T, N>, Error> {
        cuda::borrow(self.cuda()?.stream(), slice, lens, Some(strides))
    }
    /// As [`Stream::borrow_mut`], with strides in elements.
    pub fn borrow_strided_mut<'a, T: Elem, const N: usize>(
        &'a self,
        slice: &'a mut impl DevicePtrMut<T>,
        lens: [usize; N],
        strides: [i64; N],
    ) -> Result<BorrowedMut<'a, T, N>, Error> {
        cuda::borrow_mut(self.cuda()?.stream(), slice, lens, Some(strides))
    }

    fn copy_any(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        match &self.device {
            Device::Cuda(d) => d.copy_any(to, from, bytes),
            Device::Sim(d) => d.copy_at(to, from, bytes),
        }
    }

    fn cuda(&self) -> Result<&CudaDevice, Error> {
        match &self.device {
            Device::Cuda(d) => Ok(d),
            Device::Sim(_) => Err(Error::NoDevice("cudarc's slices lie on a GPU; this stream simulates".into())),
        }
    }
}

impl World for Stream {
    type Tensor<T: Elem, const N: usize> = DeviceTensor<T, N>;
    type Scalar<T: Elem> = T;
    type Arg<'a> = Argument;
    type Done = Result<(), Error>;

    fn read<'a, T: Elem, const N: usize>(tensor: &'a DeviceTensor<T, N>) -> Self::Arg<'a> {
        tensor.argument(false)
    }
    fn write<'a, T: Elem, const N: usize>(tensor: &'a mut DeviceTensor<T, N>) -> Self::Arg<'a> {
        tensor.argument(true)
    }
    fn scalar<'a, T: Elem>(value: T) -> Self::Arg<'a> {
        Argument::Scalar(value.literal())
    }

    fn launch(&self, kernel: KernelDef, args: Vec<Argument>) -> Result<(), Error> {
        let schedule = match &self.schedule {
            None => None,
            Some(explicit) if is_path(explicit.kernel, &kernel) => Some(&explicit.schedule),
            Some(explicit) => {
                let message = format!("the stream's schedule is one of `{}`", explicit.kernel);
                return Err(Error::Launch { kernel: kernel.path(), message, loc: kernel.loc });
            }
        };
        launch::launch(&self.device, &kernel, schedule, args)
    }

    fn run(&self, program: ProgramDef, args: Vec<Argument>) -> Result<(), Error> {
        // The types' short names may be those of other types, too; the instance is the same only where the types are.
        let path = (program.path(), program.instance.as_ptr() as usize);
        // Taken out while it runs, so that other threads may run other programs; two runs of one program have two workspaces.
        let known = self.runners.lock().unwrap_or_else(|e| e.into_inner()).remove(&path);
        let mut runners = match known {
            Some(runners) => runners,
            None => Runners::new(&self.device, (program.build)()?),
        };
        let result = runners.run(&args, self.graphs);
        self.runners.lock().unwrap_or_else(|e| e.into_inner()).insert(path, runners);
        result
    }
}

/// Whether `path` is `crate::module::name` of the kernel.
fn is_path(path: &str, kernel: &KernelDef) -> bool {
    path.strip_prefix(kernel.module).and_then(|rest| rest.strip_prefix("::")) == Some(kernel.name)
}
