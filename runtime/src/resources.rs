//! What a compiled kernel uses: ptxas's report (`-v`) as numbers.

/// Registers and memory of one compiled kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct Resources {
    /// 32-bit registers per thread.
    pub registers: u32,
    /// Bytes per thread of registers stored to local memory.
    pub spill_store_bytes: u32,
    /// Bytes per thread loaded back from local memory.
    pub spill_load_bytes: u32,
    /// Bytes of static shared memory per block.
    pub shared_bytes: u32,
    /// Bytes of stack per thread.
    pub stack: u32,
}
