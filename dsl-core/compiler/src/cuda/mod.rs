//! The CUDA C emitter: SIMT IR as text. It decides nothing and cannot fail.
//!
//! The text includes nothing, so NVRTC needs no header. Names come from the source, helpers are printed only if used, and the
//! lines above a kernel say where it comes from.

mod access;
mod atomics;
mod control;
mod expr;
mod helpers;
mod literal;
mod matrix;
mod names;
mod operators;
mod place;
mod stmt;
mod wgmma;
pub(crate) mod wrap;
mod writer;

use girih_ir::loc::SourceLoc;
use girih_ir::simt::{Kernel, OPT_LEVEL, ParamKind, Provenance, constant_offsets};
use helpers::Helper;
pub(crate) use literal::c_type;
#[cfg(feature = "export")]
pub(crate) use literal::typed;
#[cfg(feature = "export")]
pub(crate) use names::{function as function_identifier, identifier, is_forbidden, is_reserved};
use std::collections::BTreeSet;
use writer::Writer;

/// Static shared memory of a block; more is dynamic, and the launch must ask for it.
pub const MAX_STATIC_SHARED: u32 = 48 * 1024;

/// The array of a module that holds what its kernels have in constant memory.
pub const CONSTANT_MEMORY: &str = "constant_memory";

/// The launch must ask for the kernel's shared memory: it is declared `extern`.
pub fn has_dynamic_shared(kernel: &Kernel) -> bool {
    kernel.shared_bytes() > MAX_STATIC_SHARED
}

/// The name of the kernel's function in the CUDA C.
pub fn function_name(kernel: &Kernel) -> String {
    names::function(&kernel.name)
}

/// The CUDA C of one kernel: helpers it uses, header comment, function; and those of the launches behind it.
pub fn emit(kernel: &Kernel) -> String {
    emit_kernels(std::slice::from_ref(kernel))
}

/// The CUDA C of several kernels and the launches behind them in one file, sharing helpers. All names must be unique.
pub fn emit_kernels(kernels: &[Kernel]) -> String {
    let mut helpers = BTreeSet::new();
    // One variable to nvcc, which wants it declared alike.
    let dynamic = kernels.iter().flat_map(Kernel::launches).filter(|k| has_dynamic_shared(k));
    let align = dynamic.map(shared_align).max().unwrap_or(0);
    let texts: Vec<String> = kernels.iter().flat_map(Kernel::launches).map(|k| function(k, align, &mut helpers)).collect();
    let mut out = String::new();
    for helper in &helpers {
        out.push_str(&helper.text());
        out.push('\n');
    }
    // One array for all kernels of the file, which fill it each for itself: constant memory is small.
    let constant = kernels.iter().flat_map(Kernel::launches).map(|k| constant_offsets(&k.params).1).max().unwrap_or(0);
    if constant > 0 {
        out.push_str(&format!("__constant__ __align__(16) unsigned char {CONSTANT_MEMORY}[{constant}];\n\n"));
    }
    out.push_str(&texts.join("\n"));
    out
}

/// Bytes of which the address of a kernel's shared memory is a multiple.
fn shared_align(kernel: &Kernel) -> u32 {
    kernel.shared.iter().map(|a| a.align).max().unwrap_or(16).max(16)
}

/// One function. `dynamic`: the alignment at which the file's kernels declare memory that launches ask for.
fn function(kernel: &Kernel, dynamic: u32, helpers: &mut BTreeSet<Helper>) -> String {
    let mut writer = Writer::new(kernel, helpers);
    let params: Vec<String> = (0..kernel.params.len()).filter_map(|p| parameter(&mut writer, p)).collect();
    constant_arrays(&mut writer);
    shared_arrays(&mut writer, dynamic);
    writer.body(&kernel.body);
    let body = writer.finish();

    let mut out = header(&kernel.provenance);
    if let Some(flag) = ptxas_flag(kernel.launch.opt_level) {
        out.push_str(&format!("// build:    {flag}\n"));
    }
    out.push_str("extern \"C\" __global__ void ");
    if kernel.launch.cluster > 1 {
        out.push_str(&format!("__cluster_dims__({}, 1, 1) ", kernel.launch.cluster));
    }
    // With one argument only, ptxas falls to 32 registers where a kernel does not fit 255.
    out.push_str(&format!("__launch_bounds__({}, {})\n", kernel.launch.block, kernel.launch.min_blocks.max(1)));
    let name = function_name(kernel);
    let one_line = format!("{name}({})", params.join(", "));
    if one_line.len() <= 132 {
        out.push_str(&one_line);
    } else {
        out.push_str(&format!("{name}(\n    {})", params.join(",\n    ")));
    }
    out.push_str("\n{\n");
    if kernel.launch.dependent {
        out.push_str("    // The launch in front may still run: what it leaves in memory is there from here on.\n");
        out.push_str("    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n");
    }
    out.push_str(&body);
    out.push_str("}\n");
    out
}

/// What nvcc and NVRTC are given for an optimisation level; nothing for ptxas's own.
pub fn ptxas_flag(opt_level: u32) -> Option<String> {
    (opt_level != OPT_LEVEL).then(|| format!("--ptxas-options=-O{opt_level}"))
}

/// The lines above a kernel.
fn header(provenance: &Provenance) -> String {
    let Provenance { signature, loc, schedule, facts, launch } = provenance;
    let place = if *loc == SourceLoc::NONE { String::new() } else { format!("    {}", loc.short()) };
    let mut out = format!("// {signature}{place}\n");
    for (name, text) in [("schedule:", schedule), ("facts:   ", facts), ("launch:  ", launch)] {
        if !text.is_empty() {
            out.push_str(&format!("// {name} {}\n", text.replace('\n', " ")));
        }
    }
    out
}

/// A parameter of the function; nothing for an array in constant memory, which is none.
fn parameter(writer: &mut Writer, index: usize) -> Option<String> {
    let name = writer.params[index].clone();
    Some(match &writer.kernel.params[index].kind {
        ParamKind::Constant { .. } => return None,
        ParamKind::Pointer { dtype, writable, restrict, .. } => {
            let qualifier = if *writable { "" } else { "const " };
            let restrict = if *restrict { " __restrict__" } else { "" };
            format!("{qualifier}{}*{restrict} {name}", c_type(*dtype))
        }
        ParamKind::Workspace { dtype, .. } => format!("{}* {name}", c_type(*dtype)),
        ParamKind::Scalar { dtype, .. } | ParamKind::Host { dtype, .. } => format!("{} {name}", c_type(*dtype)),
        ParamKind::TensorMap { .. } => {
            writer.uses(Helper::TensorMap);
            format!("const __grid_constant__ TensorMap {name}")
        }
    })
}

fn constant_arrays(writer: &mut Writer) {
    let arrays = constant_offsets(&writer.kernel.params).0;
    for (p, offset) in &arrays {
        let ParamKind::Constant { dtype, len, .. } = writer.kernel.params[*p].kind else { continue };
        let (ty, name) = (c_type(dtype), writer.params[*p].clone());
        let at = if *offset == 0 { CONSTANT_MEMORY.to_string() } else { format!("{CONSTANT_MEMORY} + {offset}") };
        writer.line(format!("const {ty}* const {name} = reinterpret_cast<const {ty}*>({at});    // at most {len} elements"));
    }
    if !arrays.is_empty() {
        writer.gap();
    }
}

fn shared_arrays(writer: &mut Writer, dynamic: u32) {
    let kernel = writer.kernel;
    if has_dynamic_shared(kernel) || kernel.shared.iter().any(|a| a.at.is_some()) {
        writer.line(if has_dynamic_shared(kernel) {
            format!("extern __shared__ __align__({dynamic}) unsigned char shared_memory[];")
        } else {
            let align = shared_align(kernel);
            format!("__shared__ __align__({align}) unsigned char shared_memory[{}];", kernel.shared_bytes())
        });
        let offsets = kernel.shared_offsets().0;
        for (i, (array, offset)) in kernel.shared.iter().zip(offsets).enumerate() {
            let (ty, name) = (c_type(array.dtype), writer.shared[i].clone());
            let at = if offset == 0 { "shared_memory".to_string() } else { format!("shared_memory + {offset}") };
            writer.line(format!("{ty}* const {name} = reinterpret_cast<{ty}*>({at});    // {} elements", array.len));
        }
    } else {
        for (i, array) in kernel.shared.iter().enumerate() {
            let align = if array.align as usize > array.dtype.size() { format!("__align__({}) ", array.align) } else { String::new() };
            let name = writer.shared[i].clone();
            writer.line(format!("__shared__ {align}{} {name}[{}];", c_type(array.dtype), array.len));
        }
    }
    if !kernel.shared.is_empty() {
        writer.gap();
    }
}

#[cfg(test)]
mod tests;
