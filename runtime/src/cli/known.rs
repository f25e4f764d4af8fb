//! The tuner's store as commands read it: what it has that was tuned under another driver, NVRTC or girih, or at other clocks, is told of.

use crate::compile::nvrtc;
use crate::device::cuda::Gpu;
use crate::store::Store;
use crate::store::provenance::Provenance;
use std::sync::OnceLock;

/// The user's store; nothing where it cannot be opened.
pub(super) fn store() -> Option<Store> {
    static HERE: OnceLock<Provenance> = OnceLock::new();
    let here = HERE.get_or_init(|| Gpu::look(0).map_or_else(|_| Provenance::default(), |gpu| provenance(&gpu)));
    Store::open_default().ok().map(|store| store.read_at(here.clone()))
}

/// Under which driver, NVRTC and clocks a GPU's times are measured now.
pub(super) fn provenance(gpu: &Gpu) -> Provenance {
    let (driver, clocks) = gpu.driver_and_clocks();
    let nvrtc = nvrtc::identity().ok().map(|i| format!("{}.{}", i.version.0, i.version.1));
    let clocks = clocks.map(|(multiprocessors, memory)| format!("{multiprocessors}/{memory} MHz"));
    Provenance { driver: driver.unwrap_or_default(), nvrtc: nvrtc.unwrap_or_default(), clocks: clocks.unwrap_or_default() }
}
