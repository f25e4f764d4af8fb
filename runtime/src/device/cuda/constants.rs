//! Constant memory of modules. The array is the module's, and a launch fills it: of two streams that launched one module at the same time,
//! one would overwrite what the other's kernel reads. So each stream has a module of its own.

use super::function::{CudaLoaded, Module};
use super::{CudaDevice, check};
use crate::error::Error;
use crate::launch::order::Access;
use cudarc::driver::{CudaStream, result, sys};
use girih_core::cuda::CONSTANT_MEMORY;
use girih_core::simt;
use girih_core::tile::host::HostArg;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

/// The array of a module that its kernels read as constant memory.
pub(super) struct Constants {
    address: u64,
    bytes: usize,
    /// What modules of other streams are loaded from.
    cubin: Arc<Vec<u8>>,
    kernel: Arc<simt::Kernel>,
    /// Streams are kept, so that no later one has their handle.
    modules: Mutex<Owners<Arc<CudaStream>, Arc<Module>>>,
}

impl Constants {
    /// The array of a module that was loaded just now; nothing where its kernels read none.
    pub(super) fn of(module: sys::CUmodule, kernel: &Arc<simt::Kernel>, cubin: &Arc<Vec<u8>>) -> Result<Option<Constants>, Error> {
        if kernel.launches().all(|launch| simt::constant_offsets(&launch.params).1 == 0) {
            return Ok(None);
        }
        let symbol = CString::new(CONSTANT_MEMORY).expect("a C identifier has no zero byte");
        // SAFETY: the caller has loaded the module.
        let found = check(&format!("finding `{CONSTANT_MEMORY}` in a cubin"), unsafe { result::module::get_global(module, symbol) });
        let (address, bytes) = found?;
        Ok(Some(Constants { address, bytes, cubin: cubin.clone(), kernel: kernel.clone(), modules: Mutex::default() }))
    }

    /// A launch overwrites it.
    pub(super) fn access(&self) -> Access {
        Access { bytes: self.address..self.address + self.bytes as u64, writes: true }
    }

    /// What a launch copies there.
    ///
    /// # Errors
    /// A tensor has more than there is room for: the arguments do not keep what the kernel's facts promise.
    pub(super) fn copies(&self, launch: &simt::Kernel, args: &[HostArg]) -> Result<Vec<ConstantCopy>, Error> {
        let mut copies = Vec::new();
        for copy in launch.constant_copies(args) {
            let wrong = |message| Error::Launch { kernel: launch.name.clone(), message, loc: launch.provenance.loc };
            launch.check_room(&copy).map_err(wrong)?;
            if let Some(HostArg::Tensor(t)) = args.get(copy.tensor) {
                copies.push(ConstantCopy { from: t.address, to: self.address + u64::from(copy.at), bytes: copy.bytes });
            }
        }
        Ok(copies)
    }
}

/// A copy in front of a launch.
pub(super) struct ConstantCopy {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: usize,
}

/// Who has what: the first one what there is, each other one something made for it.
struct Owners<K, V> {
    first: Option<K>,
    others: Vec<(K, V)>,
}

impl<K, V> Default for Owners<K, V> {
    fn default() -> Owners<K, V> {
        Owners { first: None, others: Vec::new() }
    }
}

impl<K, V: Clone> Owners<K, V> {
    /// What `key` has: nothing made for it where it came first.
    fn of<E>(&mut self, key: &K, same: impl Fn(&K, &K) -> bool, make: impl FnOnce() -> Result<V, E>) -> Result<Option<V>, E>
    where
        K: Clone,
    {
        if same(self.first.get_or_insert_with(|| key.clone()), key) {
            return Ok(None);
        }
        if let Some((_, there)) = self.others.iter().find(|(other, _)| same(other, key)) {
            return Ok(Some(there.clone()));
        }
        let made = make()?;
        self.others.push((key.clone(), made.clone()));
        Ok(Some(made))
    }
}

impl CudaDevice {
    /// The module that launches on this stream run: the one at hand where its kernels fill no constant memory, else one that no other stream has.
    pub(super) fn own_module(&self, code: &CudaLoaded) -> Result<CudaLoaded, Error> {
        let Some(constants) = code.constants() else { return Ok(code.clone()) };
        let mut modules = constants.modules.lock().unwrap_or_else(|e| e.into_inner());
        let same = |a: &Arc<CudaStream>, b: &Arc<CudaStream>| a.cu_stream() == b.cu_stream();
        let made = modules.of(&self.stream, same, || self.module(&constants.kernel, &constants.cubin).map(Arc::new))?;
        Ok(made.map_or_else(|| code.clone(), CudaLoaded::of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_a_module_of_its_own() {
        let (mut owners, mut made) = (Owners::default(), 0);
        let mut of = |stream: u64| {
            let module = owners.of(
                &stream,
                |a, b| a == b,
                || {
                    made += 1;
                    Ok::<i32, ()>(made)
                },
            );
            module.expect("nothing fails")
        };
        assert_eq!([of(7), of(8), of(7), of(9), of(8)], [None, Some(1), None, Some(2), Some(1)]);
        let failed = owners.of(&10, |a, b| a == b, || Err("no memory"));
        assert_eq!(failed, Err("no memory"));
        assert_eq!(owners.of(&10, |a, b| a == b, || Ok::<i32, ()>(3)), Ok(Some(3)));
    }
}
