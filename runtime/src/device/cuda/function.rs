//! Loaded kernels and their launches.

use super::constants::{ConstantCopy, Constants};
use super::{CudaDevice, RawStream, check};
use crate::compile::Compiled;
use crate::error::Error;
use crate::launch::order::Access;
use crate::launch::tensor::extent;
use cudarc::driver::result;
use cudarc::driver::{CudaContext, CudaStream, sys};
use girih_core::simt::{self, ParamKind};
use girih_core::tile::host::HostArg;
use girih_core::types::DType;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex};

/// The functions of a loaded kernel. Their module is unloaded with the last clone.
#[derive(Clone)]
pub struct CudaLoaded {
    module: Arc<Module>,
}

pub(super) struct Module {
    pub(super) context: Arc<CudaContext>,
    pub(super) module: sys::CUmodule,
    /// One for each launch of the kernel, in order.
    pub(super) functions: Vec<Function>,
    pub(super) workspaces: Mutex<Vec<Workspace>>,
    /// The array that its kernels read as constant memory, where there is one.
    pub(super) constants: Option<Constants>,
}

pub(super) struct Function {
    pub(super) name: String,
    pub(super) handle: sys::CUfunction,
    pub(super) dynamic_shared: u32,
}

/// Memory that a kernel owns as one of its parameters, on one stream: launches there follow each other.
pub(super) struct Workspace {
    param: usize,
    /// Kept, so that no later stream has its handle.
    stream: Arc<CudaStream>,
    memory: Arc<OwnedMemory>,
}

/// Device memory that frees itself without the device, which holds the kernel that owns it.
struct OwnedMemory {
    context: Arc<CudaContext>,
    address: u64,
    bytes: usize,
}

impl Drop for OwnedMemory {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the address came from `alloc`, and no launch is bound to it any more. cuMemFree waits for running kernels.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

// SAFETY: CUDA's handles may be used from every thread that binds the context.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the module was loaded by `load` and nobody holds it any more. Unloading waits for running kernels.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

impl CudaLoaded {
    pub(super) fn of(module: Arc<Module>) -> CudaLoaded {
        CudaLoaded { module }
    }

    /// The array that its kernels read as constant memory.
    pub(super) fn constants(&self) -> Option<&Constants> {
        self.module.constants.as_ref()
    }

    /// A number of the driver's about the functions (registers, local bytes, ..), the largest of them.
    fn attribute(&self, attribute: sys::CUfunction_attribute_enum) -> Option<u32> {
        self.module.context.bind_to_thread().ok()?;
        // SAFETY: a function is alive as long as its module.
        let of = |f: &Function| unsafe { result::function::get_function_attribute(f.handle, attribute) }.ok();
        self.module.functions.iter().map(of).collect::<Option<Vec<i32>>>()?.into_iter().max().map(|v| v.max(0) as u32)
    }
    /// Registers per thread, as the driver loaded it.
    pub fn registers(&self) -> Option<u32> {
        self.attribute(sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }
    /// Bytes of local memory per thread: stack and spills.
    pub fn local_bytes(&self) -> Option<u32> {
        self.attribute(sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }
}

/// The launches of a kernel with their parameters.
pub(crate) struct CudaBound {
    code: CudaLoaded,
    launches: Vec<BoundFunction>,
    accesses: Vec<Access>,
    /// Memory that the kernel owns, which stays while this launch may be repeated, even where later launches needed more.
    _workspaces: Vec<Arc<OwnedMemory>>,
}

/// A launch of one function, [`Module::functions`]' of the same number.
pub(super) struct BoundFunction {
    pub(super) slots: Vec<Slot>,
    /// What is copied to constant memory in front of it.
    pub(super) copies: Vec<ConstantCopy>,
    pub(super) grid: u32,
    pub(super) block: u32,
    pub(super) cooperative: bool,
}

impl CudaBound {
    pub(crate) fn launch(&self, device: &CudaDevice) -> Result<(), Error> {
        self.launch_on(device, device.stream.cu_stream())
    }

    /// The memory that the launch reads and writes: its tensors, and what the kernel owns.
    pub(crate) fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Has the driver load the kernel now, where it would at the first launch.
    pub(crate) fn preload(&self) {
        let _ = self.code.registers();
    }

    /// Queues the launch on a stream of the device's context.
    pub(crate) fn launch_on(&self, device: &CudaDevice, stream: RawStream) -> Result<(), Error> {
        device.bind()?;
        self.code.module.functions.iter().zip(&self.launches).try_for_each(|(function, launch)| {
            launch.copies.iter().try_for_each(|copy| device.copy_on(stream, copy.to, copy.from, copy.bytes))?;
            launch.queue(function, stream)
        })
    }
}

impl BoundFunction {
    pub(super) fn queue(&self, function: &Function, stream: RawStream) -> Result<(), Error> {
        let mut pointers: Vec<*mut c_void> = self.slots.iter().map(Slot::pointer).collect();
        let Function { name, handle, dynamic_shared } = function;
        let (function, shared) = (*handle, *dynamic_shared);
        let (grid, block) = ((self.grid, 1, 1), (self.block, 1, 1));
        // SAFETY: the parameters' number, order and sizes are those of the kernel's signature, which was printed from the same
        // list; the driver only reads them. That accesses stay inside of the tensors is what the facts and requirements promise;
        // callers proved them.
        let launched = unsafe {
            if self.cooperative {
                result::launch_cooperative_kernel(function, grid, block, shared, stream, &mut pointers)
            } else {
                result::launch_kernel(function, grid, block, shared, stream, &mut pointers)
            }
        };
        match launched {
            Ok(()) => Ok(()),
            Err(e) => check(&format!("launching `{name}` ({} blocks of {} threads)", self.grid, self.block), Err(e)),
        }
    }
}

/// The bytes of a tensor that a kernel may touch through a parameter.
fn access(param: &simt::Param, args: &[HostArg]) -> Option<Access> {
    let (tensor, dtype, writable) = match &param.kind {
        ParamKind::Pointer { tensor, dtype, writable, .. } => (tensor, dtype, writable),
        ParamKind::Constant { tensor, dtype, .. } => (tensor, dtype, &false),
        ParamKind::Scalar { .. } | ParamKind::Host { .. } | ParamKind::Workspace { .. } | ParamKind::TensorMap { .. } => return None,
    };
    let Some(HostArg::Tensor(t)) = args.get(*tensor) else { return None };
    let (first, end) = extent(t);
    let at = |element: i64| t.address.wrapping_add_signed(element * dtype.size() as i64);
    Some(Access { bytes: at(first)..at(end), writes: *writable })
}

/// The value of one kernel parameter, where the driver reads it.
pub(super) enum Slot {
    /// A pointer or a number; a narrower one is the first bytes.
    Word(Word),
    /// A tensor map.
    Map(Box<sys::CUtensorMap>),
}

/// Eight bytes, little-endian.
#[repr(C, align(8))]
pub(super) struct Word([u8; 8]);

impl Slot {
    /// A pointer or a number.
    pub(super) fn word(bits: u64) -> Slot {
        Slot::Word(Word(bits.to_le_bytes()))
    }

    fn pointer(&self) -> *mut c_void {
        match self {
            Slot::Word(word) => (word as *const Word).cast_mut().cast(),
            Slot::Map(map) => (&**map as *const sys::CUtensorMap).cast_mut().cast(),
        }
    }
}

impl CudaDevice {
    pub(crate) fn load(&self, compiled: &Compiled) -> Result<CudaLoaded, Error> {
        let name = girih_core::cuda::function_name(&compiled.simt);
        let Some(cubin) = &compiled.cubin else {
            return Err(Error::NoDevice(format!("kernel `{name}` was compiled without a cubin, which {} needs", self.name())));
        };
        self.module(&compiled.simt, cubin).map(|module| CudaLoaded { module: Arc::new(module) })
    }

    /// A module with the functions of a kernel.
    pub(super) fn module(&self, kernel: &Arc<simt::Kernel>, cubin: &Arc<Vec<u8>>) -> Result<Module, Error> {
        let name = girih_core::cuda::function_name(kernel);
        self.bind()?;
        // SAFETY: the cubin comes from NVRTC, or from the cache, whose checksum held.
        let module = check(&format!("loading `{name}`"), unsafe { result::module::load_data(cubin.as_ptr().cast()) })?;
        let functions: Result<Vec<Function>, Error> = kernel.launches().map(|launch| self.function(module, launch)).collect();
        let parts = functions.and_then(|functions| Ok((functions, Constants::of(module, kernel, cubin)?)));
        let (functions, constants) = parts.inspect_err(|_| {
            // SAFETY: as above; the module is not used any more.
            let _ = unsafe { result::module::unload(module) };
        })?;
        Ok(Module { context: self.context.clone(), module, functions, workspaces: Mutex::default(), constants })
    }

    /// The function of a launch in a module that was loaded just now.
    fn function(&self, module: sys::CUmodule, launch: &simt::Kernel) -> Result<Function, Error> {
        let name = girih_core::cuda::function_name(launch);
        let symbol = CString::new(name.clone()).expect("a C identifier has no zero byte");
        // SAFETY: the caller has loaded the module.
        let handle = check(&format!("finding `{name}` in its cubin"), unsafe { result::module::get_function(module, symbol) })?;
        let dynamic_shared = if girih_core::cuda::has_dynamic_shared(launch) { launch.shared_bytes() } else { 0 };
        if dynamic_shared > 0 {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            let set = unsafe { result::function::set_function_attribute(handle, attribute, dynamic_shared as i32) };
            check(&format!("asking for {dynamic_shared} bytes of shared memory for `{name}`"), set)?;
        }
        if let Some(percent) = self.carve_out {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
            // SAFETY: as above.
            let set = unsafe { result::function::set_function_attribute(handle, attribute, i32::from(percent)) };
            check(&format!("asking for a carve-out of {percent} % for `{name}`"), set)?;
        }
        Ok(Function { name, handle, dynamic_shared })
    }

    pub(crate) fn launch(&self, kernel: &simt::Kernel, code: &CudaLoaded, args: &[HostArg]) -> Result<(), Error> {
        match self.bound(kernel, code, args)? {
            Some(bound) => bound.launch(self),
            None => Ok(()),
        }
    }

    /// A kernel's launches up to the driver's calls; `None` for a grid of 0 blocks.
    pub(crate) fn bound(&self, kernel: &simt::Kernel, code: &CudaLoaded, args: &[HostArg]) -> Result<Option<CudaBound>, Error> {
        let multiprocessors = self.target().multiprocessors as i64;
        if kernel.launch.grid.eval(args, multiprocessors) <= 0 {
            return Ok(None);
        }
        let code = &self.own_module(code)?;
        let mut workspaces = Vec::new();
        for (param, bytes) in kernel.workspaces(args, multiprocessors) {
            workspaces.push((param, self.workspace(code, param, bytes)?));
        }
        let own = workspaces.iter().map(|(_, m)| Access { bytes: m.address..m.address + m.bytes as u64, writes: true });
        let own = own.chain(code.constants().map(Constants::access));
        let accesses = own.chain(kernel.params.iter().filter_map(|p| access(p, args))).collect();
        let owned = |name: &str| {
            let at = kernel.workspace_named(name)?;
            workspaces.iter().find(|(p, _)| *p == at).map(|(_, memory)| Slot::word(memory.address))
        };
        let bind = |launch| self.bound_function(launch, code, args, &owned);
        let launches: Vec<BoundFunction> = kernel.launches().map(bind).collect::<Result<_, _>>()?;
        for (launch, (function, bound)) in kernel.launches().zip(code.module.functions.iter().zip(&launches)) {
            if bound.cooperative {
                let resident = self.resident(function, bound.block)? * multiprocessors;
                crate::device::check_resident(launch, bound.grid, resident)?;
            }
        }
        let _workspaces = workspaces.into_iter().map(|(_, memory)| memory).collect();
        Ok(Some(CudaBound { code: code.clone(), launches, accesses, _workspaces }))
    }

    /// One launch; `owned` gives the memory that the kernel owns by a name.
    fn bound_function(
        &self,
        launch: &simt::Kernel,
        code: &CudaLoaded,
        args: &[HostArg],
        owned: &dyn Fn(&str) -> Option<Slot>,
    ) -> Result<BoundFunction, Error> {
        let multiprocessors = self.target().multiprocessors as i64;
        let grid = launch.launch.grid.eval(args, multiprocessors);
        let Some(grid) = i32::try_from(grid).ok().map(|g| g as u32) else {
            return Err(Error::Launch {
                kernel: launch.name.clone(),
                message: format!("the grid has {grid} blocks; a launch has at most {}", i32::MAX),
                loc: launch.provenance.loc,
            });
        };
        let slot = |param: &simt::Param| match &param.kind {
            ParamKind::Workspace { .. } => {
                Ok(owned(&param.name).unwrap_or_else(|| panic!("launch: {} of {} has no memory", param.name, launch.name)))
            }
            _ => self.slot(launch, param, args, multiprocessors),
        };
        let passed = launch.params.iter().filter(|param| !matches!(param.kind, ParamKind::Constant { .. }));
        let slots = passed.map(slot).collect::<Result<_, _>>()?;
        let copies = code.constants().map_or(Ok(vec![]), |constants| constants.copies(launch, args))?;
        Ok(BoundFunction { slots, copies, grid, block: launch.launch.block, cooperative: launch.launch.cooperative })
    }

    /// Blocks of so many threads that a multiprocessor holds at once.
    fn resident(&self, function: &Function, threads: u32) -> Result<i64, Error> {
        self.bind()?;
        // SAFETY: the function is alive as long as its module.
        let found = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(function.handle, threads as i32, function.dynamic_shared as usize)
        };
        check(&format!("asking how many blocks of `{}` a multiprocessor holds", function.name), found).map(i64::from)
    }

    /// The memory that a kernel owns as its parameter on this stream, at least `bytes` long; new memory is zero.
    fn workspace(&self, code: &CudaLoaded, param: usize, bytes: usize) -> Result<Arc<OwnedMemory>, Error> {
        let mut all = code.module.workspaces.lock().unwrap_or_else(|e| e.into_inner());
        let mine = |w: &Workspace| w.param == param && w.stream.cu_stream() == self.stream.cu_stream();
        let found = all.iter().position(mine);
        if let Some(there) = found.map(|i| &all[i].memory).filter(|m| m.bytes >= bytes) {
            return Ok(there.clone());
        }
        let address = self.alloc(bytes)?;
        let memory = Arc::new(OwnedMemory { context: self.context.clone(), address, bytes });
        self.fill_at(address, bytes, &[0])?;
        if let Some(i) = found {
            all.swap_remove(i);
        }
        all.push(Workspace { param, stream: self.stream.clone(), memory: memory.clone() });
        Ok(memory)
    }

    fn slot(&self, kernel: &simt::Kernel, param: &simt::Param, args: &[HostArg], multiprocessors: i64) -> Result<Slot, Error> {
        let wrong = |found: &str| Error::Launch {
            kernel: kernel.name.clone(),
            message: format!("parameter `{}` cannot take {found}", param.name),
            loc: kernel.provenance.loc,
        };
        let bits = match &param.kind {
            ParamKind::Pointer { tensor, .. } => match args.get(*tensor) {
                Some(HostArg::Tensor(t)) => t.address,
                Some(HostArg::Scalar(_)) => return Err(wrong("a scalar")),
                None => return Err(wrong("an argument that is missing")),
            },
            ParamKind::Scalar { scalar, .. } => match args.get(*scalar) {
                Some(HostArg::Scalar(l)) => l.bits,
                Some(HostArg::Tensor(_)) => return Err(wrong("a tensor")),
                None => return Err(wrong("an argument that is missing")),
            },
            ParamKind::Host { dtype, value } => {
                let value = value.eval(args, multiprocessors);
                if *dtype == DType::I32 && i32::try_from(value).is_err() {
                    return Err(wrong(&format!("{value}: the kernel was compiled for 32-bit indices")));
                }
                value as u64
            }
            ParamKind::Constant { .. } => panic!("launch: {} lies in constant memory, which `copies` fills", param.name),
            ParamKind::Workspace { .. } => panic!("launch: {} is memory of the kernel's own, which `bound_function` provides", param.name),
            ParamKind::TensorMap { map } => match args.get(map.tensor) {
                Some(HostArg::Tensor(t)) => {
                    return super::tensor_map::encode(&kernel.name, map, t.address, args, multiprocessors).map(Slot::Map);
                }
                _ => return Err(wrong("anything but a tensor")),
            },
        };
        Ok(Slot::word(bits))
    }
}
