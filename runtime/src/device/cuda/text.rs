//! Functions of CUDA texts that are no kernels of girih's language: compiled once, loaded once a device.

use super::function::{BoundFunction, Function, Module, Slot};
use super::{CudaDevice, check};
use crate::compile::cubin_of_text;
use crate::error::Error;
use cudarc::driver::result;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

/// A text with one function.
#[derive(Debug)]
pub struct Text {
    /// The function's name.
    pub function: &'static str,
    /// CUDA C.
    pub source: &'static str,
    /// What NVRTC is told besides what it always is.
    pub flags: &'static [&'static str],
}

/// Threads of a block, and the most blocks of a launch.
const THREADS: u32 = 256;
const BLOCKS: usize = 4096;

/// The functions that a device has loaded.
#[derive(Default)]
pub(super) struct Texts(Mutex<Vec<(&'static str, Arc<Module>)>>);

impl CudaDevice {
    /// Queues a launch over so many elements, which the function deals to whatever blocks and threads there are; with one argument in the low bytes
    /// of each word.
    pub(crate) fn launch_text(&self, text: &Text, elements: usize, words: &[u64]) -> Result<(), Error> {
        let grid = elements.div_ceil(THREADS as usize).min(BLOCKS) as u32;
        if grid == 0 {
            return Ok(());
        }
        let module = self.text(text)?;
        self.bind()?;
        let slots = words.iter().map(|w| Slot::word(*w)).collect();
        BoundFunction { slots, copies: vec![], grid, block: THREADS, cooperative: false }
            .queue(&module.functions[0], self.stream.cu_stream())
    }

    fn text(&self, text: &Text) -> Result<Arc<Module>, Error> {
        let mut loaded = self.texts.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, module)) = loaded.iter().find(|(name, _)| *name == text.function) {
            return Ok(module.clone());
        }
        let cubin = cubin_of_text(text, self.target.arch)?;
        self.bind()?;
        let name = text.function.to_string();
        // SAFETY: the cubin comes from NVRTC, or from the cache, whose checksum held.
        let handle = check(&format!("loading `{name}`"), unsafe { result::module::load_data(cubin.as_ptr().cast()) })?;
        let mut module =
            Module { context: self.context.clone(), module: handle, functions: Vec::new(), workspaces: Mutex::default(), constants: None };
        let symbol = CString::new(name.clone()).expect("a C identifier has no zero byte");
        // SAFETY: the module is loaded, and unloaded by its owner alone.
        let function = check(&format!("finding `{name}` in its cubin"), unsafe { result::module::get_function(handle, symbol) })?;
        module.functions.push(Function { name, handle: function, dynamic_shared: 0 });
        let module = Arc::new(module);
        loaded.push((text.function, module.clone()));
        Ok(module)
    }
}
