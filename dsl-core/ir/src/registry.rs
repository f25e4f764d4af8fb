//! Kernels and programs register themselves: every one that is linked is listed, tuned and tested without a table to maintain.

use crate::error::CompileError;
use crate::loc::SourceLoc;
use crate::tile::Kernel;
use linkme::distributed_slice;

/// One instance of one `#[kernel]` function.
#[derive(Clone, Copy, Debug)]
pub struct KernelDef {
    /// The function's name.
    pub name: &'static str,
    /// `crate::module` of the function.
    pub module: &'static str,
    /// Types of this instance: `[("T", "f32")]`.
    pub instance: &'static [(&'static str, &'static str)],
    /// The function's place.
    pub loc: SourceLoc,
    /// Builds its tile IR. Costs microseconds; callers that launch often keep the result.
    pub build: fn() -> Result<Kernel, CompileError>,
}

impl KernelDef {
    /// `crate::module::name` with the instance's types: `gallery::matmul::matmul<f32>`.
    pub fn path(&self) -> String {
        instance_path(self.module, self.name, self.instance)
    }
}

/// `crate::module::name` with an instance's types.
pub fn instance_path(module: &str, name: &str, instance: &[(&str, &str)]) -> String {
    let types: Vec<&str> = instance.iter().map(|(_, t)| *t).collect();
    let types = if types.is_empty() { String::new() } else { format!("<{}>", types.join(", ")) };
    format!("{module}::{name}{types}")
}

/// Every instance of every linked kernel.
#[distributed_slice]
pub static KERNELS: [fn() -> KernelDef];

/// Every linked program.
#[distributed_slice]
pub static PROGRAMS: [fn() -> crate::program::ProgramDef];

/// All linked kernels, sorted by path.
pub fn kernels() -> Vec<KernelDef> {
    let mut all: Vec<KernelDef> = KERNELS.iter().map(|def| def()).collect();
    all.sort_by_key(|d| d.path());
    all
}

/// All linked programs, sorted by path.
pub fn programs() -> Vec<crate::program::ProgramDef> {
    let mut all: Vec<crate::program::ProgramDef> = PROGRAMS.iter().map(|def| def()).collect();
    all.sort_by_key(|d| d.path());
    all
}
