//! The same launches on the GPU of this machine, where there is one.

use super::{After, Argument, Launch, elements};
use girih::inputs::POISON;
use girih::{Buffer, Compiled, Device, Loaded};
use girih_core::sim;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::host::HostArg;
use std::sync::OnceLock;

/// The GPU that code for [`Target::h200`] runs on, if this machine has one.
fn hopper() -> Option<&'static Device> {
    static GPU: OnceLock<Option<Device>> = OnceLock::new();
    let found = || {
        let gpu = Device::cuda(0).ok()?;
        let fits = gpu.target().arch == Target::h200().arch;
        if !fits {
            println!("not tried on {}: the code is for {}", gpu.name(), Target::h200().name);
        }
        fits.then_some(gpu)
    };
    GPU.get_or_init(found).as_ref()
}

/// A lowered kernel that the GPU of this machine has loaded.
pub struct OnGpu {
    gpu: &'static Device,
    kernel: Loaded,
}

impl OnGpu {
    /// Compiled by NVRTC; `None` where no GPU is.
    pub fn new(kernel: &simt::Kernel) -> Option<OnGpu> {
        let gpu = hopper()?;
        let loaded = Compiled::of(kernel.clone(), gpu.target()).with_cubin().and_then(|compiled| gpu.load(&compiled));
        Some(OnGpu { gpu, kernel: loaded.unwrap_or_else(|e| panic!("{}: {e}", kernel.name)) })
    }

    /// The GPU's name.
    pub fn name(&self) -> String {
        self.gpu.name()
    }
}

impl Launch {
    /// Memory after the launch: by the simulator, and by the GPU where there is one.
    pub fn everywhere(&self, kernel: &simt::Kernel, fuel: u64) -> Result<Vec<After>, String> {
        let mut all = vec![self.simulate(kernel, fuel).map_err(|trap| trap.to_string())?];
        if let Some(kernel) = OnGpu::new(kernel) {
            all.push(self.on(&kernel)?);
        }
        Ok(all)
    }

    /// Runs a loaded kernel on the GPU.
    pub fn on(&self, kernel: &OnGpu) -> Result<After, String> {
        self.try_on(kernel.gpu, &kernel.kernel).map_err(|e| format!("on {}: {e}", kernel.name()))
    }

    fn try_on(&self, gpu: &Device, kernel: &Loaded) -> Result<After, girih::Error> {
        let buffers: Vec<Buffer> = self.buffers.iter().map(|b| gpu.alloc(b.len())).collect::<Result<_, _>>()?;
        for (buffer, bytes) in buffers.iter().zip(&self.buffers) {
            gpu.upload(buffer, 0, bytes)?;
        }
        let mut left = buffers.iter();
        let arg = |arg: &Argument| match arg.host() {
            HostArg::Tensor(mut t) => {
                t.address += left.next().expect("a buffer per tensor").address();
                HostArg::Tensor(t)
            }
            scalar => scalar,
        };
        let args: Vec<HostArg> = self.args.iter().map(arg).collect();
        gpu.launch(kernel, &args)?;
        gpu.synchronize()?;
        let mut after = Vec::new();
        for buffer in &buffers {
            let mut bytes = vec![0; buffer.bytes()];
            gpu.download(buffer, 0, &mut bytes)?;
            after.push(bytes);
        }
        Ok(self.found(&after))
    }

    /// Memory as the simulator would leave it: what still holds poison was never written.
    fn found(&self, buffers: &[Vec<u8>]) -> After {
        let mut memory = sim::Memory::new();
        let mut buffers = buffers.iter();
        let ids = self.args.iter().map(|arg| {
            let Argument::Tensor { dtype, shape, read, .. } = arg else { return None };
            let bytes = buffers.next().expect("a buffer per tensor");
            let id = memory.from_bytes(bytes);
            let mut own = vec![false; bytes.len()];
            for at in elements(shape, dtype.size()) {
                own[at..at + dtype.size()].fill(true);
                if !read && bytes[at..at + dtype.size()].iter().all(|b| *b == POISON) {
                    memory.forget(id, at, dtype.size());
                }
            }
            (0..bytes.len()).filter(|at| !own[*at] && bytes[*at] == POISON).for_each(|at| memory.forget(id, at, 1));
            Some(id)
        });
        let ids = ids.collect();
        After { memory, ids, first: None }
    }
}
